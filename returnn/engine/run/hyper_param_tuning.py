"""
Looks for good values of options: task `hyper_param_tuning`.

In a config, `HyperParam(...)` stands anywhere in place of a value, also inside of `network`, or as a variable that
`get_model` reads: functions of the config see the values of the individual. A population of
individuals, each with a value for every one of them, is trained for a few steps each; the worst ones are replaced by
crossings of the better ones, again and again. Options: `hyper_param_tuning = {"num_tune_iterations": 3, ...}`, see
`Optimization`.

An integer or a float has bounds, maybe on a log scale; other values are classes to choose from.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any

import numpy

from returnn.config import Config, set_global_config
from returnn.config.current import current_config
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.data import load_dataset
from returnn.engine.run.unfinished import Wishes
from returnn.engine.tasks import make_engine
from returnn.log import log
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.python.nested import map_nested
from returnn.util.system.forked import results_of_processes

Eps = 1e-16
_OPTIONS = {
    "num_tune_iterations": 3,
    "num_individuals": 30,
    "num_kill_individuals": None,  # half of them
    "num_best": 10,
    "num_train_steps": 100,
    "num_threads": 1,
    "dry_run_first_individual": False,
}


class TrainException(Exception):
    """A training that failed, so its individual counts as the worst."""


class HyperParam:
    """A value to be found."""

    _next_idx = itertools.count()

    def __init__(
        self,
        dtype: type | None = None,
        bounds: Sequence[float] | None = None,
        classes: Sequence[Any] | None = None,
        log: bool = False,
        default: Any = None,
    ) -> None:
        """
        :param dtype: int, float or bool; default: float
        :param bounds: the lowest and the highest value
        :param classes: possible values, instead of bounds
        :param log: whether the values are spread over the logarithm
        :param default: the value that the first individual has
        :raises ConfigError: if it is not clear what the values can be
        """
        if classes is not None and (bounds is not None or not classes):
            raise ConfigError("HyperParam: give either 'bounds', or a list of 'classes'.")
        if dtype is bool and classes is None:
            classes = [False, True]
        if classes is None and (bounds is None or len(bounds) != 2 or not bounds[0] < bounds[1]):
            raise ConfigError(
                f"HyperParam: 'bounds' are {bounds!r}.\n  They have to be two numbers, the lower one first."
            )
        if log and (bounds is None or bounds[0] < 0):
            raise ConfigError(f"HyperParam: with 'log', 'bounds' cannot be {bounds!r}.")
        self.dtype = dtype or float
        self.bounds = bounds
        self.classes = list(classes) if classes is not None else None
        self.log_space = log
        self.default = default
        self.unique_idx = next(self._next_idx)
        self.usages: list[tuple[Any, ...]] = []  # where it stands in the config: keys and indices

    def __repr__(self) -> str:
        return f"<HyperParam {self.description()}>"

    def description(self) -> str:
        """:return: where it stands, for people"""
        return "/".join(map(str, self.get_canonical_usage())) or f"param_{self.unique_idx}"

    def get_sorted_usages(self) -> list[tuple[Any, ...]]:
        """:return: where it stands, the shortest one first"""
        return sorted(self.usages, key=lambda usage: (len(usage), tuple(map(str, usage))))

    def get_canonical_usage(self) -> tuple[Any, ...]:
        """:return: the first place where it stands"""
        return next(iter(self.get_sorted_usages()), ())

    def get_num_instances(self, upper_limit: int = 100) -> int:
        """:return: how many values are possible, at most `upper_limit`"""
        if self.classes is not None:
            return min(len(self.classes), upper_limit)
        if self.dtype is int:
            return min(int(self.bounds[1]) - int(self.bounds[0]) + 1, upper_limit)
        return upper_limit

    def get_value(self, selected: float, eps: float = Eps) -> Any:
        """
        :param selected: between 0 and 1, where in the possible values
        :param eps: the lower bound on a log scale, if it is 0
        """
        selected = min(max(float(selected), 0.0), 1.0)
        if self.classes is not None:
            return self.classes[min(int(selected * len(self.classes)), len(self.classes) - 1)]
        low, high = self.bounds
        if self.log_space:
            low = max(low, eps)
            value = math.exp(math.log(low) + selected * (math.log(high) - math.log(low)))
        elif self.dtype is int:
            value = low + selected * (high - low + 1)
        else:
            value = low + selected * (high - low)
        value = min(max(value, low), high)
        return int(value) if self.dtype is int else self.dtype(value)

    def get_initial_value(self) -> Any:
        """:return: in the middle"""
        return self.get_value(0.5)

    def get_default_value(self) -> Any:
        """:return: the default, or else the one in the middle"""
        return self.get_initial_value() if self.default is None else self.default

    def get_random_value(self, seed: int, eps: float = Eps) -> Any:
        """:return: any one, which follows from the seed"""
        return self.get_value(numpy.random.RandomState(seed % 2**32).uniform(), eps)

    def get_random_value_by_idx(self, iteration_idx: int, individual_idx: int) -> Any:
        """:return: any one, for this individual of this iteration"""
        return self.get_random_value(hash_obj((self.get_canonical_usage(), iteration_idx, individual_idx)))

    def merge_values(self, value1: Any, value2: Any) -> Any:
        """:return: between two numbers; the smaller one of classes that can be compared, else the first"""
        if self.classes is not None or self.dtype is bool:
            return value1
        if self.log_space and value1 > 0 and value2 > 0:
            return self.dtype(math.exp((math.log(value1) + math.log(value2)) / 2))
        return self.dtype((value1 + value2) / 2)


class Individual:
    """A value for each hyper parameter, and how well it trains."""

    def __init__(self, hyper_param_mapping: Mapping[HyperParam, Any], name: str) -> None:
        """
        :param hyper_param_mapping: the values
        :param name: for people
        """
        self.hyper_param_mapping = dict(hyper_param_mapping)
        self.name = name
        self.cost: float | None = None

    def cross_over(
        self, hyper_params: Sequence[HyperParam], population: Sequence[Individual], random_seed: int
    ) -> Individual:
        """
        :param hyper_params: all of them
        :param population: the others to take values from
        :param random_seed: which values
        :return: child of this one and another one
        """
        rng = numpy.random.RandomState(random_seed % 2**32)
        other = population[rng.randint(len(population))]
        values = {}
        for param in hyper_params:
            own, foreign = self.hyper_param_mapping[param], other.hyper_param_mapping[param]
            merged = param.merge_values(own, foreign)
            values[param] = [own, foreign, merged, param.get_random_value(rng.randint(2**31))][rng.randint(4)]
        return Individual(values, name=f"cross_over({self.name},{other.name})")


class Optimization:
    """The search for the best values."""

    def __init__(self, config: Config, train_data: Dataset) -> None:
        """
        :param config: with `HyperParam`s. Its option `hyper_param_tuning` has `num_tune_iterations`, `num_individuals`,
            `num_kill_individuals` (that are replaced in an iteration), `num_best` (that are shown), `num_train_steps`
            (of each individual), `num_threads` (so many are trained at once, if more than 1 each in a process of its
            own), `dry_run_first_individual` (train the one with the defaults first, to see errors)
        :param train_data: what to train on
        :raises ConfigError: if there is no `HyperParam`, or an option makes no sense
        """
        self.config = config
        self.train_data = train_data
        given = config.options.hyper_param_tuning or {}
        for key in given:
            check_known("key", key, _OPTIONS, where="option 'hyper_param_tuning'")
        self.opts: dict[str, Any] = {**_OPTIONS, **given}
        self.num_threads = int(self.opts["num_threads"])
        self.num_iterations = int(self.opts["num_tune_iterations"])
        self.num_individuals = int(self.opts["num_individuals"])
        self.num_kill_individuals = int(self.opts["num_kill_individuals"] or self.num_individuals // 2)
        self.num_best = int(self.opts["num_best"])
        self.dry_run_first_individual = bool(self.opts["dry_run_first_individual"])
        self.finished = False
        self.hyper_params = _find_hyper_params(config)
        if not self.hyper_params:
            raise ConfigError("task 'hyper_param_tuning': the config has no HyperParam(...).")
        if not 0 < self.num_kill_individuals < self.num_individuals:
            raise ConfigError("option 'hyper_param_tuning': 'num_kill_individuals' has to be below 'num_individuals'.")

    def get_individual(self, iteration_idx: int, individual_idx: int) -> Individual:
        """:return: with random values; the first one of all has the default values"""
        if iteration_idx == individual_idx == 0:
            values = {param: param.get_default_value() for param in self.hyper_params}
            return Individual(values, name="default")
        values = {p: p.get_random_value_by_idx(iteration_idx, individual_idx) for p in self.hyper_params}
        return Individual(values, name=f"{iteration_idx}-{individual_idx}")

    def get_population(self, iteration_idx: int, num_individuals: int) -> list[Individual]:
        """:return: random individuals"""
        return [self.get_individual(iteration_idx, i) for i in range(num_individuals)]

    def cross_over(self, population: Sequence[Individual], iteration_idx: int) -> list[Individual]:
        """:return: a child of each one"""
        return [
            individual.cross_over(self.hyper_params, population, hash_obj((iteration_idx, i, individual.name)))
            for i, individual in enumerate(population)
        ]

    def create_config_instance(self, hyper_param_mapping: Mapping[HyperParam, Any], gpu_ids: Any = None) -> Config:
        """
        :param hyper_param_mapping: values
        :param gpu_ids: not needed: trainings do not share a process
        :return: copy of the config with these values
        """
        ids = {id(param): value for param, value in hyper_param_mapping.items()}

        def replace(value: Any) -> Any:
            return ids[id(value)] if isinstance(value, HyperParam) else value

        config = Config({key: map_nested(replace, value) for key, value in self.config.typed_dict.items()})
        for name, value in config.typed_dict.items():
            if isinstance(value, FunctionType) and value.__globals__ is self.config.typed_dict:
                config.typed_dict[name] = _with_globals(value, config.typed_dict)
        config.dict.update(self.config.dict)
        config.network_topology_json = self.config.network_topology_json
        config.update({"task": "train", "model": None, "learning_rate_file": None, "learning_rate_control": "constant"})
        return config

    def work(self) -> list[Individual]:
        """
        Does the whole search.

        :return: the best individuals, best one first
        """
        if self.dry_run_first_individual:
            self._dry_run()
        population: list[Individual] = []
        for iteration in range(self.num_iterations):
            population += self._new_individuals(population, iteration)
            self._evaluate_all([individual for individual in population if individual.cost is None])
            population.sort(key=_cost)
            print(f"iteration {iteration + 1} of {self.num_iterations}: best {_describe(population[0])}", file=log.v2)
            if iteration + 1 < self.num_iterations:
                population = population[: -self.num_kill_individuals]
        self.finished = True
        best = population[: self.num_best]
        for i, individual in enumerate(best, start=1):
            print(f"{i}. {_describe(individual)}", file=log.v1)
        return best

    def _new_individuals(self, population: Sequence[Individual], iteration: int) -> list[Individual]:
        missing = self.num_individuals - len(population)
        children = self.cross_over(population, iteration)[: missing // 2 + missing % 2] if population else []
        return [*children, *self.get_population(iteration, missing - len(children))]

    def _dry_run(self) -> None:
        """:raises UserError: if the individual with the defaults cannot be trained"""
        first = self.get_individual(0, 0)
        if self.num_threads == 1:
            self._train(first)
        else:
            results_of_processes(partial(self._train, first))

    def _evaluate_all(self, individuals: Sequence[Individual]) -> None:
        if self.num_threads == 1:
            for individual in individuals:
                self._evaluate(individual)
            return

        def cost_of(individual: Individual) -> float | None:
            self._evaluate(individual)
            return individual.cost

        functions = [partial(cost_of, individual) for individual in individuals]
        costs = results_of_processes(*functions, at_once=self.num_threads)
        for individual, cost in zip(individuals, costs, strict=True):
            individual.cost = cost

    def _evaluate(self, individual: Individual) -> None:
        try:
            individual.cost = self._train(individual)
        except UserError as exc:
            print(f"{_describe(individual)}: {str(exc).splitlines()[0]}", file=log.v2)
            individual.cost = math.inf
        print(_describe(individual), file=log.v3)

    def _train(self, individual: Individual) -> float:
        """:return: sum of the mean losses over the steps"""
        train_data = self.train_data
        if self.num_threads > 1:  # in a process of its own, which must not read the same open files
            train_data = load_dataset(self.config, "train") or train_data
        config, before = self.create_config_instance(individual.hyper_param_mapping), current_config()
        set_global_config(config)
        engine = make_engine(config)
        try:
            engine.init_train_from_config(train_data=train_data)
            engine.set_epoch(1)
            engine.init_train_epoch()
            model = engine.training.model
            all_batches = model.batches(train_data)
            batches = BatchSetGenerator(train_data, itertools.islice(_iter(all_batches), self.opts["num_train_steps"]))
            train_pass = model.train_pass(
                train_data, batches, resumed_at=None, wishes=lambda num_steps: Wishes(), on_step=lambda agreed: None
            )
            train_pass.run(f"individual {individual.name}", raise_exception=True)
            losses = [value for key, value in train_pass.scores.means().items() if key.startswith("loss:")]
            return sum(losses) if all(map(math.isfinite, losses)) else math.inf
        finally:
            engine.finalize()
            set_global_config(before)


def tune_hyper_params(config: Config) -> None:
    """Looks for the best values of the `HyperParam`s in the config."""
    train_data = load_dataset(config, "train")
    if train_data is None:
        raise ConfigError("option 'train' is required: the description of the data to train on.")
    Optimization(config, train_data).work()


def hash_str_djb2(s: str) -> int:
    """:return: non-negative hash of the text (D. J. Bernstein), the same in each process"""
    value = 5381
    for char in s:
        value = (value * 33 + ord(char)) % 2**64
    return value


def hash_seq(ls: Sequence[Any]) -> int:
    """:return: hash of all entries and their order, the same in each process"""
    value = 5381
    for entry in ls:
        value = (value * 1000003 ^ hash_obj(entry)) % 2**64
    return value


def hash_int(x: int) -> int:
    """:return: well mixed hash of the number"""
    return int.from_bytes(hashlib.blake2b(str(x).encode("ascii"), digest_size=8).digest(), "little")


def hash_obj(x: Any) -> int:
    """:return: hash of texts, numbers and sequences of them, the same in each process"""
    if isinstance(x, str):
        return hash_str_djb2(x)
    if isinstance(x, (list, tuple)):
        return hash_seq(x)
    if isinstance(x, int):
        return hash_int(x)
    return hash_str_djb2(repr(x))


def _iter(batches: BatchSetGenerator) -> Any:
    while batches.has_more():
        yield batches.peek_next_n(1)[0]
        batches.advance(1)


def _find_hyper_params(config: Config) -> list[HyperParam]:
    """Notes where they stand, too."""
    found: dict[int, HyperParam] = {}

    def visit(value: Any, path: tuple[Any, ...]) -> None:
        if isinstance(value, HyperParam):
            if value.unique_idx not in found:
                value.usages = []
            found[value.unique_idx] = value
            value.usages.append(path)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                visit(item, (*path, key))
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                visit(item, (*path, i))

    for key, value in config.typed_dict.items():
        if key not in ("config", "__builtins__"):
            visit(value, (key,))
    return sorted(found.values(), key=lambda param: tuple(map(str, param.get_canonical_usage())))


def _with_globals(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    """:return: the function of a config, in which global names stand for these values"""
    new = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    new.__kwdefaults__ = function.__kwdefaults__
    return new


def _cost(individual: Individual) -> float:
    return math.inf if individual.cost is None else individual.cost


def _describe(individual: Individual) -> str:
    values = ", ".join(f"{param.description()}={value!r}" for param, value in individual.hyper_param_mapping.items())
    return f"{individual.name}: cost {_cost(individual):.6g}, {values}"
