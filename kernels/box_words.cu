// Tile of many axes through shared memory for elements of 1 and 2 bytes whose runs begin anywhere: short odd axes.
//
// As in tile_nd.cu, a block moves a box over many axes, and axis 0 and axis 1 may be cut.  Here both sides move in aligned
// words of 4 elements, one per thread, whatever the phases of the runs.  The phase of a run is the number of elements between
// the start of a word and the run.  Example, u8 5^12 reversed: a box of 125 runs of 125 elements on both sides.
//
//   reading:  the threads of a row read the words of one run and store them unchanged.  Of two elements, the distance in
//             shared memory equals the distance in the source modulo 4, and the box begins there at the source's phase.  So
//             all words of the source are words of shared memory too.  Runs are at least 3 elements apart there, so that a
//             word that extends past its run touches no other: 125 elements at phase 3 are 32 words, from element -3 on.
//   writing:  the threads of a row write the whole words of one run, assembled from 4 single elements each.  Then all
//             threads, six to a run, write the elements before the first and after the last of these words, so that no word
//             has two writers: 125 elements at phase 3 are 1 and 31 words; at phase 2 they are 2, 30 words, and 3.
//
// A row has as many threads as a run has words, or a few more, and a block as many rows as fit: 8 of 32 here; of runs of 81
// elements 12 of 21 to read and 12 of 21 to write, of which one writes nothing.  So few threads are idle.  A row takes several
// runs, one after the other in the table of runs.
//
// To read is to wait for memory.  So a thread has 40 bytes under way, or 48 of 2-byte elements, and keeps nothing but these in
// registers: where they go is looked up once more when they have come.  On Hopper 6 blocks have 60 or 72 KB under way.
//
// Where the elements of a target run are in shared memory depends on the phase and the thread, not on the run: the gather
// table has 4 places for each thread of a row and each phase.  Other tables hold the offset and the place of every run's
// first element.  A block fills the tables once and moves several boxes, whose offsets as many threads find at once.
//
// The box is read without asking which places exist: reading too much is harmless inside the source's memory, and at the
// ends of that, words are checked one by one.  A box that extends past an axis has fewer runs or shorter ones; for these the
// gather table is made again.
//
// Banks: the host chooses the distances so that the threads of a warp read 4 times from different banks.  `turn` changes the
// order of the 4 elements: thread t of a row takes r first, then 1 ^ r, 2 ^ r, 3 ^ r, with r = (t >> turn) % 4 for 1 byte, and
// twice that for 2.  Example, u16 3^9: neighbours in the target are 85 elements apart, so threads are 170 words apart and
// thread t reads bank 10 t % 32: threads t and t + 16 would have a bank conflict.  With turn = 4, the upper ones are 85 words
// ahead, or behind.
//
// A warp takes 12 instructions to read a run and 29 to write it, 18 for the single elements of 42 runs, and some 220 for a box.
//
// Macros: those of move.cuh.
// Numbers: GPL_E (elements of a word), GPL_RUN_DIGITS (of a number), GPL_SHARED_BYTES (of all tables and a box),
// GPL_MOST_BOXES (of a block), GPL_BLOCKS (of a multiprocessor), GPL_READS and GPL_WRITES (words that a thread has under way).
#if !defined(GPL_E) || !defined(GPL_RUN_DIGITS) || !defined(GPL_SHARED_BYTES) || !defined(GPL_MOST_BOXES) || !defined(GPL_BLOCKS) || \
    !defined(GPL_READS) || !defined(GPL_WRITES)
#error "box_words.cu needs GPL_E, GPL_RUN_DIGITS, GPL_SHARED_BYTES, GPL_MOST_BOXES, GPL_BLOCKS, GPL_READS and GPL_WRITES"
#endif
#include "move.cuh"

#define GPL_WORD_BYTES (GPL_E * GPL_ELEMENT_BYTES)
static_assert(GPL_READS % 2 == 0 && GPL_WRITES > 0, "the last runs are read in pairs");
#define GPL_ENDS (2 * (GPL_E - 1))                   // single elements of a run, at most: the first 3 and the last 3
typedef GplChunk<GPL_WORD_BYTES> gpl_word;
typedef GplHalves<GPL_WORD_BYTES>::type gpl_halves;

// A digit of a run's number, or of an element's number in a run.
struct GplRunDigit {
  GplDivisor size;                                   // for gpl_divide_small
  unsigned step, unused;                             // bytes of shared memory
  gpl_uint stride;                                   // elements of the side's memory
};

struct GplNumber {
  unsigned count, digits;
  GplRunDigit digit[GPL_RUN_DIGITS];
};

