// SPDX-License-Identifier: MIT
/* The tensors of a simulation. Valid C and C++, as Verilator's make compiles it. */
#include "sim.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

struct sim_tensor {
	struct sim_tensor *next;
	int handle;		/* 0: it has arrived and is not open */
	DLManagedTensorVersioned *dl;
	int done;		/* the host's event; -1: returned */
	uint32_t access;	/* that the host has acquired */
	uint32_t acquired;
	uint8_t *first;		/* byte with the lowest address */
	uint64_t bytes;
	uint64_t item;		/* bytes of an element */
	char name[DLBUF_VPI_MAX_NAME];
};

static struct {
	struct dlbuf_device *cpu;
	char name[64];		/* of the device; "": the environment's */
	int sock;		/* -1: not attached */
	bool inherited;		/* sock is $DLBUF_VPI_FD */
	bool over;		/* the host has closed an inherited socket */
	int last;		/* handle */
	struct sim_tensor *tensors;	/* in the order of their arrival */
	volatile sig_atomic_t signal;	/* signal during a call that waited, or 0 */
	char error[1024];
} sim = { NULL, "", -1, false, false, 0, NULL, 0, "" };

const char *sim_error(void)
{
	return sim.error;
}

int sim_fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(sim.error, sizeof(sim.error), fmt, args);
	va_end(args);
	return SIM_FAILED;
}

static int library_failed(void)
{
	return sim_fail("%s", dlbuf_last_error());
}

/* ---------------------------------------------------------------- waiting */

/*
 * Signals that end a program. If the simulator has a handler for one, as vvp has, the
 * handler notes it and returns, and a call that waits would continue. So a wait has a
 * handler of its own, which ends the simulation. vvp's handler must not run then,
 * because vvp would end with status 0.
 */
static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
#define NSIGNALS (sizeof(signals) / sizeof(signals[0]))
static struct sigaction before[NSIGNALS];

static void on_signal(int number)
{
	sim.signal = number;
}

/* A handler with SA_SIGINFO is in the same union. */
static bool is_handled(size_t i)
{
	return before[i].sa_handler != SIG_DFL && before[i].sa_handler != SIG_IGN;
}

static void wait_begin(void)
{
	struct sigaction ours;

	memset(&ours, 0, sizeof(ours));
	ours.sa_handler = on_signal;
	sim.signal = 0;
	for (size_t i = 0; i < NSIGNALS; i++) {
		sigaction(signals[i], NULL, &before[i]);
		if (is_handled(i))
			sigaction(signals[i], &ours, NULL);
	}
}

/* A signal after the wait is left to the simulator. */
static void wait_end(bool over)
{
	for (size_t i = 0; i < NSIGNALS; i++)
		if (is_handled(i))
			sigaction(signals[i], &before[i], NULL);
	if (over && sim.signal)
		raise(sim.signal);
}

/* A wait checks for signals ten times a second. */
static uint64_t soon(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec + 100000000;
}

static int interrupted(void)
{
	return sim_fail("ended by signal %d (%s)", (int)sim.signal,
			strsignal(sim.signal));
}

/* ---------------------------------------------------------------- the host */

int sim_attach(const char *name)
{
	if (sim.sock >= 0)
		return sim_fail("the simulation is attached to vpi:%s already",
				sim.name);
	snprintf(sim.name, sizeof(sim.name), "%s", name);
	return 0;
}

static void pause_for(long ms)
{
	const struct timespec pause = { 0, ms * 1000000 };

	nanosleep(&pause, NULL);
}

/* The host program may start after the simulator. */
static int connect_host(bool wait)
{
	const unsigned int ms = 10, notice = 1000;

	for (unsigned int waited = 0; ; waited += ms) {
		int ret = dlbuf_vpi_connect(sim.name, &sim.sock);

		if (!ret)
			return 1;
		if (ret != -ECONNREFUSED)
			return library_failed();
		if (!wait)
			return -1;
		if (sim.signal)
			return interrupted();
		if (waited == notice)
			fprintf(stderr, "dlbuf: waiting for a program that opens "
				"the device vpi:%s: %s\n", sim.name, dlbuf_last_error());
		pause_for(ms);
	}
}

