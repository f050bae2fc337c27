"""
What `task` in a config can be.

Each task is a function that gets the config, named by its module, which is imported when the task starts. So
`rnn.py --help` needs no TensorFlow, and each floor adds its tasks here by a line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from returnn.config import Config
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import ConfigError, check_known, nearest_hint
from returnn.util.python.optional_import import import_part

_CONFIG_PREFIX = "config:"
_OPTIONAL_PREFIX = "optional-config:"
_TASKS = "returnn.engine.tasks"
_ENGINE_TASKS = "returnn.tf.engine.tasks"
_ATTENTION_PLOT = "returnn.tf.engine.outputs.attention_plot"
_INSPECTION_TASKS = "returnn.tf.inspection.tasks"
_TUNING = "returnn.engine.run.hyper_param_tuning:tune_hyper_params"
_SERVE = "returnn.serve.task:serve"
_MODEL_TASKS = "returnn.engine.frontend.tasks"

_ENGINES_OF_MODELS = (BackendEngine.Torch, BackendEngine.TensorFlow)


@dataclass(frozen=True)
class Task:
    """One kind of work."""

    name: str
    purpose: str
    function: str  # "package.module:name", is called with the config
    for_models: str | None = None  # the same, for models in Python

    def run(self, config: Config) -> None:
        """
        Does it.

        :raises ConfigError: if the backend cannot do it
        """
        function = self.function
        if function.startswith("returnn.tf.") and BackendEngine.get_selected_engine() in _ENGINES_OF_MODELS:
            if self.for_models is None:
                raise ConfigError(f"task {self.name!r} is for backend = 'tensorflow-net-dict', a network of layers.")
            function = self.for_models
        module_name, _, name = function.partition(":")
        getattr(import_part(module_name, needed_for=f"the task {self.name!r}"), name)(config)


TASKS = {
    task.name: task
    for task in [
        Task("train", "trains, with evaluation per epoch; resumes where it stopped; the default", f"{_TASKS}:train"),
        Task("eval", "scores dev/eval data with one checkpoint; says perplexity and errors", f"{_TASKS}:evaluate"),
        Task(
            "search",
            "decodes with beam search; can write the hypotheses",
            f"{_ENGINE_TASKS}:search_task",
            f"{_MODEL_TASKS}:search",
        ),
        Task(
            "forward", "runs the network over data; writes HDF", f"{_ENGINE_TASKS}:forward", f"{_MODEL_TASKS}:forward"
        ),
        Task("initialize_model", "creates an untrained checkpoint", f"{_TASKS}:initialize_model"),
        Task(
            "check",
            "finds errors and shows the network as a table; needs no graph",
            f"{_INSPECTION_TASKS}:check",
            f"{_MODEL_TASKS}:check",
        ),
        Task(
            "explain",
            "says how loops are compiled; draws the network",
            f"{_INSPECTION_TASKS}:explain",
            f"{_MODEL_TASKS}:explain",
        ),
        Task(
            "plot_attention",
            "draws attention weights as pictures",
            f"{_ATTENTION_PLOT}:plot_attention",
            "returnn.engine.frontend.attention_plot:plot_attention",
        ),
        Task("nop", "does nothing after the setup", "returnn.tasks:nop"),
        Task("nop_init_net_train", "sets up the network for training, then stops", f"{_TASKS}:init_training"),
        Task("hpx", "the same as forward", f"{_ENGINE_TASKS}:forward", f"{_MODEL_TASKS}:forward"),
        Task(
            "compute_priors",
            "averages the output over `analyze_dataset`, the training data; writes the log of it to `output_file`",
            f"{_ENGINE_TASKS}:compute_priors",
            f"{_MODEL_TASKS}:compute_priors",
        ),
        Task(
            "analyze",
            "collects statistics of the outputs on data",
            f"{_ENGINE_TASKS}:analyze",
            f"{_MODEL_TASKS}:analyze",
        ),
        Task(
            "analyze_data",
            "collects mean and standard deviation of data",
            "returnn.engine.output_statistics:analyze_data",
        ),
        Task("cleanup_old_models", "deletes superfluous models, after asking", f"{_TASKS}:cleanup_old_models"),
        Task(
            "hyper_param_tuning",
            "looks for good values of options",
            "returnn.engine.run.hyper_param_tuning:tune_hyper_params",
        ),
        Task("serve", "answers over HTTP what the model makes of inputs, with a page to try it", _SERVE),
        Task("server", "the same as serve", _SERVE),
        Task("search_server", "the same as serve", _SERVE),
        Task("debug_shell", "opens an interactive shell", "returnn.util.system.debug_shell:debug_shell_task"),
    ]
}


def nop(config: Config) -> None:
    """Does nothing."""


def find_task(name: str, config: Config) -> Callable[[], None]:
    """
    :param name: of a task, or `config:NAME` for a function of the config, or `optional-config:NAME`, which does
        nothing if there is no such function
    :param config: the task gets it
    :return: does the task
    :raises ConfigError: if there is none of that name
    """
    if name.startswith((_CONFIG_PREFIX, _OPTIONAL_PREFIX)):
        return _function_of_config(name, config)
    check_known("task", name, TASKS, where="option 'task'")
    return lambda: TASKS[name].run(config)


def _function_of_config(name: str, config: Config) -> Callable[[], None]:
    kind, _, func_name = name.partition(":")
    func = config.typed_value(func_name, None)
    if callable(func):
        return func  # type: ignore[no-any-return]
    if func is None and kind + ":" == _OPTIONAL_PREFIX:
        return lambda: None
    functions = [key for key in config.option_names() if callable(config.typed_dict.get(key))]
    raise ConfigError(
        f"option 'task': the config has no function {func_name!r}.\n  {nearest_hint(func_name, functions)}"
    )
