// Random moves through the C interface of the native engine, compared with a loop over all coordinates.
//
//     stress KIND SEED FIRST COUNT MOST_BYTES        does cases FIRST..FIRST+COUNT-1 of a seed
//
// Source and target lie against pages that nobody may touch, at their first or at their last byte, or anywhere between.
// Gaps of the target must stay as they were.  A case depends on the seed and its number only: a failure says how to repeat it.
// The last lines count what was done: "kernel INSTRUCTION_SET KERNEL count", "polls count".
//
//     moves    one after the other
//     callers  four threads, each with its own moves
//     stops    the poll stops the move: nothing is written afterwards, and each place is old or right
//     within   the poll does another move, whose poll does another
//     forks    the poll forks: the child finishes the move, does another, and ends; so does the parent
//     leaves   the poll ends the thread that moves: no helper goes on, and later moves have helpers
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "strided_move.h"

namespace {

constexpr int64_t ROOM = 1 << 26, PAGE = 1 << 16, MARGIN = 192;  // PAGE: the largest of any processor
constexpr unsigned HANG = 300;                                   // seconds; ends a process that waits for nothing

// The generator gives the same numbers everywhere; the library's distributions do not.
struct Random {
    std::mt19937_64 engine;
    explicit Random(uint64_t seed) : engine(seed) {}
    int64_t below(int64_t n) { return int64_t(engine() % uint64_t(n)); }
    bool one_in(int64_t n) { return below(n) == 0; }
    int64_t of(std::initializer_list<int64_t> list) { return list.begin()[below(int64_t(list.size()))]; }
};

// ---------------------------------------------------------------------------------------------------------------- memory

const std::vector<char>& noise() {
    static const std::vector<char> made = [] {
        std::vector<char> all(65521);  // a prime: no stride hides a wrong place
        Random random(1);
        for (char& c : all) c = char(random.below(256));
        return all;
    }();
    return made;
}

// Calls part(offset, noise, bytes) for n bytes of noise.
template <class Part> void each_part(int64_t n, int64_t phase, Part part) {
    int64_t size = int64_t(noise().size());
    for (int64_t done = 0; done < n;) {
        int64_t at = (phase + done) % size, some = std::min(n - done, size - at);
        part(done, noise().data() + at, some);
        done += some;
    }
}
void fill(char* to, int64_t n, int64_t phase) {
    each_part(n, phase, [&](int64_t at, const char* from, int64_t some) { std::memcpy(to + at, from, size_t(some)); });
}
bool is_filled(const char* to, int64_t n, int64_t phase) {
    bool same = true;
    each_part(n, phase, [&](int64_t at, const char* from, int64_t some) { same &= !std::memcmp(to + at, from, size_t(some)); });
    return same;
}

// Memory between two pages that nobody may touch.
class Region {
    char* begin;

public:
    Region() {
        void* at = mmap(nullptr, size_t(ROOM + 2 * PAGE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) std::perror("mmap"), std::exit(2);
        begin = static_cast<char*>(at) + PAGE;
        mprotect(begin - PAGE, size_t(PAGE), PROT_NONE), mprotect(begin + ROOM, size_t(PAGE), PROT_NONE);
    }
    ~Region() { munmap(begin - PAGE, size_t(ROOM + 2 * PAGE)); }
    Region(const Region&) = delete;
    void allow(bool allowed) const { mprotect(begin, size_t(ROOM), allowed ? PROT_READ | PROT_WRITE : PROT_NONE); }
    char* forbidden() const { return begin - PAGE; }
    int64_t before(const char* at) const { return std::min(MARGIN, int64_t(at - begin)); }
    int64_t after(const char* end) const { return std::min(MARGIN, int64_t(begin + ROOM - end)); }
    char* place(int64_t bytes, Random& random) const {
        int64_t where = random.below(5);
        return where < 2 ? begin : where < 4 ? begin + ROOM - bytes : begin + PAGE + random.below(128);
    }
};

// ----------------------------------------------------------------------------------------------------------------- cases

// What a run of this program draws: moves of up to so many bytes or so, all of them of that size or only some.
struct Run {
    uint64_t seed;
    int64_t most;
    bool all_large;
    Run after(uint64_t more) const { return {seed + more, most, all_large}; }
};

int64_t some_bytes(const Run& run, Random& random) {
    return run.all_large ? run.most / (1 + random.below(4)) : std::min(run.most, random.of({200, 3000, 40000, run.most}));
}

struct Span {  // of the bytes from coordinate 0
    int64_t low = 0, high = 0;
    int64_t bytes() const { return high - low; }
};

struct Case {
    std::vector<gl_axis> axes;
    int64_t size = 1;
    std::vector<char> pad;
    int64_t second = 1 << 20, third = 32 << 20;
    int set = 0, threads = 1;

