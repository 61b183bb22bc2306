// SPDX-License-Identifier: MIT
/*
 * Every allocation, dup, ioctl and driver call fails once, one after another;
 * each time the caller gets a negative errno with a sentence, or the library
 * had a way round, and nothing is left behind.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cts.h"
#ifdef CONFIG_FAULT_INJECTION
#include "sys.h"

#define BYTES 8192

/* One walk through everything; the first failure ends it. */
static int walk(int fd, uint32_t *fired)
{
	struct dlbuf_device *dev;
	DLManagedTensorVersioned *t = NULL, *u = NULL, *a = NULL;
	DLManagedTensorVersioned *planes[DLBUF_MAX_PLANES] = { NULL };
	DLManagedTensor *old = NULL;
	int64_t shape = BYTES;
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 },
			    .shape = &shape };
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	uint32_t n = 0;
	int ret, first;

	(void)fired;
	ret = dlbuf_device_open(cts_device, NULL, &dev);
	if (ret)
		return ret;
	ret = dlbuf_import(dev, fd, &layout, NULL, &t);
	if (!ret)
		ret = dlbuf_tensor_share(t, &u);
	if (!ret)
		ret = dlbuf_tensor_share_legacy(t, &old);
	if (!ret)
		ret = dlbuf_acquire(t, DLBUF_READ, NULL, &past);
	if (!ret)
		ret = dlbuf_release(t, NULL, NULL);
	if (!ret)
		ret = dlbuf_acquire(t, DLBUF_RW, NULL, NULL);
	if (!ret) {
		struct dlbuf_frame f = {
			.size = sizeof(f),
			.width = 64,
			.height = 32,
			.code = DLBUF_FOURCC('N', 'V', '1', '2'),
			.code_space = DLBUF_CODE_V4L2,
			.nplanes = 1,
			.planes = { { .fd = fd, .pitch = 64 } },
		};

		ret = dlbuf_import_frame(dev, &f, NULL, planes, &n);
	}
	if (!ret)
		ret = dlbuf_alloc(&dev, 1, &layout, NULL, &a);
	first = ret;
	for (uint32_t i = 0; i < n; i++)
		cts_delete(planes[i]);
	cts_delete(a);
	cts_delete(t);
	cts_delete(u);
	if (old)
		old->deleter(old);
	dlbuf_device_close(dev);
	return first;
}

static void silent(void *data, enum dlbuf_log_level level, const char *text)
{
	(void)data, (void)level, (void)text;
}

static void every_call(void *arg)
{
	int fd = cts_alloc("udmabuf", BYTES);
	unsigned int fds;
	unsigned long calls, failed = 0;
	struct ktap_holdings before, after;

	(void)arg;
	dlbuf_log_set(silent, NULL, DLBUF_LOG_NONE);
	/* Once for what drivers keep for ever, and to count. */
	fault_at(0);
	REQUIRE_OK(walk(fd, NULL));
	calls = fault_count();
	CHECK(calls > 10);
	fds = cts_count_fds();
	ktap_look(&before);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		fault_at(n);
		ret = walk(fd, NULL);
		fault_at(0);
		failed += ret < 0;
		if (ret)
			CHECK(ret < 0 && dlbuf_last_error()[0]);
		if (!CHECK_EQ(cts_count_fds(), fds)) {
			ktap_note(NULL, 0, "after the failure of call %lu of "
				  "%lu: %d, %s", n, calls, ret,
				  dlbuf_last_error());
			break;
		}
		ktap_look(&after);
		if (!CHECK_EQ(after.map_bytes, before.map_bytes)) {
			ktap_note(NULL, 0, "after the failure of call %lu", n);
			break;
		}
	}
	ktap_note(NULL, 0, "%lu calls, %lu of their failures ended the walk",
		  calls, failed);
	CHECK(failed > 5);
	close(fd);
}
#else
static void every_call(void *arg)
{
	(void)arg;
	SKIP("this build has no fault injection");
}
#endif

void cts_cases_fault(void)
{
	ktap_case("fault/every-call", every_call, NULL);
}
