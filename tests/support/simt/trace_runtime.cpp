// Counts sectors and bank conflicts; replaces ThreadSanitizer's runtime in a trace.
//
// The kernel is compiled with -fsanitize=thread, so each of its loads and stores calls a function here with its address.
// Accesses of one warp at the same place in the code, on the same visit to it, are one request, like one instruction of a
// warp on the device.
//
//   global memory   moves in sectors of 32 bytes.  The ideal is the fewest sectors that hold the requested bytes: 32
//                   contiguous lanes x 4 bytes are 4 sectors, and 4 is the ideal.
//   shared memory   has 32 banks of 4 bytes.  8-byte accesses are served in two phases of 16 lanes, 16-byte accesses in
//                   four of 8.  The degree of a phase is the largest number of different words that it requests from one
//                   bank: 1 is free of conflicts, 32 the worst.
#include <stdint.h>
#include <stdio.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int simt_traced_thread;
int simt_traced_thread = -1;

struct Access {
  uint64_t place;        // in the code
  int visit;             // this thread's earlier visits to that place in this block
  int kind;              // index of CLASS_NAMES
  uint64_t address;
  int bytes, lane;
};
static const char* const CLASS_NAMES[] = {"global read", "global write", "shared read", "shared write"};
static const int WARPS = 32, LANES = 32, BANKS = 32;

struct Total { long long requests, sectors, ideal_sectors, phases, degrees, worst_degree; };
static Total totals[4];
static std::vector<Access> accesses[WARPS];
static std::vector<std::pair<uint64_t, int>> visits[WARPS * LANES];   // (place, count) of each thread
static std::vector<std::pair<uint64_t, uint64_t>> buffers;            // begin, end
static std::pair<uint64_t, uint64_t> shared;                          // of the kernel's library

static int count_visit(int thread, uint64_t place) {
  for (auto& visit : visits[thread])
    if (visit.first == place) return visit.second++;
  visits[thread].push_back({place, 1});
  return 0;
}

static long long outside;   // accesses with only some of their bytes in a buffer

static int space_of(uint64_t address, int bytes) {   // 0 global, 2 shared, -1 neither: locals and parameters
  if (address >= shared.first && address < shared.second) return 2;
  for (const auto& buffer : buffers)
    if (address + bytes > buffer.first && address < buffer.second) {
      outside += address < buffer.first || address + bytes > buffer.second;
      return 0;
    }
  return -1;
}

static void note(void* place, void* pointer, int bytes, bool is_write) {
  const int thread = simt_traced_thread;
  if (thread < 0) return;
  const int space = space_of((uint64_t)pointer, bytes);
  if (space < 0) return;
  const uint64_t code = (uint64_t)place;
  accesses[thread / LANES].push_back(
      {code, count_visit(thread, code), space + is_write, (uint64_t)pointer, bytes, thread % LANES});
}

static void add_global(Total& total, const Access* first, const Access* last) {
  std::vector<uint64_t> bytes, sectors;
  for (const Access* a = first; a != last; ++a)
    for (int i = 0; i < a->bytes; ++i) bytes.push_back(a->address + i);
  std::sort(bytes.begin(), bytes.end());
  bytes.erase(std::unique(bytes.begin(), bytes.end()), bytes.end());
  for (uint64_t byte : bytes)
    if (sectors.empty() || sectors.back() != byte / 32) sectors.push_back(byte / 32);
  total.sectors += (long long)sectors.size();
  total.ideal_sectors += (long long)(bytes.size() + 31) / 32;
}

static int degree_of(std::vector<uint64_t>& words) {
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  int wanted[BANKS] = {};
  for (uint64_t word : words) ++wanted[word % BANKS];
  return *std::max_element(wanted, wanted + BANKS);
}

static void add_shared(Total& total, const Access* first, const Access* last) {
  const int lanes_per_phase = first->bytes <= 4 ? 32 : 128 / first->bytes;
  for (int lane = 0; lane < LANES; lane += lanes_per_phase) {
    std::vector<uint64_t> words;
    for (const Access* a = first; a != last; ++a)
      if (a->lane >= lane && a->lane < lane + lanes_per_phase)
        for (uint64_t word = a->address / 4; word <= (a->address + a->bytes - 1) / 4; ++word) words.push_back(word);
    if (words.empty()) continue;   // a phase whose lanes are all inactive
    const int degree = degree_of(words);
    ++total.phases;
    total.degrees += degree;
    total.worst_degree = std::max<long long>(total.worst_degree, degree);
  }
}

// Called by the scheduler when a block is done, before the next one reuses shared memory.
EXPORTED void simt_trace_end_block() {
  const auto request = [](const Access& a) { return std::make_tuple(a.place, a.visit, a.kind); };
  const auto by_request = [&](const Access& a, const Access& b) { return request(a) < request(b); };
  for (auto& warp : accesses) {
    std::sort(warp.begin(), warp.end(), by_request);
    for (size_t first = 0, last; first < warp.size(); first = last) {
      for (last = first; last < warp.size() && request(warp[last]) == request(warp[first]);) ++last;
      Total& total = totals[warp[first].kind];
      ++total.requests;
      (warp[first].kind < 2 ? add_global : add_shared)(total, &warp[first], &warp[first] + (last - first));
    }
    warp.clear();
  }
  for (auto& thread : visits) thread.clear();
}

EXPORTED void simt_trace_buffer(const void* begin, size_t bytes) {
  buffers.push_back({(uint64_t)begin, (uint64_t)begin + bytes});
}

EXPORTED void simt_trace_shared(const void* begin, size_t bytes) { shared = {(uint64_t)begin, (uint64_t)begin + bytes}; }

// Prints one line per class, its name and the numbers of Total, then "end", and resets all counts.
EXPORTED void simt_trace_report() {
  for (int kind = 0; kind < 4; ++kind) {
    const Total& t = totals[kind];
    printf("%s %lld %lld %lld %lld %lld %lld\n", CLASS_NAMES[kind], t.requests, t.sectors, t.ideal_sectors, t.phases,
           t.degrees, t.worst_degree);
    totals[kind] = Total();
  }
  printf("outside access %lld 0 0 0 0 0\n", outside);
  printf("end\n");
  outside = 0;
  buffers.clear();
}

// ---- what g++ calls ----------------------------------------------------------------------------
#define NOTE(function, bytes, is_write) \
  EXPORTED void function(void* p) { note(__builtin_return_address(0), p, bytes, is_write); }
#define NOTE_SIZE(bytes)                          \
  NOTE(__tsan_read##bytes, bytes, false)          \
  NOTE(__tsan_write##bytes, bytes, true)          \
  NOTE(__tsan_unaligned_read##bytes, bytes, false) \
  NOTE(__tsan_unaligned_write##bytes, bytes, true) \
  NOTE(__tsan_volatile_read##bytes, bytes, false) \
  NOTE(__tsan_volatile_write##bytes, bytes, true)
NOTE_SIZE(1) NOTE_SIZE(2) NOTE_SIZE(4) NOTE_SIZE(8) NOTE_SIZE(16)
EXPORTED void __tsan_read_range(void* p, size_t n) { note(__builtin_return_address(0), p, (int)n, false); }
EXPORTED void __tsan_write_range(void* p, size_t n) { note(__builtin_return_address(0), p, (int)n, true); }
EXPORTED void __tsan_init() {}
EXPORTED void __tsan_func_entry(void*) {}
EXPORTED void __tsan_func_exit() {}
EXPORTED void __tsan_vptr_update(void**, void*) {}
EXPORTED void __tsan_vptr_read(void**) {}
