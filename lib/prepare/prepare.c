// SPDX-License-Identifier: MIT
/* Runs plans: checks the tensor, imports the frame, reads it, gives it back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/sync.h>
#include <dlbuf/tensor.h>

#include "../access/lease.h"
#include "../frame/frame.h"
#include "../import/backend.h"
#include "../system/fork.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "../tensor/tensor.h"
#include "prepare.h"
#include "program.h"

/* The dtypes in the order of enum store. */
static const DLDataType dtypes[] = {
	{ kDLUInt, 8, 1 }, { kDLInt, 8, 1 }, { kDLFloat, 16, 1 }, { kDLBfloat, 16, 1 },
	{ kDLFloat, 32, 1 },
};

/* As NumPy and PyTorch write it: float32; with lanes float32x4. */
struct dtype_text prepare_dtype(DLDataType t)
{
	static const char *const names[] = { "int", "uint", "float", "handle", "bfloat", "complex",
					     "bool" };
	struct dtype_text text;
	size_t n;

	if (t.code >= ARRAY_SIZE(names))
		n = snprintf(text.s, sizeof(text.s), "code %u of DLPack, %u bits", t.code, t.bits);
	else
		n = snprintf(text.s, sizeof(text.s), "%s%u", names[t.code], t.bits);
	if (t.lanes != 1)
		snprintf(text.s + n, sizeof(text.s) - n, "x%u", t.lanes);
	return text;
}

static bool on_cpu(const DLTensor *t)
{
	return t->device.device_type == kDLCPU || t->device.device_type == kDLCUDAHost ||
		t->device.device_type == kDLROCMHost || t->device.device_type == kDLTPUHost ||
		t->device.device_type == kDLCUDAManaged;
}

static int check_tensor_device(const struct dlbuf_prepare *p, const DLTensor *t, const char *what)
{
	if (p->program ? t->device.device_type == p->dev->dl.device_type : on_cpu(t))
		return 0;
	return fail(-EOPNOTSUPP, "%s is on another device (%u of DLPack), the plan runs on %s",
		    what, t->device.device_type, p->program ? p->dev->name : "the CPU");
}

/* Values are loaded and stored whole. Pointers of other devices than the CPU are handles. */
static int check_aligned(const struct dlbuf_prepare *p, const DLTensor *t, const char *what)
{
	bool handle = p->program && t->device.device_type != kDLCPU;
	uint64_t at = t->byte_offset + (handle ? 0 : (uintptr_t)t->data);
	uint32_t size = t->dtype.bits / 8;

	if (!(at % size))
		return 0;
	return fail(-EOPNOTSUPP,
		    "%s is not aligned: its values have %u bytes, and the first begins "
		    "%u bytes behind a multiple of that", what, size, (uint32_t)(at % size));
}

static int check_shape(const struct dlbuf_prepare *p, const DLTensor *t, int64_t index,
		       const int64_t wanted[3])
{
	int first = t->ndim - 3;
	int64_t n = first ? t->shape[0] : 1;

	for (int i = 0; i < 3; i++) {
		if (t->shape[first + i] != wanted[i])
			return fail(-EINVAL, "the tensor's images are %lld x %lld x %lld, the "
				    "plan's %lld x %lld x %lld (%s)",
				    (long long)t->shape[first], (long long)t->shape[first + 1],
				    (long long)t->shape[first + 2], (long long)wanted[0],
				    (long long)wanted[1], (long long)wanted[2],
				    p->nhwc ? "H, W, C" : "C, H, W");
	}
	if (index < 0 || index >= n)
		return fail(-EINVAL, "image %lld of a tensor of %lld", (long long)index,
			    (long long)n);
	return 0;
}

/*
 * Images, rows, columns and channels must not overlap: each step must be beyond what all smaller
 * steps reach.
 */
