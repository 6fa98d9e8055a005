// Packed elements with different minor axes, in rows that begin at any slot: square blocks of slots, with edges.
//
// Axis 0 is the target's minor axis b, axis 1 the source's minor axis a.  A word has S = GPL_SIDE slots.  A thread has a block
// of S slots along b and GPL_WIDE along a: 32 words, so one, two or four with 1, 2 or 4 bits in a row of the source.  A tile is
// K blocks along b and A along a, K * A = 256.  tile[0] is A, tile[1] is K; count[0] counts the tiles along b, count[1] the blocks along a, `total`
// those of all other coordinates together.
//
//   reading   a thread reads its S rows of the source, GPL_WIDE slots from any slot on, out of the words that hold them,
//             and transposes them (bits_turn.cuh): word q has slots b to b + S - 1 of row a + q of the target
//   writing   a row of the target begins anywhere in a word, at slot p.  So each of its words takes S - p slots of one block
//             and p slots of the next.  Blocks exchange their words through shared memory, and lanes write neighbouring
//             words of a row.  K blocks make K - 1 words.
//
// GPL_SKIP is 1 where a tile holds whole rows of b: tiles overlap by one block, and the first begins at b = -S.  Else it is 8,
// a sector's words, so that no two blocks write parts of a sector: tiles overlap by 8 blocks, and write K - 8 words of each
// row, from its first sector on.
//
//   bits 4, S = 8, a row at slot 1003 of a target at a multiple of 4: p = 1003 % 8 = 3.  Its first slots are the upper 5 of
//   word 125, its next word is b = 5 to 12: slots 5 to 7 of the first block and 0 to 4 of the second.
//
// A word of a target without gaps belongs to the row in which it begins, so one thread writes it.  Its other slots belong to
// the next row: behind the end of b, a block reads the beginning of b of that row, which is one step further along a or
// along the axes between (`lower` rows of the target are between two of a; 0 means that the target has gaps).  Only the row
// after the last one of a is elsewhere: its slots are read one by one.
// Rows of a target with gaps are whole bytes.  Words of which a row has only a part are written byte by byte.
//
// Shared memory takes GPL_WIDE words of each block, 8 at a time.  Word q of block (k, r) is in row q A + r, of K + K / 8
// words: neighbouring lanes have neighbouring r, and those of a warp 32 / A of k, so all 32 banks differ.
//   K = 32, A = 8: rows of 36 words; lane (k, r) stores to bank (36 r + k) % 32 = 4 r + k, k < 4
// If K < 32, a warp writes words of 32 / K blocks that are 8 apart along a, in other banks each.
//   K = 16, A = 16: rows of 18 words; block 8 begins at bank 18 * 8 % 32 = 16
//
// 4 bits, 4413 x 1023: 5.1 instructions per element; 4.3 if tiles begin anywhere.
//
// Macros: GPL_SOURCE_BITS, GPL_TARGET_BITS (1 2 4), the same; GPL_WORDS (1 2 4), words of a block in a row of the source;
// GPL_SKIP (1 8), the words of the target at whose multiples tiles begin.  Numbers: GPL_MOST_ACROSS (largest A).
#if !defined(GPL_WORDS) || !defined(GPL_SKIP) || !defined(GPL_MOST_ACROSS)
#error "bits_turn_any.cu needs GPL_WORDS, GPL_SKIP and GPL_MOST_ACROSS"
#endif
#include "bits.cuh"
#include "bits_turn.cuh"

#define GPL_WIDE (GPL_WORDS * GPL_SIDE)                                // slots of these: rows of the target
#define GPL_BATCH 8                                                    // words of a block in shared memory at once
#define GPL_STEP (GPL_THREADS + GPL_THREADS / 8)                       // words from one of these to the next: A (K + K / 8)
#define GPL_OFFSET(slot) ((gpl_int)((slot) / GPL_SIDE) * 4)            // bytes from an aligned address to the word of a slot

// The rows of the target of a block: the slot of the first, how many there are, and whether they end the target.
struct GplRows {
  gpl_uint slot;
  unsigned count;
  bool last;
};

// A window of GPL_WIDE slots of each row of the source: its slot in the first row, and how many of its slots are elements.
struct GplWindow {
  gpl_uint slot;
  unsigned count;
};

// A block to read: the windows of its rows up to the end of b and of those behind it, and in these the one slot behind the end
// of a: number `lone` in a window, from GPL_WIDE on if there is none.
struct GplBlock {
  GplWindow here, next;
  gpl_uint lone_slot;
  unsigned lone;
};

