/* SPDX-License-Identifier: MIT */
/*
 * Shared by the programs of the suite for a GPU: the driver, a stream that is
 * held, and the records of the results, from which the report is made.
 */
#ifndef DLBUF_GPU_H
#define DLBUF_GPU_H

#include <dlbuf/cuda.h>
#include <dlbuf/dlbuf.h>

#include "driver.h"
#include "ktap.h"

extern struct driver cu;
extern cuda_device gpu;
extern cuda_context gpu_context;

/* Loads the driver; its device 0's context is current. Skips the case without. */
void gpu_begin(void);
void gpu_end(void);

/* Skips the case where the driver has no such function. */
#define GPU_NEEDS(name)							\
	do {								\
		if (!cu.name)						\
			SKIP("the driver has no cu" #name "()");	\
	} while (0)

/* 0, or the case ends with the driver's words. */
#define GPU_OK(name, ...) gpu_ok(__FILE__, __LINE__, cu.name(__VA_ARGS__), \
				 "cu" #name)
void gpu_ok(const char *file, int line, cuda_result result, const char *call);

/*
 * A finding: a line of the output, and of DLBUF_GPU_RECORDS where that is set,
 * as JSON. what: "register/memfd".
 */
void gpu_record(const char *what, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A call that may be refused: its result is recorded. */
bool gpu_answer(const char *what, const char *call, cuda_result result);

uint64_t gpu_now(void);		/* CLOCK_MONOTONIC, nanoseconds */

/* Opens "cuda:0", or the case is skipped. */
struct dlbuf_device *gpu_open(uint32_t flags);

/* A udmabuf with its memfd; skips the case if there is none. */
struct dlbuf_udmabuf gpu_udmabuf(uint64_t bytes);

/* A byte tensor over all of a dma-buf, by these paths only; NULL: none. */
DLManagedTensorVersioned *gpu_import(struct dlbuf_device *dev, int fd,
				     uint64_t bytes, uint32_t paths);

/*
 * A stream that is held until it is released: it waits for a word of pinned
 * memory, or, if the driver has no such wait, in a function that it calls.
 * While it is held nothing may be allocated or freed with the driver, which may
 * wait for all streams then.
 */
struct gpu_hold {
	cuda_stream stream;
	uint32_t *word;
	cuda_pointer pointer;
	int pipe[2];
	bool by_word;
};
void gpu_hold_create(struct gpu_hold *h);
void gpu_hold(struct gpu_hold *h);
void gpu_let_go(struct gpu_hold *h);
void gpu_hold_destroy(struct gpu_hold *h);

/* Whether the stream's work is done, without waiting. */
bool gpu_idle(cuda_stream stream);

#endif /* DLBUF_GPU_H */
