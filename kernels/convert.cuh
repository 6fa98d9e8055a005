// One element from any element type to any other, exactly as the law of moves/arithmetic.py says, and the steps between.
//
// A type is a number, which the host packs (moves/arithmetic.py) and GplType unpacks.  All functions take types as values: in a
// kernel they are constants, so a compiler keeps only what a pair of types needs; a test passes them at run time.
//   f16:  kind float, special IEEE, 16 bits, mantissa 10, bias 15        s4:  kind signed, 4 bits
//
// An element is read to its exact value, significand * 2^exponent, and written from it: so a cast rounds once.  W is the word
// of the significand: 64 bits wide if a side or the steps are, else 32.
//   f16 0x3E00:  1536 * 2^-10 = 1.5                                      s4 0x0F:  -1 * 2^0
// Most pairs have a shorter way through the float of the same width (the sections on reals), with the same result: all short
// types have exact values there.  Where a device has an instruction for a side, that is taken.
//
// Numbers: the kinds GPL_BOOLEAN, GPL_UNSIGNED, GPL_SIGNED, GPL_FLOAT and GPL_POWER (only powers of two); the special codes
// GPL_IEEE (infinities and nans), GPL_NAN (nan has all ones), GPL_FINITE (none) and GPL_UNSIGNED_ZERO (nan is where -0 would
// be); the operations GPL_MULTIPLY, GPL_ADD, GPL_SUBTRACT, GPL_DIVIDE and GPL_ROUND.
#ifndef GPL_CONVERT_CUH
#define GPL_CONVERT_CUH
#if !defined(GPL_BOOLEAN) || !defined(GPL_UNSIGNED) || !defined(GPL_SIGNED) || !defined(GPL_FLOAT) || !defined(GPL_POWER)
#error "convert.cuh needs GPL_BOOLEAN, GPL_UNSIGNED, GPL_SIGNED, GPL_FLOAT and GPL_POWER"
#endif
#if !defined(GPL_IEEE) || !defined(GPL_NAN) || !defined(GPL_FINITE) || !defined(GPL_UNSIGNED_ZERO)
#error "convert.cuh needs GPL_IEEE, GPL_NAN, GPL_FINITE and GPL_UNSIGNED_ZERO"
#endif
#if !defined(GPL_MULTIPLY) || !defined(GPL_ADD) || !defined(GPL_SUBTRACT) || !defined(GPL_DIVIDE) || !defined(GPL_ROUND)
#error "convert.cuh needs GPL_MULTIPLY, GPL_ADD, GPL_SUBTRACT, GPL_DIVIDE and GPL_ROUND"
#endif

// ---- types ----

struct GplType {
  unsigned kind, special;
  int bits, mantissa, bias;  // bits of the value; of the mantissa, without the leading one
};

__device__ __forceinline__ GplType gpl_type(unsigned number) {
  return {number & 7, number >> 3 & 3, (int)(number >> 5 & 127), (int)(number >> 12 & 63), (int)(number >> 18)};
}

// The float with the width of W, in which steps are done.
template <class W> struct GplReal;
template <> struct GplReal<unsigned> { typedef float type; };
template <> struct GplReal<unsigned long long> { typedef double type; };

template <class W> __device__ __forceinline__ GplType gpl_real_type() {
  return sizeof(W) == 4 ? GplType{GPL_FLOAT, GPL_IEEE, 32, 23, 127} : GplType{GPL_FLOAT, GPL_IEEE, 64, 52, 1023};
}

// ---- exact values ----

// significand * 2^exponent, unless it is nan or infinite.  The sign of zero counts.
template <class W> struct GplExact {
  W significand;
  int exponent;
  bool negative, nan, infinite;
};

__device__ __forceinline__ int gpl_top(unsigned word) { return 31 - __clz((int)word); }
__device__ __forceinline__ int gpl_top(unsigned long long word) { return 63 - __clzll((long long)word); }

__device__ __forceinline__ int gpl_signed(unsigned word) { return (int)word; }
__device__ __forceinline__ long long gpl_signed(unsigned long long word) { return (long long)word; }

// A word with the lowest `count` >= 1 bits set.
template <class W> __device__ __forceinline__ W gpl_ones(int count) { return (W)-1 >> (8 * (int)sizeof(W) - count); }

