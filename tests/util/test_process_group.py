"""Which process this is, by the variables that launchers set."""

from __future__ import annotations

import json

import pytest

from returnn.util.errors import UserError
from returnn.util.system.process_group import ProcessPlace, find_place

WORKERS = ["a:1", "b:2", "b:3"]


def tf_config(cluster, kind="worker", index=0):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "3", "SLURM_PROCID": "0"}, None),  # a job, but no step of several tasks
        (
            {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
            ProcessPlace(3, 4, 1, 2, "torchrun"),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": "0",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
            },
            ProcessPlace(1, 2, 0, 1, "mpi"),
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, ProcessPlace(1, 2, 1, 2, "mpi")),
        (
            {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "0", "PMI_SIZE": "4"},
            ProcessPlace(2, 4, 0, 4, "slurm"),
        ),
        (tf_config({"worker": WORKERS}, index=2), ProcessPlace(2, 3, 1, 2, "TF_CONFIG", tuple(WORKERS))),
        (
            tf_config({"worker": WORKERS[1:], "chief": WORKERS[:1]}, index=0),
            ProcessPlace(1, 3, 0, 2, "TF_CONFIG", tuple(WORKERS)),
        ),
        (tf_config({}), None),
    ],
)
def test_place(environ, expected):
    assert find_place(environ) == expected


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"TF_CONFIG": "{"}, "TF_CONFIG is wrong"),
        (tf_config({"worker": WORKERS}, kind="ps"), "is of type 'ps'"),
        (tf_config({"worker": WORKERS}, index=3), "process 3 of 3"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "torchrun: the environment variables RANK, WORLD_SIZE"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "process 2 of 2"),
    ],
)
def test_errors(environ, text):
    with pytest.raises(UserError, match=text):
        find_place(environ)
