// Tile through shared memory, for sides that are not aligned to 16 bytes, odd extents and short runs.
//
// As in tile.cu the target's minor axis b (axis 0) differs from the source's minor axis a (axis 1).  Here the tile's
// extents are chosen by the host (tile[1] along a, tile[0] along b) and every thread moves single elements.  Lanes run
// along a while reading and along b while writing, across row ends, so that a short a such as 3 colour channels
// still reads whole sectors: with a = 3 and a source stride of 3 along b the tile is one contiguous run.
//
// Shared memory holds row b at b * pitch; the host makes the pitch an odd number of 4-byte words (or of elements
// where they are larger), so that a column, read by lanes with neighbouring b, falls into 32 different banks:
//   pitch 65, 4-byte elements: row b of column a is word 65 b + a, bank (b + a) % 32.
// count[0], count[1] are the tiles along b and a, `total` the tiles in all; `pitch` the pitch.
#include "move.cuh"

// Elements of a tile, 8 KB (4 KB of bytes), and of shared memory with the pitch; planning/tile_shape.py keeps to both.
#define GPL_TILE_ELEMENTS (GPL_ELEMENT_BYTES <= 2 ? 4096 : 8192 / GPL_ELEMENT_BYTES)
#define GPL_SHARED_ELEMENTS (GPL_TILE_ELEMENTS / 16 * 17)
#define GPL_PER_THREAD (GPL_TILE_ELEMENTS / GPL_THREADS)

extern "C" __global__ void __launch_bounds__(GPL_THREADS)
gpl_tile_any(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  __shared__ gpl_element shared_any[GPL_SHARED_ELEMENTS];
  if (gpl_block() >= move.total) return;                          // the same for the whole block
  const unsigned pitch = (unsigned)move.pitch;
  const gpl_uint number = (gpl_uint)gpl_block();
  const gpl_uint above = gpl_divide(number, move.count[0]), others = gpl_divide(above, move.count[1]);
  const gpl_uint first_b = (number - above * move.count[0].value) * move.tile[0].value;
  const gpl_uint first_a = (above - others * move.count[1].value) * move.tile[1].value;
  const GplPlace place = gpl_place<2>(others, move);
  const unsigned tile_a = (unsigned)move.tile[1].value, tile_b = (unsigned)move.tile[0].value;

  if (place.inside) {
#pragma unroll 4
    for (int k = 0; k < GPL_PER_THREAD; ++k) {
      const unsigned item = threadIdx.x + k * GPL_THREADS;
      if (item >= tile_a * tile_b) break;
      const unsigned b = (unsigned)gpl_divide(item, move.tile[1]), a = item - b * tile_a;
      if (first_a + a < move.axis[1].bound && first_b + b < move.axis[0].bound)
        shared_any[b * pitch + a] = *gpl_at(source, place.source + first_a + a + (first_b + b) * move.axis[0].source_stride);
    }
  }
  __syncthreads();
#pragma unroll 4
  for (int k = 0; k < GPL_PER_THREAD; ++k) {
    const unsigned item = threadIdx.x + k * GPL_THREADS;
    if (item >= tile_a * tile_b) break;
    const unsigned a = (unsigned)gpl_divide(item, move.tile[0]), b = item - a * tile_b;
    if (first_a + a >= move.axis[1].extent.value || first_b + b >= move.axis[0].extent.value) continue;
    gpl_element value;
    gpl_pad(move, value);
    if (place.inside && first_a + a < move.axis[1].bound && first_b + b < move.axis[0].bound)
      value = shared_any[b * pitch + a];
    *gpl_at(target, place.target + first_b + b + (first_a + a) * move.axis[1].target_stride) = value;
  }
}
