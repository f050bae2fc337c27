// Vectors of floats, as wide as the level of the CPU has them, and functions on them.
//
// All code that is compiled for a level is in a namespace of that level, so that no function of one level is ever run in
// place of another's. For the same reason it uses no templates of the standard library. The compiler must not contract
// products and sums, so that a result never depends on where code was inlined: `multiply_add` says where it is meant.
//
// Accuracy, in units in the last place: exponential 1.5, sigmoid 3, tanh 4 (tested). NaN stays NaN.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "portable.h"

// To read immintrin.h takes longer than to compile some kernels; what is needed of it is here.
#if defined(__AVX512F__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_vfmaddps512_mask) && __has_builtin(__builtin_ia32_vfmaddpd512_mask)
#define RETURNN_FMA_OF_FLOATS(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)
#define RETURNN_FMA_OF_DOUBLES(a, b, c) __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4)
#endif
#elif defined(__AVX2__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_vfmaddps256) && __has_builtin(__builtin_ia32_vfmaddpd256)
#define RETURNN_FMA_OF_FLOATS __builtin_ia32_vfmaddps256
#define RETURNN_FMA_OF_DOUBLES __builtin_ia32_vfmaddpd256
#endif
#endif
#if defined(__AVX2__) && !defined(RETURNN_FMA_OF_FLOATS)
#include <immintrin.h>
#if defined(__AVX512F__)
#define RETURNN_FMA_OF_FLOATS(a, b, c) (Vector<float>)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define RETURNN_FMA_OF_DOUBLES(a, b, c) (Vector<double>)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#else
#define RETURNN_FMA_OF_FLOATS(a, b, c) (Vector<float>)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define RETURNN_FMA_OF_DOUBLES(a, b, c) (Vector<double>)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#endif
#endif

