// SPDX-License-Identifier: MIT
/*
 * The report of a run, as a table and as JSON. verify.c or v4l2.c have counted
 * every number.
 */
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "report.h"
#include "tool.h"

typedef unsigned long long ull;

static double seconds(const struct verify *v)
{
	return v->elapsed_ns / 1e9;
}

static double rate(const struct verify *v)
{
	return v->elapsed_ns ? (v->done - 1) / seconds(v) : 0;
}

static uint64_t bytes_copied(const struct verify *v)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < v->ndevices; i++)
		n += v->devices[i].bytes_copied;
	return n;
}

/* Frames that are right on every device. */
static uint64_t verified(const struct verify *v)
{
	uint64_t n = v->frames;

	for (uint32_t i = 0; i < v->ndevices; i++)
		if (v->devices[i].verified < n)
			n = v->devices[i].verified;
	return n;
}

/* ---------------------------------------------------------------- table */

static void print_headline(const struct report *r)
{
	const struct verify *v = r->verify;
	bool good = verify_good(v);

	printf("%s%s%llu of %llu frames verified on ", style(STYLE_BOLD),
	       style(good ? STYLE_GOOD : STYLE_BAD), (ull)verified(v),
	       (ull)v->frames);
	for (uint32_t i = 0; i < v->ndevices; i++)
		printf("%s%s", i == 0 ? "" : i + 1 < v->ndevices ? ", " :
		       " and ", v->devices[i].info.name);
	printf(", %llu bytes copied%s\n\n", (ull)bytes_copied(v),
	       style(STYLE_OFF));
}

static void print_camera(const struct report *r)
{
	const struct verify *v = r->verify;
	const struct camera *cam = v->cam;

	printf("  camera   %s (%s), %s\n", cam->info.card, cam->info.driver, cam->node);
	printf("  format   %s %ux%u, pitch %u bytes",
	       format_text(&v->format, cam->info.code).s, cam->info.width,
	       cam->info.height, cam->pitch[0]);
	if (cam->info.width != r->asked_width || cam->info.height != r->asked_height)
		printf(" (%ux%u was asked for)", r->asked_width,
		       r->asked_height);
	if (cam->info.rate || r->asked_rate)
		printf("\n  rate     %g a second", cam->info.rate);
	if (r->asked_rate)
		printf(" (%g was asked for)", r->asked_rate);
	if (r->exporter)
		printf("\n  buffers  %u of %s, which the camera captures into\n",
		       cam->info.buffers, r->exporter);
	else
		printf("\n  buffers  %u of the camera, each exported once "
		       "(VIDIOC_EXPBUF)\n", cam->info.buffers);
	printf("  frames   %llu in %.1f s, %.1f a second, %llu dropped, %llu "
	       "flagged as bad\n", (ull)v->done, seconds(v), rate(v),
	       (ull)cam->dropped, (ull)cam->flagged);
}

/* Describes the tensors, if they are not the format's own planes. */
static void print_view(const struct verify *v)
{
	if (v->view == DLBUF_VIEW_PLANES)
		return;
	printf("  view     %s", dlbuf_view_name(v->view));
	if (v->format.reason)
		printf(", since %s", v->format.reason);
	putchar('\n');
}

static void print_tensors(const struct verify *v)
{
	const struct device *d = &v->devices[0];
	const char *head = "tensors";

	for (uint32_t i = 0; i < d->nplanes; i++, head = "") {
		const DLTensor *t = &d->dl[i];
		char shape[64], strides[64];

		put_dims(shape, sizeof(shape), t->shape, t->ndim);
		put_dims(strides, sizeof(strides), t->strides, t->ndim);
		printf("  %-7s  %s %s, strides %s, from byte %llu of the "
		       "dma-buf\n", head, text_dtype(t->dtype).s, shape, strides,
		       (ull)d->first_byte[i]);
	}
}

