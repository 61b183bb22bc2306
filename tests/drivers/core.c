// SPDX-License-Identifier: MIT
/*
 * The common part of all kernel drivers: nodes and files of /sys, the memory of GEM
 * objects, PRIME, syncobjs. tests/drivers/run makes the folder that replaces /dev/dri
 * and /sys.
 *
 * In the lab syncobjs and their fences are the kernel's: those of a virtio-gpu, which is
 * opened before anything else. Elsewhere all work has ended when it was submitted.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>

#include "core.h"
#include "host.h"
#include "lab_module.h"
#include "../doubles/common/words.h"

#define DMA_BUF_MAGIC_NUMBER 0x444d4142 /* linux/magic.h */
#define BY_PATH "/dev/dri/by-path/pci-0000:00:02.0-render"	/* Level Zero looks there */
#define HIGH 4096			/* fds from here on are the stub's */
#define MEMORY (1ull << 40)		/* of a node, of which little is used */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct kernel *kernel;
static char root[256];		/* the folder; "": the preload does nothing */
static struct file *files;
static int real = -1;		/* a node with syncobjs */

bool word_noprime, word_nomem, word_hang, word_lost, word_pi4, word_kfd, words_now;

void unknown(const char *what, uint64_t number)
{
	fprintf(stderr, "drivers: %s: no answer to %s %llu (0x%llx)\n",
		kernel ? kernel->name : "?", what, (unsigned long long)number,
		(unsigned long long)number);
	abort();
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* ---- the kernel, not this preload */

static int sys_ioctl(int fd, unsigned long request, void *arg)
{
	return syscall(SYS_ioctl, fd, request, arg) < 0 ? -errno : 0;
}

static void *sys_mmap(void *addr, size_t bytes, int prot, int flags, int fd,
		      uint64_t offset)
{
	return (void *)syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset);
}

/* The file of an fd; 0: it is none. */
static uint64_t inode_of(int fd)
{
	struct stat st;

	return syscall(SYS_fstat, fd, &st) ? 0 : inode_key(&st);
}

int64_t core_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* ---- objects. Under the lock. */

static struct file *file_by(uint64_t ino)
{
	struct file *f = files;

	while (f && f->ino != ino)
		f = f->next;
	return f;
}

static struct file *file_of(int fd)
{
	return files ? file_by(inode_of(fd)) : NULL;
}

static int node_open(int flags, bool kfd)
{
	int fd = memfd_create(NODE, (flags & O_CLOEXEC ? MFD_CLOEXEC : 0) |
			      MFD_ALLOW_SEALING);
	struct file *f;

	if (fd < 0)
		return -1;
	/* The sealing is udmabuf's, see bo_export(). */
	if (ftruncate(fd, MEMORY) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		abort();
	f = calloc(1, sizeof(*f));
	f->ino = inode_of(fd);
	f->end = 4096; /* the kernel's offsets are not 0 */
	f->kfd = kfd;
	f->next = files;
	files = f;
	return fd;
}

struct bo *bo_find(struct file *f, uint32_t handle)
{
	return handle && handle <= f->nbos && f->bos[handle - 1].handle ?
	       &f->bos[handle - 1] : NULL;
}

void bos_used(struct file *f, const void *handles, uint32_t n, size_t step)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t handle = *(const uint32_t *)((const char *)handles + i * step);

		if (!bo_find(f, handle))
			unknown("a submit with a handle that is closed:", handle);
	}
}

/* The lowest free number, as the kernel's. */
static struct bo *bo_slot(struct file *f)
{
	uint32_t i = 0;

	while (i < f->nbos && f->bos[i].handle)
		i++;
	if (i == f->nbos) {
		f->nbos = f->nbos ? 2 * f->nbos : 64;
		f->bos = realloc(f->bos, f->nbos * sizeof(*f->bos));
		memset(f->bos + i, 0, (f->nbos - i) * sizeof(*f->bos));
	}
	f->bos[i] = (struct bo){ .handle = i + 1, .fd = -1 };
	return &f->bos[i];
}

