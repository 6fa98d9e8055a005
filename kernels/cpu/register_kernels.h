// Kernels that move a box of J x I places, for one instruction set.
//
// strided_move.cpp includes this file once for each: INSTRUCTIONS names the namespace, LEVEL is 0 for what every processor
// of the architecture has, 1 for AVX2, 2 for AVX-512.  (LEVEL and not __AVX2__: g++ reads all tokens before it applies a
// target pragma.)  No function of the standard library is called here but memcpy: an instance of a template that was first
// needed here would be compiled for this instruction set, and the linker could take it for all others.
//
// Every vector is a GNU vector type, and every permutation is known when this is compiled, so the same text serves x86-64
// and aarch64.  Only stores around the caches are intrinsics.

namespace gpulayout { namespace INSTRUCTIONS {

typedef uint64_t Two __attribute__((vector_size(16)));
typedef uint64_t Four __attribute__((vector_size(32)));
typedef uint64_t Eight __attribute__((vector_size(64)));

template <class V> INLINE V load(const void* from) { V v; std::memcpy(&v, from, sizeof v); return v; }
template <class V> INLINE void store(void* to, V v) { std::memcpy(to, &v, sizeof v); }
INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// ------------------------------------------------------------------------------------------------------------------ runs
// Runs of any length, by loads and stores that overlap: 11 bytes are bytes 0..7 and 3..10.

INLINE void copy_16(char* to, const char* from, int64_t n) {  // 0 to 16 bytes
    if (n >= 8) { uint64_t a = load<uint64_t>(from), b = load<uint64_t>(from + n - 8); store(to, a), store(to + n - 8, b); }
    else if (n >= 4) { uint32_t a = load<uint32_t>(from), b = load<uint32_t>(from + n - 4); store(to, a), store(to + n - 4, b); }
    else if (n >= 2) { uint16_t a = load<uint16_t>(from), b = load<uint16_t>(from + n - 2); store(to, a), store(to + n - 2, b); }
    else if (n) *to = *from;
}

INLINE void copy_32(char* to, const char* from, int64_t n) {  // 17 to 32 bytes
    Two a = load<Two>(from), b = load<Two>(from + n - 16);
    store(to, a), store(to + n - 16, b);
}

INLINE void copy_64(char* to, const char* from, int64_t n) {  // 33 to 64 bytes
    Four a = load<Four>(from), b = load<Four>(from + n - 32);
    store(to, a), store(to + n - 32, b);
}

INLINE void copy_128(char* to, const char* from, int64_t n) {  // 65 to 128 bytes
    Four a = load<Four>(from), b = load<Four>(from + 32), c = load<Four>(from + n - 64), d = load<Four>(from + n - 32);
    store(to, a), store(to + 32, b), store(to + n - 64, c), store(to + n - 32, d);
}

INLINE void copy_run(char* to, const char* from, int64_t n) {
    if (n <= 16) return copy_16(to, from, n);
    if (n <= 32) return copy_32(to, from, n);
    if (n <= 64) return copy_64(to, from, n);
    int64_t k = 0;
    for (; k + 64 <= n; k += 64) {
        Four a = load<Four>(from + k), b = load<Four>(from + k + 32);
        store(to + k, a), store(to + k + 32, b);
    }
    if (k + 32 <= n) store(to + k, load<Four>(from + k)), k += 32;
    if (k < n) store(to + n - 32, load<Four>(from + n - 32));
}

INLINE void copy_line(char* to, const char* from) {
#if LEVEL == 2
    store(to, load<Eight>(from));
#else
    Four a = load<Four>(from), b = load<Four>(from + 32);
    store(to, a), store(to + 32, b);
#endif
}

INLINE void stream_line(char* to, const char* from) {  // `to` at the begin of a line
#if LEVEL == 2 && !defined(LOWERED)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#elif IS_X86_64
    for (int k = 0; k < 64; k += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + k), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k)));
#else
    copy_line(to, from);
#endif
}

static void copy(char* to, const char* from, int64_t n, bool stream) {
    if (stream && IS_X86_64 && n >= 64) {
        int64_t head = -reinterpret_cast<uintptr_t>(to) & 63;
        if (head) copy_run(to, from, head), to += head, from += head, n -= head;
        for (; n >= 64; n -= 64, to += 64, from += 64) stream_line(to, from);
        return copy_run(to, from, n);
    }
    if (n < 1024) copy_run(to, from, n);
    else std::memcpy(to, from, size_t(n));
}

