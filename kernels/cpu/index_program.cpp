// Index conversions and look-up moves: runs the steps of a program on blocks of indices.
//
//   1. Each step of gpulayout/cpu/index.py is a loop over the rows of a block: read what is given, add a quotient times a
//      weight, compare with a bound, write.  A row has a number of each index; all rows of a block stay in the first-level cache.
//   2. Numbers are unsigned words of 32 or 64 bits that wrap.  A division is a multiplication by a reciprocal, see `divisor_of`.
//   3. Threads share the blocks: see threads.h.
//
// The file reads from the top: divisions, blocks, conversions, look-ups.
#include "index_program.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "instruction_sets.h"
#include "new_pages.h"
#include "threads.h"

namespace gpulayout {
namespace {

// ------------------------------------------------------------------------------------------------------------ divisions

typedef unsigned __int128 Wide;

// Exact for every word x of W bits.  With s = floor(log2 d), 2^s < d < 2^(s + 1), let up = floor(2^(W + s) / d) + 1 and
// e = up * d - 2^(W + s), so 0 < e < d, and up <= 2^W as d > 2^s.
//
//   e <= 2^s:  x * up / 2^(W + s) = x / d + x * e / (d * 2^(W + s)).  It rounds down to x // d if the second part is below 1 / d,
//              that is x * e < 2^(W + s), which holds as x < 2^W.
//   else:      (x + 1) * (up - 1) / 2^(W + s) = (x + 1) / d - (x + 1) * (d - e) / (d * 2^(W + s)), where d - e < 2^s.  The second
//              part is above 0 and at most 1 / d, so the whole is at least x / d and below (x + 1) / d, and rounds down to x // d.
//
// Products have at most 2 W bits.
static Divisor divisor_of(uint64_t d, int bits) {
    int log = 63 - __builtin_clzll(d);
    if (!(d & (d - 1))) return {log ? SHIFT : NOTHING, log, 0, 0};
    Wide power = Wide(1) << (bits + log), up = power / d + 1;
    bool is_near = up * d - power <= Wide(1) << log;
    return {MULTIPLY, log, uint64_t(is_near ? up : up - 1), uint64_t(is_near ? 0 : up - 1)};
}

template <class Word, Division Way> static inline __attribute__((always_inline)) Word quotient(Word x, const Divisor& by) {
    typedef std::conditional_t<sizeof(Word) == 4, uint64_t, Wide> Product;
    if (Way == NOTHING) return x;
    if (Way == SHIFT) return Word(x >> by.shift);
    return Word((Product(x) * Product(Word(by.multiplier)) + Product(Word(by.plus))) >> (8 * sizeof(Word) + by.shift));
}

struct WordKernels {
    uint64_t (*load[4])(void* into, const void* base, const char* given, uint64_t weight, int64_t n);  // by log2 of the size
    void (*add[3])(void* into, const void* base, const void* numbers, const Divisor& by, uint64_t weight, int64_t n);
    bool (*past)(uint8_t* mask, const char* numbers, uint64_t bound, int64_t n);
    void (*store[4])(char* to, const void* numbers, int64_t n);
};

}  // namespace

struct IndexKernels {
    uint64_t (*most[4])(const char* numbers, int64_t n);
    WordKernels words[2];  // of 32 and of 64 bits
};

}  // namespace gpulayout

#define KERNELS "index_kernels.h"
#include "each_instruction_set.h"

