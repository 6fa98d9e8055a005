// Bits to bytes and back, for one instruction set: elements of 1, 2 or 4 bits, several in a byte with the first in its lowest bits,
// or Big ones in its highest, on one side, and one in each byte on the other.
//
// packed_move.cpp includes this file once for each instruction set, as strided_move.cpp does register_kernels.h, and what is said
// there holds here.  The elements of a packed byte are a word of 8 / Bits bytes, so both ways are shifts of whole words:
//
//     2 bits     0xe4 | 0xe4 << 12, that | that << 6, without the upper bits of each byte: 0x03020100
//     and back   0x03020100 | itself >> 6, that | that >> 12: its lowest byte is 0xe4
//
// Of Big ones, 0xe4 is the elements 3 2 1 0, which are the word 0x00010203: its bytes are the other way round.
//
// The loops are plain, and the compiler makes vectors of them.  Only for single bits x86-64 has an instruction that it does not
// find: it packs the upper bits of all bytes of a vector.

namespace gpulayout { namespace INSTRUCTIONS {

template <int Bits, bool Big> static void unpack(uint8_t* __restrict to, const uint8_t* __restrict from, int64_t bytes) {
    typedef typename BitWord<Bits>::Type Word;
    for (int64_t k = 0; k < bytes; k++) {
        Word word = from[k];
        if (Bits == 1) word = Word(word | word << 28);
        if (Bits < 4) word = Word(word | word << 2 * (8 - Bits));
        word = Word(word | word << (8 - Bits)) & in_each_byte<Word>((1 << Bits) - 1);
        if (Big) word = turned(word);
        std::memcpy(to + k * int64_t(sizeof word), &word, sizeof word);
    }
}

template <int Bits, bool Big> static void pack(uint8_t* __restrict to, const uint8_t* __restrict from, int64_t bytes) {
    typedef typename BitWord<Bits>::Type Word;
    int64_t k = 0;
#if IS_X86_64
    if (Bits == 1) {
#if LEVEL == 2 && !defined(LOWERED)
        for (; k + 8 <= bytes; k += 8) {
            const uint64_t found = ordered<Big>(_mm512_test_epi8_mask(_mm512_loadu_si512(from + 8 * k), _mm512_set1_epi8(1)));
            std::memcpy(to + k, &found, 8);
        }
#elif LEVEL == 1 && !defined(LOWERED)
        for (; k + 4 <= bytes; k += 4) {
            const __m256i lowest = _mm256_slli_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 8 * k)), 7);
            const uint64_t found = ordered<Big>(uint32_t(_mm256_movemask_epi8(lowest)));
            std::memcpy(to + k, &found, 4);
        }
#else
        for (; k + 2 <= bytes; k += 2) {
            const __m128i lowest = _mm_slli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 8 * k)), 7);
            const uint64_t found = ordered<Big>(uint32_t(_mm_movemask_epi8(lowest)));
            std::memcpy(to + k, &found, 2);
        }
#endif
    }
#endif
    for (; k < bytes; k++) {
        Word word;
        std::memcpy(&word, from + k * int64_t(sizeof word), sizeof word);
        if (Big) word = turned(word);
        word &= in_each_byte<Word>((1 << Bits) - 1);
        word = Word(word | word >> (8 - Bits));
        if (Bits < 4) word = Word(word | word >> 2 * (8 - Bits));
        if (Bits == 1) word = Word(word | word >> 28);
        to[k] = uint8_t(word);
    }
}

static constexpr BitKernels bit_table{
    {{unpack<1, false>, unpack<2, false>, unpack<4, false>}, {unpack<1, true>, unpack<2, true>, unpack<4, true>}},
    {{pack<1, false>, pack<2, false>, pack<4, false>}, {pack<1, true>, pack<2, true>, pack<4, true>}},
};

}}  // namespace gpulayout::INSTRUCTIONS
