"""
What a backend brings: operations on raw tensors, without knowledge of dims.

These are declarations. A backend defines static or class methods of the same names. Where it does not, calling one says
so. What most backends can leave as it is has its default in `raw`.
"""

# mypy: disable-error-code="empty-body"
# Declarations have no body.

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from returnn.frontend._ops.nn.conv_windows import TransposedWindow, Window
from returnn.frontend._ops.random_source import RandomSource
from returnn.util.errors import UserError

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor

T = TypeVar("T")
C = TypeVar("C", bound=type)
Scan = Callable[[Any, Sequence[Any]], Any]


class _Declaration:
    """A declared operation: says that a backend does not have it, when it is called there."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __get__(self, instance: object, owner: type[RequiredOps[Any]]) -> Callable[..., Any]:
        @functools.wraps(self._function)
        def fail(*args: Any, **kwargs: Any) -> Any:
            raise UserError(f"{self._function.__name__}: the backend {owner.name!r} has no such operation.")

        return fail


def _declare(interface: C) -> C:
    """Makes declarations of all static methods of a class."""
    for name, member in list(vars(interface).items()):
        if isinstance(member, staticmethod):
            setattr(interface, name, _Declaration(member.__func__))
    return interface


@_declare
class RequiredOps(Generic[T]):
    """What each backend with raw tensors of type T brings. All are static methods: backends have no state."""

    name: str | None = None

    @staticmethod
    def executing_eagerly() -> bool:
        """:return: whether operations are computed at once, rather than added to a graph"""

    @staticmethod
    def get_dtype_name_raw(raw_tensor: T) -> str:
        """:return: dtype, such as "float32" """

    @staticmethod
    def as_dtype_raw(dtype_name: str) -> Any:
        """
        :param dtype_name: such as "float32"
        :return: what the backend calls it
        """

    @staticmethod
    def get_ndim_raw(raw_tensor: T) -> int:
        """:return: number of axes"""

    @staticmethod
    def get_shape_raw(raw_tensor: T) -> Any:
        """:return: shape, as the backend has it: a tensor, or a tuple"""

    @staticmethod
    def get_shape_tuple_raw(raw_tensor: T) -> tuple[int | T, ...]:
        """:return: size of each axis, as number where known, otherwise as raw scalar"""

    @staticmethod
    def get_known_shape_raw(raw_tensor: T) -> tuple[int | None, ...]:
        """:return: size of each axis, None where it is not known. Makes no operations."""

    @staticmethod
    def set_known_shape_raw(raw_tensor: T, shape: tuple[int | None, ...]) -> None:
        """Notes what is known about the shape, in a graph; checks it, in eager code."""

    @staticmethod
    def get_new_dim_raw(raw_tensor: T, axis: int, *, name: str) -> Dim:
        """:return: a new dim for the axis, with its size"""

    @staticmethod
    def raw_to_numpy(raw_tensor: T) -> Any:
        """:return: the value as numpy array; in a graph only if it is constant"""

    @staticmethod
    def create_placeholder_raw(tensor: Tensor) -> T:
        """:return: raw tensor for this template, with a value that is given whenever the graph runs. TensorFlow only"""

    @staticmethod
    def fill_raw(shape: Sequence[int | T] | T, value: Any) -> T:
        """:return: raw tensor of this shape with the scalar `value` everywhere"""

    @staticmethod
    def cast_raw(raw_tensor: T, dtype: str) -> T:
        """:return: raw tensor with another dtype"""

    @staticmethod
    def compare_raw(a: T, kind: str, b: T) -> T:
        """
        :param a: broadcastable to b
        :param kind: "equal", "less", "less_equal", "greater", "greater_equal", "not_equal"
        :param b: broadcastable to a
        """

    @staticmethod
    def combine_raw(a: T, kind: str, b: T) -> T:
        """
        :param a: broadcastable to b
        :param kind: "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "maximum", "minimum", "logical_and",
            "logical_or", "squared_difference", "logaddexp"
        :param b: broadcastable to a
        """

    @staticmethod
    def activation_raw(raw_tensor: T, func: str) -> T:
        """:return: elementwise function, such as "tanh", "sigmoid", "relu", "exp", "neg" """

    @staticmethod
    def reshape_raw(raw_tensor: T, shape: Sequence[int | T] | T) -> T:
        """:return: raw tensor with the same values in another shape"""

    @staticmethod
    def squeeze_raw(raw_tensor: T, axes: Sequence[int]) -> T:
        """:return: raw tensor without these axes of size 1"""

    @staticmethod
    def transpose_raw(raw_tensor: T, perm: Sequence[int]) -> T:
        """:return: raw tensor with its axes in the order `perm`"""

    @staticmethod
    def expand_dims_raw(raw_tensor: T, axis: int) -> T:
        """:return: raw tensor with a new axis of size 1"""

    @staticmethod
    def expand_raw(raw_tensor: T, axis: int, dim: int | T) -> T:
        """:return: raw tensor with the values repeated along an axis which had the size 1"""

    @staticmethod
    def sequence_mask_raw(lengths: T, *, batch_major: bool = True) -> T:
        """
        :param lengths: (B,)
        :return: bool, (B, T) if batch_major else (T, B), True where t < lengths[b]
        """

    @staticmethod
    def runtime_sanity_checks(tensor: Tensor) -> Any:
        """
        Checks that the value fits the dims and their lengths.

        :return: an operation that does so, in a graph; nothing in eager code, where it is checked now
        """

    @staticmethod
    def reduce_raw(raw_tensor: T, mode: str, axes: Sequence[int]) -> T:
        """:return: reduction over these axes; for "argmin" and "argmax" it is one axis, and the result is int32"""

    @staticmethod
    def matmul_raw(a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False) -> T:
        """:return: (..., I, J) x (..., J, K) -> (..., I, K), where (...) are the same in both; or a with 2 axes"""

    @staticmethod
    def range_raw(size: Any, dtype: str, device: str | None) -> T:
        """:return: 0, 1, ..., size - 1"""

    @staticmethod
    def where_raw(cond: Any, true_: Any, false_: Any) -> T:
        """:return: elementwise choice, with broadcasting"""

    @staticmethod
    def constant_raw(value: Any, dtype: str, device: str | None) -> T:
        """:return: raw tensor from a number or numpy array"""

    @staticmethod
    def concat_raw(raw_tensors: Sequence[T], axis: int) -> T:
        """:return: concatenation along the axis; all other axes have the same sizes"""

    @staticmethod
    def stack_raw(raw_tensors: Sequence[T]) -> T:
        """:return: all behind each other along a new first axis"""

    @staticmethod
    def unstack_raw(raw_tensor: T, axis: int, number: int) -> Sequence[Any]:
        """:return: the entries of the axis, which are so many"""

    @staticmethod
    def split_raw(raw_tensor: T, sizes: Sequence[Any], axis: int) -> Sequence[Any]:
        """:return: pieces of these sizes along the axis"""

    @staticmethod
    def pad_raw(raw_tensor: T, amounts: Sequence[tuple[Any, Any]], value: Any) -> T:
        """:return: for each axis, so many times the number `value` before and behind"""

    @staticmethod
    def flip_raw(raw_tensor: T, axis: int) -> T:
        """:return: the axis in reverse order"""

    @staticmethod
    def gather_raw(raw_tensor: T, indices: Any, axis: int, batch_axes: int) -> T:
        """
        :param raw_tensor: (batch..., before..., axis, behind...)
        :param indices: (batch..., new...)
        :param axis: which the indices are into
        :param batch_axes: number of axes in (batch...)
        :return: (batch..., before..., new..., behind...)
        """

    @staticmethod
    def segment_raw(values: Any, indices: Any, number: Any, mode: str) -> T:
        """
        :param values: (N, rest...)
        :param indices: (N,); negative: left out
        :param number: of segments
        :param mode: "sum", "max", "min"
        :return: (number, rest...). A segment without values has any value.
        """

    @staticmethod
    def masked_select_raw(raw_tensor: T, mask: Any) -> T:
        """:return: (mask..., rest...), (mask...) -> (N, rest...)"""

    @staticmethod
    def masked_scatter_raw(raw_tensor: T, mask: Any, backup: Any) -> T:
        """:return: (N, rest...), (mask...), None or (mask..., rest...) -> (mask..., rest...)"""

    @staticmethod
    def search_sorted_raw(sorted_rows: Any, values: Any, *, side: str, dtype: str) -> T:
        """:return: (batch, N), (batch, M) -> (batch, M)"""

    @staticmethod
    def sort_raw(raw_tensor: T, axis: int, *, descending: bool, stable: bool) -> tuple[Any, Any]:
        """:return: sorted values; their indices, int32"""

    @staticmethod
    def top_k_raw(raw_tensor: T, k: Any, *, sorted: bool) -> tuple[Any, Any]:
        """:return: the highest values along the last axis; their indices, int32"""

    @staticmethod
    def cumsum_raw(raw_tensor: T, axis: int) -> T:
        """:return: sums along the axis, in the same dtype"""

    @staticmethod
    def test_raw(raw_tensor: T, kind: str) -> T:
        """:return: whether "finite", "infinite", "neg_infinite", elementwise"""

    @staticmethod
    def make_complex_raw(real: Any, imag: Any) -> T:
        """:return: complex numbers"""

    @staticmethod
    def complex_as_real_raw(raw_tensor: T) -> T:
        """:return: real and imaginary part, along a new last axis"""

    @staticmethod
    def real_as_complex_raw(raw_tensor: T) -> T:
        """:return: complex numbers from the last axis, of size 2"""

    @staticmethod
    def of_all_processes_raw(raw_tensor: T) -> T:
        """:return: (P, ...), what each of P processes of a distributed training has; None if there is just one"""

    @staticmethod
    def softmax_raw(raw_tensor: T, axis: int) -> T:
        """:return: softmax"""

    @staticmethod
    def log_softmax_raw(raw_tensor: T, axis: int) -> T:
        """:return: logarithm of the softmax"""

    @staticmethod
    def sparse_cross_entropy_raw(logits: Any, targets: Any) -> T:
        """
        :param logits: (..., C)
        :param targets: (...), integers
        :return: (...), cross entropy
        """

    @staticmethod
    def random_uniform_raw(shape: Sequence[Any], dtype: str, source: RandomSource, device: str | None) -> T:
        """:return: floats in [0, 1)"""

    @staticmethod
    def random_ints_raw(
        shape: Sequence[Any], dtype: str, low: Any, high: Any, source: RandomSource, device: str | None
    ) -> T:
        """:return: integers in [low, high), which are numbers or raw scalars"""

    @staticmethod
    def random_normal_raw(shape: Sequence[Any], dtype: str, source: RandomSource, device: str | None) -> T:
        """:return: with mean 0 and standard deviation 1"""

    @staticmethod
    def random_truncated_raw(
        shape: Sequence[Any], dtype: str, low: Any, high: Any, source: RandomSource, device: str | None
    ) -> T:
        """:return: normal distribution without what is not in [low, high], which are numbers or raw scalars"""

    @staticmethod
    def gradient_raw(y: Any, x: Any) -> T:
        """:return: gradient of the scalar y with respect to x"""

    @staticmethod
    def stop_gradient_raw(x: Any) -> T:
        """:return: the same value"""

    @staticmethod
    def map_gradient_raw(x: Any, function: Callable[[Any], Any]) -> T:
        """:return: the same value; the gradient g that comes back becomes function(g)"""

    @staticmethod
    def conv_raw(raw_tensor: T, filter: Any, moved: Sequence[Window], groups: int) -> T:
        """
        :param raw_tensor: (N, spatial..., I), or (N, I, spatial...)
        :param filter: (spatial..., I / groups, O), or (O, I / groups, spatial...)
        :param moved: for each spatial axis
        :param groups: the features are divided into so many groups, each on its own
        :return: (N, spatial..., O), or (N, O, spatial...)
        """

    @staticmethod
    def transposed_conv_raw(raw_tensor: T, filter: Any, laid: Sequence[TransposedWindow], sizes: Sequence[Any]) -> T:
        """
        :param raw_tensor: (N, spatial..., I), or (N, I, spatial...)
        :param filter: (spatial..., O, I), or (I, O, spatial...)
        :param laid: for each spatial axis
        :param sizes: of the spatial axes of the output
        :return: (N, spatial..., O), or (N, O, spatial...)
        """

    @staticmethod
    def pool_raw(raw_tensor: T, mode: str, moved: Sequence[Window]) -> T:
        """
        :param raw_tensor: (N, spatial..., C), or (N, C, spatial...)
        :param mode: "max", "avg"
        :param moved: for each spatial axis
        :return: in the same layout
        """

    @staticmethod
    def lstm_raw(
        raw_tensor: T, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any, lengths: Any
    ) -> tuple[Any, Any, Any]:
        """
        :param raw_tensor: (T, B, I)
        :param h: (B, O)
        :param c: (B, O)
        :param ff_weight: (4 * O, I)
        :param rec_weight: (4 * O, O)
        :param bias: (4 * O,), or None
        :param lengths: (B,), or None if there are no padded frames
        :return: (T, B, O), output; (B, O) twice: output and cell after the last frame of each sequence
        """

    @staticmethod
    def scan_raw(step: Scan, initial: Any, frames: Sequence[Any], *, reverse: bool = False) -> T:
        """
        :param step: (state, (frame of each of `frames`)) -> state
        :param initial: state
        :param frames: (T, ...) each
        :param reverse: begin with the last frame
        :return: (T, ...): the state after each frame
        """

    @staticmethod
    def with_gradient_raw(x: Any, compute: Callable[[Any], tuple[Any, Any]], gradient: Callable[[Any, Any], Any]) -> T:
        """
        :param x: raw tensor
        :param compute: x -> value, what the gradient needs
        :param gradient: gradient with respect to the value, what it needs -> gradient with respect to x
        :return: value
        """

    @staticmethod
    def edit_distance_raw(a: Any, b: Any, a_lengths: Any, b_lengths: Any) -> T:
        """:return: (B,), int32, from (B, S), (B, S2), (B,), (B,)"""

    @staticmethod
    def copy_raw(raw_tensor: T) -> T:
        """:return: a copy; changing one in place does not change the other"""

    @staticmethod
    def rfft_raw(raw_tensor: T, size: int) -> T:
        """
        :param raw_tensor: (..., samples), real, at most `size` samples
        :param size: zeros are added up to this
        :return: (..., size // 2 + 1), complex: discrete Fourier transform along the last axis
        """

    @staticmethod
    def set_requires_gradient(tensor: Tensor) -> None:
        """Prepares a tensor for `gradient` with respect to it."""

    @staticmethod
    def stop_gradient_scope() -> Any:
        """:return: context manager; no gradient goes back through what is computed inside"""

    @staticmethod
    def get_tensor_dependencies(x: Tensor) -> Sequence[Tensor]:
        """:return: what the operation that made x took as input, where the backend knows"""

    @staticmethod
    def get_tensor_consumers(x: Tensor) -> Sequence[Tensor]:
        """:return: results of operations which take x as input, where the backend knows"""

    @staticmethod
    def set_random_seed(seed: int) -> None:
        """Begins anew: the same seed gives the same random values, in the same order."""

    @staticmethod
    def get_random_state() -> dict[str, bytes]:
        """:return: state of the random generators"""

    @staticmethod
    def set_random_state(state: dict[str, bytes]) -> None:
        """
        :param state: what `get_random_state` returned. On other hardware, or with another version of the backend, this
            may not succeed; so `set_random_seed` should have been called before
        """

    @staticmethod
    def create_parameter_raw(tensor: Any, *, device: str | None = None) -> Any:
        """:return: raw parameter, with the initial value of `tensor`; None for a template"""

    @staticmethod
    def set_parameter_initial_value(param: Any, value: Any) -> None:
        """
        :param param: its raw parameter exists already
        :param value: tensor, or a number for all entries
        """

    @staticmethod
    def set_parameter_trainable(param: Any, trainable: bool) -> None:
        """
        :param param: its raw parameter exists already
        :param trainable: whether the optimizer updates it
        """

    @staticmethod
    def parameter_move_to(param: Any, *, device: str | None = None, dtype: str | None = None) -> None:
        """
        Moves a parameter, which stays the same object, but can get a new raw parameter.

        :param device: such as "cpu"; None: leave it
        :param dtype: None: leave it
        """

    @staticmethod
    def parameter_assign_raw(param: Any, value: Any, op: str) -> None:
        """
        :param param: `Parameter`, is changed in place
        :param value: tensor whose dims are among those of the parameter, or number
        :param op: "assign" or "add"
        """

    @staticmethod
    def parameter_assign_key_raw(
        param: Any, axes: Sequence[Dim], keys: Sequence[Any], dims: Sequence[Dim], value: Any, op: str
    ) -> None:
        """
        :param param: `Parameter`, is changed in place
        :param axes: dims of the parameter
        :param keys: for each of them: number, tensor of indices, or (slice, dim of what it cuts out)
        :param dims: that all keys have
        :param value: tensor whose dims are among `dims` and the others of the parameter, or number
        :param op: "assign" or "add"
        """

    @staticmethod
    def cond(pred: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
        """See `returnn.frontend.cond`."""

    @staticmethod
    def while_loop(cond: Callable[[Any], bool | Tensor], body: Callable[[Any], Any], initial: Any) -> Any:
        """See `returnn.frontend.while_loop`."""

    @staticmethod
    def sdpa_varlen_raw(
        *,
        query: T,
        key: T,
        value: T,
        seq_starts_q: T,
        seq_lens_q: T,
        seq_starts_kv: T,
        seq_lens_kv: T,
        max_len_q: int,
        max_len_kv: int,
        is_causal: bool,
        dropout_p: float,
        scale: float | None,
    ) -> T:
        """
        Attention of sequences that are behind each other, without padding.

        :param query: (frames of all sequences, ..., features to compare)
        :param key: (frames of all sequences, ..., features to compare)
        :param value: (frames of all sequences, ..., features)
        :param seq_starts_q: (B,), int32, first frame of each sequence
        :param seq_lens_q: (B,), int32
        :param seq_starts_kv: (B,), int32, the same for keys and values
        :param seq_lens_kv: (B,), int32
        :param max_len_q: longest one
        :param max_len_kv: longest one
        :param is_causal: whether a query sees only the frames up to its own position
        :param dropout_p: probability to drop a weight
        :param scale: of the scalar products. Default: 1 / sqrt(features to compare)
        :return: (frames of all sequences, ..., features); 0 for a query that sees no frame
        """