/* The kernel needs no fds: the process's limit, which is put back, is not for the stub's. */
static struct rlimit no_limit(void)
{
	struct rlimit old, more;

	getrlimit(RLIMIT_NOFILE, &old);
	/* To raise the hard limit is root's. */
	more = old;
	more.rlim_cur = old.rlim_max;
	if (old.rlim_max < 2 * HIGH)
		more = (struct rlimit){ 1 << 16, 1 << 16 };
	setrlimit(RLIMIT_NOFILE, &more);
	return old;
}

/* A duplicate out of the way of others: the kernel's handle holds a dma-buf without an fd. */
static int dup_high(int fd)
{
	struct rlimit old = no_limit();
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);

	if (high < 0)
		abort();
	setrlimit(RLIMIT_NOFILE, &old);
	return high;
}

struct bo *bo_of_fd(struct file *f, int fd)
{
	struct bo *bo = bo_slot(f);

	bo->ino = inode_of(fd);
	bo->size = lseek(fd, 0, SEEK_END);
	bo->offset = IMPORTED | (uint64_t)bo->handle << 42;
	bo->fd = dup_high(fd);
	return bo;
}

struct file *file_by_fd(int fd)
{
	return file_of(fd);
}

/* As an import's: the exported memory is the one in which the GPU computes. */
static void own_memory(struct bo *bo)
{
	struct dma_heap_allocation_data a = { .len = bo->size, .fd_flags = O_RDWR | O_CLOEXEC };
	struct rlimit old = no_limit();
	static int heap = -1;
	int fd;

	if (heap < 0) {
		fd = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);
		heap = dup_high(fd);
		close(fd);
	}
	if (ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &a))
		abort();
	bo->fd = dup_high(a.fd);
	close(a.fd);
	setrlimit(RLIMIT_NOFILE, &old);
	bo->ino = inode_of(bo->fd);
	bo->offset = IMPORTED | (uint64_t)bo->handle << 42;
}

struct bo *bo_new(struct file *f, uint64_t size)
{
	struct bo *bo;

	size = (size + 4095) & ~4095ull;
	if (word_nomem || !size || size > MEMORY - f->end)
		return NULL;
	bo = bo_slot(f);
	bo->size = size;
	bo->offset = f->end;
	f->end += size;
	if (kernel->computes)
		own_memory(bo);
	return bo;
}

void *bo_map(const struct bo *bo, uint64_t offset, uint64_t bytes)
{
	void *p = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bo->fd, offset);

	if (p == MAP_FAILED)
		abort();
	return p;
}

int bo_close(struct file *f, uint32_t handle)
{
	struct bo *bo = bo_find(f, handle);

	/* The kernel says EINVAL. The driver has closed it for another import before. */
	if (!bo)
		unknown("GEM_CLOSE of a handle that is closed:", handle);
	if (bo->fd >= 0)
		close(bo->fd);
	bo->handle = 0;
	return 0;
}

/* drm_gem_prime_fd_to_handle(): one handle for a dma-buf, however often it is imported. */
static int bo_import(struct file *f, struct drm_prime_handle *p)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(p->fd, &fs) || fs.f_type != DMA_BUF_MAGIC_NUMBER || word_noprime)
		return -EINVAL;
	if (syscall(SYS_fstat, p->fd, &st))
		return -EBADF;
	for (uint32_t i = 0; i < f->nbos; i++) {
		if (f->bos[i].handle && f->bos[i].ino == inode_key(&st)) {
			p->handle = f->bos[i].handle;
			return 0;
		}
	}
	p->handle = bo_of_fd(f, p->fd)->handle;
	f->imported = true;
	return 0;
}

