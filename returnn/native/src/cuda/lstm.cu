// The LSTM on GPUs; see ../lstm.cpp for the formula.
#include "../kernel.h"
#include "../lstm_formulas.h"
#include "over_frames.h"
#include "sequences.h"
#include "unit.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

constexpr int NUM_GATES = 4;

using Values = LstmValues<NumberMath>;

template <class T>
RETURNN_DEVICE Values load_gates(const T *from, int64_t units, int64_t unit) {
  return {to_float(from[unit]), to_float(from[units + unit]), to_float(from[2 * units + unit]), to_float(from[3 * units + unit])};
}

template <class T>
RETURNN_DEVICE void store_gates(const Values &gates, T *to, int64_t units, int64_t unit) {
  from_float(gates.j, to[unit]);
  from_float(gates.i, to[units + unit]);
  from_float(gates.f, to[2 * units + unit]);
  from_float(gates.o, to[3 * units + unit]);
}

// Of i, f, o.
template <class T>
RETURNN_DEVICE Values load_peepholes(const T *from, int64_t units, int64_t unit) {
  if (from == nullptr) return {};
  return {0.f, to_float(from[unit]), to_float(from[units + unit]), to_float(from[2 * units + unit])};
}

template <class T>
struct LstmForward {
  using Element = T;
  static constexpr int NUM_STAGES = 1;
  static constexpr bool IS_GRADIENT = false;
  RETURNN_METHOD static constexpr int gates(int) { return NUM_GATES; }

  struct Ahead {
    Values x, peepholes;
    float cell;
  };

  Sequences sequences;
  int64_t units;
  Frames<const T> x, h0;
  Frames<const float> c0;
  const T *peepholes;
  Frames<T> h, gate_values;
  Frames<float> c;

  RETURNN_METHOD int64_t depth(int) const { return units; }

  template <int>
  RETURNN_DEVICE int64_t num_rows(int64_t step) const {
    return sequences.active[step];
  }

  template <int>
  RETURNN_DEVICE int64_t num_products(int64_t step) const {
    return sequences.active[step];
  }

  template <int>
  RETURNN_DEVICE const T *row(int64_t step, int64_t sorted) const {
    return frame_before(sequences, h0, h.to_read(), sorted, step);
  }

  template <int>
  RETURNN_DEVICE Ahead ahead(int64_t step, int64_t sorted, int64_t unit) const {
    const T *z = x.at(sequences.frame(sorted, step), sequences.entry(sorted));
    const float *before = frame_before(sequences, c0, c.to_read(), sorted, step);
    return {load_gates(z, units, unit), load_peepholes(peepholes, units, unit), before[unit]};
  }

  template <int>
  RETURNN_DEVICE void finish(int64_t step, int64_t sorted, int64_t unit, const float *sums, const Ahead &ahead) const {
    const int64_t t = sequences.frame(sorted, step), n = sequences.entry(sorted);
    Values gates{sums[0] + ahead.x.j, sums[1] + ahead.x.i, sums[2] + ahead.x.f, sums[3] + ahead.x.o};
    const float cell = lstm_new_cell<NumberMath>(gates, peepholes != nullptr, ahead.peepholes, ahead.cell);
    c.at(t, n)[unit] = cell;
    from_float(lstm_output<NumberMath>(gates, cell), h.at(t, n)[unit]);
    store_gates(gates, gate_values.at(t, n), units, unit);
  }
};

// Step by step, `d_c0` has the gradient of the cell behind it, and in the end that of the first one.
template <class T>
struct LstmBackward {
  using Element = T;
  static constexpr int NUM_STAGES = 1;
  static constexpr bool IS_GRADIENT = true;
  RETURNN_METHOD static constexpr int gates(int) { return 1; }

  struct Ahead {
    Values gates, peepholes;
    float before, cell, d_h, d_cell;
  };

  Sequences sequences;
  int64_t units;
  const T *peepholes;
  Frames<const float> c0, c;
  Frames<const T> gate_values, d_h, d_last_h;
  Frames<const float> d_c, d_last_c;
  Frames<T> dz, d_h0;
  Frames<float> d_c0;

  RETURNN_METHOD int64_t depth(int) const { return NUM_GATES * units; }

  template <int>
  RETURNN_DEVICE int64_t num_rows(int64_t step) const {
    return step < 0 ? sequences.num : sequences.active[step];
  }

