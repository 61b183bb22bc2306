/* SPDX-License-Identifier: MIT */
/*
 * The memfds of this process's udmabufs. GPU drivers cannot pin the mapping of a
 * udmabuf, but they can pin the mapping of its memfd.
 *
 * This is a weak reference: the library remembers the memfd's number and identity, and
 * holds no fd and no memory. If the number is closed or names another file, the entry
 * is not used any more.
 */
#ifndef DLBUF_LIB_MEMORY_H
#define DLBUF_LIB_MEMORY_H

struct buffer_id;

/*
 * Notes that the dma-buf has the memfd's pages, from its start. After a failure imports have
 * only those paths that need no memfd.
 */
void memory_remember(int fd, int memfd);

/* Call before that number is closed. */
void memory_forget(int memfd);

/*
 * Held around fork(), so that the child has the whole list. The memfds are open in the child
 * too. Other code may protect a list of its own with this lock. No driver is called under it.
 */
void memory_lock(void);
void memory_unlock(void);

/* Returns a new fd of that buffer's memfd; -1: none is known. */
int memory_of(const struct buffer_id *id);

#endif /* DLBUF_LIB_MEMORY_H */