/* The pages of the object as a udmabuf. */
static int bo_export(struct file *f, int node, struct drm_prime_handle *p)
{
	struct bo *bo = bo_find(f, p->handle);
	struct udmabuf_create create = { .memfd = node, .flags = UDMABUF_FLAGS_CLOEXEC };
	int fd;

	if (!bo)
		return -ENOENT;
	if (bo->fd >= 0) {
		p->fd = fcntl(bo->fd, F_DUPFD_CLOEXEC, 0);
		return p->fd < 0 ? -errno : 0;
	}
	fd = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	create.offset = bo->offset;
	create.size = bo->size;
	p->fd = ioctl(fd, UDMABUF_CREATE, &create);
	close(fd);
	if (p->fd < 0)
		return -errno;
	bo->ino = inode_of(p->fd);
	return 0;
}

void core_lock(void)
{
	pthread_mutex_lock(&lock);
}

void core_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

bool core_is_pfn_map(uint64_t address)
{
	FILE *maps = NEXT(fopen)("/proc/self/maps", "re");
	unsigned long long first, end;
	char line[512];
	bool is = false;

	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%llx-%llx", &first, &end) == 2 && address >= first &&
		    address < end)
			is = strstr(line, "/dmabuf:") || strstr(line, "/memfd:dmabuf ");
	fclose(maps);
	return is;
}

/* ---- syncobjs */

static uint32_t syncobj_new(void)
{
	struct drm_syncobj_create c = { 0 };

	if (real >= 0 ? sys_ioctl(real, DRM_IOCTL_SYNCOBJ_CREATE, &c) :
			host_syncobj(DRM_IOCTL_SYNCOBJ_CREATE, &c))
		abort();
	return c.handle;
}

static int syncobj_ioctl(unsigned long request, void *arg)
{
	return real >= 0 ? sys_ioctl(real, request, arg) : host_syncobj(request, arg);
}

static void syncobj_destroy(uint32_t handle)
{
	struct drm_syncobj_destroy d = { .handle = handle };

	syncobj_ioctl(DRM_IOCTL_SYNCOBJ_DESTROY, &d);
}

static int transfer(struct sync from, struct sync to)
{
	struct drm_syncobj_transfer t = {
		.src_handle = from.handle, .src_point = from.point,
		.dst_handle = to.handle, .dst_point = to.point,
	};

	return syncobj_ioctl(DRM_IOCTL_SYNCOBJ_TRANSFER, &t);
}

/* Fences of work that hangs. */
static int lab = -1, hung[64];
static unsigned int nhung;

/* Makes a fence of the lab's module, which never signals, a part of all work. */
static int never(struct sync all)
{
	struct sync tmp = { syncobj_new(), 0 };
	struct drm_syncobj_handle h = {
		.handle = tmp.handle,
		.flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE,
	};
	int ret;

	if (lab < 0) {
		h.fd = lab_open();
		lab = dup_high(h.fd);
		close(h.fd);
	}
	h.fd = lab_fence(lab);
	ret = syncobj_ioctl(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &h);
	if (!ret)
		ret = transfer(tmp, all);
	syncobj_destroy(tmp.handle);
	if (words_now && nhung < 64)
		hung[nhung++] = dup_high(h.fd);
	close(h.fd);
	return ret;
}

/*
 * f->all is a timeline. A point of it is a chain of fences, which signals after those of
 * the points before it: the order of a queue, without an fd.
 */
int submit(struct file *f, const struct sync *waits, uint32_t nwaits,
	   const struct sync *signals, uint32_t nsignals)
{
	int ret = 0;

	if (!f->all.handle) {
		struct drm_syncobj_timeline_array a = { .count_handles = 1 };

		f->all = (struct sync){ syncobj_new(), 1 };
		a.handles = (uintptr_t)&f->all.handle;
		a.points = (uintptr_t)&f->all.point;
		ret = syncobj_ioctl(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &a);
	}
	for (uint32_t i = 0; !ret && i < nwaits; i++) {
		f->all.point++;
		ret = transfer(waits[i], f->all);
	}
	if (!ret && is_hung(f)) {
		f->all.point++;
		ret = never(f->all);
	}
	for (uint32_t i = 0; !ret && i < nsignals; i++)
		ret = transfer(f->all, signals[i]);
	return ret;
}

