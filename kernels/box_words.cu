// Tile of many axes through shared memory for elements of 1 and 2 bytes whose runs begin anywhere: short odd axes.
//
// As in tile_nd.cu, a block moves a box over many axes, and axis 0 and axis 1 may be cut.  Here both sides move in aligned
// words of 4 elements, one per lane, whatever the phases of the runs.  The phase of a run is the number of elements between
// the start of a word and the run.  Example, u16 3^9 reversed: a box of 81 runs of 81 elements on both sides.
//
//   reading:  a row of lanes reads the words of one run and stores them unchanged.  Of two elements, the distance in shared
//             memory equals the distance in the source modulo 4, and the box begins there at the source's phase.  So all
//             words of the source are words of shared memory too.  Runs are at least 3 elements apart there, so that a
//             word that extends past its run touches no other: 81 elements at phase 3 are 21 words, from element -3 on.
//   writing:  a row of lanes writes the whole words of one run, assembled from 4 single elements each.  Six more lanes
//             write the elements before the first and after the last of these words, so that no word has two writers:
//             81 elements at phase 3 are 1 and 20 words; at phase 2 they are 2, 19 words, and 3.
//
// Where the elements of a target run are in shared memory depends on the phase and the lane, not on the run: the gather table
// has 4 places per lane for each phase.  Other tables hold the offset and the place of every run's first element.  A
// block fills the tables once and moves several boxes.
//
// The box is read without asking which places exist: reading too much is harmless inside the source's memory, and at the
// ends of that, words are checked one by one.  A box that extends past an axis has fewer runs or shorter ones; for these the
// tables of lanes are made again.
//
// Banks: the host chooses the distances so that the lanes of a row read 4 times from different banks.  `turn` changes the
// order of the 4 elements: lane l takes r first, then 1 ^ r, 2 ^ r, 3 ^ r, with r = (l >> turn) % 4 for 1 byte, and twice that
// for 2.  In the example, neighbours in the target are 85 elements apart, so lanes are 170 words apart and lane l reads bank
// 10 l % 32: lanes l and l + 16 would have a bank conflict.  With turn = 4, the upper lanes are 85 words ahead, or behind.
//
// A row of lanes takes 11 instructions to read and 32 to write, besides what a warp does once for a box.
//
// Macros: those of move.cuh.
// Numbers: GPL_E (elements of a word), GPL_RUN_DIGITS (of a number), GPL_SHARED_BYTES (of all tables and a box).
#if !defined(GPL_E) || !defined(GPL_RUN_DIGITS) || !defined(GPL_SHARED_BYTES)
#error "box_words.cu needs GPL_E, GPL_RUN_DIGITS and GPL_SHARED_BYTES"
#endif
#include "move.cuh"

#define GPL_WORD_BYTES (GPL_E * GPL_ELEMENT_BYTES)
#define GPL_WARPS (GPL_THREADS / GPL_LANES)
#define GPL_ENDS (2 * (GPL_E - 1))                   // lanes for single elements, the last ones
typedef GplChunk<GPL_WORD_BYTES> gpl_word;

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

