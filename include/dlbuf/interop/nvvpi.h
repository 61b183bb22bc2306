/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's Vision Programming Interface (VPI): makes VPIImages over tensors and
 * frames. Header-only. VPI's headers are not needed, and libnvvpi is not linked: it
 * is opened at run time. Old C libraries need -ldl.
 *
 * Not run, on hardware or with NVIDIA's library: the tests check what this header computes,
 * which functions it looks for, and who owns what, with stubs. DLPack's kDLVPI is something
 * else, the buffer of a Verilog simulator; memory of VPI is kDLCUDA, kDLCUDAHost,
 * kDLCUDAManaged or kDLCPU.
 *
 *	struct dlbuf_nvvpi vpi;
 *	struct dlbuf_nvvpi_image in = { 0 };
 *	void *stream;		// VPIStream
 *
 *	if (dlbuf_nvvpi_load(NULL, &vpi) ||
 *	    dlbuf_nvvpi_stream(&vpi, cuda_stream, 0, &stream))
 *		errx(1, "%s", dlbuf_last_error());
 *	for each frame {
 *		... dlbuf_import_frame(cuda, &frame, NULL, t, &n), dlbuf_acquire()
 *		    of each tensor with cuda_stream ...
 *		dlbuf_nvvpi_wrap(&vpi, &in, t, n, VPI_IMAGE_FORMAT_NV12_ER, 0);
 *		... vpiSubmit...(stream, ..., (VPIImage)in.image, ...) ...
 *		dlbuf_nvvpi_stream_sync(&vpi, stream);
 *		... dlbuf_release() with cuda_stream, the tensors' deleters ...
 *	}
 *	dlbuf_nvvpi_unwrap(&vpi, &in);
 *
 * Lifetime. VPI does not own wrapped memory. An image keeps a share of its tensors,
 * or the lease of its frame, until it is pointed at other memory or destroyed.
 *
 * Order. VPI does not wait for fences of a dma-buf, and makes none. Its work runs
 * after the work that is in the CUDA stream already. NVIDIA's rule for the other
 * direction: nothing may be submitted to the CUDA stream until the VPI stream is
 * finished. So call dlbuf_nvvpi_stream_sync() before dlbuf_release(), before the
 * image is pointed at other memory, and before it is destroyed.
 *
 * Threads. Any thread may make VPI's calls; only one thread at a time may use an
 * image or a stream. Functions do not block unless their comment says so.
 *
 * Specification: docs.nvidia.com/vpi, Image.h, CUDAInterop.h, Stream.h of VPI 2 to 4.
 */
#ifndef DLBUF_INTEROP_NVVPI_H
#define DLBUF_INTEROP_NVVPI_H

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/frame.h>
#include <dlbuf/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLBUF_NVVPI_MAX_PLANES 4

/* VPIImageBufferType: the same in VPI 2, 3 and 4. */
enum dlbuf_nvvpi_type {
	DLBUF_NVVPI_HOST = 1,	/* VPI_IMAGE_BUFFER_HOST_PITCH_LINEAR */
	DLBUF_NVVPI_CUDA = 2,	/* VPI_IMAGE_BUFFER_CUDA_PITCH_LINEAR */
	DLBUF_NVVPI_NVBUFFER = 5,	/* VPI_IMAGE_BUFFER_NVBUFFER */
};

/* An open libnvvpi. Its functions have VPI's names without "vpi". */
struct dlbuf_nvvpi {
	void *lib;
	int major;		/* of its soname */
	struct {
		const char *(*StatusGetName)(int status);
		int (*GetLastStatusMessage)(char *text, int32_t size);
		int (*ImageFormatGetPlaneCount)(uint64_t format);
		uint64_t (*ImageFormatGetPlanePixelType)(uint64_t format,
							 int plane);
		int (*PixelTypeGetBitsPerPixel)(uint64_t type);
		int (*ImageCreateWrapper)(const void *data, const void *params,
					  uint64_t flags, void **image);
		int (*ImageSetWrapper)(void *image, const void *data);
		void (*ImageDestroy)(void *image);
		int (*ImageLock)(void *image, int mode); /* may be NULL */
		int (*ImageUnlock)(void *image);
		int (*StreamCreateWrapperCUDA)(void *cuda, uint64_t flags,
					       void **stream);
		int (*StreamSync)(void *stream);
		void (*StreamDestroy)(void *stream);
	} fn;
};

