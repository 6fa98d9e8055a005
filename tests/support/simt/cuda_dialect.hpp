// The CUDA C++ keywords and functions that kernels use, defined so that g++ accepts a kernel file unchanged.
//
// Nothing here schedules or waits: barriers and warp shuffles are in scheduler.hpp and warp.hpp.
#pragma once
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

// All __shared__ objects are in one ELF section, so that the scheduler can poison them before each block.  The anchor keeps
// the section for kernels without shared memory.
#define __shared__ static __attribute__((section("simt_shared")))
extern "C" char __start_simt_shared[] __attribute__((visibility("hidden")));
extern "C" char __stop_simt_shared[] __attribute__((visibility("hidden")));
__shared__ __attribute__((used)) uint64_t simt_shared_anchor[1];

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
static const int warpSize = 32;

__forceinline__ uint2 make_uint2(unsigned x, unsigned y) { return uint2{x, y}; }
__forceinline__ uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return uint4{x, y, z, w}; }

template <class A, class B> __forceinline__ auto min(A a, B b) -> decltype(a + b) { return a < b ? a : b; }
template <class A, class B> __forceinline__ auto max(A a, B b) -> decltype(a + b) { return a < b ? b : a; }

// Always inlined, because the access trace identifies instructions by their place in the kernel.
template <class V> __forceinline__ V __ldg(const V* p) { return *p; }
template <class V> __forceinline__ void __stwb(V* p, V value) { *p = value; }
template <class V> __forceinline__ V __ldcs(const V* p) { return *p; }
template <class V> __forceinline__ V __ldcg(const V* p) { return *p; }
template <class V> __forceinline__ void __stcs(V* p, V v) { *p = v; }
template <class V> __forceinline__ void __stcg(V* p, V v) { *p = v; }

inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __clz(int a) { return a ? __builtin_clz((unsigned)a) : 32; }
inline int __clzll(long long a) { return a ? __builtin_clzll((unsigned long long)a) : 64; }
inline int __ffs(int a) { return __builtin_ffs(a); }

// Each nibble of the selector picks one of the eight bytes of (b, a); with its top bit set, it repeats the sign of that byte
// instead.  __byte_perm(0x33221100, 0x77665544, 0x7531) == 0x77553311.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = (uint64_t)b << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> (4 * i) & 15;
    unsigned byte = (unsigned)(bytes >> (8 * (nibble & 7))) & 255;
    if (nibble & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}

// The 64-bit number (high, low) shifted by shift % 32: its low word, or its high word.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}

// IEEE operations, each rounded once.  The volatile result keeps g++ from fusing two of them where the processor could.
#define SIMT_IEEE(name, type, symbol) \
  __forceinline__ type name(type a, type b) { volatile type result = a symbol b; return result; }
SIMT_IEEE(__fmul_rn, float, *)
SIMT_IEEE(__fadd_rn, float, +)
SIMT_IEEE(__fsub_rn, float, -)
SIMT_IEEE(__fdiv_rn, float, /)
SIMT_IEEE(__dmul_rn, double, *)
SIMT_IEEE(__dadd_rn, double, +)
SIMT_IEEE(__dsub_rn, double, -)
SIMT_IEEE(__ddiv_rn, double, /)

// A clock that advances in large steps, for kernels that only pass time.
inline long long clock64() {
  static long long ticks;
  return ticks += 50000000;
}

inline void __threadfence() {}
inline void __threadfence_block() {}
[[noreturn]] inline void __trap() { __builtin_trap(); }

// One OS thread runs everything, so a plain update is atomic.  Only ThreadSanitizer needs real atomics.
template <class V, class Update> __forceinline__ V simt_atomic(V* p, Update update) {
#if defined(__SANITIZE_THREAD__) && !defined(SIMT_TRACE)
  V old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(p, &old, update(old), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
#else
  V old = *p;
  *p = update(old);
  return old;
#endif
}
template <class V> struct simt_same { typedef V type; };   // only the pointer decides the type
#define SIMT_ATOMIC(name, expression)                                              \
  template <class V> __forceinline__ V name(V* p, typename simt_same<V>::type v) { \
    return simt_atomic(p, [v](V old) -> V { return expression; });                 \
  }
SIMT_ATOMIC(atomicAdd, old + v)
SIMT_ATOMIC(atomicMin, old < v ? old : v)
SIMT_ATOMIC(atomicMax, old < v ? v : old)
SIMT_ATOMIC(atomicOr, old | v)
SIMT_ATOMIC(atomicAnd, old & v)
SIMT_ATOMIC(atomicXor, old ^ v)
SIMT_ATOMIC(atomicExch, ((void)old, v))
