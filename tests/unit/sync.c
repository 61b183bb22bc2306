// SPDX-License-Identifier: MIT
/*
 * Acquire and release in the core, with a backend that is told what to do: the
 * states of a tensor, which fence goes where, and what a failure leaves. The
 * two ioctls of a dma-buf are noted instead of made, because there is no
 * dma-buf on a build machine; eventfds stand for sync_files. What the kernel
 * does with them is in tests/cts.
 */
#include <fcntl.h>
#include <pthread.h>
