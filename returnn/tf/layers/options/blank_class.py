"""
Which class stands for blank, in CTC and the like, and which classes are the labels then.

A label is the class of the same index, wherever blank is: nothing is shifted. So blank is the class behind the labels,
the default, with one class more than there are labels; or an index names a label as blank, which then is in no target,
and there are as many classes as labels.
"""

from __future__ import annotations

from returnn.tensor import Dim
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import warn_once
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


def are_labels_and_blank(index: int, num_classes: int, num_labels: int) -> bool:
    """
    :param index: as given by an option; the last class, counted from the end, is the one behind the labels
    :param num_classes: of the source
    :param num_labels: of the target
    :return: whether each class is a label or blank
    """
    is_last = index % num_classes == num_classes - 1
    if num_labels == num_classes:
        return index >= 0 or not is_last
    return num_labels == num_classes - 1 and is_last


def other_classes_than_labels(index: int, num_classes: int, num_labels: int, *, target: str, option: str) -> str:
    """
    :param index: as given by an option
    :param num_classes: of the source
    :param num_labels: of the target
    :param target: how it is named, as "the target 'classes'"
    :param option: how the option is named
    :return: message where some class is neither a label nor blank, or blank has none: what is possible
    """
    blank = index % num_classes
    text = (
        f"{counted(num_classes, 'class')}, of which {blank} is blank, but {target} has"
        f" {counted(num_labels, 'label')}.\n  "
    )
    behind = f"blank is the class behind the labels, the default of {option}: 'n_out' {num_labels + 1}"
    if index != -1 and blank < num_labels:
        return (
            f"{text}A label is the class of the same index, not shifted for blank: 'n_out' {num_labels},"
            f" if label {blank} is in no target. Otherwise, {behind}."
        )
    return f"{text}Either {behind}. Or {option} names a label that is in no target: 'n_out' {num_labels}."


def warn_of_shifted_labels(index: int, classes: Dim, labels: Dim | None, *, source: str, option: str) -> None:
    """
    Warns of a class that is neither a label nor blank: that is right only where a layer has shifted the labels.

    :param index: as given by an option
    :param classes: of the source
    :param labels: of the target
    :param source: how the warning begins
    :param option: how the option is named
    """
    num_classes, num_labels = classes.size, None if labels is None else labels.size
    if num_classes is None or num_labels is None or not index % num_classes < num_labels < num_classes:
        return
    what = other_classes_than_labels(index, num_classes, num_labels, target="the target", option=option)
    warn_once(f"{source} has {what}")