int core_sync_file(struct file *f)
{
	struct drm_syncobj_handle h = {
		.flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE, .fd = -1,
	};
	struct sync binary = { syncobj_new(), 0 };
	int ret = transfer(f->all, binary);

	h.handle = binary.handle;
	if (!ret)
		ret = syncobj_ioctl(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &h);
	syncobj_destroy(binary.handle);
	return ret ? ret : h.fd;
}

/* Without the lock: others submit meanwhile. */
int wait_all(struct file *f, int64_t timeout)
{
	struct sync all = f->all;
	struct drm_syncobj_timeline_wait w = {
		.handles = (uintptr_t)&all.handle, .points = (uintptr_t)&all.point,
		.count_handles = 1, .timeout_nsec = timeout,
	};
	int ret;

	if (!all.handle)
		return 0;
	pthread_mutex_unlock(&lock);
	do
		ret = syncobj_ioctl(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &w);
	while (ret == -EINTR);
	pthread_mutex_lock(&lock);
	return ret;
}

int wait_all_for(struct file *f, int64_t nanoseconds)
{
	return wait_all(f, nanoseconds < 0 || nanoseconds > INT64_MAX / 2 ? INT64_MAX :
			core_now() + nanoseconds);
}

/* ---- ioctls of all DRM drivers */

static void copy_name(char *to, __kernel_size_t *room, const char *name)
{
	size_t n = strlen(name);

	if (to)
		memcpy(to, name, *room < n ? *room : n);
	*room = n;
}

static int version(struct drm_version *v)
{
	v->version_major = kernel->major;
	v->version_minor = kernel->minor;
	v->version_patchlevel = 0;
	copy_name(v->name, &v->name_len, kernel->name);
	copy_name(v->date, &v->date_len, "0");
	copy_name(v->desc, &v->desc_len, "tests/drivers");
	return 0;
}

static int capability(struct drm_get_cap *c)
{
	switch (c->capability) {
	case DRM_CAP_PRIME:
		c->value = DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT;
		return 0;
	case DRM_CAP_SYNCOBJ:
	case DRM_CAP_SYNCOBJ_TIMELINE:
	case DRM_CAP_TIMESTAMP_MONOTONIC:
		c->value = 1;
		return 0;
	case DRM_CAP_DUMB_BUFFER:
	case DRM_CAP_ADDFB2_MODIFIERS:
		c->value = 0;
		return 0;
	}
	unknown("DRM_CAP", c->capability);
}

static int common_ioctl(struct file *f, int fd, unsigned long request, void *arg)
{
	switch (_IOC_NR(request)) {
	case _IOC_NR(DRM_IOCTL_VERSION):
		return version(arg);
	case _IOC_NR(DRM_IOCTL_GET_UNIQUE):
		((struct drm_unique *)arg)->unique_len = 0;
		return 0;
	case _IOC_NR(DRM_IOCTL_GET_CAP):
		return capability(arg);
	case _IOC_NR(DRM_IOCTL_GEM_CLOSE):
		return bo_close(f, ((struct drm_gem_close *)arg)->handle);
	case _IOC_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE):
		return bo_import(f, arg);
	case _IOC_NR(DRM_IOCTL_PRIME_HANDLE_TO_FD):
		return bo_export(f, fd, arg);
	}
	unknown("DRM ioctl", _IOC_NR(request));
}

static bool is_syncobj(unsigned int nr)
{
	return nr >= _IOC_NR(DRM_IOCTL_SYNCOBJ_CREATE) &&
	       nr <= _IOC_NR(DRM_IOCTL_SYNCOBJ_SIGNAL) &&
	       nr != _IOC_NR(DRM_IOCTL_MODE_CREATE_LEASE) &&
	       nr != _IOC_NR(DRM_IOCTL_MODE_LIST_LESSEES) &&
	       nr != _IOC_NR(DRM_IOCTL_MODE_GET_LEASE) &&
	       nr != _IOC_NR(DRM_IOCTL_MODE_REVOKE_LEASE);
}

