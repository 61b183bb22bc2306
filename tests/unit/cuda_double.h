/* SPDX-License-Identifier: MIT */
/* What the tests of CUDA's double itself share. */
#ifndef UNIT_CUDA_DOUBLE_H
#define UNIT_CUDA_DOUBLE_H

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <linux/udmabuf.h>

#include "backends/cuda/api.h"
#include "fakes/cuda.h"

static struct fake_cuda *fake;
static fake_cuda_fn fake_fn;
static void *fake_lib;
static struct cuda_api cu;
static struct {
#define X(name, symbol, params) cuda_result (*name) params;
	FAKE_CUDA_FUNCTIONS(X)
#undef X
} cux;

static inline void *open_double(const char *name)
{
	char path[PATH_MAX], *slash;
	void *library;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 40);

	REQUIRE(n > 0);
	path[n] = '\0';
	slash = strrchr(path, '/');
	snprintf(slash, 40, "/../fakes/%s", name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		ktap_note(NULL, 0, "%s", dlerror());
	REQUIRE(library);
	return library;
}

static inline void load(void)
{
	fake_lib = open_double("libcuda.so");
	fake_fn = (fake_cuda_fn)dlsym(fake_lib, "fake_cuda");
	REQUIRE(fake_fn);
#define X(name, symbol, needed, params)				\
	cu.name = (cuda_result (*)params)dlsym(fake_lib, #symbol);	\
	REQUIRE(cu.name);
	CUDA_FUNCTIONS(X)
#undef X
#define X(name, symbol, params)					\
	cux.name = (cuda_result (*)params)dlsym(fake_lib, #symbol);	\
	REQUIRE(cux.name);
	FAKE_CUDA_FUNCTIONS(X)
#undef X
}

/* Loaded, with these presets, and not initialised. */
static inline void begin_cold(const char *words)
{
	if (words)
		setenv("FAKE_CUDA", words, 1);
	else
		unsetenv("FAKE_CUDA");
	load();
	fake = fake_fn(true);
}

static cuda_context primary;

/* The primary context of device 0 is current. */
static inline void begin(const char *words)
{
	begin_cold(words);
	CHECK_EQ(cu.Init(0), 0);
	CHECK_EQ(cu.DevicePrimaryCtxRetain(&primary, 0), 0);
	CHECK_EQ(cu.CtxPushCurrent(primary), 0);
	CHECK_EQ(fake->wrong, 0);
}

static inline void end_cold(void)
{
	CHECK_EQ(fake->wrong, 0);
	for (int kind = 0; kind < FAKE_KINDS; kind++)
		CHECK_MSG(!fake->live[kind], "%u of kind %d",
			  fake->live[kind], kind);
	CHECK_EQ(fake->pending, 0);
	fake_fn(true);
	dlclose(fake_lib);
}

static inline void end(void)
{
	CHECK_EQ(cu.CtxPopCurrent(NULL), 0);
	CHECK_EQ(cu.DevicePrimaryCtxRelease(0), 0);
	end_cold();
}

/* Refused with this code, and counted as against the rules. */
#define CHECK_WRONG(call, code)						\
	do {								\
		unsigned int wrong_ = fake->wrong;			\
									\
		CHECK_EQ(call, code);					\
		CHECK_EQ(fake->wrong, wrong_ + 1);			\
		fake->wrong = wrong_;					\
	} while (0)

/* Refused with this code, as it may happen to anybody. */
#define CHECK_REFUSED(call, code)					\
	do {								\
		unsigned int wrong_ = fake->wrong;			\
									\
		CHECK_EQ(call, code);					\
		CHECK_EQ(fake->wrong, wrong_);				\
	} while (0)

/* So many wrongs have been done, by streams too. */
static inline void forgive(unsigned int n)
{
	CHECK_EQ(fake->wrong, n);
	fake->wrong = 0;
}

/* Host memory that streams wait for, and the calls that count. */
struct gate {
	_Atomic(uint32_t) *flag;
	cuda_pointer address;
};

static inline struct gate gate_make(void)
{
	struct gate g;
	void *p;

	CHECK_EQ(cu.MemHostAlloc(&p, 64, CUABI_MEMHOSTALLOC_DEVICEMAP), 0);
	g.flag = p;
	CHECK_EQ(cu.MemHostGetDevicePointer(&g.address, p, 0), 0);
	return g;
}

static inline void gate_free(struct gate *g)
{
	CHECK_EQ(cu.MemFreeHost((void *)g->flag), 0);
}

static char told[64];

static inline void tell(void *data)
{
	char text[] = { (char)(uintptr_t)data, '\0' };

	strcat(told, text);
}

#define TELL(stream, letter) \
	CHECK_EQ(cu.LaunchHostFunc(stream, tell, (void *)(uintptr_t)letter), 0)

static inline cuda_stream stream_make(unsigned int flags)
{
	cuda_stream s = NULL;

	CHECK_EQ(cu.StreamCreate(&s, flags), 0);
	return s;
}

static sigjmp_buf touched;

static inline void on_touch(int sig)
{
	(void)sig;
	siglongjmp(touched, 1);
}

/* Nobody has taken the address meanwhile. */
static inline bool is_mapped(cuda_pointer p)
{
	unsigned char seen;

	return !mincore((void *)(uintptr_t)(p & ~(cuda_pointer)4095), 1, &seen);
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

#define REGISTER_BYTES 8192

static inline void *map_memory(int access)
{
	void *p = mmap(NULL, REGISTER_BYTES, access,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(p != MAP_FAILED);
	return p;
}

/* Unmaps memory, and keeps others from its address. */
static inline void replace(void *p)
{
	CHECK(mmap(p, REGISTER_BYTES, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
}

static inline int memfd_of(size_t bytes)
{
	int fd = memfd_create("external", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	return fd;
}

#endif /* UNIT_CUDA_DOUBLE_H */
