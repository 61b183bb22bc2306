// SPDX-License-Identifier: MIT
/* The system tasks of dlbuf.vpi, a module for Icarus Verilog. See dlbuf-verilog(7). */
#include <stdlib.h>
#include <string.h>

#include <iverilog/vpi_user.h>

#include "sim.h"

#define READ 1u
#define WRITE 2u
#define MAX_ARGS 5

struct call {
	const struct task *task;
	vpiHandle args[MAX_ARGS];
	int64_t n[MAX_ARGS];	/* of the arguments that are numbers */
	int64_t value;		/* of a function */
};

struct task {
	const char *name, *args;
	unsigned int nargs;
	unsigned int numbers;	/* which arguments are numbers: a bit for each */
	/* Bits of the value of a function. 0: it is a task. */
	unsigned int bits;
	int (*run)(struct call *c);
	enum sim_query what;	/* of run_query() */
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

static int numbers(struct call *c)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < c->task->nargs; i++)
		if (c->task->numbers >> i & 1)
			ret = number(c->args[i], &c->n[i]);
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

/* The mask of written bytes: a bit for each. Bytes above the vector are not written. */
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

static int run_attach(struct call *c)
{
	return sim_attach(text(c->args[0]));
}

static int run_open(struct call *c)
{
	return c->value = sim_open(text(c->args[0]), true);
}

static int run_try_open(struct call *c)
{
	c->value = sim_open(text(c->args[0]), false);
	return c->value == SIM_FAILED ? SIM_FAILED : 0;
}

static int run_acquire(struct call *c)
{
	return sim_acquire(c->n[0], c->n[1], true);
}

static int run_try_acquire(struct call *c)
{
	return c->value = sim_acquire(c->n[0], c->n[1], false);
}

static int run_release(struct call *c)
{
	return sim_release(c->n[0]);
}

static int run_close(struct call *c)
{
	return sim_close(c->n[0]);
}

static int run_query(struct call *c)
{
	return sim_query(c->n[0], c->task->what, c->n[1], &c->value);
}

static int run_get(struct call *c)
{
	uint64_t v = 0;
	int ret = sim_get(c->n[0], c->n[1], &v);

	c->value = v;
	return ret;
}

static int run_put(struct call *c)
{
	return sim_put(c->n[0], c->n[1], c->n[2]);
}

#define MAX_BYTES 128

/* Checks (handle, offset, bytes) against the tensor, and against a vector. */
static int range(struct call *c, uint32_t access, uint8_t **at)
{
	int bits = vpi_get(vpiSize, c->args[3]);
	int ret = sim_bytes(c->n[0], access, c->n[1], c->n[2], at);

	if (bits > 8 * MAX_BYTES)
		bits = 8 * MAX_BYTES;
	if (!ret && c->n[2] > bits / 8)
		ret = sim_fail("%lld bytes do not fit a vector of %d bits",
			       (long long)c->n[2], bits);
	return ret;
}

static int run_read(struct call *c)
{
	uint8_t *at;

	return range(c, READ, &at) ? SIM_FAILED :
	       put_vector(c->args[3], vpi_get(vpiSize, c->args[3]), at, c->n[2]);
}

static int run_write(struct call *c)
{
	uint8_t *at;

	return range(c, WRITE, &at) ? SIM_FAILED :
	       get_vector(c->args[3], at, c->n[2], NULL);
}

static int run_write_strobe(struct call *c)
{
	uint32_t enabled[MAX_BYTES / 32] = { 0 };
	uint8_t *at;

	return range(c, WRITE, &at) || get_strobe(c->args[4], enabled, c->n[2]) ?
	       SIM_FAILED : get_vector(c->args[3], at, c->n[2], enabled);
}

static vpiHandle word_of(vpiHandle memory, int64_t i)
{
	return i == (PLI_INT32)i ? vpi_handle_by_index(memory, i) : NULL;
}

