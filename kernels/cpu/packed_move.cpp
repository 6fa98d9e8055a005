// Packed moves: elements of 1, 2 or 4 bits, several in a byte, on one side or on both.
//
// A slot is the place of an element.  A thread moves a *box* at a time, which is some slots along the minor side of the target
// and some along that of the source, with a byte for each element in between:
//
//     source bits  -- unpack -->  in the source's order  -- byte move -->  in the target's order  -- pack -->  target bits
//
// The byte move is one of strided_move.cpp, planned once for all boxes.  A side that has a byte for each element is its own tile,
// and runs that lie alike on both sides need no byte move.
//
// A box packs runs of the target that are contiguous.  Where a run begins or ends inside a byte, the byte belongs to the run that
// has its first slot; the slots of others are then read one by one.  So no two threads write the same byte.
#include "packed_move.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <vector>

#include "instruction_sets.h"
#include "threads.h"

namespace gpulayout {

// Makes or takes so many packed bytes; the other side has 8 / Bits times as many.
typedef void (*BitKernel)(uint8_t* to, const uint8_t* from, int64_t packed_bytes);
struct BitKernels {
    BitKernel unpack[2][3], pack[2][3];  // by whether the first element is in the highest bits, and by log2 of the bits
};

template <int Bits> struct BitWord;
template <> struct BitWord<1> { typedef uint64_t Type; };
template <> struct BitWord<2> { typedef uint32_t Type; };
template <> struct BitWord<4> { typedef uint16_t Type; };
template <class Word> constexpr Word in_each_byte(int value) { return Word(Word(~Word(0)) / 255 * value); }

// Elements of a packed byte, one in each byte, in the other order.
inline uint64_t turned(uint64_t word) { return __builtin_bswap64(word); }
inline uint32_t turned(uint32_t word) { return __builtin_bswap32(word); }
inline uint16_t turned(uint16_t word) { return __builtin_bswap16(word); }

// Packed bytes of single bits in the other order, or as they are.
template <bool Big> inline uint64_t ordered(uint64_t bits) {
    for (int width = 4; Big && width; width /= 2) {
        const uint64_t lower = ~uint64_t(0) / ((1 << width) + 1);  // width 4: 0x0f in each byte
        bits = (bits & lower) << width | (bits >> width & lower);
    }
    return bits;
}

}  // namespace gpulayout

#define KERNELS "bit_kernels.h"
#include "each_instruction_set.h"

namespace gpulayout { namespace {

constexpr int64_t SIDE = 512;             // slots of a box along each side
constexpr int64_t LEAST_BOX = 64 << 10;   // slots, if the move has as many
constexpr int64_t MOST_BOX = 256 << 10;   // slots, or a few times as many where a side is a single long run
constexpr int64_t LONG_RUN = 64;          // slots of a run that is unpacked without a byte move
constexpr int64_t AHEAD = 8;              // runs that are fetched while one is unpacked

const BitKernels* bit_kernels() {
#if IS_X86_64
    constexpr const BitKernels* tables[] = {&baseline::bit_table, &avx2::bit_table, &avx512::bit_table};
    return tables[gl_used_set()];
#else
    return &baseline::bit_table;
#endif
}

// How the slots of a side lie in bytes.
struct Side {
    int bits, log;  // log2 of the slots of a byte
    bool big;       // slot 0 of a byte is its highest bits
    int64_t per() const { return int64_t(1) << log; }
    int64_t shift(int64_t slot) const { return ((big ? ~slot : slot) & (per() - 1)) * bits; }
    uint8_t read(const uint8_t* memory, int64_t slot) const { return uint8_t(memory[slot >> log] >> shift(slot) & ((1 << bits) - 1)); }
};

struct Axis {
    int64_t extent, bound, source, target;  // strides in slots
    int64_t box, step;                      // places in a box; from one place to the next, when all are numbered in order
    int64_t spread, tile;                   // strides in the tile of unpacked elements, and in that for the target
    int64_t elements() const { return std::min(box, bound); }  // of a box
};

struct Loop {
    int64_t n, from, to;
};

struct FreeMove {
    void operator()(gl_move* move) const { gl_free(move); }
};

}}  // namespace gpulayout

