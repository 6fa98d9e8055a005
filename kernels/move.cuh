// Shared by all kernels that move data: the parameter struct, division by known numbers, elements and vectors.
//
// The host fills GplMove (gpu/parameters.py packs it; a test compares both sides).  It is passed by value, so a launch
// needs no table in device memory and can be captured in a graph.  Strides and extents count opaque elements of
// GPL_ELEMENT_BYTES bytes.
//
// Macros of every build: GPL_ELEMENT_BYTES (1 2 4 8 16), GPL_INDEX_BITS (32 64), GPL_AXES (loops in the struct).
// Numbers: GPL_THREADS (of a block), GPL_LANES (of a warp).
#ifndef GPL_MOVE_CUH
#define GPL_MOVE_CUH
#if !defined(GPL_ELEMENT_BYTES) || !defined(GPL_INDEX_BITS) || !defined(GPL_AXES) || !defined(GPL_THREADS) || \
    !defined(GPL_LANES)
#error "move.cuh needs GPL_ELEMENT_BYTES, GPL_INDEX_BITS, GPL_AXES, GPL_THREADS and GPL_LANES"
#endif

// All kernels run in blocks of 256 threads and use at most 64 registers, so that 4 blocks fit a multiprocessor.
#define GPL_KERNEL extern "C" __global__ void __launch_bounds__(GPL_THREADS, 4)

// The host chooses 32-bit indices only if every offset and every place fits 31 bits.
#if GPL_INDEX_BITS == 32
typedef unsigned int gpl_uint;
typedef int gpl_int;
#define GPL_MULHI __umulhi
#else
typedef unsigned long long gpl_uint;
typedef long long gpl_int;
#define GPL_MULHI __umul64hi
#endif

#include "element.cuh"

// More blocks with fewer registers, where that was measured: on Hopper, with short offsets and without arithmetic.
#if GPL_INDEX_BITS == 32 && !GPL_CHANGES && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
#define GPL_KERNEL_OF(BLOCKS) extern "C" __global__ void __launch_bounds__(GPL_THREADS, BLOCKS)
#else
#define GPL_KERNEL_OF(BLOCKS) GPL_KERNEL
#endif

// n / value for 0 <= n < 2^(bits-1): one high multiplication, one addition, one shift.
struct GplDivisor {
  gpl_uint value, multiplier, shift;
};

__device__ __forceinline__ gpl_uint gpl_divide(gpl_uint n, const GplDivisor& by) {
  return (GPL_MULHI(n, by.multiplier) + n) >> by.shift;
}

// The same inside a tile, where numbers are small: the host gives these divisors 32-bit multipliers in every build.
__device__ __forceinline__ unsigned gpl_divide_small(unsigned n, const GplDivisor& by) {
  return (__umulhi(n, (unsigned)by.multiplier) + n) >> (unsigned)by.shift;
}

// One loop of the target.  Coordinates from `bound` on are padding.  Strides may be negative: in two's complement, sums of
// products wrap to the right offset.
struct GplAxis {
  GplDivisor extent;
  gpl_uint bound, source_stride, target_stride;
};

// How the chunks of a thread in rows.cu, or the matrices of a tile in tile.cu lie: along one axis, a fixed step apart.
struct GplSteps {
  gpl_uint along;                     // the axis; 0 for the chunks of a row
  gpl_uint places, bound;             // how many places it has, and how many inside the bound; chunks for axis 0
  gpl_uint apart;                     // places in a step
  gpl_uint source_step, target_step;  // elements in a step
};

// Two words mean something else in each kernel; the others are the same in all:
//
//   kernel          first word                                           second word
//   copy            head: elements before the first aligned vector
//   bits            head: bytes before the target in its first           first_slot: the slot of the source at which the
//                   aligned group                                        move begins
//   bits_any                                                             first_slot
//   bits_turn_any   lower: rows of the target from one coordinate of     first_slot
//                   axis 1 to the next; 0 if there are gaps
//   bits_turn,      target_step: words from one row of a block to        source_step: the same in the source
//   bits_turn_wide  the next in the target
//   tile_any        depth: matrices of a stack in one tile, or 0         pitch: elements between rows of a tile in shared
//                                                                        memory
struct __align__(16) GplMove {
#if GPL_PARAMETERS
  const gpl_real* parameters;      // all of them, in one array; each start of a launch fills in its address
  unsigned long long unused;
#endif
  unsigned int pad[4];     // the pad's bytes, repeated to 16
  gpl_uint total;          // work items of the launch; each kernel defines its items
  union { gpl_uint head, target_step, depth, lower; };    // the first word
  union { gpl_uint pitch, first_slot, source_step; };           // the second word
  gpl_uint low, high;      // the source's memory, in elements relative to its first: the lowest, and one past the highest
  GplDivisor count[2];     // items along the first two axes, for kernels that cut them into pieces
  union {
    GplDivisor tile[2];    // extents of a tile along the first two axes, for gpl_divide_small, unless they are fixed
    GplSteps steps;        // rows
  };
  GplAxis axis[GPL_AXES];  // minor first; unused ones have extent 1
#if GPL_PARAMETERS
  GplOffsets first;                // of the move's first element
  GplOffsets step;                 // rows: from one chunk of a thread to the next
  GplOffsets stride[GPL_AXES];     // along each axis
#endif
};

