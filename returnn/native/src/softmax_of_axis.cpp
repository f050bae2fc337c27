// Softmax over the second of four axes, as frames stand before hypotheses in energies of attention, for steps of a search: nobody asks for its gradient.
#include "kernel.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

// Of `width` columns side by side, each over `num` rows.
template <class T>
void softmax_of_columns(const T *x, int64_t row_stride, int64_t num, int64_t width, T *y, int64_t y_stride) {
  for (int64_t first = 0; first < width; first += Simd<T>::WIDTH) {
    const int64_t left = width - first;
    Vector<T> most = load(x + first, left), sum = {};
    for (int64_t t = 1; t < num; ++t) {
      const Vector<T> value = load(x + t * row_stride + first, left);
      most = value > most ? value : most;  // NaN is not seen here, but in the sum
    }
    for (int64_t t = 0; t < num; ++t) {
      const Vector<T> log = load(x + t * row_stride + first, left) - most;
      const Vector<T> value = log < all(Simd<T>::EXP_MIN) ? Vector<T>{} : vector_exp<T>(log);
      store(y + t * y_stride + first, value, left);
      sum = sum + value;
    }
    const Vector<T> factor = all(T(1)) / sum;
    for (int64_t t = 0; t < num; ++t) store(y + t * y_stride + first, load(y + t * y_stride + first, left) * factor, left);
  }
}

template <class T>
const char *softmax(const returnn_call *call) {
  const returnn_array &x = call->inputs[0];
  const int64_t num = x.sizes[1], all_columns = x.sizes[2] * x.sizes[3];
  const bool side_by_side = x.strides[2] == x.sizes[3];
  const int64_t width = side_by_side ? all_columns : x.sizes[3];
  T *y = static_cast<T *>(call->outputs[0].data);
  with_team(call->threads, [&](Team &team) {
    const int64_t most = x.sizes[0] * num * all_columns / (1 << 13) + 1, parts = team_size(team) < most ? team_size(team) : most;
    for_each_part(team, static_cast<int>(parts), [&](int part) {
      const Range range = part_of(x.sizes[0], part, parts);
      for (int64_t n = range.begin; n < range.end && num > 0; ++n)
        for (int64_t first = 0; first < all_columns; first += width)
          softmax_of_columns(static_cast<const T *>(x.data) + n * x.strides[0] + (side_by_side ? 0 : first / width * x.strides[2]),
                             x.strides[1], num, width, y + n * num * all_columns + first, all_columns);
    });
  });
  return nullptr;
}

RETURNN_KERNEL(softmax_of_axis, "x: real[N, T, K, F] -> y: real[N, T, K, F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? softmax<double>(call) : softmax<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
