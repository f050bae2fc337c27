"""What `++task check` finds out about a network: a table of its layers, and all errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from returnn.config import Config
from returnn.engine.net_options import OptionsOfNet
from returnn.tf.inspection.dims_text import dims_text
from returnn.tf.inspection.found_layers import FoundLayer, found_layers
from returnn.tf.inspection.net_dict import Findings, look_at_net_dict
from returnn.tf.inspection.template_network import ParameterTemplate, TemplateNetwork
from returnn.util.errors import UserError
from returnn.util.texts.counted import counted

MAX_LINES_OF_ERROR = 5
_MAX_LINE = 240


@dataclass(frozen=True)
class LayerRow:
    """A layer, as a line of the table."""

    name: str
    layer_class: str
    output: str
    num_params: int
    place: str = ""  # inside of a loop: "before", "inside", "after"
    reason: str = ""


@dataclass(frozen=True)
class NetReport:
    """A network, in one mode."""

    title: str
    network: TemplateNetwork
    layers: Sequence[FoundLayer]
    rows: Sequence[LayerRow]
    params: Sequence[ParameterTemplate]
    errors: Sequence[str]
    used_layers: frozenset[str]  # names in the net dict

    @property
    def num_params(self) -> int:
        """Number of values in all parameters."""
        return sum(param.size for param in self.params)

    @property
    def num_trainable_params(self) -> int:
        """The same, as far as training changes them."""
        return sum(param.size for param in self.params if param.is_trainable)


def inspect_network(net_dict: dict[str, Any], config: Config, *, title: str, is_search: bool = False) -> NetReport:
    """
    :param net_dict: options of each layer, by name; `#config` in it can change the config
    :param config: its `extern_data`
    :param title: for people
    :param is_search: search, instead of training
    :raises ConfigError: if `extern_data` is wrong
    """
    options = OptionsOfNet(config)
    options.apply(net_dict)
    try:
        network = TemplateNetwork.of_net_dict(net_dict, config, train_flag=not is_search, search_flag=is_search)
    finally:
        options.apply({})
    layers = found_layers(network)
    findings = look_at_net_dict(net_dict, network.wanted_layers(net_dict), data_keys=[*network.extern_data.data])
    params = list(network.notes.params.values())
    return NetReport(
        title=title,
        network=network,
        layers=layers,
        params=params,
        rows=_rows(layers, params),
        errors=_errors(network, findings),
        used_layers=frozenset(findings.visited),
    )


def batch_hints(networks: Sequence[NetReport]) -> list[str]:
    """:return: lines about layers whose frames depend on the other sequences of the batch, if there are any"""
    layers = [layer for network in networks for layer in network.layers]
    moved = _layers_text(layer.name for layer in layers if layer.layer.depends_on_longest)
    seeing = _layers_text(
        layer.name for layer in layers if layer.layer.sees_padding and not layer.layer.depends_on_longest
    )
    hints = []
    if moved:
        hints.append(
            f"{moved}: with 'padding' \"same\" and strides, the longest sequence of the batch decides where the "
            "windows of all of them begin. With \"same_static\" and 'use_time_mask': True, a sequence gets what it "
            "gets alone."
        )
    if seeing:
        hints.append(
            f"{seeing}: windows at the end of a sequence see frames beyond it, where another one of the batch is "
            "longer. With 'use_time_mask': True, a sequence gets what it gets alone."
        )
    return hints


def _layers_text(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    return f"layer{'s' * (len(found) > 1)} {', '.join(map(repr, found))}" if found else ""


def _rows(layers: Sequence[FoundLayer], params: Sequence[ParameterTemplate]) -> list[LayerRow]:
    sizes: dict[str, int] = {}
    for param in params:
        sizes[param.layer] = sizes.get(param.layer, 0) + param.size
    rows = []
    for found in layers:
        place = found.placement
        rows.append(
            LayerRow(
                name=found.name,
                layer_class=found.class_name,
                output=dims_text(found.layer.output),
                num_params=sizes.pop(found.name, 0),
                place=place.place if place else "",
                reason=place.reason if place else "",
            )
        )
    return rows


def _errors(network: TemplateNetwork, findings: Findings) -> list[str]:
    errors: Mapping[str, UserError] = dict(network.notes.errors)
    texts = {error_text(error).partition("\n")[0]: error_text(error) for error in errors.values()}
    for name, finding in findings.errors.items():
        if name not in errors:
            texts.setdefault(error_text(finding).partition("\n")[0], error_text(finding))
    return list(texts.values())


def error_text(error: BaseException) -> str:
    """:return: the message, of at most five lines, none of them very long"""
    lines = [line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 4]} ..." for line in str(error).split("\n")]
    if len(lines) > MAX_LINES_OF_ERROR:
        num_more = len(lines) - MAX_LINES_OF_ERROR + 1
        lines = [*lines[: MAX_LINES_OF_ERROR - 1], f"  ({counted(num_more, 'more line')})"]
    return "\n".join(lines)
