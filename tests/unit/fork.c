// SPDX-License-Identifier: MIT
/*
 * fork(): in the child the parent's devices and tensors are refused, deleted and
 * closed without a lock and without a call to a driver, and devices of its own
 * work. Threads keep the parent's locks busy meanwhile: a child that takes one of
 * them hangs, which the harness ends. Doubles stand for the drivers and memfds
 * for dma-bufs; real ones are in tests/cts.
 */
#include <pthread.h>
