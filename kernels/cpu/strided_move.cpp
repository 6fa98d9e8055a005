// The native engine: target[c . target strides] = source[c . source strides] for all coordinates c, elements opaque.
//
// Elements have any number of bytes; strides any sign, 0 in the source, gaps on both sides, no alignment.  Gaps of the target
// are never written, and nothing is read outside the bytes between the first and the last element of the source.
//
//   1. Axes are turned so that target strides are positive, sorted, and joined.  A run that is contiguous on both sides
//      becomes one element, unless it is so long that it needs nothing but a copy.
//   2. A *box* is what a thread moves at a time: J places along the target's minor side x I places along the source's.
//
//          source                          scratch tile, as in the target       target
//          . I I I I .                     J J J                                . . .
//        J . a b c d .                   I a e i                                J J J
//        J . e f g h .    -- kernel -->  I b f j      -- rows of whole -->    I a e i
//        J . i j k l .                   I c g k         lines                I b f j
//          . . . . . .                   I d h l                              I ...
//
//      J and I can each cover several axes: tables give the offset of every place, so short axes cost nothing.  Axes that
//      fill the lines of one side, but are on neither, are walked inside the box.
//   3. Meanwhile the source of the next box is fetched, in the order of the source, if the target is written around the caches.
//   4. Each thread has a range of the boxes, and helps with those of others: see threads.h.
//
// Two kinds of rows need no tile: long runs, and rows whose places lie evenly apart in the source, such as x[::-1] or x[::2].
//
// Padding within short rows is in the scratch tile from the start, so rows are written with it.  All other padding is filled
// by moves whose source is a pattern, with strides of 0.
//
// The file reads from the top: what kernels get, the plan, its execution, the C interface.
#include "strided_move.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "instruction_sets.h"
#include "threads.h"

namespace gpulayout {

// What the next box reads: fetched in the order of the source, a few lines at a time while this box is moved.  A chunk that
// begins within a line ends in one more, which is left to the processor: fetching it too took 1.03 times as long.
struct Fetch {
    const char* source;
    const int64_t* chunk;  // offsets of contiguous chunks
    int64_t chunks, lines, line;
    INLINE void go(int64_t count) {
        for (; count > 0 && chunks; count--) {
            __builtin_prefetch(source + *chunk + 64 * line, 0, 2);
            if (++line == lines) line = 0, chunk++, chunks--;
        }
    }
};

// J x I places: (j, i) is read at source + source_j[j] + source_i[i], written at target + target_j[j] + target_i[i].
struct Tile {
    const char* source;
    char* target;
    const int64_t *source_j, *source_i, *target_j, *target_i;
    int64_t nj, ni;
    int64_t size, slot;      // bytes of an element, and of its place in the target
    const char* source_end;  // one past the highest byte that may be read
    int64_t source_reach;    // the largest of source_j
    int64_t group;           // so many neighbours of the zipped side, or along j in the target, have no gap between them; 0: all
    bool pack;               // rows of the source fall into few sets of the cache: read each of their lines once
    bool stream;             // write whole lines around the caches: never to the scratch tile, which is read at once
    Fetch* fetch;
};
// By value: elements are stored as bytes, which may alias a tile in memory, so each offset would be read from there again (1.24
// times the time of turns in cache).
using Kernel = void (*)(Tile);

struct Kernels {
    Kernel any[5], runs, whole_runs;  // any: by log2 of the size; runs of other sizes; long runs, one for each i
    Kernel step[5];                   // target contiguous along j, source evenly apart
    Kernel turn[5];                   // source contiguous along i, target along j
    Kernel zip[4][3], unzip[4][3];    // the same with 2, 3, 4 places in j, or in i
    void (*copy)(char* target, const char* source, int64_t bytes, bool stream);
};

}  // namespace gpulayout

#define KERNELS "register_kernels.h"
#include "each_instruction_set.h"

namespace gpulayout {

// Those for which there are kernels, best last; a machine that has one has all before it.
struct InstructionSet {
    const char* name;
    const Kernels* kernels;
};
static constexpr InstructionSet INSTRUCTION_SETS[] = {
#if IS_X86_64
    {"SSE2", &baseline::table}, {"AVX2", &avx2::table}, {"AVX-512", &avx512::table}};
#else
    {"portable", &baseline::table}};
#endif

// How many of them this machine has.
static int detected_sets() {
#if !IS_X86_64
    return 1;
#elif defined(LOWERED)
    return 3;
#else
    bool has_avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vbmi");
    unsigned word[4] = {};
    bool has_f16c = __get_cpuid(1, &word[0], &word[1], &word[2], &word[3]) && word[2] >> 29 & 1;  // clang 14 knows no name for it
    return !__builtin_cpu_supports("avx2") || !has_f16c ? 1 : has_avx512 ? 3 : 2;
#endif
}
// A virtual machine takes microseconds for each cpuid.
static int instruction_sets() {
    static const int found = detected_sets();
    return found;
}
static std::atomic<int> chosen_set{-1};  // -1: the best

