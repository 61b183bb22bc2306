// SPDX-License-Identifier: MIT
/* A matrix as a page of HTML: the template, followed by the matrix as JSON. */
#include "page.h"
#include "tool.h"

static const char template[] =
#include "matrix/page.html.h"
;

int page_write(const cJSON *matrix, FILE *f)
{
	char *text = cJSON_PrintUnformatted(matrix);

	if (!text)
		return fail(STATUS_SYSTEM, "no memory for the page");
	fputs(template, f);
	/* Otherwise a string could end the script that contains the JSON. */
	for (const char *s = text; *s; s++)
		if (*s == '<')
			fputs("\\u003c", f);
		else
			putc(*s, f);
	fputs("\n</script>\n", f);
	cJSON_free(text);
	return 0;
}
