/* SPDX-License-Identifier: MIT */
/*
 * A double of a Level Zero driver over the host's memory. The real loader loads it
 * (ZE_ENABLE_ALT_DRIVERS=PATH), with its validation layer if the environment enables
 * that. It has the loader's functions by their names too, so dlbuf can load it as a
 * loader (DLBUF_LEVELZERO_LIBRARY), where there is none, and for functions that are
 * newer than the installed one.
 *
 * It returns the documented error, counts the call in wrong, and prints the broken rule on
 * stderr. It is strict where the specification is silent: events are reset before they are
 * signalled again, and destroyed or reset when no command uses them; an imported fd is the
 * driver's on success, and closed at once. zeMemFree() of an import waits for the streams of
 * the context, and other calls wait meanwhile; of other memory it returns at once, as Intel's
 * driver 26.27 does. Like that driver it keeps mappings of external_memmap_sysmem above 2
 * MiB, and returns them again; and its pools have 2 MiB. unit/levelzero_contract asks both.
 *
 * A kernel is destroyed after the lists that have run it, which Intel's driver looks at.
 * An immediate command list runs its commands in any order: those between two barriers
 * are kept until the second, and then run backwards.
 *
 * A freeing call that is made to fail has freed nonetheless. Nothing works in a child
 * of a process that has initialised it.
 *
 * The environment's FAKE_LEVELZERO has words, as preset() takes them: integrated, two,
 * tiles, none, noimport, wrongpages, nohost, nohostsync, nozex, nosysmem, ignoresysmem,
 * keepsfd, pools, noexport, memfds, nopci, strict. It is read when the library is loaded
 * and on each reset.
 */
#ifndef FAKE_LEVELZERO_H
#define FAKE_LEVELZERO_H

#include "backends/levelzero/abi.h"
#include "common/driver.h"

enum fake_kind {
	FAKE_CONTEXT,
	FAKE_DEVICE_MEMORY,
	FAKE_HOST_MEMORY,	/* and memory that is mapped as such */
	FAKE_MODULE,
	FAKE_BUILD_LOG,
	FAKE_KERNEL,
	FAKE_LIST,
	FAKE_EVENT_POOL,
	FAKE_EVENT,
	FAKE_KINDS
};

struct fake_levelzero {
	DRIVER;
	ze_api_version_t version;
	unsigned int ndevices;
	bool integrated;
	bool tiles;		/* each device has two */
	bool no_import;		/* of dma-bufs */
	bool wrong_pages;	/* its imports end with a page of another buffer */
	bool no_host;		/* functions */
	bool no_host_sync;	/* lists are waited for by events */
	bool no_zex;		/* Intel's functions for host memory */
	bool no_sysmem;		/* ZE_extension_external_memmap_sysmem is refused ... */
	bool ignore_sysmem;	/* ... or not known */
	bool keeps_fd;		/* an exported fd stays the driver's */
	bool pools;		/* small allocations are parts of one buffer */
	bool no_export;		/* of memory that was not allocated for that */
	bool memfds;		/* memfds replace dma-bufs, in both directions */
	bool shared;		/* all its memory is */
	bool no_immediate;	/* its lists are regular ones */
	bool no_pci;		/* the device has no address */
	unsigned int unasked;	/* events whose list was destroyed before they were asked */
	void (*preset)(const char *words);
};

/* The one there is; anew after a reset. */
typedef struct fake_levelzero *(*fake_levelzero_fn)(bool reset);

#endif /* FAKE_LEVELZERO_H */
