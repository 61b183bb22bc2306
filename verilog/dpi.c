// SPDX-License-Identifier: MIT
/* The functions that dlbuf_dpi.sv imports. */
#include <string.h>

#include <svdpi.h>

#include "sim.h"

#define READ 1u
#define WRITE 2u
#define VECTOR_BYTES 128

const char *dlbuf_dpi_error(void);
int dlbuf_dpi_attach(const char *name);
int dlbuf_dpi_open(const char *name, int waits);
int dlbuf_dpi_acquire(int h, int access, int waits);
int dlbuf_dpi_release(int h);
int dlbuf_dpi_close(int h);
int dlbuf_dpi_query(int h, int what, long long dim, long long *value);
int dlbuf_dpi_get(int h, long long index, long long *value);
int dlbuf_dpi_put(int h, long long index, long long value);
int dlbuf_dpi_read(int h, long long offset, long long n, svBitVecVal *vector);
int dlbuf_dpi_write(int h, long long offset, long long n,
		    const svBitVecVal *vector, const svBitVecVal *strobe);
int dlbuf_dpi_load(int h, long long offset, const svOpenArrayHandle memory,
		   long long first, long long words);
int dlbuf_dpi_store(int h, long long offset, const svOpenArrayHandle memory,
		    long long first, long long words);

const char *dlbuf_dpi_error(void)
{
	return sim_error();
}

int dlbuf_dpi_attach(const char *name)
{
	return sim_attach(name);
}

int dlbuf_dpi_open(const char *name, int waits)
{
	return sim_open(name, waits);
}

int dlbuf_dpi_acquire(int h, int access, int waits)
{
	return sim_acquire(h, access, waits);
}

int dlbuf_dpi_release(int h)
{
	return sim_release(h);
}

int dlbuf_dpi_close(int h)
{
	return sim_close(h);
}

int dlbuf_dpi_query(int h, int what, long long dim, long long *value)
{
	int64_t v = 0;
	int ret = sim_query(h, what, dim, &v);

	*value = v;
	return ret;
}

int dlbuf_dpi_get(int h, long long index, long long *value)
{
	uint64_t v = 0;
	int ret = sim_get(h, index, &v);

	*value = v;
	return ret;
}

int dlbuf_dpi_put(int h, long long index, long long value)
{
	return sim_put(h, index, value);
}

static int range(int h, uint32_t access, long long offset, long long n,
		 uint8_t **at)
{
	int ret = sim_bytes(h, access, offset, n, at);

	return ret || n <= VECTOR_BYTES ? ret :
	       sim_fail("%lld bytes do not fit a vector of %d bits", n,
			8 * VECTOR_BYTES);
}

/* Vectors are words of 32 bits, the lowest first. */
int dlbuf_dpi_read(int h, long long offset, long long n, svBitVecVal *vector)
{
	uint8_t *at;
	int ret = range(h, READ, offset, n, &at);

	memset(vector, 0, VECTOR_BYTES);
	for (int i = 0; !ret && i < n; i++)
		vector[i / 4] |= (uint32_t)at[i] << i % 4 * 8;
	return ret;
}

int dlbuf_dpi_write(int h, long long offset, long long n,
		    const svBitVecVal *vector, const svBitVecVal *strobe)
{
	uint8_t *at;
	int ret = range(h, WRITE, offset, n, &at);

	for (int i = 0; !ret && i < n; i++)
		if (strobe[i / 32] >> i % 32 & 1)
			at[i] = vector[i / 4] >> i % 4 * 8;
	return ret;
}

/* Bytes of an unpacked array of bytes. */
static int burst(int h, long long offset, const svOpenArrayHandle memory,
		 long long first, long long words, int load)
{
	int low = svLow(memory, 1), high = svHigh(memory, 1);
	uint8_t *at;
	int ret = sim_bytes(h, load ? READ : WRITE, offset, words, &at);

	if (!ret && (first < low || first > (long long)high + 1 ||
		     words > (long long)high + 1 - first))
		ret = sim_fail("%lld bytes at %lld are not inside the array "
			       "[%d:%d]", words, first, low, high);
	for (long long i = 0; !ret && i < words; i++) {
		svBitVecVal byte = at[i];

		if (load) {
			svPutBitArrElem1VecVal(memory, &byte, first + i);
		} else {
			svGetBitArrElem1VecVal(&byte, memory, first + i);
			at[i] = byte;
		}
	}
	return ret;
}

int dlbuf_dpi_load(int h, long long offset, const svOpenArrayHandle memory,
		   long long first, long long words)
{
	return burst(h, offset, memory, first, words, 1);
}

int dlbuf_dpi_store(int h, long long offset, const svOpenArrayHandle memory,
		    long long first, long long words)
{
	return burst(h, offset, memory, first, words, 0);
}
