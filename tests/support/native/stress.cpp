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
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "memory.h"
#include "strided_move.h"

namespace {

constexpr unsigned HANG = 300;  // seconds; ends a process that waits for nothing

// ---------------------------------------------------------------------------------------------------------------- a move

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
