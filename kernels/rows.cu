// Row copy: the minor axis is contiguous on both sides; whole rows move, whatever order the other axes have.
//
// A row of the target is cut into chunks of GPL_VECTOR_BYTES; count[0] is the number of chunks in a row, `total` the
// number of chunks in all.  One thread moves GPL_ITEMS chunks: neighbouring threads take neighbouring chunks, so a
// warp reads and writes 512 contiguous bytes when a row is that long.  One division finds the row, and the row's
// place costs one division per further axis: about 30 instructions for a 16-byte chunk at rank 4, where the memory
// leaves room for 160.
//
// Padding is written in the same pass.  Example: 4-byte elements, 16-byte chunks, extent 8, bound 6:
//   chunk 0: elements 0 1 2 3         chunk 1: elements 4 5, pad, pad
// Rows that lie outside another axis' bound are all pad and read nothing.
#include "move.cuh"

#define GPL_ITEMS 4
#define GPL_PER_VECTOR (GPL_VECTOR_BYTES / GPL_ELEMENT_BYTES)
typedef GplWord<GPL_VECTOR_BYTES>::type gpl_vector;

union GplChunk {
  gpl_vector vector;
  gpl_element element[GPL_PER_VECTOR];
};

// The chunk of a row that starts at element `start`; `row` says where the row begins on the source side.
__device__ __forceinline__ gpl_vector gpl_load(const void* source, const GplPlace& row, gpl_uint start, const GplMove& move) {
  GplChunk chunk;
  gpl_pad(move, chunk.vector);
  const gpl_uint bound = move.axis[0].bound;
  if (!row.inside || start >= bound) return chunk.vector;
  const gpl_element* from = gpl_at(source, row.source + start);
  if (start + GPL_PER_VECTOR <= bound) return *(const gpl_vector*)from;
#pragma unroll
  for (int i = 0; i < GPL_PER_VECTOR; ++i)
    if (start + i < bound) chunk.element[i] = from[i];
  return chunk.vector;
}

__device__ __forceinline__ void gpl_store(void* target, const GplPlace& row, gpl_uint start, gpl_vector value, const GplMove& move) {
  const gpl_uint extent = move.axis[0].extent.value;
  gpl_element* to = gpl_at(target, row.target + start);
  if (start + GPL_PER_VECTOR <= extent) {
    *(gpl_vector*)to = value;
    return;
  }
  GplChunk chunk;
  chunk.vector = value;
#pragma unroll
  for (int i = 0; i < GPL_PER_VECTOR; ++i)
    if (start + i < extent) to[i] = chunk.element[i];
}

extern "C" __global__ void __launch_bounds__(GPL_THREADS)
gpl_rows(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint first = (gpl_uint)gpl_block() * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;
  gpl_vector value[GPL_ITEMS];
  GplPlace row[GPL_ITEMS];
  gpl_uint start[GPL_ITEMS];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const gpl_uint chunk = first + k * GPL_THREADS;
    if (chunk >= move.total) continue;
    const gpl_uint number = gpl_divide(chunk, move.count[0]);
    row[k] = gpl_place<1>(number, move);
    start[k] = (chunk - number * move.count[0].value) * GPL_PER_VECTOR;
    value[k] = gpl_load(source, row[k], start[k], move);
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k)
    if (first + k * GPL_THREADS < move.total) gpl_store(target, row[k], start[k], value[k], move);
}
