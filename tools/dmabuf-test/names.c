// SPDX-License-Identifier: MIT
/* Formats as people write them. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "names.h"

struct camera_code camera_code(uint32_t code)
{
	struct camera_code t = { "" };
	size_t n = 4;

	for (size_t i = 0; i < n; i++) {
		t.s[i] = code >> 8 * i & 0x7f;
		if (t.s[i] && (t.s[i] < ' ' || t.s[i] > '~'))
			t.s[i] = '?';
	}
	while (n && t.s[n - 1] == ' ')
		t.s[--n] = '\0';
	if (code >> 31)
		strcat(t.s, "-BE");
	return t;
}

static enum name_match code_match(uint32_t code, const char *name)
{
	struct camera_code text = camera_code(code);

	if (!code || strcasecmp(text.s, name))
		return NAME_NOT;
	return strcmp(text.s, name) ? NAME_LOOSE_CODE : NAME_CODE;
}

static bool same_name(const char *a, const char *b)
{
	return a && !strcasecmp(a, b);
}

enum name_match name_match(const struct dlbuf_format_info *info,
			   const char *name)
{
	const uint32_t codes[] = { info->drm_code, info->v4l2_code,
				   info->v4l2_multi_code };
	enum name_match best = NAME_NOT;

	if (same_name(info->drm_name, name) ||
	    same_name(info->v4l2_name, name) ||
	    same_name(info->v4l2_multi_name, name))
		best = NAME_NAME;
	for (int i = 0; i < 3; i++)
		if (code_match(codes[i], name) > best)
			best = code_match(codes[i], name);
	return best;
}

const char *format_title(const struct dlbuf_format_info *info)
{
	return info->drm_name ? info->drm_name :
	       info->v4l2_name ? info->v4l2_name : "";
}

struct format_text format_text(const struct dlbuf_format_info *info, uint32_t code)
{
	struct camera_code letters = camera_code(code);
	const char *title = format_title(info);
	struct format_text t;

	if (!*title || !strcmp(title, letters.s))
		snprintf(t.s, sizeof(t.s), "%s", letters.s);
	else
		snprintf(t.s, sizeof(t.s), "%s (%s)", title, letters.s);
	return t;
}

struct search {
	const char *name;
	struct dlbuf_format_info *info;
	uint32_t *code;
	int best;
};

/* Keeps the format that matches best. */
static void offer(struct search *s, const struct dlbuf_format_info *info,
		  uint32_t code, int match)
{
	if (!code || match <= s->best)
		return;
	s->best = match;
	*s->info = *info;
	*s->code = code;
}

static int search_one(const struct dlbuf_format_info *info, void *data)
{
	struct search *s = data;
	uint32_t code = info->v4l2_code, multi = info->v4l2_multi_code;
	uint32_t any = code ? code : multi;

	if (code_match(code, s->name) == NAME_CODE)
		offer(s, info, code, 9);
	if (code_match(multi, s->name) == NAME_CODE)
		offer(s, info, multi, 8);
	if (same_name(info->v4l2_name, s->name))
		offer(s, info, code, 7);
	if (same_name(info->v4l2_multi_name, s->name))
		offer(s, info, multi, 6);
	if (same_name(info->drm_name, s->name))
		offer(s, info, any, 5);
	if (code_match(info->drm_code, s->name) == NAME_CODE)
		offer(s, info, any, 4);
	if (code_match(code, s->name))
		offer(s, info, code, 3);
	if (code_match(multi, s->name))
		offer(s, info, multi, 2);
	if (code_match(info->drm_code, s->name))
		offer(s, info, any, 1);
	return 0;
}

bool camera_format_named(const char *name, struct dlbuf_format_info *info,
			 uint32_t *code)
{
	struct search s = { .name = name, .info = info, .code = code };

	dlbuf_format_each(search_one, &s);
	return s.best;
}

int view_named(const char *name)
{
	for (int i = 0; i < DLBUF_NVIEWS; i++)
		if (!strcasecmp(name, dlbuf_view_name(i)))
			return i;
	return -1;
}
