// Includes the file that KERNELS names once for each instruction set, see register_kernels.h.
#define INSTRUCTIONS baseline
#define LEVEL 0
#include KERNELS
#undef INSTRUCTIONS
#undef LEVEL
#if IS_X86_64
#define INSTRUCTIONS avx2
#define LEVEL 1
#if defined(LOWERED)
#elif defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif
#include KERNELS
#if defined(LOWERED)
#elif defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,prefer-vector-width=512")
#endif
#undef INSTRUCTIONS
#undef LEVEL
#define INSTRUCTIONS avx512
#define LEVEL 2
#include KERNELS
#undef INSTRUCTIONS
#undef LEVEL
#if defined(LOWERED)
#elif defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
#undef KERNELS