// One run for each i, J whole: what follows is fetched meanwhile.
static void whole_runs(Tile t) {
    for (int64_t i = 0; i < t.ni; i++) {
        char* to = t.target + t.target_i[i];
        const char* from = t.source + t.source_i[i];
        for (int64_t left = t.nj * t.size; left > 0;) {
            int64_t n = t.fetch->chunks ? least(left, 2048 - int64_t(reinterpret_cast<uintptr_t>(to) & 63)) : left;
            t.fetch->go((n + 63) / 64);
            copy(to, from, n, t.stream);
            to += n, from += n, left -= n;
        }
    }
}

enum RunLength { UP_TO_16, UP_TO_32, UP_TO_64, UP_TO_128, LONGER, LINES };  // LINES: whole lines, around the caches
template <RunLength Length> INLINE void each_run(const Tile& t) {
    for (int64_t j = 0; j < t.nj; j++) {
        const char* from = t.source + t.source_j[j];
        char* to = t.target + t.target_j[j];
        for (int64_t i = 0; i < t.ni; i++) {
            t.fetch->go((t.size + 63) / 64);
            char* at = to + t.target_i[i];
            if (Length == UP_TO_16) copy_16(at, from + t.source_i[i], t.size);
            else if (Length == UP_TO_32) copy_32(at, from + t.source_i[i], t.size);
            else if (Length == UP_TO_64) copy_64(at, from + t.source_i[i], t.size);
            else if (Length == UP_TO_128) copy_128(at, from + t.source_i[i], t.size);
            else if (Length == LONGER) copy_run(at, from + t.source_i[i], t.size);
            else copy(at, from + t.source_i[i], t.size, true);
        }
    }
}

// Runs of up to 16 bytes whose places are neighbours in the target: a store is wider than a run, and the next one overwrites
// what is too much.  The last runs of a row are stored exactly.  Padding between runs is in the scratch tile already, and is
// written again.
template <class Wide, bool Padded> INLINE void neighbour_runs(const Tile& t) {
    const int64_t n = t.size, slot = t.slot, safe = t.nj - 16 / slot - 1;
    char past[16];
    for (int k = 0; k < 16; k++) past[k] = k < n ? 0 : -1;
    const Wide is_pad = load<Wide>(past);
    for (int64_t i = 0; i < t.ni; i++) {
        const char* from = t.source + t.source_i[i];
        char* to = t.target + t.target_i[i];
        int64_t j = 0;
        t.fetch->go((n * t.nj + 63) / 64);
        if (t.source_end - from > t.source_reach + 16) {
            Wide pads{};
            if (Padded) pads = load<Wide>(to) & is_pad;
            for (; j < safe; j++) {
                Wide run = load<Wide>(from + t.source_j[j]);
                store(to + j * slot, Padded ? (run & ~is_pad) | pads : run);
            }
        }
        for (; j < t.nj; j++) copy_16(to + j * slot, from + t.source_j[j], n);
    }
}
template <bool Padded> INLINE void all_neighbour_runs(const Tile& t) {
    t.size <= 8 ? neighbour_runs<uint64_t, Padded>(t) : neighbour_runs<Two, Padded>(t);
}

static void runs(Tile t) {
    if (t.size <= 16 && t.nj > 8 && t.group == 0) return t.slot > t.size ? all_neighbour_runs<true>(t) : all_neighbour_runs<false>(t);
    if (t.size <= 16) return each_run<UP_TO_16>(t);
    if (t.size <= 32) return each_run<UP_TO_32>(t);
    if (t.stream && t.size % 64 == 0) return each_run<LINES>(t);
    if (t.size <= 64) return each_run<UP_TO_64>(t);
    if (t.size <= 128) return each_run<UP_TO_128>(t);
    each_run<LONGER>(t);
}

// One column after the other, where the target is dense along J.
template <class T> INLINE void columns(const Tile& t) {
    constexpr int64_t size = sizeof(T);
    for (int64_t i = 0; i < t.ni; i++) {
        char* to = t.target + t.target_i[i];
        const char* from = t.source + t.source_i[i];
        int64_t j = 0;
        t.fetch->go(t.nj * size / 64);
        for (; j + 4 <= t.nj; j += 4) {
            T a = load<T>(from + t.source_j[j]), b = load<T>(from + t.source_j[j + 1]), c = load<T>(from + t.source_j[j + 2]),
              d = load<T>(from + t.source_j[j + 3]);
            char* at = to + j * size;
            store(at, a), store(at + size, b), store(at + 2 * size, c), store(at + 3 * size, d);
        }
        for (; j < t.nj; j++) store(to + j * size, load<T>(from + t.source_j[j]));
    }
}

