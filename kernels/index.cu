// Index conversion for arrays of indices: logical to linear, linear to logical, linear in one layout to linear in another.
//
// One digit per dimension, most minor first, as in the stride table.  A thread converts GPL_ITEMS indices, 256 apart.  It
// computes one digit of all of them before the next digit, so that their loads overlap.
//
// index_program.cu could do all of this, at three times the cost: an index of three digits in 32 bits takes 31, 27 and 22
// instructions here (linearize, delinearize, convert_linear; machine code for sm_90) and 84, 85 and 98 there; delinearizing
// in 64 bits takes 46 and 144.  There each quotient is an iteration of a loop that fetches its operands, and most digits are
// two quotients.
// Index arrays hold one row per dimension: coordinate d of index i is index[d * count + i].
//
// Example, f32[2,3]{0,1} padded to (3, 5): digits (dim 0, extent 3, bound 2, stride 1), (dim 1, extent 5, bound 3, stride 3)
//   (1, 2) -> 1 * 1 + 2 * 3 = 7        7 -> (7 % 3, 7 / 3) = (1, 2)        5 -> (2, 1): 2 >= bound 2, padding
//
// For an index that cannot be converted, only its position is written, to *offender; the lowest one wins.  The host reads it
// only if it may have to raise.  With a null result (linear == 0, index == 0) the kernel only checks.
//
// Nearly all threads have GPL_ITEMS indices, all valid: they take a path that checks them together.
//
// If linear indices need 64 bits, one division splits an index into two parts of 31 bits, from which the digits are
// taken.  Digits (3, 2^20, 2^13), low_digits 2: 10^10 -> 10^10 % (3 * 2^20) = 2876416 and 10^10 / (3 * 2^20) = 3178, the last
// digit; 2876416 -> 2876416 % 3 = 1, 2876416 / 3 = 958805.
//
// Macros: GPL_INDEX_BITS (32 if every linear index fits 31 bits, else 64), GPL_DIGIT_BITS (32 if both parts of them do),
// GPL_AXES, GPL_IN_BYTES and GPL_OUT_BYTES (1 2 4 8), GPL_IN_SIGNED.
#if !defined(GPL_DIGIT_BITS)
#error "index.cu needs GPL_DIGIT_BITS"
#endif
#include "index.cuh"

// The type of digits, and of the numbers that they are taken from.
#if GPL_DIGIT_BITS == 32
typedef unsigned gpl_number;
#define GPL_NUMBER_MULHI __umulhi
#else
typedef unsigned long long gpl_number;
#define GPL_NUMBER_MULHI __umul64hi
#endif
#define GPL_SPLIT (GPL_DIGIT_BITS < GPL_INDEX_BITS)

struct GplDigit {
  gpl_number minus_extent;                // minus the width in memory, by which multiplier and shift divide
  gpl_number multiplier, shift;
  gpl_number bound;                       // logical size
  unsigned long long stride;              // of the result
  unsigned long long row;                 // start of the coordinates in the array of logical indices
};

struct GplIndexTable {
  unsigned long long count;               // indices to convert
  unsigned long long size;                // one past the largest linear index
  unsigned rank;                          // digits in use
  unsigned mode;                          // GPL_RAISE or another
  unsigned padded;                        // 1 if some places hold no element
  unsigned low_digits;                    // digits in the lower part of an index that is split
  unsigned long long minus_low, multiplier, shift;   // places of the lower part, as in a digit
  GplDigit digit[GPL_AXES];
};

// The loop over up to 8 digits is unrolled, with operands from the parameters; with more, it stays a loop that ends with the
// last digit in use.  Unused digits do no harm where no row is accessed, since nothing is left of the index by then.
#define GPL_UNROLLED (GPL_AXES <= 8 ? GPL_AXES : 1)
#define GPL_UNUSED(d) ((d) >= (int)table.rank)
#define GPL_NO_MORE(d) (GPL_AXES > 8 && GPL_UNUSED(d))

