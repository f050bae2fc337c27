"""What is said of files whose parameters are not those of the model."""

from returnn.util.files.checkpoint_misfits import warn_of_misspelt
from returnn.util.system.warn_once import forget_shown


def test_a_misspelt_parameter_is_said_where_missing_ones_are_ignored(caplog):
    missing = {"b_stat/W": (3, 2), "state/W": (3, 2), "b_stat/b": (2,), "layer6/W": (3, 2), "b_out/W": (2, 5)}
    spare = {"b_state/W": (3, 2), "b_state/b": (2,), "layer5/W": (3, 2), "b_outp/W": (2, 4)}
    for of_file, more in ((spare, " (and 1 other like that)"), ({"b_state/W": (3, 2)}, "")):
        forget_shown()
        caplog.clear()
        warn_of_misspelt("layer 'x'", missing=missing, spare=of_file)
        assert caplog.messages == [
            "WARNING: layer 'x': 'ignore_missing': the file has no parameter 'b_stat/W', which gets no value from it, "
            f"but 'b_state/W'{more}. Is it misspelt? 'var_name_mapping' renames."
        ]
    warn_of_misspelt("layer 'x'", missing={"decoder/W": (3, 2)}, spare=spare)
    assert len(caplog.messages) == 1
