"""What runs differ in."""

import pytest

from returnn.view.options import differences, options_of_config


def test_differences_are_named_within_dicts():
    base = {"model": "a/net", "batch_size": 10, "network": {"out": {"class": "softmax", "n_out": 3}}}
    other = {"model": "b/net", "batch_size": 10, "network": {"out": {"class": "softmax", "n_out": 5}}, "seed": None}
    assert differences([base, other]) == [("network.out.n_out", ["3", "5"]), ("seed", [None, "null"])]
    assert differences([base, base]) == []
    assert differences([base]) == []
    assert differences([]) == []


def test_a_run_without_options_makes_no_difference():
    assert differences([{"a": 1}, {}, {"a": 1}]) == []
    assert differences([{"a": 1}, {}, {"a": 2}]) == [("a", ["1", None, "2"])]


def test_long_values_are_compared_as_a_whole():
    ((name, values),) = differences([{"a": "x" * 1000 + "1"}, {"a": "x" * 1000 + "2"}])
    assert name == "a"
    assert all(value.endswith("x...") for value in values)


def test_a_config_is_read_and_not_run(tmp_path):
    lines = ["#!rnn.py", "import os", "os.abort()", "_x = 1", "batch_size = 5", "x = f(3)", r"d = '\d'"]
    (tmp_path / "a.config").write_text("\n".join([*lines, "network = {'a': {'class': 'copy'}}"]))
    expected = {"batch_size": 5, "x": "f(3)", "network": {"a": {"class": "copy"}}, "d": "\\d"}
    assert options_of_config(str(tmp_path / "a.config")) == expected
    (tmp_path / "b.config").write_text('{"batch_size": 5}')
    assert options_of_config(str(tmp_path / "b.config")) == {"batch_size": 5}


NO_CONFIGS = {"open": "a = (", "no JSON": "{", "zero": "\0", "nested": "((" * 10_000}


@pytest.mark.parametrize("kind", NO_CONFIGS)
def test_what_is_no_config(kind, tmp_path):
    (tmp_path / "a.config").write_text(NO_CONFIGS[kind])
    with pytest.raises(ValueError, match=r"this is no Python|Expecting property name"):
        options_of_config(str(tmp_path / "a.config"))
