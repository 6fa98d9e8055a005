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
#define SIMT_UNWATCHED __attribute__((no_sanitize_thread, noinline))
#elif defined(__SANITIZE_ADDRESS__)
#define SIMT_UNWATCHED __attribute__((no_sanitize_address, noinline))
#else
#define SIMT_UNWATCHED inline
#endif