static void drop(struct sim_tensor *t)
{
	if (t->done >= 0)
		close(t->done);
	t->dl->deleter(t->dl);
	free(t);
}

/* 1: attached. 0: the host has closed. -1: there is no host yet. */
static int attach(bool wait)
{
	const char *fd = getenv("DLBUF_VPI_FD"), *name = getenv("DLBUF_VPI");

	if (!sim.cpu && dlbuf_device_open("cpu", NULL, &sim.cpu))
		return library_failed();
	if (sim.sock >= 0 || sim.over)
		return !sim.over;
	if (!*sim.name && fd && *fd) {
		char *end;
		long number = strtol(fd, &end, 10);

		if (*end || number < 0 || number > INT32_MAX)
			return sim_fail("$DLBUF_VPI_FD is '%s' and not the number of a "
					"socket", fd);
		sim.sock = number;
		sim.inherited = true;
		return 1;
	}
	if (!*sim.name && name)
		snprintf(sim.name, sizeof(sim.name), "%s", name);
	if (!*sim.name)
		return sim_fail("neither $DLBUF_VPI nor $dlbuf_attach() names the "
				"host program's device");
	return connect_host(wait);
}

/* Tensors that were not opened are dropped with the program: the next program sends its own. */
static void detach(void)
{
	struct sim_tensor *t, **p = &sim.tensors;

	close(sim.sock);
	sim.sock = -1;
	sim.over = sim.inherited;
	while ((t = *p))
		if (t->handle) {
			p = &t->next;
		} else {
			*p = t->next;
			drop(t);
		}
}

/* ---------------------------------------------------------------- arrivals */

static uint64_t magnitude(int64_t n)
{
	return n < 0 ? -(uint64_t)n : (uint64_t)n;
}

/* The library has checked the layout: nothing overflows. */
static void measure(struct sim_tensor *t)
{
	const DLTensor *l = &t->dl->dl_tensor;
	uint64_t below = 0;
	struct dlbuf_tensor_info info;

	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	dlbuf_tensor_get_info(t->dl, &info);
	t->item = (uint64_t)l->dtype.bits * l->dtype.lanes / 8;
	t->bytes = info.end - info.first;
	for (int i = 0; t->bytes && i < l->ndim; i++)
		if (l->strides[i] < 0)
			below += magnitude(l->strides[i]) * (l->shape[i] - 1);
	t->first = (uint8_t *)l->data - below * t->item;
}

/* 1: a tensor has arrived. 0: the host has closed. -1: none yet. */
static int receive(bool wait)
{
	struct sim_tensor *t, **p = &sim.tensors;
	struct dlbuf_socket_opts opts;
	struct dlbuf_vpi_arrival a;
	int ret;

	memset(&opts, 0, sizeof(opts));
	opts.size = sizeof(opts);
	opts.flags = DLBUF_SOCKET_DONTWAIT;
	memset(&a, 0, sizeof(a));
	a.size = sizeof(a);
	do {
		opts.deadline_ns = wait ? soon() : 0;
		ret = dlbuf_vpi_recv(sim.cpu, sim.sock, &opts, &a);
	} while (ret == -ETIME && !sim.signal);
	if (ret == -ETIME)
		return interrupted();
	if (ret == -EAGAIN)
		return -1;
	if (ret == -EPIPE) {
		detach();
		return 0;
	}
	if (ret)
		return library_failed();
	t = (struct sim_tensor *)calloc(1, sizeof(*t));
	if (!t) {
		close(a.done);
		a.tensor->deleter(a.tensor);
		return sim_fail("no memory");
	}
	t->dl = a.tensor;
	t->done = a.done;
	t->access = a.access;
	memcpy(t->name, a.name, sizeof(t->name));
	measure(t);
	while (*p)
		p = &(*p)->next;
	*p = t;
	return 1;
}

