// SPDX-License-Identifier: MIT
/*
 * amdkfd of Linux 6.8 (interface 1.13) with a Radeon RX 7900 XTX (gfx1100, 1002:744c) whose
 * memory the CPU reaches. For AMD's HIP. Addresses of the GPU are the process's own. A
 * thread for each queue runs its packets: copies, fences and barriers, and those kernels by
 * which the runtime fills, copies and waits, and dlbuf's. Any other kernel ends the run.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <drm.h>
#include <../linux/kfd_ioctl.h>

#include "../doubles/common/prepare.h"
#include "core.h"
#include "host.h"

#define GPU_ID 1100
#define NMEMORIES 4096
#define NEVENTS 4096
#define NQUEUES 64

struct memory {
	uint64_t va, size;
	uint8_t *cpu;
	uint32_t flags;		/* KFD_IOC_ALLOC_MEM_FLAGS_; 0: it is free */
	struct bo bo;		/* of the node's; handle 0: none */
	bool mapped;
};

struct queue {
	struct kfd_ioctl_create_queue_args args;
	pthread_t thread;
	bool used, stop;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t signalled = PTHREAD_COND_INITIALIZER;
static struct memory memories[NMEMORIES];
static struct { bool used, set, keeps; } events[NEVENTS];
static struct queue queues[NQUEUES];
static struct file *node;	/* by ACQUIRE_VM */

/* ---- memory. Under the lock. */

static struct memory *memory_of(uint64_t handle)
{
	return handle && handle <= NMEMORIES && memories[handle - 1].flags ?
	       &memories[handle - 1] : NULL;
}

static uint64_t memory_new(struct memory m)
{
	for (uint64_t i = 0; i < NMEMORIES; i++) {
		if (memories[i].flags)
			continue;
		memories[i] = m;
		return i + 1;
	}
	unknown("number of memories", NMEMORIES);
}

/* The CPU's address for an address of the GPU. */
static void *cpu_to_end(uint64_t va, uint64_t bytes, size_t *left)
{
	void *p = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < NMEMORIES && !p; i++) {
		const struct memory *m = &memories[i];

		if (m->flags && m->mapped && va >= m->va && va - m->va < m->size &&
		    bytes <= m->size - (va - m->va)) {
			p = m->cpu + (va - m->va);
			*left = m->size - (va - m->va);
		}
	}
	pthread_mutex_unlock(&lock);
	if (!p)
		unknown("memory at", va);
	return p;
}

static void *cpu(uint64_t va, uint64_t bytes)
{
	size_t left;

	return cpu_to_end(va, bytes, &left);
}

/* hmm_vma_fault(): pages that do not exist or may not be written are not pinned. */
static int pin(uint64_t from, uint64_t bytes)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, stop;
	uint64_t at = from;
	char line[512], w;

	while (at < from + bytes && maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*c%c", &start, &stop, &w) == 3 && start <= at &&
		    at < stop && w == 'w')
			at = stop;
	if (maps)
		fclose(maps);
	return at < from + bytes ? -EFAULT : 0;
}

/* The memory is that of a dma-buf. */
static void adopt(struct memory *m, int fd)
{
	core_lock();
	m->bo = *bo_of_fd(node, fd);
	core_unlock();
	m->size = m->bo.size;
	m->cpu = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->bo.fd, 0);
}

static int alloc(struct kfd_ioctl_alloc_memory_of_gpu_args *a)
{
	struct memory m = { .va = a->va_addr, .size = (a->size + 4095) & ~4095ull,
			    .flags = a->flags };
	int fd;

	if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
		if (pin(a->mmap_offset, a->size))
			return -EFAULT;
		m.cpu = PTR(a->mmap_offset);
	} else if (!(a->flags & (KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL |
				 KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP))) {
		fd = word_nomem ? -1 : host_dma_buf("amdgpu", m.size);
		if (fd < 0)
			return -ENOMEM;
		adopt(&m, fd);
		close(fd);
		a->mmap_offset = m.bo.offset;
	}
	a->handle = memory_new(m);
	return 0;
}

/* amdgpu_amdkfd_gpuvm_free_memory_of_gpu() */
static int free_memory(uint64_t handle)
{
	struct memory *m = memory_of(handle);

	if (!m)
		return -EINVAL;
	if (m->mapped)
		return -EBUSY;
	if (m->bo.handle) {
		munmap(m->cpu, m->size);
		core_lock();
		bo_close(node, m->bo.handle);
		core_unlock();
	}
	m->flags = 0;
	return 0;
}