// ---------------------------------------------------------------------------------------------------------- its numbers
// All that measurements chose.  Sizes of boxes come from the second-level cache, the use of stores around the caches from the
// third; the rest are properties of lines of 64 bytes and of threads.

static std::atomic<int64_t> second_level{1 << 20}, third_level{32 << 20};
constexpr int64_t ROW = 1024;              // bytes of a target row in a box, and of a source run
constexpr int64_t LINE = 64, HALF_REGISTER = 8;  // bytes
constexpr int64_t SHORT_BOX = 16 << 10;    // bytes of a box that is short on one side
constexpr int64_t LONG_RUN = 2048;         // runs of so many bytes are copied, not moved as elements
constexpr int64_t PADDED_ROW = 2048;       // padding within rows of up to so many bytes is written with them
constexpr int64_t STEPS = 8, STEPS_BYTES = 32;  // places that lie evenly apart, so many or of so many bytes, are moved as such
constexpr int64_t PIECE = 64 << 10;        // bytes of a long run in a box
constexpr int64_t CONFLICT = 1024;         // strides that are multiples of this fall into few sets of a first-level cache
constexpr int64_t MOST_CHUNKS = 4096;      // chunks of a box that are fetched ahead

static int64_t most_of_box(int64_t bytes) {  // so many that a small move still has some boxes for each thread
    return std::min(second_level * 3 / 8, std::max<int64_t>(bytes / 16, 32 << 10));
}
// touched: bytes that the move reads and writes.
static bool is_streamed(int64_t touched) { return IS_X86_64 && touched >= std::max(third_level * 2 / 3, second_level * 8); }

// ------------------------------------------------------------------------------------------------------------- the plan

struct Axis {
    int64_t n, extent;       // elements; places, where those past n are padding that is written with the row
    int64_t source, target;  // strides in bytes
    int64_t box, step;       // elements in a box; stride in what the kernel writes, target or scratch
    int64_t places(int64_t count) const { return extent > n ? extent : count; }
};
using Axes = std::vector<int>;  // numbers of axes, in the order of a loop, fastest first
using Offsets = std::vector<int64_t>;

struct Plan {
    std::vector<Axis> axes;           // by target stride, minor first
    Axes j, i, walked;                // the axes of a tile; those walked in a box
    Axes order;                       // of all boxes
    Axes rows;                        // axes of a box that lie outside a row of the target
    int row_axes = 0;                 // the first so many axes make up a row
    Offsets source_j, source_i, target_j, target_i;
    Offsets chunks;                   // offsets of what a box reads, in chunks of chunk_bytes without gaps
    int64_t chunk_bytes = 0, group = 1, reach = 0;
    int64_t unit = 0;                 // bytes of an element of the move
    int64_t size = 0, slot = 0;       // bytes of an element as it is moved, one or more units; of its place in the target
    int64_t source_offset = 0, target_offset = 0;  // where the first element of the turned axes is
    int64_t source_high = 0;          // from there, one past the highest byte of the source
    int64_t boxes = 0, bytes = 0, scratch = 0;  // bytes: of all elements; scratch: bytes of the tile
    bool through = false;             // boxes go through the scratch tile
    bool stream = false;              // whole lines are written around the caches
    bool pack = false;                // see Tile::pack
    bool turns = false, unzips = false;  // whether the kernel is one of `turn`, `zip` and `unzip`; whether it is one of `unzip`
    bool steps = false;               // whether it is one of `step`
    bool backwards = false;           // the source is dense along I from its last place to its first
    bool padded = false;              // padding is written with the rows
    bool fetches = true;              // what the next box reads is fetched
    bool in_lines = false;            // a target that begins with a line has only whole lines in each element
    const char* name = "";            // of the kernel, see gl_description
    Kernel kernel = nullptr;
    const Kernels* set = nullptr;     // of the instruction set
    bool whole() const { return kernel == set->whole_runs; }
    int64_t nj = 1, ni = 1;           // places of a whole box
};

static int log2_of(int64_t size) {
    return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : size == 16 ? 4 : -1;
}
static bool has(const Axes& list, int k) { return std::find(list.begin(), list.end(), k) != list.end(); }

