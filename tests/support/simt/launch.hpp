// One launch: its description in memory, the checks that a device makes, and the walk over the grid.
#pragma once
#include <type_traits>
#include <utility>

#include "faults.hpp"
#include "scheduler.hpp"

namespace simt {

// The description of a launch; the arguments follow, each at the next multiple of 16 bytes.
struct Launch {
  uint32_t grid[3], block[3];
  int32_t order, races;
  uint64_t seed;
  int64_t first, last;        // run blocks first <= number < last of the grid; last -1: up to its end
  uint64_t unused;
};
static_assert(sizeof(Launch) == 64, "host_module.py and runner.py pack this struct");

static const size_t ARGUMENT_ALIGN = 16;

template <class A> constexpr size_t slot_bytes() {
  static_assert(alignof(A) <= ARGUMENT_ALIGN, "no CUDA parameter needs more");
  return (sizeof(A) + ARGUMENT_ALIGN - 1) / ARGUMENT_ALIGN * ARGUMENT_ALIGN;
}

// Where argument I starts.  For (void*, void*, 40-byte struct, int): 0, 16, 32, 80.
template <size_t I, class... A> constexpr size_t slot_start() {
  const size_t bytes[] = {slot_bytes<A>()..., 0};
  size_t start = 0;
  for (size_t i = 0; i < I; ++i) start += bytes[i];
  return start;
}

template <class... A, size_t... I>
__forceinline__ void call_with(void (*kernel)(A...), const char* arguments, std::index_sequence<I...>) {
  kernel(*(const A*)(arguments + slot_start<I, A...>())...);
}

SIMT_UNWATCHED bool check_configuration(const Launch& launch) {
  const uint32_t *g = launch.grid, *b = launch.block;
  if (!b[0] || !b[1] || !b[2] || (uint64_t)b[0] * b[1] > MAX_THREADS || (uint64_t)b[0] * b[1] * b[2] > MAX_THREADS ||
      b[2] > 64)
    return fail("block (%u, %u, %u) is empty or over %d threads", b[0], b[1], b[2], MAX_THREADS);
  if (!g[0] || !g[1] || !g[2] || g[0] > 0x7FFFFFFF || g[1] > 65535 || g[2] > 65535)
    return fail("grid (%u, %u, %u) is empty or over (2147483647, 65535, 65535)", g[0], g[1], g[2]);
  return true;
}

SIMT_UNWATCHED void prepare_threads(const Launch& launch) {
  gridDim = {launch.grid[0], launch.grid[1], launch.grid[2]};
  blockDim = {launch.block[0], launch.block[1], launch.block[2]};
  thread_count = (int)(blockDim.x * blockDim.y * blockDim.z);
  unsigned x = 0, y = 0, z = 0;
  for (int i = 0; i < thread_count; ++i) {
    threads[i].index = {x, y, z};
    threads[i].warp = i / warpSize;
    sequence[i] = launch.order == DESCENDING ? thread_count - 1 - i : i;
    if (++x == blockDim.x) x = 0, ++y;
    if (y == blockDim.y) y = 0, ++z;
  }
  random_state = launch.seed * 0x9E3779B97F4A7C15ull + 1;
}

SIMT_UNWATCHED bool run_grid(const Launch& launch) {
  const long long width = launch.grid[0], height = launch.grid[1];
  const long long count = width * height * launch.grid[2];   // below 2^63: see check_configuration
  const long long last = launch.last < 0 || launch.last > count ? count : launch.last;
  for (block_number = launch.first; block_number < last; ++block_number) {
    blockIdx = {(unsigned)(block_number % width), (unsigned)(block_number / width % height),
                (unsigned)(block_number / width / height)};
    if (!run_block((Order)launch.order)) return false;
  }
  return true;
}

SIMT_UNWATCHED bool run_guarded(const Launch& launch) {
#ifdef SIMT_CATCH_FAULTS
  FaultHandlers handlers;
  if (sigsetjmp(fault_return, 0)) {
    char what[128];
    describe_fault(what, sizeof what);
    return fail("%s, block (%u, %u, %u), thread (%u, %u, %u)", what, blockIdx.x, blockIdx.y, blockIdx.z,
                threadIdx.x, threadIdx.y, threadIdx.z);
  }
#endif
  return run_grid(launch);
}

inline const char* kernel_arguments;

// Returns null, or why the launch failed.
const char* run_launch(const Launch& launch);

#ifdef SIMT_RUNTIME
SIMT_UNWATCHED_ENTRY const char* run_launch(const Launch& launch) {
  if (!check_configuration(launch)) return message;
  watch_launch((Races)launch.races, __start_simt_shared, (size_t)(__stop_simt_shared - __start_simt_shared));
  prepare_threads(launch);
  const bool right = run_guarded(launch);
  become(nullptr);
  watch_launch_end();
  return right ? nullptr : message;
}
#endif

template <class Call> const char* launch(const Launch& launch) {
  kernel_arguments = (const char*)(&launch + 1);
  kernel_call = [] { Call::call(kernel_arguments); };
  return run_launch(launch);
}

// The parameters of a kernel as text, one word each, of kind and bytes: "p8 p8 s1024 i8".
template <class A> constexpr char kind_of() {
  return std::is_pointer<A>::value ? 'p' : !std::is_integral<A>::value ? 's' : std::is_signed<A>::value ? 'i' : 'u';
}
template <class... A> void signature(void (*)(A...), char* text, size_t bytes) {
  size_t used = 0;
  ((used += (size_t)snprintf(text + used, bytes - used, "%c%zu ", kind_of<A>(), sizeof(A))), ...);
}
template <class... A> std::index_sequence_for<A...> parameters_of(void (*)(A...)) { return {}; }

}  // namespace simt

#define SIMT_VISIBLE extern "C" __attribute__((visibility("default")))
#define SIMT_EXPORT(kernel)                                                                            \
  struct simt_call_##kernel {                                                                          \
    static void call(const char* p) { simt::call_with(kernel, p, decltype(simt::parameters_of(kernel)){}); } \
  };                                                                                                   \
  SIMT_VISIBLE const char* simt_launch_##kernel(const void* description) {                             \
    return simt::launch<simt_call_##kernel>(*(const simt::Launch*)description);                        \
  }                                                                                                    \
  SIMT_VISIBLE void simt_signature_##kernel(char* text, size_t bytes) { simt::signature(kernel, text, bytes); }
