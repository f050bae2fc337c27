"""The error for wrong data: it names the data set, the sequence, the data key, and the file where there is one."""

from __future__ import annotations

from typing import Any

from returnn.util.errors import UserError

_MAX_TAG_CHARS = 200


class DataError(UserError):
    """Data that cannot be used. At most five lines, shown without a stack trace."""

    def __init__(
        self,
        problem: str,
        *,
        dataset: str,
        seq: str | None = None,
        key: str | None = None,
        file: str | None = None,
        hint: str | None = None,
    ) -> None:
        """
        :param problem: e.g. "label 41 is out of range, there are 40 labels"
        :param dataset: name of the data set, e.g. "HDFDataset 'train'"
        :param seq: tag of the sequence
        :param key: data key
        :param file: where the data comes from, with the position in it, if known
        :param hint: what is possible
        """
        if seq is not None:
            problem = problem.replace(f"sequence {seq!r}: ", "")  # what reads audio names the sequence, too
        place = [f"data key {key!r}"] if key is not None else []
        place += [f"sequence {_shortened(seq)!r}"] if seq is not None else []
        is_command = problem.rpartition("\n")[2].startswith("  pip install ")  # to be copied as it is
        end = "" if problem.endswith(("?", ".")) or is_command else "."  # a hint in it may be a sentence
        lines = [f"{dataset}: " + (f"{' of '.join(place)}: " if place else "") + problem + end]
        lines += [f"  File: {file}"] if file else []
        lines += [f"  {hint}"] if hint else []
        super().__init__("\n".join(lines))
        self._args = {"problem": problem, "dataset": dataset, "seq": seq, "key": key, "file": file, "hint": hint}
        self.problem = problem
        self.dataset = dataset
        self.seq = seq
        self.key = key
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_error, (self._args,)


def _shortened(tag: str) -> str:
    """:return: with its end, as that is what differs"""
    return tag if len(tag) <= _MAX_TAG_CHARS else f"{tag[: _MAX_TAG_CHARS // 2]}...{tag[-_MAX_TAG_CHARS // 2 :]}"


def _make_error(args: dict[str, Any]) -> DataError:
    return DataError(**args)
