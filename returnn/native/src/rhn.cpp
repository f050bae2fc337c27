// Recurrent highway network (Zilly et al. 2017), with D highway layers in each step:
//
//     h, t = tanh, sigmoid of the halves of (m y') W_d     for the first layer with x added
//     y = y' + t (h - y')
//
// y' is of the layer before, and for the first one of the frame before. m is a mask per sequence, if it is given.
#include "kernel.h"
#include "matrix.h"
#include "recurrent.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

// `x` is null but for the first layer; `masked` is m y for the layer after, if there is a mask.
template <class T>
RETURNN_INLINE void rhn_layer(const Vector<T> *z, const T *x, const T *mask, int64_t units, int64_t unit, const T *y_before,
                              T *y, T *masked, T *gates) {
  const int64_t num = units - unit;
  const auto with_x = [&](int gate) { return x == nullptr ? z[gate] : z[gate] + load(x + gate * units + unit, num); };
  const Vector<T> h = vector_tanh<T>(with_x(0)), t = vector_sigmoid<T>(with_x(1)), before = load(y_before + unit, num);
  const Vector<T> value = multiply_add(t, h - before, before);
  store(gates + unit, h, num);
  store(gates + units + unit, t, num);
  store(y + unit, value, num);
  if (mask != nullptr) store(masked + unit, value * load(mask + unit, num), num);
}

// From the gradient of y: dz, and what goes on to y' but for the matrix.
template <class T>
RETURNN_INLINE void rhn_layer_grad(Vector<T> dy, T *d_before, int64_t units, int64_t unit, const T *y_before, const T *gates,
                                   T *dz) {
  const int64_t num = units - unit;
  const Vector<T> one = all(T(1)), h = load(gates + unit, num), t = load(gates + units + unit, num);
  store(dz + unit, dy * t * (one - h * h), num);
  store(dz + units + unit, dy * (h - load(y_before + unit, num)) * t * (one - t), num);
  store(d_before + unit, dy * (one - t), num);
}

// What both directions see: states of all layers, and where the one before is.
template <class T, class State>
struct Layers {
  const Sequences &sequences;
  Frames<const T> h0, mask;
  Frames<State> states, masked;  // (T, N, D, F)
  const T *masked_h0;
  int64_t depth, units;

  const T *before(int64_t sorted, int64_t step, int64_t layer) const {
    const int64_t n = sequences.entry(sorted);
    if (layer > 0) return states.at(sequences.frame(sorted, step), n) + (layer - 1) * units;
    return step == 0 ? h0.at(n) : states.at(sequences.frame(sorted, step - 1), n) + (depth - 1) * units;
  }

  // The same, masked.
  const T *input(int64_t sorted, int64_t step, int64_t layer) const {
    if (!mask.is_there()) return before(sorted, step, layer);
    const int64_t n = sequences.entry(sorted);
    if (layer > 0) return masked.at(sequences.frame(sorted, step), n) + (layer - 1) * units;
    return step == 0 ? masked_h0 + n * units : masked.at(sequences.frame(sorted, step - 1), n) + (depth - 1) * units;
  }
};

template <class T>
void mask_first(const Frames<const T> &h0, const Frames<const T> &mask, int64_t num, int64_t units, T *to) {
  for (int64_t n = 0; mask.is_there() && n < num; ++n)
    for (int64_t unit = 0; unit < units; ++unit) to[n * units + unit] = h0.at(n)[unit] * mask.at(n)[unit];
}

