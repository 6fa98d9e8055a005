// What belongs to x86-64, and how functions are inlined into kernels.
//
// PORTABLE leaves out what belongs to x86-64.  LOWERED compiles all three instruction sets for the first one: the compiler
// then replaces wide vectors by narrow ones, so that tests run every kernel on every processor.
#pragma once
#if defined(__x86_64__) && !defined(PORTABLE)
#include <cpuid.h>
#include <immintrin.h>
#define IS_X86_64 1
#else
#define IS_X86_64 0
#endif
#define INLINE inline __attribute__((always_inline))

// Before a loop that reads nothing which it writes at another turn.
#if defined(__clang__)
#define EACH_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define EACH_APART _Pragma("GCC ivdep")
#endif