static bool is_timeline(unsigned int nr)
{
	return nr >= _IOC_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT) &&
	       nr <= _IOC_NR(DRM_IOCTL_SYNCOBJ_EVENTFD);
}

/* *ours: it is an ioctl of the stub's. */
static int answer(int fd, unsigned long request, void *arg, bool *ours)
{
	unsigned int nr = _IOC_NR(request);
	struct file *f;
	int ret;

	pthread_mutex_lock(&lock);
	f = file_of(fd);
	*ours = f;
	if (!f) {
		ret = 0;
	} else if (is_syncobj(nr) || is_timeline(nr)) {
		pthread_mutex_unlock(&lock);
		return syncobj_ioctl(request, arg);
	} else if (nr < DRM_COMMAND_BASE || nr >= DRM_COMMAND_END) {
		ret = common_ioctl(f, fd, request, arg);
	} else {
		f->fd = fd;
		ret = kernel->ioctl(f, nr - DRM_COMMAND_BASE, arg);
		if (ret == -ENOSYS)
			unknown("ioctl", nr - DRM_COMMAND_BASE);
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

/* ---- interposed functions */

#define ALIAS(name) __attribute__((alias(#name)))

/* Names inside the folder, where the stub's node and its files of /sys are. */
static const char *inside(const char *path, char *buf)
{
	static const char *const ours[] = {
		("/dev/dri/" NODE), "/dev/dri/by-path", "/sys/dev/char/226:190",
		"/sys/devices/virtual/kfd",
	};
	size_t i, n;

	if (!root[0] || !path)
		return path;
	if (!strcmp(path, "/dev/dri") || !strcmp(path, "/dev/dri/")) {
		snprintf(buf, PATH_MAX, "%s/dev/dri", root);
		return buf;
	}
	for (i = 0; i < sizeof(ours) / sizeof(*ours); i++) {
		n = strlen(ours[i]);
		if (!strncmp(path, ours[i], n) && (!path[n] || path[n] == '/')) {
			snprintf(buf, PATH_MAX, "%s%s", root, path);
			return buf;
		}
	}
	return path;
}

static bool is_node(const char *path)
{
	return root[0] && (!strcmp(path, "/dev/dri/" NODE) || !strcmp(path, BY_PATH));
}

static bool is_kfd(const char *path)
{
	return root[0] && word_kfd && !strcmp(path, "/dev/kfd");
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	char buf[PATH_MAX];
	int fd;

	if (is_node(path) || is_kfd(path)) {
		pthread_mutex_lock(&lock);
		fd = node_open(flags, is_kfd(path));
		pthread_mutex_unlock(&lock);
		return fd;
	}
	fd = root[0] && real < 0 ? host_open(path, flags) : -1;
	return fd >= 0 ? fd : syscall(SYS_openat, dir, inside(path, buf), flags, mode);
}

#define MODE(flags) ({							\
	mode_t mode_ = 0;						\
	if ((flags) & (O_CREAT | O_TMPFILE)) {				\
		va_list ap_;						\
		va_start(ap_, flags);					\
		mode_ = va_arg(ap_, int);				\
		va_end(ap_);						\
	}								\
	mode_;								\
})

int open(const char *path, int flags, ...)
{
	return open_at(AT_FDCWD, path, flags, MODE(flags));
}
int open64(const char *path, int flags, ...) ALIAS(open);

int openat(int dir, const char *path, int flags, ...)
{
	return open_at(dir, path, flags, MODE(flags));
}
int openat64(int dir, const char *path, int flags, ...) ALIAS(openat);

int __open_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}
int __open64_2(const char *path, int flags) ALIAS(__open_2);