// significand / 2^shift, shift >= 1, to the nearest integer, half to even.
template <class W> __device__ __forceinline__ W gpl_rounded(W significand, int shift) {
  const int most = 8 * (int)sizeof(W) - 1;  // a larger shift is that of a float, whose significand is far below half of this
  if (shift > most) shift = most;
  const W whole = significand >> shift, rest = significand - (whole << shift), half = (W)1 << (shift - 1);
  return whole + (rest > half || (rest == half && (whole & 1)));
}

// ---- reading ----

// The value of a float as wide as W.
template <class W> __device__ __forceinline__ GplExact<W> gpl_read_wide(W code) {
  const GplType type = gpl_real_type<W>();
  const W all = gpl_ones<W>(type.bits - 1), magnitude = code & all, fraction = magnitude & (((W)1 << type.mantissa) - 1);
  const int field = (int)(magnitude >> type.mantissa);
  const bool special = field == (int)(all >> type.mantissa), negative = code != magnitude;
  const W significand = field ? fraction | (W)1 << type.mantissa : fraction;
  return {significand, (field ? field : 1) - type.bias - type.mantissa, negative, special && fraction, special && !fraction};
}

// The value of a code of a type as wide as W, or of a power of two.
template <class W> __device__ __forceinline__ GplExact<W> gpl_read(W code, const GplType& type) {
  if (type.kind == GPL_FLOAT) return gpl_read_wide(code);
  if (type.kind == GPL_POWER) return {1, (int)code - type.bias, false, code == gpl_ones<W>(type.bits), false};
  const bool negative = type.kind == GPL_SIGNED && gpl_signed(code) < 0;
  return {negative ? 0 - code : code, 0, negative, false, false};
}

// ---- writing ----

// The nearest integer; nan gives 0, and numbers out of range the nearest one in range.
template <class W> __device__ __forceinline__ W gpl_integer_code(const GplExact<W>& x, const GplType& type) {
  if (x.nan || (x.significand == 0 && !x.infinite)) return 0;
  const bool negative = x.negative, is_signed = type.kind == GPL_SIGNED;
  const W all = gpl_ones<W>(type.bits);
  const W limit = is_signed ? (all >> 1) + negative : negative ? 0 : all;
  W magnitude = x.significand;
  if (x.infinite || gpl_top(x.significand) + x.exponent >= 8 * (int)sizeof(W)) magnitude = limit;
  else if (x.exponent >= 0) magnitude <<= x.exponent;
  else magnitude = gpl_rounded(magnitude, -x.exponent);
  if (magnitude > limit) magnitude = limit;
  return (negative ? 0 - magnitude : magnitude) & all;
}

// The code of the magnitude as if exponents had no end: larger numbers have larger codes.
template <class W> __device__ __forceinline__ W gpl_magnitude_code(const GplExact<W>& x, const GplType& type) {
  if (x.significand == 0) return 0;
  const int least = 1 - type.bias, above = gpl_top(x.significand) + x.exponent - least;
  const int field = above > 0 ? above : 0;                       // subnormal numbers share the least exponent
  const int shift = field + least - type.mantissa - x.exponent;  // to the target's last place
  const W significand = shift > 0 ? gpl_rounded(x.significand, shift) : x.significand << -shift;
  return ((W)field << type.mantissa) + significand;              // the leading one, or a carry, adds one to the exponent
}

// The codes of a float that mean something else: of the largest number, of what is larger, of nan.
template <class W> struct GplLimits {
  W largest, beyond, nan;
};

template <class W> __device__ __forceinline__ GplLimits<W> gpl_limits(const GplType& type, bool saturate) {
  const W all = gpl_ones<W>(type.bits - 1);
  const W nan = type.special == GPL_FINITE ? 0 : type.special == GPL_UNSIGNED_ZERO ? all + 1 : all;
  const W largest = type.special == GPL_IEEE ? all - ((W)1 << type.mantissa) : type.special == GPL_NAN ? all - 1 : all;
  const W beyond = type.special == GPL_IEEE ? largest + 1 : saturate || type.special == GPL_FINITE ? largest : nan;
  return {largest, beyond, nan};
}

// The code of a magnitude with a sign.
template <class W> __device__ __forceinline__ W gpl_with_sign(W code, bool negative, const GplType& type) {
  if (type.special == GPL_UNSIGNED_ZERO && code == 0) return 0;
  return negative ? code | (W)1 << (type.bits - 1) : code;
}

