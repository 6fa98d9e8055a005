// Index conversion of tiled layouts: a thread executes the instructions of a program for four indices.
// Programs in which every coordinate is one digit run in index.cu, which explains why.
//
// An instruction computes one number; see instructions.cuh.  Given coordinates are loaded, resulting ones are stored.
//
// Example, f32[16,256]{1,0:T(8,128)} to linear indices: two instructions, row and column, each loaded and added as two quotients.
//   (9, 130): 9 * 128 + 9 / 8 * 1024 + 130 + 130 / 128 * 896 = 3202
//
// For an index that cannot be converted, only its position is written, to *offender; the lowest one wins.  The host reads it
// only if it may have to raise.  With a null result (linear == 0, index == 0) the kernel only checks.
//
// Macros: GPL_INDEX_BITS (32 if every linear index fits 31 bits, else 64), GPL_IN_BYTES, GPL_OUT_BYTES (1 2 4 8), GPL_IN_SIGNED.
#define GPL_AXES 1
#include "index.cuh"
#include "instructions.cuh"

struct GplProgram {
  unsigned long long count;               // indices to convert
  unsigned long long size;                // one past the largest linear index
  unsigned instructions;
  unsigned mode;                          // GPL_RAISE or another
  unsigned padded;                        // 1 if a sum may exceed its bound
  unsigned unused;
  GplInstructions list;
};

// Loads coordinates of one dimension and returns which of them are out of bounds.
__device__ __forceinline__ unsigned gpl_load(const gpl_in* from, unsigned left, unsigned long long bound, unsigned mode, gpl_numbers& number) {
  gpl_in value[GPL_ITEMS];
  if (GPL_HAS_ALL) gpl_read<true>(from, left, value);
  else gpl_read<false>(from, left, value);
  unsigned outside = 0;
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    const unsigned long long coordinate = gpl_coordinate(value[k], bound, mode);
    outside |= (unsigned)(coordinate >= bound) << k;
    number[k] = (gpl_uint)coordinate;
  }
  return outside;
}

// Executes all instructions and returns which indices exceed any instruction's bound.  LOADS: some instructions load from
// `index`.  `result`, unless it is 0, receives a row of coordinates from every instruction that stores: -1 for `padding`, and
// nothing for indices that are `bad`.
template <bool LOADS>
__device__ __forceinline__ unsigned gpl_execute(const GplProgram& program, const gpl_in* index, const gpl_numbers& given, unsigned left,
                                                gpl_numbers& sum, gpl_out* result = 0, unsigned bad = 0, unsigned padding = 0) {
  gpl_numbers kept[GPL_REGISTERS];
  const GplTerm* term = program.list.term;
  unsigned outside = 0;
#pragma unroll 1
  for (int i = 0; i < (int)program.instructions; ++i) {
    const GplInstruction& instruction = program.list.instruction[i];
    gpl_numbers number;
    if (LOADS && instruction.loads) outside |= gpl_load(index + instruction.row, left, instruction.bound, program.mode, number);
    else outside |= gpl_sum_up(instruction, term, given, kept, number);
    term += instruction.terms;
    gpl_keep(instruction, number, kept);
#pragma unroll 1
    for (int t = 0; t < instruction.adds; ++t) gpl_add(sum, number, term[t]);
    term += instruction.adds;
    if (!LOADS && result && instruction.stores) {
      gpl_out coordinate[GPL_ITEMS];
      gpl_mark(number, padding, coordinate);
      if (GPL_HAS_ALL && !bad) gpl_write<true>(coordinate, result + instruction.row, left, bad);
      else gpl_write<false>(coordinate, result + instruction.row, left, bad);
    }
  }
  return outside;
}

// Reads linear indices and returns which of them are out of range; the values of those are meaningless.
__device__ __forceinline__ unsigned gpl_read_linear(const gpl_in* from, unsigned left, const GplProgram& program, gpl_numbers& given) {
  gpl_in value[GPL_ITEMS];
  if (GPL_HAS_ALL) gpl_read<true>(from, left, value);
  else gpl_read<false>(from, left, value);
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) given[k] = (gpl_uint)gpl_widen(value[k]);
  return gpl_outside(value, (gpl_uint)program.size);
}

GPL_KERNEL gpl_linearize_program(const gpl_in* __restrict__ index, gpl_out* __restrict__ linear,
                                 unsigned long long* __restrict__ offender, const __grid_constant__ GplProgram program) {
  const unsigned long long first = gpl_first();
  const unsigned left = gpl_left(first, program.count);
  gpl_numbers sum = {};
  const unsigned bad = gpl_execute<true>(program, index + first, sum, left, sum);
  if (bad) gpl_report(bad, first, left, offender);
  if (linear) gpl_write_linear(sum, linear + first, left, bad, 0);
}

GPL_KERNEL gpl_delinearize_program(const gpl_in* __restrict__ linear, gpl_out* __restrict__ index,
                                   unsigned long long* __restrict__ offender, const __grid_constant__ GplProgram program) {
  const unsigned long long first = gpl_first();
  const unsigned left = gpl_left(first, program.count);
  gpl_numbers given, none = {};
  unsigned bad = gpl_read_linear(linear + first, left, program, given), padding = 0;
  if (program.padded) padding = gpl_execute<false>(program, 0, given, left, none);
  if (program.mode != GPL_MARK) bad |= padding;
  if (bad) gpl_report(bad, first, left, offender);
  if (index) gpl_execute<false>(program, 0, given, left, none, index + first, bad, padding);
}

// Linear index in the source layout to linear index in the target layout, through the coordinates.  Padding is bad, or gives -1
// with GPL_MARK.
GPL_KERNEL gpl_convert_linear_program(const gpl_in* __restrict__ source, gpl_out* __restrict__ target,
                                      unsigned long long* __restrict__ offender, const __grid_constant__ GplProgram program) {
  const unsigned long long first = gpl_first();
  const unsigned left = gpl_left(first, program.count);
  gpl_numbers given, sum = {};
  unsigned bad = gpl_read_linear(source + first, left, program, given);
  const unsigned padding = gpl_execute<false>(program, 0, given, left, sum);
  if (program.mode != GPL_MARK) bad |= padding;
  if (bad) gpl_report(bad, first, left, offender);
  if (target) gpl_write_linear(sum, target + first, left, bad, padding);
}
