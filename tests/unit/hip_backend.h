/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of the HIP backend: HIP's double (tests/doubles/hip.h). It is a
 * double of CUDA's driver, too: by CUDA's functions the tests' application uses the
 * streams and the memory.
 */
#ifndef UNIT_HIP_BACKEND_H
#define UNIT_HIP_BACKEND_H

#define DOUBLE_OF "HIP"
#define begin_with begin_double
#define begin begin_cuda
#include "cuda_backend.h"
#undef begin_with
#undef begin

#include <dlbuf/hip.h>

#include "backends/hip/hip.h"
#include "doubles/hip.h"

static struct fake_hip *hip;
static fake_hip_fn hip_fn;
static struct {
#define X(name, params) hip_result (*name) params;
	FAKE_HIP_FUNCTIONS(X)
#undef X
} hipx;

static inline struct fake_cuda *reset_hip(bool reset)
{
	hip = hip_fn(reset);
	return hip->cuda;
}

static inline void begin_with(const char *library, const char *words)
{
	begin_double(library, words);
	hip_fn = (fake_hip_fn)dlsym(fake_lib, "fake_hip");
#define X(name, params)							\
	hipx.name = (hip_result (*)params)dlsym(fake_lib, "hip" #name);	\
	REQUIRE(hipx.name);
	FAKE_HIP_FUNCTIONS(X)
#undef X
	fake_fn = reset_hip;
	fake = reset_hip(true);
}

static inline void begin(const char *words)
{
	begin_with("libhip.so", words);
}

static inline struct dlbuf_device *open_hip(void)
{
	return open_as("hip");
}

static inline void app_import(struct app *app, struct fixture *f,
			      const char *words, enum dlbuf_path path)
{
	begin(words);
	import_ok(f, open_hip(), path);
	app_begin(app, f->dev);
}

#endif /* UNIT_HIP_BACKEND_H */
