/* SPDX-License-Identifier: MIT */
/*
 * cJSON, or in a tool without it empty replacements for the callers: they are not
 * used, because json_check() refuses --json.
 */
#ifndef DMABUF_TEST_JSON_H
#define DMABUF_TEST_JSON_H

#include <stdio.h>

#ifdef CONFIG_TOOL_JSON
#include <cjson/cJSON.h>
#else
typedef struct { char nothing; } cJSON;
extern cJSON json_nothing;

#define cJSON_CreateArray() (&json_nothing)
#define cJSON_CreateNull() (&json_nothing)
#define cJSON_CreateNumber(n) ((void)(n), &json_nothing)
#define cJSON_CreateObject() (&json_nothing)
#define cJSON_CreateString(s) ((void)(s), &json_nothing)
#define cJSON_AddArrayToObject(o, name) ((void)(o), (void)(name), &json_nothing)
#define cJSON_AddObjectToObject cJSON_AddArrayToObject
#define cJSON_AddNullToObject(o, name) ((void)(o), (void)(name))
#define cJSON_AddBoolToObject(o, name, b) ((void)(o), (void)(name), (void)(b))
#define cJSON_AddNumberToObject cJSON_AddBoolToObject
#define cJSON_AddStringToObject cJSON_AddBoolToObject
#define cJSON_AddItemToObject cJSON_AddBoolToObject
#define cJSON_AddItemToArray(array, item) ((void)(array), (void)(item))
#define cJSON_Delete(o) ((void)(o))
#endif

/* Returns 0, or a status after an error text if the tool cannot write JSON. */
int json_check(void);

/* Writes json to f; `name` is f's name in an error text. */
int json_write(const cJSON *json, FILE *f, const char *name);

#endif /* DMABUF_TEST_JSON_H */
