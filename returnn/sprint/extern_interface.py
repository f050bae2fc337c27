"""
Runs inside of RASR, started by `ExternSprintDataset`: sends the sequences of RASR through a pipe.

RASR calls these functions as its Python trainer, or `PythonControl` where it has that, and `getSegmentList` to know
the order of the segments. The names are those that RASR calls.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy
import numpy.typing

from returnn.datasets.core.seq_order import part_of
from returnn.datasets.sprint.sprint_pipe import GO, Data, End, Init, parse_options, send
from returnn.util.files.text_file import iter_lines

Array = numpy.typing.NDArray[Any]

isInitialized: bool = False
InputDim: int | None = None
OutputDim: int | None = None
segmentOrderList: list[str] | None = None
sprintDataset: ExternSprintDatasetSource | None = None


class ExternSprintDatasetSource:
    """The end of the pipe that is in RASR."""

    def __init__(self, c2p_fd: int, p2c_fd: int, input_dim: int, output_dim: int, num_segments: int | None):
        """
        :param c2p_fd: file descriptor to write to
        :param p2c_fd: file descriptor to read from
        :param input_dim: of the features
        :param output_dim: number of labels, 0: there are none
        :param num_segments: None: not known
        """
        self.pipe_c2p = os.fdopen(c2p_fd, "wb")
        self.pipe_p2c = os.fdopen(p2c_fd, "rb")
        self._is_wanted = False
        send(Init(input_dim, output_dim, num_segments), self.pipe_c2p)

    def add_new_data(self, segment_name: str, features: Array, targets: Mapping[str, Any]) -> None:
        """
        :param segment_name: becomes the tag
        :param features: (dim, frames)
        :param targets: by key
        """
        self._wait_until_wanted()
        send(Data(segment_name, features, targets), self.pipe_c2p)

    def close(self) -> None:
        """There are no more sequences."""
        self._wait_until_wanted()
        send(End(), self.pipe_c2p)
        self.pipe_c2p.close()
        self.pipe_p2c.close()

    def _wait_until_wanted(self) -> None:
        if not self._is_wanted and self.pipe_p2c.read(len(GO)) != GO:
            os._exit(0)  # nobody will read: no reason to compute anything
        self._is_wanted = True


class PythonControl:
    """As newer versions of RASR call it."""

    instance: ClassVar[PythonControl | None] = None

    @classmethod
    def init(cls, **kwargs: Any) -> PythonControl:
        """Called first. `config` has the options of `ExternSprintDataset`."""
        cls.instance = cls(**kwargs)
        return cls.instance

    def __init__(self, config: str, **_kwargs: Any):
        """:param config: options of `ExternSprintDataset`"""
        self.config = config

    def init_processing(self, input_dim: int, output_dim: int, **_kwargs: Any) -> None:
        """Called when the dims are known."""
        init(inputDim=input_dim, outputDim=output_dim, config=self.config)

    def process_segment(
        self,
        name: str,
        orthography: str | None,
        features: Array,
        alignment: Array | None,
        soft_alignment: tuple[Array, Array, Array] | None,
        speaker_name: str | None = None,
        **_kwargs: Any,
    ) -> None:
        """
        Called for each segment.

        :param name: of the segment
        :param orthography: its text
        :param features: (dim, frames)
        :param alignment: (frames,), labels
        :param soft_alignment: frames, labels and weights, (items,) each. The label with the largest weight counts
        :param speaker_name: of its speaker
        """
        if alignment is None and soft_alignment is not None:
            alignment = _heaviest_labels(*soft_alignment, num_frames=features.shape[1])
        feedInputAndTarget(
            features=features,
            segmentName=name,
            orthography=orthography,
            alignment=alignment,
            speaker_name=speaker_name,
        )

    def exit(self, **kwargs: Any) -> None:
        """Called last."""
        exit()


def getSegmentList(corpusName: str, segmentList: Iterable[str], config: str = "", **_kwargs: Any) -> list[str]:
    """
    Called before anything else.

    :param corpusName: of the corpus
    :param segmentList: all segments, in the order of RASR
    :param config: options of `ExternSprintDataset`
    :return: the segments of this epoch, in their order
    """
    global segmentOrderList
    opts = parse_options(config)
    if "segment_list" in opts:
        segmentOrderList = [line for line in iter_lines(opts["segment_list"]) if line]
    else:
        segments: Sequence[Any] = range(len(names := list(segmentList)))
        part = part_of(segments, num_parts=int(opts.get("num_parts", 1)), part=int(opts.get("part", 0)))
        segmentOrderList = [names[i] for i in part]
    return segmentOrderList


def init(inputDim: int, outputDim: int, config: str, **_kwargs: Any) -> None:
    """
    Called when the dims are known.

    :param inputDim: of the features
    :param outputDim: number of labels, 0: there are none
    :param config: options of `ExternSprintDataset`
    """
    global isInitialized, InputDim, OutputDim, sprintDataset
    opts = parse_options(config)
    num_segments = len(segmentOrderList) if segmentOrderList is not None else None
    sprintDataset = ExternSprintDatasetSource(
        int(opts["c2p_fd"]), int(opts["p2c_fd"]), inputDim, outputDim, num_segments
    )
    InputDim, OutputDim, isInitialized = inputDim, outputDim, True


def exit() -> None:
    """Called last."""
    global isInitialized
    if sprintDataset is not None and isInitialized:
        isInitialized = False
        sprintDataset.close()


def feedInput(features: Array, weights: Array | None = None, segmentName: str | None = None) -> None:
    """A segment with features alone, (dim, frames)."""
    feedInputAndTarget(features=features, weights=weights, segmentName=segmentName)


def feedInputAndTarget(
    features: Array,
    weights: Array | None = None,
    segmentName: str | None = None,
    orthography: str | None = None,
    alignment: Array | None = None,
    speaker_name: str | None = None,
    speaker_gender: str | None = None,
    **_kwargs: Any,
) -> None:
    """
    A segment.

    :param features: (dim, frames)
    :param weights: of the frames. They are not handed on
    :param segmentName: its name
    :param orthography: its text
    :param alignment: (frames,), labels
    :param speaker_name: of its speaker
    :param speaker_gender: of its speaker. It is not handed on
    """
    targets: dict[str, Any] = {}
    if alignment is not None:
        targets["classes"] = numpy.asarray(alignment, dtype="int32")
    if orthography is not None:
        targets["orth"] = orthography
    if speaker_name is not None:
        targets["speaker_name"] = speaker_name
    assert sprintDataset is not None, "RASR has to call init first"
    sprintDataset.add_new_data(segmentName or "", numpy.asarray(features), targets)


def feedInputAndTargetAlignment(
    features: Array, targetAlignment: Array, weights: Array | None = None, segmentName: str | None = None
) -> None:
    """A segment with its alignment."""
    feedInputAndTarget(features=features, weights=weights, segmentName=segmentName, alignment=targetAlignment)


def feedInputAndTargetSegmentOrth(
    features: Array, targetSegmentOrth: str, weights: Array | None = None, segmentName: str | None = None
) -> None:
    """A segment with its text."""
    feedInputAndTarget(features=features, weights=weights, segmentName=segmentName, orthography=targetSegmentOrth)


def feedInputUnsupervised(features: Array, weights: Array | None = None, segmentName: str | None = None) -> None:
    """A segment with features alone, (dim, frames)."""
    feedInputAndTarget(features=features, weights=weights, segmentName=segmentName)


def _heaviest_labels(times: Array, labels: Array, weights: Array, *, num_frames: int) -> Array:
    result = numpy.zeros(num_frames, dtype="int32")
    by_weight = numpy.argsort(weights, kind="stable")
    result[numpy.asarray(times)[by_weight]] = numpy.asarray(labels)[by_weight]
    return result
