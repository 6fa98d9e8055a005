// Row copy: the minor axis is contiguous on both sides, and whole rows move, whatever the order of the other axes.
//
// A row of the target is cut into chunks of GPL_VECTOR_BYTES at multiples of that many bytes, wherever the row begins, so
// its first and last chunk may be partial.  Neighbouring threads take neighbouring chunks, so a warp reads and writes 512
// contiguous bytes if rows are that long.
//
// One thread moves GPL_ITEMS chunks, a fixed step apart along one axis (move.steps; gpu/copy_rows.py chooses it), so it
// decodes its number once.  A chunk that is an element needs nothing else; one in a row that begins inside a vector needs
// the phase of its own row.  With 4 steps:
//   f32[128,256,16] with its first two dimensions swapped: rows of 4 chunks, 128 of them along axis 1; the thread's rows
//   are g, g + 32, g + 64, g + 96 along axis 1; a warp writes 8 neighbouring rows, a block 16 KB in one piece
//   101 rows of 4 chunks, 36 elements apart: apart = 26, so rows g, g + 26, g + 52, g + 78; the last is there if g < 23
// count[0] is how many threads share a row, `total` the number of all threads with work; along the axis of the steps,
// the struct counts threads instead of places.
//
// GPL_LOAD_BYTES divides the distance between the two sides.  If it is less than a chunk, chunks are cut out of two aligned
// vectors of the source, shifted by that distance.
//
// Example, 4-byte elements, 16-byte chunks, extent 8, bound 6, a row that begins 8 bytes after a multiple of 16:
//   chunk 0: elements 0 1        chunk 1: 2 3 4 5        chunk 2: 6 7, which are pad
// Padding is written in the same pass.  Rows outside the bound of another axis are entirely pad and read nothing.
//
// Elements that change on the way are not joined to wider ones, so a chunk has several.  GPL_WHOLE_ROWS is 1 if all rows are
// whole chunks, and 0 for other moves, where such chunks are elements.
//
// Macros: those of move.cuh, GPL_VECTOR_BYTES, GPL_LOAD_BYTES, with arithmetic GPL_WHOLE_ROWS.
// Numbers: GPL_ALIGNED_ITEMS, GPL_SHIFTED_ITEMS, GPL_CHANGED_ITEMS.
#if !defined(GPL_VECTOR_BYTES) || !defined(GPL_LOAD_BYTES) || !defined(GPL_ALIGNED_ITEMS) || !defined(GPL_SHIFTED_ITEMS) || \
    !defined(GPL_CHANGED_ITEMS)
#error "rows.cu needs GPL_VECTOR_BYTES, GPL_LOAD_BYTES, GPL_ALIGNED_ITEMS, GPL_SHIFTED_ITEMS and GPL_CHANGED_ITEMS"
#endif
#include "shift.cuh"
#if !GPL_CHANGES
#define GPL_WHOLE_ROWS 0
#endif

// Chunks of a thread.  Fewer keep it busy if each is cut out of two vectors, or if each element has parameters of its own.
#define GPL_ITEMS \
  (GPL_VECTOR_BYTES > GPL_LOAD_BYTES || GPL_OWN_PARAMETERS ? GPL_SHIFTED_ITEMS \
   : GPL_CHANGES && GPL_ELEMENT_BYTES >= 4               ? GPL_CHANGED_ITEMS : GPL_ALIGNED_ITEMS)
#define GPL_PER_CHUNK (GPL_VECTOR_BYTES / GPL_ELEMENT_BYTES)
#define GPL_WHOLE_CHUNKS (GPL_PER_CHUNK == 1 || GPL_WHOLE_ROWS)

// Elements from the last multiple of GPL_VECTOR_BYTES to an element of the target.
__device__ __forceinline__ gpl_uint gpl_phase(const void* target, gpl_uint offset) {
  return ((gpl_uint)((unsigned long long)target / GPL_TARGET_BYTES) + offset) % GPL_PER_CHUNK;
}

// The axis of the steps; 0 for the chunks of a row.
__device__ __forceinline__ unsigned gpl_along(const GplMove& move) { return GPL_AXES == 1 ? 0 : (unsigned)move.steps.along; }

// The first of a thread's chunks: its row, its number in the row, and its place along the axis of the steps.
struct GplFirst {
  GplPlace row;
  gpl_uint chunk, place;
};

