// LSTM with layer normalization (Ba et al. 2016) at the places that are asked for. N is for normalize(.) gamma + beta:
//
//     z = N(x + (m h') W)     or x + N((m h') W), or without N; c' and h' are of the frame before
//     i, j, f, o = sigmoid(z_i), k tanh(z_j), sigmoid(z_f), sigmoid(z_o)
//     r = f c' + i j
//     c = N(r)                or r
//     h = N(o tanh(c))        or without N, and with r in place of c
//
// m is a mask per sequence, k one per frame. There is a normalization where there is its gamma. That of z is over all gates,
// or over each one alone.
//
// A frame has two stages: the matrix product, whose units threads may share, and the rest, as mean and variance are of all
// units of a sequence.
#include "kernel.h"
#include "layer_norm.h"
#include "matrix.h"
#include "recurrent.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

constexpr int NUM_GATES = 4;

// What the pointwise part needs beside the arrays of a frame. Those that are not there are null.
template <class T>
struct Norms {
  const T *gamma_state, *gamma_z, *beta_z, *gamma_c, *beta_c, *gamma_h, *beta_h;
  int64_t units;
  bool per_gate, cell_norm_in_output;
  T epsilon;

  // Normalizations of z: how many, and of how many entries.
  int64_t num_segments() const { return gamma_z != nullptr && per_gate ? NUM_GATES : 1; }
  int64_t segment() const { return NUM_GATES * units / num_segments(); }

  // Of which cell h is made.
  const T *cell_for_output(const T *raw, const T *c) const { return gamma_c != nullptr && !cell_norm_in_output ? raw : c; }
};

template <class T>
Norms<T> norms_of(const returnn_array *gammas, const double *options, int64_t units) {
  const auto get = [&](int i) { return Frames<const T>(gammas[i]).data; };
  return {get(0), get(1), get(2), get(3), get(4), get(5), get(6), units, options[1] != 0, options[2] != 0, T(options[3])};
}

// o tanh(c)
template <class T>
RETURNN_INLINE void raw_output(int64_t units, const T *o, const T *c, T *h) {
  for_vectors<T>(units, [&](int64_t u, int64_t num) { store(h + u, load(o + u, num) * vector_tanh<T>(load(c + u, num)), num); });
}

// The pointwise part of one frame of a sequence. `products` are (m h') W, with x where they are not normalized alone.
template <class T>
void layer_norm_lstm_frame(const Norms<T> &norms, const T *x, const T *keep, const T *c_before, const T *products, T *gates,
                           T *cells, T *c, T *h) {
  const int64_t units = norms.units;
  if (norms.gamma_state != nullptr) {
    layer_norm<T>(products, NUM_GATES * units, norms.gamma_state, nullptr, norms.epsilon, gates);
    for_vectors<T>(NUM_GATES * units, [&](int64_t u, int64_t num) { store(gates + u, load(gates + u, num) + load(x + u, num), num); });
  } else if (norms.gamma_z != nullptr) {
    for (int64_t at = 0; at < NUM_GATES * units; at += norms.segment())
      layer_norm<T>(products + at, norms.segment(), norms.gamma_z + at, norms.beta_z == nullptr ? nullptr : norms.beta_z + at,
                    norms.epsilon, gates + at);
  } else {
    std::memcpy(gates, products, NUM_GATES * units * sizeof(T));
  }
  for_vectors<T>(units, [&](int64_t u, int64_t num) {
    const Vector<T> i = vector_sigmoid<T>(load(gates + u, num)), f = vector_sigmoid<T>(load(gates + 2 * units + u, num));
    const Vector<T> j = vector_tanh<T>(load(gates + units + u, num));
    store(gates + 3 * units + u, vector_sigmoid<T>(load(gates + 3 * units + u, num)), num);
    store(gates + u, i, num);
    store(gates + units + u, j, num);
    store(gates + 2 * units + u, f, num);
    const Vector<T> kept = keep == nullptr ? j : j * load(keep + u, num);
    store(cells + u, multiply_add(f, load(c_before + u, num), i * kept), num);
  });
  if (norms.gamma_c != nullptr)
    layer_norm<T>(cells, units, norms.gamma_c, norms.beta_c, norms.epsilon, c);
  else
    std::memcpy(c, cells, units * sizeof(T));
  raw_output<T>(units, gates + 3 * units, norms.cell_for_output(cells, c), h);
  if (norms.gamma_h != nullptr) layer_norm<T>(h, units, norms.gamma_h, norms.beta_h, norms.epsilon, h);
}

