// Layer normalization of vectors in memory (Ba et al. 2016): y = n gamma + beta, n = (x - mean) / sqrt(variance + epsilon).
#pragma once

#include "simd.h"

namespace returnn {
namespace RETURNN_LEVEL {

// Calls use(i, num) for each vector of an array: it begins at i, and `num` entries are left.
template <class T, class Use>
RETURNN_INLINE void for_vectors(int64_t size, const Use &use) {
  for (int64_t i = 0; i < size; i += Simd<T>::WIDTH) use(i, size - i);
}

// 1 for entries that there are, 0 for the others.
template <class T>
RETURNN_INLINE Vector<T> existing(int64_t num) {
  Vector<T> ones = all(T(1));
  for (int i = 0; i < Simd<T>::WIDTH; ++i)
    if (i >= num) ones[i] = 0;
  return ones;
}

RETURNN_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
RETURNN_INLINE double square_root(double x) { return __builtin_sqrt(x); }

template <class T>
struct Moments {
  T mean = 0, scale = 0;

  Vector<T> normalized(Vector<T> x) const { return (x - all(mean)) * all(scale); }
};

template <class T>
static Moments<T> moments_of(const T *x, int64_t size, T epsilon) {
  Vector<T> sum = {}, squares = {};
  for_vectors<T>(size, [&](int64_t i, int64_t num) { sum = sum + load(x + i, num); });
  const T mean = sum_of_entries<T>(sum) / T(size);
  for_vectors<T>(size, [&](int64_t i, int64_t num) {
    Vector<T> centered = load(x + i, num) - all(mean);
    if (num < Simd<T>::WIDTH) centered = centered * existing<T>(num);
    squares = multiply_add(centered, centered, squares);
  });
  return {mean, T(1) / square_root(sum_of_entries<T>(squares) / T(size) + epsilon)};
}

// `beta` may be null.
template <class T>
static void layer_norm(const T *x, int64_t size, const T *gamma, const T *beta, T epsilon, T *y) {
  const Moments<T> moments = moments_of(x, size, epsilon);
  for_vectors<T>(size, [&](int64_t i, int64_t num) {
    const Vector<T> n = moments.normalized(load(x + i, num)), scale = load(gamma + i, num);
    store(y + i, beta == nullptr ? n * scale : multiply_add(n, scale, load(beta + i, num)), num);
  });
}

// From the gradient of y that of x, in place of it or elsewhere. Returns the moments of x.
template <class T>
static Moments<T> layer_norm_grad(const T *x, int64_t size, const T *gamma, T epsilon, const T *dy, T *dx) {
  const Moments<T> moments = moments_of(x, size, epsilon);
  Vector<T> sum = {}, sum_with_n = {};
  for_vectors<T>(size, [&](int64_t i, int64_t num) {
    const Vector<T> dn = load(dy + i, num) * load(gamma + i, num);
    sum = sum + dn;
    sum_with_n = multiply_add(dn, moments.normalized(load(x + i, num)), sum_with_n);
  });
  const T mean = sum_of_entries<T>(sum) / T(size), mean_with_n = sum_of_entries<T>(sum_with_n) / T(size);
  for_vectors<T>(size, [&](int64_t i, int64_t num) {
    const Vector<T> dn = load(dy + i, num) * load(gamma + i, num), n = moments.normalized(load(x + i, num));
    store(dx + i, all(moments.scale) * (dn - all(mean) - n * all(mean_with_n)), num);
  });
  return moments;
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn
