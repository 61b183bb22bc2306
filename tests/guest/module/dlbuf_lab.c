// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlbuf_lab: an exporter of dma-bufs and fences that fail on request. It is
 * for the tests of dlbuf in their virtual machine and nowhere else; the header
 * describes it.
 *
 * It cannot be unloaded: fences keep no reference to their module.
 */
#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/sync_file.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/wait.h>

#include "dlbuf_lab.h"

/* One open of the node. */
struct lab_owner {
	struct list_head fences;	/* pending ones; each is a reference */
	struct list_head buffers;
};

struct lab_fence {
	struct dma_fence base;		/* first: dma_fence_free() frees it */
	spinlock_t lock;
	struct list_head node;		/* empty once it has ended */
};

struct lab_buffer {
	struct list_head node;		/* empty once its owner has gone */
	wait_queue_head_t wait;
	u32 flags;
	bool revoked;
	struct dlbuf_lab_begin begin;
	struct dlbuf_lab_count count;
	unsigned int npages;
	struct page *pages[] __counted_by(npages);
};

/*
 * Guards the lists and all that changes in a buffer. It is taken under
 * mmap_lock, by faults: nothing that faults runs under it.
 */
static DEFINE_MUTEX(lab_mutex);

/* ---- fences */

static const char *lab_fence_name(struct dma_fence *fence)
{
	return "dlbuf_lab";
}

static const struct dma_fence_ops lab_fence_ops = {
	.get_driver_name = lab_fence_name,
	.get_timeline_name = lab_fence_name,
};

/* With the mutex held. Gives up the list's reference. */
static void lab_fence_end(struct lab_fence *f, int error)
{
	list_del_init(&f->node);
	if (error)
		dma_fence_set_error(&f->base, error);
	dma_fence_signal(&f->base);
	dma_fence_put(&f->base);
}

static long lab_make_fence(struct lab_owner *owner)
{
	struct lab_fence *f = kzalloc(sizeof(*f), GFP_KERNEL);
	struct sync_file *file;
	int fd;

	if (!f)
		return -ENOMEM;
	spin_lock_init(&f->lock);
	dma_fence_init(&f->base, &lab_fence_ops, &f->lock,
		       dma_fence_context_alloc(1), 1);
	file = sync_file_create(&f->base);
	fd = file ? get_unused_fd_flags(O_CLOEXEC) : -ENOMEM;
	if (fd < 0) {
		if (file)
			fput(file->file);
		/* No process has seen the fence, and a pending fence must not be freed. */
		dma_fence_signal(&f->base);
		dma_fence_put(&f->base);
		return fd;
	}
	mutex_lock(&lab_mutex);
	list_add(&f->node, &owner->fences);
	mutex_unlock(&lab_mutex);
	fd_install(fd, file->file);
	return fd;
}

static long lab_signal(void __user *arg)
{
	struct dlbuf_lab_signal s;
	struct dma_fence *fence;
	struct lab_fence *f;
	long ret = -EINVAL;

	if (copy_from_user(&s, arg, sizeof(s)))
		return -EFAULT;
	if (s.error > 0 || s.error < -MAX_ERRNO)
		return -EINVAL;
	fence = sync_file_get_fence(s.sync_file);
	if (!fence)
		return -EINVAL;
	if (fence->ops == &lab_fence_ops) {
		f = container_of(fence, struct lab_fence, base);
		ret = -EALREADY;
		mutex_lock(&lab_mutex);
		if (!list_empty(&f->node)) {
			lab_fence_end(f, s.error);
			ret = 0;
		}
		mutex_unlock(&lab_mutex);
	}
	dma_fence_put(fence);
	return ret;
}

/* ---- the exporter */

/* Counts a call. Calls that need the memory fail once it was revoked. */
static int lab_enter(struct lab_buffer *b, u32 *count, u32 refused)
{
	int ret;

	mutex_lock(&lab_mutex);
	++*count;
	ret = b->flags & refused ? -EOPNOTSUPP : b->revoked ? -ENODEV : 0;
	mutex_unlock(&lab_mutex);
	return ret;
}

static bool lab_held(struct lab_buffer *b)
{
	return READ_ONCE(b->begin.hold_ms);
}

static int lab_begin_cpu_access(struct dma_buf *dmabuf,
				enum dma_data_direction dir)
{
	struct lab_buffer *b = dmabuf->priv;
	long ret, left = MAX_SCHEDULE_TIMEOUT;

