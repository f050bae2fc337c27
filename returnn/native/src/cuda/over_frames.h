// Sums over all frames of all sequences: gradients of weights, a^T b of two matrices with a row for each frame.
//
// A block has a square of the result. Where there are few squares, frames are dealt out to several blocks, whose sums are
// added up in a fixed order: no result depends on who is first.
#pragma once

#include "sequences.h"

namespace returnn {
namespace RETURNN_LEVEL {

// Which frame a row is: of sorted sequences, those of one step side by side.
struct FrameRow {
  int64_t step, sorted;
};

// `Rows` says where the rows are: `const T *left(FrameRow) const`, `const T *right(FrameRow) const`.
template <class T, class Rows>
struct ProductOverFrames {
  static constexpr int THREADS = BLOCK_THREADS;
  static constexpr int SQUARE = 64, DEPTH = 16, STRIDE = SQUARE + 4, PART = 4;
  static constexpr int64_t SHARED_BYTES = 2 * DEPTH * STRIDE * sizeof(float) + 2 * DEPTH * sizeof(void *);
  Sequences sequences;
  Rows rows;
  int64_t num_left, num_right;  // entries of the rows
  int64_t num_splits;
  float *sums;  // (splits, left, right)

  RETURNN_DEVICE void operator()() const {
    float *const left = reinterpret_cast<float *>(shared_memory()), *const right = left + DEPTH * STRIDE;
    const T **const left_rows = reinterpret_cast<const T **>(right + DEPTH * STRIDE), **const right_rows = left_rows + DEPTH;
    const int64_t squares = round_up(num_right, SQUARE) / SQUARE;
    const int64_t first_left = block_x() / squares * SQUARE, first_right = block_x() % squares * SQUARE;
    const int64_t num = sequences.num * sequences.num_frames;
    const int64_t begin = num * block_y() / num_splits, end = num * (block_y() + 1) / num_splits;
    const int i = thread() / (SQUARE / PART) * PART, j = thread() % (SQUARE / PART) * PART;
    float part[PART][PART] = {};
    for (int64_t at = begin; at < end; at += DEPTH) {
      if (thread() < DEPTH) find_rows(at + thread(), end, left_rows[thread()], right_rows[thread()]);
      sync_block();  // also, what was there before has been read
      for (int k = thread() / SQUARE; k < DEPTH; k += THREADS / SQUARE) {
        const int column = thread() % SQUARE;
        left[k * STRIDE + column] = value(left_rows[k], first_left + column, num_left);
        right[k * STRIDE + column] = value(right_rows[k], first_right + column, num_right);
      }
      sync_block();
#pragma unroll
      for (int k = 0; k < DEPTH; ++k) {
        const Floats4 a = load4(left + k * STRIDE + i), b = load4(right + k * STRIDE + j);
#pragma unroll
        for (int r = 0; r < PART; ++r)
#pragma unroll
          for (int c = 0; c < PART; ++c) part[r][c] = fmaf(a.values[r], b.values[c], part[r][c]);
      }
    }
    float *to = sums + block_y() * num_left * num_right;
    for (int r = 0; r < PART && first_left + i + r < num_left; ++r)
      for (int c = 0; c < PART && first_right + j + c < num_right; ++c)
        to[(first_left + i + r) * num_right + first_right + j + c] = part[r][c];
  }

 private:
  // Null where there is no frame.
  RETURNN_DEVICE void find_rows(int64_t at, int64_t end, const T *&left, const T *&right) const {
    left = right = nullptr;
    if (at >= end) return;
    const FrameRow row{at / sequences.num, at % sequences.num};
    if (row.step >= sequences.length(row.sorted)) return;
    left = rows.left(row);
    right = rows.right(row);
  }

  RETURNN_DEVICE static float value(const T *row, int64_t column, int64_t num) {
    return row != nullptr && column < num ? to_float(row[column]) : 0.f;
  }
};

// Adds up what the splits have. Where `mask` is 0, so is the result.
template <class T>
struct AddSplits {
  static constexpr int THREADS = BLOCK_THREADS;
  const float *sums;
  int64_t num_splits, num, num_columns;
  const uint8_t *mask;
  int64_t mask_stride;
  T *result;

  RETURNN_DEVICE void operator()() const {
    const int64_t at = static_cast<int64_t>(block_x()) * THREADS + thread();
    if (at >= num) return;
    float sum = 0.f;
    for (int64_t split = 0; split < num_splits; ++split) sum += sums[split * num + at];
    const bool is_zero = mask != nullptr && mask[at / num_columns * mask_stride + at % num_columns] == 0;
    result[at] = as<T>(is_zero ? 0.f : sum);
  }
};

// `result` (left, right) = the sum over frames of left x right. The mask may be missing.
template <class T, class Rows>
const char *product_over_frames(const Sequences &sequences, const Rows &rows, int64_t num_left, int64_t num_right,
                                const Frames<const uint8_t> &mask, T *result, const returnn_call *call) {
  using Kernel = ProductOverFrames<T, Rows>;
  constexpr int64_t ENOUGH_BLOCKS = 256, ENOUGH_ROWS = 256;
  const Stream stream = static_cast<Stream>(call->stream);
  const auto squares = [](int64_t size) { return round_up(size, Kernel::SQUARE) / Kernel::SQUARE; };
  const int64_t blocks = squares(num_left) * squares(num_right), num = num_left * num_right;
  if (num == 0) return nullptr;
  const int64_t most = sequences.num * sequences.num_frames / ENOUGH_ROWS, wanted = ENOUGH_BLOCKS / blocks;
  const int64_t fitting = wanted < most ? wanted : most, num_splits = fitting < 1 ? 1 : fitting;
  float *sums = Workspace(call).get<float>(num_splits * num);
  const Kernel kernel{sequences, rows, num_left, num_right, num_splits, sums};
  if (const char *error = launch(kernel, {blocks, num_splits}, Kernel::SHARED_BYTES, stream)) return error;
  const AddSplits<T> add{sums, num_splits, num, num_right, mask.data, mask.sequence, result};
  return launch(add, {round_up(num, BLOCK_THREADS) / BLOCK_THREADS, 1}, 0, stream);
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn
