// LSTM over two axes, source j and target i (Leifert et al. 2016; Bahar, Brix and Ney 2018):
//
//     z = x_j + y_i + V_h h[j-1, i] + V_v h[j, i-1]
//     n, in, f, o, l = tanh(z_n), sigmoid(z_in), ...
//     c = f (l c[j-1, i] + (1 - l) c[j, i-1]) + in n
//     h = o tanh(c)
//
// Entries of a diagonal, with the same i + j, only need those of the diagonal before: they are the rows of one product. What
// an entry needs is put where it looks for it by those before, so that a row of the product lies in one piece.
#include "kernel.h"
#include "matrix.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

constexpr int NUM_GATES = 5;

// Vectors with the axes target, source and sequence; or the last two of them.
template <class T>
struct Grid {
  T *data = nullptr;
  int64_t target = 0, source = 0, sequence = 0;

  explicit Grid(const returnn_array &array) : data(static_cast<T *>(array.data)) {
    for (int axis = 0; axis < array.rank; ++axis)
      if (array.sizes[axis] == 0) data = nullptr;
    if (data == nullptr || array.rank < 3) return;
    sequence = array.strides[array.rank - 2];
    source = array.strides[array.rank - 3];
    target = array.rank < 4 ? 0 : array.strides[0];
  }

  bool is_there() const { return data != nullptr; }
  T *at(int64_t i, int64_t j, int64_t n) const { return data + i * target + j * source + n * sequence; }
  T *at(int64_t j, int64_t n) const { return data + j * source + n * sequence; }
};

struct Entry {
  int64_t i, j, n;
};

// Which entries there are on each diagonal, and what threads do.
struct Diagonals {
  int64_t num_source, num_target, num_sequences;

  int64_t num() const { return num_source > 0 && num_target > 0 ? num_source + num_target - 1 : 0; }
  int64_t first_source(int64_t d) const { return d < num_target ? 0 : d - num_target + 1; }
  int64_t num_rows(int64_t d) const {
    const int64_t last = d < num_source ? d : num_source - 1;
    return (last - first_source(d) + 1) * num_sequences;
  }
  Entry entry(int64_t d, int64_t row) const {
    const int64_t j = first_source(d) + row / num_sequences;
    return {d - j, j, row % num_sequences};
  }
  int64_t index(Entry e) const { return (e.i * num_source + e.j) * num_sequences + e.n; }
  int64_t size() const { return num_target * num_source * num_sequences; }

  // A place for each source frame and sequence, for entries of this diagonal; that of the next one is another one.
  int64_t place(int64_t d, int64_t j, int64_t n) const { return ((d & 1) * num_source + j) * num_sequences + n; }
  int64_t num_places() const { return 2 * num_source * num_sequences; }

  // Calls work(rows, panels), for all of a diagonal.
  template <class Work>
  void share(Team &team, int64_t d, int64_t num_panels, const Work &work) const {
    constexpr int64_t ENOUGH_ROWS = 16;
    const int64_t rows = num_rows(d), threads = team_size(team);
    const bool by_rows = rows >= threads * ENOUGH_ROWS;
    const int64_t parts = by_rows || num_panels > threads ? threads : num_panels;
    for_each_part(team, static_cast<int>(parts), [&](int part) {
      work(by_rows ? part_of(rows, part, parts) : Range{0, rows}, by_rows ? Range{0, num_panels} : part_of(num_panels, part, parts));
    });
  }
};

// The pointwise part, for a vector of units. `c_left` is null at the first source frame.
template <class T>
RETURNN_INLINE Vector<T> twod_lstm_entry(const Vector<T> *z, const T *x, const T *y, int64_t units, int64_t unit, const T *c_left,
                                         const T *c_before, T *c, T *h, T *gates) {
  const int64_t num = units - unit;
  Vector<T> values[NUM_GATES];
  for (int g = 0; g < NUM_GATES; ++g) {
    const Vector<T> sum = z[g] + load(x + g * units + unit, num) + load(y + g * units + unit, num);
    values[g] = g == 0 ? vector_tanh<T>(sum) : vector_sigmoid<T>(sum);
    store(gates + g * units + unit, values[g], num);
  }
  const Vector<T> before = load(c_before + unit, num), left = c_left == nullptr ? Vector<T>{} : load(c_left + unit, num);
  const Vector<T> mixed = multiply_add(values[4], left - before, before);
  const Vector<T> cell = multiply_add(values[2], mixed, values[1] * values[0]);
  const Vector<T> output = values[3] * vector_tanh<T>(cell);
  store(c + unit, cell, num);
  store(h + unit, output, num);
  return output;
}

