// How an element is loaded, computed and stored.  This is the one place that knows whether it changes on the way.
//
// Kernels move opaque elements of GPL_ELEMENT_BYTES bytes, and count everything in elements.  Without arithmetic they are the
// same bytes in the source, in registers and in the target, and all functions here are plain loads and stores.
//
// With arithmetic (GPL_SOURCE_TYPE is defined), GPL_ELEMENT_BYTES is the size of the wider type.  The side of the narrower type
// has fewer bytes for each element: gpl_fetch adds zeros to them, gpl_put leaves the zeros out.  In between, gpl_compute makes
// codes of the target's type out of the source's (convert.cuh), for an element or a whole chunk.
//
//   u8 to f32, a chunk of 16 bytes:   4 bytes are loaded, 4 words move, and become floats just before 16 bytes are stored
//   f32 to u8:                        16 bytes are loaded, 4 words move and become small integers, 4 bytes are stored
//
// Steps may have parameters, arrays in device memory.  GPL_PARAMETERS is their number, and a place in them is a
// GplParameters: an offset for each, or its value if it has only one.  GPL_VARIES has two bits for each:
//   0   it has one value        1   it changes along other axes than axis 0        2   along axis 0 only        3   along both
//
// Macros with arithmetic: GPL_SOURCE_TYPE, GPL_TARGET_TYPE (the numbers of gpl_type), GPL_SATURATE (1 if numbers that are too
// large become the largest one), GPL_STEPS (see gpl_converted), GPL_CODE_BYTES (4; 8 if a side or the steps have 64 bits),
// GPL_COMPONENTS (2 for complex numbers, which are cast part by part but move as one element; else 1), GPL_PARAMETERS, GPL_VARIES.
#ifndef GPL_ELEMENT_CUH
#define GPL_ELEMENT_CUH

template <int BYTES> struct GplWord;
template <> struct GplWord<1> { typedef unsigned char type; };
template <> struct GplWord<2> { typedef unsigned short type; };
template <> struct GplWord<4> { typedef unsigned int type; };
template <> struct GplWord<8> { typedef unsigned long long type; };
template <> struct GplWord<16> { typedef uint4 type; };
typedef GplWord<GPL_ELEMENT_BYTES>::type gpl_element;

#ifdef GPL_SOURCE_TYPE
#if !defined(GPL_TARGET_TYPE) || !defined(GPL_SATURATE) || !defined(GPL_STEPS) || !defined(GPL_CODE_BYTES) || \
    !defined(GPL_COMPONENTS) || !defined(GPL_PARAMETERS) || !defined(GPL_VARIES)
#error "element.cuh needs GPL_TARGET_TYPE, GPL_SATURATE, GPL_STEPS, GPL_CODE_BYTES, GPL_COMPONENTS, GPL_PARAMETERS and GPL_VARIES with GPL_SOURCE_TYPE"
#endif
#include "convert.cuh"
#define GPL_CHANGES 1
#define GPL_SOURCE_BYTES (GPL_COMPONENTS * (((GPL_SOURCE_TYPE >> 5 & 127) + 7) / 8))
#define GPL_TARGET_BYTES (GPL_COMPONENTS * (((GPL_TARGET_TYPE >> 5 & 127) + 7) / 8))
// Bytes of f8 come out of computed words, so instructions pick them; those of integers, out of conversions that pick them.
#define GPL_TAKES_BYTES (GPL_TARGET_BYTES == 1 && (GPL_TARGET_TYPE & 7) == GPL_FLOAT)
typedef GplWord<GPL_CODE_BYTES>::type gpl_code;
typedef GplReal<gpl_code>::type gpl_real;
#else
#define GPL_CHANGES 0
#define GPL_TAKES_BYTES 0
#define GPL_SOURCE_BYTES GPL_ELEMENT_BYTES
#define GPL_TARGET_BYTES GPL_ELEMENT_BYTES
#define GPL_CODE_BYTES 0
#define GPL_COMPONENTS 1
#define GPL_PARAMETERS 0
#define GPL_VARIES 0
#endif
typedef GplWord<GPL_SOURCE_BYTES>::type gpl_source_element;
typedef GplWord<GPL_TARGET_BYTES>::type gpl_target_element;

