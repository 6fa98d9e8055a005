// What ../convert.cuh needs in C++: CUDA's words, and the numbers of gpulayout/moves/arithmetic.py.
#pragma once
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __clz(word) __builtin_clz(unsigned(word))
#define __clzll(word) __builtin_clzll(static_cast<unsigned long long>(word))
#define __fmul_rn(x, y) ((x) * (y))
#define __dmul_rn(x, y) ((x) * (y))
#define __fadd_rn(x, y) ((x) + (y))
#define __dadd_rn(x, y) ((x) + (y))
#define __fsub_rn(x, y) ((x) - (y))
#define __dsub_rn(x, y) ((x) - (y))
#define __fdiv_rn(x, y) ((x) / (y))
#define __ddiv_rn(x, y) ((x) / (y))
#define GPL_BOOLEAN 0
#define GPL_UNSIGNED 1
#define GPL_SIGNED 2
#define GPL_FLOAT 3
#define GPL_POWER 4
#define GPL_IEEE 0
#define GPL_NAN 1
#define GPL_FINITE 2
#define GPL_UNSIGNED_ZERO 3
#define GPL_MULTIPLY 1
#define GPL_ADD 2
#define GPL_SUBTRACT 3
#define GPL_DIVIDE 4
#define GPL_ROUND 5
