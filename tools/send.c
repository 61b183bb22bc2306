// SPDX-License-Identifier: MIT
/*
 * dmabuf-test send and recv: frames from one process to another over a Unix socket,
 * with checksums on both sides.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include <dlbuf/dlbuf.h>

#include "names.h"
#include "opts.h"
#include "out.h"
#include "reduce.h"
#include "tool.h"
#include "v4l2.h"

#define BUFFERS 4

struct command {
	const char *socket, *device, *exporter, *node;
	unsigned long frames, width, height, timeout;
	struct dlbuf_format_info format;
	uint32_t code;
	struct json_to json_to;

	struct dlbuf_device *dev;
	const struct reducer *reducer;	/* NULL: the CPU reads only */
	void *ctx;
	int sock;
	cJSON *list;
	unsigned long done, wrong;
};

#define TO(member) .to = offsetof(struct command, member)

/* ---------------------------------------------------------------- options */

static int set_size(void *data, const char *s)
{
	struct command *cmd = data;

	return parse_size(s, &cmd->width, &cmd->height);
}

static int set_format(void *data, const char *name)
{
	struct command *cmd = data;

	return camera_format_named(name, &cmd->format, &cmd->code) ? 0 :
	       fail(STATUS_USAGE, "V4L2 has no format named '%s'; see "
		    "dmabuf-test formats", name);
}

#define TIMEOUT { 't', "timeout", "SECONDS", \
		  "longest wait for the other side or a frame (60)", \
		  .kind = OPT_NUMBER, TO(timeout), 1, 3600 }

static const struct opt send_options[] = {
	{ 'e', "exporter", "EXPORTER", "buffers of this exporter (the first that works)",
	  .kind = OPT_TEXT, TO(exporter) },
	{ 'c', "camera", "NODE", "frames of this V4L2 node, not a pattern",
	  .kind = OPT_TEXT, TO(node) },
	{ 'n', "frames", "N", "how many frames (10)", OPT_NUMBER, TO(frames),
	  1, 1000000 },
	{ 's', "size", "WxH", "pixels (640x480)", OPT_CALL, .call = set_size },
	{ 'f', "format", "FORMAT", "a name or a code, of V4L2 or DRM (NV12)",
	  OPT_CALL, .call = set_format },
	TIMEOUT,
	OPT_JSON(struct command, json_to),
	OPT_END,
};

static const struct cmdline send_usage = {
	.name = "send",
	.operands = "SOCKET",
	.about =
"Makes SOCKET, waits for one \"dmabuf-test recv SOCKET\" or another receiver of dlbuf,\n"
"and sends it frames: a pattern, or those of a camera. The receiver gets the dma-bufs,\n"
"not their bytes. A buffer is used again when the receiver has deleted its tensors.\n"
"Prints the checksums that the receiver should print too.\n",
	.end =
"Exit status: 0 all frames are back, 2 bad usage, 3 the socket, the receiver or the\n"
"camera failed, 4 the exporter or the camera is absent on this machine.\n",
	.opts = send_options,
};

static const struct opt recv_options[] = {
	{ 'd', "device", "DEVICE", "import on this device (cpu)",
	  .kind = OPT_TEXT, TO(device) },
	{ 'n', "frames", "N", "end after N frames (when the sender does)",
	  OPT_NUMBER, TO(frames), 1, 1000000 },
	TIMEOUT,
	OPT_JSON(struct command, json_to),
	OPT_END,
};

static const struct cmdline recv_usage = {
	.name = "recv",
	.operands = "SOCKET",
	.about =
"Connects to SOCKET, of \"dmabuf-test send\" or another sender of dlbuf, imports what\n"
"it sends on a device, and reads every byte there and with the CPU in a mapping of the\n"
"dma-buf. Prints the shape and the checksum of each tensor.\n",
	.end =
"Exit status: 0 all was received and is equal, 1 the device reads other bytes than\n"
"the CPU, 2 bad usage, 3 the socket, the sender or the device failed, 4 the device is\n"
"absent on this machine.\n",
	.opts = recv_options,
};

