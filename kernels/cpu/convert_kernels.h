// Passes over a row of elements for one instruction set: loops around ../convert.cuh, whose text is the law for CUDA and for this
// engine.
//
// convert_move.cpp includes this file once for each instruction set, as strided_move.cpp does register_kernels.h, and what is
// said there holds here.  A row is contiguous and aligned to nothing.  Types are values at run time: only their kind and the
// bytes of an element are known when this is compiled.  In the templates `unsigned` is the word of an f32, and `Word` of an f64.
//
// Elements are read as numbers that hold them exactly, and written from these:
//   f16, s8 ...    as f32                          s8 to s16 ...      as what they are
//   f64, s32       as f64                          s64, s32 to f16    as f64, f32 "to odd", which keeps what a later rounding asks for

namespace gpulayout { namespace INSTRUCTIONS {

#undef GPL_CONVERT_CUH
#undef GPL_RINT
#if LEVEL && !defined(LOWERED)  // an instruction, in the mode that FloatMode sets
#define GPL_RINT(x) (sizeof(x) == 4 ? __builtin_rintf(float(x)) : __builtin_rint(x))
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "../convert.cuh"
#pragma GCC diagnostic pop

typedef unsigned long long Word;

template <class T> INLINE T load(const char* from, int64_t k) { T v; std::memcpy(&v, from + k * int64_t(sizeof v), sizeof v); return v; }
template <class T> INLINE void store(char* to, int64_t k, T v) { std::memcpy(to + k * int64_t(sizeof v), &v, sizeof v); }
INLINE bool is_half(const GplType& type) { return type.bits == 16 && type.mantissa == 10; }
INLINE bool is_whole(const GplType& type) { return type.kind == GPL_BOOLEAN || type.kind == GPL_UNSIGNED || type.kind == GPL_SIGNED; }
#define EACH EACH_APART for (int64_t k = 0; k < n; k++)

// As gpulayout/moves/arithmetic.py numbers types.
constexpr unsigned type_number(unsigned kind, unsigned special, unsigned bits, unsigned mantissa, unsigned bias) {
    return kind | special << 3 | bits << 5 | mantissa << 12 | bias << 18;
}
constexpr unsigned NUMBER_TYPES[] = {type_number(GPL_FLOAT, GPL_IEEE, 32, 23, 127), type_number(GPL_FLOAT, GPL_IEEE, 64, 52, 1023)};

#if LEVEL && !defined(LOWERED)
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of what GCC's own intrinsics leave open
#endif
#include "cast_kernels.h"
#pragma GCC diagnostic pop
#else
static Row cast_row(unsigned, unsigned, bool) { return nullptr; }  // one pass for each side
#endif

// --------------------------------------------------------------------------------------------------------------- reading

template <class T, class Number> static void read_as(const char* from, char* to, int64_t n, const Pass&) {
    EACH store(to, k, Number(load<T>(from, k)));
}

// Every byte but 0 is true.
template <class Number> static void read_booleans(const char* from, char* to, int64_t n, const Pass&) {
    EACH store(to, k, Number(load<uint8_t>(from, k) != 0));
}

// Integers of fewer than 8 bits; the bits above them do not count.
template <bool SIGNED, class Number> static void read_low_bits(const char* from, char* to, int64_t n, const Pass& pass) {
    const int above = 32 - gpl_type(pass.type).bits;
    EACH {
        const uint32_t raised = uint32_t(load<uint8_t>(from, k)) << above;
        store(to, k, Number(SIGNED ? int32_t(raised) >> above : int32_t(raised >> above)));
    }
}

// Of integers that the number cannot hold, the upper bits, and the lowest of these set if any below is: that is no tie where the
// integer is none, so a later rounding to far fewer bits goes as the integer's own.
template <class T, class Number> static void read_to_odd(const char* from, char* to, int64_t n, const Pass&) {
    constexpr int digits = std::numeric_limits<Number>::digits;
    constexpr T most = T(T(1) << digits), rest = T((T(1) << (8 * sizeof(T) - digits)) - 1);
    EACH {
        const T x = load<T>(from, k), low = x & rest, odd = (x - low) | (low ? rest + 1 : 0);
        store(to, k, Number(x < most && (T(-1) > T(0) || x > T(0) - most) ? x : odd));
    }
}

template <unsigned KIND, class Code, int BITS> static void read_float(const char* from, char* to, int64_t n, const Pass& pass) {
    GplType type = gpl_type(pass.type);
    type.kind = KIND;
    if (BITS) type.bits = BITS;
    EACH store(to, k, gpl_read_real<unsigned>(load<Code>(from, k), type));
}

// As f32 or f64.
template <class Number> static Row whole_reader(const GplType& type) {
    const bool is_signed = type.kind == GPL_SIGNED;
    if (type.kind == GPL_BOOLEAN) return read_booleans<Number>;
    if (type.bits < 8) return is_signed ? read_low_bits<true, Number> : read_low_bits<false, Number>;
    if (type.bits == 8) return is_signed ? read_as<int8_t, Number> : read_as<uint8_t, Number>;
    if (type.bits == 16) return is_signed ? read_as<int16_t, Number> : read_as<uint16_t, Number>;
    if (type.bits == 32) return is_signed ? read_as<int32_t, Number> : read_as<uint32_t, Number>;
    return is_signed ? read_as<int64_t, Number> : read_as<uint64_t, Number>;
}

// Of a float of up to 16 bits as f32.
static Row float_reader(const GplType& type) {
    if (type.kind == GPL_POWER) return read_float<GPL_POWER, uint8_t, 8>;
    if (type.bits == 16) return read_float<GPL_FLOAT, uint16_t, 16>;
    return type.bits == 8 ? read_float<GPL_FLOAT, uint8_t, 8> : read_float<GPL_FLOAT, uint8_t, 0>;
}

// The passes that read a type as numbers.
static void add_reading(Passes& passes, unsigned from, Number number, bool to_odd) {
    const GplType type = gpl_type(from);
    const bool is_signed = type.kind == GPL_SIGNED, is_wide = number == F64;
    if (from == NUMBER_TYPES[number]) return;
    if (const Row at_once = cast_row(from, NUMBER_TYPES[number], true)) return passes.add(at_once, from);
    if (!is_whole(type)) {
        if (type.bits < 32) passes.add(float_reader(type), from);
        if (type.bits < 64 && is_wide) passes.add(read_as<float, double>, from);
    } else if (to_odd && type.bits == 64 && is_wide) {
        passes.add(is_signed ? read_to_odd<int64_t, double> : read_to_odd<uint64_t, double>, from);
    } else if (to_odd && type.bits == 32 && !is_wide) {
        passes.add(is_signed ? read_to_odd<int32_t, float> : read_to_odd<uint32_t, float>, from);
    } else {
        passes.add(is_wide ? whole_reader<double>(type) : whole_reader<float>(type), from);
    }
}

// --------------------------------------------------------------------------------------------------------------- writing

// The nearest f32, or the odd one of the two neighbours: rounded again to fewer bits, that gives what the f64 would.
static void to_odd_f32(const char* from, char* to, int64_t n, const Pass&) {
    EACH {
        const double x = load<double>(from, k), near = double(float(x));
        int64_t given, found;
        std::memcpy(&given, &x, 8), std::memcpy(&found, &near, 8);
        const int32_t way = int32_t(int64_t(found > given) - int64_t(found < given));  // 1: away from zero
        GplRealCode<unsigned> code = {float(x)};
        store(to, k, (code.code - unsigned((way + 1) >> 1)) | unsigned(way & 1));
    }
}

// Integers of up to half the bits of the number.
template <class W, class Code> static void write_integers(const char* from, char* to, int64_t n, const Pass& pass) {
    GplRange<W> range = gpl_range<W>(gpl_type(pass.type));
    __asm__("" : "+m"(range.low));  // GCC would make a loop for 0 with comparisons where maxima do
    EACH store(to, k, Code(gpl_short_integer<W>(load<typename GplReal<W>::type>(from, k), range)));
}

// Integers of 32 and 64 bits: half to even, saturated, nan as 0.  T: signed, with the bits of the integer.
template <class W, class T, bool SIGNED> static void write_nearest(const char* from, char* to, int64_t n, const Pass&) {
    typedef typename GplReal<W>::type Real;
    const Real end = Real(T(1) << (8 * sizeof(T) - 2)) * 2;  // one past the highest of T
    const T highest = T(~(T(1) << (8 * sizeof(T) - 1)));
    EACH {
        const Real x = gpl_rint<W>(load<Real>(from, k));
        const bool is_upper = !SIGNED && x >= end;
        const Real lower = is_upper ? x - end : x;
        const T inside = T(lower >= (SIGNED ? -end : Real(0)) && lower < end ? lower : Real(0));
        const T beyond = SIGNED ? (x >= end ? highest : x < -end ? ~highest : inside) : (x >= 2 * end ? T(-1) : is_upper ? inside ^ ~highest : inside);
        store(to, k, beyond);
    }
}

template <class Code> static void write_floats(const char* from, char* to, int64_t n, const Pass& pass) {
    const GplType type = gpl_type(pass.type);
    const bool saturate = pass.saturate;  // a store could change what the loop reads of a pass
    EACH store(to, k, Code(gpl_short_float(load<float>(from, k), type, saturate)));
}
static void write_bf16(const char* from, char* to, int64_t n, const Pass&) {
    EACH store(to, k, uint16_t(gpl_upper_half(load<float>(from, k))));
}
static void write_powers(const char* from, char* to, int64_t n, const Pass& pass) {
    GplType type = gpl_type(pass.type);
    type.kind = GPL_POWER;
    const bool saturate = pass.saturate;
    EACH store(to, k, uint8_t(gpl_write_real<unsigned>(load<float>(from, k), type, saturate)));
}
template <class T> static void write_booleans(const char* from, char* to, int64_t n, const Pass&) {
    EACH store(to, k, uint8_t(load<T>(from, k) != 0));
}

// Of integers of up to 32 bits from f64, and of 64 bits from either.
template <class W> static Row integer_writer(const GplType& type) {
    const bool is_signed = type.kind == GPL_SIGNED;
    if (type.bits == 64) return is_signed ? write_nearest<W, int64_t, true> : write_nearest<W, int64_t, false>;
    if (type.bits == 32 && sizeof(W) == 4) return is_signed ? write_nearest<W, int32_t, true> : write_nearest<W, int32_t, false>;
    return type.bits == 32 ? write_integers<W, uint32_t> : type.bits == 16 ? write_integers<W, uint16_t> : write_integers<W, uint8_t>;
}

// The passes that write numbers as a type.
static void add_writing(Passes& passes, unsigned to, Number number) {
    const GplType type = gpl_type(to);
    if (to == NUMBER_TYPES[number]) return;
    if (const Row at_once = cast_row(NUMBER_TYPES[number], to, passes.saturate)) return passes.add(at_once, to);
    const Row short_float = type.kind == GPL_POWER ? write_powers : type.bits < 16 ? write_floats<uint8_t> : is_half(type) ? write_floats<uint16_t> : write_bf16;
    if (type.kind == GPL_BOOLEAN) {
        passes.add(number == F32 ? write_booleans<float> : write_booleans<double>, to);
    } else if (is_whole(type)) {
        passes.add(number == F32 ? integer_writer<unsigned>(type) : integer_writer<Word>(type), to);
    } else if (type.bits >= 32) {
        if (type.bits == 32 && number == F64) passes.add(read_as<double, float>, to);
        if (type.bits == 64 && number == F32) passes.add(read_as<float, double>, to);
    } else {
        if (number == F64) passes.add(to_odd_f32, to);
        passes.add(short_float, to);
    }
}

// ---------------------------------------------------------------------------------------------------- integers to integers

template <class T, class Code> static void clamp(const char* from, char* to, int64_t n, const Pass& pass) {
    const GplType type = gpl_type(pass.type);
    const bool is_signed = type.kind == GPL_SIGNED, has_sign = T(-1) < T(0);
    const int bits = type.bits - is_signed, most = int(8 * sizeof(T)) - has_sign;  // without the sign
    const T all = T(std::numeric_limits<T>::max()), highest = bits >= most ? all : T((T(1) << bits) - 1);
    const T lowest = has_sign && is_signed ? T(~highest) : T(0);
    const Code kept = Code(Code(-1) >> (8 * int(sizeof(Code)) - type.bits));
    EACH {
        const T x = load<T>(from, k), low = x < lowest ? lowest : x;
        store(to, k, Code(Code(low > highest ? highest : low) & kept));
    }
}

template <class T> static Row clamping(const GplType& to) {
    if (to.kind == GPL_BOOLEAN) return write_booleans<T>;
    return to.bits <= 8 ? clamp<T, uint8_t> : to.bits == 16 ? clamp<T, uint16_t> : to.bits == 32 ? clamp<T, uint32_t> : clamp<T, uint64_t>;
}

static void add_integers(Passes& passes, unsigned from, unsigned to) {
    const GplType type = gpl_type(from), result = gpl_type(to);
    const bool is_signed = type.kind == GPL_SIGNED;
    if (type.kind == GPL_BOOLEAN) passes.add(read_booleans<uint8_t>, from);
    else if (type.bits < 8) passes.add(is_signed ? read_low_bits<true, int8_t> : read_low_bits<false, uint8_t>, from);
    if (type.bits <= 8) passes.add(is_signed ? clamping<int8_t>(result) : clamping<uint8_t>(result), to);
    else if (type.bits == 16) passes.add(is_signed ? clamping<int16_t>(result) : clamping<uint16_t>(result), to);
    else if (type.bits == 32) passes.add(is_signed ? clamping<int32_t>(result) : clamping<uint32_t>(result), to);
    else passes.add(is_signed ? clamping<int64_t>(result) : clamping<uint64_t>(result), to);
}

// ----------------------------------------------------------------------------------------------------------------- steps

template <class W, unsigned OPERATION> INLINE typename GplReal<W>::type done(typename GplReal<W>::type x, typename GplReal<W>::type parameter) {
    return OPERATION == GPL_ROUND ? gpl_rint<W>(x) : gpl_step<W>(OPERATION, x, parameter);
}

// Each number with a parameter of its own, or with one for all.
template <class W, unsigned OPERATION, bool MANY> static void step(const char* from, char* to, int64_t n, const Pass& pass) {
    typedef typename GplReal<W>::type Real;
    const Real one = MANY || OPERATION == GPL_ROUND ? Real(0) : load<Real>(pass.values, 0);
    const char* values = pass.values;
    EACH store(to, k, done<W, OPERATION>(load<Real>(from, k), MANY ? load<Real>(values, k) : one));
}

// Each row of `width` numbers with a parameter of its own.
template <class W, unsigned OPERATION> static void step_rows(const char* from, char* to, int64_t n, const Pass& pass) {
    typedef typename GplReal<W>::type Real;
    const char* values = pass.values;
    const int64_t width = pass.width;
    for (int64_t row = width - pass.phase, some; n > 0; row = width, n -= some, values += sizeof(Real), from += some * int64_t(sizeof(Real)), to += some * int64_t(sizeof(Real))) {
        const Real one = load<Real>(values, 0);
        some = row < n ? row : n;
        EACH_APART for (int64_t k = 0; k < some; k++) store(to, k, done<W, OPERATION>(load<Real>(from, k), one));
    }
}

// Two steps with one parameter for all, or none: one pass instead of two.
template <class W, unsigned FIRST, unsigned SECOND> static void steps(const char* from, char* to, int64_t n, const Pass& pass) {
    typedef typename GplReal<W>::type Real;
    const Real a = FIRST == GPL_ROUND ? Real(0) : load<Real>(pass.values, 0), b = SECOND == GPL_ROUND ? Real(0) : load<Real>(pass.second, 0);
    EACH store(to, k, done<W, SECOND>(done<W, FIRST>(load<Real>(from, k), a), b));
}
#define AFTER(W, FIRST) {nullptr, steps<W, FIRST, GPL_MULTIPLY>, steps<W, FIRST, GPL_ADD>, steps<W, FIRST, GPL_SUBTRACT>, steps<W, FIRST, GPL_DIVIDE>, steps<W, FIRST, GPL_ROUND>}
#define PAIRS(W) {{}, AFTER(W, GPL_MULTIPLY), AFTER(W, GPL_ADD), AFTER(W, GPL_SUBTRACT), AFTER(W, GPL_DIVIDE), AFTER(W, GPL_ROUND)}
#define ROWS(W) {nullptr, step_rows<W, GPL_MULTIPLY>, step_rows<W, GPL_ADD>, step_rows<W, GPL_SUBTRACT>, step_rows<W, GPL_DIVIDE>, nullptr}
#define STEPS(W, MANY) {nullptr, step<W, GPL_MULTIPLY, MANY>, step<W, GPL_ADD, MANY>, step<W, GPL_SUBTRACT, MANY>, step<W, GPL_DIVIDE, MANY>, step<W, GPL_ROUND, MANY>}

// A value for each element of some rows of n.
template <class T> static void spread(char* to, const char* from, int64_t n, int64_t stride, int64_t rows, int64_t row_stride) {
    for (; rows > 0; rows--, to += n * int64_t(sizeof(T)), from += row_stride * int64_t(sizeof(T))) {
        const T one = load<T>(from, 0);
        if (stride == 0) EACH store(to, k, one);
        else if (stride == 1) EACH store(to, k, load<T>(from, k));
        else EACH store(to, k, load<T>(from, k * stride));
    }
}

static constexpr ConvertKernels convert_table = {
    cast_row, add_reading, add_writing, add_integers, {{STEPS(unsigned, false), STEPS(unsigned, true), ROWS(unsigned)}, {STEPS(Word, false), STEPS(Word, true), ROWS(Word)}}, {PAIRS(unsigned), PAIRS(Word)}, read_low_bits<false, uint8_t>, {spread<float>, spread<double>}};
#undef STEPS
#undef ROWS
#undef PAIRS
#undef AFTER
#undef EACH

}}  // namespace gpulayout::INSTRUCTIONS