// Positive target strides, minor first; axes of one place dropped, neighbours joined.
static void normalize(Plan& p) {
    std::vector<Axis> kept;
    for (Axis a : p.axes) {
        if (a.extent == 1) continue;
        if (a.n == 1) a.source = a.target;
        if (a.target < 0) {  // never with padding, see `inner_axes`
            p.source_offset += (a.n - 1) * a.source, p.target_offset += (a.n - 1) * a.target;
            a.source = -a.source, a.target = -a.target;
        }
        kept.push_back(a);
    }
    std::stable_sort(kept.begin(), kept.end(), [](const Axis& a, const Axis& b) { return a.target < b.target; });
    p.axes.clear();
    for (const Axis& a : kept) {
        Axis* b = p.axes.empty() ? nullptr : &p.axes.back();
        if (b && b->n == b->extent && a.source == b->source * b->n && a.target == b->target * b->n)
            b->extent *= a.extent, b->n *= a.n;
        else
            p.axes.push_back(a);
    }
}

static Axes by_source(const Plan& p) {
    Axes found;
    for (int k = 0; k < int(p.axes.size()); k++) found.push_back(k);
    std::stable_sort(found.begin(), found.end(),
                     [&](int a, int b) { return std::abs(p.axes[a].source) < std::abs(p.axes[b].source); });
    return found;
}

// Axes in this order while they are contiguous, in the source or in the target.
static Axes contiguous(const Plan& p, const Axes& order, bool in_source) {
    Axes found;
    int64_t dense = in_source ? p.size : p.slot;
    for (int k : order) {
        const Axis& a = p.axes[k];
        if ((in_source ? a.source : a.target) != dense) break;
        found.push_back(k);
        dense *= in_source ? a.n : a.extent;
    }
    return found;
}

static int64_t whole_places(const Plan& p, const Axes& axes) {
    int64_t n = 1;
    for (int k : axes) n *= p.axes[k].n;
    return n;
}

static int64_t box_places(const Plan& p, const Axes& axes) {
    int64_t n = 1;
    for (int k : axes) n *= p.axes[k].box;
    return n;
}

// Takes places of `from`, in order and each axis whole before the next, until there are `want`; stops at an axis of `stop`.
static void take(Plan& p, Axes& into, const Axes& from, const Axes& stop, int64_t want) {
    for (int k : from) {
        int64_t have = box_places(p, into);
        if (has(stop, k) || have >= want) break;
        if (!has(into, k)) into.push_back(k);
        Axis& a = p.axes[k];
        have /= a.box;
        a.box = std::max(a.box, std::min(a.n, (want + have - 1) / have));
        if (a.box < a.n) break;
    }
}

// Extends a box along one side, by axes that neither J nor I has, until it covers `want` bytes there without a gap.
static void extend(Plan& p, const Axes& order, int64_t want, int64_t most) {
    for (int k : order) {
        Axis& a = p.axes[k];
        if (a.box == a.n) continue;
        int64_t all = p.size, now = p.size;
        for (const Axis& b : p.axes) all *= b.box;
        for (int m : order) {
            now *= p.axes[m].box;
            if (p.axes[m].box < p.axes[m].n) break;
        }
        if (now >= want || all >= most) return;
        a.box = std::min(a.n, a.box * std::min((want + now - 1) / now, std::max<int64_t>(most / all, 1)));
        if (!has(p.j, k) && !has(p.i, k) && !has(p.walked, k) && a.box > 1) p.walked.push_back(k);
        if (a.box < a.n) return;
    }
}

static Offsets table(const Plan& p, const Axes& axes, int64_t Axis::*stride) {
    Offsets found{0};
    for (int k : axes) {
        size_t before = found.size();
        for (int64_t c = 1; c < p.axes[k].box; c++)
            for (size_t m = 0; m < before; m++) found.push_back(found[m] + c * (p.axes[k].*stride));
    }
    return found;
}

static bool dense(const Offsets& offsets, int64_t step) {
    for (size_t k = 0; k < offsets.size(); k++)
        if (offsets[k] != int64_t(k) * step) return false;
    return true;
}

// Whole rows, which are runs or lie evenly apart in the source: J is a row, in pieces for threads; I are some rows.  Rows with
// padding are so short that a box has them whole.
static_assert(PIECE / 8 >= PADDED_ROW, "cut_rows would cut padded rows");
static void cut_rows(Plan& p, int64_t piece) {
    Axis& row = p.axes[0];
    p.j = {0};
    row.box = std::min(row.n, std::max<int64_t>(piece / p.size, 1));
    Axes others;
    for (int k = 1; k < int(p.axes.size()); k++) others.push_back(k);
    take(p, p.i, others, {}, std::max<int64_t>(piece / 2 / (row.box * p.size), 1));
    for (int k = 0; k < int(p.axes.size()); k++) p.order.push_back(k);
}

