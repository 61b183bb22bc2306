/* SPDX-License-Identifier: MIT */
/* The registry's list, of the suite's program with the trial backend. */
#ifdef CONFIG_BACKEND_CPU
BACKEND(cpu)
#endif
BACKEND(trial)
