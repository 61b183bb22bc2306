/* SPDX-License-Identifier: MIT */
/*
 * Prepares the pixels of a frame as a model's input. One call crops, scales, converts the
 * colours, normalises and writes a tensor, in one pass over the pixels.
 *
 *	static float pixels[3 * 640 * 640];
 *	int64_t shape[] = { 1, 3, 640, 640 };
 *	DLManagedTensorVersioned input = {
 *		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
 *		.dl_tensor = { .data = pixels, .device = { kDLCPU, 0 }, .ndim = 4,
 *			       .dtype = { kDLFloat, 32, 1 }, .shape = shape },
 *	};
 *	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 640, .height = 640,
 *		   .fit = DLBUF_FIT_LETTERBOX);
 *	DLBUF_INFO(dlbuf_frame, frame);
 *	struct dlbuf_prepare *plan = NULL;
 *	struct dlbuf_camera *cam;
 *	struct dlbuf_device *cpu;
 *
 *	if (dlbuf_device_open("cpu", NULL, &cpu) ||
 *	    dlbuf_camera_open("/dev/video0", NULL, &cam))
 *		errx(1, "%s", dlbuf_last_error());
 *	while (!dlbuf_camera_frame(cam, 0, &frame)) {
 *		if ((!plan && dlbuf_prepare_create(cpu, &frame, &opts, &plan)) ||
 *		    dlbuf_prepare_frame(plan, &frame, NULL, &input)) {
 *			dlbuf_frame_drop(&frame); // the lease is still yours
 *			break;
 *		}
 *		run_model(pixels);
 *	}
 *	warnx("%s", dlbuf_last_error());
 *	dlbuf_prepare_destroy(plan);
 *	dlbuf_camera_close(cam);
 *	dlbuf_device_close(cpu);
 *
 * The tensor that a call writes: on the CPU its memory is of any kind, and a
 * DLManagedTensorVersioned of yours or of another library describes it. Other devices need
 * a tensor in a dma-buf, which dlbuf_alloc() makes: call dlbuf_acquire() before you read
 * it.
 *
 * The picture is made upright first, as the frame's orientation says. docs/prepare.md defines
 * the result: sample positions, filters, matrices, rounding.
 */
#ifndef DLBUF_PREPARE_H
#define DLBUF_PREPARE_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>
#include <dlbuf/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Weights of the samples. The last three become wider where the picture shrinks. */
enum dlbuf_filter {
	/* Two samples per axis: OpenCV's INTER_LINEAR, ONNX Runtime, YOLO. */
	DLBUF_FILTER_BILINEAR = 0,
	/* The sample at the position: Pillow's NEAREST, except for ties. */
	DLBUF_FILTER_NEAREST = 1,
	/* Each sample by its overlap: INTER_AREA where the picture shrinks. */
	DLBUF_FILTER_AREA = 2,
	/* Pillow's BILINEAR; torchvision's with antialias. */
	DLBUF_FILTER_TRIANGLE = 3,
	/* Pillow's BICUBIC, a = -0.5: most image processors of Hugging Face, and timm. */
	DLBUF_FILTER_CUBIC = 4,
	/* Pillow's LANCZOS. */
	DLBUF_FILTER_LANCZOS3 = 5,
};

/*
 * Size of the scaled picture. The rules apply after the crop, the frame's orientation and the
 * turn. With all rules but EXACT, width and height may both be 0: then the tensor has the size
 * of the scaled picture. Otherwise the tensor is width x height: the middle of the scaled
 * picture, with bars where the picture is smaller.
 */