  template <int>
  RETURNN_DEVICE int64_t num_products(int64_t step) const {
    return sequences.active[step + 1];
  }

  template <int>
  RETURNN_DEVICE const T *row(int64_t step, int64_t sorted) const {
    return dz.at(sequences.frame(sorted, step + 1), sequences.entry(sorted));
  }

  template <int>
  RETURNN_DEVICE Ahead ahead(int64_t step, int64_t sorted, int64_t unit) const {
    const int64_t n = sequences.entry(sorted);
    Ahead loaded{};
    if (step == sequences.length(sorted) - 1) {
      if (d_last_h.is_there()) loaded.d_h = to_float(d_last_h.at(n)[unit]);
      if (d_last_c.is_there()) loaded.d_cell = d_last_c.at(n)[unit];
    } else {
      loaded.d_cell = d_c0.at(n)[unit];
    }
    if (step < 0) return loaded;
    const int64_t t = sequences.frame(sorted, step);
    if (d_h.is_there()) loaded.d_h += to_float(d_h.at(t, n)[unit]);
    if (d_c.is_there()) loaded.d_cell += d_c.at(t, n)[unit];
    loaded.gates = load_gates(gate_values.at(t, n), units, unit);
    loaded.peepholes = load_peepholes(peepholes, units, unit);
    loaded.before = frame_before(sequences, c0, c, sorted, step)[unit];
    loaded.cell = c.at(t, n)[unit];
    return loaded;
  }

  template <int>
  RETURNN_DEVICE void finish(int64_t step, int64_t sorted, int64_t unit, const float *sums, const Ahead &ahead) const {
    const int64_t n = sequences.entry(sorted);
    const float dh = sums[0] + ahead.d_h;
    float d_cell = ahead.d_cell;
    if (step < 0) {
      from_float(dh, d_h0.at(n)[unit]);
      d_c0.at(n)[unit] = d_cell;
      return;
    }
    const Values gradients = lstm_new_cell_grad<NumberMath>(ahead.gates, peepholes != nullptr, ahead.peepholes, ahead.before,
                                                            ahead.cell, dh, d_cell);
    store_gates(gradients, dz.at(sequences.frame(sorted, step), n), units, unit);
    d_c0.at(n)[unit] = d_cell;
  }
};

template <class T>
struct RowsOfLstm {
  Sequences sequences;
  Frames<const T> h0, h, dz;

  RETURNN_DEVICE const T *left(FrameRow at) const { return frame_before(sequences, h0, h, at.sorted, at.step); }
  RETURNN_DEVICE const T *right(FrameRow at) const { return dz.at(sequences.frame(at.sorted, at.step), sequences.entry(at.sorted)); }
};

// Gradients of the peepholes of i, f (for the cell before) and o (for the cell), summed over all frames. A block has some
// units of one gate; its rows of threads take frames in turns.
template <class T>
struct PeepholeGradient {
  static constexpr int THREADS = BLOCK_THREADS;
  static constexpr int64_t SHARED_BYTES = BLOCK_THREADS * sizeof(float);
  Sequences sequences;
  int64_t units;
  Frames<const float> c0, c;
  Frames<const T> dz;
  T *result;  // (3, units)

  RETURNN_DEVICE void operator()() const {
    float *const sums = reinterpret_cast<float *>(shared_memory());
    const int64_t unit = static_cast<int64_t>(block_x()) * WARP_SIZE + thread() % WARP_SIZE;
    float sum = 0.f;
    for (int64_t at = thread() / WARP_SIZE; unit < units && at < sequences.num * sequences.num_frames; at += BLOCK_WARPS) {
      const int64_t step = at / sequences.num, sorted = at % sequences.num;
      if (step >= sequences.length(sorted)) continue;
      const int64_t t = sequences.frame(sorted, step), n = sequences.entry(sorted);
      const float *cell = block_y() == 2 ? c.at(t, n) : frame_before(sequences, c0, c, sorted, step);
      sum = fmaf(to_float(dz.at(t, n)[(block_y() + 1) * units + unit]), cell[unit], sum);
    }
    sums[thread()] = sum;
    sync_block();
    if (thread() >= WARP_SIZE || unit >= units) return;
    for (int warp = 1; warp < BLOCK_WARPS; ++warp) sum += sums[warp * WARP_SIZE + thread()];
    result[block_y() * units + unit] = as<T>(sum);
  }
};