namespace returnn {
namespace RETURNN_LEVEL {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64, NUM_REGISTERS = 32;
#elif defined(__AVX2__)
constexpr int VECTOR_BYTES = 32, NUM_REGISTERS = 16;
#else
constexpr int VECTOR_BYTES = 16, NUM_REGISTERS = 16;
#endif

template <class T>
struct Simd;

template <>
struct Simd<float> {
  typedef float V __attribute__((vector_size(VECTOR_BYTES)));
  typedef float Unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
  typedef int32_t I __attribute__((vector_size(VECTOR_BYTES)));
  static constexpr int WIDTH = VECTOR_BYTES / 4;
  static constexpr float MAGIC = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole number
  static constexpr int EXPONENT_BIAS = 127, MANTISSA_BITS = 23;
  static constexpr float EXP_MIN = -87.0f, EXP_MAX = 88.0f, TANH_MAX = 20.0f;
  static constexpr float LN2_HIGH = 0.693359375f, LN2_LOW = -2.12194440e-4f;
};

template <>
struct Simd<double> {
  typedef double V __attribute__((vector_size(VECTOR_BYTES)));
  typedef double Unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
  typedef int64_t I __attribute__((vector_size(VECTOR_BYTES)));
  static constexpr int WIDTH = VECTOR_BYTES / 8;
  static constexpr double MAGIC = 6755399441055744.0;
  static constexpr int EXPONENT_BIAS = 1023, MANTISSA_BITS = 52;
  static constexpr double EXP_MIN = -708.0, EXP_MAX = 709.0, TANH_MAX = 40.0;
  static constexpr double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;
};

template <class T>
using Vector = typename Simd<T>::V;

template <class T>
RETURNN_INLINE Vector<T> all(T value) {
  return value - Vector<T>{};
}

template <class T>
RETURNN_INLINE Vector<T> load(const T *from) {
  return *reinterpret_cast<const typename Simd<T>::Unaligned *>(from);
}

template <class T>
RETURNN_INLINE void store(T *to, Vector<T> value) {
  *reinterpret_cast<typename Simd<T>::Unaligned *>(to) = value;
}

// The first `num` entries; the others are 0.
template <class T>
RETURNN_INLINE Vector<T> load(const T *from, int64_t num) {
  if (num >= Simd<T>::WIDTH) return load(from);
  T values[Simd<T>::WIDTH] = {};
  for (int64_t i = 0; i < num; ++i) values[i] = from[i];
  return load(values);
}

template <class T>
RETURNN_INLINE void store(T *to, Vector<T> value, int64_t num) {
  if (num >= Simd<T>::WIDTH) return store(to, value);
  T values[Simd<T>::WIDTH];
  store(values, value);
  for (int64_t i = 0; i < num; ++i) to[i] = values[i];
}

// a * b + c, rounded once where the CPU has it.
#if defined(__AVX2__)
RETURNN_INLINE Vector<float> multiply_add(Vector<float> a, Vector<float> b, Vector<float> c) {
  return RETURNN_FMA_OF_FLOATS(a, b, c);
}
RETURNN_INLINE Vector<double> multiply_add(Vector<double> a, Vector<double> b, Vector<double> c) {
  return RETURNN_FMA_OF_DOUBLES(a, b, c);
}
#else
RETURNN_INLINE Vector<float> multiply_add(Vector<float> a, Vector<float> b, Vector<float> c) { return a * b + c; }
RETURNN_INLINE Vector<double> multiply_add(Vector<double> a, Vector<double> b, Vector<double> c) { return a * b + c; }
#endif

// exp(r) - 1 - r for |r| <= ln(2) / 2, divided by r^2.
RETURNN_INLINE Vector<float> exp_polynomial(Vector<float> r) {
  Vector<float> p = all(1.9875691500e-4f);
  for (const float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = multiply_add(p, r, all(c));
  return p;
}

RETURNN_INLINE Vector<double> exp_polynomial(Vector<double> r) {
  Vector<double> p = all(1.0 / 6227020800.0);  // 1 / 13!
  for (const double c : {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0,
                         1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5})
    p = multiply_add(p, r, all(c));
  return p;
}

// exp(x) = (1 + rest) * scale, for EXP_MIN <= x <= EXP_MAX.
template <class T>
RETURNN_INLINE void split_exp(Vector<T> x, Vector<T> &rest, Vector<T> &scale) {
  using S = Simd<T>;
  typedef typename S::I I;
  const Vector<T> shifted = multiply_add(x, all(T(1.44269504088896340736)), all(S::MAGIC));
  const Vector<T> n = shifted - all(S::MAGIC);
  const I whole = (I)shifted - (I)all(S::MAGIC) + S::EXPONENT_BIAS;
  const Vector<T> r = multiply_add(n, all(-S::LN2_LOW), multiply_add(n, all(-S::LN2_HIGH), x));
  rest = multiply_add(exp_polynomial(r) * r, r, r);
  scale = (Vector<T>)(whole << S::MANTISSA_BITS);
}

template <class T>
RETURNN_INLINE Vector<T> clipped(Vector<T> x, T low, T high) {
  x = x < all(low) ? all(low) : x;
  return x > all(high) ? all(high) : x;
}

template <class T>
RETURNN_INLINE Vector<T> vector_exp(Vector<T> x) {
  Vector<T> rest, scale;
  split_exp<T>(clipped<T>(x, Simd<T>::EXP_MIN, Simd<T>::EXP_MAX), rest, scale);
  return multiply_add(rest, scale, scale);
}

template <class T>
RETURNN_INLINE Vector<T> vector_sigmoid(Vector<T> x) {
  return all(T(1)) / (all(T(1)) + vector_exp<T>(-x));
}

// e / (e + 2) with e = exp(2 x) - 1, which is as accurate for small x.
template <class T>
RETURNN_INLINE Vector<T> vector_tanh(Vector<T> x) {
  Vector<T> rest, scale;
  split_exp<T>(clipped<T>(x + x, -Simd<T>::TANH_MAX, Simd<T>::TANH_MAX), rest, scale);
  const Vector<T> e = multiply_add(rest, scale, scale - all(T(1)));
  return e / (e + all(T(2)));
}

// For formulas that are written once for vectors and numbers.
template <class T>
struct VectorMath {
  using Value = Vector<T>;

  RETURNN_INLINE Value one() { return all(T(1)); }
  RETURNN_INLINE Value tanh(Value x) { return vector_tanh<T>(x); }
  RETURNN_INLINE Value sigmoid(Value x) { return vector_sigmoid<T>(x); }
  RETURNN_INLINE Value multiply_add(Value a, Value b, Value c) { return returnn::RETURNN_LEVEL::multiply_add(a, b, c); }
};

// By halves, so that no sum waits for all of the others.
template <class T>
RETURNN_INLINE T sum_of_entries(Vector<T> x) {
  T values[Simd<T>::WIDTH];
  store(values, x);
  for (int half = Simd<T>::WIDTH / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) values[i] += values[i + half];
  return values[0];
}

// rows[i][k] = rows[k][i], for as many vectors as one has entries.
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define RETURNN_SHUFFLES
#endif
#endif
#if defined(RETURNN_SHUFFLES)
template <int... Lane>
struct Lanes {};
template <int N, int... Lane>
struct LanesUpTo : LanesUpTo<N - 1, N - 1, Lane...> {};
template <int... Lane>
struct LanesUpTo<0, Lane...> {
  using Type = Lanes<Lane...>;
};

// Of blocks of two by two, with D rows and D lanes each, those off the diagonal.
template <int D, class V, int... Lane>
RETURNN_INLINE void exchange(V &a, V &b, Lanes<Lane...>) {
  constexpr int W = sizeof...(Lane);
  const V first = __builtin_shufflevector(a, b, ((Lane & D) != 0 ? W + Lane - D : Lane)...);
  b = __builtin_shufflevector(a, b, ((Lane & D) != 0 ? W + Lane : Lane + D)...);
  a = first;
}

template <class T, int D = 1>
RETURNN_INLINE void transpose(Vector<T> *rows) {
  constexpr int W = Simd<T>::WIDTH;
  if constexpr (D < W) {
    for (int i = 0; i < W; ++i)
      if ((i & D) == 0) exchange<D>(rows[i], rows[i + D], typename LanesUpTo<W>::Type());
    transpose<T, 2 * D>(rows);
  }
}
#else
template <class T>
RETURNN_INLINE void transpose(Vector<T> *rows) {
  constexpr int W = Simd<T>::WIDTH;
  for (int i = 0; i < W; ++i)
    for (int k = 0; k < i; ++k) {
      const T value = rows[i][k];
      rows[i][k] = rows[k][i];
      rows[k][i] = value;
    }
}
#endif

// Memory for vectors.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t size) : data_(nullptr) {
    if (posix_memalign(reinterpret_cast<void **>(&data_), 64, (size > 0 ? size : 1) * sizeof(T)) != 0) std::abort();
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  T *data() const { return data_; }
  T &operator[](int64_t i) const { return data_[i]; }

 private:
  T *data_;
};

struct Range {
  int64_t begin, end;
};

// The part of [0, num) that is the `part`-th of `parts`.
RETURNN_INLINE Range part_of(int64_t num, int64_t part, int64_t parts) {
  return {num * part / parts, num * (part + 1) / parts};
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn
