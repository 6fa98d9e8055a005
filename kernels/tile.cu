// Tile through shared memory: the minor axis of the target (b, axis 0) is not the minor axis of the source (a, axis 1).
//
// Without a tile, accesses to one side would be scattered.  A block reads a tile of GPL_TILE_A x GPL_TILE_B elements in
// 16-byte chunks along a, keeps it in shared memory, and writes 16-byte chunks along b.  This kernel needs both sides
// aligned to 16 bytes; tile_words.cu and tile_any.cu handle the rest.
//
// If the matrix of a and b is small, a tile has GPL_DEPTH of them, a step along axis 2 apart, so that each thread still has
// four chunks under way:  f32[32,15,15,15,15,32] reversed has tiles of 4 matrices of 32 x 32, of which the last has 3.
// Shared memory holds their rows one matrix after another, and all of the following is true of them as of one tall matrix.
//
// With N = 16 / element bytes elements in a chunk:
//   shared memory holds row b as GPL_CHUNKS chunks; chunk c of row b lies at position  (b * GPL_CHUNKS + c) ^ (b / N % 8)
//   writing:  8 neighbouring lanes store 8 chunks of one row: 128 bytes, all 32 banks once
//   reading:  a thread takes one word (4 bytes, or one larger element) from each of N rows, b = N * column + i.
//             In step i, 8 lanes with different columns read chunk c of rows that differ in b / N: the xor swizzle puts
//             them at 8 different 16-byte positions.  The other lanes of the phase read the other words of those chunks.
// Without the swizzle, those 8 lanes would have bank conflicts, because rows are a multiple of 128 bytes long.
//
// A word of small elements holds P = 4 / element bytes columns of the tile, so N words are P chunks of the target,
// one below the other; gpl_words_to_chunks transposes them in registers.
//
// Example, 2-byte elements: tile 128 x 64, N = 8, P = 2, 16 chunks per row, 16 KB.  A thread loads 4 chunks; later it reads 8
// words of 2 elements and transposes them into 2 chunks of 8 elements, twice.
//
// `total` is the number of all tiles.  The block number runs fastest along b, so that neighbouring blocks complete the sectors
// of the same target rows in the cache, then along a, then along the other axes.  GPL_ORDER may be another order
// (gpu/fixed_tile.py chooses it); count[0], count[1] are the tiles along the first two axes of it, those of all other axes
// counted as one:
//   GPL_A_FIRST   a, b, the others          GPL_A_LAST   b, the others, a
// Elements that change on the way do so before they enter shared memory, where a chunk belongs to one place of b; but before they
// are stored, where it belongs to one place of a, if parameters change along a or other axes, or if a cast makes them narrower,
// which is cheaper beside the store.
//   f32 to s8, a scale for each b:   4 elements that were read share a scale and its reciprocal, those of a stored chunk have 4
//
// Padding takes no extra pass: places outside the bounds enter shared memory as pad and are not read.
//
// Most tiles are entirely inside the bounds and take a path without checks.  A partial tile moves whole chunks too: a thread
// loads as many as lie inside the bounds, all before it stores the first, and leaves out those that begin beyond an extent.
//   f32, tile 64 x 64, extent 48 of b: threads load 3 chunks instead of 4, of rows 0..15, 16..31 and 32..47
// Only in a move with GPL_RAGGED may a chunk be pad, or be cut by a bound or an extent; such chunks take a path of their own.
// Its registers would leave room for fewer blocks in all other moves.
//
// Macros: those of move.cuh, GPL_TILE_A, GPL_TILE_B (of a matrix, in elements), GPL_DEPTH, GPL_RAGGED, GPL_ORDER.
// Numbers: GPL_A_FIRST, GPL_A_LAST.
#if !defined(GPL_TILE_A) || !defined(GPL_TILE_B) || !defined(GPL_DEPTH) || !defined(GPL_RAGGED) || \
    !defined(GPL_ORDER) || !defined(GPL_A_FIRST) || !defined(GPL_A_LAST)
