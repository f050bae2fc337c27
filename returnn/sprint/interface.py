"""
RASR as the main program, which calls us: as the trainer of its network, or for scores of features.

RASR has this module as `pymod-name` (`pymod-path` is the folder of the package), calls `getSegmentList` for the order
of the segments, `init`, one of the `feed...` functions for each segment, and `exit`. The names are those that it calls.
`pymod-config` has `key:value,key:value` with

- `configfile`: our config,
- `action`: "train" or "forward",
- `epoch`: in a training, the last one; otherwise, that of the model.

A training runs in a thread of its own, on a `SprintDatasetBase` with the options `sprint_interface_dataset_opts` of the
config, into which RASR puts the segments. RASR has to go through its corpus once per epoch; `getSegmentList` gives it
the segments of all epochs, one after the other.

As feature scorer (`PythonFeatureScorer`), each segment is one sequence; scores are negative log probabilities of the
output layer, without the prior if `prior_file` of `pymod-config` names a text file with its log.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator
from threading import Thread
from typing import Any

import numpy
import numpy.typing

from returnn.config import Config
from returnn.datasets.sprint.sprint_base import SprintDatasetBase
from returnn.datasets.sprint.sprint_pipe import parse_options
from returnn.datasets.static import StaticDataset
from returnn.log import log
from returnn.util.errors import ConfigError, UserError, check_known

Array = numpy.typing.NDArray[Any]

DefaultSprintCrnnConfig = "config/returnn.config"
TARGET_MODES = ("target-alignment", "target-segment-orth", "unsupervised", "forward-only", "criterion-by-sprint")
_MAIN_MODULE = "returnn.__main__"  # late: RASR waits for the first name

startTime: float | None = None
isInitialized: bool = False
isTrainThreadStarted: bool = False
isExited: bool = False
InputDim: int | None = None
OutputDim: int | None = None
MaxSegmentLength: int = 1
TargetMode: str | None = None
Task: str = "train"
config: Config | None = None
engine: Any = None
Engine: type | None = None
Criterion: type | None = None
sprintDataset: SprintDatasetBase | None = None
customDataset: Any = None
trainThread: Thread | None = None
_pending_epoch: int | None = None  # begins with its first segment
_error: BaseException | None = None  # of the training


# What RASR calls.


def init(name: str | None = None, sprint_unit: str | None = None, **kwargs: Any) -> Any:
    """
    Called by newer versions of RASR.

    :param name: of the unit
    :param sprint_unit: what kind it is: one with "FeatureScorer" in its name gets a `PythonFeatureScorer`
    :param kwargs: for the two functions below
    """
    if "featurescorer" in (sprint_unit or name or "").lower().replace("-", "").replace("_", ""):
        return init_python_feature_scorer(**kwargs)
    return init_python_trainer(**kwargs)


def init_python_feature_scorer(config: str, **kwargs: Any) -> PythonFeatureScorer:
    """
    :param config: see the head of this module
    :param kwargs: for `PythonFeatureScorer`
    """
    return PythonFeatureScorer(sprint_opts=parse_options(config), **kwargs)


def init_python_trainer(inputDim: int, outputDim: int, config: str, targetMode: str, **kwargs: Any) -> None:
    """
    :param inputDim: of the features
    :param outputDim: number of labels, 0: there are none
    :param config: see the head of this module
    :param targetMode: which of the `feed...` functions will be called
    :raises ConfigError: if there is no such mode
    """
    global InputDim, OutputDim, isInitialized
    set_target_mode(targetMode)
    _load_config(parse_options(config))
    InputDim, OutputDim, isInitialized = inputDim, outputDim, True
    if Task == "train":
        assert sprintDataset is not None
        sprintDataset.set_dimensions(inputDim, outputDim)
        _start_training()
    else:
        _init_network()


def getSegmentList(corpusName: str, segmentList: Iterable[str], **kwargs: Any) -> Iterator[str]:
    """
    :param corpusName: of the corpus
    :param segmentList: all segments, in the order of RASR
    :param kwargs: `config`, see the head of this module
    :return: in a training, the segments of all epochs, in our order; otherwise all once
    """
    names = list(segmentList)
    _load_config(parse_options(kwargs.get("config", "")))
    if Task != "train":
        return iter(names)
    return _segments_of_all_epochs(names)


def feedInput(features: Array, weights: Array | None = None, segmentName: str | None = None) -> Array | None:
    """
    A segment with features alone.

    :param features: (dim, frames)
    :param weights: of frames; not supported
    :param segmentName: its name
    :return: outputs, (dim, frames), if this is no training
    """
    return feedInputAndTarget(features=features, weights=weights, segmentName=segmentName)


def feedInputAndTarget(
    features: Array,
    weights: Array | None = None,
    segmentName: str | None = None,
    orthography: str | None = None,
    alignment: Array | None = None,
    speaker_name: str | None = None,
    speaker_gender: str | None = None,
    **_kwargs: Any,
) -> Array | None:
    """
    A segment.

    :param features: (dim, frames)
    :param weights: of frames. They have to be 1
    :param segmentName: its name
    :param orthography: its text
    :param alignment: (frames,), labels
    :param speaker_name: of its speaker
    :param speaker_gender: of its speaker. It is not handed on
    :return: outputs, (dim, frames), if this is no training
    """
    assert isInitialized, "RASR has to call init first"
    if weights is not None and not numpy.allclose(weights, 1):
        raise UserError(f"segment {segmentName!r}: RASR gives weights of frames, which are not supported.")
    if Task != "train":
        return feedInputForwarding(features, segmentName=segmentName)
    targets: dict[str, Any] = {}
    if alignment is not None:
        targets["classes"] = numpy.asarray(alignment, dtype="int32")
    if orthography is not None:
        targets["orth"] = orthography
    if speaker_name is not None:
        targets["speaker_name"] = speaker_name
    _add_to_training(features, targets, segmentName)
    return None


def feedInputAndTargetAlignment(
    features: Array, targetAlignment: Array, weights: Array | None = None, segmentName: str | None = None
) -> Array | None:
    """A segment with its alignment. See `feedInputAndTarget`."""
    return feedInputAndTarget(features=features, weights=weights, segmentName=segmentName, alignment=targetAlignment)


def feedInputAndTargetSegmentOrth(
    features: Array, targetSegmentOrth: str, weights: Array | None = None, segmentName: str | None = None
) -> Array | None:
    """A segment with its text. See `feedInputAndTarget`."""
    return feedInputAndTarget(
        features=features, weights=weights, segmentName=segmentName, orthography=targetSegmentOrth
    )


def feedInputUnsupervised(
    features: Array, weights: Array | None = None, segmentName: str | None = None
) -> Array | None:
    """A segment with features alone. See `feedInput`."""
    return feedInput(features, weights=weights, segmentName=segmentName)


def feedInputForwarding(features: Array, weights: Array | None = None, segmentName: str | None = None) -> Array:
    """
    A segment of which the outputs are wanted.

    :param features: (dim, frames)
    :param weights: of frames; they do not matter here
    :param segmentName: its name
    :return: (dim, frames), of `forward_output_layer`, or the output of the network
    """
    dataset, seq_idx = features_to_dataset(features, segmentName)
    return numpy.asfortranarray(engine.forward_single(dataset, seq_idx).T, dtype="float32")


def finishDiscard() -> None:
    """:raises ConfigError: see `make_criterion_class`"""
    make_criterion_class()


def finishError(error: float, errorSignal: Array, naturalPairingType: str | None = None) -> None:
    """:raises ConfigError: see `make_criterion_class`"""
    make_criterion_class()


def make_criterion_class() -> None:
    """:raises ConfigError: as the network is trained by its own losses"""
    raise ConfigError(
        "RASR as main program: the criterion cannot be computed by RASR.\n"
        "  Train by `rnn.py`, with `loss: 'sprint'` of the output layer, which asks RASR."
    )


def exit() -> None:
    """Called last. Waits for the end of the training, and raises what was wrong with it."""
    global isExited
    if isExited:
        return
    isExited = True
    if sprintDataset is not None and isInitialized:
        sprintDataset.finish_sprint_epoch()
        sprintDataset.finalize_sprint()
    if trainThread is not None:
        trainThread.join()
    if config is not None:
        importlib.import_module(_MAIN_MODULE).finalize(error_occurred=_error is not None)
    if _error is not None:
        raise _error


# What the functions above share.


def set_target_mode(mode: str) -> None:
    """
    :param mode: which of the `feed...` functions will be called
    :raises ConfigError: if there is no such mode, or it is the criterion of RASR
    """
    global TargetMode, Task
    check_known("target mode", mode, TARGET_MODES, where="RASR")
    if mode == "criterion-by-sprint":
        make_criterion_class()
    TargetMode = mode
    if mode == "forward-only":
        Task = "forward"


def get_final_epoch() -> int:
    """:return: the last epoch of the training"""
    assert config is not None
    return int(config.options.num_epochs)


def features_to_dataset(features: Array, segment_name: str | None) -> tuple[StaticDataset, int]:
    """
    :param features: (dim, frames)
    :param segment_name: becomes the tag
    :return: data set with this sequence, and its index in there
    """
    data = {"data": numpy.ascontiguousarray(features.T, dtype="float32"), "seq_tag": segment_name or "segment"}
    dataset = StaticDataset([data], input_dim=features.shape[0])
    dataset.init_seq_order(epoch=1)
    return dataset, 0


def dump_flags() -> None:
    """Writes into the log where we are."""
    for name in ("isInitialized", "isTrainThreadStarted", "isExited", "Task", "TargetMode", "InputDim", "OutputDim"):
        print(f"{name}: {globals()[name]}", file=log.v1)


def _load_config(sprint_opts: dict[str, str]) -> None:
    """Once."""
    global config, engine, Engine, Task, sprintDataset, startTime
    if config is not None:
        return
    startTime = time.time()
    action = sprint_opts.get("action", Task)
    check_known("action", action, ("train", "forward"), where="RASR: pymod-config")
    Task = action
    updates: dict[str, Any] = {"task": Task}
    if "epoch" in sprint_opts:
        updates["num_epochs" if Task == "train" else "load_epoch"] = int(sprint_opts["epoch"])
    main = importlib.import_module(_MAIN_MODULE)
    main.init(sprint_opts.get("configfile", DefaultSprintCrnnConfig), config_updates=updates)
    main.init_engine()
    config, engine, Engine = main.config, main.engine, type(main.engine)
    if Task == "train":
        sprintDataset = SprintDatasetBase(**config.options.sprint_interface_dataset_opts)
        sprintDataset.use_multiple_epochs()


def _init_network() -> None:
    engine.init_network_from_config(config)


def _start_training() -> None:
    global trainThread, isTrainThreadStarted
    trainThread = Thread(target=_train, name="training")
    isTrainThreadStarted = True
    trainThread.start()


def _train() -> None:
    global _error
    assert sprintDataset is not None
    try:
        engine.init_train_from_config(config, train_data=sprintDataset)
        engine.train()
    except BaseException as exc:  # noqa: BLE001 - it is raised by `exit`, in the thread of RASR
        _error = exc
    finally:
        sprintDataset.finalize_sprint()


def _segments_of_all_epochs(names: list[str]) -> Iterator[str]:
    global _pending_epoch
    assert sprintDataset is not None
    for epoch in range(engine.get_train_start_epoch(config), get_final_epoch() + 1):
        order = sprintDataset.get_seq_order_for_epoch(epoch, len(names))
        _pending_epoch = epoch
        for i, seq_idx in enumerate(order):
            if _error is not None:
                return
            yield names[seq_idx]
            sprintDataset.set_complete_frac((i + 1) / len(order))
        sprintDataset.finish_sprint_epoch()


def _add_to_training(features: Array, targets: dict[str, Any], name: str | None) -> None:
    """Into the epoch that RASR is in. It waits until the training wants that."""
    global _pending_epoch, MaxSegmentLength
    assert sprintDataset is not None
    MaxSegmentLength = max(MaxSegmentLength, features.shape[1])
    if _pending_epoch is not None or not sprintDataset.ready_for_data:
        sprintDataset.init_sprint_epoch(_pending_epoch if _pending_epoch is not None else 1)
        _pending_epoch = None
    if _error is not None:
        exit()
    sprintDataset.add_new_data(numpy.asarray(features), targets, segment_name=name)


class PythonFeatureScorer:
    """Scores of all labels for each frame. RASR adds the features of a segment, and asks for the scores then."""

    def __init__(
        self,
        callback: Callable[..., Any] | None,
        version_number: int | None,
        sprint_opts: dict[str, str],
        **kwargs: Any,
    ):
        """
        :param callback: of RASR: `callback("get_segment_name")`, if it has that
        :param version_number: of the interface of RASR
        :param sprint_opts: see the head of this module
        """
        self.callback = callback
        self.sprint_opts = {"action": "forward", **sprint_opts}
        self.input_dim: int | None = None
        self.output_dim: int | None = None
        self.priors: Array | None = None
        self.segment_count = 0
        self.features: list[Array] = []
        self.scores: Array | None = None

    @property
    def config(self) -> Config | None:
        """Our config."""
        return config

    @property
    def engine(self) -> Any:
        """The engine, with the network."""
        return engine

    def init(self, input_dim: int, output_dim: int) -> None:
        """
        :param input_dim: of the features
        :param output_dim: number of labels
        :raises UserError: if the prior has not as many
        """
        self.input_dim, self.output_dim = input_dim, output_dim
        _load_config(self.sprint_opts)
        _init_network()
        if "prior_file" in self.sprint_opts:
            self.priors = numpy.loadtxt(self.sprint_opts["prior_file"], dtype="float32")
            if self.priors.shape != (output_dim,):
                got = self.priors.shape
                raise UserError(f"{self.sprint_opts['prior_file']!r} has {got} values, RASR has {output_dim} labels.")

    def exit(self) -> None:
        """Called last."""
        exit()

    def get_feature_buffer_size(self) -> int:
        """:return: -1: all features of a segment are wanted before the first score"""
        return -1

    def get_segment_name(self) -> str:
        """:return: name of the segment, a number if RASR does not tell"""
        if self.callback is not None:
            return str(self.callback("get_segment_name"))
        return f"segment-{self.segment_count}"

    def reset(self, num_frames: int) -> None:
        """
        A segment is over.

        :param num_frames: how many of its features are forgotten
        """
        del self.features[:num_frames]
        self.scores = None
        self.segment_count += 1

    def add_feature(self, feature: Array, time: int) -> None:
        """
        :param feature: (dim,)
        :param time: number of the frame, from 0 on
        """
        if time != len(self.features):
            raise UserError(f"{self.get_segment_name()}: RASR gives frame {time}, {len(self.features)} should be next.")
        self.features.append(numpy.array(feature, dtype="float32"))

    def get_features(self, num_frames: int | None = None) -> Array:
        """
        :param num_frames: the first ones. None: all
        :return: (dim, frames)
        """
        return numpy.stack(self.features[:num_frames], axis=1)

    def features_to_dataset(self, num_frames: int | None = None) -> tuple[StaticDataset, int]:
        """See the function of this name."""
        return features_to_dataset(self.get_features(num_frames), self.get_segment_name())

    def get_posteriors(self, num_frames: int | None = None) -> Array:
        """:return: (labels, frames), probabilities"""
        dataset, seq_idx = self.features_to_dataset(num_frames)
        posteriors = engine.forward_single(dataset, seq_idx).T
        expected = (self.output_dim, len(self.features[:num_frames]))
        if posteriors.shape != expected:
            raise UserError(f"RASR wants {expected} labels and frames, the network has {posteriors.shape} outputs.")
        return posteriors

    def compute(self, num_frames: int) -> None:
        """
        Scores of the first frames.

        :param num_frames: how many
        """
        scores = -numpy.log(self.get_posteriors(num_frames))
        if self.priors is not None:
            scores += self.priors[:, None]
        self.scores = numpy.asfortranarray(scores, dtype="float32")

    def get_scores(self, time: int) -> Array:
        """
        :param time: number of the frame
        :return: (labels,), negative log probabilities
        """
        assert self.scores is not None, "RASR has to call compute first"
        return self.scores[:, time]