struct GplWordsMove {
  GplMove move;
  GplNumber number[3];               // runs of the source, runs of the target, elements of one of these
  gpl_uint below[2];                 // elements of a box before its first one in the source and in the target, and up to 3 more
  gpl_uint after;                    // that its words in the source reach after it
  unsigned length, parts;            // elements of a source run; rows of lanes for a target run
  unsigned turn, boxes;              // boxes of a block
  unsigned lanes, table;             // bytes from the start of shared memory to the other tables, and to the box
  unsigned places, box;
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

// True for the lanes of single elements.
__device__ __forceinline__ bool gpl_is_end(unsigned part, unsigned lane, const GplWordsMove& nd) {
  return part + 1 == nd.parts && lane >= GPL_LANES - GPL_ENDS;
}

// How far into a run of this length a lane's access is: the element of an end lane, one of the first 3 or the last 3; or an
// element of a word, its first one if the run's phase is 1 and its last one if the phase is 0.
__device__ __forceinline__ unsigned gpl_along(unsigned part, unsigned lane, unsigned length, const GplWordsMove& nd) {
  const unsigned number = lane - (GPL_LANES - GPL_ENDS);
  if (!gpl_is_end(part, lane, nd)) return (part * GPL_LANES + lane) * GPL_E + GPL_E - 1;
  return number < GPL_E - 1 ? number : length - GPL_ENDS + number;
}

// How a lane writes: its `along`; ~0 to write single elements, else the mask that rounds an offset down to a word; how to put
// a word together.
struct __align__(16) GplLane {
  unsigned along, mask, pair, both;
};

// The element of its word that a lane takes first.
__device__ __forceinline__ unsigned gpl_turned(unsigned lane, const GplWordsMove& nd) { return (lane >> nd.turn) * GPL_ELEMENT_BYTES % GPL_E; }

// Selectors of bytes for __byte_perm: the first joins two elements of 1 byte, the second two pairs.  For 2 bytes, `both` is
// not 0 if the pairs are swapped.
__device__ __forceinline__ GplLane gpl_lane(unsigned part, unsigned lane, unsigned length, const GplWordsMove& nd) {
  const unsigned turned = gpl_turned(lane, nd), swapped = GPL_ELEMENT_BYTES == 1 ? 0x1054 : 1;
  GplLane found;
  found.along = gpl_along(part, lane, length, nd);
  found.mask = gpl_is_end(part, lane, nd) ? ~0u : ~(GPL_E - 1u);
  found.pair = turned & 1 ? 0x0004 : 0x0040;
  found.both = turned & 2 ? swapped : GPL_ELEMENT_BYTES == 1 ? 0x5410 : 0;
  return found;
}

__device__ __forceinline__ GplWord<GPL_WORD_BYTES>::type gpl_joined(const unsigned (&element)[GPL_E], const GplLane& lane) {
#if GPL_ELEMENT_BYTES == 1
  return __byte_perm(__byte_perm(element[0], element[1], lane.pair), __byte_perm(element[2], element[3], lane.pair), lane.both);
#else
  const unsigned first = __byte_perm(element[0], element[1], 0x5410), second = __byte_perm(element[2], element[3], 0x5410);
  return (unsigned long long)(lane.both ? first : second) << 32 | (lane.both ? second : first);
#endif
}

// An entry of the gather table: the places of a lane's 4 elements, or of an end lane's only one.  x is GPL_NONE if the lane has nothing to write.
#define GPL_NONE 0x80000000u
__device__ __forceinline__ uint4 gpl_gathered(unsigned phase, unsigned part, unsigned lane, unsigned length, const unsigned short* place,
                                              const GplWordsMove& nd) {
  const unsigned head = (GPL_E - phase) % GPL_E, words = length < head ? 0 : (length - head) / GPL_E;
  if (gpl_is_end(part, lane, nd)) {
    const unsigned number = gpl_along(part, lane, length, nd);
    const bool first = lane < GPL_LANES - (GPL_E - 1), exists = number < length && (first || number >= GPL_E - 1);
    return make_uint4(exists && (number < head || number >= head + words * GPL_E) ? place[number] : GPL_NONE, 0, 0, 0);
  }
  if (part * GPL_LANES + lane >= words) return make_uint4(GPL_NONE, 0, 0, 0);
  place += head + (part * GPL_LANES + lane) * GPL_E;
  const unsigned turned = gpl_turned(lane, nd);
  return make_uint4(place[turned], place[1 ^ turned], place[2 ^ turned], place[3 ^ turned]);
}

// The tables for target runs of this length: for each part the lanes, and for each part and phase the gather table.  The phase is
// that of the lane's address.
__device__ __forceinline__ void gpl_fill_lanes(unsigned char* shared, unsigned length, const GplWordsMove& nd) {
  const unsigned lane = threadIdx.x % GPL_LANES, phase = threadIdx.x / GPL_LANES % GPL_E;
#pragma unroll 1
  for (unsigned part = threadIdx.x / (GPL_LANES * GPL_E); part < nd.parts; part += GPL_WARPS / GPL_E) {
    const GplLane own = gpl_lane(part, lane, length, nd);
    if (phase == 0) ((GplLane*)(shared + nd.lanes))[part * GPL_LANES + lane] = own;
    ((uint4*)shared)[(part * GPL_E + phase) * GPL_LANES + lane] =
        gpl_gathered((phase - own.along) % GPL_E, part, lane, length, (const unsigned short*)(shared + nd.places), nd);
  }
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

// One lane of the rows that read.  Offsets count from the start of a word before the box, so none is negative.
template <bool WHOLE>
struct GplReader {
  static const unsigned BATCH = WHOLE ? 5 - GPL_ELEMENT_BYTES : 1;     // runs that a thread loads before it stores the first
  const gpl_element* source;
  gpl_uint along, offset;                            // of the lane's word in a run at offset 0; of `source` in the source
  unsigned char* shared;
  unsigned place;                                    // of the lane's word in a run at place 0
  const GplMove& move;

  template <int RUNS>
  __device__ __forceinline__ void runs(const GplRun* run) const {
    gpl_word value[RUNS];
    unsigned to[RUNS];
#pragma unroll
    for (int i = 0; i < RUNS; ++i) {
      const GplRun entry = run[i * GPL_WARPS];
      const gpl_uint word = (entry.x + along) & ~(gpl_uint)(GPL_E - 1);
      to[i] = ((unsigned)entry.y + place) & ~(GPL_WORD_BYTES - 1u);
      if (WHOLE) value[i].word = ((const gpl_word*)(source + word))->word;
      else value[i] = gpl_checked(source + word, offset + word, move);
    }
#pragma unroll
    for (int i = 0; i < RUNS; ++i) *(gpl_word*)(shared + to[i]) = value[i];
  }
};

// One lane of the rows that write.  Offsets count as for reading.  WORDS: some lanes write words; ENDS: some write single
// elements.
template <bool WORDS, bool ENDS>
struct GplWriter {
  static const unsigned BATCH = 2;
  gpl_element* target;
  gpl_uint first;                                    // of a run at offset 0
  const unsigned char* box;
  const unsigned char* gather;                       // the lane's entry in the gather table, at phase 0
  GplLane lane;

  template <int RUNS>
  __device__ __forceinline__ void runs(const GplRun* run) const {
    gpl_uint to[RUNS];
    bool word[RUNS], single[RUNS];
    unsigned element[RUNS][GPL_E], alone[RUNS];
    const bool is_end = ENDS && (!WORDS || lane.mask == ~0u);
#pragma unroll
    for (int i = 0; i < RUNS; ++i) {
      const GplRun entry = run[i * GPL_WARPS];
      const gpl_uint offset = entry.x + (first + lane.along);
      const uint4 gathered = *(const uint4*)(gather + (unsigned)offset % GPL_E * (GPL_LANES * sizeof(uint4)));
      const unsigned char* const from = box + (unsigned)entry.y;
      const unsigned place[GPL_E] = {gathered.x, gathered.y, gathered.z, gathered.w};
      to[i] = offset & (gpl_uint)(gpl_int)(int)lane.mask;
      word[i] = WORDS && (int)gathered.x >= 0 && !is_end, single[i] = (int)gathered.x >= 0 && is_end;
      if (word[i]) {
#pragma unroll
        for (int j = 0; j < GPL_E; ++j) element[i][j] = *(const gpl_element*)(from + place[j]);
      }
      if (single[i]) alone[i] = *(const gpl_element*)(from + place[0]);
    }
#pragma unroll
    for (int i = 0; i < RUNS; ++i) {
      if (word[i]) ((gpl_word*)(target + to[i]))->word = gpl_joined(element[i], lane);
      if (single[i]) target[to[i]] = (gpl_element)alone[i];
    }
  }
};

// The runs of a warp, every eighth.
template <class Side>
__device__ __forceinline__ void gpl_walk(const Side& side, const GplRun* run, unsigned count) {
#pragma unroll 1
  for (; count >= Side::BATCH; count -= Side::BATCH, run += Side::BATCH * GPL_WARPS) side.template runs<Side::BATCH>(run);
  if (Side::BATCH > 2 && (count & 2)) side.template runs<2>(run), run += 2 * GPL_WARPS;
  if (Side::BATCH > 1 && (count & 1)) side.template runs<1>(run);
}

template <bool WHOLE>
__device__ __forceinline__ void gpl_read_box(const void* source, const GplBox& which, unsigned phase, unsigned char* shared, const GplWordsMove& nd) {
  const unsigned lane = threadIdx.x % GPL_LANES, warp = threadIdx.x / GPL_LANES;
  const GplExtent extent = gpl_extent(which, nd.length, nd.number[0].count, nd.per_place[0], nd.move);
  const unsigned words = (extent.length + 2 * (GPL_E - 1)) / GPL_E;          // at any phase
  if (warp >= extent.runs) return;
  const unsigned count = (extent.runs + GPL_WARPS - 1 - warp) / GPL_WARPS;
  const gpl_uint first = which.source - phase - nd.below[0];
#pragma unroll 1
  for (unsigned unit = lane; unit < words; unit += GPL_LANES)
    gpl_walk(GplReader<WHOLE>{gpl_at(source, first), phase + nd.below[0] + unit * GPL_E, first, shared,
                              nd.box + phase * GPL_ELEMENT_BYTES + unit * GPL_WORD_BYTES, nd.move},
             (const GplRun*)(shared + nd.table) + warp, count);
}

__device__ __forceinline__ void gpl_write_box(void* target, const GplBox& which, const GplExtent& extent, const unsigned char* box,
                                              const unsigned char* shared, const GplWordsMove& nd) {
  const unsigned lane = threadIdx.x % GPL_LANES, warp = threadIdx.x / GPL_LANES;
  if (warp >= extent.runs) return;
  const unsigned count = (extent.runs + GPL_WARPS - 1 - warp) / GPL_WARPS, phase = gpl_phase(gpl_at(target, which.target));
  const GplRun* const run = (const GplRun*)(shared + nd.table) + nd.number[0].count + warp;
  gpl_element* const to = gpl_at(target, which.target - phase - nd.below[1]);
  const gpl_uint first = phase + nd.below[1];
  const unsigned char* gather = shared + lane * sizeof(uint4);
  const GplLane* own = (const GplLane*)(shared + nd.lanes) + lane;
#pragma unroll 1
  for (unsigned part = 0; part + 1 < nd.parts; ++part, gather += GPL_E * GPL_LANES * sizeof(uint4), own += GPL_LANES)
    gpl_walk(GplWriter<true, false>{to, first, box, gather, *own}, run, count);
  if ((nd.parts - 1) * GPL_LANES * GPL_E < extent.length) gpl_walk(GplWriter<true, true>{to, first, box, gather, *own}, run, count);
  else gpl_walk(GplWriter<false, true>{to, first, box, gather, *own}, run, count);
}

GPL_KERNEL gpl_box_words(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplWordsMove nd) {
  __shared__ uint4 shared_words[GPL_SHARED_BYTES / 16];           // the gather table, the other tables, the box
  __shared__ GplBox shared_box;
  unsigned char* const shared = (unsigned char*)shared_words;
  gpl_uint number = gpl_block() * nd.boxes;
  if (number >= nd.move.total) return;                            // the whole block, before any barrier
  const gpl_uint end = nd.move.total - number > nd.boxes ? number + nd.boxes : nd.move.total;
  if (threadIdx.x == 0) shared_box = gpl_box(number, nd.move);
  gpl_fill_runs(shared, nd);
  unsigned length = 0;                                            // for which the tables of lanes are made
  __syncthreads();                                                // the table of runs and the places are complete
#pragma unroll 1
  for (;;) {
    const GplBox which = shared_box;
    const unsigned phase = gpl_phase(gpl_at(source, which.source));
    const bool in_memory = (gpl_int)(which.source - phase - nd.below[0] - nd.move.low) >= 0 && (gpl_int)(nd.move.high - which.source - nd.after) >= 0;
    const GplExtent extent = gpl_extent(which, nd.number[2].count, nd.number[1].count, nd.per_place[1], nd.move);
    if (length != extent.length) gpl_fill_lanes(shared, extent.length, nd);
    length = extent.length;
    if (!which.inside) {
      uint4* const pad = (uint4*)(shared + nd.box);
      for (unsigned i = threadIdx.x; i < (GPL_SHARED_BYTES - nd.box) / 16; i += GPL_THREADS) gpl_pad(nd.move, pad[i]);
    } else if (in_memory) gpl_read_box<true>(source, which, phase, shared, nd);
    else gpl_read_box<false>(source, which, phase, shared, nd);
    __syncthreads();                                              // the box and all tables are complete
    gpl_write_box(target, which, extent, shared + nd.box + phase * GPL_ELEMENT_BYTES, shared, nd);
    if (++number == end) return;
    if (threadIdx.x == 0) shared_box = gpl_box(number, nd.move);
    __syncthreads();                                              // the box is written, and the next one known
  }
}
