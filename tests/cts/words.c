// SPDX-License-Identifier: MIT
/*
 * Cases where the kernel's side of a real driver refuses, has no memory, hangs or has
 * lost its GPU: the words of tests/drivers, whose preload is loaded, or there are no such cases.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cts.h"

#define BYTES (16 * 4096)
#define NPATHS (DLBUF_PATH_COPY - DLBUF_PATH_DIRECT + 1)

static void (*words)(const char *);

/* A new dma-buf by that path alone. */
static int import(struct dlbuf_device *dev, int path, int *fd, DLManagedTensorVersioned **t)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .paths = DLBUF_PATH_BIT(DLBUF_PATH_DIRECT + path),
		   .flags = DLBUF_IMPORT_MAY_COPY);
	int64_t shape = BYTES;
	DLTensor layout = LAYOUT8(1, &shape);

	*fd = cts_alloc("udmabuf", BYTES);
	*t = NULL;
	return dlbuf_import(dev, *fd, &layout, &opts, t);
}

/* A failure of dlbuf has an errno that the headers list, and an error text. */
static int said(int path, int ret)
{
	if (!ret)
		return 0;
	printf("# path %s: %s (%d)\n", dlbuf_path_name(DLBUF_PATH_DIRECT + path),
	       dlbuf_last_error(), ret);
	CHECK(ret == -EIO || ret == -ENOMEM || ret == -EOPNOTSUPP);
	return ret;
}

/* Reads the import. The read itself is an application's, which knows its driver's errors. */
static int use(int path, DLManagedTensorVersioned *t)
{
	static unsigned char got[BYTES];
	int ret = said(path, dlbuf_acquire(t, DLBUF_READ, NULL, NULL)), end;

	if (ret)
		return ret;
	ret = cts_access->read(t, 0, got, BYTES);
	end = said(path, dlbuf_release(t, NULL, NULL));
	return ret ? ret : end;
}

/*
 * Each path is tried with the word, then without it: paths that had worked work again, and
 * nothing is left.
 */
static void tried(void *arg)
{
	char *word = arg;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t;
	bool works[NPATHS];
	unsigned int fds;
	int fd, ret;

	for (int round = 0; round < 3; round++) {
		words(round == 1 ? word : "");
		for (int path = 0; path < NPATHS; path++) {
			dlbuf_device_trim(dev, 0);
			cts_settle();
			fds = cts_count_fds();
			ret = import(dev, path, &fd, &t);
			if (round == 1 && works[path])
				said(path, ret);
			/* Path direct is first, and the only one that needs the kernel's import. */
			if (round == 1 && works[path] && !path && !strcmp(word, "noprime"))
				CHECK_EQ(ret, -EOPNOTSUPP);
			if (!ret)
				ret = use(path, t);
			if (!round)
				works[path] = !ret;
			CHECK_EQ(round == 2 && works[path] && ret, 0);
			cts_delete(t);
			words("");
			dlbuf_device_trim(dev, 0);
			CHECK_OK(dlbuf_device_drain(dev, 0));
			cts_settle();
			close(fd);
			CHECK_EQ(cts_count_fds(), fds);
			words(round == 1 ? word : "");
		}
	}
}

/* Level Zero's does not end while it waits for a GPU that is lost: none of its code runs. */
static void leave(void)
{
	fflush(stdout);
	_exit(0);
}

/* The GPU goes while a tensor is acquired: an error, no wait, and the device can be opened anew. */
static void lost(void *arg)
{
	atexit(leave);
	for (int path = 0; path < NPATHS; path++) {
		struct dlbuf_device *dev = cts_open();
		DLManagedTensorVersioned *t;
		int fd, to = cts_alloc("udmabuf", 8192), ret = import(dev, path, &fd, &t);

		if (!ret)
			ret = use(path, t);
		if (!ret) {
			words("lost");
			CHECK_EQ(use(path, t), -EIO);
			CHECK_EQ(use(path, t), -EIO);
			ret = cts_prepare_small(dev, fd, to);
			CHECK(ret == 1 || said(path, ret) == -EIO);
		}
		cts_delete(t);
		dlbuf_device_close(dev);
		words("");
		cts_settle();
		close(fd);
		close(to);
	}
}

/* Work that does not end holds no thread, and when it ends at last all is as ever. */
static void hang(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	static unsigned char want[BYTES], got[BYTES];
	DLManagedTensorVersioned *t = NULL;
	void *job = NULL;
	int fd, ret = -1;

	for (int path = 0; path < NPATHS && ret; path++) {
		ret = import(dev, path, &fd, &t);
		if (!ret)
			ret = use(path, t);
		if (ret)
			close(fd);
	}
	REQUIRE(!ret);
	cts_pattern(want, BYTES, 1);
	CHECK_OK(dlbuf_acquire(t, DLBUF_RW, NULL, NULL));
	words("hang");
	/* HIP's copies of pageable memory wait: there the library's own work has to do. */
	if (strcmp(cts_access->backend, "hip"))
		REQUIRE(!(cts_access->submit_write ?
			  cts_access->submit_write(t, 0, want, BYTES, &job) :
			  cts_access->submit_read(t, 0, BYTES, &job)));
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	if (cts_computes) {
		cts_delete(t);
		t = NULL;
	}
	CHECK(!job || !cts_access->job_done(job));
	CHECK_EQ(dlbuf_device_drain(dev, 1), -ETIME);
	words("");
	CHECK(!job || !cts_access->finish_read(job, got, BYTES));
	cts_delete(t);
	CHECK_OK(dlbuf_device_drain(dev, 0));
	cts_peek(fd, 0, got, BYTES);
	CHECK(!job || !cts_computes || !memcmp(want, got, BYTES));
	close(fd);
}

void cts_cases_words(void)
{
	static char noprime[] = "noprime", nomem[] = "nomem";

	words = (void (*)(const char *))dlsym(RTLD_DEFAULT, "drivers_words");
	if (!words)
		return;
	ktap_case("words/noprime", tried, noprime);
	ktap_case("words/nomem", tried, nomem);
	ktap_case("words/lost", lost, NULL);
	ktap_case("words/hang", hang, NULL);
}
