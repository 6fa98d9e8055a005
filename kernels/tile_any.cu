// Tile through shared memory, for sides that are not aligned to 16 bytes, odd extents and short runs.
//
// As in tile.cu, the target's minor axis b (axis 0) differs from the source's minor axis a (axis 1).  Here the host chooses
// the extents of the tile: tile[1] along a, tile[0] along b.  A thread reads pieces of GPL_READ_BYTES along a and writes
// pieces of GPL_WRITE_BYTES along b: single elements, or words of 4 bytes if elements are smaller.
//
// Full tiles: if both axes are long and elements have 4 bytes or more, a tile is 64 x 64 elements of 4 bytes (32 x 64 of 8,
// 16 x 64 of 16).  With steps of 64 bits that have parameters, it is a tile like any other, which takes fewer registers.
// Lanes keep their columns, and rows advance by a fixed step:
//   4-byte elements: lane l of warp w reads columns l and l + 32 of the rows w, w + 8, .. w + 56: 16 loads, all under way
//   before the first is stored.  Shared memory holds row b at word 65 b, so that all its addresses are one register plus
//   constants, and the two columns of a row share an address in memory: 9.1 instructions per element, 146 for 16.
//   Tiles that reach past the array take the same path, and ask before each row: 16 per element of a tile.
//   With a GPL_ALIGN of 32 bytes, rows of the target begin at sectors, as in tile_words.cu, and a tile reads up to 7 more
//   rows of the source.  On an H100, f32[8191,8209] turned reaches 0.94 of a copy so, and 0.79 without.
//
// Tiles of any other size: each side has one of three orders, in which a thread's pieces are a fixed step apart in memory:
//   rows    lanes take the columns of a row, a power of two of them: with 20 columns, 32 lanes, and the next piece is 8 rows on
//   run     the tile is one run of memory, and so is shared memory; or rows are longer than 256 pieces, and each is a run
//   turns   the tile is one run of memory, but rows of shared memory are further apart: pieces turn at the ends of rows
// Example, f32[1000,17] transposed: a tile is 17 x 240, a run of 4080 elements of the source; pitch 17.  Thread t reads the
// elements t, t + 256, ..., and puts them to the same places in shared memory.  It writes places t % 256 of 17 rows.
//
// A place in shared memory is a `spot`: the offset in bytes, and in the upper half the minor coordinate, for turns.
//   3 columns, pitch 5, 4-byte elements: spots 0:0, 1:4, 2:8, 0:20, 1:24, ...  One step is 1:4; a turn adds -3:8, so that
//   3:12 becomes 0:20.  Before a row ends, 2:8 would become -1:16, and negative numbers are large: the smaller of both is
//   the right one.  An addition and a minimum take the place of a division.
//
// Shared memory holds row b at b * pitch.  While writing, neighbouring lanes read places E rows apart, where E is the
// number of elements in a piece.  The host chooses the pitch so that E rows are an odd number of 4-byte words, or of
// elements if these are larger: 32 lanes then read from 32 different banks.
//   4-byte elements, E = 1, pitch 65: row b of column a is word 65 b + a, bank (b + a) % 32
//   1-byte elements, E = 4, pitch 3:  4 rows are 12 bytes, 3 words
//
// Stacks: if whole matrices are small and follow each other without gaps on both sides, a tile is `depth` of them.  200
// matrices of 33 x 31: a tile reads a run of 4 * 1023 elements and writes one; where a matrix ends, the spot steps to the
// first row of the next.
//
// count[0], count[1] are the tiles along b and a, `total` the number of all tiles.
// Where a tile is padded, all its shared memory is filled with the pad first; places outside the bounds are not read.
//
// Macros: those of move.cuh, GPL_READ_BYTES, GPL_WRITE_BYTES, GPL_ALIGN (1, or 32 in some moves of full tiles).
// Numbers: GPL_WORDS_AT_ONCE (pieces of 4 bytes), GPL_SHARED_BYTES (17 / 16 of the largest tile), GPL_FULL_A, GPL_FULL_B (of a full tile, in elements), GPL_BLOCKS
// (of a multiprocessor, for which registers leave room).
#if !defined(GPL_READ_BYTES) || !defined(GPL_WRITE_BYTES) || !defined(GPL_SHARED_BYTES) || !defined(GPL_FULL_A) || \
    !defined(GPL_FULL_B) || !defined(GPL_ALIGN) || !defined(GPL_BLOCKS) || !defined(GPL_WORDS_AT_ONCE)