__device__ __forceinline__ GplWindow gpl_window(const GplPlace& place, gpl_uint a, const GplMove& move) {
  const gpl_uint bound = place.inside ? move.axis[1].bound : 0;
  return {move.first_slot + place.source + a, bound <= a ? 0 : bound - a < GPL_WIDE ? (unsigned)(bound - a) : GPL_WIDE};
}

// The block of `others`, a combination of the axes after the first two, whose rows behind the end of b continue in the
// rows of the target that follow.  In a target with gaps nothing uses those: they are any rows.
__device__ __forceinline__ GplBlock gpl_block_to_read(gpl_int b, gpl_uint a, gpl_uint others, const GplPlace& place, const GplMove& move) {
  const gpl_uint extent = move.axis[0].extent.value;
  GplBlock block = {gpl_window(place, a, move), gpl_window(place, a, move), 0, GPL_WIDE};
  if (!move.lower || b + GPL_SIDE <= (gpl_int)extent) return block;
  const GplPlace after = gpl_place<2>(others + 1, move);
  if (after.target == place.target + extent) {                         // one step along the axes between
    block.next = gpl_window(after, a, move);
    return block;
  }
  block.next = gpl_window(gpl_place<2>(others + 1 - move.lower, move), a + 1, move);
  const gpl_uint left = move.axis[1].extent.value - a - 1;             // rows of the block before the last one of a
  if (left < GPL_WIDE && after.inside) block.lone = (unsigned)left;
  block.lone_slot = move.first_slot + after.source;
  return block;
}

// Word `part` of a row of a block at coordinate `b`, with padding and all limits checked.
__device__ __forceinline__ unsigned gpl_edge_word(const void* source, const GplBlock& block, gpl_int b, int part, const GplMove& move) {
  const gpl_uint extent = move.axis[0].extent.value, stride = move.axis[0].source_stride;
  const bool over = b >= (gpl_int)extent;
  const GplWindow window = over ? block.next : block.here;
  const gpl_uint row = (gpl_uint)b - (over ? extent : 0);
  const int count = (row < move.axis[0].bound ? (int)window.count : 0) - part * GPL_SIDE;
  const unsigned keep = count <= 0 ? 0 : count < GPL_SIDE ? (1u << count * GPL_SOURCE_BITS) - 1 : ~0u;
  unsigned word = 0;
  if (keep) word = gpl_slots(source, window.slot + part * GPL_SIDE + row * stride, move);
  word = (word & keep) | (move.pad[0] & ~keep);
  const unsigned lone = block.lone - part * GPL_SIDE;
  if (over && lone < GPL_SIDE && row < move.axis[0].bound)
    word = (word & ~(GPL_VALUE_MASK << lone * GPL_SOURCE_BITS)) | gpl_slot(source, block.lone_slot + row * stride) << lone * GPL_SOURCE_BITS;
  return word;
}

// True if all slots of `rows` rows of windows, from `slot` of the first on, are in words of the source's memory.  `slot`
// counts from the word in which the source begins, `phase` bytes before it.
__device__ __forceinline__ bool gpl_in_words(gpl_uint slot, gpl_int rows, unsigned phase, const GplMove& move) {
  const gpl_uint last = slot + (gpl_uint)(rows - 1) * move.axis[0].source_stride;
  return GPL_OFFSET(slot) >= phase && GPL_OFFSET(last) + 4 * GPL_WORDS + 4 <= (gpl_int)(move.high + phase);
}