// Sums up linear indices and returns which logical indices are out of bounds.  Unless ALL, it wraps and clips coordinates.
template <bool ALL>
__device__ __forceinline__ unsigned gpl_sum(const gpl_in* index, unsigned left, const GplIndexTable& table, gpl_uint (&sum)[GPL_ITEMS]) {
  unsigned bad = 0;
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) sum[k] = 0;
#pragma unroll ALL ? GPL_UNROLLED : 1
  for (int d = 0; d < GPL_AXES; ++d) {
    if (GPL_NO_MORE(d)) break;
    if (GPL_UNUSED(d)) continue;
    const GplDigit& digit = table.digit[d];
    gpl_in value[GPL_ITEMS];
    gpl_read<ALL>(index + digit.row, left, value);
    if (ALL) bad |= !gpl_all_below(value, digit.bound);
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) {
      const unsigned long long coordinate = ALL ? gpl_widen(value[k]) : gpl_coordinate(value[k], digit.bound, table.mode);
      if (!ALL) bad |= (unsigned)(coordinate >= digit.bound) << k;
      sum[k] += (gpl_number)coordinate * (gpl_uint)digit.stride;
    }
  }
  return bad;
}

GPL_KERNEL gpl_linearize(const gpl_in* __restrict__ index, gpl_out* __restrict__ linear,
                         unsigned long long* __restrict__ offender, const __grid_constant__ GplIndexTable table) {
  const unsigned long long first = gpl_first();
  const unsigned left = gpl_left(first, table.count);
  gpl_uint sum[GPL_ITEMS];
  unsigned bad = ~0u;
  if (GPL_HAS_ALL) bad = gpl_sum<true>(index + first, left, table, sum);
  if (bad) bad = gpl_sum<false>(index + first, left, table, sum);
  if (bad) gpl_report(bad, first, left, offender);
  if (!linear) return;
  gpl_write_linear(sum, linear + first, left, bad, 0);
}

// What is left of an index: its lower part, and its upper part.
struct GplRest {
  gpl_number low, above;
};

// The division that splits an index.  Both parts fit 31 bits, so the lower half of the quotient is the quotient.
__device__ __forceinline__ GplRest gpl_split(unsigned long long linear, const GplIndexTable& table) {
#if GPL_SPLIT
  const unsigned long long high = __umul64hi(linear, table.multiplier);
  const unsigned above = __funnelshift_r((unsigned)high, (unsigned)(high >> 32), (unsigned)table.shift);
  return {(unsigned)linear + above * (unsigned)table.minus_low, above};
#else
  return {(gpl_number)linear, 0};
#endif
}

// The next digit of all indices.  The last digit of a part is whatever is left of it.
__device__ __forceinline__ void gpl_take(GplRest (&rest)[GPL_ITEMS], const GplIndexTable& table, int d, gpl_number (&coordinate)[GPL_ITEMS]) {
  const GplDigit& digit = table.digit[d];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) coordinate[k] = rest[k].low;
  if (d + 1 == GPL_AXES) return;
  if (GPL_SPLIT && d + 1 == (int)table.low_digits) {
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) rest[k].low = rest[k].above;
    return;
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    rest[k].low = GPL_NUMBER_MULHI(coordinate[k], digit.multiplier) >> digit.shift;
    coordinate[k] += rest[k].low * digit.minus_extent;
  }
}

__device__ __forceinline__ unsigned gpl_padding(const gpl_number (&coordinate)[GPL_ITEMS], gpl_number bound) {
  unsigned found = 0;
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) found |= (unsigned)(coordinate[k] >= bound) << k;
  return found;
}

// Reads and splits linear indices and returns which of them are out of range; the parts of those are meaningless.
__device__ __forceinline__ unsigned gpl_read_linear(const gpl_in* from, unsigned left, const GplIndexTable& table, GplRest (&rest)[GPL_ITEMS]) {
  gpl_in value[GPL_ITEMS];
  if (GPL_HAS_ALL) gpl_read<true>(from, left, value);
  else gpl_read<false>(from, left, value);
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) rest[k] = gpl_split(gpl_widen(value[k]), table);
  return gpl_outside(value, (gpl_uint)table.size);
}