#error "tile_any.cu needs GPL_READ_BYTES, GPL_WRITE_BYTES, GPL_WORDS_AT_ONCE, GPL_SHARED_BYTES, GPL_FULL_A, GPL_FULL_B, GPL_ALIGN and GPL_BLOCKS"
#endif
#include "move.cuh"

// Pieces that a thread loads before it stores the first: 16 to 64 bytes.  A tile of 16 KB has 16 words of 4 bytes for a thread.
#define GPL_MOST_PIECES(bytes) ((bytes) == 16 ? 4 : (bytes) == 8 ? 8 : (bytes) == 4 ? GPL_WORDS_AT_ONCE : 16)
#define GPL_BATCH(bytes) (GPL_PARAMETERS && GPL_CODE_BYTES == 8 ? 2 : GPL_PARAMETERS ? 4 : GPL_MOST_PIECES(bytes))

struct GplFlexible {
  GplPlace first;                    // of its first element
  gpl_uint a, b;                     // first coordinates
};

__device__ __forceinline__ GplFlexible gpl_flexible(gpl_uint number, const GplMove& move) {
  const gpl_uint above = gpl_divide(number, move.count[0]), others = GPL_AXES > 2 ? gpl_divide(above, move.count[1]) : 0;
  GplFlexible tile;
  tile.b = (number - above * move.count[0].value) * move.tile[0].value;
  tile.a = (above - others * move.count[1].value) * move.tile[1].value;
  tile.first = gpl_place<2>(others, move);
  tile.first.source += tile.a + tile.b * move.axis[0].source_stride;
  tile.first.target += tile.b + tile.a * move.axis[1].target_stride;
  tile.first.parameters = gpl_along_axis(gpl_along_axis(tile.first.parameters, tile.a, 1, move), tile.b, 0, move);
  return tile;
}

// How many elements of the source and places of the target are inside a tile.
struct GplInside {
  unsigned bound_a, bound_b, extent_a, extent_b;
};

// The part of `most` elements from `first` on that is below `bound`.
__device__ __forceinline__ unsigned gpl_below(gpl_uint bound, gpl_uint first, const GplDivisor& most) {
  return (unsigned)min(bound - min(bound, first), most.value);
}

__device__ __forceinline__ GplInside gpl_inside(const GplFlexible& tile, const GplMove& move) {
  return {tile.first.inside ? gpl_below(move.axis[1].bound, tile.a, move.tile[1]) : 0,
          tile.first.inside ? gpl_below(move.axis[0].bound, tile.b, move.tile[0]) : 0,
          gpl_below(move.axis[1].extent.value, tile.a, move.tile[1]),
          gpl_below(move.axis[0].extent.value, tile.b, move.tile[0])};
}

// ---- full tiles ----

#if GPL_ELEMENT_BYTES >= 4 && !(GPL_PARAMETERS && GPL_CODE_BYTES == 8) && GPL_READ_BYTES == GPL_ELEMENT_BYTES && \
    GPL_WRITE_BYTES == GPL_ELEMENT_BYTES
#define GPL_HAS_FULL 1
#else
#define GPL_HAS_FULL 0
#endif
#define GPL_FULL_PITCH (GPL_FULL_A + 1)
#define GPL_AHEAD (GPL_ALIGN > GPL_ELEMENT_BYTES ? GPL_ALIGN / GPL_ELEMENT_BYTES - 1 : 0)
#define GPL_FULL_BYTES (GPL_HAS_FULL ? (GPL_FULL_B + GPL_AHEAD) * GPL_FULL_PITCH * GPL_ELEMENT_BYTES : 0)

