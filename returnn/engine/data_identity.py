"""
Which data a training has seen, kept beside its models, in `MODEL.data.json`. A training that is resumed compares it.

Beside that, it has what other tasks compare: the labels of the vocabularies, and options of the network.

A file is the same if its size, its time and its path are. If only its size is, its content is compared: a digest of
the whole file, of samples of a large one, or the one that our HDF writer has left in it. So a copy of the data may have
another place. Data without files is known by the number of its sequences and their tags.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from returnn.config import Config
from returnn.config.preloaded_file import PreloadedFile
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.errors import DataError
from returnn.datasets.hdf.hdf_file import stored_digest
from returnn.engine.run.known_labels import LabelsIdentity, labels_of_config
from returnn.engine.run.known_network import NetworkIdentity
from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.files.atomic_file import write_atomic
from returnn.util.files.checkpoint_names import get_checkpoint_filepattern
from returnn.util.python.introspect import call_with_known
from returnn.util.texts.counted import counted, some_of

_TRAINING_DATA = "train"
_MAY_CHANGE_HINT = "'accept_changed_data = True' goes on with it. Another 'model' starts a new training."
_LABELS, _NETWORK = "extern_data", "network"  # in the file, beside data sets
_MAX_DIGESTS = 200  # of more files, only the sizes are known
_MAX_FILES_OF_FOLDER = 1000
_MAX_TAGS = 1_000_000
_WHOLE_BYTES = 1 << 20
_SAMPLE_BYTES = 1 << 16


@dataclass(frozen=True)
class FileIdentity:
    """One file, or all of one folder together."""

    path: str
    num_bytes: int
    modified_ns: int
    content: str | None  # digest of what is in it
    stored: str | None = None  # digest by the writer of the file

    def difference(self, now: FileIdentity) -> str | None:
        """:return: why the file is another one now; None if it is not"""
        where = f"file {now.path!r}" if now.path == self.path else f"file {now.path!r}, in the place of {self.path!r},"
        if self.num_bytes != now.num_bytes:
            return f"{where} had {counted(self.num_bytes, 'byte', ',')}, and has {now.num_bytes:,}"
        if (self.stored and self.stored == now.stored) or None in (self.content, now.content):
            return None
        if self.content != now.content:
            before, after = (time.strftime("%Y-%m-%d %H:%M:%S", _local(i.modified_ns)) for i in (self, now))
            return f"{where} has other content: it is of {after}, and was of {before}"
        return None


@dataclass(frozen=True)
class DataIdentity:
    """One data set."""

    num_seqs: int | None
    tags: str | None  # digest of all tags; None if there are files
    files: tuple[FileIdentity, ...]

    @classmethod
    def of(cls, dataset: Dataset, *, known: DataIdentity | None = None) -> DataIdentity:
        """
        :param dataset: before its first epoch
        :param known: its files are not read if their sizes and times are the same
        """
        num_digests = itertools.count()
        by_path = {file.path: file for file in known.files} if known is not None else {}
        files = tuple(
            _identity_of_file(path, by_path.get(path), with_content=next(num_digests) < _MAX_DIGESTS)
            for path in dataset.find_files()
        )
        num_seqs = _num_seqs(dataset)
        has_list = not files and num_seqs is not None and num_seqs <= _MAX_TAGS
        return cls(num_seqs, _digest_of_tags(dataset) if has_list else None, files)

    @classmethod
    def from_json(cls, value: Any) -> DataIdentity:
        """:param value: what `dataclasses.asdict` gave"""
        return cls(value["num_seqs"], value["tags"], tuple(FileIdentity(**file) for file in value["files"]))

    def difference(self, now: DataIdentity) -> str | None:
        """:return: why this is other data now; None if it is not"""
        if len(self.files) != len(now.files):
            return f"it had {counted(len(self.files), 'file')}, and has {len(now.files)}"
        for before, after in zip(self.files, now.files, strict=True):
            if text := before.difference(after):
                return text
        if None not in (self.num_seqs, now.num_seqs) and self.num_seqs != now.num_seqs:
            return f"it had {counted(self.num_seqs, 'sequence', ',')}, and has {now.num_seqs:,}"
        if None not in (self.tags, now.tags) and self.tags != now.tags:
            return "it has other sequence tags"
        return None


@dataclass(frozen=True)
class _Content:
    """What is in the file."""

    data: Mapping[str, DataIdentity] = field(default_factory=dict)  # by name of the data set
    labels: Mapping[str, LabelsIdentity] = field(default_factory=dict)  # by data key
    network: NetworkIdentity | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> _Content:
        labels = {key: LabelsIdentity(**entry) for key, entry in value.pop(_LABELS, {}).items()}
        network = value.pop(_NETWORK, None)
        data = {name: DataIdentity.from_json(entry) for name, entry in value.items()}
        return cls(data, labels, NetworkIdentity(**network) if network else None)

    def to_json(self) -> dict[str, Any]:
        content: dict[str, Any] = {name: asdict(identity) for name, identity in self.data.items()}
        if self.labels:
            content[_LABELS] = {key: asdict(identity) for key, identity in self.labels.items()}
        if self.network is not None:
            content[_NETWORK] = asdict(self.network)
        return content


class KnownData:
    """The file beside the models."""

    def __init__(self, model: str) -> None:
        """:param model: option `model`, what the names of its model files begin with"""
        self.filename = f"{model}.data.json"

    @classmethod
    def of_checkpoint(cls, filename: str) -> KnownData:
        """:param filename: of a model of some epoch"""
        return cls(re.sub(r"(\.pretrain)?\.\d+$", "", get_checkpoint_filepattern(filename)))

    def compare(
        self,
        datasets: Mapping[str, Dataset],
        *,
        is_resumed: bool,
        may_change: bool,
        labels: Mapping[str, LabelsIdentity] | None = None,
        network: NetworkIdentity | None = None,
    ) -> None:
        """
        Notes what the data is. Other data for evaluation is said and no more, as it has no effect on the model.

        :param datasets: by name; they have not begun an epoch
        :param is_resumed: whether it has to be that from before
        :param may_change: whether that is said, and no error
        :param labels: of the vocabularies of the config, which are noted, too
        :param network: of the config, which is noted, too; another one is said
        :raises UserError: if it is other data, or has other labels
        """
        known = self._read() if is_resumed else _Content()
        now = {name: DataIdentity.of(dataset, known=known.data.get(name)) for name, dataset in datasets.items()}
        for name in now.keys() & known.data.keys():
            text = known.data[name].difference(now[name])
            if text is None:
                continue
            if name == _TRAINING_DATA and not may_change:
                raise DataError(
                    f"is other data than that this training began with: {text}",
                    dataset=datasets[name].description,
                    hint=_MAY_CHANGE_HINT,
                )
            log.print_warning(f"{datasets[name].description}: is other data than before: {text}")
        self._compare_labels(known.labels, labels or {}, may_change=may_change)
        self._compare_networks(known.network, network)
        content = _Content({**known.data, **now}, dict(labels or {}), network)
        if content != known:
            write_atomic(self.filename, json.dumps(content.to_json(), indent=1) + "\n")

    def warn_of_changes(
        self, labels: Mapping[str, LabelsIdentity], network: NetworkIdentity | None = None, params: Collection[str] = ()
    ) -> None:
        """
        Says that a model was trained with other labels than there are now, or with another network.

        :param labels: of the vocabularies of the config
        :param network: what it is used in
        :param params: names of the trained parameters
        """
        known = self._read()
        self._compare_labels(known.labels, labels, may_change=True)
        self._compare_networks(known.network, network, params)

    def other_labels_of_same_size(self, labels: Mapping[str, LabelsIdentity]) -> dict[str, LabelsIdentity]:
        """
        :param labels: of the vocabularies of another model
        :return: by data key, those of this model for which that one has others, as many. Its keys may be other ones: a
            language model calls "data" what is "classes" in a translation
        """
        contents, sizes = ({getattr(x, name) for x in labels.values()} for name in ("content", "num_labels"))
        known = self._read().labels
        return {key: x for key, x in known.items() if x.content not in contents and x.num_labels in sizes}

    @staticmethod
    def _compare_labels(
        known: Mapping[str, LabelsIdentity], labels: Mapping[str, LabelsIdentity], *, may_change: bool
    ) -> None:
        for key in sorted(known.keys() & labels.keys()):
            text = known[key].difference(labels[key])
            if text is None:
                continue
            where = f"extern_data[{key!r}]: vocab: is another one than in the training of this model"
            if not may_change:
                raise UserError(f"{where}: {text}.\n  {_MAY_CHANGE_HINT}")
            log.print_warning(f"{where}: {text}. So its outputs are no longer those of these labels.")

    @staticmethod
    def _compare_networks(
        known: NetworkIdentity | None, network: NetworkIdentity | None, params: Collection[str] = ()
    ) -> None:
        for text in known.differences(network, params=params) if known and network else ():
            effect = "So its outputs are not those of the training."
            log.print_warning(f"this model was trained with another network: {text}. {effect}")

    def _read(self) -> _Content:
        try:
            with open(self.filename, encoding="utf8") as file:
                return _Content.from_json(json.load(file))
        except FileNotFoundError:
            return _Content()  # models from before there was such a file, or of the original toolkit
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            log.print_warning(f"{self.filename!r} cannot be read ({exc}): it is not known which data was there before")
            return _Content()


def warn_of_other_labels(config: Config) -> None:
    """Says, before anything runs, that the models of a config were trained with other labels than it has now."""
    model = config.options.model
    if model:
        KnownData(model).warn_of_changes(labels_of_config(config))


def warn_of_labels_of_preloaded(
    file: PreloadedFile, config: Config, loaded: Mapping[str, Sequence[int | None]]
) -> None:
    """
    Says that parameters come from a model with other labels, which fits, as it has as many.

    :param file: gives values to parameters
    :param config: its vocabularies
    :param loaded: shapes of these parameters, by name
    """
    known = KnownData.of_checkpoint(file.filename).other_labels_of_same_size(labels_of_config(config))
    for key, labels in sorted(known.items()):
        names = [name for name, shape in loaded.items() if labels.num_labels in shape]
        if names:
            log.print_warning(
                f"{file.where}: {file.filename!r} was trained with other labels: its extern_data[{key!r}] has as many,"
                f" {labels.num_labels:,}, but no vocabulary here has these. So the values"
                f" of {some_of(names, 3)} are about other labels.\n"
                "  With the vocabulary of then, they fit; 'ignore_params' leaves them out."
            )


def _identity_of_file(path: str, known: FileIdentity | None, *, with_content: bool) -> FileIdentity:
    if os.path.isdir(path):
        return _identity_of_folder(path)
    found = os.stat(path)
    if known and (known.num_bytes, known.modified_ns) == (found.st_size, found.st_mtime_ns):
        return known
    content = _digest_of_content(path, found.st_size) if with_content else None
    stored = stored_digest(path) if with_content and path.endswith((".hdf", ".h5", ".hdf5")) else None
    return FileIdentity(path, found.st_size, found.st_mtime_ns, content, stored)


def _identity_of_folder(path: str) -> FileIdentity:
    """:return: names and sizes of the files in it"""
    files = [(name, os.path.getsize(name)) for name in itertools.islice(_iter_files(path), _MAX_FILES_OF_FOLDER)]
    digest = hashlib.sha256()
    for name, num_bytes in files:
        digest.update(f"{os.path.relpath(name, path)} {num_bytes}\n".encode("utf8", "surrogateescape"))
    return FileIdentity(path, sum(num_bytes for _, num_bytes in files), 0, digest.hexdigest())


def _iter_files(folder: str) -> Iterator[str]:
    entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    yield from (entry.path for entry in entries if entry.is_file())
    for entry in entries:
        if entry.is_dir():
            yield from _iter_files(entry.path)


def _digest_of_content(path: str, num_bytes: int) -> str:
    """:return: of the whole file, or of 16 samples of a large one"""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        if num_bytes <= _WHOLE_BYTES:
            digest.update(file.read())
        else:
            num_samples = _WHOLE_BYTES // _SAMPLE_BYTES
            for i in range(num_samples):
                file.seek((num_bytes - _SAMPLE_BYTES) * i // (num_samples - 1))
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _num_seqs(dataset: Dataset) -> int | None:
    try:
        return int(call_with_known(dataset.get_total_num_seqs, fast=True))
    except (NotImplementedError, OverflowError):  # or endless
        return None


def _digest_of_tags(dataset: Dataset) -> str | None:
    try:
        tags = dataset.get_all_tags()
    except NotImplementedError:
        return None
    return hashlib.sha256("\n".join(tags).encode("utf8", "surrogateescape")).hexdigest()


def _local(modified_ns: int) -> time.struct_time:
    return time.localtime(modified_ns / 1e9)
