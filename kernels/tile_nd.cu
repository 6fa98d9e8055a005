// Tile of many axes through shared memory, for minor axes that are short on both sides.
//
// A tile is a box over up to 13 axes: enough of the source's minor axes to read runs of about 128 bytes, and enough of the
// target's to write such runs.  The axes of the box are whole except axis 0 and axis 1, which may be cut: count[i] pieces of
// tile[i] places, or single places if nothing is cut and they are outer axes.  The rest of `axis` are the outer axes, which
// only move the box.
//
// A box is walked twice, in the order of the source to read and in the order of the target to write, so that neighbouring
// lanes access neighbouring addresses.  On each side, a walk consists of rows of up to 32 lanes.  The most minor digits of
// the order make a lane's number, the other digits a row's number, and an axis may be split between the two.  Example, f32
// 2^22 reversed, a box of 5 axes of the source and 6 of the target: axes that are contiguous both in memory and in shared
// memory are one digit, of 32 on the source's side and of 64 on the target's:
//
//   reading   lane = digit of 32; row = digits of 2 2 2 2 2 2              64 rows of 32 lanes
//   writing   lane = half of the digit of 64; row = its 2, then 2 2 2 2 2   64 rows of 32 lanes
//
// The place of a lane or a row is a sum over its digits, so it is the sum of two factors that the host gives: above, one for
// the lower 3 digits of a row's number, of 8, and one for the upper 3.  A block adds them up once, an entry or two per thread,
// in a table in shared memory.  A thread keeps its lane and takes every eighth row.  So an element costs no division, however
// many axes there are: on each side one look-up of a row, which all lanes of a warp share, two additions, one access to the
// box, one to memory.
//
// The table holds for every box of the array.  If there are enough of them, a block moves up to 4 boxes that differ in the
// coordinates of outer axes; then it reads the next box into registers before it writes the present one.
//
// If neighbours in the source are neighbours in shared memory, small elements enter it in words of 4 bytes.  If all runs of
// the target are whole words, they leave it as words, assembled from 4 bytes or 2 halves.
//
// Banks: `step` is the distance in shared memory between coordinates; the host chooses steps that put the lanes of a row in
// different banks.  In the box above, the steps are 1 2 4 8 16 elements along the source's axes and 33 66 132 264 528 1056
// along the target's: lanes that write are 33 words apart, so their banks are 1 apart.
//
// A row of 4 bytes per lane costs 10 instructions, 5 per side.  A block of one box takes 22 per element in the example, with
// everything, and one of two boxes 19.
//
// Macros: those of move.cuh; GPL_READ_BYTES, GPL_WRITE_BYTES: of one access to the source, and to the target.
// Numbers: GPL_FACTORS (of the four parts), GPL_BOXES (boxes of a block, at most), GPL_SHARED_BYTES (of a table and a box),
// GPL_MANY_ROWS (rows that a thread loads at once), GPL_FEW_ROWS (the same with parameters), GPL_EVEN, GPL_UNEVEN (kinds of walks).
#if !defined(GPL_READ_BYTES) || !defined(GPL_WRITE_BYTES) || !defined(GPL_FACTORS) || !defined(GPL_BOXES) || \
    !defined(GPL_SHARED_BYTES) || !defined(GPL_MANY_ROWS) || !defined(GPL_FEW_ROWS) || !defined(GPL_EVEN) || !defined(GPL_UNEVEN)
#error "tile_nd.cu needs GPL_READ_BYTES, GPL_WRITE_BYTES, GPL_FACTORS, GPL_BOXES, GPL_SHARED_BYTES, GPL_MANY_ROWS, GPL_FEW_ROWS, GPL_EVEN and GPL_UNEVEN"
#endif
#include "move.cuh"

#define GPL_BATCH (GPL_PARAMETERS ? GPL_FEW_ROWS : GPL_MANY_ROWS)  // rows with parameters take more registers
#define GPL_WARPS (GPL_THREADS / GPL_LANES)
#define GPL_HELD (2 * GPL_BATCH - 1) // rows that it holds while it writes the box before
#define GPL_FEW (GPL_BATCH < 4 ? GPL_BATCH : 4)        // rows that it loads at once if an axis ends in the box
typedef GplWord<GPL_READ_BYTES>::type gpl_piece;       // read at once
typedef GplChunk<GPL_WRITE_BYTES> gpl_written;         // written at once