// What a place of axis 0 or 1 is on one side: elements of a run, or as many runs.  A box that extends past an axis has fewer.
struct GplPerPlace {
  unsigned elements, runs;                           // one of them is 0
};

// The rows of a block on one side.
struct GplRows {
  GplDivisor threads, count;         // of a row; rows of a block; for gpl_divide_small
};

struct GplWordsMove {
  GplMove move;
  GplNumber number[3];               // runs of the source, runs of the target, elements of one of these
  GplRows rows[2];                   // reading, writing
  gpl_uint below[2];                 // elements of a box before its first one in the source and in the target, and up to 3 more
  gpl_uint after;                    // that its words in the source reach after it
  gpl_uint step, apart;              // boxes from the first one of a block to that of the next, and to its own next one
  unsigned length, turn, boxes;      // elements of a source run; the turn; boxes of a block
  unsigned ends, table, places, box; // bytes from the start of shared memory to the other tables, and to the box
  GplPerPlace per_place[2][2];       // reading, writing; of axis 0, of axis 1
};

// Offset and place of a run's first element, or of an element in a run.
#if GPL_INDEX_BITS == 32
typedef uint2 GplRun;
#else
typedef ulonglong2 GplRun;
#endif

__device__ __forceinline__ GplRun gpl_run(unsigned number, const GplNumber& of) {
  GplRun run;
  run.x = run.y = 0;
#pragma unroll 1
  for (unsigned i = 0; i < of.digits; ++i) {
    const GplRunDigit& digit = of.digit[i];
    const unsigned above = gpl_divide_small(number, digit.size), coordinate = number - above * (unsigned)digit.size.value;
    number = above;
    run.x += coordinate * digit.stride;
    run.y += coordinate * digit.step;
  }
  return run;
}

// A box: the offsets of its first element, and how many places of axis 0 and 1 there are from it on.
struct GplBox {
  gpl_uint source, target, left[2];
  bool inside;                                       // false: nothing but pad
};

__device__ __forceinline__ GplBox gpl_box(gpl_uint number, const GplMove& move) {
  const gpl_uint above = gpl_divide(number, move.count[0]), others = gpl_divide(above, move.count[1]);
  const gpl_uint first[2] = {(number - above * move.count[0].value) * move.tile[0].value,
                             (above - others * move.count[1].value) * move.tile[1].value};
  const GplPlace place = gpl_place<2>(others, move);
  GplBox box = {place.source, place.target, {0, 0}, place.inside};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    box.source += first[i] * move.axis[i].source_stride;
    box.target += first[i] * move.axis[i].target_stride;
    box.left[i] = move.axis[i].extent.value - first[i];
    box.inside = box.inside && first[i] < move.axis[i].bound;
  }
  return box;
}

// Of a box on one side: elements of a run, and runs.
struct GplExtent {
  unsigned length, runs;
};

__device__ __forceinline__ GplExtent gpl_extent(const GplBox& box, unsigned length, unsigned runs, const GplPerPlace (&per)[2], const GplMove& move) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (box.left[i] >= move.tile[i].value) continue;
    if (per[i].elements) length = (unsigned)box.left[i] * per[i].elements;
    else runs = (unsigned)box.left[i] * per[i].runs;
  }
  return {length, runs};
}

// Elements from the start of an address's word to the address.
__device__ __forceinline__ unsigned gpl_phase(const void* address) {
  return (unsigned)(unsigned long long)address / GPL_ELEMENT_BYTES % GPL_E;
}

// The number of a single element in a run of this length.
__device__ __forceinline__ unsigned gpl_end(unsigned slot, unsigned length) { return slot < GPL_E - 1 ? slot : length - GPL_ENDS + slot; }

// A thread's part of a side: its word in a run, and the runs of its row.
struct GplShare {
  unsigned unit, first, count;
};

__device__ __forceinline__ GplShare gpl_share(unsigned thread, unsigned runs, const GplRows& rows) {
  const unsigned row = gpl_divide_small(thread, rows.threads), unit = thread - row * (unsigned)rows.threads.value;
  const unsigned most = gpl_divide_small(runs + (unsigned)rows.count.value - 1, rows.count), first = row * most;
  return {unit, first, first < runs ? min(runs - first, most) : 0};      // no runs for threads behind the last row
}

// The element of its word that a thread takes first.
__device__ __forceinline__ unsigned gpl_turned(unsigned unit, const GplWordsMove& nd) { return (unit >> nd.turn) * GPL_ELEMENT_BYTES % GPL_E; }

// How a thread puts its words together: selectors of bytes for __byte_perm, of which the first joins two elements of 1 byte
// and the second two pairs.  For 2 bytes, `both` is not 0 if the pairs are swapped.
struct GplJoin {
  unsigned pair, both;
};

