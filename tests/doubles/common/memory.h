/* SPDX-License-Identifier: MIT */
/* Memory of doubles of drivers: addresses, pages, and fds of it. */
#ifndef FAKE_MEMORY_H
#define FAKE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---------------------------------------------------------------- addresses */

size_t align_up(size_t bytes, size_t align);
size_t page_up(size_t bytes);
/* Addresses without access, or NULL. */
void *reserve(size_t bytes, size_t align);
/* All of it is mapped. */
bool is_mapped(const void *p, size_t bytes);
/* Whether the kernel pins the page of an address: 1, 0, or -1 for not known. */
int is_pinned(uintptr_t p);

/* ---------------------------------------------------------------- fds */

/* A new memfd that can be a udmabuf, of 3 or above; or -1. */
int memory_fd(const char *name, size_t bytes);
/* A shared mapping of it from its beginning, or NULL. */
void *map_fd(int fd, size_t bytes, int access);
/* A new dma-buf of a memfd's pages; -1, or NO_UDMABUF on a machine without. */
#define NO_UDMABUF (-2)
int udmabuf_of(int memfd, size_t at, size_t bytes);
/* Another page is in its place, as with a driver that takes the wrong ones. */
void spoil_page(void *page);

bool is_memfd(int fd);
bool is_dma_buf(int fd);
/* A dma-buf, or a memfd if memfds replace dma-bufs. */
bool is_fit(int fd, bool memfds);
ino_t inode_of(int fd);
/* Counts an fd as wrong that a driver must not keep: not CLOEXEC, or one of 0 to 2. */
void look_at_fd(int fd);
/* Closes an fd that the double was given. It is wrong if that is another file by now. */
void close_given(int fd, ino_t inode);

#endif /* FAKE_MEMORY_H */