template <class T>
const char *rhn_forward(const returnn_call *call) {
  const Frames<const T> x(call->inputs[0]), h0(call->inputs[2]), mask(call->inputs[4]);
  const returnn_array &weights = call->inputs[1];
  const Frames<T> h(call->outputs[0]), last_h(call->outputs[1]), states(call->outputs[2]), masked(call->outputs[3]);
  const Frames<T> gates(call->outputs[4]);
  const int64_t depth = weights.sizes[0], units = weights.sizes[1];
  const Sequences sequences(static_cast<const int32_t *>(call->inputs[3].data), call->inputs[0].sizes[1],
                            call->inputs[0].sizes[0], call->options[0] != 0);
  if (sequences.error != nullptr) return sequences.error;
  if (depth < 1) return "there has to be a layer";
  if (weights.strides[0] != units * weights.strides[1]) return "the weights have to be dense";
  const Buffer<T> masked_h0(mask.is_there() ? sequences.num * units : 0);
  mask_first(h0, mask, sequences.num, units, masked_h0.data());
  const Layers<T, T> layers{sequences, h0, mask, states, masked, masked_h0.data(), depth, units};
  // Panels of all layers, one after the other.
  GatePanels<T, 2> panels(depth * units, units);
  with_team(call->threads, [&](Team &team) {
    panels.pack(team, static_cast<const T *>(weights.data), weights.strides[1]);
    sequences.clear_padding(team, h, units);
    sequences.clear_padding(team, states, depth * units);
    sequences.clear_padding(team, masked, depth * units);
    sequences.clear_padding(team, gates, 2 * depth * units);
    for_each_step(team, sequences, panels.num, static_cast<int>(depth), 0, sequences.steps, 1,
                  [&](int64_t step, int layer, Rows rows, Range range) {
      for (int64_t p = range.begin; p < range.end; ++p)
        product_with_panel<T, 2>(
            units, panels.panel(p) + layer * units * 2 * panels.W, rows.num_below(sequences.active(step)),
            [&](int64_t i) { return layers.input(rows[i], step, layer); },
            [&](int64_t i, const Vector<T> *z) {
              const int64_t n = sequences.entry(rows[i]), t = sequences.frame(rows[i], step), unit = p * panels.W;
              T *y = states.at(t, n) + layer * units;
              rhn_layer<T>(z, layer == 0 ? x.at(t, n) : nullptr, mask.is_there() ? mask.at(n) : nullptr, units, unit,
                           layers.before(rows[i], step, layer), y, masked.at(t, n) + layer * units,
                           gates.at(t, n) + 2 * layer * units);
              if (layer == depth - 1) store(h.at(t, n) + unit, load(y + unit, units - unit), units - unit);
            });
    });
    for (int64_t sorted = 0; sorted < sequences.num; ++sorted)
      std::memcpy(last_h.at(sequences.entry(sorted)), layers.before(sorted, sequences.length(sorted), 0), units * sizeof(T));
  });
  return nullptr;
}