// Any strides: one element at a time.  The inner loop is along I, whose places lie closer together in the source.
template <class T> static void any(Tile t) {
    if (t.group == 0) return columns<T>(t);
    for (int64_t j = 0; j < t.nj; j++) {
        const char* from = t.source + t.source_j[j];
        char* to = t.target + t.target_j[j];
        for (int64_t i = 0; i < t.ni; i++) store(to + t.target_i[i], load<T>(from + t.source_i[i]));
    }
}

// ----------------------------------------------------------------------------------------------------------------- steps
// Rows of J places that lie evenly apart in the source: reversed, every other one, one for all, or any step.

enum { LANES = 1 << LEVEL };
template <class T, int L> struct Vector { typedef T Type __attribute__((vector_size(16 * L))); };

template <class V, size_t... E> INLINE V reversed(V v, std::index_sequence<E...>) {
    return __builtin_shufflevector(v, v, int(sizeof...(E) - 1 - E)...);
}
template <class V, size_t... E> INLINE V every_other(V a, V b, std::index_sequence<E...>) {
    return __builtin_shufflevector(a, b, int(2 * E)...);
}

// Vectors of a row; returns how many places they have.  Nothing is read past the last place: every other place is read with
// what follows it, so there is one more.
template <class T, int L> INLINE int64_t step_vectors(char* to, const char* from, int64_t n, int64_t step) {
    typedef typename Vector<T, L>::Type V;
    constexpr int64_t size = sizeof(T), N = sizeof(V) / size;
    constexpr auto all = std::make_index_sequence<N>();
    int64_t k = 0;
    if (step == -size)
        for (; k + N <= n; k += N) store(to + k * size, reversed(load<V>(from - (k + N - 1) * size), all));
    else if (step == 2 * size)
        for (; k + N < n; k += N) store(to + k * size, every_other(load<V>(from + 2 * k * size), load<V>(from + (2 * k + N) * size), all));
    else if (step == -2 * size && n)
        for (store(to, load<T>(from)), k = 1; k + N <= n; k += N) {
            const char* low = from - 2 * (k + N - 1) * size;
            store(to + k * size, reversed(every_other(load<V>(low), load<V>(low + N * size), all), all));
        }
    else if (step == 0)
        if (V same = V{} | load<T>(from); n >= N) {  // whole vectors begin at their multiples; the first and the last overlap them
            store(to, same);
            for (k = (-reinterpret_cast<uintptr_t>(to) & (sizeof same - 1)) / size; k + N <= n; k += N) store(to + k * size, same);
            store(to + (n - N) * size, same);
            return n;
        }
    if constexpr (L > 1)
        if (n - k >= N / 2) return k + step_vectors<T, L / 2>(to + k * size, from + k * step, n - k, step);
    return k;
}

template <class T> INLINE void step_row(char* to, const char* from, int64_t n, int64_t step) {
    constexpr int64_t size = sizeof(T);
    int64_t k = 0;
    if constexpr (size < 16) k = step_vectors<T, LANES>(to, from, n, step);
    for (; k + 4 <= n; k += 4) {
        const char* at = from + k * step;
        T a = load<T>(at), b = load<T>(at + step), c = load<T>(at + 2 * step), d = load<T>(at + 3 * step);
        store(to + k * size, a), store(to + (k + 1) * size, b), store(to + (k + 2) * size, c), store(to + (k + 3) * size, d);
    }
    for (; k < n; k++) store(to + k * size, load<T>(from + k * step));
}

// Whole lines of a row, around the caches, by way of some lines that stay in them; returns how many places they and those
// before them have.
template <class T> INLINE int64_t stream_steps(char* to, const char* from, int64_t n, int64_t step) {
    constexpr int64_t size = sizeof(T), places = 64 / size;
    int64_t k = (-reinterpret_cast<uintptr_t>(to) & 63) / size;
    if (reinterpret_cast<uintptr_t>(to) % size || k + places >= n) return 0;
    step_row<T>(to, from, k, step);
    alignas(64) char lines[17 * 64];
    while (k + places < n) {
        int64_t some = least((n - 1 - k) / places, 16);
        step_row<T>(lines, from + k * step, some * places + 1, step);  // one more, see above
        for (int64_t m = 0; m < some; m++) stream_line(to + k * size + 64 * m, lines + 64 * m);
        k += some * places;
    }
    return k;
}