// Reads a full tile in rows along a, or writes it in rows along b.  If GPL_ALIGN is more than an element, row a of the target
// covers the places from b - shift on, which begin at a multiple of GPL_ALIGN bytes, so the tile reads GPL_AHEAD rows in front
// of b.  The rows of a thread are 8 or more apart, which is a multiple of GPL_ALIGN bytes, so all have its shift.
// WHOLE: all that the tile reads is inside the bounds.
template <bool READS, bool WHOLE, class Element>
__device__ __forceinline__ void gpl_full_side(Element* base, gpl_uint offset, gpl_uint stride, gpl_element* shared,
                                              const GplFlexible& tile, const GplMove& move) {
  constexpr unsigned WIDE = READS ? GPL_FULL_A : GPL_FULL_B, HIGH = READS ? GPL_FULL_B + GPL_AHEAD : GPL_FULL_A;
  constexpr unsigned RIGHT = READS ? 1 : GPL_FULL_PITCH, DOWN = READS ? GPL_FULL_PITCH : 1;
  constexpr unsigned LANES = WIDE < 32 ? WIDE : 32, ROWS = GPL_THREADS / LANES;
  constexpr unsigned PARTS = WIDE / LANES, PASSES = (HIGH + ROWS - 1) / ROWS, PIECES = PARTS * PASSES;
  const unsigned column = threadIdx.x % LANES, row = threadIdx.x / LANES;
  const gpl_int step = (gpl_int)(ROWS * stride);
  Element* const first = base + (gpl_int)(offset + row * stride);
  const unsigned shift = READS ? 0 : (unsigned)(unsigned long long)first / GPL_ELEMENT_BYTES & GPL_AHEAD;
  Element* const memory = (READS ? first - (gpl_int)(GPL_AHEAD * stride) : first - shift) + column;
  gpl_element* const spot = shared + row * DOWN + (column + (READS ? 0 : GPL_AHEAD - shift)) * RIGHT;
  unsigned left[PARTS];
  if (!WHOLE) {
    const gpl_uint beside = READS ? (tile.first.inside ? move.axis[1].bound : 0) - tile.a : move.axis[0].extent.value - tile.b + shift;
    const gpl_uint end = READS ? move.axis[0].bound + GPL_AHEAD : move.axis[1].extent.value, begin = READS ? tile.b : tile.a;
    const unsigned rows = (unsigned)min(end - min(begin, end), (gpl_uint)HIGH), none = tile.b == 0 ? shift : 0;
#pragma unroll
    for (unsigned part = 0; part < PARTS; ++part) {
      const unsigned place = column + part * LANES;
      left[part] = row < rows && place >= none && (gpl_int)(place - beside) < 0 ? rows - row : 0;
    }
  }
  // In front of the first place of the array there is none: columns of the target, or the first row of a thread that reads.
  const bool skips = !WHOLE && READS && tile.b == 0 && row < GPL_AHEAD;
  gpl_element value[PIECES];
#pragma unroll
  for (unsigned pass = 0; pass < 2; ++pass) {
#pragma unroll
    for (unsigned i = 0; i < PIECES; ++i) {
      const unsigned k = WHOLE ? i / PARTS : i % PASSES, part = WHOLE ? i % PARTS : i / PASSES;
      if (WHOLE && (k + 1) * ROWS > HIGH && k * ROWS + row >= HIGH) continue;
      if (!WHOLE && (left[part] <= k * ROWS || (k == 0 && skips))) continue;
      Element* const at = memory + (long long)step * k + part * LANES;
      gpl_element* const in = spot + k * ROWS * DOWN + part * LANES * RIGHT;
      if (pass == 0) value[i] = READS ? gpl_as<gpl_element>(*at) : *in;
      else if constexpr (READS) *in = value[i];
      else {
        const GplOperands operands = gpl_operands(gpl_along_axis(tile.first.parameters, row + k * ROWS, 1, move), move);
        gpl_put<GPL_ELEMENT_BYTES>(at, gpl_computed(value[i], operands, column + part * LANES, GPL_NO_END, move));
      }
    }
  }
}

// ---- tiles of any size ----

// One side of a tile: `high` rows of `wide` elements, `stride` apart in memory.  In shared memory, neighbours of a row are
// `right` bytes apart and rows `down` bytes.
struct GplSide {
  unsigned wide, high;
  gpl_uint stride;
  unsigned right, down;
};

enum GplOrder { GPL_ROWS, GPL_RUN, GPL_TURNS };

// The pieces of a thread.
struct GplShare {
  gpl_uint offset, step;             // of the first in memory, and from one to the next in the order of rows
  unsigned spot, spot_step;          // of the first in shared memory, and from one to the next
  unsigned next, turn;               // from an element to its neighbour, and from the end of a row to the next
  unsigned count;
  unsigned row, row_step;            // rows of the first, and from one to the next; only for the order of rows, and for runs
  unsigned minor, minor_step;        // elements before it in its row
};

// `items` in turns of 2^bits threads: those of thread `number`.
__device__ __forceinline__ unsigned gpl_part(unsigned items, unsigned number, unsigned bits) {
  return (items + (1u << bits) - 1 - number) >> bits;
}

__device__ __forceinline__ unsigned gpl_spot(unsigned minor, unsigned major, const GplSide& side) {
  return (minor << 16) + minor * side.right + major * side.down;
}

template <unsigned E>
__device__ __forceinline__ GplShare gpl_share_of_turns(const GplSide& side, const GplDivisor& width) {
  const unsigned thread = threadIdx.x, wide = side.wide;
  const unsigned major = gpl_divide_small(thread * E, width), more = gpl_divide_small(GPL_THREADS * E, width);
  return {thread * E, 0, gpl_spot(thread * E - major * wide, major, side), gpl_spot(GPL_THREADS * E - more * wide, more, side),
          gpl_spot(1, 0, side), side.down - gpl_spot(wide, 0, side), gpl_part(wide * side.high / E, thread, 8)};
}

template <unsigned E>
__device__ __forceinline__ GplShare gpl_share_of_run(const GplSide& side, unsigned elements) {
  const unsigned thread = threadIdx.x;
  return {thread * E, 0, thread * E * side.right, GPL_THREADS * E * side.right, side.right, 0,
          gpl_part(elements / E, thread, 8), 0, 0, thread * E, GPL_THREADS * E};
}

// As many lanes to a row as the next power of two; the others of a turn take the next rows.
template <unsigned E>
__device__ __forceinline__ GplShare gpl_share_of_rows(const GplSide& side) {
  const unsigned thread = threadIdx.x, pieces = side.wide / E;
  const unsigned turns = __clz((pieces - 1) & (GPL_THREADS - 1)) - 24, lanes = 8 - turns;
  const unsigned row = thread >> lanes, column = thread & ((1u << lanes) - 1);
  return {column * E + row * side.stride, side.stride << turns, column * E * side.right + row * side.down, side.down << turns,
          side.right, 0, column < pieces ? gpl_part(side.high, row, turns) : 0, row, 1u << turns, column * E, 0};
}

// A spot `step` further on, in the next row if this one ends.
template <GplOrder ORDER>
__device__ __forceinline__ unsigned gpl_onward(unsigned spot, unsigned step, unsigned turn) {
  return ORDER == GPL_TURNS ? min(spot + step, spot + step + turn) : spot + step;
}

template <GplOrder ORDER>
__device__ __forceinline__ gpl_element* gpl_shared(unsigned char* shared, unsigned spot) {
  return (gpl_element*)(shared + (ORDER == GPL_TURNS ? spot & 0xffff : spot));
}

// A piece into shared memory, as a WORD or element by element, or out of it.
template <bool READS, GplOrder ORDER, bool WORDS, int BYTES>
__device__ __forceinline__ void gpl_exchange(GplChunk<BYTES>& piece, unsigned char* shared, unsigned spot,
                                             const GplShare& share) {
  if constexpr (WORDS) *(typename GplWord<BYTES>::type*)gpl_shared<ORDER>(shared, spot) = piece.word;
  else {
#pragma unroll
    for (unsigned i = 0; i < BYTES / GPL_ELEMENT_BYTES; ++i, spot = gpl_onward<ORDER>(spot, share.next, share.turn)) {
      gpl_element* const at = gpl_shared<ORDER>(shared, spot);
      if constexpr (READS) *at = piece.element[i];
      else piece.element[i] = *at;
    }
  }
}

