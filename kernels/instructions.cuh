// The instructions of an index program, for four indices at once.
//
// An instruction computes one number: a loaded coordinate, or a sum of quotients value / divisor * weight, where the value is
// the given linear index or a register.  The number is then checked, kept in a register, added to the resulting linear index
// as quotient * weight, or stored as a coordinate; see moves/index_program.py.  All threads execute the same instructions,
// with operands from the parameters.  A divisor of 1 takes no division.
//
// The registers of a program are an array per thread, in local memory.  Sums wrap: weights may be negative, and the result
// for a place of the buffer fits the word.
//
// Macros: GPL_INDEX_BITS (32 if every linear index fits 31 bits, else 64).
// Numbers: GPL_ITEMS (indices of a thread); GPL_INSTRUCTIONS, GPL_TERMS and GPL_REGISTERS (numbers that are kept at once): how
// many there is room for; GPL_NO_DIVISION (the shift of a divisor of 1).
#ifndef GPL_INSTRUCTIONS_CUH
#define GPL_INSTRUCTIONS_CUH
#if !defined(GPL_ITEMS) || !defined(GPL_INSTRUCTIONS) || !defined(GPL_TERMS) || !defined(GPL_REGISTERS) || \
    !defined(GPL_NO_DIVISION)
#error "instructions.cuh needs GPL_ITEMS, GPL_INSTRUCTIONS, GPL_TERMS, GPL_REGISTERS and GPL_NO_DIVISION"
#endif
#include "move.cuh"

struct GplTerm {
  gpl_uint multiplier, weight;
  unsigned source;                        // of a sum: 0 for the given linear index, else 1 + a register; else unused
  unsigned shift;                         // GPL_NO_DIVISION: the divisor is 1
};

struct GplInstruction {
  unsigned long long bound;               // all ones: the number never exceeds it
  unsigned long long row;                 // start of its coordinates in the array of logical indices, or their stride
  unsigned short terms, adds;             // counts; they follow those of the previous instruction
  unsigned short keep;                    // 0 if the number is not kept, else 1 + its register
  unsigned char loads, stores;            // 1 if the number is loaded; 1 if it is a result
};

struct GplInstructions {
  GplInstruction instruction[GPL_INSTRUCTIONS];
  GplTerm term[GPL_TERMS];
};

typedef gpl_uint gpl_numbers[GPL_ITEMS];

// sum += value / divisor * weight
__device__ __forceinline__ void gpl_add(gpl_numbers& sum, const gpl_numbers& value, const GplTerm& term) {
  if (term.shift == GPL_NO_DIVISION) {
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) sum[k] += value[k] * term.weight;
  } else {
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) sum[k] += (GPL_MULHI(value[k], term.multiplier) >> term.shift) * term.weight;
  }
}

// Sums up the terms of a number and returns which of the sums exceed its bound.
__device__ __forceinline__ unsigned gpl_sum_up(const GplInstruction& instruction, const GplTerm* term, const gpl_numbers& given,
                                               const gpl_numbers (&kept)[GPL_REGISTERS], gpl_numbers& number) {
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) number[k] = 0;
#pragma unroll 1
  for (int t = 0; t < instruction.terms; ++t) {
    if (term[t].source) gpl_add(number, kept[term[t].source - 1], term[t]);
    else gpl_add(number, given, term[t]);
  }
  unsigned outside = 0;
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) outside |= (unsigned)(number[k] >= instruction.bound) << k;
  return outside;
}

__device__ __forceinline__ void gpl_keep(const GplInstruction& instruction, const gpl_numbers& number, gpl_numbers (&kept)[GPL_REGISTERS]) {
  if (!instruction.keep) return;
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) kept[instruction.keep - 1][k] = number[k];
}

#endif