namespace gpulayout {

static const IndexKernels& kernels() {
#if IS_X86_64
    static const IndexKernels* const tables[] = {&baseline::index_table, &avx2::index_table, &avx512::index_table};
    return *tables[gl_used_set()];
#else
    return baseline::index_table;
#endif
}

// Of a row, and in a block.  With 4 KB the linear indices of 10 million logical ones in 6 dimensions took 1.6 times as long: the
// more rows are read in turn, and the more of each, the less the processor fetches ahead.
constexpr int64_t ROW_BYTES = 1024, MOST_INDICES = ROW_BYTES / 4;
constexpr int MOST_ROWS = 1 << 12;

Program compiled(std::vector<Step> steps, int bits, int64_t places) {
    Program p{std::move(steps), bits, places, &kernels(), 2, 0, 0};
    for (Step& s : p.steps) {
        const bool computes = s.kind == Step::LOAD || s.kind == Step::ADD;
        for (int row : {s.into, s.base, s.number})
            if (row < 0 || row >= MOST_ROWS || (computes && !s.into)) throw std::invalid_argument("rows from 0 on, of which 0 is not written");
        if ((!computes && s.kind != Step::PAST && s.kind != Step::STORE) || s.divisor < 1 || (bits == 32 && s.divisor >> 32) ||
            s.side < 0 || s.side >= MOST_ROWS)
            throw std::invalid_argument("four kinds of steps, with words from 1 on as divisors");
        s.by = divisor_of(uint64_t(s.divisor), bits);
        p.rows = std::max({p.rows, s.into + 1, s.base + 1, s.number + 1});
        if (s.kind == Step::LOAD) p.given = std::max(p.given, s.side + 1);
        if (s.kind == Step::STORE) p.results = std::max(p.results, s.side + 1);
    }
    if (places >= 0 && (p.given > 1 || p.results != 2)) throw std::invalid_argument("a look-up has one row of indices and two of places");
    return p;
}

// --------------------------------------------------------------------------------------------------------------- blocks

namespace {

static int log2_of(int64_t size) { return 63 - __builtin_clzll(uint64_t(size)); }

// Integers that lie apart.
template <class T> static void widen(uint64_t* to, const char* from, int64_t step, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        T x;
        std::memcpy(&x, from + k * step, sizeof x);
        to[k] = uint64_t(x);
    }
}
using Widen = void (*)(uint64_t*, const char*, int64_t, int64_t);
static constexpr Widen WIDEN[4][2] = {{widen<uint8_t>, widen<int8_t>}, {widen<uint16_t>, widen<int16_t>},
                                      {widen<uint32_t>, widen<int32_t>}, {widen<uint64_t>, widen<int64_t>}};

// Coordinates modulo their bound, or the nearest ones below it.
static void bring_in(uint64_t* numbers, int64_t n, int64_t bound, bool wraps, bool is_signed) {
    const uint64_t size = uint64_t(std::max<int64_t>(bound, 1));
    const Divisor by = divisor_of(size, 64);
    for (int64_t k = 0; k < n; k++) {
        const uint64_t x = numbers[k];
        const bool is_below = is_signed && x >> 63;
        uint64_t up = is_below ? ~x : x;
        up -= (by.way == MULTIPLY ? quotient<uint64_t, MULTIPLY>(up, by) : up >> by.shift) * size;  // -1 becomes the last
        numbers[k] = wraps ? is_below ? size - 1 - up : up : is_below ? 0 : std::min(x, size - 1);
    }
}

// What a block has beside its rows.
struct Room {
    alignas(64) uint64_t given[MOST_INDICES];
    alignas(64) char result[MOST_INDICES * 8 + 64];
    alignas(64) int64_t places[2][MOST_INDICES];  // of look-ups
    alignas(64) char elements[MOST_INDICES * 16];
    uint8_t mask[MOST_INDICES];  // not 0: padding
};
// The begin of a line of a result, which is written whole, and only once, when the next block has the rest.
struct Line {
    char bytes[64];
    int64_t kept;
};
static int64_t block_of(const Program& p) { return ROW_BYTES * 8 / p.bits; }
static int64_t scratch_of(const Program& p) { return int64_t(sizeof(Room)) + p.rows * ROW_BYTES + p.results * int64_t(sizeof(Line)); }

// Indices first..first + n - 1 of a call.
struct Block {
    const Program& p;
    const Conversion& c;
    char* scratch;
    int64_t first, n;
    bool checks_given, streams, goes_on;  // goes_on: to the next block
    bool has_mask = false;
    int64_t offender = INT64_MAX;

