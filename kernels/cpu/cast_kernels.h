// Casts of a row in one pass, in vectors, for the instruction sets that have conversions of them: with the results of ../convert.cuh,
// which the tests compare.  convert_kernels.h includes this file for AVX2 and AVX-512; where it knows no cast, its passes do it.
//
// COUNT elements at a time, four vectors of f32, are read and written.  f64 and s32 are read "to odd" (convert_kernels.h) where the
// target is a shorter float, and as the nearest s32, saturated, where it is an integer:
//   bf16 to s8     bf16 --shift--> f32 --nearest--> s32 --saturated--> s8
//   f64 to bf16    f64 --to odd--> f32 --nearest--> bf16

enum { LANE_COUNT = 4 << LEVEL, COUNT = 4 * LANE_COUNT };
typedef float Singles __attribute__((vector_size(4 * LANE_COUNT)));
typedef int32_t Integers __attribute__((vector_size(4 * LANE_COUNT)));
typedef uint32_t Bits __attribute__((vector_size(4 * LANE_COUNT)));
typedef uint64_t LongBits __attribute__((vector_size(4 * LANE_COUNT)));
typedef uint16_t Halves __attribute__((vector_size(2 * LANE_COUNT)));

// ------------------------------------------------------------------------------------- what each instruction set has for it

#if LEVEL == 1
INLINE __m128i eight_bytes(const char* from) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)); }
INLINE Integers from_s8(const char* from) { return Integers(_mm256_cvtepi8_epi32(eight_bytes(from))); }
INLINE Integers from_u8(const char* from) { return Integers(_mm256_cvtepu8_epi32(eight_bytes(from))); }
INLINE Integers from_s16(const char* from) { return Integers(_mm256_cvtepi16_epi32(load<__m128i>(from, 0))); }
INLINE Integers from_u16(const char* from) { return Integers(_mm256_cvtepu16_epi32(load<__m128i>(from, 0))); }
INLINE Halves halves_of_u8(const char* from) { return Halves(_mm_cvtepu8_epi16(eight_bytes(from))); }
INLINE Singles from_integers(Integers x) { return Singles(_mm256_cvtepi32_ps(__m256i(x))); }
INLINE Integers to_integers(Singles x) { return Integers(_mm256_cvtps_epi32(__m256(x))); }  // what is not in range is the lowest
INLINE Singles from_f16(Halves x) { return Singles(_mm256_cvtph_ps(__m128i(x))); }
INLINE Halves to_f16(Singles x) { return Halves(_mm256_cvtps_ph(__m256(x), 0)); }
INLINE Singles least(Singles x, Singles y) { return Singles(_mm256_min_ps(__m256(x), __m256(y))); }  // nan: y
INLINE Integers most(Integers x, Integers y) { return Integers(_mm256_max_epi32(__m256i(x), __m256i(y))); }
INLINE Integers least(Integers x, Integers y) { return Integers(_mm256_min_epi32(__m256i(x), __m256i(y))); }
INLINE Integers magnitude(Integers x) { return Integers(_mm256_abs_epi32(__m256i(x))); }