enum dlbuf_size_rule {
	/* width x height, as `fit` says. */
	DLBUF_SIZE_EXACT = 0,
	/* The shorter side becomes `shortest`, the other follows, rounded down. */
	DLBUF_SIZE_SHORTEST = 1,
	/* The longer side becomes `longest`, the other follows, rounded down. */
	DLBUF_SIZE_LONGEST = 2,
	/* SHORTEST, or LONGEST if the longer side would be more than `longest`, rounded down. */
	DLBUF_SIZE_BOTH = 3,
	/*
	 * About min_pixels to max_pixels (0: no limit; set one at least), both sides a
	 * multiple of `multiple`, and not less than it: smart_resize() of transformers. Its
	 * result can exceed max_pixels where it rounds up to min_pixels, or to one multiple.
	 */
	DLBUF_SIZE_PIXELS = 4,
	/* scaled_width x scaled_height; the aspect may change. */
	DLBUF_SIZE_SCALED = 5,
};

/* Place of the picture in width x height. */
enum dlbuf_fit {
	DLBUF_FIT_STRETCH = 0,
	/* All of the picture with its aspect, and bars of the pad colour beside it. */
	DLBUF_FIT_LETTERBOX = 1,
	/*
	 * The centre of the picture with its aspect; a margin is cut off: the shorter
	 * side is scaled to floor(size / crop_pct).
	 */
	DLBUF_FIT_CROP = 2,
};

enum dlbuf_channels {
	DLBUF_CHANNELS_RGB = 0,
	DLBUF_CHANNELS_BGR = 1,
	DLBUF_CHANNELS_GREY = 2,
};

#define DLBUF_PREPARE_NHWC	(1u << 0)	/* [N, H, W, C] instead of [N, C, H, W] */
#define DLBUF_PREPARE_TOP_LEFT	(1u << 1)	/* all bars right and below */
#define DLBUF_PREPARE_NO_ENLARGE (1u << 2)	/* letterbox: never scales up */
#define DLBUF_PREPARE_FLIP_X	(1u << 3)	/* left and right exchanged, after the turn */
#define DLBUF_PREPARE_FLIP_Y	(1u << 4)	/* top and bottom exchanged, after the turn */
/* A cut begins at (n - S) / 2 rounded half to even, as in torchvision, and not rounded down. */
#define DLBUF_PREPARE_CUT_ROUND	(1u << 5)
/*
 * Integers that the CPU makes of bytes are within half a unit plus 1e-3 of the definition in
 * docs/prepare.md, as those of other devices are. Without it they are within two thirds of a
 * unit, and take a half to a quarter of the time.
 */
#define DLBUF_PREPARE_EXACT	(1u << 6)

struct dlbuf_prepare_opts {
	size_t size;
	/*
	 * The crop: a part of the visible picture as it is stored, in pixels. Fractions are
	 * allowed, sides of less than 1/1024 are not. All four 0: the whole picture. Only
	 * pixels that the crop touches are read, and of a mosaic their neighbours.
	 */
	double crop_x, crop_y, crop_width, crop_height;
	enum dlbuf_size_rule rule;
	enum dlbuf_fit fit;
	uint32_t width, height;
	uint32_t shortest, longest;
	uint64_t min_pixels, max_pixels;
	uint32_t multiple;		/* 0: 1 */
	/* Quarter turns clockwise of the upright picture, 0 to 3. */
	uint32_t turn;
	double crop_pct;		/* 1/1024 to 1; 0: 1 */
	enum dlbuf_filter filter;
	uint32_t flags;			/* DLBUF_PREPARE_... */
	/*
	 * The colour of the bars, 0 to 255, in the order of the tensor's channels, before
	 * scale, mean and std. Ultralytics uses 114, 114, 114.
	 */
	double pad[3];
	enum dlbuf_channels channels;
	/*
	 * Type of the tensor: uint8, int8, float16, bfloat16 or float32; all 0 means float32.
	 */
	DLDataType dtype;
	uint16_t reserved;
	/*
	 * A value v of 0 to 255 becomes (v * scale - mean) / std, per channel in the
	 * tensor's order. scale 0 means 1/255 for a tensor of floats and 1 for integers;
	 * std 0 means 1. scale and mean are between -1e9 and 1e9, std and quant_scale
	 * between 1e-9 and 1e9, zero_point between -256 and 256.
	 */
	double scale, mean[3], std[3];
	/*
	 * For integers: the value divided by quant_scale (0: 1), rounded half to even,
	 * plus zero_point, saturated. A float16 beyond 65504 is infinite.
	 */
	double quant_scale;
	int32_t zero_point;
	/*
	 * Number of threads that compute a frame on the CPU, each a part of the rows: the
	 * caller's, and at most 63 more. The plan starts these; they sleep between the calls. The
	 * result does not depend on the number. 0 or 1: the caller's thread alone. Other devices
	 * ignore it.
	 */
	uint32_t threads;
	/* Fields that are not 0 are used instead of the frame's. */
	struct dlbuf_colour colour;
	uint32_t scaled_width, scaled_height;	/* of the rule SCALED */
};

