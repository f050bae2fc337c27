"""Reductions over several processes."""

from __future__ import annotations

import math
from pathlib import Path

import torch
import torch.distributed
import torch.multiprocessing

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor


def _run(rank: int, folder: str) -> None:
    store = torch.distributed.FileStore(f"{folder}/store", 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    axis = Dim(2, name="axis")
    value = torch.tensor([1.0, 2.0]) + 10 * rank
    value.requires_grad_()
    with rf.backend_ctx("torch"):
        x = Tensor("x", [axis], "float32", raw_tensor=value)
        results = {mode: rf.reduce(x, mode=mode, axis=axis, distributed=True) for mode in ("sum", "max", "logsumexp")}
    results["sum"].raw_tensor.backward()
    torch.save([{k: v.raw_tensor.detach() for k, v in results.items()}, value.grad], f"{folder}/{rank}")
    torch.distributed.barrier()  # a process that goes away first would break the connection of the other one
    torch.distributed.destroy_process_group()


def test_all_processes_get_the_reduction_over_all_of_them(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_run, args=(str(tmp_path),), nprocs=2)
    log_sum = math.log(sum(math.exp(v) for v in (1, 2, 11, 12)))
    for rank in range(2):
        results, gradient = torch.load(tmp_path / str(rank))
        assert results["sum"] == 26
        assert results["max"] == 12
        torch.testing.assert_close(results["logsumexp"], torch.tensor(log_sum))
        assert gradient.tolist() == [2, 2], "each of the two processes has a loss, which depends on both"
