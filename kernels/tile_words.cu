// Tile through shared memory for elements of 1 and 2 bytes whose rows begin anywhere: odd pitches, extents and addresses.
//
// As in tile.cu, the target's minor axis b (axis 0) differs from the source's minor axis a (axis 1).  Both sides move in
// aligned words of 4 bytes, one per lane, so that a warp reads or writes 128 contiguous bytes; a word has
// E = 4 / element bytes elements.  The phase of a row is the number of elements between the start of a word and the row:
// q(b) for rows of the source, p(a) for rows of the target.  Both come from the addresses.
//
// Reading, u8: the elements a0, a1, ... of a row in memory, with q = 3, and in shared memory:
//
//   memory               | .  .  .  a0 | a1 a2 a3 a4 | a5 a6 a7 a8 |  ...  | a121 .. a124 |       32 aligned words
//                          lane 0        lane 1        lane 2                lane 31
//   shared memory, row r | .  .  .  a0 | a1 a2 a3 a4 | a5 a6 a7 a8 |  ...  | a121 .. a124 |       unchanged, from word
//                                                                                                32 r + r / E on
//   banks, row 0           0             1             2             ...     31
//          row 4           1             2             3             ...     0                    one further every E rows
//
//   reading:  row b enters shared memory as the 32 words from the tile's first element on, unchanged: element a is q(b)
//             elements further along.  So 32 words hold 32 E - (E - 1) elements at any q, and a tile is 125 elements of 1
//             byte along a, or 63 of 2 bytes; 128 or 64 if the host knows that all q are 0.
//   writing:  lane l assembles word l of row a from E single elements, of the rows E l - p(a) + i for i = 0 .. E - 1.
//             Row a of a tile begins at a multiple of GPL_ALIGN bytes in the target, P(a) >= p(a) elements before b: it covers
//             b - P(a) to b - P(a) + 128.  So a tile reads up to G - 1 = GPL_ALIGN / element bytes - 1 rows before its 128.
//             With 32 bytes, neighbouring tiles share no sector: the cache reads and writes one that is written in part
//             for each part.  On an H100, u8[32749,8191] turned reaches 0.88 of a copy with 32 bytes and 0.63 with 4.
//   ends:     a word that is partly outside its row is still read whole if it is in the source's memory; what it holds
//             of other rows is never written, and becomes pad only in padded tiles.  Elements of the target in words that
//             are not whole are left to a second loop, in which all threads take such elements of all rows.
// The rows of a warp are 8 apart, and 8 rows are whole words, so all have the same p: a thread computes it once, and all its
// addresses are its first ones plus known steps.  Rows with the same P are 32 apart with elements of 1 byte, 16 with 2: a
// warp writes its rows in turns, each of rows with the same P.
//
// Shared memory holds row r at 32 r + r / E words.  A read stores 32 neighbouring words.  For a write, the rows of the lanes
// are E apart and have the same phase, so each lane takes the same word of its row, in bank (r / E + word) % 32, all different.
//
// Example, u8 with pitches 8191 and 32749, source and target at multiples of 4: row 5 of the source begins at byte 40955,
// 3 past a word: q = 3.  The warp loads the words from byte 40952 on, and element a = 7 of the row is byte 10 of those.
// Row 7 of the target begins at byte 229243, 3 past a word and 27 past a sector: p = 3, P = 27.  Lane 0 of the second tile
// writes the word at 229216 + 128, the places b = 101 to 104 of the row.
//
// 128 bytes from any word on touch 4.9 sectors of the source on average, 4 at best.
// tile[1] is the tile along a; count[0], count[1] are the tiles along b and a, `total` the number of all tiles.
//
// Macros: those of move.cuh, GPL_ALIGN (4 or 32).
// Numbers: GPL_TILE_B (of a tile, in elements), GPL_GROUP (rows of a thread that are read together where a tile lacks rows),
// GPL_BLOCKS (of a multiprocessor, for which registers leave room).
#if !defined(GPL_TILE_B) || !defined(GPL_GROUP) || !defined(GPL_ALIGN) || !defined(GPL_BLOCKS)
#error "tile_words.cu needs GPL_TILE_B, GPL_GROUP, GPL_ALIGN and GPL_BLOCKS"
#endif
#include "move.cuh"