// Saturated, in the order of the elements.
INLINE __m256i to_s16(Integers a, Integers b) { return _mm256_permute4x64_epi64(_mm256_packs_epi32(__m256i(a), __m256i(b)), 0xD8); }
INLINE __m256i to_u16(Integers a, Integers b) { return _mm256_permute4x64_epi64(_mm256_packus_epi32(__m256i(a), __m256i(b)), 0xD8); }
INLINE __m256i upper_halves(Bits a, Bits b) { return to_u16(Integers(a >> 16), Integers(b >> 16)); }
template <bool SIGNED> INLINE __m256i to_bytes(const Integers (&x)[4]) {
    const __m256i low = _mm256_packs_epi32(__m256i(x[0]), __m256i(x[1])), high = _mm256_packs_epi32(__m256i(x[2]), __m256i(x[3]));
    return _mm256_permutevar8x32_epi32(SIGNED ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

typedef __m256d Doubles;
INLINE __m128 nearest_f32(Doubles x) { return _mm256_cvtpd_ps(x); }
INLINE Singles joined(__m128 low, __m128 high) { return Singles(_mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1)); }
INLINE __m128i nearest_s32(Doubles x) {
    return _mm256_cvtpd_epi32(_mm256_min_pd(_mm256_and_pd(x, _mm256_cmp_pd(x, x, _CMP_ORD_Q)), _mm256_set1_pd(2147483647)));
}
INLINE Integers joined(__m128i low, __m128i high) { return Integers(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1)); }
INLINE void put_f64(char* to, Singles x) {
    store(to, 0, _mm256_cvtps_pd(_mm256_castps256_ps128(__m256(x)))), store(to, 1, _mm256_cvtps_pd(_mm256_extractf128_ps(__m256(x), 1)));
}
#else
INLINE Integers from_s8(const char* from) { return Integers(_mm512_cvtepi8_epi32(load<__m128i>(from, 0))); }
INLINE Integers from_u8(const char* from) { return Integers(_mm512_cvtepu8_epi32(load<__m128i>(from, 0))); }
INLINE Integers from_s16(const char* from) { return Integers(_mm512_cvtepi16_epi32(load<__m256i>(from, 0))); }
INLINE Integers from_u16(const char* from) { return Integers(_mm512_cvtepu16_epi32(load<__m256i>(from, 0))); }
INLINE Halves halves_of_u8(const char* from) { return Halves(_mm256_cvtepu8_epi16(load<__m128i>(from, 0))); }
INLINE Singles from_integers(Integers x) { return Singles(_mm512_cvtepi32_ps(__m512i(x))); }
INLINE Integers to_integers(Singles x) { return Integers(_mm512_cvtps_epi32(__m512(x))); }
INLINE Singles from_f16(Halves x) { return Singles(_mm512_cvtph_ps(__m256i(x))); }
INLINE Halves to_f16(Singles x) { return Halves(_mm512_cvtps_ph(__m512(x), 0)); }
INLINE Singles least(Singles x, Singles y) { return Singles(_mm512_min_ps(__m512(x), __m512(y))); }
INLINE Integers most(Integers x, Integers y) { return Integers(_mm512_max_epi32(__m512i(x), __m512i(y))); }
INLINE Integers least(Integers x, Integers y) { return Integers(_mm512_min_epi32(__m512i(x), __m512i(y))); }
INLINE Integers magnitude(Integers x) { return Integers(_mm512_abs_epi32(__m512i(x))); }

INLINE __m512i in_order(__m512i x) { return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), x); }
INLINE __m512i to_s16(Integers a, Integers b) { return in_order(_mm512_packs_epi32(__m512i(a), __m512i(b))); }
INLINE __m512i to_u16(Integers a, Integers b) { return in_order(_mm512_packus_epi32(__m512i(a), __m512i(b))); }
INLINE __m512i upper_halves(Bits a, Bits b) {
    alignas(64) static constexpr uint16_t odd_ones[] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    return _mm512_permutex2var_epi16(__m512i(a), _mm512_load_si512(odd_ones), __m512i(b));
}
template <bool SIGNED> INLINE __m512i to_bytes(const Integers (&x)[4]) {
    const __m512i low = _mm512_packs_epi32(__m512i(x[0]), __m512i(x[1])), high = _mm512_packs_epi32(__m512i(x[2]), __m512i(x[3]));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, SIGNED ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high));
}

typedef __m512d Doubles;
INLINE __m256 nearest_f32(Doubles x) { return _mm512_cvtpd_ps(x); }
INLINE Singles joined(__m256 low, __m256 high) { return Singles(_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1)); }
INLINE __m256i nearest_s32(Doubles x) {
    return _mm512_maskz_cvtpd_epi32(_mm512_cmp_pd_mask(x, x, _CMP_ORD_Q), _mm512_min_pd(x, _mm512_set1_pd(2147483647)));
}
INLINE Integers joined(__m256i low, __m256i high) { return Integers(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)); }
INLINE void put_f64(char* to, Singles x) {
    store(to, 0, _mm512_cvtps_pd(_mm512_castps512_ps256(__m512(x)))), store(to, 1, _mm512_cvtps_pd(_mm512_extractf32x8_ps(__m512(x), 1)));
}
#endif

