/* SPDX-License-Identifier: MIT */
/* Each call of the driver and of the system fails once. Cases of queue_cases.h. */
#ifndef UNIT_QUEUE_FAULTS_H
#define UNIT_QUEUE_FAULTS_H

/* ---------------------------------------------------------------- faults */

#if defined(FAIL_LATER) || defined(CONFIG_FAULT_INJECTION)
static enum dlbuf_path walk_path;

static int walk(void)
{
	struct dlbuf_device *dev = NULL;
	int in, out = -1, ret;
	pthread_t thread;

	/* Not a wrapped one, whose context the application keeps. */
#ifdef ONE_DEVICE
	ret = try_open(&dev);
#else
	ret = dlbuf_device_open(on->device, NULL, &dev);
#endif
	if (ret)
		return ret;
	ret = import_by(&f, dev, walk_path, DLBUF_RW);
	if (ret) {
		import_finish(&f, ret);
		dlbuf_device_close(dev);
		return ret;
	}
	in = pending_fence();
	/* The acquire may have to wait. */
	REQUIRE(!pthread_create(&thread, NULL, signal_soon, &in));
	ret = acquire(&f, DLBUF_RW, NULL, in);
	pthread_join(thread, NULL);
	if (!ret) {
		ret = f.dev->backend->release(f.imp, DLBUF_RW, ON(NULL), &out,
					      NULL);
		CHECK(!ret || out == -1);
	}
	if (!ret)
		ret = wait_until(DLBUF_RW, 0);
	CHECK_EQ(queue_memory_of(f.imp)->open, 0);
	import_finish(&f, 0);
	if (out != -1)
		until_over(out);
	close(in);
	dlbuf_device_close(dev);
	return ret;
}

#endif

#ifdef FAIL_LATER
/* The driver fails the n-th call of it, each in turn, and nothing stays behind. */
static void check_calls(const char *words)
{
	unsigned long calls;

	begin(words);
	CHECK_OK(walk());
	settle();
	nothing_left();
	calls = fake->calls;
	CHECK(calls > 20);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		FAIL_LATER(n);
		ret = walk();
		FAIL_LATER(0);
		settle();
		if (!nothing_left() || !CHECK_EQ(fake->wrong, 0))
			ktap_note(NULL, 0, "%s: call %lu of %lu gave %d: %s", words,
				  n, calls, ret, dlbuf_last_error());
		fake->wrong = 0;
	}
	end();
}

QUEUE_CASE(every_call_of_the_driver_fails_once, ITSELF, LOSES)
{
	FOR_EACH_PATH(path) {
		walk_path = path;
		check_calls(on->words[path]);
	}
}
#endif

#ifdef CONFIG_FAULT_INJECTION
QUEUE_CASE(every_call_fails_once, ITSELF, NOTHING)
{
	FOR_EACH_PATH(path) {
		begin(on->words[path]);
		/* And that path, or the next one if a call of it fails. */
		for (int any = 0; any < 2; any++) {
			walk_path = any ? 0 : path;
			check_walks(walk, on->walks);
		}
		end();
	}
}

#ifndef ONE_DEVICE
static int walk_export(void)
{
	DLManagedTensorVersioned *tensor = NULL;
	struct dlbuf_device *dev = NULL;
	struct dlbuf_exported out;
	int ret;

	ret = dlbuf_device_open(on->device, NULL, &dev);
	if (ret)
		return ret;
	ret = try_alloc(dev, &tensor);
	if (!ret)
		ret = export_at(dev, tensor->dl_tensor.data, EXPORT_BYTES,
				dev->dl.device_type, 0, &out);
	if (!ret)
		close(out.fd);
	if (tensor)
		tensor->deleter(tensor);
	dlbuf_device_close(dev);
	return ret;
}

QUEUE_CASE(every_call_of_an_export_fails_once, ITSELF, EXPORTS)
{
	begin(on->exports);
	check_walks(walk_export, on->walks);
	end();
}
#endif
#endif

#endif /* UNIT_QUEUE_FAULTS_H */
