// Index conversion for arrays of indices: logical to linear, linear to logical, linear in one layout to linear in another.
//
// One digit per dimension, most minor first, as in the stride table.  A thread converts GPL_ITEMS indices, 256 apart, one
// digit of all of them after the other, so that their loads are under way together.
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

// Up to 8 digits their loop is written out, with operands from the parameters; beyond, it stays a loop.
#define GPL_UNROLLED (GPL_AXES <= 8 ? GPL_AXES : 1)

__device__ __forceinline__ unsigned long long gpl_first() {
  return ((unsigned long long)blockIdx.y * gridDim.x + blockIdx.x) * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;
}

// The k-th index of this thread takes part.
#define GPL_HAS(k) (first + (k) * GPL_THREADS < table.count)

GPL_KERNEL gpl_linearize(const gpl_in* __restrict__ index, gpl_out* __restrict__ linear,
                         unsigned long long* __restrict__ offender, const __grid_constant__ GplIndexTable table) {
  const unsigned long long first = gpl_first();
  gpl_uint sum[GPL_ITEMS] = {};
  bool valid[GPL_ITEMS] = {true, true, true, true};
#pragma unroll GPL_UNROLLED
  for (int d = 0; d < GPL_AXES; ++d) {
    if (d >= table.rank) break;
    const GplDigit& digit = table.digit[d];
    const gpl_in* row = index + digit.dim * table.count + first;
    gpl_in value[GPL_ITEMS] = {};
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k)
      if (GPL_HAS(k)) value[k] = row[k * GPL_THREADS];
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) {
      const unsigned long long coordinate = gpl_coordinate(value[k], digit.bound, table.mode);
      valid[k] = valid[k] && coordinate < digit.bound;
      sum[k] += (gpl_uint)coordinate * digit.stride;
    }
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    if (!GPL_HAS(k)) continue;
    if (!valid[k]) atomicMin(offender, first + k * GPL_THREADS);
    else if (linear) linear[first + k * GPL_THREADS] = (gpl_out)sum[k];
  }
}

// The digit of `rest`, which keeps the digits above it.
__device__ __forceinline__ gpl_uint gpl_take(gpl_uint& rest, const GplDigit& digit) {
  const gpl_uint above = gpl_divide(rest, digit.extent), coordinate = rest - above * digit.extent.value;
  rest = above;
  return coordinate;
}

// The linear indices of this thread; those that do not exist are 0 and not valid.
__device__ __forceinline__ void gpl_read_linear(const gpl_in* linear, unsigned long long first, const GplIndexTable& table,
                                                gpl_uint (&rest)[GPL_ITEMS], bool (&valid)[GPL_ITEMS]) {
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const unsigned long long wide = GPL_HAS(k) ? gpl_widen(linear[first + k * GPL_THREADS]) : 0;
    valid[k] = wide < table.size;
    rest[k] = valid[k] ? (gpl_uint)wide : 0;
  }
}

// Whether a linear index points at an element and not at padding.
__device__ __forceinline__ bool gpl_is_element(gpl_uint rest, const GplIndexTable& table) {
  bool inside = true;
#pragma unroll GPL_UNROLLED
  for (int d = 0; d < GPL_AXES; ++d) {
    if (d >= table.rank) break;
    inside = gpl_take(rest, table.digit[d]) < table.digit[d].bound && inside;
  }
  return inside;
}

__device__ __forceinline__ bool gpl_has_padding(const GplIndexTable& table) {
  bool padded = false;
  for (int d = 0; d < table.rank; ++d) padded = padded || table.digit[d].bound < table.digit[d].extent.value;
  return padded;
}

// Coordinates are written as they are found.  Where there is padding, a pass over the digits asks for it before.
GPL_KERNEL gpl_delinearize(const gpl_in* __restrict__ linear, gpl_out* __restrict__ index,
                           unsigned long long* __restrict__ offender, const __grid_constant__ GplIndexTable table) {
  const unsigned long long first = gpl_first();
  gpl_uint rest[GPL_ITEMS];
  bool valid[GPL_ITEMS], inside[GPL_ITEMS] = {true, true, true, true};
  gpl_read_linear(linear, first, table, rest, valid);
  if (gpl_has_padding(table)) {
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) inside[k] = gpl_is_element(rest[k], table);
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    valid[k] = valid[k] && (inside[k] || table.mode == GPL_MARK);
    if (GPL_HAS(k) && !valid[k]) atomicMin(offender, first + k * GPL_THREADS);
    valid[k] = valid[k] && GPL_HAS(k);
  }
  if (!index) return;
#pragma unroll GPL_UNROLLED
  for (int d = 0; d < GPL_AXES; ++d) {
    if (d >= table.rank) break;
    gpl_out* row = index + table.digit[d].dim * table.count + first;
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) {
      const gpl_uint coordinate = gpl_take(rest[k], table.digit[d]);
      if (valid[k]) row[k * GPL_THREADS] = inside[k] ? (gpl_out)coordinate : (gpl_out)-1;
    }
  }
}

// Linear index in the source layout, whose digits the table holds, to the target layout, whose strides it holds.
GPL_KERNEL gpl_convert_linear(const gpl_in* __restrict__ source, gpl_out* __restrict__ target,
                              unsigned long long* __restrict__ offender, const __grid_constant__ GplIndexTable table) {
  const unsigned long long first = gpl_first();
  gpl_uint rest[GPL_ITEMS], sum[GPL_ITEMS] = {};
  bool valid[GPL_ITEMS];
  gpl_read_linear(source, first, table, rest, valid);
#pragma unroll GPL_UNROLLED
  for (int d = 0; d < GPL_AXES; ++d) {
    if (d >= table.rank) break;
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) {
      const gpl_uint coordinate = gpl_take(rest[k], table.digit[d]);
      valid[k] = valid[k] && coordinate < table.digit[d].bound;
      sum[k] += coordinate * table.digit[d].stride;
    }
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    if (!GPL_HAS(k)) continue;
    if (!valid[k]) atomicMin(offender, first + k * GPL_THREADS);
    else if (target) target[first + k * GPL_THREADS] = (gpl_out)sum[k];
  }
}
