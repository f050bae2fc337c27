"""What is said of the hypotheses of a search."""

import pytest

from returnn.engine.search_results import warn_of_same_hypotheses
from returnn.log import log


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([""] * 6, "all 6 hypotheses are empty."),
        (["a b@@ c"] * 6, "all 6 hypotheses are the same: 'a bc'."),
        ([[(0.0, "a"), (-1.0, str(i))] for i in range(6)], "all 6 hypotheses are the same: 'a'."),
        ([[(0.0, str(i)), (-1.0, "a")] for i in range(6)], None),
        (["a"] * 5 + ["b"], None),
        (["a"] * 4, None),
        ([], None),
        ([{"x": "a", "y": "b"}] * 6, None),
    ],
)
def test_hypotheses_that_do_not_depend_on_the_input(texts, said, capsys):
    log.initialize(verbosity=[3])
    warn_of_same_hypotheses({f"seq-{i}": text for i, text in enumerate(texts)})
    shown = "".join(capsys.readouterr())
    assert (said or "") in shown
    assert bool(shown) == (said is not None)