static void print_devices(const struct verify *v)
{
	struct table t = { .ncolumns = 9, .right = 0x1fc };
	static const char *const heads[] = {
		"device", "path", "1st import", "cached", "acquire", "release",
		"read", "copied", "verified",
	};

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		table_cell(&t, "%s", heads[i]);
	for (uint32_t i = 0; i < v->ndevices; i++) {
		const struct device *d = &v->devices[i];

		table_cell(&t, "%s", d->info.name);
		table_cell(&t, "%s", dlbuf_path_name(d->path));
		table_cell(&t, "%s", text_ns(median_ns(d->first.ns, d->first.n)).s);
		table_cell(&t, "%s", d->cached.n ?
			   text_ns(median_ns(d->cached.ns, d->cached.n)).s : "-");
		table_cell(&t, "%s", text_ns(median_ns(d->acquire.ns, d->acquire.n)).s);
		table_cell(&t, "%s", text_ns(median_ns(d->release.ns, d->release.n)).s);
		table_cell(&t, "%s", text_ns(median_ns(d->read.ns, d->read.n)).s);
		table_cell(&t, "%llu B", (ull)d->bytes_copied);
		table_cell(&t, "%llu/%llu", (ull)d->verified, (ull)v->frames);
	}
	table_print(&t);
}

/* Names the reference mapping, with which the tensors are compared. */
static const char *reference(const struct verify *v)
{
	return v->cam->imports ? "dma-buf" : "node";
}

static void print_claims(const struct verify *v)
{
	const struct device *d = &v->devices[0];

	printf("  times    medians per frame, all planes; 1st import of %zu "
	       "buffers, %zu cached\n", d->first.n, d->cached.n);
	printf("  against  each byte of every frame, read by the CPU in a mapping of "
	       "the %s, without dlbuf\n", reference(v));
	printf("  read     ");
	for (uint32_t i = 0; i < v->ndevices; i++)
		printf("%s%s by %s", i ? ", " : "", v->devices[i].info.name,
		       v->devices[i].access->reads_by);
	printf("\n  leases   %llu granted, %llu released; buffers queued again: "
	       "%llu\n", (ull)v->granted, (ull)v->released, (ull)v->requeued);
	printf("  repeats  %llu frames are the same as the one before\n",
	       (ull)v->repeated);
	if (v->written)
		printf("  written  %llu of %llu frames were filled before the "
		       "capture; %llu bytes have the filling\n",
		       (ull)v->filled, (ull)v->done, (ull)v->unwritten);
	printf("  fds      %d open before the camera, %d after\n",
	       v->fds_before, v->fds_after);
}

static void print_inputs(const struct report *r)
{
	const struct verify *v = r->verify;
	const struct dlbuf_prepare_info *info = NULL;
	const char *head = "input";

	for (uint32_t i = 0; i < v->ndevices; i++) {
		const struct input *in = &v->devices[i].input;

		if (!in->ns.n)
			continue;
		if (!info)
			printf("  input    float32 [1, 3, %u, %u], letterboxed: the picture is %ux%u at "
			       "%d,%d\n", v->input_height, v->input_width, in->info.scaled_width,
			       in->info.scaled_height, in->info.left, in->info.top);
		printf("           %s: %s a frame", v->devices[i].info.name,
		       text_ns(median_ns(in->ns.ns, in->ns.n)).s);
		if (info)
			printf(", differs by %.1g of full scale at most", in->difference);
		putchar('\n');
		info = &in->info;
		head = "";
	}
	for (uint32_t i = 0; i < v->ndevices; i++)
		if (*v->devices[i].input.refused) {
			printf("  %-7s  %s prepares no input: %s\n", head, v->devices[i].info.name,
			       v->devices[i].input.refused);
			head = "";
		}
	if (r->input)
		printf("           %s: frame and input; red areas: %u, found in the input\n"
		       "           and mapped to the frame as boxes\n", r->input, v->nboxes);
}

void report_left_out(const struct verify *v)
{
	const char *text = "  without ", *absent = "";

	for (uint32_t i = 0; i < v->nleft_out; i++)
		if (v->left_out[i].absent) {
			printf("%s %s", text, v->left_out[i].name);
			text = ",";
			absent = ", which are absent: see dmabuf-test list";
		}
	fputs(absent, stdout);
	text = *absent ? ";" : text;
	for (uint32_t i = 0; i < v->nleft_out; i++)
		if (!v->left_out[i].absent) {
			printf("%s %s: %s", text, v->left_out[i].name,
			       v->left_out[i].reason);
			text = ";";
		}
	if (v->nleft_out)
		putchar('\n');
}