template <class T>
const char *rhn_backward(const returnn_call *call) {
  const returnn_array &weights = call->inputs[0];
  const Frames<const T> h0(call->inputs[1]), mask(call->inputs[3]), states(call->inputs[4]), masked(call->inputs[5]);
  const Frames<const T> gates(call->inputs[6]), d_h(call->inputs[7]), d_last_h(call->inputs[8]);
  const Frames<T> dx(call->outputs[0]), d_h0(call->outputs[2]);
  const int64_t depth = weights.sizes[0], units = weights.sizes[1];
  const Sequences sequences(static_cast<const int32_t *>(call->inputs[2].data), call->inputs[4].sizes[1],
                            call->inputs[4].sizes[0], call->options[0] != 0);
  if (sequences.error != nullptr) return sequences.error;
  constexpr int NV = 4, W = Simd<T>::WIDTH;
  const Buffer<T> masked_h0(mask.is_there() ? sequences.num * units : 0);
  mask_first(h0, mask, sequences.num, units, masked_h0.data());
  const Layers<T, const T> layers{sequences, h0, mask, states, masked, masked_h0.data(), depth, units};
  const Buffer<T> all_dz(sequences.num_frames * sequences.num * depth * 2 * units);
  const auto dz = [&](int64_t sorted, int64_t step, int64_t layer) {
    const int64_t frame = sequences.frame(sorted, step) * sequences.num + sequences.entry(sorted);
    return all_dz.data() + (frame * depth + layer) * 2 * units;
  };
  const Panels<T, NV> shape(2 * units, units);
  const int64_t panel_size = 2 * units * NV * W;
  const Buffer<T> panels(depth * shape.num * panel_size);
  const Buffer<const T *> inputs(sequences.total), dz_rows(sequences.total);
  with_team(call->threads, [&](Team &team) {
    for (int64_t layer = 0; layer < depth; ++layer) {
      pack_transposed<T, NV>(team, static_cast<const T *>(weights.data) + layer * weights.strides[0], weights.strides[1], shape);
      std::memcpy(panels.data() + layer * shape.num * panel_size, shape.panel(0), shape.num * panel_size * sizeof(T));
    }
    sequences.clear_padding(team, dx, 2 * units);
    for (int64_t n = 0; n < sequences.num; ++n) {  // what has come so far for the state before
      if (d_last_h.is_there())
        std::memcpy(d_h0.at(n), d_last_h.at(n), units * sizeof(T));
      else
        std::memset(d_h0.at(n), 0, units * sizeof(T));
    }
    // Stage by stage, the last layer first. Step -1 is the state before the first frame; it has only the first stage.
    for_each_step(team, sequences, shape.num, static_cast<int>(depth), sequences.steps - 1, -2, -1,
                  [&](int64_t step, int stage, Rows rows, Range range) {
      if (step < 0 && stage > 0) return;
      const int64_t layer = depth - 1 - stage, after = stage == 0 ? 0 : layer + 1, step_after = stage == 0 ? step + 1 : step;
      for (int64_t p = range.begin; p < range.end; ++p) {
        const auto finish = [&](int64_t i, const Vector<T> *sums) {
          const int64_t n = sequences.entry(rows[i]), t = sequences.frame(rows[i], step);
          for (int v = 0; v < NV; ++v) {
            const int64_t unit = (p * NV + v) * W, num = units - unit;
            if (unit >= units) break;
            const Vector<T> sum = mask.is_there() ? sums[v] * load(mask.at(n) + unit, num) : sums[v];
            Vector<T> dy = sum + load(d_h0.at(n) + unit, num);
            if (step < 0) {
              store(d_h0.at(n) + unit, dy, num);
              continue;
            }
            if (stage == 0 && d_h.is_there()) dy = dy + load(d_h.at(t, n) + unit, num);
            T *to = dz(rows[i], step, layer);
            rhn_layer_grad<T>(dy, d_h0.at(n), units, unit, layers.before(rows[i], step, layer), gates.at(t, n) + 2 * layer * units,
                              to);
            if (layer > 0) continue;
            store(dx.at(t, n) + unit, load(to + unit, num), num);
            store(dx.at(t, n) + units + unit, load(to + units + unit, num), num);
          }
        };
        const int64_t num_after = rows.num_below(sequences.active(step_after));
        const int64_t num_rows = rows.num_below(step < 0 ? sequences.num : sequences.active(step));
        product_with_panel<T, NV>(
            2 * units, panels.data() + (after * shape.num + p) * panel_size, num_after,
            [&](int64_t i) -> const T * { return dz(rows[i], step_after, after); }, finish);
        const Vector<T> zeros[NV] = {};
        for (int64_t i = num_after; i < num_rows; ++i) finish(i, zeros);
      }
    });
    for (int64_t layer = 0; layer < depth; ++layer) {
      int64_t at = 0;
      for (int64_t sorted = 0; sorted < sequences.num; ++sorted)
        for (int64_t step = 0; step < sequences.length(sorted); ++step, ++at) {
          inputs[at] = layers.input(sorted, step, layer);
          dz_rows[at] = dz(sorted, step, layer);
        }
      product_over_frames<T>(team, at, inputs.data(), dz_rows.data(), units, 2 * units,
                             static_cast<T *>(call->outputs[1].data) + layer * units * 2 * units);
    }
  });
  return nullptr;
}

// `backward`: from the last frame of each sequence to the first.
RETURNN_KERNEL(rhn,
               "x: real[T, N, 2F], weights: real[D, F, 2F], h0: real[N, F], lengths: int32[N], mask: real[N, F]?; "
               "backward: bool -> h: real[T, N, F], last_h: real[N, F], states: real[T, N, D, F], "
               "masked: real[T, N, D, F], gates: real[T, N, D, 2F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? rhn_forward<double>(call) : rhn_forward<float>(call);
}

RETURNN_KERNEL(rhn_grad,
               "weights: real[D, F, 2F], h0: real[N, F], lengths: int32[N], mask: real[N, F]?, states: real[T, N, D, F], "
               "masked: real[T, N, D, F], gates: real[T, N, D, 2F], d_h: real[T, N, F]?, d_last_h: real[N, F]?; "
               "backward: bool -> d_x: real[T, N, 2F], d_weights: real[D, F, 2F], d_h0: real[N, F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? rhn_backward<double>(call) : rhn_backward<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
