/* SPDX-License-Identifier: MIT */
/*
 * GLES: preparation of frames by OpenGL ES 3.0, for boards whose GPU has no Vulkan. EGL imports
 * the dma-bufs. Tested with Mesa's llvmpipe, and over stubs of the kernel drivers with Mesa's
 * drivers of boards, which computed nothing; not run on hardware.
 *
 * Device names: "gles:0" is the first device of eglQueryDevicesEXT(), "gles:1" the second one.
 * "gles:drm=/dev/dri/renderD128" selects one by its DRM node, "gles:software" the device with
 * EGL_MESA_device_software. "gles" is the first that can be used. If EGL lists no devices,
 * "gles:0" is EGL_DEFAULT_DISPLAY. If the driver needs a compositor for that, initialise an
 * EGLDisplay of your platform, and use dlbuf_device_wrap_gles(). dlbuf loads libEGL.so.1;
 * DLBUF_GLES_LIBRARY names another file.
 *
 * A tensor of the device is the CPU's mapping of the dma-buf (kDLCPU), because DLPack has no
 * device for GLES. dlbuf_acquire() and dlbuf_release() are for accesses of the CPU, exactly as on
 * "cpu". The GPU prepares: plans of dlbuf_prepare_create() run on it, from tensors of this device
 * to tensors of this device, such as dlbuf_alloc() makes them. A tensor in other memory of the
 * CPU is no dma-buf, and the plan refuses it with -EOPNOTSUPP: use a plan for "cpu" there.
 *
 * Import. The GPU reads and writes dma-bufs as rows of 32-bit words, so it does not need to know
 * their formats. An import fails with -EOPNOTSUPP if EGL does not import it, or if it is too large:
 * more than 64 MiB if the driver's largest texture has 4,096 rows, 256 MiB if it has 16,384.
 * EGL_BAD_ALLOC is -EOPNOTSUPP, too. Drivers report it for a buffer that they refuse, and also when
 * memory or addresses run out; EGL does not say which.
 *
 * When a device is opened, it copies a few bytes of a dma-buf of the library, and is refused with
 * -EOPNOTSUPP if the bytes are wrong. If there are no fds or no memory for this buffer, opening
 * fails with -EMFILE, -ENFILE or -ENOMEM. If there is neither udmabuf nor the heap "system", or the
 * driver takes none of their buffers, there is no trial: the device's `reason` says so. A GPU
 * without an IOMMU takes contiguous memory only: if the driver refuses these two, dlbuf_alloc()
 * tries the other heaps, of which a CMA heap has such memory (docs/building.md).
 *
 * Also refused are: a driver of OpenGL ES 2.0; one that renders to no dma-buf without tiles, as
 * NVIDIA's (use "cuda"); and llvmpipe on a DRM node, which crashes.
 *
 * Order. dlbuf_device_info says DLBUF_SYNC_BLOCKS for acquire and release, which are the CPU's.
 * dlbuf_prepare_frame() waits on the calling thread for the producer's fences. If the driver has
 * EGL_ANDROID_native_fence_sync, the call then submits the work, adds its fence to the dma-bufs and
 * returns: dlbuf_acquire() of the tensor waits for the fence, and the frame's lease fires after it.
 * Otherwise the call waits for the GPU.
 *
 * A GPU that renders in tiles loads and stores the whole tiles that the tensor touches. So nothing
 * else should write to the same dma-buf while a frame is prepared into it. A frame that is in the
 * tensor's dma-buf is refused with -EOPNOTSUPP: OpenGL ES does not define what a shader reads
 * there.
 *
 * Lost contexts. If the driver says that the context is lost, after a reset of the GPU or a loss
 * of power, this call of dlbuf_prepare_frame() and all later ones fail with -EIO, as
 * dlbuf_device_drain() does, and `reason` of the device says so. Bytes of the tensor may be
 * missing, also of an earlier run whose fence was given. Tensors can still be used by the CPU.
 * Close the device and open it again.
 *
 * Threads and contexts. The device has a context of its own. A call of dlbuf makes it current on
 * the calling thread. Before the call returns, it makes the thread's former context, surfaces and
 * API current again. If the application has destroyed that context or a surface while it was
 * current, EGL deletes it during the call: then no context is current on the thread afterwards, a
 * warning is logged, and the call's result is that of its own work. Calls of several threads run
 * one after the other, also of several devices, because drivers crash otherwise. On a thread with
 * a current context of GLX, eglMakeCurrent() may fail (-EIO).
 *
 * eglTerminate(). A device opened by name has an EGLDisplay that other code of the process may get
 * from EGL, too. If that code calls eglTerminate(), the device's calls fail: close the device and
 * open it again.
 *
 * Errors of the application. Those of GL stay in the application's context, for its glGetError().
 * EGL has one error for each thread, which each call of EGL replaces: call eglGetError() before you
 * call dlbuf, because afterwards the error is lost.
 *
 * fork(). A driver's threads do not exist in a child. In a child of a process that has used EGL
 * by dlbuf, dlbuf_device_open() fails with -ESTALE. If it has used EGL without dlbuf, which dlbuf
 * cannot know, opening the same device in the child may not return, nor may
 * dlbuf_prepare_fastest(): start such a child by exec (multiprocessing's "spawn").
 *
 * Specification: EGL 1.4, OpenGL ES 3.0, EGL_EXT_image_dma_buf_import and its _modifiers,
 * EGL_KHR_surfaceless_context, GL_OES_EGL_image, EGL_ANDROID_native_fence_sync.
 */
#ifndef DLBUF_GLES_H
#define DLBUF_GLES_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes a device on the application's EGLDisplay, with a context of its own. The application's
 * contexts are not used, and keep their state.
 *
 * display is borrowed: eglInitialize() has been called, and the application must not call
 * eglTerminate() before the device is closed and its last tensor deleted. opts is borrowed, *out
 * is new. May block while the driver compiles a shader.
 * -EINVAL  display or out is NULL, EGL does not know the display, it is not initialised or it
 *          is terminated, or bad opts
 * -ENODEV  there is no EGL library, or no device
 * -EOPNOTSUPP  the driver cannot prepare frames, as above
 * -ESTALE  a parent process has used EGL by dlbuf before fork()
 * -EIO     the driver failed
 */
DLBUF_API int dlbuf_device_wrap_gles(void *display, const struct dlbuf_device_opts *opts,
				     struct dlbuf_device **out);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_GLES_H */
