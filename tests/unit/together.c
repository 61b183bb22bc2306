// SPDX-License-Identifier: MIT
/*
 * Several tensors in one call, with a backend that is told what to do: which
 * brackets begin and end, what a failure leaves, and the one fd of several. No
 * dma-buf is needed: eventfds stand for dma-bufs and sync_files. What the kernel
 * does with them is in tests/cts.
 */
#include <fcntl.h>
