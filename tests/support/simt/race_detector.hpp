// Tells ThreadSanitizer which thread runs, and what a barrier orders.
//
// Without -fsanitize=thread, everything here is empty.  A tag is an address; acquiring a tag orders a fiber after all that
// released it.
//
//   BLOCK  every thread of a block is a TSan fiber.  Blocks are ordered one after another, because they reuse the storage of
//          shared memory.  Finds races between the threads of a block.
//   GRID   every block is one new TSan fiber; shared memory and stacks are ignored.  Finds races between blocks, in global
//          memory.
#pragma once
#include <stddef.h>

#include "fibers.hpp"
#include "unwatched.hpp"

namespace simt {

enum Races { BLOCK = 0, GRID = 1 };
static const int MAX_WARPS = 32;

#if SIMT_TSAN

extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned);
void __tsan_destroy_fiber(void*);
void __tsan_switch_to_fiber(void*, unsigned);
void __tsan_acquire(void*);
void __tsan_release(void*);
void AnnotateBenignRaceSized(const char*, int, const volatile void*, size_t, const char*);
}

static Races races;
// One set per process, like the stacks in fibers.hpp: TSan allows about 8000 fibers, and takes most of a millisecond to
// make one.  It forgets the stack of a destroyed fiber, so the last few thousand are kept for reports that name both sides.
struct FiberPool {
  void *block, *threads[1024], *retired[4096];
  int next;
};
__attribute__((visibility("default"))) inline FiberPool fiber_pool;

static long long start_tag, end_tags[2];
static void* main_fiber;

// Two tags per barrier, used in turn: a thread that leaves one barrier late must not be ordered after a thread that already
// waits at the next.
static long long block_tags[2], warp_tags[MAX_WARPS][2];

SIMT_UNWATCHED void watch_launch(Races mode, void* shared, size_t shared_bytes) {
  races = mode;
  main_fiber = __tsan_get_current_fiber();
  if (races == GRID) {   // every block reuses these
    AnnotateBenignRaceSized(__FILE__, __LINE__, shared, shared_bytes, "shared memory");
    AnnotateBenignRaceSized(__FILE__, __LINE__, stack_memory(), POOL, "stacks");
  }
  __tsan_release(&start_tag);
}

SIMT_UNWATCHED void retire(void* fiber) {
  void*& oldest = fiber_pool.retired[fiber_pool.next];
  if (oldest) __tsan_destroy_fiber(oldest);
  oldest = fiber;
  fiber_pool.next = (fiber_pool.next + 1) % 4096;
}

// Called on the main fiber, because a fiber is ordered after the one that created it.
SIMT_UNWATCHED void watch_block(int threads) {
  if (races == GRID) {
    if (fiber_pool.block) retire(fiber_pool.block);
    fiber_pool.block = __tsan_create_fiber(0);
  } else {
    for (int i = 0; i < threads; ++i)
      if (!fiber_pool.threads[i]) fiber_pool.threads[i] = __tsan_create_fiber(0);
  }
}

// Thread -1 is the main context.  With flag 1 the switch itself orders nothing, so the fibers stay concurrent.
SIMT_UNWATCHED void watch_switch(int thread) {
  __tsan_switch_to_fiber(thread < 0 ? main_fiber : races == GRID ? fiber_pool.block : fiber_pool.threads[thread], 1);
}

SIMT_UNWATCHED void watch_thread_start(long long block) {
  __tsan_acquire(&start_tag);
  if (races == BLOCK) __tsan_acquire(&end_tags[~block & 1]);   // the block before this one
}
SIMT_UNWATCHED void watch_thread_end(long long block) { __tsan_release(&end_tags[block & 1]); }
SIMT_UNWATCHED void watch_launch_end() {
  __tsan_acquire(&end_tags[0]);
  __tsan_acquire(&end_tags[1]);
}

SIMT_UNWATCHED void* block_tag(long long generation) { return &block_tags[generation & 1]; }
SIMT_UNWATCHED void* warp_tag(int warp, long long generation) { return &warp_tags[warp][generation & 1]; }
SIMT_UNWATCHED void watch_arrive(void* tag) {
  if (races == BLOCK) __tsan_release(tag);
}
SIMT_UNWATCHED void watch_leave(void* tag) {
  if (races == BLOCK) __tsan_acquire(tag);
}

#else

#ifdef SIMT_TRACE
extern "C" void simt_trace_shared(const void*, size_t);
SIMT_UNWATCHED void watch_launch(Races, void* shared, size_t shared_bytes) { simt_trace_shared(shared, shared_bytes); }
#else
inline void watch_launch(Races, void*, size_t) {}
#endif
inline void watch_block(int) {}
inline void watch_switch(int) {}
inline void watch_thread_start(long long) {}
inline void watch_thread_end(long long) {}
inline void watch_launch_end() {}
inline void* block_tag(long long) { return nullptr; }
inline void* warp_tag(int, long long) { return nullptr; }
inline void watch_arrive(void*) {}
inline void watch_leave(void*) {}

#endif

}  // namespace simt
