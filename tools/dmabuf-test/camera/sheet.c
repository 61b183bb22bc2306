// SPDX-License-Identifier: MIT
/* A contact sheet: small pictures side by side, with their names. */
#include <stdlib.h>
#include <string.h>

#include "sheet.h"
#include "tool.h"

#define MARGIN 8u
#define LINE (FONT_HEIGHT + 3u)

enum { PAPER = 24, NO_PICTURE = 48, INK = 232, PALE_INK = 136 };

static void add_row(const struct picture *p, uint32_t scale, uint32_t width,
		    const uint8_t *row, uint32_t sums[])
{
	bool grey = p->kind == PICTURE_GREY;

	for (uint32_t x = 0; x < width * scale; x++)
		for (uint32_t i = 0; i < 3; i++)
			sums[x / scale * 3 + i] += row[grey ? x : x * 3 + i];
}

int thumb_draw(struct thumb *thumb, const struct picture *p)
{
	uint32_t larger = p->width > p->height ? p->width : p->height;
	uint32_t scale = (larger + THUMB_WIDTH - 1) / THUMB_WIDTH;
	/* What does not fill a pixel is cut off, but for a single one. */
	uint32_t width = p->width / scale ? p->width / scale : 1;
	uint32_t height = p->height / scale ? p->height / scale : 1;
	uint8_t *row = calloc((size_t)width * scale + p->width, 3);
	uint32_t *sums = malloc(width * 3 * sizeof(*sums));
	uint8_t *out = calloc(height, width * 3);
	bool done = row && sums && out;

	for (uint32_t y = 0; done && y < height; y++) {
		memset(sums, 0, width * 3 * sizeof(*sums));
		for (uint32_t i = 0; i < scale; i++) {
			uint32_t at = y * scale + i;

			picture_row(p, at < p->height ? at : p->height - 1,
				    row);
			add_row(p, scale, width, row, sums);
		}
		for (uint32_t i = 0; i < width * 3; i++)
			out[(size_t)y * width * 3 + i] =
				(sums[i] + scale * scale / 2) / (scale * scale);
	}
	free(row);
	free(sums);
	if (!done) {
		free(out);
		return -1;
	}
	free(thumb->rgb);
	*thumb = (struct thumb){ width, height, out };
	return 0;
}

int sheet_add(struct sheet *sheet, struct thumb *thumb, const char *first,
	      const char *second)
{
	struct sheet_cell *cells = realloc(sheet->cells, (sheet->n + 1) *
					   sizeof(*cells));

	if (!cells)
		return fail(STATUS_SYSTEM, "no memory for a picture");
	sheet->cells = cells;
	cells = &cells[sheet->n++];
	*cells = (struct sheet_cell){ .thumb = *thumb };
	*thumb = (struct thumb){ 0 };
	snprintf(cells->text[0], sizeof(cells->text[0]), "%s", first);
	snprintf(cells->text[1], sizeof(cells->text[1]), "%s", second);
	return 0;
}

void sheet_free(struct sheet *sheet)
{
	for (uint32_t i = 0; i < sheet->n; i++)
		free(sheet->cells[i].thumb.rgb);
	free(sheet->cells);
	*sheet = (struct sheet){ 0 };
}

/* ---------------------------------------------------------------- the page */

struct page {
	const struct sheet *sheet;
	uint32_t columns, rows;
	uint32_t width, height;		/* of a picture */
	uint32_t cell_width, cell_height;
	uint32_t total;			/* width of the page */
};

/* About as wide as a screen is to its height. */
static struct page page_of(const struct sheet *sheet)
{
	struct page p = { .sheet = sheet, .columns = 1, .height = 16 };

	/* Without any picture there is still text. */
	p.width = THUMB_WIDTH;
	for (uint32_t i = 0; i < sheet->n; i++)
		if (sheet->cells[i].thumb.height > p.height)
			p.height = sheet->cells[i].thumb.height;
	p.cell_width = p.width + MARGIN;
	p.cell_height = p.height + 2 * LINE + MARGIN;
	while (p.columns < sheet->n &&
	       (uint64_t)p.columns * p.cell_width * 9 <
	       (uint64_t)((sheet->n + p.columns - 1) / p.columns) *
	       p.cell_height * 16)
		p.columns++;
	p.rows = (sheet->n + p.columns - 1) / p.columns;
	p.total = p.columns * p.cell_width + MARGIN;
	return p;
}

static void text_row(const char *text, uint32_t y, uint8_t ink, uint32_t width,
		     uint8_t *row)
{
	for (uint32_t i = 0; text[i] && (i + 1) * (FONT_WIDTH + 1) <= width; i++)
		for (uint32_t x = 0; x < FONT_WIDTH; x++)
			if (font_glyph(text[i])[y] >> (FONT_WIDTH - 1 - x) & 1)
				memset(row + (i * (FONT_WIDTH + 1) + x) * 3, ink,
				       3);
}

/* Row y of a cell, which begins at row. */
static void cell_row(const struct page *p, const struct sheet_cell *cell,
		     uint32_t y, uint8_t *row)
{
	const struct thumb *t = &cell->thumb;
	uint32_t below = y - p->height;

	if (y < t->height && t->rgb)
		memcpy(row, t->rgb + (size_t)y * t->width * 3, t->width * 3);
	else if (y < p->height && !t->rgb)
		memset(row, NO_PICTURE, p->width * 3);
	if (y < p->height || below >= 2 * LINE)
		return;
	/* Three pixels of paper above each line. */
	if (below % LINE >= 3)
		text_row(cell->text[below / LINE], below % LINE - 3,
			 below < LINE ? INK : PALE_INK, p->width, row);
}

static void page_row(void *data, uint32_t y, uint8_t *row)
{
	const struct page *p = data;
	uint32_t first, cell_y;

	memset(row, PAPER, p->total * 3);
	if (y < MARGIN)
		return;
	first = (y - MARGIN) / p->cell_height * p->columns;
	cell_y = (y - MARGIN) % p->cell_height;
	for (uint32_t i = 0; i < p->columns && first + i < p->sheet->n; i++)
		cell_row(p, &p->sheet->cells[first + i], cell_y,
			 row + (MARGIN + i * p->cell_width) * 3);
}

int sheet_save(const struct sheet *sheet, struct outfile *out)
{
	struct page p = page_of(sheet);

	return png_write(out, p.total, p.rows * p.cell_height + MARGIN, false,
			 page_row, &p);
}
