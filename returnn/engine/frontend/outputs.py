"""Outputs of a step, taken apart into sequences: for callbacks of the config, HDF files, and files of hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.hdf.hdf_writer import SimpleHDFWriter
from returnn.engine.frontend.references import References
from returnn.engine.hypothesis_files import Hypotheses
from returnn.forward_iface import ForwardCallbackIface
from returnn.frontend.search.result import NEVER
from returnn.log import log
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.system.warn_once import warn_once
from returnn.util.texts.counted import counted


@dataclass(frozen=True)
class OutputArray:
    """The values of an output of one batch."""

    template: Tensor  # the batch dim comes first
    value: numpy.ndarray
    lengths: dict[int, tuple[tuple[Dim, ...], numpy.ndarray]]  # of dynamic axes: dims of the lengths, and the lengths

    def of_seq(self, b: int) -> Tensor:
        """
        :param b: number of the sequence in the batch
        :return: without batch dim and padding; where lengths still depend on another dim, such as a beam, up to the
            longest one. What has another size in each sequence is no feature dim
        """
        made: dict[Dim, Dim] = {}
        sizes: list[int] = []
        for axis, dim in enumerate(self.template.dims[1:], start=1):
            if axis not in self.lengths:
                sizes.append(self.value.shape[axis])
                made[dim] = dim
                continue
            lengths = _of_seq(*self.lengths[axis], b)
            sizes.append(int(lengths.max(initial=0)))
            made[dim] = Dim(None if lengths.ndim else sizes[-1], name=dim.name, kind=dim.kind)
        for axis, dim in enumerate(self.template.dims[1:], start=1):
            if axis in self.lengths and made[dim].size is None:
                dims, all_lengths = self.lengths[axis]
                rest = [made.get(d, d) for d in dims if d != batch_dim]
                made[dim].dyn_size_ext = Tensor(
                    f"{dim.name}:lengths", dims=rest, dtype="int32", raw_tensor=_of_seq(dims, all_lengths, b)
                )
        return Tensor(
            self.template.name,
            dims=[made[dim] for dim in self.template.dims[1:]],
            dtype=self.template.dtype,
            sparse_dim=self.template.sparse_dim,
            feature_dim=None if self.template.feature_dim_axis in self.lengths else self.template.feature_dim,
            raw_tensor=numpy.asarray(self.value[b][tuple(slice(0, size) for size in sizes)]),
        )


def _of_seq(dims: tuple[Dim, ...], lengths: numpy.ndarray, b: int) -> numpy.ndarray:
    if batch_dim not in dims:
        return numpy.asarray(lengths, dtype="int32")
    return numpy.asarray(numpy.take(lengths, b, axis=dims.index(batch_dim)), dtype="int32")


def output_tensors(outputs: TensorDict) -> dict[str, Tensor]:
    """
    :param outputs: of a step
    :return: what has to be computed for them: each output with the batch dim first as `NAME`, and the lengths of its
        axes as `NAME:size1` and so on
    :raises ConfigError: if an output has no batch dim, or a dim without lengths
    """
    tensors = {}
    for name, output in outputs.data.items():
        if batch_dim not in output.dims:
            raise ConfigError(
                f"option 'forward_step': the output {name!r} is {output}.\n"
                "  It has no batch dim, so it is not known for each sequence."
            )
        rest = [dim for dim in output.dims if dim != batch_dim]
        tensors[name] = output.copy_transpose([batch_dim, *rest])
        for axis, dim in enumerate(rest, start=1):
            if dim.size is None:
                tensors[f"{name}:size{axis}"] = lengths = dim.get_size_tensor()
                if lengths.raw_tensor is None and output.raw_tensor is not None:
                    raise ConfigError(
                        f"option 'forward_step': the output {name!r} is {output}, and the lengths of {dim.name!r} are "
                        f"not known.\n  Give them: rf.get_run_ctx().expected_outputs[{name!r}].dims[{axis}]"
                        ".dyn_size_ext.raw_tensor = lengths, [B], int32."
                    )
    return tensors


def output_arrays(tensors: Mapping[str, Tensor], values: Mapping[str, numpy.ndarray]) -> dict[str, OutputArray]:
    """
    :param tensors: see `output_tensors`
    :param values: their values
    :return: by name of the output
    """
    arrays = {}
    for name, tensor in tensors.items():
        if ":size" in name:
            continue
        lengths = {
            axis: (tensors[key].dims, numpy.asarray(values[key]))
            for axis in range(1, len(tensor.dims))
            if (key := f"{name}:size{axis}") in tensors
        }
        for axis, (_, sizes) in lengths.items():
            longest = int(sizes.max(initial=0))
            if longest > (frames := numpy.shape(values[name])[axis]):
                raise ConfigError(
                    f"option 'forward_step': the output {name!r} has {counted(frames, 'frame')} in memory along "
                    f"{tensor.dims[axis].name!r}, but lengths up to {longest}."
                )
        template, value = tensor.copy_template(name=name), numpy.asarray(values[name])
        if template.dtype == "bfloat16":  # which NumPy and files do not have; float32 has all of its values
            template.dtype, value = "float32", value.astype("float32")
        arrays[name] = OutputArray(template, value, lengths)
    return arrays


def each_seq(arrays: Mapping[str, OutputArray], num_seqs: int) -> Iterator[TensorDict]:
    """:return: the outputs of each sequence of the batch, see `OutputArray.of_seq`"""
    for b in range(num_seqs):
        yield TensorDict({name: output.of_seq(b) for name, output in arrays.items()})


def made_callback(config: Config) -> ForwardCallbackIface | None:
    """:return: the `forward_callback` of the config, if there is one"""
    callback = config.options.forward_callback
    made: ForwardCallbackIface | None = callback() if callable(callback) else callback
    return made


def hypotheses_are_wanted(config: Config) -> bool:
    """:return: whether a search needs hypotheses, also if a `forward_callback` gets the outputs"""
    options = config.options
    return options.forward_callback is None or bool(options.search_output_file or options.search_metrics)


class SeveralCallbacks(ForwardCallbackIface):
    """All of them get everything, one after the other."""

    def __init__(self, callbacks: Sequence[ForwardCallbackIface]) -> None:
        """:param callbacks: in this order"""
        self.callbacks = callbacks

    def init(self, *, model: Any) -> None:
        """Begins all."""
        for callback in self.callbacks:
            callback.init(model=model)

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        """Adds a sequence to all."""
        for callback in self.callbacks:
            callback.process_seq(seq_tag=seq_tag, outputs=outputs)

    def finish(self) -> None:
        """Ends all."""
        for callback in self.callbacks:
            callback.finish()


class HdfOutput(ForwardCallbackIface):
    """
    Writes one of the outputs into an HDF file, in the layout of `HDFDataset`. Others are told, as they are not in it.

    What has no frames, [B, F] or [B], is one frame of each sequence.
    """

    def __init__(self, filename: str, name: str) -> None:
        """
        :param filename: HDF file; an existing one is replaced, once this one is complete
        :param name: of the output
        """
        self.filename = filename
        self.name = name
        self.left_out: list[str] = []  # names of other outputs
        self._writer: SimpleHDFWriter | None = None

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        """Adds a sequence."""
        check_known("output", self.name, outputs.data, where="option 'forward_output_layer'")
        self.left_out = [name for name in outputs.data if name != self.name]
        output = outputs[self.name]
        output = output if output.feature_dim is None else output.copy_with_feature_last()
        value = numpy.asarray(output.raw_tensor)
        has_frames = any(dim != output.feature_dim for dim in output.dims)
        value = value if has_frames else value[None]  # each sequence of an HDF file has frames
        if self._writer is None:
            labels = output.vocab.labels if output.vocab is not None else None
            self._writer = SimpleHDFWriter(
                self.filename, dim=output.dim, ndim=value.ndim, labels=labels, replace_existing_file=True
            )
        feature_axis = None if output.feature_dim is None else output.feature_dim_axis + (not has_frames)
        lengths = {axis: numpy.asarray([size]) for axis, size in enumerate(value.shape) if axis != feature_axis}
        try:
            self._writer.insert_batch(value[None], lengths, [seq_tag])
        except UserError as exc:
            raise UserError(f"forward: output {self.name!r}: {exc}") from exc

    def finish(self) -> None:
        """Ends the file."""
        if self._writer is not None:
            self._writer.close()


class MeanProbabilities(ForwardCallbackIface):
    """The mean over all frames of an output, which are probabilities, or log probabilities."""

    def __init__(self, name: str) -> None:
        """:param name: of the output"""
        self.name = name
        self._sum: Any = 0.0
        self._num_frames = 0

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        """Adds a sequence."""
        check_known("output", self.name, outputs.data, where="option 'forward_output_layer'")
        output = outputs[self.name]
        if output.feature_dim is None:
            raise ConfigError(
                f"task 'compute_priors': the output {output} has no feature dim, expected probabilities.\n"
                "  rf.get_run_ctx().mark_as_output takes it from the tensor: set its feature_dim."
            )
        raw = numpy.asarray(output.copy_with_feature_last().raw_tensor, "float64")
        frames = raw.reshape(-1, raw.shape[-1])
        if (frames < 0).any() and (frames > 0).any():
            raise ConfigError(
                f"task 'compute_priors': the output {output} has values below and above 0 (sequence {seq_tag!r}).\n"
                "  Probabilities are expected, or their logarithms."
            )
        self._sum = self._sum + (numpy.exp(frames) if (frames < 0).any() else frames).sum(axis=0)
        self._num_frames += len(frames)

    def mean(self) -> numpy.ndarray:
        """:return: (classes,)"""
        return numpy.asarray(self._sum / max(self._num_frames, 1))


class HypothesesOutput(ForwardCallbackIface):
    """
    Collects hypotheses: the output `output`, labels over the frames, maybe with a beam; then with the output `scores`
    (or `score`), a number for each entry of the beam, by which they are ordered. Places of the beam that a search found
    nothing for are left out. An output `ended` says of each entry whether it has ended, or a limit has cut it.
    """

    def __init__(self, name: str, references: References | None = None) -> None:
        """
        :param name: of the output with the labels
        :param references: what they will be compared with
        """
        self.name = name
        self.results: dict[str, Hypotheses] = {}
        self.has_prefixes = False  # of the labels, see `words_of`
        self._references = references
        self._num_cut = 0

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        """Adds a sequence."""
        check_known("output", self.name, outputs.data, where="option 'search_output_layer'")
        labels = outputs[self.name]
        check_hypotheses(labels)
        if not self.results:
            self.has_prefixes = labels.vocab is not None and labels.vocab.has_word_prefixes
            if self._references is not None:
                self._references.check_are_of(labels)
        if len(labels.dims) == 1:
            self.results[seq_tag] = _text(labels, labels.raw_tensor, seq_tag)
            self._count_if_cut(outputs, None, 0)
            return
        frames = next((dim for dim in labels.dims if dim.size is None or dim.is_spatial_dim()), labels.dims[-1])
        (beam,) = [dim for dim in labels.dims if dim != frames]
        scores = next((outputs[name] for name in ("scores", "score") if name in outputs), None)
        if scores is None or list(scores.dims) != [beam]:
            raise ConfigError(
                f"task 'search': the output {labels} has a beam, so an output 'scores' with the dim {beam} is needed."
            )
        if numpy.isnan(scores.raw_tensor).any():
            raise ConfigError(f"task 'search': the output {scores.name!r} is nan in sequence {seq_tag!r}.")
        lengths = frames.dyn_size_ext
        rows = numpy.asarray(labels.copy_transpose([beam, frames]).raw_tensor)
        sizes = [rows.shape[1]] * len(rows) if lengths is None else numpy.broadcast_to(lengths.raw_tensor, len(rows))
        hypotheses = [
            (float(score), _text(labels, row[: int(size)], seq_tag))
            for score, row, size in zip(scores.raw_tensor, rows, sizes, strict=True)
        ]
        best, *others = sorted(hypotheses, key=lambda pair: -pair[0])
        if best[0] > hypotheses[0][0] > NEVER / 2:
            warn_once(
                f"task 'search': the output {scores.name!r} is not highest for the first hypothesis of the beam, in"
                f" sequence {seq_tag!r}. What counts are these scores, and not the order.\n"
                "  With length normalization, a search of the frontend has compared hypotheses by the `ranking` of its"
                " result: mark that as 'scores'."
            )
        self.results[seq_tag] = [best, *(pair for pair in others if pair[0] > NEVER / 2)]
        self._count_if_cut(outputs, beam, hypotheses.index(best))

    def finish(self) -> None:
        """Warns of hypotheses that the limit has cut."""
        if self._num_cut:
            log.print_warning(
                f"task 'search': {self._num_cut:,} of {len(self.results):,} best hypotheses had not ended where their"
                " limit ('max_seq_len') does not let them go on. They are cut there."
            )

    def _count_if_cut(self, outputs: TensorDict, beam: Dim | None, best: int) -> None:
        if "ended" not in outputs:
            return
        ended = outputs["ended"]
        if ended.dtype != "bool" or list(ended.dims) not in ([], [beam]):
            dims = "the dim of the batch" if beam is None else f"the dims of the batch and {beam}"
            raise ConfigError(f"task 'search': the output {ended} should be bool, with {dims} alone.")
        self._num_cut += not (ended.raw_tensor[best] if ended.dims else ended.raw_tensor)


def check_hypotheses(output: Tensor) -> None:
    """
    :param output: of `forward_step`, of a batch or of a sequence
    :raises ConfigError: if it cannot be hypotheses
    """
    rest = [dim for dim in output.dims if dim != batch_dim]
    if output.sparse_dim is None or not 1 <= len(rest) <= 2:
        raise ConfigError(
            f"option 'search_output_layer': the output {output} has no hypotheses: it needs a sparse dim (the labels),"
            " a dim of frames, and maybe one of a beam.\n"
            "  `forward_step` marks it; `returnn.frontend.search` has searches, over labels or frames (CTC).\n"
            "  A model without a decoder, such as most language models, is scored by the task 'eval', and served with "
            "web_server_output = 'forward'."
        )


def _text(template: Tensor, labels: Any, seq_tag: str) -> str:
    numbers = [int(label) for label in labels]
    vocab = template.vocab
    if vocab is None:
        return " ".join(map(str, numbers))
    if wrong := [number for number in numbers if not vocab.is_id_valid(number)]:
        raise ConfigError(
            f"task 'search': the output {template.name!r} has the label {wrong[0]} in sequence {seq_tag!r}.\n"
            f"  Its dim {template.sparse_dim} has the labels 0 to {vocab.num_labels - 1}."
        )
    get_text: Callable[[Any], str] = vocab.get_seq_labels
    return get_text(numbers)
