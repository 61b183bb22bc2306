// SPDX-License-Identifier: MIT
/* The run: frames of a camera on each device, every byte compared. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "names.h"
#include "survey.h"
#include "tool.h"
#include "verify.h"

/* The tensors of one frame on one device. */
struct planes {
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;
};

/*
 * Open files, without regular ones that have a name: a driver's thread may have
 * its shader cache open for a moment.
 */
int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	struct stat st;
	int n = -1; /* without dir's own fd */

	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (!fstatat(dirfd(dir), entry->d_name, &st, 0) &&
		    S_ISREG(st.st_mode) && st.st_nlink)
			continue;
		n++;
	}
	closedir(dir);
	return n;
}

/* ---------------------------------------------------------------- devices */

static struct dlbuf_device_stats stats_of(const struct device *d)
{
	struct dlbuf_device_stats stats = { .size = sizeof(stats) };

	dlbuf_device_get_stats(d->dev, &stats);
	return stats;
}

static void free_series(struct device *d)
{
	free(d->first.ns);
	free(d->cached.ns);
	free(d->acquire.ns);
	free(d->release.ns);
	free(d->read.ns);
	input_free(&d->input);
}

static void close_device(struct device *d)
{
	free_series(d);
	for (uint32_t i = 0; i < DLBUF_MAX_PLANES; i++)
		bytes_free(&d->got[i]);
	dlbuf_device_close(d->dev);
	*d = (struct device){ 0 };
}

static int open_device(struct verify *v, const char *name)
{
	struct device *d = &v->devices[v->ndevices];
	int ret;

	if (v->ndevices == MAX_DEVICES)
		return fail(STATUS_USAGE, "more than %d devices", MAX_DEVICES);
	ret = dlbuf_device_open(name, NULL, &d->dev);
	if (ret)
		return fail_dlbuf(ret);
	v->nopen = ++v->ndevices;
	d->info.size = sizeof(d->info);
	ret = dlbuf_device_get_info(d->dev, &d->info);
	if (ret)
		return fail_dlbuf(ret);
	make_printable(d->info.description);
	make_printable(d->info.driver);
	d->access = access_find(d->info.name);
	if (!d->access)
		return fail(STATUS_ABSENT, "dmabuf-test cannot read the memory of %s "
			    "yet", d->info.name);
	input_warm_up(v, d);
	return 0;
}

static void leave_out(struct verify *v, const char *name, bool absent,
		      const char *reason)
{
	struct left_out *l = &v->left_out[v->nleft_out];

	if (v->nleft_out == MAX_LEFT_OUT)
		return;
	v->nleft_out++;
	l->absent = absent;
	snprintf(l->name, sizeof(l->name), "%s", name);
	snprintf(l->reason, sizeof(l->reason), "%s", reason_of(name, reason));
	make_printable(l->reason);
}

/* For "all": a child's result for one device. */
static int open_found(const struct dlbuf_device_info *info, void *data)
{
	struct verify *v = data;
	uint32_t n = v->ndevices;
	char reason[512] = "";
	int status;

	if (info->status) {
		leave_out(v, info->name, info->status == -ENODEV ||
			  info->status == -ENOSYS, info->reason);
		return 0;
	}
	fail_divert(reason, sizeof(reason));
	status = open_device(v, info->name);
	fail_divert(NULL, 0);
	if (!status)
		return 0;
	if (v->ndevices > n)
		close_device(&v->devices[n]);
	v->nopen = v->ndevices = n;
	leave_out(v, info->name, false, reason);
	return 0;
}

void verify_leave_out(struct verify *v)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .access = DLBUF_READ,
		   .view = v->view);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	DLBUF_INFO(dlbuf_frame, frame);
	char reasons[MAX_DEVICES][256];
	bool refused[MAX_DEVICES];
	uint32_t n, taken = 0;

	if (!v->all || dlbuf_camera_buffer(v->cam->cam, 0, &frame))
		return;
	for (uint32_t i = 0; i < v->ndevices; i++) {
		struct device *d = &v->devices[i];

		n = 0;
		refused[i] = dlbuf_import_frame(d->dev, &frame, &opts, t, &n) ==
			     -EOPNOTSUPP;
		snprintf(reasons[i], sizeof(reasons[i]), "%s", dlbuf_last_error());
		taken += !refused[i];
		while (n--)
			t[n]->deleter(t[n]);
		/* The run counts first imports. */
		dlbuf_device_trim(d->dev, 0);
		d->before = stats_of(d);
	}
	for (uint32_t i = v->ndevices; taken && i--;) {
		struct device d = v->devices[i];

		if (!refused[i])
			continue;
		leave_out(v, d.info.name, false, reasons[i]);
		v->ndevices--;
		memmove(&v->devices[i], &v->devices[i + 1],
			(v->ndevices - i) * sizeof(d));
		v->devices[v->ndevices] = d;
	}
}

