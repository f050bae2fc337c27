// What the framework that calls a kernel gives it: types, and memory.
#pragma once

#include <new>

#include "../kernel.h"
#include "numbers.h"

namespace returnn {
namespace RETURNN_LEVEL {

// Memory for the time of a call. It throws std::bad_alloc if there is none.
class Workspace {
 public:
  explicit Workspace(const returnn_call *call) : call_(call) {}

  template <class T>
  T *get(int64_t num) const {
    void *memory = call_->allocate(call_->context, (num > 0 ? num : 1) * static_cast<int64_t>(sizeof(T)));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T *>(memory);
  }

 private:
  const returnn_call *call_;
};

// What run(value of a type) returns, for the type of the first array.
template <class Run>
const char *run_for_type(const returnn_call *call, const Run &run) {
  try {
    switch (call->inputs[0].type) {
      case RETURNN_FLOAT32: return run(0.f);
      case RETURNN_BFLOAT16: return run(BFloat16{});
      case RETURNN_FLOAT16: return run(Float16{});
      default: return "on a GPU, only float32, bfloat16 and float16 are possible";
    }
  } catch (const std::bad_alloc &) {
    return "there is no memory on the GPU";
  }
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn
