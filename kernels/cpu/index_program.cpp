// Index conversions and look-up moves: runs a program of gpulayout/moves/index_program.py on blocks of indices.
//
//   1. The program becomes steps, each a loop over the rows of a block: read what is given, add a quotient times a weight, compare
//      with a bound, write.  A row has a number of each index; all rows of a block stay in the first-level cache.  A quotient that
//      takes a multiplication has a row of its own, as several sums may need it.
//
//          row = place - place // 3 * 3        quotient = 0 + place // 3 * 1      row = place + quotient * -3
//          column = place // 3                 column is `quotient`
//
//   2. Numbers are unsigned words of 32 or 64 bits that wrap.  A division is a multiplication by a reciprocal, see `divisor_of`.
//   3. Threads share the blocks: see threads.h.
//
// The file reads from the top: divisions, steps, blocks, conversions, look-ups.
#include "index_program.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "instruction_sets.h"
#include "new_pages.h"
#include "threads.h"

#if defined(__clang__)
#define EACH_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define EACH_APART _Pragma("GCC ivdep")
#endif

namespace gpulayout {
namespace {

// ------------------------------------------------------------------------------------------------------------ divisions

typedef unsigned __int128 Wide;
enum Division { NOTHING, SHIFT, MULTIPLY };

struct Divisor {
    Division way;
    int shift;  // MULTIPLY: beyond the width of a word
    uint64_t multiplier, plus;
};

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
struct IndexKernels {
    uint64_t (*most[4])(const char* numbers, int64_t n);
    void (*stream)(char* to, const char* from, int64_t bytes);
    WordKernels words[2];  // of 32 and of 64 bits
};

}  // namespace
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

// ---------------------------------------------------------------------------------------------------------------- steps

// Of a row, and in a block.  With 4 KB the linear indices of 10 million logical ones in 6 dimensions took 1.6 times as long: the
// more rows are read in turn, and the more of each, the less the processor fetches ahead.
constexpr int64_t ROW_BYTES = 1024, MOST_INDICES = ROW_BYTES / 4;
constexpr int ZEROS = 0, LINEAR = 1;  // the first rows: zeros, and the given linear indices

namespace {

struct Step {
    enum Kind { LOAD, ADD, PAST, STORE } kind;
    int into, base, from;  // rows
    Divisor by;
    uint64_t weight;
    int64_t row, bound;   // LOAD: of what is given; STORE: of the result
    bool checks = false;  // a bound depends on what it computes
};

struct Compiled : Program {
    int bits;
    int64_t streamed;
    const IndexKernels* set;
    std::vector<Step> steps;
    int rows = 2;
    const WordKernels& words() const { return set->words[bits == 64]; }
    int64_t block() const { return ROW_BYTES * 8 / bits; }
};

// Writes the steps of a program.
class Writer {
    struct Sum {
        int row = ZEROS;
        bool is_own = false;  // the row has nothing but this sum
    };
    Compiled& p;
    Sum linear, target;
    std::map<int64_t, int> registers{{NONE, LINEAR}};
    std::map<std::pair<int, int64_t>, int> quotients;  // rows by what is divided, and by how much

    // Adds what a step computes.
    void put(Sum& sum, Step step) {
        step.base = sum.row;
        if (!sum.is_own) sum = {p.rows++, true};
        step.into = sum.row;
        p.steps.push_back(step);
    }
    void load(Sum& sum, const Instruction& each, uint64_t weight) {
        put(sum, {Step::LOAD, 0, 0, ZEROS, {}, weight, each.load, each.bound});
    }