    Room& room() const { return *reinterpret_cast<Room*>(scratch); }
    char* row(int number) const { return scratch + sizeof(Room) + number * ROW_BYTES; }
    const WordKernels& words() const { return p.set->words[p.bits == 64]; }
    char* result(int64_t number) const { return c.result + (number * c.count + first) * c.result_size; }

    // keeps: what it computes is wanted.  Stops before what is out of bounds.
    void load(const Step& s, bool keeps) {
        const Given& g = c.given;
        const char* from = g.at + s.side * g.row + first * g.step;
        const char* const room_given = reinterpret_cast<char*>(room().given);
        int log = log2_of(g.size);
        auto limit = [&] { return log == 3 ? uint64_t(s.bound) : std::min(uint64_t(s.bound), uint64_t(1) << (8 * g.size - g.is_signed)); };
        const bool brings_in = (c.mode == WRAP || c.mode == CLIP) && (g.step != g.size || p.set->most[log](from, n) >= limit());
        if (g.step != g.size || brings_in) WIDEN[log][g.is_signed](room().given, from, g.step, n), from = room_given, log = 3;
        if (brings_in) bring_in(room().given, n, s.bound, c.mode == WRAP, g.is_signed);
        uint64_t found = 0;
        if (keeps) found = words().load[log](row(s.into), row(s.base), from, s.weight, n);
        else if (checks_given) found = p.set->most[log](from, n);
        if (!checks_given || found < limit()) return;
        int64_t k = 0;
        while (p.set->most[log](from + (k << log), 1) < limit()) k++;
        offender = first + k, n = k;
    }

    void store(int from, int64_t number) {
        char* to = result(number);
        auto write = words().store[log2_of(c.result_size)];
        if (!streams) return write(to, row(from), n);
        const int64_t past = int64_t(reinterpret_cast<uintptr_t>(to) & 63);  // its place in a line
        write(room().result + past, row(from), n);
        Line& line = *reinterpret_cast<Line*>(row(p.rows) + number * int64_t(sizeof(Line)));
        std::memcpy(room().result, line.bytes, size_t(line.kept));  // none, or all that stand before
        const int64_t total = line.kept + n * c.result_size, end = (past + n * c.result_size) & 63, kept = goes_on && end <= total ? end : 0;
        const char* here = room().result + past - line.kept;
        gl_stream(to - line.kept, here, total - kept);
        std::memcpy(line.bytes, here + total - kept, size_t(kept));
        line.kept = kept;
    }

    void past(int from, int64_t bound) {
        if (!has_mask) std::memset(room().mask, 0, size_t(n));
        has_mask |= words().past(room().mask, row(from), uint64_t(bound), n);
    }

