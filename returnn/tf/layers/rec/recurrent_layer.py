"""`RecurrentLayer`: what layers have in common that consist of a recurrence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.rec.recurrence import Recurrence
from returnn.tf.layers.rec.state_options import resolve_initial_state
from returnn.tf.layers.rec.units.registry import get_unit_class


class RecurrentLayer(_ConcatInputLayer):
    """Base class of layers that have a `recurrence`, which a derived class makes of the options."""

    recurrent = True
    unit_as_cell = False  # whether names of units mean those for single steps
    back_prop: bool | None = None
    recurrence: Recurrence
    _names_parameters_in_unit = True

    def __init__(
        self,
        unit: Any,
        unit_opts: dict[str, Any] | None = None,
        initial_state: str | float | LayerBase | list[Any] | tuple[Any, ...] | dict[str, Any] | None = None,
        state: LayerBase | dict[Any, LayerBase] | None = None,
        initial_output: Any = None,
        **kwargs: Any,
    ) -> None:
        """
        :param unit: name of the unit, see `returnn.tf.layers.rec.units`
        :param unit_opts: options of the unit
        :param initial_state: state before the first frame: number; "zeros"; "ones"; "var" for trained parameters
            `initial_c` and so on; "keep_over_epoch": the state at the end of the batch before, where sequence k goes on
            with sequence k of that batch, so all data sets need as many streams as sequences are in a batch; or a
            layer: its hidden state if it has one, otherwise its output; or one of these for each part of the state:
            list, or dict such as `{"c": 0, "h": "encoder"}`. Default: zeros
        :param state: the state before this step, instead of the one after the step before: a layer, or one for each
            part of the state
        :param initial_output: before the first frame of a loop. Default: what is in `initial_state`, or zeros
        """
        super().__init__(state=state, initial_output=initial_output, **kwargs)
        self.unit = unit
        self.unit_opts = unit_opts or {}
        self.initial_state = initial_state
        self.looks_up_labels = not isinstance(unit, dict)

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """See `LayerBase.transform_config_dict`."""
        if d.get("initial_state") is not None:
            d["initial_state"] = resolve_initial_state(d["initial_state"], get_layer)
        super().transform_config_dict(d, network=network, get_layer=get_layer)

    @classmethod
    def cls_hidden_state_names(cls, layer_desc: dict[str, Any]) -> tuple[str, ...]:
        """:return: parts of the state of the unit"""
        unit = layer_desc.get("unit", "lstm")
        if isinstance(unit, dict):
            return ()
        return get_unit_class(unit, as_cell=cls.unit_as_cell, opts=layer_desc.get("unit_opts")).state_names

    def compute_inputs(self) -> list[Tensor]:
        """:return: the joined sources, if there are any"""
        return super().compute_inputs() if self.sources or self.recurrence.needs_source else []

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: [T, ..., F]; for a single step [..., F]"""
        return self.recurrence.compute(sources[0] if sources else None)

    # Names of parameters.

    def get_absolute_name_scope_prefix(self) -> str:
        """:return: name scope of the parameters of the layer"""
        return self.scope_of_unit() if self._names_parameters_in_unit else super().get_absolute_name_scope_prefix()

    def scope_of_unit(self) -> str:
        """
        :return: name scope of what is in the unit, with a "/" at the end; "" for the root: "NAME/rec/". The option
            `name_scope` stands for all of that, not for "NAME" alone
        """
        own = super().get_absolute_name_scope_prefix()
        return f"{own}rec/" if self.name_scope is None else own

    @contextlib.contextmanager
    def naming_parameters(self, *, in_unit: bool) -> Iterator[None]:
        """
        :param in_unit: whether parameters that are made meanwhile are among those of the unit; else beside them
        """
        before, self._names_parameters_in_unit = self._names_parameters_in_unit, in_unit
        try:
            yield
        finally:
            self._names_parameters_in_unit = before

    # What the recurrence has, the layer has.

    def has_hidden_state(self) -> bool:
        """:return: whether the recurrence has one"""
        return self.recurrence.has_hidden_state()

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """
        :return: state after this step, or after the last frame, by name. For all frames of a loop at once: the one
            after each of them
        """
        return self.recurrence.hidden_state_parts()

    def last_hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: [..., F] each: state after the last frame of each sequence"""
        return self.recurrence.last_hidden_state_parts()