// J begins at the target's minor axis, I at the source's; both get what a box has room for.
static void cut_boxes(Plan& p) {
    Axes from_minor, from_source = by_source(p);
    for (int k = 0; k < int(p.axes.size()); k++) from_minor.push_back(k);
    Axes target_side = contiguous(p, from_minor, false), source_side = contiguous(p, from_source, true);
    // Runs get longer rows, so that few of their lines are written in two parts.
    int64_t longer = p.size > 16 ? 4 : 1, most = most_of_box(p.bytes);
    int64_t want_j = std::max<int64_t>(ROW * longer / p.size, 8);
    int64_t want_i = std::max<int64_t>(ROW * std::min<int64_t>(longer, 2) / p.size, 8);
    Axes first_j = target_side.empty() ? from_minor : target_side;
    for (int k = 0; k < int(p.axes.size()); k++) {  // padding within a row needs its axis whole, and all below it
        if (p.axes[k].extent == p.axes[k].n) continue;
        for (int m = 0; m <= k; m++) {
            p.axes[m].box = p.axes[m].n;
            if (!has(p.j, m)) p.j.push_back(m);
        }
    }
    Axes of_j = p.j.empty() && !first_j.empty() ? Axes{first_j[0]} : p.j;
    Axes first_i = source_side.empty() ? from_source : source_side;
    if (!first_i.empty() && has(of_j, first_i[0])) {  // J has the source's minor axis: I are the others, nearest first
        first_i.clear();
        for (int k : from_source)
            if (!has(of_j, k)) first_i.push_back(k);
    }
    // Axes that J leaves to I, but for those with which J begins: up to a line of the source, if J begins with a line of the
    // target; else, because J would stay short, until they have more than half of a register; none if J has less than that.
    Axes minor_i;
    int64_t bytes = p.size, begin_j = p.size * whole_places(p, of_j);
    int64_t most_i = begin_j >= LINE ? LINE : begin_j >= HALF_REGISTER ? HALF_REGISTER + 1 : 0;
    for (int k : first_i) {
        if ((bytes >= most_i && !minor_i.empty()) || has(of_j, k)) break;
        minor_i.push_back(k), bytes *= p.axes[k].n;
    }
    want_i = std::max<int64_t>(std::min(want_i, most / (want_j * p.size)), std::min<int64_t>(want_i, 64 / p.size));
    take(p, p.j, first_j, minor_i, want_j);
    take(p, p.i, first_i, p.j, want_i);
    int64_t nj = box_places(p, p.j), ni = box_places(p, p.i);
    if (ni < want_i) take(p, p.j, first_j, p.i, std::max<int64_t>(SHORT_BOX / (ni * p.size), nj));
    nj = box_places(p, p.j);
    if (nj < want_j) take(p, p.i, first_i, p.j, std::max<int64_t>(SHORT_BOX / (nj * p.size), ni));
    extend(p, target_side, ROW, most);
    extend(p, source_side, ROW, most);
    p.order = from_source;
}

// Whether a box is written straight to the target, or into a scratch tile whose rows are copied afterwards; and the strides
// of what is written.  Rows of the tile begin an odd number of lines apart, so that a column uses all sets of a cache.
static void choose_way(Plan& p) {
    int64_t row = p.slot, dense_to = p.slot;
    for (const Axis& a : p.axes) {
        if (a.target != dense_to || (p.row_axes && p.whole())) break;
        p.row_axes++, row *= a.places(a.box), dense_to *= a.extent;
        if (a.box < a.n) break;
    }
    bool has_rows = !p.whole() && row > p.size;
    p.through = has_rows && (p.stream ? (p.steps ? p.axes[0].n * p.size < ROW / 2 : !p.in_lines) : !p.steps && row < 32);
    for (int k : p.j) p.pack |= p.axes[k].box >= 8 && p.axes[k].source && p.axes[k].source % CONFLICT == 0;
    for (int k = p.row_axes; k < int(p.axes.size()); k++)
        if (has_rows && !p.steps && p.size < 64 && p.axes[k].box >= 8 && p.axes[k].target % (2 * CONFLICT) == 0) p.through = true;
    p.through |= p.padded;
    // With padding, rows are whole elements apart, because the tile is one pattern of pads.
    int64_t pitch = (row + 63) / 64 | 1;
    pitch = row < 64 || (p.padded && 64 * pitch % p.unit) ? row : 64 * pitch;
    int64_t step = p.slot;
    for (int k = 0; k < int(p.axes.size()); k++) {
        Axis& a = p.axes[k];
        if (k >= p.row_axes && a.box > 1) {
            if (p.rows.empty()) step = pitch;
            p.rows.push_back(k);
        }
        a.step = p.through ? step : a.target;
        step *= a.places(a.box);
    }
    p.scratch = p.through ? step + 256 : 0;
}

// How many places follow each other without a gap; 0: all.
static int64_t group_of(const Plan& p, const Offsets& offsets, int axis, int64_t step, int64_t stride) {
    return dense(offsets, step) ? 0 : stride == step ? p.axes[axis].box : 1;
}