static int parse(const struct cmdline *line, struct command *cmd, int argc,
		 char **argv)
{
	int status = opts_parse(line, cmd, argc, argv);

	if (status)
		return status;
	if (argc - optind != 1)
		return fail(STATUS_USAGE, "%s takes one socket; see dmabuf-test "
			    "%s --help", line->name, line->name);
	cmd->socket = argv[optind];
	if (strlen(cmd->socket) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return fail(STATUS_USAGE, "'%s' is too long for a socket",
			    cmd->socket);
	return 0;
}

/* ---------------------------------------------------------------- checksums */

/* The CPU reads a tensor's rows, without dlbuf. */
static int read_by_hand(const struct dlbuf_tensor_info *info,
			struct rows rows, struct checksum *sum)
{
	void *p = mmap(NULL, info->bytes, PROT_READ, MAP_SHARED, info->fd, 0);
	int status;

	if (p == MAP_FAILED)
		return fail(STATUS_SYSTEM, "mmap() of the dma-buf: %s",
			    strerror(errno));
	rows.offset = info->first;
	status = bracket(info->fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	if (!status) {
		*sum = checksum_rows(p, &rows);
		status = bracket(info->fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	}
	munmap(p, info->bytes);
	return status;
}

static void put_tensor(struct command *cmd, cJSON *array, const DLTensor *t,
		       struct checksum sum, const char *path, bool right)
{
	char shape[256], strides[256], hash[16];
	cJSON *o = cJSON_CreateObject();

	put_dims(shape, sizeof(shape), t->shape, t->ndim);
	put_dims(strides, sizeof(strides), t->strides, t->ndim);
	snprintf(hash, sizeof(hash), "%08x", sum.hash);
	if (!json_alone(&cmd->json_to))
		printf("  %s %s / %s  %s  %s%s%s%s\n", text_dtype(t->dtype).s,
		       shape, strides, hash, path, right ? "" : style(STYLE_BAD),
		       right ? "" : "  the CPU reads other bytes",
		       right ? "" : style(STYLE_OFF));
	cJSON_AddStringToObject(o, "dtype", text_dtype(t->dtype).s);
	cJSON_AddStringToObject(o, "shape", shape);
	cJSON_AddStringToObject(o, "strides", strides);
	cJSON_AddStringToObject(o, "path", path);
	cJSON_AddStringToObject(o, "hash", hash);
	cJSON_AddBoolToObject(o, "right", right);
	cJSON_AddItemToArray(array, o);
}

static int check_tensor(struct command *cmd, DLManagedTensorVersioned *t,
			cJSON *array)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	struct checksum want = { 0 }, got;
	struct rows rows;
	int ret = dlbuf_tensor_get_info(t, &info), status;
	bool right;

	if (!ret)
		ret = dlbuf_acquire(t, DLBUF_READ, NULL, NULL);
	if (ret)
		return fail_dlbuf(ret);
	if (rows_of(&t->dl_tensor, &rows))
		return fail(STATUS_SYSTEM, "rows of a tensor are not compact");
	status = read_by_hand(&info, rows, &want);
	got = want;
	if (!status && cmd->reducer)
		status = cmd->reducer->reduce(cmd->ctx, &t, 1,
					      cmd->timeout * 1000000000ull,
					      &got);
	ret = dlbuf_release(t, NULL, NULL);
	if (status || ret)
		return status ? status : fail_dlbuf(ret);
	right = got.sum == want.sum && got.hash == want.hash;
	cmd->wrong += !right;
	put_tensor(cmd, array, &t->dl_tensor, got, dlbuf_path_name(info.path),
		   right);
	return 0;
}

/* Prints the frame and checks its tensors. Width 0: only tensors came. */
static int check_frame(struct command *cmd, const struct dlbuf_frame *frame,
		       DLManagedTensorVersioned *const t[], uint32_t n)
{
	struct dlbuf_format_info format = { .size = sizeof(format) };
	cJSON *o = cJSON_CreateObject();
	char what[96] = "tensors";
	int status = 0;
	cJSON *array;

	if (frame->nplanes &&
	    !dlbuf_format_find(frame->code, frame->modifier,
			       frame->code_space, &format))
		snprintf(what, sizeof(what), "%s %ux%u", format_title(&format),
			 frame->width, frame->height);
	if (!json_alone(&cmd->json_to))
		printf("frame %lu: %s\n", cmd->done, what);
	cJSON_AddNumberToObject(o, "frame", cmd->done++);
	cJSON_AddStringToObject(o, "format", what);
	array = cJSON_AddArrayToObject(o, "tensors");
	for (uint32_t i = 0; !status && i < n; i++)
		status = check_tensor(cmd, t[i], array);
	cJSON_AddItemToArray(cmd->list, o);
	/* For nobody there is no need to go on. */
	return status ? status : fflush(stdout) ? STATUS_SYSTEM : 0;
}

/* ---------------------------------------------------------------- the socket */

static int wait_for(struct command *cmd, int fd, const char *what)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int ret = poll(&p, 1, (int)cmd->timeout * 1000);

	if (ret == 1)
		return 0;
	return fail(STATUS_SYSTEM, ret < 0 ? "interrupted after %lu frames" :
		    "after %lu frames, no %s in %lu s", cmd->done, what,
		    cmd->timeout);
}

static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	return a;
}

