// SPDX-License-Identifier: MIT
/*
 * Preparation by a fragment shader. The target is the image of the tensor's dma-buf, the textures
 * are those of the planes. Textures are made anew for each run, because drivers keep stale copies
 * of older ones, and must not change one of a run that is not over.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <dlbuf/fence.h>

#include "../../dmabuf/fence.h"
#include "../../prepare/prepare.h"
#include "gles.h"
#include "shader.h"

/* Words in a row of the texture of tables. */
#define TABLE_ROW 1024
#define HEADER_WORDS (sizeof(struct program) / 4)
_Static_assert(HEADER_WORDS == 53, "the shader has another g[]");
enum { SOURCES = 3, TABLES = SOURCES };

/* ---- the shader */

static int compile(struct gles_device *dev, gl_enum type, const char *text)
{
	gl_uint shader = dev->gl.CreateShader(type);
	char log[256] = "";
	int compiled = 0;

	dev->gl.ShaderSource(shader, 1, &text, NULL);
	dev->gl.CompileShader(shader);
	dev->gl.GetShaderiv(shader, GLABI_COMPILE_STATUS, &compiled);
	if (compiled)
		dev->gl.AttachShader(dev->shader, shader);
	else
		dev->gl.GetShaderInfoLog(shader, sizeof(log), NULL, log);
	dev->gl.DeleteShader(shader);
	log[strcspn(log, "\n")] = '\0';
	return compiled ? 0 : fail(-EOPNOTSUPP, "%s: %s does not compile the shader: %s",
				   dev->base.name, dev->renderer, log);
}

static void set_unit(struct gles_device *dev, const char *name, int unit)
{
	dev->gl.Uniform1i(dev->gl.GetUniformLocation(dev->shader, name), unit);
}

static void bind_texture(struct gles_device *dev, int unit, gl_uint texture)
{
	dev->gl.ActiveTexture(GLABI_TEXTURE0 + unit);
	dev->gl.BindTexture(GLABI_TEXTURE_2D, texture);
	dev->gl.TexParameteri(GLABI_TEXTURE_2D, GLABI_TEXTURE_MIN_FILTER, GLABI_NEAREST);
	dev->gl.TexParameteri(GLABI_TEXTURE_2D, GLABI_TEXTURE_MAG_FILTER, GLABI_NEAREST);
}

/* The objects end with the context. */
int gles_shader_make(struct gles_device *dev)
{
	int linked = 0, ret;

	dev->shader = dev->gl.CreateProgram();
	ret = compile(dev, GLABI_VERTEX_SHADER, gles_vertex_shader);
	if (!ret)
		ret = compile(dev, GLABI_FRAGMENT_SHADER, gles_fragment_shader);
	if (ret)
		return ret;
	dev->gl.LinkProgram(dev->shader);
	dev->gl.GetProgramiv(dev->shader, GLABI_LINK_STATUS, &linked);
	if (!linked)
		return fail(-EOPNOTSUPP, "%s: %s does not link the shader", dev->base.name,
			    dev->renderer);
	dev->gl.UseProgram(dev->shader);
	dev->header = dev->gl.GetUniformLocation(dev->shader, "g");
	dev->run = dev->gl.GetUniformLocation(dev->shader, "r");
	set_unit(dev, "s0", 0);
	set_unit(dev, "s1", 1);
	set_unit(dev, "s2", 2);
	set_unit(dev, "t", TABLES);
	dev->gl.GenTextures(1, &dev->tables);
	dev->gl.GenFramebuffers(1, &dev->framebuffer);
	dev->gl.BindFramebuffer(GLABI_FRAMEBUFFER, dev->framebuffer);
	dev->gl.Enable(GLABI_SCISSOR_TEST);
	dev->gl.Disable(GLABI_DITHER);
	return gles_check(dev, "glUseProgram()");
}

/* ---- programs */

