/* SPDX-License-Identifier: MIT */
/* Devices and imports. Cases of queue_cases.h. */
#ifndef UNIT_QUEUE_DEVICES_H
#define UNIT_QUEUE_DEVICES_H

/* ---------------------------------------------------------------- devices */

#ifndef ONE_DEVICE
struct listed {
	unsigned int n;
	struct dlbuf_device_info infos[4];
	int ret;
};

static int list(const struct dlbuf_device_info *info, void *data)
{
	struct listed *l = data;

	if (strcmp(info->backend, on->device) || l->n == 4)
		return 0;
	l->infos[l->n++] = *info;
	return l->ret;
}

/* Not the texts, which unit/select.c has, but the devices of the driver that they find. */
static void check_selector(const char *text, int ret, int n)
{
	unsigned int contexts = fake->made[FAKE_CONTEXT];
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev = NULL;
	char name[80], is[20];

	snprintf(name, sizeof(name), "%s%s%s", on->device, *text ? ":" : "", text);
	snprintf(is, sizeof(is), "%s:%d", on->device, n);
	ktap_forget();
	if (!CHECK_EQ(dlbuf_device_open(name, NULL, &dev), ret))
		ktap_note(NULL, 0, "%s: %s", name, dlbuf_last_error());
	CHECK(fake->made[FAKE_CONTEXT] - contexts <= !ret);
	CHECK_EQ(!dev, ret != 0);
	if (!dev) {
		CHECK_SAYS(on->device);
		return;
	}
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_STR(info.name, is);
	CHECK_EQ(info.device.device_type, dev->backend->type);
	CHECK_EQ(info.device.device_id, n);
	dlbuf_device_close(dev);
}

QUEUE_CASE(selectors, ITSELF, SELECTS)
{
	begin(on->two);
	check_selector("", 0, 0);
	check_selector("0", 0, 0);
	check_selector("FAKE", 0, 0);
	for (size_t i = 0; on->selects[i]; i++)
		check_selector(on->selects[i], 0, 1);
	check_selector("2", -ENODEV, 0);
	check_selector("1.0", -ENODEV, 0);
	check_selector("nobody", -ENODEV, 0);
	check_selector("uuid=12345678123456781234567812345678", -ENODEV, 0);
	check_selector("uuid=c1", -EINVAL, 0);
	check_selector("pci=abcd:01:00.0", -ENODEV, 0);
	check_selector("pci=01:00", -EINVAL, 0);
	check_selector("drm=/dev/null", -EINVAL, 0);
	end();
}

static void check_says(const struct queue_says *says)
{
	DLBUF_INFO(dlbuf_device_info, info);
	struct listed l = { .ret = 5 };
	struct dlbuf_device *dev;
	int64_t version = 0;

	begin(says->words);
	CHECK_EQ(dlbuf_device_each(list, &l), 5);
	dev = open_as(on->device);
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	for (int i = 0; i < 2; i++) {
		CHECK_STR(info.backend, on->device);
		CHECK_STR(info.description, says->description);
		CHECK_STR(info.driver, says->driver);
		CHECK_EQ(info.uuid[0], says->uuid);
		CHECK_EQ(info.acquire, DLBUF_SYNC_FENCE);
		CHECK_EQ(info.release, says->release);
		CHECK_EQ(info.offset_align, says->offset_align);
		CHECK_EQ(info.pitch_align, says->pitch_align);
		info = l.infos[0];
	}
	CHECK_OK(on->get(dev, true, &version));
	CHECK_EQ(version, says->version);
	CHECK_ERR(on->get(dev, false, &version), -EINVAL);
	CHECK_ERR(on->get(NULL, true, &version), -EINVAL);
	dlbuf_device_close(dev);
	end();
}

QUEUE_CASE(what_a_device_says, ITSELF, SAYS)
{
	for (size_t i = 0; on->says[i].words; i++)
		check_says(&on->says[i]);
}

static int try_open_again(void)
{
	struct dlbuf_device *dev = NULL;

	return dlbuf_device_open(on->device, NULL, &dev);
}