static int connect_to(struct command *cmd)
{
	uint64_t end = now_ns() + cmd->timeout * 1000000000ull;
	struct sockaddr_un a = address(cmd->socket);

	cmd->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (cmd->sock < 0)
		return fail(STATUS_SYSTEM, "socket(): %s", strerror(errno));
	/* The sender may be about to begin. */
	while (connect(cmd->sock, (struct sockaddr *)&a, sizeof(a))) {
		if (interrupted || now_ns() > end ||
		    (errno != ENOENT && errno != ECONNREFUSED))
			return fail(STATUS_SYSTEM, "%s: no sender: %s",
				    cmd->socket, strerror(errno));
		poll(NULL, 0, 20);
	}
	return 0;
}

/* A socket that a sender left, which nobody listens to, is replaced. */
static int listen_at(struct command *cmd, int *listener)
{
	struct sockaddr_un a = address(cmd->socket);
	struct stat st;
	int probe;

	if (!lstat(cmd->socket, &st) && S_ISSOCK(st.st_mode)) {
		probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (connect(probe, (struct sockaddr *)&a, sizeof(a)) &&
		    errno == ECONNREFUSED)
			unlink(cmd->socket);
		close(probe);
	}
	*listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (*listener >= 0 &&
	    !bind(*listener, (struct sockaddr *)&a, sizeof(a)) &&
	    !listen(*listener, 1))
		return 0;
	return fail(STATUS_SYSTEM, "%s cannot be made: %s", cmd->socket,
		    strerror(errno));
}

static int welcome(struct command *cmd)
{
	int listener, status = listen_at(cmd, &listener);

	if (!status) {
		status = wait_for(cmd, listener, "receiver");
		unlink(cmd->socket);
	}
	if (!status) {
		cmd->sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (cmd->sock < 0)
			status = fail(STATUS_SYSTEM, "accept(): %s",
				      strerror(errno));
	}
	if (listener >= 0)
		close(listener);
	return status;
}

/* ---------------------------------------------------------------- the sender */

/* A frame's buffer, and where it goes when the receiver is done. */
struct loan {
	int back;		/* a pipe that gets the index */
	uint8_t index;
	void (*release)(void *data);	/* the camera's; NULL: a pool's buffer */
	void *data;
};

struct source {
	struct camera cam;
	struct dlbuf_pool *pool;
	struct loan loans[VIDEO_MAX_FRAME];
	uint32_t nfree, free[BUFFERS];	/* of the pool */
	int back[2];
	unsigned long away;
};

/* On a thread of the library. */
static void come_back(void *data)
{
	struct loan *loan = data;
	ssize_t n;

	if (loan->release)
		loan->release(loan->data);
	do
		n = write(loan->back, &loan->index, 1);
	while (n < 0 && errno == EINTR);
}

static int await_one(struct command *cmd, struct source *s)
{
	int status = wait_for(cmd, s->back[0], "buffer came back");
	uint8_t index;

	if (status)
		return status;
	if (read(s->back[0], &index, 1) != 1)
		return fail(STATUS_SYSTEM, "pipe: %s", strerror(errno));
	s->away--;
	if (s->pool)
		s->free[s->nfree++] = index;
	return 0;
}