    void run(bool checks_sums) {
        const bool writes = c.result;
        for (const Step& s : p.steps) {
            const bool is_wanted = writes || (checks_sums && s.checks);
            if (s.kind == Step::LOAD) load(s, is_wanted);
            else if (s.kind == Step::PAST) checks_sums ? past(s.number, s.bound) : void();
            else if (!is_wanted) continue;
            else if (s.kind == Step::ADD) words().add[s.by.way](row(s.into), row(s.base), row(s.number), s.by, s.weight, n);
            else store(s.number, s.side);
        }
    }
};

// ---------------------------------------------------------------------------------------------------------- conversions

// On the heap: see `Call`.
struct Job {
    const Program& p;
    Conversion c;
    bool looks, streams;  // it looks for indices that cannot be converted, and writes around the caches
    int64_t early;        // blocks begin so many indices early, so that they begin with lines of the result or of what is given
    mutable std::atomic<int64_t> offender{INT64_MAX};
};

static void convert_block(const Job& job, Block& block) {
    const Conversion& c = job.c;
    block.run(c.mode == MARK ? c.result != nullptr : !c.is_checked);
    for (int64_t k = 0; block.has_mask && k < block.n; k++) {
        if (!block.room().mask[k]) continue;
        if (c.mode != MARK) return void(block.offender = block.first + k);
        for (int64_t row = 0; row < job.p.results; row++) std::memset(block.result(row) + k * c.result_size, -1, size_t(c.result_size));
    }
}

static void run_conversion(const Call& call, int64_t first, int64_t last, Worker& worker) {
    const Job& job = *static_cast<const Job*>(call.plan);
    const Conversion& c = job.c;
    const int64_t size = block_of(job.p);
    std::memset(worker.scratch + sizeof(Room), 0, size_t(ROW_BYTES));  // ZEROS
    std::memset(worker.scratch + sizeof(Room) + job.p.rows * ROW_BYTES, 0, size_t(job.p.results) * sizeof(Line));
    for (int64_t k = first; k < last; k++) {
        int64_t begin = std::max<int64_t>(k * size - job.early, 0), end = std::min((k + 1) * size - job.early, c.count);
        if (begin > job.offender.load()) continue;
        Block block{job.p, c, worker.scratch, begin, end - begin, job.looks, job.streams, c.mode != MARK && k + 1 < last};  // marks are written later
        for (int64_t row = 0; c.result && row < job.p.results; row++) {
            const char* to = block.result(row);
            make_pages(to, to + block.n * c.result_size, to + (c.count - begin) * c.result_size);
        }
        convert_block(job, block);
        for (int64_t lowest = job.offender.load(); block.offender < lowest;)
            if (job.offender.compare_exchange_weak(lowest, block.offender)) break;
    }
#if IS_X86_64
    if (job.streams) _mm_sfence();
#endif
}

}  // namespace

gl_result convert(const Program& p, const Conversion& c, int threads, gl_poll poll, void* about, int64_t& offender) {
    const bool looks = !c.is_checked && (c.mode == RAISE || c.mode == MARK);
    const int64_t written = c.result ? p.results * c.result_size : 0;
    const int64_t bytes = block_of(p) * (std::max<int64_t>(p.given, 1) * c.given.size + written);
    const bool streams = written && gl_streams(written * c.count);
    // A line that two blocks share goes to memory twice when it is written around the caches: that took twice the time.
    const char* const lines = streams ? c.result : c.given.at;
    const int64_t size = streams ? c.result_size : c.given.step == c.given.size ? c.given.size : 64;
    const int64_t early = int64_t(reinterpret_cast<uintptr_t>(lines) % 64) / size;
    const int64_t blocks = c.count ? (c.count + early + block_of(p) - 1) / block_of(p) : 0;
    std::unique_ptr<Job> job(new (std::nothrow) Job{p, c, looks, streams, early});
    if (!job) return GL_NO_MEMORY;
    Call call{run_conversion, job.get(), nullptr, nullptr, blocks, scratch_of(p)};
    gl_result result = share(call, int(std::min<int64_t>(threads, blocks * bytes / SHARE)), std::max<int64_t>(1, PORTION / bytes), poll, about);
    int64_t found = job->offender.load();
    offender = found == INT64_MAX ? -1 : found;
    return result;
}

// ------------------------------------------------------------------------------------------------------------- look-ups

