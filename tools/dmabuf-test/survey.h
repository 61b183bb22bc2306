/* SPDX-License-Identifier: MIT */
/*
 * Looks for devices, the drivers of each backend in a process of their own: one that
 * crashes or hangs costs the devices of its backend.
 */
#ifndef DMABUF_TEST_SURVEY_H
#define DMABUF_TEST_SURVEY_H

#include <dlbuf/device.h>

/* The backends that are built; ends with NULL. */
extern const char *const backends[];

/* How long a driver may be silent while its devices are looked for. */
#define SURVEY_MS 60000

/*
 * The devices of one backend, as dlbuf_device_each() reports them, in this process, which
 * is a child: the drivers of the other backends are not loaded for it. fn may open them.
 */
void backend_each(const char *backend, dlbuf_device_fn fn, void *data);

/*
 * Calls fn for each device of `names`, which are "all" or separated by commas, with the
 * status that opening it has in a child. If the drivers of a backend crash or hang, fn gets
 * the backend with -EIO; for a name that is a failure. If fn returns a status, the walk
 * ends. limit_ms: how long a driver may be silent.
 */
int survey_devices(const char *names, int limit_ms, dlbuf_device_fn fn, void *data);

#endif /* DMABUF_TEST_SURVEY_H */