// The rows of a block.  `stage` is the thread's own column of shared memory.
__device__ __forceinline__ void gpl_read_rows(unsigned (&row)[GPL_WORDS][GPL_SIDE], const void* source, const GplBlock& block, gpl_int b,
                                              gpl_uint a, unsigned* stage, const GplMove& move) {
  const unsigned phase = (unsigned)(unsigned long long)source & 3;
  const unsigned char* words = (const unsigned char*)source - phase;
  const gpl_uint extent = move.axis[0].extent.value, stride = move.axis[0].source_stride, before = phase * (8 / GPL_SOURCE_BITS);
  const bool over = b >= (gpl_int)extent;
  const GplWindow first = over ? block.next : block.here, second = block.next;
  const gpl_uint begin = over ? b - extent : b;
  const gpl_int rows = begin + GPL_SIDE <= extent ? GPL_SIDE : (gpl_int)(extent - begin);       // up to the end of b
  const gpl_uint from = first.slot + begin * stride + before, onward = second.slot + before - (gpl_uint)rows * stride;
  bool whole = b >= 0 && begin + rows <= move.axis[0].bound && (first.count == GPL_WIDE || first.count + a == move.axis[1].extent.value) &&
               gpl_in_words(from, rows, phase, move);
  if (rows < GPL_SIDE)
    whole = whole && GPL_SIDE - rows <= (gpl_int)move.axis[0].bound &&
            (second.count == GPL_WIDE || second.count + a == move.axis[1].extent.value) &&
            gpl_in_words(second.slot + before, GPL_SIDE - rows, phase, move);
  if (whole) {
#pragma unroll
    for (int p = 0; p < GPL_SIDE; ++p) {
      const gpl_uint slot = (p < rows ? from : onward) + p * stride;
      const unsigned* word = (const unsigned*)(words + GPL_OFFSET(slot));
#pragma unroll
      for (int part = 0; part < GPL_WORDS; ++part)
        row[part][p] = __funnelshift_r(gpl_from_source(word[part]), gpl_from_source(word[part + 1]), (unsigned)slot * GPL_SOURCE_BITS);
    }
    return;
  }
#pragma unroll
  for (int part = 0; part < GPL_WORDS; ++part)
#pragma unroll
    for (int batch = 0; batch < GPL_SIDE; batch += GPL_BATCH) {
#pragma unroll 1
      for (int p = 0; p < GPL_BATCH; ++p) stage[p * GPL_THREADS] = gpl_edge_word(source, block, b + batch + p, part, move);
#pragma unroll
      for (int p = 0; p < GPL_BATCH; ++p) row[part][batch + p] = stage[p * GPL_THREADS];
    }
}

// A word of which the row's thread writes a part, or nothing: `slot` is that of the row, `b` the coordinate of the word's
// slot 0, and `ends` tells that the target ends with the row.
__device__ __forceinline__ void gpl_store_part(unsigned char* to, unsigned word, gpl_uint slot, gpl_int b, bool ends, const GplMove& move) {
  const gpl_int extent = move.axis[0].extent.value;
  if (b >= extent || (b < 0 && move.lower && slot != 0)) return;
  const int first = b < 0 ? (int)-b : 0, last = (ends || !move.lower) && extent - b < GPL_SIDE ? (int)(extent - b) : GPL_SIDE;
  if (last < GPL_SIDE) word &= (1u << last * GPL_TARGET_BITS) - 1;
  word = gpl_to_target(word);
#pragma unroll 1
  for (int i = first * GPL_TARGET_BITS / 8; i < (last * GPL_TARGET_BITS + 7) / 8; ++i) to[i] = (unsigned char)(word >> 8 * i);
}

// Which words of a column a tile writes: of each row `made` words, from the first at a multiple of GPL_SKIP words on.  Bit i of
// every byte stands for words at i past such a multiple.  A column's word is made of its block and the one before, so the
// first column has none.
//   GPL_SKIP 8, 56 words: column 3 writes its word if that is at 0, 1 or 2, so the row's first is in column 3, 2 or 1; column
//   58 if it is at 2 to 7, so the first is in column 56 or before
__device__ __forceinline__ unsigned gpl_column(unsigned column, unsigned made) {
  const unsigned low = column < GPL_SKIP ? (1u << column) - 1 : 0xff, high = column > made ? ~0u << (column - made) : ~0u;
  return (low & high & 0xff) * 0x01010101;
}

__device__ __forceinline__ bool gpl_is_made(unsigned written, gpl_uint slot) {
  return GPL_SKIP == 1 ? written != 0 : __funnelshift_r(written, written, (unsigned)(slot / GPL_SIDE)) & 1;
}

