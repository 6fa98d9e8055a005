// Loops over the numbers of a block, for one instruction set: index_program.cpp includes this file once for each, as
// strided_move.cpp does with register_kernels.h.  Pointers of a call are the same or do not overlap.

namespace gpulayout { namespace INSTRUCTIONS {

// Read as unsigned, so that negative numbers are the largest.
template <class T> static uint64_t most(const void* numbers, int64_t n) {
    const T* x = static_cast<const T*>(numbers);
    T found = 0;
    for (int64_t k = 0; k < n; k++) found = x[k] > found ? x[k] : found;
    return found;
}

// into = base + given * weight; the most of what is given.  Both at once, so that memory is read all the time.
template <class Word, class T> static uint64_t load(void* into, const void* base, const void* given, uint64_t weight, int64_t n) {
    Word* to = static_cast<Word*>(into);
    const Word* sum = static_cast<const Word*>(base);
    const T* x = static_cast<const T*>(given);
    const Word w = Word(weight);
    T found = 0;
    EACH_APART for (int64_t k = 0; k < n; k++) {
        found = x[k] > found ? x[k] : found;
        to[k] = sum[k] + Word(x[k]) * w;
    }
    return found;
}

// into = base + number // divisor * weight
template <class Word, Division Way>
static void add(void* into, const void* base, const void* numbers, const Divisor& by, uint64_t weight, int64_t n) {
    Word* to = static_cast<Word*>(into);
    const Word *sum = static_cast<const Word*>(base), *x = static_cast<const Word*>(numbers);
    const Word w = Word(weight);
    const Divisor d = by;
    EACH_APART for (int64_t k = 0; k < n; k++) to[k] = sum[k] + quotient<Word, Way>(x[k], d) * w;
}

template <class Word, class T> static void store(void* into, const void* numbers, int64_t n) {
    T* to = static_cast<T*>(into);
    const Word* x = static_cast<const Word*>(numbers);
    EACH_APART for (int64_t k = 0; k < n; k++) to[k] = T(std::make_signed_t<Word>(x[k]));  // places can be negative
}

// Around the caches; `to` begins with a line.
static void stream(char* to, const char* from, int64_t lines) {
#if IS_X86_64
    for (; lines > 0; lines--, to += 64, from += 64)
#if LEVEL == 2 && !defined(LOWERED)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_load_si512(from));
#else
        for (int k = 0; k < 64; k += 16)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + k), _mm_load_si128(reinterpret_cast<const __m128i*>(from + k)));
#endif
#else
    std::memcpy(to, from, size_t(64 * lines));
#endif
}

template <class Word> constexpr WordKernels of_words() {
    return {{load<Word, uint8_t>, load<Word, uint16_t>, load<Word, uint32_t>, load<Word, uint64_t>},
            {add<Word, NOTHING>, add<Word, SHIFT>, add<Word, MULTIPLY>},
            {store<Word, uint8_t>, store<Word, uint16_t>, store<Word, uint32_t>, store<Word, uint64_t>}};
}

static const IndexKernels index_table = {{most<uint8_t>, most<uint16_t>, most<uint32_t>, most<uint64_t>}, stream,
                                   {of_words<uint32_t>(), of_words<uint64_t>()}};

}}  // namespace gpulayout::INSTRUCTIONS