// ------------------------------------------------------------------------------------------------------------------- numbers

// Half to even, saturated, nan as 0.
INLINE Integers nearest(Singles x) { return (to_integers(x) ^ Integers(x >= 0x1p31f)) & Integers(x == x); }
// The same where what is beyond 16 bits is saturated later.  SIGNED: whether the lowest number is not nan's 0.
template <bool SIGNED> INLINE Integers nearest_short(Singles x) {
    const Integers found = to_integers(least(Singles{} + 0x1p16f, x));
    return SIGNED ? found & Integers(x == x) : found;
}

// To odd: of what f32 does not hold, the lowest 8 bits as one above them.
INLINE Singles odd(Integers x) {
    const Bits code = Bits(x), low = Bits{} + 0xFF, shorter = (code | ((code & low) + low)) & ~low;
    return from_integers(magnitude(x) > 1 << 24 ? Integers(shorter) : x);
}

// To odd with 12 bits of the mantissa, more than short floats have.  f32 holds these to 2^-137, and what is less is 0 in all of them.
INLINE LongBits odd(LongBits x) {
    const LongBits low = LongBits{} + ((uint64_t(1) << 40) - 1);
    return (x | ((x & low) + low)) & ~low;
}

// ------------------------------------------------------------------------------------------------------- types: one vector

struct Float32 {
    enum { BYTES = 4 };
    static INLINE Singles get(const char* from) { return load<Singles>(from, 0); }
    static INLINE void put(char* to, const Singles (&x)[4]) { for (int k = 0; k < 4; k++) store(to, k, x[k]); }
};
struct Float64 {
    enum { BYTES = 8 };
    static INLINE void put(char* to, const Singles (&x)[4]) { for (int k = 0; k < 4; k++) put_f64(to + 8 * LANE_COUNT * k, x[k]); }
};
struct Float64ToOdd {
    enum { BYTES = 8 };
    static INLINE Singles get(const char* from) {
        return joined(nearest_f32(Doubles(odd(load<LongBits>(from, 0)))), nearest_f32(Doubles(odd(load<LongBits>(from, 1)))));
    }
};
struct Float64Nearest {
    enum { BYTES = 8 };
    static INLINE Integers get(const char* from) { return joined(nearest_s32(load<Doubles>(from, 0)), nearest_s32(load<Doubles>(from, 1))); }
};
struct Signed32 {
    enum { BYTES = 4 };
    static INLINE void put(char* to, const Integers (&x)[4]) { for (int k = 0; k < 4; k++) store(to, k, x[k]); }
    static INLINE void put(char* to, const Singles (&x)[4]) { for (int k = 0; k < 4; k++) store(to, k, nearest(x[k])); }
};
struct Signed32ToOdd {
    enum { BYTES = 4 };
    static INLINE Singles get(const char* from) { return odd(load<Integers>(from, 0)); }
};
template <bool SIGNED> struct Integer16 {
    enum { BYTES = 2 };
    static INLINE Singles get(const char* from) { return from_integers(SIGNED ? from_s16(from) : from_u16(from)); }
    static INLINE void put(char* to, const Integers (&x)[4]) {
        for (int k = 0; k < 2; k++) store(to, k, SIGNED ? to_s16(x[2 * k], x[2 * k + 1]) : to_u16(x[2 * k], x[2 * k + 1]));
    }
    static INLINE void put(char* to, const Singles (&x)[4]) {
        put(to, {nearest_short<SIGNED>(x[0]), nearest_short<SIGNED>(x[1]), nearest_short<SIGNED>(x[2]), nearest_short<SIGNED>(x[3])});
    }
};
template <bool SIGNED> struct Integer8 {
    enum { BYTES = 1 };
    static INLINE Singles get(const char* from) { return from_integers(SIGNED ? from_s8(from) : from_u8(from)); }
    static INLINE void put(char* to, const Integers (&x)[4]) { store(to, 0, to_bytes<SIGNED>(x)); }
    static INLINE void put(char* to, const Singles (&x)[4]) {
        put(to, {nearest_short<SIGNED>(x[0]), nearest_short<SIGNED>(x[1]), nearest_short<SIGNED>(x[2]), nearest_short<SIGNED>(x[3])});
    }
};
struct Float16 {
    enum { BYTES = 2 };
    static INLINE Singles get(const char* from) { return from_f16(load<Halves>(from, 0)); }
    static INLINE void put(char* to, const Singles (&x)[4]) { for (int k = 0; k < 4; k++) store(to, k, to_f16(x[k])); }
};
struct Bfloat16 {  // gpl_upper_half
    enum { BYTES = 2 };
    static INLINE Singles get(const char* from) { return Singles(Bits(from_u16(from)) << 16); }
    static INLINE Bits rounded(Singles x) {
        const Bits code = Bits(x), near = code + 0x7FFF + (code >> 16 & 1);
        return x != x ? Bits{} + 0x7FFFFFFF : near;
    }
    static INLINE void put(char* to, const Singles (&x)[4]) {
        for (int k = 0; k < 2; k++) store(to, k, upper_halves(rounded(x[2 * k]), rounded(x[2 * k + 1])));
    }
};

