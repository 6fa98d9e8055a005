// Packed elements to a target with gaps: unpacked to a strided array, or packed to runs of whole bytes.
//
// One thread makes GPL_ITEMS bytes of the target, 256 apart, as gather.cu does.  `total` counts the bytes of the target.
// All slots of a byte are in one run of the minor axis:
//   bits 4, extents 6, 2: byte 4 holds the places 8 and 9, which are (2, 1) and (3, 1)
//
// Macros: those of bits.cuh.  Numbers: GPL_ITEMS.
#if !defined(GPL_ITEMS)
#error "bits_any.cu needs GPL_ITEMS"
#endif
#include "bits.cuh"

#define GPL_TARGET_SLOTS (8 / GPL_TARGET_BITS)

GPL_KERNEL gpl_bits_any(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint first = gpl_block() * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;
  unsigned value[GPL_ITEMS];
  gpl_uint to[GPL_ITEMS];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    if (first + k * GPL_THREADS >= move.total) continue;
    GplWalk walk = gpl_walk((first + k * GPL_THREADS) * GPL_TARGET_SLOTS, move);
    to[k] = (walk.outer.target + walk.minor * move.axis[0].target_stride) / GPL_TARGET_SLOTS;
    value[k] = 0;
#pragma unroll
    for (int i = 0; i < GPL_TARGET_SLOTS; ++i, ++walk.minor) value[k] |= gpl_value(source, walk, move) << i * GPL_TARGET_BITS;
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k)
    if (first + k * GPL_THREADS < move.total) *gpl_at(target, to[k]) = (unsigned char)gpl_to_target(value[k]);
}
