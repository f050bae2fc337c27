// The pointwise part of the LSTM, see lstm.cpp for the formula, of as many units as a vector has.
#pragma once

#include "simd.h"

namespace returnn {
namespace RETURNN_LEVEL {

// Some values for each of the gates.
template <class T>
struct LstmGates {
  Vector<T> j, i, f, o;

  LstmGates() = default;
  // From (4 F) values, of which there are `num` from this unit on; in the order j, i, f, o, or if `i_first` i, j, f, o.
  LstmGates(const T *values, int64_t units, int64_t unit, int64_t num, bool i_first = false)
      : j(load(values + i_first * units + unit, num)), i(load(values + !i_first * units + unit, num)),
        f(load(values + 2 * units + unit, num)), o(load(values + 3 * units + unit, num)) {}

  void add(const LstmGates &others) {
    j = j + others.j;
    i = i + others.i;
    f = f + others.f;
    o = o + others.o;
  }

  void store_to(T *values, int64_t units, int64_t unit, int64_t num, bool i_first = false) const {
    store(values + i_first * units + unit, j, num);
    store(values + !i_first * units + unit, i, num);
    store(values + 2 * units + unit, f, num);
    store(values + 3 * units + unit, o, num);
  }
};

// Of the gates i, f, o; zeros if there are none. Their `j` is not used.
template <class T>
RETURNN_INLINE LstmGates<T> load_peepholes(const T *peepholes, int64_t units, int64_t unit, int64_t num) {
  LstmGates<T> weights{};
  if (peepholes == nullptr) return weights;
  weights.i = load(peepholes + unit, num);
  weights.f = load(peepholes + units + unit, num);
  weights.o = load(peepholes + 2 * units + unit, num);
  return weights;
}

// From z (in `gates`, where their values are afterwards) and the cell before: the new cell.
template <class T>
RETURNN_INLINE Vector<T> lstm_cell(LstmGates<T> &gates, const T *peepholes, int64_t units, int64_t unit, Vector<T> before) {
  const LstmGates<T> p = load_peepholes(peepholes, units, unit, units - unit);
  const auto from_cell = [&](Vector<T> weight, Vector<T> cell, Vector<T> z) {
    return peepholes == nullptr ? z : multiply_add(weight, cell, z);
  };
  gates.j = vector_tanh<T>(gates.j);
  gates.i = vector_sigmoid<T>(from_cell(p.i, before, gates.i));
  gates.f = vector_sigmoid<T>(from_cell(p.f, before, gates.f));
  const Vector<T> cell = multiply_add(gates.f, before, gates.i * gates.j);
  gates.o = vector_sigmoid<T>(from_cell(p.o, cell, gates.o));
  return cell;
}

// The gradient of z, and in `d_cell` that of the cell before, from those of h and (in `d_cell`) of the cell.
template <class T>
RETURNN_INLINE LstmGates<T> lstm_cell_grad(const LstmGates<T> &gates, const T *peepholes, int64_t units, int64_t unit,
                                           Vector<T> before, Vector<T> cell, Vector<T> dh, Vector<T> &d_cell) {
  const LstmGates<T> p = load_peepholes(peepholes, units, unit, units - unit);
  const Vector<T> one = all(T(1)), tanh_c = vector_tanh<T>(cell);
  LstmGates<T> dz;
  dz.o = dh * tanh_c * gates.o * (one - gates.o);
  Vector<T> d = d_cell + dh * gates.o * (one - tanh_c * tanh_c);
  if (peepholes != nullptr) d = d + dz.o * p.o;
  dz.j = d * gates.i * (one - gates.j * gates.j);
  dz.i = d * gates.j * gates.i * (one - gates.i);
  dz.f = d * before * gates.f * (one - gates.f);
  d_cell = d * gates.f;
  if (peepholes != nullptr) d_cell = d_cell + dz.i * p.i + dz.f * p.f;
  return dz;
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn
