// Packed elements out of a tiled source to a target without tiles and gaps, whose rows may end inside of a byte.
//
// As in bits.cu a thread makes one aligned word of the target.  Every slot is decoded by itself: its coordinates by one division
// per axis, and of each coordinate c the quotients c / step * weight, which make the place in the source:
//   T(8,128) of 256 columns, (9, 130): 9 * 128 + 9 / 8 * 1024 + 130 + 130 / 128 * 896 = 3202
// The weight of step 1 is the axis's stride in the source.
#include "bits.cuh"

#define GPL_QUOTIENTS 3                  // of a coordinate, besides the stride; those without a use have weight 0

struct GplQuotient {
  GplDivisor step;
  gpl_uint weight;
};

struct GplTiledMove {
  GplMove move;
  GplQuotient quotient[GPL_AXES][GPL_QUOTIENTS];
};

__device__ __forceinline__ unsigned gpl_tiled_value(const void* source, gpl_uint number, const GplTiledMove& tiled) {
  gpl_uint slot = 0;
  bool inside = true;
#pragma unroll 1
  for (int i = 0; i < GPL_AXES; ++i) {
    const GplAxis& axis = tiled.move.axis[i];
    const gpl_uint rest = gpl_divide(number, axis.extent), coordinate = number - rest * axis.extent.value;
    number = rest;
    inside = inside && coordinate < axis.bound;
    slot += coordinate * axis.source_stride;
#pragma unroll
    for (int k = 0; k < GPL_QUOTIENTS; ++k)
      slot += gpl_divide(coordinate, tiled.quotient[i][k].step) * tiled.quotient[i][k].weight;
  }
  return inside ? gpl_slot(source, slot) : tiled.move.pad[0] & GPL_VALUE_MASK;
}

GPL_KERNEL gpl_bits_tiled(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplTiledMove tiled) {
  const GplWord32 to = gpl_target_word(tiled.move);
  unsigned word = 0;
  for (int i = to.first; i < to.last; ++i) word |= gpl_tiled_value(source, to.slot + i, tiled) << i * GPL_TARGET_BITS;
  gpl_store_word(target, to, word, tiled.move);
}