    Span span(bool of_source) const {
        Span s;
        for (const gl_axis& a : axes) {
            int64_t n = of_source ? a.bound : a.extent;
            if (!n) return {};
            int64_t reach = (n - 1) * (of_source ? a.source : a.target);
            (reach < 0 ? s.low : s.high) += reach;
        }
        s.high += size;
        return s;
    }
    bool is_empty(bool of_source) const {
        for (const gl_axis& a : axes)
            if (!(of_source ? a.bound : a.extent)) return true;
        return false;
    }
    std::string text() const {
        std::string s = "size " + std::to_string(size) + " set " + std::to_string(set) + " threads " + std::to_string(threads) +
                        " caches " + std::to_string(second) + " " + std::to_string(third) + " axes";
        for (const gl_axis& a : axes)
            s += " (" + std::to_string(a.extent) + ", " + std::to_string(a.bound) + ", " + std::to_string(a.source) + ", " +
                 std::to_string(a.target) + ")";
        return s;
    }
};

int instruction_sets() {
    int n = 0;
    while (gl_instruction_set(n)) n++;
    return n;
}

std::vector<int> shuffled(int n, Random& random) {
    std::vector<int> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    for (int k = n - 1; k > 0; k--) std::swap(all[size_t(k)], all[size_t(random.below(k + 1))]);
    return all;
}

int64_t some_bound(Random& random, int style) {
    if (style == 0) return random.of({2, 3, 4});
    if (style == 1) return random.of({2, 3, 4, 64, 128, 256, 512});
    return random.of({1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 257, 1 + random.below(70),
                      1 + random.below(2000)});
}

// Strides that give every place its own bytes: axes in an order, each past all before it, with gaps perhaps, but not between
// the first `tight` ones.
std::vector<int64_t> laid_out(const std::vector<int64_t>& widths, int64_t size, const std::vector<int>& order, int tight, Random& random) {
    std::vector<int64_t> strides(widths.size());
    int64_t step = size, gaps = random.one_in(3) ? 1 + random.below(4) : 0;
    for (int d : order) {
        if (tight-- <= 0 && gaps) {
            if (random.one_in(2)) step += size * random.of({1, 1, 3, 16}) + (gaps == 2 ? random.below(2) : 0);
            if (gaps == 3) step = (step + 63) / 64 * 64;
            if (gaps == 4 && step > 500) step = (step + 1023) / 1024 * 1024;
        }
        strides[size_t(d)] = step, step *= std::max<int64_t>(widths[size_t(d)], 1);
    }
    return strides;
}

struct Loops {  // of a case that is being drawn
    std::vector<int64_t> bound, extent, source, target;
    size_t rank() const { return bound.size(); }
};

void add_padding(Loops& l, int64_t most_places, Random& random) {
    int64_t places = 1;
    for (int64_t n : l.bound) places *= n;
    l.extent = l.bound;
    if (!random.one_in(3)) return;
    for (int64_t& n : l.extent)
        if (random.one_in(3)) {
            int64_t more = random.of({1, 1, 2, 3, 5, 28, n}), all = places / n * (n + more);
            if (all <= most_places) places = all, n += more;
        }
}

// Anything.
Loops draw_any(int64_t size, const Run& run, Random& random) {
    Loops l;
    l.bound.resize(size_t(random.one_in(8) ? random.below(9) : 1 + random.below(5)));
    int style = int(random.below(5)), rank = int(l.rank());
    int64_t places = 1, left = std::max<int64_t>(1, some_bytes(run, random) / size);
    for (int64_t& n : l.bound) n = std::min(std::max<int64_t>(left / places, 1), some_bound(random, style)), places *= n;
    add_padding(l, 2 * left, random);
    if (rank && random.one_in(30)) l.bound[size_t(random.below(rank))] = 0;
    if (rank && random.one_in(100)) {
        size_t d = size_t(random.below(rank));
        l.bound[d] = l.extent[d] = 0;
    }
    l.source = laid_out(l.bound, size, shuffled(rank, random), 0, random);
    l.target = laid_out(l.extent, size, shuffled(rank, random), 0, random);
    if (random.one_in(20))
        for (int64_t& stride : l.source) stride = random.below(100) - 50;
    if (rank == 2 && random.one_in(3) && std::gcd(l.extent[0], l.extent[1]) == 1 && l.extent[0] > 1 && l.extent[1] > 1)
        l.target = {l.extent[1] * size, l.extent[0] * size};  // places of both axes alternate; each still has its own
    for (int64_t& stride : l.source) stride *= random.one_in(12) ? 0 : random.one_in(10) ? -1 : 1;
    return l;
}

// Two axes that turn, zip or unzip, and some more beside them or above them.
Loops draw_turned(int64_t size, const Run& run, Random& random) {
    int64_t kind = random.below(4), places = 1, left = std::max<int64_t>(1, some_bytes(run, random) / size);
    auto few = [&] { return random.of({2, 3, 4, 2, 3, 4, 5, 6}); };
    auto many = [&] { return random.one_in(2) ? 2 + random.below(150) : random.of({7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 128, 256, 1500}); };
    Loops l;
    l.bound = {kind == 0 ? few() : many(), kind == 1 ? few() : many()};  // minor in the target; in the source
    std::vector<int> target{0}, source{1}, others;
    for (int k = 2, rank = 2 + int(random.below(4)); k < rank; k++) {
        l.bound.push_back(random.one_in(2) ? few() : 2 + random.below(40));
        int64_t where = random.below(4);
        others.push_back(k);
        if (where == 0) target.push_back(k), others.pop_back();
        if (where == 1) source.push_back(k), others.pop_back();
    }
    for (int64_t& n : l.bound) n = std::min(std::max<int64_t>(left / places, 1), n), places *= n;
    if (random.one_in(4)) add_padding(l, 2 * left, random);
    l.extent.resize(l.rank());
    for (size_t k = 0; k < l.rank(); k++) l.extent[k] = std::max(l.extent[k], l.bound[k]);
    int tight_target = int(target.size()), tight_source = int(source.size());
    auto rest = [&](std::vector<int>& order) {
        for (int d : shuffled(int(l.rank()), random))
            if (std::find(order.begin(), order.end(), d) == order.end()) order.push_back(d);
    };
    if (random.one_in(2)) tight_target++, target.push_back(1);
    if (random.one_in(2)) tight_source++, source.push_back(0);
    rest(target), rest(source);
    l.source = laid_out(l.bound, size, source, tight_source, random);
    l.target = laid_out(l.extent, size, target, tight_target, random);
    for (int d : others) l.source[size_t(d)] *= random.one_in(12) ? 0 : random.one_in(10) ? -1 : 1;
    return l;
}

void draw_axes(Case& c, const Run& run, Random& random) {
    bool turns = random.one_in(2);
    Loops l = turns ? draw_turned(c.size, run, random) : draw_any(c.size, run, random);
    for (size_t k = 0; k < l.rank(); k++) {
        if (random.one_in(turns ? 30 : 10)) l.target[k] = -l.target[k];
        if (l.bound[k] <= 1 && random.one_in(4)) l.source[k] = (random.below(1000) - 500) * (1 << random.below(31));  // never used
        if (l.extent[k] <= 1 && random.one_in(4)) l.target[k] = random.below(3 * c.size);
        c.axes.push_back({l.extent[k], l.bound[k], l.source[k], l.target[k]});
    }
    std::stable_sort(c.axes.begin(), c.axes.end(), [](const gl_axis& a, const gl_axis& b) {
        int64_t s = std::abs(a.target), t = std::abs(b.target);
        return s != t ? s < t : a.extent < b.extent;
    });
}

Case drawn(const Run& run, uint64_t number) {
    std::seed_seq both{uint32_t(run.seed), uint32_t(run.seed >> 32), uint32_t(number), uint32_t(number >> 32)};
    uint32_t words[2];
    both.generate(words, words + 2);
    Random random(words[0] | uint64_t(words[1]) << 32);
    for (;;) {
        Case c;
        c.size = random.one_in(4) ? 1 + random.below(48) : random.of({1, 1, 2, 2, 4, 4, 8, 8, 16, 3, 6, 12});
        draw_axes(c, run, random);
        c.pad.resize(size_t(c.size));
        for (char& byte : c.pad) byte = char(random.below(256));
        c.second = random.of({1 << 11, 1 << 14, 1 << 16, 1 << 20});
        c.third = c.second < 1 << 14 && random.one_in(2) ? 3 : 32 << 20;
        c.set = int(random.below(instruction_sets()));
        c.threads = int(1 + random.below(4));
        if (std::max(c.span(true).bytes(), c.span(false).bytes()) < ROOM - 2 * PAGE) return c;
    }
}

void write_slowly(const Case& c, const char* source, char* target) {
    if (c.is_empty(false)) return;
    std::vector<int64_t> at(c.axes.size());
    for (;;) {
        bool is_element = true;
        int64_t from = 0, to = 0;
        for (size_t k = 0; k < at.size(); k++) {
            is_element &= at[k] < c.axes[k].bound;
            to += at[k] * c.axes[k].target;
        }
        for (size_t k = 0; is_element && k < at.size(); k++) from += at[k] * c.axes[k].source;
        std::memcpy(target + to, is_element ? source + from : c.pad.data(), size_t(c.size));
        size_t k = 0;
        for (; k < at.size() && ++at[k] == c.axes[k].extent; k++) at[k] = 0;
        if (k == at.size()) return;
    }
}

// ---------------------------------------------------------------------------------------------------------------- a move

struct Failure {
    std::string what;
};

struct Counts {
    std::mutex lock;
    std::map<std::string, int64_t> kernels;
    int64_t polls = 0;
} counts;

// What the poll of a case does; true: stop.
using Poll = std::function<bool()>;
int call_poll(void* poll) { return (*static_cast<Poll*>(poll))(); }

class Trial {
    const Region &sources, &targets;
    int64_t source_phase, target_phase;
    char *low, *high;      // of the target, with the bytes beside it that may be touched
    std::vector<char> before, want;
    int64_t offset;        // of coordinate 0 from low
    const char* source;
    gl_move* plan;

public:
    const Case& c;

