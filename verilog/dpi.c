// SPDX-License-Identifier: MIT
/* The functions that dlbuf_dpi.sv imports. Verilator's make compiles it as C++, others as C. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__cplusplus) && defined(VERILATOR)
#include <verilated.h>
#endif
#include <svdpi.h>

#include "sim.h"

#define READ 1u
#define WRITE 2u
#define VECTOR_BYTES 128

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a vector's words of 32 bits are copied as bytes"
#endif

#ifdef __cplusplus
extern "C" {
#endif
void dlbuf_dpi_attach(const char *name);
int dlbuf_dpi_open(const char *name);
int dlbuf_dpi_try_open(const char *name);
void dlbuf_dpi_acquire(int h, int access);
int dlbuf_dpi_try_acquire(int h, int access);
void dlbuf_dpi_release(int h);
void dlbuf_dpi_close(int h);
long long dlbuf_dpi_query(int h, int what, long long dim);
long long dlbuf_dpi_get(int h, long long index);
void dlbuf_dpi_put(int h, long long index, long long value);
long long dlbuf_dpi_read(int h, long long offset, long long n, int bits);
void dlbuf_dpi_wide(svBitVecVal *data);
int dlbuf_dpi_write64(int h, long long offset, long long n, int bits,
		      long long data, int strobe);
int dlbuf_dpi_write(int h, long long offset, long long n, int bits,
		    const svBitVecVal *data, const svBitVecVal *strobe);
void dlbuf_dpi_load(int h, long long offset, const svOpenArrayHandle memory,
		    long long first, long long words);
void dlbuf_dpi_store(int h, long long offset, const svOpenArrayHandle memory,
		     long long first, long long words);
#ifdef __cplusplus
}
#endif

/* Ends the simulation like $fatal, with the file and line of the call. */
static void failed(const char *what)
{
	const char *file = "?";
	char text[1200];
	int line = 0;

	svGetCallerInfo(&file, &line);
	snprintf(text, sizeof(text), "%s: %s", what, sim_error());
#if defined(__cplusplus) && defined(VERILATOR)
	vl_fatal(file, line, "", text);
#else
	fflush(stdout);
	fprintf(stderr, "%s:%d: %s\n", file, line, text);
	abort();
#endif
}

static int check(int ret, const char *what)
{
	if (__builtin_expect(ret == SIM_FAILED, 0))
		failed(what);
	return ret;
}

void dlbuf_dpi_attach(const char *name)
{
	check(sim_attach(name), "dlbuf_attach");
}

int dlbuf_dpi_open(const char *name)
{
	return check(sim_open(name, true), "dlbuf_open");
}

int dlbuf_dpi_try_open(const char *name)
{
	return check(sim_open(name, false), "dlbuf_try_open");
}

void dlbuf_dpi_acquire(int h, int access)
{
	check(sim_acquire(h, access, true), "dlbuf_acquire");
}

int dlbuf_dpi_try_acquire(int h, int access)
{
	return check(sim_acquire(h, access, false), "dlbuf_try_acquire");
}

void dlbuf_dpi_release(int h)
{
	check(sim_release(h), "dlbuf_release");
}

void dlbuf_dpi_close(int h)
{
	check(sim_close(h), "dlbuf_close");
}

long long dlbuf_dpi_query(int h, int what, long long dim)
{
	static const char *const names[] = {
		"dlbuf_ndim", "dlbuf_shape", "dlbuf_stride", "dlbuf_code",
		"dlbuf_bits", "dlbuf_lanes", "dlbuf_bytes",
	};
	int64_t value = 0;

	check(sim_query(h, (enum sim_query)what, dim, &value), names[what]);
	return value;
}

long long dlbuf_dpi_get(int h, long long index)
{
	uint64_t value = 0;

	check(sim_get(h, index, &value), "dlbuf_get");
	return value;
}

void dlbuf_dpi_put(int h, long long index, long long value)
{
	check(sim_put(h, index, value), "dlbuf_put");
}