#define GPL_E (4 / GPL_ELEMENT_BYTES)
#define GPL_G (GPL_ALIGN / GPL_ELEMENT_BYTES)
#define GPL_ROWS (GPL_TILE_B + GPL_G - 1)            // of shared memory
#define GPL_WARPS (GPL_THREADS / GPL_LANES)
#define GPL_WORD_AT(row) ((row) * GPL_LANES + (row) / GPL_E)
#define GPL_READ_PASSES ((GPL_ROWS + GPL_WARPS - 1) / GPL_WARPS)
#define GPL_WRITE_PASSES (GPL_LANES * GPL_E / GPL_WARPS)
#define GPL_PERIOD (GPL_ALIGN > GPL_WARPS * GPL_ELEMENT_BYTES ? GPL_ALIGN / (GPL_WARPS * GPL_ELEMENT_BYTES) : 1)
#define GPL_PARTS (GPL_TILE_B / (GPL_LANES * GPL_E)) // words of a lane in a row of the target

struct GplWords {
  gpl_uint a, b;                                     // first coordinates; rows are read from b - (G - 1) on
  GplPlace place;                                    // of a = b = 0 in the tile's other axes
  const gpl_element* first;                          // of the first row that is read
  unsigned lane, warp;
};

__device__ __forceinline__ GplWords gpl_words(gpl_uint number, const void* source, const GplMove& move) {
  const gpl_uint above = gpl_divide(number, move.count[0]), others = gpl_divide(above, move.count[1]);
  const unsigned thread = threadIdx.x & (GPL_THREADS - 1);
  GplWords tile;
  tile.b = (number - above * move.count[0].value) * GPL_TILE_B;
  tile.a = (above - others * move.count[1].value) * move.tile[1].value;
  tile.place = gpl_place<2>(others, move);
  tile.first = gpl_at(source, tile.place.source + tile.a + (tile.b - (GPL_G - 1)) * move.axis[0].source_stride);
  tile.lane = thread % GPL_LANES, tile.warp = thread / GPL_LANES;
  return tile;
}

// Elements from the start of an address's word to the address.
__device__ __forceinline__ unsigned gpl_phase(unsigned address) { return (address & 3) / GPL_ELEMENT_BYTES; }
// The whole words between a multiple of GPL_ALIGN and an address.
__device__ __forceinline__ unsigned gpl_words_before(unsigned address) { return address / 4 % (GPL_ALIGN / 4); }
__device__ __forceinline__ unsigned gpl_low(const void* address) { return (unsigned)(unsigned long long)address; }

__device__ __forceinline__ unsigned gpl_least(gpl_uint left, unsigned most) { return left < most ? (unsigned)left : most; }

// In padded tiles, the bits that a lane keeps of its words, which begin with element `a` of rows of `bound` elements; `rest`
// fills the others.
struct GplMask {
  unsigned keep, rest;
};

__device__ __forceinline__ GplMask gpl_mask(gpl_uint a, gpl_uint bound, const GplMove& move) {
  GplMask mask = {0, 0};
#pragma unroll
  for (unsigned i = 0; i < GPL_E; ++i)
    if (a + i < bound) mask.keep |= (~0u >> (32 - 8 * GPL_ELEMENT_BYTES)) << 8 * GPL_ELEMENT_BYTES * i;
  gpl_pad(move, mask.rest);
  mask.rest &= ~mask.keep;
  return mask;
}

// True if a lane's words of all rows of a tile are in the source's memory, so that they may be read even if they extend past
// the ends of rows.  `word` is the offset of its word in row 0.
__device__ __forceinline__ bool gpl_in_memory(gpl_uint word, const GplWords& tile, const GplMove& move) {
  const gpl_uint bound = move.axis[0].bound, stride = move.axis[0].source_stride;
  const gpl_uint b = tile.b < GPL_G - 1 ? 0 : tile.b - (GPL_G - 1);
  const gpl_uint first = word + b * stride, last = word + (min(tile.b + GPL_TILE_B, bound) - 1) * stride;
  return (gpl_int)(first - move.low) >= 0 && (gpl_int)(move.high - first) >= GPL_E && (gpl_int)(last - move.low) >= 0 &&
         (gpl_int)(move.high - last) >= GPL_E;
}

