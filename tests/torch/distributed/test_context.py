"""What code of a config is told about the processes of a training."""

from __future__ import annotations

import pytest

from returnn.config import Config
from returnn.torch.distributed import get_ctx


def test_place_among_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config({"torch_distributed": {}})
    for name in ("RANK", "WORLD_SIZE", "TF_CONFIG", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    assert get_ctx(config) is None
    for name, value in {"RANK": 5, "WORLD_SIZE": 8, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 4}.items():
        monkeypatch.setenv(name, str(value))
    ctx = get_ctx(config)
    assert ctx is not None
    assert (ctx.rank(), ctx.size(), ctx.local_rank(), ctx.local_size()) == (5, 8, 1, 4)
    assert get_ctx(Config({})) is None