// Piece `k` from this one on, on its way to the target.
template <int BYTES>
__device__ __forceinline__ GplChunk<BYTES> gpl_piece_inside(GplChunk<BYTES> piece, const GplShare& share, unsigned k,
                                                            const GplFlexible& tile, const GplMove& move) {
  const gpl_uint a = share.row + k * share.row_step, b = share.minor + k * share.minor_step;
  const GplOperands row = gpl_operands(gpl_along_axis(tile.first.parameters, a, 1, move), move);
  return gpl_computed_chunk<BYTES>(piece, row, b, GPL_NO_END, move);
}

// The next N pieces of a thread, or the first `left` of them.  MOST: only the last may be missing.
template <bool READS, GplOrder ORDER, bool WORDS, bool MOST, unsigned N, class Element>
__device__ __forceinline__ void gpl_some(Element*& memory, unsigned& spot, unsigned left, unsigned char* shared, GplShare& share,
                                         const GplFlexible& tile, const GplMove& move) {
  constexpr int BYTES = READS ? GPL_READ_BYTES : GPL_WRITE_BYTES;
  const unsigned spot_step = READS && ORDER == GPL_RUN ? GPL_THREADS * BYTES : share.spot_step;
  const gpl_int step = ORDER == GPL_ROWS ? (gpl_int)share.step : GPL_THREADS * (BYTES / GPL_ELEMENT_BYTES);
  GplChunk<BYTES> piece[N];
  if constexpr (READS) {
#pragma unroll
    for (unsigned k = 0; k < N; ++k)
      if ((MOST && k + 1 < N) || k < left) piece[k].word = gpl_fetch<BYTES>(memory + k * (long long)step);
  }
#pragma unroll
  for (unsigned k = 0; k < N; ++k, spot = gpl_onward<ORDER>(spot, spot_step, share.turn))
    if ((MOST && k + 1 < N) || k < left) gpl_exchange<READS, ORDER, WORDS>(piece[k], shared, spot, share);
  if constexpr (!READS) {
#pragma unroll
    for (unsigned k = 0; k < N; ++k)
      if ((MOST && k + 1 < N) || k < left) gpl_put<BYTES>(memory + k * (long long)step, gpl_piece_inside(piece[k], share, k, tile, move).word);
  }
  memory += N * (long long)step;
  share.row += N * share.row_step, share.minor += N * share.minor_step;
}

template <bool READS, GplOrder ORDER, bool WORDS, class Element>
__device__ __forceinline__ void gpl_row(Element* memory, unsigned spot, unsigned char* shared, GplShare share, const GplFlexible& tile,
                                        const GplMove& move) {
  constexpr int BYTES = READS ? GPL_READ_BYTES : GPL_WRITE_BYTES;
  // More words would not be under way: they are written, or each takes turns for all its elements, which takes registers.
  constexpr bool few = BYTES == 4 && (!READS || (ORDER == GPL_TURNS && BYTES > GPL_ELEMENT_BYTES));
  constexpr unsigned most = GPL_BATCH(BYTES), batch = few && most > 8 ? 8 : most;
  unsigned left = share.count;
#pragma unroll 1
  for (; left + 1 >= batch; left -= batch) gpl_some<READS, ORDER, WORDS, true, batch>(memory, spot, left, shared, share, tile, move);
  // A last batch that is half full, or more; not of narrow writes behind wide reads, which spilled 44 bytes with 32 registers.
  if ((READS || GPL_READ_BYTES <= GPL_WRITE_BYTES) && batch > 8 && left + 1 >= batch / 2) {
    gpl_some<READS, ORDER, WORDS, true, batch / 2>(memory, spot, left, shared, share, tile, move);
    left -= batch / 2;
  }
#pragma unroll 1
  for (; (int)left > 0; left -= 4) gpl_some<READS, ORDER, WORDS, false, 4>(memory, spot, left, shared, share, tile, move);
}

