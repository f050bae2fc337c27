"""All that `++task check` looks at in a config: options, network for training and for search, optimizer, data."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from returnn.config import Config
from returnn.config.device import asks_for_gpu
from returnn.config.option_check import helper_errors, inspect_options, unsupported_text, warnings_about
from returnn.datasets.core.dataset import Dataset
from returnn.engine.best_model import best_model_options
from returnn.engine.data import TASK_DATA, dataset_option, datasets_of_all_tasks
from returnn.engine.data_identity import warn_of_other_labels
from returnn.engine.hypothesis_files import check_file_format
from returnn.engine.learning_rate_control import check_dynamic_learning_rate
from returnn.engine.net_diff import is_same_net
from returnn.engine.report.compared_lengths import wrong_lengths
from returnn.engine.report.data_sample import DataSample, limits_of_data, load_sample, used_part
from returnn.engine.report.label_warnings import blank_label_warnings, end_label_warnings, unknown_label_warnings
from returnn.engine.report.learning_rate_warnings import (
    unknown_measure_text,
    unset_learning_rate_text,
    unused_learning_rates_text,
)
from returnn.engine.run.cleanup import cleanup_policy
from returnn.tf.engine.engine import Engine
from returnn.tf.engine.outputs.hypotheses import check_words
from returnn.tf.inspection.kept_order import kept_order_warning
from returnn.tf.inspection.loop_ends import end_warnings, unlimited_warnings
from returnn.tf.inspection.losses import may_have_loss
from returnn.tf.inspection.net_dict import has_search, unused_layers
from returnn.tf.inspection.preloaded import preload_errors
from returnn.tf.inspection.report import NetReport, batch_hints, error_text, inspect_network
from returnn.tf.inspection.search_limits import limit_warnings
from returnn.tf.inspection.seen_targets import layers_that_predict, seen_target_warnings
from returnn.tf.network.extern_data import ExternData
from returnn.tf.network.load_on_init import missing_files_on_init
from returnn.tf.network.losses import no_loss_text
from returnn.tf.updater.gradient_options import GradientOptions
from returnn.tf.updater.optimizer_choice import choose_optimizer
from returnn.util.errors import ConfigError, UserError, nearest_hint
from returnn.util.texts.text_scores import check_metrics


@dataclass
class ConfigReport:
    """What was found."""

    looked_at: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # by what they were spent on
    networks: list[NetReport] = field(default_factory=list)
    last_networks: list[NetReport] = field(default_factory=list)  # those of the last epoch
    samples: dict[str, DataSample] = field(default_factory=dict)  # of data sets
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)  # what is meant, maybe

    def add_error(self, error: str | BaseException) -> None:
        """Notes it, if it is not known yet."""
        text = error if isinstance(error, str) else error_text(error)
        if text not in self.errors:
            self.errors.append(text)

    def add_errors_of_search(self, errors: Sequence[str]) -> None:
        """Notes errors of layers that there is no error of in training."""
        known = {_layer_of(error) for error in self.errors}
        for error in errors:
            if _layer_of(error) not in known:
                self.add_error(f"in search: {error}")

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Counts the seconds of the `with` block."""
        start = time.monotonic()
        yield
        self.seconds[what] = time.monotonic() - start

    def attempt(self, function: Callable[[], Any]) -> Any:
        """:return: the result; None after an error, which is noted"""
        try:
            return function()
        except UserError as exc:
            self.add_error(exc)
        return None


