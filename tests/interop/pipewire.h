/* SPDX-License-Identifier: MIT */
/* The tests of dlbuf/interop/pipewire.h share these. */
#ifndef TESTS_INTEROP_PIPEWIRE_H
#define TESTS_INTEROP_PIPEWIRE_H

#include <sys/syscall.h>

#include <pipewire/pipewire.h>

/* The thread that queues each buffer, which the adapter must choose correctly. */
static inline int queue_buffer(struct pw_stream *stream, struct pw_buffer *buffer);
#define pw_stream_queue_buffer queue_buffer
#include <dlbuf/interop/pipewire.h>
#undef pw_stream_queue_buffer

#include "interop/picture.h"

#include <dlbuf/dlbuf.h>

static unsigned int queued;
static pid_t queued_on;
static struct pw_buffer *queued_last;

static inline pid_t thread(void)
{
	return syscall(SYS_gettid);
}

static inline int queue_buffer(struct pw_stream *stream, struct pw_buffer *buffer)
{
	queued++;
	queued_on = thread();
	queued_last = buffer;
	return stream ? pw_stream_queue_buffer(stream, buffer) : 0;
}

static inline int timeline_node(void)
{
	for (int i = 0; i < 8; i++) {
		struct drm_get_cap cap = {
			.capability = DRM_CAP_SYNCOBJ_TIMELINE,
		};
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && !ioctl(fd, DRM_IOCTL_GET_CAP, &cap) && cap.value)
			return fd;
		close(fd);
	}
	SKIP("no DRM driver here has timelines (lab --gpu)");
}

static inline void init(void)
{
	KTAP_KEEPS(KTAP_HEAP, "PipeWire's types and plugins");
	pw_init(NULL, NULL);
}

struct made {
	struct spa_video_info_raw info;
	struct spa_chunk chunks[6];
	struct spa_data datas[6];
	struct spa_meta metas[4];
	struct spa_meta_header header;
	struct spa_meta_region crop;
	struct spa_meta_videotransform transform;
	struct spa_meta_sync_timeline sync;
	struct spa_buffer buffer;
	struct pw_buffer pw;
};

static inline void make(struct made *m, enum spa_video_format format, uint32_t n)
{
	*m = (struct made){
		.info = {
			.format = format,
			.flags = SPA_VIDEO_FLAG_MODIFIER,
			.size = SPA_RECTANGLE(64, 32),
		},
		.header = { .flags = 0, .pts = 40000000, .seq = 7 },
	};
	for (uint32_t i = 0; i < n; i++) {
		m->chunks[i] = (struct spa_chunk){ .size = 64 * 32,
						   .stride = 64 };
		m->datas[i] = (struct spa_data){
			.type = SPA_DATA_DmaBuf,
			.fd = 100 + i,
			.maxsize = 1 << 16,
			.chunk = &m->chunks[i],
		};
	}
	m->metas[0] = (struct spa_meta){ SPA_META_Header, sizeof(m->header),
					 &m->header };
	m->metas[1] = (struct spa_meta){ SPA_META_VideoCrop, sizeof(m->crop),
					 &m->crop };
	m->metas[2] = (struct spa_meta){ SPA_META_VideoTransform, sizeof(m->transform),
					 &m->transform };
	m->metas[3] = (struct spa_meta){ SPA_META_SyncTimeline,
					 sizeof(m->sync), &m->sync };
	m->buffer = (struct spa_buffer){ 3, n, m->metas, m->datas };
	m->pw.buffer = &m->buffer;
}

#endif /* TESTS_INTEROP_PIPEWIRE_H */
