/* SPDX-License-Identifier: MIT */
/*
 * Used by dlbuf/interop/ffmpeg.h and vaapi.h. Their descriptors may describe a
 * picture as several layers, each of which is an image of DRM: NV12 as R8 and
 * GR88.
 */
#ifndef DLBUF_INTEROP_LAYERS_H
#define DLBUF_INTEROP_LAYERS_H

#include <string.h>

#include <dlbuf/format.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns 1 if a layer of the DRM format `layer` has the samples of plane `plane`
 * of the DRM format `code`: the same number, of the same size. Otherwise 0. The
 * names of the channels are ignored, because drivers disagree: the chroma of NV12
 * is GR88 to most and RG88 to some, for the same bytes. Pure.
 */
static inline int dlbuf_layer_is_plane_(uint32_t layer, uint32_t code,
					uint32_t plane)
{
	struct dlbuf_format_info l, f;

	memset(&l, 0, sizeof(l));
	memset(&f, 0, sizeof(f));
	l.size = f.size = sizeof(f);
	return !dlbuf_format_find(layer, DLBUF_MOD_LINEAR, DLBUF_CODE_DRM,
				  &l) &&
	       !dlbuf_format_find(code, DLBUF_MOD_LINEAR, DLBUF_CODE_DRM, &f) &&
	       l.nplanes == 1 && plane < f.nplanes &&
	       l.planes[0].channels == f.planes[plane].channels &&
	       l.planes[0].bits == f.planes[plane].bits &&
	       l.planes[0].hsub == 1 && l.planes[0].vsub == 1;
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_LAYERS_H */
