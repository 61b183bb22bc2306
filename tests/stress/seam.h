/* SPDX-License-Identifier: MIT */
/*
 * The seam between this process and the system. The program's symbols come before those
 * of shared objects, so the library, the doubles and real drivers call these, too:
 *
 *   - pthread_mutex_lock(), ioctl(), poll(), ppoll(), close(), read() and write() take a
 *     while now and then, by a generator that seam_seed() sets
 *   - without /dev/udmabuf, memfds replace dma-bufs (memfds.h)
 */
#ifndef STRESS_SEAM_H
#define STRESS_SEAM_H

#include <stdint.h>

/* Begins; before other threads. */
void seam_begin(void);
/* One call of `rarely` is delayed; 0: none is. */
void seam_seed(uint64_t seed, uint32_t rarely);
/* A place for a delay: doubles call it as each call begins. */
void seam_delay(const char *call);
/* This thread sleeps, which is no cancellation point. */
void seam_sleep(uint64_t ns);
/* A new fence, not signalled, or -1; seam_signal() takes *node. */
int seam_fence(int *node, uint32_t *id);
void seam_signal(int node, uint32_t id);

#endif /* STRESS_SEAM_H */