// The words of a thread: one in every eighth row.
struct GplColumn {
  const gpl_element* from;
  unsigned* to;
  unsigned rows;                                     // from its first one on; every eighth is the thread's
  gpl_uint a;                                        // first element of its words, perhaps in front of the row
  bool reads, slow;                                  // it reads whole words; it reads single elements
};

// INNER: all words of all rows are inside.
template <bool INNER>
__device__ __forceinline__ GplColumn gpl_column(const GplWords& tile, unsigned* shared, const GplMove& move) {
  const gpl_uint stride = move.axis[0].source_stride, bound = tile.place.inside ? move.axis[1].bound : 0;
  // In front of the first row of the source there is none; the warps that would read there begin with a later row.
  const bool none = !INNER && tile.b == 0 && tile.warp < GPL_G - 1;
  const unsigned front = none ? (GPL_G + GPL_WARPS - 2 - tile.warp) / GPL_WARPS * GPL_WARPS : 0, row = tile.warp + front;
  const gpl_element* first = tile.first + (gpl_int)(row * stride);
  const gpl_uint below = move.axis[0].bound + (GPL_G - 1);           // rows from b = -(G - 1) on
  const unsigned q = gpl_phase(gpl_low(first)), end = INNER ? GPL_ROWS : gpl_least(below - min(tile.b, below), GPL_ROWS);
  GplColumn column = {first - q + tile.lane * GPL_E, shared + GPL_WORD_AT(row) + tile.lane, end > row ? end - row : 0,
                      tile.a - q + tile.lane * GPL_E};
  const bool all = INNER || (column.a < bound && bound - column.a >= GPL_E), some = (gpl_int)(column.a - bound) < 0 && bound;
  column.reads = all || (some && gpl_in_memory(tile.place.source + column.a, tile, move));
  column.slow = some && !column.reads;
  return column;
}

// A thread loads all its words before it stores the first.  WHOLE: only the last row may be missing.  Else there are groups of
// rows, and the last group begins so early that it has all its rows: it reads some again.  That takes no predicates, of which
// a thread has 7: with one for each row, a compiler would wait after every fifth load.
template <bool WHOLE, bool PADDED, bool INNER>
__device__ __forceinline__ void gpl_read_words(const GplWords& tile, unsigned* shared, const GplMove& move) {
  constexpr unsigned N = WHOLE ? GPL_READ_PASSES : GPL_GROUP, GROUPS = (GPL_READ_PASSES + N - 1) / N;
  const gpl_int step = (gpl_int)(GPL_WARPS * move.axis[0].source_stride);
  const GplColumn column = gpl_column<INNER>(tile, shared, move);
  const GplMask mask = PADDED ? gpl_mask(column.a, move.axis[1].bound, move) : GplMask{~0u, 0};
  const unsigned count = (column.rows + GPL_WARPS - 1) / GPL_WARPS, least = WHOLE ? 1 : N;
  if (column.reads && count >= least) {
    unsigned value[GROUPS][N];
#pragma unroll
    for (unsigned pass = 0; pass < 2; ++pass) {
#pragma unroll
      for (unsigned g = 0; g < GROUPS; ++g) {
        if (g * N >= count) break;
        const unsigned first = WHOLE ? 0 : min(g * N, count - N);
        const gpl_element* const from = column.from + (long long)step * (int)first;
        unsigned* const to = column.to + first * GPL_WORD_AT(GPL_WARPS);
#pragma unroll
        for (unsigned k = 0; k < N; ++k) {
          if (WHOLE && k + 1 == N && k >= count) continue;
          if (pass == 0) value[g][k] = *(const unsigned*)(from + k * (long long)step);
          else to[GPL_WORD_AT(k * GPL_WARPS)] = (value[g][k] & mask.keep) | mask.rest;
        }
      }
    }
  }
  // The first and the last words of the source's memory, and words of a few rows: element by element.
  const bool slow = column.slow || (column.reads && count < least);
#pragma unroll 1
  for (unsigned row = 0; !INNER && slow && row < column.rows; row += GPL_WARPS)
    column.to[GPL_WORD_AT(row)] =
        gpl_load<4, 4>(column.from + row / GPL_WARPS * (long long)step, column.a, move.axis[1].bound, move).word;
}

