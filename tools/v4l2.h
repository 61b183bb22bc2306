/* SPDX-License-Identifier: MIT */
/* v4l2/camera.h for the tool: exit statuses (tool.h), waiting, exporters. */
#ifndef DMABUF_TEST_V4L2_H
#define DMABUF_TEST_V4L2_H

#include "../v4l2/camera.h"

/* What a call of v4l2/camera.h returned, as an exit status; has said why. */
int camera_status(const struct camera *cam, int ret);

/* camera_open(), and the names that it has can be printed. */
int open_camera(struct camera *cam, const char *node);

/*
 * The driver's buffers, exported and mapped; or with an exporter's name buffers
 * of its making, see dlbuf_alloc_opts.
 */
int camera_alloc(struct camera *cam, uint32_t nbuffers, const char *exporter);

/* Waits for a frame until timeout_ms have passed without one. */
int camera_wait(struct camera *cam, int timeout_ms, uint32_t *index);

/*
 * For reading buffers[index][].map; flags: DMA_BUF_SYNC_START or _END. The
 * kernel keeps the driver's own buffers coherent between dequeue and queue;
 * ours need the bracket.
 */
int camera_map_sync(struct camera *cam, uint32_t index, uint64_t flags);

#endif /* DMABUF_TEST_V4L2_H */
