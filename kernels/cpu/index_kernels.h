// Loops over the numbers of a block, for one instruction set: index_program.cpp includes this file once for each, as
// strided_move.cpp does with register_kernels.h.  Rows of a call are the same or do not overlap; what is given and the result may
// have any address.

namespace gpulayout { namespace INSTRUCTIONS {

template <class T> INLINE T number(const char* numbers, int64_t k) { T x; std::memcpy(&x, numbers + k * int64_t(sizeof x), sizeof x); return x; }

// Read as unsigned, so that negative numbers are the largest.
template <class T> static uint64_t most(const char* numbers, int64_t n) {
    T found = 0;
    for (int64_t k = 0; k < n; k++) found = number<T>(numbers, k) > found ? number<T>(numbers, k) : found;
    return found;
}

// into = base + given * weight; the most of what is given.  Both at once, so that memory is read all the time.
template <class Word, class T> static uint64_t load(void* into, const void* base, const char* given, uint64_t weight, int64_t n) {
    Word* to = static_cast<Word*>(into);
    const Word* sum = static_cast<const Word*>(base);
    const Word w = Word(weight);
    T found = 0;
    EACH_APART for (int64_t k = 0; k < n; k++) {
        const T x = number<T>(given, k);
        found = x > found ? x : found;
        to[k] = sum[k] + Word(x) * w;
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

// Marks the numbers that reach a bound; whether there are any.
template <class Word> static bool past(uint8_t* mask, const char* numbers, uint64_t bound, int64_t n) {
    if (most<Word>(numbers, n) < bound) return false;
    EACH_APART for (int64_t k = 0; k < n; k++) mask[k] = uint8_t(mask[k] | (number<Word>(numbers, k) >= bound));
    return true;
}

template <class Word, class T> static void store(char* to, const void* numbers, int64_t n) {
    const Word* from = static_cast<const Word*>(numbers);
    EACH_APART for (int64_t k = 0; k < n; k++) {
        const T x = T(std::make_signed_t<Word>(from[k]));  // places can be negative
        std::memcpy(to + k * int64_t(sizeof x), &x, sizeof x);
    }
}

template <class Word> constexpr WordKernels of_words() {
    return {{load<Word, uint8_t>, load<Word, uint16_t>, load<Word, uint32_t>, load<Word, uint64_t>},
            {add<Word, NOTHING>, add<Word, SHIFT>, add<Word, MULTIPLY>},
            past<Word>,
            {store<Word, uint8_t>, store<Word, uint16_t>, store<Word, uint32_t>, store<Word, uint64_t>}};
}

static const IndexKernels index_table = {{most<uint8_t>, most<uint16_t>, most<uint32_t>, most<uint64_t>}, {of_words<uint32_t>(), of_words<uint64_t>()}};

}}  // namespace gpulayout::INSTRUCTIONS
