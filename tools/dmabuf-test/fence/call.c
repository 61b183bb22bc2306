// SPDX-License-Identifier: MIT
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "call.h"
#include "tool.h"

void call_run(struct call *call)
{
	call->ret = call->fn(call);
	snprintf(call->sentence, sizeof(call->sentence), "%s", call->ret ? dlbuf_last_error() : "");
}

static void *call_thread(void *arg)
{
	struct call *call = arg;

	__atomic_store_n(&call->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	call_run(call);
	__atomic_store_n(&call->done, true, __ATOMIC_RELEASE);
	return NULL;
}

int call_start(struct call *call)
{
	call->tid = 0;
	call->done = false;
	return pthread_create(&call->thread, NULL, call_thread, call);
}

bool call_done(const struct call *call)
{
	return __atomic_load_n(&call->done, __ATOMIC_ACQUIRE);
}

bool call_settle(struct call *call)
{
	uint64_t end = now_ns() + SOON;
	char path[64], line[256];
	pid_t tid;

	while (!(tid = __atomic_load_n(&call->tid, __ATOMIC_ACQUIRE)))
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	while (!call_done(call) && now_ns() < end) {
		FILE *f = fopen(path, "re");
		const char *state;

		if (!f)
			break;
		state = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		fclose(f);
		/* ") S": in a wait that signals interrupt; ") D": in one that they do not. */
		if (state && (state[2] == 'S' || state[2] == 'D'))
			return true;
		sched_yield();
	}
	return call_done(call);
}

int call_join(struct call *call)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += SOON / SECOND;
	return pthread_timedjoin_np(call->thread, NULL, &end);
}
