import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.util.files.literal import literal_eval
from returnn.util.pprint import pformat
from returnn.util.texts.better_repr import better_repr

_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.sets(st.integers(), max_size=3)
    ),
    max_leaves=10,
)


@given(_VALUES)
def test_what_is_written_can_be_read(value):
    assert literal_eval(repr(value)) == value
    assert literal_eval(better_repr(value)) == value
    assert literal_eval(pformat(value)) == value


def test_special_values():
    assert math.isnan(literal_eval("nan"))
    assert literal_eval("[-inf, 1+2j, np.float64(0.5)]") == [-math.inf, 1 + 2j, 0.5]
    assert literal_eval("Point(1, y=2)", {"Point": lambda x, y: (x, y)}) == (1, 2)


@pytest.mark.parametrize("text", ["open('x')", "a", "1 + 1", "[x for x in y]", "(1", "np.f(1, 2)", "{**{}}", "~1"])
def test_code_is_refused(text):
    with pytest.raises(ValueError, match="line 1: "):
        literal_eval(text)
