// SPDX-License-Identifier: MIT
/* The inner loops for bytes, for NEON, which each arm64 has. */
#if defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define KERNELS byte_kernels_neon
#include "bytes.h"
#else
typedef int no_neon;
#endif
