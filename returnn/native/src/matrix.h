// Matrix products, in tiles whose results stay in registers until they are used.
//
// An entry of a product is always summed up in the same order, wherever the tiles and the parts of threads begin.
#pragma once

#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {

// Rows of a tile, if it has NV vectors side by side.
template <int NV>
constexpr int tile_rows() {
  return NUM_REGISTERS == 32 ? (NV >= 4 ? 6 : NV == 3 ? 8 : 12) : (NV >= 4 ? 3 : NV == 3 ? 4 : 6);
}

// sums[r][v] += sum over k of rows[r][k * STEP] * panel[k][v]
template <class T, int ROWS, int NV, int STEP>
RETURNN_INLINE void multiply(int64_t num, const T *const *rows, const T *panel, Vector<T> (&sums)[ROWS][NV]) {
  constexpr int W = Simd<T>::WIDTH;
  Vector<T> local[ROWS][NV];
  const T *at[ROWS];
  for (int r = 0; r < ROWS; ++r) {
    at[r] = rows[r];
    for (int v = 0; v < NV; ++v) local[r][v] = sums[r][v];
  }
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

// A matrix (rows, columns) in panels of NV vectors: of a panel, the rows lie one after the other.
template <class T, int NV>
class Panels {
 public:
  static constexpr int W = Simd<T>::WIDTH;

  Panels(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), num((columns + NV * W - 1) / (NV * W)), data_(num * rows * NV * W) {}

  T *panel(int64_t p) const { return data_.data() + p * rows * NV * W; }

  const int64_t rows, columns, num;

 private:
  Buffer<T> data_;
};

// Of weights (K, G * F): a panel has one vector of each of the G gates, for the same units. Columns are those of one gate.
template <class T, int G>
class GatePanels {
 public:
  static constexpr int W = Simd<T>::WIDTH;

  GatePanels(int64_t rows, int64_t units) : rows(rows), units(units), num((units + W - 1) / W), data_(num * rows * G * W) {}

  void pack(Team &team, const T *weights, int64_t row_stride) {
    for_each_part(team, static_cast<int>(num), [&](int p) {
      T *to = panel(p);
      const int64_t first = p * W, size = units - first < W ? units - first : W;
      for (int64_t k = 0; k < rows; ++k)
        for (int g = 0; g < G; ++g, to += W) store(to, load(weights + k * row_stride + g * units + first, size));
    });
  }

  T *panel(int64_t p) const { return data_.data() + p * rows * G * W; }

  const int64_t rows, units, num;

 private:
  Buffer<T> data_;
};

// Of the transpose of weights (F, K).
template <class T, int NV>
static void pack_transposed(Team &team, const T *weights, int64_t row_stride, const Panels<T, NV> &panels) {
  constexpr int W = Simd<T>::WIDTH, BLOCK = 16;
  for_each_part(team, static_cast<int>(panels.num), [&](int p) {
    T *to = panels.panel(p);
    const int64_t first = p * NV * W;
    for (int64_t k0 = 0; k0 < panels.rows; k0 += BLOCK) {
      const int64_t k1 = k0 + BLOCK < panels.rows ? k0 + BLOCK : panels.rows;
      for (int64_t j = 0; j < NV * W; ++j) {
        const T *from = weights + (first + j) * row_stride;
        const bool exists = first + j < panels.columns;
        for (int64_t k = k0; k < k1; ++k) to[k * NV * W + j] = exists ? from[k] : T(0);
      }
    }
  });
}

template <class T, int ROWS, int NV, class Row, class Finish>
RETURNN_INLINE void product_of_rows(int64_t num, const T *panel, int64_t first, const Row &row, const Finish &finish) {
  const T *rows[ROWS];
  Vector<T> sums[ROWS][NV] = {};
  for (int r = 0; r < ROWS; ++r) rows[r] = row(first + r);
  multiply<T, ROWS, NV, 1>(num, rows, panel, sums);
  for (int r = 0; r < ROWS; ++r) finish(first + r, sums[r]);
}

// For `num_rows` rows, which row(i) points to, times a panel: finish(i, sums) gets NV vectors.
template <class T, int NV, class Row, class Finish>
RETURNN_INLINE void product_with_panel(int64_t num, const T *panel, int64_t num_rows, const Row &row,
                                       const Finish &finish) {
  constexpr int ROWS = tile_rows<NV>();
  const int64_t tiles = (num_rows + ROWS - 1) / ROWS;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const Range range = part_of(num_rows, tile, tiles);  // tiles of about the same size
    switch (range.end - range.begin) {
#define RETURNN_TILE(n)                                                                                  \
  case n:                                                                                                \
    product_of_rows<T, (n <= ROWS ? n : ROWS), NV>(num, panel, range.begin, row, finish); \
    break;
      RETURNN_TILE(1)
      RETURNN_TILE(2)
      RETURNN_TILE(3)
      RETURNN_TILE(4)
      RETURNN_TILE(5)
      RETURNN_TILE(6)
      RETURNN_TILE(7)
      RETURNN_TILE(8)
      RETURNN_TILE(9)
      RETURNN_TILE(10)
      RETURNN_TILE(11)
      RETURNN_TILE(12)
#undef RETURNN_TILE
    }
  }
}

// out (M, N) = sum over k of a[k] (M)^T b[k] (N), for rows anywhere in memory: gradients of weights over all frames.
template <class T>
static void product_over_frames(Team &team, int64_t num, const T *const *a, const T *const *b, int64_t m, int64_t n, T *out) {
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
        Vector<T> sums[ROWS][NV] = {};
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

}  // namespace RETURNN_LEVEL
}  // namespace returnn
