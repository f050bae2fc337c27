// The pointwise part of one frame of the LSTM, see lstm.cpp for the formula.
//
// Backward, the gates are computed again from z: that takes less time than to write and to read them.
#include "kernel.h"
#include "lstm_gates.h"
#include "recurrent.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

// Calls row(n) for all rows, in parts that are worth a thread.
template <class Work>
RETURNN_INLINE void for_each_row(Team &team, int64_t num, int64_t units, const Work &work) {
  constexpr int64_t ENOUGH = 1 << 13;
  const int64_t most = num * units / ENOUGH + 1, parts = team_size(team) < most ? team_size(team) : most;
  for_each_part(team, static_cast<int>(parts), [&](int part) {
    const Range range = part_of(num, part, parts);
    for (int64_t n = range.begin; n < range.end; ++n) work(n);
  });
}

// What both ways need: arrays, and the gates of some units.
template <class T>
struct LstmStep {
  const Frames<const T> z, c_before;
  const T *peepholes, *bias;
  const bool i_first;
  const int64_t num, units;

  explicit LstmStep(const returnn_call *call)
      : z(call->inputs[0]), c_before(call->inputs[1]), peepholes(Frames<const T>(call->inputs[2]).data),
        bias(Frames<const T>(call->inputs[3]).data), i_first(call->options[0] != 0), num(call->inputs[1].sizes[0]), units(call->inputs[1].sizes[1]) {}

  inline __attribute__((always_inline)) Vector<T> new_cell(int64_t n, int64_t unit, LstmGates<T> &gates) const {
    gates = LstmGates<T>(z.at(n), units, unit, units - unit, i_first);
    if (bias != nullptr) gates.add(LstmGates<T>(bias, units, unit, units - unit, i_first));
    return lstm_cell<T>(gates, peepholes, units, unit, load(c_before.at(n) + unit, units - unit));
  }
};

template <class T>
const char *step_forward(const returnn_call *call) {
  const LstmStep<T> step(call);
  const Frames<T> h(call->outputs[0]), c(call->outputs[1]);
  with_team(call->threads, [&](Team &team) {
    for_each_row(team, step.num, step.units, [&](int64_t n) {
      for (int64_t unit = 0; unit < step.units; unit += Simd<T>::WIDTH) {
        LstmGates<T> gates;
        const Vector<T> cell = step.new_cell(n, unit, gates);
        store(c.at(n) + unit, cell, step.units - unit);
        store(h.at(n) + unit, lstm_output<VectorMath<T>>(gates, cell), step.units - unit);
      }
    });
  });
  return nullptr;
}

template <class T>
const char *step_backward(const returnn_call *call) {
  const LstmStep<T> step(call);
  const int64_t units = step.units;
  const Frames<const T> c(call->inputs[4]), d_h(call->inputs[5]), d_c(call->inputs[6]);
  const Frames<T> d_z(call->outputs[0]), d_c_before(call->outputs[1]);
  T *d_peepholes = static_cast<T *>(call->outputs[2].data), *d_bias = static_cast<T *>(call->outputs[3].data);
  with_team(call->threads, [&](Team &team) {
    for_each_row(team, step.num, units, [&](int64_t n) {
      for (int64_t unit = 0; unit < units; unit += Simd<T>::WIDTH) {
        const int64_t left = units - unit;
        LstmGates<T> gates;
        step.new_cell(n, unit, gates);
        const Vector<T> dh = d_h.is_there() ? load(d_h.at(n) + unit, left) : Vector<T>{};
        const Vector<T> before = load(step.c_before.at(n) + unit, left), cell = load(c.at(n) + unit, left);
        Vector<T> d_cell = d_c.is_there() ? load(d_c.at(n) + unit, left) : Vector<T>{};
        const auto d_gates = lstm_cell_grad<T>(gates, step.peepholes, units, unit, before, cell, dh, d_cell);
        store_gates<T>(d_gates, d_z.at(n), units, unit, left, step.i_first);
        store(d_c_before.at(n) + unit, d_cell, left);
      }
    });
    std::memset(d_peepholes, 0, 3 * units * sizeof(T));
    std::memset(d_bias, 0, 4 * units * sizeof(T));
    for (int64_t n = 0; step.bias != nullptr && n < step.num; ++n)
      for (int64_t i = 0; i < 4 * units; ++i) d_bias[i] += d_z.at(n)[i];
    if (step.peepholes == nullptr) return;
    for (int64_t n = 0; n < step.num; ++n) {
      const T *dz = d_z.at(n), *dz_i = dz + (step.i_first ? 0 : units);
      for (int64_t unit = 0; unit < units; ++unit) {
        d_peepholes[unit] += dz_i[unit] * step.c_before.at(n)[unit];
        d_peepholes[units + unit] += dz[2 * units + unit] * step.c_before.at(n)[unit];
        d_peepholes[2 * units + unit] += dz[3 * units + unit] * c.at(n)[unit];
      }
    }
  });
  return nullptr;
}

// The gates are j, i, f, o, or if `i_first` i, j, f, o.
RETURNN_KERNEL(lstm_step,
               "z: real[N, 4F], c_before: real[N, F], peepholes: real[3, F]?, bias: real[4F]?; i_first: bool -> "
               "h: real[N, F], c: real[N, F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? step_forward<double>(call) : step_forward<float>(call);
}

RETURNN_KERNEL(lstm_step_grad,
               "z: real[N, 4F], c_before: real[N, F], peepholes: real[3, F]?, bias: real[4F]?, c: real[N, F], "
               "d_h: real[N, F]?, d_c: real[N, F]?; i_first: bool -> "
               "d_z: real[N, 4F], d_c_before: real[N, F], d_peepholes: real[3, F], d_bias: real[4F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? step_backward<double>(call) : step_backward<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
