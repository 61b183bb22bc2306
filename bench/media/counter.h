/* SPDX-License-Identifier: MIT */
/* Shared by programs that are counted and bench/media/counter.c. */
#ifndef BENCH_COUNTER_H
#define BENCH_COUNTER_H

#define COUNTER 0x646c627566ull

#endif /* BENCH_COUNTER_H */
