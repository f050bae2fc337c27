// What code needs that is compiled for CPUs, each level of them on its own, and for GPUs.
#pragma once

#include <cstdint>

#ifndef RETURNN_LEVEL
#define RETURNN_LEVEL plain
#endif

#if defined(__CUDACC__)
#define RETURNN_METHOD __host__ __device__ __forceinline__
#define RETURNN_DEVICE __device__ __forceinline__  // in kernels of GPUs
#else
#define RETURNN_METHOD inline __attribute__((always_inline))
#define RETURNN_DEVICE inline
#endif
#define RETURNN_INLINE static RETURNN_METHOD