/* Bytes that no other frame has. */
static int draw(const struct dlbuf_frame *frame, unsigned long number)
{
	for (uint32_t i = 0; i < frame->nplanes; i++) {
		off_t bytes = lseek(frame->planes[i].fd, 0, SEEK_END);
		int fd = frame->planes[i].fd, status;
		uint8_t *p;

		if (i && fd == frame->planes[i - 1].fd)
			continue;
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED)
			return fail(STATUS_SYSTEM, "mmap() of the dma-buf: %s",
				    strerror(errno));
		status = bracket(fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE);
		for (off_t at = 0; !status && at < bytes; at++)
			p[at] = (uint8_t)(at * 7 + (at >> 8) + number * 31);
		if (!status)
			status = bracket(fd, DMA_BUF_SYNC_END |
					 DMA_BUF_SYNC_WRITE);
		munmap(p, bytes);
		if (status)
			return status;
	}
	return 0;
}

static int next_frame(struct command *cmd, struct source *s,
		      struct dlbuf_frame *frame)
{
	uint32_t index = 0;
	int ret, status;

	if (!s->pool) {
		status = camera_wait(&s->cam, (int)cmd->timeout * 1000, frame,
				     &index);
		if (status)
			return status;
	} else {
		while (!s->nfree) {
			status = await_one(cmd, s);
			if (status)
				return status;
		}
		index = s->free[--s->nfree];
		ret = dlbuf_pool_frame(s->pool, index, frame);
		if (ret)
			return fail_dlbuf(ret);
		frame->order = DLBUF_ORDER_COMPLETE;
		status = draw(frame, cmd->done);
		if (status)
			return status;
	}
	s->loans[index] = (struct loan){
		.back = s->back[1], .index = (uint8_t)index,
		.release = frame->release, .data = frame->release_data,
	};
	frame->release = come_back;
	frame->release_data = &s->loans[index];
	return 0;
}

/* Looks at the frame itself first, by tensors that hold no lease. */
static int send_frame(struct command *cmd, const struct dlbuf_frame *frame)
{
	DLBUF_OPTS(dlbuf_socket_opts, opts,
		   .deadline_ns = now_ns() + cmd->timeout * 1000000000ull);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame seen = *frame;
	uint32_t n;
	int ret, status;

	seen.release = NULL;
	ret = dlbuf_import_frame(cmd->dev, &seen, NULL, t, &n);
	if (ret)
		return fail_dlbuf(ret);
	status = check_frame(cmd, &seen, t, n);
	while (n--)
		t[n]->deleter(t[n]);
	if (status)
		return status;
	ret = dlbuf_send_frame(cmd->sock, frame, &opts);
	return ret ? fail_dlbuf(ret) : 0;
}

static int send_all(struct command *cmd, struct source *s)
{
	int status = 0;

	while (!status && cmd->done < cmd->frames && !interrupted) {
		struct dlbuf_frame frame = { .size = sizeof(frame) };

		status = next_frame(cmd, s, &frame);
		if (status)
			break;
		status = send_frame(cmd, &frame);
		if (status)
			frame.release(frame.release_data);
		s->away++;
		if (json_alone(&cmd->json_to))
			progress("frame", cmd->done, cmd->frames);
	}
	progress_clear();
	if (!status && interrupted)
		status = fail(STATUS_SYSTEM, "interrupted after %lu frames",
			      cmd->done);
	return status;
}

static int open_source(struct command *cmd, struct source *s)
{
	DLBUF_OPTS(dlbuf_pool_opts, pool, .exporter = cmd->exporter,
		   .width = cmd->width, .height = cmd->height, .code = cmd->code,
		   .code_space = DLBUF_CODE_V4L2, .buffers = BUFFERS);
	DLBUF_OPTS(dlbuf_camera_opts, opts, .code = cmd->code,
		   .width = cmd->width, .height = cmd->height,
		   .buffers = BUFFERS, .exporter = cmd->exporter);
	int ret;

	if (pipe(s->back))
		return fail(STATUS_SYSTEM, "pipe(): %s", strerror(errno));
	if (cmd->node)
		return camera_open(&s->cam, cmd->node, &opts);
	ret = dlbuf_pool_create(&cmd->dev, 1, &pool, &s->pool);
	if (ret)
		return fail_dlbuf(ret);
	for (; s->nfree < BUFFERS; s->nfree++)
		s->free[s->nfree] = s->nfree;
	return 0;
}

