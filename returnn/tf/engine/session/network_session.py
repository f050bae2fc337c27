"""`NetworkSession`: the network of the current epoch, in a session that has its parameters."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable

import tensorflow as tf

from returnn.config import Config
from returnn.config.preloaded_file import PreloadedFile, preloaded_files
from returnn.datasets.core.dataset import Dataset
from returnn.engine.epochs import Epochs
from returnn.engine.net_options import OptionsOfNet
from returnn.engine.report.pace import Paces
from returnn.engine.run.model_files import ModelToLoad
from returnn.engine.run.unfinished import UnfinishedEpoch
from returnn.engine.training_position import PositionError
from returnn.log import log
from returnn.tf.checkpoint import CheckpointWriter
from returnn.tf.checkpoint.unfinished import Snapshot, read_unfinished_values
from returnn.tf.distributed.shared_parameters import SharedParameters
from returnn.tf.distributed.workers import Workers
from returnn.tf.engine.passes.step_trace import StepTracer
from returnn.tf.engine.passes.tensorboard import NetworkSummaries
from returnn.tf.engine.session.built_network import BuiltNetwork, NetDict, build_network
from returnn.tf.engine.session.carry_over import CopyRules, restore_state, take_state
from returnn.tf.engine.session.device import session_options
from returnn.tf.engine.session.model_values import ModelValues
from returnn.tf.network import TFNetwork
from returnn.tf.updater import Updater
from returnn.tf.util.parameters.assign import assign_values
from returnn.util.errors import ConfigError
from returnn.util.numbers.global_random import seed_global_random
from returnn.util.texts.counted import counted

tf1 = tf.compat.v1

_CLOSE_LIMIT_S = 2.0


class NetworkSession:
    """Builds networks one after the other, each with a session. What runs steps gets this."""

    def __init__(
        self,
        config: Config,
        epochs: Epochs,
        *,
        on_new_network: Callable[[], None],
        workers: Workers | None = None,
    ) -> None:
        """
        :param config: options
        :param epochs: know the current one
        :param on_new_network: called when a new network has its values
        :param workers: if this process is one of several that train the model
        """
        self.config = config
        self.workers = workers
        self.epochs = epochs
        self.search_flag = False  # whether choices search, in networks that are built from now on
        self.eval_flag = True  # whether losses are computed
        self.options_of_net = OptionsOfNet(config)
        self.preload_from_files: list[PreloadedFile] = preloaded_files(config.options.preload_from_files)
        self.summaries = NetworkSummaries(config)
        self.paces = Paces()
        self.step_tracer = StepTracer(config, self.summaries.folder)
        self.built: BuiltNetwork = None  # type: ignore[assignment]  # by build
        self.values: ModelValues = None  # type: ignore[assignment]  # by build
        self.tf_session: tf.compat.v1.Session = None  # type: ignore[assignment]
        self._on_new_network = on_new_network
        self._writer: CheckpointWriter | None = None
        self.shared: SharedParameters | None = None  # with the other workers

    @property
    def epoch(self) -> int:
        """The current one; 0 if it is not known which one the parameters are of."""
        return self.epochs.current

    @property
    def network(self) -> TFNetwork:
        """The network that was built last."""
        return self.built.network

    @property
    def updater(self) -> Updater | None:
        """What trains it; None if it is not trained."""
        return self.built.updater

    # Networks.

    def build(self, net_dict: NetDict, model: ModelToLoad, *, is_training: bool) -> None:
        """
        Makes a network and a session with it, and closes those before.

        :param net_dict: options of each layer, by name
        :param model: its parameters; without one, they get initial values
        :param is_training: whether parameters will be updated
        """
        self._close_graph()
        session_options(self.config)  # an error of it comes first
        self.options_of_net.apply(net_dict)
        self.built = build_network(
            self.config,
            net_dict,
            epoch=self.epoch,
            is_training=is_training,
            eval_flag=self.eval_flag,
            search_flag=self.search_flag,
        )
        for layer in self.network.get_all_layers_deep():
            if layer.warning:
                log.print_warning(layer.warning)
        num_layers = sum(name.partition(":")[0] != "data" for name in self.network.layers)  # as `check` counts
        print(
            f"network: {counted(num_layers, 'layer')}, {counted(self.network.get_num_params(), 'parameter', ',')}",
            file=log.v2,
        )
        self._init_values(model)

    def change(self, net_dict: NetDict, rules: Callable[[TFNetwork], CopyRules]) -> None:
        """
        Changes to another network. It takes over parameters and the state of the optimizer, see `carry_over`.

        :param net_dict: options of each layer, by name
        :param rules: from the new network to what is taken over
        """
        state = take_state(self.network, self.updater, self.tf_session)
        self.build(net_dict, ModelToLoad(epoch=self.epoch), is_training=self.updater is not None)
        preloaded = {ref: self.tf_session.run(ref.deref()) for ref in self.values.preloaded}
        restore_state(state, self.network, self.updater, self.tf_session, rules(self.network))
        assign_values(self.tf_session, preloaded)

    def _init_values(self, model: ModelToLoad) -> None:
        if self.updater is not None:
            self.updater.get_optim_op()
        self.values = ModelValues(self.config, self.built)
        self.values.preload(self.preload_from_files, model)
        self.make_tf_session()
        self.values.initialize(self.tf_session, model)
        if model.filename is not None:
            goes_on = self.updater is not None and model.epoch is not None
            self.values.load(self.tf_session, model.filename, goes_on=goes_on)
        if self.workers is not None:
            self.shared = self._shared_parameters(self.workers)
            self.shared.begin(self.built.all_variables())
        self._on_new_network()

    def _shared_parameters(self, workers: Workers) -> SharedParameters:
        network = self.network
        return SharedParameters(
            workers, self.tf_session, trained=network.get_trainable_params, saved=network.get_saveable_params_list
        )

    def make_tf_session(self) -> None:
        """Makes the session, with `tf_session_opts`. `wrap_tf_session` is a function that gets and returns one."""
        own = session_options(self.config) if self.workers is None else self.workers.session_options()
        options = {**own, **(self.config.options.tf_session_opts or {})}
        try:
            proto = tf1.ConfigProto(**options)
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"option 'tf_session_opts': {exc}") from exc
        self.tf_session = tf1.Session("" if self.workers is None else self.workers.session_target, config=proto)
        wrap = self.config.options.wrap_tf_session
        if wrap is not None:
            self.tf_session = wrap(self.tf_session)

    def close(self) -> None:
        """Ends everything that has to be ended."""
        self.summaries.close()
        self._close_graph()

    def _close_graph(self) -> None:
        if self.built is not None:
            self.network.call_graph_reset_callbacks()
        if self.tf_session is not None:
            # It waits for steps that run, such as one that reads from a data set which never returns.
            thread = threading.Thread(target=self.tf_session.close, name="close session", daemon=True)
            thread.start()
            thread.join(_CLOSE_LIMIT_S)
            self.tf_session = None  # type: ignore[assignment]
        self._writer = None

    # Values.

    def initialize_updater_vars(self) -> None:
        """Initial values of what a new update needs."""
        if self.updater is not None:
            self.updater.init_optimizer_vars(self.tf_session)

    def check_uninitialized_vars(self) -> None:
        """:raises ConfigError: if a variable has no value, because some code of a config made it too late"""
        names = self.tf_session.run(tf1.report_uninitialized_variables(tf1.global_variables()))
        if len(names):
            text = ", ".join(name.decode("utf8") for name in names[:5])
            raise ConfigError(f"no value for {counted(len(names), 'variable')}: {text}.\n  Make them with the network.")

    def begin_data(self, name: str, dataset: Dataset) -> None:
        """
        Begins the current epoch of a data set. What code of the config draws from global random states from now on
        follows from the epoch, whether or not the training was resumed.

        :param name: such as "train"
        :param dataset: the data set
        """
        seed_global_random([self.config.options.random_seed, zlib.crc32(name.encode("utf8")), self.epoch])
        dataset.init_seq_order(self.epoch)

    def train_step(self) -> int:
        """:return: number of training steps so far"""
        return self.network.get_global_train_step(self.tf_session)

    def save(self, filename: str, *, may_be_broken: bool = False) -> None:
        """
        :param filename: of the checkpoint, without suffix
        :param may_be_broken: whether it may have values that are not finite
        :raises CheckpointError: if it cannot be written
        """
        if self._writer is None:
            self._writer = CheckpointWriter({var.op.name: var for var in self.built.variables_of_model()})
        self._writer.save(self.tf_session, filename, may_be_broken=may_be_broken)

    def load(self, filename: str) -> None:
        """
        :param filename: of a checkpoint
        :raises CheckpointError: if it does not fit. With `load_ignore_missing_vars`, parameters may be missing
        """
        self.values.load(self.tf_session, filename, goes_on=self.updater is not None)

    # Values of all variables, also of those that no model file has.

    def snapshot(self) -> Snapshot:
        """:return: what the variables are now; steps that come after this do not change it"""
        variables = self.built.all_variables()
        with tf.device("/cpu:0"):
            reads = self.built.made_once(
                ("reads", len(variables)), lambda: {name: var.read_value() for name, var in variables.items()}
            )
        trained = frozenset(name for name, var in variables.items() if var.trainable)
        return Snapshot(self.tf_session.run(reads), trained)

    def go_on_from(self, unfinished: UnfinishedEpoch) -> None:
        """
        :param unfinished: of the current network
        :raises PositionError: if it has other variables
        """
        print(f"load {unfinished.checkpoint!r}", file=log.v2)
        variables, values = self.built.all_variables(), read_unfinished_values(unfinished.checkpoint, unfinished.part)
        other = sorted(set(values) ^ set(variables)) or [
            name for name, var in variables.items() if not var.shape.is_compatible_with(values[name].shape)
        ]
        if other:
            raise PositionError(
                f"The network is another one by now: {other[0]!r} is in one of them alone, or has another shape."
            )
        placeholders, assign = self.built.made_once(("assign", len(variables)), lambda: _assignment(variables))
        self.tf_session.run(assign, {placeholders[name]: values[name] for name in variables})


def _assignment(variables: dict[str, tf.Variable]) -> tuple[dict[str, tf.Tensor], tf.Operation]:
    """:return: placeholders of values, by name, and what assigns them. Shapes can change with the steps"""
    placeholders = {name: tf1.placeholder(var.dtype.base_dtype) for name, var in variables.items()}
    assign = [var.assign(placeholders[name], read_value=False) for name, var in variables.items()]
    return placeholders, tf.group(*assign)
