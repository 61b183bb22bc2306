/* SPDX-License-Identifier: MIT */
/* Between xe.c, which has address spaces, and xe_engine.c, which runs the batches in them. */
#ifndef DRIVERS_XE_H
#define DRIVERS_XE_H

#include <stdint.h>

struct file;
struct vm;

/* The memory behind a GPU address. NULL: fewer bytes are bound there. */
void *xe_at(struct vm *vm, uint64_t at, uint64_t bytes);

void xe_queue_new(struct file *f, uint32_t id, struct vm *vm);
/* Runs a batch after those before it; then value is written to fence, if that is not 0. */
int xe_queue_run(uint32_t id, uint64_t batch, uint64_t fence, uint64_t value);
void xe_queue_end(uint32_t id);

/* Between two looks at memory that another processor writes. */
void xe_pause(void);

#endif /* DRIVERS_XE_H */