static int open_arrived(const char *name)
{
	for (struct sim_tensor *t = sim.tensors; t; t = t->next)
		if (!t->handle && !strcmp(t->name, name))
			return t->handle = ++sim.last;
	return 0;
}

static int arrive(const char *name, bool wait)
{
	int ret = open_arrived(name);

	while (!ret) {
		ret = attach(wait);
		if (ret > 0)
			ret = receive(wait);
		if (ret <= 0)
			return ret;
		ret = open_arrived(name);
	}
	return ret;
}

int sim_open(const char *name, bool wait)
{
	size_t n = 0;
	int ret;

	while (name[n] > ' ' && name[n] <= '~')
		n++;
	if (!n || name[n] || n >= DLBUF_VPI_MAX_NAME)
		return sim_fail("no program can send a tensor '%.64s': a name has 1 to "
				"%d printable characters without spaces", name,
				DLBUF_VPI_MAX_NAME - 1);
	ret = arrive(name, false);
	if (ret != -1 || !wait)
		return ret;
	wait_begin();
	ret = arrive(name, true);
	wait_end(ret != SIM_FAILED);
	return ret;
}

/* ---------------------------------------------------------------- open tensors */

static struct sim_tensor *find(int handle)
{
	struct sim_tensor *t = sim.tensors;

	while (t && (t->handle != handle || !handle))
		t = t->next;
	if (!t)
		sim_fail("%d is not the handle of an open tensor", handle);
	return t;
}

int sim_acquire(int handle, uint32_t access, bool wait)
{
	struct sim_tensor *t = find(handle);
	struct dlbuf_acquire_opts opts;
	int ret;

	if (!t)
		return SIM_FAILED;
	if (t->done < 0)
		return sim_fail("tensor '%s' is released: the host has to send it "
				"again", t->name);
	if (!access || access & ~t->access)
		return sim_fail("tensor '%s': access %u is not in access %u, which "
				"the host has acquired", t->name, access, t->access);
	memset(&opts, 0, sizeof(opts));
	opts.size = sizeof(opts);
	opts.deadline_ns = 1;
	ret = dlbuf_acquire(t->dl, access, NULL, &opts);
	if (ret == -ETIME && !wait)
		return 0;
	if (ret == -ETIME) {
		wait_begin();
		do {
			opts.deadline_ns = soon();
			ret = dlbuf_acquire(t->dl, access, NULL, &opts);
		} while (ret == -ETIME && !sim.signal);
		wait_end(ret != -ETIME);
	}
	if (ret == -ETIME)
		return interrupted();
	if (ret)
		return library_failed();
	t->acquired = access;
	return 1;
}

/* If an end is closed with its byte unread, the simulation has died. */
static int release(struct sim_tensor *t)
{
	int ret = t->acquired ? dlbuf_release(t->dl, NULL, NULL) : 0;
	char byte;

	t->acquired = 0;
	if (ret)
		return library_failed();
	if (t->done >= 0) {
		if (recv(t->done, &byte, 1, MSG_DONTWAIT) != 1)
			ret = sim_fail("tensor '%s': the end of the access: %s", t->name,
				       strerror(errno));
		close(t->done);
	}
	t->done = -1;
	return ret;
}

int sim_release(int handle)
{
	struct sim_tensor *t = find(handle);

	if (!t)
		return SIM_FAILED;
	return t->acquired ? release(t) :
	       sim_fail("tensor '%s' is not acquired", t->name);
}

int sim_close(int handle)
{
	struct sim_tensor *t = find(handle), **p = &sim.tensors;
	int ret;

	if (!t)
		return SIM_FAILED;
	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	ret = release(t);
	drop(t);
	return ret;
}

