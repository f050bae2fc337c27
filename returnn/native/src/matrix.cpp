// The inner loops of matrix products.
#include "matrix.h"

namespace returnn {
namespace RETURNN_LEVEL {

// sums[r][v] = sum over k of rows[r][k * STEP] * panel[k][v]
template <class T, int ROWS, int NV, int STEP>
RETURNN_INLINE void multiply(int64_t num, const T *const *rows, const T *panel, Vector<T> (*sums)[NV]) {
  constexpr int W = Simd<T>::WIDTH;
  Vector<T> local[ROWS][NV] = {};
  const T *at[ROWS];
  for (int r = 0; r < ROWS; ++r) at[r] = rows[r];
  for (int64_t k = 0; k < num; ++k, panel += NV * W) {
    Vector<T> b[NV];
    for (int v = 0; v < NV; ++v) b[v] = load(panel + v * W);
    for (int r = 0; r < ROWS; ++r) {
      const Vector<T> a = all(at[r][k * STEP]);
      for (int v = 0; v < NV; ++v) local[r][v] = multiply_add(a, b[v], local[r][v]);
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < NV; ++v) sums[r][v] = local[r][v];
}

// Recursive, so that each size of a tile is there once.
template <class T, int NV, int ROWS>
RETURNN_INLINE void multiply_rows(int64_t num_rows, int64_t num, const T *const *rows, const T *panel, Vector<T> (*sums)[NV]) {
  if constexpr (ROWS > 1)
    if (num_rows < ROWS) return multiply_rows<T, NV, ROWS - 1>(num_rows, num, rows, panel, sums);
  multiply<T, ROWS, NV, 1>(num, rows, panel, sums);
}

template <class T, int ROWS>
RETURNN_INLINE void multiply_sparse_rows(int64_t num_rows, int64_t num, const T *const *rows, const int32_t *indices, const T *panel,
                                         Vector<T> *sums) {
  if constexpr (ROWS > 1)
    if (num_rows < ROWS) return multiply_sparse_rows<T, ROWS - 1>(num_rows, num, rows, indices, panel, sums);
  Vector<T> local[ROWS] = {};
  const T *at[ROWS];
  for (int r = 0; r < ROWS; ++r) at[r] = rows[r];
  for (int64_t k = 0; k < num; ++k, panel += Simd<T>::WIDTH) {
    const Vector<T> b = load(panel);
    for (int r = 0; r < ROWS; ++r) local[r] = multiply_add(all(at[r][indices[k]]), b, local[r]);
  }
  for (int r = 0; r < ROWS; ++r) sums[r] = local[r];
}

template <class T, int NV>
void multiply_tile(int64_t num_rows, int64_t num, const T *const *rows, const T *panel, Vector<T> (*sums)[NV]) {
  multiply_rows<T, NV, tile_rows<NV>()>(num_rows, num, rows, panel, sums);
}

template <class T>
void multiply_sparse_tile(int64_t num_rows, int64_t num, const T *const *rows, const int32_t *indices, const T *panel,
                          Vector<T> *sums) {
  multiply_sparse_rows<T, tile_rows<1>()>(num_rows, num, rows, indices, panel, sums);
}

// Whether nothing of a tile of a mask (m, n) is set.
RETURNN_INLINE bool is_zero(const Mask &mask, int64_t row, int64_t m, int64_t rows, int64_t column, int64_t n, int64_t columns) {
  for (int64_t r = row; r < m && r < row + rows; ++r)
    if (mask.any(r, column, column + columns < n ? column + columns : n)) return false;
  return true;
}

template <class T>
void product_over_frames(Team &team, int64_t num, const T *const *a, const T *const *b, int64_t m, int64_t n, T *out,
                         const Mask *mask) {
  constexpr int NV = NUM_REGISTERS == 32 ? 4 : 2, ROWS = tile_rows<NV>(), W = Simd<T>::WIDTH;
  constexpr int64_t MOST = 256;  // frames at once: a tile and a panel of them stay in the first cache
  const int64_t row_tiles = (m + ROWS - 1) / ROWS, blocks = (num + MOST - 1) / MOST;
  const int64_t most = blocks == 0 ? 0 : (num + blocks - 1) / blocks;
  const Panels<T, NV> panels(most, n);
  const Buffer<T> tiles(row_tiles * most * ROWS);
  if (num == 0) std::memset(out, 0, m * n * sizeof(T));
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = part_of(num, block, blocks).begin, depth = part_of(num, block, blocks).end - begin;
    for_each_part(team, static_cast<int>(row_tiles), [&](int tile) {
      const int64_t first = int64_t(tile) * ROWS, size = m - first < ROWS ? m - first : ROWS;
      T *to = tiles.data() + first * most;
      if (size < ROWS) std::memset(to, 0, depth * ROWS * sizeof(T));
      for (int64_t k = 0; k < depth; ++k, to += ROWS)
        if (size == ROWS)
          std::memcpy(to, a[begin + k] + first, ROWS * sizeof(T));
        else
          std::memcpy(to, a[begin + k] + first, size * sizeof(T));
    });
    for_each_part(team, static_cast<int>(panels.num), [&](int p) {
      T *packed = panels.panel(p);
      for (int64_t k = 0; k < depth; ++k)
        for (int v = 0; v < NV; ++v) {
          const int64_t first = (p * NV + v) * W;
          store(packed + (k * NV + v) * W, first < n ? load(b[begin + k] + first, n - first) : Vector<T>{});
        }
      for (int64_t tile = 0; tile < row_tiles; ++tile) {
        if (mask != nullptr && is_zero(*mask, tile * ROWS, m, ROWS, p * NV * W, n, NV * W)) {
          for (int64_t r = tile * ROWS; begin == 0 && r < m && r < (tile + 1) * ROWS; ++r)
            std::memset(out + r * n + p * NV * W, 0, (n - p * NV * W < NV * W ? n - p * NV * W : NV * W) * sizeof(T));
          continue;
        }
        const T *rows[ROWS];
        Vector<T> sums[ROWS][NV];
        for (int r = 0; r < ROWS; ++r) rows[r] = tiles.data() + tile * most * ROWS + r;
        multiply<T, ROWS, NV, ROWS>(depth, rows, packed, sums);
        for (int r = 0; r < ROWS && tile * ROWS + r < m; ++r)
          for (int v = 0; v < NV; ++v) {
            const int64_t first = (p * NV + v) * W;
            if (first >= n) break;
            T *to = out + (tile * ROWS + r) * n + first;
            store(to, begin == 0 ? sums[r][v] : load(to, n - first) + sums[r][v], n - first);
          }
      }
    });
  }
  for (int64_t r = 0; mask != nullptr && r < m; ++r)
    for (int64_t column = 0; column < n; ++column)
      if (!mask->at(r, column)) out[r * n + column] = 0;
}

#define RETURNN_PRODUCTS(T)                                                                                  \
  template void multiply_tile<T, 1>(int64_t, int64_t, const T *const *, const T *, Vector<T> (*)[1]);        \
  template void multiply_tile<T, 2>(int64_t, int64_t, const T *const *, const T *, Vector<T> (*)[2]);        \
  template void multiply_tile<T, 4>(int64_t, int64_t, const T *const *, const T *, Vector<T> (*)[4]);        \
  template void multiply_tile<T, 5>(int64_t, int64_t, const T *const *, const T *, Vector<T> (*)[5]);        \
  template void product_over_frames<T>(Team &, int64_t, const T *const *, const T *const *, int64_t, int64_t, T *, \
                                       const Mask *);                                                        \
  template void multiply_sparse_tile<T>(int64_t, int64_t, const T *const *, const int32_t *, const T *, Vector<T> *);
RETURNN_PRODUCTS(float)
RETURNN_PRODUCTS(double)

}  // namespace RETURNN_LEVEL
}  // namespace returnn
