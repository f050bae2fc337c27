// Types of floats in memory, all of which are float32 in computations; and functions on numbers for formulas that are
// written once for CPU and GPU.
#pragma once

#include <cmath>
#include <cstring>

#include "device.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#endif

namespace returnn {
namespace RETURNN_LEVEL {

struct alignas(2) BFloat16 {
  uint16_t bits;
};

struct alignas(2) Float16 {
  uint16_t bits;
};

RETURNN_INLINE uint32_t bits_of(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
#endif
}

RETURNN_INLINE float float_of(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
#endif
}

RETURNN_INLINE float to_float(float x) { return x; }
RETURNN_INLINE float to_float(BFloat16 x) { return float_of(static_cast<uint32_t>(x.bits) << 16); }

// Exactly, also what is too small for its normal form.
RETURNN_INLINE float to_float(Float16 x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(x.bits));
#else
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16, exponent = (x.bits >> 10) & 31u, mantissa = x.bits & 1023u;
  if (exponent == 31) return float_of(sign | 0x7F800000u | mantissa << 13);
  const float size = exponent == 0 ? static_cast<float>(mantissa) * 0x1p-24f : float_of((exponent + 112) << 23 | mantissa << 13);
  return float_of(sign | bits_of(size));
#endif
}

RETURNN_INLINE void from_float(float x, float &to) { to = x; }

// To the nearest, and of two to the even one. NaN stays NaN.
RETURNN_INLINE void from_float(float x, BFloat16 &to) {
  const uint32_t bits = bits_of(x);
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  to.bits = static_cast<uint16_t>(is_nan ? 0x7FC0u : (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

RETURNN_INLINE void from_float(float x, Float16 &to) {
#if defined(__CUDA_ARCH__)
  to.bits = __half_as_ushort(__float2half_rn(x));
#else
  const uint32_t bits = bits_of(x), sign = (bits >> 16) & 0x8000u, size = bits & 0x7FFFFFFFu;
  uint32_t half;
  if (size > 0x7F800000u)
    half = 0x7E00u;
  else if (size >= 0x477FF000u)  // it would be rounded to 2^16
    half = 0x7C00u;
  else if (size < 0x38800000u)  // below 2^-14: a multiple of 2^-24, to which the addition rounds
    half = bits_of(float_of(size) + 0.5f) - 0x3F000000u;
  else
    half = (size - 0x38000000u + 0xFFFu + ((size >> 13) & 1u)) >> 13;
  to.bits = static_cast<uint16_t>(sign | half);
#endif
}

template <class T>
RETURNN_INLINE T as(float x) {
  T value;
  from_float(x, value);
  return value;
}

#if defined(__CUDACC__)
// See `load_fresh` of device.h, which knows numbers of CUDA alone.
__device__ __forceinline__ BFloat16 load_fresh(const BFloat16 *from) {
  return {__ldcg(reinterpret_cast<const unsigned short *>(from))};
}
__device__ __forceinline__ Float16 load_fresh(const Float16 *from) {
  return {__ldcg(reinterpret_cast<const unsigned short *>(from))};
}
#endif

// For formulas that are written once for vectors and numbers.
struct NumberMath {
  using Value = float;

  RETURNN_INLINE float one() { return 1.f; }
  RETURNN_INLINE float tanh(float x) { return tanhf(x); }
  RETURNN_INLINE float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }
  RETURNN_INLINE float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
};

}  // namespace RETURNN_LEVEL
}  // namespace returnn