// GplDivisor for numbers inside a tile: 32 bits in every build.
struct GplSmallDivisor {
  unsigned value, multiplier, shift;
};

__device__ __forceinline__ unsigned gpl_divide(unsigned n, const GplSmallDivisor& by) {
  return (__umulhi(n, by.multiplier) + n) >> by.shift;
}

// The place of a lane or a row, or a factor of it: the offset in elements, the offset in shared memory in bytes, and the
// places along the axes that may end inside a box, each in a field of bits.
struct __align__(16) GplEntry {
  gpl_uint offset;
  unsigned shared, check;
#if GPL_INDEX_BITS == 32
  unsigned unused;
#endif
};
#define GPL_WHOLE (~0u)              // check of a lane whose rows are all inside; 0 if none of them is

// Entries of the table: number n is factor[from + n % low] + factor[from + low + n / low].
struct GplPart {
  unsigned first;                    // its first entry
  GplSmallDivisor low;
  unsigned from;
};

// A row is inside if no field of `limits` minus its check minus its lane's check goes below 0, which clears the field's bit of
// `guards`.  A field of `limits` is the last place inside, below its guard; for an axis that may be cut, that is added by the
// kernel, times `scale`.  Example, axis 0 ends after 5 places of this box, in a field of 3 bits and guard 8: limits is 8 + 4;
// lane 1 and row 2 make 12 - 3 = 9, inside; lane 1 and row 4 make 7, outside.
struct GplSide {
  unsigned lanes, last_lanes;        // in each of the first `full` rows; in the others
  unsigned full, rows;
  unsigned first;                    // the first row's entry
  unsigned checked;                  // not 0: any box has lanes of rows that are outside
  unsigned limits, guards, scale[2]; // bit 31 of `limits` is set, too
};

struct GplStep {
  gpl_uint source, target;
};

struct GplBoxMove {
  GplMove move;
  GplSide side[2];                   // reading, writing
  GplPart part[4];                   // lanes for reading, lanes for writing, rows for reading, rows for writing
  unsigned apart[4];                 // bytes from a written piece's first element to each, in shared memory
  unsigned entries, box;             // of the table; bytes from it to the box
  unsigned boxes;                    // of a block
  unsigned walk;                     // GPL_EVEN: on both sides, every thread has GPL_BATCH rows.  GPL_UNEVEN: on some side,
                                     // not all rows have as many lanes.  Else neither
  GplStep step[GPL_BOXES + 1];       // from the box before to each; first and last are 0
  GplEntry factor[GPL_FACTORS];
};

// A lane of the block's first box: its offset in memory in bytes, its check, and in 16 bits each its offset in `shared_nd`
// and 7 more than its rows.
struct __align__(16) GplLane {
  unsigned low, high, check, rows_shared;
};
__device__ __forceinline__ long long gpl_bytes(const GplLane& lane) { return (long long)((unsigned long long)lane.high << 32 | lane.low); }
__device__ __forceinline__ unsigned gpl_shared(const GplLane& lane) { return lane.rows_shared & 0xFFFF; }

__device__ __forceinline__ unsigned gpl_rows(const GplLane& lane) { return (lane.rows_shared >> 16) - (GPL_WARPS - 1); }

// How many of these rows this warp takes, every eighth.
__device__ __forceinline__ unsigned gpl_count(unsigned rows) { return (rows + GPL_WARPS - 1 - threadIdx.x / GPL_LANES) / GPL_WARPS; }

__device__ __forceinline__ GplEntry gpl_sum(unsigned number, const GplPart& part, const GplBoxMove& nd) {
  const unsigned above = gpl_divide(number, part.low), left = number - above * part.low.value;
  const GplEntry &low = nd.factor[part.from + left], &high = nd.factor[part.from + part.low.value + above];
  return {low.offset + high.offset, low.shared + high.shared, low.check + high.check};
}

// The first box of the block: its first places along the axes that may be cut, and its place along the others.
struct GplCorner {
  gpl_uint first[2];
  GplPlace others;
};

