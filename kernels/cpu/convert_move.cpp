// Moves whose elements change on the way: target[c . target strides] = f(source[c . source strides], parameters[c . their strides]).
//
// The work is cut into *boxes*.  In a box the elements have one order, that of the target, or of the source if its elements are
// wider.  Rows that lie in this order on both sides are converted from one to the other.  Else the box passes through a scratch
// tile, which an ordinary move fills or empties (strided_move.cpp), always with the narrower elements:
//
//     u8 to f32, turned      source --move--> u8 in the order of the target --convert--> target
//     f32 to bf16, turned    source --convert--> bf16 in the order of the source --move--> target
//
// A row is converted in chunks that stay in the first-level cache, by a few passes over each: read the elements as numbers, do
// the steps, write them (convert_kernels.h).  Parameters that change along a row are spread to a value for each element first.
#include "convert_move.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "convert_words.h"
#include "instruction_sets.h"
#include "new_pages.h"
#include "threads.h"
#if !IS_X86_64
#include <cfenv>
#endif

namespace gpulayout {

enum Number { F32, F64 };  // what steps compute with
struct Pass;
using Row = void (*)(const char* from, char* to, int64_t n, const Pass& pass);
struct Pass {  // over a chunk
    Row row;
    unsigned type;                      // of the elements that it reads or writes
    bool saturate;
    int operation = 0, parameter = -1;  // of a step, which has no row before it is known whether its parameter varies; -1: it has none
    int after = -1;                     // the parameter of a second step in the same row
    const char *values = nullptr, *second = nullptr;  // the parameters of one step or two
    int64_t width = 1, phase = 0;       // elements that share a value, and how many of those of the first one came before
};
struct Passes {
    Pass all[12];
    int count = 0;
    bool saturate = false;
    void add(Row row, unsigned type, int operation = 0, int parameter = -1) { all[count++] = {row, type, saturate, operation, parameter}; }
};
struct ConvertKernels {
    Row (*cast_row)(unsigned from, unsigned to, bool saturate);  // all of a cast in one pass; nullptr: it takes those of both sides
    void (*add_reading)(Passes& passes, unsigned type, Number number, bool to_odd);
    void (*add_writing)(Passes& passes, unsigned type, Number number);
    void (*add_integers)(Passes& passes, unsigned from, unsigned to);
    Row steps[2][3][6];  // f32 or f64; one value, one for each element, or one for each row of `width`; operation
    Row pairs[2][6][6];  // two steps, one value each
    Row low_bits;        // elements of fewer than 8 bits
    void (*spread[2])(char* to, const char* from, int64_t n, int64_t stride, int64_t rows, int64_t row_stride);
};

}  // namespace gpulayout

#define KERNELS "convert_kernels.h"
#include "each_instruction_set.h"

namespace gpulayout {

static const ConvertKernels& kernels() {
#if IS_X86_64
    constexpr const ConvertKernels* tables[] = {&baseline::convert_table, &avx2::convert_table, &avx512::convert_table};
    return *tables[gl_used_set()];
#else
    return baseline::convert_table;
#endif
}

constexpr int64_t CHUNK = 4096;         // bytes of the numbers of a chunk
constexpr int64_t STREAMED = 1024;      // bytes of a piece that is written around the caches, of the wider elements
constexpr uintptr_t PAGE = 4096;
constexpr int64_t LEAST_RUN = 256;      // elements of a row that needs no scratch tile
constexpr int64_t LEAST_WIDTH = 16;     // elements that share a value so that it is not spread to each
constexpr int64_t PIECE = 256 << 10;    // bytes of a box that needs none
constexpr int64_t LONG_RUN = 4096;      // bytes of a box that needs one along the side that is converted along, of the wider elements
constexpr int64_t MOST_READS = 4096;    // places of a box that are fetched ahead
constexpr int MOST_AXES = 62;

// ------------------------------------------------------------------------------------------------------------- the plan

struct ConvertAxis {
    int64_t n, source, target, parameters[GL_MOST_PARAMETERS], box;
};

// The moves of a box to and from scratch tiles.  A box at the end of an axis is shorter there.
struct TileMoves {
    gl_move* gather = nullptr;
    gl_move* scatter = nullptr;
    TileMoves() = default;
    TileMoves(TileMoves&& other) noexcept : gather(other.gather), scatter(other.scatter) { other.gather = other.scatter = nullptr; }
    ~TileMoves() { gl_free(gather), gl_free(scatter); }
};

static int64_t bytes_of(unsigned type) { return std::max<int64_t>(1, (type >> 5 & 127) / 8); }

}  // namespace gpulayout

