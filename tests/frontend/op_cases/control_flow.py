"""Loops, scans and arrays of tensors, and conditions with dims of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.frontend.search import beam_search as label_search
from returnn.tensor import Dim, Tensor
from tests.frontend.op_case import Inputs, op_case


@op_case("while_loop")
def while_loop_over_numbers(inputs: Inputs) -> list[Tensor]:
    limit = inputs.ints([], low=0, high=20)
    x = inputs.floats([inputs.batch])

    def body(state: Any) -> Any:
        return {"i": state["i"] * 2 + 1, "x": state["x"] * 0.5}

    last = rf.while_loop(lambda state: state["i"] < limit, body, {"i": 1, "x": x})
    return [last["i"] + 0, last["x"] * 1.0]


@op_case("while_loop", "loop_over_frames")
def recurrence(inputs: Inputs) -> list[Tensor]:
    time, feature, hidden = inputs.dynamic(), inputs.static("feature"), inputs.static("hidden")
    x, weights = inputs.floats([inputs.batch, time, feature]), inputs.floats([feature, hidden])

    def body(x_t: Tensor, state: rf.State) -> tuple[Tensor, rf.State]:
        h = rf.tanh(rf.matmul(x_t, weights, reduce=feature) + state.h * 0.5)
        return h, rf.State(h=h)

    initial = rf.State(h=rf.zeros([inputs.batch, hidden]))
    frames, state, _ = rf.scan(spatial_dim=time, xs=x, initial=initial, body=body)
    return [frames, state.h]


@op_case("while_loop")
def recurrence_with_dims_that_only_the_body_knows(inputs: Inputs) -> Tensor:
    time, feature = inputs.dynamic(), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    _, state, _ = rf.scan(spatial_dim=time, xs=x, initial=0.0, body=lambda x_t, s: (x_t, rf.tanh(x_t + s)))
    return state


@op_case("while_loop", per_sequence=False)
def growing_history(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic(over=[]), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    one, empty = Dim(1, name="one"), Dim(0, name="history")

    def body(x_t: Tensor, state: rf.State) -> tuple[Tensor, rf.State]:
        longer = state.dim + 1
        history, _ = rf.concat((state.history, state.dim), (rf.expand_dim(x_t, one), one), out_dim=longer)
        return rf.reduce_sum(history * x_t, axis=longer), rf.State(history=history, dim=longer)

    initial = rf.State(history=rf.zeros([inputs.batch, empty, feature]), dim=empty)
    frames, state, _ = rf.scan(spatial_dim=time, xs=x, initial=initial, body=body)
    return [frames, rf.reduce_logsumexp(state.history, axis=state.dim)]


@op_case("while_loop")
def sequences_which_end_on_their_own(inputs: Inputs) -> list[Any]:
    limit = inputs.ints([inputs.batch], low=1, high=5)

    def scan(**options: Any) -> list[Any]:
        initial = rf.State(n=rf.zeros([inputs.batch], dtype="int32"))
        frames, state, dim = rf.scan(
            cond_dims=[inputs.batch], initial=initial, cond=lambda _, s: s.n < limit,
            body=lambda _, s: (s.n * 2, rf.State(n=s.n + 1)), **options,
        )  # fmt: skip
        return [rf.reduce_sum(frames, axis=dim), state.n, dim]

    return [*scan(), *scan(cond_before_body=False), *scan(max_seq_len=3)]


@op_case("while_loop", "loop_over_frames", differentiable=False)
def beam_search(inputs: Inputs) -> list[Tensor]:
    """A loop over the labels, and one back over its frames."""
    vocab, feature = inputs.static("vocab"), inputs.static("feature")
    embedding, weights = inputs.floats([vocab, feature]), inputs.floats([feature, vocab])
    start = inputs.floats([inputs.batch, feature])

    def step(labels: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = rf.tanh(rf.gather(embedding, indices=labels, axis=vocab) + 0.5 * state)
        return rf.log_softmax(rf.matmul(state, weights, reduce=feature), axis=vocab), state

    def initial(batch_dims: Sequence[Dim]) -> Tensor:
        return rf.expand_dims(start, [dim for dim in batch_dims if dim not in start.dims])

    options = {"beam_size": 2, "vocab_dim": vocab, "bos": 0, "eos": 0, "max_seq_len": 6}
    found = label_search(step, initial_state=initial, batch_dims=[inputs.batch], **options)
    return [found.scores, found.labels]


@op_case("tensor_array_unstack", "tensor_array_stack", "tensor_array_length")
def tensor_array(inputs: Inputs) -> Tensor:
    time, feature = inputs.dynamic(), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    return rf.TensorArray.unstack(x, axis=time).stack(axis=time)


@op_case("tensor_array_unstack", "tensor_array_stack", "tensor_array_push_back", "tensor_array_get_item",
         "tensor_array_create")  # fmt: skip
def tensor_array_by_element(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic(over=(), low=1), inputs.static("feature")  # there is a first frame
    x = inputs.floats([inputs.batch, time, feature])
    again = rf.TensorArray.unstack(x, axis=time)
    array = rf.TensorArray(x.copy_template_excluding_axis(x.get_axis_from_description(time)))
    array = array.push_back(again[0]).push_back(again[0] * 2.0)
    pair = Dim(None, name="pair", kind=Dim.Types.Spatial)
    return [array.stack(axis=pair), array[1]]


@op_case("cond", differentiable=False)
def cond_with_dims_of_different_lengths(inputs: Inputs) -> list[Tensor]:
    time, feature = inputs.dynamic(), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature])
    is_long = inputs.ints([], high=1) > 0

    def shorter() -> rf.State:
        dim = time.ceildiv_right(2)
        return rf.State(x=rf.slice(x, axis=time, size=dim)[0], dim=dim)

    chosen = rf.cond(is_long, lambda: rf.State(x=x * 1.0, dim=time), shorter)
    return [rf.reduce_sum(chosen.x, axis=chosen.dim)]