// Kernels for sides that are dense: turns, and zips where one side has 2 to 4 places.
static void choose_kernel(Plan& p) {
    int kind = log2_of(p.size);
    if (dense(p.target_j, p.slot)) p.group = 0;
    if (p.kernel != p.set->any[std::max(kind, 0)] || p.nj < 2 || p.ni < 2 || !dense(p.target_j, p.size)) return;
    p.backwards = dense(p.source_i, -p.size);
    if (!(p.backwards || dense(p.source_i, p.size))) return;
    if (p.backwards) {  // from the last place on, see move_box
        std::reverse(p.target_i.begin(), p.target_i.end());
        for (int64_t& offset : p.source_i) offset = -offset;
    }
    p.kernel = p.set->turn[kind], p.name = "turn", p.turns = true;
    p.group = dense(p.target_i, p.nj * p.size) ? 0 : 1;
    if (kind < 4 && p.nj <= 4 && p.set->zip[kind][p.nj - 2]) {
        p.kernel = p.set->zip[kind][p.nj - 2], p.name = "zip";
        p.group = p.backwards ? 1 : group_of(p, p.target_i, p.i[0], p.nj * p.size, p.axes[size_t(p.i[0])].step);
    } else if (kind < 4 && p.ni <= 4 && p.set->unzip[kind][p.ni - 2]) {
        int64_t group = group_of(p, p.source_j, p.j[0], p.ni * p.size, p.axes[size_t(p.j[0])].source);
        if (group != 1) p.kernel = p.set->unzip[kind][p.ni - 2], p.name = "unzip", p.group = group, p.unzips = true;
    }
}

static void make_tables(Plan& p) {
    p.boxes = 1;
    for (const Axis& a : p.axes) p.boxes *= (a.n + a.box - 1) / a.box;
    p.nj = box_places(p, p.j), p.ni = box_places(p, p.i);
    if (p.whole() || p.steps) p.source_j = {0, p.axes[0].source}, p.target_j = {0, p.axes[0].step};  // all that their kernels ask for
    else p.source_j = table(p, p.j, &Axis::source), p.target_j = table(p, p.j, &Axis::step);
    p.source_i = table(p, p.i, &Axis::source), p.target_i = table(p, p.i, &Axis::step);
    for (int64_t offset : p.source_j) p.reach = std::max(p.reach, offset);
    Axes apart;
    p.chunk_bytes = p.size;
    int64_t lowest = 0;
    for (int k : by_source(p)) {
        const Axis& a = p.axes[k];
        if (std::abs(a.source) == p.chunk_bytes) p.chunk_bytes *= a.box, lowest += std::min<int64_t>(0, (a.box - 1) * a.source);
        else if (a.box > 1) apart.push_back(k);
    }
    p.fetches &= box_places(p, apart) <= MOST_CHUNKS;
    if (p.fetches) p.chunks = table(p, apart, &Axis::source);
    for (int64_t& chunk : p.chunks) chunk += lowest;
}

// A plan for these axes; touched: bytes that the whole move reads and writes.
static void make(Plan& p, int64_t touched) {
    p.set = INSTRUCTION_SETS[gl_used_set()].kernels;
    p.slot = p.size;
    p.stream = is_streamed(touched), p.fetches &= p.stream;
    normalize(p);
    p.bytes = p.size;
    for (Axis& a : p.axes) {
        p.bytes *= a.n, a.box = 1;
        p.source_high += std::max<int64_t>(0, (a.n - 1) * a.source);
    }
    p.source_high += p.size;
    bool is_run = !p.axes.empty() && p.axes[0].source == p.size && p.axes[0].target == p.size;
    if (is_run && (p.axes[0].n * p.size < LONG_RUN || p.axes[0].extent > p.axes[0].n)) {  // the run becomes an element
        p.slot = p.axes[0].extent * p.size, p.size *= p.axes[0].n;
        p.axes.erase(p.axes.begin());
        is_run = false;
    }
    p.padded = p.slot > p.size, p.in_lines &= p.size % LINE == 0;
    for (const Axis& a : p.axes) p.padded |= a.extent > a.n, p.in_lines &= a.target % LINE == 0;
    int kind = p.slot > p.size ? -1 : log2_of(p.size);
    const Axis* row = p.axes.empty() ? nullptr : &p.axes[0];
    bool is_long = row && (row->n >= STEPS || row->n * p.size >= STEPS_BYTES);
    p.steps = !is_run && kind >= 0 && is_long && row->target == p.size;
    for (const Axis& a : p.axes) p.steps &= !a.source || std::abs(a.source) >= std::abs(row->source);  // nearest in the source
    if (is_run) p.kernel = p.set->whole_runs, p.name = "copy", cut_rows(p, PIECE);
    else if (p.steps) p.kernel = p.set->step[kind], p.name = "step", cut_rows(p, PIECE / 4);
    else p.kernel = kind >= 0 ? p.set->any[kind] : p.set->runs, p.name = kind >= 0 ? "any" : "run", cut_boxes(p);
    if (p.steps) p.fetches &= p.axes.size() > 1 && row->box == row->n;  // the processor itself fetches rows longer than a box
    choose_way(p);
    p.stream &= p.through || p.whole() || p.steps || p.size % 64 == 0;  // no other kernel writes whole lines
    make_tables(p);
    choose_kernel(p);
}

}  // namespace gpulayout