// A word of E elements, each in the low bytes of its own register.
__device__ __forceinline__ unsigned gpl_joined(const unsigned (&element)[GPL_E]) {
#if GPL_ELEMENT_BYTES == 1
  return __byte_perm(__byte_perm(element[0], element[1], 0x0040), __byte_perm(element[2], element[3], 0x0040), 0x5410);
#else
  return __byte_perm(element[0], element[1], 0x5410);
#endif
}

template <bool WHOLE, bool INNER>
__device__ __forceinline__ void gpl_write_words(const GplWords& tile, void* __restrict__ target, const unsigned* shared,
                                                const GplMove& move) {
  const gpl_uint stride = move.axis[1].target_stride, extent = move.axis[0].extent.value;
  const unsigned down = gpl_least(move.axis[1].extent.value - tile.a, (unsigned)move.tile[1].value);     // rows of the target
  gpl_element* row = gpl_at(target, tile.place.target + tile.b + (tile.a + tile.warp) * stride);
  const unsigned p = gpl_phase(gpl_low(row));
  const gpl_uint b = tile.b - p + tile.lane * GPL_E;
  gpl_element* const to = row - p + tile.lane * GPL_E;
  const gpl_int step = (gpl_int)(GPL_WARPS * stride);
  const gpl_element* from[GPL_E];
#pragma unroll
  for (unsigned i = 0; i < GPL_E; ++i) {
    const unsigned above = GPL_G - 1 - p + i;        // the row of lane 0; the rows of all lanes have its phase
    const unsigned q = gpl_phase(gpl_low(tile.first) + above * (unsigned)move.axis[0].source_stride * GPL_ELEMENT_BYTES);
    from[i] = (const gpl_element*)(shared + GPL_WORD_AT(above + tile.lane * GPL_E)) + q + tile.warp;
  }
  // Rows GPL_PERIOD passes apart begin at the same place of a sector.
#pragma unroll WHOLE ? GPL_PERIOD : 1
  for (unsigned turn = 0; turn < GPL_PERIOD; ++turn) {
    const int left = gpl_words_before(gpl_low(row + turn * (long long)step)), back = left * GPL_WORD_AT(GPL_E) * GPL_E;
    gpl_element* const at = to + turn * (long long)step - left * GPL_E;
    const gpl_element* spot[GPL_E];
#pragma unroll
    for (unsigned i = 0; i < GPL_E; ++i) spot[i] = from[i] - back + turn * GPL_WARPS;
    bool full[GPL_PARTS];                            // the lane's word is whole
#pragma unroll
    for (unsigned part = 0; part < GPL_PARTS; ++part) {
      const gpl_uint start = b + part * GPL_LANES * GPL_E - left * GPL_E;
      full[part] = start < extent && extent - start >= GPL_E;
    }
#pragma unroll
    for (unsigned pass = 0; pass < GPL_WRITE_PASSES; pass += GPL_PERIOD) {
      if ((!WHOLE || pass + GPL_PERIOD >= GPL_WRITE_PASSES) && (pass + turn) * GPL_WARPS + tile.warp >= down) break;
#pragma unroll
      for (unsigned part = 0; part < GPL_PARTS; ++part) {
        const unsigned right = part * GPL_LANES * GPL_E;
        if (!INNER && GPL_PARTS == 1 && !full[part]) continue;
        unsigned element[GPL_E];
#pragma unroll
        for (unsigned i = 0; i < GPL_E; ++i) element[i] = spot[i][pass * GPL_WARPS + GPL_WORD_AT(right) * GPL_E];
        if (INNER || full[part]) *(unsigned*)(at + pass * (long long)step + right) = gpl_joined(element);
      }
    }
  }
}