/* A copy of the program. The GPU has the tables of the one that ran last. */
struct gles_program {
	struct gles_device *dev;
	uint64_t number;	/* not 0 */
	size_t bytes;
	struct program program;
};

static int check_tables(const struct gles_device *dev, size_t bytes)
{
	uint64_t most = (uint64_t)dev->most * TABLE_ROW * 4;

	return bytes <= most ? 0 :
	       fail(-EOPNOTSUPP, "%s: a program of %zu bytes; its textures have %llu",
		    dev->base.name, bytes, (unsigned long long)most);
}

int gles_program_load(struct dlbuf_device *base, const struct program *p, size_t bytes,
		      void **out)
{
	struct gles_device *dev = gles_device_of(base);
	int ret = check_tables(dev, bytes);
	struct gles_program *g;

	if (ret)
		return ret;
	g = sys_calloc(1, offsetof(struct gles_program, program) + bytes);
	if (!g)
		return -ENOMEM;
	g->dev = dev;
	g->bytes = bytes;
	memcpy(&g->program, p, bytes);
	pthread_mutex_lock(&dev->lock);
	g->number = ++dev->programs;
	pthread_mutex_unlock(&dev->lock);
	*out = g;
	return 0;
}

void gles_program_drop(void *program)
{
	free(program);
}

/* ---- runs */

/* The texture stays bound. */
static void load_tables(struct gles_device *dev, const struct program *p, size_t bytes)
{
	int words = (int)(bytes / 4 - HEADER_WORDS), rows = words / TABLE_ROW;

	bind_texture(dev, TABLES, dev->tables);
	dev->gl.TexImage2D(GLABI_TEXTURE_2D, 0, GLABI_R32UI, TABLE_ROW, rows + 1, 0,
			   GLABI_RED_INTEGER, GLABI_UNSIGNED_INT, NULL);
	if (rows)
		dev->gl.TexSubImage2D(GLABI_TEXTURE_2D, 0, 0, 0, TABLE_ROW, rows,
				      GLABI_RED_INTEGER, GLABI_UNSIGNED_INT, p->tables);
	dev->gl.TexSubImage2D(GLABI_TEXTURE_2D, 0, 0, rows, words % TABLE_ROW, 1,
			      GLABI_RED_INTEGER, GLABI_UNSIGNED_INT,
			      p->tables + rows * TABLE_ROW);
}

/* One axis of the tensor, as in r[]. */
struct axis_words {
	uint32_t step, n, which, back;
};

/* Finds the axes, from the largest step to the smallest: core code has checked that they nest. */
static void find_axes(const struct program *p, const struct program_run *run,
		      struct axis_words axes[3])
{
	const struct axis_words all[3] = {
		{ run->step_x, p->width, 0, 0 }, { run->step_y, p->height, 1, 0 },
		{ run->step_channel, p->nout, 2, 0 },
	};

	for (int i = 0; i < 3; i++) {
		struct axis_words a = all[i];
		int k = i;

		a.back = (int32_t)a.step < 0;
		a.step = a.n == 1 ? 1u << 31 : a.back ? -a.step : a.step;
		for (; k && axes[k - 1].step < a.step; k--)
			axes[k] = axes[k - 1];
		axes[k] = a;
	}
}

/* Whether each word has values of the tensor only, or none. */
static bool has_whole_words(const struct axis_words axes[3], uint32_t size, uint32_t to)
{
	uint32_t dense = size;

	for (int i = 2; i >= 0; i--) {
		if (axes[i].n == 1)
			continue;
		if (axes[i].step == dense)
			dense *= axes[i].n;
		else if (dense % 4 || axes[i].step % 4)
			return false;
		else
			dense = axes[i].step * axes[i].n;
	}
	return !(to % 4) && !(dense % 4);
}

