"""Which class stands for blank, in CTC and the like."""

from __future__ import annotations

from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted


def blank_class(index: int, num_classes: int, *, option: str, where: str) -> int:
    """
    :param index: as given by an option; negative: counted from the end
    :param num_classes: of the source
    :param option: its name
    :param where: how the error begins
    :return: the class
    :raises ConfigError: if there is none
    """
    if isinstance(index, bool) or not isinstance(index, int) or not -num_classes <= index < num_classes:
        raise ConfigError(
            f"{where}: option {option!r}: {index!r} of {counted(num_classes, 'class')}.\n"
            f"  Possible: 0 to {num_classes - 1}, or -1 to {-num_classes}, from the end."
        )
    return index % num_classes
