"""What `docs/migration.md` says of errors: each row of its table is a mistake, and the message is the literal one."""

from pathlib import Path

import pytest

from returnn.config import Config
from returnn.tf.inspection.config_check import check_config
from returnn.util.behavior_version import BehaviorVersion

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "migration.md").read_text(encoding="utf8")
_TABLE = PAGE.partition("| mistake | in the config | what one sees |")[2].partition("\n\n")[0]
ROWS = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in _TABLE.splitlines()[2:]]
_CONFIG = f"""#!rnn.py
behavior_version = {BehaviorVersion._latest_behavior_version}
train = {{"class": "Task12AXDataset", "num_seqs": 3}}
extern_data = {{"data": {{"dim": 9}}, "classes": {{"dim": 2, "sparse": True}}}}
network = {{
    "lstm": {{"class": "rec", "unit": "lstm", "n_out": 4, "from": "data"}},
    "output": {{"class": "softmax", "loss": "ce", "from": "lstm", "target": "classes"}},
}}
batch_size, max_seqs, learning_rate = 1000, 10, 0.01
"""


@pytest.fixture
def errors_of(tmp_path):
    """Errors of the config with more lines at its end."""

    def check(lines):
        (tmp_path / "my.config").write_text(f"{_CONFIG}{lines}\n", encoding="utf8")
        config = Config()
        config.load_file(str(tmp_path / "my.config"))
        BehaviorVersion.set(config.options.behavior_version)
        return check_config(config).errors

    BehaviorVersion.reset()
    yield check
    BehaviorVersion.reset()


def test_the_config_is_right_without_a_mistake(errors_of):
    assert errors_of("") == []
    assert len(ROWS) > 8


@pytest.mark.parametrize(("mistake", "code", "message"), ROWS, ids=[mistake for mistake, _, _ in ROWS])
def test_each_mistake_has_its_message(mistake, code, message, errors_of):
    lines = [line.strip("`") for line in message.split("<br>")]
    (error,) = errors_of(code.strip("`"))
    assert [line.strip() for line in error.splitlines()] == lines
