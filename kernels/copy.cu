// Contiguous copy: both sides are the same run of `total` elements.
//
// The run is cut into vectors of GPL_VECTOR_BYTES.  `head` elements stand before the first aligned vector of
// the target (the source has the same phase, or the host would have chosen a smaller vector); they and what is left
// at the end are copied one by one, by the first threads of the first block.
//
// Example: 4-byte elements, 16-byte vectors, both pointers 8 past a multiple of 16, total 11:
//   head = 2 elements, then 2 vectors of 4, then a tail of 1.
//
// Each thread moves GPL_ITEMS vectors, loaded before the first is stored, so that 64 bytes are in flight.
#include "move.cuh"

#define GPL_ITEMS 4
#define GPL_PER_VECTOR (GPL_VECTOR_BYTES / GPL_ELEMENT_BYTES)
typedef GplWord<GPL_VECTOR_BYTES>::type gpl_vector;

extern "C" __global__ void __launch_bounds__(GPL_THREADS)
gpl_copy(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint head = move.head;
  const gpl_uint vectors = (move.total - head) / GPL_PER_VECTOR;
  const gpl_vector* from = (const gpl_vector*)gpl_at(source, head);
  gpl_vector* to = (gpl_vector*)gpl_at(target, head);
  const gpl_uint first = (gpl_uint)gpl_block() * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;

  gpl_vector value[GPL_ITEMS];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k)
    if (first + k * GPL_THREADS < vectors) value[k] = from[first + k * GPL_THREADS];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k)
    if (first + k * GPL_THREADS < vectors) to[first + k * GPL_THREADS] = value[k];

  if (first < GPL_THREADS) {       // head and tail are each shorter than a vector: at most 15 elements
    if (first < head) *gpl_at(target, first) = *gpl_at(source, first);
    const gpl_uint tail = head + vectors * GPL_PER_VECTOR + first;
    if (tail < move.total) *gpl_at(target, tail) = *gpl_at(source, tail);
  }
}