// Its gradient: dz, and what goes on to c of both entries before.
template <class T>
RETURNN_INLINE void twod_lstm_entry_grad(Vector<T> dh, Vector<T> dc, int64_t units, int64_t unit, const T *c_left,
                                         const T *c_before, const T *c, const T *gates, T *dz, T *dc_left, T *dc_before) {
  const int64_t num = units - unit;
  const auto gate = [&](int g) { return load(gates + g * units + unit, num); };
  const Vector<T> one = all(T(1)), n = gate(0), in = gate(1), f = gate(2), o = gate(3), l = gate(4);
  const Vector<T> before = load(c_before + unit, num), left = c_left == nullptr ? Vector<T>{} : load(c_left + unit, num);
  const Vector<T> tanh_c = vector_tanh<T>(load(c + unit, num)), d_cell = dc + dh * o * (one - tanh_c * tanh_c), d_mixed = d_cell * f;
  store(dz + unit, d_cell * in * (one - n * n), num);
  store(dz + units + unit, d_cell * n * in * (one - in), num);
  store(dz + 2 * units + unit, d_cell * multiply_add(l, left - before, before) * f * (one - f), num);
  store(dz + 3 * units + unit, dh * tanh_c * o * (one - o), num);
  store(dz + 4 * units + unit, d_mixed * (left - before) * l * (one - l), num);
  if (dc_left != nullptr) store(dc_left + unit, d_mixed * l, num);
  store(dc_before + unit, d_mixed * (one - l), num);
}

template <class T>
const char *twod_lstm_forward(const returnn_call *call) {
  const Grid<const T> x(call->inputs[0]), y(call->inputs[1]), c0(call->inputs[3]), h0(call->inputs[4]);
  const returnn_array &weights = call->inputs[2];
  const Grid<T> h(call->outputs[0]), c(call->outputs[1]), gates(call->outputs[2]);
  const int64_t units = weights.sizes[1] / NUM_GATES;
  const Diagonals diagonals{call->inputs[0].sizes[0], call->inputs[1].sizes[0], call->inputs[0].sizes[1]};
  GatePanels<T, NUM_GATES> panels(2 * units, units);
  const Buffer<T> rows(diagonals.num_places() * 2 * units);  // h[j-1, i] and h[j, i-1] side by side
  with_team(call->threads, [&](Team &team) {
    panels.pack(team, static_cast<const T *>(weights.data), weights.strides[0]);
    std::memset(rows.data(), 0, diagonals.num_places() * 2 * units * sizeof(T));
    const auto row = [&](int64_t d, int64_t j, int64_t n) { return rows.data() + diagonals.place(d, j, n) * 2 * units; };
    for (int64_t j = 0; diagonals.num() > 0 && j < diagonals.num_source; ++j)
      for (int64_t n = 0; n < diagonals.num_sequences; ++n) std::memcpy(row(j, j, n) + units, h0.at(j, n), units * sizeof(T));
    for (int64_t d = 0; d < diagonals.num(); ++d)
      diagonals.share(team, d, panels.num, [&](Range part, Range range) {
        for (int64_t p = range.begin; p < range.end; ++p)
          product_with_panel<T, NUM_GATES>(
              2 * units, panels.panel(p), part.end - part.begin,
              [&](int64_t r) -> const T * {
                const Entry e = diagonals.entry(d, part.begin + r);
                return row(d, e.j, e.n);
              },
              [&](int64_t r, const Vector<T> *z) {
                const Entry e = diagonals.entry(d, part.begin + r);
                const int64_t unit = p * panels.W;
                const Vector<T> output = twod_lstm_entry<T>(
                    z, x.at(e.j, e.n), y.at(e.i, e.n), units, unit, e.j > 0 ? c.at(e.i, e.j - 1, e.n) : nullptr,
                    e.i > 0 ? c.at(e.i - 1, e.j, e.n) : c0.at(e.j, e.n), c.at(e.i, e.j, e.n), h.at(e.i, e.j, e.n),
                    gates.at(e.i, e.j, e.n));
                if (e.j + 1 < diagonals.num_source) store(row(d + 1, e.j + 1, e.n) + unit, output, units - unit);
                if (e.i + 1 < diagonals.num_target) store(row(d + 1, e.j, e.n) + units + unit, output, units - unit);
              });
      });
  });
  return nullptr;
}