static void notified(void *done)
{
	sem_post(done);
}

/*
 * The library's event thread, which a lease may need or not, holds fds of its
 * own as long as a device is open. It starts now, so that it does not count as a leak of the run.
 */
static int start_event_thread(void)
{
	int fd = eventfd(0, EFD_CLOEXEC), ret;
	sem_t done;

	if (fd < 0)
		return fail(STATUS_SYSTEM, "eventfd: %s", strerror(errno));
	sem_init(&done, 0, 0);
	ret = dlbuf_fence_notify(fd, notified, &done);
	if (!ret) {
		eventfd_write(fd, 1);
		while (sem_wait(&done))
			; /* a signal */
	}
	sem_destroy(&done);
	close(fd);
	return ret ? fail_dlbuf(ret) : 0;
}

int verify_open_devices(struct verify *v, const char *names)
{
	char *copy = strdup(names), *rest = copy, *name;
	int status = 0;

	if (!copy)
		return fail(STATUS_SYSTEM, "no memory for the devices");
	pthread_mutex_init(&v->lock, NULL);
	pthread_cond_init(&v->came_back, NULL);
	v->all = !strcmp(names, "all");
	if (v->all)
		status = survey_devices(names, v->timeout_ns / 1000000, open_found, v);
	if (v->all && !status && !v->ndevices)
		status = fail(STATUS_ABSENT, "no device can be used; see "
			      "dmabuf-test list");
	while (!v->all && !status && (name = strsep(&rest, ",")))
		status = open_device(v, name);
	free(copy);
	return status ? status : start_event_thread();
}

void verify_close_devices(struct verify *v)
{
	while (v->nopen)
		close_device(&v->devices[--v->nopen]);
	v->ndevices = 0;
	for (uint32_t i = 0; i < 2 * DLBUF_MAX_PLANES; i++)
		bytes_free(&v->reference[i % 2][i / 2]);
}

/* ---------------------------------------------------------------- filling */

/*
 * Blocks of a buffer's filling, at least as long as a cache line of 32 bytes. No
 * frame has such a block by chance, and each contains its position and its turn.
 */
#define BLOCK 32u

static void filling_at(uint64_t filling, size_t block, uint64_t out[4])
{
	for (size_t i = 0; i < 4; i++)
		out[i] = (filling * 0x9e3779b97f4a7c15 + block * 4 + i) *
			 0xd1342543de82ef95;
}

static int fill_buffer(struct verify *v, struct lease *lease)
{
	const struct camera_plane *p = v->cam->buffers[lease->index];
	uint64_t words[4];
	int status = camera_map_sync(v->cam, lease->index, DMA_BUF_SYNC_START |
				     DMA_BUF_SYNC_WRITE);

	if (status)
		return status;
	lease->filling++;
	for (uint32_t i = 0; i < v->cam->nplanes; i++)
		for (size_t b = 0; b < p[i].bytes / BLOCK; b++) {
			filling_at(lease->filling, b, words);
			memcpy((char *)p[i].map + b * BLOCK, words, BLOCK);
		}
	return camera_map_sync(v->cam, lease->index, DMA_BUF_SYNC_END |
			       DMA_BUF_SYNC_WRITE);
}

/* Number of bytes of these rows that still have the filling; only blocks within a row count. */
static uint64_t count_filling(const struct camera_plane *p,
			      const struct rows *rows, uint64_t filling)
{
	uint64_t words[4], n = 0;

	for (uint32_t y = 0; y < rows->rows; y++) {
		size_t first = rows->offset + y * rows->pitch;
		size_t end = first + rows->bytes;

		for (size_t b = (first + BLOCK - 1) / BLOCK;
		     (b + 1) * BLOCK <= end; b++) {
			filling_at(filling, b, words);
			if (!memcmp((char *)p->map + b * BLOCK, words, BLOCK))
				n += BLOCK;
		}
	}
	return n;
}