__device__ __forceinline__ GplFirst gpl_first(gpl_uint item, const GplMove& move) {
  const gpl_uint number = gpl_divide(item, move.count[0]);
  GplFirst first;
  first.chunk = item - number * move.count[0].value;
  first.place = GPL_WRITTEN_OUT || !gpl_along(move) ? first.chunk : 0;  // a loop over many axes may end before this one
  first.row = gpl_place<1, GPL_AXES - 1>(number, move, [&](unsigned i, gpl_uint coordinate) {
    if (i == gpl_along(move)) first.place = coordinate;
  });
  if (move.steps.apart == 1) first.place *= GPL_ITEMS;      // its rows are neighbours; else they are a part of the axis apart
  return first;
}

// Whether step k is before place `end` of its axis.  A move of one row needs no answer: the row's own end decides.
__device__ __forceinline__ bool gpl_below(const GplFirst& first, int k, gpl_uint end, const GplMove& move) {
  return GPL_AXES == 1 || first.place + k * move.steps.apart < end;
}

// The parameters of the first element in the row of step k.
__device__ __forceinline__ GplParameters gpl_step_parameters(const GplPlace& row, int k, const GplMove& move) {
#if GPL_PARAMETERS
  return gpl_ahead(row.parameters, k, move.step, GPL_ALONG_OTHERS);
#else
  return {};
#endif
}

// With WHOLE, all chunks are inside the bounds as a whole.
template <bool WHOLE>
__device__ __forceinline__ void gpl_move_chunks(const void* __restrict__ source, void* __restrict__ target, const GplFirst& first,
                                                const GplMove& move) {
  GplRead<GPL_VECTOR_BYTES> read[GPL_ITEMS];
  gpl_target_element* to[GPL_ITEMS];
  gpl_uint number[GPL_ITEMS];        // of the chunk's first element, in its row
  gpl_uint start[GPL_ITEMS];         // of the chunk, in its row; "negative" if the chunk begins before the row
  gpl_uint bound[GPL_ITEMS];         // elements of the row
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const gpl_uint row = first.row.target + k * move.steps.target_step;
    const gpl_uint before = first.chunk * GPL_PER_CHUNK - (GPL_WHOLE_CHUNKS ? 0 : gpl_phase(target, row));
    to[k] = gpl_at(target, row + before);
    number[k] = before + (gpl_along(move) ? 0 : k * move.steps.target_step);
    start[k] = WHOLE ? 0 : number[k];
    const bool inside = first.row.inside && gpl_below(first, k, move.steps.bound, move);
    bound[k] = WHOLE ? GPL_PER_CHUNK : inside ? move.axis[0].bound : 0;
    const gpl_source_element* from = gpl_at(source, first.row.source + k * move.steps.source_step + before);
    read[k] = gpl_read<GPL_VECTOR_BYTES, GPL_LOAD_BYTES>(source, from, start[k], bound[k], move);
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    if (!WHOLE && !gpl_below(first, k, move.steps.places, move)) continue;
    const GplChunk<GPL_VECTOR_BYTES> chunk = gpl_shifted<GPL_VECTOR_BYTES, GPL_LOAD_BYTES>(read[k], start[k], bound[k], move);
    const GplOperands operands = gpl_operands(gpl_step_parameters(first.row, k, move), move);
    gpl_store<GPL_VECTOR_BYTES>(to[k], start[k], WHOLE ? GPL_PER_CHUNK : move.axis[0].extent.value,
                                gpl_computed_chunk<GPL_VECTOR_BYTES>(chunk, operands, number[k],
                                                                     WHOLE ? GPL_NO_END : move.axis[0].extent.value, move));
  }
}

GPL_KERNEL gpl_rows(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint item = gpl_block() * GPL_THREADS + threadIdx.x;
  if (item >= move.total) return;
  const GplFirst first = gpl_first(item, move);
  const bool whole = GPL_WHOLE_CHUNKS && move.axis[0].bound == move.axis[0].extent.value && first.row.inside &&
                     first.place + (GPL_ITEMS - 1) * move.steps.apart < move.steps.bound;
  if (whole) gpl_move_chunks<true>(source, target, first, move);
  else gpl_move_chunks<false>(source, target, first, move);
}
