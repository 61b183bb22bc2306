/* SPDX-License-Identifier: MIT */
/* What a program says to bench/media/counter.c. */
#ifndef BENCH_COUNTER_H
#define BENCH_COUNTER_H

#define COUNTER 0x646c627566ull

#endif /* BENCH_COUNTER_H */
