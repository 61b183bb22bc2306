/* SPDX-License-Identifier: MIT */
/* begin() and end() of queue_cases.h: with Vulkan's double, if the driver has a bridge. */
#ifndef UNIT_QUEUE_BRIDGE_H
#define UNIT_QUEUE_BRIDGE_H

#include "queue_driver.h"

#ifdef CONFIG_BACKEND_VULKAN
#include "cuda_vulkan.h"

static void begin_one_or_both(const char *words)
{
	(on->words[DLBUF_PATH_BRIDGE] ? begin_both : begin)(words);
}

static void end_one_or_both(void)
{
	(on->words[DLBUF_PATH_BRIDGE] ? end_both : end)();
}
#undef begin
#define begin begin_one_or_both
#define end end_one_or_both
#endif

#endif /* UNIT_QUEUE_BRIDGE_H */