    Trial(const Case& given, const Region& a, const Region& b, Random& random) : sources(a), targets(b), c(given) {
        Span from = c.span(true), to = c.span(false);
        source_phase = random.below(60000), target_phase = random.below(60000);
        char* first = sources.place(from.bytes(), random);
        fill(first, from.bytes(), source_phase);
        source = c.is_empty(true) ? sources.forbidden() : first - from.low;
        low = targets.place(to.bytes(), random), high = low + to.bytes();
        char* target = c.is_empty(false) ? targets.forbidden() : low - to.low;
        low -= targets.before(low), high += targets.after(high);
        offset = target - low;
        fill(low, high - low, target_phase);
        before.assign(low, high), want = before;
        write_slowly(c, source, want.data() + (c.is_empty(false) ? 0 : offset));
        gl_set_caches(1 << 15, c.second, c.third), gl_use(c.set);
        plan = gl_plan(int(c.axes.size()), c.axes.data(), c.size, c.pad.data());
        if (!plan) throw Failure{"no plan"};
        check_description();
    }
    ~Trial() { gl_free(plan); }
    Trial(const Trial&) = delete;

    void check_description() {
        gl_description d = gl_describe(plan);
        int64_t bytes = c.size;
        for (const gl_axis& a : c.axes) bytes *= a.extent;
        if (d.bytes != bytes || (d.boxes > 0) != (bytes > 0) || d.most_threads < 1) throw Failure{"wrong description"};
        std::lock_guard<std::mutex> hold(counts.lock);
        counts.kernels[std::string(gl_instruction_set(c.set)) + " " + (d.kernel ? d.kernel : "none")]++;
        counts.kernels[std::string(gl_instruction_set(c.set)) + " streams"] += d.streams;
    }