/* A child has none of the driver's threads. */
QUEUE_CASE(a_child, ITSELF, STALE)
{
	for (int used = 0; used < 2; used++) {
		int status = 0;
		pid_t child;

		begin(used ? "" : "none");
		if (used)
			dlbuf_device_close(open_as(on->device));
		else
			CHECK_ERR(try_open_again(), -ENODEV);
		child = fork();
		if (!child)
			_exit(-try_open_again());
		REQUIRE(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status),
			 used || on->stale == 2 ? ESTALE : ENODEV);
		end();
	}
}

#ifdef CONFIG_BACKEND_CPU
QUEUE_CASE(another_backends_device, ITSELF, SAYS)
{
	struct dlbuf_device *cpu AUTO_DEV = open_as("cpu");
	int64_t version;

	CHECK_ERR_SAYS(on->get(cpu, true, &version), -EINVAL, "cpu is not a");
}
#endif

/* A device is not opened to be listed. One that fails is listed with the reason. */
QUEUE_CASE(each, ITSELF, NAME)
{
	struct listed l = { 0 };
	char name[40];

	begin(on->two);
	snprintf(name, sizeof(name), "%s:1", on->device);
	CHECK_OK(dlbuf_device_each(list, &l));
	CHECK_EQ(l.n, 2);
	CHECK_STR(l.infos[1].name, name);
	CHECK(memcmp(l.infos[0].uuid, l.infos[1].uuid, 16));
	CHECK_EQ(l.infos[1].device.device_id, 1);
	CHECK_EQ(l.infos[1].acquire, DLBUF_SYNC_FENCE);
	CHECK_EQ(l.infos[1].release, DLBUF_SYNC_EVENT);
	CHECK_EQ(l.infos[1].status, 0);
	CHECK_EQ(fake->made[FAKE_CONTEXT], 0);
	l = (struct listed){ .ret = 5 };
	CHECK_EQ(dlbuf_device_each(list, &l), 5);
	CHECK_EQ(l.n, 1);
	l = (struct listed){ 0 };
	fail_call(on->calls[NAME], 0);
	CHECK_OK(dlbuf_device_each(list, &l));
	CHECK_EQ(l.n, 2);
	CHECK_EQ(l.infos[0].status, -EIO);
	CHECK(strstr(l.infos[0].reason, on->calls[NAME]));
	heal();
	end();
}

static void none_counted(const char *name)
{
	if (!strcmp(name, on->calls[COUNT]))
		fake->ndevices = 0;
}

QUEUE_CASE(no_device_is_counted, ITSELF, COUNT)
{
	struct dlbuf_device *dev = NULL;

	begin("");
	fake->look = none_counted;
	CHECK_ERR_SAYS(dlbuf_device_open(on->device, NULL, &dev), -ENODEV, "no device");
	CHECK(!dev);
	end();
}

QUEUE_CASE(every_failure_of_an_open, ITSELF, OPENS)
{
	struct dlbuf_device *dev = NULL;

	begin("");
	for (const struct queue_failure *fails = on->opens; fails->call; fails++) {
		break_call(fails->call, fails->result, 0);
		CHECK_ERR(dlbuf_device_open(on->device, NULL, &dev), fails->ret);
		heal();
		CHECK(says_call(fails->call) || strstr(fails->says, ": "));
		CHECK_SAYS(fails->says);
		fake->wrong = 0;
		if (!nothing_left())
			ktap_note(NULL, 0, "%s", fails->call);
	}
	CHECK(!dev);
	end();
}
#endif

static void check_blocks(void)
{
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev AUTO_DEV = open_device();

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_EQ(info.acquire, DLBUF_SYNC_BLOCKS);
	CHECK_EQ(info.release, DLBUF_SYNC_EVENT);
	CHECK(strstr(info.reason, "blocks: the driver's streams do not wait"));
}

QUEUE_CASE(streams_do_not_wait_for_memory, ITSELF, UNREGISTER)
{
	static const enum queue_call calls[] = {
		STREAM_CREATE, WAIT_FENCE, FINISH, ALLOC_HOST, ADDRESS,
	};

	begin("nomemops");
	check_blocks();
	end();
	begin("");
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		fail_call(on->calls[calls[i]], 0);
		check_blocks();
		heal();
		settle();
		nothing_left();
	}
	end();
}

/* ---------------------------------------------------------------- imports */

