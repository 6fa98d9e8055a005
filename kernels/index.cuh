// Shared by all index conversion: the types of indices, the four indices of a thread, 256 apart, their loads and stores,
// and the report of those that cannot be converted.
//
// For an index that cannot be converted, only its position is written, to *offender; the lowest one wins.  The host reads it
// only if it may have to raise.
//
// Macros: GPL_IN_BYTES and GPL_OUT_BYTES (1 2 4 8), GPL_IN_SIGNED.  Numbers: GPL_ITEMS (indices of a thread).
#ifndef GPL_INDEX_CUH
#define GPL_INDEX_CUH
#if !defined(GPL_IN_BYTES) || !defined(GPL_OUT_BYTES) || !defined(GPL_IN_SIGNED) || !defined(GPL_ITEMS)
#error "index.cuh needs GPL_IN_BYTES, GPL_OUT_BYTES, GPL_IN_SIGNED and GPL_ITEMS"
#endif
#define GPL_ELEMENT_BYTES 8
#include "move.cuh"
#include "coordinate.cuh"

#if GPL_IN_BYTES == 1
#define GPL_IN_WORD char
#elif GPL_IN_BYTES == 2
#define GPL_IN_WORD short
#elif GPL_IN_BYTES == 4
#define GPL_IN_WORD int
#else
#define GPL_IN_WORD long long
#endif
#if GPL_IN_SIGNED
typedef signed GPL_IN_WORD gpl_in;
#else
typedef unsigned GPL_IN_WORD gpl_in;
#endif
#if GPL_OUT_BYTES == 1
typedef signed char gpl_out;
#elif GPL_OUT_BYTES == 2
typedef short gpl_out;
#elif GPL_OUT_BYTES == 4
typedef int gpl_out;
#else
typedef long long gpl_out;
#endif

// value < bound; a negative value, sign-extended, is larger than any bound.
template <typename Bound>
__device__ __forceinline__ bool gpl_below(gpl_in value, Bound bound) {
  return sizeof(gpl_in) <= 4 && sizeof(Bound) == 4 ? (unsigned)value < (unsigned)bound : gpl_widen(value) < bound;
}

__device__ __forceinline__ unsigned long long gpl_first() {
  return ((unsigned long long)blockIdx.y * gridDim.x + blockIdx.x) * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;
}

// How many indices there are from `first` on, up to what this thread can reach; they tell whether its k-th index exists.
// With ALL, all exist and nothing is checked.
__device__ __forceinline__ unsigned gpl_left(unsigned long long first, unsigned long long count) {
  const unsigned most = GPL_THREADS * GPL_ITEMS;
  return first >= count ? 0 : count - first < most ? (unsigned)(count - first) : most;
}
#define GPL_HAS(k) ((k) * GPL_THREADS < left)
#define GPL_HAS_ALL GPL_HAS(GPL_ITEMS - 1)

template <bool ALL>
__device__ __forceinline__ void gpl_read(const gpl_in* from, unsigned left, gpl_in (&value)[GPL_ITEMS]) {
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) value[k] = ALL || GPL_HAS(k) ? from[k * GPL_THREADS] : 0;
}

template <typename Bound>
__device__ __forceinline__ bool gpl_all_below(const gpl_in (&value)[GPL_ITEMS], Bound bound) {
  bool all = true;
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) all = all && gpl_below(value[k], bound);
  return all;
}

// The indices of a thread that are not below a bound, usually none; bit k stands for the k-th.
template <typename Bound>
__device__ __forceinline__ unsigned gpl_outside(const gpl_in (&value)[GPL_ITEMS], Bound bound) {
  unsigned outside = 0;
  if (gpl_all_below(value, bound)) return outside;
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) outside |= (unsigned)!gpl_below(value[k], bound) << k;
  return outside;
}

// Writes the results of indices that exist and are not bad.
template <bool ALL, typename T>
__device__ __forceinline__ void gpl_write(const T (&value)[GPL_ITEMS], gpl_out* to, unsigned left, unsigned bad) {
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k)
    if (ALL || (GPL_HAS(k) && !(bad >> k & 1))) to[k * GPL_THREADS] = (gpl_out)value[k];
}

// The results as they are written: -1 for padding.
template <typename T>
__device__ __forceinline__ void gpl_mark(const T (&value)[GPL_ITEMS], unsigned padding, gpl_out (&result)[GPL_ITEMS]) {
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) result[k] = padding >> k & 1 ? (gpl_out)-1 : (gpl_out)value[k];
}

template <typename T>
__device__ __forceinline__ void gpl_write_marked(const T (&value)[GPL_ITEMS], gpl_out* to, unsigned left, unsigned bad, unsigned padding) {
  gpl_out result[GPL_ITEMS];
  gpl_mark(value, padding, result);
  gpl_write<false>(result, to, left, bad);
}

// Writes converted linear indices.  Nearly all threads have GPL_ITEMS of them, none of which is bad or padding.
template <typename T>
__device__ __forceinline__ void gpl_write_linear(const T (&sum)[GPL_ITEMS], gpl_out* to, unsigned left, unsigned bad, unsigned padding) {
  if (GPL_HAS_ALL && !(bad | padding)) gpl_write<true>(sum, to, left, bad);
  else gpl_write_marked(sum, to, left, bad, padding);
}

__device__ __forceinline__ void gpl_report(unsigned bad, unsigned long long first, unsigned left, unsigned long long* offender) {
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k)
    if (GPL_HAS(k) && (bad >> k & 1)) atomicMin(offender, first + k * GPL_THREADS);
}

#endif