template <class W> __device__ __forceinline__ W gpl_float_code(const GplExact<W>& x, const GplType& type, bool saturate) {
  const GplLimits<W> limits = gpl_limits<W>(type, saturate);
  if (x.nan) return limits.nan;
  const W code = x.infinite ? limits.largest + 1 : gpl_magnitude_code(x, type);
  return gpl_with_sign(code > limits.largest ? limits.beyond : code, x.negative, type);
}

// The nearest power of two, 1.5 * 2^k up; the least one for 0.  Only nan is left for negative numbers.
template <class W> __device__ __forceinline__ W gpl_power_code(const GplExact<W>& x, const GplType& type, bool saturate) {
  const W nan = gpl_ones<W>(type.bits);
  const bool zero = x.significand == 0 && !x.infinite;
  if (x.nan || (x.negative && !zero)) return nan;
  if (zero) return 0;
  const int top = x.infinite ? 0 : gpl_top(x.significand);
  const int code = x.exponent + top + type.bias + (top > 0 && (x.significand >> (top - 1) & 1));
  if (x.infinite || code >= (int)nan) return saturate ? nan - 1 : nan;
  return code < 0 ? 0 : (W)code;
}

// The code of the number of a type that is nearest to a value, half to even.
template <class W> __device__ __forceinline__ W gpl_write(const GplExact<W>& x, const GplType& type, bool saturate) {
  if (type.kind == GPL_FLOAT) return gpl_float_code(x, type, saturate);
  if (type.kind == GPL_POWER) return gpl_power_code(x, type, saturate);
  if (type.kind == GPL_BOOLEAN) return x.nan || x.infinite || x.significand != 0;
  return gpl_integer_code(x, type);
}

// ---- operations ----

// One IEEE operation, never fused with another, subnormal numbers kept.  In CUDA it takes an instruction by name: CuPy compiles
// with -ftz=true, which makes operators and intrinsics of single precision flush subnormal numbers to zero.
#ifdef __CUDACC__
#define GPL_IEEE_OPERATION(name, symbol, type, letter, other)                                     \
  __device__ __forceinline__ type name(type x, type y) {                                          \
    type result;                                                                                  \
    asm(symbol " %0, %1, %2;" : "=" letter(result) : letter(x), letter(y));                       \
    return result;                                                                                \
  }
#else
#define GPL_IEEE_OPERATION(name, symbol, type, letter, other) \
  __device__ __forceinline__ type name(type x, type y) { return other(x, y); }
#endif
GPL_IEEE_OPERATION(gpl_multiplied, "mul.rn.f32", float, "f", __fmul_rn)
GPL_IEEE_OPERATION(gpl_multiplied, "mul.rn.f64", double, "d", __dmul_rn)
GPL_IEEE_OPERATION(gpl_sum, "add.rn.f32", float, "f", __fadd_rn)
GPL_IEEE_OPERATION(gpl_sum, "add.rn.f64", double, "d", __dadd_rn)
GPL_IEEE_OPERATION(gpl_difference, "sub.rn.f32", float, "f", __fsub_rn)
GPL_IEEE_OPERATION(gpl_difference, "sub.rn.f64", double, "d", __dsub_rn)
GPL_IEEE_OPERATION(gpl_quotient, "div.rn.f32", float, "f", __fdiv_rn)
GPL_IEEE_OPERATION(gpl_quotient, "div.rn.f64", double, "d", __ddiv_rn)

template <class W> union GplRealCode {
  typename GplReal<W>::type real;
  W code;
};

// ---- conversions that are instructions ----

// True, and the result, where the device has an instruction that gives what the functions below give; else they do the work.
//   f32 from and to f16, f8e5m2, f8e4m3fn; to bf16 and integers of up to 32 bits; from u8;  f32 from and to f64;  whole numbers
// Outside CUDA, GPL_RINT may name what rounds to whole numbers.
#if defined(__CUDACC__) && defined(__CUDA_ARCH__)
#define GPL_HAS_BF16 (__CUDA_ARCH__ >= 800)
#define GPL_HAS_F8 (__CUDA_ARCH__ >= 900 || (__CUDA_ARCH__ == 890 && __CUDACC_VER_MAJOR__ * 10 + __CUDACC_VER_MINOR__ > 120))

#define GPL_INSTRUCTION(name, symbol, type, letter, from, given) \
  __device__ __forceinline__ type name(from x) {                 \
    type result;                                                 \
    asm(symbol " %1;" : "=" letter(result) : given(x));          \
    return result;                                               \
  }
