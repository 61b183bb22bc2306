// SPDX-License-Identifier: MIT
/*
 * Preparation by two fragment shaders: one makes the pixels of the tensor in a texture, from
 * textures of the planes, the other puts them into the image of the tensor's dma-buf, word by word.
 * Textures of dma-bufs are made anew for each run, because drivers keep stale copies of older
 * ones, and must not change one of a run that is not over.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <dlbuf/fence.h>

#include "../../dmabuf/buffer.h"
#include "../../dmabuf/fence.h"
#include "../../prepare/prepare.h"
#include "gles.h"
#include "shader.h"

/* Words in a row of the texture of tables. */
#define TABLE_ROW 1024
_Static_assert(sizeof(struct program) == sizeof(((struct gles_pixel_run *)0)->program),
	       "the shader has another r[]");
/* Units of textures. */
enum { SOURCES = 3, TABLES = SOURCES, PIXELS };

/* ---- the shader */

/* Makes a shader, which is in use then, and whose texture "t" is that of the unit. */
static int make_shader(struct gles_device *dev, const char *text, int unit,
		       struct gles_shader *out)
{
	static const uint16_t types[] = { GLABI_VERTEX_SHADER, GLABI_FRAGMENT_SHADER };
	const char *texts[] = { gles_version, gles_vertex_shader };
	gl_uint program = dev->gl.CreateProgram(), shader = 0;
	char log[256] = "";
	int linked = 0;

	for (int i = 0; i < 2; i++) {
		shader = dev->gl.CreateShader(types[i]);
		dev->gl.ShaderSource(shader, 2, texts, NULL);
		dev->gl.CompileShader(shader);
		dev->gl.AttachShader(program, shader);
		texts[1] = text;
	}
	dev->gl.LinkProgram(program);
	dev->gl.GetProgramiv(program, GLABI_LINK_STATUS, &linked);
	if (!linked) {
		dev->gl.GetShaderInfoLog(shader, sizeof(log), NULL, log);
		return fail(-EOPNOTSUPP, "%s: %s does not compile the shader: %s", dev->base.name,
			    dev->renderer, log);
	}
	dev->gl.UseProgram(program);
	dev->gl.Uniform1iv(dev->gl.GetUniformLocation(program, "t"), 1, &unit);
	out->program = program;
	out->run = dev->gl.GetUniformLocation(program, "r");
	return 0;
}

static void bind_texture(struct gles_device *dev, int unit, gl_uint texture)
{
	dev->gl.ActiveTexture(GLABI_TEXTURE0 + unit);
	dev->gl.BindTexture(GLABI_TEXTURE_2D, texture);
	dev->gl.TexParameteri(GLABI_TEXTURE_2D, GLABI_TEXTURE_MIN_FILTER, GLABI_NEAREST);
	dev->gl.TexParameteri(GLABI_TEXTURE_2D, GLABI_TEXTURE_MAG_FILTER, GLABI_NEAREST);
}

static void use(struct gles_device *dev, int target, const struct gles_shader *shader)
{
	dev->gl.BindFramebuffer(GLABI_FRAMEBUFFER, dev->framebuffers[target]);
	dev->gl.UseProgram(shader->program);
}

