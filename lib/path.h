/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_PATH_H
#define DLBUF_LIB_PATH_H

struct import;

/*
 * Has the backend import by the first of imp->paths that serves; imp->path is
 * that one. Otherwise the sentence has every path's reason. -EOPNOTSUPP, or what
 * the machine lacks now: -ENOMEM, -EMFILE, -ENFILE. A backend of a single path
 * says it in its own words.
 */
int path_import(struct import *imp);

#endif /* DLBUF_LIB_PATH_H */
