// Packed elements with different minor axes in source and target: square blocks of slots, transposed in registers.
//
// A word has GPL_SIDE slots.  A thread reads the GPL_SIDE rows of a block, one word each, transposes them, and writes the
// columns, one word each: slot q of row p becomes slot p of row q.  No shared memory is used, and one thread writes each word.
//   bits 4: 8 words of 8 slots.  Squares swap across the diagonal, first of 4 x 4 slots, then 2 x 2, then single slots:
//   half-words of rows p and p + 4, bytes of rows p and p + 2, nibbles of rows p and p + 1.
//
// The axes count blocks, and `total` is the number of blocks: first up to 8 along the target, which fill one of its sectors,
// then those along the source.  Strides, and `source_step` and `target_step` from row to row of a block, count words.
//
// Macros: GPL_SOURCE_BITS (1 2 4), the same on both sides.
#include "move.cuh"

#define GPL_SIDE (32 / GPL_SOURCE_BITS)

__device__ __forceinline__ void gpl_transpose_bits(unsigned (&row)[GPL_SIDE]) {
#pragma unroll
  for (int half = GPL_SIDE / 2; half > 0; half /= 2) {
    const int shift = half * GPL_SOURCE_BITS;
    const unsigned lower = ~0u / ((1u << shift) + 1);              // shift 8: 0x00ff00ff
#pragma unroll
    for (int p = 0; p < GPL_SIDE; ++p) {
      if (p & half) continue;
      const unsigned swapped = (row[p] >> shift ^ row[p + half]) & lower;
      row[p] ^= swapped << shift;
      row[p + half] ^= swapped;
    }
  }
}

GPL_KERNEL gpl_bits_turn(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint number = gpl_block() * GPL_THREADS + threadIdx.x;
  if (number >= move.total) return;
  const GplPlace block = gpl_place<0>(number, move);
  unsigned row[GPL_SIDE];
#pragma unroll
  for (int p = 0; p < GPL_SIDE; ++p) row[p] = move.pad[0];
  if (block.inside) {
#pragma unroll
    for (int p = 0; p < GPL_SIDE; ++p) row[p] = *gpl_at(source, block.source + p * move.source_step);
    gpl_transpose_bits(row);
  }
#pragma unroll
  for (int q = 0; q < GPL_SIDE; ++q) *gpl_at(target, block.target + q * move.target_step) = row[q];
}
