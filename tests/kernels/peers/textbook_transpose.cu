// The transpose of textbooks, for comparison: a tile of 32 x 32 floats in shared memory with a pitch of 33.  256 threads are
// 8 rows of 32; each moves four floats, one at a time.  ROW_TILES is the number of tiles along the rows of one matrix.
struct Sizes {
  int rows, columns;
};

extern "C" __global__ void textbook(const float* __restrict__ source, float* __restrict__ target, Sizes sizes) {
  const int rows = sizes.rows, columns = sizes.columns;
  __shared__ float tile[32][33];
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  const int matrix = blockIdx.y / ROW_TILES, row = blockIdx.y % ROW_TILES * 32, column = blockIdx.x * 32;
  source += matrix * rows * columns, target += matrix * rows * columns;
#pragma unroll
  for (int i = y; i < y + 32; i += 8)
    if (row + i < rows && column + x < columns) tile[i][x] = source[(row + i) * columns + column + x];
  __syncthreads();
#pragma unroll
  for (int i = y; i < y + 32; i += 8)
    if (column + i < columns && row + x < rows) target[(column + i) * rows + row + x] = tile[x][i];
}
