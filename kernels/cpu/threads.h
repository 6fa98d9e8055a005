// Threads that share a call: portions of items 0..count-1, each done once.
//
// One helper for each further thread.  Each thread has a range of the items, the same of call after call, so that what it
// writes is still in its own cache.  It claims portions of its range, and then of those of others: a helper that has no
// core at the moment delays the caller by no more than the portion that it is doing.  While a call is under way, the calls of
// other threads, and of signal handlers, work alone.
//
// A forked child has no helpers.  It starts a new crew, and a call that was under way in the forking thread does everything
// again, because portions of the lost helpers may be half done.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "strided_move.h"

namespace gpulayout {

constexpr int64_t SHARE = 128 << 10;       // bytes that justify a thread
constexpr int64_t PORTION = 16 << 20;      // bytes between two looks at the clock
constexpr int PORTIONS = 16;               // so many for each thread, if there are as many items
constexpr int MOST_THREADS = 256;
constexpr auto SPIN_TIME = std::chrono::microseconds(100);  // a helper looks so long for the next call before it sleeps
constexpr auto POLL_TIME = std::chrono::milliseconds(20);

// Memory for what a thread has at work.  A thread keeps it for its next move; a move within a move, of a signal handler, has its own.
class Scratch {
    struct Memory {
        char* at = nullptr;
        int64_t bytes = 0;
        ~Memory() { std::free(at); }
    };
    static Memory& kept() {
        static thread_local Memory memory;
        return memory;
    }
    Memory own;

public:
    explicit Scratch(int64_t wanted) {
        if (!wanted) return;
        std::swap(own.at, kept().at), std::swap(own.bytes, kept().bytes);
        if (own.bytes >= wanted) return;
        std::free(own.at);
        own.bytes = (wanted + 4095) / 4096 * 4096;
        own.at = static_cast<char*>(std::aligned_alloc(4096, size_t(own.bytes)));
        if (!own.at) own.bytes = 0;
    }
    ~Scratch() {
        if (own.bytes > kept().bytes) std::swap(own.at, kept().at), std::swap(own.bytes, kept().bytes);
    }
    Scratch(const Scratch&) = delete;
    char* at() const { return own.at; }  // nullptr: there is none
};

// A thread at work on a call.
struct Worker {
    char* scratch;
    const void* padded = nullptr;  // the plan whose padding is in the scratch tile
};

// By value: helpers use nothing that is on the stack of a thread that ended.
struct Call {
    void (*run)(const Call&, int64_t first, int64_t last, Worker&);  // does items first..last-1
    const void* plan;
    const char* source;
    char* target;
    int64_t count, scratch;     // items; bytes of memory that a thread needs
    const void* others[3] = {};  // what else it reads
};

struct alignas(64) Member {  // a thread: its range of the boxes, and what it sleeps on
    std::atomic<int64_t> next{0};
    int64_t end = 0;
    std::condition_variable wake;
};

struct Crew {
    std::mutex lock;
    std::atomic<bool> busy{false}, lost{false};
    std::atomic<int64_t> ticket{0};
    std::atomic<int> inside{0}, open{0};  // helpers that look for a call or work on it; threads that may work on it
    Call call{};                          // this and the next lines: written while `open` is 0 and nobody is inside
    int64_t portion = 0;
    int threads = 0, helpers = 0;
    Member members[MOST_THREADS];

    // The next portion for thread `who`; false: there is none left.
    bool claim(int who, int64_t& first, int64_t& last) {
        for (int k = 0; k < threads; k++) {
            Member& one = members[(who + k) % threads];
            if (one.next.load() >= one.end) continue;
            first = one.next.fetch_add(portion), last = std::min(first + portion, one.end);
            if (first < last) return true;
        }
        return false;
    }

    void work(int who) {
        Scratch scratch(call.scratch);
        Worker worker{scratch.at()};
        if (call.scratch && !worker.scratch) return;  // the caller has its own
        for (int64_t first, last; claim(who, first, last);) call.run(call, first, last, worker);
    }

    void serve(int who) {
        int64_t seen = 0;
        auto is_wanted = [&] { return ticket.load() != seen && who < open.load(); };
        for (;;) {
            auto sleeps = std::chrono::steady_clock::now() + SPIN_TIME;
            while (!is_wanted() && std::chrono::steady_clock::now() < sleeps) {
#if IS_X86_64
                _mm_pause();
#elif defined(__aarch64__)
                __asm__ volatile("yield");
#endif
            }
            if (!is_wanted()) {
                std::unique_lock<std::mutex> hold(lock);
                members[who].wake.wait(hold, is_wanted);
            }
            seen = ticket.load();
            inside.fetch_add(1);
            if (who < open.load()) work(who);
            inside.fetch_sub(1);
        }
    }

