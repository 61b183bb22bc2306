// SPDX-License-Identifier: MIT
/* DRM nodes in the matrix: dumb buffers as exporter, PRIME as importer, through libdrm. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xf86drm.h>
#include <xf86drmMode.h>

#include "matrix.h"

static int open_node(const char *node, int *fd)
{
	*fd = open(node, O_RDWR | O_CLOEXEC);
	return *fd < 0 ? fail(STATUS_SYSTEM, "open(%s): %s", node, strerror(errno)) : 0;
}

static int failed(const char *what)
{
	return fail(STATUS_SYSTEM, "%s: %s", what, strerror(errno));
}

/* ---------------------------------------------------------------- exporter */

/* NULL: fail() has the reason. */
static void *map_handle(int fd, uint32_t handle, size_t bytes)
{
	uint64_t offset;
	void *map;

	if (drmModeMapDumbBuffer(fd, handle, &offset)) {
		failed("DRM_IOCTL_MODE_MAP_DUMB");
		return NULL;
	}
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	if (map != MAP_FAILED)
		return map;
	failed("mmap() of the dumb buffer");
	return NULL;
}

int drm_buffer_open(struct buffer *b, const char *node, uint64_t bytes)
{
	uint32_t pitch;
	int status = open_node(node, &b->node);

	if (status)
		return status;
	/* Rows of one page: drivers limit the width and the height. */
	if (drmModeCreateDumbBuffer(b->node, 1024, (bytes + 4095) / 4096, 32, 0,
				    &b->handle, &pitch, &b->bytes))
		return failed("DRM_IOCTL_MODE_CREATE_DUMB");
	if (drmPrimeHandleToFD(b->node, b->handle, DRM_CLOEXEC | DRM_RDWR, &b->fd))
		return failed("DRM_IOCTL_PRIME_HANDLE_TO_FD");
	b->map = map_handle(b->node, b->handle, b->bytes);
	b->mapped = b->bytes;
	return b->map ? 0 : STATUS_SYSTEM;
}

void drm_buffer_close(struct buffer *b)
{
	if (b->handle)
		drmModeDestroyDumbBuffer(b->node, b->handle);
	close(b->node);
}

/* ---------------------------------------------------------------- importer */

struct import {
	int fd;
	uint32_t handle;
	uint8_t *map;
};
static struct import import;

static void import_check(struct cell *c)
{
	if (drmPrimeFDToHandle(import.fd, c->buffer.fd, &import.handle)) {
		cell_set(c, REFUSED, "DRM_IOCTL_PRIME_FD_TO_HANDLE: %s", strerror(errno));
		return;
	}
	cell_send(c, "path", cJSON_CreateString("kernel"));
}

/* A second import gives the same handle, and the handle leads back to the dma-buf. */
static void repeated_check(struct cell *c)
{
	DLBUF_INFO(dlbuf_buffer_info, first);
	DLBUF_INFO(dlbuf_buffer_info, again);
	uint32_t handle = 0;
	int fd = -1;

	if (drmPrimeFDToHandle(import.fd, c->buffer.fd, &handle))
		cell_set(c, FAILED, "DRM_IOCTL_PRIME_FD_TO_HANDLE: %s", strerror(errno));
	else if (handle != import.handle)
		cell_set(c, FAILED, "a second import has handle %u, the first one has %u",
			 handle, import.handle);
	else if (drmPrimeHandleToFD(import.fd, handle, DRM_CLOEXEC | DRM_RDWR, &fd))
		cell_set(c, FAILED, "DRM_IOCTL_PRIME_HANDLE_TO_FD: %s", strerror(errno));
	else if (dlbuf_buffer_query(fd, &again) || dlbuf_buffer_query(c->buffer.fd, &first))
		cell_set(c, FAILED, "%s", dlbuf_last_error());
	else if (first.ino != again.ino || first.bytes != again.bytes)
		cell_set(c, FAILED, "the handle leads to another dma-buf");
	if (fd >= 0)
		close(fd);
}

static void write_read_check(struct cell *c)
{
	import.map = map_handle(import.fd, import.handle, c->buffer.bytes);
	if (!import.map) {
		cell_set(c, SKIPPED, "the pixels were not compared: the driver does not map "
			 "what it imported (%s)", c->said);
		return;
	}
	cell_pattern(c, 0, c->buffer.bytes);
	if (buffer_write(&c->buffer, 0, c->want, c->buffer.bytes)) {
		cell_fail(c);
		return;
	}
	memcpy(c->got, import.map, c->buffer.bytes);
	cell_compare(c, 0, c->buffer.bytes);
}