/* (handle, offset, memory, first word, words): whole words, little-endian */
static int burst(struct call *c, bool load)
{
	vpiHandle memory = c->args[2], word;
	int64_t first = c->n[3], words = c->n[4], bytes;
	char why[1024];
	uint8_t *at;
	int ret;

	if (vpi_get(vpiType, memory) != vpiMemory)
		return sim_fail("the third argument is not a memory");
	word = word_of(memory, first);
	/* With 0 words the first word may be the one after the last. */
	if (!word && !words)
		word = word_of(memory, first - 1);
	if (!word)
		return sim_fail("the memory has no word %lld", (long long)first);
	bytes = vpi_get(vpiSize, word) / 8;
	if (!bytes || vpi_get(vpiSize, word) % 8)
		return sim_fail("a word of the memory is not a number of bytes");
	if (words < 0 || words > INT32_MAX)
		return sim_fail("%lld words", (long long)words);
	ret = sim_bytes(c->n[0], load ? READ : WRITE, c->n[1], words * bytes, &at);
	for (int64_t i = first; !ret && i < first + words; i++, at += bytes) {
		word = word_of(memory, i);
		if (!word)
			return sim_fail("the memory has no word %lld", (long long)i);
		ret = load ? put_vector(word, 8 * bytes, at, bytes) :
			     get_vector(word, at, bytes, NULL);
		if (ret)
			sim_fail("word %lld: %s", (long long)i,
				 strcpy(why, sim_error()));
	}
	return ret;
}

static int run_load(struct call *c)
{
	return burst(c, true);
}

static int run_store(struct call *c)
{
	return burst(c, false);
}

static const struct task tasks[] = {
	{ "$dlbuf_attach", "name", 1, 0, 0, run_attach, 0 },
	{ "$dlbuf_open", "name", 1, 0, 32, run_open, 0 },
	{ "$dlbuf_try_open", "name", 1, 0, 32, run_try_open, 0 },
	{ "$dlbuf_acquire", "handle, access", 2, 3, 0, run_acquire, 0 },
	{ "$dlbuf_try_acquire", "handle, access", 2, 3, 32, run_try_acquire, 0 },
	{ "$dlbuf_release", "handle", 1, 1, 0, run_release, 0 },
	{ "$dlbuf_close", "handle", 1, 1, 0, run_close, 0 },
	{ "$dlbuf_ndim", "handle", 1, 1, 32, run_query, SIM_NDIM },
	{ "$dlbuf_shape", "handle, dimension", 2, 3, 64, run_query, SIM_SHAPE },
	{ "$dlbuf_stride", "handle, dimension", 2, 3, 64, run_query, SIM_STRIDE },
	{ "$dlbuf_code", "handle", 1, 1, 32, run_query, SIM_CODE },
	{ "$dlbuf_bits", "handle", 1, 1, 32, run_query, SIM_BITS },
	{ "$dlbuf_lanes", "handle", 1, 1, 32, run_query, SIM_LANES },
	{ "$dlbuf_bytes", "handle", 1, 1, 64, run_query, SIM_BYTES },
	{ "$dlbuf_get", "handle, index", 2, 3, 64, run_get, 0 },
	{ "$dlbuf_put", "handle, index, value", 3, 7, 0, run_put, 0 },
	{ "$dlbuf_read", "handle, offset, bytes, vector", 4, 7, 0, run_read, 0 },
	{ "$dlbuf_write", "handle, offset, bytes, vector", 4, 7, 0, run_write, 0 },
	{ "$dlbuf_write_strobe", "handle, offset, bytes, vector, strobe", 5, 7, 0,
	  run_write_strobe, 0 },
	{ "$dlbuf_load", "handle, offset, memory, first, words", 5, 27, 0, run_load, 0 },
	{ "$dlbuf_store", "handle, offset, memory, first, words", 5, 27, 0, run_store, 0 },
};

/* ---------------------------------------------------------------- the simulator */

static int collect(vpiHandle call, struct call *c)
{
	vpiHandle list = vpi_iterate(vpiArgument, call), arg;
	unsigned int n = 0;

	while (list && (arg = vpi_scan(list)))
		if (n++ < c->task->nargs)
			c->args[n - 1] = arg;
	return n == c->task->nargs ? numbers(c) :
	       sim_fail("it has %u arguments and not (%s)", n, c->task->args);
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
	vpiHandle call = vpi_handle(vpiSysTfCall, NULL);
	struct call c = { .task = task };
	int ret = collect(call, &c);

	if (!ret)
		ret = task->run(&c);
	if (ret >= 0) {
		put_result(call, task, c.value);
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