// An element in a word of another size: zeros are added, or left out.
template <class To, class From> __device__ __forceinline__ To gpl_as(From from) {
  if constexpr (sizeof(From) == sizeof(To) || (sizeof(From) < 16 && sizeof(To) < 16)) return (To)from;
  else if constexpr (sizeof(To) == 16) return make_uint4((unsigned)from, (unsigned)(from >> 32), 0, 0);
  else return from.x | (To)from.y << 32;
}

// The element at a signed offset.
__device__ __forceinline__ const gpl_source_element* gpl_at(const void* base, gpl_uint offset) {
  return (const gpl_source_element*)base + (gpl_int)offset;
}
__device__ __forceinline__ gpl_target_element* gpl_at(void* base, gpl_uint offset) {
  return (gpl_target_element*)base + (gpl_int)offset;
}

// A chunk: neighbouring elements that move as one word of BYTES bytes.
template <int BYTES>
union GplChunk {
  typename GplWord<BYTES>::type word;
  gpl_element element[BYTES / GPL_ELEMENT_BYTES];
};

// ---- loading and storing ----

// Bytes in the memory of the source, or of the target, of a chunk of BYTES bytes.
#define GPL_SOURCE_PART(BYTES) ((BYTES) / GPL_ELEMENT_BYTES * GPL_SOURCE_BYTES)
#define GPL_TARGET_PART(BYTES) ((BYTES) / GPL_ELEMENT_BYTES * GPL_TARGET_BYTES)

// The chunk at an address of the source, which is aligned to the bytes that it has there.
template <int BYTES>
__device__ __forceinline__ typename GplWord<BYTES>::type gpl_fetch(const gpl_source_element* from) {
  if constexpr (GPL_SOURCE_BYTES == GPL_ELEMENT_BYTES) return *(const typename GplWord<BYTES>::type*)from;
  else {
    union {
      typename GplWord<GPL_SOURCE_PART(BYTES)>::type word;
      gpl_source_element element[BYTES / GPL_ELEMENT_BYTES];
    } found;
    GplChunk<BYTES> chunk;
    found.word = *(const typename GplWord<GPL_SOURCE_PART(BYTES)>::type*)from;
#pragma unroll
    for (int i = 0; i < BYTES / GPL_ELEMENT_BYTES; ++i) chunk.element[i] = gpl_as<gpl_element>(found.element[i]);
    return chunk.word;
  }
}

// The type of a word that is put together from small elements.  8 bytes are two halves: a compiler makes two elements of one
// half with one instruction, and those of a 64-bit integer one by one.
template <int BYTES> struct GplHalves : GplWord<BYTES> {};
template <> struct GplHalves<8> { typedef uint2 type; };

// The counterpart.
template <int BYTES>
__device__ __forceinline__ void gpl_put(gpl_target_element* to, typename GplWord<BYTES>::type word) {
  if constexpr (GPL_TARGET_BYTES == GPL_ELEMENT_BYTES) *(typename GplWord<BYTES>::type*)to = word;
  else {
    union {
      typename GplHalves<GPL_TARGET_PART(BYTES)>::type word;
      gpl_target_element element[BYTES / GPL_ELEMENT_BYTES];
    } made;
    GplChunk<BYTES> chunk;
    chunk.word = word;
    if constexpr (GPL_TAKES_BYTES && BYTES == 16 && GPL_ELEMENT_BYTES == 4) {
      made.word = __byte_perm(__byte_perm(word.x, word.y, 0x0040), __byte_perm(word.z, word.w, 0x0040), 0x5410);
    } else if constexpr (GPL_TAKES_BYTES && BYTES == 16 && GPL_ELEMENT_BYTES == 2) {
      made.word = make_uint2(__byte_perm(word.x, word.y, 0x6420), __byte_perm(word.z, word.w, 0x6420));
    } else {
#pragma unroll
      for (int i = 0; i < BYTES / GPL_ELEMENT_BYTES; ++i) made.element[i] = gpl_as<gpl_target_element>(chunk.element[i]);
    }
    *(typename GplHalves<GPL_TARGET_PART(BYTES)>::type*)to = made.word;
  }
}

// ---- computing ----

#define GPL_NO_END (~(gpl_uint)0)  // the extent of a run that goes on behind these elements

