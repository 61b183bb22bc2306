#!/bin/bash -eu
# SPDX-License-Identifier: MIT
# Runs in $SRC/dlbuf, with the variables of OSS-Fuzz. tests/fuzz/oss-fuzz runs it here.

backends=$(sed -n 's/^config \(BACKEND_[A-Z]*\)$/\1=n/p' Kconfig | grep -vE 'CPU|VPI' | xargs)
# libFuzzer is C++, so CXX links.
make O="$WORK/dlbuf" -j"$(nproc)" PYTHON= SET="SHARED=n DMABUF_TEST=n $backends" FUZZ_LD="$CXX $CXXFLAGS" fuzz
for source in tests/fuzz/*.c; do
	name=$(basename "$source" .c)
	cp "$WORK/dlbuf/tests/fuzz/$name" "$OUT/$name"
	zip -jq "$OUT/${name}_seed_corpus.zip" tests/fuzz/corpus/"$name"/*
done
