/* SPDX-License-Identifier: MIT */
/* The double of CUDA's driver, opened by hand: shared by its own tests. */
#ifndef UNIT_CUDA_DOUBLE_H
#define UNIT_CUDA_DOUBLE_H

#include <pthread.h>

#include "common.h"
#include "cuda_load.h"
#include "rules.h"

/* The call returns this: a broken rule; or a failure without one. */
#define WRONG(code, call) BREAKS(1, CUABI_##code, call)
#define FAILS(code, call) BREAKS(0, CUABI_##code, call)

#define NONBLOCKING CUABI_STREAM_NON_BLOCKING
#define PER_THREAD CUABI_STREAM_PER_THREAD
#define RELAXED CUABI_STREAM_CAPTURE_MODE_RELAXED
#define NOWHERE ((void *)4096)
#define BYTES 8192

/* The state for most cases: the primary context of device 0 is current. */
static cuda_context primary;
static cuda_stream s;		/* not a blocking one */
static cuda_event e;
static cuda_pointer d, word;	/* 64 bytes of the device, and of the host */
static _Atomic(uint32_t) *flag;	/* the word, as the CPU sees it */
static char told[64];

static inline void begin(const char *words)
{
	void *p;

	load("libcuda.so", words);
	OK(cu.Init(0));
	OK(cu.DevicePrimaryCtxRetain(&primary, 0));
	OK(cu.CtxPushCurrent(primary));
	OK(cu.StreamCreate(&s, NONBLOCKING));
	OK(cu.EventCreate(&e, CUABI_EVENT_DISABLE_TIMING));
	OK(cu.MemAlloc(&d, 64));
	OK(cu.MemHostAlloc(&p, 64, CUABI_MEMHOSTALLOC_DEVICEMAP));
	OK(cu.MemHostGetDevicePointer(&word, p, 0));
	flag = p;
	told[0] = '\0';
}

static inline void end_cold(void)
{
	CHECK_EQ(fake->wrong, 0);
	nothing_left();
	CHECK_EQ(fake->pending, 0);
	fake_fn(true);
	dlclose(fake_lib);
}

static inline void end(void)
{
	OK(cu.StreamDestroy(s));
	OK(cu.EventDestroy(e));
	OK(cu.MemFree(d));
	OK(cu.MemFreeHost((void *)flag));
	OK(cu.CtxPopCurrent(NULL));
	OK(cu.DevicePrimaryCtxRelease(0));
	end_cold();
}

static inline void tell(void *data)
{
	char text[] = { (char)(uintptr_t)data, '\0' };

	strcat(told, text);
}

static inline void add(cuda_stream stream, char letter)
{
	OK(cu.LaunchHostFunc(stream, tell, (void *)(uintptr_t)letter));
}

/* The stream waits until the flag is value or more. */
static inline void wait_for(cuda_stream stream, uint32_t value)
{
	OK(cu.StreamWaitValue32(stream, word, value, 0));
}

static inline void in_thread(void *(*fn)(void *data), void *data)
{
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, fn, data));
	pthread_join(thread, NULL);
}

static sigjmp_buf touched;

static inline void on_touch(int sig)
{
	siglongjmp(touched, 1);
}

static inline bool cpu_can_read(cuda_pointer p)
{
	struct sigaction act = { .sa_handler = on_touch }, old;
	volatile bool can = false;

	sigaction(SIGSEGV, &act, &old);
	if (!sigsetjmp(touched, 1)) {
		(void)*(volatile char *)(uintptr_t)p;
		can = true;
	}
	sigaction(SIGSEGV, &old, NULL);
	return can;
}

/* No other mapping has taken the address meanwhile. */
static inline bool is_mapped(cuda_pointer p)
{
	unsigned char seen;

	return !mincore((void *)(uintptr_t)(p & ~(cuda_pointer)4095), 1, &seen);
}

static inline void *map(int access, int fd)
{
	void *p = mmap(NULL, BYTES, access, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS :
						     MAP_SHARED, fd, 0);

	REQUIRE(p != MAP_FAILED);
	return p;
}

/* Unmaps memory, and keeps others from its address. */
static inline void replace(void *p)
{
	CHECK(mmap(p, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
}

static inline int memfd_of(size_t bytes)
{
	int fd = memfd_create("external", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	return fd;
}

#endif /* UNIT_CUDA_DOUBLE_H */
