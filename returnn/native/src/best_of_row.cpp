// The highest values of rows, sorted, with their places: of equal ones the first, as TensorFlow has it.
#include "kernel.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

// NaN is below all numbers.
template <class T>
struct Best {
  T *values;
  int32_t *places;
  const int64_t most;
  int64_t num = 0;

  void add(T value, int64_t place) {
    int64_t i = num < most ? num++ : most - 1;
    for (; i > 0 && (value > values[i - 1] || (values[i - 1] != values[i - 1] && value == value)); --i) {
      values[i] = values[i - 1];
      places[i] = places[i - 1];
    }
    values[i] = value;
    places[i] = static_cast<int32_t>(place);
  }

  bool wants(T value) const { return value > values[most - 1] || (values[most - 1] != values[most - 1] && value == value); }
};

template <class T>
bool any_above(const T *x, Vector<T> limit) {
  const auto above = load(x) > limit;
  for (int k = 0; k < Simd<T>::WIDTH; ++k)
    if (above[k]) return true;
  return false;
}

template <class T>
void best_of(const T *x, int64_t size, Best<T> best) {
  int64_t i = 0;
  for (; i < best.most; ++i) best.add(x[i], i);
  constexpr int64_t W = Simd<T>::WIDTH;
  const T *last = best.values + best.most - 1;
  for (; i + W <= size; i += W)
    if (*last != *last || any_above(x + i, all(*last)))
      for (int64_t k = i; k < i + W; ++k)
        if (best.wants(x[k])) best.add(x[k], k);
  for (; i < size; ++i)
    if (best.wants(x[i])) best.add(x[i], i);
}

template <class T>
const char *best(const returnn_call *call) {
  const returnn_array &x = call->inputs[0];
  const int64_t most = call->inputs[1].sizes[0], size = x.sizes[1];
  if (most > size) return "there are fewer values in a row than are wanted";
  if (most == 0) return nullptr;
  T *values = static_cast<T *>(call->outputs[0].data);
  int32_t *places = static_cast<int32_t *>(call->outputs[1].data);
  with_team(call->threads, [&](Team &team) {
    const int64_t wanted = x.sizes[0] * size / (1 << 14) + 1, parts = team_size(team) < wanted ? team_size(team) : wanted;
    for_each_part(team, static_cast<int>(parts), [&](int part) {
      const Range range = part_of(x.sizes[0], part, parts);
      for (int64_t n = range.begin; n < range.end; ++n)
        best_of(static_cast<const T *>(x.data) + n * x.strides[0], size, Best<T>{values + n * most, places + n * most, most});
    });
  });
  return nullptr;
}

// `wanted` has as many entries as values are wanted of each row.
RETURNN_KERNEL(best_of_row, "x: real[N, C], wanted: int32[K] -> values: real[N, K], places: int32[N, K]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? best<double>(call) : best<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
