// Energies of attention (Bahdanau et al. 2015), with feedback of weights (Tu et al. 2016):
//
//     energies = tanh(a + b + feedback feedback_weights) . v
//
// `a` and `b`, such as the encoder's context and the query, have the axes of `feedback` or are the same along some of
// them: then their size there is 1. Nothing of the size of all sums is kept: backward, they are computed again.
#include "kernel.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

// An array (P, Q, R, A) whose sizes can be 1.
struct Term {
  int64_t steps[3];

  Term(const returnn_array &array, const int64_t *sizes) {
    int64_t size = array.sizes[3];
    for (int axis = 3; axis-- > 0; size *= array.sizes[axis]) {
      fits = fits && (array.sizes[axis] == sizes[axis] || array.sizes[axis] == 1);
      steps[axis] = array.sizes[axis] == 1 ? 0 : size;
    }
    num_values = size;
  }

  int64_t at(int64_t p, int64_t q, int64_t r) const { return p * steps[0] + q * steps[1] + r * steps[2]; }

  bool fits = true;
  int64_t num_values;
};

template <class T>
const T *data_of(const returnn_array &array) {
  return static_cast<const T *>(array.data);
}

// What both ways need.
template <class T>
struct Energies {
  const T *feedback, *weights, *v;
  const T *a, *b;
  const int64_t *sizes;
  const Term term_a, term_b;
  const int64_t num, size;  // of energies, of each sum

  explicit Energies(const returnn_array *inputs)
      : feedback(data_of<T>(inputs[0])), weights(data_of<T>(inputs[1])), v(data_of<T>(inputs[4])), a(data_of<T>(inputs[2])),
        b(data_of<T>(inputs[3])), sizes(inputs[0].sizes), term_a(inputs[2], sizes), term_b(inputs[3], sizes),
        num(sizes[0] * sizes[1] * sizes[2]), size(inputs[4].sizes[0]) {}

  const char *error() const {
    return term_a.fits && term_b.fits ? nullptr : "the axes of a and b have to be those of feedback, or of size 1";
  }

  // Calls row(n, at_a, at_b) for each n in the range: numbers of the energy, and of the values of a and b.
  template <class Row>
  inline __attribute__((always_inline)) void for_rows(Range range, const Row &row) const {
    for (int64_t n = range.begin; n < range.end; ++n) {
      const int64_t r = n % sizes[2], q = n / sizes[2] % sizes[1], p = n / sizes[2] / sizes[1];
      row(n, term_a.at(p, q, r), term_b.at(p, q, r));
    }
  }

  inline __attribute__((always_inline)) Vector<T> tanh_of(int64_t n, int64_t at_a, int64_t at_b, int64_t i, int64_t left) const {
    const Vector<T> sum = load(a + at_a + i, left) + load(b + at_b + i, left);
    return vector_tanh<T>(multiply_add(all(feedback[n]), load(weights + i, left), sum));
  }
};

template <class T>
T sum_of(Vector<T> x) {
  T sum = 0;
  for (int i = 0; i < Simd<T>::WIDTH; ++i) sum += x[i];
  return sum;
}

template <class T>
void add_to(T *to, Vector<T> x, int64_t num) {
  store(to, load(to, num) + x, num);
}

template <class T>
const char *energies_forward(const returnn_call *call) {
  const Energies<T> e(call->inputs);
  if (e.error() != nullptr) return e.error();
  T *out = static_cast<T *>(call->outputs[0].data);
  with_team(call->threads, [&](Team &team) {
    const int64_t most = e.num * e.size / (1 << 14) + 1, parts = team_size(team) < most ? team_size(team) : most;
    for_each_part(team, static_cast<int>(parts), [&](int part) {
      e.for_rows(part_of(e.num, part, parts), [&](int64_t n, int64_t at_a, int64_t at_b) {
        Vector<T> sum = {};
        for (int64_t i = 0; i < e.size; i += Simd<T>::WIDTH)
          sum = multiply_add(e.tanh_of(n, at_a, at_b, i, e.size - i), load(e.v + i, e.size - i), sum);
        out[n] = sum_of<T>(sum);
      });
    });
  });
  return nullptr;
}

// A part has some of the entries of all sums, so that parts write different values.
template <class T>
const char *energies_backward(const returnn_call *call) {
  constexpr int64_t PART = 64;
  const Energies<T> e(call->inputs);
  if (e.error() != nullptr) return e.error();
  const T *d = data_of<T>(call->inputs[5]);
  T *outputs[5];
  for (int i = 0; i < 5; ++i) outputs[i] = static_cast<T *>(call->outputs[i].data);
  T *d_feedback = outputs[0], *d_weights = outputs[1], *d_a = outputs[2], *d_b = outputs[3], *d_v = outputs[4];
  const int64_t parts = (e.size + PART - 1) / PART;
  const Buffer<T> sums(parts * e.num);
  std::memset(d_a, 0, e.term_a.num_values * sizeof(T));
  std::memset(d_b, 0, e.term_b.num_values * sizeof(T));
  std::memset(d_v, 0, e.size * sizeof(T));
  std::memset(d_weights, 0, e.size * sizeof(T));
  with_team(call->threads, [&](Team &team) {
    for_each_part(team, static_cast<int>(parts), [&](int part) {
      const int64_t begin = part * PART, end = begin + PART < e.size ? begin + PART : e.size;
      e.for_rows({0, e.num}, [&](int64_t n, int64_t at_a, int64_t at_b) {
        Vector<T> sum = {};
        // Padded frames have no gradient, and can be NaN.
        for (int64_t i = begin; i < end && d[n] != 0; i += Simd<T>::WIDTH) {
          const int64_t left = end - i;
          const Vector<T> y = e.tanh_of(n, at_a, at_b, i, left);
          const Vector<T> d_sum = all(d[n]) * load(e.v + i, left) * (all(T(1)) - y * y);
          sum = multiply_add(d_sum, load(e.weights + i, left), sum);
          add_to(d_a + at_a + i, d_sum, left);
          add_to(d_b + at_b + i, d_sum, left);
          add_to(d_weights + i, all(e.feedback[n]) * d_sum, left);
          add_to(d_v + i, all(d[n]) * y, left);
        }
        sums[part * e.num + n] = sum_of<T>(sum);
      });
    });
  });
  for (int64_t n = 0; n < e.num; ++n) {
    T sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += sums[part * e.num + n];
    d_feedback[n] = sum;
  }
  return nullptr;
}

RETURNN_KERNEL(attention_energies,
               "feedback: real[P, Q, R], feedback_weights: real[A], a: real[P1, Q1, R1, A], b: real[P2, Q2, R2, A], "
               "v: real[A] -> energies: real[P, Q, R]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? energies_forward<double>(call) : energies_forward<float>(call);
}

RETURNN_KERNEL(attention_energies_grad,
               "feedback: real[P, Q, R], feedback_weights: real[A], a: real[P1, Q1, R1, A], b: real[P2, Q2, R2, A], "
               "v: real[A], d_energies: real[P, Q, R] -> d_feedback: real[P, Q, R], d_feedback_weights: real[A], "
               "d_a: real[P1, Q1, R1, A], d_b: real[P2, Q2, R2, A], d_v: real[A]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? energies_backward<double>(call) : energies_backward<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
