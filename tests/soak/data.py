"""Data that is slow where a file says so."""

import os
import time

from returnn.datasets.hdf import HDFDataset

SLOW_FILE = "slow"  # in the working directory: seconds per sequence


class SlowDataset(HDFDataset):
    """An HDF file, read as slowly as `SLOW_FILE` says."""

    def _read_seq(self, corpus_seq_idx):
        if os.path.exists(SLOW_FILE):
            time.sleep(0.05)
        return super()._read_seq(corpus_seq_idx)