static void check_written(struct verify *v, struct lease *lease,
			  const struct plane_rows rows[])
{
	uint64_t n = 0;

	/* A frame that the driver marks as bad is not complete. */
	if (!lease->filling || lease->frame.flags & DLBUF_FRAME_DAMAGED)
		return;
	for (uint32_t i = 0; i < v->nplanes; i++)
		n += count_filling(&v->cam->buffers[lease->index][rows[i].memory],
				   &rows[i].rows, lease->filling);
	if (n && !v->unwritten)
		fail(STATUS_MISMATCH, "frame %llu: %llu bytes are what the CPU "
		     "wrote there before the capture: the camera did not write "
		     "them, or the CPU reads stale lines of its cache",
		     (unsigned long long)v->done, (unsigned long long)n);
	v->filled++;
	v->unwritten += n;
}

/* ---------------------------------------------------------------- leases */

/*
 * Runs when the last tensor of a frame on any device is deleted and all work is
 * complete. If the work ended after the deletion, it runs on another thread.
 */
static void on_release(void *data)
{
	struct lease *lease = data;
	struct verify *v = lease->verify;

	pthread_mutex_lock(&v->lock);
	v->released++;
	if (v->written && fill_buffer(v, lease))
		v->status = STATUS_SYSTEM;
	lease->frame.release(lease->frame.release_data);
	v->requeued++;
	pthread_cond_signal(&v->came_back);
	pthread_mutex_unlock(&v->lock);
}

/* All counts, also those of errors, are final when all leases have fired. */
static int wait_for_leases(struct verify *v)
{
	struct timespec until;
	int status;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += v->timeout_ns / 1000000000 + 1;
	pthread_mutex_lock(&v->lock);
	while (v->released < v->granted &&
	       !pthread_cond_timedwait(&v->came_back, &v->lock, &until))
		;
	status = v->status;
	pthread_mutex_unlock(&v->lock);
	return status;
}

static int lease_status(struct verify *v)
{
	int status;

	pthread_mutex_lock(&v->lock);
	status = v->status;
	pthread_mutex_unlock(&v->lock);
	return status;
}

/* ---------------------------------------------------------------- the run's state */

void verify_reset(struct verify *v)
{
	for (uint32_t i = 0; i < v->ndevices; i++) {
		struct device *d = &v->devices[i];
		struct bytes got[DLBUF_MAX_PLANES];

		free_series(d);
		memcpy(got, d->got, sizeof(got));
		*d = (struct device){
			.dev = d->dev,
			.info = d->info,
			.access = d->access,
			.before = stats_of(d),
		};
		memcpy(d->got, got, sizeof(got));
	}
	v->nplanes = 0;
	v->undrawn = NULL;
	v->drawn = false;
	v->done = v->elapsed_ns = 0;
	v->granted = v->released = v->requeued = 0;
	v->repeated = v->mismatched = v->filled = v->unwritten = v->inputs_differ = 0;
	memset(v->leases, 0, sizeof(v->leases));
	v->status = 0;
}

enum dlbuf_view verify_view(const struct dlbuf_format_info *info)
{
	static const enum dlbuf_view views[] = {
		DLBUF_VIEW_PLANES, DLBUF_VIEW_WORDS, DLBUF_VIEW_ROWS,
	};

	for (size_t i = 0; i < ARRAY_SIZE(views); i++)
		if (info->views & 1u << views[i])
			return views[i];
	return DLBUF_VIEW_BYTES;
}

/* ---------------------------------------------------------------- one frame */

static uint64_t misses(const struct device *d)
{
	return stats_of(d).misses;
}

static int note_tensor(struct device *d, const DLManagedTensorVersioned *t,
		       uint32_t plane)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	const DLTensor *dl = &t->dl_tensor;
	int ret = dlbuf_tensor_get_info(t, &info);

	if (ret)
		return fail_dlbuf(ret);
	if (info.path > d->path)
		d->path = info.path;
	if (t->flags & DLPACK_FLAG_BITMASK_IS_COPIED ||
	    info.path >= DLBUF_PATH_BRIDGE)
		d->bytes_copied += info.end - info.first;
	d->first_byte[plane] = info.first;
	d->dl[plane] = *dl;
	d->dl[plane].shape = d->dims[plane];
	d->dl[plane].strides = d->dims[plane] + 3;
	for (int i = 0; i < dl->ndim && i < 3; i++) {
		d->dims[plane][i] = dl->shape[i];
		d->dims[plane][3 + i] = dl->strides[i];
	}
	return 0;
}