GPL_INSTRUCTION(gpl_from_f16, "cvt.f32.f16 %0,", float, "f", unsigned short, "h")
GPL_INSTRUCTION(gpl_from_u8, "cvt.rn.f32.u8 %0,", float, "f", unsigned, "r")
GPL_INSTRUCTION(gpl_to_f16, "cvt.rn.f16.f32 %0,", unsigned short, "h", float, "f")
GPL_INSTRUCTION(gpl_to_s8, "cvt.rni.s8.f32 %0,", unsigned, "r", float, "f")  // to integers: nan is 0, and the rest in range
GPL_INSTRUCTION(gpl_to_u8, "cvt.rni.u8.f32 %0,", unsigned, "r", float, "f")
GPL_INSTRUCTION(gpl_to_s32, "cvt.rni.s32.f32 %0,", int, "r", float, "f")
GPL_INSTRUCTION(gpl_to_u32, "cvt.rni.u32.f32 %0,", unsigned, "r", float, "f")
GPL_INSTRUCTION(gpl_to_f64, "cvt.f64.f32 %0,", double, "d", float, "f")
GPL_INSTRUCTION(gpl_to_f32, "cvt.rn.f32.f64 %0,", float, "f", double, "d")
GPL_INSTRUCTION(gpl_whole, "cvt.rni.f32.f32 %0,", float, "f", float, "f")
GPL_INSTRUCTION(gpl_whole, "cvt.rni.f64.f64 %0,", double, "d", double, "d")
#if GPL_HAS_BF16
GPL_INSTRUCTION(gpl_to_bf16, "cvt.rn.bf16.f32 %0,", unsigned short, "h", float, "f")
#endif
#if GPL_HAS_F8  // two at once: the lower one counts.  f8 saturate
GPL_INSTRUCTION(gpl_f16_of_f8e4m3fn, "cvt.rn.f16x2.e4m3x2 %0,", unsigned, "r", unsigned short, "h")
GPL_INSTRUCTION(gpl_to_f8e4m3fn, "cvt.rn.satfinite.e4m3x2.f32 %0, 0f00000000,", unsigned short, "h", float, "f")
GPL_INSTRUCTION(gpl_to_f8e5m2, "cvt.rn.satfinite.e5m2x2.f32 %0, 0f00000000,", unsigned short, "h", float, "f")
#endif

__device__ __forceinline__ bool gpl_is_float(const GplType& type, int bits, int mantissa, unsigned special) {
  return type.kind == GPL_FLOAT && type.bits == bits && type.mantissa == mantissa && type.special == special;
}

__device__ __forceinline__ bool gpl_read_at_once(unsigned code, const GplType& type, float& x) {
  if (type.kind == GPL_UNSIGNED && type.bits == 8) x = gpl_from_u8(code);  // fewer instructions than the compiler's
  else if (gpl_is_float(type, 16, 10, GPL_IEEE)) x = gpl_from_f16((unsigned short)code);
  else if (gpl_is_float(type, 8, 2, GPL_IEEE)) x = gpl_from_f16((unsigned short)(code << 8));  // the upper half of f16
#if GPL_HAS_F8
  else if (gpl_is_float(type, 8, 3, GPL_NAN)) x = gpl_from_f16((unsigned short)gpl_f16_of_f8e4m3fn((unsigned short)code));
#endif
  else return false;
  return true;
}

__device__ __forceinline__ bool gpl_read_at_once(unsigned long long code, const GplType& type, double& x) {
  GplRealCode<unsigned> given;
  given.code = (unsigned)code;
  if (gpl_is_float(type, 32, 23, GPL_IEEE)) x = gpl_to_f64(given.real);
  return gpl_is_float(type, 32, 23, GPL_IEEE);
}

// The code after that of the largest f8 is inf or nan: it replaces what is beyond where the law says so.
__device__ __forceinline__ bool gpl_write_at_once(float x, const GplType& type, bool saturate, unsigned& code) {
  const unsigned all = gpl_ones<unsigned>(type.bits);
  const int high = (int)(all >> 1);
  if (type.kind == GPL_SIGNED && type.bits <= 32) code = (type.bits == 8 ? gpl_to_s8(x) : max(min(gpl_to_s32(x), high), ~high)) & all;
  else if (type.kind == GPL_UNSIGNED && type.bits <= 32) code = type.bits == 8 ? gpl_to_u8(x) : min(gpl_to_u32(x), all);
  else if (gpl_is_float(type, 16, 10, GPL_IEEE)) code = gpl_to_f16(x);
#if GPL_HAS_BF16
  else if (gpl_is_float(type, 16, 7, GPL_IEEE)) code = gpl_to_bf16(x);
#endif
#if GPL_HAS_F8
  else if (gpl_is_float(type, 8, 3, GPL_NAN)) code = gpl_to_f8e4m3fn(x) + (!saturate && fabsf(x) > 464);
  else if (gpl_is_float(type, 8, 2, GPL_IEEE)) code = gpl_to_f8e5m2(x) + (fabsf(x) >= 61440);  // halfway: to even
#endif
  else return false;
  return true;
}