void report_print(const struct report *r)
{
	print_headline(r);
	print_camera(r);
	print_view(r->verify);
	print_tensors(r->verify);
	putchar('\n');
	print_devices(r->verify);
	putchar('\n');
	print_claims(r->verify);
	report_left_out(r->verify);
	if (r->verify->input_width)
		print_inputs(r);
	if (r->png)
		printf("  picture  %s\n", r->png);
}

/* ---------------------------------------------------------------- JSON */

static void put_number(cJSON *o, const char *name, double n)
{
	cJSON_AddNumberToObject(o, name, n);
}

static void put_string(cJSON *o, const char *name, const char *s)
{
	cJSON_AddStringToObject(o, name, s);
}

static void put_numbers(cJSON *o, const char *name, const int64_t *n, int count)
{
	cJSON *array = cJSON_AddArrayToObject(o, name);

	for (int i = 0; i < count; i++)
		cJSON_AddItemToArray(array, cJSON_CreateNumber(n[i]));
}

static void put_series(cJSON *o, const char *name, const struct series *s)
{
	cJSON *times = cJSON_AddObjectToObject(o, name);

	put_number(times, "count", s->n);
	if (!s->n)
		return;
	put_number(times, "median_ns", median_ns(s->ns, s->n));
	/* median_ns() has sorted them. */
	put_number(times, "min_ns", s->ns[0]);
	put_number(times, "max_ns", s->ns[s->n - 1]);
}

static void put_camera(cJSON *root, const struct report *r)
{
	const struct verify *v = r->verify;
	const struct camera *cam = v->cam;
	cJSON *o = cJSON_AddObjectToObject(root, "camera");
	int64_t pitch[DLBUF_MAX_PLANES], size[DLBUF_MAX_PLANES];
	int64_t offset[DLBUF_MAX_PLANES];

	for (uint32_t i = 0; i < cam->nplanes; i++) {
		pitch[i] = cam->pitch[i];
		size[i] = cam->size[i];
		offset[i] = cam->data_offset[i];
	}
	put_string(o, "node", cam->node);
	put_string(o, "driver", cam->info.driver);
	put_string(o, "card", cam->info.card);
	put_string(o, "bus", cam->info.bus);
	cJSON_AddBoolToObject(o, "multiplanar", camera_is_multi(cam));
	put_string(o, "format", format_title(&v->format));
	put_string(o, "code", camera_code(cam->info.code).s);
	put_number(o, "width", cam->info.width);
	put_number(o, "height", cam->info.height);
	put_numbers(o, "pitch", pitch, cam->nplanes);
	put_numbers(o, "size", size, cam->nplanes);
	put_numbers(o, "data_offset", offset, cam->nplanes);
	/* In videodev2.h's order; 0 means the default of the previous value. */
	put_number(o, "colorspace", cam->colorspace);
	put_number(o, "ycbcr_enc", cam->ycbcr_enc);
	put_number(o, "quantization", cam->quantization);
	put_number(o, "buffers", cam->info.buffers);
	if (cam->info.rate)
		put_number(o, "rate", cam->info.rate);
	if (r->asked_rate)
		put_number(o, "rate_asked", r->asked_rate);
	put_string(o, "memory", r->exporter ? r->exporter : "expbuf");
	put_number(o, "frames", v->done);
	put_number(o, "seconds", seconds(v));
	put_number(o, "frames_per_second", rate(v));
	put_number(o, "dropped", cam->dropped);
	put_number(o, "flagged", cam->flagged);
}

static void put_tensor(cJSON *array, const DLTensor *t, uint64_t first)
{
	cJSON *o = cJSON_CreateObject();

	put_string(o, "dtype", text_dtype(t->dtype).s);
	put_numbers(o, "shape", t->shape, t->ndim);
	put_numbers(o, "strides", t->strides, t->ndim);
	put_number(o, "byte_offset", t->byte_offset);
	put_number(o, "offset_in_dmabuf", first);
	cJSON_AddItemToArray(array, o);
}