// The pad as an element or vector of any width.  Here and in gpl_place, Move is any struct with the pad and axes of a GplMove.
template <class Move>
__device__ __forceinline__ void gpl_pad(const Move& move, unsigned char& value) { value = (unsigned char)move.pad[0]; }
template <class Move>
__device__ __forceinline__ void gpl_pad(const Move& move, unsigned short& value) { value = (unsigned short)move.pad[0]; }
template <class Move>
__device__ __forceinline__ void gpl_pad(const Move& move, unsigned int& value) { value = move.pad[0]; }
template <class Move>
__device__ __forceinline__ void gpl_pad(const Move& move, unsigned long long& value) {
  value = move.pad[0] | (unsigned long long)move.pad[1] << 32;
}
template <class Move>
__device__ __forceinline__ void gpl_pad(const Move& move, uint4& value) {
  value = make_uint4(move.pad[0], move.pad[1], move.pad[2], move.pad[3]);
}

// The number of this block.  The grid is 2-D only if one dimension (2^31 - 1 blocks) is too small; its last row may then
// extend past the work.
__device__ __forceinline__ gpl_uint gpl_block() {
#if GPL_INDEX_BITS == 32
  return blockIdx.x;
#else
  return (gpl_uint)blockIdx.y * gridDim.x + blockIdx.x;
#endif
}

// The offsets of one combination of coordinates on both sides, and whether it is an element or padding.
struct GplPlace {
  gpl_uint source, target;
  bool inside;
  GplParameters parameters;
};

// For up to 8 axes the loop is unrolled, and an axis costs a division and two products with operands from the parameters.
// For more, that would be thousands of instructions, so it stays a loop, which ends when all remaining coordinates are 0.
// (A coordinate of 0 is never padding: a move with an axis of bound 0 has no other axis.)
#define GPL_WRITTEN_OUT (GPL_AXES <= 8)

// Axes from DIVIDED on take what is left of the number as their coordinate: right for the last one if the number is that of
// a place.  `each` is called with the number of every axis and its coordinate.
template <int FIRST, int DIVIDED, class Move, class Each>
__device__ __forceinline__ GplPlace gpl_place(gpl_uint number, const Move& move, Each each) {
  GplPlace place = {0, 0, true, gpl_first_parameters(move)};
#pragma unroll GPL_WRITTEN_OUT ? GPL_AXES : 1
  for (int i = FIRST; i < GPL_AXES; ++i) {
    if (!GPL_WRITTEN_OUT && number == 0) break;
    const gpl_uint rest = i < DIVIDED ? gpl_divide(number, move.axis[i].extent) : 0;
    const gpl_uint coordinate = number - rest * move.axis[i].extent.value;
    number = rest;
    each(i, coordinate);
    place.inside = place.inside && coordinate < move.axis[i].bound;
    place.source += coordinate * move.axis[i].source_stride;
    place.target += coordinate * move.axis[i].target_stride;
    place.parameters = gpl_along_axis(place.parameters, coordinate, i, move);
  }
  return place;
}

template <int FIRST, int DIVIDED = GPL_AXES, class Move>
__device__ __forceinline__ GplPlace gpl_place(gpl_uint number, const Move& move) {
  return gpl_place<FIRST, DIVIDED>(number, move, [](int, gpl_uint) {});
}

// The chunk that starts `start` elements into a row; `from` points there.  Elements outside 0 <= number < bound become pad
// and are not read.  `start` may be negative: as an unsigned number it exceeds any bound.
// The source only needs to be aligned to LOAD bytes; a chunk is assembled from pieces of that size.
template <int BYTES, int LOAD>
__device__ __forceinline__ GplChunk<BYTES> gpl_load(const gpl_source_element* from, gpl_uint start, gpl_uint bound, const GplMove& move) {
  const int elements = BYTES / GPL_ELEMENT_BYTES, piece = LOAD / GPL_ELEMENT_BYTES;
  typedef typename GplWord<LOAD>::type gpl_piece;
  union {
    GplChunk<BYTES> chunk;
    gpl_piece pieces[BYTES / LOAD];
  };
  if (start < bound && bound - start >= elements) {
#pragma unroll
    for (int i = 0; i < BYTES / LOAD; ++i) pieces[i] = gpl_fetch<LOAD>(from + i * piece);
    return chunk;
  }
  gpl_pad(move, chunk.word);
#pragma unroll
  for (int i = 0; i < elements; ++i)
    if (start + i < bound) chunk.element[i] = gpl_as<gpl_element>(from[i]);
  return chunk;
}

// The counterpart: elements outside 0 <= number < extent are not written.
template <int BYTES>
__device__ __forceinline__ void gpl_store(gpl_target_element* to, gpl_uint start, gpl_uint extent, GplChunk<BYTES> chunk) {
  const int elements = BYTES / GPL_ELEMENT_BYTES;
  if (start < extent && extent - start >= elements) {
    gpl_put<BYTES>(to, chunk.word);
    return;
  }
#pragma unroll
  for (int i = 0; i < elements; ++i)
    if (start + i < extent) to[i] = gpl_as<gpl_target_element>(chunk.element[i]);
}

#endif