    // Helpers take no signals, so that Python sees them, but for their own faults, which faulthandler reports.  They may run on
    // the processors of the thread that starts them, as those of OpenMP do: it had several.
    void start(int wanted) {
        if (helpers >= wanted) return;
        sigset_t all, before;
        sigfillset(&all);
        for (int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigdelset(&all, fault);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        try {
            for (; helpers < wanted; helpers++) std::thread([this, who = helpers + 1] { serve(who); }).detach();
        } catch (const std::exception&) {  // the system allows no more, or has no memory for one
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    void invite(const Call& c, int wanted, int64_t some) {
        call = c, portion = some, threads = std::min(wanted, helpers + 1);
        for (int k = 0; k < threads; k++) {
            members[k].next = c.count * k / threads;
            members[k].end = c.count * (k + 1) / threads;
        }
        open = threads;
        {
            std::lock_guard<std::mutex> hold(lock);
            ticket.fetch_add(1);
        }
        for (int k = 1; k < threads; k++) members[k].wake.notify_one();
    }

    // No helper touches the call after this.
    void dismiss() {
        open = 0;
        for (int k = 0; k < threads; k++) members[k].next = INT64_MAX / 2;
        while (inside.load() && !lost) std::this_thread::yield();
    }
};

inline std::atomic<Crew*> process_crew{nullptr};

inline void forget_threads() {
    Crew* before = process_crew.load();
    if (before) before->lost = true;
    process_crew = nullptr;  // the next call makes one
}

// When the file is loaded, not at the first call: a fork in the middle of that would leave the child without it.
inline const bool sees_forks = !pthread_atfork(nullptr, nullptr, forget_threads);

inline Crew* crew() {  // nullptr: there are no helpers
    Crew* found = process_crew.load();
    if (found || !sees_forks) return found;
    Crew* made = new (std::nothrow) Crew;
    if (made && !process_crew.compare_exchange_strong(found, made)) delete made, made = found;
    return made;
}

// The time of the last look for signals.
struct Clock {
    gl_poll poll;
    void* about;
    std::chrono::steady_clock::time_point before = std::chrono::steady_clock::now();
    bool stops() {
        auto now = std::chrono::steady_clock::now();
        if (!poll || now - before < POLL_TIME) return false;
        int stop = poll(about);
        before = std::chrono::steady_clock::now();
        return stop != 0;
    }
};

// Does everything in the calling thread.
inline gl_result run_alone(const Call& c, Worker& worker, int64_t portion, Clock& clock) {
    for (int64_t first = 0; first < c.count; first += portion) {
        c.run(c, first, std::min(first + portion, c.count), worker);
        if (first + portion < c.count && clock.stops()) return GL_STOPPED;
    }
    return GL_DONE;
}

// A call with helpers.  Its end is a destructor, because Python ends a daemon thread within the poll when the process ends.
// Where that runs no destructors, as on macOS, helpers end the call alone: nothing that they use is on the thread's stack.
struct Together {
    Crew& crew;
    Together(Crew& used, const Call& c, int threads, int64_t portion) : crew(used) { crew.invite(c, threads, portion); }
    ~Together() {
        crew.dismiss();
        if (!crew.lost) crew.busy = false;
    }
    Together(const Together&) = delete;
};

inline gl_result run_together(Crew& crew, const Call& c, Worker& worker, int threads, int64_t portion, Clock& clock) {
    crew.start(threads - 1);
    portion = std::max<int64_t>(1, std::min(portion, c.count / (threads * PORTIONS)));
    bool stopped = false;
    {
        Together together(crew, c, threads, portion);
        for (int64_t first, last; !stopped && !crew.lost && crew.claim(0, first, last);) {
            c.run(c, first, last, worker);
            stopped = clock.stops();
        }
    }
    if (stopped) return GL_STOPPED;
    return crew.lost ? run_alone(c, worker, portion, clock) : GL_DONE;
}

// Does a call with at most `threads` threads; portion: items between two looks at the clock, to ask `poll`.
inline gl_result share(const Call& call, int threads, int64_t portion, gl_poll poll, void* about) {
    threads = std::min(threads, MOST_THREADS);
    Scratch scratch(call.scratch);
    Worker worker{scratch.at()};
    if (call.scratch && !worker.scratch) return GL_NO_MEMORY;
    if (threads < 2 && portion >= call.count) {
        call.run(call, 0, call.count, worker);
        return GL_DONE;
    }
    Clock clock{poll, about};
    if (threads > 1)
        if (Crew* found = crew(); found && !found->busy.exchange(true))
            return run_together(*found, call, worker, threads, portion, clock);
    return run_alone(call, worker, portion, clock);
}

}  // namespace gpulayout
