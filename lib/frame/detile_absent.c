// SPDX-License-Identifier: MIT
/* Refuses tiled frames, in a library without detile.c. */
#include "../system/absent.h"
#include "detile.h"

bool detile_linear;

int detile_check(struct dlbuf_device *dev, const struct dlbuf_frame *frame,
		 const struct format *format)
{
	return fail(-EOPNOTSUPP, "modifier 0x%016llx is not linear, and copies of such frames "
		    "are not built into this library", (unsigned long long)frame->modifier);
}

int detile_import(struct dlbuf_device *dev, const struct dlbuf_frame *frame,
		  const struct format *format,
		  const struct dlbuf_import_opts *opts,
		  DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
		  uint32_t *ntensors)
{
	return fail(-ENOSYS, "copies of frames that are not linear are not built into this "
		    "library");
}

int detile_rows(struct detile *d, uint32_t align, uint64_t *bytes)
{
	return -ENOSYS;
}

int detile_modifiers(struct dlbuf_device *dev, const struct format *format,
		     void (*fn)(uint64_t modifier, uint32_t nplanes, void *data),
		     void *data)
{
	return 0;
}
