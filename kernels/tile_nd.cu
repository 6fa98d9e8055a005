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
// coordinates of outer axes.  While it writes a box, the next one is on its way to another room of shared memory (arrive.cuh):
// with 5 blocks of boxes of 16 KB, up to 80 KB are on their way to a multiprocessor while others are written, and no register
// holds them.
//
// If neighbours in the source are neighbours in shared memory, small elements enter it in words of 4 bytes.  If all runs of
// the target are whole words, they leave it as words, assembled from 4 bytes or 2 halves.
//
// Banks: `step` is the distance in shared memory between coordinates; the host chooses steps that put the lanes of a row in
// different banks.  In the box above, the steps are 1 2 4 8 16 elements along the source's axes and 33 66 132 264 528 1056
// along the target's: lanes that write are 33 words apart, so their banks are 1 apart.
//
// A row of 4 bytes per lane costs 9 instructions: to read, one look-up, two additions and a copy; to write, these and an access
// to the box.  A block of one box takes 22 per element in the example, with everything.
//
// Macros: those of move.cuh; GPL_READ_BYTES, GPL_WRITE_BYTES: of one access to the source, and to the target.
// Numbers: GPL_FACTORS (of the four parts), GPL_BOXES (boxes of a block, at most), GPL_SHARED_BYTES (of a table and a box),
// GPL_AHEAD, GPL_APART (rooms for more boxes; bytes from one to the next), GPL_BLOCKS (of a multiprocessor, by registers),
// GPL_MANY_ROWS (rows that a thread moves at once), GPL_FEW_ROWS (the same with parameters).
#if !defined(GPL_READ_BYTES) || !defined(GPL_WRITE_BYTES) || !defined(GPL_FACTORS) || !defined(GPL_BOXES) || \
    !defined(GPL_SHARED_BYTES) || !defined(GPL_AHEAD) || !defined(GPL_APART) || !defined(GPL_BLOCKS) || \
    !defined(GPL_MANY_ROWS) || !defined(GPL_FEW_ROWS)
#error "tile_nd.cu needs GPL_READ_BYTES, GPL_WRITE_BYTES, GPL_FACTORS, GPL_BOXES, GPL_SHARED_BYTES, GPL_AHEAD, GPL_APART, GPL_BLOCKS, GPL_MANY_ROWS and GPL_FEW_ROWS"
#endif
#include "arrive.cuh"

#define GPL_BATCH (GPL_PARAMETERS ? GPL_FEW_ROWS : GPL_MANY_ROWS)  // rows with parameters take more registers
#define GPL_FEW (GPL_BATCH < 4 ? GPL_BATCH : 4)  // rows at once if an axis ends in the box
// Rooms of shared memory, each for a box.  Devices other than Hopper and its kin have too little for a second one.  Elements that
// go through registers are there before the box ahead of them is written, so a second room would only take memory from the cache.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200)
#define GPL_ROOMS 1
#else
#define GPL_ROOMS (GPL_ARRIVES(GPL_READ_BYTES) ? GPL_AHEAD + 1 : 1)
#endif
// Words of 4 bytes that wait in registers, before sm_80, leave too few for where they go: 64 for a thread, and it spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define GPL_LOOKS_TWICE true
#else
#define GPL_LOOKS_TWICE false
#endif
#define GPL_OWN_BLOCKS (GPL_ARRIVES(GPL_READ_BYTES) ? GPL_BLOCKS : 4)  // elements that go through registers need many
#define GPL_WARPS (GPL_THREADS / GPL_LANES)
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
  unsigned uneven;                   // not 0: on some side, not all rows have as many lanes
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

// Bytes from the first room to that of a box of the block; boxes take turns.
__device__ __forceinline__ unsigned gpl_box_at(unsigned box) { return box % GPL_ROOMS * GPL_APART; }

// What is asked about a lane of a row: nothing; whether the row has so many lanes; or also, whether it is inside.
enum GplAsk { GPL_NOTHING, GPL_LANES_ONLY, GPL_INSIDE };

// One side of a thread: `rows<ROWS, ALL>(row, count)` takes every eighth row from an entry on, ROWS of them or, unless ALL, those
// of the first `count`.  Here lanes that are outside become pad.
template <GplAsk ASK>
struct GplReader {
  const gpl_source_element* from;    // of the thread's lane
  unsigned char* to;
  const GplEntry* first;             // its first row
  int count;                         // of its rows
  unsigned check;
  const GplBoxMove& nd;

  __device__ __forceinline__ int most() const { return gpl_count(nd.side[0].rows); }

  __device__ __forceinline__ GplReader at_box(unsigned box) const { return {from, to + gpl_box_at(box), first, count, check, nd}; }

  template <int ROWS, bool ALL>
  __device__ __forceinline__ void rows(const GplEntry* row, int count) const {
    const unsigned guards = nd.side[0].guards;
    GplArrival<GPL_READ_BYTES> arrival[ROWS];
    GplEntry entry[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
      if (ALL || i < count) entry[i] = row[i * GPL_WARPS];                    // others may be behind shared memory
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      if (!ALL && i >= count) continue;
      if (ASK != GPL_INSIDE || (check && ((check - entry[i].check) & guards) == guards))
        arrival[i].begin(to + entry[i].shared, gpl_at(from, entry[i].offset));
      else {
        gpl_piece pad;
        gpl_pad(nd.move, pad);
        arrival[i].set(to + entry[i].shared, pad);
      }
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
      if (ALL || i < count) arrival[i].end(to + (GPL_LOOKS_TWICE ? row[i * GPL_WARPS] : entry[i]).shared);
  }
};

template <GplAsk ASK>
struct GplWriter {
  gpl_target_element* to;
  const unsigned char* from;
  const GplEntry* first;
  int count;
  unsigned check;
  const GplBoxMove& nd;
  const GplParameters& parameters;   // of the thread's lane