// The words in shared memory, `from` those of a block and its neighbour, to the rows of the target from `first` on.
// `b` is the first coordinate of the block.  Warps without words at the ends of b check nothing else.
__device__ __forceinline__ void gpl_write_rows(void* target, const unsigned* from, const GplRows& rows, unsigned first, gpl_int b,
                                               unsigned lane, unsigned written, const GplMove& move) {
  const unsigned phase = (unsigned)(unsigned long long)target & (4 * GPL_SKIP - 1);
  unsigned char* words = (unsigned char*)target - phase;
  const gpl_uint stride = move.axis[1].target_stride, extent = move.axis[0].extent.value;
  const gpl_uint before = phase * (8 / GPL_TARGET_BITS) + (gpl_uint)b, to = rows.slot + first * stride + before;
  const gpl_uint limit = move.lower && !rows.last ? extent : extent - GPL_SIDE + 1;      // words that begin below it are whole
  const gpl_int low = b - (gpl_int)(lane * GPL_SIDE), high = low + 31 * GPL_SIDE;        // of the words of the warp
  if (low >= GPL_SIDE && high < (gpl_int)limit && first + GPL_BATCH <= rows.count) {
#pragma unroll
    for (int j = 0; j < GPL_BATCH; ++j) {
      const gpl_uint here = to + j * stride;
      const unsigned *word = from + j * GPL_STEP, value = __funnelshift_l(word[-1], word[0], (unsigned)here * GPL_TARGET_BITS);
      if (gpl_is_made(written, here)) *(unsigned*)(words + GPL_OFFSET(here)) = gpl_to_target(value);
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < GPL_BATCH; ++j) {
    const gpl_uint here = to + j * stride, start = (gpl_uint)b - here % GPL_SIDE;
    const unsigned *word = from + j * GPL_STEP, value = __funnelshift_l(word[-1], word[0], (unsigned)here * GPL_TARGET_BITS);
    if (first + j < rows.count && start < limit && gpl_is_made(written, here)) *(unsigned*)(words + GPL_OFFSET(here)) = gpl_to_target(value);
  }
  const bool starts = b < GPL_SIDE && (!move.lower || to == before), ends = (gpl_uint)b + GPL_SIDE > limit && limit < extent;
  if (!starts && !ends) return;
#pragma unroll 1
  for (unsigned j = 0; j < GPL_BATCH && first + j < rows.count; ++j) {
    const gpl_uint here = to + j * stride, start = (gpl_uint)b - here % GPL_SIDE;
    const unsigned *word = from + j * GPL_STEP, value = __funnelshift_l(word[-1], word[0], (unsigned)here * GPL_TARGET_BITS);
    if (start >= limit && gpl_is_made(written, here))
      gpl_store_part(words + GPL_OFFSET(here), value, here - before, (gpl_int)start, rows.last && first + j + 1 == rows.count, move);
  }
}

GPL_KERNEL gpl_bits_turn_any(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  __shared__ unsigned words[GPL_BATCH * GPL_STEP];
  __shared__ GplRows rows_of[GPL_MOST_ACROSS];
  const unsigned across = (unsigned)move.tile[0].value, along = (unsigned)move.tile[1].value;
  const gpl_uint group = gpl_divide(gpl_block(), move.count[0]);
  if (group * across >= move.total) return;                            // the whole block, before any barrier
  const unsigned thread = threadIdx.x & (GPL_THREADS - 1), pitch = along + along / 8;
  const unsigned made = along - GPL_SKIP;                              // words of a row that the tile writes
  const gpl_int begin = (gpl_int)((gpl_block() - group * move.count[0].value) * made * GPL_SIDE) - GPL_SKIP * GPL_SIDE;
  const gpl_int extent = move.axis[0].extent.value;
  const unsigned k = gpl_divide_small(thread, move.tile[0]), r = thread - k * across;

  const gpl_uint number = group * across + r, others = gpl_divide(number, move.count[1]);
  const gpl_uint a = (number - others * move.count[1].value) * GPL_WIDE;
  const GplPlace place = gpl_place<2>(others, move);
  const gpl_int b = begin + (gpl_int)(k * GPL_SIDE);
  if (k == 0) {
    const gpl_uint left = number < move.total ? move.axis[1].extent.value - a : 0;
    rows_of[r] = {place.target + a * move.axis[1].target_stride, left < GPL_WIDE ? (unsigned)left : GPL_WIDE, number + 1 == move.total};
  }
  unsigned row[GPL_WORDS][GPL_SIDE] = {};
  if (number < move.total && b + GPL_SIDE > 0 && b < extent + (move.lower ? GPL_SIDE - 1 : 0)) {
    gpl_read_rows(row, source, gpl_block_to_read(b, a, others, place, move), b, a, words + thread, move);
#pragma unroll
    for (int part = 0; part < GPL_WORDS; ++part) gpl_transpose_bits(row[part]);
  }
  const unsigned column = thread & (along - 1), lane = thread % 32;
  const unsigned line = along > 32 ? thread * across / GPL_THREADS : thread / 32 + lane * across / GPL_THREADS * 8;
  const gpl_int to = begin + (gpl_int)(column * GPL_SIDE);
#pragma unroll
  for (int batch = 0; batch < GPL_WIDE; batch += GPL_BATCH) {
    __syncthreads();                                                   // the words of the batch before are not used any more
#pragma unroll
    for (int j = 0; j < GPL_BATCH; ++j) words[j * GPL_STEP + r * pitch + k] = row[batch / GPL_SIDE][batch % GPL_SIDE + j];
    __syncthreads();
    gpl_write_rows(target, words + line * pitch + max(column, 1u), rows_of[line], batch, to, min(column, lane), gpl_column(column, made), move);
  }
}