template <class T> static void step(Tile t) {
    const int64_t step = t.source_j[1] - t.source_j[0], size = sizeof(T);
    for (int64_t i = 0; i < t.ni; i++) {
        char* to = t.target + t.target_i[i];
        const char* from = t.source + t.source_i[i];
        t.fetch->go((t.nj * size + 63) / 64);
        int64_t k = t.stream ? stream_steps<T>(to, from, t.nj, step) : 0;
        step_row<T>(to + k * size, from + k * step, t.nj - k, step);
    }
}

// ----------------------------------------------------------------------------------------------------------------- turns
// The source is dense along I and the target along J.  A vector holds L lanes of 16 bytes, each from another group of K rows;
// log2(K) rounds of interleaving within lanes turn K x K elements in every lane, so a store writes K * L neighbours of the
// target.  For K = 4 rows a b c d of 4 elements:   a0 c0 a1 c1 | a2 c2 a3 c3 | b0 d0 b1 d1 | ...   then   a0 b0 c0 d0 | a1 b1 ...

template <class T, int L, int Half, size_t... E>
INLINE typename Vector<T, L>::Type interleave(typename Vector<T, L>::Type a, typename Vector<T, L>::Type b,
                                              std::index_sequence<E...>) {
    constexpr int K = 16 / sizeof(T), N = K * L;
    return __builtin_shufflevector(a, b, int(E / K * K + E % K / 2 + Half * K / 2 + E % 2 * N)...);
}

// One vector from the 16 bytes at `at` of rows 0, step, 2 * step ..
template <class T, int L> INLINE typename Vector<T, L>::Type load_lanes(const char* const* row, int step, int64_t at) {
    typedef typename Vector<T, L>::Type V;
    if constexpr (L == 1) return load<V>(row[0] + at);
    else if constexpr (L == 2) return (V)__builtin_shufflevector(load<Two>(row[0] + at), load<Two>(row[step] + at), 0, 1, 2, 3);
    else {
        Four a = __builtin_shufflevector(load<Two>(row[0] + at), load<Two>(row[step] + at), 0, 1, 2, 3);
        Four b = __builtin_shufflevector(load<Two>(row[2 * step] + at), load<Two>(row[3 * step] + at), 0, 1, 2, 3);
        return (V)__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
    }
}

constexpr int log2_of_power(int n) { return n > 1 ? 1 + log2_of_power(n / 2) : 0; }
template <class T, int L, int Rows> INLINE void interleave_rounds(typename Vector<T, L>::Type* a, int rounds = log2_of_power(Rows)) {
    constexpr int N = 16 / sizeof(T) * L;
    typename Vector<T, L>::Type b[Rows];
    for (int round = 0; round < rounds; round++) {
        for (int m = 0; m < Rows / 2; m++) {
            b[2 * m] = interleave<T, L, 0>(a[m], a[m + Rows / 2], std::make_index_sequence<N>());
            b[2 * m + 1] = interleave<T, L, 1>(a[m], a[m + Rows / 2], std::make_index_sequence<N>());
        }
        for (int k = 0; k < Rows; k++) a[k] = b[k];
    }
}

// Columns at..at+K-1 of K * L rows, as K vectors.
template <class T, int L> INLINE void block(const char* const* row, int64_t at, typename Vector<T, L>::Type* out) {
    constexpr int K = 16 / sizeof(T);
    for (int k = 0; k < K; k++) out[k] = load_lanes<T, L>(row + k, K, at);
    interleave_rounds<T, L, K>(out);
}