__device__ __forceinline__ bool gpl_write_at_once(double x, const GplType& type, bool, unsigned long long& code) {
  GplRealCode<unsigned> result;
  if (gpl_is_float(type, 32, 23, GPL_IEEE)) result.real = gpl_to_f32(x), code = result.code;
  return gpl_is_float(type, 32, 23, GPL_IEEE);
}

template <class Real> __device__ __forceinline__ bool gpl_round_at_once(Real x, Real& result) {
  result = gpl_whole(x);
  return true;
}
#else
template <class W, class Real> bool gpl_read_at_once(W, const GplType&, Real&) { return false; }
template <class W, class Real> bool gpl_write_at_once(Real, const GplType&, bool, W&) { return false; }
#ifdef GPL_RINT
template <class Real> __forceinline__ bool gpl_round_at_once(Real x, Real& result) { return result = GPL_RINT(x), true; }
#else
template <class Real> bool gpl_round_at_once(Real, Real&) { return false; }
#endif
#endif

// ---- reading as a real ----

// Whether gpl_read_real gives the exact value: all but integers with more bits than the mantissa.
template <class W> __device__ __forceinline__ bool gpl_is_exact(const GplType& type) {
  return type.kind == GPL_FLOAT || type.kind == GPL_POWER || type.bits <= gpl_real_type<W>().mantissa;
}

template <class W> __device__ __forceinline__ bool gpl_is_real(const GplType& type) {
  return type.kind == GPL_FLOAT && type.bits == 8 * (int)sizeof(W);
}

// The bits of a shorter float in the place of the real's: exponents are too small by the difference of the biases.  A product
// with a power of two puts that right, subnormal numbers included.  bf16 has the exponents of f32: it is the upper half.
template <class W> __device__ __forceinline__ typename GplReal<W>::type gpl_read_short(W code, const GplType& type) {
  const GplType real = gpl_real_type<W>();
  const W all = gpl_ones<W>(type.bits - 1), magnitude = code & all, sign = (W)1 << (8 * sizeof(W) - 1);
  const W infinity = gpl_ones<W>(8 * (int)sizeof(W) - 1 - real.mantissa) << real.mantissa & ~sign;
  const int above = real.bits - real.mantissa - type.bits + type.mantissa;  // bits of the exponent that it lacks
  GplRealCode<W> x, scale;
  x.code = code << (8 * (int)sizeof(W) - type.bits);
  if (type.bias == real.bias) return x.real;
  x.code = (W)(gpl_signed(x.code) >> above) & (sign | all << (real.mantissa - type.mantissa));
  scale.code = (W)(2 * real.bias - type.bias) << real.mantissa;
  x.real = gpl_multiplied(x.real, scale.real);
  if (type.special == GPL_IEEE && magnitude > all - ((W)1 << type.mantissa)) x.code |= infinity;
  if (type.special == GPL_NAN && magnitude == all) x.code = ~sign;
  if (type.special == GPL_UNSIGNED_ZERO && x.code == sign) x.code = ~sign;
  return x.real;
}

// The value of a code, rounded once to the float with the width of W.
template <class W> __device__ __forceinline__ typename GplReal<W>::type gpl_read_real(W code, const GplType& type) {
  typedef typename GplReal<W>::type Real;
  GplRealCode<W> x = {};
  if (gpl_read_at_once(code, type, x.real)) return x.real;
  if (gpl_is_real<W>(type)) {
    x.code = code;
  } else if (type.kind == GPL_FLOAT) {
    x.real = gpl_read_short(code, type);
  } else if (type.kind == GPL_POWER) {
    x.code = gpl_float_code(gpl_read(code, type), gpl_real_type<W>(), false);
  } else if (type.kind == GPL_SIGNED) {
    const int above = 8 * (int)sizeof(W) - type.bits;  // the sign moves to the top, and back down
    x.real = (Real)(gpl_signed(code << above) >> above);
  } else {
    x.real = (Real)(code & gpl_ones<W>(type.bits));
  }
  return x.real;
}

// ---- writing a real ----

// The integers of a type of up to half the bits of W.
template <class W> struct GplRange {
  typename GplReal<W>::type low, high;
  W all;
};
template <class W> __device__ __forceinline__ GplRange<W> gpl_range(const GplType& type) {
  typedef typename GplReal<W>::type Real;
  const W all = gpl_ones<W>(type.bits);
  const GplRange<W> range = {type.kind == GPL_SIGNED ? -(Real)((all >> 1) + 1) : (Real)0, (Real)(type.kind == GPL_SIGNED ? all >> 1 : all), all};
  return range;
}

// Within the range the sum with 1.5 * 2^mantissa is rounded to an integer, which is in its lowest bits.  Both bounds are compared
// with x: where the second one is compared with what the first gave, nvcc needs more registers than gpl_rows has.
template <class W> __device__ __forceinline__ W gpl_short_integer(typename GplReal<W>::type x, const GplRange<W>& range) {
  typedef typename GplReal<W>::type Real;
  GplRealCode<W> result;
  const Real raised = x < range.low ? range.low : x, inside = x > range.high ? range.high : raised;
  result.real = gpl_sum(inside, (Real)((W)3 << (gpl_real_type<W>().mantissa - 1)));
  return x != x ? 0 : result.code & range.all;
}

// The smaller one of two floats, the second one if the first is nan; and x y + z, for a product that is a float.
#if defined(__CUDACC__) && defined(__CUDA_ARCH__)
__device__ __forceinline__ float gpl_at_most(float x, float most) { return fminf(x, most); }
__device__ __forceinline__ float gpl_product_sum(float x, float y, float z) { return __fmaf_rn(x, y, z); }
#else
__device__ __forceinline__ float gpl_at_most(float x, float most) { return x < most ? x : most; }
__device__ __forceinline__ float gpl_product_sum(float x, float y, float z) { return gpl_sum(gpl_multiplied(x, y), z); }
#endif

// A float with fewer bits of exponent and far fewer of mantissa than f32.  A number whose last place is that of the target at x
// is added, which rounds: the sum has the code's mantissa in its lowest bits, with the leading one, and the exponents of `place`
// give the rest.  Bias and least exponent are taken off beforehand, by an even number in the last places of what is added.  What
// is too large, infinity and nan are the number whose code comes out for that.
//   f16, x = 1 + 2^-11:  2^13 has a last place of 2^-10; 2^13 + x is rounded to 2^13 + 1, half to even: 1024 in the lowest bits,
//   to which 14 * 1024 come for the exponent 0, as -14 is the least one
__device__ __forceinline__ unsigned gpl_short_float(float given, const GplType& type, bool saturate) {
  const GplLimits<unsigned> limits = gpl_limits<unsigned>(type, saturate);
  const bool nan = given != given, is_nan_last = type.special == GPL_FINITE;
  const unsigned least = 128 - type.bias;       // the exponent of numbers that are not subnormal
  const unsigned all = gpl_ones<unsigned>(type.bits - (type.special != GPL_UNSIGNED_ZERO));  // there, one more is nan
  const int below = 23 - type.mantissa;
  GplRealCode<unsigned> x = {given}, most, place, power, sum;
  const unsigned negative = x.code >> 31, sign = x.code >> (32 - type.bits);
  most.code = (limits.beyond << below) + ((127 - type.bias) << 23);
  x.code &= 0x7FFFFFFF;
  x.real = gpl_at_most(x.real, most.real);
  place.code = x.code & 0x7F800000;
  if (place.code < least << 23) place.code = least << 23;
  power.code = ((127 + below) << 23) + (0 - (least << type.mantissa) & all);
  sum.real = gpl_product_sum(place.real, power.real, x.real);
  unsigned code = sum.code + (place.code >> below);
  if (nan && !is_nan_last && limits.nan != limits.beyond) code = limits.nan;
  code = type.special == GPL_UNSIGNED_ZERO ? gpl_with_sign(code & all, negative, type) : (code & all) | (sign & ~all);
  return nan && is_nan_last ? limits.nan : code;
}

// bf16: half of the bits.
__device__ __forceinline__ unsigned gpl_upper_half(float given) {
  GplRealCode<unsigned> x = {given};
  return (x.code & 0x7FFFFFFF) > 0x7F800000 ? 0x7FFF : (x.code + 0x7FFF + (x.code >> 16 & 1)) >> 16;
}