static int import_frame(struct verify *v, struct device *d,
			const struct dlbuf_frame *frame, struct planes *p)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .access = DLBUF_READ,
		   .view = v->view);
	uint64_t before = misses(d), start = now_ns(), ns;
	int ret = dlbuf_import_frame(d->dev, frame, &opts, p->t, &p->n);

	ns = now_ns() - start;
	if (ret) {
		p->n = 0;
		/*
		 * These errors mean that the library refuses the frame; other errors come from
		 * the device.
		 */
		return fail(ret == -EINVAL || ret == -EOPNOTSUPP ?
			    STATUS_REFUSED : STATUS_SYSTEM, "frame %llu on %s: "
			    "%s", (unsigned long long)v->done, d->info.name,
			    dlbuf_last_error());
	}
	d->nplanes = p->n;
	if (p->n != v->nplanes)
		return fail(STATUS_MISMATCH, "%s has %u planes on %s, not %u",
			    format_title(&v->format), p->n, d->info.name,
			    v->nplanes);
	for (uint32_t i = 0; i < p->n; i++) {
		ret = note_tensor(d, p->t[i], i);
		if (ret)
			return ret;
	}
	return series_add(misses(d) > before ? &d->first : &d->cached, ns);
}

static void delete_planes(struct planes *p)
{
	while (p->n--)
		p->t[p->n]->deleter(p->t[p->n]);
	p->n = 0;
}

static int acquire_planes(struct verify *v, struct device *d, struct planes *p)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts,
		   .deadline_ns = now_ns() + v->timeout_ns);
	uint64_t start = now_ns();

	for (uint32_t i = 0; i < p->n; i++)
		if (dlbuf_acquire(p->t[i], DLBUF_READ, NULL, &opts))
			return fail(STATUS_SYSTEM, "acquire on %s: %s",
				    d->info.name, dlbuf_last_error());
	return series_add(&d->acquire, now_ns() - start);
}

static int release_planes(struct device *d, struct planes *p)
{
	uint64_t start = now_ns();

	for (uint32_t i = 0; i < p->n; i++)
		if (dlbuf_release(p->t[i], NULL, NULL))
			return fail(STATUS_SYSTEM, "release on %s: %s",
				    d->info.name, dlbuf_last_error());
	return series_add(&d->release, now_ns() - start);
}

/*
 * Draws the last frame: the library prepares the tensors of the first CPU
 * device.
 */
static int draw(struct verify *v, const struct planes *p)
{
	DLBUF_INFO(dlbuf_frame, frame);
	enum dlbuf_view view = verify_view(&v->format);
	static char text[64];
	int ret;

	if (v->drawn || !v->png || v->done + 1 < v->frames)
		return 0;
	v->drawn = true;
	ret = dlbuf_camera_buffer(v->cam->cam, 0, &frame);
	if (ret)
		return fail_dlbuf(ret);
	if (v->view != view) {
		snprintf(text, sizeof(text), "it is seen as %s, not as %s",
			 dlbuf_view_name(v->view), dlbuf_view_name(view));
		v->undrawn = text;
		return 0;
	}
	/* The tensors are the whole buffer. */
	frame.crop = (struct dlbuf_rect){ 0 };
	return picture_save(v->png, &frame, &v->format, p->t, p->n, &v->undrawn);
}

/* The tensors' deleters release tensors that are still acquired. */
static int read_planes(struct verify *v, struct device *d, struct planes *p)
{
	uint64_t start;
	int status = acquire_planes(v, d, p);

	if (status)
		return status;
	start = now_ns();
	for (uint32_t i = 0; !status && i < p->n; i++)
		status = bytes_read(&d->got[i], d->access, p->t[i], d->info.name, i,
				    v->timeout_ns);
	if (!status)
		status = series_add(&d->read, now_ns() - start);
	if (!status && d->info.device.device_type == kDLCPU)
		status = draw(v, p);
	if (!status)
		status = release_planes(d, p);
	return status;
}

