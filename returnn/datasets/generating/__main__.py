"""`python -m returnn.datasets.generating "Task12AXDataset:num_seqs=5"` prints the first sequences of a data set."""

from returnn.datasets.generating import demo

if __name__ == "__main__":
    demo()
