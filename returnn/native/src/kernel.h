// What a kernel is: a function on raw arrays, with a signature as text. The plain C interface of the library is here.
//
// A kernel is one function, registered once per source file that is compiled for a level of the CPU:
//
//     RETURNN_KERNEL(scale, "x: real[N, F], factor: real[F] -> y: real[N, F]")
//     { ... }
//
// `docs/native.md` explains the signature, and how to add a kernel.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

enum returnn_type {
  RETURNN_FLOAT32 = 0,
  RETURNN_FLOAT64 = 1,
  RETURNN_INT32 = 2,
  RETURNN_INT64 = 3,
  RETURNN_UINT8 = 4,
  RETURNN_FLOAT16 = 5,  // this and the next one only on GPUs
  RETURNN_BFLOAT16 = 6
};

// An array of any layout. Strides are in elements; the last axis of floats always has stride 1.
typedef struct returnn_array {
  void *data;
  const int64_t *sizes;
  const int64_t *strides;
  int32_t rank;
  int32_t type;
} returnn_array;

typedef struct returnn_call {
  const returnn_array *inputs;  // as in the signature. One that is optional may have no elements: it is not there
  const returnn_array *outputs;
  const double *options;
  int32_t threads;
  // On a GPU, all arrays are in its memory, and the kernel runs in this stream: it has not ended when the call returns.
  void *stream;
  // Memory for what a kernel needs meanwhile, on 256 bytes. It may be used again for what is called later in the stream.
  void *(*allocate)(void *context, int64_t bytes);
  void *context;
} returnn_call;

// Returns null, or what is wrong.
typedef const char *(*returnn_function)(const returnn_call *call);

}  // extern "C"

#define RETURNN_API extern "C" __attribute__((visibility("default")))

// The number of a kernel is below this.
RETURNN_API int returnn_num_kernels();
RETURNN_API const char *returnn_kernel_name(int kernel);
RETURNN_API const char *returnn_kernel_signature(int kernel);
RETURNN_API const char *returnn_level();  // for which instructions the kernels that run are compiled
RETURNN_API const char *returnn_run(int kernel, const returnn_call *call);

namespace returnn {

struct Registration {
  Registration(const char *name, const char *signature, const char *level, returnn_function function);
};

}  // namespace returnn

#define RETURNN_TEXT_(x) #x
#define RETURNN_TEXT(x) RETURNN_TEXT_(x)
#define RETURNN_KERNEL(name, signature)                                                                      \
  static const char *name(const returnn_call *call);                                                         \
  static const ::returnn::Registration name##_registration(#name, signature, RETURNN_TEXT(RETURNN_LEVEL), name); \
  static const char *name(const returnn_call *call)
