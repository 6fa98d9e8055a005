// Many small moves in one launch: each move is a job, and each block works on one of them.
//
// A launch costs more than moving a few KB, so small moves share one.  Everything is passed by value in the parameters,
// which hold 4 KB: per job two pointers, a pad and up to GPL_AXES loops.  A job uses the widest element that it can move in,
// and all jobs of a launch have the same width; offsets have 32 bits.
//
// first[j] is the first block of job j, first[0] is 0, and unused jobs begin after the last block.  A block finds its job
// in log2(GPL_JOBS) steps, the same for all its threads, and then works like a block of gather.cu:
//   first 0 1 4 9: block 5 -> job 2, block 1 of that job
//
// Macros: those of move.cuh (GPL_INDEX_BITS is 32), GPL_JOBS.
#if !defined(GPL_JOBS)
#error "many.cu needs GPL_JOBS"
#endif
#include "gather.cuh"

struct GplJob {
  const void* source;
  void* target;
  unsigned int pad[4];     // as in GplMove, like the fields below
  gpl_uint total;
  GplAxis axis[GPL_AXES];
};

struct GplMany {
  gpl_uint first[GPL_JOBS];
  GplJob job[GPL_JOBS];
};

// The last job that begins at or before a block.
__device__ __forceinline__ int gpl_job_of(gpl_uint block, const GplMany& many) {
  int job = 0;
#pragma unroll
  for (int step = 32; step; step /= 2)
    if (job + step < GPL_JOBS && many.first[job + step] <= block) job += step;
  return job;
}

__device__ __forceinline__ void gpl_move_one_of(const GplMany& many) {
  static_assert(GPL_JOBS <= 64, "the search begins with a step of 32");
  const int number = gpl_job_of(blockIdx.x, many);
  const GplJob& job = many.job[number];
  gpl_gather_places(job.source, job.target, job, blockIdx.x - many.first[number]);
}

GPL_KERNEL gpl_many(const __grid_constant__ GplMany many) { gpl_move_one_of(many); }
