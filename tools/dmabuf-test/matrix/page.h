/* SPDX-License-Identifier: MIT */
/* A matrix as a page of HTML. */
#ifndef DMABUF_TEST_PAGE_H
#define DMABUF_TEST_PAGE_H

#include <stdio.h>

#include "json.h"

/*
 * One file that needs no network and no font. 0 or a status; errors of f are the
 * caller's to find.
 */
int page_write(const cJSON *matrix, FILE *f);

#endif /* DMABUF_TEST_PAGE_H */