// B = K * L rows from j on, all columns.  With `pack` each line of the source is read once, into a place of its own: rows
// whose distance is a multiple of 1 KB would push each other out of the cache, if there are more than a set has places.
template <class T, int L> INLINE void turn_rows(const Tile& t, int64_t j) {
    constexpr int64_t size = sizeof(T), K = 16 / size, B = K * L;
    typename Vector<T, L>::Type out[K];
    const char* row[B];
    for (int k = 0; k < B; k++) row[k] = t.source + t.source_j[j + k];
    char* to = t.target + j * size;
    int64_t i = 0;
    if (t.pack && B > 8) {
        alignas(64) char line[B * 64];
        const char* packed[B];
        for (int k = 0; k < B; k++) packed[k] = line + 64 * k;
        for (; i + 4 * K <= t.ni; i += 4 * K) {
            for (int k = 0; k < B; k++) {
                t.fetch->go(1);
                copy_line(line + 64 * k, row[k] + i * size);
            }
            for (int q = 0; q < 4; q++) {
                block<T, L>(packed, 16 * q, out);
                for (int k = 0; k < K; k++) store(to + t.target_i[i + q * K + k], out[k]);
            }
        }
    }
    for (; i + K <= t.ni; i += K) {
        t.fetch->go(K * B * size / 64);
        block<T, L>(row, i * size, out);
        for (int k = 0; k < K; k++) store(to + t.target_i[i + k], out[k]);
    }
    if (i < t.ni) {  // the last columns again
        block<T, L>(row, (t.ni - K) * size, out);
        for (int k = 0; k < K; k++) store(to + t.target_i[t.ni - K + k], out[k]);
    }
}

// The same for fewer than K columns: reads past them, but not past the end of the source.  False: too near to it.
template <class T, int L> INLINE bool turn_few_columns(const Tile& t, int64_t j) {
    constexpr int64_t size = sizeof(T), K = 16 / size, B = K * L;
    typename Vector<T, L>::Type out[K];
    const char* row[B];
    bool fits = true;
    for (int k = 0; k < B; k++) row[k] = t.source + t.source_j[j + k], fits &= row[k] + 16 <= t.source_end;
    if (!fits) return false;
    t.fetch->go((B * t.ni * size + 63) / 64);
    block<T, L>(row, 0, out);
    char* to = t.target + j * size;
    if (2 * t.ni <= K) {  // half of the last round's work is then left out
        for (int k = 0; k < K / 2; k++)
            if (k < t.ni) store(to + t.target_i[k], out[k]);
    } else
        for (int k = 0; k < t.ni; k++) store(to + t.target_i[k], out[k]);
    return true;
}

// The last rows.  Fewer than K: the last of them several times, and short stores.  Near the end of the source, which is why
// there may be more of them: single elements.
template <class T> INLINE void turn_few_rows(const Tile& t, int64_t j) {
    constexpr int64_t size = sizeof(T), K = 16 / size;
    typename Vector<T, 1>::Type out[K];
    const char* row[K];
    int64_t i = 0, rows = t.nj - j;
    if (K > 2 && rows > 1 && rows < K)
        for (; i < t.ni; i += K) {
            if (i + K > t.ni && t.ni >= K) i = t.ni - K;
            bool fits = true;
            for (int k = 0; k < K; k++) {
                row[k] = t.source + t.source_j[j + least(k, rows - 1)];
                fits &= row[k] + i * size + 16 <= t.source_end;
            }
            if (!fits) break;
            block<T, 1>(row, i * size, out);
            char part[16 * K];
            for (int k = 0; k < K; k++) store(part + 16 * k, out[k]);
            for (int k = 0; k < least(K, t.ni - i); k++)
                copy_16(t.target + j * size + t.target_i[i + k], part + 16 * k, rows * size);
        }
    for (; i < t.ni; i++)
        for (int64_t r = 0; r < rows; r++)
            store(t.target + (j + r) * size + t.target_i[i], load<T>(t.source + t.source_j[j + r] + i * size));
}

template <class T, int L> static void turn_from(Tile t, int64_t j) {
    constexpr int64_t K = 16 / sizeof(T), B = K * L;
    if (t.ni >= K)
        for (; j + B <= t.nj || (L == 1 && j < t.nj && t.nj >= B); j += B) {
            if (j + B > t.nj) j = t.nj - B;  // the last rows again
            turn_rows<T, L>(t, j);
        }
    else
        while (j + B <= t.nj && turn_few_columns<T, L>(t, j)) j += B;
    if (j >= t.nj) return;
    if constexpr (L > 1) turn_from<T, L / 2>(t, j);
    else turn_few_rows<T>(t, j);
}