// Sums of dz over the other axis, in its order.
template <class T>
void sums_over_axis(Team &team, int64_t num, int64_t num_others, int64_t num_sequences, int64_t size, const returnn_array &out,
                    const T *dz, int64_t stride, int64_t stride_of_others) {
  T *to = static_cast<T *>(out.data);
  for_each_part(team, static_cast<int>(num), [&](int part) {
    for (int64_t n = 0; n < num_sequences; ++n) {
      T *sum = to + (part * num_sequences + n) * size;
      std::memset(sum, 0, size * sizeof(T));
      for (int64_t other = 0; other < num_others; ++other) {
        const T *from = dz + ((part * stride + other * stride_of_others) * num_sequences + n) * size;
        for (int64_t u = 0; u < size; ++u) sum[u] += from[u];
      }
    }
  });
}

template <class T>
const char *twod_lstm_backward(const returnn_call *call) {
  const returnn_array &weights = call->inputs[0];
  const Grid<const T> c0(call->inputs[1]), h0(call->inputs[2]), h(call->inputs[3]), c(call->inputs[4]), gates(call->inputs[5]);
  const Grid<const T> d_h(call->inputs[6]), d_c(call->inputs[7]);
  const Grid<T> d_c0(call->outputs[3]), d_h0(call->outputs[4]);
  T *const d_weights = static_cast<T *>(call->outputs[2].data);
  const int64_t units = weights.sizes[1] / NUM_GATES, num_gates = NUM_GATES * units;
  const int64_t *const sizes = call->inputs[3].sizes;
  const Diagonals diagonals{sizes[1], sizes[0], sizes[2]};
  constexpr int NV = 4, W = Simd<T>::WIDTH;
  const Panels<T, NV> panels(2 * num_gates, units);  // transposed V_h on that of V_v
  const Buffer<T> all_dz(diagonals.size() * num_gates);
  const Buffer<T> rows(diagonals.num_places() * 2 * num_gates);  // dz[j+1, i] and dz[j, i+1] side by side
  const Buffer<T> d_cells(diagonals.num_places() * 2 * units);   // what comes from c of these entries
  const auto row = [&](int64_t d, int64_t j, int64_t n) { return rows.data() + diagonals.place(d, j, n) * 2 * num_gates; };
  const auto d_cell = [&](int64_t d, int64_t j, int64_t n) { return d_cells.data() + diagonals.place(d, j, n) * 2 * units; };
  const auto c_left = [&](Entry e) { return e.j > 0 ? c.at(e.i, e.j - 1, e.n) : nullptr; };
  const auto c_before = [&](Entry e) { return e.i > 0 ? c.at(e.i - 1, e.j, e.n) : c0.at(e.j, e.n); };
  const auto finish_entry = [&](int64_t d, Entry e, int64_t p, const Vector<T> *sums) {
    T *dz = all_dz.data() + diagonals.index(e) * num_gates;
    for (int v = 0; v < NV; ++v) {
      const int64_t unit = (p * NV + v) * W, num = units - unit;
      if (unit >= units) return;
      const T *from = d_cell(d, e.j, e.n);
      Vector<T> dh = sums[v], dc = load(from + unit, num) + load(from + units + unit, num);
      if (d_h.is_there()) dh = dh + load(d_h.at(e.i, e.j, e.n) + unit, num);
      if (d_c.is_there()) dc = dc + load(d_c.at(e.i, e.j, e.n) + unit, num);
      T *dc_left = e.j > 0 ? d_cell(d - 1, e.j - 1, e.n) : nullptr;
      T *dc_before = e.i > 0 ? d_cell(d - 1, e.j, e.n) + units : d_c0.at(e.j, e.n);
      twod_lstm_entry_grad<T>(dh, dc, units, unit, c_left(e), c_before(e), c.at(e.i, e.j, e.n), gates.at(e.i, e.j, e.n), dz, dc_left,
                              dc_before);
      for (int64_t g = 0; g < NUM_GATES; ++g) {
        const int64_t at = g * units + unit;
        if (e.j > 0) store(row(d - 1, e.j - 1, e.n) + at, load(dz + at, num), num);
        if (e.i > 0) store(row(d - 1, e.j, e.n) + num_gates + at, load(dz + at, num), num);
      }
    }
  };
  with_team(call->threads, [&](Team &team) {
    const Panels<T, NV> half(num_gates, units);
    for (int64_t k = 0; k < 2; ++k) {
      pack_transposed<T, NV>(team, static_cast<const T *>(weights.data) + k * units * weights.strides[0], weights.strides[0], half);
      for (int64_t p = 0; p < half.num; ++p)
        std::memcpy(panels.panel(p) + k * num_gates * NV * W, half.panel(p), num_gates * NV * W * sizeof(T));
    }
    std::memset(rows.data(), 0, diagonals.num_places() * 2 * num_gates * sizeof(T));
    std::memset(d_cells.data(), 0, diagonals.num_places() * 2 * units * sizeof(T));
    for (int64_t d = diagonals.num() - 1; d >= 0; --d)
      diagonals.share(team, d, panels.num, [&](Range part, Range range) {
        for (int64_t p = range.begin; p < range.end; ++p)
          product_with_panel<T, NV>(
              2 * num_gates, panels.panel(p), part.end - part.begin,
              [&](int64_t r) -> const T * {
                const Entry e = diagonals.entry(d, part.begin + r);
                return row(d, e.j, e.n);
              },
              [&](int64_t r, const Vector<T> *sums) { finish_entry(d, diagonals.entry(d, part.begin + r), p, sums); });
      });
    const int64_t num_first = diagonals.num() > 0 ? diagonals.num_source * diagonals.num_sequences : 0;
    if (num_first == 0) {
      std::memset(call->outputs[3].data, 0, diagonals.num_source * diagonals.num_sequences * units * sizeof(T));
      std::memset(call->outputs[4].data, 0, diagonals.num_source * diagonals.num_sequences * units * sizeof(T));
    }
    for_each_part(team, static_cast<int>(panels.num), [&](int p) {  // the state before the first target frame
      product_with_panel<T, NV>(
          num_gates, panels.panel(p) + num_gates * NV * W, num_first,
          [&](int64_t r) -> const T * { return all_dz.data() + r * num_gates; },
          [&](int64_t r, const Vector<T> *sums) {
            for (int v = 0; v < NV && (p * NV + v) * W < units; ++v)
              store(d_h0.at(r / diagonals.num_sequences, r % diagonals.num_sequences) + (p * NV + v) * W, sums[v],
                    units - (p * NV + v) * W);
          });
    });
    sums_over_axis<T>(team, diagonals.num_source, diagonals.num_target, diagonals.num_sequences, num_gates, call->outputs[0],
                      all_dz.data(), 1, diagonals.num_source);
    sums_over_axis<T>(team, diagonals.num_target, diagonals.num_source, diagonals.num_sequences, num_gates, call->outputs[1],
                      all_dz.data(), diagonals.num_source, 1);
    const Buffer<const T *> h_rows(diagonals.size()), dz_rows(diagonals.size());
    for (int axis = 0; axis < 2; ++axis) {
      int64_t num = 0;
      for (int64_t i = 0; i < diagonals.num_target; ++i)
        for (int64_t j = axis == 0 ? 1 : 0; j < diagonals.num_source; ++j)
          for (int64_t n = 0; n < diagonals.num_sequences; ++n, ++num) {
            h_rows[num] = axis == 0 ? h.at(i, j - 1, n) : i > 0 ? h.at(i - 1, j, n) : h0.at(j, n);
            dz_rows[num] = all_dz.data() + diagonals.index({i, j, n}) * num_gates;
          }
      product_over_frames<T>(team, num, h_rows.data(), dz_rows.data(), units, num_gates, d_weights + axis * units * num_gates);
    }
  });
  return nullptr;
}

// `weights` are V_h on V_v. c0 and h0 are of the target frame before the first one.
RETURNN_KERNEL(twod_lstm,
               "source: real[S, N, 5F], target: real[T, N, 5F], weights: real[2F, 5F], c0: real[S, N, F], h0: real[S, N, F] -> "
               "h: real[T, S, N, F], c: real[T, S, N, F], gates: real[T, S, N, 5F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? twod_lstm_forward<double>(call) : twod_lstm_forward<float>(call);
}

RETURNN_KERNEL(twod_lstm_grad,
               "weights: real[2F, 5F], c0: real[S, N, F], h0: real[S, N, F], h: real[T, S, N, F], c: real[T, S, N, F], "
               "gates: real[T, S, N, 5F], d_h: real[T, S, N, F]?, d_c: real[T, S, N, F]? -> "
               "d_source: real[S, N, 5F], d_target: real[T, N, 5F], d_weights: real[2F, 5F], d_c0: real[S, N, F], "
               "d_h0: real[S, N, F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? twod_lstm_backward<double>(call) : twod_lstm_backward<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