static int check_steps(int ndim, const int64_t shape[], const int64_t strides[])
{
	uint64_t used = 1;
	bool done[4] = { false };

	for (int n = 0; n < ndim; n++) {
		uint64_t least = UINT64_MAX;
		int next = 0;

		for (int i = 0; i < ndim; i++) {
			uint64_t step = strides[i] < 0 ? -(uint64_t)strides[i] :
							 (uint64_t)strides[i];

			if (!done[i] && step < least) {
				least = step;
				next = i;
			}
		}
		done[next] = true;
		if (shape[next] == 1)
			continue;
		if (least < used || least > INT32_MAX)
			return fail(-EOPNOTSUPP, "the tensor's stride of %lld puts two values into "
				    "one place, or is beyond 2^31 values",
				    (long long)strides[next]);
		used = least * (uint64_t)shape[next];
	}
	return 0;
}

/* Finds image `index` of the tensor. */
static int find_image(const struct dlbuf_prepare *p, const DLManagedTensorVersioned *out,
		      int64_t index, struct image *image)
{
	const DLTensor *t;
	const int64_t c = p->nout, h = p->info.height, w = p->info.width;
	const int64_t wanted[3] = { p->nhwc ? h : c, p->nhwc ? w : h, p->nhwc ? c : w };
	int64_t strides[4] = { 0 };
	uint64_t skip, compact = 1;
	int first, ret;

	if (out->version.major != DLPACK_MAJOR_VERSION)
		return fail(-EPROTO, "the tensor is of DLPack %u, this library has %d",
			    out->version.major, DLPACK_MAJOR_VERSION);
	t = &out->dl_tensor;
	if (out->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
		return fail(-EACCES, "the tensor is read-only");
	ret = check_tensor_device(p, t, "the tensor");
	if (ret)
		return ret;
	if (memcmp(&t->dtype, &dtypes[p->store], sizeof(t->dtype)))
		return fail(-EOPNOTSUPP, "the tensor's dtype is %s, the plan's %s",
			    prepare_dtype(t->dtype).s, prepare_dtype(dtypes[p->store]).s);
	if (t->ndim != 3 && t->ndim != 4)
		return fail(-EINVAL, "the tensor has %d dimensions; it needs 3, or 4 with a batch",
			    t->ndim);
	if (!t->shape || !t->data)
		return fail(-EINVAL, "the tensor's %s is NULL", t->shape ? "data" : "shape");
	ret = check_shape(p, t, index, wanted);
	if (!ret)
		ret = check_aligned(p, t, "the tensor");
	if (ret)
		return ret;
	/* A dimension of 1 has no step. */
	for (int i = t->ndim - 1; i >= 0; compact *= (uint64_t)t->shape[i--])
		strides[i] = t->shape[i] == 1 ? 0 : t->strides ? t->strides[i] : (int64_t)compact;
	first = t->ndim - 3;
	ret = check_steps(t->ndim, t->shape, strides);
	if (ret)
		return ret;
	image->steps = (struct steps){
		.x = strides[first + (p->nhwc ? 1 : 2)],
		.y = strides[first + (p->nhwc ? 0 : 1)],
		.channel = strides[first + (p->nhwc ? 2 : 0)],
	};
	/* Modulo 2^64: anybody can write the fields. */
	skip = t->byte_offset +
	       (first ? (uint64_t)index * (uint64_t)strides[0] : 0) * (dtypes[p->store].bits / 8);
	image->data = (char *)((uintptr_t)t->data + (uintptr_t)skip);
	return 0;
}

/* Finds how far the mapping of the second tensor is from the first, if they are of one dma-buf. */
static uintptr_t distance(const DLManagedTensorVersioned *from, const DLManagedTensorVersioned *to)
{
	struct tensor *a, *b;

	if (from->deleter != tensor_delete || to->deleter != tensor_delete || tensor_of(from, &a) ||
	    tensor_of(to, &b) || !buffer_same(&a->imp->id, &b->imp->id))
		return 0;
	return (uintptr_t)b->imp->data - (uintptr_t)a->imp->data;
}

/* The bytes that a set of rows or steps covers: [*low, *high). */
static void cover(int64_t step, uint64_t n, uintptr_t *low, uintptr_t *high)
{
	int64_t length = step * (int64_t)(n - 1);

	if (length < 0)
		*low += length;
	else
		*high += length;
}

/* The planes of the visible picture, in memory. */
struct pixels {
	const void *planes[DLBUF_MAX_PLANES];
	int64_t pitches[DLBUF_MAX_PLANES];
	uintptr_t moves[DLBUF_MAX_PLANES];	/* to where the tensor's mapping has the plane */
};

static int check_overlap(const struct dlbuf_prepare *p, const struct pixels *px,
			 const struct image *image)
{
	const struct source *s = &p->source;
	int64_t bytes = dtypes[p->store].bits / 8;
	uintptr_t low = (uintptr_t)image->data, high = low + bytes;

	cover(image->steps.x * bytes, p->info.width, &low, &high);
	cover(image->steps.y * bytes, p->info.height, &low, &high);
	cover(image->steps.channel * bytes, p->nout, &low, &high);
	for (uint32_t i = 0; i < s->nplanes; i++) {
		const struct dlbuf_format_plane *f = &s->planes[i];
		uintptr_t a = (uintptr_t)px->planes[i] + px->moves[i], b;

		b = a + (uintptr_t)prepare_row_bytes(s, i, (int64_t)s->packed.skip + s->width);
		cover(px->pitches[i], (s->height + f->vsub - 1) / f->vsub, &a, &b);
		if (a < high && low < b)
			return fail(-EOPNOTSUPP, "the tensor overlaps plane %u of the frame", i);
	}
	return 0;
}

/* No picture has more bytes between its first and its last row. */
#define MOST (INTPTR_MAX / 2)

/* skip: pixels, of whole groups, before those of the visible picture, in rows of bytes. */
static int find_plane(const struct dlbuf_prepare *p, const DLManagedTensorVersioned *dl, uint32_t i,
		      uint32_t skip, struct pixels *px)
{
	const struct source *s = &p->source;
	const struct dlbuf_format_plane *f = &s->planes[i];
	const DLTensor *t;
	int64_t rows = (s->height + f->vsub - 1) / f->vsub;
	int64_t columns = (s->width + f->hsub - 1) / f->hsub, step;
	bool bytes = s->view == DLBUF_VIEW_ROWS;
	int64_t least = 0;
	int ndim = f->channels > 1 && !bytes ? 3 : 2;

	if (!dl)
		return fail(-EINVAL, "plane %u is NULL", i);
	if (dl->version.major != DLPACK_MAJOR_VERSION)
		return fail(-EPROTO, "plane %u is of DLPack %u, this library has %d", i,
			    dl->version.major, DLPACK_MAJOR_VERSION);
	t = &dl->dl_tensor;
	if (bytes)
		least = prepare_row_bytes(s, i, (int64_t)skip + s->packed.skip + s->width);
	if (check_tensor_device(p, t, "a plane"))
		return -EOPNOTSUPP;
	if (t->dtype.code != s->format->type || t->dtype.bits != s->format->bits ||
	    t->dtype.lanes != 1)
		return fail(-EOPNOTSUPP, "the dtype of plane %u of %s is %s, not %s", i,
			    format_name(s->format), prepare_dtype(t->dtype).s,
			    prepare_dtype((DLDataType){ s->format->type, s->format->bits, 1 }).s);
	if (!t->shape || !t->data)
		return fail(-EINVAL, "the %s of plane %u is NULL", t->shape ? "data" : "shape", i);
	/* Rows of bytes may have their padding. */
	if (bytes && (t->ndim != ndim || t->shape[0] != rows || t->shape[1] < least))
		return fail(-EINVAL, "plane %u of %s has another shape than %lld rows of %lld "
			    "bytes or more", i, format_name(s->format), (long long)rows,
			    (long long)least);
	if (t->ndim != ndim || t->shape[0] != rows || (!bytes && t->shape[1] != columns) ||
	    (ndim == 3 && t->shape[2] != f->channels))
		return fail(-EINVAL, "plane %u of %s has another shape than %lld x %lld values "
			    "of %u", i, format_name(s->format), (long long)rows, (long long)columns,
			    f->channels);
	step = rows == 1 ? 0 : t->strides ? t->strides[0] :
		ndim == 3 ? columns * f->channels : t->shape[1];
	if (t->strides && ((t->shape[1] > 1 && t->strides[1] != (bytes ? 1 : f->channels)) ||
			   (ndim == 3 && t->strides[2] != 1)))
		return fail(-EOPNOTSUPP, "the strides of plane %u are not rows of %s", i,
			    format_name(s->format));
	if (check_aligned(p, t, "a plane"))
		return -EOPNOTSUPP;
	px->planes[i] = (const char *)((uintptr_t)t->data + (uintptr_t)t->byte_offset +
				       (skip ? (size_t)prepare_row_bytes(s, i, skip) : 0));
	if (__builtin_mul_overflow(step, f->bits / 8, &px->pitches[i]) ||
	    __builtin_mul_overflow(px->pitches[i], rows, &step) || step > MOST || step < -MOST)
		return fail(-EOVERFLOW, "the rows of plane %u are too far apart", i);
	return 0;
}

/* Acquires a tensor of dlbuf that the caller has not acquired. 1: it must be released. */
static int begin_access(DLManagedTensorVersioned *dl, uint32_t access, uint64_t deadline_ns)
{
	DLBUF_OPTS(dlbuf_acquire_opts, wait, .deadline_ns = deadline_ns);
	struct tensor *t;
	int ret;

	if (dl->deleter != tensor_delete)
		return 0;
	ret = tensor_of(dl, &t);
	if (ret)
		return ret;
	if (__atomic_load_n(&t->acquired, __ATOMIC_RELAXED) & access)
		return 0;
	ret = dlbuf_acquire(dl, access, NULL, &wait);
	return ret ? ret : 1;
}

/* The images that a call writes: opts.index, opts.index + 1, ... of a tensor. */
struct batch {
	struct dlbuf_prepare_run_opts opts;	/* ncrops is 1 without crops */
	DLManagedTensorVersioned *out;
	uint32_t skip;			/* of each row of the planes: as find_plane() */
};

/* Finds image i of the batch, and aims at its crop. */
static int find_crop(struct dlbuf_prepare *p, const struct batch *b, uint32_t i,
		     struct image *image)
{
	const DLTensor *t = &b->out->dl_tensor;
	char why[512];
	int ret = 0;

	/* The array of crops may end with the images: a further crop is not read. */
	if (b->opts.crops && (!i || t->ndim != 4 || !t->shape || b->opts.index + i < t->shape[0]))
		ret = prepare_crop(p, &b->opts.crops[i]);
	if (!ret)
		ret = find_image(p, b->out, b->opts.index + i, image);
	if (ret && b->opts.crops) {
		snprintf(why, sizeof(why), "%s", dlbuf_last_error());
		return fail(ret, "crop %u: %s", i, why);
	}
	return ret;
}

/*
 * Checks all images before one is written. *image is the last of them. The first info has the size
 * of all.
 */
static int check_batch(struct dlbuf_prepare *p, const struct batch *b, const struct pixels *px,
		       struct image *image)
{
	int ret = 0;

	for (uint32_t i = 0; i < b->opts.ncrops && !ret; i++) {
		ret = find_crop(p, b, i, image);
		if (!ret && !p->program)
			ret = check_overlap(p, px, image);
		if (!ret && b->opts.infos) {
			size_t size = b->opts.infos->size;
			struct dlbuf_prepare_info *info =
				(void *)((char *)b->opts.infos + i * size);

			info->size = size;
			ret = INFO_PUT(info, &p->info, "dlbuf_prepare_info");
		}
	}
	return ret;
}

#ifdef CONFIG_PREPARE_DEVICE
/* Up to this many crops are one job: a device that computes longer may be taken for hung. */
#define TOGETHER 64
/* Largest distance in bytes of an image of a job from the first: a device counts in 32 bits. */
#define APART (1 << 30)

static bool is_far(const char *a, const char *b)
{
	return a > b ? a - b > APART : b - a > APART;
}

/*
 * Images of the plan's own crop run the loaded program. Other crops have programs of their own; up
 * to TOGETHER of them are loaded and run at once. If a run fails, the earlier runs have ended
 * before the frame is given back.
 */
static int run_on_device(struct dlbuf_prepare *c, DLManagedTensorVersioned *const planes[],
			 uint32_t n, const struct pixels *px, const struct batch *b)
{
	uint32_t room = b->opts.ncrops < TOGETHER ? b->opts.ncrops : TOGETHER, k;
	struct tensor *list[DLBUF_MAX_PLANES + 1];
	struct program_job one = { .program = NULL }, *jobs = &one;
	const char *first = NULL;
	struct image image = { .data = NULL };
	char why[512];
	int ret = check_batch(c, b, px, &image);

	if (!ret)
		ret = prepare_tensors(c, planes, n, b->out, list);
	if (!ret && b->opts.crops)
		jobs = sys_calloc(room, sizeof(*jobs));
	if (!jobs)
		return fail(-ENOMEM, "no memory for %u crops", room);
	for (uint32_t i = 0; i < b->opts.ncrops && !ret; i += k) {
		for (k = 0; k < room && i + k < b->opts.ncrops && !ret; k++) {
			if (b->opts.ncrops > 1)
				ret = find_crop(c, b, i + k, &image);
			if (!ret && k && is_far(first, image.data))
				break;
			first = k ? first : image.data;
			if (!ret && b->opts.crops)
				ret = prepare_axes(c);
			if (!ret)
				ret = prepare_job(c, b->opts.crops, list, n, px->planes,
						  px->pitches, &image, &jobs[k]);
		}
		if (!ret)
			ret = prepare_run(c, list, n, jobs, k, b->opts.deadline_ns);
		for (uint32_t j = 0; j < k; j++) {
			free(jobs[j].program);
			jobs[j].program = NULL;
		}
		if (ret && i) {
			snprintf(why, sizeof(why), "%s", dlbuf_last_error());
			dlbuf_device_drain(c->dev, 0);
			fail(ret, "%s", why);
		}
	}
	if (jobs != &one)
		free(jobs);
	return ret;
}
#endif

static int run_tensors(struct dlbuf_prepare *p, DLManagedTensorVersioned *const planes[],
		       uint32_t n, const struct batch *b)
{
	bool begun[DLBUF_MAX_PLANES + 1] = { false };
	struct pixels px = { 0 };
	struct image image;
	int ret = b->opts.crops ? prepare_crops(p) : 0, err;
	struct dlbuf_prepare *c = b->opts.crops ? p->crops : p;

	for (uint32_t i = 0; i < n && !ret; i++)
		ret = find_plane(p, planes[i], i, b->skip, &px);
#ifdef CONFIG_PREPARE_DEVICE
	if (!ret && p->program)
		return run_on_device(c, planes, n, &px, b);
#endif
	for (uint32_t i = 0; i < n && !ret && b->out; i++)
		px.moves[i] = distance(planes[i], b->out);
	if (!ret)
		ret = check_batch(c, b, &px, &image);
	for (uint32_t i = 0; i <= n && !ret; i++) {
		ret = begin_access(i < n ? planes[i] : b->out, i < n ? DLBUF_READ : DLBUF_WRITE,
				   b->opts.deadline_ns);
		begun[i] = ret > 0;
		ret = ret > 0 ? 0 : ret;
	}
	for (uint32_t i = 0; i < b->opts.ncrops && !ret; i++) {
		if (b->opts.ncrops > 1)
			ret = find_crop(c, b, i, &image);
		if (!ret && b->opts.crops)
			ret = prepare_tables(c);
		if (!ret)
			prepare_rows(c, px.planes, px.pitches, &image);
	}
	for (uint32_t i = 0; i <= n; i++) {
		err = begun[i] ? dlbuf_release(i < n ? planes[i] : b->out, NULL, NULL) : 0;
		ret = ret ? ret : err;
	}
	return ret;
}

/*
 * The plan is this thread's until its busy is 0 again. A child of fork() has no thread that would
 * make it 0: there the parent's number does not count.
 */
static int claim(struct dlbuf_prepare *p)
{
	unsigned int ours = fork_generation + 1, old = __atomic_load_n(&p->busy, __ATOMIC_RELAXED);

	return old == ours || !__atomic_compare_exchange_n(&p->busy, &old, ours, false,
							   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED) ?
	       fail(-EBUSY, "another thread uses the plan") : 0;
}

static void unclaim(struct dlbuf_prepare *p)
{
	__atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE);
}

