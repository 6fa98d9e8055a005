// Packed elements with different minor axes in source and target: square blocks of slots, transposed in registers.
//
// A thread reads the GPL_SIDE rows of a block, one word each, transposes them (bits_turn.cuh), and writes the columns, one
// word each.  No shared memory is used, and one thread writes each word.
//
// The axes count blocks, and `total` is the number of blocks: first up to 8 along the target, which fill one of its sectors,
// then those along the source.  Strides, and `source_step` and `target_step` from row to row of a block, count words.
//
// Macros: GPL_SOURCE_BITS (1 2 4), the same on both sides.
#include "move.cuh"
#include "bits_turn.cuh"

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
