// The pointwise part of the GRU, see gru.cpp for the formula, and the signatures of its kernels. For `M` see lstm_formulas.h.
#pragma once

#include "portable.h"

#define RETURNN_GRU_SIGNATURE                                                                                       \
  "x: real[T, N, 3F], gate_weights: real[F, 2F], weights: real[F, F], h0: real[N, F], lengths: int32[N]; "          \
  "backward: bool -> h: real[T, N, F], last_h: real[N, F], gates: real[T, N, 3F], reset: real[T, N, F]"

#define RETURNN_GRU_GRAD_SIGNATURE                                                                                  \
  "gate_weights: real[F, 2F], weights: real[F, F], h0: real[N, F], lengths: int32[N], h: real[T, N, F], "           \
  "gates: real[T, N, 3F], reset: real[T, N, F], d_h: real[T, N, F]?, d_last_h: real[N, F]?; backward: bool -> "     \
  "d_x: real[T, N, 3F], d_gate_weights: real[F, 2F], d_weights: real[F, F], d_h0: real[N, F]"

namespace returnn {
namespace RETURNN_LEVEL {

template <class M>
struct GruGates {
  typename M::Value r, u;
};

template <class M>
RETURNN_INLINE GruGates<M> gru_gates(typename M::Value z_r, typename M::Value z_u) {
  return {M::sigmoid(z_r), M::sigmoid(z_u)};
}

// From the candidate and the state before: the new state.
template <class M>
RETURNN_INLINE typename M::Value gru_state(typename M::Value u, typename M::Value candidate, typename M::Value before) {
  return M::multiply_add(u, before - candidate, candidate);
}

// Gradients of z_u and z_n from that of the state. The one of the state before is dh u, without what comes by matrices.
template <class M>
RETURNN_INLINE typename M::Value gru_update_grad(typename M::Value dh, typename M::Value u, typename M::Value candidate,
                                                 typename M::Value before) {
  return dh * (before - candidate) * u * (M::one() - u);
}

template <class M>
RETURNN_INLINE typename M::Value gru_candidate_grad(typename M::Value dh, typename M::Value u, typename M::Value candidate) {
  return dh * (M::one() - u) * (M::one() - candidate * candidate);
}

// Gradient of z_r from that of r h'.
template <class M>
RETURNN_INLINE typename M::Value gru_reset_grad(typename M::Value d_reset, typename M::Value r, typename M::Value before) {
  return d_reset * before * r * (M::one() - r);
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn
