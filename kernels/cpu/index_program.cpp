// Index conversions and look-up moves: runs a program of gpulayout/moves/index_program.py on blocks of indices.
//
//   1. The program becomes steps, each a loop over the rows of a block: read what is given, add a quotient times a weight, compare
//      with a bound, write.  A row has a number of each index; all rows of a block stay in the first-level cache.  A quotient that
//      takes a multiplication, and that several sums need, is computed once.
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
    uint64_t (*load[4])(void* into, const void* base, const void* given, uint64_t weight, int64_t n);  // by log2 of the size
    void (*add[3])(void* into, const void* base, const void* numbers, const Divisor& by, uint64_t weight, int64_t n);
    void (*store[4])(void* into, const void* numbers, int64_t n);
};
struct IndexKernels {
    uint64_t (*most[4])(const void* numbers, int64_t n);
    void (*stream)(char* to, const char* from, int64_t lines);
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
    int into, base, from;  // rows; -1: none
    Divisor by;
    uint64_t weight;
    int64_t row, bound;    // LOAD: of what is given; STORE: of the result
};

struct Steps {
    std::vector<Step> list;
    int rows = 0;
};

}  // namespace

struct Program : Sides {
    int bits;
    int64_t streamed;  // coordinates of so many bytes are written around the caches
    bool has_bounds = false;  // that sums can exceed
    Steps converts, checks;
    const IndexKernels* set;
    const WordKernels& words() const { return set->words[bits == 64]; }
    int64_t block() const { return ROW_BYTES * 8 / bits; }
};

void forget(const Program* program) { delete program; }
const Sides& sides_of(const Program& program) { return program; }

namespace {

// Writes steps as if there were any number of rows: the step in place k of the list writes row k + 2.
class Writer {
    const int bits;
    std::vector<Step> list;
    std::map<std::pair<int, int64_t>, int> quotients;  // rows by what is divided, and by how much
    std::map<int64_t, int> registers{{NONE, LINEAR}};

    int divided(int row, int64_t divisor) {
        if (bits == 32 && divisor >> 32) return ZEROS;
        if (divisor == 1 || row == ZEROS) return row;
        auto found = quotients.find({row, divisor});
        if (found != quotients.end()) return found->second;
        return quotients[{row, divisor}] = put({Step::ADD, -1, ZEROS, row, divisor_of(uint64_t(divisor), bits), 1, 0, 0});
    }
    int plus(int base, int row, uint64_t weight) {
        if (row == ZEROS) return base;
        if (base == ZEROS && weight == 1) return row;
        return put({Step::ADD, -1, base, row, divisor_of(1, bits), weight, 0, 0});
    }

    void join();

public:
    explicit Writer(int of_bits) : bits(of_bits) {}

    int put(const Step& step) {
        list.push_back(step);
        return int(list.size()) + 1;
    }
    int load(int64_t row, int64_t bound) { return put({Step::LOAD, -1, ZEROS, -1, divisor_of(1, bits), 1, row, bound}); }
    void store(int from, int64_t row) { put({Step::STORE, -1, -1, from, {}, 0, row, 0}); }
    void check(int from, int64_t bound) { put({Step::PAST, -1, -1, from, {}, 0, 0, bound}); }
    void keep(int row, int64_t in) { registers[in] = row; }

