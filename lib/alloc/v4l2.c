// SPDX-License-Identifier: MIT
/* V4L2 nodes: see v4l2.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../dmabuf/fence.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "v4l2.h"

int node_failed(const struct node *node, const char *call)
{
	int err = errno;

	if (err == ENODEV)
		return fail(-err, "%s was unplugged after %llu frames (%s: %s)",
			    node->name, (unsigned long long)node->frames, call,
			    strerror(err));
	if (err == EBUSY)
		return fail(-err, "%s is busy, another program or another part "
			    "of this one uses it (%s: %s)", node->name, call,
			    strerror(err));
	/* In this library EINVAL means a wrong argument, and EAGAIN "would block". */
	return fail(err == EINVAL || err == EAGAIN ? -EIO : -err,
		    "%s: %s: %s", node->name, call, strerror(err));
}

int node_query(struct node *node, bool outputs)
{
	static const struct {
		uint32_t cap, type;
	} queues[] = {
		{ V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_VIDEO_M2M,
		  V4L2_BUF_TYPE_VIDEO_CAPTURE },
		{ V4L2_CAP_VIDEO_CAPTURE_MPLANE | V4L2_CAP_VIDEO_M2M_MPLANE,
		  V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE },
		{ V4L2_CAP_VIDEO_OUTPUT, V4L2_BUF_TYPE_VIDEO_OUTPUT },
		{ V4L2_CAP_VIDEO_OUTPUT_MPLANE,
		  V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE },
	};
	struct v4l2_capability *cap = &node->cap;
	uint32_t caps;
	size_t i = 0;

	if (sys_ioctl(node->fd, VIDIOC_QUERYCAP, cap) < 0) {
		if (errno == ENODEV)
			return node_failed(node, "VIDIOC_QUERYCAP");
		return fail(errno == EBADF ? -EBADF : -ENOTTY,
			    "%s is not a V4L2 node (VIDIOC_QUERYCAP: %s)",
			    node->name, strerror(errno));
	}
	/* capabilities describes all nodes of the hardware together. */
	caps = cap->capabilities & V4L2_CAP_DEVICE_CAPS ? cap->device_caps :
							  cap->capabilities;
	/* A camera is no codec: its capture queue works alone. */
	if (!outputs)
		caps &= ~(uint32_t)(V4L2_CAP_VIDEO_M2M |
				    V4L2_CAP_VIDEO_M2M_MPLANE);
	while (i < (outputs ? 4 : 2) && !(caps & queues[i].cap))
		i++;
	if (i == (outputs ? 4 : 2))
		return fail(-EOPNOTSUPP, "%s (%s, %s) does not capture video%s",
			    node->name, cap->card, cap->driver,
			    outputs ? " and does not put it out" : "");
	node->fmt.type = queues[i].type;
	if (!(caps & V4L2_CAP_STREAMING))
		return fail(-EOPNOTSUPP, "%s (%s, %s) cannot stream: it has no "
			    "buffers to share", node->name, cap->card,
			    cap->driver);
	return 0;
}

/* ---------------------------------------------------------------- format */

struct node_format node_format(const struct node *node)
{
	const struct v4l2_pix_format_mplane *mp = &node->fmt.fmt.pix_mp;
	const struct v4l2_pix_format *pix = &node->fmt.fmt.pix;

	return node_is_multi(node) ?
	       (struct node_format){ mp->pixelformat, mp->width, mp->height } :
	       (struct node_format){ pix->pixelformat, pix->width,
				     pix->height };
}

/* "NV12", "Y16-BE" */
static struct code_text letters(uint32_t code)
{
	struct code_text t = { "" };

	for (size_t i = 0; i < 4 && (code >> 8 * i & 0x7f) != ' '; i++)
		t.s[i] = code >> 8 * i & 0x7f;
	if (code >> 31)
		strcat(t.s, "-BE");
	return t;
}

