"""
The translation demo's model in plain PyTorch: the same sizes, data, vocabulary, size of batches and learning rates.

    TRANSLATION_DATA=FOLDER python rnn.py demos/translation/translation.config
    TRANSLATION_DATA=FOLDER python rnn.py demos/translation/translation.config ++task search
    TRANSLATION_DATA=FOLDER python benchmarks/translation.py translation

The argument is the folder that the demo has written its vocabulary and its learning rates to. Prints the loss of each
quarter of an epoch, and the BLEU of a beam search. Needs torch, sentencepiece and sacrebleu.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import sys
import time
from collections.abc import Iterator

import sacrebleu
import sentencepiece
import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "demos", "translation"))

from translation_data import SOURCE, TARGET, text_file

from returnn.engine.learning_rate_file import read_learning_rate_file

Pair = tuple[list[int], list[int], int]  # source, target, length of the target in characters

SIZE, HIDDEN, HEADS, LAYERS, DROPOUT, LABEL_SMOOTHING = 128, 512, 4, 3, 0.1, 0.1
BATCH_SIZE, MAX_SEQS, PARTS, BEAM = 2000, 200, 4, 4
END, PAD = 0, -1


class Model(nn.Module):
    """Encoder and decoder, as in "demos/translation/transformer.py"."""

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        options = {"dim_feedforward": HIDDEN, "dropout": DROPOUT, "batch_first": True, "norm_first": True}
        self.source = nn.Embedding(num_labels, SIZE)
        self.target = nn.Embedding(num_labels, SIZE)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(SIZE, HEADS, **options), LAYERS, nn.LayerNorm(SIZE), enable_nested_tensor=False
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(SIZE, HEADS, **options), LAYERS, nn.LayerNorm(SIZE)
        )
        self.out = nn.Linear(SIZE, num_labels)
        self.dropout = nn.Dropout(DROPOUT)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            if name in ("source.weight", "target.weight"):
                nn.init.normal_(parameter, std=SIZE**-0.5)

    def encode(self, source: torch.Tensor) -> torch.Tensor:
        """
        :param source: (batch, time), labels
        :return: (batch, time, size)
        """
        return self.encoder(self._embedded(self.source, source), src_key_padding_mask=source == PAD)

    def decode(self, encoder: torch.Tensor, source: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """
        :param encoder: (batch, time, size)
        :param source: (batch, time), only for its padding
        :param before: (batch, labels), the label before each one that is asked for
        :return: (batch, labels, num_labels), logits
        """
        later = torch.triu(torch.ones(before.shape[1], before.shape[1], dtype=torch.bool), diagonal=1)
        hidden = self.decoder(
            self._embedded(self.target, before), encoder, tgt_mask=later, memory_key_padding_mask=source == PAD
        )
        return self.out(hidden)

    def _embedded(self, table: nn.Embedding, labels: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(labels.shape[1])[:, None]
        rates = torch.exp(-torch.arange(SIZE // 2) * (torch.log(torch.tensor(10000.0)) / (SIZE // 2 - 1)))
        encoding = torch.cat([torch.sin(positions * rates), torch.cos(positions * rates)], dim=1)
        return self.dropout(table(labels.clamp(min=0)) * SIZE**0.5 + encoding)


def main() -> None:
    """Trains and decodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="with the vocabulary of the demo, and its learning rates")
    args = parser.parse_args()
    torch.manual_seed(1)
    vocab = sentencepiece.SentencePieceProcessor(model_file=os.path.join(args.folder, "pieces-given.model"))
    model = Model(vocab.vocab_size())
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    start = time.monotonic()
    train(model, read_pairs("train", vocab, args.folder), learning_rates(args.folder))
    print(f"training: {time.monotonic() - start:.0f} s")
    pairs = read_pairs("test", vocab, args.folder)
    found = [vocab.decode(labels) for labels in search(model, [source for source, _, _ in pairs])]
    print(sacrebleu.corpus_bleu(found, [read_lines(text_file("test", TARGET, args.folder))]))


def learning_rates(folder: str) -> list[float]:
    """:return: those of the demo's training, for each quarter of an epoch"""
    epochs = read_learning_rate_file(os.path.join(folder, "learning_rates"))
    return [epochs[epoch].learning_rate for epoch in sorted(epochs) if epochs[epoch].error]


