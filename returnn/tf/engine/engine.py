"""`Engine`: the documented interface of what trains, evaluates and searches. Each theme is an object that it has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.datasets.core.batch import Batch
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.data import describe_data
from returnn.engine.hypothesis_files import HypothesesPerLayer
from returnn.engine.net_dicts import NetDicts
from returnn.engine.run.engine import TrainingEngine
from returnn.engine.run.evaluation import format_score
from returnn.engine.run.model_files import ModelFiles, model_files_are_written
from returnn.engine.run.scores import with_perplexities
from returnn.engine.run.unfinished_epochs import UnfinishedEpochs
from returnn.forward_iface import ForwardCallbackIface
from returnn.serve.task import serve_model
from returnn.tf import checkpoint
from returnn.tf.checkpoint.unfinished import UnfinishedCheckpoints
from returnn.tf.distributed.workers import init_workers
from returnn.tf.engine.feeding.batches import batches_of
from returnn.tf.engine.option_attributes import HasOptions
from returnn.tf.engine.outputs import statistics as engine_statistics
from returnn.tf.engine.outputs.forward import forward_to_hdf
from returnn.tf.engine.outputs.forward_callback import forward_with_callback
from returnn.tf.engine.outputs.search import search
from returnn.tf.engine.outputs.single_seqs import SingleSeqs
from returnn.tf.engine.passes.data_pass import DataPass
from returnn.tf.engine.passes.score_fetches import cross_entropies
from returnn.tf.engine.session.built_network import NetDict, check_has_loss, create_network
from returnn.tf.engine.session.device import session_options
from returnn.tf.engine.session.network_of_epoch import NetworkOfEpoch
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.tf.engine.session.trained_network import TrainedNetwork
from returnn.tf.network import TFNetwork
from returnn.tf.network.extern_data import ExternData
from returnn.tf.updater import Updater
from returnn.util.errors import ConfigError
from returnn.util.python.optional_import import import_part
from returnn.util.system.gpu import have_gpu

tf1 = tf.compat.v1

_engine: Engine | None = None


class CancelTrainingException(Exception):
    """Ends the training, as a user's function may want it."""


def get_global_engine() -> Engine:
    """:return: the last engine of the process"""
    assert _engine is not None, "there is no engine yet"
    return _engine