// gpl_short_float, whose numbers are constants here.
template <int MANTISSA, int BIAS, int BEYOND> INLINE Integers byte_code(Singles x) {
    const Bits code = Bits(x), magnitude = code & 0x7FFFFFFF;
    const Integers exponent = most(Integers(code & 0x7F800000), Integers{} + ((127 - BIAS + 1) << 23));
    const Singles place = Singles(Bits(exponent) + ((23u - MANTISSA) << 23)), scale = Singles(Integers{} + (BIAS << 23));
    const Integers near = Integers(Bits((Singles(magnitude) + place - place) * scale) >> (23 - MANTISSA));
    const Integers found = x != x ? Integers{} + 0x7F : least(near, Integers{} + BEYOND);
    return found | Integers(code >> 24 & 0x80);
}
template <int MANTISSA, int BIAS, int BEYOND> INLINE void put_byte_floats(char* to, const Singles (&x)[4]) {
    store(to, 0, to_bytes<false>({byte_code<MANTISSA, BIAS, BEYOND>(x[0]), byte_code<MANTISSA, BIAS, BEYOND>(x[1]), byte_code<MANTISSA, BIAS, BEYOND>(x[2]), byte_code<MANTISSA, BIAS, BEYOND>(x[3])}));
}
struct Float8E5M2 {  // the upper half of f16
    enum { BYTES = 1 };
    static INLINE Singles get(const char* from) { return from_f16(halves_of_u8(from) << 8); }
    static INLINE void put(char* to, const Singles (&x)[4]) { put_byte_floats<2, 15, 0x7C>(to, x); }
};
template <bool SATURATE> struct Float8E4M3FN {  // the middle of f16, with another bias
    enum { BYTES = 1 };
    static INLINE Singles get(const char* from) {
        const Halves code = halves_of_u8(from), magnitude = code & 0x7F, nan = Halves(magnitude == 0x7F) & 0x7C00;
        return from_f16((code & 0x80) << 8 | magnitude << 7 | nan) * 256.0f;
    }
    static INLINE void put(char* to, const Singles (&x)[4]) { put_byte_floats<3, 7, SATURATE ? 0x7E : 0x7F>(to, x); }
};

// --------------------------------------------------------------------------------------------------------------------- casts

template <class Read, class Write> INLINE void cast_block(const char* from, char* to) {
    enum { STEP = LANE_COUNT * Read::BYTES };
    Write::put(to, {Read::get(from), Read::get(from + STEP), Read::get(from + 2 * STEP), Read::get(from + 3 * STEP)});
}

