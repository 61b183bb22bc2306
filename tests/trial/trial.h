/* SPDX-License-Identifier: MIT */
#ifndef TRIAL_H
#define TRIAL_H

#include "queue/queue.h"

BACKEND_DECLARE(trial);

/* A stream of it calls fn. */
int trial_call(void *stream, void (*fn)(void *data), void *data);

#endif /* TRIAL_H */