    // Adds row // divisor * weight; is_shared: other sums may need the quotient.
    void add(Sum& sum, int row, int64_t divisor, uint64_t weight, bool is_shared = true) {
        if (divisor < 1) throw std::invalid_argument("divisors are positive");
        if (row == ZEROS || (p.bits == 32 && divisor >> 32)) return;
        Divisor by = divisor_of(uint64_t(divisor), p.bits);
        if (by.way == MULTIPLY && is_shared) {
            Sum quotient;
            int& found = quotients[{row, divisor}];
            if (!found) put(quotient, {Step::ADD, 0, 0, row, by, 1, 0, 0}), found = quotient.row;
            row = found, by = divisor_of(1, p.bits);
        }
        if (sum.row == ZEROS && by.way == NOTHING && weight == 1) sum.row = row;
        else put(sum, {Step::ADD, 0, 0, row, by, weight, 0, 0});
    }

    void write(const Instruction& each) {
        const bool at_once = each.load >= 0 && each.keep < 0 && each.adds.size() == 1 && each.adds[0].divisor == 1;
        if (at_once) return load(linear, each, each.adds[0].weight);
        Sum number;
        if (each.load >= 0) load(number, each, 1);
        else for (const Quotient& term : each.terms) {
            auto found = registers.find(term.number);
            if (found == registers.end()) throw std::invalid_argument("registers are filled before they are read");
            add(number, found->second, term.divisor, term.weight);
        }
        if (each.load < 0 && each.bound >= 0) p.steps.push_back({Step::PAST, 0, 0, number.row, {}, 0, 0, each.bound});
        if (each.keep >= 0) registers[each.keep] = number.row;
        for (const Quotient& one : each.adds) add(linear, number.row, one.divisor, one.weight, each.keep >= 0);
        if (p.direction == DELINEARIZE && each.store >= 0) store(number, each.store);
        if (p.direction == LOOK_UP && each.store != NONE) add(target, number.row, 1, uint64_t(each.store));
    }
    void store(const Sum& sum, int64_t row) { p.steps.push_back({Step::STORE, 0, 0, sum.row, {}, 0, row, 0}); }

public:
    Writer(Compiled& program, const std::vector<Instruction>& instructions) : p(program) {
        if (p.direction == DELINEARIZE || p.direction == CONVERT_LINEAR) p.steps.push_back({Step::LOAD, LINEAR, ZEROS, 0, {}, 1, 0, p.size});
        for (const Instruction& each : instructions) write(each);
        if (p.direction != DELINEARIZE) store(linear, 0);
        if (p.direction == LOOK_UP) store(target, 1);
        std::vector<bool> is_needed(size_t(p.rows));
        for (auto step = p.steps.rbegin(); step != p.steps.rend(); step++) {
            step->checks = step->kind == Step::PAST || (step->kind != Step::STORE && is_needed[size_t(step->into)]);
            if (step->checks) is_needed[size_t(step->base)] = is_needed[size_t(step->from)] = true;
        }
    }
};

}  // namespace

std::unique_ptr<const Program> compiled(Direction direction, const std::vector<Instruction>& instructions, int64_t size, int bits, int64_t streamed) {
    auto p = std::make_unique<Compiled>();
    p->direction = direction, p->given = 0, p->results = direction != DELINEARIZE, p->size = size;
    p->bits = bits, p->streamed = streamed, p->set = &kernels();
    for (const Instruction& each : instructions) {
        p->given = std::max(p->given, each.load + 1);
        if (direction == DELINEARIZE) p->results = std::max(p->results, each.store + 1);
    }
    if (p->given && direction != LINEARIZE) throw std::invalid_argument("only linearize reads coordinates");
    Writer(*p, instructions);
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
static int64_t scratch_of(const Compiled& p) { return p.rows * ROW_BYTES + int64_t(sizeof(Room)); }

// Indices first..first + n - 1 of a call.
struct Block {
    const Compiled& p;
    const Conversion& c;
    char* scratch;
    int64_t first, n;
    bool checks_given, streams;
    bool has_mask = false;
    int64_t offender = INT64_MAX;

    Room& room() const { return *reinterpret_cast<Room*>(scratch); }
    char* row(int number) const { return scratch + sizeof(Room) + number * ROW_BYTES; }
    char* result(int64_t number) const { return c.result + (number * c.count + first) * c.result_size; }

    // keeps: what it computes is wanted.  Stops before what is out of bounds.
    void load(const Step& s, bool keeps) {
        const Given& g = c.given;
        const char* from = g.at + s.row * g.row + first * g.step;
        const char* const room_given = reinterpret_cast<char*>(room().given);
        int log = log2_of(g.size);
        auto limit = [&] { return log == 3 ? uint64_t(s.bound) : std::min(uint64_t(s.bound), uint64_t(1) << (8 * g.size - g.is_signed)); };
        const bool brings_in = (c.mode == WRAP || c.mode == CLIP) && (g.step != g.size || p.set->most[log](from, n) >= limit());
        if (g.step != g.size || brings_in) WIDEN[log][g.is_signed](room().given, from, g.step, n), from = room_given, log = 3;
        if (brings_in) bring_in(room().given, n, s.bound, c.mode == WRAP, g.is_signed);
        uint64_t found = 0;
        if (keeps) found = p.words().load[log](row(s.into), row(s.base), from, s.weight, n);
        else if (checks_given) found = p.set->most[log](from, n);
        if (!checks_given || found < limit()) return;
        int64_t k = 0;
        while (p.set->most[log](from + (k << log), 1) < limit()) k++;
        offender = first + k, n = k;
    }

    void store(int from, int64_t number) {
        char* to = result(number);
        auto write = p.words().store[log2_of(c.result_size)];
        if (!streams) return write(to, row(from), n);
        char* here = room().result + (reinterpret_cast<uintptr_t>(to) & 63);  // its place in a line
        write(here, row(from), n);
        p.set->stream(to, here, n * c.result_size);
    }

    void past(int from, int64_t bound) {
        if (!has_mask) std::memset(room().mask, 0, size_t(n));
        has_mask |= p.words().past(room().mask, row(from), uint64_t(bound), n);
    }

    void run(bool checks_sums) {
        const bool writes = c.result;
        for (const Step& s : p.steps) {
            const bool is_wanted = writes || (checks_sums && s.checks);
            if (s.kind == Step::LOAD) load(s, is_wanted);
            else if (s.kind == Step::PAST) checks_sums ? past(s.from, s.bound) : void();
            else if (!is_wanted) continue;
            else if (s.kind == Step::ADD) p.words().add[s.by.way](row(s.into), row(s.base), row(s.from), s.by, s.weight, n);
            else store(s.from, s.row);
        }
    }
};

// ---------------------------------------------------------------------------------------------------------- conversions

// On the heap: see `Call`.
struct Job {
    const Compiled& p;
    Conversion c;
    bool looks, streams;  // it looks for indices that cannot be converted, and writes around the caches
    int64_t early;        // blocks begin so many indices early, so that they begin with lines of what is given
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
    const int64_t size = job.p.block();
    std::memset(worker.scratch + sizeof(Room), 0, size_t(ROW_BYTES));  // ZEROS
    for (int64_t k = first; k < last; k++) {
        int64_t begin = std::max<int64_t>(k * size - job.early, 0), end = std::min((k + 1) * size - job.early, c.count);
        if (begin > job.offender.load()) continue;
        Block block{job.p, c, worker.scratch, begin, end - begin, job.looks, job.streams};
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

gl_result convert(const Program& program, const Conversion& c, int threads, gl_poll poll, void* about, int64_t& offender) {
    const Compiled& p = static_cast<const Compiled&>(program);
    const bool looks = !c.is_checked && (c.mode == RAISE || c.mode == MARK);  // with a result: that is new, and so in the caches
    const int64_t written = c.result ? p.results * c.result_size : 0;
    const int64_t bytes = p.block() * (std::max<int64_t>(p.given, 1) * c.given.size + written);
    const int64_t early = c.given.step == c.given.size ? int64_t(reinterpret_cast<uintptr_t>(c.given.at) % 64) / c.given.size : 0;
    const int64_t blocks = c.count ? (c.count + early + p.block() - 1) / p.block() : 0;
    std::unique_ptr<Job> job(new (std::nothrow) Job{p, c, looks, !looks && written * c.count >= p.streamed, early});
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
    const Compiled& p;
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
    const int64_t slots = 8 / c.source_bits;
    const int shift = log2_of(slots), only = (1 << c.source_bits) - 1;
    for (int64_t k = 0; k < n; k++)
        to[k] = mask && mask[k] ? c.pad[0] : char(uint8_t(c.source[places[k] >> shift]) >> (places[k] & (slots - 1)) * c.source_bits & only);
}
static void write_bits(const char* from, char* to, int bits, int64_t n) {
    for (int64_t k = 0, slots = 8 / bits; k < n; k += slots) {
        int byte = 0;
        for (int64_t j = 0; j < std::min(slots, n - k); j++) byte |= (from[k + j] & ((1 << bits) - 1)) << j * bits;
        to[k / slots] = char(byte);
    }
}
using Read = void (*)(char*, const LookUp&, const int64_t*, const uint8_t*, int64_t);
using Write = void (*)(const char*, const LookUp&, const int64_t*, int64_t);
static constexpr Read READ[] = {read_elements<1>, read_elements<2>, read_elements<4>, read_elements<8>, read_elements<16>};
static constexpr Write WRITE[] = {write_elements<1>, write_elements<2>, write_elements<4>, write_elements<8>, write_elements<16>};

template <class Word> static void count_up(char* row, int64_t first, int64_t n) {
    Word* x = reinterpret_cast<Word*>(row);
    for (int64_t k = 0; k < n; k++) x[k] = Word(first + k);
}

static void run_look_up(const Call& call, int64_t first, int64_t last, Worker& worker) {
    const LookUpJob& job = *static_cast<const LookUpJob*>(call.plan);
    const Compiled& p = job.p;
    const LookUp& c = job.c;
    Room& room = *reinterpret_cast<Room*>(worker.scratch);
    const Conversion places{{nullptr, 0, 0, 1, 1, false}, reinterpret_cast<char*>(room.places), 8, MOST_INDICES, RAISE, false};
    std::memset(worker.scratch + sizeof(Room), 0, size_t(ROW_BYTES));  // ZEROS
    for (int64_t begin = first * p.block(); begin < std::min(last * p.block(), p.size); begin += p.block()) {
        const int64_t n = std::min(p.block(), p.size - begin);
        Block block{p, places, worker.scratch, 0, n, false, false};
        p.bits == 64 ? count_up<uint64_t>(block.row(LINEAR), begin, n) : count_up<uint32_t>(block.row(LINEAR), begin, n);
        block.run(true);
        const int bytes = std::max(c.target_bits / 8, 1);
        char* target = c.target + begin * bytes;
        char* to = c.is_strided || c.target_bits < 8 ? room.elements : target;
        (c.source_bits < 8 ? read_bits : READ[log2_of(c.source_bits / 8)])(to, c, room.places[0], block.has_mask ? room.mask : nullptr, n);
        if (c.target_bits < 8) write_bits(to, c.target + begin * c.target_bits / 8, c.target_bits, n);
        else if (c.is_strided) WRITE[log2_of(bytes)](to, c, room.places[1], n);
    }
}

}  // namespace

gl_result look_up(const Program& program, const LookUp& c, int threads, gl_poll poll, void* about) {
    const Compiled& p = static_cast<const Compiled&>(program);
    const int64_t blocks = (p.size + p.block() - 1) / p.block(), bytes = p.block() * (8 + c.source_bits / 8 + c.target_bits / 8);
    std::unique_ptr<LookUpJob> job(new (std::nothrow) LookUpJob{p, c});
    if (!job) return GL_NO_MEMORY;
    Call call{run_look_up, job.get(), nullptr, nullptr, blocks, scratch_of(p)};
    return share(call, int(std::min<int64_t>(threads, blocks * bytes / SHARE)), std::max<int64_t>(1, PORTION / bytes), poll, about);
}

}  // namespace gpulayout
