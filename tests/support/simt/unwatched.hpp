// Marks the parts of the shim that the sanitizers must ignore.
#pragma once

#if defined(__SANITIZE_THREAD__) && !defined(SIMT_TRACE)
#define SIMT_TSAN 1
#else
#define SIMT_TSAN 0
#endif

// The scheduler is not under test, so the race detector, ASan and the trace must ignore it.  All its functions have the
// attribute, because a function without it is watched even when called from one that has it.
#if defined(__SANITIZE_THREAD__)
#define SIMT_UNWATCHED_ENTRY __attribute__((no_sanitize_thread, noinline))
#elif defined(__SANITIZE_ADDRESS__)
#define SIMT_UNWATCHED_ENTRY __attribute__((no_sanitize_address, noinline))
#else
#define SIMT_UNWATCHED_ENTRY
#endif

// Compiling the scheduler takes as long as compiling a kernel, so it is compiled once for all kernels, in an object with
// SIMT_RUNTIME defined.  Kernels see only its entries: other functions are inline, and unused ones produce no code.
// Variables are `inline` too, so that the kernel and the runtime in one library share them.
#define SIMT_UNWATCHED inline SIMT_UNWATCHED_ENTRY
