// Tile through shared memory: the minor axis of the target (b, axis 0) is not the minor axis of the source (a, axis 1).
//
// Reading along a and writing along b would leave one side scattered.  A block reads a tile of GPL_TILE_A x GPL_TILE_B
// elements in 16-byte chunks along a, keeps it in shared memory, and writes 16-byte chunks along b.  This kernel needs
// both sides aligned to 16 bytes; tile_any.cu takes the rest.
//
// With N = 16 / element bytes elements in a chunk:
//   shared memory holds row b as GPL_CHUNKS chunks; chunk c of row b lies at position  c ^ (b / N % GPL_CHUNKS)
//   writing:  8 neighbouring lanes store 8 chunks of one row: 128 bytes, all 32 banks once
//   reading:  a thread collects N elements of one column a, rows b = N * lane_b ... N * lane_b + N - 1.  In step i,
//             8 lanes with different lane_b read chunk a / N of rows that differ in b / N: the xor sends them to 8
//             different 16-byte columns, that is to different banks.  4 further values of a in the warp are the
//             other words of the same chunks (or the same word, which is read once and broadcast).
// Without the xor those 8 lanes would meet in one bank: rows are a multiple of 128 bytes long.
//
// Example, 4-byte elements: tile 64 x 64, N = 4, 16 chunks a row, 16 KB; a thread moves 4 chunks each way.
//
// count[0], count[1] are the tiles along b and a, `total` the tiles in all; the block number runs fastest along b,
// so that neighbouring blocks complete the sectors of the same target rows in the cache.
// Padding costs no extra pass: a chunk past the bound is the pad, one across it is put together element by element,
// and tiles outside another axis' bound write pads without reading.
#include "move.cuh"

#define GPL_N (16 / GPL_ELEMENT_BYTES)
#if GPL_ELEMENT_BYTES == 1
#define GPL_TILE_A 128
#define GPL_TILE_B 128
#elif GPL_ELEMENT_BYTES == 2 || GPL_ELEMENT_BYTES == 4
#define GPL_TILE_A 64
#define GPL_TILE_B 64
#elif GPL_ELEMENT_BYTES == 8
#define GPL_TILE_A 32
#define GPL_TILE_B 32
#else
#define GPL_TILE_A 16
#define GPL_TILE_B 32
#endif
#define GPL_CHUNKS (GPL_TILE_A / GPL_N)              // chunks in a row of shared memory
#define GPL_COLUMNS (GPL_TILE_B / GPL_N)             // chunks along b
#define GPL_LOADS (GPL_TILE_B * GPL_CHUNKS / GPL_THREADS)
#define GPL_STORES (GPL_TILE_A * GPL_COLUMNS / GPL_THREADS)

union GplChunk {
  uint4 vector;
  gpl_element element[GPL_N];
};

struct GplTile {
  gpl_uint a, b;           // first coordinates
  GplPlace place;          // where the tile's other axes put it, a = b = 0
};

__device__ __forceinline__ GplTile gpl_tile(gpl_uint number, const GplMove& move) {
  const gpl_uint above = gpl_divide(number, move.count[0]);
  const gpl_uint others = gpl_divide(above, move.count[1]);
  GplTile tile;
  tile.b = (number - above * move.count[0].value) * GPL_TILE_B;
  tile.a = (above - others * move.count[1].value) * GPL_TILE_A;
  tile.place = gpl_place<2>(others, move);
  return tile;
}

// The chunk of row b that starts at a; what lies past the bounds is never used and not read.
__device__ __forceinline__ uint4 gpl_load(const void* source, const GplTile& tile, gpl_uint a, gpl_uint b, const GplMove& move) {
  GplChunk chunk;
  chunk.vector = make_uint4(0, 0, 0, 0);
  if (b >= move.axis[0].bound || a >= move.axis[1].bound) return chunk.vector;
  const gpl_element* from = gpl_at(source, tile.place.source + a + b * move.axis[0].source_stride);
  if (a + GPL_N <= move.axis[1].bound) return *(const uint4*)from;
#pragma unroll
  for (int i = 0; i < GPL_N; ++i)
    if (a + i < move.axis[1].bound) chunk.element[i] = from[i];
  return chunk.vector;
}

__device__ __forceinline__ void gpl_store(void* target, const GplTile& tile, gpl_uint a, gpl_uint b, GplChunk chunk, const GplMove& move) {
  const gpl_uint extent = move.axis[0].extent.value, bound = move.axis[0].bound;
  if (b >= extent || a >= move.axis[1].extent.value) return;
  gpl_element* to = gpl_at(target, tile.place.target + b + a * move.axis[1].target_stride);
  const bool inside = tile.place.inside && a < move.axis[1].bound;
  if (!inside || b + GPL_N > bound) {
    gpl_element pad;
    gpl_pad(move, pad);
#pragma unroll
    for (int i = 0; i < GPL_N; ++i)
      if (!inside || b + i >= bound) chunk.element[i] = pad;
  }
  if (b + GPL_N <= extent) {
    *(uint4*)to = chunk.vector;
    return;
  }
#pragma unroll
  for (int i = 0; i < GPL_N; ++i)
    if (b + i < extent) to[i] = chunk.element[i];
}

extern "C" __global__ void __launch_bounds__(GPL_THREADS)
gpl_tile_vector(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  __shared__ uint4 shared_tile[GPL_TILE_B * GPL_CHUNKS];
  if (gpl_block() >= move.total) return;                          // the same for the whole block
  const GplTile tile = gpl_tile((gpl_uint)gpl_block(), move);

  if (tile.place.inside) {
    uint4 value[GPL_LOADS];
#pragma unroll
    for (int k = 0; k < GPL_LOADS; ++k) {
      const unsigned item = threadIdx.x + k * GPL_THREADS;
      value[k] = gpl_load(source, tile, tile.a + item % GPL_CHUNKS * GPL_N, tile.b + item / GPL_CHUNKS, move);
    }
#pragma unroll
    for (int k = 0; k < GPL_LOADS; ++k) {
      const unsigned item = threadIdx.x + k * GPL_THREADS, row = item / GPL_CHUNKS;
      shared_tile[row * GPL_CHUNKS + (item % GPL_CHUNKS ^ (row / GPL_N & (GPL_CHUNKS - 1)))] = value[k];
    }
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < GPL_STORES; ++k) {
    const unsigned item = threadIdx.x + k * GPL_THREADS;
    const unsigned a = item / 8 % GPL_TILE_A, column = item % 8 + item / 8 / GPL_TILE_A * 8;
    const unsigned chunk = a / GPL_N ^ (column & (GPL_CHUNKS - 1));
    const gpl_element* from = (const gpl_element*)&shared_tile[column * GPL_N * GPL_CHUNKS + chunk] + a % GPL_N;
    GplChunk value;
#pragma unroll
    for (int i = 0; i < GPL_N; ++i) value.element[i] = from[i * GPL_CHUNKS * GPL_N];
    gpl_store(target, tile, tile.a + a, tile.b + column * GPL_N, value, move);
  }
}
