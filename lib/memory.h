/* SPDX-License-Identifier: MIT */
/*
 * The memory behind udmabufs of this process: their own mapping cannot be pinned
 * by a GPU's driver, the memfd's can.
 *
 * A weak reference: what is remembered is the number of the memfd and who it was.
 * When that number is closed, or means another file, there is nothing known any
 * more, and no memory is held for the sake of this.
 */
#ifndef DLBUF_LIB_MEMORY_H
#define DLBUF_LIB_MEMORY_H

struct buffer_id;

/* From its begin the dma-buf is the memfd. Forgetting it costs a path only. */
void memory_remember(int fd, int memfd);

/* That number is about to be closed. */
void memory_forget(int memfd);

/* Around fork(), so that the child has the list: its memfds are open there, too. */
void memory_lock(void);
void memory_unlock(void);

/* A new duplicate of that memfd; -1: none is known. */
int memory_of(const struct buffer_id *id);

#endif /* DLBUF_LIB_MEMORY_H */