/* Whether the image has all bytes of the part. */
static int check_part(const struct gles_device *dev, const struct program_part *part)
{
	const struct gles_import *gi = gles_import_of(part->imp);
	uint64_t bytes = (uint64_t)gi->rows << gi->shift << 2;

	return part->high <= bytes ? 0 :
	       fail(-EOPNOTSUPP, "%s: the device reaches %llu bytes of a dma-buf of %llu, and "
		    "%llu are needed", dev->base.name, (unsigned long long)bytes,
		    (unsigned long long)part->imp->bytes, (unsigned long long)part->high);
}

/* The names of a run's objects. */
struct objects {
	gl_uint textures[SOURCES], target;
};

static int bind_objects(struct gles_device *dev, const struct program_run *run,
			struct objects *o)
{
	gl_enum status;

	dev->gl.GenTextures(SOURCES, o->textures);
	for (int i = 0; i < SOURCES; i++) {
		bind_texture(dev, i, o->textures[i]);
		dev->gl.EGLImageTargetTexture2DOES(GLABI_TEXTURE_2D,
						   gles_import_of(run->sources[i].imp)->image);
	}
	/* A driver that refuses a texture of foreign memory as a target takes a renderbuffer. */
	dev->gl.GenRenderbuffers(1, &o->target);
	dev->gl.BindRenderbuffer(GLABI_RENDERBUFFER, o->target);
	dev->gl.EGLImageTargetRenderbufferStorageOES(GLABI_RENDERBUFFER,
						     gles_import_of(run->out.imp)->image);
	dev->gl.FramebufferRenderbuffer(GLABI_FRAMEBUFFER, GLABI_COLOR_ATTACHMENT0,
					GLABI_RENDERBUFFER, o->target);
	status = dev->gl.CheckFramebufferStatus(GLABI_FRAMEBUFFER);
	if (status != GLABI_FRAMEBUFFER_COMPLETE)
		return fail(-EOPNOTSUPP, "%s: the driver does not render to the dma-buf: "
			    "glCheckFramebufferStatus(): 0x%x", dev->base.name, status);
	return gles_check(dev, "glEGLImageTargetTexture2DOES()");
}

/* GLES keeps what the GPU still uses. */
static void free_objects(struct gles_device *dev, const struct objects *o)
{
	dev->gl.FramebufferRenderbuffer(GLABI_FRAMEBUFFER, GLABI_COLOR_ATTACHMENT0,
					GLABI_RENDERBUFFER, 0);
	dev->gl.DeleteRenderbuffers(1, &o->target);
	dev->gl.DeleteTextures(SOURCES, o->textures);
}

/* Draws the rows of words that have values of the tensor. */
static void draw(struct gles_device *dev, const struct program *p, const struct program_run *run)
{
	const struct gles_import *to = gles_import_of(run->out.imp);
	uint32_t size = p->store <= STORE_I8 ? 1 : p->store == STORE_F32 ? 4 : 2, r[RUN_WORDS];
	int low = (int)(run->out.low / 4 >> to->shift);
	int high = (int)((run->out.high - 1) / 4 >> to->shift);
	struct axis_words axes[3];

	find_axes(p, run, axes);
	for (int i = 0; i < SOURCES; i++) {
		r[RUN_AT + i] = (uint32_t)run->sources[i].at;
		r[RUN_PITCH + i] = run->pitches[i];
		r[RUN_SHIFT + i] = gles_import_of(run->sources[i].imp)->shift;
	}
	r[RUN_TO_SHIFT] = to->shift;
	r[RUN_TO] = (uint32_t)run->out.low;
	r[RUN_FIRST] = 0;
	r[RUN_LAST] = 4 / size - 1;
	r[RUN_MASK] = p->bits == 32 ? UINT32_MAX : (1u << p->bits) - 1;
	memcpy(&r[RUN_AXES], axes, sizeof(axes));
	dev->gl.Uniform1uiv(dev->header, HEADER_WORDS, &p->bits);
	dev->gl.Viewport(0, low, 1 << to->shift, high - low + 1);
	dev->gl.Scissor(0, low, 1 << to->shift, high - low + 1);
	if (has_whole_words(axes, size, r[RUN_TO])) {
		dev->gl.Uniform1uiv(dev->run, RUN_WORDS, r);
		dev->gl.DrawArrays(GLABI_TRIANGLES, 0, 3);
		return;
	}
	/* A pass for each value of a word: the mask keeps the other bytes as they are. */
	for (uint32_t k = 0; k < 4 / size; k++) {
		uint32_t bytes = ((1u << size) - 1) << k * size;

		r[RUN_FIRST] = r[RUN_LAST] = k;
		dev->gl.Uniform1uiv(dev->run, RUN_WORDS, r);
		dev->gl.ColorMask(bytes & 1, bytes >> 1 & 1, bytes >> 2 & 1, bytes >> 3 & 1);
		dev->gl.DrawArrays(GLABI_TRIANGLES, 0, 3);
	}
	dev->gl.ColorMask(1, 1, 1, 1);
}

