// Index conversion for arrays of indices: logical to linear, linear to logical, linear in one layout to linear in another.
//
// One digit per dimension, most minor first, as in the stride table.  A thread converts GPL_ITEMS indices, 256 apart.
// Index arrays hold one row per dimension: coordinate d of index i is index[d * count + i].
//
// Example, f32[2,3]{0,1} padded to (3, 5): digits (dim 0, extent 3, bound 2, stride 1), (dim 1, extent 5, bound 3, stride 3)
//   (1, 2) -> 1 * 1 + 2 * 3 = 7        7 -> (7 % 3, 7 / 3) = (1, 2)        5 -> (2, 1): 2 >= bound 2, padding
//
// An index that cannot be converted writes nothing but its own position into *offender, the least one wins; the host
// looks at it only when it must raise.  With linear == 0 (index == 0) nothing is written: a check before an
// overwrite.
//
// Macros: GPL_INDEX_BITS (32 when every linear index fits 31 bits), GPL_AXES, GPL_IN_BYTES and GPL_OUT_BYTES (1 2 4 8),
// GPL_IN_SIGNED.
#define GPL_ELEMENT_BYTES 8
#include "move.cuh"
#include "coordinate.cuh"

#define GPL_ITEMS 4

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

struct GplDigit {
  GplDivisor extent;               // width in memory
  gpl_uint bound, stride, dim;     // logical size, stride of the result, logical dimension
};

struct GplIndexTable {
  unsigned long long count;        // indices to convert
  unsigned long long size;         // linear indices from here on do not exist
  unsigned long long rank;         // digits in use
  unsigned long long mode;         // a GplMode
  GplDigit digit[GPL_AXES];
};

__device__ __forceinline__ unsigned long long gpl_first() {
  return gpl_block() * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;
}

extern "C" __global__ void __launch_bounds__(GPL_THREADS)
gpl_linearize(const gpl_in* __restrict__ index, gpl_out* __restrict__ linear, unsigned long long* __restrict__ offender,
              const __grid_constant__ GplIndexTable table) {
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const unsigned long long i = gpl_first() + k * GPL_THREADS;
    if (i >= table.count) return;
    gpl_uint sum = 0;
    bool valid = true;
#pragma unroll
    for (int d = 0; d < GPL_AXES; ++d) {
      if (d >= table.rank) break;
      const GplDigit& digit = table.digit[d];
      const unsigned long long coordinate = gpl_coordinate(index[digit.dim * table.count + i], digit.bound, table.mode);
      valid = valid && coordinate < digit.bound;
      sum += (gpl_uint)coordinate * digit.stride;
    }
    if (!valid) atomicMin(offender, i);
    else if (linear) linear[i] = (gpl_out)sum;
  }
}

extern "C" __global__ void __launch_bounds__(GPL_THREADS)
gpl_delinearize(const gpl_in* __restrict__ linear, gpl_out* __restrict__ index, unsigned long long* __restrict__ offender,
                const __grid_constant__ GplIndexTable table) {
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const unsigned long long i = gpl_first() + k * GPL_THREADS;
    if (i >= table.count) return;
    const unsigned long long wide = gpl_widen(linear[i]);
    bool valid = wide < table.size, inside = true;
    gpl_uint rest = valid ? (gpl_uint)wide : 0, coordinate[GPL_AXES];
#pragma unroll
    for (int d = 0; d < GPL_AXES; ++d) {
      if (d >= table.rank) break;
      const GplDigit& digit = table.digit[d];
      const gpl_uint above = gpl_divide(rest, digit.extent);
      coordinate[d] = rest - above * digit.extent.value;
      inside = inside && coordinate[d] < digit.bound;
      rest = above;
    }
    valid = valid && (inside || table.mode == GPL_MARK);
    if (!valid) atomicMin(offender, i);
    if (!valid || !index) continue;
#pragma unroll
    for (int d = 0; d < GPL_AXES; ++d) {
      if (d >= table.rank) break;
      index[table.digit[d].dim * table.count + i] = inside ? (gpl_out)coordinate[d] : (gpl_out)-1;
    }
  }
}

// Linear index in the source layout, whose digits the table holds, to the target layout, whose strides it holds.
extern "C" __global__ void __launch_bounds__(GPL_THREADS)
gpl_convert_linear(const gpl_in* __restrict__ source, gpl_out* __restrict__ target, unsigned long long* __restrict__ offender,
                   const __grid_constant__ GplIndexTable table) {
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const unsigned long long i = gpl_first() + k * GPL_THREADS;
    if (i >= table.count) return;
    const unsigned long long wide = gpl_widen(source[i]);
    bool valid = wide < table.size;
    gpl_uint rest = valid ? (gpl_uint)wide : 0, sum = 0;
#pragma unroll
    for (int d = 0; d < GPL_AXES; ++d) {
      if (d >= table.rank) break;
      const GplDigit& digit = table.digit[d];
      const gpl_uint above = gpl_divide(rest, digit.extent);
      const gpl_uint coordinate = rest - above * digit.extent.value;
      valid = valid && coordinate < digit.bound;
      sum += coordinate * digit.stride;
      rest = above;
    }
    if (!valid) atomicMin(offender, i);
    else if (target) target[i] = (gpl_out)sum;
  }
}
