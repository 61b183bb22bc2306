// SPDX-License-Identifier: MIT
/*
 * The command streamers of an xe: a thread per exec queue. A batch may have no end, but wait at
 * a semaphore for more. An unknown command ends the run.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "../doubles/common/prepare.h"
#include "core.h"
#include "xe.h"

struct work {
	uint64_t batch, fence, value;
	struct work *next;
};

struct queue {
	uint32_t id;
	struct file *file;
	struct vm *vm;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct work *work;		/* under the lock */
	bool ending;
	uint32_t regs[1024];		/* of the engine's 4096 bytes */
	uint64_t general, code;		/* base addresses */
	struct queue *next;
};
static struct queue *queues;		/* under the core's lock */

void xe_pause(void)
{
	nanosleep(&(struct timespec){ 0, 50000 }, NULL);
}

static uint64_t ticks(void)
{
	return (uint64_t)core_now() * 12 / 625;
}

/* ---- memory */

static void *at(struct queue *q, uint64_t address, uint64_t bytes)
{
	void *p = xe_at(q->vm, address, bytes);

	if (!p)
		unknown("an access where nothing is bound:", address);
	return p;
}

static uint64_t pair(const uint32_t *dw)
{
	return dw[0] | (uint64_t)dw[1] << 32;
}

static void store(struct queue *q, uint64_t address, uint64_t value, bool is64)
{
	if (is64)
		__atomic_store_n((uint64_t *)at(q, address, 8), value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)at(q, address, 4), (uint32_t)value, __ATOMIC_RELEASE);
}

static uint64_t load(struct queue *q, uint64_t address, bool is64)
{
	return is64 ? __atomic_load_n((uint64_t *)at(q, address, 8), __ATOMIC_ACQUIRE) :
		      __atomic_load_n((uint32_t *)at(q, address, 4), __ATOMIC_ACQUIRE);
}

/* ---- registers */

#define GPR(n) (&q->regs[0x600 / 4 + 2 * (n)])

static uint32_t *reg(struct queue *q, uint32_t offset)
{
	uint32_t *r = &q->regs[(offset & 0xfff) / 4];

	if ((offset & 0xff8) == 0x358)	/* TIMESTAMP */
		*r = offset & 4 ? ticks() >> 32 : ticks();
	return r;
}

static void math(struct queue *q, const uint32_t *dw, uint32_t n)
{
	uint64_t a = 0, b = 0, accu = 0, *source, value;

	for (uint32_t i = 1; i < n; i++) {
		uint32_t to = dw[i] >> 10 & 0x3ff, from = dw[i] & 0x3ff;

		source = to == 0x20 ? &a : &b;
		switch (dw[i] >> 20) {
		case 0x000:
			break;
		case 0x080:
			*source = pair(GPR(from));
			break;
		case 0x081:
			*source = 0;
			break;
		case 0x100:
			accu = a + b;
			break;
		case 0x101:
			accu = a - b;
			break;
		case 0x102:
			accu = a & b;
			break;
		case 0x103:
			accu = a | b;
			break;
		case 0x180:
			if (from != 0x31)
				unknown("operand of MI_MATH", from);
			value = accu;
			memcpy(GPR(to), &value, 8);
			break;
		default:
			unknown("MI_MATH", dw[i] >> 20);
		}
	}
}

/* ---- commands */

/* 0: the queue ends meanwhile. */
static bool semaphore(struct queue *q, const uint32_t *dw)
{
	bool ok = false;

	while (!ok && !q->ending) {
		uint32_t is = dw[0] & 1 << 16 ? *reg(q, dw[2]) : load(q, pair(dw + 2), false);

		switch (dw[0] >> 12 & 7) {
		case 0:
			ok = is > dw[1];
			break;
		case 1:
			ok = is >= dw[1];
			break;
		case 2:
			ok = is < dw[1];
			break;
		case 3:
			ok = is <= dw[1];
			break;
		case 4:
			ok = is == dw[1];
			break;
		case 5:
			ok = is != dw[1];
			break;
		default:
			unknown("MI_SEMAPHORE_WAIT", dw[0]);
		}
		if (!ok)
			xe_pause();
	}
	return ok;
}

