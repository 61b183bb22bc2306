/* SPDX-License-Identifier: MIT */
/*
 * The run: imports each frame of a camera into each device, reads every byte by
 * the device and compares it, and counts everything that the report claims.
 */
#ifndef DMABUF_TEST_VERIFY_H
#define DMABUF_TEST_VERIFY_H

#include <pthread.h>

#include <dlbuf/dlbuf.h>

#include "boxes.h"
#include "bytes.h"
#include "input.h"
#include "picture.h"
#include "v4l2.h"

#define MAX_DEVICES 8
#define MAX_LEFT_OUT 32

struct device {
	struct dlbuf_device *dev;
	struct dlbuf_device_info info;
	const struct access *access;
	struct bytes got[DLBUF_MAX_PLANES];	/* of the last frame */

	/* The following fields are of one run. */
	struct dlbuf_device_stats before, stats;	/* at the end of the run */
	struct series first, cached;	/* imports of a frame, all planes */
	struct series acquire, release, read;
	uint64_t verified, mismatched;	/* frames */
	uint64_t bytes_copied;
	enum dlbuf_path path;		/* the worst path of all tensors */
	struct input input;		/* of --prepare */

	/* The tensors of the last frame; dl's pointers lead into dims. */
	uint32_t nplanes;
	DLTensor dl[DLBUF_MAX_PLANES];
	int64_t dims[DLBUF_MAX_PLANES][6];
	uint64_t first_byte[DLBUF_MAX_PLANES];	/* in the dma-buf */
};

/* A buffer that is queued again when its lease is released. */
struct lease {
	struct verify *verify;
	uint32_t index;
	struct dlbuf_frame frame;	/* with the camera's lease */
	uint64_t filling;	/* of the buffer, see --written; 0: none */
};

struct verify {
	struct camera *cam;
	struct dlbuf_format_info format;
	enum dlbuf_view view;
	uint64_t frames;		/* wanted */
	uint64_t timeout_ns;
	bool quiet;			/* no progress */
	bool moving;			/* a frame like the last one is wrong */
	bool written;			/* so are bytes that the camera did not write */
	/* Files of the last frame; NULL: none. */
	struct outfile *png;
	struct outfile *raw;		/* the reference as it is */
	/* Size of --prepare; 0: no inputs are made. */
	uint32_t input_width, input_height;
	bool input_asked;		/* it is a failure if no device prepares */
	struct outfile *input_png;	/* of the last frame; NULL: none */

	struct device devices[MAX_DEVICES];
	uint32_t ndevices, nopen;	/* the ones left out stay open, at the end */
	bool all;			/* each device that works */
	struct left_out {
		char name[64], reason[256];
		bool absent;
	} left_out[MAX_LEFT_OUT];
	uint32_t nleft_out;
	struct lease leases[VIDEO_MAX_FRAME];

	/* The following fields are of one run. */
	uint32_t nplanes;		/* tensors of a frame */
	const char *undrawn;		/* static; why there is no picture */
	bool drawn;
	uint64_t done;			/* frames */
	uint64_t elapsed_ns;		/* first frame to last */
	uint64_t granted;		/* leases, one per frame */
	uint64_t repeated;		/* frames like the one before */
	uint64_t filled, unwritten;	/* frames; bytes of these */
	uint64_t mismatched;		/* planes of a device, in total */
	uint64_t inputs_differ;		/* inputs of a device, from the first device's */
	double boxes[MAX_BOXES][4];	/* left, top, right, bottom; pixels of the frame */
	uint32_t nboxes;
	struct bytes reference[2][DLBUF_MAX_PLANES];	/* by `done`, odd or even */
	int fds_before, fds_after;

	/* Leases may fire on the library's event thread. */
	pthread_mutex_t lock;
	pthread_cond_t came_back;
	uint64_t released;		/* leases */
	uint64_t requeued;		/* buffers, by their leases */
	int status;			/* of a filling that failed */
};

/*
 * names: separated by commas, or "all": each device that works, without those that refuse
 * the camera's buffers. v->left_out names the others. v has been zeroed.
 */
int verify_open_devices(struct verify *v, const char *names);
void verify_close_devices(struct verify *v);

/* Forgets a run, so that there can be another one, of another format. */
void verify_reset(struct verify *v);

/*
 * The view that shows most of a format: PLANES, or if that is refused the first
 * of WORDS, ROWS and BYTES.
 */
enum dlbuf_view verify_view(const struct dlbuf_format_info *info);

/*
 * Leaves out those of "all" devices that refuse the open camera's buffers. If all
 * refuse, the frame is the cause, and the run reports that.
 */
void verify_leave_out(struct verify *v);

/* Takes v->frames frames of the open camera. */
int verify_run(struct verify *v);

/* Checks, after the camera is closed, what the run itself cannot check. */
int verify_finish(struct verify *v);

/* Whether every claim holds. */
bool verify_good(const struct verify *v);
/* The same as a status; prints failures that were not printed yet. */
int verify_status(const struct verify *v);

/* Open files of this process. */
int count_fds(void);

#endif /* DMABUF_TEST_VERIFY_H */
