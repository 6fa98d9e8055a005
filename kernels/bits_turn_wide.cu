// Packed elements with different minor axes in source and target, in vectors on both sides: blocks of whole words as in
// bits_turn.cu, several of a thread side by side.
//
// A thread has W = GPL_WORDS blocks side by side along a, the source's minor axis.  It reads their GPL_SIDE rows, a vector of W
// words each, and transposes the blocks (bits_turn.cuh): word by word they make the rows of the target.  W lanes that are
// neighbours along b, the target's minor axis, exchange their words, and each writes every W-th row in vectors of W words.
//   bits 4, W = 4: 8 vectors of 16 bytes in, 4 blocks, 32 rows of the target; lane 1 of 4 writes the rows 1, 5, .. 29
//
// A warp has 8 x 4 threads, 8 words along b and 4 vectors along a, so it reads and writes whole sectors:
//   bits 4: 4 * 16 bytes of 64 rows, and 8 * 4 bytes of 128 rows        bits 2: 4 * 8 bytes of 128 rows, 32 bytes of 128
// The 8 warps of a tile lie tile[0] along b by 8 / tile[0] along a: 4 by 2 with 4 bits make 128 bytes both ways.
//
// Axis 0 counts the words of b, axis 1 the vectors of a, count[0] and count[1] their tiles, and `total` the combinations of
// all other coordinates.  Strides, and `source_step` and `target_step` from row to row, count words.
//
// Macros: GPL_SOURCE_BITS, GPL_TARGET_BITS (2 4), the same; GPL_WORDS (2 4); those of bit_order.cuh.
// Numbers: GPL_ALONG (lanes of a warp along b).
#if !defined(GPL_WORDS) || !defined(GPL_ALONG)
#error "bits_turn_wide.cu needs GPL_WORDS and GPL_ALONG"
#endif
#include "bit_order.cuh"
#include "move.cuh"
#include "bits_turn.cuh"

#define GPL_ACROSS (GPL_LANES / GPL_ALONG)                             // lanes of a warp along a
typedef GplWord<4 * GPL_WORDS>::type gpl_vector;

union GplWords {
  gpl_vector vector;
  unsigned word[GPL_WORDS];
};

// Word p of a block of lane j becomes word p - p % W + j of lane p % W, for W neighbouring lanes.
__device__ __forceinline__ void gpl_exchange(unsigned (&word)[GPL_SIDE]) {
#pragma unroll
  for (int step = 1; step < GPL_WORDS; step *= 2) {
    const bool upper = threadIdx.x & step;
#pragma unroll
    for (int p = 0; p < GPL_SIDE; ++p) {
      if (p & step) continue;
      const unsigned given = __shfl_xor_sync(~0u, upper ? word[p] : word[p + step], step);
      if (upper) word[p] = given;
      else word[p + step] = given;
    }
  }
}

GPL_KERNEL gpl_bits_turn_wide(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint above = gpl_divide(gpl_block(), move.count[0]), others = gpl_divide(above, move.count[1]);
  if (others >= move.total) return;                                    // the whole block
  const unsigned lane = threadIdx.x % GPL_LANES, warp = threadIdx.x / GPL_LANES, warp_a = gpl_divide_small(warp, move.tile[0]);
  const unsigned warps = (unsigned)move.tile[0].value, warp_b = warp - warp_a * warps;
  const gpl_uint tile_b = gpl_block() - above * move.count[0].value, tile_a = above - others * move.count[1].value;
  const gpl_uint b = (tile_b * warps + warp_b) * GPL_ALONG + lane % GPL_ALONG;
  const gpl_uint a = (tile_a * (unsigned)move.tile[1].value + warp_a) * GPL_ACROSS + lane / GPL_ALONG;
  const bool exists = b < move.axis[0].extent.value && a < move.axis[1].extent.value;
  const GplPlace place = gpl_place<2>(others, move);

  unsigned word[GPL_WORDS][GPL_SIDE];
#pragma unroll
  for (int i = 0; i < GPL_WORDS; ++i)
#pragma unroll
    for (int p = 0; p < GPL_SIDE; ++p) word[i][p] = move.pad[0];
  if (exists && place.inside && b < move.axis[0].bound && a < move.axis[1].bound) {
    const unsigned* from = gpl_at(source, place.source + b * move.axis[0].source_stride + a * GPL_WORDS);
#pragma unroll
    for (int p = 0; p < GPL_SIDE; ++p) {
      GplWords row;
      row.vector = *(const gpl_vector*)(from + (gpl_int)(p * move.source_step));
#pragma unroll
      for (int i = 0; i < GPL_WORDS; ++i) word[i][p] = row.word[i];
    }
#pragma unroll
    for (int i = 0; i < GPL_WORDS; ++i) {
#pragma unroll
      for (int p = 0; p < GPL_SIDE; ++p) word[i][p] = gpl_from_source(word[i][p]);
      gpl_transpose_bits(word[i]);
#pragma unroll
      for (int q = 0; q < GPL_SIDE; ++q) word[i][q] = gpl_to_target(word[i][q]);
    }
  }
#pragma unroll
  for (int i = 0; i < GPL_WORDS; ++i) gpl_exchange(word[i]);                // all lanes, those without a block too
  if (!exists) return;
  const unsigned own = lane % GPL_WORDS;                               // its rows; the lane's vectors begin with word b - own
  unsigned* to = gpl_at(target, place.target + (b - own) + a * move.axis[1].target_stride + own * move.target_step);
#pragma unroll
  for (int t = 0; t < GPL_WORDS * GPL_SIDE; t += GPL_WORDS) {
    GplWords row;
#pragma unroll
    for (int i = 0; i < GPL_WORDS; ++i) row.word[i] = word[t / GPL_SIDE][t % GPL_SIDE + i];
    *(gpl_vector*)(to + (gpl_int)(t * move.target_step)) = row.vector;
  }
}