// What the gradient of a frame leaves behind for those of gammas and betas.
template <class T>
struct FrameGrads {
  T *d_cell, *d_output, *output;  // of the normalized cell and output, and what o tanh(c) was: if they are normalized
  Moments<T> *of_z, *of_cell, *of_output;
};

// Its gradient: from those of h (which may be changed) and c, `dc` of the frame before (in place), dz, and that of the product.
template <class T>
void layer_norm_lstm_frame_grad(const Norms<T> &norms, T *dh, const T *dc_out, T *dc, const T *keep, const T *c_before,
                                const T *products, const T *gates, const T *cells, const T *c, T *dz, T *d_product,
                                const FrameGrads<T> &left) {
  const int64_t units = norms.units;
  const T *cell = norms.cell_for_output(cells, c);
  const Vector<T> one = all(T(1));
  if (norms.gamma_h != nullptr) {
    raw_output<T>(units, gates + 3 * units, cell, left.output);
    std::memcpy(left.d_output, dh, units * sizeof(T));
    *left.of_output = layer_norm_grad<T>(left.output, units, norms.gamma_h, norms.epsilon, left.d_output, dh);
  }
  const bool at_once = cell == c;  // whether h depends on the raw cell through c alone
  for_vectors<T>(units, [&](int64_t u, int64_t num) {
    const Vector<T> o = load(gates + 3 * units + u, num), tanh_c = vector_tanh<T>(load(cell + u, num)), d = load(dh + u, num);
    store(dz + 3 * units + u, d * tanh_c * o * (one - o), num);
    const Vector<T> from_h = d * o * (one - tanh_c * tanh_c);
    Vector<T> d_cell = load(dc + u, num);
    if (dc_out != nullptr) d_cell = d_cell + load(dc_out + u, num);
    store(dc + u, at_once ? d_cell + from_h : d_cell, num);
    store(dh + u, at_once ? Vector<T>{} : from_h, num);
  });
  if (norms.gamma_c != nullptr) {
    std::memcpy(left.d_cell, dc, units * sizeof(T));
    *left.of_cell = layer_norm_grad<T>(cells, units, norms.gamma_c, norms.epsilon, left.d_cell, dc);
  }
  for_vectors<T>(units, [&](int64_t u, int64_t num) {
    const Vector<T> d_cell = load(dc + u, num) + load(dh + u, num);
    const Vector<T> i = load(gates + u, num), j = load(gates + units + u, num), f = load(gates + 2 * units + u, num);
    const Vector<T> kept = keep == nullptr ? one : load(keep + u, num);
    store(dz + u, d_cell * j * kept * i * (one - i), num);
    store(dz + units + u, d_cell * i * kept * (one - j * j), num);
    store(dz + 2 * units + u, d_cell * load(c_before + u, num) * f * (one - f), num);
    store(dc + u, d_cell * f, num);
  });
  if (norms.gamma_state != nullptr)
    *left.of_z = layer_norm_grad<T>(products, NUM_GATES * units, norms.gamma_state, norms.epsilon, dz, d_product);
  for (int64_t at = 0, i = 0; norms.gamma_z != nullptr && i < norms.num_segments(); ++i, at += norms.segment())
    left.of_z[i] = layer_norm_grad<T>(products + at, norms.segment(), norms.gamma_z + at, norms.epsilon, dz + at, d_product + at);
}

// Of stages in which rows are whole: whether a thread that has some of the panels does this row.
RETURNN_INLINE bool has_row(Range panels, int64_t num_panels, int64_t row) {
  return row % num_panels >= panels.begin && row % num_panels < panels.end;
}