static void read_write_check(struct cell *c)
{
	if (!import.map) {
		cell_set(c, SKIPPED, "the driver does not map what it imported");
		return;
	}
	cell_pattern(c, 0, c->buffer.bytes);
	memcpy(import.map, c->want, c->buffer.bytes);
	if (buffer_read(&c->buffer, 0, c->got, c->buffer.bytes))
		cell_fail(c);
	else
		cell_compare(c, 0, c->buffer.bytes);
	munmap(import.map, c->buffer.bytes);
	import.map = NULL;
}

/* The exporter's side frees first. The handle keeps the memory. */
static void free_order_check(struct cell *c)
{
	buffer_close(&c->buffer);
	if (drmCloseBufferHandle(import.fd, import.handle))
		cell_set(c, FAILED, "DRM_IOCTL_GEM_CLOSE: %s", strerror(errno));
}

void drm_cell(struct cell *c, const char *node)
{
	if (cell_open(c, MATRIX_BYTES) || open_node(node, &import.fd)) {
		cell_fail(c);
		return;
	}
	cell_check(c, "import", import_check);
	cell_check(c, "repeated", repeated_check);
	cell_check(c, "write-read", write_read_check);
	cell_check(c, "read-write", read_write_check);
	cell_check(c, "free-order", free_order_check);
	close(import.fd);
}

/* ---------------------------------------------------------------- lists */

static bool same_device(const char *a, const char *b)
{
	char path[2][PATH_MAX], *real[2];
	const char *names[] = { a, b };
	bool same;

	for (int i = 0; i < 2; i++) {
		snprintf(path[i], sizeof(path[i]), "/sys/class/drm/%s/device", names[i]);
		real[i] = realpath(path[i], NULL);
	}
	same = real[0] && real[1] && !strcmp(real[0], real[1]);
	free(real[0]);
	free(real[1]);
	return same;
}

static int is_node(const struct dirent *d)
{
	return !strncmp(d->d_name, "card", 4) || !strncmp(d->d_name, "renderD", 7);
}

static bool try_exporter(const char *node)
{
	struct buffer b;
	char exporter[280];

	snprintf(exporter, sizeof(exporter), "dumb:%s", node);
	if (buffer_open(&b, exporter, 4096))
		return false;
	buffer_close(&b);
	return true;
}

static bool try_importer(const char *node, char *driver, size_t size)
{
	drmVersion *version;
	uint64_t prime = 0;
	int fd;

	if (open_node(node, &fd))
		return false;
	version = drmGetVersion(fd);
	if (version)
		snprintf(driver, size, "%s", version->name);
	drmFreeVersion(version);
	if (drmGetCap(fd, DRM_CAP_PRIME, &prime) || !(prime & DRM_PRIME_CAP_IMPORT)) {
		fail(STATUS_ABSENT, "the driver does not import dma-bufs (DRM_CAP_PRIME)");
		prime = 0;
	}
	close(fd);
	return prime & DRM_PRIME_CAP_IMPORT;
}

static void list_node(int fd, const char *name, bool exporters)
{
	char node[272], title[280], driver[64] = "", why[512] = "";
	struct party p = {
		.name = title, .kind = exporters ? "dumb" : "drm", .node = node,
		.driver = driver, .reason = why,
	};
	bool works;

	snprintf(node, sizeof(node), "/dev/dri/%s", name);
	snprintf(title, sizeof(title), "%s:%s", p.kind, node);
	fail_divert(why, sizeof(why));
	works = try_importer(node, driver, sizeof(driver));
	if (exporters)
		works = try_exporter(node);
	fail_divert(NULL, 0);
	p.status = works ? 0 : -EOPNOTSUPP;
	if (works)
		why[0] = '\0';
	child_send_party(fd, exporters ? "exporters" : "importers", &p);
}

/* If a device has several nodes, the first one: the card, which has dumb buffers. */
void drm_list(int fd, bool exporters)
{
	struct dirent **names;
	int n = scandir("/dev/dri", &names, is_node, versionsort);

	for (int i = 0; i < n; i++) {
		bool seen = false;

		for (int j = 0; j < i; j++)
			seen |= same_device(names[i]->d_name, names[j]->d_name);
		if (!seen)
			list_node(fd, names[i]->d_name, exporters);
	}
	while (n > 0)
		free(names[--n]);
	if (n == 0)
		free(names);
}
