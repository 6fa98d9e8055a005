// Which parts of the shim the sanitizers must leave alone.
#pragma once

#if defined(__SANITIZE_THREAD__) && !defined(SIMT_TRACE)
#define SIMT_TSAN 1
#else
#define SIMT_TSAN 0
#endif

// The scheduler is not under test: keep it out of the race detector, of ASan and of the trace.  Every
// function of it says so, because a function without the attribute is watched even when called from
// one that has it.
#if defined(__SANITIZE_THREAD__)
#define SIMT_UNWATCHED_ENTRY __attribute__((no_sanitize_thread, noinline))
#elif defined(__SANITIZE_ADDRESS__)
#define SIMT_UNWATCHED_ENTRY __attribute__((no_sanitize_address, noinline))
#else
#define SIMT_UNWATCHED_ENTRY
#endif

// To compile the scheduler takes as long as a kernel, so it is done once for all kernels, in an object with SIMT_RUNTIME
// defined.  Kernels know only the entries of it: other functions are inline, and nothing is made of those that nobody calls.
// Variables are `inline` too, or the kernel and the runtime in one library would have their own.
#define SIMT_UNWATCHED inline SIMT_UNWATCHED_ENTRY
