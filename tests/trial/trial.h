/* SPDX-License-Identifier: MIT */
/* What is the trial backend's own, for those who play its user. */
#ifndef TRIAL_H
#define TRIAL_H

#include "backend.h"

BACKEND_DECLARE(trial);

/* On the default stream. */
int trial_copy(struct dlbuf_device *dev, void *to, const void *from,
	       size_t bytes);

#endif /* TRIAL_H */
