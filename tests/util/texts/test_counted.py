import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

import returnn
from returnn.util.texts.counted import counted, some_of, there_are

PACKAGE = Path(returnn.__file__).parent
_MESSAGES_OF = "engine tf/engine tf/inspection tools/commands view serve datasets/hdf datasets/lm torch/engine"
_PLURAL = re.compile(
    r"(batche|byte|checkpoint|epoch|file|frame|label|layer|line|parameter|picture|run|segment|seq|sequence|step|"
    r"tensor|text|variable|word|worker)s\b(?!/)"
)


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "layer", "0 layers"),
        (1, "layer", "1 layer"),
        (2, "axis", "2 axes"),
        (3, "loss", "3 losses"),
        (4, "batch", "4 batches"),
        (4, "epoch", "4 epochs"),
        (5, "spatial dim", "5 spatial dims"),
        (6, "frequency", "6 frequencies"),
        (7, "day", "7 days"),
    ],
)
def test_counted(number, noun, text):
    assert counted(number, noun) == text


def test_formats_and_sentences():
    assert counted(12391, "word", ",") == "12,391 words"
    assert there_are(1, "label") == "there is 1 label"
    assert there_are(2, "label") == "there are 2 labels"


@pytest.mark.parametrize("folder", _MESSAGES_OF.split())
def test_messages_have_no_plural_after_a_number_that_may_be_one(folder):
    """Rates and constants stay as they are."""
    for file in sorted((PACKAGE / folder).rglob("*.py")):
        for text in ast.walk(ast.parse(file.read_text(encoding="utf8"))):
            parts = text.values if isinstance(text, ast.JoinedStr) else []
            for number, after in pairwise(parts):
                if not isinstance(number, ast.FormattedValue) or not isinstance(after, ast.Constant):
                    continue
                shown = ast.unparse(number)
                if re.search(r":\.\df|counted\(|batch_size|num_frames:,|\{_[A-Z]", shown):
                    continue
                assert not _PLURAL.match(after.value[1:]), f"{file}: {shown}{after.value}: use `counted`"


def test_some_of_many_names():
    assert some_of(["a", "b"], 2) == "'a', 'b'"
    assert some_of(list("abcdefg")) == "'a', 'b', 'c', 'd', 'e' and 2 more"
