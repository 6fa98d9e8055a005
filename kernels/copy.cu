// Contiguous copy: both sides are the same run of `total` elements.
//
// The target is cut into chunks of 16 bytes at multiples of 16.  `head` elements stand before the first of them;
// they and what is left at the end are copied one by one, by the first threads of the first block.  Where the source
// has another phase than the target, its chunks are taken out of aligned vectors; GPL_LOAD_BYTES divides the distance.
//
// Example: 4-byte elements, target 8 past a multiple of 16, source 12 past one, total 11:
//   head = 2 elements, then 2 chunks of 4, each out of two vectors that hold it, then a tail of 1.
//
// Each thread moves GPL_ITEMS chunks, loaded before the first is stored, so that 64 bytes are in flight,
// half as many where each is out of two vectors.
//
// Macros: those of move.cuh, GPL_LOAD_BYTES.
#include "shift.cuh"

#define GPL_ITEMS (GPL_LOAD_BYTES < 16 ? 2 : 4)     // gpu/copy_rows.py knows the number too
#define GPL_PER_CHUNK (16 / GPL_ELEMENT_BYTES)

GPL_KERNEL gpl_copy(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint head = move.head, chunks = (move.total - head) / GPL_PER_CHUNK;
  const gpl_element* from = gpl_at(source, head);
  uint4* to = (uint4*)gpl_at(target, head);
  const gpl_uint first = gpl_block() * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;

  GplRead<16> read[GPL_ITEMS];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const gpl_uint number = first + k * GPL_THREADS;
    if (number < chunks)
      read[k] = gpl_read<16, GPL_LOAD_BYTES>(source, from + number * GPL_PER_CHUNK, 0, GPL_PER_CHUNK, move);
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k)
    if (first + k * GPL_THREADS < chunks)
      to[first + k * GPL_THREADS] = gpl_shifted<16, GPL_LOAD_BYTES>(read[k], 0, GPL_PER_CHUNK, move).word;

  if (first < GPL_PER_CHUNK) {     // head and tail are each shorter than a chunk
    if (first < head) *gpl_at(target, first) = *gpl_at(source, first);
    const gpl_uint tail = head + chunks * GPL_PER_CHUNK + first;
    if (tail < move.total) *gpl_at(target, tail) = *gpl_at(source, tail);
  }
}
