// Bits to bytes and back: elements of 1, 2 or 4 bits, several in a byte with the first in its lowest bits, on one side, and one in
// each byte on the other.
//
// The elements of a packed byte are a word of 8 / Bits bytes, so both ways are shifts of whole words:
//
//     2 bits     0xe4 | 0xe4 << 12, that | that << 6, without the upper bits of each byte: 0x03020100
//     and back   0x03020100 | itself >> 6, that | that >> 12: its lowest byte is 0xe4
//
// The loops are plain, and the compiler makes vectors of them.  Only for single bits x86-64 has an instruction that it does not
// find: it packs the upper bits of all bytes of a vector.
#pragma once
#include <cstdint>
#include <cstring>

// PORTABLE and LOWERED: see strided_move.cpp.
#if defined(__x86_64__) && !defined(PORTABLE)
#include <immintrin.h>
#define HAS_X86_64 1
#else
#define HAS_X86_64 0
#endif
#if HAS_X86_64 && !defined(LOWERED)
#define FOR_AVX2 __attribute__((target("avx2")))
#define FOR_AVX512 __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")))
#else
#define FOR_AVX2
#define FOR_AVX512
#endif

namespace gpulayout {

// Makes or takes so many packed bytes; the other side has 8 / Bits times as many.
typedef void (*BitKernel)(uint8_t* to, const uint8_t* from, int64_t packed_bytes);
struct BitKernels {
    BitKernel unpack[3], pack[3];  // by log2 of the bits
};

template <int Bits> struct BitWord;
template <> struct BitWord<1> { typedef uint64_t Type; };
template <> struct BitWord<2> { typedef uint32_t Type; };
template <> struct BitWord<4> { typedef uint16_t Type; };
template <class Word> constexpr Word in_each_byte(int value) { return Word(Word(~Word(0)) / 255 * value); }

// Compiled anew in each function below, for its instruction set.
template <int Bits> inline __attribute__((always_inline)) void unpack_words(uint8_t* __restrict to, const uint8_t* __restrict from, int64_t bytes) {
    typedef typename BitWord<Bits>::Type Word;
    for (int64_t k = 0; k < bytes; k++) {
        Word word = from[k];
        if (Bits == 1) word = Word(word | word << 28);
        if (Bits < 4) word = Word(word | word << 2 * (8 - Bits));
        word = Word(word | word << (8 - Bits)) & in_each_byte<Word>((1 << Bits) - 1);
        std::memcpy(to + k * int64_t(sizeof word), &word, sizeof word);
    }
}
template <int Bits> inline __attribute__((always_inline)) void pack_words(uint8_t* __restrict to, const uint8_t* __restrict from, int64_t bytes) {
    typedef typename BitWord<Bits>::Type Word;
    for (int64_t k = 0; k < bytes; k++) {
        Word word;
        std::memcpy(&word, from + k * int64_t(sizeof word), sizeof word);
        word &= in_each_byte<Word>((1 << Bits) - 1);
        word = Word(word | word >> (8 - Bits));
        if (Bits < 4) word = Word(word | word >> 2 * (8 - Bits));
        if (Bits == 1) word = Word(word | word >> 28);
        to[k] = uint8_t(word);
    }
}

namespace bits_baseline {
template <int Bits> void unpack(uint8_t* to, const uint8_t* from, int64_t bytes) { unpack_words<Bits>(to, from, bytes); }
template <int Bits> void pack(uint8_t* to, const uint8_t* from, int64_t bytes) {
    int64_t k = 0;
#if HAS_X86_64
    for (; Bits == 1 && k + 2 <= bytes; k += 2) {
        int found = _mm_movemask_epi8(_mm_slli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 8 * k)), 7));
        std::memcpy(to + k, &found, 2);
    }
#endif
    pack_words<Bits>(to + k, from + k * (8 / Bits), bytes - k);
}
}  // namespace bits_baseline

namespace bits_avx2 {
template <int Bits> FOR_AVX2 void unpack(uint8_t* to, const uint8_t* from, int64_t bytes) { unpack_words<Bits>(to, from, bytes); }
template <int Bits> FOR_AVX2 void pack(uint8_t* to, const uint8_t* from, int64_t bytes) {
    int64_t k = 0;
#if HAS_X86_64 && !defined(LOWERED)
    for (; Bits == 1 && k + 4 <= bytes; k += 4) {
        int found = _mm256_movemask_epi8(_mm256_slli_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 8 * k)), 7));
        std::memcpy(to + k, &found, 4);
    }
#endif
    pack_words<Bits>(to + k, from + k * (8 / Bits), bytes - k);
}
}  // namespace bits_avx2

namespace bits_avx512 {
template <int Bits> FOR_AVX512 void unpack(uint8_t* to, const uint8_t* from, int64_t bytes) { unpack_words<Bits>(to, from, bytes); }
template <int Bits> FOR_AVX512 void pack(uint8_t* to, const uint8_t* from, int64_t bytes) {
    int64_t k = 0;
#if HAS_X86_64 && !defined(LOWERED)
    for (; Bits == 1 && k + 8 <= bytes; k += 8) {
        uint64_t found = _mm512_test_epi8_mask(_mm512_loadu_si512(from + 8 * k), _mm512_set1_epi8(1));
        std::memcpy(to + k, &found, 8);
    }
#endif
    pack_words<Bits>(to + k, from + k * (8 / Bits), bytes - k);
}
}  // namespace bits_avx512

#define BIT_KERNELS(set) {{set::unpack<1>, set::unpack<2>, set::unpack<4>}, {set::pack<1>, set::pack<2>, set::pack<4>}}
// In the order of gl_instruction_set; a machine that has fewer uses the first ones.
constexpr BitKernels BIT_KERNELS_OF_SETS[] = {BIT_KERNELS(bits_baseline), BIT_KERNELS(bits_avx2), BIT_KERNELS(bits_avx512)};
#undef BIT_KERNELS

}  // namespace gpulayout
