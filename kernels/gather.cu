// General gather: any move at all, one target place after the other.  The last resort: writes are contiguous, reads
// go where the strides say, so a warp may fetch 32 sectors of 32 bytes for 32 elements.
//
// `total` is the number of places.  One thread fills GPL_ITEMS of them, 256 apart, and has all its loads under way
// before the first store.  A place is decoded by one division per axis, minor first:
//   extents 3, 5: place 7 -> coordinates (7 % 3, 7 / 3) = (1, 2)
#include "move.cuh"

#define GPL_ITEMS 4

GPL_KERNEL gpl_gather(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint first = gpl_block() * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;
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
