import pytest

from returnn.config import Config
from returnn.util.errors import ConfigError


@pytest.fixture(params=["typed", "text"])
def config(request):
    """The same options as values of Python, and as lines of text."""
    if request.param == "typed":
        return Config({"epochs": 5, "rate": 0.5, "adam": True, "names": ["a", "b"], "sizes": [1, 2], "name": "x"})
    config = Config()
    for key, value in [
        ("epochs", "5"),
        ("rate", "0.5"),
        ("adam", "true"),
        ("names", "a,b"),
        ("sizes", "1,2"),
        ("name", "x"),
    ]:
        config.add_line(key, value)
    return config


def test_accessors_hide_whether_an_option_is_text(config):
    assert config.int("epochs", 0) == 5
    assert config.float("rate", 0.0) == 0.5
    assert config.float("epochs", 0.0) == 5.0
    assert config.bool("adam", False) is True
    assert config.is_true("adam")
    assert config.value("names", "") == "a,b"
    assert config.value("names", "", index=1) == "b"
    assert config.value("names", "", list_join_str=" ") == "a b"
    assert config.list("names") == ["a", "b"]
    assert config.list("name") == ["x"]
    assert config.int_list("sizes") == [1, 2]
    assert config.int("sizes", None, index=1) == 2
    assert config.float_list("sizes") == [1.0, 2.0]
    assert config.int_pair("epochs") == (5, 5)
    assert config.bool_or_other("name") == "x"
    assert config.bool_or_other("adam") is True
    assert config.opt_typed_value("name") == "x"


def test_defaults(config):
    for access in (config.int, config.float, config.bool, config.value):
        assert access("missing", None) is None
    for access in (config.list, config.int_list, config.float_list, config.bool_or_other, config.opt_typed_value):
        assert access("missing") is None
        assert access("missing", "default") == "default"
    assert config.int_pair("missing", (1, 2)) == (1, 2)
    assert config.get_of_type("missing", dict, {}) == {}
    assert not config.is_true("missing")
    assert config.is_true("missing", True)
    assert not config.has("missing")


def test_typed_access_does_not_see_text(config):
    is_typed = config.is_typed("name")
    assert config.has("name")
    assert config.typed_value("name", "default") == ("x" if is_typed else "default")
    assert config.is_of_type("name", str) == is_typed
    assert config.get_of_type("name", (str, int), None) == ("x" if is_typed else None)


def test_none_counts_as_not_set():
    config = Config({"load": None})
    assert config.value("load", "") == ""
    assert config.int("load", 3) == 3
    assert config.list("load", []) == []
    assert config.has("load")
    assert config.typed_value("load", 1) is None


def test_ranges_and_repetitions_in_text():
    config = Config()
    config.add_line("epochs", "1,3-5,7*2")
    config.add_line("rates", "0.1*2,1e-3")
    config.add_line("pair", "3:4")
    assert config.int_list("epochs") == [1, 3, 4, 5, 7, 7]
    assert config.float_list("rates") == [0.1, 0.1, 1e-3]
    assert config.int_pair("pair") == (3, 4)
    assert Config({"a": [-3, 2]}).int_list("a") == [-3, 2]


@pytest.mark.parametrize(
    ("access", "value", "message"),
    [
        ("int", "many", "option 'x': got 'many', but expected an integer."),
        ("int", 0.5, "option 'x': got 0.5, but expected an integer."),
        ("int", {"classes": 3}, "option 'x': got {'classes': 3}, but expected an integer."),
        ("float", "fast", "option 'x': got 'fast', but expected a number."),
        ("bool", "perhaps", "option 'x': got 'perhaps', but expected True or False."),
    ],
)
def test_wrong_type_names_the_option_and_its_value(access, value, message):
    with pytest.raises(ConfigError) as info:
        getattr(Config({"x": value}), access)("x", None)
    assert str(info.value) == message


def test_wrong_lists_name_the_option():
    with pytest.raises(ConfigError, match=r"option 'x': got 'a', but expected a list of integers\."):
        Config({"x": [1, "a"]}).int_list("x")
    with pytest.raises(ConfigError, match=r"option 'x': got 'a', but expected a list of numbers\."):
        Config({"x": [1, "a"]}).float_list("x")
    with pytest.raises(ConfigError, match=r"option 'x': got \[1, 2, 3\], but expected one or two integers\."):
        Config({"x": [1, 2, 3]}).int_pair("x")
    with pytest.raises(ConfigError, match=r"option 'x': got \[\], but expected an integer at index 0\."):
        Config({"x": []}).int("x", 0)


def test_config_remembers_what_was_read():
    config = Config({"a": 1, "b": 2})
    config.int("a", 0)
    config.has("c")
    assert config.options_read == {"a", "c"}


@pytest.mark.parametrize("value", [-5, "-5", {"data": -2, "classes": 3}, -0.5])
@pytest.mark.parametrize("name", ["batch_size", "max_seqs", "max_seq_length"])
def test_limits_are_not_negative(name, value):
    with pytest.raises(ConfigError, match=f"option '{name}': got .*-1: no limit"):
        getattr(Config({name: value}).options, name)
    assert getattr(Config({name: -1}).options, name) == -1
