import sys

import pytest

from returnn.util.system.recursion_limit import more_recursion


def nested(depth):
    return 0 if depth == 0 else 1 + nested(depth - 1)


def test_more_calls_can_be_nested_inside():
    limit = sys.getrecursionlimit()
    with more_recursion(limit):
        assert nested(limit) == limit
    assert sys.getrecursionlimit() == limit
    with pytest.raises(RecursionError):
        nested(limit)
