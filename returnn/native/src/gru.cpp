// Gated recurrent unit (Cho et al. 2014):
//
//     r, u = sigmoid(x_r + h' W_r), sigmoid(x_u + h' W_u)     h' is of the frame before
//     n = tanh(x_n + (r h') W)
//     h = n + u (h' - n)
#include "gru_formulas.h"
#include "kernel.h"
#include "matrix.h"
#include "recurrent.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

// First stage: both gates, and r h'.
template <class T>
RETURNN_INLINE void gru_first(const Vector<T> *z, const T *x, int64_t units, int64_t unit, const T *h_before, T *gates, T *reset) {
  const int64_t num = units - unit;
  const GruGates<VectorMath<T>> values =
      gru_gates<VectorMath<T>>(z[0] + load(x + unit, num), z[1] + load(x + units + unit, num));
  store(gates + unit, values.r, num);
  store(gates + units + unit, values.u, num);
  store(reset + unit, values.r * load(h_before + unit, num), num);
}

// Second stage: the candidate n, and h.
template <class T>
RETURNN_INLINE void gru_second(Vector<T> z, const T *x, int64_t units, int64_t unit, const T *h_before, T *gates, T *h) {
  const int64_t num = units - unit;
  const Vector<T> n = vector_tanh<T>(z + load(x + 2 * units + unit, num));
  store(gates + 2 * units + unit, n, num);
  store(h + unit, gru_state<VectorMath<T>>(load(gates + units + unit, num), n, load(h_before + unit, num)), num);
}

// Gradients of z_u and z_n from that of h, and what goes on to h' but for the matrices.
template <class T>
RETURNN_INLINE void gru_second_grad(Vector<T> dh, T *d_before, int64_t units, int64_t unit, const T *h_before, const T *gates,
                                    T *dz) {
  const int64_t num = units - unit;
  const Vector<T> u = load(gates + units + unit, num), n = load(gates + 2 * units + unit, num);
  store(dz + units + unit, gru_update_grad<VectorMath<T>>(dh, u, n, load(h_before + unit, num)), num);
  store(dz + 2 * units + unit, gru_candidate_grad<VectorMath<T>>(dh, u, n), num);
  store(d_before + unit, dh * u, num);
}

// Gradient of z_r from that of r h'.
template <class T>
RETURNN_INLINE void gru_first_grad(Vector<T> d_reset, T *d_before, int64_t units, int64_t unit, const T *h_before, const T *gates,
                                   T *dz) {
  const int64_t num = units - unit;
  const Vector<T> r = load(gates + unit, num);
  store(dz + unit, gru_reset_grad<VectorMath<T>>(d_reset, r, load(h_before + unit, num)), num);
  store(d_before + unit, load(d_before + unit, num) + d_reset * r, num);
}

template <class T>
const char *gru_forward(const returnn_call *call) {
  const Frames<const T> x(call->inputs[0]), h0(call->inputs[3]);
  const returnn_array &gate_weights = call->inputs[1], &weights = call->inputs[2];
  const Frames<T> h(call->outputs[0]), last_h(call->outputs[1]), gates(call->outputs[2]), reset(call->outputs[3]);
  const int64_t units = weights.sizes[0];
  const Sequences sequences(static_cast<const int32_t *>(call->inputs[4].data), call->inputs[0].sizes[1],
                            call->inputs[0].sizes[0], call->options[0] != 0);
  if (sequences.error != nullptr) return sequences.error;
  GatePanels<T, 2> gate_panels(units, units);
  GatePanels<T, 1> panels(units, units);
  with_team(call->threads, [&](Team &team) {
    gate_panels.pack(team, static_cast<const T *>(gate_weights.data), gate_weights.strides[0]);
    panels.pack(team, static_cast<const T *>(weights.data), weights.strides[0]);
    sequences.clear_padding(team, h, units);
    sequences.clear_padding(team, gates, 3 * units);
    sequences.clear_padding(team, reset, units);
    const auto before = [&](int64_t sorted, int64_t step) -> const T * {
      const int64_t n = sequences.entry(sorted);
      return step == 0 ? h0.at(n) : h.at(sequences.frame(sorted, step - 1), n);
    };
    for_each_step(team, sequences, panels.num, 2, 0, sequences.steps, 1, [&](int64_t step, int stage, Rows rows, Range range) {
      const int64_t num_rows = rows.num_below(sequences.active(step));
      const auto frame = [&](int64_t i) { return sequences.frame(rows[i], step); };
      const auto entry = [&](int64_t i) { return sequences.entry(rows[i]); };
      for (int64_t p = range.begin; p < range.end; ++p) {
        const int64_t unit = p * panels.W;
        if (stage == 0)
          product_with_panel<T, 2>(
              units, gate_panels.panel(p), num_rows, [&](int64_t i) { return before(rows[i], step); },
              [&](int64_t i, const Vector<T> *z) {
                const int64_t t = frame(i), n = entry(i);
                gru_first<T>(z, x.at(t, n), units, unit, before(rows[i], step), gates.at(t, n), reset.at(t, n));
              });
        else
          product_with_panel<T, 1>(
              units, panels.panel(p), num_rows, [&](int64_t i) -> const T * { return reset.at(frame(i), entry(i)); },
              [&](int64_t i, const Vector<T> *z) {
                const int64_t t = frame(i), n = entry(i);
                gru_second<T>(z[0], x.at(t, n), units, unit, before(rows[i], step), gates.at(t, n), h.at(t, n));
              });
      }
    });
    for (int64_t sorted = 0; sorted < sequences.num; ++sorted)
      std::memcpy(last_h.at(sequences.entry(sorted)), before(sorted, sequences.length(sorted)), units * sizeof(T));
  });
  return nullptr;
}

