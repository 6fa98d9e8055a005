// Contiguous copy: both sides are the same run of `total` elements.
//
// The target is cut into chunks of 16 bytes at multiples of 16.  The `head` elements before the first chunk and the tail
// after the last are copied one by one, by the first threads of the first block.  If source and target have different
// phases, chunks are cut out of aligned vectors of the source; GPL_LOAD_BYTES divides the distance.
//
// Example: 4-byte elements, target 8 past a multiple of 16, source 12 past one, total 11:
//   head = 2 elements, then 2 chunks of 4, each cut out of two vectors, then a tail of 1.
//
// Each thread moves GPL_ITEMS chunks and loads all before it stores the first, so that 64 bytes are in flight.  If each
// chunk is cut out of two vectors, a thread moves half as many; if elements change on the way, and so have fewer bytes on one
// side, twice as many.
//
// Macros: those of move.cuh, GPL_LOAD_BYTES.  Numbers: GPL_ALIGNED_ITEMS, GPL_SHIFTED_ITEMS, GPL_CHANGED_ITEMS.
#if !defined(GPL_LOAD_BYTES) || !defined(GPL_ALIGNED_ITEMS) || !defined(GPL_SHIFTED_ITEMS) || \
    !defined(GPL_CHANGED_ITEMS)
#error "copy.cu needs GPL_LOAD_BYTES, GPL_ALIGNED_ITEMS, GPL_SHIFTED_ITEMS and GPL_CHANGED_ITEMS"
#endif
#include "shift.cuh"

#define GPL_ITEMS (GPL_LOAD_BYTES < 16 ? GPL_SHIFTED_ITEMS : GPL_CHANGES && GPL_ELEMENT_BYTES >= 4 ? GPL_CHANGED_ITEMS : GPL_ALIGNED_ITEMS)
#define GPL_PER_CHUNK (16 / GPL_ELEMENT_BYTES)

GPL_KERNEL gpl_copy(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint head = move.head, chunks = (move.total - head) / GPL_PER_CHUNK;
  const gpl_source_element* from = gpl_at(source, head);
  GplWord<GPL_TARGET_PART(16)>::type* to = (GplWord<GPL_TARGET_PART(16)>::type*)gpl_at(target, head);
  const GplOperands operands = gpl_operands(gpl_first_parameters(move), move);
  const gpl_uint first = gpl_block() * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;

  GplRead<16> read[GPL_ITEMS];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const gpl_uint number = first + k * GPL_THREADS;
    if (number < chunks)
      read[k] = gpl_read<16, GPL_LOAD_BYTES>(source, from + number * GPL_PER_CHUNK, 0, GPL_PER_CHUNK, move);
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const gpl_uint number = first + k * GPL_THREADS;
    if (number >= chunks) continue;
    const GplChunk<16> chunk = gpl_shifted<16, GPL_LOAD_BYTES>(read[k], 0, GPL_PER_CHUNK, move);
    gpl_deliver((gpl_target_element*)(to + number), chunk, operands, head + number * GPL_PER_CHUNK, GPL_NO_END, move);
  }

  if (first < GPL_PER_CHUNK) {     // head and tail are each shorter than a chunk
    if (first < head) *gpl_at(target, first) = (gpl_target_element)gpl_computed(*gpl_at(source, first), operands, first, move.total, move);
    const gpl_uint tail = head + chunks * GPL_PER_CHUNK + first;
    if (tail < move.total) *gpl_at(target, tail) = (gpl_target_element)gpl_computed(*gpl_at(source, tail), operands, tail, move.total, move);
  }
}
