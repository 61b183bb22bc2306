/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of dmabuf-test matrix. command.c is the command; it loads no driver and
 * starts this program anew for each cell, an exporter and an importer (cell.c), and
 * for the lists of both. Such a child sends JSON objects to the command, which merges them.
 */
#ifndef DMABUF_TEST_MATRIX_H
#define DMABUF_TEST_MATRIX_H

#include <dlbuf/dlbuf.h>

#include "access/access.h"
#include "json.h"
#include "tool.h"

/* ---- children and their messages */

/* Sends o (taken) as member `name` of an object. */
void child_send(int fd, const char *name, cJSON *o);

/* Exporters and importers are described alike. */
struct party {
	const char *name, *kind, *node, *driver, *description, *reason;
	bool software, is_double;
	int status;
};
void child_send_party(int fd, const char *list, const struct party *p);

/*
 * `matrix --list FD WHAT DEVICES EXPORTERS`: "exporters", "nodes" that import, or the name
 * of a backend, for those of its devices that the two options of these names need.
 */
int matrix_list_main(int fd, char **argv);
/* `matrix --cell FD EXPORTER IMPORTER QUICK SOAK` */
int matrix_cell_main(int fd, char **argv);

/* ---- an exporter's buffer (buffer.c) */

struct buffer {
	int fd;			/* the dma-buf */
	uint64_t bytes;
	uint8_t *map;		/* the exporter's own mapping, NULL: none */
	/* The device whose memory it is; else NULL. */
	struct dlbuf_device *dev;
	const struct access *access;
	DLManagedTensorVersioned *t;
	/* The exporter has to keep these. */
	struct dlbuf_udmabuf udmabuf;
	int node;		/* -1: none */
	uint32_t handle, type;
	size_t mapped;
};

#define NO_BUFFER { .fd = -1, .node = -1, .udmabuf = { -1, -1, 0 } }

/*
 * Makes a buffer of at least `bytes` bytes, if the exporter allows a choice. Returns 0 or a
 * status.
 */
int buffer_open(struct buffer *b, const char *exporter, uint64_t bytes);
void buffer_close(struct buffer *b);
/* Accesses by the exporter's side, in a bracket. */
int buffer_read(struct buffer *b, uint64_t offset, void *dst, size_t bytes);
int buffer_write(struct buffer *b, uint64_t offset, const void *src, size_t bytes);
/* Acquires, reads into dst or writes from src on the tensor's device, releases. */
int tensor_io(const struct access *access, DLManagedTensorVersioned *t, uint64_t offset,
	      void *dst, const void *src, size_t bytes);

/* ---- one cell */

/* The size of a buffer whose size can be chosen. */
#define MATRIX_BYTES (1u << 20)

enum result { OK, SKIPPED, REFUSED, FAILED, LEAKED, WRONG };

struct cell {
	const char *exporter, *importer;
	bool quick;
	unsigned long soak_s;
	int fd;			/* to the command */
	char said[512];		/* by fail() */

	struct buffer buffer;
	uint8_t *want, *got;	/* of buffer.bytes each */
	uint8_t *hand;		/* a mapping without dlbuf */
	struct dlbuf_device *dev;
	const struct access *access;
	uint32_t flags;		/* of imports */
	uint32_t seed;

	/* The check under way. */
	const char *check;
	enum result result;
	char reason[512];
	bool over;		/* the later checks make no sense */
};

/* Runs one check and sends its result. */
void cell_check(struct cell *c, const char *name, void (*fn)(struct cell *c));
void cell_send(struct cell *c, const char *name, cJSON *o);
/* A result of the running check; the worst one is kept. */
__attribute__((format(printf, 3, 4)))
void cell_set(struct cell *c, enum result result, const char *fmt, ...);
/* The result FAILED, with the last error text of fail(). */
void cell_fail(struct cell *c);
/* A new pattern in c->want, in [from, end). */
void cell_pattern(struct cell *c, uint64_t from, uint64_t end);
/* Compares c->got with c->want in [from, end). If they differ, the result is WRONG. */
bool cell_compare(struct cell *c, uint64_t from, uint64_t end);
/* Costs of an import of `bytes` bytes; 0: not measured. */
struct timing {
	uint64_t bytes, first_import, cached_import, acquire_release; /* ns */
	uint64_t read, write;	/* ns */
};
/* Sends them as an entry of the cell's list, "costs" or "by_hand". */
void cell_costs(struct cell *c, const char *list, const struct timing *timing);
/* Sets c->buffer, c->want, c->got. */
int cell_open(struct cell *c, uint64_t bytes);

/* ---- V4L2 nodes (v4l2.c), DRM nodes (drm.c, a tool with libdrm) */

void v4l2_list(int fd, bool exporters);
int v4l2_buffer_open(struct buffer *b, const char *node, bool output);
void v4l2_buffer_close(struct buffer *b);
void v4l2_cell(struct cell *c, const char *node, bool output);

void drm_list(int fd, bool exporters);
int drm_buffer_open(struct buffer *b, const char *node, uint64_t bytes);
void drm_buffer_close(struct buffer *b);
void drm_cell(struct cell *c, const char *node);

/* ---- output (table.c) */

/* A member of an object; 0 or "" if it has none. */
const cJSON *member(const cJSON *o, const char *name);
double get_number(const cJSON *o, const char *name);
const char *member_text(const cJSON *o, const char *name);
bool member_true(const cJSON *o, const char *name);

/* The exporter or importer of a list; NULL: none. */
const cJSON *party_named(const cJSON *list, const char *name);

void matrix_table(const cJSON *matrix, bool verbose);
void matrix_ktap(const cJSON *matrix);

/* The machine that this is (machine.c). */
cJSON *machine_json(void);

#endif /* DMABUF_TEST_MATRIX_H */