/* Describes a plan. The lengths are pixels. */
struct dlbuf_prepare_info {
	size_t size;
	uint32_t width, height, channels;	/* of the tensor */
	/* The picture in the tensor; left and top are negative if it is cut. */
	uint32_t scaled_width, scaled_height;
	int32_t left, top;
	/* The crop of the visible picture as it is stored, before the turn. */
	double crop_x, crop_y, crop_width, crop_height;
	/*
	 * From the stored picture to the tensor: the frame's orientation and the options
	 * together.
	 */
	uint32_t turn;
	uint32_t flags;				/* DLBUF_PREPARE_FLIP_X, _Y */
};

struct dlbuf_prepare;

/*
 * Makes a plan: checks the options and computes the tables for frames that have the size, crop,
 * format, modifier, orientation and colour of this frame. The planes, fds and fence of frame are
 * not used. So dlbuf_prepare_frame() may still refuse a frame that cannot be imported: one with
 * an unknown modifier, or of an unpacked mosaic whose crop begins at an odd pixel.
 *
 * dev may be NULL, for dlbuf_prepare_tensors() on the CPU alone. frame and opts are borrowed.
 * *plan is new and keeps dev open: destroy the plan before the handles of a wrapped device. One
 * thread at a time can use a plan: a call of another thread returns -EBUSY.
 *
 * Does not wait for frames or other work. On devices other than the CPU the call copies
 * the tables to the device. The first plan of a device also compiles its kernel, which can
 * take seconds; some drivers, such as lavapipe, compile it in the first call that runs the plan.
 *
 * In a child of fork() a plan of the CPU still prepares tensors of other libraries, on the
 * caller's thread alone, because the child does not have the plan's threads; also if another
 * thread of the parent used the plan during the fork(). The child's
 * calls with frames and tensors of dlbuf return -ESTALE, as everywhere.
 * -EINVAL      frame, opts or plan is NULL, or a size is not set; a frame of 0 pixels, or with a
 *              side of more than 2^20; no such format; a mosaic of less than 2x2 pixels; no size
 *              that the rule needs; a side of the tensor or of the scaled picture of more than
 *              32768 pixels; a crop outside the picture; an option that is NaN, infinite or out
 *              of its range; range, chroma_site or hue of the frame's colour that is out of
 *              range, unless an option replaces it; unknown bits of the frame's flags; a
 *              reserved field that is not 0; a dtype that is not in the list
 * -EOPNOTSUPP  a format without colours (compressed, metadata, a palette's indices), or whose
 *              pixels share bytes, except raw formats of MIPI CSI-2 (SBGGR10P, Y12P and
 *              similar); a crop of the frame that begins inside a sample; a matrix that is
 *              unknown or not linear (ICtCp, BT.2020 with constant luminance), but only for
 *              formats that need one: RGB, grey and mosaics do not, and primaries and transfer
 *              are never used; a device that cannot prepare (docs/prepare.md lists those that
 *              can); on devices other than the CPU mosaics, samples that share bytes, floats,
 *              HSV, signed values, unevenly spaced values (packed 4:1:1, YYUV), big-endian
 *              words (RGB565X, BGR666), words with a plane of alpha (RGB565_A8), values of
 *              more than 65536 samples, a driver that refuses the kernel
 * -EIO         a driver failed
 * -ESTALE      a parent process opened dev
 */