    // base + the quotients; those of `number` itself if that is given.
    int sum(int base, const std::vector<Quotient>& terms, int number = -1) {
        for (const Quotient& each : terms) {
            auto found = registers.find(each.number);
            if (each.divisor < 1 || (number < 0 && found == registers.end()))
                throw std::invalid_argument("divisors are positive, and registers filled");
            base = plus(base, divided(number < 0 ? found->second : number, each.divisor), each.weight);
        }
        return base;
    }
    Steps steps();
};

// What is read or divided for one sum only becomes one step with it.
void Writer::join() {
    std::vector<int> uses(list.size() + 2);
    for (size_t k = list.size(); k--;) {
        Step& step = list[k];
        if (step.kind == Step::ADD && !uses[k + 2]) step.base = step.from = -1;
        for (int row : {step.base, step.from}) if (row >= 0) uses[size_t(row)]++;
    }
    for (Step& step : list) {
        if (step.kind != Step::ADD || step.by.way != NOTHING || step.from <= LINEAR || uses[size_t(step.from)] > 1) continue;
        Step& before = list[size_t(step.from) - 2];
        if (before.base != ZEROS || before.weight != 1) continue;
        step = {before.kind, -1, step.base, before.from, before.by, step.weight, before.row, before.bound};
        before = {Step::ADD, -1, -1, -1, {}, 0, 0, 0};
    }
}

// The steps that something needs, in few rows: a row is free after its last use, also for what that use computes.
Steps Writer::steps() {
    join();
    std::vector<size_t> last(list.size() + 2);
    for (size_t k = 0; k < list.size(); k++)
        for (int row : {list[k].base, list[k].from}) if (row >= 0) last[size_t(row)] = k;
    Steps found;
    std::vector<int> place(list.size() + 2);
    std::vector<bool> taken{true, true};
    place[LINEAR] = LINEAR;
    for (size_t k = 0; k < list.size(); k++) {
        Step step = list[k];
        if (step.kind == Step::ADD && step.base < 0) continue;
        for (int* row : {&step.base, &step.from}) {
            if (*row < 0) continue;
            bool ends = *row > LINEAR && last[size_t(*row)] == k;
            *row = place[size_t(*row)];
            if (ends) taken[size_t(*row)] = false;
        }
        if (last[k + 2]) {
            size_t row = size_t(std::find(taken.begin(), taken.end(), false) - taken.begin());
            if (row == taken.size()) taken.push_back(true);
            taken[row] = true;
            step.into = place[k + 2] = int(row);
        }
        found.list.push_back(step);
    }
    found.rows = int(taken.size());
    return found;
}

static Steps written(const Program& p, const std::vector<Instruction>& instructions, bool converts) {
    Writer writer(p.bits);
    int linear = ZEROS, target = ZEROS;
    for (const Instruction& each : instructions) {
        int number = each.load >= 0 ? writer.load(each.load, each.bound) : writer.sum(ZEROS, each.terms);
        if (each.load < 0 && each.bound >= 0) writer.check(number, each.bound);
        if (each.keep >= 0) writer.keep(number, each.keep);
        if (!converts) continue;
        linear = writer.sum(linear, each.adds, number);
        if (p.direction == DELINEARIZE && each.store >= 0) writer.store(number, each.store);
        if (p.direction == LOOK_UP && each.store != NONE) target = writer.sum(target, {{NONE, 1, uint64_t(each.store)}}, number);
    }
    if (converts && p.direction != DELINEARIZE) writer.store(linear, 0);
    if (converts && p.direction == LOOK_UP) writer.store(target, 1);
    return writer.steps();
}

}  // namespace

ProgramPointer compiled(Direction direction, const std::vector<Instruction>& instructions, int64_t size, int bits, int64_t streamed) {
    std::unique_ptr<Program> p(new Program);
    p->direction = direction, p->given = p->results = 0, p->size = size, p->bits = bits, p->streamed = streamed, p->set = &kernels();
    for (const Instruction& each : instructions) {
        p->given = std::max(p->given, each.load + 1);
        if (direction == DELINEARIZE) p->results = std::max(p->results, each.store + 1);
        p->has_bounds |= each.load < 0 && each.bound >= 0;
    }
    if (direction != DELINEARIZE) p->results = 1;
    if (p->given && direction != LINEARIZE) throw std::invalid_argument("only linearize reads coordinates");
    p->converts = written(*p, instructions, true), p->checks = written(*p, instructions, false);
    return ProgramPointer(p.release());
}

// --------------------------------------------------------------------------------------------------------------- blocks

namespace {

static int log2_of(int64_t size) { return 63 - __builtin_clzll(uint64_t(size)); }

template <class T> static void gather(char* into, const char* from, int64_t step, int64_t n) {
    for (int64_t k = 0; k < n; k++) std::memcpy(into + k * int64_t(sizeof(T)), from + k * step, sizeof(T));
}

// Coordinates modulo `bound`, or the nearest ones below it.
template <class T> static void bring_in(const char* from, int64_t step, int64_t n, int64_t bound, bool wraps, uint64_t* to) {
    const uint64_t size = uint64_t(std::max<int64_t>(bound, 1));
    const Divisor by = divisor_of(size, 64);
    for (int64_t k = 0; k < n; k++) {
        T x;
        std::memcpy(&x, from + k * step, sizeof x);
        bool is_below = std::is_signed_v<T> && int64_t(x) < 0;
        uint64_t up = is_below ? ~uint64_t(x) : uint64_t(x);
        up -= (by.way == MULTIPLY ? quotient<uint64_t, MULTIPLY>(up, by) : up >> by.shift) * size;  // -1 becomes the last
        to[k] = wraps ? is_below ? size - 1 - up : up : is_below ? 0 : std::min(uint64_t(x), size - 1);
    }
}
using BringIn = void (*)(const char*, int64_t, int64_t, int64_t, bool, uint64_t*);
static constexpr BringIn BRING_IN[4][2] = {{bring_in<uint8_t>, bring_in<int8_t>}, {bring_in<uint16_t>, bring_in<int16_t>},
                                           {bring_in<uint32_t>, bring_in<int32_t>}, {bring_in<uint64_t>, bring_in<int64_t>}};
using Gather = void (*)(char*, const char*, int64_t, int64_t);
static constexpr Gather GATHER[4] = {gather<uint8_t>, gather<uint16_t>, gather<uint32_t>, gather<uint64_t>};

// What a block has beside its rows.
struct Room {
    alignas(64) char given[MOST_INDICES * 8], result[MOST_INDICES * 8 + 64];
    alignas(64) int64_t places[2][MOST_INDICES];  // of look-ups
    alignas(64) char elements[MOST_INDICES * 16];
    uint8_t mask[MOST_INDICES];  // not 0: padding
};
static int64_t scratch_of(const Program& p) { return std::max(p.converts.rows, p.checks.rows) * ROW_BYTES + int64_t(sizeof(Room)); }

// Indices first..first + n - 1 of a call.
struct Block {
    const Program& p;
    const Conversion& c;
    char* scratch;
    int64_t first, n;
    bool checks_given, streams;
    bool has_mask = false;
    int64_t offender = INT64_MAX;

