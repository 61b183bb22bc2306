// SPDX-License-Identifier: MIT
/* The system tasks of dlbuf.vpi, a module for Icarus Verilog. See dlbuf-verilog(7). */
#include <stdlib.h>
#include <string.h>

#include <iverilog/vpi_user.h>

#include "sim.h"

#define READ 1u
#define WRITE 2u
#define MAX_ARGS 5

struct task {
	const char *name, *args;
	unsigned int nargs;
	/* Bits of the value of a function. 0: it is a task. */
	unsigned int bits;
	int (*run)(vpiHandle args[], int64_t *value);
};

/* ---------------------------------------------------------------- arguments */

/* The bits of word `i` that the vector has. */
static uint32_t mask_of(int bits, int i)
{
	return bits - 32 * i >= 32 ? ~0u : (1u << (bits - 32 * i)) - 1;
}

/* A number of 64 bits: in a wider vector, the others extend it. */
static int number(vpiHandle arg, int64_t *value)
{
	s_vpi_value v = { .format = vpiVectorVal };
	int bits = vpi_get(vpiSize, arg);
	bool is_signed = vpi_get(vpiSigned, arg);
	uint32_t unknown = 0, rest = 0;
	uint64_t n = 0;

	vpi_get_value(arg, &v);
	if (v.format != vpiVectorVal)
		return sim_fail("an argument is not a number");
	for (int i = 0; i * 32 < bits; i++) {
		uint32_t word = v.value.vector[i].aval & mask_of(bits, i);

		unknown |= v.value.vector[i].bval & mask_of(bits, i);
		if (i < 2)
			n |= (uint64_t)word << 32 * i;
		else if (is_signed && n >> 63)
			rest |= word ^ mask_of(bits, i);
		else
			rest |= word;
	}
	if (unknown)
		return sim_fail("a number is x or z");
	if (rest)
		return sim_fail("a number of %d bits does not fit 64", bits);
	if (bits < 64 && is_signed && n >> (bits - 1))
		n |= ~0ull << bits;
	*value = n;
	return 0;
}

static int numbers(vpiHandle args[], unsigned int n, int64_t values[])
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < n; i++)
		ret = number(args[i], &values[i]);
	return ret;
}

static const char *text(vpiHandle arg)
{
	s_vpi_value v = { .format = vpiStringVal };

	vpi_get_value(arg, &v);
	return v.value.str;
}

/* Bytes into a vector of `bits`, little-endian; the bits above are 0. */
static int put_vector(vpiHandle to, int bits, const uint8_t *from, uint64_t bytes)
{
	static s_vpi_vecval *word;
	static size_t room;
	size_t words = (bits + 31) / 32;
	s_vpi_value v = { .format = vpiVectorVal };

	if (words > room) {
		free(word);
		word = malloc(words * sizeof(*word));
		room = word ? words : 0;
	}
	if (!word)
		return sim_fail("no memory");
	memset(word, 0, words * sizeof(*word));
	for (uint64_t i = 0; i < bytes; i++)
		word[i / 4].aval |= (uint32_t)from[i] << i % 4 * 8;
	v.value.vector = word;
	vpi_put_value(to, &v, NULL, vpiNoDelay);
	return 0;
}

/* Which bytes are written: a bit for each. There are none above the vector. */
static int get_strobe(vpiHandle from, uint32_t enabled[], uint64_t bytes)
{
	s_vpi_value v = { .format = vpiVectorVal };
	int bits = vpi_get(vpiSize, from);

	vpi_get_value(from, &v);
	if (v.format != vpiVectorVal)
		return sim_fail("the strobe is not a number");
	for (int i = 0; i * 32 < bits; i++) {
		if (v.value.vector[i].bval & mask_of(bits, i))
			return sim_fail("the strobe is x or z");
		if ((uint64_t)i * 32 < bytes)
			enabled[i] = v.value.vector[i].aval & mask_of(bits, i);
	}
	return 0;
}

/* `enabled` has a bit for each byte that is written, or is NULL. */
static int get_vector(vpiHandle from, uint8_t *to, uint64_t bytes,
		      const uint32_t *enabled)
{
	s_vpi_value v = { .format = vpiVectorVal };

	vpi_get_value(from, &v);
	if (v.format != vpiVectorVal)
		return sim_fail("the data is not a number");
	for (uint64_t i = 0; i < bytes; i++) {
		const s_vpi_vecval *word = &v.value.vector[i / 4];

		if (enabled && !(enabled[i / 32] >> i % 32 & 1))
			continue;
		if (word->bval >> i % 4 * 8 & 0xff)
			return sim_fail("byte %llu of the data is x or z",
					(unsigned long long)i);
		to[i] = word->aval >> i % 4 * 8;
	}
	return 0;
}

/* ---------------------------------------------------------------- tasks */

static int run_attach(vpiHandle args[], int64_t *value)
{
	(void)value;
	return sim_attach(text(args[0]));
}

static int run_open(vpiHandle args[], int64_t *value)
{
	return *value = sim_open(text(args[0]), true);
}

