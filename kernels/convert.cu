// Moves with arithmetic between equal orders: every element is read, converted and written; see convert.cuh.
//
// `total` is the number of chunks: GPL_VECTOR neighbouring elements, which are contiguous on both sides if there are several.
// One thread converts GPL_ITEMS of them, 256 apart, and issues all its loads before the first conversion.
//   u8[4,6] to f32[4,6] in chunks of 2, one factor for each column: axis 0 has extent 12, and steps of 2 bytes in the source,
//   8 in the target and 2 in the parameter; `along` is 1.  Chunk 7 is column 1 of the second row: extents 3, 4 if the rows
//   have gaps.
//
// Strides count bytes on the sides and elements in the parameters, which lie in device memory and have the type of the steps.
//
// Macros: GPL_SOURCE_TYPE, GPL_TARGET_TYPE (the numbers of gpl_type), GPL_SATURATE (1 if numbers that are too large become
// the largest one), GPL_STEPS (see gpl_converted), GPL_WIDE (1 if a side or the steps have 64 bits), GPL_VECTOR, and those
// of move.cuh, where elements are the target's.
// Numbers: GPL_ITEMS (chunks of a thread), GPL_PARAMETERS (for how many there is room).
#if !defined(GPL_SOURCE_TYPE) || !defined(GPL_TARGET_TYPE) || !defined(GPL_SATURATE) || !defined(GPL_STEPS) || \
    !defined(GPL_WIDE) || !defined(GPL_VECTOR) || !defined(GPL_ITEMS) || !defined(GPL_PARAMETERS)
#error "convert.cu needs GPL_SOURCE_TYPE, GPL_TARGET_TYPE, GPL_SATURATE, GPL_STEPS, GPL_WIDE, GPL_VECTOR, GPL_ITEMS and GPL_PARAMETERS"
#endif
#include "move.cuh"
#include "convert.cuh"

struct GplConvertAxis {
  GplDivisor extent;
  gpl_uint source_stride, target_stride, parameter_stride[GPL_PARAMETERS];
};

struct GplConvert {
  gpl_uint total;                  // chunks
  gpl_uint along[GPL_PARAMETERS];  // steps of the parameters inside a chunk
  GplConvertAxis axis[GPL_AXES];   // of chunks, minor first; unused ones have extent 1
};

typedef GplWord<GPL_WIDE ? 8 : 4>::type gpl_word;
typedef GplReal<gpl_word>::type gpl_real;

// Neighbouring elements that move as one word.
template <int BYTES> union GplCodes {
  typename GplWord<BYTES * GPL_VECTOR>::type word;
  typename GplWord<BYTES>::type code[GPL_VECTOR];
};
typedef GplCodes<((GPL_SOURCE_TYPE >> 5 & 127) + 7) / 8> gpl_source_codes;
typedef GplCodes<GPL_ELEMENT_BYTES> gpl_target_codes;

// Where a chunk begins on both sides and in the parameters.
struct GplChunkPlace {
  gpl_uint source, target, parameter[GPL_PARAMETERS];
};

__device__ __forceinline__ GplChunkPlace gpl_chunk_place(gpl_uint number, const GplConvert& move) {
  GplChunkPlace place = {};
#pragma unroll GPL_WRITTEN_OUT ? GPL_AXES : 1
  for (int i = 0; i < GPL_AXES; ++i) {
    if (!GPL_WRITTEN_OUT && number == 0) break;
    const gpl_uint rest = gpl_divide(number, move.axis[i].extent);
    const gpl_uint coordinate = number - rest * move.axis[i].extent.value;
    number = rest;
    place.source += coordinate * move.axis[i].source_stride;
    place.target += coordinate * move.axis[i].target_stride;
#pragma unroll
    for (int p = 0; p < GPL_PARAMETERS; ++p) place.parameter[p] += coordinate * move.axis[i].parameter_stride[p];
  }
  return place;
}

GPL_KERNEL gpl_convert(const void* __restrict__ source, void* __restrict__ target, const gpl_real* __restrict__ parameter_a,
                       const gpl_real* __restrict__ parameter_b, const gpl_real* __restrict__ parameter_c,
                       const __grid_constant__ GplConvert move) {
  const gpl_uint first = gpl_block() * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;
  const gpl_real* const parameters[GPL_PARAMETERS] = {parameter_a, parameter_b, parameter_c};
  GplChunkPlace place[GPL_ITEMS];
  gpl_source_codes given[GPL_ITEMS];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    if (first + k * GPL_THREADS >= move.total) continue;
    place[k] = gpl_chunk_place(first + k * GPL_THREADS, move);
    given[k].word = ((const gpl_source_codes*)((const char*)source + (gpl_int)place[k].source))->word;
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    if (first + k * GPL_THREADS >= move.total) continue;
    gpl_target_codes result;
#pragma unroll
    for (int e = 0; e < GPL_VECTOR; ++e)
      result.code[e] = (gpl_element)gpl_converted<gpl_word>(
          given[k].code[e], gpl_type(GPL_SOURCE_TYPE), gpl_type(GPL_TARGET_TYPE), GPL_SATURATE, GPL_STEPS,
          [&](unsigned number) { return parameters[number][(gpl_int)(place[k].parameter[number] + e * move.along[number])]; });
    ((gpl_target_codes*)((char*)target + (gpl_int)place[k].target))->word = result.word;
  }
}