struct gl_convert {
    std::vector<gpulayout::ConvertAxis> axes;  // in the order of the conversion, fastest first
    std::vector<int> by_source;                // their numbers, in the order of the boxes
    std::vector<int> cut;                      // those with a shorter box at the end
    std::vector<gpulayout::TileMoves> moves;   // by which of `cut` are at their end, as bits
    gpulayout::Passes passes;
    const gpulayout::ConvertKernels* kernels = nullptr;
    gl_arithmetic arithmetic{};
    int64_t source_bytes = 0, target_bytes = 0, number_bytes = 4;  // of an element; of a parameter
    int64_t source_offset = 0, target_offset = 0;
    int64_t count = 1, boxes = 1, box = 1;
    int64_t gather_bytes = 0, scatter_bytes = 0, scratch = 0;  // of the tiles; of all memory that a thread needs
    int parameters = 0;
    std::vector<int64_t> reads;                // where a box reads on: bytes from its first element; empty: it is not fetched ahead
    int64_t read_lines = 0;
    bool gathers = false, scatters = false;
    bool streams = false, streams_together = false;  // whether one thread, and several, write around the caches
};

namespace gpulayout {

// Positive target strides, fastest first; axes of one place dropped, those that continue others on all sides joined.
static void normalize(gl_convert& p, int rank, const gl_convert_axis* axes) {
    std::vector<ConvertAxis> kept;
    for (int k = 0; k < rank; k++) {
        ConvertAxis a{axes[k].extent, axes[k].source, axes[k].target, {}, 1};
        std::copy_n(axes[k].parameters, GL_MOST_PARAMETERS, a.parameters);
        p.count *= a.n;
        if (a.n == 1) continue;
        if (a.target < 0) {
            p.source_offset += (a.n - 1) * a.source, p.target_offset += (a.n - 1) * a.target;
            a.source = -a.source, a.target = -a.target;
            for (int q = 0; q < GL_MOST_PARAMETERS; q++) p.arithmetic.starts[q] += (a.n - 1) * a.parameters[q], a.parameters[q] = -a.parameters[q];
        }
        kept.push_back(a);
    }
    std::stable_sort(kept.begin(), kept.end(), [](const ConvertAxis& a, const ConvertAxis& b) { return a.target < b.target; });
    for (const ConvertAxis& a : kept) {
        ConvertAxis* b = p.axes.empty() ? nullptr : &p.axes.back();
        bool goes_on = b && a.source == b->source * b->n && a.target == b->target * b->n;
        for (int q = 0; q < GL_MOST_PARAMETERS && goes_on; q++) goes_on = a.parameters[q] == b->parameters[q] * b->n;
        if (goes_on) b->n *= a.n;
        else p.axes.push_back(a);
    }
}

static std::vector<int> by_source(const gl_convert& p) {
    std::vector<int> found;
    for (int k = 0; k < int(p.axes.size()); k++) found.push_back(k);
    std::stable_sort(found.begin(), found.end(), [&](int a, int b) { return std::abs(p.axes[a].source) < std::abs(p.axes[b].source); });
    return found;
}

// How many elements lie without a gap on one side.
static int64_t dense_run(const gl_convert& p, int64_t ConvertAxis::*stride, int64_t size) {
    int64_t run = 1;
    for (const ConvertAxis& a : p.axes) {
        if (a.*stride != run * size) break;
        run *= a.n;
    }
    return run;
}

static uint16_t swapped(uint16_t word) { return __builtin_bswap16(word); }
static uint32_t swapped(uint32_t word) { return __builtin_bswap32(word); }
static uint64_t swapped(uint64_t word) { return __builtin_bswap64(word); }

// Elements in the other byte order than the machine's, as words: no bit of a nan changes.
template <class Word> static void swap_bytes(const char* from, char* to, int64_t n, const Pass&) {
    for (int64_t k = 0; k < n; k++) {
        Word word;
        std::memcpy(&word, from + k * int64_t(sizeof word), sizeof word);
        word = swapped(word);
        std::memcpy(to + k * int64_t(sizeof word), &word, sizeof word);
    }
}

// The passes over a chunk.  Numbers hold the elements of both sides; steps are done in f64 if a side has as many digits.
static void add_passes(gl_convert& p) {
    const unsigned from = p.arithmetic.source, to = p.arithmetic.target;
    const auto is_whole = [](unsigned type) { return (type & 7) <= GPL_SIGNED; };
    const auto is_long = [&](unsigned type) { return bytes_of(type) == 8 || (bytes_of(type) == 4 && is_whole(type)); };
    p.number_bytes = is_long(from) || is_long(to) ? 8 : 4;
    p.passes.saturate = p.arithmetic.saturate;
    if (p.arithmetic.swapped && p.source_bytes > 1)
        p.passes.add(p.source_bytes == 2 ? swap_bytes<uint16_t> : p.source_bytes == 4 ? swap_bytes<uint32_t> : swap_bytes<uint64_t>, from);
    if (!p.arithmetic.steps && from == to && (from & 7) != GPL_BOOLEAN) {  // codes stay, those of nan among them
        if ((from >> 5 & 127) < 8) p.passes.add(p.kernels->low_bits, from);
        return;
    }
    if (!p.arithmetic.steps && is_whole(from) && is_whole(to)) return p.kernels->add_integers(p.passes, from, to);
    if (const Row at_once = p.arithmetic.steps ? nullptr : p.kernels->cast_row(from, to, p.arithmetic.saturate)) return p.passes.add(at_once, to);
    const bool is_wide = p.arithmetic.steps ? p.number_bytes == 8 : std::max(bytes_of(from), bytes_of(to)) == 8 && (is_long(from) || is_whole(from));
    const Number number = is_wide ? F64 : F32;
    p.kernels->add_reading(p.passes, from, number, !p.arithmetic.steps && bytes_of(to) < (is_wide ? 8 : 4));
    for (unsigned left = p.arithmetic.steps; left; left >>= 5) {
        const int operation = left & 7, parameter = operation == GPL_ROUND ? -1 : int(left >> 3 & 3);
        p.passes.add(nullptr, 0, operation, parameter);
        p.parameters = std::max(p.parameters, parameter + 1);
    }
    p.kernels->add_writing(p.passes, to, number);
}

static int64_t worth_threads(const gl_convert& p) { return p.count * (p.source_bytes + p.target_bytes) / (4 * SHARE); }

// Boxes that are long along the side that is converted along, then as long as there is room along the other; or pieces of rows.
// Of arrays beyond the third-level cache longer rows are worth more than a tile that leaves room in the second: f32[64,256,56,56]
// to f16, channels last, took 20 ms with half of it, 34 with a quarter.  Tiles of single bytes have half as many, since what is four
// or eight times as large passes through the same cache: to s8 it took 17.6 ms instead of 20.
static void cut_boxes(gl_convert& p, bool is_large) {
    const bool is_tiled = p.gathers || p.scatters;
    const int64_t narrow = std::min(p.source_bytes, p.target_bytes), wide = std::max(p.source_bytes, p.target_bytes);
    const int64_t threads = worth_threads(p), room = is_tiled ? gl_second_level() / (is_large ? 2 : 4) / std::max<int64_t>(2, narrow) : PIECE / wide;
    const int64_t most = std::max<int64_t>(1, std::min(room, threads > 1 ? std::max<int64_t>(p.count / std::min<int64_t>(4 * threads, 16), 4096) : p.count));
    std::vector<int> by_conversion(p.axes.size());
    for (int k = 0; k < int(p.axes.size()); k++) by_conversion[size_t(k)] = k;
    std::vector<int> by_other = p.by_source;
    if (p.scatters && !p.gathers) std::stable_sort(by_other.begin(), by_other.end(), [&](int a, int b) { return p.axes[a].target < p.axes[b].target; });
    const auto take = [&](const std::vector<int>& order, int64_t limit) {
        for (int k : order) {
            ConvertAxis& a = p.axes[size_t(k)];
            a.box = std::max(a.box, std::min(a.n, limit * a.box / p.box));
            p.box = 1;
            for (const ConvertAxis& b : p.axes) p.box *= b.box;
        }
    };
    take(by_conversion, is_tiled ? std::min(most, LONG_RUN / wide) : most);
    take(by_other, most);
    p.box = p.boxes = 1;
    for (size_t k = 0; k < p.axes.size(); k++) {
        ConvertAxis& a = p.axes[k];
        const int64_t parts = (a.n + a.box - 1) / a.box;
        a.box = (a.n + parts - 1) / parts;  // about equally long
        p.box *= a.box, p.boxes *= (a.n + a.box - 1) / a.box;
        if (a.n % a.box) p.cut.push_back(int(k));
    }
}

// What a box reads, so that it can be fetched while the box before is converted: the source of a tile lies in many places, each
// too short for the processor to fetch ahead.
static void find_reads(gl_convert& p) {
    int64_t bytes = p.source_bytes, lowest = 0, count = 1;
    std::vector<const ConvertAxis*> apart;
    for (int k : p.by_source) {
        const ConvertAxis& a = p.axes[size_t(k)];
        if (std::abs(a.source) == bytes) bytes *= a.box, lowest += std::min<int64_t>(0, (a.box - 1) * a.source);
        else if (a.source) apart.push_back(&a), count *= a.box;
    }
    if (count > MOST_READS) return;
    p.reads = {lowest}, p.read_lines = (bytes + 63) / 64;
    for (const ConvertAxis* a : apart)
        for (size_t before = p.reads.size(), more = before * size_t(a->box - 1); more > 0; more--) p.reads.push_back(p.reads[p.reads.size() - before] + a->source);
}

// A move between a side and a scratch tile, for boxes that are shorter on some axes.  It is written as a part of all that is.
static gl_move* tile_move(const gl_convert& p, size_t shorter, bool is_gather) {
    gl_axis axes[MOST_AXES];
    int64_t step = is_gather ? p.source_bytes : p.target_bytes;
    const int64_t size = step;
    for (size_t k = 0; k < p.axes.size(); k++) {
        const ConvertAxis& a = p.axes[k];
        const size_t place = size_t(std::find(p.cut.begin(), p.cut.end(), int(k)) - p.cut.begin());
        const int64_t n = place < p.cut.size() && (shorter >> place & 1) ? a.n % a.box : a.box;
        axes[k] = is_gather ? gl_axis{n, n, a.source, step} : gl_axis{n, n, step, a.target};
        step *= n;
    }
    const char pad[8] = {};
    gl_move* made = gl_plan_part(int(p.axes.size()), axes, size, pad, is_gather ? 0 : p.count * (p.source_bytes + p.target_bytes));
    if (!made) throw std::bad_alloc();
    return made;
}

static void add_moves(gl_convert& p) {
    int64_t within = 0;  // what these moves need themselves
    for (size_t shorter = 0; shorter < size_t(1) << p.cut.size(); shorter++) {
        TileMoves moves;
        if (p.gathers) moves.gather = tile_move(p, shorter, true), within = std::max(within, gl_describe(moves.gather).scratch);
        if (p.scatters) moves.scatter = tile_move(p, shorter, false), within = std::max(within, gl_describe(moves.scatter).scratch);
        p.moves.push_back(std::move(moves));
    }
    const auto in_pages = [](int64_t bytes) { return (bytes + 4095) / 4096 * 4096; };
    p.gather_bytes = p.gathers ? in_pages(p.box * p.source_bytes) : 0, p.scatter_bytes = p.scatters ? in_pages(p.box * p.target_bytes) : 0;
    p.scratch = p.gather_bytes + p.scatter_bytes + within;
}

static void plan_convert(gl_convert& p, int rank, const gl_convert_axis* axes) {
    p.kernels = &kernels();
    p.source_bytes = bytes_of(p.arithmetic.source), p.target_bytes = bytes_of(p.arithmetic.target);
    normalize(p, rank, axes);
    add_passes(p);
    p.by_source = by_source(p);
    if (p.source_bytes > p.target_bytes) {
        std::vector<ConvertAxis> order;
        for (int k : p.by_source) order.push_back(p.axes[size_t(k)]);
        p.axes = order, p.by_source = by_source(p);
    }
    const int64_t least = std::min(p.count, LEAST_RUN);
    p.gathers = dense_run(p, &ConvertAxis::source, p.source_bytes) < least;
    p.scatters = dense_run(p, &ConvertAxis::target, p.target_bytes) < least;
    const bool is_tiled = p.gathers || p.scatters;
    const int64_t touched = p.count * (p.source_bytes + p.target_bytes);
    const bool is_large = gl_streams(touched / 4 * (is_tiled ? 6 : 3));  // tiles take their part of the caches
    // One thread reads and writes faster around the third-level cache before it is full.  Several get no more out of memory than
    // one, but twice as much out of that cache: where they mostly write, it is the faster way until they touch twice its size.
    p.streams = is_large && !p.scatters;
    p.streams_together = p.streams && (is_tiled || p.source_bytes >= p.target_bytes || gl_streams(touched / 3));
    cut_boxes(p, is_large);
    if (is_large && is_tiled) find_reads(p);
    add_moves(p);
}

// -------------------------------------------------------------------------------------------------------- its execution

// The law needs the default mode, which keeps subnormal numbers.
class FloatMode {
#if IS_X86_64
    unsigned before = _mm_getcsr();
public:
    FloatMode() { _mm_setcsr(0x1F80); }
    ~FloatMode() { _mm_setcsr(before); }
#else
    fenv_t before;
public:
    FloatMode() { fegetenv(&before), fesetenv(FE_DFL_ENV); }
    ~FloatMode() { fesetenv(&before); }
#endif
    FloatMode(const FloatMode&) = delete;
};

struct alignas(64) Buffers {
    char spread[GL_MOST_PARAMETERS][CHUNK], numbers[2][CHUNK];
};

// Rows of a box: elements in the order of the conversion, of which the first axes have no gap on both sides.
struct Rows {
    const gl_convert& p;
    const bool streams;  // around the caches
    const char* values[GL_MOST_PARAMETERS];
    const int64_t *count, *source_step, *target_step;
    Buffers& buffers;
    const char* next;   // the source of the next box
    int64_t left = 0;   // elements that are not converted yet
    size_t read = 0;    // of the next box, up to which it is fetched
    int64_t line = 0;   // in this read
    Pass passes[12] = {};  // with the rows of steps
    int run_axes = 0, pass_count = 0;
    int64_t run = 1, chunk = 1, piece = 1;
    int64_t period[GL_MOST_PARAMETERS] = {}, width[GL_MOST_PARAMETERS] = {1, 1, 1};  // elements after which values come again, 0: one value; that share one
    int from_axis[GL_MOST_PARAMETERS] = {};                              // the first that a parameter varies along, if values have a width
    const char* spread_from[GL_MOST_PARAMETERS] = {};             // what is in buffers.spread, if the next chunk has the same
    void prepare();
    void cut_chunks();
    void choose_rows();
    const char* spread_values(int q, int64_t first, int64_t n);
    void fetch(int64_t n);
    void convert_piece(const char* from, char* to, int64_t n);
    void convert_run(const char* from, char* to);
    void convert(int level, const char* from, char* to);
};

void Rows::prepare() {
    const int rank = int(p.axes.size());
    for (; run_axes < rank && source_step[run_axes] == run * p.source_bytes && target_step[run_axes] == run * p.target_bytes; run_axes++) {
        bool varies = false;  // along this axis and not below it
        for (int q = 0; q < p.parameters; q++) varies |= p.axes[size_t(run_axes)].parameters[q] && !period[q];
        if (varies && run >= LEAST_RUN) break;
        run *= count[run_axes];
        for (int q = 0; q < p.parameters; q++) {
            if (p.axes[size_t(run_axes)].parameters[q] && count[run_axes] > 1) period[q] = run;
            if (!period[q]) width[q] = run, from_axis[q] = run_axes + 1;
        }
    }
    for (int q = 0; q < p.parameters; q++)
        if (width[q] < LEAST_WIDTH) width[q] = 1, from_axis[q] = 0;
    cut_chunks();
    choose_rows();
}

// Values that come again within a chunk come again in each, and are spread once.  One pass needs no chunks.
void Rows::cut_chunks() {
    if (p.passes.count == 1 && !p.parameters && !streams) return void(chunk = piece = run);
    const int64_t line = streams ? std::max<int64_t>(1, 64 / p.target_bytes) : 1;
    int64_t longest = 1;
    chunk = CHUNK / p.number_bytes;
    for (int64_t one : period)
        if (one <= chunk) longest = std::max(longest, one);
    chunk -= chunk % (longest * line <= chunk ? longest * line : longest);
    piece = streams ? STREAMED / std::max(p.source_bytes, p.target_bytes) : chunk;
}

// Two steps with one value each are one row.
void Rows::choose_rows() {
    const bool is_wide = p.number_bytes == 8;
    const auto is_single = [&](const Pass& pass) { return !pass.row && (pass.parameter < 0 || !period[pass.parameter]); };
    for (int k = 0; k < p.passes.count; k++) {
        Pass &pass = passes[pass_count++] = p.passes.all[k];
        if (pass.row) continue;
        const Pass& next = p.passes.all[k + 1];  // the last one writes or is empty
        if (k + 1 < p.passes.count && is_single(pass) && is_single(next)) pass.row = p.kernels->pairs[is_wide][pass.operation][next.operation], pass.after = next.parameter, k++;
        else if (is_single(pass)) pass.row = p.kernels->steps[is_wide][0][pass.operation];
        else pass.width = width[pass.parameter], pass.row = p.kernels->steps[is_wide][pass.width > 1 ? 2 : 1][pass.operation];
    }
}

// A value for each of n elements of a run, or for each width of them.
const char* Rows::spread_values(int q, int64_t first, int64_t n) {
    if (spread_from[q] == values[q] && period[q] <= chunk) return buffers.spread[q];
    const int64_t size = p.number_bytes;
    const int base = from_axis[q];
    const auto stride_of = [&](int k) { return k < run_axes ? p.axes[size_t(k)].parameters[q] : 0; };
    int64_t at[MOST_AXES], left = first / width[q];
    n = (first % width[q] + n + width[q] - 1) / width[q];
    const char* from = values[q];
    for (int k = base; k < run_axes; k++) {
        at[k] = left % count[k], left /= count[k];
        from += at[k] * stride_of(k) * size;
    }
    const int64_t stride = stride_of(base), row_stride = stride_of(base + 1);
    if (stride == 1 && n <= count[base] - at[base]) return from;
    for (char* to = buffers.spread[q]; n > 0;) {
        int64_t some = std::min(n, count[base] - at[base]), rows = 1;  // the rest of a row, or whole ones
        if (some == count[base] && run_axes > base + 1) rows = std::min(n / some, count[base + 1] - at[base + 1]);
        p.kernels->spread[size == 8](to, from, some, stride, rows, row_stride);
        to += rows * some * size, n -= rows * some;
        at[base] += some, from += some * stride * size;
        if (rows > 1) at[base + 1] += rows - 1, from += (rows - 1) * row_stride * size;
        for (int k = base; k < run_axes && at[k] == count[k]; k++) {
            from -= at[k] * stride_of(k) * size, at[k] = 0;
            if (k + 1 < run_axes) at[k + 1]++, from += stride_of(k + 1) * size;
        }
    }
    spread_from[q] = values[q];
    return buffers.spread[q];
}

// As large a part of what the next box reads as n elements are of what is left of this one.
void Rows::fetch(int64_t n) {
    const int64_t unread = int64_t(p.reads.size() - read) * p.read_lines - line;
    for (int64_t some = unread - unread * (left - n) / left; some > 0; some--) {
        __builtin_prefetch(next + p.reads[read] + 64 * line, 0, 2);
        if (++line == p.read_lines) line = 0, read++;
    }
    left -= n;
}

void Rows::convert_piece(const char* from, char* to, int64_t n) {
    for (int k = 0; k < pass_count; k++) {
        char* into = k + 1 == pass_count && !streams ? to : buffers.numbers[k & 1];
        passes[k].row(from, into, n, passes[k]);
        from = into;
    }
    if (from != to) streams ? gl_stream(to, from, n * p.target_bytes) : (void)std::memcpy(to, from, size_t(n * p.target_bytes));
}

// The page of an address that is written soon.
static void look_up(const char* place) { __builtin_prefetch(place, 1); }

// Pieces that are written around the caches are short, so that reading and writing go on side by side, and end with lines.  The
// page after the one that is written is looked up ahead.
void Rows::convert_run(const char* from, char* to) {
    const char* chunk_values[GL_MOST_PARAMETERS];
    for (int64_t first = 0, n; first < run; first += n) {
        n = std::min(chunk, run - first);
        for (int q = 0; q < p.parameters; q++) chunk_values[q] = period[q] ? spread_values(q, first, n) : values[q];
        for (int64_t done = 0, some; done < n; done += some, from += some * p.source_bytes, to += some * p.target_bytes) {
            const uintptr_t begin = reinterpret_cast<uintptr_t>(to);
            some = std::min(n - done, piece - (piece < chunk ? int64_t(begin % 64) / p.target_bytes : 0));
            if (streams && begin % PAGE < uintptr_t(some * p.target_bytes)) look_up(to + PAGE);
            for (int k = 0; k < pass_count; k++) {
                Pass& pass = passes[k];
                if (pass.parameter >= 0) pass.values = chunk_values[pass.parameter] + (period[pass.parameter] ? (first % pass.width + done) / pass.width * p.number_bytes : 0);
                pass.phase = (first + done) % pass.width;
                if (pass.after >= 0) pass.second = chunk_values[pass.after];
            }
            if (next) fetch(some);
            convert_piece(from, to, some);
        }
    }
}

void Rows::convert(int level, const char* from, char* to) {
    if (level < run_axes) return convert_run(from, to);
    const ConvertAxis& a = p.axes[size_t(level)];
    for (int64_t k = 0; k < count[level]; k++) {
        if (streams && level == run_axes && k + 1 < count[level]) look_up(to + (k + 1) * target_step[level]);
        convert(level - 1, from + k * source_step[level], to + k * target_step[level]);
        for (int q = 0; q < p.parameters; q++) values[q] += a.parameters[q] * p.number_bytes;
    }
    for (int q = 0; q < p.parameters; q++) values[q] -= count[level] * a.parameters[q] * p.number_bytes;
}

static void run_box(const gl_convert& p, const Call& c, bool streams, const int64_t* at, const char* next, char* scratch) {
    const int rank = int(p.axes.size());
    int64_t count[MOST_AXES], source_step[MOST_AXES], target_step[MOST_AXES], places = 1;
    const char* source = c.source + p.source_offset;
    char* target = c.target + p.target_offset;
    Buffers buffers;
    Rows rows{p, streams, {}, count, source_step, target_step, buffers, next};
    for (int q = 0; q < p.parameters; q++) rows.values[q] = static_cast<const char*>(c.others[q]) + p.arithmetic.starts[q] * p.number_bytes;
    for (int k = 0; k < rank; k++) {
        const ConvertAxis& a = p.axes[size_t(k)];
        count[k] = std::min(a.box, a.n - at[k]);
        source += at[k] * a.source, target += at[k] * a.target;
        source_step[k] = p.gathers ? places * p.source_bytes : a.source, target_step[k] = p.scatters ? places * p.target_bytes : a.target;
        places *= count[k];
        for (int q = 0; q < p.parameters; q++) rows.values[q] += at[k] * a.parameters[q] * p.number_bytes;
    }
    size_t shorter = 0;
    for (size_t k = 0; k < p.cut.size(); k++) shorter |= size_t(count[p.cut[k]] < p.axes[size_t(p.cut[k])].box) << k;
    char *gathered = scratch, *converted = scratch + p.gather_bytes, *within = converted + p.scatter_bytes;
    if (p.gathers) gl_run_within(p.moves[shorter].gather, source, gathered, within);
    if (streams && !p.gathers && !p.scatters) make_pages(target, target + places * p.target_bytes, c.target + p.target_offset + p.count * p.target_bytes);
    rows.left = places;
    rows.prepare();
    rows.convert(rank - 1, p.gathers ? gathered : source, p.scatters ? converted : target);
    if (p.scatters) gl_run_within(p.moves[shorter].scatter, converted, target, within);
}

template <bool STREAMS> static void run_boxes(const Call& c, int64_t first, int64_t last, Worker& worker) {
    const gl_convert& p = *static_cast<const gl_convert*>(c.plan);
    FloatMode mode;
    int64_t at[2][MOST_AXES];
    const auto find = [&](int64_t box, int64_t* place) {
        int64_t left = box, offset = p.source_offset;
        for (int k : p.by_source) {
            const ConvertAxis& a = p.axes[size_t(k)];
            const int64_t boxes = (a.n + a.box - 1) / a.box;
            place[k] = left % boxes * a.box, left /= boxes;
            offset += place[k] * a.source;
        }
        return c.source + offset;
    };
    find(first, at[first & 1]);
    for (int64_t box = first; box < last; box++) {
        const bool fetches = box + 1 < last && !p.reads.empty();
        const char* next = find(box + 1, at[~box & 1]);
        run_box(p, c, STREAMS, at[box & 1], fetches ? next : nullptr, worker.scratch);
    }
#if IS_X86_64
    if (STREAMS) _mm_sfence();
#endif
}

}  // namespace gpulayout