  __device__ __forceinline__ int most() const { return gpl_count(nd.side[1].rows); }

  __device__ __forceinline__ GplWriter at_box(unsigned box) const { return {to, from + gpl_box_at(box), first, count, check, nd, parameters}; }

  template <int ROWS, bool ALL>
  __device__ __forceinline__ void rows(const GplEntry* row, int count) const {
    const unsigned guards = nd.side[1].guards;
    gpl_written value[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      if (!ALL && i >= count) continue;                                       // such places may be behind shared memory
#pragma unroll
      for (int j = 0; j < GPL_WRITE_BYTES / GPL_ELEMENT_BYTES; ++j)
        value[i].element[j] = *(const gpl_element*)(from + gpl_in_box(row[i * GPL_WARPS]) + (j ? nd.apart[j] : 0));
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const GplEntry& entry = row[i * GPL_WARPS];
      if ((ALL || i < count) && (ASK != GPL_INSIDE || (check && ((check - entry.check) & guards) == guards)))
        gpl_deliver(gpl_at(to, entry.offset), value[i], gpl_operands(gpl_at_entry(parameters, entry), nd.move), 0, GPL_NO_END,
                    nd.move);
    }
  }
};

// Batches of rows from an entry on; then the rest.
template <int BATCH, class Side>
__device__ __forceinline__ void gpl_whole_rows(const Side& side, const GplEntry* row, int count) {
#pragma unroll 1
  for (; count >= BATCH; count -= BATCH, row += BATCH * GPL_WARPS) side.template rows<BATCH, true>(row, count);
  if (count == 0) return;
  if constexpr (BATCH > 4) gpl_whole_rows<4>(side, row, count);
  else side.template rows<BATCH - 1, false>(row, count);
}

// All rows of a thread.  Where lanes have different numbers of them, a warp takes its most, all lanes in the same order.
template <int BATCH, GplAsk ASK, class Side>
__device__ __forceinline__ void gpl_all_rows(const Side& side) {
  if constexpr (ASK == GPL_NOTHING) gpl_whole_rows<BATCH>(side, side.first, side.count);
  else {
    const GplEntry* row = side.first;
#pragma unroll 1
    for (int taken = 0; taken < side.most(); taken += BATCH, row += BATCH * GPL_WARPS)
      side.template rows<BATCH, false>(row, side.count - taken);
  }
}

// All boxes of a block.  The next ones are on their way while one is written.
template <int BATCH, GplAsk ASK>
__device__ __forceinline__ void gpl_boxes(GplReader<ASK> reader, GplWriter<ASK> writer) {
  const GplBoxMove& nd = reader.nd;
#pragma unroll 1
  for (int number = 0; number < (int)nd.boxes + GPL_ROOMS - 1; ++number) {
    if (number < (int)nd.boxes) {
      reader.from = gpl_at(reader.from, nd.step[number].source);
      gpl_all_rows<BATCH, ASK>(reader.at_box(number));
    }
    gpl_arrivals_end();
    const int written = number - (GPL_ROOMS - 1);
    if (written < 0) continue;
    gpl_wait_for_arrivals<GPL_ROOMS - 1>();
    __syncthreads();                                              // the box is complete
    writer.to = gpl_at(writer.to, nd.step[written].target);
    gpl_all_rows<BATCH, ASK>(writer.at_box(written));
    __syncthreads();                                              // the box is free
  }
}

GPL_KERNEL_OF(GPL_OWN_BLOCKS) gpl_tile_nd(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplBoxMove nd) {
  __shared__ uint4 shared_nd[(GPL_SHARED_BYTES + (GPL_ROOMS - 1) * GPL_APART) / 16];
  if (gpl_block() >= nd.move.total) return;                       // the whole block, before any barrier
  gpl_fill_table(shared_nd, nd);
  __syncthreads();                                                // the table is complete
  const GplLane *const lane = (const GplLane*)shared_nd + threadIdx.x % GPL_LANES, in = lane[0], out = lane[GPL_LANES];
  const GplEntry *const row = (const GplEntry*)shared_nd + threadIdx.x / GPL_LANES, *const in_row = row + nd.side[0].first,
                 *const out_row = row + nd.side[1].first;
  unsigned char *const put_to = (unsigned char*)shared_nd + gpl_shared(in), *const write_from = (unsigned char*)shared_nd + gpl_shared(out);
  const gpl_source_element* from = (const gpl_source_element*)((const unsigned char*)source + gpl_bytes(in));
  gpl_target_element* to = (gpl_target_element*)((unsigned char*)target + gpl_bytes(out));
  const int in_count = gpl_count(gpl_rows(in)), out_count = gpl_count(gpl_rows(out));
  const GplParameters parameters = gpl_lane_parameters(nd);
  // The same for all threads: as long as nothing ends inside the block's boxes, every lane is whole.
  if (in.check != GPL_WHOLE || out.check != GPL_WHOLE)
    gpl_boxes<GPL_FEW, GPL_INSIDE>({from, put_to, in_row, in_count, in.check, nd},
                                   {to, write_from, out_row, out_count, out.check, nd, parameters});
  else if (nd.uneven)
    gpl_boxes<GPL_FEW, GPL_LANES_ONLY>({from, put_to, in_row, in_count, in.check, nd},
                                       {to, write_from, out_row, out_count, out.check, nd, parameters});
  else
    gpl_boxes<GPL_BATCH, GPL_NOTHING>({from, put_to, in_row, in_count, in.check, nd},
                                      {to, write_from, out_row, out_count, out.check, nd, parameters});
}
