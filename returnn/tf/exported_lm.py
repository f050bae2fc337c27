"""An exported language model (SavedModel), which says how likely words are after others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.tf.model_export import without_advice
from returnn.util.errors import UserError
from returnn.util.texts.counted import counted

tf1 = tf.compat.v1
_SIGNATURE = "serving_default"


class ExportedLanguageModel:
    """
    A SavedModel with labels of words as input, [B, T], and probabilities of words as output, [B, T, V].

    Either its output at a frame is about the word of that frame, where the network shifts its input itself, as that of
    `returnn new NAME --kind lm`; or about the next one, where the input begins with a word of its own.
    """

    def __init__(
        self,
        path: str,
        vocab: Mapping[str, int],
        *,
        data: str,
        output: str,
        begin: str | None,
        end: str,
        unknown: str | None,
    ) -> None:
        """
        :param path: folder of the SavedModel
        :param vocab: label of each word
        :param data: data key of the input
        :param output: name of the layer of the output
        :param begin: the word that each input begins with; None: the network shifts its input itself
        :param end: the word that follows the last one
        :param unknown: the word that stands for those which are not in the vocabulary; None: they are an error
        :raises UserError: if the model has no such input or output, or another number of labels; or if one of the
            three words is not in the vocabulary: as the unknown word, the end would have a wrong score in all sentences
        """
        self.vocab, self.begin, self.unknown = vocab, begin, unknown
        self._path, self._output_name = path, output
        for option, word in (("--begin", begin), ("--end", end), ("--unknown", unknown)):
            if word is not None and word not in vocab:
                raise UserError(f"option {option!r}: {word!r} is not in the vocabulary.")
        self._session = tf1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            try:
                with without_advice():
                    signature = tf1.saved_model.load(self._session, ["serve"], path).signature_def[_SIGNATURE]
            except (OSError, KeyError) as exc:
                raise UserError(f"{path!r} is no SavedModel with the signature {_SIGNATURE!r}: {exc}") from exc
        self._lengths = signature.inputs.get(f"{data}:size1")
        if data not in signature.inputs or output not in signature.outputs:
            raise UserError(
                f"{path!r}: there is no input {data!r} or no output {output!r}.\n"
                f"  Inputs: {', '.join(signature.inputs)}; outputs: {', '.join(signature.outputs)}."
            )
        self._has_frames_first = f"{output}:size0" in signature.outputs
        self._data, self._output = signature.inputs[data].name, signature.outputs[output].name
        self._num_labels = max(vocab.values()) + 1  # several words can share one
        self._check_num_outputs(self._session.graph.get_tensor_by_name(self._output).shape[-1])

    def _check_num_outputs(self, number: int | None) -> None:
        """
        :param number: None: it is known when the model has run
        :raises UserError: if it is another one than that of the labels
        """
        if number not in (None, self._num_labels):
            raise UserError(
                f"the layer {self._output_name!r} of {self._path!r} has {counted(number, 'output')}, but the vocabulary"
                f" has {counted(self._num_labels, 'label')}.\n  It has to be the one that the model was trained with."
            )

    def label(self, word: str) -> int:
        """
        :return: label of a word
        :raises UserError: if it has none
        """
        if word in self.vocab:
            return self.vocab[word]
        if self.unknown is None:
            raise UserError(
                f"word {word!r} is not in the vocabulary.\n  '--unknown' names the word that stands for such."
            )
        return self.vocab[self.unknown]

    def log_probs(self, histories: Sequence[Sequence[str]], following: Sequence[Sequence[str]]) -> list[list[float]]:
        """
        :param histories: words so far
        :param following: for each history, words that can follow
        :return: their natural logs of probabilities
        """
        before = [] if self.begin is None else [self.label(self.begin)]
        behind = [0] if self.begin is None else []  # a frame for the next word, whatever is there
        rows = [[*before, *map(self.label, words), *behind] for words in histories]
        lengths = numpy.array([len(row) for row in rows], "int32")
        data = numpy.zeros([len(rows), max(lengths)], "int32")
        for row, labels in zip(data, rows, strict=True):
            row[: len(labels)] = labels
        feed: dict[Any, Any] = {self._data: data}
        if self._lengths is not None:
            feed[self._lengths.name] = lengths
        probs = self._session.run(self._output, feed)
        if self._has_frames_first:
            probs = probs.swapaxes(0, 1)
        self._check_num_outputs(probs.shape[-1])
        with numpy.errstate(divide="ignore"):
            logs = numpy.log(probs[numpy.arange(len(rows)), lengths - 1])
        return [[float(row[self.label(word)]) for word in words] for row, words in zip(logs, following, strict=True)]
