"""`RnnCellLayer`: a single step of a recurrent unit, inside of a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.rec.initial_state import make_raw_initial_state, make_raw_state_part
from returnn.tf.layers.rec.recurrent_layer import RecurrentLayer
from returnn.tf.layers.rec.state_options import resolve_initial_state
from returnn.tf.layers.rec.unit_recurrence import UnitOptions, UnitRecurrence, find_unit_class
from returnn.tf.layers.rec.units.base import WeightInits
from returnn.tf.layers.rec.units.registry import get_unit_class
from returnn.util.errors import ConfigError


class RnnCellLayer(RecurrentLayer):
    """
    A single step of a recurrent unit, inside of a loop. Outside of loops, it goes over the time dim of the source.

    Source [..., F_in], output [..., F]. Parameters `rec/lstm_cell/kernel` and so on, see the unit.
    """

    layer_class = "rnn_cell"
    unit_as_cell = True

    def __init__(
        self,
        n_out: int,
        unit: str | type,
        unit_opts: dict[str, Any] | None = None,
        initial_output: None = None,
        weights_init: Any = "xavier",
        **kwargs: Any,
    ) -> None:
        """
        :param n_out: size of the output
        :param unit: name of the unit, such as "LSTMBlock" or "gru"; or its class
        :param unit_opts: options of the unit
        :param initial_output: only None: it follows from `initial_state`
        :param weights_init: initial value of the weights
        """
        super().__init__(n_out=n_out, unit=unit, unit_opts=unit_opts, initial_output=initial_output, **kwargs)
        if initial_output is not None:
            raise ConfigError(f"{self.where()}: option 'initial_output': it follows from 'initial_state', give that.")
        self.weights_init = weights_init
        self.recurrence = recurrence = UnitRecurrence(
            self,
            UnitOptions(
                find_unit_class(self, unit, self.unit_opts),
                self.unit_opts,
                self.time_dim_of,
                initial_state=self.initial_state,
                inits=WeightInits(forward=weights_init, recurrent=weights_init),
            ),
        )
        self._initial_output = recurrence.initial_output

    def time_dim_of(self, source: Tensor) -> Dim | None:
        """:return: the dim to go over, None for a single step"""
        if self.network.get_inside_rec_time_dim(inside_loop=True) is not None:
            return None
        loop_dim = self.network.get_inside_rec_time_dim(inside_loop=False)
        if loop_dim is not None:
            return loop_dim
        return source.get_time_dim_tag() if source.have_time_axis() else None

    # Documented helpers.

    @classmethod
    def get_hidden_state_size(
        cls, n_out: int, unit: Any, unit_opts: dict[str, Any] | None = None, **kwargs: Any
    ) -> Any:
        """:return: size of the state; a tuple if it has parts"""
        return get_unit_class(unit, as_cell=True, opts=unit_opts)(n_out, **(unit_opts or {})).state_size

    @classmethod
    def get_rec_initial_state(cls, batch_dim: Any, name: str, unit: Any, **kwargs: Any) -> Any:
        """
        :param batch_dim: raw size of the batch, with the beam
        :param name: of the layer
        :param unit: option of the layer, like the others
        :return: raw state before the first frame: (B, F); a tuple if it has parts
        """
        return make_raw_initial_state(unit, batch_dim, as_cell=True, name=name, **kwargs)

    @classmethod
    def get_rec_initial_state_inner(
        cls,
        initial_shape: Sequence[Any],
        name: str,
        state_key: str | None = None,
        key: int | str | None = None,
        initial_state: Any = None,
        shape_invariant: Sequence[Any] | None = None,
        rec_layer: Any = None,
    ) -> Any:
        """
        :param initial_shape: numbers and raw scalars, the batch with the beam first
        :param name: of the layer
        :param state_key: which one of its states. Default: "state"
        :param key: name or number of a part of it, such as "c"
        :param initial_state: option of this name, with layers in place of their names
        :param shape_invariant: what stays of the shape in all frames, None for axes that grow
        :param rec_layer: the loop
        :return: raw state before the first frame, or this part of it
        """
        return make_raw_state_part(
            initial_shape,
            name=name,
            state_key=state_key,
            key=key,
            initial_state=initial_state,
            shape_invariant=shape_invariant,
        )

    @classmethod
    def get_rec_initial_extra_outputs(cls, batch_dim: Any, rec_layer: Any, **kwargs: Any) -> dict[str, Any]:
        """:return: "state": see `get_rec_initial_state`"""
        return {"state": cls.get_rec_initial_state(batch_dim=batch_dim, rec_layer=rec_layer, **kwargs)}

    @classmethod
    def get_output_from_state(cls, state: Any, unit: Any) -> Any:
        """:return: the part of a raw state which is the output"""
        return state[-1] if len(get_unit_class(unit, as_cell=True).state_names) > 1 else state

    @classmethod
    def get_state_by_key(cls, state: Any, key: int | str | None, shape: Any = None) -> Any:
        """
        :param state: raw tensor; or several, as tuple, named tuple or dict
        :param key: name or number of a part; None or "*" for all, side by side
        :param shape: what is known of the shape of the result
        """
        if isinstance(state, Mapping):
            parts = list(state.values()) if key in (None, "*") else [state[key]]
        elif isinstance(state, (tuple, list)):
            part = state[key] if isinstance(key, int) else None if key in (None, "*") else getattr(state, str(key))
            parts = list(state) if key in (None, "*") else [part]
        else:
            parts = [state]
        value = parts[0] if len(parts) == 1 else tf.concat(parts, axis=-1)
        if shape is not None:
            value.set_shape(shape)
        return value

    @staticmethod
    def transform_initial_state(initial_state: Any, network: Network, get_layer: Callable[[str], LayerBase]) -> Any:
        """:return: the option, with layers in place of their names"""
        return resolve_initial_state(initial_state, get_layer)
