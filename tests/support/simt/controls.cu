// Small kernels for the shim's own tests.  The tests also break them on purpose: a gate that cannot fail proves nothing.

typedef unsigned long long count_t;

// Transposes a rows x columns matrix by tiles of 32 x 32, one block of 32 x 8 threads per tile.
// TILE_COLUMNS is 33: the elements of one tile column then fall into 32 different banks.
// With 32 columns all of them fall into one.
#ifndef TILE_COLUMNS
#define TILE_COLUMNS 33
#endif
extern "C" __global__ void __launch_bounds__(256)
transpose(const unsigned* __restrict__ source, unsigned* __restrict__ target, long long rows, long long columns) {
  __shared__ unsigned tile[32][TILE_COLUMNS];
  long long x = (long long)blockIdx.x * 32 + threadIdx.x;
  long long y = (long long)blockIdx.y * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    if (x < columns && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = source[(y + j) * columns + x];
  __syncthreads();   // FIRST BARRIER
  x = (long long)blockIdx.y * 32 + threadIdx.x;
  y = (long long)blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < rows && y + j < columns) target[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

// The same with any number of blocks: a block loops over tiles and needs a second barrier, or its next tile would overwrite
// values that slower threads have yet to read.
extern "C" __global__ void __launch_bounds__(256)
transpose_loop(const unsigned* source, unsigned* target, long long rows, long long columns) {
  __shared__ unsigned tile[32][33];
  const long long across = (columns + 31) / 32, count = across * ((rows + 31) / 32);
  for (long long t = blockIdx.x; t < count; t += gridDim.x) {
    const long long tile_x = t % across * 32, tile_y = t / across * 32;
    for (int j = threadIdx.y; j < 32; j += 8)
      if (tile_x + threadIdx.x < columns && tile_y + j < rows)
        tile[j][threadIdx.x] = source[(tile_y + j) * columns + tile_x + threadIdx.x];
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += 8)
      if (tile_y + threadIdx.x < rows && tile_x + j < columns)
        target[(tile_x + j) * rows + tile_y + threadIdx.x] = tile[threadIdx.x][j];
    __syncthreads();   // SECOND BARRIER
  }
}

// No tile: neighbouring threads write 4 * rows bytes apart, each to its own sector.
extern "C" __global__ void
transpose_naive(const unsigned* source, unsigned* target, long long rows, long long columns) {
  const long long x = (long long)blockIdx.x * 32 + threadIdx.x, y = (long long)blockIdx.y * 8 + threadIdx.y;
  if (x < columns && y < rows) target[x * rows + y] = source[y * columns + x];
}

// Copies single bytes.  The broken twin's 32-bit index wraps at 2^32.
#if INDEX_BITS == 32
typedef unsigned index_t;
#else
typedef count_t index_t;
#endif
extern "C" __global__ void copy_bytes(const unsigned char* source, unsigned char* target, count_t count) {
  const index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) target[i] = source[i];   // BOUND
}

// Copies 16 bytes per thread: pointers must be multiples of 16.
extern "C" __global__ void copy_vectors(const uint4* source, uint4* target, int count) {
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    const uint4 value = __ldcs(&source[i]);
    __stcs(&target[i], value);
  }
}

// Vectors of 8 and of 16 bytes through shared memory, one per thread; a thread reads STRIDE away.
extern "C" __global__ void shared_vectors(uint2* pairs, uint4* quads, int stride) {
  __shared__ uint2 pair[1024];
  __shared__ uint4 quad[1024];
  pair[threadIdx.x] = pairs[threadIdx.x];
  quad[threadIdx.x] = quads[threadIdx.x];
  __syncthreads();
  pairs[threadIdx.x] = pair[threadIdx.x * stride];
  quads[threadIdx.x] = quad[threadIdx.x * stride];
}

// Block b writes elements OVERLAP * b ..: with 32 each element has one writer.
#ifndef OVERLAP
#define OVERLAP 32
#endif
extern "C" __global__ void own_part(unsigned* target) {
  __syncthreads();
  target[blockIdx.x * OVERLAP + threadIdx.x] = threadIdx.x;
}

// Right in ascending thread order and wrong in every other; the race is always there.
extern "C" __global__ void lucky_order(const unsigned* source, unsigned* target) {
  __shared__ unsigned half[64];
  half[threadIdx.x] = source[threadIdx.x];
  target[threadIdx.x] = threadIdx.x >= 32 ? half[threadIdx.x - 32] : half[threadIdx.x];
}

// A barrier in each branch.  If `limit` is 0 or at least the block's size, all threads take the same branch.
extern "C" __global__ void two_barriers(unsigned* target, int limit) {
  if ((int)threadIdx.x < limit) {
    __syncthreads();
    target[threadIdx.x] = 1;
  } else {
    __syncthreads();
    target[threadIdx.x] = 2;
  }
}

extern "C" __global__ void return_before_barrier(unsigned* target, int limit) {
  if ((int)threadIdx.x >= limit) return;
  __syncthreads();
  target[threadIdx.x] = 1;
}

// Half of the warp waits at a warp barrier; the other half waits at a block barrier and never reaches it.
extern "C" __global__ void mixed_barriers(unsigned* target) {
  if (threadIdx.x < 16) __syncwarp();
  else __syncthreads();
  target[threadIdx.x] = 1;
}

extern "C" __global__ void signed_product(int* target, int factor) { target[threadIdx.x] = factor * 65536; }

// A struct as large as launch parameters may be; every thread sums `count` of its members.
struct Numbers { long long value[500]; int count; };
extern "C" __global__ void sum_struct(const __grid_constant__ Numbers numbers, long long* target, unsigned add) {
  long long sum = (int)add;
  for (int i = 0; i < numbers.count; ++i) sum += numbers.value[i];
  target[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Each word of a row is the result of one intrinsic.
extern "C" __global__ void intrinsics(unsigned* target, count_t* extremes) {
  const unsigned lane = threadIdx.x % warpSize, everyone = 0xFFFFFFFFu;
  unsigned sum = threadIdx.x;
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(everyone, sum, step);
  const unsigned left = __shfl_up_sync(everyone, threadIdx.x, 1), first = __shfl_sync(everyone, threadIdx.x, 0);
  const unsigned odd = __ballot_sync(everyone, lane & 1);
  __syncwarp();
  unsigned* row = target + threadIdx.x * 8;
  row[0] = sum;
  row[1] = left;
  row[2] = first;
  row[3] = odd;
  row[4] = __byte_perm(0x33221100u, 0x77665544u, 0x7531);
  row[5] = __funnelshift_r(0x89ABCDEFu, 0x01234567u, 8);
  row[6] = __umulhi(0x80000000u, 6) + max(lane, 3u) * 16;
  row[7] = (unsigned)(__umul64hi(1ull << 63, 6) + make_uint2(4, 5).y + make_uint4(1, 2, 3, 7).w);
  atomicAdd(&extremes[0], 1ull);
  atomicMin(&extremes[1], (count_t)threadIdx.x + 5);
  atomicMax(&extremes[2], (count_t)threadIdx.x);
  atomicOr(&extremes[3], 1ull << (threadIdx.x % 64));
}
