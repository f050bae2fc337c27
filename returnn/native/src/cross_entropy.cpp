// Cross entropy of rows of logits with a label each, some of whose probability can be spread over all others, with its
// gradient, and the gradient of that.
//
// With p the softmax of the logits x of a row, `label_prob` q and `other_prob` r, and C classes, it is
//
//     (q + (C - 1) r) log(sum(exp(x))) - (q - r) x[label] - r sum(x),
//
// and its gradient (q + (C - 1) r) p - (q - r) [label] - r. No distribution is kept: the normalizer is computed again. Rows
// whose gradient is 0, such as padded frames, can be NaN.
#include "kernel.h"
#include "layer_norm.h"
#include "log_space.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

template <class T>
struct CrossEntropy {
  const returnn_array &logits;
  const int32_t *labels;
  const int64_t num, classes;
  const T label_prob, other_prob, total;

  explicit CrossEntropy(const returnn_call *call)
      : logits(call->inputs[0]),
        labels(static_cast<const int32_t *>(call->inputs[1].data)),
        num(logits.sizes[0]),
        classes(logits.sizes[1]),
        label_prob(static_cast<T>(call->options[0])),
        other_prob(static_cast<T>(call->options[1])),
        total(label_prob + T(classes - 1) * other_prob) {}

  const T *row(int64_t n) const { return static_cast<const T *>(logits.data) + n * logits.strides[0]; }

  const char *wrong_labels() const {
    for (int64_t n = 0; n < num; ++n)
      if (labels[n] < 0 || labels[n] >= classes) return "a label is below 0, or not below the number of classes";
    return nullptr;
  }

  // Calls work(n) for all rows.
  template <class Work>
  void for_rows(const returnn_call *call, const Work &work) const {
    constexpr int64_t LEAST = 1 << 13;  // logits of a thread
    with_team(call->threads, [&](Team &team) {
      const int64_t most = num * classes / LEAST + 1, parts = team_size(team) < most ? team_size(team) : most;
      for_each_part(team, static_cast<int>(parts), [&](int part) {
        const Range range = part_of(num, part, parts);
        for (int64_t n = range.begin; n < range.end; ++n) work(n);
      });
    });
  }

  // to = total p - (label_prob - other_prob) [label] - other_prob, times a factor.
  void direction(int64_t n, T factor, T *to) const {
    const T *x = row(n);
    scaled_softmax<T>(x, classes, log_normalizer<T>(x, classes), factor * total, to);
    const Vector<T> other = all(factor * other_prob);
    if (other_prob != 0) for_vectors<T>(classes, [&](int64_t i, int64_t left) { store(to + i, load(to + i, left) - other, left); });
    to[labels[n]] -= factor * (label_prob - other_prob);
  }
};

template <class T>
T sum_of_row(const T *x, int64_t num) {
  Vector<T> sum = {};
  for_vectors<T>(num, [&](int64_t i, int64_t left) { sum = sum + load(x + i, left); });
  return sum_of_entries<T>(sum);
}

template <class T>
const char *forward(const returnn_call *call) {
  const CrossEntropy<T> of(call);
  if (const char *wrong = of.wrong_labels()) return wrong;
  T *losses = static_cast<T *>(call->outputs[0].data);
  of.for_rows(call, [&](int64_t n) {
    const T *x = of.row(n), normalizer = log_normalizer<T>(x, of.classes);
    // By differences: the terms of the formula can be larger than what remains of them.
    T loss = (of.label_prob - of.other_prob) * (normalizer - x[of.labels[n]]);
    if (of.other_prob != 0) loss += of.other_prob * (T(of.classes) * normalizer - sum_of_row(x, of.classes));
    losses[n] = loss;
  });
  return nullptr;
}

template <class T>
const char *backward(const returnn_call *call) {
  const CrossEntropy<T> of(call);
  if (const char *wrong = of.wrong_labels()) return wrong;
  const T *d_losses = static_cast<const T *>(call->inputs[2].data);
  T *d_logits = static_cast<T *>(call->outputs[0].data);
  of.for_rows(call, [&](int64_t n) {
    T *to = d_logits + n * of.classes;
    if (d_losses[n] == 0)
      std::memset(to, 0, of.classes * sizeof(T));
    else
      of.direction(n, d_losses[n], to);
  });
  return nullptr;
}

// With v the gradient of d_logits = d_loss g: d_d_loss = <v, g>, and d_logits is the gradient of d_loss total <v, p>.
template <class T>
const char *second_backward(const returnn_call *call) {
  const CrossEntropy<T> of(call);
  if (const char *wrong = of.wrong_labels()) return wrong;
  const T *d_losses = static_cast<const T *>(call->inputs[2].data), *all_v = static_cast<const T *>(call->inputs[3].data);
  const int64_t stride = call->inputs[3].strides[0];
  T *d_logits = static_cast<T *>(call->outputs[0].data), *d_d_losses = static_cast<T *>(call->outputs[1].data);
  of.for_rows(call, [&](int64_t n) {
    const T *x = of.row(n), *v = all_v + n * stride;
    T *to = d_logits + n * of.classes;
    scaled_softmax<T>(x, of.classes, log_normalizer<T>(x, of.classes), T(1), to);
    Vector<T> products = {};
    for_vectors<T>(of.classes, [&](int64_t i, int64_t left) { products = multiply_add(load(v + i, left), load(to + i, left), products); });
    const T mean = sum_of_entries<T>(products), factor = d_losses[n] * of.total;
    const T others = of.other_prob == 0 ? T(0) : of.other_prob * sum_of_row(v, of.classes);
    d_d_losses[n] = of.total * mean - (of.label_prob - of.other_prob) * v[of.labels[n]] - others;
    for_vectors<T>(of.classes, [&](int64_t i, int64_t left) {
      store(to + i, all(factor) * load(to + i, left) * (load(v + i, left) - all(mean)), left);
    });
    if (d_losses[n] == 0) std::memset(to, 0, of.classes * sizeof(T));
  });
  return nullptr;
}

RETURNN_KERNEL(cross_entropy,
               "logits: real[N, C], labels: int32[N]; label_prob: float, other_prob: float -> losses: real[N]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? forward<double>(call) : forward<float>(call);
}

RETURNN_KERNEL(cross_entropy_grad,
               "logits: real[N, C], labels: int32[N], d_losses: real[N]; label_prob: float, other_prob: float -> "
               "d_logits: real[N, C]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? backward<double>(call) : backward<float>(call);
}

RETURNN_KERNEL(cross_entropy_grad_grad,
               "logits: real[N, C], labels: int32[N], d_losses: real[N], d_d_logits: real[N, C]; label_prob: float, "
               "other_prob: float -> d_logits: real[N, C], d_d_losses: real[N]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? second_backward<double>(call) : second_backward<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
