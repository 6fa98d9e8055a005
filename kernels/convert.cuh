// One element from any element type to any other, exactly as the law of moves/arithmetic.py says, and the steps between.
//
// A type is a number, which the host packs (gpu/convert.py) and GplType unpacks.  All functions take types as values: in a
// kernel they are constants, so a compiler keeps only what a pair of types needs; a test passes them at run time.
//   f16:  kind float, special IEEE, 16 bits, mantissa 10, bias 15        s4:  kind signed, 4 bits
//
// An element is read to its exact value, significand * 2^exponent, and written from it: so a cast rounds once, and no float
// instruction takes part.  W is the word of the significand: 64 bits wide if a side or the steps are, else 32.
//   f16 0x3E00:  1536 * 2^-10 = 1.5                                      s4 0x0F:  -1 * 2^0
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

template <class W> __device__ __forceinline__ GplExact<W> gpl_read_float(W code, const GplType& type) {
  const W all = gpl_ones<W>(type.bits - 1), magnitude = code & all, fraction = magnitude & (((W)1 << type.mantissa) - 1);
  const int field = (int)(magnitude >> type.mantissa);
  GplExact<W> x = {fraction, (field ? field : 1) - type.bias - type.mantissa, (code >> (type.bits - 1) & 1) != 0, false, false};
  if (field) x.significand |= (W)1 << type.mantissa;
  if (type.special == GPL_IEEE && magnitude >> type.mantissa == all >> type.mantissa) {
    x.infinite = fraction == 0;
    x.nan = fraction != 0;
  }
  if (type.special == GPL_NAN) x.nan = magnitude == all;
  if (type.special == GPL_UNSIGNED_ZERO) x.nan = x.negative && magnitude == 0;
  return x;
}

// The value of a code; bits above those of the type are ignored.
template <class W> __device__ __forceinline__ GplExact<W> gpl_read(W code, const GplType& type) {
  const W all = gpl_ones<W>(type.bits);
  code &= all;
  if (type.kind == GPL_FLOAT) return gpl_read_float(code, type);
  if (type.kind == GPL_POWER) return {1, (int)code - type.bias, false, code == all, false};
  const bool negative = type.kind == GPL_SIGNED && code >> (type.bits - 1);
  return {negative ? (0 - code) & all : code, 0, negative, false, false};
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

template <class W> __device__ __forceinline__ W gpl_float_code(const GplExact<W>& x, const GplType& type, bool saturate) {
  const W all = gpl_ones<W>(type.bits - 1), sign = (W)1 << (type.bits - 1), one = (W)1 << type.mantissa;
  const W nan = type.special == GPL_FINITE ? 0 : type.special == GPL_UNSIGNED_ZERO ? sign : all;
  const W largest = type.special == GPL_IEEE ? all - one : type.special == GPL_NAN ? all - 1 : all;
  if (x.nan) return nan;
  W code = x.infinite ? largest + 1 : gpl_magnitude_code(x, type);
  if (code > largest) code = type.special == GPL_IEEE ? largest + 1 : saturate || type.special == GPL_FINITE ? largest : nan;
  if (type.special == GPL_UNSIGNED_ZERO && code == 0) return 0;
  return x.negative ? code | sign : code;
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

// ---- steps ----

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

// The nearest integer, half to even: the sum with 2^mantissa has no place for a fraction.  What is as large has none itself, and
// infinity and nan stay what they are.
template <class W> __device__ __forceinline__ typename GplReal<W>::type gpl_rint(typename GplReal<W>::type x) {
  typedef typename GplReal<W>::type Real;
  const W sign = (W)1 << (8 * sizeof(W) - 1);
  const Real large = (Real)((W)1 << gpl_real_type<W>().mantissa);
  GplRealCode<W> value = {x}, result;
  const W negative = value.code & sign;
  value.code ^= negative;
  if (!(value.real < large)) return x;
  result.real = gpl_difference(gpl_sum(value.real, large), large);
  result.code |= negative;
  return result.real;
}

template <class W>
__device__ __forceinline__ typename GplReal<W>::type gpl_step(unsigned operation, typename GplReal<W>::type x, typename GplReal<W>::type y) {
  return operation == GPL_MULTIPLY ? gpl_multiplied(x, y) : operation == GPL_ADD ? gpl_sum(x, y)
       : operation == GPL_SUBTRACT ? gpl_difference(x, y) : gpl_quotient(x, y);
}

// ---- conversion ----

// The code of an element after a cast, with up to four steps between: five bits for each, from the lowest on, are its operation
// and the number of its parameter.  `parameter` is called with that number.
template <class W, class Parameter>
__device__ __forceinline__ W gpl_converted(W code, const GplType& source, const GplType& target, bool saturate, unsigned steps, Parameter parameter) {
  const GplExact<W> given = gpl_read(code, source);
  if (!steps) return gpl_write(given, target, saturate);
  const GplType real = gpl_real_type<W>();
  GplRealCode<W> x;
  x.code = gpl_float_code(given, real, saturate);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned operation = steps >> (5 * i) & 7, number = steps >> (5 * i + 3) & 3;
    if (!operation) break;
    x.real = operation == GPL_ROUND ? gpl_rint<W>(x.real) : gpl_step<W>(operation, x.real, parameter(number));
  }
  return gpl_write(gpl_read(x.code, real), target, saturate);
}

#endif