// The last elements pass through memory of a whole block.
template <class Read, class Write> static void cast(const char* from, char* to, int64_t n, const Pass&) {
    int64_t k = 0;
    for (; k + COUNT <= n; k += COUNT) cast_block<Read, Write>(from + k * Read::BYTES, to + k * Write::BYTES);
    if (k == n) return;
    char read[COUNT * Read::BYTES] = {}, written[COUNT * Write::BYTES];
    std::memcpy(read, from + k * Read::BYTES, size_t((n - k) * Read::BYTES));
    cast_block<Read, Write>(read, written);
    std::memcpy(to + k * Write::BYTES, written, size_t((n - k) * Write::BYTES));
}

// Of up to 16 bits, whose numbers f32 has, or of f32.
template <class Write> static Row cast_of_short(unsigned from) {
    switch (from) {
        case type_number(GPL_FLOAT, GPL_IEEE, 32, 23, 127): return cast<Float32, Write>;
        case type_number(GPL_FLOAT, GPL_IEEE, 16, 10, 15): return cast<Float16, Write>;
        case type_number(GPL_FLOAT, GPL_IEEE, 16, 7, 127): return cast<Bfloat16, Write>;
        case type_number(GPL_FLOAT, GPL_IEEE, 8, 2, 15): return cast<Float8E5M2, Write>;
        case type_number(GPL_FLOAT, GPL_NAN, 8, 3, 7): return cast<Float8E4M3FN<true>, Write>;
        case type_number(GPL_SIGNED, 0, 8, 0, 0): return cast<Integer8<true>, Write>;
        case type_number(GPL_UNSIGNED, 0, 8, 0, 0): return cast<Integer8<false>, Write>;
        case type_number(GPL_SIGNED, 0, 16, 0, 0): return cast<Integer16<true>, Write>;
        case type_number(GPL_UNSIGNED, 0, 16, 0, 0): return cast<Integer16<false>, Write>;
        default: return nullptr;
    }
}
template <class Write> static Row cast_to_integer(unsigned from) {
    return from == type_number(GPL_FLOAT, GPL_IEEE, 64, 52, 1023) ? cast<Float64Nearest, Write> : cast_of_short<Write>(from);
}
template <class Write> static Row cast_to_short_float(unsigned from) {
    if (from == type_number(GPL_FLOAT, GPL_IEEE, 64, 52, 1023)) return cast<Float64ToOdd, Write>;
    return from == type_number(GPL_SIGNED, 0, 32, 0, 0) ? cast<Signed32ToOdd, Write> : cast_of_short<Write>(from);
}

// The row that casts between two types at once; nullptr: there is none.
static Row cast_row(unsigned from, unsigned to, bool saturate) {
    switch (to) {
        case type_number(GPL_FLOAT, GPL_IEEE, 64, 52, 1023): return cast_of_short<Float64>(from);
        case type_number(GPL_FLOAT, GPL_IEEE, 32, 23, 127): return cast_of_short<Float32>(from);
        case type_number(GPL_FLOAT, GPL_IEEE, 16, 10, 15): return cast_to_short_float<Float16>(from);
        case type_number(GPL_FLOAT, GPL_IEEE, 16, 7, 127): return cast_to_short_float<Bfloat16>(from);
        case type_number(GPL_FLOAT, GPL_IEEE, 8, 2, 15): return cast_to_short_float<Float8E5M2>(from);
        case type_number(GPL_FLOAT, GPL_NAN, 8, 3, 7): return saturate ? cast_to_short_float<Float8E4M3FN<true>>(from) : cast_to_short_float<Float8E4M3FN<false>>(from);
        case type_number(GPL_SIGNED, 0, 32, 0, 0): return cast_to_integer<Signed32>(from);
        case type_number(GPL_SIGNED, 0, 16, 0, 0): return cast_to_integer<Integer16<true>>(from);
        case type_number(GPL_UNSIGNED, 0, 16, 0, 0): return cast_to_integer<Integer16<false>>(from);
        case type_number(GPL_SIGNED, 0, 8, 0, 0): return cast_to_integer<Integer8<true>>(from);
        case type_number(GPL_UNSIGNED, 0, 8, 0, 0): return cast_to_integer<Integer8<false>>(from);
        default: return nullptr;
    }
}
