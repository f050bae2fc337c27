"""The tasks of the command line, for models of the frontend: each gets the config."""

from __future__ import annotations

import os
from collections.abc import Sequence

from returnn.config import Config
from returnn.datasets.core.data_check import empty_seqs_allowed
from returnn.datasets.core.dataset import Dataset
from returnn.engine.data import load_task_dataset
from returnn.engine.frontend.batch_arrays import ArrayBatch
from returnn.engine.frontend.check import check_model
from returnn.engine.frontend.model_pass import ModelPass
from returnn.engine.frontend.outputs import (
    HdfOutput,
    HypothesesOutput,
    MeanProbabilities,
    SeveralCallbacks,
    hypotheses_are_wanted,
    made_callback,
)
from returnn.engine.frontend.references import References
from returnn.engine.frontend.trained_model import TrainedModel
from returnn.engine.hypothesis_files import Hypotheses
from returnn.engine.output_statistics import OutputStatistics, analyzed_dataset, write_log_prior
from returnn.engine.report.run_record import run_record
from returnn.engine.run.unique_tags import check_new_tags
from returnn.engine.search_results import (
    CorpusOrder,
    check_output_options,
    print_scores,
    warn_of_same_hypotheses,
    with_empty_hypotheses,
    write_search_output,
)
from returnn.engine.tasks import cleanup_old_models, evaluate, init_training, initialize_model, make_engine, train
from returnn.forward_iface import ForwardCallbackIface
from returnn.log import log
from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted

__all__ = [
    "analyze", "check", "cleanup_old_models", "compute_priors", "evaluate", "explain", "forward", "init_training",
    "initialize_model", "search", "train",
]  # fmt: skip


def forward(config: Config) -> None:
    """Outputs of `forward_step` for `forward_data`: to `forward_callback` of the config, or into an HDF file."""
    engine = make_engine(config)
    engine.init_network_from_config()
    data = load_task_dataset(config, "forward_data")
    callback = made_callback(config)
    if callback is None:
        output_file = config.options.output_file or f"dump-fwd-epoch-{engine.epoch}.hdf"
        if os.path.exists(output_file) and not config.options.forward_override_hdf_output:
            raise ConfigError(f"{output_file!r} exists.\n  Set 'output_file', or 'forward_override_hdf_output'.")
        callback = HdfOutput(output_file, config.options.forward_output_layer)
    model_pass = engine.trained_model.forward(data, callback)
    if isinstance(callback, HdfOutput):
        print(f"forward: {counted(model_pass.num_seqs, 'sequence')}, wrote {callback.filename!r}", file=log.v1)
        if callback.left_out:
            print(
                f"forward: it has the output {callback.name!r} alone, not {', '.join(map(repr, callback.left_out))}.\n"
                "  'forward_output_layer' says which one is written; a 'forward_callback' gets all.",
                file=log.v1,
            )
    engine.finalize()


def search(config: Config) -> None:
    """
    Hypotheses that `forward_step` marks for `search_data`, into `search_output_file`, scored by `search_metrics`. A
    `forward_callback` gets all outputs, too; it alone, if there are neither of these options.
    """
    check_output_options(config)
    engine = make_engine(config)
    engine.init_network_from_config()
    data = load_task_dataset(config, "search_data")
    callback = made_callback(config)
    if callback is None or hypotheses_are_wanted(config):
        (name, *others) = config.options.search_output_layer
        if others:
            raise ConfigError("option 'search_output_layer': one output is needed, not several.")
        search_hypotheses(config, engine.trained_model, data, name, beside=() if callback is None else (callback,))
    else:
        _print_speed(engine.trained_model.forward(data, callback, report_prefix="search"))
    engine.finalize()


def search_hypotheses(
    config: Config, model: TrainedModel, data: Dataset, name: str, *, beside: Sequence[ForwardCallbackIface] = ()
) -> dict[str, Hypotheses]:
    """
    Decodes, and does what the options of the task `search` say: prints scores, writes a file.

    :param config: options
    :param model: computes
    :param data: what to decode
    :param name: of the output with the hypotheses
    :param beside: they get all outputs, too
    :return: hypotheses by tag
    """
    metrics, filename = config.options.search_metrics, config.options.search_output_file
    order = CorpusOrder(data)
    references = References(model.runner.templates, config.options.target, data) if metrics else None
    callback = HypothesesOutput(name, references)

    def note(batch: ArrayBatch) -> None:
        check_new_tags(batch.seq_tags, callback.results, task="search", results="hypotheses")
        order.add(batch.seq_tags)
        if references is not None:
            references.add(batch)

    with empty_seqs_allowed() as empty:
        callbacks = SeveralCallbacks([*beside, callback])
        model_pass = model.forward(data, callbacks, report_prefix="search", on_batch=note)
    _print_speed(model_pass)
    results = with_empty_hypotheses(order.sorted(callback.results), empty)
    warn_of_same_hypotheses(results)
    if references is not None:
        print_scores(
            results,
            references.texts,
            metrics,
            end_label=references.end_label,
            has_prefixes=callback.has_prefixes,
            record=run_record(config),
            epoch=model.epochs.current,
        )
    if filename:
        file_format = config.options.search_output_file_format
        left_out = model_pass.scores.left_out
        write_search_output(filename, results, file_format, order, left_out, has_prefixes=callback.has_prefixes)
    return results


def analyze(config: Config) -> None:
    """Statistics of all outputs of `forward_step`, on `analyze_dataset`."""
    collected = OutputStatistics(config.options.statistics)
    engine = make_engine(config)
    engine.init_network_from_config()
    engine.trained_model.forward(analyzed_dataset(config), collected, report_prefix="analyze")
    collected.print_results()
    engine.finalize()


def compute_priors(config: Config) -> None:
    """
    Mean of the output `forward_output_layer` of `forward_step` over `analyze_dataset`, into `output_file`.

    :raises ConfigError: if the output are neither probabilities nor log probabilities
    """
    name, output_file = config.options.forward_output_layer, config.options.output_file
    if not output_file:
        raise ConfigError("task 'compute_priors': option 'output_file' is required: where the log prior is written.")
    collected = MeanProbabilities(name)
    engine = make_engine(config)
    engine.init_network_from_config()
    model_pass = engine.trained_model.forward(analyzed_dataset(config), collected, report_prefix="compute priors")
    write_log_prior(collected.mean(), output_file, output=name, num_seqs=model_pass.num_seqs)
    engine.finalize()


def _print_speed(result: ModelPass) -> None:
    print(
        f"search: {counted(result.num_seqs, 'sequence')}, {result.num_seqs / result.elapsed:.1f} per second",
        file=log.v2,
    )


def check(config: Config) -> None:
    """
    Looks for errors, and shows the modules of the model with their parameters. Nothing is computed.

    :raises ConfigError: if there is an error
    """
    check_model(config)


def explain(config: Config) -> None:
    """:raises ConfigError: always: there is nothing that would be compiled"""
    raise ConfigError(
        "task 'explain': it shows how loops of a net dict are compiled. Here, `get_model` and `train_step` are code:"
        " rf.scan and rf.while_loop do in each frame what they say.\n  '++task check' shows the modules."
    )