template <class T>
const char *gru_backward(const returnn_call *call) {
  const returnn_array &gate_weights = call->inputs[0], &weights = call->inputs[1];
  const Frames<const T> h0(call->inputs[2]), h(call->inputs[4]), gates(call->inputs[5]), reset(call->inputs[6]);
  const Frames<const T> d_h(call->inputs[7]), d_last_h(call->inputs[8]);
  const Frames<T> dz(call->outputs[0]), d_h0(call->outputs[3]);
  const int64_t units = weights.sizes[0];
  const Sequences sequences(static_cast<const int32_t *>(call->inputs[3].data), call->inputs[4].sizes[1],
                            call->inputs[4].sizes[0], call->options[0] != 0);
  if (sequences.error != nullptr) return sequences.error;
  constexpr int NV = 4, W = Simd<T>::WIDTH;
  const Panels<T, NV> gate_panels(2 * units, units), panels(units, units);
  const Buffer<const T *> h_rows(sequences.total), reset_rows(sequences.total), dz_rows(sequences.total), dn_rows(sequences.total);
  const auto before = [&](int64_t sorted, int64_t step) {
    const int64_t n = sequences.entry(sorted);
    return step == 0 ? h0.at(n) : h.at(sequences.frame(sorted, step - 1), n);
  };
  with_team(call->threads, [&](Team &team) {
    pack_transposed<T, NV>(team, static_cast<const T *>(gate_weights.data), gate_weights.strides[0], gate_panels);
    pack_transposed<T, NV>(team, static_cast<const T *>(weights.data), weights.strides[0], panels);
    sequences.clear_padding(team, dz, 3 * units);
    for (int64_t n = 0; n < sequences.num; ++n) {  // what has come so far for the state before a frame
      if (d_last_h.is_there())
        std::memcpy(d_h0.at(n), d_last_h.at(n), units * sizeof(T));
      else
        std::memset(d_h0.at(n), 0, units * sizeof(T));
    }
    // Step -1 is the state before the first frame; it has only the first stage.
    for_each_step(team, sequences, panels.num, 2, sequences.steps - 1, -2, -1, [&](int64_t step, int stage, Rows rows, Range range) {
      const auto for_units = [&](int64_t p, const Vector<T> *sums, const auto &use) {
        for (int v = 0; v < NV; ++v) {
          const int64_t unit = (p * NV + v) * W;
          if (unit < units) use(unit, sums[v]);
        }
      };
      const auto frame = [&](int64_t i) { return sequences.frame(rows[i], step); };
      const auto entry = [&](int64_t i) { return sequences.entry(rows[i]); };
      for (int64_t p = range.begin; p < range.end; ++p) {
        const auto output = [&](int64_t i, const Vector<T> *sums) {
          const int64_t n = entry(i), t = frame(i);
          for_units(p, sums, [&](int64_t unit, Vector<T> sum) {
            Vector<T> dh = sum + load(d_h0.at(n) + unit, units - unit);
            if (step < 0) return store(d_h0.at(n) + unit, dh, units - unit);
            if (d_h.is_there()) dh = dh + load(d_h.at(t, n) + unit, units - unit);
            gru_second_grad<T>(dh, d_h0.at(n), units, unit, before(rows[i], step), gates.at(t, n), dz.at(t, n));
          });
        };
        const int64_t num_after = rows.num_below(sequences.active(step + 1));
        const int64_t num_rows = rows.num_below(step < 0 ? sequences.num : sequences.active(step));
        if (stage == 0) {
          product_with_panel<T, NV>(
              2 * units, gate_panels.panel(p), num_after,
              [&](int64_t i) -> const T * { return dz.at(sequences.frame(rows[i], step + 1), entry(i)); }, output);
          const Vector<T> zeros[NV] = {};
          for (int64_t i = num_after; i < num_rows; ++i) output(i, zeros);
        } else if (step >= 0) {
          product_with_panel<T, NV>(
              units, panels.panel(p), num_rows,
              [&](int64_t i) -> const T * { return dz.at(frame(i), entry(i)) + 2 * units; },
              [&](int64_t i, const Vector<T> *sums) {
                const int64_t n = entry(i), t = frame(i);
                for_units(p, sums, [&](int64_t unit, Vector<T> sum) {
                  gru_first_grad<T>(sum, d_h0.at(n), units, unit, before(rows[i], step), gates.at(t, n), dz.at(t, n));
                });
              });
        }
      }
    });
    int64_t at = 0;
    for (int64_t sorted = 0; sorted < sequences.num; ++sorted)
      for (int64_t step = 0; step < sequences.length(sorted); ++step, ++at) {
        const int64_t t = sequences.frame(sorted, step), n = sequences.entry(sorted);
        h_rows[at] = before(sorted, step);
        reset_rows[at] = reset.at(t, n);
        dz_rows[at] = dz.at(t, n);
        dn_rows[at] = dz.at(t, n) + 2 * units;
      }
    product_over_frames<T>(team, at, h_rows.data(), dz_rows.data(), units, 2 * units, static_cast<T *>(call->outputs[1].data));
    product_over_frames<T>(team, at, reset_rows.data(), dn_rows.data(), units, units, static_cast<T *>(call->outputs[2].data));
  });
  return nullptr;
}

// x are r, u, n side by side. `backward`: from the last frame of each sequence to the first.
RETURNN_KERNEL(gru, RETURNN_GRU_SIGNATURE) {
  return call->inputs[0].type == RETURNN_FLOAT64 ? gru_forward<double>(call) : gru_forward<float>(call);
}

RETURNN_KERNEL(gru_grad, RETURNN_GRU_GRAD_SIGNATURE) {
  return call->inputs[0].type == RETURNN_FLOAT64 ? gru_backward<double>(call) : gru_backward<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
