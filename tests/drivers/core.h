/* SPDX-License-Identifier: MIT */
/*
 * A preload that imitates the kernel's side of a GPU, so that the GPU's own user-space
 * driver runs without the GPU. core.c has the common part of all kernel drivers; a file
 * per kernel driver has the rest, written from the kernel's uapi headers.
 */
#ifndef DRIVERS_CORE_H
#define DRIVERS_CORE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <drm.h>

/* The node of the stub. It has a number of its own, beside the nodes that are real. */
#define NODE "renderD190"
#define NODE_MINOR 190

/* A GEM object: a range of the memfd that is the node, or an imported dma-buf. */
struct bo {
	uint32_t handle;	/* 0: free */
	int fd;			/* a duplicate of the dma-buf, or -1 */
	uint64_t size, offset;	/* in the memfd; for an import IMPORTED and the handle */
	uint64_t ino;		/* of the dma-buf that it is, or was exported as */
};
#define IMPORTED (1ull << 41)

struct sync {
	uint32_t handle;
	uint64_t point;		/* 0: the syncobj is binary */
};

/* A file that a driver has opened; the inode of its memfd identifies it. */
struct file {
	uint64_t ino;
	int fd;			/* of the ioctl */
	struct bo *bos;
	uint32_t nbos;
	uint64_t end;		/* of the memory that is in use */
	struct sync all;	/* all work so far: a timeline and its last point */
	uint32_t ids;		/* contexts, VMs, queues: the last number */
	bool imported;		/* a dma-buf, ever: the words act from here on */
	bool kfd;		/* it is /dev/kfd */
	struct file *next;
};

/* A kernel driver. Its functions return 0 or a negative errno. */
struct kernel {
	const char *name;	/* of DRM_IOCTL_VERSION */
	int major, minor;
	bool computes;		/* an object's memory is its own, which bo_map() needs */
	/* nr counts from DRM_COMMAND_BASE. -ENOSYS: it is not known, which ends the run. */
	int (*ioctl)(struct file *f, unsigned int nr, void *arg);
	/* A mapping that is no object's, or NULL. */
	void *(*mmap)(struct file *f, size_t bytes, int prot, uint64_t offset);
};
extern const struct kernel kernel_i915, kernel_nouveau, kernel_amdgpu, kernel_v3d,
	kernel_msm, kernel_panthor, kernel_xe, kernel_panfrost, kernel_etnaviv, kernel_lima,
	kernel_vc4;

/*
 * The words of FAKE_DRM behind the name of the kernel driver; or a program gives others, which
 * act at once: "" ends them all, and work that hangs goes on.
 */
extern bool word_noprime;	/* no dma-buf is imported: EINVAL */
extern bool word_nomem;		/* no object is made: ENOMEM */
extern bool word_hang;		/* no work ends after the first import */
extern bool word_lost;		/* nor begins, which the kernel driver says */
extern bool word_pi4;		/* v3d: the older GPU */
extern bool word_kfd;		/* amdgpu: there is /dev/kfd */
extern bool words_now;		/* they are a program's */
void drivers_words(const char *words);
/* For a program: how many dma-bufs the files of the stub hold now by a handle. */
unsigned int drivers_imports(void);

/* Inodes of two file systems may have one number. */
static inline uint64_t inode_key(const struct stat *st)
{
	return (uint64_t)st->st_dev << 44 ^ st->st_ino;
}

/* Drivers submit when a device is created, too. */
static inline bool is_lost(const struct file *f)
{
	return word_lost && (words_now || f->imported);
}

static inline bool is_hung(const struct file *f)
{
	return word_hang && (words_now || f->imported);
}

/* A new object. NULL: out of memory. */
struct bo *bo_new(struct file *f, uint64_t size);
struct bo *bo_find(struct file *f, uint32_t handle);
int bo_close(struct file *f, uint32_t handle);
/* The handles of a submit, one in each `step` bytes: a closed one ends the run (kernel: ENOENT). */
void bos_used(struct file *f, const void *handles, uint32_t n, size_t step);
/* A new object that is the file of an fd. Its offset is what maps it. */
struct bo *bo_of_fd(struct file *f, int fd);
struct file *file_by_fd(int fd);
/* kfd.c: the ioctls of /dev/kfd. */
int kfd_ioctl(unsigned long request, void *arg);
void *kfd_mmap(void *addr, size_t bytes, int prot, int flags);
/* A mapping of a part of it, where the kernel driver computes. */
void *bo_map(const struct bo *bo, uint64_t offset, uint64_t bytes);

/*
 * Work that runs after the syncobjs in waits and all earlier work of the file; its end
 * signals those in signals. Nothing is computed: it ends at once if its waits are fulfilled.
 */
int submit(struct file *f, const struct sync *waits, uint32_t nwaits,
	   const struct sync *signals, uint32_t nsignals);

/* A new sync_file of all work of the file, or a negative errno. */
int core_sync_file(struct file *f);

/* Waits for all work of the file. timeout: absolute nanoseconds of CLOCK_MONOTONIC. */
int wait_all(struct file *f, int64_t timeout);
/* The same for a time from now; negative: without end. */
int wait_all_for(struct file *f, int64_t nanoseconds);

/* CLOCK_MONOTONIC, in nanoseconds. */
int64_t core_now(void);
/* Whether the page is of a dma-buf's mapping, which has none that can be pinned. */
bool core_is_pfn_map(uint64_t address);
/* ioctl() is called with the lock; others submit while one waits without it. */
void core_lock(void);
void core_unlock(void);

/* A pointer in a struct of the kernel's, which is an u64. */
#define PTR(value) ((void *)(uintptr_t)(value))

/* Ends the run: a request without an answer in this stub. */
void unknown(const char *what, uint64_t number) __attribute__((noreturn));

#endif /* DRIVERS_CORE_H */