template <class T>
const char *lstm_forward(const returnn_call *call) {
  const returnn_array *in = call->inputs, *out = call->outputs;
  const Stream stream = static_cast<Stream>(call->stream);
  const int64_t units = in[1].sizes[0];
  LstmForward<T> unit{{},
                      units,
                      Frames<const T>(in[0]),
                      Frames<const T>(in[3]),
                      Frames<const float>(in[2]),
                      Frames<const T>(in[5]).data,
                      Frames<T>(out[0]),
                      Frames<T>(out[4]),
                      Frames<float>(out[1])};
  Panels<LstmForward<T>> panels;
  const PanelWeight<T, NUM_GATES> weight{Frames<const T>(in[1]), Frames<const uint8_t>(in[6]), units};
  const char *error = sort_sequences(in[4], in[0].sizes[0], call->options[0] != 0, call, unit.sequences);
  if (!error) error = ClearPadding<T>{unit.sequences, unit.h, units}.launch_in(stream);
  if (!error) error = ClearPadding<float>{unit.sequences, unit.c, units}.launch_in(stream);
  if (!error) error = ClearPadding<T>{unit.sequences, unit.gate_values, NUM_GATES * units}.launch_in(stream);
  if (!error) error = pack_panels(unit, 0, weight, call, panels);
  if (!error) error = run_unit(unit, panels, call);
  const Frames<const T> h(out[0]);
  const Frames<const float> c(out[1]);
  if (!error) error = LastState<T>{unit.sequences, unit.h0, h, Frames<T>(out[2]), units}.launch_in(stream);
  if (!error) error = LastState<float>{unit.sequences, unit.c0, c, Frames<float>(out[3]), units}.launch_in(stream);
  return error;
}

template <class T>
const char *lstm_backward(const returnn_call *call) {
  const returnn_array *in = call->inputs, *out = call->outputs;
  const Stream stream = static_cast<Stream>(call->stream);
  const int64_t units = in[0].sizes[0];
  const Frames<const uint8_t> mask(in[5]);
  LstmBackward<T> unit{{},
                       units,
                       Frames<const T>(in[4]).data,
                       Frames<const float>(in[1]),
                       Frames<const float>(in[7]),
                       Frames<const T>(in[8]),
                       Frames<const T>(in[9]),
                       Frames<const T>(in[11]),
                       Frames<const float>(in[10]),
                       Frames<const float>(in[12]),
                       Frames<T>(out[0]),
                       Frames<T>(out[3]),
                       Frames<float>(out[2])};
  Panels<LstmBackward<T>> panels;
  const char *error = sort_sequences(in[3], in[6].sizes[0], call->options[0] != 0, call, unit.sequences);
  if (!error) error = ClearPadding<T>{unit.sequences, unit.dz, NUM_GATES * units}.launch_in(stream);
  if (!error) error = pack_panels(unit, 0, TransposedPanelWeight<T>{Frames<const T>(in[0]), mask, units}, call, panels);
  if (!error) error = run_unit(unit, panels, call);
  const RowsOfLstm<T> rows{unit.sequences, Frames<const T>(in[2]), Frames<const T>(in[6]), Frames<const T>(out[0])};
  T *d_weights = static_cast<T *>(out[1].data), *d_peepholes = static_cast<T *>(out[4].data);
  if (!error) error = product_over_frames<T>(unit.sequences, rows, units, NUM_GATES * units, mask, d_weights, call);
  if (error) return error;
  if (unit.peepholes == nullptr) return clear(d_peepholes, 3 * units * static_cast<int64_t>(sizeof(T)), stream);
  using Kernel = PeepholeGradient<T>;
  const Kernel kernel{unit.sequences, units, unit.c0, unit.c, rows.dz, d_peepholes};
  return launch(kernel, {round_up(units, WARP_SIZE) / WARP_SIZE, 3}, Kernel::SHARED_BYTES, stream);
}

RETURNN_KERNEL(lstm, RETURNN_LSTM_SIGNATURE) {
  return run_for_type(call, [call](auto type) { return lstm_forward<decltype(type)>(call); });
}

RETURNN_KERNEL(lstm_grad, RETURNN_LSTM_GRAD_SIGNATURE) {
  return run_for_type(call, [call](auto type) { return lstm_backward<decltype(type)>(call); });
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