// All whole pieces of a thread.
template <bool READS, bool WORDS, unsigned E, class Element>
__device__ __forceinline__ void gpl_rows(Element* base, gpl_uint first, unsigned char* shared, const GplSide& side,
                                         const GplDivisor& width, bool touches, const GplFlexible& tile, const GplMove& move) {
  if (!touches && side.wide / E <= GPL_THREADS) {
    const GplShare share = gpl_share_of_rows<E>(side);
    gpl_row<READS, GPL_ROWS, WORDS>(base + (gpl_int)(first + share.offset), share.spot, shared, share, tile, move);
  } else if (!touches || side.down == side.wide * side.right) {
    GplShare share = gpl_share_of_run<E>(side, touches ? side.wide * side.high : side.wide);
    Element* memory = base + (gpl_int)(first + share.offset);
    unsigned spot = share.spot;
#pragma unroll 1
    for (unsigned row = touches ? side.high - 1 : 0; row < side.high; ++row, memory += (gpl_int)side.stride, spot += side.down) {
      share.row = row;
      gpl_row<READS, GPL_RUN, WORDS>(memory, spot, shared, share, tile, move);
    }
  } else {
    const GplShare share = gpl_share_of_turns<E>(side, width);
    gpl_row<READS, GPL_TURNS, false>(base + (gpl_int)(first + share.offset), share.spot, shared, share, tile, move);
  }
}

template <bool READS, class Element>
__device__ __forceinline__ void gpl_side(Element* base, gpl_uint first, unsigned char* shared, const GplSide& side,
                                         const GplDivisor& width, const GplFlexible& tile, const GplMove& move) {
  constexpr unsigned E = (READS ? GPL_READ_BYTES : GPL_WRITE_BYTES) / GPL_ELEMENT_BYTES;
  // Where parameters may change inside a run, rows are written one by one.
  const bool touches = (READS || !GPL_VARIES) && side.wide == width.value && side.stride == width.value;
  // Whole words into shared memory, if all begin at words there.
  if (READS && E > 1 && (touches || side.down % (E * side.right) == 0))
    gpl_rows<READS, READS && (E > 1), E>(base, first, shared, side, width, touches, tile, move);
  else gpl_rows<READS, false, E>(base, first, shared, side, width, touches, tile, move);
  if constexpr (E > 1) {             // what is left of a row, or of the run, is less than a piece: element by element
    const unsigned all = touches ? side.wide * side.high : side.wide, rest = all % E, rows = touches ? 1 : side.high;
#pragma unroll 1
    for (unsigned k = threadIdx.x; rest && k < rows * E; k += GPL_THREADS) {
      if (k % E >= rest) continue;
      unsigned minor = all - rest + k % E, major = k / E;
      if (touches) major = gpl_divide_small(minor, width), minor -= major * side.wide;
      gpl_element* const at = (gpl_element*)(shared + minor * side.right + major * side.down);
      Element* const in = base + (gpl_int)(first + minor + major * side.stride);
      if constexpr (READS) *at = gpl_fetch<GPL_ELEMENT_BYTES>(in);
      else {
        const GplOperands row = gpl_operands(gpl_along_axis(tile.first.parameters, major, 1, move), move);
        gpl_put<GPL_ELEMENT_BYTES>(in, gpl_computed(*at, row, minor, GPL_NO_END, move));
      }
    }
  }
}

// ---- stacks of small matrices ----

#define GPL_HAS_STACKS (GPL_AXES > 2 && !GPL_VARIES && GPL_READ_BYTES == GPL_ELEMENT_BYTES && GPL_WRITE_BYTES == GPL_ELEMENT_BYTES)

// The matrices of a stack from `others` on that are in this tile.
__device__ __forceinline__ unsigned gpl_stacked(gpl_uint others, const GplMove& move) {
  const gpl_uint row = others - gpl_divide(others, move.axis[2].extent) * move.axis[2].extent.value;
  return (unsigned)min(move.axis[2].bound - row * move.depth, move.depth);
}

