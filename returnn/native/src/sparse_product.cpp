// Products with matrices of which only some entries, such as those of blocks, can be other than 0.
#include "kernel.h"
#include "matrix.h"
#include "simd.h"
#include "sparse.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

// y = x times a matrix, for rows of x; each thread has some of them.
template <class T>
void multiply_rows(Team &team, const SparsePanels<T> &panels, const returnn_array &x, const returnn_array &y) {
  const int64_t num = x.sizes[0], columns = panels.columns;
  const T *from = static_cast<const T *>(x.data);
  T *to = static_cast<T *>(y.data);
  for_each_part(team, team_size(team), [&](int part) {
    const Range range = part_of(num, part, team_size(team));
    for (int64_t p = 0; p < panels.num; ++p)
      panels.template product<1>(
          p, range.end - range.begin, [&](int64_t i) { return from + (range.begin + i) * x.strides[0]; },
          [&](int64_t i, const Vector<T> *sum) {
            store(to + (range.begin + i) * columns + p * panels.W, *sum, columns - p * panels.W);
          });
  });
}

template <class T>
const char *multiplied(const returnn_call *call) {
  const returnn_array &x = call->inputs[0], &weights = call->inputs[1];
  const Mask mask(call->inputs[2], false);
  SparsePanels<T> panels(mask, mask.is_there() ? weights.sizes[0] : 0, weights.sizes[1], 1);
  with_team(call->threads, [&](Team &team) {
    panels.pack(team, static_cast<const T *>(weights.data), weights.strides[0]);
    multiply_rows<T>(team, panels, x, call->outputs[0]);
  });
  return nullptr;
}

template <class T>
const char *multiplied_grad(const returnn_call *call) {
  const returnn_array &x = call->inputs[0], &weights = call->inputs[1], &d_y = call->inputs[3];
  const Mask mask(call->inputs[2], false), transposed(call->inputs[2], true);
  const int64_t num = x.sizes[0], rows = weights.sizes[0], columns = weights.sizes[1];
  SparsePanels<T> panels(transposed, mask.is_there() ? columns : 0, rows, 1);
  const Buffer<const T *> x_rows(num), d_rows(num);
  for (int64_t n = 0; n < num; ++n) {
    x_rows[n] = static_cast<const T *>(x.data) + n * x.strides[0];
    d_rows[n] = static_cast<const T *>(d_y.data) + n * d_y.strides[0];
  }
  with_team(call->threads, [&](Team &team) {
    panels.pack(team, static_cast<const T *>(weights.data), weights.strides[0]);
    multiply_rows<T>(team, panels, d_y, call->outputs[0]);
    product_over_frames<T>(team, num, x_rows.data(), d_rows.data(), rows, columns, static_cast<T *>(call->outputs[1].data), &mask);
  });
  return nullptr;
}

// Where `mask` is 0, weights count as 0, and cost nothing.
RETURNN_KERNEL(sparse_product, "x: real[N, K], weights: real[K, M], mask: uint8[K, M] -> y: real[N, M]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? multiplied<double>(call) : multiplied<float>(call);
}

RETURNN_KERNEL(sparse_product_grad,
               "x: real[N, K], weights: real[K, M], mask: uint8[K, M], d_y: real[N, M] -> d_x: real[N, K], d_weights: real[K, M]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? multiplied_grad<double>(call) : multiplied_grad<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
