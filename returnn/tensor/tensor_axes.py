"""
Axis descriptions: how a config names an axis of a tensor.

| description | axes |
| --- | --- |
| a `Dim` | the axis with this dim; if there are several, those with the highest `match_priority` |
| `"B"`, `"batch"` | the batch axis |
| `"T"`, `"time"`; `"T?"` | the time axis; the time axis if there is one |
| `"F"`, `"feature"` | the feature axis |
| `"spatial"`, `"spatial:1"`, `"spatial:-1"` | all spatial axes, one of them by number; also `"s:1"` |
| `"spatial_except:T"`, `"spatial_except_time"` | all spatial axes but one |
| `"dyn"`, `"dyn:0"` | axes with sequences of different lengths; also `"d:0"` |
| `"static"`, `"static:0"` | axes of fixed size |
| `"dim:512"` | the axis of this size |
| `"stag:enc"`, `"tag:enc"` | the (spatial) axis with "enc" in its name |
| `"stag-single:0:enc"` | of several such axes, the one with this number |
| `"except_batch"`, `"except_feature"`; `"except_batch:-1"` | all but this one; one of them by number |
| `"except_time"` | all but time and batch |
| `"BT"`, `"TF"` | each of these |
| `"*"`, `"all"` | all |
| a number | the axis with this number, counted with the batch axis; only in old configs |

Spatial axes are all but batch and feature. Upper and lower case are the same. A list of descriptions gives the axes
of each.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from returnn.tensor.dim import Dim, single_step_dim
from returnn.tensor.dim_base import short_name
from returnn.tensor.dim_types import DimKind
from returnn.tensor.tensor_base import TensorBase
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import DimError
from returnn.util.not_specified import NotSpecified

if TYPE_CHECKING:
    pass


AxisDescription = int | str | Dim
_WORDS = (
    "B",
    "batch",
    "T",
    "T?",
    "time",
    "F",
    "feature",
    "spatial",
    "spatial:0",
    "spatial_except_time",
    "dyn",
    "dynamic",
    "static",
    "dim:512",
    "stag:name",
    "tag:name",
    "stag-single:0:name",
    "except_batch",
    "except_time",
    "except_feature",
    "all",
)


class TensorAxes(TensorBase):
    """The floor of `Tensor` that finds axes."""

    def get_axes_from_description(
        self,
        axes: AxisDescription | Collection[AxisDescription] | None,
        allow_int: bool | type[NotSpecified] = NotSpecified,
    ) -> list[int]:
        """
        :param axes: see the table at the head of the module
        :param allow_int: whether a number is allowed. Default: only in configs with a behavior version below 5
        :return: the axes, counted with the batch axis, each once, in order of their description; can be empty
        :raises DimError: if there is no such description
        """
        if axes is None or (isinstance(axes, str) and axes == ""):
            return []
        if isinstance(axes, (list, tuple, set, frozenset)):
            found: list[int] = []
            for description in axes:
                found += [i for i in self.get_axes_from_description(description, allow_int) if i not in found]
            return found
        if isinstance(axes, Dim):
            return _find_axes_of_dim(self, axes)
        if isinstance(axes, int) and not isinstance(axes, bool):
            _check_int_allowed(self, axes, allow_int)
            return [self._check_axis(axes)]
        if not isinstance(axes, str):
            raise DimError(f"{self}: an axis is described by a text or a dim, not by {axes!r}.")
        return _find_axes_of_text(self, axes)

    def get_axis_from_description(
        self, axis: AxisDescription, allow_int: bool | type[NotSpecified] = NotSpecified
    ) -> int:
        """
        :param axis: see the table at the head of the module
        :param allow_int: see `get_axes_from_description`
        :return: the axis, counted with the batch axis
        :raises DimError: if it describes no axis of this tensor, or several
        """
        if isinstance(axis, Dim):  # most often, it is there once
            exact = [i for i, dim in enumerate(self._dims) if dim is axis]
            if len(exact) == 1 and self._dims.count(axis) == 1:
                return exact[0]
        axes = self.get_axes_from_description(axis, allow_int)
        if len(axes) == 1:
            return axes[0]
        shown = repr(axis) if isinstance(axis, str) else str(axis)
        if not axes:
            raise DimError(f"{self}: there is no axis {shown}.\n  {hint_for_missing_axis(self, axis)}")
        several = ", ".join(str(self.dims[i]) for i in axes)
        raise DimError(f"{self}: the axis {shown} is ambiguous, it could be {several}.\n  Give the dim itself.")

    def get_dim_tag_from_description(self, axis: AxisDescription) -> Dim:
        """
        :param axis: see the table at the head of the module
        :return: the dim
        :raises DimError: if it describes no axis of this tensor, or several
        """
        return self.dims[self.get_axis_from_description(axis)]

    def has_axis(self, axis: AxisDescription) -> bool:
        """:return: whether the description fits some axis"""
        return bool(self.get_axes_from_description(axis))

    def get_axes_by_tag_name(self, name: str, spatial_only: bool = False) -> list[int]:
        """
        :param name: part of the name of the dim, or of a dim that it is the same as; upper and lower case are the same
        :param spatial_only: leave out batch and feature axes
        """
        axes = self.get_spatial_batch_axes() if spatial_only else range(len(self.dims))
        return [i for i in axes if name.lower() in _list_names(self.dims[i])]

    def get_bc_axes(self, opts: Mapping[Any, Any] | None = None) -> set[int]:
        """
        :param opts: axis description -> 1 for size 1, -1 or None for the size of the axis; "*" for all others.
            Default: size 1 for all but the feature axis
        :return: the axes of size 1, such as those of noise which is the same in all frames of all sequences
        """
        options = dict(opts or {})
        for value in options.values():
            if value not in (1, -1, None):
                raise DimError(f"{self}: the size of a broadcast axis is 1 or -1, not {value!r}.")
        by_default = options.pop("*", 1)
        axes = set(range(len(self.dims))) if by_default == 1 else set()
        if "*" not in (opts or {}):
            axes.discard(self.feature_dim_axis)
        for description, value in options.items():
            described = set(self.get_axes_from_description(description, allow_int=True))
            axes = axes | described if value == 1 else axes - described
        return axes

    def get_spatial_batch_axes(self) -> list[int]:
        """:return: all axes but batch and feature, counted with the batch axis; also a feature axis of sequences"""
        feature_axis = self.feature_dim_axis
        if feature_axis is not None and (feature_axis == self.time_dim_axis or self.dims[feature_axis].size is None):
            feature_axis = None
        return [i for i, d in enumerate(self.dims) if i != feature_axis and d.kind not in (DimKind.Batch, DimKind.Beam)]

    def get_dynamic_axes(self) -> list[int]:
        """:return: axes with sequences of different lengths, counted with the batch axis"""
        return [i for i, dim in enumerate(self.dims) if self.is_axis_dynamic(i)]

    def get_static_axes(self) -> list[int]:
        """:return: axes of fixed size, but for hypotheses of a search, counted with the batch axis"""
        return [i for i, dim in enumerate(self.dims) if dim.size is not None and not dim.is_beam_dim()]

    def is_axis_dynamic(self, axis: int) -> bool:
        """:return: whether the axis, counted with the batch axis, has sequences of different lengths"""
        return self.dims[axis].kind not in (DimKind.Batch, DimKind.Beam) and self.dims[axis].size is None

    def have_batch_axis(self) -> bool:
        """:return: whether there is a batch axis"""
        return self.batch_dim_axis is not None

    def have_time_axis(self) -> bool:
        """:return: whether there is a time axis"""
        return self.time_dim_axis is not None

    def have_feature_axis(self) -> bool:
        """:return: whether there is a feature axis"""
        return self.feature_dim_axis is not None

    def get_time_dim_tag(self) -> Dim:
        """
        :return: the dim of the time axis
        :raises DimError: if there is none
        """
        axis = self.time_dim_axis
        if axis is None:
            raise DimError(f"{self}: there is no time axis.")
        return self.dims[axis]

    def get_batch_dim_tag(self) -> Dim:
        """
        :return: the dim of the batch axis
        :raises DimError: if there is none
        """
        axis = self.batch_dim_axis
        if axis is None:
            raise DimError(f"{self}: there is no batch axis.")
        return self.dims[axis]

    def remaining_dims(self, remove: Dim | Sequence[Dim] | None = None) -> list[Dim]:
        """:return: the dims without those to remove"""
        removed = [] if remove is None else [remove] if isinstance(remove, Dim) else list(remove)
        return [dim for dim in self.dims if dim not in removed]


def _find_axes_of_dim(tensor: TensorBase, dim: Dim) -> list[int]:
    if dim is single_step_dim:
        raise DimError(f"{tensor}: {dim} means a single step of a loop, it is no axis of a tensor.")
    equal = [i for i, d in enumerate(tensor.dims) if d == dim]
    exact = [i for i in equal if tensor.dims[i] is dim]
    if dim.match_priority and len(exact) == 1:  # it says itself which of several is meant
        return exact
    highest = max((tensor.dims[i].match_priority for i in equal), default=0)
    return [i for i in equal if tensor.dims[i].match_priority == highest]


def _find_axes_of_text(tensor: TensorAxes, text: str) -> list[int]:
    word = text.lower()
    if word in _FIXED_WORDS:
        return _FIXED_WORDS[word](tensor)
    if match := re.fullmatch(rf"({'|'.join(_NUMBERED)}):(-?\d+)", word):
        axes = _find_axes_of_text(tensor, _NUMBERED[match[1]])
        number = int(match[2])
        return [axes[number]] if -len(axes) <= number < len(axes) else []
    if match := re.fullmatch(r"dim:(\d+)", word):
        return [i for i, d in enumerate(tensor.dims) if d.size == int(match[1]) and not d.is_beam_dim()]
    if match := re.fullmatch(r"(s?tag):(.+)", word):
        return tensor.get_axes_by_tag_name(match[2], spatial_only=match[1] == "stag")
    if match := re.fullmatch(r"(s?tag)-single:(-?\d+):(.+)", word):
        axes = tensor.get_axes_by_tag_name(match[3], spatial_only=match[1] == "stag")
        number = int(match[2])
        return [axes[number]] if -len(axes) <= number < len(axes) else []
    if match := re.fullmatch(r"(spatial_)?except[:_](.+)", word):
        excluded = _find_axes_of_text(tensor, match[2])
        if word == "except_time":
            excluded = [*excluded, *_optional(tensor.batch_dim_axis)]
        axes = tensor.get_spatial_batch_axes() if match[1] else _list_axes(tensor)
        return [i for i in axes if i not in excluded]
    if re.fullmatch(r"[btf]{2,3}", word):
        return tensor.get_axes_from_description(list(word))
    if "+" in word:
        return tensor.get_axes_from_description(word.split("+"))
    nearest = difflib.get_close_matches(text, _WORDS, n=3)
    hint = f"Did you mean {' or '.join(map(repr, nearest))}?" if nearest else f"Possible: {', '.join(_WORDS)}."
    raise DimError(f"{tensor}: {text!r} does not describe an axis.\n  {hint}")


def _list_axes(tensor: TensorAxes) -> list[int]:
    """:return: all axes but those of a search, which no config means"""
    return [i for i, d in enumerate(tensor.dims) if not d.is_beam_dim()]


def _optional(axis: int | None) -> list[int]:
    return [] if axis is None else [axis]


# What an axis can be picked from by number, by the word that stands for it there.
_NUMBERED = {
    **{word: word for word in ("spatial", "dyn", "dynamic", "static", "except_batch", "except_time", "except_feature")},
    "s": "spatial",
    "d": "dyn",
}
_FIXED_WORDS: dict[str, Callable[[Any], list[int]]] = {
    "b": lambda x: _optional(x.batch_dim_axis),
    "batch": lambda x: _optional(x.batch_dim_axis),
    "t": lambda x: _optional(x.time_dim_axis),
    "t?": lambda x: _optional(x.time_dim_axis),
    "time": lambda x: _optional(x.time_dim_axis),
    "time?": lambda x: _optional(x.time_dim_axis),
    "f": lambda x: _optional(x.feature_dim_axis),
    "f?": lambda x: _optional(x.feature_dim_axis),
    "feature": lambda x: _optional(x.feature_dim_axis),
    "feat": lambda x: _optional(x.feature_dim_axis),
    "spatial": lambda x: x.get_spatial_batch_axes(),
    "dyn": lambda x: x.get_dynamic_axes(),
    "dynamic": lambda x: x.get_dynamic_axes(),
    "static": lambda x: x.get_static_axes(),
    "*": lambda x: _list_axes(x),
    "all": lambda x: _list_axes(x),
}


def _list_names(dim: Dim) -> str:
    """:return: the names by which a description can find the dim, in lower case"""
    names = {name for d in (dim, dim.get_same_base()) for name in (d.name or d.short_repr(), *d.makers)}
    return "\n".join({*names, *map(short_name, names)}).lower()


def _check_int_allowed(tensor: TensorAxes, axis: int, allow_int: bool | type[NotSpecified]) -> None:
    if allow_int is NotSpecified:
        allow_int = BehaviorVersion.get() < 5
    if not allow_int:
        raise DimError(
            f"{tensor}: the axis is given as the number {axis}.\n"
            "  Since behavior version 5, give a dim or a description such as 'T', 'F', 'stag:name', 'spatial:0'."
        )


def describes_any_number(axis: AxisDescription | None) -> bool:
    """:return: whether the description is about all axes of some kind, so that it is fine if a tensor has none"""
    word = axis.lower() if isinstance(axis, str) else axis
    if word is None or word in ("", "*", "all", "spatial", "dyn", "dynamic", "static"):
        return True
    if not isinstance(word, str) or re.fullmatch(r"except_\w+:-?\d+", word):
        return False
    return word.endswith("?") or word.startswith(("except", "spatial_except"))


def hint_for_missing_axis(tensor: TensorAxes, axis: AxisDescription) -> str:
    """:return: the sentence that helps somebody who asked for an axis that the tensor does not have"""
    dims = {dim.name: dim for dim in tensor.dims if dim.name}
    wanted = axis.name if isinstance(axis, Dim) else str(axis).rsplit(":", 1)[-1]
    nearest = difflib.get_close_matches(wanted or "", dims, n=1)
    if nearest and nearest[0] == wanted:
        return f"A dim of the tensor is named {wanted!r} too, but it is another one."
    if nearest:
        return f"Did you mean {dims[nearest[0]]}?"
    labels = getattr(tensor, "sparse_dim", None)
    if isinstance(axis, Dim) and labels is not None and labels.dimension == axis.dimension:
        return (
            f"Its labels are of {labels}, another dim of that size. For labels of {axis}, it has to be "
            "the 'sparse_dim', which `extern_data` sets for data."
        )
    return "It has just these dims."