// Fewer rows than a vector of 16 bytes has places: log2(R) rounds give whole places of R elements, R >= nj.  Each is stored
// with what follows it, which the next place then overwrites.
template <class T, int R, int L> static void turn_to_places(Tile t) {
    constexpr int64_t size = sizeof(T), K = 16 / size, N = K * L, place = R * size;
    typedef typename Vector<T, L>::Type V;
    typedef typename std::conditional<place == 16, Two, typename std::conditional<place == 8, uint64_t, uint32_t>::type>::type Place;
    if (t.ni < N) {
        if constexpr (L > 1) return turn_to_places<T, R, 1>(t);
        return turn_from<T, 1>(t, 0);
    }
    alignas(64) char part[N * place];
    const int64_t own = t.nj * size, safe = t.group ? 0 : t.ni - 16 / own - 1;
    for (int64_t i = 0; i < t.ni; i += N) {
        if (i + N > t.ni) i = t.ni - N;
        t.fetch->go((own * N + 63) / 64);
        V a[R];
        for (int k = 0; k < R; k++) a[k] = load<V>(t.source + t.source_j[least(k, t.nj - 1)] + i * size);
        interleave_rounds<T, L, R>(a);
        for (int k = 0; k < R; k++) store(part + k * 16 * L, a[k]);
        for (int l = 0; l < L; l++)
            for (int m = 0; m < R; m++)
                for (int q = 0; q < K / R; q++) {
                    int64_t at = i + l * K + m * (K / R) + q;
                    const char* from = part + m * 16 * L + 16 * l + q * place;
                    char* to = t.target + t.target_i[at];
                    if (at < safe) store(to, load<Place>(from));
                    else copy_16(to, from, own);
                }
    }
}

template <class T> static void turn(Tile t) {
    constexpr int64_t K = 16 / sizeof(T);
    if constexpr (K == 16) {
        if (t.nj > 2 && t.nj <= 4) return turn_to_places<T, 4, LANES>(t);
        if (t.nj > 4 && t.nj <= 8) return turn_to_places<T, 8, LANES>(t);
        if (t.nj > 8 && t.nj < 16) return turn_to_places<T, 16, LANES>(t);
    }
    if constexpr (K == 8) {
        if (t.nj > 2 && t.nj <= 4) return turn_to_places<T, 4, LANES>(t);
        if (t.nj > 4 && t.nj < 8) return turn_to_places<T, 8, LANES>(t);
    }
    turn_from<T, LANES>(t, 0);
}

// Elements of 16 bytes need no interleaving: four rows at a time write a line of the target, and the last rows follow.
template <int Rows> INLINE void turn_16_last(const Tile& t, int64_t j) {
    for (int64_t i = 0; i < t.ni; i++) {
        t.fetch->go(1);
        char* at = t.target + 16 * j + t.target_i[i];
        for (int k = 0; k < Rows; k++) store(at + 16 * k, load<Two>(t.source + t.source_j[j + k] + 16 * i));
    }
}
static void turn_16(Tile t) {
    if (t.ni <= 4 && !t.pack) return columns<Two>(t);  // 1.25 times as fast in cache; they read each line of the source again
    int64_t j = 0;
    for (; j + 4 <= t.nj; j += 4) {
        const char *a = t.source + t.source_j[j], *b = t.source + t.source_j[j + 1], *c = t.source + t.source_j[j + 2],
                   *d = t.source + t.source_j[j + 3];
        char* to = t.target + 16 * j;
        for (int64_t i = 0; i < t.ni; i++) {
            t.fetch->go(1);
            Two w = load<Two>(a + 16 * i), x = load<Two>(b + 16 * i), y = load<Two>(c + 16 * i), z = load<Two>(d + 16 * i);
            char* at = to + t.target_i[i];
            store(at, w), store(at + 16, x), store(at + 32, y), store(at + 48, z);
        }
    }
    if (t.nj - j == 3) turn_16_last<3>(t, j);
    else if (t.nj - j == 2) turn_16_last<2>(t, j);
    else if (t.nj - j == 1) turn_16_last<1>(t, j);
}

// ------------------------------------------------------------------------------------------------------------------ zips
// Two to four places on one side: C vectors in, C vectors out, in each lane.  r0 r1 r2 .. | g0 g1 g2 .. | b0 b1 b2 ..  zipped is
// r0 g0 b0 r1 | g1 b1 r2 g2 | ..; unzip is the way back.
//
// A round of interleaving takes element n of all rows, in order, to 2 n modulo their number less one.  So log2(C) rounds zip 2
// or 4 rows of K, and log2(K) more bring them back: those unzip.
//
// With C = 3, element k of row c goes to place 3 k + c, which is (3 k + c) % K in its vector: another one for each k.  So each
// row is permuted once, and every vector takes the elements that belong to it from their places.  This needs a permutation of
// bytes in one instruction.
#if LEVEL || defined(__SSSE3__) || defined(__ARM_NEON)

