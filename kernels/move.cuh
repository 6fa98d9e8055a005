// What all moving kernels share: the parameter struct, division by known numbers, elements and vectors.
//
// The host fills GplMove (planning/parameters.py packs it, a test compares both sides).  It is passed by value, so a
// launch needs no table in device memory and can be captured in a graph.  Strides and extents count elements of
// GPL_ELEMENT_BYTES; types do not exist here, an element is that many bytes.
//
// Macros of every build: GPL_ELEMENT_BYTES (1 2 4 8 16), GPL_INDEX_BITS (32 64), GPL_AXES (loops in the struct).
#ifndef GPL_MOVE_CUH
#define GPL_MOVE_CUH

#define GPL_THREADS 256

// 32-bit indices are chosen only when every offset and every place fits 31 bits.
#if GPL_INDEX_BITS == 32
typedef unsigned int gpl_uint;
typedef int gpl_int;
#define GPL_MULHI __umulhi
#else
typedef unsigned long long gpl_uint;
typedef long long gpl_int;
#define GPL_MULHI __umul64hi
#endif

template <int BYTES> struct GplWord;
template <> struct GplWord<1> { typedef unsigned char type; };
template <> struct GplWord<2> { typedef unsigned short type; };
template <> struct GplWord<4> { typedef unsigned int type; };
template <> struct GplWord<8> { typedef unsigned long long type; };
template <> struct GplWord<16> { typedef uint4 type; };
typedef GplWord<GPL_ELEMENT_BYTES>::type gpl_element;

// n / value for 0 <= n < 2^(bits-1): one high product, one sum, one shift.
struct GplDivisor {
  gpl_uint value, multiplier, shift;
};

__device__ __forceinline__ gpl_uint gpl_divide(gpl_uint n, const GplDivisor& by) {
  return (GPL_MULHI(n, by.multiplier) + n) >> by.shift;
}

// One loop of the target.  Coordinates from `bound` on are padding.  Strides may be negative: they are
// two's complement, and sums of products wrap to the right offset.
struct GplAxis {
  GplDivisor extent;
  gpl_uint bound, source_stride, target_stride;
};

struct __align__(16) GplMove {
  unsigned int pad[4];     // the pad's bytes, repeated to 16
  gpl_uint total;          // work items of the whole launch: what an item is, each kernel says
  gpl_uint head;           // elements before the first aligned vector, in the contiguous copy
  gpl_uint pitch;          // elements between rows of a tile in shared memory, where it is not fixed
  GplDivisor count[2];     // items along the first two axes, where a kernel cuts them into pieces
  GplDivisor tile[2];      // extents of a tile along the first two axes, in kernels whose tile is not fixed
  GplAxis axis[GPL_AXES];  // minor first; unused ones have extent 1
};

// The pad as an element or vector of any width.
__device__ __forceinline__ void gpl_pad(const GplMove& move, unsigned char& value) { value = (unsigned char)move.pad[0]; }
__device__ __forceinline__ void gpl_pad(const GplMove& move, unsigned short& value) { value = (unsigned short)move.pad[0]; }
__device__ __forceinline__ void gpl_pad(const GplMove& move, unsigned int& value) { value = move.pad[0]; }
__device__ __forceinline__ void gpl_pad(const GplMove& move, unsigned long long& value) {
  value = move.pad[0] | (unsigned long long)move.pad[1] << 32;
}
__device__ __forceinline__ void gpl_pad(const GplMove& move, uint4& value) {
  value = make_uint4(move.pad[0], move.pad[1], move.pad[2], move.pad[3]);
}

// The number of this block.  The grid is 2-D only when one dimension (2^31 - 1 blocks) is not enough.
__device__ __forceinline__ unsigned long long gpl_block() {
  return (unsigned long long)blockIdx.y * gridDim.x + blockIdx.x;
}

// Where one combination of the axes from FIRST on lies on both sides, and whether it is padding.
struct GplPlace {
  gpl_uint source, target;
  bool inside;
};

template <int FIRST>
__device__ __forceinline__ GplPlace gpl_place(gpl_uint number, const GplMove& move) {
  GplPlace place = {0, 0, true};
#pragma unroll
  for (int i = FIRST; i < GPL_AXES; ++i) {
    const gpl_uint rest = gpl_divide(number, move.axis[i].extent);
    const gpl_uint coordinate = number - rest * move.axis[i].extent.value;
    number = rest;
    place.inside = place.inside && coordinate < move.axis[i].bound;
    place.source += coordinate * move.axis[i].source_stride;
    place.target += coordinate * move.axis[i].target_stride;
  }
  return place;
}

// The element at a signed offset.
__device__ __forceinline__ const gpl_element* gpl_at(const void* base, gpl_uint offset) {
  return (const gpl_element*)base + (gpl_int)offset;
}
__device__ __forceinline__ gpl_element* gpl_at(void* base, gpl_uint offset) {
  return (gpl_element*)base + (gpl_int)offset;
}

#endif