__device__ __forceinline__ GplJoin gpl_join(unsigned unit, const GplWordsMove& nd) {
  const unsigned turned = gpl_turned(unit, nd), swapped = GPL_ELEMENT_BYTES == 1 ? 0x1054 : 1;
  return {turned & 1 ? 0x0004u : 0x0040u, turned & 2 ? swapped : GPL_ELEMENT_BYTES == 1 ? 0x5410 : 0};
}

// A word, put together before it is known whether it is written: so the compiler makes one predicated store of it, no branch.
__device__ __forceinline__ gpl_halves gpl_joined(const unsigned (&element)[GPL_E], const GplJoin& join) {
#if GPL_ELEMENT_BYTES == 1
  unsigned word = __byte_perm(__byte_perm(element[0], element[1], join.pair), __byte_perm(element[2], element[3], join.pair), join.both);
  asm volatile("" : "+r"(word));
  return word;
#else
  unsigned first = __byte_perm(element[0], element[1], 0x5410), second = __byte_perm(element[2], element[3], 0x5410);
  asm volatile("" : "+r"(first), "+r"(second));
  return join.both ? make_uint2(second, first) : make_uint2(first, second);
#endif
}

#define GPL_NONE 0x80000000u                         // the place of a single element that a run of this phase has not

// The tables for target runs of this length.  An entry of the gather table is the places of 4 elements, 16 bits each; 0 if runs
// of this phase have no such word.  Phases are those of a thread's address: of the last element of its word if the run's
// phase is 0 and of the first one if that is 1; or of its single element.
__device__ __forceinline__ void gpl_fill_lanes(unsigned char* shared, unsigned length, const GplWordsMove& nd) {
  const unsigned short* const place = (const unsigned short*)(shared + nd.places);
  const unsigned units = (unsigned)nd.rows[1].threads.value;
#pragma unroll 1
  for (unsigned entry = threadIdx.x; entry < GPL_E * units; entry += GPL_THREADS) {
    const unsigned phase = gpl_divide_small(entry, nd.rows[1].threads), unit = entry - phase * units, turned = gpl_turned(unit, nd);
    const unsigned first = GPL_E - 1 - phase + unit * GPL_E;     // the element at the start of the word
    uint2 found = make_uint2(0, 0);
    if (first + GPL_E <= length)
      found = make_uint2(place[first + turned] | place[first + (1 ^ turned)] << 16, place[first + (2 ^ turned)] | place[first + (3 ^ turned)] << 16);
    ((uint2*)shared)[entry] = found;
  }
  if (threadIdx.x >= GPL_E * GPL_ENDS) return;
  const unsigned phase = threadIdx.x / GPL_ENDS, slot = threadIdx.x % GPL_ENDS, number = gpl_end(slot, length), head = (number - phase) % GPL_E;
  const bool exists = number < length && (slot < GPL_E - 1 || number >= GPL_E - 1);   // once, also in a run of fewer than 6
  const bool single = exists && (number < head || number >= head + (length - head) / GPL_E * GPL_E);
  ((unsigned*)(shared + nd.ends))[threadIdx.x] = single ? place[number] : GPL_NONE;
}

// The runs of the source, then those of the target, and the places of the elements of one of these.
__device__ __forceinline__ void gpl_fill_runs(unsigned char* shared, const GplWordsMove& nd) {
  const unsigned first = nd.number[0].count, second = first + nd.number[1].count;
#pragma unroll 1
  for (unsigned entry = threadIdx.x; entry < second + nd.number[2].count; entry += GPL_THREADS) {
    const unsigned which = (entry >= first) + (entry >= second);
    const GplRun run = gpl_run(entry - (which == 0 ? 0 : which == 1 ? first : second), nd.number[which]);
    if (which < 2) ((GplRun*)(shared + nd.table))[entry] = run;
    else ((unsigned short*)(shared + nd.places))[entry - second] = (unsigned short)run.y;
  }
}

// A word of which some elements may be outside the source's memory; `offset` is that of its first element.
__device__ __forceinline__ gpl_word gpl_checked(const void* from, gpl_uint offset, const GplMove& move) {
  gpl_word value;
  if ((gpl_int)(offset - move.low) >= 0 && (gpl_int)(move.high - offset) >= GPL_E) {
    value.word = ((const gpl_word*)from)->word;
    return value;
  }
  value.word = 0;
#pragma unroll
  for (unsigned i = 0; i < GPL_E; ++i)
    if ((gpl_int)(offset + i - move.low) >= 0 && (gpl_int)(move.high - offset - i) > 0) value.element[i] = ((const gpl_element*)from)[i];
  return value;
}