// Element e of a vector is place e % K of its lane.  Row whose element comes to that place of zipped vector m, and back.
constexpr int row_of(int m, int e, int K) { return (m * K + e % K) % 3; }
constexpr int vector_of(int row, int e, int K) { return (row + 3 * K - e % K) * K % 3; }  // K * K % 3 is 1
constexpr int spread(int row, int e, int K) { return e / K * K + (e % K + K * 3 - row) * 11 % K; }  // 3 * 11 % K is 1
constexpr int gather(int row, int e, int K) { return e / K * K + (e % K * 3 + row) % K; }

template <class T, int L, int Row, bool Zip, size_t... E>
INLINE typename Vector<T, L>::Type permute(typename Vector<T, L>::Type v, std::index_sequence<E...>) {
    constexpr int K = 16 / sizeof(T);
    return __builtin_shufflevector(v, v, (Zip ? spread(Row, E, K) : gather(Row, E, K))...);
}
template <class T, int L, int Out, bool Zip, size_t... E>
INLINE typename Vector<T, L>::Type blend(const typename Vector<T, L>::Type* v, std::index_sequence<E...>) {
    constexpr int K = 16 / sizeof(T), N = K * L;
    auto a = __builtin_shufflevector(v[0], v[1], int((Zip ? row_of(Out, E, K) : vector_of(Out, E, K)) == 1 ? N + E : E)...);
    return __builtin_shufflevector(a, v[2], int((Zip ? row_of(Out, E, K) : vector_of(Out, E, K)) == 2 ? N + E : E)...);
}

template <class T, int C, int L> INLINE void zip_vectors(typename Vector<T, L>::Type* v) {
    if constexpr (C == 3) {
        constexpr auto all = std::make_index_sequence<16 / sizeof(T) * L>();
        v[0] = permute<T, L, 0, true>(v[0], all), v[1] = permute<T, L, 1, true>(v[1], all), v[2] = permute<T, L, 2, true>(v[2], all);
        auto a = blend<T, L, 0, true>(v, all), b = blend<T, L, 1, true>(v, all), c = blend<T, L, 2, true>(v, all);
        v[0] = a, v[1] = b, v[2] = c;
    } else interleave_rounds<T, L, C>(v);
}
template <class T, int C, int L> INLINE void unzip_vectors(typename Vector<T, L>::Type* v) {
    if constexpr (C == 3) {
        constexpr auto all = std::make_index_sequence<16 / sizeof(T) * L>();
        auto a = blend<T, L, 0, false>(v, all), b = blend<T, L, 1, false>(v, all), c = blend<T, L, 2, false>(v, all);
        v[0] = permute<T, L, 0, false>(a, all), v[1] = permute<T, L, 1, false>(b, all), v[2] = permute<T, L, 2, false>(c, all);
    } else interleave_rounds<T, L, C>(v, log2_of_power(16 / sizeof(T)));
}

// On the zipped side, lane l of vector m is number l * C + m of the pieces of 16 bytes.
template <class T, int C, int L> INLINE typename Vector<T, L>::Type load_zipped(const char* from, int m) {
    const char* row[4];
    for (int l = 0; l < L; l++) row[l] = from + 16 * (l * C + m);
    return load_lanes<T, L>(row, 1, 0);
}
template <int C, int P, class V> INLINE Four pair(const V* v) {  // pieces 2 P and 2 P + 1
    constexpr int a = 2 * P, b = a + 1, words = sizeof(V) / 8;
    typedef typename Vector<uint64_t, sizeof(V) / 16>::Type Words;
    return __builtin_shufflevector((Words)v[a % C], (Words)v[b % C], a / C * 2, a / C * 2 + 1, words + b / C * 2, words + b / C * 2 + 1);
}
template <int C, class V, size_t... P> INLINE void store_pairs(char* to, const V* v, std::index_sequence<P...>) {
    (store(to + 32 * P, pair<C, P>(v)), ...);
}
template <int C, class V> INLINE void store_zipped(char* to, const V* v) {
    if constexpr (sizeof(V) > 16) store_pairs<C>(to, v, std::make_index_sequence<C * sizeof(V) / 32>());
    else
        for (int c = 0; c < C; c++) store(to + 16 * c, v[c]);
}

template <class T, int C, int W> INLINE void zip_block(char* to, const Tile& t, int64_t i) {
    typename Vector<T, W / 16>::Type v[C];
    for (int c = 0; c < C; c++) v[c] = load<typename Vector<T, W / 16>::Type>(t.source + t.source_j[c] + i * int(sizeof(T)));
    zip_vectors<T, C, W / 16>(v);
    store_zipped<C>(to, v);
}