def check_config(config: Config) -> ConfigReport:
    """:return: what was found; nothing of it needs a graph"""
    report = ConfigReport()
    _check_options(config, report)
    report.attempt(lambda: choose_optimizer(config))
    report.attempt(lambda: asks_for_gpu(config))
    report.attempt(lambda: check_metrics(config.options.search_metrics, where="option 'search_metrics'"))
    report.attempt(lambda: check_file_format(config.options.search_output_file_format))
    report.attempt(lambda: cleanup_policy(config.options.cleanup_old_models))
    report.attempt(lambda: best_model_options(config))
    report.attempt(lambda: check_dynamic_learning_rate(config.options.dynamic_learning_rate))
    report.attempt(lambda: GradientOptions.from_config(config))
    report.looked_at.append("optimizer")
    with report.timed("network"):
        net_dicts = report.attempt(lambda: net_dicts_by_epoch(config)) or {}
        for epoch, net_dict in net_dicts.items():
            _check_network(config, net_dict, f" of epoch {epoch}" if len(net_dicts) > 1 else "", report)
    if report.networks and config.options.preload_from_files and not report.errors:
        for error in report.attempt(lambda: list(preload_errors(config, report.networks))) or ():
            report.add_error(error)
        report.looked_at.append("preload_from_files")
    if config.options.check_data:
        with report.timed("data"):
            _check_data(config, list(net_dicts.values())[-1:], report)
    if report.networks:
        extern_data = report.networks[0].network.extern_data
        predicted: set[str] = set()
        for net_dict in list(net_dicts.values())[-1:]:
            report.warnings += end_warnings(net_dict, report.samples, extern_data)
            report.warnings += unlimited_warnings(net_dict)
            report.warnings += seen_target_warnings(net_dict, extern_data)
            predicted.update(key for _, key in layers_that_predict(net_dict, extern_data))
        if not report.errors:
            last = report.last_networks[-1]
            report.warnings += limit_warnings(last.layers, report.samples, last.network.extern_data.data)
        report.hints += batch_hints(report.last_networks)
        compared = report.networks[0].network.notes.compared_dims
        report.warnings += end_label_warnings(compared, predicted, report.samples.values(), extern_data.data)
        report.warnings += blank_label_warnings(compared, report.samples, extern_data.data)
        report.warnings += unknown_label_warnings(report.samples)
        names = {layer.name for network in report.networks for layer in network.layers}
        text = unknown_measure_text(config, names)
        report.warnings += [] if text is None else [text]
    if not report.errors:
        warn_of_other_labels(config)
    return report


def net_dicts_by_epoch(config: Config) -> dict[int, dict[str, Any]]:
    """
    :return: the net dict of the first epoch, and of later ones that change it
    :raises ConfigError: if there is none
    """
    engine = Engine(config)
    found: dict[int, dict[str, Any]] = {}
    last: dict[str, Any] | None = None
    for epoch in _epochs_to_ask(max(Engine.config_get_final_epoch(config), 1)):
        net_dict = engine.get_net_dict_for_epoch(epoch=epoch)
        if last is None or not is_same_net(net_dict, last):
            found[epoch] = last = net_dict
    return found


def _epochs_to_ask(final: int) -> list[int]:
    """:return: the first ones, where networks usually grow, then one in ten, as asking takes time; and the last one"""
    return sorted({*range(1, min(final, 20) + 1), *range(30, final, 10), final})


def for_search(net_dict: dict[str, Any], config: Config) -> dict[str, Any]:
    """
    :return: the net dict as the search has it, in which its output layers are wanted
    :raises ConfigError: if there is no such layer
    """
    names = config.options.search_output_layer if config.has("search_output_layer") else ()
    for name in names:
        if name not in net_dict and "/" not in name:
            raise ConfigError(
                f"option 'search_output_layer': there is no layer {name!r}.\n  {nearest_hint(name, net_dict)}"
            )
    return {name: {**desc, "is_output_layer": True} if name in names else desc for name, desc in net_dict.items()}


def _layer_of(error: str) -> str:
    """:return: the beginning of the message"""
    found = re.search(r"layer '[^']*'", error)
    return found.group() if found else error


def _check_options(config: Config, report: ConfigReport) -> None:
    options = inspect_options(config)
    is_error = not config.options.allow_unknown_options
    for name, known in options.misspelt.items():
        text = f"there is no option {name!r}. Did you mean {known!r}?"
        report.add_error(f"config: {text}") if is_error else report.warnings.append(text)
    for error in [*map(unsupported_text, options.unsupported), *options.wrong, *helper_errors(config)]:
        report.add_error(error)
    report.warnings += warnings_about(options, config.options.backend)
    if config.has("num_epochs") and dataset_option(config, "train") is None:
        report.warnings.append("there is no 'train', the data to train on.")
    if dataset_option(config, "train") is not None:
        for warning_text in (unset_learning_rate_text, unused_learning_rates_text):
            if text := report.attempt(functools.partial(warning_text, config)):
                report.warnings.append(text)
    report.looked_at.append("options")


