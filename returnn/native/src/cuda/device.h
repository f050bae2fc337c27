// What a kernel of a GPU is written with: threads of a block, shared memory, counters that blocks wait for, and how it is
// launched. `on_host.h` has the same for a CPU, by which all kernels are tested where there is no GPU.
//
// A kernel is an object with `void operator()() const`, which each thread calls, and `THREADS`, those of a block:
//
//     struct Scale {
//       static constexpr int THREADS = 256;
//       float *x;
//       float by;
//       RETURNN_DEVICE void operator()() const { x[block_x() * THREADS + thread()] *= by; }
//     };
//     launch(Scale{x, 2.f}, {num / 256, 1}, 0, stream);
#pragma once

#include "../portable.h"

#if defined(__CUDACC__)

#include <cuda_runtime.h>

namespace returnn {
namespace RETURNN_LEVEL {

struct Grid {
  int64_t x, y;
};

using Stream = cudaStream_t;

__device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int block_x() { return static_cast<int>(blockIdx.x); }
__device__ __forceinline__ int block_y() { return static_cast<int>(blockIdx.y); }
__device__ __forceinline__ int grid_x() { return static_cast<int>(gridDim.x); }

// Waits for all threads of the block, or of the warp, and sees what they have written.
__device__ __forceinline__ void sync_block() { __syncthreads(); }
__device__ __forceinline__ void sync_warp() { __syncwarp(); }

// Memory of the block, on 16 bytes.
__device__ __forceinline__ char *shared_memory() {
  extern __shared__ __align__(16) char memory[];
  return memory;
}

// What other blocks may have written since the kernel began: not from the cache of this multiprocessor.
template <class T>
__device__ __forceinline__ T load_fresh(const T *from) {
  return __ldcg(from);
}

// All of the block have done what is before; `counter` says how many blocks have. The block goes on when it is `target`.
__device__ __forceinline__ void wait_for_blocks(unsigned *counter, unsigned target) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(counter, 1u);
    while (*static_cast<volatile unsigned *>(counter) < target) {
    }
    __threadfence();
  }
  __syncthreads();
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::THREADS, 1) run_kernel(const __grid_constant__ Kernel kernel) {
  kernel();
}

namespace detail {

inline const char *message(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorString(error); }

// More than 48 KB of shared memory have to be asked for.
template <class Kernel>
cudaError_t allow_shared(int64_t bytes) {
  return bytes <= 48 * 1024 ? cudaSuccess
                            : cudaFuncSetAttribute(run_kernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

}  // namespace detail

// Null, or what is wrong. Nothing is done if the grid is empty.
template <class Kernel>
const char *launch(const Kernel &kernel, Grid grid, int64_t shared_bytes, Stream stream) {
  if (grid.x <= 0 || grid.y <= 0) return nullptr;
  if (const cudaError_t error = detail::allow_shared<Kernel>(shared_bytes)) return detail::message(error);
  const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y));
  run_kernel<Kernel><<<blocks, Kernel::THREADS, shared_bytes, stream>>>(kernel);
  return detail::message(cudaGetLastError());
}

// All blocks run at the same time, so they may wait for each other.
template <class Kernel>
const char *launch_together(const Kernel &kernel, Grid grid, int64_t shared_bytes, Stream stream) {
  if (const cudaError_t error = detail::allow_shared<Kernel>(shared_bytes)) return detail::message(error);
  Kernel copy = kernel;
  void *args[] = {&copy};
  const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y));
  return detail::message(cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(run_kernel<Kernel>), blocks,
                                                     dim3(Kernel::THREADS), args, shared_bytes, stream));
}

// How many blocks can run at the same time; 0 if it is unknown, or none.
template <class Kernel>
int64_t blocks_together(int64_t shared_bytes) {
  int device = 0, processors = 0, most = 0, per_processor = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (shared_bytes > most || detail::allow_shared<Kernel>(shared_bytes) != cudaSuccess) return 0;
  if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, run_kernel<Kernel>, Kernel::THREADS, shared_bytes) != cudaSuccess)
    return 0;
  return static_cast<int64_t>(processors) * per_processor;
}

inline const char *clear(void *data, int64_t bytes, Stream stream) {
  return detail::message(cudaMemsetAsync(data, 0, bytes, stream));
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn

#else

#include "on_host.h"

#endif
