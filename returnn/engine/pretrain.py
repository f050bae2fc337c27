"""
Pretraining: the first epochs train smaller or easier variants of the network.

The variants are the *steps*; each is trained for a number of epochs, its repetitions. The last step is the `network`
of the config, which stays after it. The steps before come from a function of the config,
`pretrain = {"construction_algo": func}`, which gets the index of the step and the net dict, and returns the net dict of
the step, or None when only `network` is left, if the config has one. Or the steps are made here, by leaving out hidden
layers.

Single values that depend on the epoch are written as `WrapEpochValue(lambda epoch: ...)`, anywhere in the net dict.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from returnn.config import Config, has_network, network_json_from_config
from returnn.log import log
from returnn.util.errors import ConfigError, check_known
from returnn.util.python.nested import deepcopy, iter_nested, map_nested
from returnn.util.texts.counted import counted

NetDict = dict[str, Any]
ConstructionAlgo = Callable[[int, NetDict], NetDict | None]
Repetitions = int | Sequence[int] | Mapping[Any, int]


class WrapEpochValue:
    """A value in a net dict that depends on the epoch."""

    def __init__(self, func: Callable[[int], Any]):
        """:param func: from the epoch, which starts with 1, to the value"""
        self.func = func

    def get_value(self, epoch: int) -> Any:
        """:return: the value in this epoch"""
        return self.func(epoch)


class Pretrain:
    """The steps of the pretraining, and which epoch belongs to which."""

    def __init__(
        self,
        original_network_json: NetDict,
        network_init_args: dict[str, Any] | None = None,
        copy_param_mode: str | None = None,
        copy_output_layer: bool | str | None = None,
        greedy: bool | None = None,
        repetitions: Repetitions | None = None,
        construction_algo: str | ConstructionAlgo = "from_output",
        output_layers: Sequence[str] | str = ("output",),
        input_layers: Sequence[str] | str = ("data",),
    ):
        """
        :param original_network_json: the network of the config
        :param network_init_args: further arguments for the network
        :param copy_param_mode: how parameters get into the network of the next step: "ifpossible", "subset", ...
        :param copy_output_layer: whether the parameters of the output layers do too; "ifpossible": if the shapes fit
        :param greedy: in each step, only the new layers and the output layers are trained
        :param repetitions: epochs of each step; a list by step, where the last entry stays; or a dict by step, which
            also has the keys "default" and "final"
        :param construction_algo: "from_output" and "from_input" add layers at that end; "no_network_modifications";
            or a function of the index of the step and the network, which returns the network of that step, or None
            when only the network of the config is left
        :param output_layers: stay in all steps
        :param input_layers: the data
        """
        self.network_init_args = network_init_args or {}
        self.copy_param_mode = copy_param_mode
        self.copy_output_layer = "ifpossible" if copy_output_layer is None else copy_output_layer
        self.greedy = bool(greedy)
        self._output_layers = [output_layers] if isinstance(output_layers, str) else list(output_layers)
        self._input_layers = [input_layers] if isinstance(input_layers, str) else list(input_layers)
        self._steps = self._construct_steps(original_network_json, construction_algo)
        self.repetitions = [_repetitions(repetitions, step, len(self._steps), net) for step, net in self._numbered()]

    def __repr__(self) -> str:
        return f"<Pretrain {counted(len(self._steps), 'step')}, {counted(self.get_train_num_epochs(), 'epoch')}>"

    def get_train_num_epochs(self) -> int:
        """:return: how many epochs the pretraining takes"""
        return sum(self.repetitions)

    def get_network_json_for_epoch(self, epoch: int) -> NetDict:
        """
        :param epoch: starts with 1; may come after the pretraining
        :return: its net dict, with the values for this epoch
        """
        net = resolve_epoch_values(self._steps[self._step_of_epoch(epoch)], epoch)
        args = self.get_train_param_args_for_epoch(epoch)
        for name in set(_layer_names(net)) - set(args.get("layers", _layer_names(net))):
            net[name]["trainable"] = False
        return net

    def get_final_network_json(self) -> NetDict:
        """:return: the net dict after the pretraining, with the values for its last epoch"""
        return self.get_network_json_for_epoch(self.get_train_num_epochs() + 1)

    def get_train_param_args_for_epoch(self, epoch: int) -> dict[str, Any]:
        """:return: the key "layers" has the names of the layers to be trained; without it, all of them are"""
        step = self._step_of_epoch(epoch)
        if not self.greedy or epoch > self.get_train_num_epochs() or step == 0:
            return {}
        before = set(_layer_names(self._steps[step - 1])) - set(self._output_layers)
        return {"layers": [name for name in _layer_names(self._steps[step]) if name not in before]}

    def _step_of_epoch(self, epoch: int) -> int:
        ends = itertools.accumulate(self.repetitions)
        return next((step for step, end in enumerate(ends) if epoch <= end), len(self._steps) - 1)

    def _numbered(self) -> list[tuple[int, NetDict]]:
        return list(enumerate(self._steps))

    def _construct_steps(self, net: NetDict, algo: str | ConstructionAlgo) -> list[NetDict]:
        if callable(algo):
            return _custom_steps(algo, net)
        shrink: dict[str, Callable[[NetDict], NetDict | None]] = {
            "from_output": self._without_last_layer,
            "from_input": self._without_first_layer,
            "no_network_modifications": lambda _: None,
        }
        check_known("construction algorithm", algo, shrink, where="option 'pretrain'")
        for name in self._output_layers:
            check_known("output layer", name, _layer_names(net), where="option 'pretrain'")
        steps = [deepcopy(net)]
        while (smaller := shrink[algo](deepcopy(steps[0]))) is not None:
            steps.insert(0, smaller)
        return steps

    def _without_last_layer(self, net: NetDict) -> NetDict | None:
        """The output layers get the sources of their sources."""
        changed = [
            self._skip_sources(net, name, lambda source: self._is_upper(net, source)) for name in self._output_layers
        ]
        return self._only_reachable(net) if any(changed) else None

    def _without_first_layer(self, net: NetDict) -> NetDict | None:
        """What reads the first layers reads the data instead, as long as this leaves a hidden layer."""
        hidden = [name for name in _layer_names(net) if name not in self._output_layers]
        first = {name for name in hidden if not self._is_upper(net, name)}
        readers = [name for name in _layer_names(net) if first & set(self._sources(net, name))]
        if not readers or any(name in self._output_layers for name in readers):
            return None
        for name in readers:
            self._skip_sources(net, name, first.__contains__)
        return self._only_reachable(net)

    def _skip_sources(self, net: NetDict, name: str, is_skipped: Callable[[str], bool]) -> bool:
        """Puts the sources of a source in its place. Returns whether there was one to skip."""
        sources = self._sources(net, name)
        new = [s for source in sources for s in (self._sources(net, source) if is_skipped(source) else [source])]
        if new != sources:
            net[name]["from"] = list(dict.fromkeys(new))
        return new != sources

    def _sources(self, net: NetDict, name: str) -> list[str]:
        sources = net[name].get("from", self._input_layers)
        return [sources] if isinstance(sources, str) else list(sources)

    def _is_upper(self, net: NetDict, name: str) -> bool:
        """:return: whether it is a layer that reads another layer"""
        return name in _layer_names(net) and any(source in _layer_names(net) for source in self._sources(net, name))

    def _only_reachable(self, net: NetDict) -> NetDict:
        """Drops the layers that nobody needs any more. A layer can be mentioned in any option of another one."""
        needed, todo = set(), [name for name in self._output_layers if name in net]
        while todo:
            name = todo.pop()
            needed.add(name)
            mentioned = {str(value).split("base:")[-1].split("/")[0] for value in iter_nested(net[name])}
            todo += [other for other in _layer_names(net) if other in mentioned and other not in needed]
        return {name: layer for name, layer in net.items() if name in needed or name.startswith("#")}


def resolve_epoch_values(net: NetDict, epoch: int) -> NetDict:
    """:return: the net dict, where each `WrapEpochValue` has become its value"""
    resolved: NetDict = map_nested(
        lambda value: value.get_value(epoch) if isinstance(value, WrapEpochValue) else value, net
    )
    return resolved


def pretrain_from_config(config: Config) -> Pretrain | None:
    """
    :return: as the options `pretrain` and `pretrain_*` say; None if there is no pretraining
    :raises ConfigError: if the option makes no sense
    """
    option = config.options.pretrain
    if not option:
        return None
    chosen = dict(option) if isinstance(option, dict) else {}
    for name in chosen:
        check_known("option", name, _OPTIONS, where="option 'pretrain'")
    # Old configs have each of them as an option of its own; what stands in the dict counts more.
    single = {name: f"pretrain_{name}" for name in _SINGLE_OPTIONS if config.has(f"pretrain_{name}")}
    opts = {**{name: getattr(config.options, option_name) for name, option_name in single.items()}, **chosen}
    makes_networks = callable(opts.get("construction_algo")) and not has_network(config)
    return Pretrain({} if makes_networks else network_json_from_config(config), **opts)


_SINGLE_OPTIONS = ("copy_output_layer", "greedy", "repetitions", "construction_algo")
_OPTIONS = (
    "construction_algo",
    "copy_output_layer",
    "copy_param_mode",
    "greedy",
    "input_layers",
    "network_init_args",
    "output_layers",
    "repetitions",
)


def _layer_names(net: NetDict) -> list[str]:
    return [name for name, layer in net.items() if isinstance(layer, dict) and not name.startswith("#")]


def _custom_steps(algo: ConstructionAlgo, net: NetDict) -> list[NetDict]:
    steps = []
    for index in itertools.count():
        step = algo(index, deepcopy(net))
        if step is None:
            break
        steps.append(step)
    if net:  # with what the function leaves out until the end, such as label smoothing
        steps.append(deepcopy(net))
    if not steps:
        raise ConfigError(f"option 'pretrain': {algo.__name__} returns None for the first step, index 0.")
    return steps


def _repetitions(option: Repetitions | None, step: int, num_steps: int, net: NetDict) -> int:
    """:return: how many epochs this step has"""
    number: Any = 1 if option is None else option
    if "#repetition" in net:
        number = net["#repetition"]
    elif isinstance(option, Mapping):
        default = option.get("final", option.get("default", 1)) if step == num_steps - 1 else option.get("default", 1)
        number = option.get(step, default)
    elif isinstance(option, Sequence) and not isinstance(option, str) and option:
        number = option[min(step, len(option) - 1)]
    if not isinstance(number, int) or number < 0:
        raise ConfigError(
            f"option 'pretrain': the repetitions of step {step} are {number!r}.\n"
            "  Possible: a number of epochs, a list of them by step, or a dict by step, 'default' and 'final'."
        )
    return number


def demo() -> None:
    """`python -m returnn.pretrain CONFIG`: shows the network of each step."""
    config = Config()
    config.load_file(sys.argv[1])
    config.parse_cmd_args(sys.argv[2:])
    log.init_by_config(config)
    pretrain = pretrain_from_config(config)
    print(pretrain or "no pretraining", file=log.v1)
    if pretrain is None:
        return
    for epoch in range(1, pretrain.get_train_num_epochs() + 1):
        net = pretrain.get_network_json_for_epoch(epoch)
        print(f"epoch {epoch}: {', '.join(_layer_names(net))}", file=log.v1)