// Parameters that change inside a box share one offset there: the upper half of the offset in shared memory, with a sign.
// So that of a row is a sum over its digits too, and there is room for it.
__device__ __forceinline__ unsigned gpl_in_box(const GplEntry& entry) { return GPL_VARIES ? entry.shared & 0xFFFF : entry.shared; }

__device__ __forceinline__ GplParameters gpl_at_entry(GplParameters place, const GplEntry& entry) {
#if GPL_PARAMETERS
#pragma unroll
  for (int p = 0; p < GPL_PARAMETERS; ++p)
    if (gpl_varies(p, GPL_ALONG_OTHERS | GPL_ALONG_AXIS_0)) place.at[p] += (int)entry.shared >> 16;
#endif
  return place;
}

template <bool WRITES>
__device__ __forceinline__ GplLane gpl_lane(const GplCorner& corner, const GplBoxMove& nd) {
  const GplSide& side = nd.side[WRITES];
  const unsigned own = threadIdx.x % GPL_LANES, rows = own < side.last_lanes ? side.rows : own < side.lanes ? side.full : 0;
  const GplEntry lane = gpl_sum(min(own, side.lanes - 1), nd.part[WRITES], nd);
  bool data = WRITES || corner.others.inside, whole = !side.checked;
  unsigned check = side.limits - lane.check;
  gpl_uint offset = lane.offset + (WRITES ? corner.others.target : corner.others.source);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const GplAxis& axis = nd.move.axis[i];
    const gpl_uint bound = WRITES ? axis.extent.value : axis.bound, left = bound - corner.first[i], tile = nd.move.tile[i].value;
    offset += corner.first[i] * (WRITES ? axis.target_stride : axis.source_stride);
    data = data && corner.first[i] < bound;
    whole = whole && left >= tile;
    check += ((unsigned)min(left, tile) - 1) * side.scale[i];
  }
  const long long bytes = (long long)(gpl_int)offset * (WRITES ? GPL_TARGET_BYTES : GPL_SOURCE_BYTES);
  return {(unsigned)bytes, (unsigned)(bytes >> 32),
          !data || (check & side.guards) != side.guards ? 0 : whole ? GPL_WHOLE : check,
          (rows + GPL_WARPS - 1) << 16 | (nd.box + gpl_in_box(lane))};
}

#if GPL_PARAMETERS
__shared__ GplParameters gpl_corner_parameters;
#endif

// Those of the block's first element, for all threads.
__device__ __forceinline__ void gpl_keep_parameters(const GplCorner& corner, const GplBoxMove& nd) {
#if GPL_PARAMETERS
  GplParameters place = corner.others.parameters;
#pragma unroll
  for (int i = 0; i < 2; ++i) place = gpl_along_axis(place, corner.first[i], i, nd.move);
  gpl_corner_parameters = place;
#endif
}

// Those of a thread's lane.
__device__ __forceinline__ GplParameters gpl_lane_parameters(const GplBoxMove& nd) {
#if GPL_PARAMETERS
  return gpl_at_entry(gpl_corner_parameters, gpl_sum(min(threadIdx.x % GPL_LANES, nd.side[1].lanes - 1), nd.part[1], nd));
#else
  return {};
#endif
}

// The first warp computes the lanes, the others the rows.
__device__ __forceinline__ void gpl_fill_table(uint4* table, const GplBoxMove& nd) {
  if (threadIdx.x < GPL_LANES) {
    const GplMove& move = nd.move;
    const gpl_uint number = gpl_block(), above = gpl_divide(number, move.count[0]), others = gpl_divide(above, move.count[1]);
    const GplCorner corner = {{(number - above * move.count[0].value) * move.tile[0].value,
                               (above - others * move.count[1].value) * move.tile[1].value},
                              gpl_place<2>(others, move)};
    ((GplLane*)table)[threadIdx.x] = gpl_lane<false>(corner, nd);
    ((GplLane*)table)[GPL_LANES + threadIdx.x] = gpl_lane<true>(corner, nd);
    if (threadIdx.x == 0) gpl_keep_parameters(corner, nd);
    return;
  }
#pragma unroll 1
  for (unsigned entry = GPL_LANES + threadIdx.x; entry < nd.entries; entry += GPL_THREADS - GPL_LANES) {
    const GplPart& part = nd.part[2 + (entry >= nd.part[3].first)];
    ((GplEntry*)table)[entry] = gpl_sum(entry - part.first, part, nd);
  }
}