/* The objects end with the context. */
int gles_shader_make(struct gles_device *dev)
{
	static const int units[SOURCES] = { 0, 1, 2 };
	int ret = make_shader(dev, gles_word_shader, PIXELS, &dev->words);

	if (!ret)
		ret = make_shader(dev, gles_pixel_shader, TABLES, &dev->pixels);
	if (ret)
		return ret;
	dev->gl.Uniform1iv(dev->gl.GetUniformLocation(dev->pixels.program, "s"), SOURCES, units);
	dev->gl.GenTextures(2, dev->textures);
	dev->gl.GenFramebuffers(2, dev->framebuffers);
	for (int i = 0; i < 2; i++)
		bind_texture(dev, TABLES + i, dev->textures[i]);
	use(dev, 0, &dev->pixels);
	dev->gl.FramebufferTexture2D(GLABI_FRAMEBUFFER, GLABI_COLOR_ATTACHMENT0,
				     GLABI_TEXTURE_2D, dev->textures[1], 0);
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

/* Rows in the texture of tables. */
static uint32_t table_rows(size_t bytes)
{
	return (uint32_t)(bytes - sizeof(struct program)) / (4 * TABLE_ROW) + 1;
}

static int check_program(const struct gles_device *dev, const struct program *p, size_t bytes)
{
	uint32_t most = (uint32_t)dev->most;

	return table_rows(bytes) <= most && p->width <= most && p->height <= most ? 0 :
	       fail(-EOPNOTSUPP, "%s: a tensor of %ux%u pixels, with %zu bytes of tables; its "
		    "textures have up to %u rows", dev->base.name, p->width, p->height, bytes,
		    most);
}

int gles_program_load(struct dlbuf_device *base, const struct program *p, size_t bytes,
		      void **out)
{
	struct gles_device *dev = gles_device_of(base);
	int ret = check_program(dev, p, bytes);
	struct gles_program *g;

	if (ret)
		return ret;
	g = sys_calloc(1, offsetof(struct gles_program, program) + bytes);
	if (!g)
		return -ENOMEM;
	g->dev = dev;
	g->bytes = bytes;
	memcpy(&g->program, p, bytes);
	pthread_mutex_lock(&gles_lock);
	g->number = ++dev->programs;
	pthread_mutex_unlock(&gles_lock);
	*out = g;
	return 0;
}

void gles_program_drop(void *program)
{
	free(program);
}

/* ---- runs */

/* Loads the tables of all jobs, each from a new row on. The texture stays bound. -ENOMEM. */
static int load_tables(struct gles_device *dev, const struct program_job *jobs, uint32_t n,
		       uint32_t rows)
{
	uint32_t *all = sys_calloc(rows, TABLE_ROW * 4), *to = all;

	if (!all)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		memcpy(to, jobs[i].program->tables, jobs[i].bytes - sizeof(struct program));
		to += (size_t)table_rows(jobs[i].bytes) * TABLE_ROW;
	}
	dev->gl.ActiveTexture(GLABI_TEXTURE0 + TABLES);
	dev->gl.TexImage2D(GLABI_TEXTURE_2D, 0, GLABI_R32UI, TABLE_ROW, (int)rows, 0,
			   GLABI_RED_INTEGER, GLABI_UNSIGNED_INT, all);
	free(all);
	return 0;
}

/* 0, 1, 2: values of 8, 16, 32 bits. */
static uint32_t order_of(const struct program *p)
{
	return p->store <= STORE_I8 ? 0 : p->store == STORE_F32 ? 2 : 1;
}

/* The texture of pixels, for n images. It is kept while it fits. */
static void make_pixels(struct gles_device *dev, const struct program *p, uint32_t n)
{
	static const uint16_t formats[] = { GLABI_RGBA8UI, GLABI_RGBA16UI, GLABI_RGBA32UI };
	uint32_t order = order_of(p), of[] = { formats[order], p->width, p->height * n };

	if (!memcmp(of, dev->pixels_of, sizeof(of)))
		return;
	memcpy(dev->pixels_of, of, sizeof(of));
	dev->gl.ActiveTexture(GLABI_TEXTURE0 + PIXELS);
	dev->gl.TexImage2D(GLABI_TEXTURE_2D, 0, (int)of[0], (int)of[1], (int)of[2], 0,
			   GLABI_RGBA_INTEGER, GLABI_UNSIGNED_BYTE + 2 * order, NULL);
}

/* Finds the axes, from the largest step to the smallest: core code has checked that they nest. */
static void find_axes(const struct program *p, const struct program_run *run,
		      struct gles_word_run *r)
{
	const uint32_t steps[] = { run->step_x, run->step_y, run->step_channel };
	const uint32_t counts[] = { p->width, p->height, p->nout };

	for (int i = 0; i < 3; i++) {
		struct gles_axis a = { .step = steps[i] };
		int k = i;

		a.adds[i] = 1;
		if (counts[i] == 1) {
			a.step = 1u << 31;
		} else if ((int32_t)a.step < 0) {
			a.step = -a.step;
			a.adds[i] = UINT32_MAX;
			r->pixel[i] += counts[i] - 1;
		}
		a.bytes = a.step * counts[i];
		a.inverse = 1 / (float)a.step;
		for (; k && r->axes[k - 1].step < a.step; k--)
			r->axes[k] = r->axes[k - 1];
		r->axes[k] = a;
	}
}

/* Whether each word has values of the tensor only, or none. */
static bool has_whole_words(const struct gles_word_run *r)
{
	uint32_t dense = r->size;

	/* An axis of one value comes first. */
	for (int i = 2; i >= 0 && !(r->axes[i].step >> 31); i--) {
		if (r->axes[i].step != dense && (dense | r->axes[i].step) % 4)
			return false;
		dense = r->axes[i].bytes;
	}
	return !((r->to | dense) % 4);
}