static int run_try_open(vpiHandle args[], int64_t *value)
{
	*value = sim_open(text(args[0]), false);
	return *value == SIM_FAILED ? SIM_FAILED : 0;
}

static int acquire(vpiHandle args[], bool wait, int64_t *value)
{
	int64_t n[2];

	return numbers(args, 2, n) ? SIM_FAILED :
	       (*value = sim_acquire(n[0], n[1], wait));
}

static int run_acquire(vpiHandle args[], int64_t *value)
{
	return acquire(args, true, value);
}

static int run_try_acquire(vpiHandle args[], int64_t *value)
{
	return acquire(args, false, value);
}

static int run_release(vpiHandle args[], int64_t *value)
{
	return number(args[0], value) ? SIM_FAILED : sim_release(*value);
}

static int run_close(vpiHandle args[], int64_t *value)
{
	return number(args[0], value) ? SIM_FAILED : sim_close(*value);
}

#define QUERY(name, what)						\
	static int run_##name(vpiHandle args[], int64_t *value)	\
	{								\
		int64_t h;						\
									\
		return number(args[0], &h) ? SIM_FAILED :		\
		       sim_query(h, what, 0, value);			\
	}
QUERY(ndim, SIM_NDIM)
QUERY(code, SIM_CODE)
QUERY(bits, SIM_BITS)
QUERY(lanes, SIM_LANES)
QUERY(bytes, SIM_BYTES)

#define QUERY_DIM(name, what)						\
	static int run_##name(vpiHandle args[], int64_t *value)	\
	{								\
		int64_t n[2];						\
									\
		return numbers(args, 2, n) ? SIM_FAILED :		\
		       sim_query(n[0], what, n[1], value);		\
	}
QUERY_DIM(shape, SIM_SHAPE)
QUERY_DIM(stride, SIM_STRIDE)

static int run_get(vpiHandle args[], int64_t *value)
{
	uint64_t v = 0;
	int64_t n[2];
	int ret = numbers(args, 2, n);

	if (!ret)
		ret = sim_get(n[0], n[1], &v);
	*value = v;
	return ret;
}

static int run_put(vpiHandle args[], int64_t *value)
{
	int64_t n[3];

	(void)value;
	return numbers(args, 3, n) ? SIM_FAILED : sim_put(n[0], n[1], n[2]);
}

#define MAX_BYTES 128

/* Checks (handle, offset, bytes) against the tensor, and against a vector. */
static int range(vpiHandle args[], uint32_t access, int64_t n[3], uint8_t **at)
{
	int ret = numbers(args, 3, n), bits = vpi_get(vpiSize, args[3]);

	if (!ret)
		ret = sim_bytes(n[0], access, n[1], n[2], at);
	if (bits > 8 * MAX_BYTES)
		bits = 8 * MAX_BYTES;
	if (!ret && n[2] > bits / 8)
		ret = sim_fail("%lld bytes do not fit a vector of %d bits",
			       (long long)n[2], bits);
	return ret;
}

static int run_read(vpiHandle args[], int64_t *value)
{
	uint8_t *at;
	int64_t n[3];

	(void)value;
	return range(args, READ, n, &at) ? SIM_FAILED :
	       put_vector(args[3], vpi_get(vpiSize, args[3]), at, n[2]);
}

static int run_write(vpiHandle args[], int64_t *value)
{
	uint8_t *at;
	int64_t n[3];

	(void)value;
	return range(args, WRITE, n, &at) ? SIM_FAILED :
	       get_vector(args[3], at, n[2], NULL);
}

static int run_write_strobe(vpiHandle args[], int64_t *value)
{
	uint32_t enabled[MAX_BYTES / 32] = { 0 };
	uint8_t *at;
	int64_t n[3];

	(void)value;
	return range(args, WRITE, n, &at) || get_strobe(args[4], enabled, n[2]) ?
	       SIM_FAILED : get_vector(args[3], at, n[2], enabled);
}

static vpiHandle word_of(vpiHandle memory, int64_t i)
{
	return i == (PLI_INT32)i ? vpi_handle_by_index(memory, i) : NULL;
}

/* (handle, offset, memory, first word, words): whole words, little-endian */
static int burst(vpiHandle args[], bool load)
{
	vpiHandle memory = args[2], word;
	int64_t n[2], words[2], bytes;
	char why[1024];
	uint8_t *at;
	int ret;

	if (vpi_get(vpiType, memory) != vpiMemory)
		return sim_fail("the third argument is not a memory");
	ret = numbers(args, 2, n);
	if (!ret)
		ret = numbers(args + 3, 2, words);
	word = ret ? NULL : word_of(memory, words[0]);
	/* There is a place for no words behind the last. */
	if (!ret && !word && !words[1])
		word = word_of(memory, words[0] - 1);
	if (!word)
		return ret ? ret : sim_fail("the memory has no word %lld",
					    (long long)words[0]);
	bytes = vpi_get(vpiSize, word) / 8;
	if (!bytes || vpi_get(vpiSize, word) % 8)
		return sim_fail("a word of the memory is not a number of bytes");
	if (words[1] < 0 || words[1] > INT32_MAX)
		return sim_fail("%lld words", (long long)words[1]);
	ret = sim_bytes(n[0], load ? READ : WRITE, n[1], words[1] * bytes, &at);
	for (int64_t i = 0; !ret && i < words[1]; i++, at += bytes) {
		word = word_of(memory, words[0] + i);
		if (!word)
			return sim_fail("the memory has no word %lld",
					(long long)(words[0] + i));
		ret = load ? put_vector(word, 8 * bytes, at, bytes) :
			     get_vector(word, at, bytes, NULL);
		if (ret)
			sim_fail("word %lld: %s", (long long)(words[0] + i),
				 strcpy(why, sim_error()));
	}
	return ret;
}