/* A plane of a picture: the values of VPIImagePlanePitchLinear. */
struct dlbuf_nvvpi_plane {
	uint64_t pixel_type;	/* VPIPixelType */
	int32_t width, height;	/* pixels */
	int32_t pitch;		/* bytes */
	void *data;
};

/* A wrapper. Begin with zeroes. */
struct dlbuf_nvvpi_image {
	void *image;		/* VPIImage, or NULL */
	/* The rest is the adapter's. */
	uint32_t n, locks;
	DLManagedTensorVersioned *tensors[DLBUF_NVVPI_MAX_PLANES];
	void (*release)(void *release_data);
	void *release_data;
};

/*
 * VPIImageData. The plane is that of VPI 2 and 3. VPI 4 replaced its data by a
 * pointer and an offset, whose order in the struct no public source shows. bytes is
 * room for members of a newer library, which may copy its whole struct.
 */
struct dlbuf_nvvpi_data_ {
	int32_t type;
	union {
		struct {
			uint64_t format;
			int32_t nplanes;
			struct dlbuf_nvvpi_plane planes[6];
		} pitch;
		int fd;
		uint64_t bytes[64];
	} buffer;
};

/*
 * Opens libnvvpi.so.4, .3 or .2, the first that is installed, with RTLD_NOW and
 * RTLD_LOCAL. file is NULL or names a library instead, as *.so.MAJOR...: the layout of
 * VPI's structs depends on this number. A program that links libnvvpi gets the same
 * library if it is the same version.
 *
 * *vpi is written on success only; close it with dlbuf_nvvpi_unload(). VPI may start
 * threads and wait for its driver.
 * -EINVAL  file has no major version
 * -ENODEV  no such library is installed
 * -EOPNOTSUPP  a major version whose structs this header does not know
 * -EIO     a function is missing in it
 */
static inline int dlbuf_nvvpi_load(const char *file, struct dlbuf_nvvpi *vpi)
{
	static const char *const sonames[] = {
		"libnvvpi.so.4", "libnvvpi.so.3", "libnvvpi.so.2",
	};
	/* In the order of vpi->fn. */
	static const char *const names[] = {
		"vpiStatusGetName", "vpiGetLastStatusMessage",
		"vpiImageFormatGetPlaneCount",
		"vpiImageFormatGetPlanePixelType",
		"vpiPixelTypeGetBitsPerPixel", "vpiImageCreateWrapper",
		"vpiImageSetWrapper", "vpiImageDestroy", "vpiImageLock",
		"vpiImageUnlock", "vpiStreamCreateWrapperCUDA",
		"vpiStreamSync", "vpiStreamDestroy",
	};
	const char *suffix, *said;
	struct dlbuf_nvvpi v;
	size_t i;

	memset(&v, 0, sizeof(v));
	for (i = 0; !v.lib && i < (file ? 1 : 3); i++) {
		suffix = file ? file : sonames[i];
		v.lib = dlopen(suffix, RTLD_NOW | RTLD_LOCAL);
		suffix = strstr(suffix, ".so.");
		v.major = suffix ? atoi(suffix + 4) : 0;
		if (!v.major)
			break;
	}
	if (!v.lib) {
		said = dlerror();
		return dlbuf_fail(-ENODEV, "nvvpi: %s", said ? said : file);
	}
	if (v.major < 2 || v.major > 4) {
		dlclose(v.lib);
		return dlbuf_fail(v.major ? -EOPNOTSUPP : -EINVAL, "nvvpi: %s "
				  "is not libnvvpi.so.2, .3 or .4", file);
	}
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *symbol = dlsym(v.lib, names[i]);

		if (!symbol && strcmp(names[i], "vpiImageLock")) {
			dlclose(v.lib);
			return dlbuf_fail(-EIO, "nvvpi: libnvvpi.so.%d has no "
					  "%s", v.major, names[i]);
		}
		memcpy((char *)&v.fn + i * sizeof(symbol), &symbol,
		       sizeof(symbol));
	}
	*vpi = v;
	return 0;
}