	mutex_lock(&lab_mutex);
	b->count.begin++;
	b->count.holding++;
	if (b->begin.hold_ms != DLBUF_LAB_FOREVER)
		left = msecs_to_jiffies(b->begin.hold_ms);
	mutex_unlock(&lab_mutex);

	ret = wait_event_interruptible_timeout(b->wait, !lab_held(b), left);

	mutex_lock(&lab_mutex);
	b->count.holding--;
	if (ret < 0) {
		/* As it is. */
	} else if (b->begin.times) {
		ret = b->begin.error;
		if (b->begin.times != DLBUF_LAB_FOREVER)
			b->begin.times--;
	} else {
		ret = b->revoked ? -ENODEV : 0;
	}
	mutex_unlock(&lab_mutex);
	return ret;
}

static int lab_end_cpu_access(struct dma_buf *dmabuf,
			      enum dma_data_direction dir)
{
	struct lab_buffer *b = dmabuf->priv;

	lab_enter(b, &b->count.end, 0);
	return 0;
}

static void lab_vm_open(struct vm_area_struct *vma)
{
	struct lab_buffer *b = vma->vm_private_data;

	lab_enter(b, &b->count.mapped, 0);
}

static void lab_vm_close(struct vm_area_struct *vma)
{
	struct lab_buffer *b = vma->vm_private_data;

	mutex_lock(&lab_mutex);
	b->count.mapped--;
	mutex_unlock(&lab_mutex);
}

static vm_fault_t lab_vm_fault(struct vm_fault *vmf)
{
	struct lab_buffer *b = vmf->vma->vm_private_data;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	/* Until the page is mapped: a revocation then finds it. */
	mutex_lock(&lab_mutex);
	if (!b->revoked && vmf->pgoff < b->npages)
		ret = vmf_insert_pfn(vmf->vma, vmf->address,
				     page_to_pfn(b->pages[vmf->pgoff]));
	mutex_unlock(&lab_mutex);
	return ret;
}

static const struct vm_operations_struct lab_vm_ops = {
	.open = lab_vm_open,
	.close = lab_vm_close,
	.fault = lab_vm_fault,
};

static int lab_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct lab_buffer *b = dmabuf->priv;
	int ret = lab_enter(b, &b->count.mmap, DLBUF_LAB_NO_MMAP);

	if (ret)
		return ret;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vm_flags_set(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &lab_vm_ops;
	vma->vm_private_data = b;
	lab_vm_open(vma);
	return 0;
}

/* A dma-buf must have this function: no device of the lab calls it. */
static struct sg_table *lab_map(struct dma_buf_attachment *at,
				enum dma_data_direction dir)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void lab_unmap(struct dma_buf_attachment *at, struct sg_table *sg,
		      enum dma_data_direction dir)
{
}

static void lab_free(struct lab_buffer *b)
{
	for (unsigned int i = 0; i < b->npages && b->pages[i]; i++)
		__free_page(b->pages[i]);
	kvfree(b);
}

static void lab_release_buffer(struct dma_buf *dmabuf)
{
	struct lab_buffer *b = dmabuf->priv;

	mutex_lock(&lab_mutex);
	list_del(&b->node);
	mutex_unlock(&lab_mutex);
	lab_free(b);
}

static const struct dma_buf_ops lab_ops = {
	.map_dma_buf = lab_map,
	.unmap_dma_buf = lab_unmap,
	.begin_cpu_access = lab_begin_cpu_access,
	.end_cpu_access = lab_end_cpu_access,
	.mmap = lab_mmap,
	.release = lab_release_buffer,
};

static long lab_make_buffer(struct lab_owner *owner, void __user *arg)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dlbuf_lab_buffer want;
	struct dma_buf *dmabuf;
	struct lab_buffer *b;
	unsigned int n;
	int fd;

	if (copy_from_user(&want, arg, sizeof(want)))
		return -EFAULT;
	if (!want.bytes || want.bytes > DLBUF_LAB_MAX || want.pad ||
	    want.flags & ~DLBUF_LAB_NO_MMAP)
		return -EINVAL;
	n = DIV_ROUND_UP(want.bytes, PAGE_SIZE);
	b = kvzalloc(struct_size(b, pages, n), GFP_KERNEL);
	if (!b)
		return -ENOMEM;
	INIT_LIST_HEAD(&b->node);
	init_waitqueue_head(&b->wait);
	b->flags = want.flags;
	b->npages = n;
	for (unsigned int i = 0; i < n; i++) {
		b->pages[i] = alloc_page(GFP_USER | __GFP_ZERO);
		if (!b->pages[i])
			goto no_memory;
	}
	info.ops = &lab_ops;
	info.size = (size_t)n << PAGE_SHIFT;
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = b;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		lab_free(b);
		return PTR_ERR(dmabuf);
	}
	/* From here on the dma-buf owns b. */
	mutex_lock(&lab_mutex);
	list_add(&b->node, &owner->buffers);
	mutex_unlock(&lab_mutex);
	fd = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(dmabuf);
	return fd;

