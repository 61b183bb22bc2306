/* SPDX-License-Identifier: MIT */
/* Device nodes that may not be opened. */
#ifndef DLBUF_NODE_H
#define DLBUF_NODE_H

/*
 * Says who may open the node. The text ends a sentence about open()'s error `err`:
 * "; group video may open it (crw-rw---- root:video)". Empty for other errors than
 * EACCES and EPERM. Keeps errno. dmabuf-test is linked with it, too.
 */
#define NODE_ACCESS 160
void node_access(const char *path, int err, char s[NODE_ACCESS]);

/* Fails with open()'s errno and sentence; a node that does not exist is -ENODEV. */
int fail_open(const char *path) __attribute__((cold));

#endif /* DLBUF_NODE_H */
