/* SPDX-License-Identifier: MIT */
/*
 * Begin and end of a double's call, for doubles whose calls return an int, and the
 * destruction of its objects at a reset.
 */
#ifndef FAKE_CALLS_H
#define FAKE_CALLS_H

#include "streams.h"

/* The state that a call needs before its arguments are checked. The double may have more. */
enum {
	NEEDS_INIT = 1,
	NEEDS_DEVICE = 2,	/* that is not lost */
	IN_FUNCTIONS = 4,	/* the call is for host functions, too */
	NEEDS_OWN = 8,		/* the first of the double's own */
};

/* The double defines it. */
extern const struct rules {
	/* The results of calls in a host function; in a child; before the first call. */
	int in_function, in_child, before_init;
	void (*enter)(void);	/* each call does it first; or NULL */
	/* Why a call fails that needs something of the double's own; or NULL. */
	int (*own)(unsigned int needs);
	/* The functions that destroy each kind at a reset, the last kind first. */
	unsigned int nkinds;
	void (*const *destroy)(struct object *o);
} rules;

/* The call was refused, so that it has had no effect even if it frees. */
extern STATIC_TLS bool refused;
/* The name of the call where another API's double makes it, or NULL; see hip.c. */
extern STATIC_TLS const char *called_as;

/* Reports a broken rule of the current call; returns the call's result. */
int refuse(int result, const char *why);
/* Takes the lock. Why the call fails, or 0. */
int begin(const char *name, unsigned int needs);
/* Gives it back. */
int end(int result);

/* Begins a call that does nothing if it fails. */
#define BEGIN(needs)					\
	int result = begin(__func__, needs);		\
							\
	if (result)					\
		return end(result);

/* Begins a call that frees: it frees with every result, unless it is refused. */
#define BEGIN_FREE(needs)				\
	int result = begin(__func__, needs);		\
							\
	if (refused)					\
		return end(result);

/* The live object of a handle; or ends the call. */
#define OBJECT(type, var, handle, kind, invalid)	\
	struct type *var = object_of(handle, kind);	\
							\
	if (!var)					\
		return end(refuse(invalid, "no live " #type));

/* Destroys everything that lives in a context, or in any; how many there were. */
unsigned int destroy_all_of(struct context *ctx);
/* Ends all streams, drops their jobs, and destroys all objects. */
void clear_objects(void);

/* fake(true) as the library is loaded; and clear() as it is unloaded. */
#define LOADED(fake, clear)						\
	__attribute__((constructor)) static void loaded(void)		\
	{								\
		fake(true);						\
	}								\
	__attribute__((destructor)) static void unloaded(void)		\
	{								\
		clear();						\
	}

#endif /* FAKE_CALLS_H */
