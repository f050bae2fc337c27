"""
Templates of all layers of a time step.

The recursion through "prev:" is solved as a fixed point: we begin with what can be guessed of a layer from its options,
make templates of all layers, take these as the ones of the frame before, and do it again, until nothing changes any
more. A template costs little, as nothing is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from returnn.frontend import backend_ctx, get_default_float_dtype
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.step_state import StateTemplate, UndefinedSource
from returnn.tf.layers.loop.frame import Edge, Frame
from returnn.tf.layers.loop.graph import LoopGraph, LoopNode
from returnn.tf.layers.search.beam import Beam, as_beam_of_frame_before
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

if TYPE_CHECKING:
    from returnn.tf.layers.core.layer_base import LayerBase

_MAX_ROUNDS = 10


@dataclass(frozen=True)
class InferredLoop:
    """What is known of the time step before anything is computed."""

    layers: dict[str, LayerBase]  # as templates, by path
    edges: dict[str, tuple[Edge, ...]]
    prev: dict[str, Tensor]  # what "prev:" of a layer looks like
    states: dict[str, dict[str, StateTemplate]]  # of each layer with state
    beam: Beam | None = None  # of the last choice of a step
    prev_beam: Dim | None = None  # the same in the frame before


def infer(
    prefix: str,
    descriptions: dict[str, Any],
    make_network: Callable[[Frame], Any],
    make_prev_layer: Callable[[Any, str, Tensor], LayerBase],
    wanted: Sequence[str],
    *,
    time_dim: Dim,
) -> InferredLoop:
    """
    :param time_dim: of the loop
    :param prefix: absolute name of the loop, with "/" at the end
    :param descriptions: options of the layers of the time step
    :param make_network: function that makes a network for one frame
    :param make_prev_layer: function of such a network, the path of a layer, and what it looked like in the frame
        before: the layer that "prev:" means
    :param wanted: the layers that are needed; they, and all that they need, are looked at
    :raises ConfigError: if the templates contradict each other
    """
    prev: dict[str, Tensor] = {}
    prev_beam: Dim | None = None
    guesses_by_sources = False
    for _ in range(_MAX_ROUNDS):
        frame = _TemplateFrame(prefix, descriptions, prev, time_dim, prev_beam, make_prev_layer)
        frame.guesses_by_sources = guesses_by_sources
        with backend_ctx("template"):
            network = make_network(frame)
            frame.network = network
            try:
                _construct(network, wanted, frame)
            except UndefinedSource:
                if guesses_by_sources:
                    raise
                guesses_by_sources = True
                continue
        templates = {path: frame.template_of(path) for path in frame.asked_for_prev}  # which may ask for more
        beam = _last_beam(network, frame)
        used_prev_beam = prev_beam
        prev_beam = None if beam is None else network.parent_layer.new_dim(
            "beam of the frame before", beam.dim.dimension, kind=Dim.Types.Beam, auto_generated=False
        )  # fmt: skip
        found = {path: as_beam_of_frame_before(template, prev_beam) for path, template in templates.items()}
        is_stable = prev_beam is used_prev_beam and all(_same(found[path], prev.get(path)) for path in found)
        if is_stable and not frame.has_undefined:
            network.beams.latest(_choices(frame), where=f"loop {prefix[:-1]!r}")  # checks that there is such a one
            _note_initial_outputs(network, [frame.layers[path] for path in found])
            edges = {path: tuple(edges) for path, edges in frame.edges.items()}
            return InferredLoop(dict(frame.layers), edges, found, _states(frame, prev_beam), beam, prev_beam)
        last, prev = prev, found
    path = next((path for path in prev if not _same(prev[path], last.get(path))), "output")
    raise ConfigError(
        f"layer {prefix + path!r}: its dims contradict those of its own past.\n"
        f"  From 'prev:{path}' with {last.get(path)} follows {prev[path]}."
    )


def graph_of(
    inferred: InferredLoop, wanted: Sequence[str], *, time_dim: Dim, conditions: Sequence[str], length_is_known: bool
) -> LoopGraph:
    """
    :param inferred: the time step
    :param time_dim: of the loop
    :param wanted: layers of which all frames are needed outside
    :param conditions: layers that the loop itself needs
    :param length_is_known: before the loop starts
    :return: the layers as values, without what the frame is given
    """
    nodes = {
        path: _node_of(path, layer, inferred, time_dim)
        for path, layer in inferred.layers.items()
        if not (path.startswith(("data", "prev:")) and layer.layer_class in ("source", None))
    }
    return LoopGraph(nodes, tuple(wanted), tuple(conditions), length_is_known)


def _node_of(path: str, layer: LayerBase, inferred: InferredLoop, time_dim: Dim) -> LoopNode:
    return LoopNode(
        path=path,
        layer_class=str(layer.layer_class),
        edges=inferred.edges.get(path, ()),
        output=str(layer.output),
        has_state=bool(inferred.states.get(path)),
        works_on_sequences=layer.works_on_sequences,
        must_be_inside=layer.must_be_in_loop() or _reason_of_whole_sequences(layer, time_dim),
        collocate_with=tuple(layer.collocate_with),
        selects_frames=layer.selects_frames,
        mask=_mask_of(layer),
        restores_frames=layer.restores_frames,
        sees_frames=layer.takes_frames or layer.targets is not None,
        is_one_block=layer.is_one_block,
    )


def _mask_of(layer: LayerBase) -> str:
    """:return: name of the mask by which the layer selects frames, "" if it does not"""
    mask = getattr(layer, "mask", None) if layer.selects_frames else None
    return "" if mask is None else mask.get_absolute_name()


def _reason_of_whole_sequences(layer: LayerBase, time_dim: Dim) -> str:
    """:return: what the layer sees in each frame that has all frames of the loop; for all frames at once, they mix"""
    if layer.takes_frames:
        return ""
    targets = layer._target_layers.values()  # of which it sees one frame
    whole = [x for x in layer.get_dep_layers() if time_dim in x.output.dims and x not in targets]
    return f"sees all frames of {whole[0].get_absolute_name()!r} in each frame" if whole else ""


def _note_initial_outputs(network: Network, layers: Sequence[LayerBase]) -> None:
    """Makes the layers around the loop that initial outputs are taken from, so that it is known who uses them."""
    for layer in layers:
        name = layer._initial_output
        if isinstance(name, str) and name.startswith("base:"):
            with backend_ctx("template"):
                network.construct_layer(network.layers_desc, name)


class _TemplateFrame(Frame):
    def __init__(
        self,
        prefix: str,
        descriptions: dict[str, Any],
        prev: dict[str, Tensor],
        time_dim: Dim,
        prev_beam: Dim | None,
        make_prev_layer: Callable[[Any, str, Tensor], LayerBase],
    ) -> None:
        super().__init__(prefix)
        self.make_prev_layer = make_prev_layer
        self.prev_beam = prev_beam
        self.time_dim = time_dim
        self.descriptions = descriptions
        self.prev = prev
        self.network: Network | None = None
        self.asked_for_prev: list[str] = []
        self.guesses_by_sources = False  # if nothing else helps

    def step_data(self, key: str, data: Tensor) -> Tensor:
        """:return: template of one frame of the data"""
        data = self.network.parent_layer.data_of_frames(key, data, self.time_dim)
        return frame_of(data, self.time_dim) if self.time_dim in data.dims else data

    def prev_layer(self, path: str) -> LayerBase:
        """:return: the layer in the frame before, as template"""
        if path not in self.asked_for_prev:
            self.asked_for_prev.append(path)
        template = self.prev.get(path)
        if template is None:
            self.has_undefined = True
            template = self._guess(path)
        return self.make_prev_layer(self.network, path, template)

    def output_before(self, path: str) -> Tensor | None:
        """:return: template of the output in the frame before; None in the first round"""
        return self.prev.get(path)

    def scores_before(self) -> Tensor | None:
        """:return: template of the scores"""
        return self._of_prev_beam("scores", "float32")

    def src_beams_before(self) -> Tensor | None:
        """:return: template of the indices"""
        return self._of_prev_beam("src_beams", "int32")

    def ended_before(self) -> Tensor | None:
        """:return: template of the flags"""
        return self._of_prev_beam("ended", "bool")

    def _of_prev_beam(self, name: str, dtype: str) -> Tensor | None:
        if self.prev_beam is None:
            return None
        return Tensor(name, dims=[*self.network.step.batch_dims(), self.prev_beam], dtype=dtype)

    def template_of(self, path: str) -> Tensor:
        """:return: template of a layer of this frame, which is made if necessary"""
        if path not in self.layers:
            with backend_ctx("template"):
                self.network.construct_layer(self.network.layers_desc, path)
        return self.layers[path].output

    def _guess(self, path: str) -> Tensor:
        """:return: what the layer may look like, in the first round"""
        if path in self.layers:
            return self.layers[path].output
        first = path.partition("/")[0]
        if first not in self.descriptions:
            self.network.construct_layer(self.network.layers_desc, path)  # raises if there is no such layer
            if path not in self.layers:
                raise ConfigError(
                    f"layer {self.prefix + (self._stack or ['output'])[-1]!r}: there is no 'prev:{path}', as {path!r} "
                    "is no layer of the time step.\n  Layers and data of the time step have a frame before, others not."
                )
        guess = _guess_from_options(self.network, path, self.descriptions)
        if guess is None and not self.is_under_construction(path):
            guess = self._guess_by_construction(path)
        if guess is None:
            guess = self._guess_by_initial_output(path)
        if guess is None and self.guesses_by_sources:
            guess = self._guess_by_sources(path, seen=set())
        if guess is None:
            raise UndefinedSource(
                f"layer {self.prefix + path!r}: its dims cannot be inferred, as they depend on themselves.\n"
                "  Give 'n_out' or 'out_type', or a layer as 'initial_output': 'base:...'."
            )
        return guess

    def _guess_by_initial_output(self, path: str) -> Tensor | None:
        name = description_of(path, self.descriptions).get("initial_output")
        if not isinstance(name, str) or not name.startswith("base:"):
            return None
        return self.network.construct_layer(self.network.layers_desc, name).output

    def _guess_by_sources(self, path: str, seen: set[str]) -> Tensor | None:
        """:return: what a source of the layer may look like. Most layers look like one, and the next round knows."""
        sources = description_of(path, self.descriptions).get("from", ())
        prefix = path[: path.rfind("/") + 1]
        for name in [sources] if isinstance(sources, str) else sources:
            source = prefix + str(name)
            if source in seen or not description_of(source, self.descriptions):
                continue
            seen.add(source)
            guess = _guess_from_options(self.network, source, self.descriptions)
            guess = self._guess_by_sources(source, seen) if guess is None else guess
            if guess is not None:
                return guess
        return None

    def _guess_by_construction(self, path: str) -> Tensor | None:
        stack, self._stack = self._stack, []  # it is not this frame of the layer that is used
        self.num_guesses += 1
        try:
            return self.network.construct_layer(self.network.layers_desc, path).output
        except UndefinedSource:
            return None
        finally:
            self._stack = stack
            self.num_guesses -= 1


def _last_beam(network: Network, frame: Frame) -> Beam | None:
    """:return: the beam of the last choice of a step, None without search"""
    found = [network.beams.of(output) for output in _choices(frame)]
    return max(
        (beam for beam in found if beam is not None), key=lambda beam: len(network.beams.chain(beam)), default=None
    )


def _choices(frame: Frame) -> list[Tensor]:
    """:return: what the choices of a step put out"""
    choices = [layer for layer in frame.layers.values() if layer.search_choices is not None]
    return [layer.output for layer in choices if not layer.search_choices.is_decided]


def _states(frame: Frame, prev_beam: Dim | None) -> dict[str, dict[str, StateTemplate]]:
    return {
        path: {
            key: replace(state, template=as_beam_of_frame_before(state.template, prev_beam))
            for key, state in layer.state_templates.items()
        }
        for path, layer in frame.layers.items()
    }


def _construct(network: Network, wanted: Sequence[str], frame: _TemplateFrame) -> None:
    undefined: list[tuple[str, UndefinedSource]] = []
    for name in wanted:
        try:
            network.construct_layer(network.layers_desc, name)
        except UndefinedSource as exc:
            undefined.append((name, exc))
    for name, _ in undefined:  # another one may have made known what was missing
        try:
            network.construct_layer(network.layers_desc, name)
        except UndefinedSource as exc:
            raise _first_cause(exc) from exc


def _first_cause(exc: BaseException) -> BaseException:
    while isinstance(exc, UndefinedSource) and exc.__cause__ is not None:
        exc = exc.__cause__
    return exc


def description_of(path: str, descriptions: Mapping[str, Any]) -> Mapping[str, Any]:
    """:return: options of a layer of the time step; none if they do not say any"""
    desc: Any = {"subnetwork": descriptions}
    for part in path.split("/"):
        inner = desc.get("unit") if desc.get("class") == "masked_computation" else desc
        layers = inner.get("subnetwork") if isinstance(inner, Mapping) else None
        desc = layers.get(part) if isinstance(layers, Mapping) else None
        if not isinstance(desc, Mapping):
            return {}
    return desc


def _guess_from_options(network: Network, path: str, descriptions: dict[str, Any]) -> Tensor | None:
    """:return: what a layer that depends on itself looks like, as far as its options say"""
    desc = description_of(path, descriptions)
    batch = network.step.batch_dims()
    out_type = desc.get("out_type")
    options = {} if callable(out_type) else dict(out_type or {})
    n_out, out_dim = desc.get("n_out", NotSpecified), desc.get("out_dim")
    name = path
    target = _target_of_choice(path, descriptions)
    if target is not None:
        data = network.get_extern_data(target, mark_data_key_as_used=False)
        features = [data.feature_dim] if data.feature_dim is not None else []
        return Tensor(name, dims=[*batch, *features], dtype=data.dtype, sparse_dim=data.sparse_dim, version=1)
    dtype = options.get("dtype", get_default_float_dtype())
    if out_dim is not None:
        return Tensor(name, dims=[*batch, out_dim], dtype=dtype, feature_dim=out_dim, version=1)
    dim = n_out if n_out is not NotSpecified else options.get("dim", NotSpecified)
    if "shape" in options and all(size is not None for size in options["shape"]):
        dims = [Dim(size, name=f"{path}:axis{i}", auto_generated=True) for i, size in enumerate(options["shape"])]
        if dims and not options.get("sparse"):
            dims[-1].kind = Dim.Types.Feature
        return Tensor(name, dims=[*batch, *dims], dtype=dtype, version=1)
    if isinstance(dim, int):
        feature = Dim(dim, name=f"{path}:feature-dense", kind=Dim.Types.Feature, auto_generated=True)
        if options.get("sparse"):
            return Tensor(name, dims=batch, dtype=options.get("dtype", "int32"), sparse_dim=feature, version=1)
        return Tensor(name, dims=[*batch, feature], dtype=dtype, feature_dim=feature, version=1)
    return _guess_from_values_of_switch(network, path, descriptions)


def _guess_from_values_of_switch(network: Network, path: str, descriptions: dict[str, Any]) -> Tensor | None:
    """:return: what one of the two values of a switch looks like, as far as its options say"""
    desc = description_of(path, descriptions)
    if desc.get("class") != "switch":
        return None
    outer = path[: path.rfind("/") + 1]
    names = [desc.get(option) for option in ("true_from", "false_from")]
    values = [outer + name for name in names if isinstance(name, str)]
    others = [path for path in values if description_of(path, descriptions).get("class") != "switch"]
    guesses = (_guess_from_options(network, path, descriptions) for path in others)
    return next((guess for guess in guesses if guess is not None), None)


def _target_of_choice(path: str, descriptions: dict[str, Any]) -> str | None:
    """:return: target of a choice, or of its sub layer "out_1"; None if it is something else, or there is none"""
    desc: Any = {"subnetwork": descriptions}
    *outer, last = path.split("/")
    index = last.removeprefix("out_") if last.startswith("out_") else ""
    for part in outer if index.isdigit() else [*outer, last]:
        desc = desc.get("subnetwork", {}).get(part, {})
    if desc.get("class") != "choice" or not desc.get("target"):
        return None
    targets = [desc["target"]] if isinstance(desc["target"], str) else desc["target"]
    return targets[min(int(index or 0), len(targets) - 1)]


def _same(a: Tensor, b: Tensor | None) -> bool:
    return b is not None and set(a.dims) == set(b.dims) and a.dtype == b.dtype and a.sparse_dim == b.sparse_dim


def frame_of(x: Tensor, time_dim: Dim) -> Tensor:
    """:return: template of one frame of a sequence"""
    return x.copy_template_excluding_axis(x.get_axis_from_description(time_dim))