// Up to 3 rows, in the last slots.
template <class Side>
__device__ __forceinline__ void gpl_few_rows(const Side& side, const GplEntry* row, unsigned count) {
  if (count > 0) side.template rows<GPL_HELD - 1, 1>(row);
  if (GPL_BATCH > 2 && count > 1) side.template rows<GPL_HELD - 2, 1>(row + GPL_WARPS);
  if (GPL_BATCH > 2 && count > 2) side.template rows<GPL_HELD - 3, 1>(row + 2 * GPL_WARPS);
}

// One side of a thread: `rows<SLOT, ROWS>(row)` takes every eighth of ROWS rows from an entry on, with the slots from SLOT on.
// Here it takes what it holds at once: a batch, and the rows that make no whole batch.  EVEN: a batch is all that any thread has.
template <bool EVEN, class Side>
__device__ __forceinline__ void gpl_held_rows(const Side& side, const GplEntry* row, unsigned count) {
  if (EVEN) return side.template rows<0, GPL_BATCH>(row);
  if (count >= GPL_BATCH) side.template rows<0, GPL_BATCH>(row), row += GPL_BATCH * GPL_WARPS;
  const unsigned rest = count % GPL_BATCH;
#if GPL_BATCH > 4
  if (rest >= 4) {
    side.template rows<GPL_BATCH, 4>(row);
    return gpl_few_rows(side, row + 4 * GPL_WARPS, rest - 4);
  }
#endif
  if (rest) gpl_few_rows(side, row, rest);
}

// Rows in registers, on their way from the source to the box.
struct GplHeld {
  gpl_piece value[GPL_HELD];
  unsigned shared[GPL_BATCH];        // places in the box of a batch, if these are kept too
};

// What is asked about a lane of a row: nothing; whether the row has so many lanes; or also, whether it is inside.
enum GplAsk { GPL_NOTHING, GPL_LANES_ONLY, GPL_INSIDE };

// Lanes that are outside become pad.  KEEPS: places in the box stay in registers from reading to putting.
template <GplAsk ASK, bool KEEPS>
struct GplReader {
  const gpl_source_element* from;    // of the thread's lane
  const GplEntry* end;               // of its rows
  unsigned check;
  const GplBoxMove& nd;
  GplHeld& held;

  template <int SLOT, int ROWS>
  __device__ __forceinline__ void rows(const GplEntry* row) const {
    const unsigned guards = nd.side[0].guards;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const GplEntry& entry = row[i * GPL_WARPS];
      if (KEEPS && SLOT == 0) held.shared[i] = entry.shared;
      if (ASK == GPL_INSIDE) gpl_pad(nd.move, held.value[SLOT + i]);
      if ((ASK == GPL_NOTHING || row + i * GPL_WARPS < end) &&
          (ASK != GPL_INSIDE || (check && ((check - entry.check) & guards) == guards)))
        held.value[SLOT + i] = gpl_fetch<GPL_READ_BYTES>(gpl_at(from, entry.offset));
    }
  }
};

template <GplAsk ASK, bool KEEPS>
struct GplPutter {
  unsigned char* to;
  const GplEntry* end;
  const GplHeld& held;

  template <int SLOT, int ROWS>
  __device__ __forceinline__ void rows(const GplEntry* row) const {
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
      if (ASK == GPL_NOTHING || row + i * GPL_WARPS < end)
        *(gpl_piece*)(to + (KEEPS && SLOT == 0 ? held.shared[i] : row[i * GPL_WARPS].shared)) = held.value[SLOT + i];
  }
};

template <GplAsk ASK>
struct GplWriter {
  gpl_target_element* to;
  const unsigned char* from;
  const GplEntry* end;
  unsigned check;
  const GplBoxMove& nd;
  const GplParameters& parameters;   // of the thread's lane