/* Options of one run: those of the plan's own crop are those of one crop. */
static int get_batch(struct batch *b, const struct dlbuf_prepare_run_opts *opts,
		     DLManagedTensorVersioned *out)
{
	int ret = OPTS_GET_RESERVED(&b->opts, opts, "dlbuf_prepare_run_opts");
	const struct dlbuf_prepare_info *infos;

	if (ret)
		return ret;
	infos = b->opts.infos;
	if (!out)
		return fail(-EINVAL, "the tensor is NULL");
	if (!b->opts.crops != !b->opts.ncrops)
		return fail(-EINVAL, b->opts.crops ? "there are no crops: ncrops is 0" :
			    "crops is NULL, and ncrops is %u", b->opts.ncrops);
	if (infos && infos->size % _Alignof(struct dlbuf_prepare_info))
		return fail(-EINVAL, "infos with a size of %zu are not aligned: set it to "
			    "sizeof(struct dlbuf_prepare_info)", infos->size);
	b->opts.ncrops += !b->opts.crops;
	b->out = out;
	b->skip = 0;
	return infos ? INFO_CHECK(infos, "dlbuf_prepare_info") : 0;
}

int dlbuf_prepare_tensors(struct dlbuf_prepare *p, DLManagedTensorVersioned *const planes[],
			  uint32_t n, const struct dlbuf_prepare_run_opts *opts,
			  DLManagedTensorVersioned *out)
{
	struct batch b;
	int ret = get_batch(&b, opts, out);

	if (ret)
		return ret;
	if (!p || !planes)
		return fail(-EINVAL, "the plan or planes is NULL");
	if (n != p->source.nplanes)
		return fail(-EINVAL, "%u tensors, %s has %u planes", n,
			    format_name(p->source.format), p->source.nplanes);
	ret = claim(p);
	if (ret)
		return ret;
	ret = run_tensors(p, planes, n, &b);
	unclaim(p);
	return ret;
}