// A move is a copy of its elements, if there are any, and fills, whose source is the pattern.
struct gl_move {
    struct Part {
        gpulayout::Plan plan;
        std::vector<gpulayout::Plan> off_lines;  // empty, or the plan for targets that do not begin with a line, in the same boxes
        bool is_fill;
        int64_t target_offset;
        const gpulayout::Plan& plan_for(const char* target) const {
            bool is_off = reinterpret_cast<uintptr_t>(target + plan.target_offset) % gpulayout::LINE;
            return is_off && !off_lines.empty() ? off_lines[0] : plan;
        }
    };
    std::vector<Part> parts;
    std::vector<char> pattern;  // pads without a gap
    int64_t size = 0, boxes = 0, bytes = 0, scratch = 0;
};

namespace gpulayout {

// Padding of the first so many axes is written with the rows: the target is dense up to there, and rows are short.
static int inner_axes(int rank, const gl_axis* axes, int64_t size) {
    int found = 0;
    int64_t dense = size;
    for (int k = 0; k < rank && axes[k].target == dense; k++) {
        if (axes[k].bound == 0 || axes[k].extent > PADDED_ROW / dense) break;
        dense *= axes[k].extent;
        if (axes[k].extent > axes[k].bound) found = k + 1;
    }
    return found;
}

static void add_part(gl_move& move, std::vector<Axis> axes, int64_t size, bool is_fill, int64_t target_offset, int64_t touched) {
    for (const Axis& a : axes)
        if (!a.n) return;
    Plan plan, tiled;
    plan.axes = std::move(axes), plan.unit = plan.size = size, plan.fetches = !is_fill;
    tiled = plan, plan.in_lines = true;
    make(plan, touched);
    gl_move::Part part{std::move(plan), {}, is_fill, target_offset};
    // Whole lines from the tile are faster than short elements that begin and end within lines: 1.1 to 1.8 times.
    if (part.plan.stream && part.plan.in_lines && !part.plan.through && !part.plan.whole() && part.plan.size < ROW) {
        make(tiled, touched);
        part.off_lines.push_back(std::move(tiled));
        move.scratch = std::max(move.scratch, part.off_lines[0].scratch);
    }
    move.boxes += part.plan.boxes;
    move.scratch = std::max(move.scratch, part.plan.scratch);
    move.parts.push_back(std::move(part));
}

// Fills these places with the pattern: runs without a gap in chunks as long as the pattern, and the rest of each.
static void add_fill(gl_move& move, std::vector<Axis> axes, int64_t target_offset, int64_t touched) {
    Plan joined;  // only for its axes
    joined.axes = std::move(axes);
    normalize(joined);
    target_offset += joined.target_offset;
    axes = joined.axes;
    int64_t run = move.size, chunk = int64_t(move.pattern.size());
    if (!axes.empty() && axes[0].target == move.size) run *= axes[0].n, axes.erase(axes.begin());
    for (int64_t from : {int64_t(0), run / chunk * chunk}) {
        int64_t bytes = from ? run - from : std::min(run, chunk), times = from ? 1 : std::max<int64_t>(run / chunk, 1);
        if (!bytes) break;
        std::vector<Axis> some{{bytes / move.size, bytes / move.size, move.size, move.size, 1, 0},
                               {times, times, 0, chunk, 1, 0}};
        some.insert(some.end(), axes.begin(), axes.end());
        add_part(move, std::move(some), move.size, true, target_offset + from, touched);
        if (run <= chunk) break;
    }
}

static void plan_move(gl_move& move, int rank, const gl_axis* axes, int64_t size, const void* pad, int64_t whole) {
    int inner = inner_axes(rank, axes, size);
    move.size = size;
    int64_t elements = size, all = size, reach = size, read = std::max(size, LINE);  // read: if each element has lines of its own
    for (int k = 0; k < rank; k++) {
        elements *= axes[k].bound, all *= axes[k].extent;
        if (axes[k].bound > 1) reach += (axes[k].bound - 1) * std::abs(axes[k].source);
        if (axes[k].source && __builtin_mul_overflow(read, axes[k].bound, &read)) read = INT64_MAX;
    }
    read = std::min(reach, read);
    int64_t touched = whole;  // what mostly repeats is faster through the caches
    if (!whole && read >= elements / 2 && __builtin_add_overflow(std::max(read, all), all, &touched)) touched = INT64_MAX;
    if (!all) return;
    if (all > elements) move.pattern.resize(size_t(std::max<int64_t>(LONG_RUN / size, 1) * size));
    for (size_t k = 0; k < move.pattern.size(); k += size_t(size)) std::memcpy(&move.pattern[k], pad, size_t(size));
    std::vector<Axis> copied;
    for (int k = 0; k < rank; k++)
        copied.push_back({axes[k].bound, k < inner ? axes[k].extent : axes[k].bound, axes[k].source, axes[k].target, 1, 0});
    if (elements) add_part(move, copied, size, false, 0, touched);
    // Each place of padding once: past the bound of axis k, all extents below it, up to the bounds above it.
    for (int k = elements ? inner : 0; k < rank; k++) {
        if (axes[k].extent == axes[k].bound) continue;
        std::vector<Axis> places;
        for (int m = 0; m < rank; m++) {
            int64_t n = m < k ? axes[m].extent : m == k ? axes[m].extent - axes[m].bound : axes[m].bound;
            places.push_back({n, n, 0, axes[m].target, 1, 0});
        }
        bool any = true;
        for (const Axis& a : places) any &= a.n > 0;
        if (any) add_fill(move, places, axes[k].bound * axes[k].target, touched);
    }
    move.bytes = all;
}

// -------------------------------------------------------------------------------------------------------- its execution

// Rows of the scratch tile, or whole runs; axis `level` of `rows` is the slowest that is left.
static void write_rows(const Plan& p, const int64_t* count, int level, char* target, const char* from, int64_t bytes) {
    if (level < 0) return p.set->copy(target, from, bytes, p.stream);
    const Axis& a = p.axes[size_t(p.rows[size_t(level)])];
    for (int64_t k = 0; k < count[p.rows[size_t(level)]]; k++)
        write_rows(p, count, level - 1, target + k * a.target, from + k * a.step, bytes);
}

static void walk(const Plan& p, const int64_t* count, int level, Tile& t) {
    if (level < 0) return p.kernel(t);
    const Axis& a = p.axes[size_t(p.walked[size_t(level)])];
    int64_t n = count[p.walked[size_t(level)]];
    for (int64_t k = 0; k < n; k++) {
        walk(p, count, level - 1, t);
        t.source += a.source, t.target += a.step;
    }
    t.source -= n * a.source, t.target -= n * a.step;
}

static void move_box(const Plan& p, const int64_t* count, Tile& t, char* target) {
    t.nj = t.ni = 1;
    for (int k : p.j) t.nj *= count[k];
    for (int k : p.i) t.ni *= count[k];
    // Shorter places than in a whole box leave gaps between them.
    t.group = p.group;
    bool is_cut = p.unzips ? t.ni < p.ni : t.nj < p.nj;
    if (p.turns && is_cut) t.group = 1;
    if (p.backwards) t.target_i += p.ni - t.ni, t.source -= (t.ni - 1) * p.size;
    walk(p, count, int(p.walked.size()) - 1, t);
    if (!p.through) return;
    int64_t bytes = p.slot;
    for (int k = 0; k < p.row_axes; k++) bytes *= p.axes[size_t(k)].places(count[k]);
    write_rows(p, count, int(p.rows.size()) - 1, target, t.target, bytes);
}

// Moves boxes first..last-1 of a plan.
static void run_boxes(const Plan& p, const char* source, char* target, int64_t first, int64_t last, char* scratch) {
    const int rank = int(p.axes.size());
    int64_t at[64] = {}, count[64], left = first;  // no more axes have two places each
    for (int k : p.order) {
        const Axis& a = p.axes[size_t(k)];
        int64_t boxes = (a.n + a.box - 1) / a.box;
        at[k] = left % boxes * a.box, left /= boxes;
    }
    source += p.source_offset, target += p.target_offset;
    for (int64_t box = first; box < last; box++) {
        int64_t from = 0, to = 0, ahead = 0;
        for (int k = 0; k < rank; k++) {
            const Axis& a = p.axes[size_t(k)];
            count[k] = std::min(a.box, a.n - at[k]);
            from += at[k] * a.source, to += at[k] * a.target;
        }
        for (int k : p.order) {  // to the next box
            const Axis& a = p.axes[size_t(k)];
            if (at[k] + a.box < a.n) {
                ahead += a.box * a.source, at[k] += a.box;
                break;
            }
            ahead -= at[k] * a.source, at[k] = 0;
        }
        Fetch fetch{source + from + ahead, p.chunks.data(), box + 1 < last ? int64_t(p.chunks.size()) : 0, (p.chunk_bytes + 63) / 64, 0};
        if (!p.fetches) fetch.chunks = 0;
        Tile t{source + from, p.through ? scratch : target + to, p.source_j.data(), p.source_i.data(), p.target_j.data(), p.target_i.data(),
               1, 1, p.size, p.slot, source + p.source_high, p.reach, p.group, p.pack, p.stream && !p.through, &fetch};
        move_box(p, count, t, target + to);
    }
#if IS_X86_64
    if (p.stream) _mm_sfence();
#endif
}

// Moves boxes first..last-1 of all parts, counted through.
static void run_portion(const Call& c, int64_t first, int64_t last, Worker& worker) {
    const gl_move& move = *static_cast<const gl_move*>(c.plan);
    for (const gl_move::Part& part : move.parts) {
        const Plan& p = part.plan_for(c.target + part.target_offset);
        if (first < p.boxes && last > 0) {
            if (p.padded && worker.padded != &p) {
                int64_t chunk = int64_t(move.pattern.size());
                for (int64_t k = 0; k < p.scratch; k += chunk)
                    std::memcpy(worker.scratch + k, move.pattern.data(), size_t(std::min(chunk, p.scratch - k)));
            }
            if (p.through) worker.padded = p.padded ? &p : nullptr;
            run_boxes(p, part.is_fill ? move.pattern.data() : c.source, c.target + part.target_offset,
                      std::max<int64_t>(first, 0), std::min(last, p.boxes), worker.scratch);
        }
        first -= p.boxes, last -= p.boxes;
    }
}

static int64_t most_threads(const gl_move& move) {
    return std::max<int64_t>(1, std::min({move.boxes, move.bytes / SHARE, int64_t(MOST_THREADS)}));
}

}  // namespace gpulayout

