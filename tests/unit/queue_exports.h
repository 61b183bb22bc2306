/* SPDX-License-Identifier: MIT */
/* Exports, and memory that the driver allocates. Cases of queue_cases.h. */
#ifndef UNIT_QUEUE_EXPORTS_H
#define UNIT_QUEUE_EXPORTS_H

/* ---------------------------------------------------------------- exports */

#ifndef ONE_DEVICE

#define EXPORT_BYTES (2 << 20)

/* An application with memory that can be exported, as an import's would be used. */
static uint8_t *begin_export(void)
{
	static struct import theirs;

	begin(on->exports);
	f = (struct fixture){ .dev = open_as(on->device), .imp = &theirs };
	app_begin(&app, f.dev);
	f.imp->data = on->alloc(&app, EXPORT_BYTES);
	return f.imp->data;
}

/* Repeatedly, and of a part, if the driver exports all of it. */
QUEUE_CASE(export, ITSELF, EXPORTS)
{
	uint8_t *p = begin_export();
	struct dlbuf_exported out;

	gpu_sets(&app, &f, 0, EXPORT_BYTES, 0x11);
	gpu_sets(&app, &f, 5000, 1, 0x77);
	drain(&app);
	for (int i = 0; i < (on->exports_all ? 3 : 2); i++) {
		int first = i == 2 ? 5000 : 0;

		REQUIRE_OK(export_at(f.dev, p + first, first ? 100 : EXPORT_BYTES,
				     f.dev->dl.device_type, 0, &out));
		CHECK_EQ(out.offset, first);
		CHECK_EQ(out.bytes, EXPORT_BYTES);
		CHECK(out.fd >= 3 && fcntl(out.fd, F_GETFD) == FD_CLOEXEC);
		CHECK_EQ(byte_at(&out, 4999), 0x11);
		CHECK_EQ(byte_at(&out, 5000), 0x77);
		close(out.fd);
	}
	on->free(&app, p);
	app_end(&app);
	dlbuf_device_close(f.dev);
	end();
}

static int try_alloc(struct dlbuf_device *dev, DLManagedTensorVersioned **tensor)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	int64_t bytes = IMPORT_BYTES, strides = 1;
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = &bytes,
		.strides = &strides,
	};

	return dlbuf_alloc(&dev, 1, &layout, &opts, tensor);
}