def train(model: Model, pairs: list[Pair], rates: list[float]) -> None:
    """Trains, with these learning rates for each quarter of an epoch."""
    rnd = random.Random(1)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    loss_of = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=LABEL_SMOOTHING)
    parts: list[list[Pair]] = []
    for epoch, rate in enumerate(rates, 1):
        parts = parts or parts_of_epoch(pairs, rnd)
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        start, total, steps = time.monotonic(), 0.0, 0
        for source, target in batches(parts.pop(0)):
            before = nn.functional.pad(target[:, :-1], (1, 0), value=END)
            logits = model.decode(model.encode(source), source, before)
            loss = loss_of(logits.flatten(0, 1), target.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total, steps = total + loss.item(), steps + 1
        print(f"epoch {epoch}: {steps} steps, loss {total / steps:.3f}, {time.monotonic() - start:.0f} s", flush=True)


def parts_of_epoch(pairs: list[Pair], rnd: random.Random) -> list[list[Pair]]:
    """:return: the data in random order, where neighbours have a similar length, in as many parts as an epoch has"""
    shuffled = rnd.sample(pairs, len(pairs))
    bins = [sorted(shuffled[i::29], key=lambda pair: pair[2], reverse=bool(i % 2)) for i in range(29)]
    ordered = [pair for one in bins for pair in one]
    size = -(-len(ordered) // PARTS)
    return [ordered[i * size : (i + 1) * size] for i in range(PARTS)]


def batches(pairs: list[Pair]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """:return: source and target of each batch, (batch, time)"""
    batch: list[Pair] = []
    for pair in pairs:
        longest = max(max(len(one[0]), len(one[1])) for one in [*batch, pair])
        if batch and (longest * (len(batch) + 1) > BATCH_SIZE or len(batch) == MAX_SEQS):
            yield padded([source for source, _, _ in batch]), padded([target for _, target, _ in batch])
            batch = []
        batch.append(pair)
    yield padded([source for source, _, _ in batch]), padded([target for _, target, _ in batch])


def padded(seqs: list[list[int]]) -> torch.Tensor:
    """:return: (batch, time)"""
    return nn.utils.rnn.pad_sequence([torch.tensor(seq) for seq in seqs], batch_first=True, padding_value=PAD)


@torch.no_grad()
def search(model: Model, sources: list[list[int]]) -> list[list[int]]:
    """:return: the best hypotheses, by the mean of the scores of their labels"""
    model.eval()
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    found = {}
    for i in range(0, len(order), 50):
        part = order[i : i + 50]
        found.update(zip(part, search_batch(model, padded([sources[k] for k in part])), strict=True))
    return [found[i] for i in range(len(sources))]


def search_batch(model: Model, source: torch.Tensor) -> list[list[int]]:
    """:return: for each sequence"""
    num_seqs = source.shape[0]
    encoder = model.encode(source).repeat_interleave(BEAM, dim=0)
    repeated = source.repeat_interleave(BEAM, dim=0)
    labels = torch.full((num_seqs * BEAM, 1), END)
    scores = torch.tensor([0.0] + [-torch.inf] * (BEAM - 1)).repeat(num_seqs, 1)
    lengths = torch.ones(num_seqs, BEAM)
    ended = torch.zeros(num_seqs, BEAM, dtype=torch.bool)
    for _ in range(source.shape[1] * 2 + 10):
        log_probs = model.decode(encoder, repeated, labels)[:, -1].log_softmax(-1).reshape(num_seqs, BEAM, -1)
        stay = torch.full_like(log_probs, -torch.inf)
        stay[:, :, END] = 0.0
        totals = scores[:, :, None] + torch.where(ended[:, :, None], stay, log_probs)
        new_lengths = lengths + ~ended
        ranks = (totals / new_lengths[:, :, None]).flatten(1)
        best = ranks.topk(BEAM).indices
        beams, new = best // log_probs.shape[-1], best % log_probs.shape[-1]
        scores = totals.flatten(1).gather(1, best)
        lengths, ended = new_lengths.gather(1, beams), ended.gather(1, beams) | (new == END)
        rows = (beams + torch.arange(num_seqs)[:, None] * BEAM).flatten()
        labels = torch.cat([labels[rows], new.reshape(-1, 1)], dim=1)
        if ended.all():
            break
    hyps = labels.reshape(num_seqs, BEAM, -1)[:, 0, 1:].tolist()
    return [[*hyp, END][: [*hyp, END].index(END)] for hyp in hyps]


def read_pairs(split: str, vocab: sentencepiece.SentencePieceProcessor, folder: str) -> list[Pair]:
    """:return: labels of source and target, each with the end"""
    sources, targets = (read_lines(text_file(split, language, folder)) for language in (SOURCE, TARGET))
    labels = [vocab.encode(lines, add_eos=True) for lines in (sources, targets)]
    return list(zip(*labels, map(len, targets), strict=True))


def read_lines(name: str) -> list[str]:
    """:return: the sentences of a file"""
    with gzip.open(name, "rt", encoding="utf8") if name.endswith(".gz") else open(name, encoding="utf8") as file:
        return file.read().splitlines()


if __name__ == "__main__":
    main()