FILE *fopen(const char *path, const char *mode)
{
	char buf[PATH_MAX];

	return NEXT(fopen)(inside(path, buf), mode);
}
FILE *fopen64(const char *path, const char *mode) ALIAS(fopen);

/* That thread reads its process's fds there: those of dup_high() are the kernel's. */
static __thread DIR *fds;

DIR *opendir(const char *path)
{
	char buf[PATH_MAX];
	DIR *dir = NEXT(opendir)(inside(path, buf));

	if (!strcmp(path, "/proc/self/fd"))
		fds = dir;
	return dir;
}

struct dirent *readdir(DIR *dir)
{
	struct dirent *e;

	do
		e = NEXT(readdir)(dir);
	while (e && dir == fds && atoi(e->d_name) >= HIGH);
	return e;
}
struct dirent64 *readdir64(DIR *dir) ALIAS(readdir);

char *realpath(const char *path, char *resolved)
{
	char buf[PATH_MAX];

	return NEXT(realpath)(inside(path, buf), resolved);
}

ssize_t readlink(const char *path, char *to, size_t n)
{
	char buf[PATH_MAX];

	return syscall(SYS_readlinkat, AT_FDCWD, inside(path, buf), to, n);
}

/* A test that counts buffers by their fds must not count a node, and knows a sync_file. */
ssize_t readlinkat(int dir, const char *path, char *to, size_t n)
{
	ssize_t len = syscall(SYS_readlinkat, dir, path, to, n);

	if (root[0] && len >= 7 + (ssize_t)strlen(NODE) &&
	    !memcmp(to, "/memfd:" NODE, 7 + strlen(NODE)))
		memcpy(to, "/dev/./", 7);
	if (len > 5 && !memcmp(to, "pipe:", 5) && n > 20 && host_is_sync_file(atoi(path)))
		len = snprintf(to, n, "anon_inode:sync_file");
	return len;
}

int access(const char *path, int mode)
{
	char buf[PATH_MAX];

	return syscall(SYS_faccessat, AT_FDCWD, inside(path, buf), mode);
}

static void as_node(struct stat *st)
{
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = makedev(226, NODE_MINOR);
}

int fstatat(int dir, const char *path, struct stat *st, int flags)
{
	char buf[PATH_MAX];
	int ret = syscall(SYS_newfstatat, dir, inside(path, buf), st, flags);

	if (!ret && is_node(path))
		as_node(st);
	return ret;
}
int fstatat64(int dir, const char *path, struct stat64 *st, int flags) ALIAS(fstatat);

int stat(const char *path, struct stat *st)
{
	return fstatat(AT_FDCWD, path, st, 0);
}
int stat64(const char *path, struct stat64 *st) ALIAS(stat);

int lstat(const char *path, struct stat *st)
{
	return fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}
int lstat64(const char *path, struct stat64 *st) ALIAS(lstat);

int fstat(int fd, struct stat *st)
{
	int ret = syscall(SYS_fstat, fd, st);

	if (!ret && root[0]) {
		pthread_mutex_lock(&lock);
		if (file_by(inode_key(st)))
			as_node(st);
		pthread_mutex_unlock(&lock);
	}
	return ret;
}
int fstat64(int fd, struct stat64 *st) ALIAS(fstat);

int fstatfs(int fd, struct statfs *fs)
{
	int ret = syscall(SYS_fstatfs, fd, fs);

	if (!ret && root[0] && real < 0 && host_is_dma_buf(fd))
		fs->f_type = DMA_BUF_MAGIC_NUMBER;
	return ret;
}
int fstatfs64(int fd, struct statfs64 *fs) ALIAS(fstatfs);

