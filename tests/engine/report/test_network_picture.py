"""`MODEL.network.svg`."""

import os

import pytest

from returnn.config import Config
from returnn.engine.report.network_picture import NetworkPicture
from returnn.log import log


@pytest.mark.parametrize(
    ("options", "filename"),
    [
        ({"model": "a/net"}, "a/net.network.svg"),
        ({}, None),
        ({"model": "a/net", "network_picture": False}, None),
        ({"model": "a/net", "dry_run": True}, None),
    ],
)
def test_file_is_beside_the_model(options, filename):
    assert NetworkPicture.of_training(Config(options)).filename == filename


def test_nothing_is_drawn_without_a_file():
    NetworkPicture(None).update(lambda: pytest.fail("was drawn"))


def test_a_file_that_is_up_to_date_is_left_alone(tmp_path):
    file = tmp_path / "net.network.svg"
    picture = NetworkPicture(str(file))
    picture.update(lambda: None)
    assert not file.exists()
    picture.update(lambda: "<svg>1</svg>")
    os.utime(file, (1, 1))
    picture.update(lambda: "<svg>1</svg>")
    assert file.stat().st_mtime == 1
    picture.update(lambda: "<svg>2</svg>")
    assert file.read_text() == "<svg>2</svg>"
    assert list(tmp_path.iterdir()) == [file]


def test_what_fails_is_not_said(tmp_path, capsys):
    log.initialize(verbosity=[4])

    def draw():
        raise ZeroDivisionError

    NetworkPicture(str(tmp_path / "net.network.svg")).update(draw)
    NetworkPicture(str(tmp_path / "no-such-folder" / "net.network.svg")).update(lambda: "<svg/>")
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr() == ("", "")
    log.initialize(verbosity=[5])
