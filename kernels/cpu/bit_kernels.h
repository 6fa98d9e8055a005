// Bits to bytes and back, for one instruction set: elements of 1, 2 or 4 bits, several in a byte with the first in its lowest bits,
// on one side, and one in each byte on the other.
//
// packed_move.cpp includes this file once for each instruction set, as strided_move.cpp does register_kernels.h, and what is said
// there holds here.  The elements of a packed byte are a word of 8 / Bits bytes, so both ways are shifts of whole words:
//
//     2 bits     0xe4 | 0xe4 << 12, that | that << 6, without the upper bits of each byte: 0x03020100
//     and back   0x03020100 | itself >> 6, that | that >> 12: its lowest byte is 0xe4
//
// The loops are plain, and the compiler makes vectors of them.  Only for single bits x86-64 has an instruction that it does not
// find: it packs the upper bits of all bytes of a vector.

namespace gpulayout { namespace INSTRUCTIONS {

template <int Bits> static void unpack(uint8_t* __restrict to, const uint8_t* __restrict from, int64_t bytes) {
    typedef typename BitWord<Bits>::Type Word;
    for (int64_t k = 0; k < bytes; k++) {
        Word word = from[k];
        if (Bits == 1) word = Word(word | word << 28);
        if (Bits < 4) word = Word(word | word << 2 * (8 - Bits));
        word = Word(word | word << (8 - Bits)) & in_each_byte<Word>((1 << Bits) - 1);
        std::memcpy(to + k * int64_t(sizeof word), &word, sizeof word);
    }
}

template <int Bits> static void pack(uint8_t* __restrict to, const uint8_t* __restrict from, int64_t bytes) {
    typedef typename BitWord<Bits>::Type Word;
    int64_t k = 0;
#if IS_X86_64
    if (Bits == 1) {
#if LEVEL == 2 && !defined(LOWERED)
        for (; k + 8 <= bytes; k += 8) {
            const uint64_t found = _mm512_test_epi8_mask(_mm512_loadu_si512(from + 8 * k), _mm512_set1_epi8(1));
            std::memcpy(to + k, &found, 8);
        }
#elif LEVEL == 1 && !defined(LOWERED)
        for (; k + 4 <= bytes; k += 4) {
            const int found = _mm256_movemask_epi8(_mm256_slli_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 8 * k)), 7));
            std::memcpy(to + k, &found, 4);
        }
#else
        for (; k + 2 <= bytes; k += 2) {
            const int found = _mm_movemask_epi8(_mm_slli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 8 * k)), 7));
            std::memcpy(to + k, &found, 2);
        }
#endif
    }
#endif
    for (; k < bytes; k++) {
        Word word;
        std::memcpy(&word, from + k * int64_t(sizeof word), sizeof word);
        word &= in_each_byte<Word>((1 << Bits) - 1);
        word = Word(word | word >> (8 - Bits));
        if (Bits < 4) word = Word(word | word >> 2 * (8 - Bits));
        if (Bits == 1) word = Word(word | word >> 28);
        to[k] = uint8_t(word);
    }
}

static constexpr BitKernels bit_table{{unpack<1>, unpack<2>, unpack<4>}, {pack<1>, pack<2>, pack<4>}};

}}  // namespace gpulayout::INSTRUCTIONS
