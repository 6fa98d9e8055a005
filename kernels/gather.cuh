// Any move, one target place after another: used by gather.cu for one move and by many.cu for each of many.
//
// Numbers: GPL_ITEMS (places of a thread), GPL_FEW_ITEMS (the same, where each has a place in parameters too).
#ifndef GPL_GATHER_CUH
#define GPL_GATHER_CUH
#if !defined(GPL_ITEMS) || !defined(GPL_FEW_ITEMS)
#error "gather.cuh needs GPL_ITEMS and GPL_FEW_ITEMS"
#endif
#include "move.cuh"

#define GPL_PLACES (GPL_PARAMETERS ? GPL_FEW_ITEMS : GPL_ITEMS)

// The places of one block: GPL_PLACES per thread, 256 apart.  All loads are issued before the first store.
template <class Move>
__device__ __forceinline__ void gpl_gather_places(const void* __restrict__ source, void* __restrict__ target, const Move& move,
                                                  gpl_uint block) {
  const gpl_uint first = block * (GPL_THREADS * GPL_PLACES) + threadIdx.x;
  gpl_element value[GPL_PLACES];
  gpl_uint to[GPL_PLACES];
  GplParameters parameters[GPL_PLACES];
#pragma unroll
  for (int k = 0; k < GPL_PLACES; ++k) {
    if (first + k * GPL_THREADS >= move.total) continue;
    const GplPlace place = gpl_place<0>(first + k * GPL_THREADS, move);
    gpl_pad(move, value[k]);
    if (place.inside) value[k] = gpl_fetch<GPL_ELEMENT_BYTES>(gpl_at(source, place.source));
    to[k] = place.target, parameters[k] = place.parameters;
  }
#pragma unroll
  for (int k = 0; k < GPL_PLACES; ++k)
    if (first + k * GPL_THREADS < move.total)
      gpl_put<GPL_ELEMENT_BYTES>(gpl_at(target, to[k]), gpl_computed(value[k], gpl_operands(parameters[k], move), 0, 1, move));
}

#endif