__device__ __forceinline__ void gpl_write_stack(gpl_target_element* to, unsigned char* shared, const GplSide& side, const GplDivisor& width,
                                                unsigned stacked, const GplOperands& operands, const GplMove& move) {
  const unsigned area = side.wide * side.high, above = side.wide * side.right - side.high * side.down;
  const GplShare share = gpl_share_of_turns<1>(side, width);
  unsigned spot = share.spot, left = area - threadIdx.x;              // left: elements of the matrix from here on
  to += threadIdx.x;
#pragma unroll 4
  for (unsigned n = threadIdx.x; n < area * stacked; n += GPL_THREADS, to += GPL_THREADS) {
    gpl_put<GPL_ELEMENT_BYTES>(to, gpl_computed(*gpl_shared<GPL_TURNS>(shared, spot), operands, 0, 1, move));
    spot = gpl_onward<GPL_TURNS>(spot, share.spot_step, share.turn);
    if (left <= GPL_THREADS) left += area, spot += above;
    left -= GPL_THREADS;
  }
}

GPL_KERNEL_OF(GPL_BLOCKS) gpl_tile_any(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  __shared__ uint4 shared_any[(GPL_FULL_BYTES > GPL_SHARED_BYTES ? GPL_FULL_BYTES + 15 : GPL_SHARED_BYTES) / 16];
  if (gpl_block() >= move.total) return;                          // the whole block, before any barrier
  const GplFlexible tile = gpl_flexible(gpl_block(), move);
  const gpl_source_element* const from = (const gpl_source_element*)source;
  gpl_target_element* const to = (gpl_target_element*)target;
  const gpl_uint down = move.axis[0].source_stride, right = move.axis[1].target_stride;
#if GPL_HAS_FULL
  gpl_element* const shared = (gpl_element*)shared_any;
  const bool full = move.tile[1].value == GPL_FULL_A && move.tile[0].value == GPL_FULL_B;
  if (full && tile.first.inside && tile.a + GPL_FULL_A <= move.axis[1].bound && tile.b + GPL_FULL_B <= move.axis[0].bound &&
      (tile.b || !GPL_AHEAD)) {
    gpl_full_side<true, true>(from, tile.first.source, down, shared, tile, move);
    __syncthreads();
    gpl_full_side<false, true>(to, tile.first.target, right, shared, tile, move);
    return;
  }
#endif
  const GplInside in = gpl_inside(tile, move);
  // The rows of a full tile may begin before b.
  if (in.bound_a < in.extent_a || in.bound_b < in.extent_b ||
      (GPL_HAS_FULL && tile.b > move.axis[0].bound && move.axis[0].bound < move.axis[0].extent.value)) {
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < sizeof(shared_any) / 16; k += GPL_THREADS) gpl_pad(move, shared_any[k]);
    __syncthreads();
  }
#if GPL_HAS_FULL
  if (full) {
    gpl_full_side<true, false>(from, tile.first.source, down, shared, tile, move);
    __syncthreads();
    gpl_full_side<false, false>(to, tile.first.target, right, shared, tile, move);
    return;
  }
#endif
  const unsigned pitch = (unsigned)move.pitch * GPL_ELEMENT_BYTES;
#if GPL_HAS_STACKS
  const unsigned stacked = move.depth ? gpl_stacked(gpl_block(), move) : 1;
#else
  const unsigned stacked = 1;
#endif
  const GplSide read = {in.bound_a, in.bound_b * stacked, down, GPL_ELEMENT_BYTES, pitch};
  gpl_side<true>(from, tile.first.source, (unsigned char*)shared_any, read, move.tile[1], tile, move);
  __syncthreads();
  const GplSide write = {in.extent_b, in.extent_a, right, pitch, GPL_ELEMENT_BYTES};
#if GPL_HAS_STACKS
  if (move.depth) {
    gpl_write_stack(to + (gpl_int)tile.first.target, (unsigned char*)shared_any, write, move.tile[0], stacked, gpl_operands(tile.first.parameters, move),
                    move);
    return;
  }
#endif
  gpl_side<false>(to, tile.first.target, (unsigned char*)shared_any, write, move.tile[0], tile, move);
}