  template <int SLOT, int ROWS>
  __device__ __forceinline__ void rows(const GplEntry* row) const {
    const unsigned guards = nd.side[1].guards;
    gpl_written value[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      if (ASK != GPL_NOTHING && row + i * GPL_WARPS >= end) continue;         // such places may be behind shared memory
#pragma unroll
      for (int j = 0; j < GPL_WRITE_BYTES / GPL_ELEMENT_BYTES; ++j)
        value[i].element[j] = *(const gpl_element*)(from + gpl_in_box(row[i * GPL_WARPS]) + (j ? nd.apart[j] : 0));
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const GplEntry& entry = row[i * GPL_WARPS];
      if ((ASK == GPL_NOTHING || row + i * GPL_WARPS < end) &&
          (ASK != GPL_INSIDE || (check && ((check - entry.check) & guards) == guards)))
        gpl_deliver(gpl_at(to, entry.offset), value[i], gpl_operands(gpl_at_entry(parameters, entry), nd.move), 0, GPL_NO_END,
                    nd.move);
    }
  }
};

// Puts into the box what is held, then the other rows.
template <bool EVEN>
__device__ __forceinline__ void gpl_put(const GplReader<GPL_NOTHING, true>& reader, const GplPutter<GPL_NOTHING, true>& putter,
                                        const GplEntry* row, unsigned count) {
  gpl_held_rows<EVEN>(putter, row, count);
  if (EVEN || count < 2 * GPL_BATCH) return;
  row += (GPL_BATCH + count % GPL_BATCH) * GPL_WARPS;
#pragma unroll 1
  for (; count >= 2 * GPL_BATCH; count -= GPL_BATCH, row += GPL_BATCH * GPL_WARPS) {
    reader.template rows<0, GPL_BATCH>(row);
    putter.template rows<0, GPL_BATCH>(row);
  }
}

template <bool EVEN>
__device__ __forceinline__ void gpl_write(const GplWriter<GPL_NOTHING>& writer, const GplEntry* row, unsigned count) {
#pragma unroll 1
  for (; !EVEN && count >= 2 * GPL_BATCH; count -= GPL_BATCH, row += GPL_BATCH * GPL_WARPS) writer.template rows<0, GPL_BATCH>(row);
  gpl_held_rows<EVEN>(writer, row, count);
}

// The thread's first rows, and how many it takes.
struct GplWalk {
  const GplEntry *in, *out;
  unsigned in_count, out_count;
};

// Whole boxes.  The rows of the next one are under way while one is written.
template <bool EVEN>
__device__ __forceinline__ void gpl_whole_boxes(GplReader<GPL_NOTHING, true> reader, const GplPutter<GPL_NOTHING, true>& putter,
                                                GplWriter<GPL_NOTHING> writer, const GplWalk& walk) {
  const GplBoxMove& nd = reader.nd;
  gpl_held_rows<EVEN>(reader, walk.in, walk.in_count);
  gpl_put<EVEN>(reader, putter, walk.in, walk.in_count);
  __syncthreads();                                                // the box is complete
#pragma unroll 1
  for (unsigned number = 1; number < nd.boxes; ++number) {
    reader.from = gpl_at(reader.from, nd.step[number].source);
    gpl_held_rows<EVEN>(reader, walk.in, walk.in_count);
    gpl_write<EVEN>(writer, walk.out, walk.out_count);
    writer.to = gpl_at(writer.to, nd.step[number].target);
    __syncthreads();                                              // the box is free
    gpl_put<EVEN>(reader, putter, walk.in, walk.in_count);
    __syncthreads();                                              // the next one is complete
  }
  gpl_write<EVEN>(writer, walk.out, walk.out_count);
}

// Boxes in which rows or axes end.
template <int BATCH, class Side, class Next>
__device__ __forceinline__ void gpl_checked_rows(const Side& side, const Next& next, const GplEntry* row, unsigned count) {
#pragma unroll 1
  for (; count >= BATCH; count -= BATCH, row += BATCH * GPL_WARPS) side.template rows<0, BATCH>(row), next.template rows<0, BATCH>(row);
  if (BATCH > 4 && (count & 4)) side.template rows<0, 4>(row), next.template rows<0, 4>(row), row += 4 * GPL_WARPS;
  if (BATCH > 2 && (count & 2)) side.template rows<0, 2>(row), next.template rows<0, 2>(row), row += 2 * GPL_WARPS;
  if (count & 1) side.template rows<0, 1>(row), next.template rows<0, 1>(row);
}

