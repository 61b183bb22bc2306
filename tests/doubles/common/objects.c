// SPDX-License-Identifier: MIT
/* See objects.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "objects.h"

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
STATIC_TLS bool in_host_function;
STATIC_TLS const char *call;
bool initialised, forked, freeing;

/* Pointers, hashed: handles are looked up in each call. */
static struct object *objects[1024];

/* ---------------------------------------------------------------- calls */

void wrong(const char *fmt, ...)
{
	va_list ap;

	driver->wrong++;
	fprintf(stderr, "# fake %s: ", driver_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	if (driver->strict)
		abort();
}

bool call_begin(const char *name)
{
	void (*look)(const char *call) = __atomic_load_n(&driver->look, __ATOMIC_ACQUIRE);
	const char *failing;

	if (look)
		look(name);
	pthread_mutex_lock(&lock);
	while (freeing && !in_host_function)
		pthread_cond_wait(&changed, &lock);
	call = name;
	driver->calls++;
	/* A test may have set it without a word. */
	if (driver->lost)
		pthread_cond_broadcast(&changed);
	if (in_host_function)
		return false;
	if (driver->fail_at && (!driver->fail_thread || driver->fail_thread == gettid()) &&
	    !--driver->fail_at)
		return true;
	failing = __atomic_load_n(&driver->failing, __ATOMIC_ACQUIRE);
	if (!failing || strcmp(failing, name))
		return false;
	if (!driver->spared)
		return true;
	driver->spared--;
	return false;
}

void begins_to_wait(void)
{
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	if (!freeing && !strcmp(name, "dlbuf-events"))
		wrong("%s: %s waits for a stream", call, name);
}

void lose(int result)
{
	pthread_mutex_lock(&lock);
	driver->lost = result;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	forked = initialised;
	pthread_cond_init(&changed, NULL);
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void loaded(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* ---------------------------------------------------------------- objects */

static struct object **bucket_of(const void *handle)
{
	return &objects[((uintptr_t)handle >> 5) % 1024];
}

void *make(unsigned int kind, size_t size, struct context *ctx, bool ours)
{
	struct object *o = calloc(1, size);
	struct object **bucket = bucket_of(o);

	o->kind = kind;
	o->live = true;
	o->ctx = ctx;
	o->ours = ours;
	o->next = *bucket;
	*bucket = o;
	if (!ours) {
		driver->live[kind]++;
		driver->made[kind]++;
	}
	return o;
}

static struct object *find(const void *handle, unsigned int kind)
{
	struct object *o = *bucket_of(handle);

	while (o && o != handle)
		o = o->next;
	return o && o->kind == kind ? o : NULL;
}

void *object_of(const void *handle, unsigned int kind)
{
	struct object *o = find(handle, kind);

	return o && o->live ? o : NULL;
}

bool was(const void *handle, unsigned int kind)
{
	struct object *o = find(handle, kind);

	return o && !o->live;
}

void unmake(struct object *o)
{
	if (o->pending && !driver->lost)
		wrong("%s: in use by the device", call);
	o->live = false;
	if (!o->ours)
		driver->live[o->kind]--;
	pthread_cond_broadcast(&changed);
}

unsigned int destroy_all(unsigned int kind, struct context *ctx,
			 void (*destroy)(struct object *o))
{
	unsigned int n = 0;

	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		for (struct object *o = objects[i]; o; o = o->next) {
			if (!o->live || o->kind != kind || (ctx && o->ctx != ctx))
				continue;
			n += !o->ours;
			if (destroy)
				destroy(o);
		}
	return n;
}

void objects_free(void)
{
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		while (objects[i]) {
			struct object *o = objects[i];

			objects[i] = o->next;
			free(o);
		}
}
