// Any move, one target place after another: used by gather.cu for one move and by many.cu for each of many.
//
// Numbers: GPL_ITEMS (places of a thread).
#ifndef GPL_GATHER_CUH
#define GPL_GATHER_CUH
#if !defined(GPL_ITEMS)
#error "gather.cuh needs GPL_ITEMS"
#endif
#include "move.cuh"

// The places of one block: GPL_ITEMS per thread, 256 apart.  All loads are issued before the first store.
template <class Move>
__device__ __forceinline__ void gpl_gather_places(const void* __restrict__ source, void* __restrict__ target, const Move& move,
                                                  gpl_uint block) {
  const gpl_uint first = block * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;
  gpl_element value[GPL_ITEMS];
  gpl_uint to[GPL_ITEMS];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    if (first + k * GPL_THREADS >= move.total) continue;
    const GplPlace place = gpl_place<0>(first + k * GPL_THREADS, move);
    gpl_pad(move, value[k]);
    if (place.inside) value[k] = *gpl_at(source, place.source);
    to[k] = place.target;
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k)
    if (first + k * GPL_THREADS < move.total) *gpl_at(target, to[k]) = value[k];
}

#endif
