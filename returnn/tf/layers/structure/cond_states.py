"""
What layers inside of a condition in a loop keep from frame to frame: states, and outputs that "prev:" names.

That of the layer which is computed goes on; that of the other one stays as it was. Values of a branch cannot be used
outside of it, so both branches hand out all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.step_state import ForAfterLoop, StateTemplate
from returnn.tf.layers.loop.frame import Frame
from returnn.util.errors import ConfigError

Carried = dict[str, dict[str, Tensor]]  # by path of the layer, and "output" or "state NAME"


class CondStates:
    """What the layers inside of one condition keep. Outside of loops, that is nothing."""

    def __init__(self, layer: LayerBase) -> None:
        """
        :param layer: the condition
        """
        self.layer = layer
        frame = layer.network.step.innermost_frame()
        self.frame: Frame | None = frame
        path = None if frame is None else frame.path_of(layer.get_absolute_name())
        self.path = path or ""
        self._made: dict[str, dict[str, LayerBase]] = {}  # layers inside, by key of the branch and path

    def make(self, key: str, make: Callable[[], LayerBase]) -> LayerBase:
        """
        :param key: of the branch
        :param make: function that makes the layer of the branch
        :return: this layer
        """
        frame = self.frame
        if frame is None:
            return make()
        prefix = f"{self.path}/"
        others = {path: frame.layers.pop(path) for path in list(frame.layers) if path.startswith(prefix)}
        layer = make()
        self._made[key] = {path: x for path, x in frame.layers.items() if path.startswith(prefix)}
        frame.layers.update({path: x for path, x in others.items() if path not in frame.layers})
        self._made[key][self.path] = layer
        return layer

    def declare(self) -> None:
        """Says what the loop has to keep for the layers of the branches themselves, while dims are inferred."""
        for made in self._made.values():
            layer = made[self.path]
            for key, state in layer.state_templates.items():
                known = self.layer.state_templates.setdefault(key, state)
                if set(known.template.dims) != set(state.template.dims):
                    raise ConfigError(
                        f"{self.layer.where()}: both layers have the state {key!r}, which is one, with other dims.\n"
                        f"  {known.template} and {state.template}."
                    )
            if not layer.works_on_sequences:
                self.layer.works_on_sequences = False  # type: ignore[misc]

    def made(self, key: str) -> Mapping[str, LayerBase]:
        """:return: the layers inside that were made for a branch, by their path below the condition"""
        return {path.removeprefix(self.path): layer for path, layer in self._made.get(key, {}).items()}

    def after(self, key: str, output: Tensor) -> Carried:
        """
        :param key: of the branch, which is made
        :param output: of it
        :return: what is kept after this frame, of all layers of both branches
        """
        frame = self.frame
        if frame is None or not frame.is_single:
            return {}
        beams = self.layer.network.beams
        beam = beams.of(output)
        result: Carried = {}
        for path, states in self._states_inside().items():
            made = self._made[key].get(path)
            values = {f"state {name}": self._state(made, path, name, state) for name, state in states.items()}
            before = None if path == self.path else frame.output_before(path)
            if before is not None:
                values["output"] = before if made is None else made.output
            if values and made is not None and path != self.path:
                self._check_made_once(path)
            result[path] = {name: beams.for_later(value, beam) for name, value in values.items() if value is not None}
        return result

    def _states_inside(self) -> dict[str, dict[str, StateTemplate]]:
        """:return: by path and name, without those of a layer around that has this one as its unit, and so its path"""
        assert self.frame is not None
        found = dict(self.frame.states_inside(self.path))
        around = self.layer.network.parent_layer
        if around is not None and self.frame.path_of(around.get_absolute_name()) == self.path:
            found[self.path] = {key: x for key, x in found[self.path].items() if key not in around.states_as_unit}
        return found

    def _state(self, made: LayerBase | None, path: str, name: str, state: StateTemplate) -> Tensor | None:
        assert self.frame is not None
        if isinstance(state.initial, ForAfterLoop):
            return None  # of the condition itself
        if made is not None and name in made.new_states:
            return made.new_states[name]
        return self.frame.state_before(path, name, state.template)

    def _check_made_once(self, path: str) -> None:
        if all(path in made for made in self._made.values()) and len(self._made) > 1:
            name = path.removeprefix(f"{self.path}/")
            raise ConfigError(
                f"{self.layer.where()}: both layers have a layer {name!r} inside, which knows the frame before.\n"
                "  Give one of them another name."
            )

    def take(self, carried: Mapping[str, Mapping[str, Tensor]]) -> None:
        """
        :param carried: what the branches handed out
        """
        for path, values in carried.items():
            states = {name.removeprefix("state "): x for name, x in values.items() if name != "output"}
            if path == self.path:
                self.layer.new_states.update(states)
                self.layer.state_templates.update({name: self._states_inside()[path][name] for name in states})
                continue
            assert self.frame is not None
            inside = self.frame.layers.get(path)
            if inside is None and not values:  # of a branch that is never taken
                continue
            output = values.get("output", inside.output.copy_template() if inside else None)
            network = inside.network if inside else self.layer.network
            stand_in = InternalLayer(name=inside.name if inside else path, network=network, output=output)
            stand_in.new_states.update(states)
            self.frame.layers[path] = stand_in