DLBUF_API int dlbuf_prepare_create(struct dlbuf_device *dev, const struct dlbuf_frame *frame,
				   const struct dlbuf_prepare_opts *opts,
				   struct dlbuf_prepare **plan);

/*
 * Frees a plan (taken; NULL does nothing). Does not wait for frames that a device is still
 * preparing. The call ends the plan's threads, so make it before dlclose().
 */
DLBUF_API void dlbuf_prepare_destroy(struct dlbuf_prepare *plan);

/* Describes a plan. -EINVAL: an argument is NULL, or info->size is not set. */
DLBUF_API int dlbuf_prepare_get_info(const struct dlbuf_prepare *plan,
				     struct dlbuf_prepare_info *info);

/*
 * A part of the visible picture as it is stored, as in struct dlbuf_prepare_opts. All 0: the
 * whole picture.
 */
struct dlbuf_crop {
	double x, y, width, height;
};

/* Options of one call. The arrays are borrowed. */
struct dlbuf_prepare_run_opts {
	size_t size;
	/*
	 * Several parts of the picture: image index + i of the tensor is crop i, prepared with
	 * the plan's other options. NULL with ncrops 0: one image, of the plan's crop. Use crops
	 * for a second model that looks at each detection of a first one, and for tiles.
	 */
	const struct dlbuf_crop *crops;
	/*
	 * NULL, or room for an info for each crop, or for one without crops. Set infos[0].size:
	 * it is the size of each info, and the call sets the other sizes. After a failure infos
	 * are undefined.
	 */
	struct dlbuf_prepare_info *infos;
	/* The first image that the call writes. */
	int64_t index;
	/* CLOCK_MONOTONIC nanoseconds, 0: none. How long the call waits for earlier work. */
	uint64_t deadline_ns;
	uint32_t ncrops;
	uint32_t reserved;	/* 0 */
};

/*
 * Prepares a frame into one image, or several, of a tensor of the shape [N, C, H, W] or
 * [N, H, W, C], or [C, H, W] or [H, W, C] with index 0. C is 3, or 1 for a grey tensor. opts may
 * be NULL: image 0, the plan's crop, no deadline.
 *
 * On the CPU, out may be a tensor of any library; its strides may be NULL, as in DLPack
 * before 1.2. The call waits for the frame's producers, until the deadline, and out is complete
 * when it returns. If out is a tensor of dlbuf that the caller has not acquired, the call
 * acquires and releases it.
 *
 * On other devices, out is a tensor of dlbuf on the plan's device, which the caller has not
 * acquired. A device that acquires and releases by DLBUF_SYNC_FENCE waits for the producers
 * itself, also after the deadline. The call returns before the work is complete: the fence of the
 * work is added to the dma-bufs of the frame and of out, so that each acquire of out, on any
 * device, waits for it. If the work waits for a fence that ends with an error, the next acquire of
 * out reports it, and dlbuf_lease_result(); a tensor of another device over the same memory does
 * not, because the fence of the work has no error.
 *
 * On devices with DLBUF_SYNC_EVENT or DLBUF_SYNC_BLOCKS the call waits for the work, as on the CPU;
 * the deadline limits the wait for earlier work only. Exception: a GLES device with native fences
 * waits for the producers, adds the fence of its work to the dma-bufs and returns (dlbuf/gles.h).
 * Acquire out before you read it, in each case.
 *
 * Drivers that compute on the CPU, such as Mesa's lavapipe, complete the work before they give its
 * fence: there the call waits for the producers, also after the deadline, whatever
 * dlbuf_device_info says. Do not call it on the thread that signals their fences.
 *
 * The call imports the frame once and waits for it once. It checks all crops before it writes
 * an image, but an image can be written before -ENOMEM. On devices other than the CPU up to 64
 * crops, within 1 GiB of the tensor, are one piece of work, for which the call copies tables to
 * the device. If a later piece fails, the call waits for those that are submitted.
 *
 * The lease of the frame fires once, when its pixels have been read. If the call returns before
 * the work is complete, the lease fires later, on the library's event thread or in
 * dlbuf_dispatch().
 *
 * The width, or a crop, of a packed 4:2:2 frame may end within a group of pixels, although
 * dlbuf_import_frame() refuses that: the frame's rows have whole groups, and no pixel beyond the
 * picture is used.
 *
 * frame's fds, opts and out are borrowed. On failure the lease does not fire.
 * -EINVAL      plan, frame or out is NULL; bad opts; the plan has no device; the frame differs
 *              from the plan's in size, crop, format or the like; the tensor has another shape;
 *              there is no image of that index, or fewer than index + ncrops images; crops is
 *              NULL and ncrops is not 0, or the other way round; a crop outside the picture; a
 *              crop whose result has another size than the tensor's images (a rule without width
 *              and height); an infos[0].size that leaves the next info unaligned; on devices
 *              other than the CPU, the fields of out reach beyond the tensor
 * -EOPNOTSUPP  another dtype or device than the plan's; strides that overlap, or that exceed
 *              2^31 values; values that are not aligned to their size; a tensor that
 *              overlaps a plane, in addresses, or on other devices in bytes of the dma-buf;
 *              there also a frame or a tensor that the kernel cannot address: beyond 4 GiB
 * -EACCES      out is read-only
 * -EBUSY       another thread uses the plan; out is acquired, for reading or, on devices other
 *              than the CPU, at all
 * -EPROTO      out is of another major version of DLPack
 * -ETIME       the deadline passed
 * and the errors of dlbuf_import_frame() and dlbuf_acquire().
 */