/* The bytes that dlbuf_dpi_read() has found. */
static const uint8_t *found;
static size_t nfound;

static int range(int h, uint32_t access, long long offset, long long n, int bits,
		 uint8_t **at)
{
	int ret = sim_bytes(h, access, offset, n, at);

	if (bits > 8 * VECTOR_BYTES)
		bits = 8 * VECTOR_BYTES;
	return ret || n <= bits / 8 ? ret :
	       sim_fail("%lld bytes do not fit a vector of %d bits", n, bits);
}

long long dlbuf_dpi_read(int h, long long offset, long long n, int bits)
{
	unsigned long long low = 0;
	uint8_t *at = NULL;

	if (check(range(h, READ, offset, n, bits, &at), "dlbuf_read"))
		n = 0;
	found = at;
	nfound = n;
	memcpy(&low, at, nfound < sizeof(low) ? nfound : sizeof(low));
	return low;
}

void dlbuf_dpi_wide(svBitVecVal *data)
{
	memcpy(data, found, nfound);
	memset((char *)data + nfound, 0, VECTOR_BYTES - nfound);
}

static int put_bytes(int h, long long offset, long long n, int bits,
		     const void *data, const svBitVecVal *strobe)
{
	uint8_t *at;

	if (check(range(h, WRITE, offset, n, bits, &at), "dlbuf_write"))
		return 0;
	for (int i = 0; i < n; i++)
		if (strobe[i / 32] >> i % 32 & 1)
			at[i] = ((const uint8_t *)data)[i];
	return 0;
}

int dlbuf_dpi_write64(int h, long long offset, long long n, int bits,
		      long long data, int strobe)
{
	const svBitVecVal enabled = strobe;

	return put_bytes(h, offset, n, bits, &data, &enabled);
}

int dlbuf_dpi_write(int h, long long offset, long long n, int bits,
		    const svBitVecVal *data, const svBitVecVal *strobe)
{
	return put_bytes(h, offset, n, bits, data, strobe);
}

/* The address of an array of bytes; NULL: the bytes are not in one piece. */
static uint8_t *piece(const svOpenArrayHandle memory, long long first,
		      long long words)
{
	uint8_t *at = (uint8_t *)svGetArrElemPtr1(memory, first);
	uint8_t *last = (uint8_t *)svGetArrElemPtr1(memory, first + words - 1);

	return at && last == at + words - 1 ? at : NULL;
}

/* Bytes of an unpacked array of bytes. */
static int burst(int h, long long offset, const svOpenArrayHandle memory,
		 long long first, long long words, bool load)
{
	int low = svLow(memory, 1), high = svHigh(memory, 1);
	uint8_t *at, *to;
	int ret = sim_bytes(h, load ? READ : WRITE, offset, words, &at);

	if (!ret && (first < low || first > (long long)high + 1 ||
		     words > (long long)high + 1 - first))
		ret = sim_fail("%lld bytes at %lld are not inside the array "
			       "[%d:%d]", words, first, low, high);
	if (ret || !words)
		return ret;
	to = piece(memory, first, words);
	if (to) {
		memcpy(load ? to : at, load ? at : to, words);
		return 0;
	}
	for (long long i = 0; i < words; i++) {
		svBitVecVal byte = at[i];

		if (load) {
			svPutBitArrElem1VecVal(memory, &byte, first + i);
		} else {
			svGetBitArrElem1VecVal(&byte, memory, first + i);
			at[i] = byte;
		}
	}
	return 0;
}

void dlbuf_dpi_load(int h, long long offset, const svOpenArrayHandle memory,
		    long long first, long long words)
{
	check(burst(h, offset, memory, first, words, true), "dlbuf_load");
}

void dlbuf_dpi_store(int h, long long offset, const svOpenArrayHandle memory,
		     long long first, long long words)
{
	check(burst(h, offset, memory, first, words, false), "dlbuf_store");
}