    Room& room() const { return *reinterpret_cast<Room*>(scratch); }
    char* row(int number) const { return scratch + sizeof(Room) + number * ROW_BYTES; }
    char* result(int64_t number) const { return c.result + (number * c.count + first) * c.result_size; }

    // into = base + given row * weight, unless into is -1.  Stops before what is out of bounds.
    void load(int64_t number, int64_t bound, int into, int base, uint64_t weight) {
        const Given& g = c.given;
        const char* from = g.at + number * g.row + first * g.step;
        int log = log2_of(g.size);
        if (c.mode == WRAP || c.mode == CLIP) {
            BRING_IN[log][g.is_signed](from, g.step, n, bound, c.mode == WRAP, reinterpret_cast<uint64_t*>(room().given));
            from = room().given, log = 3;
        } else if (g.step != g.size || (reinterpret_cast<uintptr_t>(from) & uintptr_t(g.size - 1))) {
            GATHER[log](room().given, from, g.step, n);
            from = room().given;
        }
        uint64_t found = into < 0 ? checks_given ? p.set->most[log](from, n) : 0 : p.words().load[log](row(into), row(base), from, weight, n);
        uint64_t limit = g.size == 8 ? uint64_t(bound) : std::min(uint64_t(bound), uint64_t(1) << (8 * g.size - g.is_signed));
        if (!checks_given || found < limit) return;
        int64_t k = 0;
        while (p.set->most[log](from + k * g.size, 1) < limit) k++;
        offender = first + k, n = k;
    }

    void store(int from, int64_t number) {
        char* to = result(number);
        int log = log2_of(c.result_size);
        if (!streams && !(reinterpret_cast<uintptr_t>(to) & uintptr_t(c.result_size - 1))) return p.words().store[log](to, row(from), n);
        // With the place in a line that it has in the result.
        const int64_t past = int64_t(reinterpret_cast<uintptr_t>(to) & 63), bytes = n * c.result_size, head = std::min((64 - past) & 63, bytes);
        const bool is_aligned = !(past & (c.result_size - 1));
        char* here = room().result + (is_aligned ? past : 0);
        p.words().store[log](here, row(from), n);
        if (!streams || !is_aligned) return void(std::memcpy(to, here, size_t(bytes)));
        const int64_t lines = (bytes - head) / 64, end = head + lines * 64;
        std::memcpy(to, here, size_t(head));
        p.set->stream(to + head, here + head, lines);
        std::memcpy(to + end, here + end, size_t(bytes - end));
    }

    template <class Word> void mark(int from, int64_t bound) {
        const Word* x = reinterpret_cast<const Word*>(row(from));
        if (!has_mask) std::memset(room().mask, 0, size_t(n));
        has_mask = true;
        for (int64_t k = 0; k < n; k++) room().mask[k] |= uint64_t(x[k]) >= uint64_t(bound);
    }
    void past(int from, int64_t bound) {
        if (p.set->most[p.bits == 64 ? 3 : 2](row(from), n) < uint64_t(bound)) return;
        p.bits == 64 ? mark<uint64_t>(from, bound) : mark<uint32_t>(from, bound);
    }