// The elements of words that are not whole, in front of the first one of each row and behind the last: E for each row and end.
__device__ __forceinline__ void gpl_write_ends(const GplWords& tile, void* __restrict__ target, const unsigned* shared,
                                               const GplMove& move) {
  const gpl_uint extent = move.axis[0].extent.value;
  const unsigned down = gpl_least(move.axis[1].extent.value - tile.a, (unsigned)move.tile[1].value);
#pragma unroll 1
  for (unsigned k = threadIdx.x; k < down * GPL_E; k += GPL_THREADS) {
    const unsigned a = k / GPL_E, i = k % GPL_E;
    gpl_element* row = gpl_at(target, tile.place.target + (tile.a + a) * move.axis[1].target_stride);
    const unsigned p = gpl_phase(gpl_low(row)), left = gpl_words_before(gpl_low(row)) * GPL_E;
    const gpl_uint last = (extent + p) / GPL_E * GPL_E, word[2] = {0, last};
#pragma unroll
    for (unsigned end = 0; end < 2; ++end) {
      const gpl_uint b = word[end] + i - p;
      if (word[end] + left - tile.b >= GPL_TILE_B || b >= extent || (end == 0 && p == 0)) continue;
      const unsigned line = (unsigned)(b - tile.b) + GPL_G - 1;
      const unsigned q = gpl_phase(gpl_low(tile.first) + line * (unsigned)move.axis[0].source_stride * GPL_ELEMENT_BYTES);
      row[(gpl_int)b] = ((const gpl_element*)(shared + GPL_WORD_AT(line)))[q + a];
    }
  }
}

GPL_KERNEL_OF(GPL_BLOCKS) gpl_tile_words(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  __shared__ unsigned shared_words[GPL_WORD_AT(GPL_ROWS - 1) + GPL_LANES];
  if (gpl_block() >= move.total) return;                          // the whole block, before any barrier
  const GplWords tile = gpl_words(gpl_block(), source, move);
  // Tiles with neighbours on all sides.  The tile is shorter than 32 words by the largest q.
  if (tile.place.inside && tile.b && tile.b + GPL_TILE_B <= move.axis[0].bound && tile.a >= GPL_E &&
      tile.a + GPL_LANES * GPL_E <= move.axis[1].bound) {
    gpl_read_words<true, false, true>(tile, shared_words, move);
    __syncthreads();
    gpl_write_words<true, true>(tile, target, shared_words, move);
    return;
  }
  const gpl_uint end_a = min(tile.a + move.tile[1].value, move.axis[1].extent.value);
  const gpl_uint end_b = min(tile.b + GPL_TILE_B, move.axis[0].extent.value);
  const bool padded = !tile.place.inside || move.axis[1].bound < end_a || move.axis[0].bound < end_b;
  if (padded) {
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < sizeof(shared_words) / 4; k += GPL_THREADS) gpl_pad(move, shared_words[k]);
    __syncthreads();
  }
  if (padded) gpl_read_words<false, true, false>(tile, shared_words, move);
  else if ((GPL_G <= GPL_WARPS || tile.b) && tile.b + GPL_TILE_B <= move.axis[0].bound) gpl_read_words<true, false, false>(tile, shared_words, move);
  else gpl_read_words<false, false, false>(tile, shared_words, move);
  __syncthreads();
  // The last pass of each turn asks anyway.
  const bool all_rows = tile.a + (GPL_WRITE_PASSES - GPL_PERIOD) * GPL_WARPS <= move.axis[1].extent.value;
  if (all_rows) gpl_write_words<true, false>(tile, target, shared_words, move);
  else gpl_write_words<false, false>(tile, target, shared_words, move);
  if (tile.b == 0 || tile.b + GPL_TILE_B > move.axis[0].extent.value) gpl_write_ends(tile, target, shared_words, move);
}