DLBUF_API int dlbuf_prepare_frame(struct dlbuf_prepare *plan, const struct dlbuf_frame *frame,
				  const struct dlbuf_prepare_run_opts *opts,
				  DLManagedTensorVersioned *out);

/*
 * Prepares planes that you have as tensors, n of them: the tensors of an imported frame, or on
 * the CPU of any library with DLPack, such as a decoder's planes in plain memory. The plan has
 * the frame's size, format, colour and orientation. The planes show its visible picture.
 *
 * They have the shapes of the format's view PLANES. Without that view they have those of WORDS
 * (RGB565 is [H, W] of uint16), and without both those of ROWS: [H, bytes] of uint8. Samples
 * that share bytes are in groups: SBGGR10P has 4 pixels in 5 bytes. Each row begins with the
 * whole group that has the first visible pixel, so a row may begin with some pixels left of the
 * crop. The tensors are on the plan's device. On devices other than the CPU they must be
 * tensors of dlbuf that the caller has not acquired. Their leases wait for the work.
 *
 * planes, opts and out are borrowed. The call acquires tensors of dlbuf for reading and releases
 * them, if the caller has not acquired them. For tensors of other libraries the caller must
 * know that the pixels are complete. opts, out and waiting are as in dlbuf_prepare_frame().
 * -EINVAL      not one tensor for each plane of the format; a tensor of another shape
 * -EOPNOTSUPP  another dtype; strides that do not describe rows; values that are not aligned
 *              to their size; a tensor of another device
 * -EOVERFLOW   rows that are too far apart for an address
 * and the errors of dlbuf_prepare_frame().
 */
DLBUF_API int dlbuf_prepare_tensors(struct dlbuf_prepare *plan,
				    DLManagedTensorVersioned *const planes[], uint32_t n,
				    const struct dlbuf_prepare_run_opts *opts,
				    DLManagedTensorVersioned *out);

/*
 * Finds tiles of width x height pixels (0: as many as the tensor has) that cover the plan's
 * visible picture, row by row: for dlbuf_prepare_run_opts.crops, where small things must be
 * seen. Neighbours share overlap_x columns or overlap_y rows. The last two tiles of a row or
 * column share more, because the last tile ends with the picture. Along an axis where the
 * picture is smaller than a tile, there is one tile of the picture's size.
 *
 * *n is the number of tiles. crops may be NULL, or has room for `room`. Does not block.
 * -EINVAL  an argument is NULL; an overlap that is not less than the tile; 2^32 tiles or more
 * -ENOSPC  more tiles than room; *n is set
 */