/* Whether the image has all bytes of the part. */
static int check_part(const struct gles_device *dev, const struct program_part *part)
{
	const struct gles_import *gi = gles_import_of(part->imp);
	uint64_t bytes = (uint64_t)gi->rows << gi->shift << 2;

	return part->high <= bytes ? 0 :
	       fail(-EOPNOTSUPP, "%s: the device reaches %llu bytes of a dma-buf, and %llu are "
		    "needed", dev->base.name, (unsigned long long)bytes,
		    (unsigned long long)part->high);
}

static int check_job(const struct gles_device *dev, const struct program_job *job)
{
	const struct program_run *run = &job->run;
	int ret = check_program(dev, job->program, job->bytes);

	if (!ret)
		ret = check_part(dev, &run->out);
	for (int i = 0; i < SOURCES && !ret; i++)
		ret = buffer_same(&run->sources[i].imp->id, &run->out.imp->id) ?
		      fail(-EOPNOTSUPP, "%s: the frame and the tensor are in one dma-buf, which "
			   "GLES cannot read and write at once", dev->base.name) :
		      check_part(dev, &run->sources[i]);
	return ret;
}

/* The names of a run's objects. */
struct objects {
	gl_uint textures[SOURCES], target;
};

static void bind_objects(struct gles_device *dev, const struct program_run *run,
			 struct objects *o)
{
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
	use(dev, 1, &dev->words);
	dev->gl.FramebufferRenderbuffer(GLABI_FRAMEBUFFER, GLABI_COLOR_ATTACHMENT0,
					GLABI_RENDERBUFFER, o->target);
}

/* GLES keeps what the GPU still uses. The framebuffer of the target is bound, and loses it. */
static void free_objects(struct gles_device *dev, const struct objects *o)
{
	dev->gl.DeleteRenderbuffers(1, &o->target);
	dev->gl.DeleteTextures(SOURCES, o->textures);
}

static void draw(struct gles_device *dev, uint32_t row, uint32_t width, uint32_t rows)
{
	dev->gl.Viewport(0, (int)row, (int)width, (int)rows);
	dev->gl.DrawArrays(GLABI_TRIANGLES, 0, 3);
}

/* Makes the pixels of all jobs, one image above the other. */
static void draw_pixels(struct gles_device *dev, const struct program_job *jobs, uint32_t n)
{
	struct gles_pixel_run r = { .tables = 0 };

	for (uint32_t i = 0; i < n; i++) {
		const struct program *p = jobs[i].program;
		const struct program_run *run = &jobs[i].run;

		for (int c = 0; c < SOURCES; c++) {
			r.at[c] = (uint32_t)run->sources[c].at;
			r.pitches[c] = run->pitches[c];
			r.shifts[c] = gles_import_of(run->sources[c].imp)->shift;
			memcpy(r.taps[c], p->tables + p->components[c].x, 8);
			memcpy(r.taps[c] + 2, p->tables + p->components[c].y, 8);
		}
		r.mask = UINT32_MAX >> (32 - p->bits);
		memcpy(r.program, p, sizeof(r.program));
		dev->gl.Uniform1uiv(dev->pixels.run, sizeof(r) / 4, r.program);
		draw(dev, r.row, p->width, p->height);
		r.row += p->height;
		r.tables += table_rows(jobs[i].bytes);
	}
}

/* Puts pixels from a row on into the rows of words that have values of the tensor. */
static void draw_words(struct gles_device *dev, const struct program *p,
		       const struct program_run *run, uint32_t row)
{
	struct gles_word_run r = {
		.shift = gles_import_of(run->out.imp)->shift, .to = (uint32_t)run->out.low,
		.size = 1u << order_of(p), .pixel[1] = row,
	};
	uint32_t low = r.to / 4 >> r.shift;
	uint32_t rows = (((uint32_t)run->out.high - 1) / 4 >> r.shift) - low + 1;
	uint32_t values = 4 / r.size;

	find_axes(p, run, &r);
	/* Else a pass for each value of a word: the mask keeps the other bytes as they are. */
	if (has_whole_words(&r))
		values = 1;
	for (; r.begin < values; r.begin++) {
		uint32_t bytes = values == 1 ? 15 : ((1u << r.size) - 1) << r.begin * r.size;

		r.end = values == 1 ? 4 / r.size - 1 : r.begin;
		dev->gl.Uniform1uiv(dev->words.run, sizeof(r) / 4, &r.shift);
		dev->gl.ColorMask(bytes & 1, bytes >> 1 & 1, bytes >> 2 & 1, bytes >> 3 & 1);
		draw(dev, low, 1u << r.shift, rows);
	}
	dev->gl.ColorMask(1, 1, 1, 1);
}

