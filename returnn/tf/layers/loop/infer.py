"""
Templates of all layers of a time step.

The recursion through "prev:" is solved as a fixed point: we begin with what can be guessed of a layer from its options,
make templates of all layers, take these as the ones of the frame before, and do it again, until nothing changes any
more. A template costs little, as nothing is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from returnn.frontend import backend_ctx, get_default_float_dtype
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.step_state import ForAfterLoop, LayerNeedsItself, StateTemplate, UndefinedSource
from returnn.tf.layers.loop.dims_of_frames import find_makers_of_dims, growing_dims
from returnn.tf.layers.loop.frame import Edge, Frame
from returnn.tf.layers.loop.graph import LoopGraph, LoopNode
from returnn.tf.layers.loop.inputs import LoopInputs, template_of_frame
from returnn.tf.layers.loop.time_step import TimeStep, describe, name_in_step
from returnn.tf.layers.options.registry import is_choice
from returnn.tf.layers.search.beam import Beam, score_dtype
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

if TYPE_CHECKING:
    from returnn.tf.layers.core.layer_base import LayerBase

_MAX_ROUNDS = 10


MakeLayer = Callable[[Network, str, Tensor], "LayerBase"]  # from a network for one frame, a name, and a template
FindStates = Callable[[str], Mapping[str, StateTemplate]]  # by the path of a layer, what it kept in the frame before
MakePrevLayer = Callable[[Network, str, Tensor, FindStates], "LayerBase"]  # the same, for the frame before


@dataclass(frozen=True)
class InferredLoop:
    """What is known of the time step before anything is computed."""

    layers: Mapping[str, LayerBase]  # as templates, by path
    edges: Mapping[str, tuple[Edge, ...]]
    prev: Mapping[str, Tensor]  # what "prev:" of a layer looks like
    states: Mapping[str, Mapping[str, StateTemplate]]  # of each layer with state
    beam: Beam | None = None  # of the last choice of a step
    prev_beam: Dim | None = None  # the same in the frame before
    beam_around: Dim | None = None  # of a search around the loop, which the hypotheses continue


def infer(
    inputs: LoopInputs, step: TimeStep, make_prev_layer: MakePrevLayer, make_stand_in_layer: MakeLayer
) -> InferredLoop:
    """
    :param inputs: the loop
    :param step: its layers, of which those that are wanted, and all that they need, are looked at
    :param make_prev_layer: function of a network for one frame, the path of a layer, what it looked like in the frame
        before, and a function that gives what a layer kept there: the layer that "prev:" means
    :param make_stand_in_layer: function of a network, a name, and a template: a layer of this name that looks like it
    :raises ConfigError: if the templates contradict each other, or the layer "end" is no condition
    """
    prev: Mapping[str, Tensor] = {}
    states: Mapping[str, Mapping[str, StateTemplate]] = {}
    prev_beam: Dim | None = None
    around: Dim | None = None
    guesses_by_sources = False
    beams = inputs.layer.network.beams
    for _ in range(_MAX_ROUNDS):
        frame = _TemplateFrame(
            inputs, step, prev, states, prev_beam, make_prev_layer, make_stand_in_layer if guesses_by_sources else None
        )
        frame.declare_beam_before(around)
        try:
            with beams.noting_contradictions() as contradictions, backend_ctx("template"):
                frame.make(step.wanted)
                inferred = frame.inferred()
        except UndefinedSource as exc:
            if guesses_by_sources:
                cause = _find_first_cause(exc)
                reasons = [*frame.passed_over[:1], cause]  # the first one is more likely the reason than its effects
                is_of_past = any(isinstance(reason, UndefinedSource) for reason in reasons)
                raise (reasons[0] if is_of_past else cause) from None  # "from exc" would close a circle of causes
            guesses_by_sources = True
            continue
        is_stable = inferred.prev_beam is prev_beam and all(
            _is_same(template, prev.get(path)) for path, template in inferred.prev.items()
        )
        if is_stable and not frame.has_undefined:
            frame.make_initial_outputs(inferred.prev)
            inferred = replace(inferred, beam_around=frame.beam_around())
            is_stable = inferred.beam_around == around
        if is_stable and not frame.has_undefined:
            beams.note_contradictions(contradictions)
            frame.check_choices()
            if step.has_end:
                _check_end(inputs, inferred.layers["end"].output)
            return inferred
        last, prev, states = prev, inferred.prev, inferred.states
        prev_beam, around = inferred.prev_beam, inferred.beam_around
    beams.note_contradictions(contradictions)
    path = next((path for path in prev if not _is_same(prev[path], last.get(path))), "output")
    raise ConfigError(
        f"layer {inputs.prefix + path!r}: its dims contradict those of its own past.\n"
        f"  From 'prev:{path}' with {last.get(path)} follows {prev[path]}."
    )


def _check_end(inputs: LoopInputs, end: Tensor) -> None:
    """:raises ConfigError: if "end" is not one bool for each sequence or hypothesis"""
    batch = inputs.layer.network.step.batch_dims()
    more = [dim for dim in end.dims if dim not in batch and not dim.is_batch_dim() and not dim.is_beam_dim()]
    if end.dtype != "bool" or more:
        raise ConfigError(
            f"layer {inputs.prefix + 'end'!r}: says whether a sequence has ended: it has to be [B], bool.\n"
            f"  It is {end} {end.dtype}."
        )


def build_graph(inputs: LoopInputs, step: TimeStep, inferred: InferredLoop) -> LoopGraph:
    """:return: the layers as values, without what the frame is given"""
    makers = find_makers_of_dims(inferred.layers, inputs.prefix, {inputs.time_dim, *growing_dims(inferred.states)})
    nodes = {
        path: replace(_node_of(path, layer, inferred, inputs), makers_of_dims=makers[path])
        for path, layer in inferred.layers.items()
        if not (path.startswith(("data", "prev:")) and layer.layer_class in ("source", None))
    }
    return LoopGraph(
        nodes,
        wanted=(*step.wanted, *_find_wanted_if_made(step, inferred)),
        conditions=("end",) if step.has_end else (),
        length_is_known=inputs.has_known_length,
    )


def _find_wanted_if_made(step: TimeStep, inferred: InferredLoop) -> list[str]:
    """:return: paths of layers in subnetworks which are outputs: if others need them anyway, all frames are needed"""
    made = inferred.layers
    blocks = tuple(f"{path}/" for path, layer in made.items() if layer.is_one_block)
    return [
        path
        for path in made
        if "/" in path and path not in step.wanted and not path.startswith(blocks)
        if step.describe(path).get("is_output_layer")
    ]


def _node_of(path: str, layer: LayerBase, inferred: InferredLoop, inputs: LoopInputs) -> LoopNode:
    must_be_inside = (
        layer.must_be_in_loop()
        or _reason_of_whole_sequences(layer, inputs.time_dim)
        or _reason_of_hypotheses(layer, inferred, inputs)
    )
    return LoopNode(
        path=path,
        layer_class=str(layer.layer_class),
        edges=inferred.edges.get(path, ()),
        output=str(layer.output),
        has_state=any(not isinstance(x.initial, ForAfterLoop) for x in inferred.states.get(path, {}).values()),
        works_on_sequences=layer.works_on_sequences,
        must_be_inside=must_be_inside,
        collocate_with=tuple(layer.collocate_with),
        selects_frames=layer.selects_frames,
        mask=_mask_of(layer),
        restores_frames=layer.restores_frames,
        sees_frames=layer.takes_frames or layer.targets is not None,
        looks_ahead=layer.looks_ahead(),
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
    if time_dim in layer.output.dims:
        return "has all frames of the loop in each frame"
    targets = layer._target_layers.values()  # of which it sees one frame
    whole = [x for x in layer.get_dep_layers() if time_dim in x.output.dims and x not in targets]
    return f"sees all frames of {whole[0].get_absolute_name()!r} in each frame" if whole else ""


def _reason_of_hypotheses(layer: LayerBase, inferred: InferredLoop, inputs: LoopInputs) -> str:
    """:return: which hypotheses it sees that there are in a single frame alone: those of a search inside of it"""
    beams = inputs.layer.network.beams
    if beams.is_empty:
        return ""
    kept = {beam.dim for beam in beams.chain(inferred.beam)}
    for x in (layer, *layer.get_dep_layers()):
        beam = beams.of(x.output)
        choice = None if beam is None or beam.is_kept or beam.dim in kept else beam.choice
        if choice is not None and choice.get_absolute_name().startswith(inputs.prefix):
            return f"sees the hypotheses of {choice.get_absolute_name()!r}, a search in each frame"
    return ""


class _TemplateFrame(Frame):
    """One frame in which layers are templates, in one round of the fixed point."""

    def __init__(
        self,
        inputs: LoopInputs,
        step: TimeStep,
        prev: Mapping[str, Tensor],
        prev_states: Mapping[str, Mapping[str, StateTemplate]],
        prev_beam: Dim | None,
        make_prev_layer: MakePrevLayer,
        make_stand_in_layer: MakeLayer | None,
    ) -> None:
        """
        :param prev: what layers looked like in the last round, by path: now they are those of the frame before
        :param prev_states: what they kept, by path
        :param prev_beam: the beam of these
        :param make_prev_layer: see `infer`
        :param make_stand_in_layer: see `infer`. With it, a layer is taken to look like its sources, or as its options
            say, if nothing else helps
        """
        super().__init__(inputs.prefix, inputs.layer)
        self.inputs = inputs
        self.time_dim = inputs.time_dim
        self.descriptions = step.descriptions
        self.prev = prev
        self.prev_states = prev_states
        self.prev_beam = prev_beam
        self.make_prev_layer = make_prev_layer
        self.make_stand_in_layer = make_stand_in_layer
        self.asked_for_prev: list[str] = []
        self._beams_around: dict[Dim, Tensor] = {}  # of what is used from outside of the loop
        source = None if inputs.source is None else template_of_frame(inputs.source, inputs.time_dim)
        for x in (source, inputs.time_dim.dyn_size_ext if inputs.has_known_length else None):
            beam = None if x is None else inputs.layer.network.beams.of(x)
            if beam is not None and x is not None:
                self._beams_around[beam.dim] = x
        with backend_ctx("template"):
            self.network = inputs.make_network(self, is_step=True, source=source, only_template=True)
            self.network.set_rec_step_info(i=None)

    def make(self, wanted: Sequence[str]) -> None:
        """
        Makes the layers.

        :raises UndefinedSource: if one cannot be made in this round
        """
        undefined: list[str] = []
        for name in wanted:
            try:
                self._construct(name)
            except UndefinedSource:
                undefined.append(name)
        for name in undefined:  # another one may have made known what was missing
            self._construct(name)

    def inferred(self) -> InferredLoop:
        """:return: what this round found, which the next one takes as the frame before"""
        templates = {path: self.template_of(path) for path in self.asked_for_prev}  # which may ask for more
        beam = self._last_beam()
        prev_beam = (
            None
            if beam is None
            else self.inputs.layer.new_dim(
                "beam of the frame before", beam.dim.dimension, kind=Dim.Types.Beam, auto_generated=False
            )
        )
        return InferredLoop(
            layers=dict(self.layers),
            edges={path: tuple(edges) for path, edges in self.edges.items()},
            prev={path: self._in_next_frame(template, prev_beam) for path, template in templates.items()},
            states={path: self._states_of(layer, prev_beam) for path, layer in self.layers.items()},
            beam=beam,
            prev_beam=prev_beam,
            beam_around=None if beam is None else self.beam_around(),
        )

    def declare_beam_before(self, around: Dim | None) -> None:
        """
        :param around: the beam of a search around the loop, as far as it is known
        """
        if self.prev_beam is None:
            return
        src_beams = None if around is None else self._of_prev_beam("src_beams", "int32")
        if src_beams is not None:
            src_beams = src_beams.copy_with_roles(sparse_dim=around)
        self.network.beams.register(Beam(self.prev_beam, None, around, src_beams, self.scores_before()))

    def beam_around(self) -> Dim | None:
        """:return: the latest beam of what is used from outside of the loop, None if it has none or does not search"""
        if self._last_beam() is None:
            return None
        latest = self.network.beams.latest(self._beams_around.values(), where=f"loop {self.prefix[:-1]!r}")
        return None if latest is None else latest.dim

    def note_use(self, layer: LayerBase) -> None:
        """See `Frame.note_use`."""
        super().note_use(layer)
        beam = None if layer.output is None else self.network.beams.of(layer.output)
        if beam is not None and not beam.is_kept and self.path_of(layer.get_absolute_name()) is None:
            self._beams_around[beam.dim] = layer.output

    def _in_next_frame(self, x: Tensor, prev_beam: Dim | None) -> Tensor:
        """:return: x as the next frame sees it; what only depends on hypotheses around the loop stays as it is"""
        beam = self.network.beams.of(x)
        is_around = beam is not None and beam.dim in self._beams_around
        return x if is_around else self.network.beams.renamed(x, prev_beam)

    def _states_of(self, layer: LayerBase, prev_beam: Dim | None) -> dict[str, StateTemplate]:
        """:return: what the layer keeps, as the next frame sees it, by name"""
        return {
            key: replace(state, template=self._in_next_frame(state.template, prev_beam))
            for key, state in layer.state_templates.items()
        }

    def check_choices(self) -> None:
        """:raises ConfigError: if the beams of a step do not continue each other"""
        self.network.beams.latest(self._choices(), where=f"loop {self.prefix[:-1]!r}")

    def make_initial_outputs(self, paths: Iterable[str]) -> None:
        """Makes the layers around the loop that initial outputs are taken from, so that it is known who uses them."""
        for path in paths:
            name = self.layers[path]._initial_output
            if isinstance(name, str) and (name := name_in_step(name, path)).startswith("base:"):
                with backend_ctx("template"):
                    self._construct(name)

    def _construct(self, name: str) -> LayerBase:
        return self.network.construct_layer(self.network.layers_desc, name)

    def _last_beam(self) -> Beam | None:
        """:return: the beam of the last choice of a step, None without search"""
        beams = self.network.beams
        found = [beam for beam in map(beams.of, self._choices()) if beam is not None]
        return max(found, key=lambda beam: len(beams.chain(beam)), default=None)

    def _choices(self) -> list[Tensor]:
        """:return: what the choices of a step put out"""
        choices = [layer for layer in self.layers.values() if layer.search_choices is not None]
        return [layer.output for layer in choices if not layer.search_choices.is_decided]

    def step_data(self, key: str, data: Tensor) -> Tensor:
        """:return: template of one frame of the data"""
        data = self.inputs.data_of_frames(key, data)
        return template_of_frame(data, self.time_dim) if self.time_dim in data.dims else data

    def prev_layer(self, path: str) -> LayerBase:
        """:return: the layer in the frame before, as template"""
        if path not in self.asked_for_prev:
            self.asked_for_prev.append(path)
        template = self.prev.get(path)
        if template is None:
            self.has_undefined = True
            template = self._guess(path)
        return self.make_prev_layer(self.network, path, template, self._states_before)

    def _states_before(self, path: str) -> Mapping[str, StateTemplate]:
        """
        :param path: of a layer
        :return: what it kept in the frame before, by name
        :raises UndefinedSource: if this is not known yet
        """
        if path in self.prev_states:
            return self.prev_states[path]
        self.has_undefined = True
        if path not in self.layers and not self.is_under_construction(path):
            self.guess_by_construction(path)
        if path in self.layers:
            return self._states_of(self.layers[path], self.prev_beam)
        if self.make_stand_in_layer is not None and describe(path, self.descriptions).keys() & {"n_out", "out_dim"}:
            self.passed_over.append(self._unknown_past(path))
            return {}  # what stands in for it has none, and the next round knows
        raise self._unknown_past(path)

    def make_stand_in(self, network: Network, name: str) -> LayerBase | None:
        """:return: layer that looks as the options of this one say, whatever it uses, if nothing else helps"""
        path = network.step.path_of(name)
        if self.make_stand_in_layer is None or path is None:
            return None
        guess = _guess_from_options(self.network, path, self.descriptions)
        return None if guess is None else self.make_stand_in_layer(network, name, guess)

    def output_before(self, path: str) -> Tensor | None:
        """:return: template of the output in the frame before; None in the first round"""
        return self.prev.get(path)

    def scores_before(self) -> Tensor | None:
        """:return: template of the scores"""
        return self._of_prev_beam("scores", score_dtype())

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
                self._construct(path)
        if path not in self.layers:  # there is what stands in for it
            raise self._unknown_past(path)
        return self.layers[path].output

    def _unknown_past(self, path: str) -> UndefinedSource:
        return UndefinedSource(
            f"layer {self.prefix + path!r}: what it needs of its own past is not known before the layer itself.\n"
            "  Give 'n_out' or 'out_type' of the layers that it uses."
        )

    def _guess(self, path: str) -> Tensor:
        """:return: what the layer may look like, in the first round"""
        if path in self.layers:
            return self.layers[path].output
        first = path.partition("/")[0]
        if first not in self.descriptions:
            self._construct(path)  # raises if there is no such layer
            if path not in self.layers:
                raise ConfigError(
                    f"layer {self.prefix + (self._stack or ['output'])[-1]!r}: there is no 'prev:{path}', as {path!r} "
                    "is no layer of the time step.\n  Layers and data of the time step have a frame before, others not."
                )
        guess = _guess_from_options(self.network, path, self.descriptions)
        if guess is None and not self.is_under_construction(path):
            guess = self.guess_by_construction(path)
        if guess is None:
            guess = self._guess_by_initial_output(path)
        if guess is None and self.make_stand_in_layer is not None:
            guess = self._guess_by_sources(path, seen=set())
        if guess is None:
            raise UndefinedSource(
                f"layer {self.prefix + path!r}: its dims cannot be inferred, as they depend on themselves.\n"
                "  Give 'n_out' or 'out_type', or a layer as 'initial_output': 'base:...'."
            )
        return guess

    def _guess_by_initial_output(self, path: str) -> Tensor | None:
        name = describe(path, self.descriptions).get("initial_output")
        if not isinstance(name, str) or not (name := name_in_step(name, path)).startswith("base:"):
            return None
        return self._construct(name).output

    def _guess_by_sources(self, path: str, seen: set[str]) -> Tensor | None:
        """:return: what a source of the layer may look like. Most layers look like one, and the next round knows."""
        desc = describe(path, self.descriptions)
        sources = desc.get("from", ())
        prefix = path[: path.rfind("/") + 1]
        looks_like = [prefix + str(name) for name in ([sources] if isinstance(sources, str) else sources)]
        for source in [f"{path}/output", *looks_like] if "subnetwork" in _what_is_computed(desc) else looks_like:
            if source in seen or not describe(source, self.descriptions):
                continue
            seen.add(source)
            guess = None if self.is_under_construction(source) else self.guess_by_construction(source)
            guess = _guess_from_options(self.network, source, self.descriptions) if guess is None else guess
            guess = self._guess_by_sources(source, seen) if guess is None else guess
            if guess is not None:
                return guess
        return None

    def guess_by_construction(self, path: str) -> Tensor | None:
        """:return: what the layer of this path looks like; None if it cannot be made yet"""
        stack, self._stack = self._stack, []  # it is not this frame of the layer that is used
        self.num_guesses += 1
        try:
            return self._construct(path).output
        except UndefinedSource:
            return None
        finally:
            self._stack = stack
            self.num_guesses -= 1


def _find_first_cause(exc: BaseException) -> BaseException:
    while isinstance(exc, UndefinedSource) and exc.__cause__ is not None:
        exc = exc.__cause__
    return exc


def _guess_from_options(network: Network, path: str, descriptions: Mapping[str, Any]) -> Tensor | None:
    """:return: what a layer that depends on itself looks like, as far as its options say"""
    desc = describe(path, descriptions)
    batch = network.step.batch_dims()
    out_type = desc.get("out_type")
    options = {} if callable(out_type) else dict(out_type or {})
    n_out, out_dim = desc.get("n_out", NotSpecified), desc.get("out_dim")
    name = path
    target = _target_of_choice(path, descriptions)
    data = None if target is None else _template_of_target(network, target)
    if data is not None:
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
    computed = _what_is_computed(desc)
    if "subnetwork" in computed:
        return _guess_from_options(network, f"{path}/output", descriptions)
    if computed is not desc:
        return _guess_from_options(network, name.rpartition("/")[2], {name.rpartition("/")[2]: computed})
    guess = _guess_from_values_of_switch(network, path, descriptions)
    return guess if guess is not None else _guess_from_branches(network, path, descriptions)


def _template_of_target(network: Network, target: str) -> Tensor | None:
    """:return: template of data, or of the layer that "layer:name" names; None if that is not known yet"""
    if not target.startswith("layer:"):
        return network.get_extern_data(target, mark_data_key_as_used=False)
    frame = network.step.innermost_frame()
    assert isinstance(frame, _TemplateFrame)
    try:
        return frame.guess_by_construction(target.removeprefix("layer:"))
    except LayerNeedsItself:
        return None


def _what_is_computed(desc: Mapping[str, Any]) -> Mapping[str, Any]:
    """:return: options of the layer that a mask is around, otherwise of the layer itself"""
    unit = desc.get("unit") if desc.get("class") == "masked_computation" else None
    return unit if isinstance(unit, Mapping) else desc


def _guess_from_values_of_switch(network: Network, path: str, descriptions: Mapping[str, Any]) -> Tensor | None:
    """:return: what one of the two values of a switch looks like, as far as its options say"""
    desc = describe(path, descriptions)
    if desc.get("class") != "switch":
        return None
    outer = path[: path.rfind("/") + 1]
    names = [desc.get(option) for option in ("true_from", "false_from")]
    values = [outer + name for name in names if isinstance(name, str)]
    others = [path for path in values if describe(path, descriptions).get("class") != "switch"]
    guesses = (_guess_from_options(network, path, descriptions) for path in others)
    return next((guess for guess in guesses if guess is not None), None)


def _guess_from_branches(network: Network, path: str, descriptions: Mapping[str, Any]) -> Tensor | None:
    """:return: what one of the two layers of a condition looks like, as far as its options say"""
    desc = describe(path, descriptions)
    if desc.get("class") != "cond":
        return None
    outer, name = path[: path.rfind("/") + 1], path.rpartition("/")[2]
    guesses = (
        _guess_from_options(network, name, {name: value})
        if isinstance(value, Mapping)
        else _guess_from_options(network, outer + str(value), descriptions)
        for value in (desc.get("true_layer"), desc.get("false_layer"))
    )
    return next((guess for guess in guesses if guess is not None), None)


def _target_of_choice(path: str, descriptions: Mapping[str, Any]) -> str | None:
    """
    :return: target of a choice, or of its sub layer "out_1", a layer by its path in the time step; None if it is
        something else, or there is none
    """
    desc: Any = {"subnetwork": descriptions}
    *outer, last = path.split("/")
    index = last.removeprefix("out_") if last.startswith("out_") else ""
    parts = outer if index.isdigit() else [*outer, last]
    for part in parts:
        desc = desc.get("subnetwork", {}).get(part, {})
    if not is_choice(desc.get("class")) or not desc.get("target"):
        return None
    targets = [desc["target"]] if isinstance(desc["target"], str) else desc["target"]
    target = targets[min(int(index or 0), len(targets) - 1)]
    return _named_in_step(target, parts[:-1]) if target.startswith("layer:") else target


def _named_in_step(target: str, subnetworks: Sequence[str]) -> str:
    """:return: the layer of a target of a layer in subnetworks, as the time step calls it"""
    name, outer = target.removeprefix("layer:"), list(subnetworks)
    while outer and name.startswith("base:"):
        name = name.removeprefix("base:")
        outer.pop()
    return "layer:" + "/".join([*outer, name])


def _is_same(a: Tensor, b: Tensor | None) -> bool:
    return b is not None and set(a.dims) == set(b.dims) and a.dtype == b.dtype and a.sparse_dim == b.sparse_dim