/* amdgpu_amdkfd_get_dmabuf_info(): -EINVAL of another driver's */
static int is_foreign(int fd)
{
	char path[32], name[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, sizeof(name) - 1) < 0 || strncmp(name, "/memfd:amdgpu ", 14) ?
	       -EINVAL : 0;
}

static int import(struct kfd_ioctl_import_dmabuf_args *i)
{
	struct memory m = { .va = i->va_addr, .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM };

	if (is_foreign(i->dmabuf_fd) || word_noprime)
		return -EINVAL;
	adopt(&m, i->dmabuf_fd);
	i->handle = memory_new(m);
	return 0;
}

static int export(struct kfd_ioctl_export_dmabuf_args *e)
{
	struct memory *m = memory_of(e->handle);
	int fd;

	if (!m || !m->bo.handle)
		return -EINVAL;
	fd = fcntl(m->bo.fd, F_DUPFD_CLOEXEC, 0);
	e->dmabuf_fd = fd;
	return fd < 0 ? -errno : 0;
}

/* ---- events. Under the lock. */

static int event_new(struct kfd_ioctl_create_event_args *e)
{
	uint32_t i = 1;

	while (i < NEVENTS && events[i].used)
		i++;
	if (i == NEVENTS)
		return -ENOSPC;
	events[i].used = true;
	events[i].set = false;
	events[i].keeps = !e->auto_reset;
	e->event_id = e->event_trigger_data = e->event_slot_index = i;
	/* kfd_event_create(): KFD_MMAP_TYPE_EVENTS */
	if (e->event_type == KFD_IOC_EVENT_SIGNAL || e->event_type == KFD_IOC_EVENT_DEBUG_EVENT)
		e->event_page_offset = 2ull << 62;
	return 0;
}

static int event_set(uint32_t id)
{
	if (id >= NEVENTS || !events[id].used)
		return -EINVAL;
	events[id].set = true;
	pthread_cond_broadcast(&signalled);
	return 0;
}

static int wait_events(struct kfd_ioctl_wait_events_args *w)
{
	struct kfd_event_data *data = PTR(w->events_ptr);
	struct timespec until;
	uint32_t n;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += w->timeout / 1000;
	until.tv_nsec += w->timeout % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000)
		until.tv_sec++, until.tv_nsec -= 1000000000;
	for (;;) {
		n = 0;
		for (uint32_t i = 0; i < w->num_events; i++)
			n += events[data[i].event_id % NEVENTS].set;
		w->wait_result = KFD_IOC_WAIT_RESULT_COMPLETE;
		if (n == w->num_events || (n && !w->wait_for_all))
			break;
		w->wait_result = KFD_IOC_WAIT_RESULT_TIMEOUT;
		if (w->timeout == UINT32_MAX)
			pthread_cond_wait(&signalled, &lock);
		else if (pthread_cond_clockwait(&signalled, &lock, CLOCK_MONOTONIC, &until))
			return 0;
	}
	for (uint32_t i = 0; i < w->num_events; i++)
		if (!events[data[i].event_id % NEVENTS].keeps)
			events[data[i].event_id % NEVENTS].set = false;
	return 0;
}

/* ---- queues: the common part of both kinds */

/* hsa_signal_t: amd_signal_t of amd_hsa_signal.h. */
struct signal {
	int64_t kind, value;
	uint64_t mailbox;
	uint32_t event, reserved;
	uint64_t start, end;
};

static bool compare(unsigned int how, uint64_t a, uint64_t b)
{
	switch (how) {	/* SDMA's; 0 is always */
	case 0: return true;
	case 1: return a < b;
	case 2: return a <= b;
	case 3: return a == b;
	case 4: return a != b;
	case 5: return a >= b;
	case 6: return a > b;
	}
	unknown("comparison", how);
}

/* A little at first: most waits are short, and idle queues are many. */
static void nap(unsigned int *naps)
{
	struct timespec t = { 0, *naps < 64 ? 20000 : 1000000 };

	++*naps;
	nanosleep(&t, NULL);
}

/* Until the 4 or 8 bytes at p compare so; false: the queue ends. */
static bool wait_for(struct queue *q, const void *p, bool wide, uint64_t mask,
		     unsigned int how, uint64_t value)
{
	unsigned int naps = 0;

	while (!__atomic_load_n(&q->stop, __ATOMIC_ACQUIRE)) {
		uint64_t now = wide ? __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE) :
				      __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE);

		if (compare(how, now & mask, value))
			return true;
		nap(&naps);
	}
	return false;
}