template <class T>
const char *layer_norm_lstm_forward(const returnn_call *call) {
  const Frames<const T> x(call->inputs[0]), c0(call->inputs[2]), h0(call->inputs[3]), mask(call->inputs[5]), keep(call->inputs[6]);
  const returnn_array &weights = call->inputs[1];
  const Frames<T> h(call->outputs[0]), c(call->outputs[1]), last_h(call->outputs[2]), last_c(call->outputs[3]);
  const Frames<T> gates(call->outputs[4]), products(call->outputs[5]), cells(call->outputs[6]);
  const int64_t units = weights.sizes[0];
  const Norms<T> norms = norms_of<T>(call->inputs + 7, call->options, units);
  const Sequences sequences(static_cast<const int32_t *>(call->inputs[4].data), call->inputs[0].sizes[1],
                            call->inputs[0].sizes[0], call->options[0] != 0);
  if (sequences.error != nullptr) return sequences.error;
  if (norms.gamma_state != nullptr && norms.gamma_z != nullptr) return "only one of gamma_state and gamma_z can be given";
  GatePanels<T, NUM_GATES> panels(units, units);
  const Buffer<T> masked(mask.is_there() ? sequences.num * units : 0);  // m h'
  with_team(call->threads, [&](Team &team) {
    panels.pack(team, static_cast<const T *>(weights.data), weights.strides[0]);
    sequences.clear_padding(team, h, units);
    sequences.clear_padding(team, c, units);
    sequences.clear_padding(team, gates, NUM_GATES * units);
    sequences.clear_padding(team, products, NUM_GATES * units);
    sequences.clear_padding(team, cells, units);
    const auto before = [&](const Frames<const T> &first, const Frames<T> &frames, int64_t sorted, int64_t step) -> const T * {
      const int64_t n = sequences.entry(sorted);
      return step == 0 ? first.at(n) : frames.at(sequences.frame(sorted, step - 1), n);
    };
    const auto mask_output = [&](int64_t n, const T *from) {
      for (int64_t u = 0; mask.is_there() && u < units; ++u) masked[n * units + u] = from[u] * mask.at(n)[u];
    };
    for (int64_t n = 0; n < sequences.num; ++n) mask_output(n, h0.at(n));
    for_each_step(team, sequences, panels.num, 2, 0, sequences.steps, 1, [&](int64_t step, int stage, Rows rows, Range range) {
      const int64_t num_rows = rows.num_below(sequences.active(step));
      for (int64_t p = range.begin; stage == 0 && p < range.end; ++p)
        product_with_panel<T, NUM_GATES>(
            units, panels.panel(p), num_rows,
            [&](int64_t i) { return mask.is_there() ? masked.data() + sequences.entry(rows[i]) * units : before(h0, h, rows[i], step); },
            [&](int64_t i, const Vector<T> *z) {
              const int64_t n = sequences.entry(rows[i]), t = sequences.frame(rows[i], step);
              for (int64_t g = 0; g < NUM_GATES; ++g) {
                const int64_t at = g * units + p * panels.W, num = units - p * panels.W;
                store(products.at(t, n) + at, norms.gamma_state == nullptr ? z[g] + load(x.at(t, n) + at, num) : z[g], num);
              }
            });
      for (int64_t i = 0; stage == 1 && i < num_rows; ++i) {
        if (!has_row(range, panels.num, i)) continue;
        const int64_t n = sequences.entry(rows[i]), t = sequences.frame(rows[i], step);
        layer_norm_lstm_frame<T>(norms, x.at(t, n), keep.is_there() ? keep.at(t, n) : nullptr, before(c0, c, rows[i], step),
                                 products.at(t, n), gates.at(t, n), cells.at(t, n), c.at(t, n), h.at(t, n));
        mask_output(n, h.at(t, n));
      }
    });
    for (int64_t sorted = 0; sorted < sequences.num; ++sorted) {
      const int64_t n = sequences.entry(sorted), length = sequences.length(sorted);
      std::memcpy(last_h.at(n), before(h0, h, sorted, length), units * sizeof(T));
      std::memcpy(last_c.at(n), before(c0, c, sorted, length), units * sizeof(T));
    }
  });
  return nullptr;
}

