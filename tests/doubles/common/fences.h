/* SPDX-License-Identifier: MIT */
/*
 * Fences that a double gives, to signal when its work is over: sync_files of vgem, or
 * eventfds that replace them.
 */
#ifndef FAKE_FENCES_H
#define FAKE_FENCES_H

#include <stdbool.h>
#include <stdint.h>

/* The double's end of one; none while fd is -1. */
struct teller {
	int fd;
	uint32_t fence;		/* where fd is a vgem node: which, else 0 */
};

/*
 * A new fence, an eventfd if it is to be `plain`. `over`: it has signalled. -1 where the
 * kernel has no vgem, or no fence: then the work has to be waited for.
 */
int fence_new(bool plain, bool over, struct teller *t);
/* Signals the fence; without one, does nothing. */
void fence_tell(struct teller *t);
bool is_readable(int fd);

#endif /* FAKE_FENCES_H */