/*
 * Runs jobs from planes of the same imports into one import, with tensors of one kind. All are
 * two pieces of work of the GPU. Runs as many as fit, and returns their number, or an error.
 * number: of a program whose tables may be loaded already; 0: they are not.
 */
static int run_some(struct gles_device *dev, const struct program_job *jobs, uint32_t n,
		    uint64_t number)
{
	const struct program *p = jobs->program;
	struct objects o;
	uint32_t rows = 0, fit, most = (uint32_t)dev->most;
	int ret;

	for (fit = 0; fit < n; fit++) {
		uint32_t more = table_rows(jobs[fit].bytes);

		ret = check_job(dev, &jobs[fit]);
		if (ret)
			return ret;
		if (rows + more > most || (fit + 1) * p->height > most)
			break;
		rows += more;
	}
	if (!number || dev->loaded != number) {
		ret = load_tables(dev, jobs, fit, rows);
		if (ret)
			return ret;
	}
	make_pixels(dev, p, fit);
	bind_objects(dev, &jobs->run, &o);
	use(dev, 0, &dev->pixels);
	draw_pixels(dev, jobs, fit);
	use(dev, 1, &dev->words);
	for (uint32_t i = 0; i < fit; i++)
		draw_words(dev, p, &jobs[i].run, i * p->height);
	free_objects(dev, &o);
	ret = gles_check(dev, "glDrawArrays()");
	/* After a failure the textures may not be what they were to be. */
	dev->loaded = ret ? 0 : number;
	if (ret)
		dev->pixels_of[0] = 0;
	return ret ? ret : (int)fit;
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
	for (uint32_t i = 0; i < n && ret >= 0; i += (uint32_t)ret)
		ret = run_some(dev, &jobs[i], n - i, number);
	if (ret < 0) {
		dev->gl.Finish();
	} else {
		*done = give_fence(dev);
		ret = *done == -1 ? gles_check(dev, "glFinish()") : 0;
	}
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

/* Takes the fence. */
static int wait_for(int fence, uint64_t deadline_ns)
{
	int ret = dlbuf_fence_wait(fence, deadline_ns);

	if (fence != -1)
		close(fence);
	return ret;
}

/* Waits for work whose fence was given. */
int gles_drain(struct dlbuf_device *base, uint64_t deadline_ns)
{
	int fence, ret = run_jobs(gles_device_of(base), NULL, 0, 0, &fence);

	return ret ? ret : wait_for(fence, deadline_ns);
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

/* Copies the bytes of the first image, as the CPU wrote them, to the second one. */
static int copy_bytes(struct gles_device *dev, struct gles_import images[2], struct program *p,
		      size_t bytes)
{
	struct program_job job = {
		.program = p, .bytes = bytes,
		.run = {
			.out = { &images[1].base, 0, SIDE * SIDE, 0 },
			.step_x = 1, .step_y = SIDE,
		},
	};
	int done, ret;

	for (int i = 0; i < SOURCES; i++) {
		job.run.sources[i] = (struct program_part){ &images[0].base, 0, SIDE * SIDE, 0 };
		job.run.pitches[i] = SIDE;
	}
	fill_program(p);
	ret = run_jobs(dev, &job, 1, 0, &done);
	return ret ? ret : wait_for(done, 0);
}

/*
 * The halves of the buffer have an image each, because no image may be read and written. The bytes
 * are whole words: llvmpipe compiles the shader again for each colour mask. A buffer that the
 * driver does not import is no failure of the trial: another exporter's may do.
 */
int gles_try_buffer(struct dlbuf_device *base, const struct trial_buffer *t, bool *shares)
{
	size_t bytes = sizeof(struct program) + (2 + 2 * SIDE) * sizeof(uint32_t);
	struct gles_device *dev = gles_device_of(base);
	struct program *p = sys_calloc(1, bytes);
	struct gles_import images[2];
	int n = 0, ret = p ? 0 : -ENOMEM;

	for (; n < 2 && !ret; n += !ret) {
		/* Two dma-bufs, as it were. */
		images[n].base = (struct import){
			.dev = base, .fd = t->fd, .bytes = HALF, .id.ino = n,
		};
		ret = gles_image_make(&images[n], n * HALF);
	}
	if (!ret)
		ret = trial_by_cpu(t, 0, SIDE * SIDE, 1, NULL);
	if (!ret) {
		failure_note(&dev->trial, copy_bytes(dev, images, p, bytes));
		ret = trial_by_cpu(t, HALF, SIDE * SIDE, 1, shares);
	}
	while (n--)
		gles_image_free(&images[n]);
	free(p);
	return ret;
}