QUEUE_CASE(the_first_path_that_serves, ITSELF, SERVES)
{
	for (const struct queue_first *first = on->first; first->words; first++) {
		begin(first->words);
		break_call(first->broken, on->unknown, 0);
		REQUIRE_OK(import_as(&f, open_device(), first->paths, DLBUF_RW));
		CHECK_EQ(f.imp->path, first->path);
		give_up(&f);
		end();
	}
}

/* A discrete GPU's bytes are compared, until they were right once. */
QUEUE_CASE(direct_is_compared, ITSELF, COMPARES)
{
	begin(on->compares);
	CHECK_ERR_SAYS(import_by(&f, open_device(), DLBUF_PATH_DIRECT, DLBUF_RW), -EOPNOTSUPP,
		       "reads other bytes than the CPU does");
	import_finish(&f, -1);
	dlbuf_device_close(f.dev);
	end();
}

static void check_import_fails(enum queue_call broken, enum dlbuf_path path, bool no_memory)
{
	int ret = -EOPNOTSUPP;
	const char *name = on->calls[broken];
	unsigned int live[ARRAY_SIZE(fake->live)];
	struct dlbuf_device *dev;

	if (no_memory && (broken != IMPORT_FD || !on->lies))
		ret = -ENOMEM;
	begin(on->words[path]);
	dev = open_device();
	memcpy(live, fake->live, sizeof(live));
	break_call(name, no_memory ? on->no_memory : on->unknown, 0);
	if (!CHECK_ERR(import_by(&f, dev, path, DLBUF_RW), ret))
		ktap_note(NULL, 0, "%s", name);
	CHECK(says_call(name) || broken == ENTER);
	import_finish(&f, -1);
	CHECK(!memcmp(live, fake->live, sizeof(live)));
	heal();
	/* The driver is asked again each time. */
	CHECK_OK(import_by(&f, dev, path, DLBUF_RW));
	give_up(&f);
	end();
}

/* A missing device is reported as missing, and a refusal concerns one path. */
QUEUE_CASE(every_failure_of_an_import, ITSELF, OPENS)
{
	static const struct {
		enum queue_call call;
		enum dlbuf_path path;
	} cases[] = {
		{ IMPORT_FD, DLBUF_PATH_DIRECT }, { MAP_FD, DLBUF_PATH_DIRECT },
		{ REGISTER, DLBUF_PATH_HOST }, { ADDRESS, DLBUF_PATH_HOST },
		{ ALLOC, DLBUF_PATH_COPY }, { ALLOC_HOST, DLBUF_PATH_COPY },
		{ ENTER, DLBUF_PATH_COPY },
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++)
		if (on->calls[cases[i / 2].call] && on->words[cases[i / 2].path])
			check_import_fails(cases[i / 2].call, cases[i / 2].path, i % 2);
}

/* The memfd behind a udmabuf serves where the dma-buf's own mapping does not. */
QUEUE_CASE(host_by_the_memfd, ITSELF, NOTHING)
{
	int memfd AUTO_FD = memfd_create("behind it", MFD_CLOEXEC);
	uint8_t byte = 0x5a;

	REQUIRE(memfd >= 0 && !ftruncate(memfd, IMPORT_BYTES));
	CHECK_EQ(pwrite(memfd, &byte, 1, 100), 1);
	for (int i = 0; i < 2 && on->words[DLBUF_PATH_HOST]; i++) {
		begin(on->words[DLBUF_PATH_HOST]);
		fixture_make(&f, open_device(), HOST, DLBUF_RW);
		memory_remember(f.imp->fd, memfd);
		if (i && on->calls[REGISTER]) {
			/* Its failures are not of the mapping. */
			fail_call(on->calls[REGISTER], 0);
			CHECK_ERR(import_now(&f), -EOPNOTSUPP);
			CHECK(!strstr(dlbuf_last_error(), "memfd"));
			heal();
			import_finish(&f, -1);
			dlbuf_device_close(f.dev);
		} else {
			REQUIRE_OK(import_now(&f));
			CHECK_EQ(((uint8_t *)queue_memory_of(f.imp)->map)[100], 0x5a);
			give_up(&f);
		}
		memory_forget(memfd);
		end();
	}
}

#endif /* UNIT_QUEUE_DEVICES_H */