struct gl_packed {
    std::vector<gpulayout::Axis> axes;  // as given
    std::vector<size_t> by_source, cut;  // axes, the nearest in the source first; those whose last box has fewer elements
    int64_t slots, start, boxes = 1;
    gpulayout::Side source, target;
    uint8_t pad, mask;                  // the bits of an element
    bool dense = true, padded = true;   // the target has no gaps; some of its places are no elements
    bool to_target = false;             // elements come into the target itself, which has a byte for each
    bool from_source = false;           // runs of the target are runs of bytes in the source
    bool alike = false;                 // runs of the source go where they belong, without a byte move
    size_t run_axes = 0, span_axes = 0;  // axes of a run of the target; axes by source that are unpacked with what is between
    int64_t spread_bytes = 0, tile_bytes = 0;
    std::vector<std::unique_ptr<gl_move, gpulayout::FreeMove>> moves;  // bit k of the number: axis `cut[k]` has fewer elements
    const gpulayout::BitKernels* kernels;
    int64_t step_to(const gpulayout::Axis& a) const { return to_target ? a.target : a.tile; }  // where elements come as bytes
};

namespace gpulayout { namespace {

// --------------------------------------------------------------------------------------------------------------- the plan

int64_t in_lines(int64_t bytes) {  // an odd number of lines, so that a column uses all sets of a cache
    return bytes < 64 ? bytes : 64 * ((bytes + 63) / 64 | 1);
}

// Takes places of an axis for a box that has `have` of them, until there are `want`.  Runs are cut at whole bytes, if possible.
bool take(Axis& a, int64_t have, int64_t want, bool in_run) {
    int64_t whole = in_run ? 8 / std::gcd(a.step, int64_t(8)) : 1;
    int64_t box = std::max(a.box, (want + have - 1) / have);
    a.box = std::min(a.extent, (box + whole - 1) / whole * whole);
    return a.box == a.extent;
}

int64_t box_places(const gl_packed& p) {
    int64_t n = 1;
    for (const Axis& a : p.axes) n *= a.box;
    return n;
}

void choose_box(gl_packed& p) {
    int64_t have = 1, along_source = 1;
    for (Axis& a : p.axes) {
        if (have >= SIDE || !take(a, have, SIDE, true)) break;
        have *= a.box;
    }
    for (size_t k : p.by_source) {
        Axis& a = p.axes[k];
        int64_t want = std::min(SIDE, MOST_BOX / (box_places(p) / a.box) * along_source);
        if (along_source >= want) break;
        if (a.elements() < a.bound) take(a, along_source, std::min(want, along_source * a.bound), a.box > 1);
        along_source *= a.elements();
        if (a.elements() < a.bound) break;
    }
    for (Axis& a : p.axes)
        if (int64_t others = box_places(p) / a.box; others * a.box < LEAST_BOX && a.box < a.extent) take(a, others, LEAST_BOX, true);
    for (const Axis& a : p.axes) p.boxes *= (a.extent + a.box - 1) / a.box;
}

// The tile of the target: its runs, and the others behind them.
void make_tile(gl_packed& p) {
    int64_t dense = 1, step = 1;
    for (const Axis& a : p.axes) {
        if (a.target != dense) break;
        p.run_axes++, dense *= a.extent;
        if (a.box < a.extent) break;
    }
    for (size_t k = 0; k < p.axes.size(); k++) {
        if (k == p.run_axes) step = in_lines(step);
        p.axes[k].tile = step, step *= p.axes[k].box;
    }
    p.tile_bytes = p.to_target ? 0 : step;
}

// The tile of the source: what is unpacked at a time, gaps included if they are less than half of it, and the others behind it.
void make_spread(gl_packed& p) {
    int64_t span = 1, elements = 1, step = 0;
    for (size_t k : p.by_source) {
        Axis& a = p.axes[k];
        int64_t n = a.elements(), longer = span + (n - 1) * a.source;
        if (!step && a.source >= 0 && longer <= 2 * elements * n) {
            p.span_axes++, a.spread = a.source, span = longer, elements *= n;
            continue;
        }
        if (!step) step = in_lines(span);
        a.spread = step, step *= n;
    }
    p.spread_bytes = step ? step : span;
}

// Byte moves for boxes with all elements, and for those with fewer along some axes.
void plan_moves(gl_packed& p) {
    for (size_t k = 0; k < p.axes.size(); k++)
        if (p.axes[k].bound > p.axes[k].box && p.axes[k].bound % p.axes[k].box) p.cut.push_back(k);
    for (size_t number = 0; number < size_t(1) << p.cut.size(); number++) {
        std::vector<gl_axis> axes;
        for (const Axis& a : p.axes) axes.push_back({a.elements(), a.elements(), p.source.bits < 8 ? a.spread : a.source, p.step_to(a)});
        for (size_t k = 0; k < p.cut.size(); k++)
            if (number >> k & 1) axes[p.cut[k]].extent = axes[p.cut[k]].bound = p.axes[p.cut[k]].bound % p.axes[p.cut[k]].box;
        p.moves.emplace_back(gl_plan(int(axes.size()), axes.data(), 1, &p.pad));
        if (!p.moves.back()) throw std::bad_alloc();
    }
}

void plan_packed(gl_packed& p, const gl_packed_move& move) {
    int64_t elements = 1, places = 1;
    for (int k = 0; k < move.rank; k++) {
        const gl_axis& a = move.axes[k];
        if (a.extent == 1 && a.bound == 1) continue;
        p.dense &= a.target == places;
        p.axes.push_back({a.extent, a.bound, a.source, a.target, 1, places, 0, 0});
        elements *= a.bound, places *= a.extent;
    }
    if (!places) return;
    p.padded = elements < places || move.slots < places;
    p.by_source.resize(p.axes.size());
    std::iota(p.by_source.begin(), p.by_source.end(), size_t(0));
    std::stable_sort(p.by_source.begin(), p.by_source.end(),
                     [&](size_t a, size_t b) { return std::abs(p.axes[a].source) < std::abs(p.axes[b].source); });
    p.to_target = p.target.bits == 8 && !p.padded;
    choose_box(p);
    make_tile(p);
    bool begins_alike = !p.axes.empty() && p.axes[0].source == 1 && (!p.to_target || p.axes[0].target == 1);
    p.alike = p.source.bits < 8 && begins_alike && p.axes[0].bound >= LONG_RUN;
    p.from_source = p.source.bits == 8 && p.target.bits < 8 && begins_alike && p.run_axes == 1;
    if (p.from_source && !p.padded) p.tile_bytes = 0;
    if (p.alike || !elements || (p.from_source && !p.padded)) return;
    if (p.source.bits < 8) make_spread(p);
    plan_moves(p);
}

// ---------------------------------------------------------------------------------------------------------- its execution

template <class Function> void each(const Loop* loops, int rank, int64_t from, int64_t to, const Function& function) {
    if (!rank) return function(from, to);
    const Loop& loop = loops[rank - 1];
    for (int64_t k = 0; k < loop.n; k++) each(loops, rank - 1, from + k * loop.from, to + k * loop.to, function);
}

void unpack_run(const gl_packed& p, uint8_t* to, const uint8_t* source, int64_t slot, int64_t n) {
    const Side& side = p.source;
    for (; n && slot & (side.per() - 1); n--) *to++ = side.read(source, slot++);
    int64_t bytes = n >> side.log;
    if (bytes) p.kernels->unpack[side.big][3 - side.log](to, source + (slot >> side.log), bytes);
    for (int64_t k = bytes << side.log; k < n; k++) to[k] = side.read(source, slot + k);
}

// The element of any place of a target without gaps; 0 after the last one.
uint8_t element_of(const gl_packed& p, const uint8_t* source, int64_t place) {
    if (place >= p.slots) return 0;
    int64_t slot = p.start;
    for (const Axis& a : p.axes) {
        int64_t c = place / a.step % a.extent;
        if (c >= a.bound) return p.pad;
        slot += c * a.source;
    }
    return p.source.read(source, slot) & p.mask;
}

// Packs a run of the target, without the byte at its begin that another run writes, and with all of that at its end.
void pack_run(const gl_packed& p, const uint8_t* source, uint8_t* target, int64_t slot, int64_t n, const uint8_t* from) {
    const Side& side = p.target;
    if (p.dense) n = std::min(n, p.slots - slot);
    int64_t before = -slot & (side.per() - 1);
    slot += before, from += before, n -= before;
    if (n <= 0) return;
    int64_t bytes = n >> side.log, rest = n & (side.per() - 1);
    target += slot >> side.log;
    if (side.bits == 8) std::memcpy(target, from, size_t(n));
    else if (bytes) p.kernels->pack[side.big][3 - side.log](target, from, bytes);
    if (!rest) return;
    int last = 0;
    for (int64_t k = 0, done = n - rest; k < side.per(); k++)
        last |= (k < rest ? from[done + k] & p.mask : element_of(p, source, slot + done + k)) << side.shift(k);
    target[bytes] = uint8_t(last);
}

// Brings the elements of a box, `count` along each axis, to bytes at `to`; `from` is the slot of the first one.
void bring(const gl_packed& p, const int64_t* count, const uint8_t* source, int64_t from, uint8_t* to, uint8_t* spread) {
    Loop loops[64];
    int rank = 0;
    if (p.alike) {
        for (size_t k = 1; k < p.axes.size(); k++) loops[rank++] = {count[k], p.axes[k].source, p.step_to(p.axes[k])};
        return each(loops, rank, from, 0, [&](int64_t slot, int64_t at) { unpack_run(p, to + at, source, slot, count[0]); });
    }
    size_t number = 0;
    for (size_t k = 0; k < p.cut.size(); k++) number |= size_t(count[p.cut[k]] < p.axes[p.cut[k]].box) << k;
    if (p.source.bits < 8) {
        int64_t span = 1;
        for (size_t k = 0; k < p.by_source.size(); k++) {
            const Axis& a = p.axes[p.by_source[k]];
            if (k < p.span_axes) span += (count[p.by_source[k]] - 1) * a.source;
            else loops[rank++] = {count[p.by_source[k]], a.source, a.spread};
        }
        const int64_t ahead = rank && loops[0].n > AHEAD ? AHEAD * loops[0].from : 0, line = 64 << p.source.log;
        each(loops, rank, from, 0, [&](int64_t slot, int64_t at) {
            for (int64_t k = 0; ahead && k < span; k += line) __builtin_prefetch(source + ((slot + ahead + k) >> p.source.log));
            unpack_run(p, spread + at, source, slot, span);
        });
    }
    if (gl_run(p.moves[number].get(), p.source.bits < 8 ? spread : source + from, to, 1, nullptr, nullptr) == GL_DONE) return;
    rank = 0;  // without memory for the move: element by element
    for (size_t k = 0; k < p.axes.size(); k++) loops[rank++] = {count[k], p.axes[k].source, p.step_to(p.axes[k])};
    each(loops, rank, from, 0, [&](int64_t slot, int64_t at) { to[at] = p.source.read(source, slot); });
}

void move_box(const gl_packed& p, const int64_t* at, const uint8_t* source, uint8_t* target, uint8_t* scratch) {
    int64_t places[64], count[64], from = p.start, to = 0, run = 1;
    bool any = true, all = true;
    for (size_t k = 0; k < p.axes.size(); k++) {
        const Axis& a = p.axes[k];
        places[k] = std::min(a.box, a.extent - at[k]), count[k] = std::clamp<int64_t>(a.bound - at[k], 0, places[k]);
        any &= count[k] > 0, all &= count[k] == places[k];
        from += at[k] * a.source, to += at[k] * a.target;
        if (k < p.run_axes) run *= places[k];
    }
    uint8_t* tile = scratch + p.spread_bytes;
    if (p.to_target) return bring(p, count, source, from, target + to, scratch);
    const bool from_source = p.from_source && all;
    if (!all) std::memset(tile, p.pad, size_t(p.tile_bytes));
    if (any && !from_source) bring(p, count, source, from, tile, scratch);
    Loop loops[64];
    int rank = 0;
    for (size_t k = p.run_axes; k < p.axes.size(); k++)
        loops[rank++] = {places[k], from_source ? p.axes[k].source : p.axes[k].tile, p.axes[k].target};
    const uint8_t* first = from_source ? source + from : tile;
    each(loops, rank, 0, to, [&](int64_t in_tile, int64_t slot) { pack_run(p, source, target, slot, run, first + in_tile); });
}

void run_boxes(const Call& call, int64_t first, int64_t last, Worker& worker) {
    const gl_packed& p = *static_cast<const gl_packed*>(call.plan);
    const uint8_t* source = reinterpret_cast<const uint8_t*>(call.source);
    uint8_t *target = reinterpret_cast<uint8_t*>(call.target), *scratch = reinterpret_cast<uint8_t*>(worker.scratch);
    for (int64_t box = first; box < last; box++) {
        int64_t at[64], left = box;
        for (size_t k = 0; k < p.axes.size(); k++) {
            const Axis& a = p.axes[k];
            int64_t boxes = (a.extent + a.box - 1) / a.box;
            at[k] = left % boxes * a.box, left /= boxes;
        }
        move_box(p, at, source, target, scratch);
    }
}

Side side_of(int bits, int big) { return {bits, bits == 1 ? 3 : bits == 2 ? 2 : bits == 4 ? 1 : 0, big && bits < 8}; }

int64_t most_threads(const gl_packed& p) { return std::max<int64_t>(1, std::min({p.boxes, p.slots / SHARE, int64_t(MOST_THREADS)})); }

}}  // namespace gpulayout