static void compare(struct verify *v, struct device *d)
{
	bool good = true;

	for (uint32_t i = 0; i < d->nplanes; i++) {
		const struct bytes *want = &v->reference[v->done & 1][i], *got = &d->got[i];
		const struct rows *w = &want->rows, *g = &got->rows;
		bool same_rows = w->rows == g->rows && w->bytes == g->bytes;
		uint32_t y, x;

		if (same_rows && !bytes_differ(want, got, &y, &x))
			continue;
		good = false;
		/* The first one is printed; the report counts the rest. */
		if (v->mismatched++)
			continue;
		if (same_rows)
			fail(STATUS_MISMATCH, "frame %llu, plane %u: %s read 0x%02x at byte "
			     "%u of row %u, the reference has 0x%02x",
			     (unsigned long long)v->done, i, d->info.name,
			     bytes_row(got, y)[x], x, y, bytes_row(want, y)[x]);
		else
			fail(STATUS_MISMATCH, "frame %llu, plane %u: %s has %u rows of %u "
			     "bytes, the reference %u of %u", (unsigned long long)v->done,
			     i, d->info.name, g->rows, g->bytes, w->rows, w->bytes);
	}
	if (good)
		d->verified++;
	else
		d->mismatched++;
}

/*
 * The reference: a mapping by this tool and this tool's own table of formats. So a
 * mistake of dlbuf that is the same on every device is noticed.
 */
static int read_mapping(struct verify *v, uint32_t index)
{
	const struct camera_plane *buffer = v->cam->buffers[index];
	struct plane_rows rows[DLBUF_MAX_PLANES];
	int bad = rows_of_buffer(v->cam, index, v->view, v->format.reason,
				 rows), status = 0;

	if (bad >= 0)
		return fail(STATUS_SYSTEM, "%s: plane %d of %ux%u pixels, pitch "
			    "%u, is not within its buffer of %zu bytes",
			    v->cam->node, bad, v->cam->info.width,
			    v->cam->info.height, v->cam->pitch[0],
			    buffer[0].bytes);
	check_written(v, &v->leases[index], rows);
	for (uint32_t i = 0; !status && i < v->nplanes; i++)
		status = bytes_of_rows(&v->reference[v->done & 1][i],
				       buffer[rows[i].memory].map, &rows[i].rows);
	return status;
}

static int check_moving(struct verify *v)
{
	const struct bytes *now = v->reference[v->done & 1];
	const struct bytes *last = v->reference[~v->done & 1];
	uint32_t y, x;

	/* The bytes of a compressed frame may be as many as those of another, or not. */
	for (uint32_t i = 0; i < v->nplanes; i++)
		if (!v->done || now[i].rows.bytes != last[i].rows.bytes ||
		    bytes_differ(&now[i], &last[i], &y, &x))
			return 0;
	if (v->moving && !v->repeated)
		fail(STATUS_MISMATCH, "frame %llu is the same as the one before",
		     (unsigned long long)v->done);
	v->repeated++;
	return 0;
}

/*
 * Writes all bytes of the buffer, also those that the camera did not write, one dma-buf after
 * another.
 */
static int save_raw(struct verify *v, uint32_t index)
{
	if (!v->raw || v->done + 1 < v->frames)
		return 0;
	for (uint32_t i = 0; i < v->cam->nplanes; i++) {
		const struct camera_plane *p = &v->cam->buffers[index][i];
		/* A mapping ends with its page. */
		size_t bytes = v->cam->size[i] < p->bytes ? v->cam->size[i] :
							    p->bytes;

		if (fwrite(p->map, 1, bytes, v->raw->f) != bytes)
			return fail(STATUS_SYSTEM, "%s cannot be written: %s",
				    v->raw->path, strerror(errno));
	}
	return 0;
}

static int check_mapping(struct verify *v, uint32_t index)
{
	int status = camera_map_sync(v->cam, index, DMA_BUF_SYNC_START |
				     DMA_BUF_SYNC_READ), end;

	if (status)
		return status;
	status = read_mapping(v, index);
	if (!status)
		status = check_moving(v);
	if (!status)
		status = save_raw(v, index);
	end = camera_map_sync(v->cam, index, DMA_BUF_SYNC_END |
			      DMA_BUF_SYNC_READ);
	return status ? status : end;
}

/* All devices hold the frame at once, by one lease. */
static int import_all(struct verify *v, uint32_t index,
		      struct dlbuf_frame frame, struct planes planes[])
{
	struct lease *lease = &v->leases[index];
	int ret, status = 0;

