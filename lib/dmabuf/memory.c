// SPDX-License-Identifier: MIT
/* Remembers the memfds of udmabufs: see memory.h. */
#include <pthread.h>

#include "../system/fork.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "buffer.h"
#include "memory.h"

struct memory {
	dev_t dev, memfd_dev;
	ino_t ino, memfd_ino;
	int memfd;		/* not owned by the library */
};

#define FIRST 64

static struct memory first[FIRST];
static struct {
	pthread_mutex_t lock;
	struct memory *list;
	size_t n, room;
} known = { PTHREAD_MUTEX_INITIALIZER, first, 0, FIRST };

static bool same_file(int fd, const struct memory *m)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_dev == m->memfd_dev &&
	       st.st_ino == m->memfd_ino;
}

static void forked(enum fork_side side)
{
	(side == FORK_BEFORE ? memory_lock : memory_unlock)();
}

static struct fork_handler fork_handler = { .fn = forked };

void memory_lock(void)
{
	fork_handle(&fork_handler);
	pthread_mutex_lock(&known.lock);
}

void memory_unlock(void)
{
	pthread_mutex_unlock(&known.lock);
}

/* Under the lock: moves the list to that size. If no memory is left, the list keeps its size. */
static void move_list(size_t room)
{
	struct memory *list = room > FIRST ? sys_calloc(room, sizeof(*list)) :
					     first;

	if (!list)
		return;
	for (size_t i = 0; i < known.n; i++)
		list[i] = known.list[i];
	if (known.list != first)
		free(known.list);
	known.list = list;
	known.room = room;
}

/* Under the lock: removes the entries whose memfd was closed. */
static void forget_closed(void)
{
	size_t n = 0;

	for (size_t i = 0; i < known.n; i++)
		if (same_file(known.list[i].memfd, &known.list[i]))
			known.list[n++] = known.list[i];
	known.n = n;
}

/* Under the lock. Before the list doubles, removes closed memfds. */
static bool make_room(void)
{
	if (known.n < known.room)
		return true;
	forget_closed();
	if (known.n >= known.room / 2)
		move_list(known.room * 2);
	return known.n < known.room;
}

void memory_remember(int fd, int memfd)
{
	struct stat buffer, memory;

	if (sys_fstat(fd, &buffer) || sys_fstat(memfd, &memory))
		return;
	memory_lock();
	if (make_room())
		known.list[known.n++] = (struct memory){
			.dev = buffer.st_dev,
			.ino = buffer.st_ino,
			.memfd_dev = memory.st_dev,
			.memfd_ino = memory.st_ino,
			.memfd = memfd,
		};
	memory_unlock();
}

void memory_forget(int memfd)
{
	memory_lock();
	for (size_t i = 0; i < known.n; i++)
		if (known.list[i].memfd == memfd)
			known.list[i--] = known.list[--known.n];
	if (known.list != first && known.n <= FIRST / 2)
		move_list(FIRST);
	memory_unlock();
}

/* Duplicates before it compares, because the number may be reused at any time. */
static int dup_if_same(const struct memory *m)
{
	int fd = sys_dup(m->memfd);

	if (fd < 0 || same_file(fd, m))
		return fd;
	close(fd);
	return -1;
}

int memory_of(const struct buffer_id *id)
{
	int fd = -1;

	memory_lock();
	for (size_t i = known.n; fd < 0 && i--;)
		if (known.list[i].ino == id->ino && known.list[i].dev == id->dev)
			fd = dup_if_same(&known.list[i]);
	memory_unlock();
	return fd;
}

__attribute__((destructor))
static void free_list(void)
{
	/* Destructors that run after this one may still call the library. */
	memory_lock();
	known.n = 0;
	move_list(FIRST);
	memory_unlock();
}
