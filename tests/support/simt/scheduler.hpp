// Runs one block: its threads as fibers, in a chosen order between barriers.
//
// A phase is the time between two barriers.  In a phase, every thread that can run does so, one after another in the order of
// the phase, until it waits or returns.  A waiting thread hands over to the next directly; after the last one, the main
// context decides which threads may continue.
#pragma once
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "cuda_dialect.hpp"
#include "fibers.hpp"
#include "race_detector.hpp"

namespace simt {

enum Order { ASCENDING = 0, DESCENDING = 1, RANDOM = 2 };
enum State { UNSTARTED, READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, DONE };

struct Thread {
  Context context;
  uint3 index;                // its threadIdx
  int warp;
  State state;
  int line;                   // of the barrier it waits at
};

inline Thread threads[MAX_THREADS];
inline int thread_count;
inline Thread* current;       // null in the main context
inline Context main_context, dropped_context;
inline int sequence[MAX_THREADS], cursor;
inline int done_count, at_block_barrier;
inline long long block_number, block_generation, warp_generation[MAX_WARPS];
inline uint64_t random_state;
inline char message[512];     // why the launch failed
inline void (*kernel_call)();

#ifdef SIMT_TRACE
extern "C" int simt_traced_thread;       // -1 while no kernel runs
extern "C" void simt_trace_end_block();
SIMT_UNWATCHED void trace_thread(int number) { simt_traced_thread = number; }
#else
inline void trace_thread(int) {}
inline void simt_trace_end_block() {}
#endif

SIMT_UNWATCHED int number_of(const Thread* thread) { return (int)(thread - threads); }

SIMT_UNWATCHED bool fail(const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(message, sizeof message, format, values);
  va_end(values);
  return false;
}

// ---- who runs ---------------------------------------------------------------------------------
SIMT_UNWATCHED Thread* next_to_run() {
  while (cursor < thread_count) {
    Thread& thread = threads[sequence[cursor++]];
    if (thread.state <= READY) return &thread;
  }
  return nullptr;
}

SIMT_UNWATCHED void become(Thread* thread) {
  current = thread;
  if (thread) threadIdx = thread->index;
  trace_thread(thread ? number_of(thread) : -1);
}

SIMT_UNWATCHED void fiber_main();

// Continues `next`, or the main context if it is null; returns when `from` is continued.
SIMT_UNWATCHED void hand_over(Context& from, Thread* next) {
  if (next && next->state == UNSTARTED) start(next->context, number_of(next), fiber_main);
  if (next) next->state = READY;
  become(next);
  watch_switch(next ? number_of(next) : -1);
  switch_to(from, next ? next->context : main_context);
}

// A thread that returns leaves its stack to the next unstarted one, so a kernel without barriers needs one stack and no
// switches.  Not for TSan, where every thread has its own history.
SIMT_UNWATCHED void fiber_main() {
  for (;;) {
    watch_thread_start(block_number);
    kernel_call();
    watch_thread_end(block_number);
    current->state = DONE;
    ++done_count;
    Thread* next = next_to_run();
    if (SIMT_TSAN || !next || next->state != UNSTARTED) {
      hand_over(dropped_context, next);
      __builtin_unreachable();
    }
    next->state = READY;
    become(next);
  }
}

// ---- barriers ---------------------------------------------------------------------------------
SIMT_UNWATCHED void wait_at(State state, int line, void* tag) {
  Thread* self = current;
  self->state = state;
  self->line = line;
  watch_arrive(tag);
  hand_over(self->context, next_to_run());
  watch_leave(tag);
}

void block_barrier(int line);
void warp_barrier(int line);

#ifdef SIMT_RUNTIME
SIMT_UNWATCHED_ENTRY void block_barrier(int line) {
  ++at_block_barrier;
  wait_at(AT_BLOCK_BARRIER, line, block_tag(block_generation));
}

SIMT_UNWATCHED_ENTRY void warp_barrier(int line) {
  wait_at(AT_WARP_BARRIER, line, warp_tag(current->warp, warp_generation[current->warp]));
}
#endif

SIMT_UNWATCHED bool release_block() {
  if (done_count) return fail("divergent barrier: %d threads of %d returned before the barrier that others wait at, "
                              "block (%u, %u, %u)", done_count, thread_count, blockIdx.x, blockIdx.y, blockIdx.z);
  for (int i = 0; i < thread_count; ++i) {
    if (threads[i].line != threads[0].line)
      return fail("divergent barrier: thread 0 waits at line %d and thread %d at line %d, block (%u, %u, %u)",
                  threads[0].line, i, threads[i].line, blockIdx.x, blockIdx.y, blockIdx.z);
    threads[i].state = READY;
  }
  at_block_barrier = 0;
  ++block_generation;
  return true;
}

// A warp continues when all its live threads wait at a warp barrier.
SIMT_UNWATCHED bool release_warps() {
  bool released = false;
  for (int first = 0; first < thread_count; first += warpSize) {
    const int last = first + warpSize < thread_count ? first + warpSize : thread_count;
    int live = 0, waiting = 0;
    for (int i = first; i < last; ++i) {
      live += threads[i].state != DONE;
      waiting += threads[i].state == AT_WARP_BARRIER;
    }
    if (!waiting || waiting != live) continue;
    for (int i = first; i < last; ++i)
      if (threads[i].state == AT_WARP_BARRIER) threads[i].state = READY;
    ++warp_generation[first / warpSize];
    released = true;
  }
  return released || fail("deadlock: threads wait at barriers that never fill, block (%u, %u, %u)",
                          blockIdx.x, blockIdx.y, blockIdx.z);
}

// ---- one block --------------------------------------------------------------------------------
SIMT_UNWATCHED void poison_shared_memory() {   // so that reading what the block did not write shows up
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  // Not memset, which the sanitizers watch even here: ASan keeps red zones in the section.
  for (volatile char* p = __start_simt_shared; p != __stop_simt_shared; ++p) *p = (char)0xA5;
#else
  memset(__start_simt_shared, 0xA5, (size_t)(__stop_simt_shared - __start_simt_shared));
#endif
}

SIMT_UNWATCHED uint64_t next_random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

SIMT_UNWATCHED void begin_phase(Order order) {
  cursor = 0;
  if (order != RANDOM) return;
  for (int i = thread_count - 1; i > 0; --i) {
    const int other = (int)(next_random() % (uint64_t)(i + 1));
    const int kept = sequence[i];
    sequence[i] = sequence[other];
    sequence[other] = kept;
  }
}

void drop_arrivals();         // of the block before, if it did not wait for them: arrivals.hpp

SIMT_UNWATCHED bool run_block(Order order) {
  poison_shared_memory();
  drop_arrivals();
  watch_block(thread_count);
  done_count = at_block_barrier = 0;
  for (int i = 0; i < thread_count; ++i) threads[i].state = UNSTARTED;
  for (;;) {
    begin_phase(order);
    if (Thread* next = next_to_run()) hand_over(main_context, next);
    if (done_count == thread_count) break;
    const bool all_at_block_barrier = at_block_barrier == thread_count - done_count;
    if (!(all_at_block_barrier ? release_block() : release_warps())) return false;
  }
  simt_trace_end_block();
  return true;
}

}  // namespace simt

#define __syncthreads() simt::block_barrier(__LINE__)
#define __syncwarp(...) simt::warp_barrier(__LINE__)
