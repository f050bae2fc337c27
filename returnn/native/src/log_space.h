// Sums over paths, whose probabilities are given by their logarithms. All in double: over a thousand frames, float32 would
// lose what the gradient is made of.
#pragma once

#include "simd.h"

namespace returnn {
namespace RETURNN_LEVEL {

// Log of a probability of 0; not infinite, so that differences are no NaN.
constexpr double NEVER = -1e30;

typedef Vector<double> Doubles;
constexpr int DOUBLES = Simd<double>::WIDTH;

RETURNN_INLINE bool is_possible(double log_probability) { return !(log_probability <= NEVER / 2); }  // NaN is seen

// NaN stays NaN.
RETURNN_INLINE double at_least_never(double x) { return x < NEVER ? NEVER : x; }
RETURNN_INLINE Doubles at_least_never(Doubles x) { return x < all(NEVER) ? all(NEVER) : x; }

// log(x) of normal numbers above 0, with the polynomial of fdlibm. 1 unit in the last place. NaN stays NaN.
RETURNN_INLINE Doubles vector_log(Doubles x) {
  typedef Simd<double>::I I;
  constexpr int64_t SQRT_HALF = 0x3fe6a09e667f3bcd;
  const I bits = (I)x - SQRT_HALF;
  const I exponent = bits >> 52;
  const Doubles f = (Doubles)((bits & 0x000fffffffffffff) + SQRT_HALF) - all(1.0);  // sqrt(1/2) - 1 ... sqrt(2) - 1
  const Doubles k = (Doubles)((I)all(Simd<double>::MAGIC) + exponent) - all(Simd<double>::MAGIC);
  const Doubles s = f / (all(2.0) + f), z = s * s;
  Doubles r = all(1.479819860511658591e-01);
  for (const double c : {1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01, 2.857142874366239149e-01,
                         3.999999999940941908e-01, 6.666666666666735130e-01})
    r = multiply_add(r, z, all(c));
  const Doubles half = all(0.5) * f * f;
  const Doubles low = multiply_add(s, multiply_add(r, z, half), k * all(Simd<double>::LN2_LOW));
  const Doubles rest = half - low - f;
  return x == x ? k * all(Simd<double>::LN2_HIGH) - rest : x;
}

// exp(x) for x <= 0; 0 if it is too small to be a normal number.
RETURNN_INLINE Doubles probability(Doubles x) {
  return x < all(Simd<double>::EXP_MIN) ? all(0.0) : vector_exp<double>(x);
}

RETURNN_INLINE void larger_first(Doubles &a, Doubles &b) {
  const Doubles larger = a > b ? a : b;
  b = a > b ? b : a;  // also for NaN, both values are kept
  a = larger;
}

RETURNN_INLINE Doubles log_add(Doubles a, Doubles b) {
  larger_first(a, b);
  return a + vector_log(all(1.0) + vector_exp<double>(b - a));
}

RETURNN_INLINE Doubles log_add(Doubles a, Doubles b, Doubles c) {
  larger_first(a, b);
  larger_first(a, c);
  return a + vector_log(all(1.0) + vector_exp<double>(b - a) + vector_exp<double>(c - a));
}

RETURNN_INLINE double log_of(double x) { return __builtin_log(x); }

// Log of the sum of exp(x[i]).
static inline double log_sum(const double *x, int64_t num) {
  double largest = NEVER, total = 0;
  for (int64_t i = 0; i < num; ++i) largest = x[i] > largest ? x[i] : largest;
  for (int64_t i = 0; i < num; ++i) total += __builtin_exp(x[i] - largest);
  return num == 0 ? NEVER : at_least_never(largest + log_of(total));
}

// The same for a row of scores of all classes: what has to be subtracted for log probabilities.
template <class T>
RETURNN_INLINE T log_normalizer(const T *x, int64_t num) {
  constexpr int64_t W = Simd<T>::WIDTH;
  T largest = x[0], total = 0;  // NaN is not seen here, but in the sum
  Vector<T> most = all(largest);
  int64_t i = 0;
  for (; i + W <= num; i += W) most = load(x + i) > most ? load(x + i) : most;
  for (; i < num; ++i) largest = x[i] > largest ? x[i] : largest;
  for (int64_t k = 0; k < W; ++k) largest = most[k] > largest ? most[k] : largest;
  Vector<T> sums = {};
  for (i = 0; i + W <= num; i += W) sums = sums + vector_exp<T>(load(x + i) - all(largest));
  const Vector<T> last = vector_exp<T>(load(x + i, num - i) - all(largest));
  for (int64_t k = 0; k < W; ++k) total += sums[k] + (i + k < num ? last[k] : T(0));
  return static_cast<T>(largest + log_of(total));
}

// to[i] = factor * exp(x[i] - normalizer)
template <class T>
RETURNN_INLINE void scaled_softmax(const T *x, int64_t num, T normalizer, T factor, T *to) {
  constexpr int64_t W = Simd<T>::WIDTH;
  for (int64_t i = 0; i < num; i += W) {
    const Vector<T> log = load(x + i, num - i) - all(normalizer), p = all(factor) * vector_exp<T>(log);
    store(to + i, log < all(Simd<T>::EXP_MIN) ? Vector<T>{} : p, num - i);  // numbers near the smallest one are slow
  }
}

// Rows of states, with NEVER around them, so that vectors can begin before the first state and go on behind the last one.
class StateRows {
 public:
  StateRows(int64_t rows, int64_t states)
      : stride((states + DOUBLES - 1) / DOUBLES * DOUBLES + 2 * DOUBLES), data_(rows * stride), rows_(rows) {
    clear();
  }

  void clear() const {
    for (int64_t i = 0; i < rows_ * stride; ++i) data_[i] = NEVER;
  }

  // Its entries from -DOUBLES to the number of states, rounded up to vectors, plus DOUBLES.
  double *row(int64_t i) const { return data_.data() + i * stride + DOUBLES; }

  const int64_t stride;

 private:
  Buffer<double> data_;
  const int64_t rows_;
};

}  // namespace RETURNN_LEVEL
}  // namespace returnn
