"""Names of checkpoint files, and of parameters in them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable

_EXISTS_BY = ("", ".index", ".pt", ".safetensors")  # suffixes of the files by which a checkpoint exists
_SUFFIX = re.compile(r"(\.index|\.meta|\.data-\d+-of-\d+|(\.opt)?\.pt|\.safetensors)$")


def get_checkpoint_filepattern(filepath: str) -> str:
    """
    :param filepath: one of the files of a checkpoint, e.g. "model.003.index" or "model.003.pt"
    :return: the name of the checkpoint, e.g. "model.003"
    """
    return _SUFFIX.sub("", filepath)


def checkpoint_of_file(filepath: str) -> str:
    """
    :param filepath: name of a checkpoint, or one of its files
    :return: the name of the checkpoint. If it has its parameters in files of two formats, the file itself, where it
        has them, too
    """
    name = get_checkpoint_filepattern(filepath)
    with_parameters = [f"{name}{suffix}" for suffix in _EXISTS_BY if suffix and os.path.isfile(f"{name}{suffix}")]
    is_one_of_them = filepath in with_parameters and not filepath.endswith(".index")
    return filepath if is_one_of_them and len(with_parameters) > 1 else name


def is_missing(checkpoint: str) -> bool:
    """:return: whether there is no checkpoint of that name, of no format. What cannot be read may be there"""
    names = {
        f"{name}{suffix}" for name in (checkpoint, get_checkpoint_filepattern(checkpoint)) for suffix in _EXISTS_BY
    }
    return all(map(_is_absent, names))


def same_but_for_dots(wanted: Iterable[str], there: Collection[str]) -> dict[str, str]:
    """
    The parameter `encoder/W` of TensorFlow is `encoder.W` with PyTorch, and stays so in a checkpoint that is converted.

    :param wanted: names of parameters
    :param there: names in a checkpoint
    :return: for those that are not there, the name there which is the same but for dots and slashes, if there is one
        such, and it is not wanted itself
    """
    names = set(wanted)
    spare = _by_slashes(set(there) - names)
    missing = _by_slashes(names - set(there))
    return {
        found[0]: spare[key][0] for key, found in missing.items() if len(found) == 1 and len(spare.get(key, ())) == 1
    }


def _by_slashes(names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.replace(".", "/"), []).append(name)
    return found


def _is_absent(filename: str) -> bool:
    try:
        os.stat(filename)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return os.path.isdir(filename)


def model_epoch_from_filename(filename: str) -> int:
    """
    :param filename: e.g. "net-model/network.012" or "net-model/network.pretrain.003.index"
    :return: its epoch
    :raises ValueError: if the name has none
    """
    match = re.search(r"\.(\d+)$", get_checkpoint_filepattern(filename))
    if match is None:
        raise ValueError(f"the name {filename!r} has no epoch at its end")
    return int(match.group(1))
