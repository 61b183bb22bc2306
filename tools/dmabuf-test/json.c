// SPDX-License-Identifier: MIT
/* JSON, in a tool with cJSON. */
#include <errno.h>
#include <string.h>

#include "json.h"
#include "tool.h"

int json_check(void)
{
	return 0;
}

int json_write(const cJSON *json, FILE *f, const char *name)
{
	char *text = cJSON_Print(json);
	int status = 0;

	if (!text)
		return fail(STATUS_SYSTEM, "no memory for the report");
	/* main() reports errors of standard output at the end. */
	if (fprintf(f, "%s\n", text) < 0 && f != stdout)
		status = fail(STATUS_SYSTEM, "%s cannot be written: %s", name,
			      strerror(errno));
	cJSON_free(text);
	return status;
}
