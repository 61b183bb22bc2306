// SPDX-License-Identifier: MIT
/* The picture of --input: see boxes.h. */
#include <stdlib.h>
#include <string.h>

#include "boxes.h"
#include "tool.h"
#include "verify.h"

/* ---------------------------------------------------------------- red areas */

/* Whether a pixel of the input is red and has not been visited. Visits it. */
static bool take_red(const struct input *in, uint8_t *visited, size_t i)
{
	const size_t plane = (size_t)in->info.width * in->info.height;
	const float *rgb = in->values + i;

	if (visited[i] || rgb[0] < .35f || rgb[plane] > rgb[0] / 2 ||
	    rgb[2 * plane] > rgb[0] / 2)
		return false;
	visited[i] = 1;
	return true;
}

/* Finds the red pixels that are connected with pixel i, the only one on the stack. */
static uint32_t area(const struct input *in, uint8_t *visited, uint32_t *stack, double box[4])
{
	const uint32_t w = in->info.width, h = in->info.height;
	uint32_t n = 1, count = 0;

	box[0] = box[2] = stack[0] % w;
	box[1] = box[3] = stack[0] / w;
	while (n) {
		uint32_t i = stack[--n], x = i % w, y = i / w;

		count++;
		box[0] = x < box[0] ? x : box[0];
		box[1] = y < box[1] ? y : box[1];
		box[2] = x + 1 > box[2] ? x + 1 : box[2];
		box[3] = y + 1 > box[3] ? y + 1 : box[3];
		if (x && take_red(in, visited, i - 1))
			stack[n++] = i - 1;
		if (x + 1 < w && take_red(in, visited, i + 1))
			stack[n++] = i + 1;
		if (y && take_red(in, visited, i - w))
			stack[n++] = i - w;
		if (y + 1 < h && take_red(in, visited, i + w))
			stack[n++] = i + w;
	}
	return count;
}

/* Finds boxes of the larger red areas, in pixels of the input; returns their number. */
static int find_boxes(const struct input *in, double boxes[MAX_BOXES][4], uint32_t *n)
{
	const size_t pixels = (size_t)in->info.width * in->info.height;
	const uint32_t least = in->info.scaled_width * in->info.scaled_height / 400;
	uint32_t *stack = malloc(pixels * sizeof(*stack));
	uint8_t *visited = calloc(pixels, 1);

	*n = 0;
	for (size_t i = 0; stack && visited && i < pixels && *n < MAX_BOXES; i++) {
		stack[0] = i;
		if (take_red(in, visited, i) && area(in, visited, stack, boxes[*n]) > least)
			++*n;
	}
	free(stack);
	free(visited);
	return stack && visited ? 0 : fail(STATUS_SYSTEM, "no memory for the boxes");
}

/* ---------------------------------------------------------------- the picture */

struct sheet {
	uint32_t width, height;
	uint8_t *rgb;
};

static void draw_row(void *data, uint32_t y, uint8_t *row)
{
	const struct sheet *s = data;

	memcpy(row, s->rgb + (size_t)y * s->width * 3, (size_t)s->width * 3);
}

static void draw_values(struct sheet *s, const struct input *in, uint32_t left, uint32_t top)
{
	const size_t plane = (size_t)in->info.width * in->info.height;

	for (size_t i = 0; i < plane; i++) {
		uint8_t *pixel = s->rgb + ((i / in->info.width + top) * s->width +
					   i % in->info.width + left) * 3;

		for (size_t c = 0; c < CHANNELS; c++)
			pixel[c] = in->values[c * plane + i] * 255 + .5f;
	}
}

/* The outline of a box, `wide` pixels on both sides of it, within the sheet. */
static void draw_box(struct sheet *s, const double box[4], int wide, uint8_t grey)
{
	const int x0 = box[0] + .5, y0 = box[1] + .5, x1 = box[2] + .5, y1 = box[3] + .5;

	for (int y = y0 - wide; y < y1 + wide; y++)
		for (int x = x0 - wide; x < x1 + wide; x++) {
			bool inside = x >= x0 + wide && x < x1 - wide && y >= y0 + wide &&
				      y < y1 - wide;

			if (!inside && x >= 0 && y >= 0 && x < (int)s->width && y < (int)s->height)
				memset(s->rgb + ((size_t)y * s->width + x) * 3, grey, 3);
		}
}

static void draw_boxes(struct verify *v, struct sheet *s, const struct input *in,
		       const struct input *panel, uint32_t gap, uint32_t top, double found[][4])
{
	const double zoom = panel->info.width / in->info.crop_width;
	const int wide = 1 + s->height / 640;

	for (uint32_t i = 0; i < v->nboxes; i++) {
		double *box = v->boxes[i], left[4], right[4];

		for (int corner = 0; corner < 4; corner += 2) {
			dlbuf_prepare_map(&in->info, found[i][corner], found[i][corner + 1],
					  &box[corner], &box[corner + 1]);
			left[corner] = box[corner] * zoom;
			left[corner + 1] = box[corner + 1] * zoom + top;
			right[corner] = found[i][corner] + panel->info.width + gap;
			right[corner + 1] = found[i][corner + 1];
		}
		/* White between black lines is visible on every colour. */
		draw_box(s, left, 2 * wide, 0);
		draw_box(s, right, 2 * wide, 0);
		draw_box(s, left, wide, 255);
		draw_box(s, right, wide, 255);
	}
}

static int draw_sheet(struct verify *v, const struct input *in, const struct input *panel)
{
	const uint32_t w = in->info.width, h = in->info.height, gap = 1 + h / 40;
	const uint32_t top = (h - panel->info.height) / 2;
	struct sheet s = { .width = panel->info.width + gap + w, .height = h };
	double found[MAX_BOXES][4];
	int status = find_boxes(in, found, &v->nboxes);

	if (status)
		return status;
	s.rgb = malloc((size_t)s.width * s.height * 3);
	if (!s.rgb)
		return fail(STATUS_SYSTEM, "no memory for a picture");
	memset(s.rgb, 255, (size_t)s.width * s.height * 3);
	draw_values(&s, panel, 0, top);
	draw_values(&s, in, panel->info.width + gap, 0);
	draw_boxes(v, &s, in, panel, gap, top, found);
	status = png_write(v->input_png, s.width, s.height, false, draw_row, &s);
	free(s.rgb);
	return status;
}

int draw_input(struct verify *v, struct device *d, const struct dlbuf_frame *frame)
{
	const struct dlbuf_prepare_info *info = &d->input.info;
	/* As high as the input, unless the frame would be wider than two inputs. */
	double zoom = info->height / info->crop_height, most = 2. * info->width / info->crop_width;
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .filter = DLBUF_FILTER_TRIANGLE);
	struct input panel = { 0 };
	int status;

	zoom = zoom < most ? zoom : most;
	opts.width = info->crop_width * zoom + .5;
	opts.height = info->crop_height * zoom + .5;
	opts.width += !opts.width;
	opts.height += !opts.height;
	status = input_prepare(v, d, &panel, frame, &opts);
	if (!status && *panel.refused)
		status = fail(STATUS_SYSTEM, "%s prepares no picture of the frame: %s",
			      d->info.name, panel.refused);
	if (!status)
		status = draw_sheet(v, &d->input, &panel);
	input_free(&panel);
	return status;
}
