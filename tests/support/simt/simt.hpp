// Runs an unmodified CUDA C++ kernel on the CPU, one fiber per CUDA thread.  A test tool, not a backend.
//
// One OS thread runs one block after another.  A thread of the block runs until it reaches a barrier or returns; then the
// next one runs, in an order that the test chooses: ascending, descending, or random by seed.  A kernel whose result depends
// on that order, or on the previous contents of shared memory, is wrong, and here it gives a wrong answer at once.
//
//   #include "simt.hpp"
//   ...the text of the kernel file...
//   SIMT_EXPORT(kernel_name)      // simt_launch_kernel_name, simt_signature_kernel_name
//
// Switches:
//   SIMT_RUNTIME         compiles the object with the scheduler, which is linked with every kernel
//   SIMT_UCONTEXT        portable fiber switch instead of the x86-64 one (slower)
//   SIMT_CATCH_FAULTS    a wild access or an endless loop ends the launch with a message
//   -fsanitize=thread    races are reported with both source lines
//   SIMT_TRACE           with -fsanitize=thread, linked with trace_runtime.cpp instead of libtsan
#pragma once
#include "cuda_dialect.hpp"
#include "scheduler.hpp"
#include "warp.hpp"
#include "arrivals.hpp"
#include "launch.hpp"