// Gradients of gamma and beta: sums over `num` frames of dy n and dy, of `size` entries. row(i) is where frame i is, and n
// comes from x and the moments of entry u's segment.
template <class T>
struct NormSums {
  int64_t num, size, segment;
  T *d_gamma, *d_beta;  // d_beta may be null

  template <class X, class Grad, class Of>
  void add(Team &team, const X &x, const Grad &dy, const Of &moments) const {
    constexpr int64_t BLOCK = 64;
    for_each_part(team, static_cast<int>((size + BLOCK - 1) / BLOCK), [&](int part) {
      const int64_t begin = part * BLOCK, end = begin + BLOCK < size ? begin + BLOCK : size;
      for (int64_t i = 0; i < num; ++i)
        for (int64_t u = begin; u < end; ++u) {
          const Moments<T> &of = moments(i)[u / segment];
          d_gamma[u] += dy(i)[u] * ((x(i)[u] - of.mean) * of.scale);
          if (d_beta != nullptr) d_beta[u] += dy(i)[u];
        }
    });
  }
};

template <class T>
const char *layer_norm_lstm_backward(const returnn_call *call) {
  const returnn_array &weights = call->inputs[0];
  const Frames<const T> c0(call->inputs[1]), h0(call->inputs[2]), mask(call->inputs[4]), keep(call->inputs[5]);
  const Frames<const T> h(call->inputs[13]), c(call->inputs[14]), gates(call->inputs[15]), products(call->inputs[16]), cells(call->inputs[17]);
  const Frames<const T> d_h(call->inputs[18]), d_c(call->inputs[19]), d_last_h(call->inputs[20]), d_last_c(call->inputs[21]);
  const Frames<T> dx(call->outputs[0]), d_c0(call->outputs[2]), d_h0(call->outputs[3]);
  const int64_t units = weights.sizes[0], gate_units = NUM_GATES * units;
  const Norms<T> norms = norms_of<T>(call->inputs + 6, call->options, units);
  const Sequences sequences(static_cast<const int32_t *>(call->inputs[3].data), call->inputs[13].sizes[1],
                            call->inputs[13].sizes[0], call->options[0] != 0);
  if (sequences.error != nullptr) return sequences.error;
  constexpr int NV = 4, W = Simd<T>::WIDTH;
  const int64_t num_frames = sequences.num_frames * sequences.num;
  const bool has_z = norms.gamma_z != nullptr, has_state = norms.gamma_state != nullptr;
  // The gradient of x is that of z if the product is normalized alone; otherwise it is that of the product.
  const Buffer<T> other(has_z || has_state ? num_frames * gate_units : 0);
  const Buffer<T> d_cells(norms.gamma_c == nullptr ? 0 : num_frames * units);
  const Buffer<T> d_outputs(norms.gamma_h == nullptr ? 0 : num_frames * units), raw_outputs(norms.gamma_h == nullptr ? 0 : num_frames * units);
  const Buffer<Moments<T>> moments(num_frames * (NUM_GATES + 2));
  const Buffer<T> dh(sequences.num * units), masked(mask.is_there() ? sequences.total * units : 0);
  const auto index = [&](int64_t t, int64_t n) { return t * sequences.num + n; };
  const auto dz = [&](int64_t t, int64_t n) -> T * { return has_z ? other.data() + index(t, n) * gate_units : dx.at(t, n); };
  const auto d_product = [&](int64_t t, int64_t n) -> T * { return has_state ? other.data() + index(t, n) * gate_units : dx.at(t, n); };
  const auto left = [&](int64_t t, int64_t n) -> FrameGrads<T> {
    const int64_t at = index(t, n) * units;
    Moments<T> *of = moments.data() + index(t, n) * (NUM_GATES + 2);
    return {d_cells.data() + at, d_outputs.data() + at, raw_outputs.data() + at, of, of + NUM_GATES, of + NUM_GATES + 1};
  };
  const auto before = [&](const Frames<const T> &first, const Frames<const T> &frames, int64_t sorted, int64_t step) {
    const int64_t n = sequences.entry(sorted);
    return step == 0 ? first.at(n) : frames.at(sequences.frame(sorted, step - 1), n);
  };
  const Panels<T, NV> panels(gate_units, units);
  with_team(call->threads, [&](Team &team) {
    pack_transposed<T, NV>(team, static_cast<const T *>(weights.data), weights.strides[0], panels);
    sequences.clear_padding(team, dx, gate_units);
    for (int64_t n = 0; n < sequences.num; ++n) {
      if (d_last_c.is_there())
        std::memcpy(d_c0.at(n), d_last_c.at(n), units * sizeof(T));
      else
        std::memset(d_c0.at(n), 0, units * sizeof(T));
    }
    // Step -1 is the state before the first frame; it has only the product.
    for_each_step(team, sequences, panels.num, 2, sequences.steps - 1, -2, -1, [&](int64_t step, int stage, Rows rows, Range range) {
      const int64_t num_after = rows.num_below(sequences.active(step + 1));
      const int64_t num_rows = rows.num_below(step < 0 ? sequences.num : sequences.active(step));
      for (int64_t p = range.begin; stage == 0 && p < range.end; ++p) {
        const auto finish = [&](int64_t i, const Vector<T> *sums) {
          const int64_t sorted = rows[i], n = sequences.entry(sorted), t = sequences.frame(sorted, step);
          for (int v = 0; v < NV; ++v) {
            const int64_t unit = (p * NV + v) * W, num = units - unit;
            if (unit >= units) break;
            Vector<T> sum = mask.is_there() ? sums[v] * load(mask.at(n) + unit, num) : sums[v];
            if (d_last_h.is_there() && step == sequences.length(sorted) - 1) sum = sum + load(d_last_h.at(n) + unit, num);
            if (step >= 0 && d_h.is_there()) sum = sum + load(d_h.at(t, n) + unit, num);
            store((step < 0 ? d_h0.at(n) : dh.data() + n * units) + unit, sum, num);
          }
        };
        product_with_panel<T, NV>(
            gate_units, panels.panel(p), num_after,
            [&](int64_t i) -> const T * { return d_product(sequences.frame(rows[i], step + 1), sequences.entry(rows[i])); }, finish);
        const Vector<T> zeros[NV] = {};
        for (int64_t i = num_after; i < num_rows; ++i) finish(i, zeros);
      }
      for (int64_t i = 0; stage == 1 && step >= 0 && i < num_rows; ++i) {
        if (!has_row(range, panels.num, i)) continue;
        const int64_t n = sequences.entry(rows[i]), t = sequences.frame(rows[i], step);
        layer_norm_lstm_frame_grad<T>(norms, dh.data() + n * units, d_c.is_there() ? d_c.at(t, n) : nullptr, d_c0.at(n),
                                      keep.is_there() ? keep.at(t, n) : nullptr, before(c0, c, rows[i], step), products.at(t, n),
                                      gates.at(t, n), cells.at(t, n), c.at(t, n), dz(t, n), d_product(t, n), left(t, n));
      }
    });
    const Buffer<const T *> h_rows(sequences.total), product_rows(sequences.total);
    const Buffer<int64_t> frames(sequences.total), entries(sequences.total);
    int64_t num = 0;
    for (int64_t sorted = 0; sorted < sequences.num; ++sorted)
      for (int64_t step = 0; step < sequences.length(sorted); ++step, ++num) {
        const int64_t n = entries[num] = sequences.entry(sorted), t = frames[num] = sequences.frame(sorted, step);
        h_rows[num] = before(h0, h, sorted, step);
        product_rows[num] = d_product(t, n);
        if (!mask.is_there()) continue;
        for (int64_t u = 0; u < units; ++u) masked[num * units + u] = h_rows[num][u] * mask.at(n)[u];
        h_rows[num] = masked.data() + num * units;
      }
    product_over_frames<T>(team, num, h_rows.data(), product_rows.data(), units, gate_units, static_cast<T *>(call->outputs[1].data));
    T *grads[7];
    for (int i = 0; i < 7; ++i) {
      grads[i] = static_cast<T *>(call->outputs[4 + i].data);
      std::memset(grads[i], 0, (i < 3 ? gate_units : units) * sizeof(T));
    }
    const auto left_of = [&](int64_t i) { return left(frames[i], entries[i]); };
    if (has_z || has_state)
      NormSums<T>{num, gate_units, norms.segment(), has_z ? grads[1] : grads[0], has_z ? grads[2] : nullptr}.add(
          team, [&](int64_t i) { return products.at(frames[i], entries[i]); },
          [&](int64_t i) { return dz(frames[i], entries[i]); }, [&](int64_t i) { return left_of(i).of_z; });
    if (norms.gamma_c != nullptr)
      NormSums<T>{num, units, units, grads[3], grads[4]}.add(
          team, [&](int64_t i) { return cells.at(frames[i], entries[i]); }, [&](int64_t i) { return left_of(i).d_cell; },
          [&](int64_t i) { return left_of(i).of_cell; });
    if (norms.gamma_h != nullptr)
      NormSums<T>{num, units, units, grads[5], grads[6]}.add(
          team, [&](int64_t i) { return left_of(i).output; }, [&](int64_t i) { return left_of(i).d_output; },
          [&](int64_t i) { return left_of(i).of_output; });
  });
  return nullptr;
}

