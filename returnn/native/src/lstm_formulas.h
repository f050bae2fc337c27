// The pointwise part of the LSTM, see lstm.cpp for the formula, and the signatures of its kernels.
//
// `M` says what a value is, a vector of a CPU or one number on a GPU, and has the functions on it.
#pragma once

#include "portable.h"

#define RETURNN_LSTM_SIGNATURE                                                                             \
  "x: real[T, N, 4F], weights: real[F, 4F], c0: state[N, F], h0: real[N, F], lengths: int32[N], "          \
  "peepholes: real[3, F]?, mask: uint8[F, 4F]?; backward: bool -> "                                        \
  "h: real[T, N, F], c: state[T, N, F], last_h: real[N, F], last_c: state[N, F], gates: real[T, N, 4F]"

#define RETURNN_LSTM_GRAD_SIGNATURE                                                                        \
  "weights: real[F, 4F], c0: state[N, F], h0: real[N, F], lengths: int32[N], peepholes: real[3, F]?, "     \
  "mask: uint8[F, 4F]?, h: real[T, N, F], c: state[T, N, F], gates: real[T, N, 4F], "                      \
  "d_h: real[T, N, F]?, d_c: state[T, N, F]?, d_last_h: real[N, F]?, d_last_c: state[N, F]?; "             \
  "backward: bool -> d_x: real[T, N, 4F], d_weights: real[F, 4F], d_c0: state[N, F], d_h0: real[N, F], "   \
  "d_peepholes: real[3, F]"

namespace returnn {
namespace RETURNN_LEVEL {

// Some values for each of the gates.
template <class M>
struct LstmValues {
  typename M::Value j, i, f, o;
};

// From z (in `gates`, where their values are afterwards) and the cell before: the new cell. `peepholes` are the weights of
// i, f, o for the cell, if there are any.
template <class M>
RETURNN_INLINE typename M::Value lstm_new_cell(LstmValues<M> &gates, bool has_peepholes, const LstmValues<M> &peepholes,
                                               typename M::Value before) {
  gates.j = M::tanh(gates.j);
  gates.i = M::sigmoid(has_peepholes ? M::multiply_add(peepholes.i, before, gates.i) : gates.i);
  gates.f = M::sigmoid(has_peepholes ? M::multiply_add(peepholes.f, before, gates.f) : gates.f);
  const typename M::Value cell = M::multiply_add(gates.f, before, gates.i * gates.j);
  gates.o = M::sigmoid(has_peepholes ? M::multiply_add(peepholes.o, cell, gates.o) : gates.o);
  return cell;
}

template <class M>
RETURNN_INLINE typename M::Value lstm_output(const LstmValues<M> &gates, typename M::Value cell) {
  return gates.o * M::tanh(cell);
}

// The gradient of z, and in `d_cell` that of the cell before, from those of h and (in `d_cell`) of the cell.
template <class M>
RETURNN_INLINE LstmValues<M> lstm_new_cell_grad(const LstmValues<M> &gates, bool has_peepholes, const LstmValues<M> &peepholes,
                                                typename M::Value before, typename M::Value cell, typename M::Value dh,
                                                typename M::Value &d_cell) {
  using V = typename M::Value;
  const V one = M::one(), tanh_c = M::tanh(cell);
  LstmValues<M> dz;
  dz.o = dh * tanh_c * gates.o * (one - gates.o);
  V d = d_cell + dh * gates.o * (one - tanh_c * tanh_c);
  if (has_peepholes) d = d + dz.o * peepholes.o;
  dz.j = d * gates.i * (one - gates.j * gates.j);
  dz.i = d * gates.j * gates.i * (one - gates.i);
  dz.f = d * before * gates.f * (one - gates.f);
  d_cell = d * gates.f;
  if (has_peepholes) d_cell = d_cell + dz.i * peepholes.i + dz.f * peepholes.f;
  return dz;
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn
