// Sums of quotients: the steps that make indices of tiled layouts, for four indices at once.
//
// A step makes one number: it is a coordinate that is loaded, or a sum of quotients value / step * weight, where the value is
// the given linear index or a number kept before.  Then it is checked, kept for later steps, added to the linear index that
// comes out as quotient * weight, or stored as a coordinate; moves/index_program.py says which.  All threads do the same
// steps with operands from the parameters; a step of 1 is no division.
//
// Sums wrap: weights may be negative, and what comes out of a place of the buffer fits the word.
//
// Macros: GPL_INDEX_BITS (32 when every linear index fits 31 bits, else 64).
#ifndef GPL_STEPS_CUH
#define GPL_STEPS_CUH
#include "move.cuh"
#define GPL_ITEMS 4
#define GPL_STEPS 56
#define GPL_TERMS 112
#define GPL_KEPT 16                       // numbers that are kept at once
#define GPL_WHOLE 255

struct GplTerm {
  gpl_uint multiplier, weight;
  unsigned source;                        // 0 for the given linear index, else the slot after
  unsigned shift;                         // GPL_WHOLE: no division
};

struct GplStep {
  unsigned long long bound;               // all ones: the number is never past it
  unsigned long long row;                 // where its coordinates begin in the array of logical indices, or their stride
  unsigned short terms, adds;             // that follow those of the step before
  unsigned short slot;                    // 0 for none, else the slot after
  unsigned char loads, stores;            // 1 when it is loaded, when it is a result
};

struct GplSteps {
  GplStep step[GPL_STEPS];
  GplTerm term[GPL_TERMS];
};

typedef gpl_uint gpl_numbers[GPL_ITEMS];

// sum += value / step * weight
__device__ __forceinline__ void gpl_add(gpl_numbers& sum, const gpl_numbers& value, const GplTerm& term) {
  if (term.shift == GPL_WHOLE) {
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) sum[k] += value[k] * term.weight;
  } else {
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) sum[k] += (GPL_MULHI(value[k], term.multiplier) >> term.shift) * term.weight;
  }
}

// The terms of a number that is a sum, and which of the sums are past its bound.
__device__ __forceinline__ unsigned gpl_sum_up(const GplStep& step, const GplTerm* term, const gpl_numbers& given,
                                               const gpl_numbers (&kept)[GPL_KEPT], gpl_numbers& number) {
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) number[k] = 0;
#pragma unroll 1
  for (int t = 0; t < step.terms; ++t) {
    if (term[t].source) gpl_add(number, kept[term[t].source - 1], term[t]);
    else gpl_add(number, given, term[t]);
  }
  unsigned outside = 0;
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) outside |= (unsigned)(number[k] >= step.bound) << k;
  return outside;
}

__device__ __forceinline__ void gpl_keep(const GplStep& step, const gpl_numbers& number, gpl_numbers (&kept)[GPL_KEPT]) {
  if (!step.slot) return;
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) kept[step.slot - 1][k] = number[k];
}

#endif
