"""What a layer says about itself inside of a loop: its state, its output before the first frame, its beam."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import tensorflow as tf

from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_params import LayerParams
from returnn.tf.layers.core.hidden_state import select_state, side_by_side
from returnn.tf.layers.core.step_state import ForAfterLoop, StateTemplate
from returnn.util.errors import ConfigError


class LayerRec(LayerParams):
    """The part of `LayerBase` about loops and search."""

    works_on_sequences: ClassVar[bool] = True  # the same for all frames at once as frame by frame, so it can move out
    is_one_block: ClassVar[bool] = False  # layers inside of it are computed where it is
    hides_layers: ClassVar[bool] = False  # these are not there for others
    selects_frames: ClassVar[bool] = False  # for all frames at once, the output only has some of them
    restores_frames: ClassVar[bool] = False  # the way back from there
    makes_hypotheses: ClassVar[bool] = False  # it chooses among labels, in a search
    states_as_unit: ClassVar[tuple[str, ...]] = ()  # own ones, if a layer is its unit, whose path is the same
    looks_up_labels: bool = False  # labels of a source are indices into weights
    takes_frames: ClassVar[bool] = False  # in a frame of the loop, it sees that frame of its source alone
    totals_of_frames: Mapping[str, Tensor] = MappingProxyType({})  # see `after_loop`
    mask_of_frame: Tensor | None = None  # {B}, bool, in a frame: whether layers inside of it compute it. None: always
    options_on_zeros: ClassVar[dict[str, Any]] = {}  # what `initial_output="apply(0)"` changes, beside the sources

    def previous_state(self, key: str, template: Tensor, *, initial: Any = 0) -> Tensor:
        """
        :param key: which part of the state
        :param template: what it looks like
        :param initial: before the first frame: number, "zeros", "ones", tensor, layer, or a function without arguments
            that computes it, outside of the loop
        :return: state after the frame before, inside of a loop
        """
        self.state_templates[key] = StateTemplate(template.copy_template(), initial)
        if get_selected_backend() == "template":
            return template.copy_template()
        return self.network.step.state_before(self, key, template)

    def must_be_in_loop(self) -> str:
        """:return: a reason why it has to be inside of the loop, "" if there is none"""
        return ""

    def looks_ahead(self) -> bool:
        """:return: whether it needs frames behind its own one, so that it cannot be inside of a loop over them"""
        return False

    def new_state(self, key: str, value: Tensor) -> None:
        """
        :param key: which part of the state
        :param value: after this frame
        """
        self.new_states[key] = value

    def is_in_frame(self) -> bool:
        """:return: whether it is computed for a single frame, inside of a loop, so that values are of no use outside"""
        frame = self.network.step.innermost_frame()
        return frame is not None and frame.is_single

    def batch_of_frame(self) -> Dim | None:
        """:return: the batch dim, if it is computed for a single frame of a loop; otherwise None"""
        return self.network.step.batch_dims()[0] if self.is_in_frame() else None

    def is_inside(self) -> bool:
        """:return: whether it is in a frame of a loop, maybe moved out of one in there: values are of no use outside"""
        frame = self.network.step.innermost_frame()
        return frame is not None and (frame.is_single or frame.loop.is_inside())

    def keep_for_after_loop(self, key: str, value: Tensor, *, of_parameters: bool = False) -> None:
        """
        Where the layer `is_inside` of loops, also on templates: adds up what it has in each frame, for `after_loop`.

        :param key: says which one
        :param value: [B, ...], of this frame. Frames beyond the end of a sequence do not count
        :param of_parameters: see `ForAfterLoop`
        """
        self.state_templates[key] = StateTemplate(value.copy_template(), ForAfterLoop(of_parameters))
        self.new_states[key] = value

    def after_loop(self, totals: dict[str, Tensor]) -> None:
        """
        Called behind the outermost loop.

        :param totals: [B, ...] each: the sum over all frames of what `keep_for_after_loop` got, by key
        """
        self.totals_of_frames = totals

    @classmethod
    def get_rec_initial_extra_outputs(cls, batch_dim: Any, rec_layer: Any, **kwargs: Any) -> dict[str, Any]:
        """
        :param batch_dim: raw size of the batch
        :param rec_layer: the loop
        :param kwargs: options of the layer
        :return: state before the first frame, by name
        """
        return {}

    @classmethod
    def get_rec_initial_extra_outputs_shape_invariants(cls, rec_layer: Any, **kwargs: Any) -> dict[str, Any]:
        """:return: shapes of the state, by name, for what changes its shape from frame to frame"""
        return {}

    @classmethod
    def get_rec_initial_output(
        cls, batch_dim: Any, name: str, output: Tensor, rec_layer: Any, initial_output: Any = None, **kwargs: Any
    ) -> Any:
        """
        :param batch_dim: raw size of the batch
        :param name: of the layer
        :param output: template
        :param rec_layer: the loop
        :param initial_output: a number, "zeros" or "ones". A class that takes more than that has to compute it
        :return: raw output before the first frame
        :raises ConfigError: if it is something else
        """
        value = {None: 0, "zeros": 0, "ones": 1}.get(initial_output, initial_output)
        if not isinstance(value, (bool, int, float)):
            raise ConfigError(f"layer {name!r}: get_rec_initial_output: {value!r} is no number, 'zeros' or 'ones'.")
        shape = [batch_dim if dim.is_batch_dim() else dim.get_dim_value() for dim in output.copy_as_batch_major().dims]
        return tf.fill(shape, tf.cast(value, output.dtype))

    def final_state(self, parts: dict[str, Tensor], lengths: Tensor) -> dict[str, Tensor]:
        """
        :param parts: [...] each: state after the last frame of a loop, by name
        :param lengths: of the loop
        :return: the same, as it is used outside of the loop
        """
        return parts

    def post_process_final_rec_vars_outputs(self, rec_vars_outputs: dict[str, Any], seq_len: Any) -> dict[str, Any]:
        """:return: the state after the last frame, as it is used outside of the loop"""
        return rec_vars_outputs

    @classmethod
    def cls_hidden_state_names(cls, layer_desc: dict[str, Any]) -> tuple[str, ...]:
        """
        :param layer_desc: options in the net dict
        :return: parts of the hidden state of such a layer, see `hidden_state_parts`. All have the dims of the output
        """
        return ()

    def has_hidden_state(self) -> bool:
        """:return: whether there is a state that other layers can use, see `hidden_state_parts`"""
        return False

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """
        :return: [..., F] each, by name, such as "c" and "h": state after this frame, inside of a loop; otherwise after
            the last frame
        :raises ConfigError: if the layer has no state
        """
        raise ConfigError(f"{self.where()}: has no hidden state.")

    def get_last_hidden_state(self, key: int | str | None) -> Any:
        """
        :param key: which part of the state; None or "*" for all, side by side
        :return: raw (B, F): state after the last frame
        :raises ConfigError: if the layer has no state
        """
        parts = select_state(self.hidden_state_parts(), key, where=self.where())
        return side_by_side(parts).raw_tensor

    def get_hidden_state(self) -> Any:
        """
        :return: raw state after this frame, inside of a loop; or after the last frame. A tuple if it has parts; None if
            the layer has no state
        """
        if not self.has_hidden_state():
            return None
        raw = tuple(part.raw_tensor for part in self.hidden_state_parts().values())
        return raw if len(raw) > 1 else raw[0]

    def get_search_choices(self) -> Any:
        """:return: the choices that the hypotheses of the output come from, None without search"""
        if self.search_choices is not None:
            return self.search_choices
        return self.network.get_search_choices(src=self)

    def get_search_beam_size(self) -> int | None:
        """:return: number of hypotheses, None without search"""
        beam = self.output.beam
        return None if beam is None else beam.beam_size
