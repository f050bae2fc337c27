// Matrices of which only some entries can be other than 0, such as those of blocks: a product costs what these do.
//
// Columns are in panels of one vector. Of a panel, only the rows are there in which one of its columns can be other than 0.
#pragma once

#include "kernel.h"
#include "matrix.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {

template <class T>
class SparsePanels {
 public:
  static constexpr int W = Simd<T>::WIDTH;

  // Columns consist of `parts` of the same size, and a panel is of one part.
  SparsePanels(const Mask &mask, int64_t rows, int64_t columns, int64_t parts)
      : rows(rows), columns(columns / parts), num((columns / parts + W - 1) / W), parts_(parts), mask_(mask), begins_(num * parts + 1),
        indices_(count()), data_(begins_[num * parts] * W) {}

  // Of weights (rows, columns), or of their transpose.
  void pack(Team &team, const T *weights, int64_t row_stride) {
    for_each_part(team, static_cast<int>(num * parts_), [&](int p) {
      int64_t at = begins_[p];
      const int64_t first = first_column(p), size = last_column(p) - first;
      for (int64_t k = 0; k < rows; ++k) {
        if (!mask_.any(k, first, first + size)) continue;
        indices_[at] = static_cast<int32_t>(k);
        for (int64_t j = 0; j < W; ++j) {
          const bool exists = j < size && mask_.at(k, first + j);
          data_[at * W + j] = !exists ? T(0) : mask_.transposed ? weights[(first + j) * row_stride + k] : weights[k * row_stride + first + j];
        }
        ++at;
      }
    });
  }

  // See `product_with_panel`: finish(i, sums) gets a vector of each part.
  template <int PARTS, class Row, class Finish>
  void product(int64_t p, int64_t num_rows, const Row &row, const Finish &finish) const {
    constexpr int ROWS = tile_rows<1>();
    for (int64_t begin = 0; begin < num_rows; begin += ROWS) {
      const int64_t size = num_rows - begin < ROWS ? num_rows - begin : ROWS;
      const T *rows[ROWS];
      Vector<T> sums[PARTS][ROWS], of_row[PARTS];
      for (int64_t r = 0; r < size; ++r) rows[r] = row(begin + r);
      for (int part = 0; part < PARTS; ++part) {
        const int64_t at = begins_[part * num + p], end = begins_[part * num + p + 1];
        multiply_sparse_tile<T>(size, end - at, rows, indices_.data() + at, data_.data() + at * W, sums[part]);
      }
      for (int64_t r = 0; r < size; ++r) {
        for (int part = 0; part < PARTS; ++part) of_row[part] = sums[part][r];
        finish(begin + r, of_row);
      }
    }
  }

  const int64_t rows, columns, num;

 private:
  int64_t first_column(int64_t p) const { return p / num * columns + p % num * W; }
  int64_t last_column(int64_t p) const { return p % num * W + W < columns ? first_column(p) + W : (p / num + 1) * columns; }

  // Sets where panels begin. Returns how many rows they have in all.
  int64_t count() {
    int64_t at = 0;
    for (int64_t p = 0; p < num * parts_; ++p) {
      begins_[p] = at;
      for (int64_t k = 0; k < rows; ++k) at += mask_.any(k, first_column(p), last_column(p));
    }
    return begins_[num * parts_] = at;
  }

  const int64_t parts_;
  const Mask mask_;
  const Buffer<int64_t> begins_;
  const Buffer<int32_t> indices_;
  const Buffer<T> data_;
};

}  // namespace RETURNN_LEVEL
}  // namespace returnn