static int no_such_format(const struct node *node, uint32_t code)
{
	struct v4l2_fmtdesc desc = { .type = node->fmt.type };
	char list[300] = "no list of formats";
	size_t len = 0;

	/* Lists as many formats as fit. */
	for (; len + 26 < sizeof(list); desc.index++) {
		if (sys_ioctl(node->fd, VIDIOC_ENUM_FMT, &desc) < 0)
			break;
		len += snprintf(list + len, sizeof(list) - len, "%s%s",
				len ? ", " : "", letters(desc.pixelformat).s);
	}
	return fail(-EOPNOTSUPP, "%s (%s) does not %s %s; it has %s%s",
		    node->name, node->cap.card,
		    V4L2_TYPE_IS_OUTPUT(desc.type) ? "take" : "capture in",
		    letters(code).s, list,
		    len + 26 < sizeof(list) ? "" : " ...");
}

/* Fills in the format to request. The driver fills in the rest. */
static void ask_format(struct node *node, const struct node_format *f,
		       uint32_t nfds, const uint64_t *pitch)
{
	struct v4l2_format *fmt = &node->fmt;

	/* The old format's values may not fit. */
	*fmt = (struct v4l2_format){ .type = fmt->type };
	if (node_is_multi(node)) {
		struct v4l2_pix_format_mplane *mp = &fmt->fmt.pix_mp;

		mp->width = f->width;
		mp->height = f->height;
		mp->pixelformat = f->code;
		mp->num_planes = nfds;
		for (uint32_t i = 0; i < nfds; i++)
			mp->plane_fmt[i].bytesperline = pitch[i];
	} else {
		fmt->fmt.pix.width = f->width;
		fmt->fmt.pix.height = f->height;
		fmt->fmt.pix.pixelformat = f->code;
		fmt->fmt.pix.bytesperline = nfds ? pitch[0] : 0;
	}
}

int node_set_format(struct node *node, unsigned long request,
		    const struct node_format *wanted, uint32_t nfds,
		    const uint64_t *pitch)
{
	const char *call = request == VIDIOC_S_FMT ? "VIDIOC_S_FMT" :
						     "VIDIOC_TRY_FMT";
	struct node_format f = *wanted;

	if (!f.code || !f.width || !f.height) {
		if (sys_ioctl(node->fd, VIDIOC_G_FMT, &node->fmt) < 0)
			return node_failed(node, "VIDIOC_G_FMT");
		f = node_format(node);
		f.code = wanted->code ? wanted->code : f.code;
		f.width = wanted->width ? wanted->width : f.width;
		f.height = wanted->height ? wanted->height : f.height;
	}
	ask_format(node, &f, nfds, pitch);
	if (sys_ioctl(node->fd, request, &node->fmt) < 0)
		return errno == EINVAL && wanted->code ?
		       no_such_format(node, wanted->code) :
		       node_failed(node, call);
	/* A driver that lacks the format sets another one and returns 0. */
	if (wanted->code && node_format(node).code != wanted->code)
		return no_such_format(node, wanted->code);
	if (!node_nfds(node) || node_nfds(node) > DLBUF_MAX_PLANES)
		return fail(-EOPNOTSUPP, "%s: %s gave a format of %u "
			    "planes", node->name, call, node_nfds(node));
	return 0;
}

/* ---------------------------------------------------------------- buffers */

static int reqbufs(const struct node *node, uint32_t *n)
{
	struct v4l2_requestbuffers req = {
		.count = *n,
		.type = node->fmt.type,
		.memory = node->memory,
	};
	int ret = sys_ioctl(node->fd, VIDIOC_REQBUFS, &req);

	*n = req.count;
	return ret;
}

void node_free(const struct node *node)
{
	uint32_t none = 0;

	reqbufs(node, &none);
}

int node_request(struct node *node, uint32_t memory, uint32_t *n)
{
	uint32_t none = 0;
	int err;

	node->memory = memory;
	if (reqbufs(node, n) < 0) {
		err = errno;
		/* Tests whether the driver has this kind of buffers. */
		if (err == EINVAL && reqbufs(node, &none) < 0)
			return fail(-EOPNOTSUPP, "%s (%s) has no %s buffers "
				    "(VIDIOC_REQBUFS: %s)", node->name,
				    node->cap.driver,
				    memory == V4L2_MEMORY_MMAP ? "mmap" :
				    "dma-buf", strerror(err));
		errno = err;
		return node_failed(node, "VIDIOC_REQBUFS");
	}
	if (!*n || *n > VIDEO_MAX_FRAME)
		return fail(-EIO, "%s: VIDIOC_REQBUFS gave %u buffers",
			    node->name, *n);
	return 0;
}

