/* SPDX-License-Identifier: MIT */
/*
 * Included before the library's own: hides the functions that glibc 2.26 or
 * bionic lack, and defines bionic's macro.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define __BIONIC__
#undef PTHREAD_CANCEL_DISABLE
#undef MFD_CLOEXEC
#undef MFD_ALLOW_SEALING
#define pthread_setcancelstate no_pthread_setcancelstate
#define secure_getenv no_secure_getenv
#define memfd_create no_memfd_create
