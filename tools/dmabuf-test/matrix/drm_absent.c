// SPDX-License-Identifier: MIT
/* Replaces drm.c in a tool without libdrm. */
#include <errno.h>

#include "matrix.h"

#define WHY "this dmabuf-test was built without libdrm"

void drm_list(int fd, bool exporters)
{
	child_send_party(fd, exporters ? "exporters" : "importers", &(struct party){
		.name = exporters ? "dumb" : "drm", .kind = exporters ? "dumb" : "drm",
		.status = -ENOSYS, .reason = WHY });
}

int drm_buffer_open(struct buffer *b, const char *node, uint64_t bytes)
{
	(void)b, (void)node, (void)bytes;
	return fail(STATUS_ABSENT, WHY);
}

void drm_buffer_close(struct buffer *b)
{
	(void)b;
}

void drm_cell(struct cell *c, const char *node)
{
	(void)node;
	cell_set(c, SKIPPED, WHY);
}