// ------------------------------------------------------------------------------------------------------------ C interface

extern "C" {

using namespace gpulayout;

gl_packed* gl_packed_plan(const gl_packed_move* move) {
    try {
        std::unique_ptr<gl_packed> plan(new gl_packed);
        plan->slots = move->slots, plan->start = move->start, plan->kernels = bit_kernels();
        plan->source = side_of(move->source_bits, move->source_big);
        plan->target = side_of(move->target_bits, move->target_big);
        plan->mask = uint8_t((1 << std::min(move->source_bits, move->target_bits)) - 1), plan->pad = move->pad & plan->mask;
        plan_packed(*plan, *move);
        return plan.release();
    } catch (const std::exception&) {  // no memory
        return nullptr;
    }
}
void gl_packed_free(gl_packed* plan) { delete plan; }

gl_result gl_packed_run(const gl_packed* plan, const void* source, void* target, int threads, gl_poll poll, void* about) {
    if (!plan->slots) return GL_DONE;
    Call call{run_boxes, plan, static_cast<const char*>(source), static_cast<char*>(target), plan->boxes, plan->spread_bytes + plan->tile_bytes};
    int64_t portion = std::max<int64_t>(1, PORTION / std::max<int64_t>(1, plan->slots / plan->boxes));
    return share(call, int(std::min<int64_t>(threads, most_threads(*plan))), portion, poll, about);
}

gl_packed_description gl_packed_describe(const gl_packed* plan) {
    return {box_places(*plan), plan->boxes, plan->spread_bytes + plan->tile_bytes, !plan->moves.empty(), plan->slots, most_threads(*plan)};
}


}