static void put_device(cJSON *array, const struct verify *v,
		       const struct device *d)
{
	const int64_t shape[] = { 1, 3, v->input_height, v->input_width };
	cJSON *o = cJSON_CreateObject(), *tensors;

	put_string(o, "name", d->info.name);
	put_string(o, "description", d->info.description);
	put_string(o, "driver", d->info.driver);
	put_number(o, "device_type", d->info.device.device_type);
	put_string(o, "path", dlbuf_path_name(d->path));
	put_number(o, "frames", v->frames);
	put_number(o, "verified", d->verified);
	put_number(o, "mismatched", d->mismatched);
	put_number(o, "bytes_copied", d->bytes_copied);
	put_series(o, "first_import", &d->first);
	put_series(o, "cached_import", &d->cached);
	put_series(o, "acquire", &d->acquire);
	put_series(o, "release", &d->release);
	put_string(o, "read_by", d->access->reads_by);
	put_series(o, "read", &d->read);
	if (v->input_width) {
		cJSON *input = cJSON_AddObjectToObject(o, "input");

		put_series(input, "prepare", &d->input.ns);
		if (d->input.ns.n) {
			put_number(input, "difference", d->input.difference);
			put_string(input, "dtype", "float32");
			put_numbers(input, "shape", shape, 4);
			put_number(input, "scaled_width", d->input.info.scaled_width);
			put_number(input, "scaled_height", d->input.info.scaled_height);
			put_number(input, "left", d->input.info.left);
			put_number(input, "top", d->input.info.top);
		}
		if (*d->input.refused)
			put_string(input, "refused", d->input.refused);
	}
	put_number(o, "cache_hits", d->stats.hits);
	put_number(o, "cache_misses", d->stats.misses);
	tensors = cJSON_AddArrayToObject(o, "tensors");
	for (uint32_t i = 0; i < d->nplanes; i++)
		put_tensor(tensors, &d->dl[i], d->first_byte[i]);
	cJSON_AddItemToArray(array, o);
}

void report_put_left_out(cJSON *root, const struct verify *v)
{
	cJSON *array = cJSON_AddArrayToObject(root, "without"), *o;

	for (uint32_t i = 0; i < v->nleft_out; i++) {
		o = cJSON_CreateObject();
		put_string(o, "name", v->left_out[i].name);
		cJSON_AddBoolToObject(o, "absent", v->left_out[i].absent);
		put_string(o, "reason", v->left_out[i].reason);
		cJSON_AddItemToArray(array, o);
	}
}

cJSON *report_json(const struct report *r)
{
	const struct verify *v = r->verify;
	cJSON *root = cJSON_CreateObject(), *o;

	put_string(root, "dlbuf", dlbuf_version());
	cJSON_AddBoolToObject(root, "verified", verify_good(v));
	put_string(root, "view", dlbuf_view_name(v->view));
	put_camera(root, r);
	o = cJSON_AddArrayToObject(root, "devices");
	for (uint32_t i = 0; i < v->ndevices; i++)
		put_device(o, v, &v->devices[i]);
	report_put_left_out(root, v);
	put_number(root, "bytes_copied", bytes_copied(v));
	put_string(root, "reference", reference(v));
	put_number(root, "repeated", v->repeated);
	if (v->written) {
		put_number(root, "filled", v->filled);
		put_number(root, "unwritten", v->unwritten);
	}
	o = cJSON_AddObjectToObject(root, "leases");
	put_number(o, "granted", v->granted);
	put_number(o, "released", v->released);
	put_number(o, "requeued", v->requeued);
	o = cJSON_AddObjectToObject(root, "fds");
	put_number(o, "before", v->fds_before);
	put_number(o, "after", v->fds_after);
	if (r->png)
		put_string(root, "png", r->png);
	if (!r->input)
		return root;
	put_string(root, "input", r->input);
	o = cJSON_AddArrayToObject(root, "boxes");
	for (uint32_t i = 0; i < v->nboxes; i++) {
		cJSON *box = cJSON_CreateArray();

		for (int j = 0; j < 4; j++)
			cJSON_AddItemToArray(box, cJSON_CreateNumber(v->boxes[i][j]));
		cJSON_AddItemToArray(o, box);
	}
	return root;
}