/* ---------------------------------------------------------------- the receiver */

static int recv_all(struct command *cmd)
{
	DLBUF_OPTS(dlbuf_import_opts, import, .access = DLBUF_READ,
		   .flags = DLBUF_IMPORT_MAY_COPY | DLBUF_IMPORT_KEEP);
	DLBUF_OPTS(dlbuf_socket_opts, opts, .import = &import,
		   .flags = DLBUF_SOCKET_DONTWAIT);
	int status = 0;

	while (!status && (!cmd->frames || cmd->done < cmd->frames)) {
		struct dlbuf_frame frame = { .size = sizeof(frame) };
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		uint32_t n;
		int ret;

		status = wait_for(cmd, cmd->sock, "frame came");
		if (status)
			break;
		ret = dlbuf_recv(cmd->dev, cmd->sock, &opts, t, &n, &frame);
		if (ret == -EPIPE && cmd->done && !cmd->frames)
			return 0;
		if (ret)
			return fail_dlbuf(ret);
		status = check_frame(cmd, &frame, t, n);
		while (n--)
			t[n]->deleter(t[n]);
	}
	return status;
}

/* ---------------------------------------------------------------- the commands */

static int open_device(struct command *cmd)
{
	struct dlbuf_device_info info = { .size = sizeof(info) };
	int ret = dlbuf_device_open(cmd->device, NULL, &cmd->dev);

	if (!ret)
		ret = dlbuf_device_get_info(cmd->dev, &info);
	if (ret)
		return fail_dlbuf(ret);
	cmd->reducer = reducer_find(info.device.device_type);
	if (!cmd->reducer)
		return fail(STATUS_ABSENT, "dmabuf-test cannot compute on %s",
			    info.name);
	ret = cmd->reducer->open(cmd->dev, &cmd->ctx);
	if (ret)
		cmd->reducer = NULL;
	return ret;
}

static int finish(struct command *cmd, int status)
{
	cJSON *root = cJSON_CreateObject();

	cJSON_AddStringToObject(root, "dlbuf", dlbuf_version());
	cJSON_AddStringToObject(root, "device", cmd->device);
	cJSON_AddNumberToObject(root, "wrong", cmd->wrong);
	cJSON_AddItemToObject(root, "frames", cmd->list);
	if (!status && cmd->json_to.want)
		status = json_put(&cmd->json_to, root);
	cJSON_Delete(root);
	if (cmd->sock >= 0)
		close(cmd->sock);
	if (cmd->reducer)
		cmd->reducer->close(cmd->ctx);
	dlbuf_device_close(cmd->dev);
	if (!status && cmd->wrong)
		return fail(STATUS_MISMATCH, "%lu tensors are wrong", cmd->wrong);
	return status;
}

int send_main(int argc, char **argv)
{
	struct command cmd = { .device = "cpu", .frames = 10, .width = 640,
			       .height = 480, .timeout = 60, .sock = -1 };
	/* Leases that fire late find it. */
	static struct source s;
	int status = parse(&send_usage, &cmd, argc, argv);

	if (!status && !cmd.code)
		status = set_format(&cmd, "NV12");
	if (status)
		return status;
	cmd.list = cJSON_CreateArray();
	status = open_device(&cmd);
	if (!status)
		status = open_source(&cmd, &s);
	if (!status)
		status = welcome(&cmd);
	if (!status)
		status = send_all(&cmd, &s);
	while (!status && s.away)
		status = await_one(&cmd, &s);
	camera_close(&s.cam);
	dlbuf_pool_destroy(s.pool);
	return finish(&cmd, status);
}

int recv_main(int argc, char **argv)
{
	struct command cmd = { .device = "cpu", .timeout = 60, .sock = -1 };
	int status = parse(&recv_usage, &cmd, argc, argv);

	if (status)
		return status;
	cmd.list = cJSON_CreateArray();
	status = open_device(&cmd);
	if (!status)
		status = connect_to(&cmd);
	if (!status)
		status = recv_all(&cmd);
	return finish(&cmd, status);
}