static void atomic(struct queue *q, const uint32_t *dw)
{
	uint64_t where = pair(dw + 1);
	uint32_t op = dw[0] >> 8 & 0xff;
	bool inlined = dw[0] & 1 << 18;
	uint32_t operand = inlined ? dw[3] : *GPR(0);

	switch (op) {
	case 0x05:
		__atomic_add_fetch((uint32_t *)at(q, where, 4), 1, __ATOMIC_ACQ_REL);
		break;
	case 0x06:
		__atomic_sub_fetch((uint32_t *)at(q, where, 4), 1, __ATOMIC_ACQ_REL);
		break;
	case 0x07:
		__atomic_add_fetch((uint32_t *)at(q, where, 4), operand, __ATOMIC_ACQ_REL);
		break;
	case 0x25:
		__atomic_add_fetch((uint64_t *)at(q, where, 8), 1, __ATOMIC_ACQ_REL);
		break;
	case 0x26:
		__atomic_sub_fetch((uint64_t *)at(q, where, 8), 1, __ATOMIC_ACQ_REL);
		break;
	default:
		unknown("MI_ATOMIC", op);
	}
}

/* The write after a flush, a PIPE_CONTROL or a walker. */
static void post_sync(struct queue *q, uint32_t op, uint64_t where, uint64_t value)
{
	if (op == 1)
		store(q, where, value, true);
	else if (op == 3)
		store(q, where, ticks(), true);
	else if (op)
		unknown("post-sync operation", op);
}

static void mem_copy(struct queue *q, const uint32_t *dw)
{
	uint64_t bytes = (dw[1] & 0xffffff) + 1, rows = (dw[2] & 0x3ffff) + 1;
	uint64_t from = pair(dw + 5), to = pair(dw + 7);

	if (dw[0] & 1 << 19)	/* pages of 256 bytes */
		bytes *= 256;
	if (!(dw[0] >> 17 & 3))
		rows = 1;
	for (uint64_t y = 0; y < rows; y++) {
		memmove(at(q, to, bytes), at(q, from, bytes), bytes);
		from += (dw[3] & 0x3ffff) + 1;
		to += (dw[4] & 0x3ffff) + 1;
	}
}

/*
 * One item of a kernel: how many bytes it stores, and whether it has loaded them.
 * Its messages to global memory say that (Xe2's SEND: bits 91:81 and 121:113 are the
 * descriptor's 10:0 and 19:11; operation, address, data, vector). In every version, the driver's
 * kernels for copy and fill differ in that.
 */
static uint32_t stores(struct queue *q, uint64_t code, bool *loads)
{
	static const uint32_t data[8] = { 1, 2, 4, 8, 1, 2 }, vector[8] = { 1, 2, 3, 4 };
	uint32_t bytes = 0;

	*loads = false;
	for (;;) {
		const uint64_t *i = at(q, code, 16);
		uint32_t d = (i[1] >> 17 & 0x7ff) | (i[1] >> 49 & 0x1ff) << 11;

		code += i[0] & 1 << 29 ? 8 : 16;	/* half as long */
		if ((i[0] & 0x7f) != 0x31)
			continue;
		if ((i[1] >> 28 & 15) == 3)		/* the gateway: the end */
			return bytes;
		if ((d >> 7 & 3) != 3)
			continue;
		if ((d & 63) == 0)
			*loads = true;
		else if ((d & 63) == 4)
			bytes = data[d >> 9 & 7] * vector[d >> 12 & 7];
		else
			unknown("a message of a kernel:", d);
	}
}

/*
 * lib/prepare/kernel.h as the driver compiles it, with all its arguments: the first two are in
 * the walker. A buffer's end is not checked.
 */
