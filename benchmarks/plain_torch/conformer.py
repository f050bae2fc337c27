"""
A Conformer with CTC in plain PyTorch:
what `rf.encoder.conformer` computes by default, with parameters of the same names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional

EPSILON, BATCH_NORM_EPSILON, MOMENTUM = 1e-6, 1e-3, 0.1


class FeedForward(nn.Module):
    """Two linear maps."""

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.linear_ff = nn.Linear(size, 4 * size)
        self.linear_out = nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """:return: (batch, time, size)"""
        return self.linear_out(functional.dropout(functional.silu(self.linear_ff(x)), self.dropout, self.training))


class MaskedBatchNorm(nn.Module):
    """Batch norm over all frames but those of padding."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_variance", torch.ones(size))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        :param x: (batch, time, size)
        :param mask: (batch, time), bool
        :return: (batch, time, size)
        """
        mean, variance = self.running_mean, self.running_variance
        if self.training:
            weights, count = mask[:, :, None], mask.sum()
            mean = torch.where(weights, x, 0.0).sum((0, 1)) / count
            variance = torch.where(weights, (x - mean) ** 2, 0.0).sum((0, 1)) / count
            with torch.no_grad():
                self.running_mean.lerp_(mean, MOMENTUM)
                self.running_variance.lerp_(variance * (count / (count - 1)), MOMENTUM)
        return (x - mean) * (torch.rsqrt(variance + BATCH_NORM_EPSILON) * self.gamma) + self.beta


class Convolution(nn.Module):
    """The convolution block."""

    def __init__(self, size: int, kernel_size: int) -> None:
        super().__init__()
        self.positionwise_conv1 = nn.Linear(size, 2 * size)
        self.depthwise_conv = nn.Conv1d(size, size, kernel_size, groups=size, padding="same")
        self.norm = MaskedBatchNorm(size)
        self.positionwise_conv2 = nn.Linear(size, size)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """:return: (batch, time, size)"""
        x = functional.glu(self.positionwise_conv1(x)) * mask[:, :, None]
        x = self.depthwise_conv(x.transpose(1, 2)).transpose(1, 2)
        return self.positionwise_conv2(functional.silu(self.norm(x, mask)))


class SelfAttention(nn.Module):
    """With relative positions (Dai et al. 2019)."""

    def __init__(self, size: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.qkv = nn.Linear(size, 3 * size)
        self.proj = nn.Linear(size, size)
        self.linear_pos = nn.Linear(size, size, bias=False)
        self.pos_bias_u = nn.Parameter(torch.zeros(num_heads, size // num_heads))
        self.pos_bias_v = nn.Parameter(torch.zeros(num_heads, size // num_heads))

    def forward(self, x: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """
        :param x: (batch, time, size)
        :param mask: (batch, time), bool
        :param positions: (2 * time - 1, size)
        :return: (batch, time, size)
        """
        batch, time, _ = x.shape
        q, k, v = self.qkv(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2).chunk(3, dim=-1)
        p = self.linear_pos(positions).unflatten(-1, (self.num_heads, -1)).transpose(0, 1)
        scale = q.shape[-1] ** -0.5
        q = q * scale
        by_content = (q + self.pos_bias_u[:, None] * scale) @ k.mT
        by_position = (q + self.pos_bias_v[:, None] * scale) @ p.mT
        padded = functional.pad(by_position, (1, 0)).view(batch, self.num_heads, 2 * time, time)
        shifted = padded[:, :, 1:].view(batch, self.num_heads, time, 2 * time - 1)[..., :time]
        energy = (by_content + shifted).masked_fill(~mask[:, None, None], -torch.inf)
        weights = functional.dropout(torch.softmax(energy, dim=-1), self.dropout, self.training)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A block of the Conformer."""

    def __init__(self, size: int, num_heads: int, kernel_size: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.ffn1, self.ffn2 = FeedForward(size, dropout), FeedForward(size, dropout)
        self.conv_block = Convolution(size, kernel_size)
        self.self_att = SelfAttention(size, num_heads, dropout)
        for name in ("ffn1", "self_att", "conv", "ffn2"):
            setattr(self, f"{name}_layer_norm", nn.LayerNorm(size, EPSILON))
        self.final_layer_norm = nn.LayerNorm(size, EPSILON)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """:return: (batch, time, size)"""
        x = x + 0.5 * self._dropped(self.ffn1(self.ffn1_layer_norm(x)))
        x = x + self._dropped(self.self_att(self.self_att_layer_norm(x), mask, positions))
        x = x + self._dropped(self.conv_block(self.conv_layer_norm(x), mask))
        x = x + 0.5 * self._dropped(self.ffn2(self.ffn2_layer_norm(x)))
        return self.final_layer_norm(x)

    def _dropped(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, self.dropout, self.training)


class Model(nn.Module):
    """Log-mel features to logits of labels and blank."""

    def __init__(
        self,
        *,
        num_mel: int,
        num_labels: int,
        size: int,
        num_layers: int,
        num_heads: int,
        kernel_size: int,
        channels: Sequence[int],
        dropout: float,
    ) -> None:
        """
        :param num_mel: features that come in
        :param num_labels: without blank
        :param size: features of the blocks
        :param num_layers: number of blocks
        :param num_heads: of the self-attention
        :param kernel_size: of the convolution in a block
        :param channels: of each convolution before the blocks, which leaves half of the frames and features
        :param dropout: of all parts
        """
        super().__init__()
        self.size, self.dropout = size, dropout
        sizes = [1, *channels]
        self.conv_layers = nn.ModuleList(
            nn.Conv2d(sizes[i], sizes[i + 1], 3, stride=2, padding=1) for i in range(len(channels))
        )
        num_features = -(-num_mel // 2 ** len(channels)) * channels[-1]
        self.input_projection = nn.Linear(num_features, size, bias=False)
        self.layers = nn.ModuleList(Block(size, num_heads, kernel_size, dropout) for _ in range(num_layers))
        self.logits = nn.Linear(size, num_labels + 1)

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        :param features: (batch, time, num_mel)
        :param lengths: (batch,)
        :return: logits (batch, time, num_labels + 1), lengths
        """
        x = features[:, None]
        for conv in self.conv_layers:
            x = functional.relu(conv(x * _mask(lengths, x.shape[2])[:, None, :, None]))
            lengths = (lengths + 1) // 2
        x = self.input_projection(x.permute(0, 2, 3, 1).flatten(2))
        x = functional.dropout(x, self.dropout, self.training)
        mask, positions = _mask(lengths, x.shape[1]), self._positions(x.shape[1])
        for layer in self.layers:
            x = layer(x, mask, positions)
        return self.logits(x), lengths

    def _positions(self, time: int) -> torch.Tensor:
        """:return: (2 * time - 1, size)"""
        half = self.size // 2
        frequency = torch.exp(torch.arange(half) * (-2.0 * math.log(1e4) / self.size))
        angle = torch.arange(1 - time, time)[:, None] * frequency
        return torch.cat([torch.sin(angle), torch.cos(angle)], dim=-1)

    def load(self, values: Mapping[str, torch.Tensor]) -> None:
        """:param values: parameters of the model of the frontend, by name"""
        own = {}
        for name, value in values.items():
            name = name.removeprefix("encoder.").removeprefix("input_layer.")
            if name.endswith(".filter"):
                name, value = name.replace(".filter", ".weight"), value.movedim((-1, -2), (0, 1))
            elif name.endswith(".weight"):
                value = value.t()
            elif name.endswith("norm.scale"):
                name = name.replace(".scale", ".weight")
            own[name] = value
        self.load_state_dict(own)


def loss_of(
    model: Model,
    features: torch.Tensor,
    num_frames: torch.Tensor,
    labels: torch.Tensor,
    num_labels: torch.Tensor,
) -> torch.Tensor:
    """:return: CTC loss per label"""
    logits, lengths = model(features, num_frames)
    log_probs = torch.log_softmax(logits, dim=-1).transpose(0, 1)
    blank = logits.shape[-1] - 1
    loss = functional.ctc_loss(log_probs, labels.long(), lengths, num_labels, blank=blank, reduction="sum")
    return loss / num_labels.sum()


def _mask(lengths: torch.Tensor, time: int) -> torch.Tensor:
    """:return: (batch, time), bool"""
    return torch.arange(time) < lengths[:, None]