int sim_query(int handle, enum sim_query what, int64_t dim, int64_t *value)
{
	struct sim_tensor *t = find(handle);
	const DLTensor *l;

	if (!t)
		return SIM_FAILED;
	l = &t->dl->dl_tensor;
	if (what == SIM_SHAPE || what == SIM_STRIDE) {
		if (dim < 0 || dim >= l->ndim)
			return sim_fail("tensor '%s' has %d dimensions and none with "
					"number %lld", t->name, l->ndim, (long long)dim);
		*value = (what == SIM_SHAPE ? l->shape : l->strides)[dim];
		return 0;
	}
	*value = what == SIM_NDIM ? l->ndim :
		 what == SIM_CODE ? l->dtype.code :
		 what == SIM_BITS ? l->dtype.bits :
		 what == SIM_LANES ? l->dtype.lanes : (int64_t)t->bytes;
	return 0;
}

static int check_access(const struct sim_tensor *t, uint32_t access)
{
	if (access & ~t->acquired)
		return sim_fail("tensor '%s' is not acquired for %s", t->name,
				access & DLBUF_WRITE ? "writing" : "reading");
	return 0;
}

int sim_bytes(int handle, uint32_t access, int64_t offset, int64_t bytes,
	      uint8_t **at)
{
	struct sim_tensor *t = find(handle);

	if (!t || check_access(t, access))
		return SIM_FAILED;
	if (offset < 0 || bytes < 0 || (uint64_t)bytes > t->bytes ||
	    (uint64_t)offset > t->bytes - bytes)
		return sim_fail("tensor '%s' has %llu bytes: %lld at %lld are not "
				"inside", t->name, (unsigned long long)t->bytes,
				(long long)bytes, (long long)offset);
	*at = t->first + offset;
	return 0;
}

static int element(int handle, uint32_t access, int64_t index, uint8_t **at,
		   uint64_t *item)
{
	struct sim_tensor *t = find(handle);
	int64_t rest = index, offset = 0;
	const DLTensor *l;

	if (!t || check_access(t, access))
		return SIM_FAILED;
	l = &t->dl->dl_tensor;
	if (!t->item || t->item > sizeof(uint64_t))
		return sim_fail("tensor '%s': elements of %u bits are read and written "
				"as bytes", t->name, l->dtype.bits * l->dtype.lanes);
	for (int i = l->ndim - 1; rest >= 0 && t->bytes && i >= 0; i--) {
		offset += rest % l->shape[i] * l->strides[i];
		rest /= l->shape[i];
	}
	if (rest || index < 0 || !t->bytes)
		return sim_fail("tensor '%s' has no element %lld", t->name,
				(long long)index);
	*at = (uint8_t *)l->data + offset * (int64_t)t->item;
	*item = t->item;
	return 0;
}

/* Bytes are in the order of the machine; so are those of elements. */
int sim_get(int handle, int64_t index, uint64_t *value)
{
	uint64_t item, v = 0;
	uint8_t *at;
	int ret = element(handle, DLBUF_READ, index, &at, &item);

	if (ret)
		return ret;
	for (uint64_t i = 0; i < item; i++)
		v |= (uint64_t)at[i] << 8 * i;
	*value = v;
	return 0;
}

int sim_put(int handle, int64_t index, uint64_t value)
{
	uint64_t item, bits;
	uint8_t *at;
	int ret = element(handle, DLBUF_WRITE, index, &at, &item);

	/* A value may be signed or unsigned: -1 and 255 fit a byte, 256 does not. */
	bits = ret ? 64 : 8 * item;
	if (bits < 64 && value >> bits && ~value >> (bits - 1))
		return sim_fail("0x%llx does not fit an element of %llu bits",
				(unsigned long long)value, (unsigned long long)bits);
	for (uint64_t i = 0; !ret && i < item; i++)
		at[i] = value >> 8 * i;
	return ret;
}