static void prepare(struct queue *q, const uint32_t *dw)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	const uint32_t *arg = at(q, q->general + dw[3], 24 + PREPARE_RUN_BYTES);
	uint8_t *buffers[PREPARE_BUFFERS];

	for (int i = 0; i < PREPARE_BUFFERS; i++)
		buffers[i] = at(q, pair(i < 2 ? dw + 36 + 2 * i : arg + 2 * i - 4), 1);
	pthread_mutex_lock(&one);
	prepare_kernel(buffers, arg + 6, dw[7] * 8, dw[8] * 8, dw[9]);
	pthread_mutex_unlock(&one);
}

/*
 * CopyBufferToBuffer*Region(to, from, items, offset of to, of from) and
 * FillBufferImmediate*(to, offset, value). The first argument is in the walker.
 */
static void walker(struct queue *q, const uint32_t *dw)
{
	const uint32_t *arg = at(q, q->general + dw[3], 20);
	uint64_t to = pair(dw + 38), items = (uint64_t)dw[7] * dw[35];
	bool loads;
	uint32_t bytes = stores(q, q->code + dw[19], &loads);

	if (bytes == 2)
		prepare(q, dw);
	else if ((bytes != 1 && bytes != 16) || dw[8] != 1 || dw[9] != 1)
		unknown("a kernel that stores so many bytes at once:", bytes);
	else if (loads) {
		items = items < arg[2] ? items : arg[2];
		memmove(at(q, to + arg[3], items * bytes),
			at(q, pair(arg) + arg[4], items * bytes), items * bytes);
	} else {
		uint8_t *p = at(q, to + arg[0], items * bytes);

		for (uint64_t i = 0; i < items * bytes; i++)
			p[i] = arg[1] >> (bytes == 1 ? 0 : 8 * (i % 4));
	}
	post_sync(q, dw[27] & 3, pair(dw + 28), pair(dw + 30));
}

static uint32_t length(uint32_t h)
{
	if (!(h >> 29))
		return (h >> 23 & 0x3f) < 0x10 ? 1 : (h & 0xff) + 2;
	if (h >> 16 == 0x6904)		/* PIPELINE_SELECT */
		return 1;
	return (h & 0xff) + 2;
}