// ----------------------------------------------------------------------------------------------------------- C interface

extern "C" {

using namespace gpulayout;

gl_move* gl_plan(int rank, const gl_axis* axes, int64_t size, const void* pad) { return gl_plan_part(rank, axes, size, pad, 0); }

gl_move* gl_plan_part(int rank, const gl_axis* axes, int64_t size, const void* pad, int64_t touched) {
    try {
        std::unique_ptr<gl_move> move(new gl_move);
        plan_move(*move, rank, axes, size, pad, touched);
        return move.release();
    } catch (const std::exception&) {  // no memory, or more than a vector can have
        return nullptr;
    }
}
void gl_free(gl_move* plan) { delete plan; }

gl_result gl_run(const gl_move* plan, const void* source, void* target, int threads, gl_poll poll, void* about) {
    if (!plan->boxes) return GL_DONE;
    Call call{run_portion, plan, static_cast<const char*>(source), static_cast<char*>(target), plan->boxes, plan->scratch};
    int64_t portion = plan->bytes <= PORTION ? plan->boxes : std::max<int64_t>(1, PORTION / std::max<int64_t>(1, plan->bytes / plan->boxes));
    return share(call, int(std::min<int64_t>(threads, most_threads(*plan))), portion, poll, about);
}

void gl_run_within(const gl_move* plan, const void* source, void* target, void* scratch) {
    Worker worker{static_cast<char*>(scratch)};
    run_portion({nullptr, plan, static_cast<const char*>(source), static_cast<char*>(target), 0, 0}, 0, plan->boxes, worker);
}

gl_description gl_describe(const gl_move* plan) {
    gl_description d{};
    d.bytes = plan->bytes, d.boxes = plan->boxes, d.scratch = plan->scratch, d.most_threads = most_threads(*plan);
    for (const gl_move::Part& part : plan->parts) d.fills += part.is_fill;
    if (plan->parts.empty()) return d;
    const Plan& p = plan->parts[0].plan;
    d.kernel = plan->parts[0].is_fill ? "fill" : p.name;
    d.element = p.size, d.slot = p.slot, d.streams = p.stream;
    d.along_target = p.nj, d.along_source = p.ni, d.walked = int64_t(p.walked.size());
    return d;
}

void gl_set_caches(int64_t, int64_t second, int64_t third) { second_level = second, third_level = third; }
int64_t gl_second_level(void) { return second_level; }
int gl_streams(int64_t touched) { return is_streamed(touched); }
void gl_stream(char* to, const char* from, int64_t bytes) { INSTRUCTION_SETS[gl_used_set()].kernels->copy(to, from, bytes, true); }

const char* gl_instruction_set(int number) {
    return number >= 0 && number < instruction_sets() ? INSTRUCTION_SETS[number].name : nullptr;
}
void gl_use(int number) { chosen_set = number; }
int gl_used_set(void) { return chosen_set < 0 ? instruction_sets() - 1 : chosen_set.load(); }

}