/* number: of a program whose tables may be loaded already; 0: they are not. */
static int run_job(struct gles_device *dev, const struct program_job *job, uint64_t number)
{
	struct objects o = { .target = 0 };
	int ret = check_part(dev, &job->run.out);

	for (int i = 0; i < SOURCES && !ret; i++)
		ret = check_part(dev, &job->run.sources[i]);
	if (!ret)
		ret = check_tables(dev, job->bytes);
	if (ret)
		return ret;
	if (!number || dev->loaded != number)
		load_tables(dev, job->program, job->bytes);
	dev->loaded = number;
	ret = bind_objects(dev, &job->run, &o);
	if (!ret) {
		draw(dev, job->program, &job->run);
		ret = gles_check(dev, "glDrawArrays()");
	}
	free_objects(dev, &o);
	return ret;
}

/* A new sync_file of all work so far, or -1: there is none, and the work is complete. */
static int give_fence(struct gles_device *dev)
{
	egl_sync sync = NULL;
	int fd = -1, fence = -1;

	if (dev->fences && !fault_hit())
		sync = dev->egl.CreateSyncKHR(dev->display, EGLABI_SYNC_NATIVE_FENCE, NULL);
	if (sync) {
		/* The fence has no fd before the flush. The fd is ours, and not the driver's. */
		dev->gl.Flush();
		fd = fault_hit() ? -1 : dev->egl.DupNativeFenceFDANDROID(dev->display, sync);
		dev->egl.DestroySyncKHR(dev->display, sync);
	}
	if (fd >= 0 && raise_fd(fd, &fence))
		fence = -1;
	if (fence == -1) {
		dev->gl.Finish();
		forget_failure();
	}
	return fence;
}

static int run_jobs(struct gles_device *dev, const struct program_job *jobs, uint32_t n,
		    uint64_t number, int *done)
{
	struct gles_scope scope;
	int ret = gles_enter(dev, &scope);

	*done = -1;
	if (ret)
		return ret;
	for (uint32_t i = 0; i < n && !ret; i++)
		ret = run_job(dev, &jobs[i], number);
	if (ret)
		dev->gl.Finish();
	else
		*done = give_fence(dev);
	gles_leave(dev, &scope);
	return ret;
}

int gles_program_run(void *program, const struct program_run *run, int fence, int *done)
{
	struct gles_program *g = program;
	const struct program_job job = {
		.program = &g->program, .bytes = g->bytes, .run = *run,
	};

	/* The core has waited: acquire_sync is DLBUF_SYNC_BLOCKS. */
	(void)fence;
	return run_jobs(g->dev, &job, 1, g->number, done);
}

int gles_program_run_all(struct dlbuf_device *base, const struct program_job *jobs, uint32_t n,
			 int fence, int *done)
{
	(void)fence;
	return run_jobs(gles_device_of(base), jobs, n, 0, done);
}