int node_export(const struct node *node, uint32_t index, uint32_t i, int *fd)
{
	struct v4l2_exportbuffer exp = {
		.type = node->fmt.type,
		.index = index,
		.plane = i,
		/* Without O_RDWR the fd is read-only, and GPUs map buffers for writing. */
		.flags = O_RDWR | O_CLOEXEC,
	};

	if (!sys_ioctl(node->fd, VIDIOC_EXPBUF, &exp))
		return raise_fd(exp.fd, fd);
	if (errno != ENOTTY && errno != EINVAL)
		return node_failed(node, "VIDIOC_EXPBUF");
	return fail(-EOPNOTSUPP, "%s (%s) cannot export its buffers "
		    "(VIDIOC_EXPBUF: %s)", node->name, node->cap.driver,
		    strerror(errno));
}

struct v4l2_buffer node_buffer(const struct node *node, uint32_t index,
			       struct v4l2_plane *planes)
{
	struct v4l2_buffer buf = {
		.index = index,
		.type = node->fmt.type,
		.memory = node->memory,
	};

	memset(planes, 0, DLBUF_MAX_PLANES * sizeof(*planes));
	if (node_is_multi(node)) {
		buf.m.planes = planes;
		buf.length = node_nfds(node);
	}
	return buf;
}

int node_queue(const struct node *node, uint32_t index, const int fds[])
{
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	struct v4l2_buffer buf = node_buffer(node, index, planes);

	for (uint32_t i = 0; node->memory == V4L2_MEMORY_DMABUF &&
	     i < node_nfds(node); i++) {
		if (node_is_multi(node)) {
			planes[i].m.fd = fds[i];
			planes[i].length = node_size(node, i);
		} else {
			buf.m.fd = fds[i];
			buf.length = node_size(node, i);
		}
	}
	return sys_ioctl(node->fd, VIDIOC_QBUF, &buf);
}

/* ---------------------------------------------------------------- parties */

static int open_one(struct node *node, int fd)
{
	char link[32];
	ssize_t n;
	int ret;

	node->fd = fd;
	node->name = node->path;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, node->path, sizeof(node->path) - 1);
	if (n <= 0)
		snprintf(node->path, sizeof(node->path), "fd %d", fd);
	ret = node_query(node, true);
	if (!ret && sys_ioctl(fd, VIDIOC_G_FMT, &node->fmt) < 0)
		ret = node_failed(node, "VIDIOC_G_FMT");
	return ret;
}

int nodes_open(const int *fds, size_t n, struct node **out)
{
	struct node *nodes;
	int ret = 0;

	*out = NULL;
	if (!n)
		return 0;
	if (!fds)
		return fail(-EINVAL, "v4l2 is NULL");
	nodes = sys_calloc(n, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	for (size_t i = 0; !ret && i < n; i++)
		ret = open_one(&nodes[i], fds[i]);
	if (ret)
		free(nodes);
	else
		*out = nodes;
	return ret;
}

int nodes_idle(const struct node *nodes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct v4l2_plane planes[VIDEO_MAX_PLANES] = { { 0 } };
		struct v4l2_buffer buf = { .type = nodes[i].fmt.type };

		/* VIDIOC_REQBUFS would free buffers of the application. */
		if (V4L2_TYPE_IS_MULTIPLANAR(buf.type)) {
			buf.m.planes = planes;
			buf.length = VIDEO_MAX_PLANES;
		}
		if (!sys_ioctl(nodes[i].fd, VIDIOC_QUERYBUF, &buf))
			return fail(-EBUSY, "%s has buffers: free them "
				    "(VIDIOC_REQBUFS of 0) before it is tried",
				    nodes[i].name);
	}
	return 0;
}

