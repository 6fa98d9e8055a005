// Tile through shared memory, for sides that are not aligned to 16 bytes, odd extents and short runs.
//
// As in tile.cu, the target's minor axis b (axis 0) differs from the source's minor axis a (axis 1).  Here the host chooses
// the extents of the tile: tile[1] along a, tile[0] along b.  A thread reads pieces of GPL_READ_BYTES along a and writes
// pieces of GPL_WRITE_BYTES along b: single elements, or words of 4 bytes if elements are smaller.
// Lanes continue across row ends, so that even a short a, such as 3 colour channels, reads whole sectors: with a = 3 and a
// source stride of 3 along b, the tile is one contiguous run of the source.  Pieces may then cross row ends too; the host
// ensures that they do so only if the rows are contiguous.
//
// Shared memory holds row b at b * pitch.  While writing, neighbouring lanes read places E rows apart, where E is the
// number of elements in a piece.  The host chooses the pitch so that E rows are an odd number of 4-byte words, or of
// elements if these are larger: 32 lanes then read from 32 different banks.
//   4-byte elements, E = 1, pitch 65: row b of column a is word 65 b + a, bank (b + a) % 32
//   1-byte elements, E = 4, pitch 3:  4 rows are 12 bytes, 3 words
//
// Example, u8 with 3 channels, pixels in rows of 1000: a tile is 3 x 2720.  A thread reads 4 bytes, which are the 3
// channels of one pixel and 1 of the next, and later writes 4 pixels of one channel.
//
// count[0], count[1] are the tiles along b and a, `total` the number of all tiles.
// Places outside the bounds enter shared memory as pad and are not read.
//
// Macros: those of move.cuh, GPL_READ_BYTES, GPL_WRITE_BYTES.
#include "move.cuh"

// Elements of a tile, 8 KB, and of shared memory with the pitch; the same numbers as in gpu/tile.py.
#define GPL_TILE_ELEMENTS (8192 / GPL_ELEMENT_BYTES)
#define GPL_SHARED_ELEMENTS (GPL_TILE_ELEMENTS / 16 * 17)
#define GPL_BATCH 4                  // pieces of a thread that are loaded before the first is stored

// A tile, in 32 bits: its extents, and how many elements of the source and places of the target are inside it.
struct GplFlexible {
  GplPlace first;                    // of its first element
  unsigned a, b, bound_a, bound_b, extent_a, extent_b;
};

__device__ __forceinline__ unsigned gpl_left(gpl_uint whole, gpl_uint first, unsigned most) {
  return first >= whole ? 0 : whole - first < most ? (unsigned)(whole - first) : most;
}

__device__ __forceinline__ GplFlexible gpl_flexible(gpl_uint number, const GplMove& move) {
  const gpl_uint above = gpl_divide(number, move.count[0]), others = gpl_divide(above, move.count[1]);
  const gpl_uint first_b = (number - above * move.count[0].value) * move.tile[0].value;
  const gpl_uint first_a = (above - others * move.count[1].value) * move.tile[1].value;
  GplFlexible tile;
  tile.first = gpl_place<2>(others, move);
  tile.first.source += first_a + first_b * move.axis[0].source_stride;
  tile.first.target += first_b + first_a * move.axis[1].target_stride;
  tile.a = (unsigned)move.tile[1].value, tile.b = (unsigned)move.tile[0].value;
  tile.bound_a = gpl_left(move.axis[1].bound, first_a, tile.a), tile.bound_b = gpl_left(move.axis[0].bound, first_b, tile.b);
  tile.extent_a = gpl_left(move.axis[1].extent.value, first_a, tile.a);
  tile.extent_b = gpl_left(move.axis[0].extent.value, first_b, tile.b);
  if (!tile.first.inside) tile.bound_a = tile.bound_b = 0;
  return tile;
}

// An element of a tile in the order of one side: `minor` runs up to `width`, then `major` steps.
struct GplSpot {
  unsigned minor, major;
};

__device__ __forceinline__ GplSpot gpl_spot(unsigned number, const GplDivisor& width) {
  const unsigned major = gpl_divide_small(number, width);
  return {number - major * (unsigned)width.value, major};
}

__device__ __forceinline__ void gpl_next(GplSpot& spot, unsigned width) {
  if (++spot.minor == width) spot.minor = 0, ++spot.major;
}

// Walks the places of a piece in shared memory: `step` apart, and `turn` more at the end of a row of `width` elements.
struct GplWalk {
  unsigned place, left;              // left: elements of this row from here on
  __device__ __forceinline__ void next(unsigned step, unsigned width, unsigned turn) {
    place += step;
    if (--left == 0) left = width, place += turn;
  }
};

// True if the `count` elements from `spot` on are inside minor < minor_end, major < major_end.  It is enough to check the
// first and the last: within a row the others are between them, and if rows touch, minor_end is the width.
template <bool WHOLE>
__device__ __forceinline__ bool gpl_inside(GplSpot spot, unsigned count, unsigned width, unsigned minor_end, unsigned major_end) {
  if (WHOLE) return true;
  if (spot.minor >= minor_end || spot.major >= major_end) return false;
  for (unsigned i = 1; i < count; ++i) gpl_next(spot, width);
  return spot.minor < minor_end && spot.major < major_end;
}