    gl_result run(Poll poll) {
        Poll counted = [&] {
            { std::lock_guard<std::mutex> hold(counts.lock); counts.polls++; }
            return poll();
        };
        return gl_run(plan, source, low + offset, c.threads, poll ? call_poll : nullptr, poll ? &counted : nullptr);
    }

    // All bytes are right, or, of a move that stopped, old.
    void check(bool is_whole) const {
        for (int64_t k = 0, n = high - low; k < n; k++) {
            char is = low[k], wanted = want[size_t(k)];
            if (is == wanted || (!is_whole && is == before[size_t(k)])) continue;
            throw Failure{"byte " + std::to_string(k - offset) + " of the target is " + std::to_string(is & 255) + ", not " +
                          std::to_string(wanted & 255)};
        }
        Span from = c.span(true);
        if (!c.is_empty(true) && !is_filled(source + from.low, from.bytes(), source_phase)) throw Failure{"the source changed"};
    }
    void done(gl_result result) const {
        if (result != GL_DONE) throw Failure{"result " + std::to_string(result)};
        check(true);
    }
    const Region& target_region() const { return targets; }
};

// -------------------------------------------------------------------------------------------------------- kinds of cases

struct Rooms {
    Region sources, targets;
};
using Kind = std::function<void(const Run&, uint64_t number, Rooms&)>;

Random random_of(const Run& run, uint64_t number) { return Random(run.seed * 1000003 + number); }

void moves(const Run& run, uint64_t number, Rooms& rooms) {
    Random random = random_of(run, number);
    Case c = drawn(run, number);
    Trial trial(c, rooms.sources, rooms.targets, random);
    trial.done(trial.run(random.one_in(2) ? Poll() : [] { return false; }));
}

void stops(const Run& run, uint64_t number, Rooms& rooms) {
    Random random = random_of(run, number);
    Case c = drawn(run, number);
    Trial trial(c, rooms.sources, rooms.targets, random);
    int64_t left = random.of({1, 1, 2, 5});
    gl_result result = trial.run([&] { return --left == 0; });
    trial.target_region().allow(false);  // a late write ends the process
    std::this_thread::yield();
    trial.target_region().allow(true);
    if ((result == GL_STOPPED) != (left <= 0)) throw Failure{"result " + std::to_string(result)};
    if (left < 0) throw Failure{"a look after the stop"};
    trial.check(result == GL_DONE);
}

void within(const Run& run, uint64_t number, Rooms& rooms) {
    Random random = random_of(run, number);
    Case c = drawn(run, number);
    Trial trial(c, rooms.sources, rooms.targets, random);
    int64_t left = 1 + random.below(2), depth = 0;
    std::function<bool()> inner = [&] {
        if (left == 0 || depth == 2) return false;
        left--, depth++;
        Rooms others;
        Case other = drawn(run.after(1), number * 4 + uint64_t(left));
        Trial again(other, others.sources, others.targets, random);
        again.done(again.run(inner));
        depth--;
        return false;
    };
    trial.done(trial.run(inner));
}

void forks(const Run& run, uint64_t number, Rooms& rooms) {
    Random random = random_of(run, number);
    Case c = drawn(run, number);
    Trial trial(c, rooms.sources, rooms.targets, random);
    int64_t left = random.of({1, 1, 2, 5});
    bool is_child = false, is_own = true, stops_child = random.one_in(4);
    pid_t child = 0;
    auto fork_now = [&] {
        child = fork();
        if (child < 0) std::perror("fork"), std::exit(2);
        is_child = child == 0;
        if (is_child) alarm(HANG);
    };
    bool is_stopped = false;
    gl_result result = trial.run([&] {
        if (--left == 0) {
            fork_now();
            return is_stopped = is_child && stops_child;
        }
        return false;
    });
    if (!child && !is_child) fork_now();  // it was too short for a poll: between two moves
    int status = 0;
    if (is_child) {
        try {
            if (is_stopped ? result != GL_STOPPED : result != GL_DONE) throw Failure{"the child has result " + std::to_string(result)};
            if (!is_stopped) trial.check(true);  // else what the lost helpers were at is half moved
            is_own = false;
            for (uint64_t k = 0; k < 2; k++) moves(run.after(2), number + k, rooms);
        } catch (const Failure& failure) {
            std::printf("the child, in %s move: %s\n", is_own ? "the parent's" : "a later", failure.what.c_str());
            std::fflush(stdout), status = 1;
        }
        _exit(status);
    }
    trial.done(result);
    waitpid(child, &status, 0);
    if (status) throw Failure{"the child ended with status " + std::to_string(status)};
}

void leaves(const Run& run, uint64_t number, Rooms& rooms) {
    Random random = random_of(run, number);
    Case c = drawn(run, number);
    Trial trial(c, rooms.sources, rooms.targets, random);
    gl_result result = GL_DONE;
    bool left = false;
    std::function<void()> body = [&] {
        result = trial.run([&]() -> bool { left = true; pthread_exit(nullptr); });
    };
    pthread_t thread;
    pthread_create(&thread, nullptr, [](void* f) -> void* { (*static_cast<std::function<void()>*>(f))(); return nullptr; }, &body);
    pthread_join(thread, nullptr);
    trial.target_region().allow(false);
    std::this_thread::yield();
    trial.target_region().allow(true);
    if (left) trial.check(false);
    else trial.done(result);
    moves(run.after(3), number, rooms);
}

const std::map<std::string, Kind> KINDS = {{"moves", moves}, {"callers", moves}, {"stops", stops},
                                           {"within", within}, {"forks", forks}, {"leaves", leaves}};

// Cases first..last-1 in steps; the number of the first that fails, or `last`.
void do_cases(const char* name, const Run& run, uint64_t first, uint64_t last, uint64_t step) {
    Rooms rooms;
    for (uint64_t number = first; number < last; number += step) try {
            KINDS.at(name)(run, number, rooms);
        } catch (const Failure& failure) {
            std::printf("WRONG: %s\n  case: %s\n  again: stress %s %llu %llu 1 %lld\n", failure.what.c_str(),
                        drawn(run, number).text().c_str(), name, static_cast<unsigned long long>(run.seed),
                        static_cast<unsigned long long>(number), static_cast<long long>(run.most));
            std::fflush(stdout), _exit(1);
        }
}

}  // namespace

int main(int count, char** words) {
    if (count != 6 || !KINDS.count(words[1])) return std::fprintf(stderr, "stress KIND SEED FIRST COUNT MOST_BYTES\n"), 2;
    bool polls = std::string(words[1]) != "moves" && std::string(words[1]) != "callers";
    Run run{std::strtoull(words[2], nullptr, 10), std::strtoll(words[5], nullptr, 10), polls};
    uint64_t first = std::strtoull(words[3], nullptr, 10), last = first + std::strtoull(words[4], nullptr, 10);
    uint64_t callers = std::string(words[1]) == "callers" ? 4 : 1;
    std::vector<std::thread> others;
    for (uint64_t k = 1; k < callers; k++) others.emplace_back(do_cases, words[1], run, first + k, last, callers);
    do_cases(words[1], run, first, last, callers);
    for (std::thread& other : others) other.join();
    for (const auto& [what, times] : counts.kernels) std::printf("kernel %s %lld\n", what.c_str(), static_cast<long long>(times));
    std::printf("polls %lld\n", static_cast<long long>(counts.polls));
}
