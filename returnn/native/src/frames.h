// Where the vectors of frames lie in an array.
#pragma once

#include "kernel.h"
#include "portable.h"

namespace returnn {
namespace RETURNN_LEVEL {

// Vectors of floats with two axes: time and sequence; or with one: sequence. They can have dense axes of their own.
template <class T>
struct Frames {
  T *data = nullptr;
  int64_t time = 0, sequence = 0;

  Frames() = default;
  explicit Frames(const returnn_array &array) : data(static_cast<T *>(array.data)) {
    for (int axis = 0; axis < array.rank; ++axis)
      if (array.sizes[axis] == 0) data = nullptr;
    if (data == nullptr || array.rank < 2) return;
    sequence = array.strides[array.rank < 3 ? 0 : 1];
    time = array.rank < 3 ? 0 : array.strides[0];
  }

  RETURNN_METHOD bool is_there() const { return data != nullptr; }
  RETURNN_METHOD T *at(int64_t t, int64_t n) const { return data + t * time + n * sequence; }
  RETURNN_METHOD T *at(int64_t n) const { return data + n * sequence; }
  RETURNN_METHOD Frames<const T> to_read() const {
    Frames<const T> frames;
    frames.data = data;
    frames.time = time;
    frames.sequence = sequence;
    return frames;
  }
};

}  // namespace RETURNN_LEVEL
}  // namespace returnn