// The offset of a value in each parameter, or steps to another one.
struct GplOffsets {
#if GPL_PARAMETERS
  gpl_uint at[GPL_PARAMETERS];
#endif
};

// A place in the parameters.  `value` is that of a parameter that has only one: a thread loads it when it makes its first place,
// in front of its elements, and keeps it.
struct GplParameters : GplOffsets {
#if GPL_PARAMETERS
  gpl_real value[GPL_PARAMETERS];
#endif
};

#define GPL_ALONG_OTHERS 1  // the bits of a parameter in GPL_VARIES
#define GPL_ALONG_AXIS_0 2

// Not 0 if elements that follow each other along axis 0 have different parameters.
#define GPL_OWN_PARAMETERS (GPL_VARIES & 0x2A)
#define GPL_ANY_ALONG_OTHERS 0x15  // the bits of all parameters

// Whether a parameter changes along one of these: axis 0, the other axes, or both bits for any.
__device__ __forceinline__ bool gpl_varies(int parameter, int along) { return GPL_VARIES >> (2 * parameter) & along; }

// The place `steps` further on.
__device__ __forceinline__ GplParameters gpl_ahead(GplParameters place, gpl_uint steps, const GplOffsets& stride, int along) {
#if GPL_PARAMETERS
#pragma unroll
  for (int p = 0; p < GPL_PARAMETERS; ++p)
    if (gpl_varies(p, along)) place.at[p] += steps * stride.at[p];
#endif
  return place;
}

// Where the parameters of a move are.  Move is any struct that begins and ends as a GplMove; others have no parameters.
template <class Move>
__device__ __forceinline__ GplParameters gpl_first_parameters(const Move& move) {
  GplParameters place = {};
#if GPL_PARAMETERS
#pragma unroll
  for (int p = 0; p < GPL_PARAMETERS; ++p) {
    place.at[p] = move.first.at[p];
    if (!gpl_varies(p, GPL_ALONG_OTHERS | GPL_ALONG_AXIS_0)) place.value[p] = __ldg(move.parameters + (gpl_int)place.at[p]);
  }
#endif
  return place;
}

template <class Move>
__device__ __forceinline__ GplParameters gpl_along_axis(const GplParameters& place, gpl_uint steps, int axis, const Move& move) {
#if GPL_PARAMETERS
  return gpl_ahead(place, steps, move.stride[axis], axis ? GPL_ALONG_OTHERS : GPL_ALONG_AXIS_0);
#else
  return {};
#endif
}

// The parameters at a place.  Those that do not change along axis 0 are loaded, with what depends on them alone, and serve all
// elements of a run along it.  ALL are loaded where elements have the same place on axis 0.
template <bool ALL = false> struct GplOperandsOf {
  GplParameters place;
#if GPL_PARAMETERS
  GplOperand<gpl_real> value[GPL_PARAMETERS];
#endif
};
typedef GplOperandsOf<> GplOperands;

template <bool ALL = false, class Move>
__device__ __forceinline__ GplOperandsOf<ALL> gpl_operands(const GplParameters& place, const Move& move) {
#if GPL_PARAMETERS
  GplOperandsOf<ALL> operands;
  operands.place = place;
#pragma unroll
  for (int p = 0; p < GPL_PARAMETERS; ++p)
    if (ALL || !gpl_varies(p, GPL_ALONG_AXIS_0))
      operands.value[p] = gpl_operand(gpl_varies(p, GPL_ALONG_OTHERS | GPL_ALONG_AXIS_0) ? __ldg(move.parameters + (gpl_int)place.at[p]) : place.value[p]);
  return operands;
#else
  return {};
#endif
}

#if GPL_CHANGES
// The code of a part of an element of BYTES bytes, and the element of codes.
template <int BYTES, class Element> __device__ __forceinline__ gpl_code gpl_part(Element element, int number) {
  if constexpr (GPL_COMPONENTS == 1) return (gpl_code)element;
  else {
    union {
      Element whole;
      typename GplWord<BYTES / GPL_COMPONENTS>::type part[sizeof(Element) / (BYTES / GPL_COMPONENTS)];
    };
    whole = element;
    return part[number];
  }
}
template <class Element, int BYTES> __device__ __forceinline__ Element gpl_of_parts(const gpl_code* code) {
  if constexpr (GPL_COMPONENTS == 1) return (Element)*code;
  else {
    union {
      Element whole;
      typename GplWord<BYTES / GPL_COMPONENTS>::type part[sizeof(Element) / (BYTES / GPL_COMPONENTS)];
    };
    whole = Element{};
#pragma unroll
    for (int i = 0; i < GPL_COMPONENTS; ++i) part[i] = (typename GplWord<BYTES / GPL_COMPONENTS>::type)code[i];
    return whole;
  }
}
#endif

