// SPDX-License-Identifier: MIT
/* See calls.h. */
#include "calls.h"

STATIC_TLS bool refused;
STATIC_TLS const char *called_as;

int refuse(int result, const char *why)
{
	wrong("%s: %s", call, why);
	refused = true;
	return result;
}

int begin(const char *name, unsigned int needs)
{
	bool fails = call_begin(called_as ? called_as : name);
	int result;

	refused = false;
	if (rules.enter)
		rules.enter();
	if (in_host_function && !(needs & IN_FUNCTIONS))
		return refuse(rules.in_function, "within a host function");
	if (fails)
		return driver->result;
	if (forked)
		return refuse(rules.in_child, "in a child of who initialised it");
	if (needs & NEEDS_INIT && !initialised)
		return refuse(rules.before_init, "before it is initialised");
	result = rules.own ? rules.own(needs) : 0;
	return result ? result : needs & NEEDS_DEVICE ? driver->lost : 0;
}

int end(int result)
{
	pthread_mutex_unlock(&lock);
	return result;
}

unsigned int destroy_all_of(struct context *ctx)
{
	unsigned int n = 0;

	for (unsigned int kind = rules.nkinds; kind--;)
		if (rules.destroy[kind])
			n += destroy_all(kind, ctx, rules.destroy[kind]);
	return n;
}

void clear_objects(void)
{
	streams_reset();
	call = "the reset";
	destroy_all_of(NULL);
	objects_free();
}