DLBUF_API int dlbuf_prepare_tiles(const struct dlbuf_prepare *plan, uint32_t width,
				  uint32_t height, uint32_t overlap_x, uint32_t overlap_y,
				  struct dlbuf_crop crops[], uint32_t room, uint32_t *n);

/* The result of one device, for dlbuf_prepare_fastest(). */
struct dlbuf_prepare_trial {
	size_t size;			/* of this struct */
	uint64_t ns;			/* median time of a frame; 0 if status is not 0 */
	char name[32];			/* for dlbuf_device_open() */
	int status;			/* 0, or the error that excludes the device */
	char reason[256];		/* error text of status, or "" */
	uint32_t reserved;		/* 0 */
};
typedef void (*dlbuf_prepare_trial_fn)(const struct dlbuf_prepare_trial *trial, void *data);

/*
 * Finds the device of this machine that prepares frames like this one fastest, if the CPU reads
 * the result. Tries the CPU and each device that can prepare, by doing it: prepares the frame with
 * these options once without counting and then five times, each time until the CPU can read the
 * tensor, and takes the median. The tensor is in plain memory for the CPU, and for other devices
 * in a dma-buf that the device and the CPU import without a copy. A device that takes eight times
 * as long as the fastest before it is timed once only. A device that fails is excluded.
 *
 *	static void show(const struct dlbuf_prepare_trial *trial, void *data)
 *	{
 *		if (trial->status)
 *			printf("%s: %s\n", trial->name, trial->reason);
 *		else
 *			printf("%s: %.1f ms\n", trial->name, (double)trial->ns / 1e6);
 *	}
 *
 * Call it once for a stream, and keep the result: other programs can delay a single trial, so two
 * calls may choose differently.
 *
 * frame and opts are borrowed. Only the pixels of frame are read: its lease is not used and does
 * not fire, so the frame is still to be prepared. fn may be NULL; it is called on this thread
 * for each device, the CPU first. The trial is peeked and valid during the callback. *dev is new,
 * an open device; the others are closed. deadline_ns (CLOCK_MONOTONIC, 0: none) limits the wait
 * for the frame's producers only.
 *
 * Blocks while drivers load, compile and prepare, which can take seconds. Threads may call it at
 * the same time, but then their trials delay each other. In a child of fork(), drivers that
 * work in no child are excluded (-ESTALE), but see dlbuf/gles.h.
 * -EINVAL      frame, opts or dev is NULL, or what dlbuf_prepare_create() and dlbuf_prepare_frame()
 *              refuse so on the CPU
 * -ETIME       the deadline passed, and the frame was not complete
 * and, if every device is excluded, on the CPU the errors of dlbuf_prepare_create() and
 * dlbuf_prepare_frame().
 */
DLBUF_API int dlbuf_prepare_fastest(const struct dlbuf_frame *frame,
				    const struct dlbuf_prepare_opts *opts, uint64_t deadline_ns,
				    dlbuf_prepare_trial_fn fn, void *data,
				    struct dlbuf_device **dev);

/* Maps a position in the tensor to the visible picture of the frame as stored, both in pixels. */
static inline void dlbuf_prepare_map(const struct dlbuf_prepare_info *info, double x, double y,
				     double *frame_x, double *frame_y)
{
	double w = info->scaled_width, h = info->scaled_height, u, v;

	x -= info->left;
	y -= info->top;
	if (info->flags & DLBUF_PREPARE_FLIP_X)
		x = w - x;
	if (info->flags & DLBUF_PREPARE_FLIP_Y)
		y = h - y;
	x /= w;
	y /= h;
	u = info->turn == 0 ? x : info->turn == 1 ? y : info->turn == 2 ? 1 - x : 1 - y;
	v = info->turn == 0 ? y : info->turn == 1 ? 1 - x : info->turn == 2 ? 1 - y : x;
	*frame_x = info->crop_x + u * info->crop_width;
	*frame_y = info->crop_y + v * info->crop_height;
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_PREPARE_H */
