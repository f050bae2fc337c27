"""
The context of a run: whether this is training, which step and epoch it is, and what the model marks as loss or output.

The engine sets it up before each step; operations such as dropout ask for the train flag.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from returnn.frontend._backend import get_selected_backend
from returnn.frontend._reduce import reduce_mean, reduce_sum
from returnn.frontend.array_ import cast, convert_to_tensor
from returnn.frontend.dims import num_elements_of_shape
from returnn.tensor import Dim, Tensor, TensorDict
from returnn.util.errors import UserError, nearest_hint

_run_ctx: RunCtx | None = None
_STAGES = ("init", "train_step", "forward_step")


@dataclass
class Loss:
    """A loss that the model marked."""

    loss: Tensor
    name: str
    scale: float = 1.0
    as_error: bool = False
    use_normalized_loss: bool = False
    use_flatten_frames: bool = True
    custom_inv_norm_factor: Tensor | None = None
    _summed_loss_cached: Tensor | None = None
    _mean_loss_cached: Tensor | None = None

    def get_summed_loss(self) -> Tensor:
        """:return: scalar, the sum over all valid frames"""
        if self._summed_loss_cached is None:
            self._summed_loss_cached = reduce_sum(self.loss, axis=self.loss.dims) if self.loss.dims else self.loss
        return self._summed_loss_cached

    def get_mean_loss(self) -> Tensor:
        """:return: scalar, the sum over all valid frames, divided by their number (or `custom_inv_norm_factor`)"""
        if self._mean_loss_cached is None:
            factor = self.get_inv_norm_factor() if self.custom_inv_norm_factor is not None else None
            if isinstance(factor, Tensor):
                self._mean_loss_cached = self.get_summed_loss() / cast(factor, self.loss.dtype)
            else:
                self._mean_loss_cached = reduce_mean(self.loss, axis=self.loss.dims) if self.loss.dims else self.loss
        return self._mean_loss_cached

    def get_inv_norm_factor(self) -> int | Tensor:
        """:return: number of valid frames, or the sum of `custom_inv_norm_factor`"""
        factor = self.custom_inv_norm_factor
        if factor is not None:
            return reduce_sum(factor, axis=factor.dims) if factor.dims else factor
        return num_elements_of_shape(self.loss.dims)

    def get_scaled_reduced_loss(self) -> Tensor:
        """:return: scalar, the part of the objective"""
        loss = self.get_mean_loss() if self.use_normalized_loss else self.get_summed_loss()
        return loss if self.scale == 1 else loss * self.scale


class RunCtx:
    """What a model can ask about the run that it is part of, and what it tells."""

    def __init__(
        self,
        *,
        stage: str,
        train_flag: bool | Tensor = False,
        step: int | Tensor = 0,
        epoch: int | Tensor = 1,
        expected_outputs: TensorDict | None = None,
    ) -> None:
        """
        :param stage: "init", "train_step" or "forward_step"
        :param train_flag: whether this is training; also a bool scalar
        :param step: number of the step
        :param epoch: number of the epoch, from 1 on
        :param expected_outputs: templates of the outputs
        """
        assert stage in _STAGES, stage
        self._stage = stage
        self._train_flag = train_flag
        self._train_flag_by_func: dict[Any, bool | Tensor] = {}
        self._step = step
        self._epoch = epoch
        self.expected_outputs = expected_outputs
        self.losses: dict[str, Loss] = {}
        self.outputs = TensorDict()

    def __repr__(self) -> str:
        return f"<RunCtx {self._stage} train_flag={self._train_flag} step={self._step} epoch={self._epoch}>"

    @property
    def stage(self) -> str:
        """ "init", "train_step" or "forward_step" """
        return self._stage

    @property
    def train_flag(self) -> bool | Tensor:
        """Whether this is training."""
        return self._train_flag

    @property
    def step(self) -> int | Tensor:
        """Number of the step, from 0 on."""
        return self._step

    @property
    def epoch(self) -> int | Tensor:
        """Number of the epoch, from 1 on."""
        return self._epoch

    def get_step_tensor(self) -> Tensor:
        """:return: number of the step, as scalar"""
        return convert_to_tensor(self._step, dims=(), dtype="int32")

    def get_epoch_tensor(self) -> Tensor:
        """:return: number of the epoch, as scalar"""
        return convert_to_tensor(self._epoch, dims=(), dtype="int32")

    @contextlib.contextmanager
    def train_flag_ctx(self, train_flag: bool | Tensor, *, func: Callable[..., Any] | None = None) -> Iterator[None]:
        """
        Another train flag inside of the `with` block.

        :param train_flag: whether this is training
        :param func: only for this function
        """
        before = self._train_flag, self._train_flag_by_func
        if func is None:
            self._train_flag = train_flag
        else:
            self._train_flag_by_func = {**self._train_flag_by_func, func: train_flag}
        try:
            yield
        finally:
            self._train_flag, self._train_flag_by_func = before

    def is_train_flag_enabled(self, *, func: Callable[..., Any] | None) -> bool | Tensor:
        """:return: whether this is training, for this function"""
        return self._train_flag_by_func.get(func, self._train_flag)

    def mark_as_loss(
        self,
        loss: Tensor | Any,
        name: str,
        *,
        dims: Sequence[Dim] | None = None,
        scale: float | None = 1.0,
        as_error: bool = False,
        use_normalized_loss: bool = False,
        use_flatten_frames: bool = True,
        custom_inv_norm_factor: Tensor | Any = None,
    ) -> None:
        """
        Adds a loss to the objective, by its sum over all valid frames; what is shown of it is the mean.

        :param loss: one value per frame, or per sequence, or a scalar; also a raw tensor
        :param name: of the loss
        :param dims: of a raw tensor
        :param scale: factor in the objective
        :param as_error: only for people; not part of the objective
        :param use_normalized_loss: the objective has the mean over the frames, instead of the sum
        :param use_flatten_frames: a net dict computes the loss on the valid frames alone, if they are packed before.
            The value is the same: here, padded frames are masked
        :param custom_inv_norm_factor: what the sum is divided by, instead of the number of frames; also a raw tensor,
            of which all entries count, or a number
        :raises UserError: if there is a loss of this name already, or this is no training step
        """
        if self._stage != "train_step":
            raise UserError(f"mark_as_loss {name!r}: only possible in a training step, but this is {self._stage!r}.")
        if not isinstance(name, str):
            raise UserError(f"mark_as_loss: the arguments are (loss, name); got {loss!r} and {_kind_of(name)}.")
        if name in self.losses:
            raise UserError(f"mark_as_loss: there is a loss {name!r} already. Give each its own name.")
        loss = _marked_tensor(loss, dims or (), where=f"mark_as_loss {name!r}", may_be_longer=False)
        if not loss.dtype.startswith(("float", "bfloat")):
            if not as_error:
                raise UserError(
                    f"mark_as_loss {name!r}: a loss has to be float, got {loss.dtype}.\n"
                    "  rf.cast(loss, 'float32') makes it; as_error=True only shows it."
                )
            loss = cast(loss, "float32")
        self.losses[name] = Loss(
            loss,
            name,
            1.0 if scale is None else scale,
            as_error,
            use_normalized_loss,
            use_flatten_frames,
            _norm_factor(custom_inv_norm_factor, where=f"mark_as_loss {name!r}: custom_inv_norm_factor"),
        )

    def mark_as_output(self, tensor: Tensor | Any, name: str, *, dims: Sequence[Dim] | None = None) -> None:
        """
        Adds an output, for `forward_callback`, an HDF file, or hypotheses.

        :param tensor: an output; also a raw tensor
        :param name: of the output
        :param dims: order of its axes. Default for a raw tensor: those that are expected. A dim of which nothing was
            known there, as `Dim(None)`, is from now on the one that is marked
        :raises UserError: if it was not expected, or there is one of this name already
        """
        if self._stage == "init":
            raise UserError(f"mark_as_output {name!r}: only possible in a step, not while the model is made.")
        if not isinstance(name, str):
            raise UserError(f"mark_as_output: the arguments are (tensor, name); got {tensor!r} and {_kind_of(name)}.")
        if self.expected_outputs is not None and name not in self.expected_outputs:
            hint = nearest_hint(name, self.expected_outputs.data)
            raise UserError(f"mark_as_output {name!r}: is not expected.\n  {hint}")
        if name in self.outputs:
            raise UserError(f"mark_as_output: there is an output {name!r} already. Give each its own name.")
        expected = None if self.expected_outputs is None else self.expected_outputs[name]
        where = f"mark_as_output {name!r}"
        tensor = _marked_tensor(tensor, dims, where=where, may_be_longer=True, expected=expected)
        if expected is not None:
            expected = self._expect_dims_of(name, tensor.dims if dims is None else dims)
        order = dims if dims is not None or expected is None else expected.dims
        if order is not None and set(order) == set(tensor.dims):
            tensor = tensor.copy_compatible_to_dims(order)
        if expected is not None and set(expected.dims) != set(tensor.dims):
            raise UserError(f"mark_as_output {name!r}: expected {expected}, got {tensor}.")
        self.outputs.data[name] = tensor

    def mark_as_default_output(self, tensor: Tensor, *, shape: Sequence[Dim] | None = None) -> None:
        """Marks the output "output"; `shape` is the order of its axes."""
        self.mark_as_output(tensor, "output", dims=shape)

    def _expect_dims_of(self, name: str, marked: Sequence[Dim]) -> Tensor:
        """
        Another dim in place of one of which nothing is known, or of the same size, is expected from now on, also for
        the other outputs. It holds for this step alone, as the next one has other lengths.

        :param name: of an output
        :param marked: its dims
        :return: what is expected
        """
        assert self.expected_outputs is not None
        expected = self.expected_outputs[name]
        missing = [dim for dim in expected.dims if dim not in marked]
        further = [dim for dim in marked if dim not in expected.dims]
        if len(missing) != len(further) or not all(map(_can_be, missing, further)):
            return expected
        same = dict(zip(missing, further, strict=True))
        for key, template in self.expected_outputs.data.items():
            if any(dim in same for dim in template.dims):
                dims = [same.get(dim, dim) for dim in template.dims]
                self.expected_outputs.data[key] = template.copy_template_new_dim_tags(dims, keep_special_axes=True)
        return self.expected_outputs[name]

    def check_outputs_complete(self) -> None:
        """:raises UserError: if an output that was expected is missing"""
        missing = [
            name for name in (self.expected_outputs.data if self.expected_outputs else ()) if name not in self.outputs
        ]
        if missing:
            raise UserError(
                f"the outputs {', '.join(map(repr, missing))} are expected, but the model did not mark them."
            )

    def total_loss(self, *, factors: Mapping[str, float | Tensor] | None = None) -> Tensor | float:
        """
        :param factors: of losses, by name; default: 1
        :return: scalar, the objective: all scaled losses that are not errors
        """
        total: Tensor | float = 0.0
        for name, loss in self.losses.items():
            if not loss.as_error:
                factor = (factors or {}).get(name, 1.0)
                part = loss.get_scaled_reduced_loss()
                part = part if isinstance(factor, float) and factor == 1.0 else part * factor
                total = part if isinstance(total, float) and total == 0 else total + part
        return total


def _can_be(expected: Dim, marked: Dim) -> bool:
    """:return: whether the dim of an output can be the one that is expected, though they are not the same so far"""
    if expected.is_batch_dim() or marked.is_batch_dim():
        return False
    if expected.size is not None:
        return expected.size == marked.size
    return not expected.is_derived() and expected.length_rule is None and expected.dyn_size is None


def _marked_tensor(
    value: Any, dims: Sequence[Dim] | None, *, where: str, may_be_longer: bool, expected: Tensor | None = None
) -> Tensor:
    """
    :param value: tensor, or a raw one, or a number
    :param dims: of a raw tensor; None: those that are expected, or made from its shape
    :param where: for messages
    :param may_be_longer: whether an axis may go on behind the longest sequence, as that is cut off
    :param expected: what a raw tensor is
    :return: the tensor
    :raises UserError: if it does not have these dims
    """
    if isinstance(value, Tensor):
        return value
    if value is None and get_selected_backend() == "template":  # a raw tensor has no value where only dims are inferred
        dims = dims or (() if expected is None else expected.dims)
        if not dims:
            raise TypeError(f"{where}: got None")  # perhaps a scalar, perhaps no tensor at all
        return Tensor(where, dims, "float32" if expected is None else expected.dtype)
    if value is None or isinstance(value, (str, Mapping)):
        raise UserError(f"{where}: expected a tensor, got {_kind_of(value)}.")
    shape = getattr(value, "shape", None)
    sizes = list(shape) if getattr(shape, "rank", 0) is not None and shape is not None else []
    dims = expected.dims if dims is None and expected is not None else dims
    if dims is not None and sizes:
        if len(sizes) != len(dims):
            raise UserError(
                f"{where}: the tensor has the shape {sizes}, and dims={list(dims)}.\n"
                "  A raw tensor needs `dims=[...]`, a dim for each axis."
            )
        for axis, (size, dim) in enumerate(zip(sizes, dims, strict=True)):
            wanted = dim.get_dim_value() if dim.size is not None or dim.dyn_size is not None else None
            if not isinstance(size, int) or not isinstance(wanted, int) or size == wanted:
                continue  # not known before the graph runs, or fine
            if not (may_be_longer and size > wanted and dim.size is None):
                raise UserError(f"{where}: axis {axis} of {sizes} has {size} entries, the dim {dim} has {wanted}.")
    sparse_dim = None if expected is None else expected.sparse_dim
    return convert_to_tensor(value, dims=dims, sparse_dim=sparse_dim)


def _norm_factor(value: Any, *, where: str) -> Tensor | None:
    """
    :param value: tensor, or a raw one, or a number
    :param where: for messages
    :return: the tensor. Only its sum matters, so that axes of a raw one need no dims
    :raises UserError: if it is none of these
    """
    if value is None or isinstance(value, Tensor):
        return value
    if isinstance(value, (str, Mapping, Dim)):
        raise UserError(
            f"{where}: expected a tensor, got {_kind_of(value)}.\n"
            "  The number of all frames of a dim is dim.get_size_tensor()."
        )
    return convert_to_tensor(value)


def _kind_of(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, str) else f"a {type(value).__name__}"


def reset_run_ctx() -> None:
    """Forgets the context."""
    global _run_ctx
    _run_ctx = None


def init_train_step_run_ctx(
    *, train_flag: bool | Tensor = True, step: int | Tensor = 0, epoch: int | Tensor = 1
) -> None:
    """Sets up the context for a training step, or the same without training."""
    global _run_ctx
    _run_ctx = RunCtx(stage="train_step", train_flag=train_flag, step=step, epoch=epoch)


def init_forward_step_run_ctx(
    *, expected_outputs: TensorDict | None = None, step: int | Tensor = 0, epoch: int | Tensor = 1
) -> None:
    """Sets up the context for a step without losses."""
    global _run_ctx
    _run_ctx = RunCtx(stage="forward_step", expected_outputs=expected_outputs, step=step, epoch=epoch)


def get_run_ctx() -> RunCtx:
    """
    What a step asks and tells: `mark_as_loss`, `mark_as_output`, `train_flag`, `step`, `epoch`; see `RunCtx`.

    :return: the context; a new one for making a model if there is none
    """
    global _run_ctx
    if _run_ctx is None:
        _run_ctx = RunCtx(stage="init")
    return _run_ctx


def get_run_ctx_step() -> int | Tensor:
    """:return: number of the step"""
    return get_run_ctx().step


__all__ = [
    "Loss",
    "RunCtx",
    "get_run_ctx",
    "get_run_ctx_step",
    "init_forward_step_run_ctx",
    "init_train_step_run_ctx",
    "reset_run_ctx",
]
