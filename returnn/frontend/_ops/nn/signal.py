"""Signal processing."""

from __future__ import annotations

from typing import Any

import numpy

from returnn.frontend._ops.axes import AxesOps
from returnn.frontend._ops.creation import CreationOps
from returnn.tensor import Dim, Tensor
from returnn.tensor._frontend import frontend
from returnn.util.errors import DimError, DtypeError

_COMPLEX = {"float32": "complex64", "float64": "complex128"}


class SignalOps(CreationOps, AxesOps):
    """Signal processing. The Fourier transform itself is up to the backend."""

    @classmethod
    def stft(
        cls,
        x: Tensor,
        *,
        in_spatial_dim: Dim,
        frame_step: int,
        frame_length: int,
        fft_length: int,
        window_use_frame_length: bool = True,
        align_window_left: bool = True,
        window_enforce_even: bool = True,
        out_spatial_dim: Dim,
        out_dim: Dim,
    ) -> Tensor:
        """:return: [..., out_spatial_dim, out_dim], complex, see `returnn.frontend.stft`"""
        if x.dtype not in _COMPLEX:
            raise DtypeError(f"stft: {x} should be float32 or float64. Use rf.cast first.")
        if out_dim.size not in (None, fft_length // 2 + 1):
            raise DimError(f"stft: out_dim {out_dim} should have the size {fft_length // 2 + 1}.")
        rf = frontend()
        weights = stft_window(
            frame_length if window_use_frame_length else fft_length,
            fft_length,
            align_left=align_window_left,
            enforce_even=window_enforce_even,
        )
        window_dim = Dim(len(weights), name="stft-window")
        frames, frames_dim = rf.window(
            x, spatial_dim=in_spatial_dim, window_dim=window_dim, padding="valid", stride=frame_step
        )
        if frames_dim is not out_spatial_dim:
            frames = cls.replace_dim(frames, in_dim=frames_dim, out_dim=out_spatial_dim)
        rest = [dim for dim in frames.dims if dim not in (out_spatial_dim, window_dim)]
        out = Tensor("stft", [*rest, out_spatial_dim, out_dim], _COMPLEX[x.dtype], feature_dim=out_dim)
        if frames.raw_tensor is not None:
            weights_tensor = cls.convert_to_tensor(weights, dims=[window_dim], dtype=x.dtype, device=x.device)
            frames = (frames * weights_tensor).copy_compatible_to_dims([*rest, out_spatial_dim, window_dim])
            out.raw_tensor = cls.rfft_raw(frames.raw_tensor, fft_length)
        return out


def stft_window(size: int, fft_length: int, *, align_left: bool, enforce_even: bool) -> numpy.ndarray[Any, Any]:
    """
    :param size: of the window, in samples
    :param fft_length: at least the size
    :param align_left: otherwise the window is in the middle of `fft_length` samples, with zeros around it
    :param enforce_even: of a window of odd size, the last sample is 0, and the others are a window of even size
    :return: (size,) or (fft_length,): periodic Hann window
    """
    period = size - size % 2 if enforce_even and size > 1 else size
    window = numpy.zeros(size if align_left else fft_length)
    begin = 0 if align_left else (fft_length - size) // 2
    window[begin : begin + period] = 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(period) / period)
    return window
