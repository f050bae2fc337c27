"""
Go over a data set: the sequences of an epoch in its order, and the batches that a training would make.

    python demos/small/iterate_dataset.py

No framework is loaded for that. `returnn tool dump-dataset my.config` shows the data of a config.

Reaches: error <= 0
"""

import small_data

from returnn.datasets import init_dataset

dataset = init_dataset(small_data.echoes(200, seed=1, seq_ordering="laplace:.50"))
print("inputs and labels, (size, number of axes):", dataset.num_outputs)

num_wrong = num_frames = 0
for epoch in (1, 2):
    dataset.init_seq_order(epoch=epoch)  # the same epoch has the same order, in each run
    seq_idx = 0
    while dataset.is_less_than_num_seqs(seq_idx):  # so that data sets can be used that do not know how many they have
        dataset.load_seqs(seq_idx, seq_idx + 1)
        frames, letters = (dataset.get_data(seq_idx, key) for key in ("data", "classes"))
        if seq_idx < 3:
            print(f"epoch {epoch}, {dataset.get_tag(seq_idx)}: {frames.shape} {frames.dtype}, letters {letters}")
        num_wrong += int((letters[:2] != 0).sum()) + (len(frames) != len(letters))
        num_frames += len(frames)
        seq_idx += 1

dataset.init_seq_order(epoch=1)
batches = dataset.generate_batches(recurrent_net=True, batch_size=300, max_seqs=20)
sizes = []
while batches.has_more():
    (batch,) = batches.peek_next_n(1)
    sizes.append((batch.num_slices, batch.max_num_frames_per_slice["data"]))
    batches.advance(1)
print("batches (sequences, frames):", *sizes[:5])
assert sum(num for num, _ in sizes) == 200
assert all(num * longest <= 300 for num, longest in sizes)
print(f"error: {num_wrong / num_frames:.4f}")
