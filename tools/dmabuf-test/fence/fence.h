/* SPDX-License-Identifier: MIT */
/*
 * The truth table of a dma-buf's fences, one exporter and one device at a
 * time. command.c runs the cases in other processes, so that a driver that
 * crashes or hangs costs one case.
 */
#ifndef DMABUF_TEST_FENCE_H
#define DMABUF_TEST_FENCE_H

#include <stdbool.h>

#include <dlbuf/dlbuf.h>

#include "vgem.h"

/*
 * A fence that signals when this program asks for it: vgem's, or one of the lab's module, which
 * can fail.
 */
struct fence {
	uint32_t handle;	/* vgem's buffer that it was made on, or 0 */
	uint32_t id;
	bool own;		/* handle is a scratch buffer */
	bool signalled;
	int sync_file;		/* -1: the kernel gives none */
};

/* The state of a running case. */
struct fence_run {
	const char *exporter;
	int lent;		/* the buffer to use, or -1: make one */
	struct dlbuf_device *dev;
	struct dlbuf_device_info info;

	struct vgem vgem;
	int lab;		/* the node of tests/guest/module, or -1 */
	bool sync_files;	/* the kernel exports and imports them */
	int buffer;
	uint32_t access;	/* by how it was opened */
	uint32_t handle;	/* of a buffer of vgem's, else 0 */
	DLManagedTensorVersioned *t;
	struct fence fences[4];
	unsigned int nfences;

	unsigned int failures;
	bool skipped;
	char reason[256];
	/* A line about the case for the reader of the report. */
	void (*note)(void *data, const char *line);
	void *data;
};

struct fence_case {
	const char *name;
	void (*fn)(struct fence_run *r, const struct fence_case *c);
	uint32_t access;	/* what is acquired */
	uint32_t fences;	/* on the buffer: DLBUF_READ, DLBUF_WRITE */
	uint32_t signalled;	/* of those */
	uint32_t failed;	/* of these, with an error */
	bool pending;		/* the access has to wait */
	bool slow;		/* 10 s */
};

extern const struct fence_case fence_cases[];
extern const unsigned int fence_ncases;

/* Runs one; the result is in failures, skipped and reason. */
void fence_case_run(struct fence_run *r, const struct fence_case *c);

/* Writes lines about what can be tested here to r->note(). */
void fence_capabilities(struct fence_run *r);

#endif /* DMABUF_TEST_FENCE_H */