#error "tile.cu needs GPL_TILE_A, GPL_TILE_B, GPL_DEPTH, GPL_RAGGED, GPL_ORDER, GPL_A_FIRST and GPL_A_LAST"
#endif
#include "move.cuh"

#define GPL_N (16 / GPL_ELEMENT_BYTES)
#define GPL_WORD_BYTES (GPL_ELEMENT_BYTES < 4 ? 4 : GPL_ELEMENT_BYTES)
#define GPL_P (GPL_WORD_BYTES / GPL_ELEMENT_BYTES)
#define GPL_CHUNKS (GPL_TILE_A / GPL_N)              // chunks in a row of shared memory
#define GPL_WORDS (GPL_TILE_A / GPL_P)               // words in it
#define GPL_ROWS (GPL_DEPTH * GPL_TILE_B)            // rows of shared memory: those of all matrices
#define GPL_COLUMNS (GPL_ROWS / GPL_N)               // chunks along b, of all matrices
#define GPL_LOADS (GPL_ROWS * GPL_CHUNKS / GPL_THREADS)
#define GPL_TURNS (GPL_WORDS * GPL_COLUMNS / GPL_THREADS)
typedef GplWord<GPL_WORD_BYTES>::type gpl_word;
static_assert(GPL_LOADS > 0 && GPL_TURNS > 0 && GPL_COLUMNS >= 8, "a tile in which some threads do nothing");
static_assert(GPL_TILE_A >= 8, "rows that share 128 bytes of shared memory have different swizzles");

struct GplTile {
  gpl_uint a, b;           // first coordinates
  GplPlace place;          // of a = b = 0 in the tile's other axes, in its first matrix
  gpl_uint matrices;       // that are left, from this one on
};

__device__ __forceinline__ GplTile gpl_tile(gpl_uint number, const GplMove& move) {
  const gpl_uint above = gpl_divide(number, move.count[0]);
  const gpl_uint first = number - above * move.count[0].value;
  const gpl_uint third = gpl_divide(above, move.count[1]), second = above - third * move.count[1].value;
  GplTile tile;
  tile.b = (GPL_ORDER == GPL_A_FIRST ? second : first) * GPL_TILE_B;
  tile.a = (GPL_ORDER == GPL_A_FIRST ? first : GPL_ORDER == GPL_A_LAST ? third : second) * GPL_TILE_A;
  tile.matrices = 1;
  tile.place = gpl_place<2, GPL_AXES - 1>(GPL_ORDER == GPL_A_LAST ? second : third, move, [&](int i, gpl_uint coordinate) {
    if (GPL_DEPTH > 1 && i == 2) tile.matrices = move.steps.places - coordinate * GPL_DEPTH;
  });
  return tile;
}

// The parameters of a matrix that lies so many further on.
__device__ __forceinline__ GplParameters gpl_deeper(const GplParameters& place, gpl_uint matrices, const GplMove& move) {
#if GPL_PARAMETERS && GPL_DEPTH > 1
  return gpl_ahead(place, matrices, move.step, GPL_ALONG_OTHERS);
#else
  return place;
#endif
}

