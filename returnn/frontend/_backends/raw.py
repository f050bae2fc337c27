"""What a backend can say about its raw tensors beside the operations that it has to bring, with the usual answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from returnn.frontend._backends.required import RequiredOps

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor

T = TypeVar("T")


class RawOps(RequiredOps[T]):
    """All operations on raw tensors. They are static or class methods: backends have no state."""

    RawTensorType: type[T]
    is_tensorflow: bool = False
    is_backend_raw_tensor_dim_tag_independent: bool = True
    computes: bool = True  # whether there are values, or operations end with the rule for their dims
    channels_last: bool = True  # whether convolutions have the features behind the spatial axes, or before them
    matmul_folds_axes: bool = False  # whether (..., I) x (I, J) is one matrix product, without our reshapes
    dispatch_priority: int = 0  # of two tensors of different backends, the one with the higher number decides

    @staticmethod
    def have_sequence_mask_raw() -> bool:
        """:return: whether there is `sequence_mask_raw`"""
        return False

    @staticmethod
    def name_scope_raw(name: str) -> Any:
        """:return: context manager; operations made inside have the name as prefix, where operations have names"""
        return contextlib.nullcontext()

    @staticmethod
    def control_dependencies_raw(dependencies: Sequence[Any]) -> Any:
        """:return: context manager; operations made inside run after the dependencies"""
        return contextlib.nullcontext()

    @staticmethod
    def identity_with_control_dependencies_raw(raw_tensor: T, dependencies: Sequence[Any]) -> T:
        """:return: the same value, computed after the dependencies"""
        return raw_tensor

    @staticmethod
    def is_valid_in_current_graph(tensor: Tensor) -> bool:
        """:return: whether the value can be used in the current graph. Eager code has no graphs."""
        return True

    @staticmethod
    def graph_of_value(tensor: Tensor) -> Any:
        """
        :param tensor: that can be used in the current graph
        :return: context manager; operations are made in the graph of the value, such as the one around the loop that we
            are in. Eager code has no graphs.
        """
        return contextlib.nullcontext()

    @staticmethod
    def is_computed_from_own_input(tensor: Tensor) -> bool:
        """:return: whether code of the user brought the value into the graph. Eager code has no graphs."""
        return False

    @staticmethod
    def is_computed_from_constants(tensor: Tensor) -> bool:
        """:return: whether nothing has to be fed for the value. Eager code feeds nothing, and has no graphs."""
        return False

    @staticmethod
    def format_graph_output(raw_tensor: T, *, max_depth: int | None = None) -> str | None:
        """:return: the operations that the value is computed by, as text; None in eager code, which has no graphs"""
        return None

    @staticmethod
    def should_pickle_tensor(raw_tensor: T) -> bool:
        """:return: whether the value can go into a pickle"""
        return True

    @staticmethod
    def device_scope_raw(device: str | None) -> Any:
        """:return: context manager; operations made inside run on the device, where values do not say it themselves"""
        return contextlib.nullcontext()

    @classmethod
    def number_raw(cls, value: Any, dtype: str, other: Tensor) -> Any:
        """:return: number as operand of `combine_raw` and `compare_raw`, beside the tensor `other`"""
        return cls.constant_raw(value, dtype, other.device)

    @staticmethod
    def log_of_softmax_raw(raw_tensor: Any, eps: float) -> Any:
        """
        :param raw_tensor: not negative
        :param eps: what to take the logarithm of, where the softmax left something out
        :return: if it is known that this was computed by a softmax: the logarithm, without rounding; or else None
        """
        return None

    @staticmethod
    def dropout_raw(raw_tensor: Any, rate: float, scale: float) -> Any:
        """
        :param raw_tensor: float32
        :param rate: of entries that are multiplied by 0
        :param scale: of the other ones
        :return: with the random values of `random_uniform_raw`, which are at least `rate` for entries that are kept, if
            there is one operation for all of it; or else None
        """
        return None

    @staticmethod
    def ctc_loss_raw(logits: Any, targets: Any, num_frames: Any, num_labels: Any, *, blank_index: int) -> Any:
        """
        :param logits: (B, T, C), not normalized
        :param targets: (B, S)
        :param num_frames: (B,)
        :param num_labels: (B,)
        :param blank_index: the class
        :return: (B,), if the library has an own operation for it; or else None
        """
        return None

    @staticmethod
    def ctc_loss_by_kernel_raw(
        logits: Any,
        targets: Any,
        num_frames: Any,
        num_labels: Any,
        *,
        blank: Any,
        label_loop: bool,
        normalized: bool,
        time_major: bool,
        max_approx: bool,
    ) -> Any:
        """
        :param logits: (B, T, C), or (T, B, C) if `time_major`
        :param targets: (B, S)
        :param num_frames: (B,)
        :param num_labels: (B,)
        :param blank: the class
        :param label_loop: whether a label can stay for several frames
        :param normalized: the logits are log probabilities
        :param time_major: whether the frames are the first axis
        :param max_approx: only the best path counts
        :return: (B,), if there is a native kernel; or else None
        """
        return None

    @staticmethod
    def ctc_best_path_by_kernel_raw(
        logits: Any,
        targets: Any,
        num_frames: Any,
        num_labels: Any,
        *,
        blank: Any,
        label_loop: bool,
        normalized: bool,
        time_major: bool,
    ) -> Any:
        """:return: int32, (B, T) or (T, B): class of each frame, or None. Arguments as of `ctc_loss_by_kernel_raw`"""
        return None

    @staticmethod
    def get_device(x: Tensor) -> str | None:
        """:return: where the value is; None if not known"""
        return None

    @staticmethod
    def copy_to_device(x: Tensor, device: str | None) -> Tensor:
        """:return: the tensor with its value on the device, such as "cpu" or "cuda" """
        return x

    @staticmethod
    def gradient_checkpoint_scope() -> Any:
        """:return: context manager; what is computed inside is computed again for the gradient, if supported"""
        return contextlib.nullcontext()

    @classmethod
    def loop_over_frames(
        cls, cond: Callable[[Any], Any], body: Callable[[Any], Any], initial: Any, *, frames: Dim | None
    ) -> Any:
        """
        :param frames: the condition is true for all frames of this dim, and no longer; None: nothing is known about it
        :return: see `while_loop`, which the others are for
        """
        return cls.while_loop(cond, body, initial)

    @staticmethod
    def dry_run_scope() -> Any:
        """:return: context manager; operations made inside are thrown away afterwards"""
        return contextlib.nullcontext()