static bool same_kind(const struct dlbuf_frame *f, const struct dlbuf_frame *like)
{
	return f->width == like->width && f->height == like->height && f->code == like->code &&
		f->code_space == like->code_space && f->modifier == like->modifier &&
		f->orientation == like->orientation &&
		!memcmp(&f->crop, &like->crop, sizeof(f->crop)) &&
		!memcmp(&f->colour, &like->colour, sizeof(f->colour));
}

/* A plan is for frames of one kind. */
static int check_kind(const struct dlbuf_prepare *p, const struct dlbuf_frame *f)
{
	const struct dlbuf_frame *like = &p->like;
	const char *what;
	int ret;

	/* The import checks the unused members, but a difference could be in one of them. */
	if (same_kind(f, like))
		return 0;
	ret = frame_check_unused(f);
	if (ret)
		return ret;
	if (f->width != like->width || f->height != like->height)
		what = "size";
	else if (f->code != like->code || f->code_space != like->code_space)
		what = "format";
	else if (f->modifier != like->modifier)
		what = "modifier";
	else if (f->orientation != like->orientation)
		what = "orientation";
	else
		what = memcmp(&f->crop, &like->crop, sizeof(f->crop)) ? "crop" : "colour";
	return fail(-EINVAL, "the plan is for %ux%u pixels of %s, and the frame has another %s: it "
		    "is %ux%u pixels of %s", like->width, like->height, code_text(like->code).s,
		    what, f->width, f->height, code_text(f->code).s);
}