namespace {

struct LookUpJob {
    const Program& p;
    LookUp c;
};

// Elements of the block, one after the other.
template <int Size> static void read_elements(char* to, const LookUp& c, const int64_t* places, const uint8_t* mask, int64_t n) {
    for (int64_t k = 0; k < n; k++) std::memcpy(to + k * Size, mask && mask[k] ? c.pad : c.source + places[k], Size);
}
template <int Size> static void write_elements(const char* from, const LookUp& c, const int64_t* places, int64_t n) {
    for (int64_t k = 0; k < n; k++) std::memcpy(c.target + places[k], from + k * Size, Size);
}
static void read_bits(char* to, const LookUp& c, const int64_t* places, const uint8_t* mask, int64_t n) {
    const int64_t slots = 8 / c.source_bits, turned = c.source_big ? slots - 1 : 0;  // 0 1 2 3 ^ 3 are 3 2 1 0
    const int shift = log2_of(slots), only = (1 << c.source_bits) - 1;
    for (int64_t k = 0; k < n; k++)
        to[k] = mask && mask[k] ? c.pad[0]
                                : char(uint8_t(c.source[places[k] >> shift]) >> ((places[k] ^ turned) & (slots - 1)) * c.source_bits & only);
}
static void write_bits(const char* from, char* to, int bits, bool big, int64_t n) {
    const int64_t slots = 8 / bits, turned = big ? slots - 1 : 0;
    for (int64_t k = 0; k < n; k += slots) {
        int byte = 0;
        for (int64_t j = 0; j < std::min(slots, n - k); j++) byte |= (from[k + j] & ((1 << bits) - 1)) << (j ^ turned) * bits;
        to[k / slots] = char(byte);
    }
}
using Read = void (*)(char*, const LookUp&, const int64_t*, const uint8_t*, int64_t);
using Write = void (*)(const char*, const LookUp&, const int64_t*, int64_t);
static constexpr Read READ[] = {read_elements<1>, read_elements<2>, read_elements<4>, read_elements<8>, read_elements<16>};
static constexpr Write WRITE[] = {write_elements<1>, write_elements<2>, write_elements<4>, write_elements<8>, write_elements<16>};

static void run_look_up(const Call& call, int64_t first, int64_t last, Worker& worker) {
    const LookUpJob& job = *static_cast<const LookUpJob*>(call.plan);
    const Program& p = job.p;
    const LookUp& c = job.c;
    Room& room = *reinterpret_cast<Room*>(worker.scratch);
    const Conversion places{{reinterpret_cast<char*>(room.given), 1, 0, 8, 8, false}, reinterpret_cast<char*>(room.places), 8, MOST_INDICES, RAISE, false};
    std::memset(worker.scratch + sizeof(Room), 0, size_t(ROW_BYTES));  // ZEROS
    for (int64_t begin = first * block_of(p); begin < std::min(last * block_of(p), p.places); begin += block_of(p)) {
        const int64_t n = std::min(block_of(p), p.places - begin);
        Block block{p, places, worker.scratch, 0, n, false, false, false};
        for (int64_t k = 0; k < n; k++) room.given[k] = uint64_t(begin + k);
        block.run(true);
        const int bytes = std::max(c.target_bits / 8, 1);
        char* target = c.target + begin * bytes;
        char* to = c.is_strided || c.target_bits < 8 ? room.elements : target;
        (c.source_bits < 8 ? read_bits : READ[log2_of(c.source_bits / 8)])(to, c, room.places[0], block.has_mask ? room.mask : nullptr, n);
        if (c.target_bits < 8) write_bits(to, c.target + begin * c.target_bits / 8, c.target_bits, c.target_big, n);
        else if (c.is_strided) WRITE[log2_of(bytes)](to, c, room.places[1], n);
    }
}

}  // namespace

gl_result look_up(const Program& p, const LookUp& c, int threads, gl_poll poll, void* about) {
    const int64_t blocks = (p.places + block_of(p) - 1) / block_of(p), bytes = block_of(p) * (8 + c.source_bits / 8 + c.target_bits / 8);
    std::unique_ptr<LookUpJob> job(new (std::nothrow) LookUpJob{p, c});
    if (!job) return GL_NO_MEMORY;
    Call call{run_look_up, job.get(), nullptr, nullptr, blocks, scratch_of(p)};
    return share(call, int(std::min<int64_t>(threads, blocks * bytes / SHARE)), std::max<int64_t>(1, PORTION / bytes), poll, about);
}

}  // namespace gpulayout