static int run_load(vpiHandle args[], int64_t *value)
{
	(void)value;
	return burst(args, true);
}

static int run_store(vpiHandle args[], int64_t *value)
{
	(void)value;
	return burst(args, false);
}

static const struct task tasks[] = {
	{ "$dlbuf_attach", "name", 1, 0, run_attach },
	{ "$dlbuf_open", "name", 1, 32, run_open },
	{ "$dlbuf_try_open", "name", 1, 32, run_try_open },
	{ "$dlbuf_acquire", "handle, access", 2, 0, run_acquire },
	{ "$dlbuf_try_acquire", "handle, access", 2, 32, run_try_acquire },
	{ "$dlbuf_release", "handle", 1, 0, run_release },
	{ "$dlbuf_close", "handle", 1, 0, run_close },
	{ "$dlbuf_ndim", "handle", 1, 32, run_ndim },
	{ "$dlbuf_shape", "handle, dimension", 2, 64, run_shape },
	{ "$dlbuf_stride", "handle, dimension", 2, 64, run_stride },
	{ "$dlbuf_code", "handle", 1, 32, run_code },
	{ "$dlbuf_bits", "handle", 1, 32, run_bits },
	{ "$dlbuf_lanes", "handle", 1, 32, run_lanes },
	{ "$dlbuf_bytes", "handle", 1, 64, run_bytes },
	{ "$dlbuf_get", "handle, index", 2, 64, run_get },
	{ "$dlbuf_put", "handle, index, value", 3, 0, run_put },
	{ "$dlbuf_read", "handle, offset, bytes, vector", 4, 0, run_read },
	{ "$dlbuf_write", "handle, offset, bytes, vector", 4, 0, run_write },
	{ "$dlbuf_write_strobe", "handle, offset, bytes, vector, strobe", 5, 0,
	  run_write_strobe },
	{ "$dlbuf_load", "handle, offset, memory, first, words", 5, 0, run_load },
	{ "$dlbuf_store", "handle, offset, memory, first, words", 5, 0, run_store },
};

/* ---------------------------------------------------------------- the simulator */

static int collect(vpiHandle call, const struct task *task, vpiHandle args[])
{
	vpiHandle list = vpi_iterate(vpiArgument, call), arg;
	unsigned int n = 0;

	while (list && (arg = vpi_scan(list)))
		if (n++ < task->nargs)
			args[n - 1] = arg;
	return n == task->nargs ? 0 :
	       sim_fail("it has %u arguments and not (%s)", n, task->args);
}

static void put_result(vpiHandle call, const struct task *task, int64_t value)
{
	s_vpi_vecval word[2] = { { .aval = value }, { .aval = value >> 32 } };
	s_vpi_value v = { .format = vpiVectorVal, .value.vector = word };

	if (task->bits)
		vpi_put_value(call, &v, NULL, vpiNoDelay);
}

/* Like $fatal: the simulation ends, and vvp's exit status is 1. */
static PLI_INT32 call_task(ICARUS_VPI_CONST PLI_BYTE8 *data)
{
	const struct task *task = (const struct task *)data;
	vpiHandle call = vpi_handle(vpiSysTfCall, NULL), args[MAX_ARGS];
	int64_t value = 0;
	int ret = collect(call, task, args);

	if (!ret)
		ret = task->run(args, &value);
	if (ret >= 0) {
		put_result(call, task, value);
		return 0;
	}
	vpi_printf("%s:%d: %s: %s\n", vpi_get_str(vpiFile, call),
		   (int)vpi_get(vpiLineNo, call), task->name, sim_error());
	put_result(call, task, 0);
	vpip_set_return_value(1);
	vpi_control(vpiFinish, 1);
	return 0;
}

static PLI_INT32 result_bits(ICARUS_VPI_CONST PLI_BYTE8 *data)
{
	return ((const struct task *)data)->bits;
}

static void register_tasks(void)
{
	for (unsigned int i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
		s_vpi_systf_data tf = {
			.type = tasks[i].bits ? vpiSysFunc : vpiSysTask,
			.sysfunctype = vpiSizedSignedFunc,
			.tfname = tasks[i].name,
			.calltf = call_task,
			.sizetf = result_bits,
			.user_data = (void *)&tasks[i],
		};

		vpi_register_systf(&tf);
	}
}

__attribute__((visibility("default")))
void (*vlog_startup_routines[])(void) = { register_tasks, NULL };
