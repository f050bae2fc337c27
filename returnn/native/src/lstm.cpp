// LSTM (Hochreiter and Schmidhuber 1997) with forget gate (Gers et al. 2000), and peepholes if they are given:
//
//     z = x + h' W                     the gates j, i, f, o side by side; c' and h' are of the frame before
//     j, i, f, o = tanh(z_j), sigmoid(z_i + p_i c'), sigmoid(z_f + p_f c'), sigmoid(z_o + p_o c)
//     c = f c' + i j
//     h = o tanh(c)
#include "kernel.h"
#include "lstm_gates.h"
#include "matrix.h"
#include "recurrent.h"
#include "simd.h"
#include "sparse.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

constexpr int NUM_GATES = 4;

// `z` is the product of the frame before with the weights.
template <class T>
RETURNN_INLINE void lstm_frame(const Vector<T> *z, const T *x, const T *peepholes, int64_t units, int64_t unit, const T *c_before,
                               T *c, T *h, T *gates) {
  const int64_t num = units - unit;
  LstmGates<T> values(x, units, unit, num);
  values.j = z[0] + values.j;
  values.i = z[1] + values.i;
  values.f = z[2] + values.f;
  values.o = z[3] + values.o;
  const Vector<T> cell = lstm_cell<T>(values, peepholes, units, unit, load(c_before + unit, num));
  store(c + unit, cell, num);
  store(h + unit, lstm_output<VectorMath<T>>(values, cell), num);
  store_gates<T>(values, gates, units, unit, num);
}

// Its gradient: from those of h and c, `dc` of the frame before (in place) and dz.
template <class T>
RETURNN_INLINE void lstm_frame_grad(Vector<T> dh, const T *dc_out, T *dc, const T *peepholes, int64_t units, int64_t unit,
                                    const T *c_before, const T *c, const T *gates, T *dz) {
  const int64_t num = units - unit;
  Vector<T> d_cell = load(dc + unit, num);
  if (dc_out != nullptr) d_cell = d_cell + load(dc_out + unit, num);
  const auto d_gates = lstm_cell_grad<T>(LstmGates<T>(gates, units, unit, num), peepholes, units, unit,
                                         load(c_before + unit, num), load(c + unit, num), dh, d_cell);
  store_gates<T>(d_gates, dz, units, unit, num);
  store(dc + unit, d_cell, num);
}

// `panels` are the weights, of which all can be other than 0, or only some.
template <class T, class Matrix>
const char *lstm_forward_with(const returnn_call *call, Matrix &panels) {
  const Frames<const T> x(call->inputs[0]), c0(call->inputs[2]), h0(call->inputs[3]);
  const returnn_array &weights = call->inputs[1];
  const T *peepholes = Frames<const T>(call->inputs[5]).data;
  const Frames<T> h(call->outputs[0]), c(call->outputs[1]), last_h(call->outputs[2]), last_c(call->outputs[3]);
  const Frames<T> gates(call->outputs[4]);
  const int64_t units = weights.sizes[0];
  const Sequences sequences(static_cast<const int32_t *>(call->inputs[4].data), call->inputs[0].sizes[1],
                            call->inputs[0].sizes[0], call->options[0] != 0);
  if (sequences.error != nullptr) return sequences.error;
  with_team(call->threads, [&](Team &team) {
    panels.pack(team, static_cast<const T *>(weights.data), weights.strides[0]);
    sequences.clear_padding(team, h, units);
    sequences.clear_padding(team, c, units);
    sequences.clear_padding(team, gates, NUM_GATES * units);
    const auto before = [&](const Frames<const T> &first, const Frames<T> &frames, int64_t sorted, int64_t step) {
      const int64_t n = sequences.entry(sorted);
      return step == 0 ? first.at(n) : frames.at(sequences.frame(sorted, step - 1), n);
    };
    for_each_step(team, sequences, panels.num, 1, 0, sequences.steps, 1, [&](int64_t step, int, Rows rows, Range range) {
      const int64_t num_rows = rows.num_below(sequences.active(step));
      for (int64_t p = range.begin; p < range.end; ++p)
        panels.template product<NUM_GATES>(
            p, num_rows, [&](int64_t i) { return before(h0, h, rows[i], step); },
            [&](int64_t i, const Vector<T> *z) {
              const int64_t sorted = rows[i], n = sequences.entry(sorted), t = sequences.frame(sorted, step);
              lstm_frame<T>(z, x.at(t, n), peepholes, units, p * panels.W, before(c0, c, sorted, step), c.at(t, n), h.at(t, n),
                            gates.at(t, n));
            });
    });
    for (int64_t sorted = 0; sorted < sequences.num; ++sorted) {
      const int64_t n = sequences.entry(sorted), length = sequences.length(sorted);
      std::memcpy(last_h.at(n), before(h0, h, sorted, length), units * sizeof(T));
      std::memcpy(last_c.at(n), before(c0, c, sorted, length), units * sizeof(T));
    }
  });
  return nullptr;
}

template <class T>
const char *lstm_forward(const returnn_call *call) {
  const int64_t units = call->inputs[1].sizes[0];
  const Mask mask(call->inputs[6], false);
  if (mask.is_there()) {
    SparsePanels<T> panels(mask, units, NUM_GATES * units, NUM_GATES);
    return lstm_forward_with<T>(call, panels);
  }
  GatePanels<T, NUM_GATES> panels(units, units);
  return lstm_forward_with<T>(call, panels);
}

// `panels` are the transposed weights, which pack(team) fills.
template <class T, int NV, class Matrix, class Pack>
const char *lstm_backward_with(const returnn_call *call, const Matrix &panels, const Pack &pack) {
  const returnn_array &weights = call->inputs[0];
  const Frames<const T> c0(call->inputs[1]), h0(call->inputs[2]), h(call->inputs[6]), c(call->inputs[7]), gates(call->inputs[8]);
  const T *peepholes = Frames<const T>(call->inputs[4]).data;
  const Frames<const T> d_h(call->inputs[9]), d_c(call->inputs[10]), d_last_h(call->inputs[11]), d_last_c(call->inputs[12]);
  const Mask mask(call->inputs[5], false);
  const Frames<T> dz(call->outputs[0]), d_c0(call->outputs[2]), d_h0(call->outputs[3]);
  T *d_peepholes = static_cast<T *>(call->outputs[4].data);
  const int64_t units = weights.sizes[0];
  const Sequences sequences(static_cast<const int32_t *>(call->inputs[3].data), call->inputs[6].sizes[1],
                            call->inputs[6].sizes[0], call->options[0] != 0);
  if (sequences.error != nullptr) return sequences.error;
  constexpr int W = Simd<T>::WIDTH;
  const Buffer<const T *> h_rows(sequences.total), c_rows(sequences.total), dz_rows(sequences.total);
  const auto before = [&](const Frames<const T> &first, const Frames<const T> &frames, int64_t sorted, int64_t step) {
    const int64_t n = sequences.entry(sorted);
    return step == 0 ? first.at(n) : frames.at(sequences.frame(sorted, step - 1), n);
  };
  with_team(call->threads, [&](Team &team) {
    pack(team);
    sequences.clear_padding(team, dz, NUM_GATES * units);
    for (int64_t n = 0; n < sequences.num; ++n) {
      if (d_last_c.is_there())
        std::memcpy(d_c0.at(n), d_last_c.at(n), units * sizeof(T));
      else
        std::memset(d_c0.at(n), 0, units * sizeof(T));
    }
    // Step -1 is the state before the first frame.
    for_each_step(team, sequences, panels.num, 1, sequences.steps - 1, -2, -1, [&](int64_t step, int, Rows rows, Range range) {
      for (int64_t p = range.begin; p < range.end; ++p) {
        const auto finish = [&](int64_t i, const Vector<T> *sums) {
          const int64_t sorted = rows[i], n = sequences.entry(sorted), t = sequences.frame(sorted, step);
          for (int v = 0; v < NV; ++v) {
            const int64_t unit = (p * NV + v) * W;
            if (unit >= units) break;
            Vector<T> dh = sums[v];
            if (d_last_h.is_there() && step == sequences.length(sorted) - 1)
              dh = dh + load(d_last_h.at(n) + unit, units - unit);
            if (step < 0) {
              store(d_h0.at(n) + unit, dh, units - unit);
              continue;
            }
            if (d_h.is_there()) dh = dh + load(d_h.at(t, n) + unit, units - unit);
            lstm_frame_grad<T>(dh, d_c.is_there() ? d_c.at(t, n) : nullptr, d_c0.at(n), peepholes, units, unit,
                               before(c0, c, sorted, step), c.at(t, n), gates.at(t, n), dz.at(t, n));
          }
        };
        const int64_t num_after = rows.num_below(sequences.active(step + 1));
        const int64_t num_rows = rows.num_below(step < 0 ? sequences.num : sequences.active(step));
        panels.template product<NV>(
            p, num_after,
            [&](int64_t i) { return dz.at(sequences.frame(rows[i], step + 1), sequences.entry(rows[i])); }, finish);
        const Vector<T> zeros[NV] = {};
        for (int64_t i = num_after; i < num_rows; ++i) finish(i, zeros);
      }
    });
    int64_t at = 0;
    for (int64_t sorted = 0; sorted < sequences.num; ++sorted)
      for (int64_t step = 0; step < sequences.length(sorted); ++step, ++at) {
        h_rows[at] = before(h0, h, sorted, step);
        c_rows[at] = before(c0, c, sorted, step);
        dz_rows[at] = dz.at(sequences.frame(sorted, step), sequences.entry(sorted));
      }
    product_over_frames<T>(team, at, h_rows.data(), dz_rows.data(), units, NUM_GATES * units,
                           static_cast<T *>(call->outputs[1].data), mask.is_there() ? &mask : nullptr);
    std::memset(d_peepholes, 0, 3 * units * sizeof(T));
    if (peepholes == nullptr) return;
    for (int64_t sorted = 0, row = 0; sorted < sequences.num; ++sorted)
      for (int64_t step = 0; step < sequences.length(sorted); ++step, ++row) {
        const T *cell = c.at(sequences.frame(sorted, step), sequences.entry(sorted));
        for (int64_t unit = 0; unit < units; ++unit) {
          d_peepholes[unit] += dz_rows[row][units + unit] * c_rows[row][unit];
          d_peepholes[units + unit] += dz_rows[row][2 * units + unit] * c_rows[row][unit];
          d_peepholes[2 * units + unit] += dz_rows[row][3 * units + unit] * cell[unit];
        }
      }
  });
  return nullptr;
}

template <class T>
const char *lstm_backward(const returnn_call *call) {
  const returnn_array &weights = call->inputs[0];
  const T *data = static_cast<const T *>(weights.data);
  const int64_t units = weights.sizes[0], stride = weights.strides[0];
  const Mask mask(call->inputs[5], true);
  if (mask.is_there()) {
    SparsePanels<T> panels(mask, NUM_GATES * units, units, 1);
    return lstm_backward_with<T, 1>(call, panels, [&](Team &team) { panels.pack(team, data, stride); });
  }
  constexpr int NV = 4;
  const Panels<T, NV> panels(NUM_GATES * units, units);
  return lstm_backward_with<T, NV>(call, panels, [&](Team &team) { pack_transposed<T, NV>(team, data, stride, panels); });
}

// `backward`: from the last frame of each sequence to the first. Behind the ends, all results are 0. Where `mask`
// is 0, weights count as 0, and cost nothing.
RETURNN_KERNEL(lstm, RETURNN_LSTM_SIGNATURE) {
  return call->inputs[0].type == RETURNN_FLOAT64 ? lstm_forward<double>(call) : lstm_forward<float>(call);
}

RETURNN_KERNEL(lstm_grad, RETURNN_LSTM_GRAD_SIGNATURE) {
  return call->inputs[0].type == RETURNN_FLOAT64 ? lstm_backward<double>(call) : lstm_backward<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