// Groups of places without a gap are zipped in place; of shorter ones, as many as a vector holds at a time.
template <class T, int C, int W> INLINE void zip_by(const Tile& t) {
    constexpr int64_t size = sizeof(T), K = W / size, place = C * size;
    int64_t group = t.group ? least(t.group, t.ni) : t.ni, done = 0;
    if (group >= K)
        for (; done < t.ni; done += group) {
            char* to = t.target + t.target_i[done];
            for (int64_t i = 0; i < group; i += K) {
                if (i + K > group) i = group - K;  // the last places again
                t.fetch->go((place * K + 63) / 64);
                zip_block<T, C, W>(to + i * place, t, done + i);
            }
        }
    else if (W > 16 && (t.ni < K || group >= 16 / size)) return zip_by<T, C, 16>(t);
    else {
        char part[C * W];
        const int64_t some = K / group * group;
        for (; done + K <= t.ni; done += some) {
            t.fetch->go((place * some + 63) / 64);
            zip_block<T, C, W>(part, t, done);
            for (int64_t k = 0; k < some; k += group) copy_run(t.target + t.target_i[done + k], part + k * place, place * group);
        }
    }
    for (; done < t.ni; done++)
        for (int c = 0; c < C; c++) store(t.target + t.target_i[done] + c * size, load<T>(t.source + t.source_j[c] + done * size));
}
template <class T, int C> static void zip(Tile t) { t.nj == C ? zip_by<T, C, 16 * LANES>(t) : turn<T>(t); }

template <class T, int C, int W> INLINE void unzip_block(const char* from, const Tile& t, int64_t j) {
    typename Vector<T, W / 16>::Type v[C];
    for (int c = 0; c < C; c++) v[c] = load_zipped<T, C, W / 16>(from, c);
    unzip_vectors<T, C, W / 16>(v);
    for (int c = 0; c < C; c++) store(t.target + t.target_i[c] + j * int(sizeof(T)), v[c]);
}

template <class T, int C, int W> INLINE void unzip_by(const Tile& t) {
    constexpr int64_t size = sizeof(T), K = W / size, place = C * size;
    int64_t group = t.group ? least(t.group, t.nj) : t.nj, done = 0;
    if (group >= K)
        for (; done < t.nj; done += group) {
            const char* from = t.source + t.source_j[done];
            for (int64_t j = 0; j < group; j += K) {
                if (j + K > group) j = group - K;
                t.fetch->go((place * K + 63) / 64);
                unzip_block<T, C, W>(from + j * place, t, done + j);
            }
        }
    else if (W > 16 && (t.nj < K || group >= 16 / size)) return unzip_by<T, C, 16>(t);
    else {
        char part[C * W] = {};
        const int64_t some = K / group * group;
        for (; done + K <= t.nj; done += some) {
            t.fetch->go((place * some + 63) / 64);
            for (int64_t k = 0; k < some; k += group) copy_run(part + k * place, t.source + t.source_j[done + k], place * group);
            unzip_block<T, C, W>(part, t, done);  // writes a few places too many, which the next block writes again
        }
    }
    for (; done < t.nj; done++)
        for (int c = 0; c < C; c++) store(t.target + done * size + t.target_i[c], load<T>(t.source + t.source_j[done] + c * size));
}
template <class T, int C> static void unzip(Tile t) { t.ni == C ? unzip_by<T, C, 16 * LANES>(t) : turn<T>(t); }

#define CHANNELS(f, T) {f<T, 2>, f<T, 3>, f<T, 4>}
#define EACH_SIZE(f) {CHANNELS(f, uint8_t), CHANNELS(f, uint16_t), CHANNELS(f, uint32_t), CHANNELS(f, uint64_t)}
#else
#define EACH_SIZE(f) {}
#endif

static constexpr Kernels table = {
    {any<uint8_t>, any<uint16_t>, any<uint32_t>, any<uint64_t>, any<Two>}, runs, whole_runs,
    {step<uint8_t>, step<uint16_t>, step<uint32_t>, step<uint64_t>, step<Two>},
    {turn<uint8_t>, turn<uint16_t>, turn<uint32_t>, turn<uint64_t>, turn_16},
    EACH_SIZE(zip), EACH_SIZE(unzip), copy,
};
#undef EACH_SIZE
#undef CHANNELS

}}  // namespace gpulayout::INSTRUCTIONS
