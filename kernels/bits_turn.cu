// Packed elements with different minor axes in source and target: square blocks of slots, transposed in registers.
//
// A thread reads the GPL_SIDE rows of a block, one word each, transposes them (bits_turn.cuh), and writes the columns, one
// word each.  No shared memory is used, and one thread makes the words of a block.
//
// The axes count blocks, and `total` is the number of blocks: first up to 8 along the target, which fill one of its sectors,
// then those along the source.  Strides, and `source_step` and `target_step` from row to row of a block, count words.
//
// If a step is 1, a block is a run of words on that side.  Aligned runs are read and written in vectors of 16 bytes; a warp
// writes vectors if all its runs are aligned.  Two lanes then write both halves of a sector at once:
//   bits 4, blocks of 32 bytes: lane 0 has block 0 and gives its second half to lane 1, for the first half of block 1.  Both
//   write block 0, then both block 1
//
// Macros: GPL_SOURCE_BITS, GPL_TARGET_BITS (1 2 4), the same; those of bit_order.cuh.
#include "bit_order.cuh"
#include "move.cuh"
#include "bits_turn.cuh"

#define GPL_ALL_LANES 0xffffffffu
#define GPL_IS_ALIGNED(pointer) ((unsigned long long)(pointer) % 16 == 0)

__device__ __forceinline__ void gpl_read_rows(unsigned (&row)[GPL_SIDE], const unsigned* from, const GplMove& move) {
  if (move.source_step != 1 || !GPL_IS_ALIGNED(from)) {
#pragma unroll
    for (int p = 0; p < GPL_SIDE; ++p) row[p] = from[(gpl_int)(p * move.source_step)];
    return;
  }
#pragma unroll
  for (int p = 0; p < GPL_SIDE; p += 4) {
    const uint4 vector = *(const uint4*)(from + p);
    row[p] = vector.x, row[p + 1] = vector.y, row[p + 2] = vector.z, row[p + 3] = vector.w;
  }
}

// The words of block `number`, which begin `place` words into the target.  All lanes of a warp take part, those without a block
// too.
__device__ __forceinline__ void gpl_write_vectors(void* target, gpl_uint number, gpl_uint place, const unsigned (&row)[GPL_SIDE],
                                                  const GplMove& move) {
  const bool odd = threadIdx.x & 1;
  const gpl_uint other = __shfl_xor_sync(GPL_ALL_LANES, place, 1), half = 4 * odd;
  unsigned *even_block = gpl_at(target, (odd ? other : place) + half), *odd_block = gpl_at(target, (odd ? place : other) + half);
#pragma unroll
  for (int q = 0; q < GPL_SIDE; q += 8) {
    unsigned of_even[4], of_odd[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned lower = row[q + i], upper = row[q + 4 + i];
      const unsigned given = __shfl_xor_sync(GPL_ALL_LANES, odd ? lower : upper, 1);
      of_even[i] = odd ? given : lower, of_odd[i] = odd ? upper : given;
    }
    if ((number & ~(gpl_uint)1) < move.total) *(uint4*)(even_block + q) = make_uint4(of_even[0], of_even[1], of_even[2], of_even[3]);
    if ((number | 1) < move.total) *(uint4*)(odd_block + q) = make_uint4(of_odd[0], of_odd[1], of_odd[2], of_odd[3]);
  }
}

GPL_KERNEL gpl_bits_turn(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint number = gpl_block() * GPL_THREADS + threadIdx.x;
  const bool exists = number < move.total;
  const GplPlace block = gpl_place<0>(number, move);
  unsigned row[GPL_SIDE];
#pragma unroll
  for (int p = 0; p < GPL_SIDE; ++p) row[p] = move.pad[0];
  if (exists && block.inside) {
    gpl_read_rows(row, gpl_at(source, block.source), move);
#pragma unroll
    for (int p = 0; p < GPL_SIDE; ++p) row[p] = gpl_from_source(row[p]);
    gpl_transpose_bits(row);
#pragma unroll
    for (int q = 0; q < GPL_SIDE; ++q) row[q] = gpl_to_target(row[q]);
  }
  unsigned* to = gpl_at(target, block.target);
  if (move.target_step == 1 && __all_sync(GPL_ALL_LANES, !exists || GPL_IS_ALIGNED(to))) {
    gpl_write_vectors(target, number, block.target, row, move);
    return;
  }
  if (!exists) return;
#pragma unroll
  for (int q = 0; q < GPL_SIDE; ++q) to[(gpl_int)(q * move.target_step)] = row[q];
}
