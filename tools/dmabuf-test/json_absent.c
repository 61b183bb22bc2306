// SPDX-License-Identifier: MIT
/* --json and matrix in a tool without cJSON. */
#include "json.h"
#include "tool.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

cJSON json_nothing;

int json_check(void)
{
	return fail(STATUS_SYSTEM, "--json: dmabuf-test was built without cJSON");
}

int json_write(const cJSON *json, FILE *f, const char *name)
{
	return json_check();
}

/* matrix keeps its measurements as JSON. */
int matrix_main(int argc, char **argv)
{
	return fail(STATUS_SYSTEM, "matrix: dmabuf-test was built without cJSON");
}
