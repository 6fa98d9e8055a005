// Passes over a row of elements for one instruction set: loops around ../convert.cuh, whose text is the law for CUDA and for this
// engine.
//
// convert_move.cpp includes this file once for each instruction set, as strided_move.cpp does register_kernels.h, and what is
// said there holds here.  A row is contiguous and aligned to nothing.  Types are values at run time: only their kind and the
// bytes of an element are known when this is compiled.  In the templates `unsigned` is the word of an f32, and `Word` of an f64.
//
// An element is read to the shortest of the numbers below that holds it exactly, and written from the shortest that decides how
// it is rounded.  Between these there may be changes and steps:
//   f64 to f16     to odd f32, write                 s64 to f32    to odd f64, to f32
//   s8 to f16      read, multiply, add, write        f32 to u64    to f64, to u64

namespace gpulayout { namespace INSTRUCTIONS {

#undef GPL_CONVERT_CUH
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunknown-pragmas"  // nvcc's
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "../convert.cuh"
#pragma GCC diagnostic pop

typedef unsigned long long Word;

template <class T> INLINE T load(const char* from, int64_t k) { T v; std::memcpy(&v, from + k * int64_t(sizeof v), sizeof v); return v; }
template <class T> INLINE void store(char* to, int64_t k, T v) { std::memcpy(to + k * int64_t(sizeof v), &v, sizeof v); }
INLINE bool is_half(const GplType& type) { return type.bits == 16 && type.mantissa == 10; }
#define EACH for (int64_t k = 0; k < n; k++)
#define IS_WHOLE_SET (LEVEL && !defined(LOWERED))  // its intrinsics may be used

// --------------------------------------------------------------------------------------------------------------- reading

template <class T, class Number> static void read_as(const char* from, char* to, int64_t n, unsigned, bool) {
    EACH store(to, k, Number(load<T>(from, k)));
}

// Integers of fewer than 8 bits; the bits above them do not count.
template <bool SIGNED> static void read_low_bits(const char* from, char* to, int64_t n, unsigned number, bool) {
    const int above = 32 - gpl_type(number).bits;
    EACH {
        const uint32_t raised = uint32_t(load<uint8_t>(from, k)) << above;
        store(to, k, float(SIGNED ? int32_t(raised) >> above : int32_t(raised >> above)));
    }
}

template <unsigned KIND, class Code, int BITS> static void read_float(const char* from, char* to, int64_t n, unsigned number, bool) {
    GplType type = gpl_type(number);
    type.kind = KIND;
    if (BITS) type.bits = BITS;
    EACH store(to, k, gpl_read_real<unsigned>(load<Code>(from, k), type));
}

static Pass reader(unsigned number) {
    const GplType type = gpl_type(number);
    const bool is_signed = type.kind == GPL_SIGNED;
    if (type.kind == GPL_POWER) return {read_float<GPL_POWER, uint8_t, 8>, F32};
    if (type.kind == GPL_FLOAT) {
        if (type.bits >= 32) return {nullptr, type.bits == 64 ? F64 : F32};
        return {type.bits == 16 ? read_float<GPL_FLOAT, uint16_t, 16> : type.bits == 8 ? read_float<GPL_FLOAT, uint8_t, 8> : read_float<GPL_FLOAT, uint8_t, 0>, F32};
    }
    if (type.bits < 8) return {is_signed ? read_low_bits<true> : read_low_bits<false>, F32};
    if (type.bits == 8) return {is_signed ? read_as<int8_t, float> : read_as<uint8_t, float>, F32};
    if (type.bits == 16) return {is_signed ? read_as<int16_t, float> : read_as<uint16_t, float>, F32};
    if (type.bits == 32) return {is_signed ? read_as<int32_t, double> : read_as<uint32_t, double>, F64};
    return {nullptr, is_signed ? S64 : U64};
}

// --------------------------------------------------------------------------------------------- from numbers to other numbers

// The nearest f32 with an odd last bit, if no f32 is the number: a later rounding to a shorter type then rounds the number itself.
static void to_odd_f32(const char* from, char* to, int64_t n, unsigned, bool) {
    EACH {
        const double x = load<double>(from, k);
        GplRealCode<unsigned> near = {float(x)};
        const bool is_other = double(near.real) != x, is_beyond = x < 0 ? double(near.real) < x : double(near.real) > x;
        near.code = is_other ? (near.code - is_beyond) | 1 : near.code;
        store(to, k, near.code);
    }
}

// The same for integers and f64.
template <class T> static void to_odd_f64(const char* from, char* to, int64_t n, unsigned, bool) {
    constexpr T most = T(1) << 53;
    EACH {
        const T x = load<T>(from, k), low = x & 0x7FF, odd = (x - low) | (low ? 0x800 : 0);
        store(to, k, double(x < most && (T(-1) > T(0) || x > T(0) - most) ? x : odd));
    }
}

// To the nearest integer, half to even, saturated; nan is 0.
static void f64_to_s64(const char* from, char* to, int64_t n, unsigned, bool) {
    EACH {
        const double x = gpl_rint<Word>(load<double>(from, k));
        const bool is_inside = x >= -0x1p63 && x < 0x1p63;
        const int64_t inside = int64_t(is_inside ? x : 0);
        store(to, k, is_inside ? inside : x > 0 ? INT64_MAX : x < 0 ? INT64_MIN : 0);
    }
}
static void f64_to_u64(const char* from, char* to, int64_t n, unsigned, bool) {
    EACH {
        const double x = gpl_rint<Word>(load<double>(from, k));
        const bool is_upper = x >= 0x1p63;
        const uint64_t inside = uint64_t(int64_t(x > 0 && x < 0x1p64 ? is_upper ? x - 0x1p63 : x : 0)) + (uint64_t(is_upper) << 63);
        store(to, k, x >= 0x1p64 ? UINT64_MAX : inside);
    }
}

static void s64_to_u64(const char* from, char* to, int64_t n, unsigned, bool) {
    EACH { const int64_t x = load<int64_t>(from, k); store(to, k, x < 0 ? 0 : x); }
}
static void u64_to_s64(const char* from, char* to, int64_t n, unsigned, bool) {
    EACH { const uint64_t x = load<uint64_t>(from, k); store(to, k, x >> 63 ? uint64_t(INT64_MAX) : x); }
}

// What changes numbers of one kind to another; `to_odd`: they are rounded once more.
static Pass changer(Number from, Number to, bool to_odd) {
    if (from == F32) return {read_as<float, double>, F64};
    if (from == F64 && to == F32) return {to_odd ? to_odd_f32 : read_as<double, float>, F32};
    if (from == F64) return {to == S64 ? f64_to_s64 : f64_to_u64, to};
    if (to == S64 || to == U64) return {to == U64 ? s64_to_u64 : u64_to_s64, to};
    if (to_odd) return {from == S64 ? to_odd_f64<int64_t> : to_odd_f64<uint64_t>, F64};
    return {from == S64 ? read_as<int64_t, double> : read_as<uint64_t, double>, F64};
}

// --------------------------------------------------------------------------------------------------------------- writing

template <class W, class Code, unsigned KIND> static void write_integers(const char* from, char* to, int64_t n, unsigned number, bool) {
    GplType type = gpl_type(number);
    type.kind = KIND;
    EACH store(to, k, Code(gpl_short_integer<W>(load<typename GplReal<W>::type>(from, k), type)));
}

template <class Code> static void write_floats(const char* from, char* to, int64_t n, unsigned number, bool saturate) {
    const GplType type = gpl_type(number);
    EACH store(to, k, Code(gpl_short_float(load<float>(from, k), type, saturate)));
}
static void write_bf16(const char* from, char* to, int64_t n, unsigned, bool) {
    EACH store(to, k, uint16_t(gpl_upper_half(load<float>(from, k))));
}
static void write_powers(const char* from, char* to, int64_t n, unsigned number, bool saturate) {
    GplType type = gpl_type(number);
    type.kind = GPL_POWER;
    EACH store(to, k, uint8_t(gpl_write_real<unsigned>(load<float>(from, k), type, saturate)));
}
static void write_booleans(const char* from, char* to, int64_t n, unsigned, bool) {
    EACH store(to, k, uint8_t(load<float>(from, k) != 0));
}

static Pass writer(unsigned number) {
    const GplType type = gpl_type(number);
    const bool is_signed = type.kind == GPL_SIGNED;
    if (type.kind == GPL_POWER) return {write_powers, F32};
    if (type.kind == GPL_BOOLEAN) return {write_booleans, F32};
    if (type.kind == GPL_FLOAT) {
        if (type.bits >= 32) return {nullptr, type.bits == 64 ? F64 : F32};
        return {type.bits < 16 ? write_floats<uint8_t> : is_half(type) ? write_floats<uint16_t> : write_bf16, F32};
    }
    if (type.bits <= 8) return {is_signed ? write_integers<unsigned, uint8_t, GPL_SIGNED> : write_integers<unsigned, uint8_t, GPL_UNSIGNED>, F32};
    if (type.bits == 16) return {is_signed ? write_integers<unsigned, uint16_t, GPL_SIGNED> : write_integers<unsigned, uint16_t, GPL_UNSIGNED>, F32};
    if (type.bits == 32) return {is_signed ? write_integers<Word, uint32_t, GPL_SIGNED> : write_integers<Word, uint32_t, GPL_UNSIGNED>, F64};
    return {nullptr, is_signed ? S64 : U64};
}

// ----------------------------------------------------------------------------------------------------------------- steps

// Each element's number with its own parameter, or with one for all.
template <class W, unsigned OPERATION, bool MANY> static void step(const char* from, char* to, int64_t n, const char* parameter) {
    typedef typename GplReal<W>::type Real;
    const Real one = MANY ? Real(0) : load<Real>(parameter, 0);
    EACH {
        const Real x = load<Real>(from, k);
        store(to, k, OPERATION == GPL_ROUND ? gpl_rint<W>(x) : gpl_step<W>(OPERATION, x, MANY ? load<Real>(parameter, k) : one));
    }
}
#define STEPS(W, MANY) {nullptr, step<W, GPL_MULTIPLY, MANY>, step<W, GPL_ADD, MANY>, step<W, GPL_SUBTRACT, MANY>, step<W, GPL_DIVIDE, MANY>, step<W, GPL_ROUND, MANY>}

// A row to a target that is written around the caches.
static void stream(char* to, const char* from, int64_t bytes) {
#if IS_X86_64
    const int64_t past = reinterpret_cast<uintptr_t>(to) & 63, head = past && bytes > 64 - past ? 64 - past : past ? bytes : 0;
    std::memcpy(to, from, size_t(head));
    for (to += head, from += head, bytes -= head; bytes >= 64; to += 64, from += 64, bytes -= 64)
        for (int k = 0; k < 64; k += 16)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + k), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k)));
#endif
    std::memcpy(to, from, size_t(bytes));
}

static constexpr ConvertKernels convert_table = {reader, changer, writer, {{STEPS(unsigned, false), STEPS(unsigned, true)}, {STEPS(Word, false), STEPS(Word, true)}}, stream};
#undef STEPS
#undef EACH
#undef IS_WHOLE_SET

}}  // namespace gpulayout::INSTRUCTIONS