/* View ROWS has whole rows, so the columns are cropped here, by the plan's crop. */
static uint32_t show_rows(struct dlbuf_frame *f, uint32_t samples)
{
	struct dlbuf_rect all = { 0 };

	if (frame_crop(f, &all))
		return 0;
	f->crop = (struct dlbuf_rect){ 0, all.y, f->width, all.height };
	return samples ? all.x - all.x % samples : all.x;
}

/*
 * A tensor of packed 4:2:2 has whole groups of pixels. If the picture ends inside a group, the plan
 * reads only the picture's pixels of it.
 */
static void show_groups(struct dlbuf_frame *f, uint32_t hsub)
{
	struct dlbuf_rect all;

	if (hsub == 1 || frame_crop(f, &all))
		return;
	f->width += (hsub - f->width % hsub) % hsub;
	if (f->crop.width)
		f->crop.width += (hsub - f->crop.width % hsub) % hsub;
}

static int run_frame(struct dlbuf_prepare *p, const struct dlbuf_frame *frame, struct batch *b)
{
	const struct dlbuf_import_opts import = { .access = DLBUF_READ, .view = p->source.view };
	DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES];
	struct dlbuf_frame f;
	uint32_t n = 0;
	int ret;

	ret = OPTS_GET(&f, frame, "dlbuf_frame");
	if (!ret)
		ret = check_kind(p, &f);
	if (!ret)
		ret = device_check(p->dev);
	/*
	 * If the call fails, release must not be called. A shared lease is held until the pixels
	 * were read.
	 */
	if (!f.lease)
		f.release = NULL;
	else if (!ret)
		ret = lease_share(&f);
	if (ret)
		return ret;
	show_groups(&f, p->source.planes[0].hsub);
	if (p->source.view == DLBUF_VIEW_ROWS)
		b->skip = show_rows(&f, p->source.packed.samples);
	ret = frame_import_shared(p->dev, &f, &import, PATHS_SHARED, tensors, &n);
	if (ret)
		return ret;
	ret = run_tensors(p, tensors, n, b);
	if (!ret) {
		struct lease *lease = container_of(tensors[0], struct tensor, versioned)->lease;

		if (!f.lease) {
			lease->release = frame->release;
			lease->data = frame->release_data;
		}
	}
	while (n--)
		tensors[n]->deleter(tensors[n]);
	return ret;
}

int dlbuf_prepare_frame(struct dlbuf_prepare *p, const struct dlbuf_frame *frame,
			const struct dlbuf_prepare_run_opts *opts, DLManagedTensorVersioned *out)
{
	struct batch b;
	int ret = get_batch(&b, opts, out);

	if (ret)
		return ret;
	if (!p || !frame)
		return fail(-EINVAL, "the plan or the frame is NULL");
	if (!p->dev)
		return fail(-EINVAL, "the plan was made without a device, for "
			    "dlbuf_prepare_tensors() only");
	ret = claim(p);
	if (ret)
		return ret;
	ret = run_frame(p, frame, &b);
	unclaim(p);
	return ret;
}