// `backward`: from the last frame of each sequence to the first. `per_gate`: gamma_z is for each gate alone.
RETURNN_KERNEL(layer_norm_lstm,
               "x: real[T, N, 4F], weights: real[F, 4F], c0: real[N, F], h0: real[N, F], lengths: int32[N], mask: real[N, F]?, "
               "keep: real[T, N, F]?, gamma_state: real[4F]?, gamma_z: real[4F]?, beta_z: real[4F]?, gamma_c: real[F]?, "
               "beta_c: real[F]?, gamma_h: real[F]?, beta_h: real[F]?; "
               "backward: bool, per_gate: bool, cell_norm_in_output: bool, epsilon: float -> "
               "h: real[T, N, F], c: real[T, N, F], last_h: real[N, F], last_c: real[N, F], gates: real[T, N, 4F], "
               "products: real[T, N, 4F], cells: real[T, N, F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? layer_norm_lstm_forward<double>(call) : layer_norm_lstm_forward<float>(call);
}

RETURNN_KERNEL(layer_norm_lstm_grad,
               "weights: real[F, 4F], c0: real[N, F], h0: real[N, F], lengths: int32[N], mask: real[N, F]?, keep: real[T, N, F]?, "
               "gamma_state: real[4F]?, gamma_z: real[4F]?, beta_z: real[4F]?, gamma_c: real[F]?, beta_c: real[F]?, "
               "gamma_h: real[F]?, beta_h: real[F]?, h: real[T, N, F], c: real[T, N, F], gates: real[T, N, 4F], "
               "products: real[T, N, 4F], cells: real[T, N, F], d_h: real[T, N, F]?, d_c: real[T, N, F]?, d_last_h: real[N, F]?, "
               "d_last_c: real[N, F]?; backward: bool, per_gate: bool, cell_norm_in_output: bool, epsilon: float -> "
               "d_x: real[T, N, 4F], d_weights: real[F, 4F], d_c0: real[N, F], d_h0: real[N, F], d_gamma_state: real[4F], "
               "d_gamma_z: real[4F], d_beta_z: real[4F], d_gamma_c: real[F], d_beta_c: real[F], d_gamma_h: real[F], "
               "d_beta_h: real[F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? layer_norm_lstm_backward<double>(call) : layer_norm_lstm_backward<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