int ioctl(int fd, unsigned long request, ...)
{
	bool ours = false;
	va_list ap;
	void *arg;
	int ret = 0;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (root[0] && _IOC_TYPE(request) == DRM_IOCTL_BASE)
		ret = answer(fd, request, arg, &ours);
	if (root[0] && _IOC_TYPE(request) == 'K') {
		pthread_mutex_lock(&lock);
		ours = file_of(fd) && file_of(fd)->kfd;
		pthread_mutex_unlock(&lock);
		ret = ours ? kfd_ioctl(request, arg) : 0;
	}
	if (!ours && root[0] && real < 0)
		ret = host_ioctl(fd, request, arg, &ours);
	if (!ours)
		return syscall(SYS_ioctl, fd, request, arg);
	if (ret >= 0)
		return ret;
	errno = -ret;
	return -1;
}

void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	struct file *f = NULL;
	struct bo *bo = NULL;
	void *p = NULL;

	if (root[0] && fd >= 0) {
		pthread_mutex_lock(&lock);
		f = file_of(fd);
		if (f && f->kfd) {
			pthread_mutex_unlock(&lock);
			return kfd_mmap(addr, bytes, prot, flags);
		}
		if (f && offset & IMPORTED)
			bo = bo_find(f, (uint64_t)offset >> 42);
		else if (f && kernel->mmap && (uint64_t)offset >= MEMORY)
			p = kernel->mmap(f, bytes, prot, offset);
		if (bo)
			p = sys_mmap(addr, bytes, prot, flags, bo->fd, 0);
		pthread_mutex_unlock(&lock);
	}
	return p ? p : sys_mmap(addr, bytes, prot, flags, fd, offset);
}
void *mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off64_t offset)
	ALIAS(mmap);

/* ---- the beginning */

static const struct kernel *const kernels[] = {
	&kernel_i915, &kernel_nouveau, &kernel_amdgpu, &kernel_v3d, &kernel_msm,
	&kernel_panthor, &kernel_xe, &kernel_panfrost, &kernel_etnaviv, &kernel_lima, &kernel_vc4,
};

static void other_word(const char *word)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		if (!strcmp(kernels[i]->name, word))
			kernel = kernels[i];
}

/* The real node whose syncobjs serve, opened once, for children too. */
static void open_real(void)
{
	for (int i = 128; i < 136 && real < 0; i++) {
		char path[64], name[16] = "";
		struct drm_version v = { .name = name, .name_len = sizeof(name) - 1 };
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/renderD%d", i);
		fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!sys_ioctl(fd, DRM_IOCTL_VERSION, &v) && !strcmp(name, "virtio_gpu"))
			real = dup_high(fd);
		close(fd);
	}
}

static const struct word words_known[] = {
	{ "noprime", { &word_noprime } },
	{ "nomem", { &word_nomem } },
	{ "hang", { &word_hang } },
	{ "lost", { &word_lost } },
	{ "pi4", { &word_pi4 } },
	{ "kfd", { &word_kfd } },
};

void drivers_words(const char *words)
{
	pthread_mutex_lock(&lock);
	word_noprime = word_nomem = word_hang = word_lost = false;
	words_now = true;
	words_apply(words, words_known, sizeof(words_known) / sizeof(*words_known), other_word);
	for (; !word_hang && nhung; close(hung[nhung]))
		lab_signal(lab, hung[--nhung], 0);
	pthread_mutex_unlock(&lock);
}

unsigned int drivers_imports(void)
{
	unsigned int n = 0;

	pthread_mutex_lock(&lock);
	for (const struct file *f = files; f; f = f->next)
		for (uint32_t i = 0; i < f->nbos; i++)
			n += f->bos[i].handle && f->bos[i].offset & IMPORTED;
	pthread_mutex_unlock(&lock);
	return n;
}

__attribute__((constructor)) static void begin(void)
{
	const char *folder = getenv("FAKE_DRM_ROOT");

	words_apply(getenv("FAKE_DRM"), words_known, sizeof(words_known) / sizeof(*words_known),
		    other_word);
	if (!folder || !kernel)
		return;
	open_real();
	snprintf(root, sizeof(root), "%s", folder);
}