template <bool WHOLE>
__device__ __forceinline__ void gpl_read_tile(const void* __restrict__ source, const GplFlexible& tile, gpl_element* shared,
                                              const GplMove& move) {
  const unsigned elements = GPL_READ_BYTES / GPL_ELEMENT_BYTES, count = (tile.a * tile.b + elements - 1) / elements;
  const unsigned pitch = (unsigned)move.pitch;
  for (unsigned first = threadIdx.x; first < count; first += GPL_BATCH * GPL_THREADS) {
    GplChunk<GPL_READ_BYTES> piece[GPL_BATCH];
#pragma unroll
    for (int k = 0; k < GPL_BATCH; ++k) {
      if (first + k * GPL_THREADS >= count) break;
      GplSpot spot = gpl_spot((first + k * GPL_THREADS) * elements, move.tile[1]);
      const gpl_element* from = gpl_at(source, tile.first.source + spot.minor + spot.major * move.axis[0].source_stride);
      if (gpl_inside<WHOLE>(spot, elements, tile.a, tile.bound_a, tile.bound_b)) {
        piece[k].word = *(const GplWord<GPL_READ_BYTES>::type*)from;
        continue;
      }
      gpl_pad(move, piece[k].word);
#pragma unroll
      for (unsigned i = 0; i < elements; ++i, gpl_next(spot, tile.a))
        if (spot.minor < tile.bound_a && spot.major < tile.bound_b) piece[k].element[i] = from[i];
    }
#pragma unroll
    for (int k = 0; k < GPL_BATCH; ++k) {
      if (first + k * GPL_THREADS >= count) break;
      const unsigned number = (first + k * GPL_THREADS) * elements;
      const GplSpot spot = gpl_spot(number, move.tile[1]);
      GplWalk walk = {spot.major * pitch + spot.minor, tile.a - spot.minor};
#pragma unroll
      for (unsigned i = 0; i < elements; ++i, walk.next(1, tile.a, pitch - tile.a))
        if (WHOLE || number + i < tile.a * tile.b) shared[walk.place] = piece[k].element[i];
    }
  }
}

template <bool WHOLE>
__device__ __forceinline__ void gpl_write_tile(void* __restrict__ target, const GplFlexible& tile, const gpl_element* shared,
                                               const GplMove& move) {
  const unsigned elements = GPL_WRITE_BYTES / GPL_ELEMENT_BYTES, count = (tile.a * tile.b + elements - 1) / elements;
  const unsigned pitch = (unsigned)move.pitch;
#pragma unroll 4
  for (unsigned item = threadIdx.x; item < count; item += GPL_THREADS) {
    const GplSpot spot = gpl_spot(item * elements, move.tile[0]);
    gpl_element* to = gpl_at(target, tile.first.target + spot.minor + spot.major * move.axis[1].target_stride);
    GplChunk<GPL_WRITE_BYTES> piece;
    GplWalk walk = {spot.minor * pitch + spot.major, tile.b - spot.minor};
#pragma unroll
    for (unsigned i = 0; i < elements; ++i, walk.next(pitch, tile.b, 1 - tile.b * pitch)) piece.element[i] = shared[walk.place];
    if (gpl_inside<WHOLE>(spot, elements, tile.b, tile.extent_b, tile.extent_a)) {
      *(GplWord<GPL_WRITE_BYTES>::type*)to = piece.word;
      continue;
    }
    GplSpot at = spot;
#pragma unroll
    for (unsigned i = 0; i < elements; ++i, gpl_next(at, tile.b))
      if (at.minor < tile.extent_b && at.major < tile.extent_a) to[i] = piece.element[i];
  }
}

GPL_KERNEL gpl_tile_any(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  __shared__ gpl_element shared_any[GPL_SHARED_ELEMENTS];
  if (gpl_block() >= move.total) return;                          // the whole block, before any barrier
  const GplFlexible tile = gpl_flexible(gpl_block(), move);
  // A complete tile of whole pieces takes the path without checks.
  const unsigned count = tile.a * tile.b;
  const bool read_whole = tile.bound_a == tile.a && tile.bound_b == tile.b && count % (GPL_READ_BYTES / GPL_ELEMENT_BYTES) == 0;
  const bool write_whole = tile.extent_a == tile.a && tile.extent_b == tile.b && count % (GPL_WRITE_BYTES / GPL_ELEMENT_BYTES) == 0;
  if (read_whole) gpl_read_tile<true>(source, tile, shared_any, move);
  else gpl_read_tile<false>(source, tile, shared_any, move);
  __syncthreads();
  if (write_whole) gpl_write_tile<true>(target, tile, shared_any, move);
  else gpl_write_tile<false>(target, tile, shared_any, move);
}