__device__ __forceinline__ bool gpl_has_short_way(unsigned, const GplType& type) { return type.kind == GPL_FLOAT && type.bits <= 16; }
__device__ __forceinline__ bool gpl_has_short_way(unsigned long long, const GplType&) { return false; }
__device__ __forceinline__ unsigned gpl_write_short(float x, const GplType& type, bool saturate) {
  return type.bias == 127 ? gpl_upper_half(x) : gpl_short_float(x, type, saturate);
}
__device__ __forceinline__ unsigned long long gpl_write_short(double, const GplType&, bool) { return 0; }

// The code of the number of a type that is nearest to a real.
template <class W>
__device__ __forceinline__ W gpl_write_real(typename GplReal<W>::type given, const GplType& type, bool saturate) {
  GplRealCode<W> x = {given};
  if (gpl_is_real<W>(type)) return x.code;
  if (gpl_write_at_once(given, type, saturate, x.code)) return x.code;
  if (gpl_has_short_way(x.code, type)) return gpl_write_short(given, type, saturate);
  if ((type.kind == GPL_SIGNED || type.kind == GPL_UNSIGNED) && type.bits <= 4 * (int)sizeof(W)) return gpl_short_integer<W>(given, gpl_range<W>(type));
  return gpl_write(gpl_read(x.code, gpl_real_type<W>()), type, saturate);
}

// ---- steps ----

// The nearest integer, half to even: the sum with 2^mantissa has no place for a fraction.  What is as large has none itself, and
// infinity and nan stay what they are.
template <class W> __device__ __forceinline__ typename GplReal<W>::type gpl_rint(typename GplReal<W>::type x) {
  typedef typename GplReal<W>::type Real;
  const W sign = (W)1 << (8 * sizeof(W) - 1);
  const Real large = (Real)((W)1 << gpl_real_type<W>().mantissa);
  GplRealCode<W> value = {x}, result;
  if (gpl_round_at_once(x, result.real)) return result.real;
  const W negative = value.code & sign;
  value.code ^= negative;
  if (!(value.real < large)) return x;
  result.real = gpl_difference(gpl_sum(value.real, large), large);
  result.code |= negative;
  return result.real;
}

// ---- quick division ----

// A number that steps take, and what depends on it alone: code that has it for several elements makes that once.
//   inverse    the reciprocal to nearest
//   divides    it is from 2^-10 to 2^10, but not 2^k (2 - 2^-23), whose reciprocal may be wrong
//   is_near    it is 0 or from 2^-12 to 2^12
template <class Real> struct GplOperand {
  Real value, inverse;
  bool divides, is_near;
};

__device__ __forceinline__ GplOperand<double> gpl_operand(double y) { return {y, 0, true, true}; }
__device__ __forceinline__ GplOperand<float> gpl_operand(float y) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__)
  const GplRealCode<unsigned> given = {y};
  const unsigned magnitude = given.code & 0x7FFFFFFF;
  const float near = __fdividef(1, y);  // an instruction, within 1 ulp
  return {y, __fmaf_rn(__fmaf_rn(-y, near, 1), near, near), given.code - (117u << 23) <= 20u << 23 && (~given.code & 0x7FFFFF),
          !magnitude || magnitude - (115u << 23) <= 24u << 23};
#else
  return {y, 0, true, true};
#endif
}

// x / y to nearest by the reciprocal r of y: q = x r, and q + (x - q y) r.  These are three instructions, where a division takes
// about ten, and many more for x = 0.
//
// That needs numbers on the way that are neither too large nor too small.  Else, and for y < 0, whose zeros had the wrong sign,
// `is_sure` becomes false.  CuPy's options make these operations flush subnormal numbers, which are none where it stays true:
//   `divides`, and the quotient is 0 or at least 2^-45
//   `is_near`: x is 0, or from 2^-35 to 2^26, so nothing is left to ask: an integer of 16 bits, that divided by such a y, and
//   the sum of either with a parameter that is near, since both are multiples of 2^-35
//   `rounds`: a whole number is made of the quotient next.  What is too small becomes 0, with the sign of x; what is too large
//   has become nan on the way
__device__ __forceinline__ float gpl_quick_quotient(float x, const GplOperand<float>& y, bool is_near, bool rounds, bool& is_sure) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__)
  GplRealCode<unsigned> given = {x}, result;
  const float q = __fmul_rn(x, y.inverse);
  result.real = __fmaf_rn(-__fmaf_rn(q, y.value, -x), y.inverse, q);  // in this form a zero has the sign of x
  is_sure &= y.divides;
  if (rounds && !is_near) is_sure &= result.real == result.real;
  else if (!is_near) is_sure &= (fabsf(result.real) >= 0x1p-45f) | !((given.code | result.code) & 0x7FFFFFFF);
  return result.real;
