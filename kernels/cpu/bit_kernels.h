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

// As in strided_move.cpp, which says what PORTABLE and LOWERED are; threads.h, which comes afterwards, asks for the first.
#if defined(__x86_64__) && !defined(PORTABLE)
#include <immintrin.h>
#define IS_X86_64 1
#else
#define IS_X86_64 0
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

// Functions for an instruction set, which takes the bits of STEP packed bytes at a time; 0: it has no way of its own.
#define BIT_FUNCTIONS(SET, TARGET, STEP, BITS_OF)                                                                          \
    namespace SET {                                                                                                        \
    template <int Bits> TARGET void unpack(uint8_t* to, const uint8_t* from, int64_t bytes) { unpack_words<Bits>(to, from, bytes); } \
    template <int Bits> TARGET void pack(uint8_t* to, const uint8_t* from, int64_t bytes) {                                \
        int64_t k = 0;                                                                                                     \
        for (; Bits == 1 && STEP && k + STEP <= bytes; k += STEP) {                                                        \
            auto found = BITS_OF(from + 8 * k);                                                                            \
            std::memcpy(to + k, &found, STEP);                                                                             \
        }                                                                                                                  \
        pack_words<Bits>(to + k, from + k * (8 / Bits), bytes - k);                                                        \
    }                                                                                                                      \
    constexpr BitKernels table{{unpack<1>, unpack<2>, unpack<4>}, {pack<1>, pack<2>, pack<4>}};                            \
    }
#define NO_BITS(from) *(from)
#define BITS_OF_16(from) _mm_movemask_epi8(_mm_slli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), 7))
#define BITS_OF_32(from) _mm256_movemask_epi8(_mm256_slli_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)), 7))
#define BITS_OF_64(from) _mm512_test_epi8_mask(_mm512_loadu_si512(from), _mm512_set1_epi8(1))

#if !IS_X86_64
BIT_FUNCTIONS(bits_baseline, , 0, NO_BITS)
#else
BIT_FUNCTIONS(bits_baseline, , 2, BITS_OF_16)
#if defined(LOWERED)
BIT_FUNCTIONS(bits_avx2, , 0, NO_BITS)
BIT_FUNCTIONS(bits_avx512, , 0, NO_BITS)
#else
BIT_FUNCTIONS(bits_avx2, __attribute__((target("avx2"))), 4, BITS_OF_32)
BIT_FUNCTIONS(bits_avx512, __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi"))), 8, BITS_OF_64)
#endif
#endif
#undef BIT_FUNCTIONS

// In the order of gl_instruction_set; a machine that has fewer uses the first ones.
#if IS_X86_64
constexpr BitKernels BIT_KERNELS[] = {bits_baseline::table, bits_avx2::table, bits_avx512::table};
#else
constexpr BitKernels BIT_KERNELS[] = {bits_baseline::table};
#endif

}  // namespace gpulayout