uint64_t nodes_bytes(const struct node *nodes, size_t n)
{
	uint64_t most = 0;

	for (size_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < node_nfds(&nodes[i]); j++)
			if (node_size(&nodes[i], j) > most)
				most = node_size(&nodes[i], j);
	return most;
}

int node_try(struct node *node, const int fds[], uint32_t n)
{
	int all[VIDEO_MAX_PLANES];
	uint32_t buffers = 1;
	int ret;

	if (node_nfds(node) > DLBUF_MAX_PLANES)
		return fail(-EOPNOTSUPP, "%s: its format has %u memory planes",
			    node->name, node_nfds(node));
	for (uint32_t i = 0; i < DLBUF_MAX_PLANES; i++)
		all[i] = fds[i < n ? i : n - 1];
	ret = node_request(node, V4L2_MEMORY_DMABUF, &buffers);
	if (ret)
		return ret;
	if (node_queue(node, 0, all) < 0)
		ret = fail(errno == ENOMEM ? -ENOMEM : -EOPNOTSUPP,
			   "%s (%s) refuses the dma-buf (VIDIOC_QBUF: %s)",
			   node->name, node->cap.driver, strerror(errno));
	node_free(node);
	return ret;
}

int node_alloc(struct node *node, uint64_t bytes, uint32_t i, int *fd)
{
	uint32_t buffers = 1;
	int ret;

	if (i >= node_nfds(node) || node_size(node, i) < bytes)
		return fail(-EOPNOTSUPP, "%s (%s) makes buffers of %u bytes, "
			    "%llu are needed", node->name, node->cap.driver,
			    i < node_nfds(node) ? node_size(node, i) : 0,
			    (unsigned long long)bytes);
	ret = node_request(node, V4L2_MEMORY_MMAP, &buffers);
	if (ret)
		return ret;
	ret = node_export(node, 0, i, fd);
	/* Since Linux 4.20 the memory lives as long as its dma-buf. */
	node_free(node);
	return ret;
}

/* Compares the node's answer with the pool's frames. */
static int check_answer(const struct node *node, const struct dlbuf_pool_opts *o,
			const struct dlbuf_pool_info *info)
{
	struct node_format f = node_format(node);

	if (f.width != o->width || f.height != o->height)
		return fail(-EOPNOTSUPP, "%s has frames of %ux%u pixels, the "
			    "pool of %ux%u", node->name, f.width, f.height,
			    o->width, o->height);
	if (node_nfds(node) != info->nfds)
		return fail(-EOPNOTSUPP, "%s wants %u dma-bufs for a buffer, "
			    "the pool's buffers have %u", node->name,
			    node_nfds(node), info->nfds);
	for (uint32_t i = 1; i < info->nfds; i++)
		if (node_pitch(node, i) != info->pitch[i] &&
		    node_pitch(node, 0) == info->pitch[0])
			return fail(-EOPNOTSUPP, "%s wants a pitch of %u bytes "
				    "in plane %u, the pool %llu", node->name,
				    node_pitch(node, i), i,
				    (unsigned long long)info->pitch[i]);
	return 0;
}

int nodes_ask(struct node *nodes, size_t n, unsigned long request,
	      const struct dlbuf_pool_opts *o,
	      const struct dlbuf_pool_info *info, uint64_t *pitch,
	      uint64_t bytes[DLBUF_MAX_PLANES])
{
	const struct node_format f = { o->code, o->width, o->height };

	if (n && o->code_space != DLBUF_CODE_V4L2)
		return fail(-EINVAL, "the pool's code is not one of V4L2");
	for (size_t i = 0; i < n; i++) {
		int ret = node_set_format(&nodes[i], request, &f, info->nfds,
					  info->pitch);

		if (!ret)
			ret = check_answer(&nodes[i], o, info);
		if (ret)
			return ret;
		if (node_pitch(&nodes[i], 0) != info->pitch[0])
			*pitch = node_pitch(&nodes[i], 0);
		for (uint32_t j = 0; j < info->nfds; j++)
			if (node_size(&nodes[i], j) > bytes[j])
				bytes[j] = node_size(&nodes[i], j);
	}
	return 0;
}