// ----------------------------------------------------------------------------------------------------------- C interface

extern "C" {

using namespace gpulayout;

gl_convert* gl_convert_plan(int rank, const gl_convert_axis* axes, const gl_arithmetic* arithmetic) {
    try {
        std::unique_ptr<gl_convert> made(new gl_convert);
        made->arithmetic = *arithmetic;
        plan_convert(*made, rank, axes);
        return made.release();
    } catch (const std::exception&) {  // no memory, or more than a vector can have
        return nullptr;
    }
}
void gl_convert_free(gl_convert* plan) { delete plan; }

static int64_t most_threads(const gl_convert* p) {
    return std::max<int64_t>(1, std::min({p->boxes, worth_threads(*p), int64_t(MOST_THREADS)}));
}

gl_convert_description gl_convert_describe(const gl_convert* p) {
    const int64_t run = std::min(p->gathers ? p->box : dense_run(*p, &ConvertAxis::source, p->source_bytes),
                                 p->scatters ? p->box : dense_run(*p, &ConvertAxis::target, p->target_bytes));
    return {p->boxes, p->box, std::min(run, p->box), p->gathers, p->scatters, p->streams, p->scratch, p->count * p->target_bytes, most_threads(p)};
}

gl_result gl_convert_run(const gl_convert* p, const void* source, void* target, const void* const* parameters, int threads, gl_poll poll,
                         void* about) {
    threads = int(std::min<int64_t>(threads, most_threads(p)));
    const bool streams = threads > 1 ? p->streams_together : p->streams;
    Call call{streams ? run_boxes<true> : run_boxes<false>, p, static_cast<const char*>(source), static_cast<char*>(target), p->boxes, p->scratch};
    std::copy_n(parameters, p->parameters, call.others);
    const int64_t portion = std::max<int64_t>(1, PORTION / (p->box * std::max(p->source_bytes, p->target_bytes)));
    return share(call, threads, portion, poll, about);
}

}
