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
        out[n] = sum_of_entries<T>(sum);
      });
    });
  });
  return nullptr;
}

// A gradient of a or b: where each sum has its own value, it is written, otherwise added.
template <class T>
struct TermGradient {
  T *data;
  const bool is_own;

  TermGradient(const returnn_array &array, const Term &term, int64_t num_sums)
      : data(static_cast<T *>(array.data)), is_own(term.num_values == num_sums) {
    if (!is_own) std::memset(data, 0, term.num_values * sizeof(T));
  }

  void put(int64_t at, Vector<T> x, int64_t num) const {
    if (is_own)
      store(data + at, x, num);
    else
      add_to(data + at, x, num);
  }

  void put_zeros(int64_t at, int64_t num) const {
    if (is_own) std::memset(data + at, 0, num * sizeof(T));
  }
};

// A thread has some of the entries of all sums, so that threads write different values.
template <class T>
const char *energies_backward(const returnn_call *call) {
  constexpr int64_t BLOCK = 64;  // entries that are summed up first, whatever the number of threads
  const Energies<T> e(call->inputs);
  if (e.error() != nullptr) return e.error();
  const T *d = data_of<T>(call->inputs[5]);
  T *d_feedback = static_cast<T *>(call->outputs[0].data), *d_weights = static_cast<T *>(call->outputs[1].data);
  T *d_v = static_cast<T *>(call->outputs[4].data);
  const TermGradient<T> d_a(call->outputs[2], e.term_a, e.num * e.size), d_b(call->outputs[3], e.term_b, e.num * e.size);
  const int64_t blocks = (e.size + BLOCK - 1) / BLOCK;
  const Buffer<T> sums(blocks * e.num);
  std::memset(d_v, 0, e.size * sizeof(T));
  std::memset(d_weights, 0, e.size * sizeof(T));
  with_team(call->threads, [&](Team &team) {
    const int64_t parts = team_size(team) < blocks ? team_size(team) : blocks;
    for_each_part(team, static_cast<int>(parts), [&](int part) {
      const Range own = part_of(blocks, part, parts);
      e.for_rows({0, e.num}, [&](int64_t n, int64_t at_a, int64_t at_b) {
        for (int64_t block = own.begin; block < own.end; ++block) {
          const int64_t begin = block * BLOCK, end = begin + BLOCK < e.size ? begin + BLOCK : e.size;
          Vector<T> sum = {};
          if (d[n] == 0) {  // padded frames have no gradient, and can be NaN
            d_a.put_zeros(at_a + begin, end - begin);
            d_b.put_zeros(at_b + begin, end - begin);
          } else {
            for (int64_t i = begin; i < end; i += Simd<T>::WIDTH) {
              const int64_t left = end - i;
              const Vector<T> y = e.tanh_of(n, at_a, at_b, i, left);
              const Vector<T> d_sum = all(d[n]) * load(e.v + i, left) * (all(T(1)) - y * y);
              sum = multiply_add(d_sum, load(e.weights + i, left), sum);
              d_a.put(at_a + i, d_sum, left);
              d_b.put(at_b + i, d_sum, left);
              add_to(d_weights + i, all(e.feedback[n]) * d_sum, left);
              add_to(d_v + i, all(d[n]) * y, left);
            }
          }
          sums[block * e.num + n] = sum_of_entries<T>(sum);
        }
      });
    });
  });
  for (int64_t n = 0; n < e.num; ++n) {
    T sum = 0;
    for (int64_t block = 0; block < blocks; ++block) sum += sums[block * e.num + n];
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
