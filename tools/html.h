/* SPDX-License-Identifier: MIT */
/* A matrix as a page of HTML. */
#ifndef DMABUF_TEST_HTML_H
#define DMABUF_TEST_HTML_H

#include <stdio.h>

#include "json.h"

/*
 * One file that needs no network, no font and no script: a cell's reason opens by
 * :target. 0 or a status; errors of f are the caller's to find.
 */
int html_write(const cJSON *matrix, FILE *f);

#endif /* DMABUF_TEST_HTML_H */