def _check_network(config: Config, net_dict: dict[str, Any], of_epoch: str, report: ConfigReport) -> None:
    modes = {}
    if not has_search(net_dict) or dataset_option(config, "train"):  # some configs are for search alone
        modes["training"] = net_dict
    if has_search(net_dict):
        modes["search"] = report.attempt(lambda: for_search(net_dict, config)) or net_dict
    used: set[str] = set()
    report.last_networks = []
    for mode, mode_dict in modes.items():
        network = report.attempt(
            lambda mode=mode, net=mode_dict: inspect_network(
                net, config, title=f"network{of_epoch} for {mode}", is_search=mode == "search"
            )
        )
        if network is None:
            return
        report.networks.append(network)
        warnings = [layer.layer.warning for layer in network.layers if layer.layer.warning]
        report.warnings += [text for text in warnings if text not in report.warnings]
        for text in (
            report.attempt(lambda network=network: missing_files_on_init(x.layer for x in network.layers)) or ()
        ):
            report.add_error(text)
        report.last_networks.append(network)
        report.looked_at.append(network.title)
        used |= network.used_layers
        if mode == "search":
            report.add_errors_of_search(network.errors)
            if config.options.search_metrics:
                for found in network.layers:
                    report.attempt(lambda found=found: check_words(found.layer))
        else:
            for error in network.errors:
                report.add_error(error)
            if dataset_option(config, "train") and not network.errors and not may_have_loss(network.layers):
                report.add_error(no_loss_text(net_dict, purpose="training"))
    unused = unused_layers(net_dict, used)
    if unused:
        report.warnings.append(f"layers{of_epoch} that nothing uses: {', '.join(unused)}")


# Data.


def _check_data(config: Config, net_dicts: Sequence[dict[str, Any]], report: ConfigReport) -> None:
    used_keys = {key for network in report.networks for key in network.network.get_used_data_keys()}
    for name, load in datasets_of_all_tasks(config).items():
        try:
            dataset = load()
        except (UserError, OSError) as exc:
            text = error_text(exc)
            is_named = text in report.errors or repr(name)[:-1] in text
            report.add_error(text if is_named else f"data {name!r}: {text}")
            continue
        num_errors = len(report.errors)
        if report.networks and dataset is not None:
            keys = used_keys if name not in TASK_DATA else used_keys.intersection(dataset.get_data_keys())
            _check_dims_of_data(name, dataset, report.networks[0].network.extern_data, keys, report)
        fits = bool(report.networks) and len(report.errors) == num_errors  # otherwise it is said already
        known = report.networks[0].network.extern_data.data if fits else {}
        templates = {key: known[key] for key in used_keys if key in known}
        what = f"data {name!r}"
        if dataset is not None:
            for net_dict in net_dicts:
                text = kept_order_warning(net_dict, name, dataset)
                report.warnings += [] if text is None else [text]
            try:
                limits = limits_of_data(config, name)
                report.samples[name] = load_sample(dataset, templates, limits=limits)
                what += f": {report.samples[name].described()}"
                compared = report.networks[0].network.notes.compared_dims if fits else []  # in training, all losses
                used = used_part(report.samples[name], limits)
                errors, warnings = wrong_lengths(compared, used, templates)
                for error in errors:
                    report.add_error(f"data {name!r}: {error}")
                report.warnings += [f"data {name!r}: {warning}" for warning in warnings]
            except (UserError, OSError) as exc:
                report.add_error(f"data {name!r}: {error_text(exc)}")
        report.looked_at.append(what)


def _check_dims_of_data(
    name: str, dataset: Dataset, extern_data: ExternData, used_keys: set[str], report: ConfigReport
) -> None:
    for key in sorted(used_keys):
        try:
            extern_data.check_matched_dataset(dataset, [key])
        except ConfigError as exc:
            report.add_error(f"data {name!r}: {error_text(exc)}")
