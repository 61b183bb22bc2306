// SPDX-License-Identifier: MIT
/* See seam.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memfds.h"
#include "seam.h"
#include "vgem.h"

/* ---------------------------------------------------------------- delays */

static uint64_t base;		/* atomic */
static uint32_t one_in;		/* atomic */
static unsigned int threads;	/* atomic */
static __thread uint64_t random_state, random_of;

void seam_sleep(uint64_t ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	syscall(SYS_nanosleep, &t, NULL);
}

void seam_seed(uint64_t seed, uint32_t rarely)
{
	__atomic_store_n(&threads, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&base, seed, __ATOMIC_RELAXED);
	__atomic_store_n(&one_in, rarely, __ATOMIC_RELAXED);
}

void seam_delay(const char *call)
{
	uint32_t rarely = __atomic_load_n(&one_in, __ATOMIC_RELAXED);
	uint64_t seed = __atomic_load_n(&base, __ATOMIC_RELAXED);
	int err = errno;

	(void)call;
	if (!rarely)
		return;
	if (random_of != seed || !random_state) {
		random_state = (seed + __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED)) *
			0x9e3779b97f4a7c15u | 1;
		random_of = seed;
	}
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	if (!(random_state >> 20) || (random_state >> 20) % rarely == 0)
		seam_sleep((random_state >> 40) % 16 ? (random_state >> 44) % 100000 :
			   (random_state >> 44) % 3000000);
	else if ((random_state >> 20) % rarely < 8)
		sched_yield();
	errno = err;
}

/* ---------------------------------------------------------------- fences */

void seam_begin(void)
{
	if (access("/dev/udmabuf", F_OK))
		memfds_begin();
}

int seam_fence(int *node, uint32_t *id)
{
	int fd = -1;

	*id = 0;
	*node = memfds_stand_in ? eventfd(0, EFD_CLOEXEC) : vgem_open();
	if (*node >= 0 && memfds_stand_in)
		fd = fcntl(*node, F_DUPFD_CLOEXEC, 3);
	else if (*node >= 0 && vgem_fence_create(*node, id, &fd))
		fd = -1;
	if (fd < 0 && *node >= 0)
		REAL(close)(*node);
	return fd;
}

void seam_signal(int node, uint32_t id)
{
	uint64_t one = 1;

	if (!memfds_stand_in)
		vgem_fence_signal(node, id);
	else if (REAL(write)(node, &one, sizeof(one)) < 0)
		abort();
	REAL(close)(node);
}

/* ---------------------------------------------------------------- delayed calls */

#define DELAYED(type, name, parameters, ...)				\
	SEAM type name parameters					\
	{								\
		seam_delay(#name);					\
		return REAL(name)(__VA_ARGS__);				\
	}

DELAYED(int, pthread_mutex_lock, (pthread_mutex_t *m), m)
DELAYED(int, poll, (struct pollfd *fds, nfds_t n, int timeout), fds, n, timeout)
DELAYED(int, close, (int fd), fd)
DELAYED(ssize_t, read, (int fd, void *to, size_t n), fd, to, n)
DELAYED(ssize_t, write, (int fd, const void *from, size_t n), fd, from, n)