// A thread's word in every run that it reads.  Offsets count from the start of a word before the box, so none is negative.
template <bool WHOLE>
struct GplReader {
  static const unsigned BATCH = WHOLE ? GPL_READS : 1, FEW = WHOLE ? 2 : 1;    // of the last runs, pairs that are none are passed
  const gpl_element* source;
  gpl_uint along, offset;                            // of the word in a run at offset 0; of `source` in the source
  unsigned char* shared;
  unsigned place;                                    // of the word in a run at place 0
  const GplMove& move;

  template <bool ALL>
  __device__ __forceinline__ void runs(const GplRun* run, unsigned count) const {
    gpl_word value[BATCH];
#pragma unroll
    for (unsigned first = 0; first < BATCH; first += FEW) {
      if (!ALL && first >= count) break;
#pragma unroll
      for (unsigned i = first; i < first + FEW; ++i) {
        if (!ALL && i >= count) continue;
        const gpl_uint word = (run[i].x + along) & ~(gpl_uint)(GPL_E - 1);
        if (WHOLE) value[i].word = ((const gpl_word*)(source + word))->word;
        else value[i] = gpl_checked(source + word, offset + word, move);
      }
    }
    asm volatile("" ::: "memory");                   // else the places would wait in registers too
    if (count == ~0u) return;                        // never, but behind a branch the compiler keeps all loads before the first store
#pragma unroll
    for (unsigned first = 0; first < BATCH; first += FEW) {
      if (!ALL && first >= count) break;
#pragma unroll
      for (unsigned i = first; i < first + FEW; ++i)
        if (ALL || i < count) *(gpl_word*)(shared + (((unsigned)run[i].y + place) & ~(GPL_WORD_BYTES - 1u))) = value[i];
    }
  }
};

// A thread's word in every run that it writes.  Offsets count as for reading.
struct GplWriter {
  static const unsigned BATCH = GPL_WRITES;
  gpl_element* target;
  gpl_uint along;                                    // of the last element of the word in a run at offset 0 and phase 0
  const unsigned char* box;
  const unsigned char* gather;                       // the thread's entry in the gather table, at phase 0
  unsigned phase_bytes;                              // to the entry for the next phase
  unsigned least;                                    // phase at which a run has the word
  GplJoin join;

  template <bool ALL>
  __device__ __forceinline__ void runs(const GplRun* run, unsigned count) const {
    unsigned element[BATCH][GPL_E];
    gpl_uint to[BATCH];
#pragma unroll
    for (unsigned i = 0; i < BATCH; ++i) {           // all 4 exist: a word that a run has not is put together, but not written
      const GplRun entry = run[ALL || i < count ? i : 0];
      const unsigned char* const from = box + (unsigned)entry.y;
      to[i] = entry.x + along;
      const uint2 place = *(const uint2*)(gather + (unsigned)to[i] % GPL_E * phase_bytes);
      element[i][0] = *(const gpl_element*)(from + (place.x & 0xFFFF)), element[i][1] = *(const gpl_element*)(from + (place.x >> 16));
      element[i][2] = *(const gpl_element*)(from + (place.y & 0xFFFF)), element[i][3] = *(const gpl_element*)(from + (place.y >> 16));
    }
#pragma unroll
    for (unsigned i = 0; i < BATCH; ++i) {
      const gpl_halves word = gpl_joined(element[i], join);
      if ((ALL || i < count) && (unsigned)to[i] % GPL_E >= least) *(gpl_halves*)(target + (to[i] & ~(gpl_uint)(GPL_E - 1))) = word;
    }
  }
};

// The runs of a thread.
template <class Side>
__device__ __forceinline__ void gpl_walk(const Side& side, const GplRun* run, unsigned count) {
#pragma unroll 1
  for (; count >= Side::BATCH; count -= Side::BATCH, run += Side::BATCH) side.template runs<true>(run, count);
  if (Side::BATCH > 1 && count) side.template runs<false>(run, count);
}

template <bool WHOLE>
__device__ __forceinline__ void gpl_read_box(unsigned thread, const void* source, const GplBox& which, unsigned phase, unsigned char* shared,
                                             const GplWordsMove& nd) {
  const GplExtent extent = gpl_extent(which, nd.length, nd.number[0].count, nd.per_place[0], nd.move);
  const GplShare share = gpl_share(thread, extent.runs, nd.rows[0]);
  if (share.unit * GPL_E >= extent.length + GPL_E - 1) return;               // more words than at any phase
  const gpl_uint first = which.source - phase - nd.below[0];
  gpl_walk(GplReader<WHOLE>{gpl_at(source, first), phase + nd.below[0] + share.unit * GPL_E, first, shared,
                            nd.box + phase * GPL_ELEMENT_BYTES + share.unit * GPL_WORD_BYTES, nd.move},
           (const GplRun*)(shared + nd.table) + share.first, share.count);
}

