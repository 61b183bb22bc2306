/* SPDX-License-Identifier: MIT */
/*
 * Consumers of Hexagon tensors: dspqueue, QNN and LiteRT take a dma-buf as an fd, an offset
 * and a size, without strides. This adapter computes these numbers for a tensor, or refuses
 * it with the reason. Header-only; it includes no header of these libraries, because QNN's
 * are proprietary. Not run on hardware, and not run with QNN or LiteRT.
 *
 *	struct dlbuf_hexagon_packed p;
 *	struct dspqueue_buffer b;
 *
 *	if (dlbuf_hexagon_describe(tensor, &p))
 *		errx(1, "%s", dlbuf_last_error());
 *	DLBUF_DSPQUEUE_SET(&b, &p, DSPQUEUE_BUFFER_FLAG_FLUSH_SENDER);
 *
 * dspqueue (dspqueue.h of qualcomm/fastrpc). The tensor must be on a Hexagon device of
 * the queue's domain, so that the fd is
 * mapped (p.mapped). Acquire the tensor before dspqueue_write(), and release it in the
 * callback, when the answer has arrived.
 *
 * QNN. Use a tensor of any device: QNN maps the fd itself (QnnMem_register()).
 *
 *   backend	memType			fields
 *   HTP	QNN_MEM_TYPE_CUSTOM	QnnMemHtp_Descriptor_t of type
 *					QNN_HTP_MEM_SHARED_BUFFER: DLBUF_QNN_HTP_SET()
 *   DSP	QNN_MEM_TYPE_ION	ionInfo.fd; p.offset must be 0
 *   GPU	QNN_MEM_TYPE_DMA_BUF	dmaBufInfo.fd, .data = p.address; p.offset must be 0
 *
 * In all of them memShape is { p.ndim, p.dims, NULL }. Deregister (QnnMem_deRegister())
 * before you delete the tensor. Release the tensor when QnnGraph_execute() has returned,
 * or in its notification.
 *
 * LiteRT. LiteRtCreateTensorBufferFromDmaBufBuffer() takes the address, the fd, the size
 * and the offset: p.address, p.fd, p.bytes, p.offset. On Linux LiteRT 2.3.0 refuses the
 * call.
 */
#ifndef DLBUF_INTEROP_HEXAGON_H
#define DLBUF_INTEROP_HEXAGON_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <dlbuf/hexagon.h>
#include <dlbuf/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLBUF_HEXAGON_MAX_DIMS 8

struct dlbuf_hexagon_packed {
	int fd;			/* peeked; on a Hexagon device the fd of its map */
	uint64_t offset;	/* of the first element, in the dma-buf */
	uint64_t bytes;		/* of all elements, without gaps */
	uint64_t whole;		/* of the dma-buf */
	void *address;		/* CPU address of the dma-buf on a Hexagon device, or NULL */
	int mapped;		/* 1: dspqueue knows the fd */
	DLDataType dtype;
	uint32_t ndim;
	uint32_t dims[DLBUF_HEXAGON_MAX_DIMS];
};

static inline int dlbuf_hexagon_dims_(const DLTensor *t,
				      struct dlbuf_hexagon_packed *p)
{
	int64_t packed = 1;
	int32_t i;

	if (t->ndim > DLBUF_HEXAGON_MAX_DIMS)
		return dlbuf_fail(-EOPNOTSUPP, "%d dimensions are more than %d",
				  (int)t->ndim, DLBUF_HEXAGON_MAX_DIMS);
	for (i = t->ndim - 1; i >= 0; i--) {
		if (t->shape[i] < 1 || t->shape[i] > UINT32_MAX)
			return dlbuf_fail(-EOPNOTSUPP, "dimension %d has %lld "
					  "elements, not 1 to 2^32 - 1", (int)i,
					  (long long)t->shape[i]);
		if (t->shape[i] != 1 && t->strides && t->strides[i] != packed)
			return dlbuf_fail(-EOPNOTSUPP, "dimension %d has a stride "
					  "of %lld elements, %lld are packed: QNN, "
					  "LiteRT and dspqueue take no padded rows; "
					  "use a buffer with packed rows, or copy",
					  (int)i, (long long)t->strides[i],
					  (long long)packed);
		p->dims[i] = (uint32_t)t->shape[i];
		packed *= t->shape[i];
	}
	p->ndim = (uint32_t)t->ndim;
	p->dtype = t->dtype;
	/* dlbuf's tensors have elements of whole bytes. */
	p->bytes = (uint64_t)packed * t->dtype.bits * t->dtype.lanes / 8;
	return 0;
}

/*
 * Describes a tensor of dlbuf, on any device. tensor is borrowed; the fd and the address
 * are valid while it lives. Does not block. Returns 0, or
 * -EINVAL  not a tensor of dlbuf
 * -EOPNOTSUPP  padded rows or other gaps, more than 8 dimensions, a dimension without
 *	    elements. The error text has the dimension
 */
static inline int dlbuf_hexagon_describe(const DLManagedTensorVersioned *tensor,
				       struct dlbuf_hexagon_packed *out)
{
	struct dlbuf_hexagon_packed p;
	struct dlbuf_hexagon_buffer b;
	struct dlbuf_tensor_info info;
	int ret;

	memset(&p, 0, sizeof(p));
	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	ret = dlbuf_tensor_get_info(tensor, &info);
	if (!ret)
		ret = dlbuf_hexagon_dims_(&tensor->dl_tensor, &p);
	if (ret)
		return ret;
	p.fd = info.fd;
	p.offset = info.first;
	p.whole = info.bytes;
	if (tensor->dl_tensor.device.device_type == kDLHexagon) {
		memset(&b, 0, sizeof(b));
		b.size = sizeof(b);
		ret = dlbuf_hexagon_get_buffer(tensor, &b);
		if (ret)
			return ret;
		p.fd = b.fd;
		p.address = b.address;
		p.mapped = b.mapped && !b.dsp_address;
	}
	*out = p;
	return 0;
}

/* Fills in a struct dspqueue_buffer. Its fields have 32 bits: check p->offset, p->bytes. */
#define DLBUF_DSPQUEUE_SET(buffer, p, bits)				\
	do {								\
		(buffer)->fd = (uint32_t)(p)->fd;			\
		(buffer)->size = (uint32_t)(p)->bytes;			\
		(buffer)->offset = (uint32_t)(p)->offset;		\
		(buffer)->flags = (bits);				\
		(buffer)->ptr = (char *)(p)->address + (p)->offset;	\
	} while (0)

/* Fills in size and sharedBufferConfig of a QnnMemHtp_Descriptor_t. */
#define DLBUF_QNN_HTP_SET(descriptor, p)				\
	do {								\
		(descriptor)->size = (p)->whole;			\
		(descriptor)->sharedBufferConfig.fd = (p)->fd;		\
		(descriptor)->sharedBufferConfig.offset = (p)->offset;	\
	} while (0)

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_HEXAGON_H */