/* Closes the library. Destroy all its images and streams first. */
static inline void dlbuf_nvvpi_unload(struct dlbuf_nvvpi *vpi)
{
	if (vpi->lib)
		dlclose(vpi->lib);
	memset(vpi, 0, sizeof(*vpi));
}

/* Maps by the name of the status: VPI 4 has one more status, so numbers may differ. */
static inline int dlbuf_nvvpi_fail_(const struct dlbuf_nvvpi *vpi, int status,
				    const char *call)
{
	static const struct {
		const char *name;
		int err;
	} errors[] = {
		{ "VPI_ERROR_INVALID_ARGUMENT", -EINVAL },
		{ "VPI_ERROR_INVALID_IMAGE_FORMAT", -EINVAL },
		{ "VPI_ERROR_NOT_IMPLEMENTED", -EOPNOTSUPP },
		{ "VPI_ERROR_NOT_SUPPORTED", -EOPNOTSUPP },
		/* "NvBuffer wrapping not supported on this platform" */
		{ "VPI_ERROR_INVALID_OPERATION", -EOPNOTSUPP },
		{ "VPI_ERROR_BUFFER_LOCKED", -EBUSY },
		{ "VPI_ERROR_OUT_OF_MEMORY", -ENOMEM },
	};
	const char *name = vpi->fn.StatusGetName(status);
	char text[256] = "";	/* VPI_MAX_STATUS_MESSAGE_LENGTH */
	int err = -EIO;
	size_t i;

	vpi->fn.GetLastStatusMessage(text, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	for (i = 0; name && i < sizeof(errors) / sizeof(errors[0]); i++)
		if (!strcmp(name, errors[i].name))
			err = errors[i].err;
	return dlbuf_fail(err, "%s: %s (%d)%s%s", call, name ? name : "failed",
			  status, *text ? ": " : "", text);
}

/* Describes one tensor as a plane. In VPI's format a pixel of this plane has `bits` bits. */
static inline int dlbuf_nvvpi_plane_(const DLTensor *t, uint32_t i, int bits,
				     struct dlbuf_nvvpi_plane *plane)
{
	int64_t channels = t->ndim == 3 ? t->shape[2] : 1, pitch;
	uint32_t value = t->dtype.bits * t->dtype.lanes;

	if (t->ndim < 2 || t->ndim > 3 || value % 8)
		return dlbuf_fail(-EINVAL, "tensor %u is not [H, W] or "
				  "[H, W, C] of whole bytes", i);
	if (t->shape[0] < 1 || t->shape[0] > INT32_MAX || t->shape[1] < 1 ||
	    t->shape[1] > INT32_MAX || channels < 1 || channels > 4)
		return dlbuf_fail(-EINVAL, "tensor %u has no pixels, or more "
				  "than VPI can count", i);
	if ((int64_t)value * channels != bits)
		return dlbuf_fail(-EINVAL, "a pixel of tensor %u has %u bits, "
				  "of VPI's format %d", i,
				  value * (uint32_t)channels, bits);
	/* The stride of a dimension of one element has no meaning. */
	if ((t->shape[1] > 1 && t->strides[1] != channels) ||
	    (channels > 1 && t->strides[2] != 1))
		return dlbuf_fail(-EOPNOTSUPP, "the pixels of a row of tensor "
				  "%u do not follow one another", i);
	pitch = t->shape[0] > 1 ? t->strides[0] : t->shape[1] * channels;
	if (pitch < t->shape[1] * channels || pitch > INT32_MAX / (value / 8))
		return dlbuf_fail(-EOPNOTSUPP, "VPI has no pitch like that of "
				  "tensor %u, %lld elements", i,
				  (long long)pitch);
	plane->width = (int32_t)t->shape[1];
	plane->height = (int32_t)t->shape[0];
	plane->pitch = (int32_t)(pitch * (value / 8));
	plane->data = (char *)t->data + t->byte_offset;
	return 0;
}

/*
 * Describes the tensors of a picture as VPI's planes, which dlbuf_nvvpi_wrap() does
 * for VPI 2 and 3. With VPI 4, put the values into a VPIImageData of NVIDIA's own
 * header (pBase is data, offsetBytes is 0) and call dlbuf_nvvpi_wrap_data().
 *
 * format is a VPIImageFormat, which you choose: NV12 and NV12_ER have the same bytes.
 * The tensors are [H, W] or [H, W, C] in pixels of that format, one for each plane. So
 * YUYV is refused: its tensor has an entry for two pixels. *type is the buffer type.
 * -EINVAL      NULL; another number of planes or size of pixels than the format has;
 *              tensors of different devices
 * -EOPNOTSUPP  memory that is not of the CPU or CUDA; strides that VPI does not have
 */
static inline int dlbuf_nvvpi_planes(const struct dlbuf_nvvpi *vpi,
				     DLManagedTensorVersioned *const *tensors,
				     uint32_t n, uint64_t format,
				     struct dlbuf_nvvpi_plane *planes,
				     enum dlbuf_nvvpi_type *type)
{
	const DLDevice *dev;
	uint32_t i;
	int ret;

	if (n < 1 || n > DLBUF_NVVPI_MAX_PLANES ||
	    vpi->fn.ImageFormatGetPlaneCount(format) != (int)n)
		return dlbuf_fail(-EINVAL, "there are %u tensors, and VPI's "
				  "format 0x%llx has %d planes", n,
				  (unsigned long long)format,
				  vpi->fn.ImageFormatGetPlaneCount(format));
	for (i = 0; i < n; i++) {
		if (!tensors[i])
			return dlbuf_fail(-EINVAL, "tensor %u is NULL", i);
		dev = &tensors[i]->dl_tensor.device;
		if (dev->device_type !=
			    tensors[0]->dl_tensor.device.device_type ||
		    dev->device_id != tensors[0]->dl_tensor.device.device_id)
			return dlbuf_fail(-EINVAL, "the tensors are on "
					  "different devices");
		planes[i].pixel_type =
			vpi->fn.ImageFormatGetPlanePixelType(format, (int)i);
		ret = dlbuf_nvvpi_plane_(&tensors[i]->dl_tensor, i,
			vpi->fn.PixelTypeGetBitsPerPixel(planes[i].pixel_type),
			&planes[i]);
		if (ret)
			return ret;
	}
	switch (tensors[0]->dl_tensor.device.device_type) {
	case kDLCPU:
	case kDLCUDAHost:
		*type = DLBUF_NVVPI_HOST;
		return 0;
	case kDLCUDA:
	case kDLCUDAManaged:
		*type = DLBUF_NVVPI_CUDA;
		return 0;
	default:
		return dlbuf_fail(-EOPNOTSUPP, "VPI takes memory of the CPU "
				  "and CUDA, not of DLPack's device %d",
				  (int)tensors[0]->dl_tensor.device.device_type);
	}
}

/* Gives back what keeps the memory of an image alive. */
static inline void dlbuf_nvvpi_drop_(struct dlbuf_nvvpi_image *img)
{
	while (img->n) {
		DLManagedTensorVersioned *t = img->tensors[--img->n];

		t->deleter(t);
	}
	if (img->release)
		img->release(img->release_data);
	img->release = NULL;
}

/* Makes the image, or points it at other memory. `next` has the owners of the memory to keep. */
static inline int dlbuf_nvvpi_set_(const struct dlbuf_nvvpi *vpi,
				   struct dlbuf_nvvpi_image *img,
				   const void *data, uint64_t flags,
				   struct dlbuf_nvvpi_image *next)
{
	int status;

	if (img->locks)
		return dlbuf_fail(-EBUSY, "the VPIImage is locked");
	next->image = img->image;
	if (img->image) {
		status = vpi->fn.ImageSetWrapper(img->image, data);
		if (status)
			return dlbuf_nvvpi_fail_(vpi, status,
						 "vpiImageSetWrapper");
	} else {
		status = vpi->fn.ImageCreateWrapper(data, NULL, flags,
						    &next->image);
		if (status)
			return dlbuf_nvvpi_fail_(vpi, status,
						 "vpiImageCreateWrapper");
	}
	dlbuf_nvvpi_drop_(img);
	*img = *next;
	return 0;
}

/*
 * dlbuf_nvvpi_wrap() with a VPIImageData that you have filled in, of VPI's own header
 * of the same major version as the library. data is borrowed. Its memory is that of
 * the tensors, which the image shares: at most DLBUF_NVVPI_MAX_PLANES. Use it for VPI
 * 4, see dlbuf_nvvpi_planes(). Errors of dlbuf_nvvpi_wrap().
 */
static inline int dlbuf_nvvpi_wrap_data(const struct dlbuf_nvvpi *vpi,
					struct dlbuf_nvvpi_image *img,
					const void *data,
					DLManagedTensorVersioned *const *tensors,
					uint32_t n, uint64_t flags)
{
	struct dlbuf_nvvpi_image next;
	int ret = 0;

	memset(&next, 0, sizeof(next));
	if (n > DLBUF_NVVPI_MAX_PLANES)
		return dlbuf_fail(-EINVAL, "%u tensors", n);
	for (; !ret && next.n < n; next.n += !ret)
		ret = dlbuf_tensor_share(tensors[next.n], NULL,
					 &next.tensors[next.n]);
	if (!ret)
		ret = dlbuf_nvvpi_set_(vpi, img, data, flags, &next);
	if (ret)
		dlbuf_nvvpi_drop_(&next);
	return ret;
}

/*
 * Wraps the tensors of a picture, one for each plane: pitch-linear, of CUDA for
 * tensors of CUDA, of the host for those of the CPU. If img has an image already, it
 * is pointed at the new memory (vpiImageSetWrapper), which must have the same size,
 * format and type; this is cheap, so use one img for all buffers of a camera.
 *
 * The tensors are dlbuf's, borrowed, and the image shares them: you may delete yours.
 * A tensor without DLBUF_WRITE must not be an output of VPI. flags are VPI's, for a new
 * image: VPI_BACKEND_... On failure img is as before. Calls VPI, which may allocate.
 * -EINVAL      as dlbuf_nvvpi_planes(); a tensor that is not dlbuf's; VPI refused it
 * -EBUSY       img is locked
 * -EOPNOTSUPP  as dlbuf_nvvpi_planes(); VPI 4 or newer; VPI cannot do it here
 * -EIO         VPI failed
 */
static inline int dlbuf_nvvpi_wrap(const struct dlbuf_nvvpi *vpi,
				   struct dlbuf_nvvpi_image *img,
				   DLManagedTensorVersioned *const *tensors,
				   uint32_t n, uint64_t format, uint64_t flags)
{
	struct dlbuf_nvvpi_data_ data;
	enum dlbuf_nvvpi_type type;
	int ret;

	if (vpi->major > 3)
		return dlbuf_fail(-EOPNOTSUPP, "libnvvpi.so.%d has another "
				  "VPIImagePlanePitchLinear than VPI 2 and 3: "
				  "fill in NVIDIA's struct and call "
				  "dlbuf_nvvpi_wrap_data()", vpi->major);
	memset(&data, 0, sizeof(data));
	ret = dlbuf_nvvpi_planes(vpi, tensors, n, format,
				 data.buffer.pitch.planes, &type);
	if (ret)
		return ret;
	data.type = (int32_t)type;
	data.buffer.pitch.format = format;
	data.buffer.pitch.nplanes = (int32_t)n;
	return dlbuf_nvvpi_wrap_data(vpi, img, &data, tensors, n, flags);
}

/*
 * Wraps a frame by its fd, as VPI_IMAGE_BUFFER_NVBUFFER, or points img at it as
 * dlbuf_nvvpi_wrap() does. Jetson only. All planes of the frame have one fd.
 *
 * NVIDIA documents this for fds of NvBufSurface: by the fd, VPI looks for the
 * metadata of that library, and takes size and format from it. A dma-buf of V4L2, a
 * dma-heap or udmabuf has no such metadata, so expect that VPI refuses it; the
 * error text has VPI's own words. NvBufSurfaceImport() makes such metadata.
 *
 * The frame must be complete already (DLBUF_ORDER_COMPLETE), because VPI does not wait
 * for fences. frame is borrowed. VPI gets the fd itself and not a duplicate, so that it
 * finds the metadata: keep the fd open until frame->release, the lease, which fires
 * when img is pointed at another frame or destroyed.
 * -EINVAL      not complete; frame->lease is set, use release; VPI refused the fd
 * -EBUSY       img is locked
 * -EOPNOTSUPP  planes in several dma-bufs; VPI cannot do it on this platform
 * -EIO         VPI failed
 */
static inline int dlbuf_nvvpi_wrap_frame(const struct dlbuf_nvvpi *vpi,
					 struct dlbuf_nvvpi_image *img,
					 const struct dlbuf_frame *frame,
					 uint64_t flags)
{
	struct dlbuf_nvvpi_image next;
	struct dlbuf_nvvpi_data_ data;
	uint32_t i;

	if (frame->order != DLBUF_ORDER_COMPLETE)
		return dlbuf_fail(-EINVAL, "VPI waits for no fence: wait for "
				  "the frame, then set its order to COMPLETE");
	if (frame->lease)
		return dlbuf_fail(-EINVAL, "the frame has a lease and not "
				  "release");
	if (frame->nplanes < 1 || frame->nplanes > DLBUF_MAX_PLANES)
		return dlbuf_fail(-EINVAL, "the frame has %u planes",
				  frame->nplanes);
	for (i = 1; i < frame->nplanes; i++)
		if (frame->planes[i].fd != frame->planes[0].fd)
			return dlbuf_fail(-EOPNOTSUPP, "an NvBuffer is one fd, "
					  "and the frame has several");
	memset(&next, 0, sizeof(next));
	memset(&data, 0, sizeof(data));
	data.type = DLBUF_NVVPI_NVBUFFER;
	data.buffer.fd = frame->planes[0].fd;
	next.release = frame->release;
	next.release_data = frame->release_data;
	return dlbuf_nvvpi_set_(vpi, img, &data, flags, &next);
}

/*
 * Locks an image by vpiImageLock(). VPI requires a lock while anything but VPI uses memory
 * that an image wraps. access is DLBUF_READ, DLBUF_WRITE or DLBUF_RW. May block: on a
 * discrete GPU VPI may copy. Locks nest: each needs dlbuf_nvvpi_unlock().
 * -EBUSY       a stream of VPI uses the image
 * -EINVAL      there is no image; bad access
 * -EOPNOTSUPP  this VPI has no vpiImageLock()
 * -EIO         VPI failed
 */
static inline int dlbuf_nvvpi_lock(const struct dlbuf_nvvpi *vpi,
				   struct dlbuf_nvvpi_image *img,
				   uint32_t access)
{
	int status;

	if (!img->image || !access || access & ~(uint32_t)DLBUF_RW)
		return dlbuf_fail(-EINVAL, "no VPIImage, or access %u is not "
				  "READ, WRITE or RW", access);
	if (!vpi->fn.ImageLock)
		return dlbuf_fail(-EOPNOTSUPP, "libnvvpi.so.%d has no "
				  "vpiImageLock", vpi->major);
	/* VPI_LOCK_READ, _WRITE and _READ_WRITE have the same values. */
	status = vpi->fn.ImageLock(img->image, (int)access);
	if (status)
		return dlbuf_nvvpi_fail_(vpi, status, "vpiImageLock");
	img->locks++;
	return 0;
}

/*
 * Ends a lock by vpiImageUnlock(). May block, as dlbuf_nvvpi_lock().
 * -EINVAL  the image is not locked
 * -EBUSY, -EOPNOTSUPP, -EIO  VPI failed, with its reason
 */
static inline int dlbuf_nvvpi_unlock(const struct dlbuf_nvvpi *vpi,
				     struct dlbuf_nvvpi_image *img)
{
	int status;

	if (!img->locks)
		return dlbuf_fail(-EINVAL, "the VPIImage is not locked");
	status = vpi->fn.ImageUnlock(img->image);
	if (status)
		return dlbuf_nvvpi_fail_(vpi, status, "vpiImageUnlock");
	img->locks--;
	return 0;
}

/*
 * Ends the locks and destroys the image, then deletes its shares of the tensors or
 * calls the frame's release. No stream of VPI may use the image: see "Order". *img can
 * be used again.
 */
static inline void dlbuf_nvvpi_unwrap(const struct dlbuf_nvvpi *vpi,
				      struct dlbuf_nvvpi_image *img)
{
	for (; img->locks; img->locks--)
		vpi->fn.ImageUnlock(img->image);
	if (img->image)
		vpi->fn.ImageDestroy(img->image);
	img->image = NULL;
	dlbuf_nvvpi_drop_(img);
}

/*
 * Makes a VPIStream whose CUDA work is submitted to a CUDA stream of yours
 * (vpiStreamCreateWrapperCUDA). cuda is a CUstream or cudaStream_t, borrowed: destroy it
 * after the VPIStream. The default stream, NULL, is not accepted by VPI. flags are VPI's,
 * VPI_BACKEND_... *stream is new: dlbuf_nvvpi_stream_destroy().
 * -EINVAL      cuda is NULL, or VPI refused it
 * -EBUSY, -EOPNOTSUPP, -EIO  VPI failed
 */
static inline int dlbuf_nvvpi_stream(const struct dlbuf_nvvpi *vpi, void *cuda,
				     uint64_t flags, void **stream)
{
	void *new_stream = NULL;
	int status;

	if (!cuda)
		return dlbuf_fail(-EINVAL, "VPI does not wrap CUDA's default "
				  "stream");
	status = vpi->fn.StreamCreateWrapperCUDA(cuda, flags, &new_stream);
	if (status)
		return dlbuf_failure_(dlbuf_nvvpi_fail_(vpi, status,
					"vpiStreamCreateWrapperCUDA"));
	*stream = new_stream;
	return 0;
}

/*
 * Blocks until the VPIStream is finished (vpiStreamSync). Afterwards the CUDA stream
 * may be used again. -EIO: work of VPI failed; the error text has VPI's words.
 */
static inline int dlbuf_nvvpi_stream_sync(const struct dlbuf_nvvpi *vpi,
					  void *stream)
{
	int status = vpi->fn.StreamSync(stream);

	return status ? dlbuf_nvvpi_fail_(vpi, status, "vpiStreamSync") : 0;
}

/* Destroys a VPIStream, NULL does nothing. Does not touch the CUDA stream. */
static inline void dlbuf_nvvpi_stream_destroy(const struct dlbuf_nvvpi *vpi,
					      void *stream)
{
	vpi->fn.StreamDestroy(stream);
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_NVVPI_H */