__device__ __forceinline__ void gpl_write_box(unsigned thread, void* target, const GplBox& which, const GplExtent& extent, const unsigned char* box,
                                              const unsigned char* shared, const GplWordsMove& nd) {
  const GplShare share = gpl_share(thread, extent.runs, nd.rows[1]);
  const unsigned phase = gpl_phase(gpl_at(target, which.target));
  const GplRun* const run = (const GplRun*)(shared + nd.table) + nd.number[0].count;
  gpl_element* const to = gpl_at(target, which.target - phase - nd.below[1]);
  const gpl_uint first = phase + nd.below[1];
  const unsigned units = (unsigned)nd.rows[1].threads.value, last = share.unit * GPL_E + 2 * GPL_E - 1;
  unsigned least = last < extent.length ? 0 : last - extent.length, gather = share.unit * (unsigned)sizeof(uint2);
  GplJoin join = gpl_join(share.unit, nd);
  asm volatile("" : "+r"(join.pair), "+r"(join.both), "+r"(least), "+r"(gather));     // else they are made anew for each word
  gpl_walk(GplWriter{to, first + share.unit * GPL_E + GPL_E - 1, box, shared + gather, units * (unsigned)sizeof(uint2),
                     least, join},
           run + share.first, share.count);
  const unsigned slot = thread % GPL_ENDS;
  if (thread >= GPL_THREADS / GPL_ENDS * GPL_ENDS) return;
#pragma unroll 1
  for (unsigned number = thread / GPL_ENDS; number < extent.runs; number += GPL_THREADS / GPL_ENDS) {
    const gpl_uint offset = run[number].x + first + gpl_end(slot, extent.length);
    const unsigned place = ((const unsigned*)(shared + nd.ends))[(unsigned)offset % GPL_E * GPL_ENDS + slot];
    if (place != GPL_NONE) to[offset] = *(const gpl_element*)(box + ((unsigned)run[number].y + place));
  }
}

GPL_KERNEL_OF(GPL_BLOCKS) gpl_box_words(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplWordsMove nd) {
  __shared__ uint4 shared_words[GPL_SHARED_BYTES / 16];           // the gather table, the other tables, the box
  __shared__ GplBox shared_box[GPL_MOST_BOXES];
  unsigned char* const shared = (unsigned char*)shared_words;
  const gpl_uint first = gpl_block() * nd.step;
  if (first >= nd.move.total) return;                             // the whole block, before any barrier
  if (threadIdx.x < nd.boxes) shared_box[threadIdx.x] = gpl_box(first + threadIdx.x * nd.apart, nd.move);
  gpl_fill_runs(shared, nd);
  unsigned length = 0;                                            // for which the gather table is made
  __syncthreads();                                                // the boxes, the table of runs and the places are complete
#pragma unroll 1
  for (unsigned number = 0;;) {
    unsigned thread = threadIdx.x;
    asm volatile("" : "+r"(thread));                              // else what follows from it would stay in registers from box to box
    const GplBox& which = shared_box[number];
    const unsigned phase = gpl_phase(gpl_at(source, which.source));
    const bool in_memory = (gpl_int)(which.source - phase - nd.below[0] - nd.move.low) >= 0 && (gpl_int)(nd.move.high - which.source - nd.after) >= 0;
    const GplExtent extent = gpl_extent(which, nd.number[2].count, nd.number[1].count, nd.per_place[1], nd.move);
    if (length != extent.length) gpl_fill_lanes(shared, extent.length, nd);
    length = extent.length;
    if (!which.inside) {
      uint4* const pad = (uint4*)(shared + nd.box);
      for (unsigned i = threadIdx.x; i < (GPL_SHARED_BYTES - nd.box) / 16; i += GPL_THREADS) gpl_pad(nd.move, pad[i]);
    } else if (in_memory) gpl_read_box<true>(thread, source, which, phase, shared, nd);
    else gpl_read_box<false>(thread, source, which, phase, shared, nd);
    __syncthreads();                                              // the box and all tables are complete
    gpl_write_box(thread, target, which, extent, shared + nd.box + phase * GPL_ELEMENT_BYTES, shared, nd);
    if (++number == nd.boxes || first + number * nd.apart >= nd.move.total) return;
    __syncthreads();                                              // the box is written
  }
}
