// Matrix products, in tiles whose results stay in registers until they are used.
//
// An entry of a product is always summed up in the same order, wherever the tiles and the parts of threads begin. The inner
// loops are in matrix.cpp: unrolled for each size of a tile, they take long to compile, and are the same for all kernels.
#pragma once

#include "kernel.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {

// Rows of a tile, if it has NV vectors side by side: 1, 2, 4 or 5.
template <int NV>
constexpr int tile_rows() {
  return NUM_REGISTERS == 32 ? (NV == 5 ? 5 : NV == 4 ? 6 : 12) : (NV == 5 ? 2 : NV == 4 ? 3 : 6);
}

// sums[r][v] = sum over k of rows[r][k] * panel[k][v], for the first `num_rows` rows, which are at most as many as a tile has.
// It is compiled once, in matrix.cpp.
template <class T, int NV>
void multiply_tile(int64_t num_rows, int64_t num, const T *const *rows, const T *panel, Vector<T> (*sums)[NV]);

// For `num_rows` rows, which row(i) points to, times a panel: finish(i, sums) gets NV vectors. Before, add(i, number, sums) can
// add something to those of the `number` rows of a tile from i on.
template <class T, int NV, class Row, class Finish, class Add>
RETURNN_INLINE void product_with_panel(int64_t num, const T *panel, int64_t num_rows, const Row &row,
                                       const Finish &finish, const Add &add) {
  constexpr int ROWS = tile_rows<NV>();
  const int64_t tiles = (num_rows + ROWS - 1) / ROWS;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const Range range = part_of(num_rows, tile, tiles);  // tiles of about the same size
    const int64_t size = range.end - range.begin;
    const T *rows[ROWS];
    Vector<T> sums[ROWS][NV];
    for (int64_t r = 0; r < size; ++r) rows[r] = row(range.begin + r);
    multiply_tile<T, NV>(size, num, rows, panel, sums);
    add(range.begin, size, sums);
    for (int64_t r = 0; r < size; ++r) finish(range.begin + r, sums[r]);
  }
}

template <class T, int NV, class Row, class Finish>
RETURNN_INLINE void product_with_panel(int64_t num, const T *panel, int64_t num_rows, const Row &row,
                                       const Finish &finish) {
  product_with_panel<T, NV>(num, panel, num_rows, row, finish, [](int64_t, int64_t, Vector<T>(*)[NV]) {});
}

// sums[r] = sum over k of rows[r][indices[k]] * panel[k]
template <class T>
void multiply_sparse_tile(int64_t num_rows, int64_t num, const T *const *rows, const int32_t *indices, const T *panel,
                          Vector<T> *sums);

// Where a matrix (rows, columns) can be other than 0; of the transpose if `transposed`. (0, ...): nowhere is it known to be 0.
struct Mask {
  const uint8_t *data;
  int64_t stride;
  bool transposed;

  Mask(const returnn_array &array, bool transposed)
      : data(static_cast<const uint8_t *>(array.data)), stride(array.rank == 2 ? array.strides[0] : 0), transposed(transposed) {
    for (int axis = 0; axis < array.rank; ++axis)
      if (array.sizes[axis] == 0) data = nullptr;
  }

  bool is_there() const { return data != nullptr; }
  bool at(int64_t row, int64_t column) const { return data[transposed ? column * stride + row : row * stride + column] != 0; }
  bool any(int64_t row, int64_t first, int64_t end) const {
    for (int64_t column = first; column < end; ++column)
      if (at(row, column)) return true;
    return false;
  }
};

// A matrix (rows, columns) in panels of NV vectors: of a panel, the rows lie one after the other.
template <class T, int NV>
class Panels {
 public:
  static constexpr int W = Simd<T>::WIDTH;

  Panels(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), num((columns + NV * W - 1) / (NV * W)), data_(num * rows * NV * W) {}

  T *panel(int64_t p) const { return data_.data() + p * rows * NV * W; }

  // See `product_with_panel`.
  template <int N, class Row, class Finish>
  void product(int64_t p, int64_t num_rows, const Row &row, const Finish &finish) const {
    product_with_panel<T, N>(rows, panel(p), num_rows, row, finish);
  }

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

  // See `product_with_panel`.
  template <int N, class Row, class Finish>
  void product(int64_t p, int64_t num_rows, const Row &row, const Finish &finish) const {
    product_with_panel<T, N>(rows, panel(p), num_rows, row, finish);
  }

  const int64_t rows, units, num;

 private:
  Buffer<T> data_;
};

// panel[k * width + j] = from[j * stride + k], for j below `size`, which is at most `width`, and k below `rows`; 0 for other j.
template <class T>
static void pack_transposed_panel(const T *from, int64_t stride, int64_t size, int64_t rows, int64_t width, T *panel) {
  constexpr int64_t W = Simd<T>::WIDTH;
  if (size < width) std::memset(panel, 0, rows * width * sizeof(T));
  for (int64_t k = 0; k < rows; k += W)
    for (int64_t j = 0; j < size; j += W) {
      if (k + W <= rows && j + W <= size) {
        Vector<T> block[W];
        for (int i = 0; i < W; ++i) block[i] = load(from + (j + i) * stride + k);
        transpose<T>(block);
        for (int i = 0; i < W; ++i) store(panel + (k + i) * width + j, block[i]);
      } else {
        for (int64_t i = j; i < size && i < j + W; ++i)
          for (int64_t l = k; l < rows && l < k + W; ++l) panel[l * width + i] = from[i * stride + l];
      }
    }
}

// Of the transpose of weights (F, K).
template <class T, int NV>
static void pack_transposed(Team &team, const T *weights, int64_t row_stride, const Panels<T, NV> &panels) {
  constexpr int64_t WIDTH = NV * Simd<T>::WIDTH;
  for_each_part(team, static_cast<int>(panels.num), [&](int p) {
    const int64_t first = p * WIDTH, left = panels.columns - first;
    pack_transposed_panel(weights + first * row_stride, row_stride, left < WIDTH ? left : WIDTH, panels.rows, WIDTH, panels.panel(p));
  });
}

// out (M, N) = sum over k of a[k] (M)^T b[k] (N), for rows anywhere in memory: gradients of weights over all frames.
// With a mask, it is 0 where that is.
template <class T>
void product_over_frames(Team &team, int64_t num, const T *const *a, const T *const *b, int64_t m, int64_t n, T *out,
                         const Mask *mask = nullptr);

}  // namespace RETURNN_LEVEL
}  // namespace returnn