static void run(struct queue *q, uint64_t pc)
{
	uint64_t back[4];
	uint32_t depth = 0, dw[64], n;

	while (!q->ending) {
		if (is_lost(q->file))
			return;
		if (is_hung(q->file)) {
			xe_pause();
			continue;
		}
		dw[0] = load(q, pc, false);
		n = length(dw[0]);
		if (n > 64)
			unknown("length of a command", dw[0]);
		for (uint32_t i = 1; i < n; i++)
			dw[i] = load(q, pc + 4 * i, false);
		pc += 4 * n;
		switch (dw[0] >> 29 ? dw[0] >> 16 | 1 << 16 : dw[0] >> 23) {
		case 0x00: /* NOOP */
		case 0x02: /* USER_INTERRUPT */
		case 0x05: /* ARB_CHECK */
		case 0x08: /* ARB_ON_OFF */
			break;
		case 0x0a: /* BATCH_BUFFER_END */
			if (!depth)
				return;
			pc = back[--depth];
			break;
		case 0x1a:
			math(q, dw, n);
			break;
		case 0x1c:
			semaphore(q, dw);
			break;
		case 0x20: /* STORE_DATA_IMM */
			store(q, pair(dw + 1), n > 4 ? pair(dw + 3) : dw[3], n > 4);
			break;
		case 0x22: /* LOAD_REGISTER_IMM */
			for (uint32_t i = 1; i + 1 < n; i += 2)
				*reg(q, dw[i]) = dw[i + 1];
			break;
		case 0x24: /* STORE_REGISTER_MEM */
			store(q, pair(dw + 2), *reg(q, dw[1]), false);
			break;
		case 0x26: /* FLUSH_DW */
			post_sync(q, dw[0] >> 14 & 3, pair(dw + 1) & ~7ull, pair(dw + 3));
			break;
		case 0x29: /* LOAD_REGISTER_MEM */
			*reg(q, dw[1]) = load(q, pair(dw + 2), false);
			break;
		case 0x2a: /* LOAD_REGISTER_REG */
			*reg(q, dw[2]) = *reg(q, dw[1]);
			break;
		case 0x2f:
			atomic(q, dw);
			break;
		case 0x31: /* BATCH_BUFFER_START */
			if (dw[0] & 1 << 22) {
				if (depth == 4)
					unknown("levels of batches", depth);
				back[depth++] = pc;
			}
			pc = pair(dw + 1);
			break;
		default:
			if ((dw[0] & 0xffc00000) == (2u << 29 | 0x5a << 22)) {
				mem_copy(q, dw);
				break;
			}
			unknown("command", dw[0]);
		case 0x16101: /* STATE_BASE_ADDRESS */
			if (dw[1] & 1)
				q->general = pair(dw + 1) & ~0xfffull;
			if (dw[10] & 1)
				q->code = pair(dw + 10) & ~0xfffull;
			break;
		case 0x16102: /* STATE_SIP */
		case 0x16105: /* STATE_COMPUTE_MODE */
		case 0x16109: /* STATE_SYSTEM_MEM_FENCE_ADDRESS */
		case 0x1610b: /* STATE_CONTEXT_DATA_BASE_ADDRESS */
		case 0x16904: /* PIPELINE_SELECT */
		case 0x17200: /* CFE_STATE */
		case 0x17919: /* 3DSTATE_BINDING_TABLE_POOL_ALLOC */
			break;
		case 0x17a00: /* PIPE_CONTROL */
			post_sync(q, dw[1] >> 14 & 3, pair(dw + 2), pair(dw + 4));
			break;
		case 0x17208: /* COMPUTE_WALKER */
			walker(q, dw);
			break;
		}
	}
}

static void *engine(void *arg)
{
	struct queue *q = arg;
	struct work *w;

	pthread_mutex_lock(&q->lock);
	while (!q->ending) {
		w = q->work;
		if (!w) {
			pthread_cond_wait(&q->more, &q->lock);
			continue;
		}
		q->work = w->next;
		pthread_mutex_unlock(&q->lock);
		run(q, w->batch);
		if (w->fence && !q->ending)
			store(q, w->fence, w->value, true);
		free(w);
		pthread_mutex_lock(&q->lock);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

/* ---- queues */

static struct queue *find(uint32_t id)
{
	struct queue *q = queues;

	while (q && q->id != id)
		q = q->next;
	if (!q)
		unknown("an exec queue that is none:", id);
	return q;
}

void xe_queue_new(struct file *f, uint32_t id, struct vm *vm)
{
	struct queue *q = calloc(1, sizeof(*q));
	sigset_t all, old;

	q->id = id;
	q->file = f;
	q->vm = vm;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->more, NULL);
	q->next = queues;
	queues = q;
	/* Signals are the application's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&q->thread, NULL, engine, q))
		abort();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

int xe_queue_run(uint32_t id, uint64_t batch, uint64_t fence, uint64_t value)
{
	struct queue *q = find(id);
	struct work *w = malloc(sizeof(*w)), **link = &q->work;

	*w = (struct work){ batch, fence, value, NULL };
	pthread_mutex_lock(&q->lock);
	while (*link)
		link = &(*link)->next;
	*link = w;
	pthread_cond_signal(&q->more);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

void xe_queue_end(uint32_t id)
{
	struct queue *q = find(id), **link = &queues;

	pthread_mutex_lock(&q->lock);
	q->ending = true;
	pthread_cond_signal(&q->more);
	pthread_mutex_unlock(&q->lock);
	pthread_join(q->thread, NULL);
	while (*link != q)
		link = &(*link)->next;
	*link = q->next;
	free(q);
}