// N words of P elements to P chunks of N elements: element p of word n becomes element n of chunk p.
// __byte_perm picks 4 of the 8 bytes of two words: 0x5410 the lower halves, 0x7632 the upper halves.
__device__ __forceinline__ void gpl_words_to_chunks(const gpl_word (&word)[GPL_N], uint4 (&chunk)[GPL_P]) {
#if GPL_ELEMENT_BYTES == 1
  unsigned out[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {      // a square of 4 x 4 bytes: pairs first, then pairs of pairs
    const unsigned w0 = word[4 * i], w1 = word[4 * i + 1], w2 = word[4 * i + 2], w3 = word[4 * i + 3];
    const unsigned low01 = __byte_perm(w0, w1, 0x5140), high01 = __byte_perm(w0, w1, 0x7362);
    const unsigned low23 = __byte_perm(w2, w3, 0x5140), high23 = __byte_perm(w2, w3, 0x7362);
    out[0][i] = __byte_perm(low01, low23, 0x5410), out[1][i] = __byte_perm(low01, low23, 0x7632);
    out[2][i] = __byte_perm(high01, high23, 0x5410), out[3][i] = __byte_perm(high01, high23, 0x7632);
  }
#pragma unroll
  for (int p = 0; p < 4; ++p) chunk[p] = make_uint4(out[p][0], out[p][1], out[p][2], out[p][3]);
#elif GPL_ELEMENT_BYTES == 2
  unsigned out[2][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[0][i] = __byte_perm(word[2 * i], word[2 * i + 1], 0x5410);
    out[1][i] = __byte_perm(word[2 * i], word[2 * i + 1], 0x7632);
  }
#pragma unroll
  for (int p = 0; p < 2; ++p) chunk[p] = make_uint4(out[p][0], out[p][1], out[p][2], out[p][3]);
#elif GPL_ELEMENT_BYTES == 4
  chunk[0] = make_uint4(word[0], word[1], word[2], word[3]);
#elif GPL_ELEMENT_BYTES == 8
  chunk[0] = make_uint4((unsigned)word[0], (unsigned)(word[0] >> 32), (unsigned)word[1], (unsigned)(word[1] >> 32));
#else
  chunk[0] = word[0];
#endif
}

// A thread's loads: of so many rows in a matrix, and in so many places of the stack.  Short matrices share a load.
#define GPL_ROWS_PER_LOAD (GPL_THREADS / GPL_CHUNKS)
#define GPL_ROW_LOADS (GPL_TILE_B > GPL_ROWS_PER_LOAD ? GPL_TILE_B / GPL_ROWS_PER_LOAD : 1)
#define GPL_STACK_LOADS (GPL_LOADS / GPL_ROW_LOADS)
#define GPL_MATRICES_PER_LOAD (GPL_DEPTH / GPL_STACK_LOADS)
static_assert(GPL_DEPTH <= 2 || GPL_ROW_LOADS == 1, "where a stack ends in a tile of several loads for a matrix, one matrix is left");

// A thread's k-th word is a fixed step away from its first: so many rows or columns, which are as many matrices and the rest.
// The step and the first position have no bit in common, so an xor advances the swizzled position too.
#define GPL_WORD_STEP(k) ((k) * (GPL_THREADS / 8) % GPL_WORDS)
#define GPL_COLUMN_STEP(k) ((k) * (GPL_THREADS / 8) / GPL_WORDS * 8)
#define GPL_TURN_MATRIX(k) (GPL_COLUMN_STEP(k) * GPL_N / GPL_TILE_B)
#define GPL_TURN_PLACE(k) (GPL_COLUMN_STEP(k) * GPL_N % GPL_TILE_B)
#define GPL_COMPUTES_FIRST \
  (GPL_CHANGES && !(GPL_VARIES & GPL_ANY_ALONG_OTHERS) && (GPL_PARAMETERS || GPL_SOURCE_BYTES <= GPL_TARGET_BYTES))
#define GPL_COMPUTES_LAST (GPL_CHANGES && !GPL_COMPUTES_FIRST)
// Rows of the target of a thread.
#define GPL_LINES \
  (GPL_DEPTH > 1 ? GPL_TURNS * GPL_P : GPL_WORDS > GPL_THREADS / 8 ? GPL_WORDS / (GPL_THREADS / 8) * GPL_P : GPL_P)

// Where chunk c of a row lies in shared memory.
__device__ __forceinline__ unsigned gpl_position(unsigned row, unsigned c) { return (row * GPL_CHUNKS + c) ^ (row / GPL_N & 7); }

// The parameters of the elements that are read at place b, which is the same for the chunk.
__device__ __forceinline__ GplOperandsOf<true> gpl_read_operands(const GplTile& tile, gpl_uint b, const GplMove& move) {
  return gpl_operands<true>(gpl_along_axis(tile.place.parameters, b, 0, move), move);
}

// Where a thread's chunks are: the first in the source and in shared memory, the steps to the next row and to the next matrix
// in the source, and the place of the first along b.
struct GplChunks {
  const gpl_source_element* from;
  gpl_int down, deeper;
  uint4* shared;
  unsigned position;
  gpl_uint b;
};

// The first COUNT chunks of a thread, those of DEPTH matrices before those of the next row.  All loads are issued before the
// first arrives.
template <int COUNT, int DEPTH>
__device__ __forceinline__ void gpl_load_chunks(const GplChunks& chunks, const GplTile& tile, const GplMove& move) {
  const gpl_source_element* from = chunks.from;
  uint4 chunk[COUNT];
  GplOperandsOf<true> operands[COUNT];
#pragma unroll
  for (int k = 0; k < COUNT; ++k, from += k % DEPTH ? chunks.deeper : chunks.down - (DEPTH - 1) * chunks.deeper) {
    chunk[k] = gpl_fetch<16>(from);
    if constexpr (GPL_COMPUTES_FIRST) operands[k] = gpl_read_operands(tile, chunks.b + k / DEPTH * GPL_ROWS_PER_LOAD, move);
  }
#pragma unroll
  for (int k = 0; k < COUNT; ++k) {
    const int place = k % DEPTH * GPL_ROW_LOADS + k / DEPTH;
    if constexpr (GPL_COMPUTES_FIRST) chunk[k] = gpl_computed_chunk<16>({chunk[k]}, operands[k], 0, GPL_NO_END, move).word;
    chunks.shared[(chunks.position ^ (place * GPL_ROWS_PER_LOAD / GPL_N & 7)) + place * GPL_THREADS] = chunk[k];
  }
}

// As many of a thread's chunks as there are `rest` rows or matrices, EACH of which has STEP chunks.
template <int COUNT, int DEPTH, int STEP, int EACH>
__device__ __forceinline__ void gpl_load_some(const GplChunks& chunks, gpl_int rest, const GplTile& tile, const GplMove& move) {
  if (rest > (COUNT / STEP - 1) * EACH) gpl_load_chunks<COUNT, DEPTH>(chunks, tile, move);
  else if constexpr (COUNT > STEP) gpl_load_some<COUNT - STEP, DEPTH, STEP, EACH>(chunks, rest, tile, move);
}

// Chunks that are not inside the bounds as a whole: pad behind the bounds, and the chunks that the bound of a cuts, one element
// per lane.  The rows of a warp are N apart, so that their chunks lie in different banks.
__device__ __forceinline__ void gpl_load_rest(const void* __restrict__ source, const GplTile& tile, uint4* shared,
                                              const GplMove& move) {
  const unsigned thread = threadIdx.x & (GPL_THREADS - 1);
  const gpl_uint bound = tile.place.inside ? move.axis[1].bound : 0, cut = bound / GPL_N * GPL_N;
#pragma unroll 1
  for (unsigned number = thread; number < GPL_TILE_B * GPL_CHUNKS; number += GPL_THREADS) {
    const unsigned c = number % GPL_CHUNKS, row = number / GPL_CHUNKS;
    if (tile.b + row < move.axis[0].bound && tile.a + c * GPL_N < bound) continue;
    gpl_pad(move, shared[gpl_position(row, c)]);
  }
  if (cut == bound || cut - tile.a >= GPL_TILE_A) return;
#pragma unroll 4
  for (unsigned item = thread; item < GPL_TILE_B * GPL_N; item += GPL_THREADS) {
    const unsigned i = item % GPL_N, row = item / GPL_N % GPL_COLUMNS * GPL_N + item / (GPL_N * GPL_COLUMNS);
    const gpl_uint a = cut + i, b = tile.b + row;
    if (b >= move.axis[0].bound) continue;
    gpl_element element;
    gpl_pad(move, element);
    if (a < bound) element = gpl_fetch<GPL_ELEMENT_BYTES>(gpl_at(source, tile.place.source + a + b * move.axis[0].source_stride));
    if constexpr (GPL_COMPUTES_FIRST) element = gpl_computed(element, gpl_read_operands(tile, b, move), 0, GPL_NO_END, move);
    ((GplChunk<16>*)shared + gpl_position(row, (unsigned)(cut - tile.a) / GPL_N))->element[i] = element;
  }
}

template <bool WHOLE>
__device__ __forceinline__ void gpl_load_tile(const void* __restrict__ source, const GplTile& tile, uint4* shared,
                                              const GplMove& move) {
  const unsigned thread = threadIdx.x & (GPL_THREADS - 1), c = thread % GPL_CHUNKS, row = thread / GPL_CHUNKS;
  const unsigned matrix = row / GPL_TILE_B;
  const gpl_uint a = tile.a + c * GPL_N, b = tile.b + row % GPL_TILE_B, stride = move.axis[0].source_stride;
  const gpl_source_element* from = gpl_at(source, tile.place.source + a + b * stride + matrix * move.steps.source_step);
  const gpl_int down = GPL_ROWS_PER_LOAD * stride, deeper = GPL_MATRICES_PER_LOAD * move.steps.source_step;
  const unsigned position = gpl_position(row, c);
  const GplChunks chunks = {from, down, deeper, shared, position, b};
  if (WHOLE) return gpl_load_chunks<GPL_LOADS, GPL_STACK_LOADS>(chunks, tile, move);
  if (tile.place.inside && a + GPL_N <= move.axis[1].bound) {
    const gpl_int rows = move.axis[0].bound - b, matrices = tile.matrices - matrix;
    if constexpr (GPL_DEPTH > 1 && GPL_ROW_LOADS == 1)
      gpl_load_some<GPL_LOADS, GPL_LOADS, 1, GPL_MATRICES_PER_LOAD>(chunks, rows > 0 ? matrices : 0, tile, move);
    else if (GPL_DEPTH == 1 || matrices >= GPL_DEPTH)
      gpl_load_some<GPL_LOADS, GPL_DEPTH, GPL_DEPTH, GPL_ROWS_PER_LOAD>(chunks, rows, tile, move);
    else gpl_load_some<GPL_ROW_LOADS, 1, 1, GPL_ROWS_PER_LOAD>(chunks, rows, tile, move);
  }
  if (GPL_RAGGED) gpl_load_rest(source, tile, shared, move);
}

// The chunks in which the extent of b ends: their elements are stored one by one, P from each word.
__device__ __forceinline__ void gpl_store_rest(void* __restrict__ target, const GplTile& tile, const uint4* shared,
                                               const GplMove& move) {
  const gpl_uint first = move.axis[0].extent.value / GPL_N * GPL_N, stride = move.axis[1].target_stride;
  if (first - tile.b >= GPL_TILE_B) return;
#pragma unroll 1
  for (unsigned item = threadIdx.x & (GPL_THREADS - 1); item < GPL_WORDS * GPL_N; item += GPL_THREADS) {
    const unsigned number = item / GPL_N;
    const gpl_uint a = tile.a + number * GPL_P, b = first + item % GPL_N;
    const uint4* chunk = shared + gpl_position(b - tile.b, number * GPL_WORD_BYTES / 16);
    union {
      gpl_word word;
      gpl_element element[GPL_P];
    };
    word = ((const gpl_word*)chunk)[number % (16 / GPL_WORD_BYTES)];
#pragma unroll
    for (int p = 0; p < GPL_P; ++p) {
      if (b >= move.axis[0].extent.value || a + p >= move.axis[1].extent.value) continue;
      if constexpr (GPL_COMPUTES_LAST)
        element[p] = gpl_computed(element[p], gpl_operands(gpl_along_axis(tile.place.parameters, a + p, 1, move), move), b,
                                  move.axis[0].extent.value, move);
      gpl_put<GPL_ELEMENT_BYTES>(gpl_at(target, tile.place.target + b + (a + p) * stride), element[p]);
    }
  }
}

// 16 bytes in one store.  With 64-bit offsets, compilers make four stores of an assignment.
__device__ __forceinline__ void gpl_store_chunk(gpl_target_element* to, uint4 chunk) {
#if GPL_INDEX_BITS == 64 && GPL_TARGET_BYTES == GPL_ELEMENT_BYTES
  __stwb((uint4*)to, chunk);
#else
  gpl_put<16>(to, chunk);
#endif
}

template <bool WHOLE>
__device__ __forceinline__ void gpl_store_tile(void* __restrict__ target, const GplTile& tile, const uint4* shared,
                                               const GplMove& move) {
  const unsigned thread = threadIdx.x & (GPL_THREADS - 1), line = thread / 8;
  const unsigned number = line % GPL_WORDS, column = thread % 8 + line / GPL_WORDS * 8, matrix = column * GPL_N / GPL_TILE_B;
  const gpl_uint a = tile.a + number * GPL_P, b = tile.b + column * GPL_N % GPL_TILE_B, stride = move.axis[1].target_stride;
  gpl_target_element* first = gpl_at(target, tile.place.target + b + a * stride + matrix * move.steps.target_step);
  const gpl_int below = move.axis[1].extent.value - a, beside = move.axis[0].extent.value - b, matrices = tile.matrices - matrix;
  const unsigned position = column * GPL_N * GPL_CHUNKS + (number * GPL_WORD_BYTES / 16 ^ (column & 7));
  GplOperands row[GPL_LINES];
  if constexpr (GPL_COMPUTES_LAST) {
#pragma unroll
    for (int i = 0; i < GPL_LINES; ++i) {
      const gpl_uint at = a + GPL_WORD_STEP(i / GPL_P) * GPL_P + i % GPL_P, which = GPL_DEPTH > 1 ? matrix + GPL_TURN_MATRIX(i / GPL_P) : 0;
      const GplParameters there = gpl_deeper(tile.place.parameters, WHOLE ? which : min(which, tile.matrices - 1), move);
      row[i] = gpl_operands(gpl_along_axis(there, WHOLE ? at : min(at, move.axis[1].extent.value - 1), 1, move), move);
    }
  }
#pragma unroll
  for (int k = 0; k < GPL_TURNS; ++k) {
    const unsigned step = GPL_WORD_STEP(k) * GPL_WORD_BYTES / 16 ^ (GPL_COLUMN_STEP(k) & 7);
    const uint4* chunks = shared + GPL_COLUMN_STEP(k) * GPL_N * GPL_CHUNKS;
    gpl_word word[GPL_N];
#pragma unroll
    for (int i = 0; i < GPL_N; ++i)
      word[i] = ((const gpl_word*)(chunks + (position ^ step ^ (i * GPL_CHUNKS & 7)) + (i * GPL_CHUNKS & ~7)))[number % (16 / GPL_WORD_BYTES)];
    uint4 chunk[GPL_P];
    gpl_words_to_chunks(word, chunk);
#pragma unroll
    for (int p = 0; p < GPL_P; ++p) {
      const int down = GPL_WORD_STEP(k) * GPL_P + p, right = GPL_TURN_PLACE(k), far = GPL_TURN_MATRIX(k);
      if (WHOLE || (down < below && right + GPL_N <= beside && far < matrices)) {
        if constexpr (GPL_COMPUTES_LAST)
          chunk[p] = gpl_computed_chunk<16>({chunk[p]}, row[(k * GPL_P + p) % GPL_LINES], b + right, GPL_NO_END, move).word;
        gpl_store_chunk(first + (gpl_int)(down * stride + far * move.steps.target_step) + right, chunk[p]);
      }
    }
  }
  if (!WHOLE && GPL_RAGGED) gpl_store_rest(target, tile, shared, move);
}

GPL_KERNEL gpl_tile_vector(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  __shared__ uint4 shared_tile[GPL_ROWS * GPL_CHUNKS];
  if (GPL_INDEX_BITS == 64 && gpl_block() >= move.total) return;  // the whole block, before any barrier; only 2-D grids have such
  const GplTile tile = gpl_tile(gpl_block(), move);
  const bool whole = tile.place.inside && tile.matrices >= GPL_DEPTH && tile.b + GPL_TILE_B <= move.axis[0].bound &&
                     tile.a + GPL_TILE_A <= move.axis[1].bound;
  if (whole) gpl_load_tile<true>(source, tile, shared_tile, move);
  else gpl_load_tile<false>(source, tile, shared_tile, move);
  __syncthreads();
  if (whole) gpl_store_tile<true>(target, tile, shared_tile, move);
  else gpl_store_tile<false>(target, tile, shared_tile, move);
}
