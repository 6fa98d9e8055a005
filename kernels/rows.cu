// Row copy: the minor axis is contiguous on both sides, and whole rows move, whatever the order of the other axes.
//
// A row of the target is cut into chunks of GPL_VECTOR_BYTES at multiples of that many bytes, wherever the row begins, so
// its first and last chunk may be partial.  One thread moves GPL_ITEMS chunks.  Neighbouring threads take neighbouring
// chunks, so a warp reads and writes 512 contiguous bytes if rows are that long.  count[0] is the number of chunks in a row,
// `total` the number of all chunks.
// One division finds the row; its place costs one more division per further axis.
//
// GPL_LOAD_BYTES divides the distance between the two sides.  If it is less than a chunk, chunks are cut out of two aligned
// vectors of the source, shifted by that distance.
//
// Example, 4-byte elements, 16-byte chunks, extent 8, bound 6, a row that begins 8 bytes after a multiple of 16:
//   chunk 0: elements 0 1        chunk 1: 2 3 4 5        chunk 2: 6 7, which are pad
// Padding is written in the same pass.  Rows outside the bound of another axis are entirely pad and read nothing.
//
// Macros: those of move.cuh, GPL_VECTOR_BYTES, GPL_LOAD_BYTES.
#include "shift.cuh"

// Fewer chunks keep a thread busy if each is read in pieces; the same numbers as in gpu/copy_rows.py.
#define GPL_ITEMS (GPL_VECTOR_BYTES > GPL_LOAD_BYTES ? 2 : 4)
#define GPL_PER_CHUNK (GPL_VECTOR_BYTES / GPL_ELEMENT_BYTES)

// Elements between the last multiple of GPL_VECTOR_BYTES and an address.
__device__ __forceinline__ gpl_uint gpl_phase(const gpl_element* address) {
  return (gpl_uint)((unsigned long long)address / GPL_ELEMENT_BYTES) % GPL_PER_CHUNK;
}

GPL_KERNEL gpl_rows(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint first = gpl_block() * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;
  GplRead<GPL_VECTOR_BYTES> read[GPL_ITEMS];
  gpl_element* to[GPL_ITEMS];
  gpl_uint start[GPL_ITEMS];         // of the chunk, in its row; "negative" if the chunk begins before the row
  gpl_uint bound[GPL_ITEMS];         // elements of the row
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const gpl_uint item = first + k * GPL_THREADS;
    if (item >= move.total) continue;
    const gpl_uint number = gpl_divide(item, move.count[0]);
    const GplPlace row = gpl_place<1>(number, move);
    start[k] = (item - number * move.count[0].value) * GPL_PER_CHUNK - gpl_phase(gpl_at(target, row.target));
    to[k] = gpl_at(target, row.target + start[k]);
    bound[k] = row.inside ? move.axis[0].bound : 0;
    read[k] = gpl_read<GPL_VECTOR_BYTES, GPL_LOAD_BYTES>(source, gpl_at(source, row.source + start[k]), start[k], bound[k], move);
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    if (first + k * GPL_THREADS >= move.total) continue;
    const GplChunk<GPL_VECTOR_BYTES> chunk = gpl_shifted<GPL_VECTOR_BYTES, GPL_LOAD_BYTES>(read[k], start[k], bound[k], move);
    gpl_store<GPL_VECTOR_BYTES>(to[k], start[k], move.axis[0].extent.value, chunk);
  }
}
