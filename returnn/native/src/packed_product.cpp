// Products with a matrix that is the same in many calls, such as in all frames of a loop: it is packed once, before them.
#include "kernel.h"
#include "matrix.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

constexpr int NV = NUM_REGISTERS == 32 ? 4 : 2;
constexpr int64_t MOST_MORE = 64;  // columns of a packed matrix beyond its own: up to a panel's, which has NV vectors

// Panels in memory of others. They say which level of the CPU has made them.
template <class T>
struct PackedMatrix {
  static constexpr int64_t COLUMNS = NV * Simd<T>::WIDTH;
  static_assert(COLUMNS <= MOST_MORE, "a panel has more columns");

  T *data;
  const int64_t rows, columns, num;

  PackedMatrix(T *data, int64_t rows, int64_t columns)
      : data(data), rows(rows), columns(columns), num((columns + COLUMNS - 1) / COLUMNS) {}

  T *panel(int64_t p) const { return data + p * rows * COLUMNS; }
};

template <class T>
const char *packed(const returnn_call *call, bool transposed) {
  const returnn_array &matrix = call->inputs[0];
  const T *from = static_cast<const T *>(matrix.data);
  const int64_t stride = matrix.strides[0], rows = matrix.sizes[transposed], columns = matrix.sizes[!transposed];
  const PackedMatrix<T> to(static_cast<T *>(call->outputs[0].data), rows, columns);
  constexpr int64_t WIDTH = PackedMatrix<T>::COLUMNS;
  with_team(call->threads, [&](Team &team) {
    for_each_part(team, static_cast<int>(to.num), [&](int p) {
      const int64_t first = p * WIDTH, size = columns - first < WIDTH ? columns - first : WIDTH;
      T *panel = to.panel(p);
      if (transposed) return pack_transposed_panel(from + first * stride, stride, size, rows, WIDTH, panel);
      if (size < WIDTH) std::memset(panel, 0, rows * WIDTH * sizeof(T));
      for (int64_t k = 0; k < rows; ++k) std::memcpy(panel + k * WIDTH, from + k * stride + first, size * sizeof(T));
    });
  });
  return nullptr;
}

constexpr int64_t ROWS = 96;  // at once: their values stay in the second cache, for all panels

// Sums of the frames of sequences with weights, of which each row of a product gets its own: row n is about sequence n / H.
template <class T>
struct SumsOfFrames {
  const T *frames = nullptr;  // (B, S, M); none without
  const T *weights = nullptr;
  int64_t rows_of_sequence = 1, num = 0;  // H, S
  int64_t frame_stride = 0, sequence_stride = 0, row_weights_stride = 0, frame_weights_stride = 0, sequence_weights_stride = 0;

  // Adds those of `num_rows` rows of one sequence, for NV vectors of columns from `first` on.
  template <int ROWS>
  void add(int64_t row, int64_t num_rows, int64_t first, int64_t columns, Vector<T> (*sums)[NV]) const {
    if constexpr (ROWS > 1)
      if (num_rows < ROWS) return add<ROWS - 1>(row, num_rows, first, columns, sums);
    constexpr int64_t W = Simd<T>::WIDTH;
    const int64_t b = row / rows_of_sequence, left = columns - first;
    const T *weight = weights + b * sequence_weights_stride + row % rows_of_sequence * row_weights_stride;
    const T *frame = frames + b * sequence_stride + first;
    Vector<T> local[ROWS][NV];
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < NV; ++v) local[r][v] = sums[r][v];
    for (int64_t s = 0; s < num; ++s, frame += frame_stride, weight += frame_weights_stride) {
      Vector<T> values[NV];
      for (int v = 0; v < NV; ++v)
        values[v] = left >= NV * W ? load(frame + v * W) : left > v * W ? load(frame + v * W, left - v * W) : Vector<T>{};
      for (int r = 0; r < ROWS; ++r) {
        const Vector<T> share = all(weight[r * row_weights_stride]);
        for (int v = 0; v < NV; ++v) local[r][v] = multiply_add(share, values[v], local[r][v]);
      }
    }
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < NV; ++v) sums[r][v] = local[r][v];
  }

  // The same for rows of several sequences, at most as many as a tile has.
  void add_to_tile(int64_t row, int64_t num_rows, int64_t first, int64_t columns, Vector<T> (*sums)[NV]) const {
    if (frames == nullptr) return;
    for (int64_t done = 0; done < num_rows;) {
      const int64_t of_sequence = rows_of_sequence - (row + done) % rows_of_sequence;
      const int64_t size = of_sequence < num_rows - done ? of_sequence : num_rows - done;
      add<tile_rows<NV>()>(row + done, size, first, columns, sums + done);
      done += size;
    }
  }
};

// row(first, num, memory): as `product_with_panel` wants it, for rows of which the first one is `first`. It may keep them in
// memory for ROWS rows.
template <class T, class MakeRow>
void product(const returnn_call *call, int64_t num, const PackedMatrix<T> &matrix, int64_t kept, const MakeRow &make_row,
             const SumsOfFrames<T> &sums_of_frames = {}) {
  T *to = static_cast<T *>(call->outputs[0].data);
  const int64_t columns = matrix.columns;
  with_team(call->threads, [&](Team &team) {
    const int64_t blocks = (num + ROWS - 1) / ROWS;
    const int64_t wanted = blocks == 0 ? 1 : (team_size(team) + blocks - 1) / blocks;
    const int64_t groups = wanted < matrix.num ? wanted : matrix.num;  // of panels
    for_each_part(team, static_cast<int>(blocks * groups), [&](int part) {
      const Range rows = part_of(num, part / groups, blocks), panels = part_of(matrix.num, part % groups, groups);
      const Buffer<T> memory(kept);
      const auto row = make_row(rows, memory.data());
      for (int64_t p = panels.begin; p < panels.end; ++p)
        product_with_panel<T, NV>(
            matrix.rows, matrix.panel(p), rows.end - rows.begin, row,
            [&](int64_t i, const Vector<T> *sums) {
              T *out = to + (rows.begin + i) * columns;
              for (int v = 0; v < NV; ++v) {
                const int64_t first = (p * NV + v) * Simd<T>::WIDTH;
                if (first < columns) store(out + first, sums[v], columns - first);
              }
            },
            [&](int64_t i, int64_t size, Vector<T>(*sums)[NV]) {
              sums_of_frames.add_to_tile(rows.begin + i, size, p * NV * Simd<T>::WIDTH, columns, sums);
            });
    });
  });
}

template <class T>
PackedMatrix<T> matrix_of(const returnn_call *call, int input) {
  const returnn_array &packed = call->inputs[input];
  return PackedMatrix<T>(static_cast<T *>(packed.data), packed.sizes[0], call->outputs[0].sizes[1]);
}

template <class T>
const char *product_of_rows(const returnn_call *call) {
  const returnn_array &x = call->inputs[0];
  product<T>(call, x.sizes[0], matrix_of<T>(call, 1), 0, [&](Range rows, T *) {
    const T *from = static_cast<const T *>(x.data) + rows.begin * x.strides[0];
    return [from, &x](int64_t i) { return from + i * x.strides[0]; };
  });
  return nullptr;
}

// Returns what is wrong, or null.
template <class T>
const char *find_sums_of_frames(const returnn_call *call, int first, int64_t num_rows, SumsOfFrames<T> &sums) {
  const returnn_array &by_row = call->inputs[first], &by_frame = call->inputs[first + 1], &frames = call->inputs[first + 2];
  if ((by_row.rank == 3) + (by_frame.rank == 3) != (frames.rank == 3)) return "frames need weights, and weights need frames";
  if (frames.rank != 3 || num_rows == 0) return nullptr;
  const returnn_array &weights = by_row.rank == 3 ? by_row : by_frame;
  const int row_axis = by_row.rank == 3 ? 1 : 2, frame_axis = 3 - row_axis;
  sums.frames = static_cast<const T *>(frames.data);
  sums.weights = static_cast<const T *>(weights.data);
  sums.rows_of_sequence = weights.sizes[row_axis];
  sums.num = frames.sizes[1];
  sums.sequence_stride = frames.strides[0];
  sums.frame_stride = frames.strides[1];
  sums.sequence_weights_stride = weights.strides[0];
  sums.row_weights_stride = weights.strides[row_axis];
  sums.frame_weights_stride = weights.strides[frame_axis];
  return sums.rows_of_sequence * frames.sizes[0] == num_rows ? nullptr : "there are other rows than weights";
}

// The rows of each block are put together, where they stay in the second cache.
template <class T>
const char *product_of_parts(const returnn_call *call) {
  constexpr int PARTS = 3;
  const PackedMatrix<T> matrix = matrix_of<T>(call, PARTS);
  const int64_t num = call->inputs[0].sizes[0];
  int64_t size = 0;
  for (int i = 0; i < PARTS; ++i) size += call->inputs[i].rank == 2 ? call->inputs[i].sizes[1] : 0;
  if (size != matrix.rows) return "the parts of x have another size than the matrix has rows";
  SumsOfFrames<T> sums;
  if (const char *wrong = find_sums_of_frames(call, PARTS + 1, num, sums)) return wrong;
  const auto make_row = [&](Range rows, T *memory) {
    int64_t begin = 0;
    for (int i = 0; i < PARTS && begin < size; ++i) {
      const returnn_array &x = call->inputs[i];
      if (x.rank != 2) continue;
      for (int64_t n = rows.begin; n < rows.end; ++n)
        std::memcpy(memory + (n - rows.begin) * size + begin, static_cast<const T *>(x.data) + n * x.strides[0], x.sizes[1] * sizeof(T));
      begin += x.sizes[1];
    }
    return [memory, size](int64_t i) { return memory + i * size; };
  };
  product<T>(call, num, matrix, ROWS * size, make_row, sums);
  return nullptr;
}

RETURNN_KERNEL(pack_matrix, "matrix: real[K, M] -> packed: real[K, M+64]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? packed<double>(call, false) : packed<float>(call, false);
}

RETURNN_KERNEL(pack_transposed_matrix, "matrix: real[K, M] -> packed: real[M, K+64]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? packed<double>(call, true) : packed<float>(call, true);
}

RETURNN_KERNEL(packed_product, "x: real[N, K], packed: real[K, M+64] -> product: real[N, M]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? product_of_rows<double>(call) : product_of_rows<float>(call);
}

// The same for rows in up to three parts, one behind the other; and added to it, for each of the H rows of a sequence, sums of
// its frames with weights of the row, which stand row by row or frame by frame.
RETURNN_KERNEL(packed_product_of_parts,
               "x1: real[N, K], x2: real[N, L]?, x3: real[N, P]?, packed: real[R, M+64], weights_by_row: real[B, H, S]?, "
               "weights_by_frame: real[B, S, H]?, frames: real[B, S, M]? -> product: real[N, M]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? product_of_parts<double>(call) : product_of_parts<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
