/* SPDX-License-Identifier: MIT */
/* The double of CUDA's driver (tests/doubles/cuda.h), loaded, and its functions. */
#ifndef UNIT_CUDA_LOAD_H
#define UNIT_CUDA_LOAD_H

#include "backends/cuda/api.h"
#include "double.h"
#include "doubles/cuda.h"

/* HIP's double is one of CUDA's, too. */
#ifndef DOUBLE_OF
#define DOUBLE_OF "CUDA"
#endif

static struct fake_cuda *fake;
#include "counts.h"
static fake_cuda_fn fake_fn;
static void *fake_lib;
static struct cuda_api cu;
static struct {
#define X(name, symbol, params) cuda_result (*name) params;
	FAKE_CUDA_FUNCTIONS(X)
#undef X
} cux;

/* As one that has just been loaded, with these words. */
static inline void load(const char *name, const char *words)
{
	setenv("FAKE_" DOUBLE_OF, words, 1);
	fake_lib = double_open(name, "DLBUF_" DOUBLE_OF "_LIBRARY");
	fake_fn = (fake_cuda_fn)dlsym(fake_lib, "fake_cuda");
	REQUIRE(fake_fn);
	/* An old driver has not all of them. */
#define X(name, symbol, needed, params)				\
	cu.name = (cuda_result (*)params)dlsym(fake_lib, #symbol);
	CUDA_FUNCTIONS(X)
#undef X
#define X(name, symbol, params)					\
	cux.name = (cuda_result (*)params)dlsym(fake_lib, #symbol);	\
	REQUIRE(cux.name);
	FAKE_CUDA_FUNCTIONS(X)
#undef X
	fake = fake_fn(true);
}

#endif /* UNIT_CUDA_LOAD_H */
