// The GRU on GPUs; see ../gru.cpp for the formula.
#include "../gru_formulas.h"
#include "../kernel.h"
#include "over_frames.h"
#include "sequences.h"
#include "unit.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

using Math = NumberMath;

// First stage: both gates, and r h'. Second stage: the candidate, and h.
template <class T>
struct GruForward {
  using Element = T;
  static constexpr int NUM_STAGES = 2;
  static constexpr bool IS_GRADIENT = false;
  RETURNN_METHOD static constexpr int gates(int stage) { return stage == 0 ? 2 : 1; }

  struct Ahead {
    float x[2], before, u;
  };

  Sequences sequences;
  int64_t units;
  Frames<const T> x, h0;
  Frames<T> h, gate_values, reset;

  RETURNN_METHOD int64_t depth(int) const { return units; }

  template <int>
  RETURNN_DEVICE int64_t num_rows(int64_t step) const {
    return sequences.active[step];
  }

  template <int>
  RETURNN_DEVICE int64_t num_products(int64_t step) const {
    return sequences.active[step];
  }

  template <int STAGE>
  RETURNN_DEVICE const T *row(int64_t step, int64_t sorted) const {
    if constexpr (STAGE == 0)
      return frame_before(sequences, h0, h.to_read(), sorted, step);
    else
      return reset.at(sequences.frame(sorted, step), sequences.entry(sorted));
  }

  template <int STAGE>
  RETURNN_DEVICE Ahead ahead(int64_t step, int64_t sorted, int64_t unit) const {
    const int64_t t = sequences.frame(sorted, step), n = sequences.entry(sorted);
    const T *z = x.at(t, n);
    const float before = to_float(frame_before(sequences, h0, h.to_read(), sorted, step)[unit]);
    if constexpr (STAGE == 0)
      return {{to_float(z[unit]), to_float(z[units + unit])}, before, 0.f};
    else
      return {{to_float(z[2 * units + unit]), 0.f}, before, to_float(gate_values.at(t, n)[units + unit])};
  }

  template <int STAGE>
  RETURNN_DEVICE void finish(int64_t step, int64_t sorted, int64_t unit, const float *sums, const Ahead &ahead) const {
    const int64_t t = sequences.frame(sorted, step), n = sequences.entry(sorted);
    T *values = gate_values.at(t, n);
    if constexpr (STAGE == 0) {
      const GruGates<Math> gates = gru_gates<Math>(sums[0] + ahead.x[0], sums[1] + ahead.x[1]);
      from_float(gates.r, values[unit]);
      from_float(gates.u, values[units + unit]);
      from_float(gates.r * ahead.before, reset.at(t, n)[unit]);
    } else {
      const float candidate = Math::tanh(sums[0] + ahead.x[0]);
      from_float(candidate, values[2 * units + unit]);
      from_float(gru_state<Math>(ahead.u, candidate, ahead.before), h.at(t, n)[unit]);
    }
  }
};

// First stage: from the gradients of both gates of the frame behind to that of the state, and so to those of z_u and z_n.
// Second stage: from that of z_n to that of z_r. `carried` is what comes to the state before a frame without a matrix.
template <class T>
struct GruBackward {
  using Element = T;
  static constexpr int NUM_STAGES = 2;
  static constexpr bool IS_GRADIENT = true;
  RETURNN_METHOD static constexpr int gates(int) { return 1; }

  struct Ahead {
    float d_h, before, r, u, candidate;
  };

  Sequences sequences;
  int64_t units;
  Frames<const T> h0, h, gate_values, d_h, d_last_h;
  Frames<T> dz, d_h0;
  float *carried;  // (N, units)

  RETURNN_METHOD int64_t depth(int stage) const { return stage == 0 ? 2 * units : units; }

  template <int STAGE>
  RETURNN_DEVICE int64_t num_rows(int64_t step) const {
    if (step >= 0) return sequences.active[step];
    return STAGE == 0 ? sequences.num : 0;
  }

  template <int STAGE>
  RETURNN_DEVICE int64_t num_products(int64_t step) const {
    return STAGE == 0 ? sequences.active[step + 1] : num_rows<STAGE>(step);
  }

  template <int STAGE>
  RETURNN_DEVICE const T *row(int64_t step, int64_t sorted) const {
    const T *gradients = dz.at(sequences.frame(sorted, STAGE == 0 ? step + 1 : step), sequences.entry(sorted));
    return STAGE == 0 ? gradients : gradients + 2 * units;
  }

  template <int STAGE>
  RETURNN_DEVICE Ahead ahead(int64_t step, int64_t sorted, int64_t unit) const {
    const int64_t n = sequences.entry(sorted);
    Ahead loaded{};
    if (STAGE == 1 || step < sequences.length(sorted) - 1)
      loaded.d_h = carried[n * units + unit];
    else if (d_last_h.is_there())
      loaded.d_h = to_float(d_last_h.at(n)[unit]);
    if (step < 0) return loaded;
    const int64_t t = sequences.frame(sorted, step);
    const T *values = gate_values.at(t, n);
    if (STAGE == 0 && d_h.is_there()) loaded.d_h += to_float(d_h.at(t, n)[unit]);
    loaded.before = to_float(frame_before(sequences, h0, h, sorted, step)[unit]);
    loaded.r = to_float(values[unit]);
    loaded.u = to_float(values[units + unit]);
    loaded.candidate = to_float(values[2 * units + unit]);
    return loaded;
  }

