// Copies from global to shared memory that take no registers while they are under way, from sm_80 on.
//
//   for (...) { GplArrival<4> word; word.begin(place, from); word.end(place); }     a few copies begin
//   gpl_arrivals_end();                                                             they are a group
//   gpl_wait_for_arrivals<1>();                                                     all groups of the thread but the last are there
//   __syncthreads();                                                                those of the others, too
//
// The device copies 4, 8 or 16 bytes so.  Fewer bytes, elements that have another size in the source, and all bytes before sm_80
// go through a register: begin() loads them and end() stores them, so that several loads can be under way in between.
#ifndef GPL_ARRIVE_CUH
#define GPL_ARRIVE_CUH
#include "move.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define GPL_ARRIVES(BYTES) false
#else
#define GPL_ARRIVES(BYTES) ((BYTES) >= 4 && GPL_SOURCE_BYTES == GPL_ELEMENT_BYTES)
#endif

// One copy of BYTES bytes to an address of shared memory.
template <int BYTES>
struct GplArrival {
  typedef typename GplWord<BYTES>::type word;
  word held;

  __device__ __forceinline__ void begin(void* to, const gpl_source_element* from) {
    if constexpr (!GPL_ARRIVES(BYTES)) held = gpl_fetch<BYTES>(from);
    else {
#ifdef __CUDA_ARCH__
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(BYTES));
#else
      __pipeline_memcpy_async(to, from, BYTES);
#endif
    }
  }

  // Instead of begin(): a value that is known.
  __device__ __forceinline__ void set(void* to, const word& value) {
    if constexpr (GPL_ARRIVES(BYTES)) *(word*)to = value;
    else held = value;
  }

  __device__ __forceinline__ void end(void* to) const {
    if constexpr (!GPL_ARRIVES(BYTES)) *(word*)to = held;
  }
};

__device__ __forceinline__ void gpl_arrivals_end() {
#ifndef __CUDA_ARCH__
  __pipeline_commit();
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;");
#endif
}

template <int LEFT>
__device__ __forceinline__ void gpl_wait_for_arrivals() {
#ifndef __CUDA_ARCH__
  __pipeline_wait_prior(LEFT);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

#endif
