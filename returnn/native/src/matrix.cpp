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

template <class T, int NV>
void multiply_tile(int64_t num_rows, int64_t num, const T *const *rows, const T *panel, Vector<T> (*sums)[NV]) {
  multiply_rows<T, NV, tile_rows<NV>()>(num_rows, num, rows, panel, sums);
}

template <class T>
void product_over_frames(Team &team, int64_t num, const T *const *a, const T *const *b, int64_t m, int64_t n, T *out) {
  constexpr int NV = NUM_REGISTERS == 32 ? 4 : 2, ROWS = tile_rows<NV>(), W = Simd<T>::WIDTH;
  constexpr int64_t DEPTH = 384;  // frames at once, whose panels stay in the second cache
  const int64_t row_tiles = (m + ROWS - 1) / ROWS;
  const Panels<T, NV> panels(DEPTH, n);
  const Buffer<T> tiles(row_tiles * DEPTH * ROWS);
  if (num == 0) std::memset(out, 0, m * n * sizeof(T));
  for (int64_t begin = 0; begin < num; begin += DEPTH) {
    const int64_t depth = num - begin < DEPTH ? num - begin : DEPTH;
    for_each_part(team, static_cast<int>(row_tiles), [&](int tile) {
      T *to = tiles.data() + tile * DEPTH * ROWS;
      for (int64_t k = 0; k < depth; ++k)
        for (int r = 0; r < ROWS; ++r) *to++ = tile * ROWS + r < m ? a[begin + k][tile * ROWS + r] : T(0);
    });
    for_each_part(team, static_cast<int>(panels.num), [&](int p) {
      T *packed = panels.panel(p);
      for (int64_t k = 0; k < depth; ++k)
        for (int v = 0; v < NV; ++v) {
          const int64_t first = (p * NV + v) * W;
          store(packed + (k * NV + v) * W, first < n ? load(b[begin + k] + first, n - first) : Vector<T>{});
        }
      for (int64_t tile = 0; tile < row_tiles; ++tile) {
        const T *rows[ROWS];
        Vector<T> sums[ROWS][NV];
        for (int r = 0; r < ROWS; ++r) rows[r] = tiles.data() + tile * DEPTH * ROWS + r;
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
}

#define RETURNN_PRODUCTS(T)                                                                                  \
  template void multiply_tile<T, 1>(int64_t, int64_t, const T *const *, const T *, Vector<T> (*)[1]);        \
  template void multiply_tile<T, 2>(int64_t, int64_t, const T *const *, const T *, Vector<T> (*)[2]);        \
  template void multiply_tile<T, 4>(int64_t, int64_t, const T *const *, const T *, Vector<T> (*)[4]);        \
  template void multiply_tile<T, 5>(int64_t, int64_t, const T *const *, const T *, Vector<T> (*)[5]);        \
  template void product_over_frames<T>(Team &, int64_t, const T *const *, const T *const *, int64_t, int64_t, T *);
RETURNN_PRODUCTS(float)
RETURNN_PRODUCTS(double)

}  // namespace RETURNN_LEVEL
}  // namespace returnn
