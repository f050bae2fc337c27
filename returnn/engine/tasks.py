"""The tasks of the command line that are the same with all backends: each gets the config."""

from __future__ import annotations

from returnn.config import Config
from returnn.engine.data import dataset_names, load_dataset
from returnn.engine.run.engine import TrainingEngine
from returnn.engine.run.scores import describe_scores
from returnn.log import log
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import ConfigError
from returnn.util.python.optional_import import import_part

_ENGINES = {
    BackendEngine.TensorFlowNetDict: "returnn.tf.engine",
    BackendEngine.TensorFlow: "returnn.tf.engine_rf",
    BackendEngine.Torch: "returnn.torch.engine",
}


def make_engine(config: Config) -> TrainingEngine:
    """:return: the engine of the backend that is selected"""
    name = _ENGINES[BackendEngine.get_selected_engine()]
    module = import_part(name, needed_for=BackendEngine.describe_selected())  # late: it needs its framework
    engine: TrainingEngine = module.Engine(config)
    return engine


def train(config: Config) -> None:
    """Trains, with an evaluation after each epoch."""
    engine = make_engine(config)
    try:
        engine.init_train_from_config()
        engine.train()
    finally:
        engine.finalize()


def initialize_model(config: Config) -> None:
    """Writes a model file with initial parameters."""
    engine = make_engine(config)
    engine.init_network_from_config()
    engine.set_epoch(0)
    engine.save_model()
    print(f"saved {engine.get_epoch_model_filename()!r}", file=log.v1)
    engine.finalize()


def init_training(config: Config) -> None:
    """Data and model of a training, and nothing else: shows whether they fit."""
    engine = make_engine(config)
    engine.init_train_from_config()
    engine.finalize()


def evaluate(config: Config) -> None:
    """Scores of one model on the data for evaluation, also into `eval_output_file` and `eval_output_file_per_seq`."""
    engine = make_engine(config)
    engine.init_network_from_config()
    engine.eval_datasets = {name: load_dataset(config, name, whole=True) for name in dataset_names(config)}
    if not engine.eval_datasets:
        raise ConfigError("task 'eval': there is no data: one of 'dev', 'eval', 'eval_datasets' is required.")
    engine.check_has_scores()
    results = engine.eval_model(
        output_file=config.options.eval_output_file,
        output_per_seq_file=config.options.eval_output_file_per_seq,
        loss_name=config.options.loss_name,
        output_per_seq_format=config.options.output_per_seq_format,
        output_per_seq_file_format=config.options.output_per_seq_file_format,
        lr_control_update_scores=False,
    )
    for name, scores in results.items():
        print(f"{name}: {describe_scores(engine.scores_for_people(scores))}", file=log.v1)
    engine.finalize()


def cleanup_old_models(config: Config) -> None:
    """Deletes model files as `cleanup_old_models` says, after asking."""
    make_engine(config).cleanup_old_models(ask_for_confirmation=True)