QUEUE_CASE(every_refusal_of_an_export, ITSELF, EXPORTS)
{
	uint8_t *p = begin_export(), byte;
	DLDeviceType type = f.dev->dl.device_type;
	DLManagedTensorVersioned *tensor = NULL;
	struct dlbuf_device *dev = f.dev;
	struct dlbuf_exported out;

	REFUSES(dev, p, 1, kDLCPU, 0, -EINVAL, "type 1");
	REFUSES(dev, &byte, 1, type, 0, -EINVAL, "freed, or never allocated");
	REFUSES(dev, p, EXPORT_BYTES + 1, type, 0, -EINVAL,
		"ends 1 bytes after its allocation of 2097152");
	REFUSES(dev, p, EXPORT_BYTES, type, DLBUF_EXPORT_PCIE, -EOPNOTSUPP,
		on->no_pcie);
	REFUSES(dev, p, EXPORT_BYTES, type, 2, -EINVAL, "");
	take_all_fds();
	REFUSES(dev, p, 1, type, 0, -EMFILE, "has no free fd");
	CHECK_ERR_SAYS(try_alloc(dev, &tensor), -EMFILE, "has no free fd");
	give_back_fds();
	/* Whether it is a layout is the layout's to say. */
	REFUSES(dev, p, -1, type, 0, -EINVAL, "shape");
	if (on->calls[EXPORT_FD]) {
		fail_call(on->calls[EXPORT_FD], 0);
		REFUSES(dev, p, 1, type, 0, -EIO, "");
		CHECK(says_call(on->calls[EXPORT_FD]));
		heal();
	}
	if (on->calls[ENTER]) {
		app_away(&app, true);
		fail_call(on->calls[ENTER], 0);
		REFUSES(dev, p, 1, type, 0, -EIO, "");
		check_unknown(on->calls[ENTER]);
		heal();
		app_away(&app, false);
	}
	on->free(&app, p);
	REFUSES(dev, p, 1, type, 0, -EINVAL, "freed, or never allocated");
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

/* It is zero, and it is not found again after it was freed. */
QUEUE_CASE(alloc, ITSELF, EXPORTS)
{
	DLManagedTensorVersioned *tensor = NULL, *again = NULL;
	DLBUF_INFO(dlbuf_device_stats, stats);
	DLBUF_INFO(dlbuf_tensor_info, info);
	uint8_t *p = begin_export();
	unsigned int before;
	DLTensor layout;

	/* So that the next allocation is not zero by itself. */
	gpu_sets(&app, &f, 0, EXPORT_BYTES, 0x11);
	drain(&app);
	on->free(&app, p);
	before = fake->live[on->memory];
	watch(on->calls[CLEAR]);
	REQUIRE_OK(try_alloc(f.dev, &tensor));
	CHECK_EQ(seen, 1);
	CHECK_EQ(fake->live[on->memory], before + 1);
	REQUIRE_OK(dlbuf_tensor_get_info(tensor, &info));
	CHECK_EQ(lseek(info.fd, 0, SEEK_END), on->least ? on->least : EXPORT_BYTES);
	CHECK_EQ(info.path, DLBUF_PATH_DIRECT);
	f.imp->data = tensor->dl_tensor.data;
	memset(app.pinned, 7, IMPORT_BYTES);
	gpu_reads(&app, &f);
	drain(&app);
	for (size_t i = 0; i < IMPORT_BYTES; i++)
		if (!CHECK_EQ(app.pinned[i], 0))
			break;
	/* By its own fd it is the same import, with every driver. */
	layout = tensor->dl_tensor;
	layout.data = NULL;
	CHECK_OK(dlbuf_import(f.dev, info.fd, &layout, NULL, &again));
	CHECK(!again || again->dl_tensor.data == tensor->dl_tensor.data);
	CHECK_OK(dlbuf_device_get_stats(f.dev, &stats));
	CHECK_EQ(stats.hits, 1);
	CHECK_EQ(stats.misses, 0);
	if (again)
		again->deleter(again);
	tensor->deleter(tensor);
	CHECK_OK(dlbuf_device_get_stats(f.dev, &stats));
	CHECK_EQ(stats.idle, 0);
	CHECK_EQ(fake->live[on->memory], before);
	app_end(&app);
	dlbuf_device_close(f.dev);
	end();
}

/* The count that fdinfo has, if not 0: the doubles' files are memfds, which have none. */
static _Atomic(int) users;

int open(const char *path, int flags, ...)
{
	unsigned int mode;
	va_list ap;
	int fd;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, unsigned int) : 0;
	va_end(ap);
	if (!users || !strstr(path, "/fdinfo/"))
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode);
	if (users < 0) {
		errno = ENOENT;
		return -1;
	}
	fd = memfd_create("fdinfo", MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	dprintf(fd, "pos:\t0\ncount:\t%d\n", users);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/*
 * Memory whose dma-buf others hold is not freed, because drivers return freed memory again with
 * its dma-buf. No call waits for the others, and the device ends after them.
 */
QUEUE_CASE(no_second_owner, ITSELF, EXPORTS)
{
	DLManagedTensorVersioned *tensor = NULL;
	struct dlbuf_device *dev;
	unsigned int before;
	void *held;

	begin(on->exports);
	dev = open_as(on->device);
	before = fake->live[on->memory];
	users = -1;
	CHECK_ERR_SAYS(try_alloc(dev, &tensor), -EOPNOTSUPP, "/proc/self/fdinfo");
	for (int i = 0; i < 2; i++) {
		users = 2;
		REQUIRE_OK(try_alloc(dev, &tensor));
		held = tensor->dl_tensor.data;
		users = i ? -1 : 3;
		tensor->deleter(tensor);
		CHECK_OK(dlbuf_device_drain(dev, 0));
		CHECK_EQ(fake->live[on->memory], before + 1);
		/* A child that began meanwhile has it, too, and is then gone. */
		users = 3;
		REQUIRE_OK(try_alloc(dev, &tensor));
		CHECK(tensor->dl_tensor.data != held);
		tensor->deleter(tensor);
		CHECK_EQ(fake->live[on->memory], before + 2);
		if (i)
			dlbuf_device_close(dev);
		users = 2;
		import_destroy_again(true);
		settle();
		CHECK_EQ(fake->live[on->memory], i ? 0 : before);
	}
	users = 0;
	end();
}

/*
 * Without a free fd the library cannot check who holds the dma-buf, and its thread cannot begin.
 * So the next call that may free something tries again.
 */
QUEUE_CASE(deleted_without_fds, ITSELF, EXPORTS)
{
	DLManagedTensorVersioned *tensor = NULL, *other = NULL;
	struct dlbuf_device *dev;
	unsigned int before;

	begin(on->exports);
	dev = open_as(on->device);
	before = fake->live[on->memory];
	users = 2;
	for (int i = 0; i < 4; i++) {
		REQUIRE_OK(try_alloc(dev, &tensor));
		REQUIRE_OK(i == 2 ? try_alloc(dev, &other) : 0);
		take_all_fds();
		tensor->deleter(tensor);
		CHECK_OK(dlbuf_device_drain(dev, 0));
		CHECK_EQ(fake->live[on->memory], before + (i == 2 ? 2 : 1));
		CHECK_EQ(event_pending(), 0);
		give_back_fds();
		if (!i)
			CHECK_OK(dlbuf_device_drain(dev, 0));
		else if (i == 1)
			dlbuf_device_trim(dev, 0);
		else if (i == 2)
			other->deleter(other);
		else
			dlbuf_device_close(dev);
		CHECK_EQ(fake->live[on->memory], i < 3 ? before : 0);
	}
	users = 0;
	end();
}

static int alloc_of(struct dlbuf_device *dev, uint64_t bytes)
{
	struct import *imp;
	int ret = alloc_import(dev, bytes, &imp);

	if (!ret)
		import_destroy(imp);
	return ret;
}

QUEUE_CASE(every_failure_of_an_alloc, ITSELF, EXPORTS)
{
	static const enum queue_call calls[] = {
		ALLOC, STREAM_CREATE, CLEAR, FINISH, EXPORT_FD, ENTER,
	};
	unsigned int live[ARRAY_SIZE(fake->live)];
	struct dlbuf_device *dev;

	begin(on->exports);
	dev = open_as(on->device);
	/* Two blocks, if the double has as many. */
	CHECK_OK(alloc_of(dev, on->exports_all ? 1 : EXPORT_BYTES + 1));
	memcpy(live, fake->live, sizeof(live));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		const char *name = on->calls[calls[i]];

		if (!name)
			continue;
		fail_call(name, 0);
		CHECK_ERR(alloc_of(dev, 4096), -EIO);
		CHECK(says_call(name) || calls[i] == ENTER);
		heal();
		settle();
		CHECK(!memcmp(live, fake->live, sizeof(live)));
	}
	CHECK_ERR(alloc_of(dev, UINT64_MAX - 1), -EOVERFLOW);
	if (sizeof(size_t) == 8)	/* there are no such drivers for less */
		CHECK_ERR(alloc_of(dev, INT64_MAX), -ENOMEM);
	dlbuf_device_close(dev);
	end();
}
#endif

#endif /* UNIT_QUEUE_EXPORTS_H */