struct GplNoNext {
  template <int SLOT, int ROWS>
  __device__ __forceinline__ void rows(const GplEntry*) const {}
};

template <int BATCH, GplAsk ASK>
__device__ __forceinline__ void gpl_checked_boxes(GplReader<ASK, false> reader, const GplPutter<ASK, false>& putter, GplWriter<ASK> writer,
                                                  const GplWalk& walk) {
  const GplBoxMove& nd = reader.nd;
#pragma unroll 1
  for (unsigned number = 0; number < nd.boxes; ++number) {
    reader.from = gpl_at(reader.from, nd.step[number].source);
    writer.to = gpl_at(writer.to, nd.step[number].target);
    gpl_checked_rows<BATCH>(reader, putter, walk.in, walk.in_count);
    __syncthreads();                                              // a checked box is complete
    gpl_checked_rows<BATCH>(writer, GplNoNext{}, walk.out, walk.out_count);
    __syncthreads();                                              // a checked box is free
  }
}

GPL_KERNEL gpl_tile_nd(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplBoxMove nd) {
  __shared__ uint4 shared_nd[GPL_SHARED_BYTES / 16];
  if (gpl_block() >= nd.move.total) return;                       // the whole block, before any barrier
  gpl_fill_table(shared_nd, nd);
  __syncthreads();                                                // the table is complete
  const GplLane *const lane = (const GplLane*)shared_nd + threadIdx.x % GPL_LANES, in = lane[0], out = lane[GPL_LANES];
  const GplEntry* const table = (const GplEntry*)shared_nd;
  const GplEntry *const in_row = table + nd.side[0].first, *const out_row = table + nd.side[1].first;
  const GplEntry *const in_end = in_row + gpl_rows(in), *const out_end = out_row + gpl_rows(out);
  unsigned char *const put_to = (unsigned char*)shared_nd + gpl_shared(in), *const write_from = (unsigned char*)shared_nd + gpl_shared(out);
  const gpl_source_element* from = (const gpl_source_element*)((const unsigned char*)source + gpl_bytes(in));
  gpl_target_element* to = (gpl_target_element*)((unsigned char*)target + gpl_bytes(out));
  const unsigned warp = threadIdx.x / GPL_LANES;
  const GplParameters parameters = gpl_lane_parameters(nd);
  GplHeld held;
  // The same for all threads: as long as nothing ends inside the block's boxes, every lane is whole.
  if (in.check == GPL_WHOLE && out.check == GPL_WHOLE && nd.walk != GPL_UNEVEN) {
    const GplWalk walk = {in_row + warp, out_row + warp, gpl_count(gpl_rows(in)), gpl_count(gpl_rows(out))};
    const GplReader<GPL_NOTHING, true> reader{from, in_end, in.check, nd, held};
    const GplPutter<GPL_NOTHING, true> putter{put_to, in_end, held};
    const GplWriter<GPL_NOTHING> writer{to, write_from, out_end, out.check, nd, parameters};
    if (nd.walk == GPL_EVEN) gpl_whole_boxes<true>(reader, putter, writer, walk);
    else gpl_whole_boxes<false>(reader, putter, writer, walk);
  } else {
    const GplWalk walk = {in_row + warp, out_row + warp, gpl_count(nd.side[0].rows), gpl_count(nd.side[1].rows)};
    if (in.check == GPL_WHOLE && out.check == GPL_WHOLE)
      gpl_checked_boxes<GPL_BATCH, GPL_LANES_ONLY>({from, in_end, in.check, nd, held}, {put_to, in_end, held},
                                                   {to, write_from, out_end, out.check, nd, parameters}, walk);
    else
      gpl_checked_boxes<GPL_FEW, GPL_INSIDE>({from, in_end, in.check, nd, held}, {put_to, in_end, held},
                                             {to, write_from, out_end, out.check, nd, parameters}, walk);
  }
}
