// The pointwise part of the LSTM, of as many units as a vector has.
#pragma once

#include "lstm_formulas.h"
#include "simd.h"

namespace returnn {
namespace RETURNN_LEVEL {

// Some values for each of the gates.
template <class T>
struct LstmGates : LstmValues<VectorMath<T>> {
  LstmGates() = default;
  // From (4 F) values, of which there are `num` from this unit on; in the order j, i, f, o, or if `i_first` i, j, f, o.
  LstmGates(const T *values, int64_t units, int64_t unit, int64_t num, bool i_first = false)
      : LstmValues<VectorMath<T>>{load(values + i_first * units + unit, num), load(values + !i_first * units + unit, num),
                                  load(values + 2 * units + unit, num), load(values + 3 * units + unit, num)} {}

  void add(const LstmGates &others) {
    this->j = this->j + others.j;
    this->i = this->i + others.i;
    this->f = this->f + others.f;
    this->o = this->o + others.o;
  }
};

template <class T>
RETURNN_INLINE void store_gates(const LstmValues<VectorMath<T>> &gates, T *values, int64_t units, int64_t unit, int64_t num,
                                bool i_first = false) {
  store(values + i_first * units + unit, gates.j, num);
  store(values + !i_first * units + unit, gates.i, num);
  store(values + 2 * units + unit, gates.f, num);
  store(values + 3 * units + unit, gates.o, num);
}

// Of the gates i, f, o; zeros if there are none. Their `j` is not used.
template <class T>
RETURNN_INLINE LstmValues<VectorMath<T>> load_peepholes(const T *peepholes, int64_t units, int64_t unit, int64_t num) {
  LstmValues<VectorMath<T>> weights{};
  if (peepholes == nullptr) return weights;
  weights.i = load(peepholes + unit, num);
  weights.f = load(peepholes + units + unit, num);
  weights.o = load(peepholes + 2 * units + unit, num);
  return weights;
}

// See `lstm_new_cell`.
template <class T>
RETURNN_INLINE Vector<T> lstm_cell(LstmGates<T> &gates, const T *peepholes, int64_t units, int64_t unit, Vector<T> before) {
  const LstmValues<VectorMath<T>> p = load_peepholes(peepholes, units, unit, units - unit);
  return lstm_new_cell<VectorMath<T>>(gates, peepholes != nullptr, p, before);
}

// See `lstm_new_cell_grad`.
template <class T>
RETURNN_INLINE LstmValues<VectorMath<T>> lstm_cell_grad(const LstmGates<T> &gates, const T *peepholes, int64_t units, int64_t unit,
                                                        Vector<T> before, Vector<T> cell, Vector<T> dh, Vector<T> &d_cell) {
  const LstmValues<VectorMath<T>> p = load_peepholes(peepholes, units, unit, units - unit);
  return lstm_new_cell_grad<VectorMath<T>>(gates, peepholes != nullptr, p, before, cell, dh, d_cell);
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn
