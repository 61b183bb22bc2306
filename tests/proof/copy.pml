/* SPDX-License-Identifier: MIT */
/*
 * lib/queue/sync.c: a function of the host on a stream, and the fences of its dma-buf.
 * spin checks all orders of all steps; see run.
 *
 * The stream waits for `first`, the fence of the acquire. Then it calls the function, and
 * then it signals `later`, which another access to the same dma-buf has added meanwhile, on
 * this stream or on one that waits for it. START of DMA_BUF_IOCTL_SYNC waits for all fences
 * that the dma-buf has.
 *
 * -DOLD_START: START is always made, as the library did. -DOLD_UNLOCKED: a fence may be
 * added between the look at the fences and START. Both are found.
 */
bool first, later;		/* they have signalled */
bool added;			/* `later` is on the dma-buf */
bool copied;

active proctype stream()
{
	first;
#if defined(OLD_START)
	!added || later;
#elif defined(OLD_UNLOCKED)
	if
	:: !added || later -> !added || later
	:: else
	fi;
#else
	atomic {			/* under the lock for which adding waits */
		if
		:: !added || later -> !added || later
		:: else			/* no START */
		fi
	};
#endif
	copied = true;
	later = true
}

active proctype producer() { first = true }

active proctype release() { added = true }

ltl copied_in_the_end { <> copied }