// N elements on their way to the target: their codes there.  They are neighbours in a run along axis 0; `operands` belong to
// the first element of the run, and `first` is the number of the first of these N in it.  Numbers from `extent` on are no
// elements: their codes may be anything, and they take the parameters of number 0.  `extent` is GPL_NO_END if all are elements,
// which saves the question.
template <int N, bool ALL, class Given, class Made, class Move>
__device__ __forceinline__ void gpl_compute(const Given (&given)[N], Made (&made)[N], const GplOperandsOf<ALL>& operands, gpl_uint first,
                                            gpl_uint extent, const Move& move) {
#if GPL_CHANGES
  // Registers suffice for four at a time, or for one with parameters of its own and offsets of 64 bits.
  constexpr int TOGETHER = GPL_OWN_PARAMETERS && !ALL && GPL_INDEX_BITS == 64 ? 1 : N > 4 ? 4 : N;
#pragma unroll
  for (int begin = 0; begin < N; begin += TOGETHER) {
    gpl_code code[TOGETHER * GPL_COMPONENTS];
#pragma unroll
    for (int i = 0; i < TOGETHER * GPL_COMPONENTS; ++i) code[i] = gpl_part<GPL_SOURCE_BYTES>(given[begin + i / GPL_COMPONENTS], i % GPL_COMPONENTS);
    gpl_convert_all(code, gpl_type(GPL_SOURCE_TYPE), gpl_type(GPL_TARGET_TYPE), GPL_SATURATE, GPL_STEPS, [&](unsigned p, int i) {
#if GPL_PARAMETERS
      if (ALL || !gpl_varies(p, GPL_ALONG_AXIS_0)) return operands.value[p];
      const gpl_uint number = extent == GPL_NO_END || first + begin + i < extent ? first + begin + i : 0;
      return gpl_operand(__ldg(move.parameters + (gpl_int)(operands.place.at[p] + number * move.stride[0].at[p])));
#else
      return gpl_operand((gpl_real)0);
#endif
    });
#pragma unroll
    for (int i = 0; i < TOGETHER; ++i) made[begin + i] = gpl_of_parts<Made, GPL_TARGET_BYTES>(code + i * GPL_COMPONENTS);
  }
#endif
}

// The same for one element.
template <bool ALL, class Move>
__device__ __forceinline__ gpl_element gpl_computed(gpl_element code, const GplOperandsOf<ALL>& operands, gpl_uint number, gpl_uint extent,
                                                    const Move& move) {
#if GPL_CHANGES
  const gpl_element given[1] = {code};
  gpl_element made[1];
  gpl_compute(given, made, operands, number, extent, move);
  return made[0];
#else
  return code;
#endif
}

// The same for a chunk, whose first element has this number.
template <int BYTES, bool ALL, class Move>
__device__ __forceinline__ GplChunk<BYTES> gpl_computed_chunk(GplChunk<BYTES> chunk, const GplOperandsOf<ALL>& operands, gpl_uint number,
                                                              gpl_uint extent, const Move& move) {
#if GPL_CHANGES
  gpl_compute(chunk.element, chunk.element, operands, number, extent, move);
#endif
  return chunk;
}

// Computes a chunk and stores it.
template <int BYTES, bool ALL, class Move>
__device__ __forceinline__ void gpl_deliver(gpl_target_element* to, const GplChunk<BYTES>& chunk, const GplOperandsOf<ALL>& operands,
                                            gpl_uint number, gpl_uint extent, const Move& move) {
  if constexpr (GPL_CHANGES) gpl_put<BYTES>(to, gpl_computed_chunk<BYTES>(chunk, operands, number, extent, move).word);
  else gpl_put<BYTES>(to, chunk.word);
}

#endif