class Engine(HasOptions, TrainingEngine):
    """The tasks of a config, and what they share: session, networks and model files of the epochs."""

    def __init__(self, config: Config | None = None) -> None:
        """:param config: default: the global one"""
        global _engine
        super().__init__(config)
        _engine = self
        if self.config.opt_typed_value("search_depends_on_batch") is None:
            self.config.set("search_depends_on_batch", False)
        self.custom_get_net_dict: Callable[..., NetDict] | None = self.config.options.get_network
        self.net_dicts = NetDicts(self.config, self.pretrain)
        is_training = self.config.options.task == "train"
        workers = init_workers(self.config, session_options(self.config)) if is_training else None
        self.session = NetworkSession(
            self.config, self.epochs, on_new_network=self._call_on_new_network, workers=workers
        )
        unfinished = UnfinishedEpochs(
            self.config,
            self.model_names,
            UnfinishedCheckpoints(),
            are_written=model_files_are_written(self.config),
            processes=workers,
        )
        model_files = ModelFiles(self.config, self.model_names, checkpoint, unfinished, processes=workers)
        self.learning_rate_control.is_written = workers is None or workers.is_first
        self.network_of_epoch = NetworkOfEpoch(self.session, self.net_dicts, model_files)
        trained = TrainedNetwork(self.session, self.network_of_epoch, model_files)
        self._set_model(trained, model_files)
        self.single_seqs = SingleSeqs(self.session)

    def _call_on_new_network(self) -> None:
        callback = self.config.options.init_new_network_callback
        if callback:
            callback(engine=self, network=self.network, session=self.tf_session, epoch=self.epoch)

    def finalize(self, error_occurred: bool = False) -> None:
        """
        Frees the session.

        :param error_occurred: whether this is because of an error
        """
        self.session.close()
        self.model_files.close()

    # Session and network.

    @property
    def network(self) -> TFNetwork | None:
        """The current network, None before the first one."""
        return None if self.session.built is None else self.session.network

    @property
    def tf_session(self) -> tf.compat.v1.Session | None:
        """The session with the parameters of the network, None before the first one."""
        return self.session.tf_session

    @property
    def updater(self) -> Updater | None:
        """What trains the network; None if nothing does."""
        return None if self.session.built is None else self.session.updater

    @property
    def use_search_flag(self) -> bool:
        """Whether choices search, in networks that are built from now on."""
        return self.session.search_flag

    @use_search_flag.setter
    def use_search_flag(self, flag: bool) -> None:
        if flag != self.session.search_flag:  # of what a search computes, losses need not depend on parameters
            self.network_of_epoch.can_train = False if flag else None
        self.session.search_flag = flag

    @property
    def use_eval_flag(self) -> bool:
        """Whether losses are computed, in networks that are built from now on."""
        return self.session.eval_flag

    @use_eval_flag.setter
    def use_eval_flag(self, flag: bool) -> None:
        self.session.eval_flag = flag

    @property
    def use_dynamic_train_flag(self) -> bool:
        """Whether the same network can be in training and not."""
        return self.session.built is not None and self.session.built.train_flag is not None

    @use_dynamic_train_flag.setter
    def use_dynamic_train_flag(self, flag: bool) -> None:
        self.network_of_epoch.can_train = flag

    @property
    def preload_from_files(self) -> Any:
        """Other model files that give parameters."""
        return self.session.preload_from_files

    @property
    def orig_config(self) -> dict[str, Any]:
        """What the options were that the net dict changes now."""
        return self.session.options_of_net.original

    @classmethod
    def create_network(
        cls,
        config: Config,
        rnd_seed: int,
        train_flag: bool | tf.Tensor,
        eval_flag: bool,
        search_flag: bool,
        net_dict: NetDict,
        extern_data: ExternData | None = None,
        initial_learning_rate: float = 1.0,
    ) -> tuple[TFNetwork, Updater | None]:
        """:return: see `returnn.tf.engine.session.built_network.create_network`"""
        return create_network(
            config, rnd_seed, train_flag, eval_flag, search_flag, net_dict, extern_data, initial_learning_rate
        )

    def make_tf_session(self) -> None:
        """Makes the session, with `tf_session_opts`."""
        self.session.make_tf_session()

    def check_uninitialized_vars(self) -> None:
        """:raises ConfigError: if a variable has no value, because some code of a config made it too late"""
        self.session.check_uninitialized_vars()

    def get_net_dict_for_epoch(self, *, epoch: int, step: int | None = None, config: Config | None = None) -> NetDict:
        """
        :param epoch: epoch
        :param step: number of the training step, for `get_network` functions that want it
        :param config: default: that of the engine
        :return: the net dict: of the pretraining, or what `get_network(epoch=...)` gives, or `network`
        """
        return self.net_dicts.of_epoch(epoch, step=step, config=config)

    def init_network_from_config(
        self, config: Config | None = None, *, net_dict_post_proc: Callable[[NetDict], NetDict] | None = None
    ) -> None:
        """
        Builds the network for the task of the config, and loads its parameters: the model of the epoch, or none in a
        training from scratch.

        :param config: default: that of the engine
        :param net_dict_post_proc: changes the net dict
        """
        if net_dict_post_proc is not None:
            self.net_dicts.post_process = net_dict_post_proc
        describe_data(config or self.config, self.training.dataset)
        self.network_of_epoch.begin(config or self.config)

    def need_init_new_network(self, net_desc: NetDict | None = None) -> bool:
        """
        :param net_desc: default: that of the epoch
        :return: whether it is another network than the current one
        """
        return self.network_of_epoch.is_another(net_desc)

    def init_new_network(self, net_desc: NetDict | None = None) -> None:
        """
        Changes to another network, which takes over what it can.

        :param net_desc: default: that of the epoch
        """
        self.network_of_epoch.change(net_desc)

    def maybe_init_new_network(self, net_desc: NetDict | None = None) -> None:
        """
        Changes to another network, if it is one.

        :param net_desc: default: that of the epoch
        """
        if self.need_init_new_network(net_desc):
            self.init_new_network(net_desc)

    def print_network_info(self) -> None:
        """Prints the table of the layers into the log."""
        self.network.print_network_info()

    # Model files.

    def save_model(self, filename: str | None = None) -> None:
        """
        :param filename: default: that of the epoch
        :raises CheckpointError: if it cannot be written
        """
        self.session.save(filename or self.get_epoch_model_filename())

    def load_model(self, epoch: int | None = None, filename: str | None = None) -> None:
        """
        :param epoch: whose model to load, if no file is given
        :param filename: of a checkpoint
        :raises CheckpointError: if it does not fit. With `load_ignore_missing_vars`, parameters may be missing
        """
        self.session.load(filename or self.get_epoch_model_filename(epoch))

    @staticmethod
    def delete_model(filename: str) -> int:
        """:return: bytes that are free now"""
        return checkpoint.delete_checkpoint(filename)

    # Training.

    @property
    def train_data(self) -> Dataset | None:
        """What is trained on."""
        return self.training.dataset

    @train_data.setter
    def train_data(self, dataset: Dataset | None) -> None:
        self.training.dataset = dataset

    @property
    def start_epoch(self) -> int:
        """The epoch that a training begins with, by the config and the model files."""
        return self.get_train_start_epoch(self.config)

    @property
    def save_model_epoch_interval(self) -> int:
        """Each such epoch has a model file."""
        return self.training.save_interval

    def check_last_epoch(self) -> None:
        """Evaluates the epoch before, if the process was killed after its model file was written."""
        self.training.check_last_epoch()

    def batches_of(self, dataset: Dataset, *, train: bool) -> BatchSetGenerator:
        """
        :param dataset: after `init_seq_order`
        :param train: whether it is for training
        :return: batches of the epoch that the data set is in, within the limits of the config
        """
        return batches_of(self.session, dataset, train=train)

    # Evaluation.

    @property
    def dev_data(self) -> Dataset | None:
        """The data set `dev`."""
        return self.eval_datasets.get("dev")

    @property
    def eval_data(self) -> Dataset | None:
        """The data set `eval`."""
        return self.eval_datasets.get("eval")

    def get_eval_datasets(self) -> dict[str, Dataset]:
        """:return: what is evaluated after each epoch, by name"""
        return self.eval_datasets

    def check_has_scores(self) -> None:
        check_has_loss(self.network, purpose="task 'eval'")

    def scores_for_people(self, scores: dict[str, float]) -> dict[str, float]:
        return with_perplexities(scores, cross_entropies(self.network.losses_dict))

    def format_score(self, score: float | dict[str, float]) -> str:
        """:return: for people"""
        return format_score(score)

    # Single sequences.

    def get_const_tensor(self, key: str, value: Any) -> tf.Tensor:
        """:return: constant, made once"""
        return self.single_seqs.constant(key, value)

    def get_specific_feed_dict(self, dataset: Dataset, seq_idx: int) -> tuple[dict[Any, Any], Batch]:
        """:return: feed dict, and the batch of this one sequence"""
        return self.single_seqs.feed_of_seq(dataset, seq_idx)

    def run_single(
        self,
        dataset: Dataset,
        seq_idx: int,
        output_dict: Mapping[str, Any],
        ext_feed_dict: Mapping[Any, Any] | None = None,
    ) -> dict[str, Any]:
        """:return: values by name, see `SingleSeqs.run`"""
        return self.single_seqs.run(dataset, seq_idx, output_dict, ext_feed_dict)

    def forward_single(self, dataset: Dataset, seq_idx: int, output_layer_name: str | None = None) -> numpy.ndarray:
        """:return: output of the layer for this sequence, without batch axis"""
        return self.single_seqs.forward(dataset, seq_idx, output_layer_name)

    def search_single(self, dataset: Dataset, seq_idx: int, output_layer_name: str | None = None) -> HypothesesPerLayer:
        """:return: hypotheses of this sequence"""
        return self.single_seqs.search(dataset, seq_idx, output_layer_name)

    def search_single_seq(
        self, sources: Sequence[Any] | numpy.ndarray, output_layer_name: str | None = None
    ) -> HypothesesPerLayer:
        """:return: hypotheses of the frames of the default input"""
        return self.single_seqs.search_frames(sources, output_layer_name)

    def search_single_string_to_string_seq(
        self, sources: str | Sequence[str], output_layer_name: str | None = None
    ) -> HypothesesPerLayer:
        """:return: hypotheses of a text"""
        return self.single_seqs.search_text(sources, output_layer_name)

    # Other tasks.

    def search(
        self,
        dataset: Dataset,
        do_eval: bool = True,
        output_layer_names: str | Sequence[str] = "output",
        output_file: str | None = None,
        output_file_format: str = "txt",
    ) -> dict[str, HypothesesPerLayer]:
        """:return: hypotheses by tag, see `returnn.tf.engine.outputs.search`"""
        return search(
            self.session,
            dataset,
            output_layer_names=output_layer_names,
            output_file=output_file,
            output_file_format=output_file_format,
            do_eval=do_eval,
        )

    def forward_to_hdf(
        self,
        data: Dataset,
        output_file: str,
        combine_labels: str = "",
        batch_size: int = 0,
        output_layer: str | None = None,
    ) -> None:
        """
        :param data: what goes in
        :param output_file: HDF file
        :param combine_labels: is not supported
        :param batch_size: 0: that of the config
        :param output_layer: default: `forward_output_layer` of the config, or the output of the network
        """
        if combine_labels:
            raise ConfigError(f"combine_labels={combine_labels!r} is not supported.\n  A layer has to do it.")
        forward_to_hdf(self.session, data, output_file, output_layer=output_layer, batch_size=batch_size)

    def forward_with_callback(
        self,
        *,
        dataset: Dataset,
        callback: ForwardCallbackIface,
        dataset_init_epoch: bool = True,
        layers: Collection[str] | None = None,
    ) -> None:
        """
        :param dataset: what goes in
        :param callback: gets the outputs of each sequence
        :param dataset_init_epoch: whether an epoch of the data set begins
        :param layers: names of the output layers that are wanted; None: all
        """
        forward_with_callback(
            self.session,
            dataset=dataset,
            callback=callback,
            dataset_init_epoch=dataset_init_epoch,
            batch_size=self.config.options.forward_batch_size,
            layers=layers,
        )

    def analyze(self, data: Dataset, statistics: Sequence[str] | None) -> dict[str, dict[str, Any]]:
        """:return: statistics of the output layers, see `returnn.tf.engine.outputs.statistics.analyze`"""
        return engine_statistics.analyze(self.session, data, statistics)

    def compute_priors(self, dataset: Dataset, config: Config | None = None) -> numpy.ndarray:
        """
        :param dataset: what to take the mean of
        :param config: its option `output_file`
        :return: mean of the output over all frames
        """
        output_file = (config or self.config).options.output_file
        if not output_file:
            raise ConfigError("task 'compute_priors': option 'output_file' is required: where the log prior goes.")
        return engine_statistics.compute_priors(self.session, dataset, output_file)

    def web_server(self, port: int) -> None:
        """
        Answers searches until the process is interrupted, see `returnn.serve.model_service`.

        :param port: of this machine
        """
        self.config.set("web_server_port", port)
        model = import_part("returnn.tf.engine.model", needed_for="the task 'serve'").Model(self.config, engine=self)
        serve_model(model)

    @staticmethod
    def is_requesting_for_gpu() -> bool:
        """:return: whether there is a GPU to be used"""
        return have_gpu()


class Runner(DataPass):
    """The documented form of a pass over a data set: it gets the engine."""

    def __init__(
        self,
        engine: Engine,
        dataset_name: str | None = None,
        dataset: Dataset | None = None,
        batches: BatchSetGenerator | None = None,
        train: bool = False,
        eval: bool = True,
        train_flag: bool | None = None,
        extra_fetches: dict[str, Any] | None = None,
        extra_fetches_callback: Callable[..., None] | None = None,
    ) -> None:
        """For the arguments, see `DataPass`."""
        super().__init__(
            engine.session,
            dataset_name,
            dataset,
            batches,
            train,
            eval,
            train_flag,
            extra_fetches,
            extra_fetches_callback,
        )
        self.engine = engine