	lease->verify = v;
	lease->index = index;
	lease->frame = frame;
	/* The reference is the whole buffer. */
	frame.crop = (struct dlbuf_rect){ 0 };
	frame.release = NULL;
	ret = dlbuf_lease_create(on_release, lease, &frame.lease);
	if (ret) {
		lease->frame.release(lease->frame.release_data);
		return fail_dlbuf(ret);
	}
	v->granted++;
	for (uint32_t i = 0; !status && i < v->ndevices; i++)
		status = import_frame(v, &v->devices[i], &frame, &planes[i]);
	dlbuf_lease_drop(frame.lease);
	return status;
}

/*
 * The reference is read last: its bracket would invalidate the cache before the
 * device cpu reads, and hide a missing invalidation by the tensor's bracket.
 */
static int one_frame(struct verify *v, const struct dlbuf_frame *frame,
		     uint32_t index)
{
	struct planes planes[MAX_DEVICES] = { 0 };
	int status = import_all(v, index, *frame, planes);

	for (uint32_t i = 0; !status && i < v->ndevices; i++)
		status = read_planes(v, &v->devices[i], &planes[i]);
	if (!status)
		status = check_mapping(v, index);
	for (uint32_t i = 0; !status && i < v->ndevices; i++)
		compare(v, &v->devices[i]);
	for (uint32_t i = 0; !status && v->input_width && i < v->ndevices; i++)
		status = input_make(v, &v->devices[i], frame);
	if (!status && v->input_width)
		status = input_check(v, frame);
	for (uint32_t i = 0; i < v->ndevices; i++)
		delete_planes(&planes[i]);
	return status ? status : lease_status(v);
}

/* ---------------------------------------------------------------- the run */

int verify_run(struct verify *v)
{
	DLBUF_INFO(dlbuf_frame, frame);
	uint64_t start = 0;
	uint32_t index;
	int status = 0, late;

	v->nplanes = rows_nplanes(v->cam, v->view, v->format.reason);
	if (!v->nplanes)
		return fail(STATUS_ABSENT, "dmabuf-test does not know the rows "
			    "of %s", format_title(&v->format));
	for (v->done = 0; !status && v->done < v->frames; ) {
		if (!v->quiet)
			progress("frame", v->done, v->frames);
		status = camera_wait(v->cam, v->timeout_ns / 1000000, &frame,
				     &index);
		if (status)
			break;
		if (!start)
			start = now_ns();
		v->elapsed_ns = now_ns() - start;
		status = one_frame(v, &frame, index);
		v->done++;
	}
	progress_clear();
	late = wait_for_leases(v);
	return status ? status : late;
}

int verify_finish(struct verify *v)
{
	uint64_t limit = now_ns() + v->timeout_ns;

	for (uint32_t i = 0; i < v->ndevices; i++) {
		struct device *d = &v->devices[i];

		d->stats = stats_of(d);
		d->stats.hits -= d->before.hits;
		d->stats.misses -= d->before.misses;
		/* The measured times are kept. */
		dlbuf_prepare_destroy(d->input.plan);
		d->input.plan = NULL;
		if (d->input.out)
			d->input.out->deleter(d->input.out);
		d->input.out = NULL;
		/* The camera's buffers will not be imported again. */
		dlbuf_device_trim(d->dev, 0);
	}
	/* The library's thread frees what a device used last, and then closes its own. */
	while ((v->fds_after = count_fds()) > v->fds_before && now_ns() < limit)
		usleep(1000);
	return 0;
}

static bool all_returned(const struct verify *v)
{
	return v->released == v->granted && v->requeued == v->frames &&
	       v->granted == v->frames &&
	       v->fds_after <= v->fds_before;
}

bool verify_good(const struct verify *v)
{
	for (uint32_t i = 0; i < v->ndevices; i++)
		if (v->devices[i].verified != v->frames)
			return false;
	return all_returned(v) && !(v->moving && v->repeated) && !v->unwritten &&
	       !v->inputs_differ;
}

int verify_status(const struct verify *v)
{
	/* Bytes that differ and repeated frames were reported at once. */
	if (!all_returned(v))
		return fail(STATUS_MISMATCH, "%llu leases of %llu were "
			    "released, %llu buffers of %llu queued again, and "
			    "of %d open files there are %d",
			    (unsigned long long)v->released,
			    (unsigned long long)v->granted,
			    (unsigned long long)v->requeued,
			    (unsigned long long)v->frames, v->fds_before,
			    v->fds_after);
	return verify_good(v) ? STATUS_VERIFIED : STATUS_MISMATCH;
}