no_memory:
	lab_free(b);
	return -ENOMEM;
}

/* ---- the calls about a buffer; each has a struct that begins with its fd */

union lab_arg {
	s32 fd;
	struct dlbuf_lab_begin begin;
	struct dlbuf_lab_count count;
};

/* With the mutex held. */
static int lab_set_begin(struct lab_buffer *b, const struct dlbuf_lab_begin *to)
{
	if (to->times ? to->error >= 0 || to->error < -MAX_ERRNO : to->error)
		return -EINVAL;
	b->begin = *to;
	wake_up_all(&b->wait);
	return 0;
}

static long lab_buffer_call(unsigned int cmd, void __user *arg)
{
	union lab_arg a = {};
	struct dma_buf *dmabuf;
	struct lab_buffer *b;
	s32 fd;
	long ret = 0;

	if (copy_from_user(&a, arg, _IOC_SIZE(cmd)))
		return -EFAULT;
	fd = a.fd;
	dmabuf = dma_buf_get(fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	if (dmabuf->ops != &lab_ops) {
		dma_buf_put(dmabuf);
		return -EINVAL;
	}
	b = dmabuf->priv;
	mutex_lock(&lab_mutex);
	switch (cmd) {
	case DLBUF_LAB_BEGIN:
		ret = lab_set_begin(b, &a.begin);
		break;
	case DLBUF_LAB_REVOKE:
		b->revoked = true;
		break;
	case DLBUF_LAB_COUNT:
		a.count = b->count;
		a.count.fd = fd;
		break;
	}
	mutex_unlock(&lab_mutex);
	if (cmd == DLBUF_LAB_REVOKE)
		unmap_mapping_range(dmabuf->file->f_mapping, 0, 0, 1);
	if (cmd == DLBUF_LAB_COUNT && copy_to_user(arg, &a, sizeof(a.count)))
		ret = -EFAULT;
	dma_buf_put(dmabuf);
	return ret;
}

/* ---- the node */

static int lab_open(struct inode *inode, struct file *file)
{
	struct lab_owner *owner = kzalloc(sizeof(*owner), GFP_KERNEL);

	if (!owner)
		return -ENOMEM;
	INIT_LIST_HEAD(&owner->fences);
	INIT_LIST_HEAD(&owner->buffers);
	file->private_data = owner;
	return 0;
}

static int lab_release(struct inode *inode, struct file *file)
{
	struct lab_owner *owner = file->private_data;
	struct lab_fence *f, *next_f;
	struct lab_buffer *b, *next_b;

	mutex_lock(&lab_mutex);
	list_for_each_entry_safe(f, next_f, &owner->fences, node)
		lab_fence_end(f, -ECANCELED);
	list_for_each_entry_safe(b, next_b, &owner->buffers, node) {
		list_del_init(&b->node);
		b->begin.hold_ms = 0;
		wake_up_all(&b->wait);
	}
	mutex_unlock(&lab_mutex);
	kfree(owner);
	return 0;
}

static long lab_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *p = (void __user *)arg;

	switch (cmd) {
	case DLBUF_LAB_BUFFER:
		return lab_make_buffer(file->private_data, p);
	case DLBUF_LAB_FENCE:
		return lab_make_fence(file->private_data);
	case DLBUF_LAB_SIGNAL:
		return lab_signal(p);
	case DLBUF_LAB_BEGIN:
	case DLBUF_LAB_REVOKE:
	case DLBUF_LAB_COUNT:
		return lab_buffer_call(cmd, p);
	}
	return -ENOTTY;
}

static const struct file_operations lab_fops = {
	.owner = THIS_MODULE,
	.open = lab_open,
	.release = lab_release,
	.unlocked_ioctl = lab_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice lab_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = DLBUF_LAB_NODE,
	.fops = &lab_fops,
	.mode = 0666,
};

static int __init lab_init(void)
{
	return misc_register(&lab_device);
}
module_init(lab_init);

MODULE_DESCRIPTION("dma-bufs and fences that fail when a test says so");
MODULE_LICENSE("GPL");
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS(DMA_BUF);
#else
MODULE_IMPORT_NS("DMA_BUF");
#endif
