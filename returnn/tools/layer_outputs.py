"""Outputs of any layers of a trained network, sequence by sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.static import StaticDataset
from returnn.engine.net_outputs import with_kept_layer
from returnn.forward_iface import ForwardCallbackIface
from returnn.tensor import TensorDict
from returnn.util.python.optional_import import import_part

_NEEDED_FOR = "outputs of layers"

NetDict = dict[str, Any]
SeqOutputs = Mapping[str, numpy.ndarray]  # by name of the layer; [time, ..., feature] without padding


def layer_outputs(
    config: Config,
    dataset: Dataset,
    layers: Sequence[str],
    process_seq: Callable[[str, SeqOutputs], None],
    *,
    epoch: int | None = None,
    is_search: bool = False,
    train_flag: bool = False,
    change_net: Callable[[NetDict], NetDict] = lambda net_dict: net_dict,
) -> None:
    """
    :param config: of a trained model
    :param dataset: what goes in
    :param layers: names, also inside of loops and subnetworks, such as "output/weights"
    :param process_seq: gets tag and outputs of each sequence
    :param epoch: whose parameters; default: the newest, or what the config says
    :param is_search: whether choices search; of hypotheses, the best one counts
    :param train_flag: whether dropout and the like are on
    :param change_net: changes options of layers
    :raises UserError: if there is no such layer or model
    """
    if epoch is not None:
        config.set("load_epoch", epoch)
    config.set("task", "forward")  # so that a model is loaded
    if train_flag:
        config.set("eval_use_train_flag", True)
    engine = import_part("returnn.tf.engine", needed_for=_NEEDED_FOR).Engine(config)
    engine.use_eval_flag = False
    engine.use_search_flag = is_search
    names = {f"dumped_output_{i}": layer for i, layer in enumerate(layers)}
    engine.init_network_from_config(net_dict_post_proc=lambda net: _with_copies(change_net(net), names, is_search))
    try:
        module = import_part("returnn.tf.engine.outputs.forward_callback", needed_for=_NEEDED_FOR)
        callback = _Callback(names, process_seq)
        module.forward_with_callback(
            engine.session, dataset=dataset, callback=callback, train_flag=train_flag, layers=names
        )
    finally:
        engine.finalize()


def seq_range(dataset: Dataset, *, epoch: int, start: int = 0, end: int | None = None) -> Dataset:
    """
    :param dataset: the data
    :param epoch: which one
    :param start: first sequence
    :param end: exclusive; None for all
    :return: a data set of these sequences
    """
    if start == 0 and end is None:
        return dataset
    dataset.init_seq_order(epoch)
    max_seqs = None if end is None else max(end - start, 0)
    return StaticDataset.copy_from_dataset(dataset, start_seq_idx=start, max_seqs=max_seqs)


def reset_seq_order(dataset: Dataset, *, partition_epoch: int, seq_ordering: str) -> None:
    """Changes which sequences an epoch has, and their order."""
    dataset.partition_epoch = partition_epoch
    dataset.seq_ordering = seq_ordering


def _with_copies(net_dict: NetDict, names: Mapping[str, str], is_search: bool) -> NetDict:
    for name, layer in names.items():
        net_dict = with_kept_layer(net_dict, layer.split("/"), where=f"layer {layer!r}")
        kind = "decide" if is_search and "/" in layer else "copy"
        net_dict = {**net_dict, name: {"class": kind, "from": layer, "is_output_layer": True}}
    return net_dict


class _Callback(ForwardCallbackIface):
    def __init__(self, names: Mapping[str, str], process_seq: Callable[[str, SeqOutputs], None]) -> None:
        self._names = names
        self._process = process_seq

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        found = {layer: outputs.data[name] for name, layer in self._names.items()}
        self._process(seq_tag, {layer: numpy.asarray(out.raw_tensor) for layer, out in found.items()})