  template <int STAGE>
  RETURNN_DEVICE void finish(int64_t step, int64_t sorted, int64_t unit, const float *sums, const Ahead &ahead) const {
    const int64_t n = sequences.entry(sorted);
    const float gradient = sums[0] + (STAGE == 0 ? ahead.d_h : 0.f);
    if (step < 0) {
      from_float(gradient, d_h0.at(n)[unit]);
      return;
    }
    T *to = dz.at(sequences.frame(sorted, step), n);
    if constexpr (STAGE == 0) {
      from_float(gru_update_grad<Math>(gradient, ahead.u, ahead.candidate, ahead.before), to[units + unit]);
      from_float(gru_candidate_grad<Math>(gradient, ahead.u, ahead.candidate), to[2 * units + unit]);
      carried[n * units + unit] = gradient * ahead.u;
    } else {
      from_float(gru_reset_grad<Math>(gradient, ahead.r, ahead.before), to[unit]);
      carried[n * units + unit] = Math::multiply_add(gradient, ahead.r, ahead.d_h);
    }
  }
};

// For the weights of the gates: the state before each frame, and gradients of both gates.
template <class T>
struct RowsOfGates {
  Sequences sequences;
  Frames<const T> h0, h, dz;

  RETURNN_DEVICE const T *left(FrameRow at) const { return frame_before(sequences, h0, h, at.sorted, at.step); }
  RETURNN_DEVICE const T *right(FrameRow at) const { return dz.at(sequences.frame(at.sorted, at.step), sequences.entry(at.sorted)); }
};

// For those of the candidate: r h' of each frame, and gradients of the candidate.
template <class T>
struct RowsOfCandidate {
  Sequences sequences;
  Frames<const T> reset, dz;
  int64_t units;

  RETURNN_DEVICE const T *left(FrameRow at) const { return reset.at(sequences.frame(at.sorted, at.step), sequences.entry(at.sorted)); }
  RETURNN_DEVICE const T *right(FrameRow at) const {
    return dz.at(sequences.frame(at.sorted, at.step), sequences.entry(at.sorted)) + 2 * units;
  }
};

template <class T>
const char *gru_forward(const returnn_call *call) {
  const returnn_array *in = call->inputs, *out = call->outputs;
  const Stream stream = static_cast<Stream>(call->stream);
  const int64_t units = in[2].sizes[0];
  GruForward<T> unit{{},           units, Frames<const T>(in[0]), Frames<const T>(in[3]), Frames<T>(out[0]), Frames<T>(out[2]),
                     Frames<T>(out[3])};
  Panels<GruForward<T>> panels;
  const char *error = sort_sequences(in[4], in[0].sizes[0], call->options[0] != 0, call, unit.sequences);
  if (!error) error = ClearPadding<T>{unit.sequences, unit.h, units}.launch_in(stream);
  if (!error) error = ClearPadding<T>{unit.sequences, unit.gate_values, 3 * units}.launch_in(stream);
  if (!error) error = ClearPadding<T>{unit.sequences, unit.reset, units}.launch_in(stream);
  if (!error) error = pack_panels(unit, 0, PanelWeight<T, 2>{Frames<const T>(in[1]), {}, units}, call, panels);
  if (!error) error = pack_panels(unit, 1, PanelWeight<T, 1>{Frames<const T>(in[2]), {}, units}, call, panels);
  if (!error) error = run_unit(unit, panels, call);
  if (!error) error = LastState<T>{unit.sequences, unit.h0, unit.h.to_read(), Frames<T>(out[1]), units}.launch_in(stream);
  return error;
}

template <class T>
const char *gru_backward(const returnn_call *call) {
  const returnn_array *in = call->inputs, *out = call->outputs;
  const Stream stream = static_cast<Stream>(call->stream);
  const int64_t units = in[1].sizes[0], num = in[4].sizes[1];
  GruBackward<T> unit{{},
                      units,
                      Frames<const T>(in[2]),
                      Frames<const T>(in[4]),
                      Frames<const T>(in[5]),
                      Frames<const T>(in[7]),
                      Frames<const T>(in[8]),
                      Frames<T>(out[0]),
                      Frames<T>(out[3]),
                      Workspace(call).get<float>(num * units)};
  Panels<GruBackward<T>> panels;
  const char *error = sort_sequences(in[3], in[4].sizes[0], call->options[0] != 0, call, unit.sequences);
  if (!error) error = ClearPadding<T>{unit.sequences, unit.dz, 3 * units}.launch_in(stream);
  if (!error) error = pack_panels(unit, 0, TransposedPanelWeight<T>{Frames<const T>(in[0]), {}, units}, call, panels);
  if (!error) error = pack_panels(unit, 1, TransposedPanelWeight<T>{Frames<const T>(in[1]), {}, units}, call, panels);
  if (!error) error = run_unit(unit, panels, call);
  const RowsOfGates<T> of_gates{unit.sequences, unit.h0, unit.h, unit.dz.to_read()};
  const RowsOfCandidate<T> of_candidate{unit.sequences, Frames<const T>(in[6]), unit.dz.to_read(), units};
  T *d_gate_weights = static_cast<T *>(out[1].data), *d_weights = static_cast<T *>(out[2].data);
  if (!error) error = product_over_frames<T>(unit.sequences, of_gates, units, 2 * units, {}, d_gate_weights, call);
  if (!error) error = product_over_frames<T>(unit.sequences, of_candidate, units, units, {}, d_weights, call);
  return error;
}

RETURNN_KERNEL(gru, RETURNN_GRU_SIGNATURE) {
  return run_for_type(call, [call](auto type) { return gru_forward<decltype(type)>(call); });
}

RETURNN_KERNEL(gru_grad, RETURNN_GRU_GRAD_SIGNATURE) {
  return run_for_type(call, [call](auto type) { return gru_backward<decltype(type)>(call); });
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