// Returns which linear indices point at padding, in a pass over the digits.
__device__ __forceinline__ unsigned gpl_find_padding(const GplRest (&given)[GPL_ITEMS], const GplIndexTable& table) {
  GplRest rest[GPL_ITEMS];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) rest[k] = given[k];
  unsigned found = 0;
#pragma unroll GPL_UNROLLED
  for (int d = 0; d < GPL_AXES; ++d) {
    if (GPL_NO_MORE(d)) break;
    gpl_number coordinate[GPL_ITEMS];
    gpl_take(rest, table, d, coordinate);
    found |= gpl_padding(coordinate, table.digit[d].bound);
  }
  return found;
}

// Writes each coordinate as soon as it is known; those of padding are -1.
template <bool ALL>
__device__ __forceinline__ void gpl_write_digits(GplRest (&rest)[GPL_ITEMS], gpl_out* index, unsigned left, unsigned bad, unsigned padding,
                                                 const GplIndexTable& table) {
#pragma unroll ALL ? GPL_UNROLLED : 1
  for (int d = 0; d < GPL_AXES; ++d) {
    if (GPL_NO_MORE(d)) break;
    if (GPL_UNUSED(d)) continue;
    gpl_number coordinate[GPL_ITEMS];
    gpl_out result[GPL_ITEMS];
    gpl_take(rest, table, d, coordinate);
    gpl_mark(coordinate, ALL ? 0 : padding, result);
    gpl_write<ALL>(result, index + table.digit[d].row, left, bad);
  }
}

GPL_KERNEL gpl_delinearize(const gpl_in* __restrict__ linear, gpl_out* __restrict__ index,
                           unsigned long long* __restrict__ offender, const __grid_constant__ GplIndexTable table) {
  const unsigned long long first = gpl_first();
  const unsigned left = gpl_left(first, table.count);
  GplRest rest[GPL_ITEMS];
  unsigned bad = gpl_read_linear(linear + first, left, table, rest), padding = 0;
  if (table.padded) padding = gpl_find_padding(rest, table);
  if (table.mode != GPL_MARK) bad |= padding;
  if (bad) gpl_report(bad, first, left, offender);
  if (!index) return;
  if (GPL_HAS_ALL && !(bad | padding)) gpl_write_digits<true>(rest, index + first, left, bad, padding, table);
  else gpl_write_digits<false>(rest, index + first, left, bad, padding, table);
}

// Linear index in the source layout to linear index in the target layout.  The table holds the source's digits and the
// target's strides.  Padding is bad, or gives -1 with GPL_MARK.
GPL_KERNEL gpl_convert_linear(const gpl_in* __restrict__ source, gpl_out* __restrict__ target,
                              unsigned long long* __restrict__ offender, const __grid_constant__ GplIndexTable table) {
  const unsigned long long first = gpl_first();
  const unsigned left = gpl_left(first, table.count);
  GplRest rest[GPL_ITEMS];
  gpl_uint sum[GPL_ITEMS] = {};
  unsigned bad = gpl_read_linear(source + first, left, table, rest), padding = 0;
#pragma unroll GPL_UNROLLED
  for (int d = 0; d < GPL_AXES; ++d) {
    if (GPL_NO_MORE(d)) break;
    gpl_number coordinate[GPL_ITEMS];
    gpl_take(rest, table, d, coordinate);
    if (table.padded) padding |= gpl_padding(coordinate, table.digit[d].bound);
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) sum[k] += coordinate[k] * (gpl_uint)table.digit[d].stride;
  }
  if (table.mode != GPL_MARK) bad |= padding;
  if (bad) gpl_report(bad, first, left, offender);
  if (!target) return;
  gpl_write_linear(sum, target + first, left, bad, padding);
}
