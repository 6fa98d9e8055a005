// Contiguous copy: both sides are the same run of `total` elements.
//
// The target is cut into chunks of 16 bytes at multiples of 16.  `head` elements stand before the first of them;
// they and what is left at the end are copied one by one, by the first threads of the first block.  Where the source
// has another phase than the target, its chunks are read in pieces of GPL_LOAD_BYTES.
//
// Example: 4-byte elements, target 8 past a multiple of 16, source 12 past one, total 11:
//   head = 2 elements, then 2 chunks of 4, each read as 4 pieces of 4 bytes, then a tail of 1.
//
// Each thread moves GPL_ITEMS chunks, loaded before the first is stored, so that 64 bytes are in flight.
//
// Macros: those of move.cuh, GPL_LOAD_BYTES.
#include "move.cuh"

#define GPL_ITEMS 4
#define GPL_PER_CHUNK (16 / GPL_ELEMENT_BYTES)
#define GPL_SHIFTED (GPL_LOAD_BYTES < 4)      // only these reads ask where in the run they are

GPL_KERNEL gpl_copy(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint head = move.head, chunks = (move.total - head) / GPL_PER_CHUNK;
  const gpl_element* from = gpl_at(source, head);
  uint4* to = (uint4*)gpl_at(target, head);
  const gpl_uint first = gpl_block() * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;

  GplChunk<16> chunk[GPL_ITEMS];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const gpl_uint number = first + k * GPL_THREADS;
    if (number < chunks)
      chunk[k] = gpl_load<16, GPL_LOAD_BYTES>(from + number * GPL_PER_CHUNK, GPL_SHIFTED ? head + number * GPL_PER_CHUNK : 0,
                                              GPL_SHIFTED ? move.total : GPL_PER_CHUNK, move);
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k)
    if (first + k * GPL_THREADS < chunks) to[first + k * GPL_THREADS] = chunk[k].word;

  if (first < GPL_PER_CHUNK) {     // head and tail are each shorter than a chunk
    if (first < head) *gpl_at(target, first) = *gpl_at(source, first);
    const gpl_uint tail = head + chunks * GPL_PER_CHUNK + first;
    if (tail < move.total) *gpl_at(target, tail) = *gpl_at(source, tail);
  }
}