    void run(const Steps& steps, bool checks_sums) {
        for (const Step& s : steps.list) {
            if (s.kind == Step::LOAD) load(s.row, s.bound, s.into, s.base, s.weight);
            else if (s.kind == Step::ADD) p.words().add[s.by.way](row(s.into), row(s.base), row(s.from), s.by, s.weight, n);
            else if (s.kind == Step::STORE) store(s.from, s.row);
            else if (checks_sums) past(s.from, s.bound);
        }
    }
};

// ---------------------------------------------------------------------------------------------------------- conversions

// On the heap: see `Call`.
struct Job {
    const Program& p;
    Conversion c;
    bool streams;
    int64_t early;  // blocks begin so many indices early, so that they begin with lines of what is given
    mutable std::atomic<int64_t> offender{INT64_MAX};
};

static void convert_block(const Job& job, Block& block) {
    const Program& p = job.p;
    const Conversion& c = job.c;
    if (p.direction != LINEARIZE) {
        block.load(0, p.size, LINEAR, ZEROS, 1);
        if (c.mode == MARK && (!c.result || block.offender < INT64_MAX)) return;
    }
    block.run(c.result ? p.converts : p.checks, c.mode == MARK || !c.is_checked);
    if (!block.has_mask) return;
    for (int64_t k = 0; k < block.n; k++) {
        if (!block.room().mask[k]) continue;
        if (c.mode != MARK) {
            block.offender = block.first + k;
            return;
        }
        for (int64_t row = 0; row < p.results; row++) std::memset(block.result(row) + k * c.result_size, -1, size_t(c.result_size));
    }
}

static void run_conversion(const Call& call, int64_t first, int64_t last, Worker& worker) {
    const Job& job = *static_cast<const Job*>(call.plan);
    const int64_t size = job.p.block();
    std::memset(worker.scratch + sizeof(Room), 0, size_t(ROW_BYTES));  // ZEROS
    for (int64_t k = first; k < last; k++) {
        // After a check, from the end: the check has read that last, so it is still in the caches.
        int64_t begin = std::max<int64_t>(k * size - job.early, 0), end = std::min((k + 1) * size - job.early, job.c.count);
        if (begin > job.offender.load()) continue;
        Block block{job.p, job.c, worker.scratch, begin, end - begin,
                    !job.c.is_checked && (job.c.mode == RAISE || job.c.mode == MARK), job.streams};
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
    const int64_t written = c.result ? p.results * c.result_size : 0;
    const int64_t bytes = p.block() * (std::max<int64_t>(p.given, 1) * c.given.size + written);
    const int64_t early = c.given.step == c.given.size ? int64_t(reinterpret_cast<uintptr_t>(c.given.at) % 64) / c.given.size : 0;
    const int64_t blocks = c.count ? (c.count + early + p.block() - 1) / p.block() : 0;
    std::unique_ptr<Job> job(new (std::nothrow) Job{p, c, p.direction == DELINEARIZE && written * c.count >= p.streamed, early});
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
    const Program& p = job.p;
    const LookUp& c = job.c;
    Room& room = *reinterpret_cast<Room*>(worker.scratch);
    const Conversion places{{nullptr, 0, 0, 1, 1, false}, reinterpret_cast<char*>(room.places), 8, MOST_INDICES, RAISE, false};
    std::memset(worker.scratch + sizeof(Room), 0, size_t(ROW_BYTES));  // ZEROS
    for (int64_t begin = first * p.block(); begin < std::min(last * p.block(), p.size); begin += p.block()) {
        const int64_t n = std::min(p.block(), p.size - begin);
        Block block{p, places, worker.scratch, 0, n, false, false};
        p.bits == 64 ? count_up<uint64_t>(block.row(LINEAR), begin, n) : count_up<uint32_t>(block.row(LINEAR), begin, n);
        block.run(p.converts, true);
        const int bytes = std::max(c.target_bits / 8, 1);
        char* target = c.target + begin * bytes;
        char* to = c.is_strided || c.target_bits < 8 ? room.elements : target;
        (c.source_bits < 8 ? read_bits : READ[log2_of(c.source_bits / 8)])(to, c, room.places[0], block.has_mask ? room.mask : nullptr, n);
        if (c.target_bits < 8) write_bits(to, c.target + begin * c.target_bits / 8, c.target_bits, n);
        else if (c.is_strided) WRITE[log2_of(bytes)](to, c, room.places[1], n);
    }
}

}  // namespace

gl_result look_up(const Program& p, const LookUp& c, int threads, gl_poll poll, void* about) {
    const int64_t blocks = (p.size + p.block() - 1) / p.block(), bytes = p.block() * (8 + c.source_bits / 8 + c.target_bits / 8);
    std::unique_ptr<LookUpJob> job(new (std::nothrow) LookUpJob{p, c});
    if (!job) return GL_NO_MEMORY;
    Call call{run_look_up, job.get(), nullptr, nullptr, blocks, scratch_of(p)};
    return share(call, int(std::min<int64_t>(threads, blocks * bytes / SHARE)), std::max<int64_t>(1, PORTION / bytes), poll, about);
}

}  // namespace gpulayout