static void interrupt(uint32_t event)
{
	pthread_mutex_lock(&lock);
	event_set(event);
	pthread_mutex_unlock(&lock);
}

static uint64_t ticks(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* ---- SDMA: packets of v6, sdma_registers.h and amdgpu's sdma_v6_0.c */

static bool run_sdma(struct queue *q, const uint32_t *p, uint32_t *dwords)
{
	uint64_t at = p[1] | (uint64_t)p[2] << 32, to = p[5] | (uint64_t)p[6] << 32;
	uint64_t from = p[3] | (uint64_t)p[4] << 32;
	uint32_t bytes = (p[1] & 0x3fffffff) + 1;

	switch (p[0] & 0xffff) {
	case 0:		/* NOP */
		*dwords = 1 + (p[0] >> 16 & 0x3fff);
		return true;
	case 1:		/* COPY, linear */
		*dwords = 7;
		memmove(cpu(to, bytes), cpu(from, bytes), bytes);
		return true;
	case 5:		/* FENCE */
		*dwords = 4;
		__atomic_store_n((uint32_t *)cpu(at, 4), p[3], __ATOMIC_RELEASE);
		return true;
	case 6:		/* TRAP */
		*dwords = 2;
		interrupt(p[1] & 0xfffffff);
		return true;
	case 8:		/* POLL_REGMEM; always: a flush of the host's path to memory */
		*dwords = 6;
		return !(p[0] >> 28 & 7) ||
		       wait_for(q, cpu(at, 4), false, p[4], p[0] >> 28 & 7, p[3]);
	case 10:	/* ATOMIC */
		*dwords = 8;
		if (p[0] >> 25 != 47)
			unknown("atomic operation", p[0] >> 25);
		__atomic_fetch_add((uint64_t *)cpu(at, 8), from, __ATOMIC_ACQ_REL);
		return true;
	case 0x111:	/* GCR: caches */
		*dwords = 5;
		return true;
	}
	unknown("SDMA packet", p[0]);
}

static void *sdma(void *arg)
{
	struct queue *q = arg;
	uint64_t *wptr = cpu(q->args.write_pointer_address, 8);
	uint64_t *rptr = cpu(q->args.read_pointer_address, 8), r = 0;
	uint32_t *ring = cpu(q->args.ring_base_address, q->args.ring_size), packet[16], n;
	unsigned int naps = 0;

	while (wait_for(q, wptr, true, UINT64_MAX, 4, r)) {
		uint64_t w = __atomic_load_n(wptr, __ATOMIC_ACQUIRE);

		while (r < w) {
			while (is_hung(node) && !__atomic_load_n(&q->stop, __ATOMIC_ACQUIRE))
				nap(&naps);
			for (int i = 0; i < 16; i++)
				packet[i] = ring[(r / 4 + i) % (q->args.ring_size / 4)];
			if (!run_sdma(q, packet, &n))
				return NULL;
			r += 4 * n;
			__atomic_store_n(rptr, r, __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

/* ---- AQL: hsa.h, hsa_ext_amd.h */

struct aql {
	uint16_t header;
	uint8_t format, setup;
	uint32_t pad;
	uint64_t words[6];
	uint64_t completion;
};

/* The runtime's own kernels. The source of clr's is in libamdhip64. */
static struct { uint64_t object; char name[64]; } kernels[256];
static unsigned int nkernels;

int hsa_executable_symbol_get_info(uint64_t symbol, int what, void *value);
int hsa_executable_symbol_get_info(uint64_t symbol, int what, void *value)
{
	/* Not RTLD_NEXT: libamdhip64 was opened with RTLD_LOCAL. */
	void *hsa = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_NOLOAD);
	__typeof__(&hsa_executable_symbol_get_info) next =
		(__typeof__(next))dlsym(hsa, __func__);
	int ret = next(symbol, what, value);
	char name[256] = "";

	/* HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, NAME */
	if (!ret && what == 22 && !next(symbol, 2, name)) {
		pthread_mutex_lock(&lock);
		if (nkernels == 256)
			unknown("number of kernels", nkernels);
		kernels[nkernels].object = *(uint64_t *)value;
		snprintf(kernels[nkernels++].name, 64, "%.63s",
			 name + (strncmp(name, "__amd_rocclr_", 13) ? 0 : 13));
		pthread_mutex_unlock(&lock);
	}
	dlclose(hsa);
	return ret;
}

static bool is_kernel(uint64_t object, const char *name)
{
	bool is = false;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < nkernels && !is; i++)
		is = kernels[i].object == object && !strncmp(kernels[i].name, name, strlen(name)) &&
		     !strcmp(kernels[i].name + strlen(name), ".kd");
	pthread_mutex_unlock(&lock);
	return is;
}

/* dlbuf's, which tests/doubles/common has as C. */
static void prepare(const struct aql *p, const uint64_t *args)
{
	const uint64_t *run = args + PREPARE_BUFFERS;
	uint8_t *buffers[PREPARE_BUFFERS];
	size_t bytes[PREPARE_BUFFERS];
	const char *why;

	for (int i = 0; i < PREPARE_BUFFERS; i++)
		buffers[i] = cpu_to_end(args[i], 1, &bytes[i]);
	/* hsa_kernel_dispatch_packet_t: workgroups of 32 x 8 x 1, the grid in items. */
	if (p->pad != (8 << 16 | 32) || (p->words[0] & 0xffff) != 1)
		unknown("workgroup", p->pad);
	why = prepare_check(buffers, bytes, run, p->words[1] >> 32);
	if (why) {
		fprintf(stderr, "drivers: prepare: %s\n", why);
		unknown("kernel", p->words[3]);
	}
	/* Queues are threads here, and items are variables there. */
	pthread_mutex_lock(&lock);
	prepare_kernel(buffers, run, p->words[0] >> 32, (uint32_t)p->words[1], p->words[1] >> 32);
	pthread_mutex_unlock(&lock);
}

static bool run_kernel(struct queue *q, const struct aql *p, const uint64_t *args)
{
	uint64_t object = p->words[3];
	static const unsigned int hows[] = { 5, 3 };	/* hipStreamWaitValueGte, Eq */
	uint8_t *to;
	uint32_t n;

	if (is_kernel(object, "fillBufferAligned")) {
		n = (uint32_t)args[2] * (uint32_t)(args[2] >> 32);
		to = cpu(args[0], args[3] - args[0]);
		for (uint64_t i = 0; i < args[3] - args[0]; i += n)
			memcpy(to + i, cpu(args[1], n), n);
	} else if (is_kernel(object, "copyBuffer")) {
		memmove(cpu(args[1], args[2]), cpu(args[0], args[2]), args[2]);
	} else if (is_kernel(object, "streamOpsWrite")) {
		if (args[0])
			__atomic_store_n((uint32_t *)cpu(args[0], 4), args[2], __ATOMIC_RELEASE);
		else
			__atomic_store_n((uint64_t *)cpu(args[1], 8), args[2], __ATOMIC_RELEASE);
	} else if (is_kernel(object, "streamOpsWait")) {
		if (args[3] > 1)
			unknown("condition of a wait", args[3]);
		return wait_for(q, cpu(args[0] ? args[0] : args[1], 4), !args[0],
				args[4], hows[args[3]], args[2]);
	} else if (is_kernel(object, "prepare")) {
		prepare(p, args);
	} else if (!is_kernel(object, "initHeap")) {
		for (unsigned int i = 0; i < nkernels; i++)
			if (kernels[i].object == object)
				fprintf(stderr, "drivers: kernel %s\n", kernels[i].name);
		unknown("kernel", object);
	}
	return true;
}

/* A barrier of up to five signals: all, or any of them. */
static bool barrier(struct queue *q, const uint64_t *signals, bool any)
{
	unsigned int naps = 0;

	while (!__atomic_load_n(&q->stop, __ATOMIC_ACQUIRE)) {
		unsigned int n = 0, done = 0;

		for (int i = 0; i < 5; i++) {
			n += signals[i] != 0;
			done += signals[i] && !__atomic_load_n(
				&((struct signal *)cpu(signals[i], 16))->value, __ATOMIC_ACQUIRE);
		}
		if (done == n || (any && done))
			return true;
		nap(&naps);
	}
	return false;
}

static bool run_aql(struct queue *q, const struct aql *p)
{
	static const unsigned int hows[] = { 3, 4, 1, 5 };	/* hsa_signal_condition_t */
	uint64_t start = ticks();
	unsigned int naps = 0;
	struct signal *s;
	bool go = true;

	while (is_hung(node) && !__atomic_load_n(&q->stop, __ATOMIC_ACQUIRE))
		nap(&naps);
	switch (p->header & 0xff) {
	case 0:		/* the vendor's */
		if (p->format == 2)
			go = wait_for(q, &((struct signal *)cpu(p->words[0], 16))->value, true,
				      p->words[2], hows[p->words[3] & 3], p->words[1]);
		else if (p->format != 1)	/* PM4: the runtime's are for caches */
			unknown("AQL packet of AMD's", p->format);
		break;
	case 2:
		go = run_kernel(q, p, cpu(p->words[4], 8));
		break;
	case 3:
	case 5:
		go = barrier(q, p->words, (p->header & 0xff) == 5);
		break;
	default:
		unknown("AQL packet", p->header & 0xff);
	}
	if (!go || !p->completion)
		return go;
	s = cpu(p->completion, sizeof(*s));
	s->start = start;
	s->end = ticks();
	__atomic_fetch_sub(&s->value, 1, __ATOMIC_ACQ_REL);
	if (s->mailbox) {
		__atomic_store_n((uint64_t *)cpu(s->mailbox, 8), s->event, __ATOMIC_RELEASE);
		interrupt(s->event);
	}
	return true;
}

static void *aql(void *arg)
{
	struct queue *q = arg;
	uint32_t n = q->args.ring_size / sizeof(struct aql);
	struct aql *ring = cpu(q->args.ring_base_address, q->args.ring_size);
	uint64_t *rptr = cpu(q->args.read_pointer_address, 8);

	for (uint64_t r = 0;; r++) {
		struct aql *p = &ring[r % n];
		unsigned int naps = 0;

		/* 1: INVALID, the type of a packet before it is written. */
		while ((__atomic_load_n(&p->header, __ATOMIC_ACQUIRE) & 0xff) == 1) {
			if (__atomic_load_n(&q->stop, __ATOMIC_ACQUIRE))
				return NULL;
			nap(&naps);
		}
		if (!run_aql(q, p))
			return NULL;
		__atomic_store_n(&p->header, 1, __ATOMIC_RELEASE);
		__atomic_store_n(rptr, r + 1, __ATOMIC_RELEASE);
	}
}

static int queue_new(struct kfd_ioctl_create_queue_args *a)
{
	bool is_sdma = a->queue_type == KFD_IOC_QUEUE_TYPE_SDMA;
	uint32_t i = 0;

	if (!is_sdma && a->queue_type != KFD_IOC_QUEUE_TYPE_COMPUTE_AQL)
		unknown("type of a queue", a->queue_type);
	while (i < NQUEUES && queues[i].used)
		i++;
	if (i == NQUEUES)
		return -ENOMEM;
	a->queue_id = i;
	a->doorbell_offset = 3ull << 62 | i * 8;	/* KFD_MMAP_TYPE_DOORBELL */
	queues[i] = (struct queue){ .args = *a, .used = true };
	return -pthread_create(&queues[i].thread, NULL, is_sdma ? sdma : aql, &queues[i]);
}

static int queue_end(uint32_t id)
{
	if (id >= NQUEUES || !queues[id].used)
		return -EINVAL;
	__atomic_store_n(&queues[id].stop, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	pthread_join(queues[id].thread, NULL);
	pthread_mutex_lock(&lock);
	queues[id].used = false;
	return 0;
}

/* ---- the node */

/* kfd_init_apertures_v9() */
static int apertures(struct kfd_ioctl_get_process_apertures_new_args *a)
{
	struct kfd_process_device_apertures *p = PTR(a->kfd_process_device_apertures_ptr);

	if (a->num_of_nodes)
		*p = (struct kfd_process_device_apertures){
			.lds_base = 1ull << 48, .lds_limit = (1ull << 48) + UINT32_MAX,
			.scratch_base = 2ull << 48, .scratch_limit = (2ull << 48) + UINT32_MAX,
			.gpuvm_base = 0x4000, .gpuvm_limit = (1ull << 47) - 1,
			.gpu_id = GPU_ID,
		};
	a->num_of_nodes = 1;
	return 0;
}

static int map_memory(uint64_t handle, uint32_t *n, uint32_t all, bool map)
{
	struct memory *m = memory_of(handle);

	if (!m)
		return -EINVAL;
	m->mapped = map;
	*n = all;
	return 0;
}

static int answer(unsigned long request, void *arg)
{
	struct kfd_ioctl_get_clock_counters_args *clocks = arg;
	struct kfd_ioctl_unmap_memory_from_gpu_args *u = arg;
	struct kfd_ioctl_map_memory_to_gpu_args *m = arg;
	struct kfd_ioctl_get_dmabuf_info_args *info = arg;

	switch (_IOC_NR(request)) {
	case _IOC_NR(AMDKFD_IOC_GET_VERSION):
		*(struct kfd_ioctl_get_version_args *)arg =
			(struct kfd_ioctl_get_version_args){ 1, 13 };
		return 0;
	case _IOC_NR(AMDKFD_IOC_GET_PROCESS_APERTURES_NEW):
		return apertures(arg);
	case _IOC_NR(AMDKFD_IOC_ACQUIRE_VM):
		core_lock();
		node = file_by_fd(((struct kfd_ioctl_acquire_vm_args *)arg)->drm_fd);
		core_unlock();
		return node ? 0 : -EINVAL;
	case _IOC_NR(AMDKFD_IOC_SET_MEMORY_POLICY):
	case _IOC_NR(AMDKFD_IOC_SET_SCRATCH_BACKING_VA):
		return 0;
	case _IOC_NR(AMDKFD_IOC_GET_CLOCK_COUNTERS):
		clocks->gpu_clock_counter = clocks->cpu_clock_counter =
			clocks->system_clock_counter = ticks();
		clocks->system_clock_freq = 1000000000;
		return 0;
	case _IOC_NR(AMDKFD_IOC_AVAILABLE_MEMORY):
		((struct kfd_ioctl_get_available_memory_args *)arg)->available = 16ull << 30;
		return 0;
	case _IOC_NR(AMDKFD_IOC_GET_TILE_CONFIG):
		((struct kfd_ioctl_get_tile_config_args *)arg)->num_tile_configs = 0;
		((struct kfd_ioctl_get_tile_config_args *)arg)->num_macro_tile_configs = 0;
		return 0;
	case _IOC_NR(AMDKFD_IOC_SET_XNACK_MODE):
		if (*(int32_t *)arg > 0)
			return -EPERM;
		*(int32_t *)arg = 0;
		return 0;
	case _IOC_NR(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU):
		return alloc(arg);
	case _IOC_NR(AMDKFD_IOC_FREE_MEMORY_OF_GPU):
		return free_memory(((struct kfd_ioctl_free_memory_of_gpu_args *)arg)->handle);
	case _IOC_NR(AMDKFD_IOC_MAP_MEMORY_TO_GPU):
		return map_memory(m->handle, &m->n_success, m->n_devices, true);
	case _IOC_NR(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU):
		return map_memory(u->handle, &u->n_success, u->n_devices, false);
	case _IOC_NR(AMDKFD_IOC_GET_DMABUF_INFO):
		if (is_foreign(info->dmabuf_fd))
			return -EINVAL;
		info->size = lseek(info->dmabuf_fd, 0, SEEK_END);
		info->gpu_id = GPU_ID;
		info->flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
		info->metadata_size = 0;
		return 0;
	case _IOC_NR(AMDKFD_IOC_IMPORT_DMABUF):
		return import(arg);
	case _IOC_NR(AMDKFD_IOC_EXPORT_DMABUF):
		return export(arg);
	case _IOC_NR(AMDKFD_IOC_CREATE_EVENT):
		return event_new(arg);
	case _IOC_NR(AMDKFD_IOC_DESTROY_EVENT):
		events[((struct kfd_ioctl_destroy_event_args *)arg)->event_id % NEVENTS].used =
			false;
		return 0;
	case _IOC_NR(AMDKFD_IOC_SET_EVENT):
		return event_set(((struct kfd_ioctl_set_event_args *)arg)->event_id);
	case _IOC_NR(AMDKFD_IOC_WAIT_EVENTS):
		return wait_events(arg);
	case _IOC_NR(AMDKFD_IOC_CREATE_QUEUE):
		return queue_new(arg);
	case _IOC_NR(AMDKFD_IOC_DESTROY_QUEUE):
		return queue_end(((struct kfd_ioctl_destroy_queue_args *)arg)->queue_id);
	}
	unknown("ioctl of kfd", _IOC_NR(request));
}

int kfd_ioctl(unsigned long request, void *arg)
{
	int ret;

	pthread_mutex_lock(&lock);
	ret = answer(request, arg);
	pthread_mutex_unlock(&lock);
	return ret;
}

/* Pages of doorbells and registers, which are not read: queues read their rings. */
void *kfd_mmap(void *addr, size_t bytes, int prot, int flags)
{
	return mmap(addr, bytes, prot, flags | MAP_ANONYMOUS, -1, 0);
}