/* Waits for work whose fence was given. */
int gles_drain(struct dlbuf_device *base, uint64_t deadline_ns)
{
	const uint64_t pause = 1000000000;
	struct gles_device *dev = gles_device_of(base);
	struct gles_scope scope;
	gl_enum ended = GLABI_TIMEOUT_EXPIRED;
	void *sync;
	int ret = 0;

	if (!dev->fences)
		return 0;
	ret = gles_enter(dev, &scope);
	if (ret)
		return ret;
	sync = dev->gl.FenceSync(GLABI_SYNC_GPU_COMMANDS_COMPLETE, 0);
	while (ended == GLABI_TIMEOUT_EXPIRED && !ret) {
		uint64_t now = now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;

		if (!deadline_ns || left > pause)
			left = pause;
		ended = dev->gl.ClientWaitSync(sync, GLABI_SYNC_FLUSH_COMMANDS_BIT, left);
		if (ended == GLABI_TIMEOUT_EXPIRED && deadline_ns && now >= deadline_ns)
			ret = fail(-ETIME, "%s: the GPU had not ended its work at the deadline",
				   dev->base.name);
	}
	if (ended == GLABI_WAIT_FAILED)
		ret = gles_check(dev, "glClientWaitSync()");
	dev->gl.DeleteSync(sync);
	gles_leave(dev, &scope);
	return ret;
}

/* ---- the trial */

#define SIDE 32
#define HALF (TRIAL_PAGE / 2)
#define ONE 0x3f800000u		/* 1.0f */

/* A plan that copies SIDE x SIDE bytes. Both axes have one table: a tap for each output. */
static void fill_program(struct program *p)
{
	*p = (struct program){
		.bits = 8, .ncomponents = 1, .nout = 1, .store = STORE_U8,
		.width = SIDE, .height = SIDE, .across = SIDE, .down = SIDE,
		.components = { { .step = 1, .mask = UINT32_MAX } },
		.matrix = { { 1 } }, .high = { 255 },
	};
	p->tables[0] = 1;
	p->tables[1] = SIDE;
	for (uint32_t i = 0; i < SIDE; i++) {
		p->tables[2 + i] = i;
		p->tables[2 + SIDE + i] = ONE;
	}
}

/* Copies the first half of the buffer, as the CPU wrote it, to the second half. */
static int copy_half(struct gles_device *dev, struct import *imp, struct program *p, size_t bytes)
{
	struct program_job job = {
		.program = p, .bytes = bytes,
		.run = {
			.out = { imp, HALF, HALF + SIDE * SIDE, HALF },
			.step_x = 1, .step_y = SIDE,
		},
	};
	int done, ret;

	for (int i = 0; i < SOURCES; i++) {
		job.run.sources[i] = (struct program_part){ imp, 0, SIDE * SIDE, 0 };
		job.run.pitches[i] = SIDE;
	}
	fill_program(p);
	ret = run_jobs(dev, &job, 1, 0, &done);
	if (!ret && done != -1) {
		ret = dlbuf_fence_wait(done, 0);
		close(done);
	}
	return ret;
}

/*
 * The bytes are whole words: llvmpipe compiles the shader again for each colour mask. A buffer that
 * the driver does not import is no failure of the trial: another exporter's may do.
 */
int gles_try_buffer(struct dlbuf_device *base, const struct trial_buffer *t, bool *shares)
{
	struct gles_device *dev = gles_device_of(base);
	struct gles_import gi = {
		.base = { .dev = base, .fd = t->fd, .bytes = TRIAL_PAGE },
	};
	size_t bytes = sizeof(struct program) + (2 + 2 * SIDE) * sizeof(uint32_t);
	struct program *p;
	int ret = gles_image_make(&gi);

	if (ret)
		return ret;
	p = sys_calloc(1, bytes);
	ret = p ? trial_by_cpu(t, 0, SIDE * SIDE, 1, NULL) : -ENOMEM;
	if (!ret) {
		failure_note(&dev->trial, copy_half(dev, &gi.base, p, bytes));
		ret = trial_by_cpu(t, HALF, SIDE * SIDE, 1, shares);
	}
	gles_image_free(&gi);
	free(p);
	return ret;
}