#else
  return gpl_quotient(x, y.value);
#endif
}
__device__ __forceinline__ double gpl_quick_quotient(double x, const GplOperand<double>& y, bool, bool, bool&) {
  return gpl_quotient(x, y.value);
}

template <class W>
__device__ __forceinline__ typename GplReal<W>::type gpl_step(unsigned operation, typename GplReal<W>::type x,
                                                              typename GplReal<W>::type y) {
  return operation == GPL_MULTIPLY ? gpl_multiplied(x, y) : operation == GPL_ADD ? gpl_sum(x, y)
       : operation == GPL_SUBTRACT ? gpl_difference(x, y) : gpl_quotient(x, y);
}

// A number after the steps, of which a target of whole numbers rounds the last one itself.  QUICK: unless `is_sure` becomes
// false; `is_near` is that of gpl_quick_quotient.
template <class W, bool QUICK, class Operand>
__device__ __forceinline__ typename GplReal<W>::type gpl_stepped(typename GplReal<W>::type x, unsigned steps, bool is_near,
                                                                 bool to_whole, Operand operand, bool& is_sure) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned operation = steps >> (5 * i) & 7, number = steps >> (5 * i + 3) & 3, next = steps >> (5 * i + 5) & 7;
    const bool rounds = next ? next == GPL_ROUND : to_whole;
    if (!operation) break;
    if (operation == GPL_ROUND) {
      if (next || !to_whole) x = gpl_rint<W>(x);
    } else if (QUICK && operation == GPL_DIVIDE) {
      x = gpl_quick_quotient(x, operand(number), is_near, rounds, is_sure);
      is_near &= i == 0;
    } else {
      x = gpl_step<W>(operation, x, operand(number).value);
      is_near &= next == GPL_DIVIDE && (operation == GPL_ADD || operation == GPL_SUBTRACT);
      if (QUICK && is_near) is_sure &= operand(number).is_near;
    }
  }
  return x;
}

// ---- conversion ----

// The codes of N elements after a cast, with up to four steps between: five bits for each, from the lowest on, are its operation
// and the number of its parameter.  `operand` is called with that number and the number of the element.  All elements ask
// together whether quick divisions were right.
template <class W, int N, class Operand>
__device__ __forceinline__ void gpl_convert_all(W (&code)[N], const GplType& source, const GplType& target, bool saturate,
                                                unsigned steps, Operand operand) {
  typedef typename GplReal<W>::type Real;
  if (!steps && !gpl_is_exact<W>(source) && !gpl_is_real<W>(target)) {
#pragma unroll
    for (int i = 0; i < N; ++i) code[i] = gpl_write(gpl_read(code[i], source), target, saturate);
    return;
  }
  const bool is_near = source.kind != GPL_FLOAT && source.kind != GPL_POWER && source.bits <= 16;
  const bool to_whole = target.kind == GPL_SIGNED || target.kind == GPL_UNSIGNED;
  bool is_sure = true;
  Real x[N];
#pragma unroll
  for (int i = 0; i < N; ++i)
    x[i] = gpl_stepped<W, true>(gpl_read_real(code[i], source), steps, is_near, to_whole, [&](unsigned p) { return operand(p, i); }, is_sure);
  if (!is_sure) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      x[i] = gpl_stepped<W, false>(gpl_read_real(code[i], source), steps, is_near, to_whole, [&](unsigned p) { return operand(p, i); }, is_sure);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) code[i] = gpl_write_real<W>(x[i], target, saturate);
}

// The same for one element; `parameter` is called with its number only, and gives the number that a step takes.
template <class W, class Parameter>
__device__ __forceinline__ W gpl_converted(W code, const GplType& source, const GplType& target, bool saturate, unsigned steps,
                                           Parameter parameter) {
  W one[1] = {code};
  gpl_convert_all(one, source, target, saturate, steps, [&](unsigned number, int) { return gpl_operand(parameter(number)); });
  return one[0];
}

#endif
