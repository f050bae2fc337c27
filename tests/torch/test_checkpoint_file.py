"""Files of PyTorch that cannot be written."""

import errno
import io
import os

import pytest
import torch

from returnn.torch.checkpoint_file import load_checkpoint_file, write_checkpoint_file
from returnn.util.errors import UserError
from returnn.util.files import atomic_file


class FullFile(io.BufferedWriter):
    """On a disk that is full for some calls, as what is small may still have a place."""

    failing = range(0)

    def __init__(self, handle, _mode):
        super().__init__(io.FileIO(handle, "wb"))
        self.calls = 0

    def write(self, content):
        self.calls += 1
        if self.calls in self.failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(content)


@pytest.mark.parametrize("failing", [range(1, 2), range(1, 1000), range(20, 21), range(20, 1000)])
def test_a_full_disk_is_told_as_such_whatever_pytorch_makes_of_it(failing, tmp_path, monkeypatch):
    filename = str(tmp_path / "net.pt")
    write_checkpoint_file({"x": torch.ones(3)}, filename)
    monkeypatch.setattr(atomic_file, "open", FullFile, raising=False)
    monkeypatch.setattr(FullFile, "failing", failing)
    with pytest.raises(UserError) as error:
        write_checkpoint_file({f"x{index}": torch.ones(50, 50) for index in range(10)}, filename)
    monkeypatch.undo()
    assert str(error.value) == f"cannot write the file {filename!r}: No space left on device."
    assert list(load_checkpoint_file(filename)) == ["x"]
    assert [path.name for path in tmp_path.iterdir()] == ["net.pt"]
