"""Results by tag, of which none may be lost because two sequences have the same one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from returnn.util.errors import UserError


def check_new_tags(tags: Sequence[str], known: Collection[str], *, task: str, results: str) -> None:
    """
    :param tags: of the sequences of a step
    :param known: those from before
    :param task: for errors
    :param results: for errors, what there is for each tag
    :raises UserError: if one of the tags was there already
    """
    for i, tag in enumerate(tags):
        if tag in known or tag in tags[:i]:
            raise UserError(
                f"{task}: two sequences have the tag {tag!r}, so the {results} of one would be lost.\n"
                "  Tags have to be unique. See the data set, or its option 'seq_list_filter_file'."
            )
