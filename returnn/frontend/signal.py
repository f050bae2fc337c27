"""Signal processing."""

from __future__ import annotations

from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend._out_dims import out_dim_for
from returnn.frontend._use_mask import masks_frames
from returnn.frontend.conv import calc_conv_out_length
from returnn.tensor import Dim, Tensor


def stft(
    x: Tensor,
    *,
    in_spatial_dim: Dim,
    frame_step: int,
    frame_length: int,
    fft_length: int | None = None,
    window_use_frame_length: bool = True,
    align_window_left: bool = True,
    window_enforce_even: bool = True,
    out_spatial_dim: Dim | None = None,
    out_dim: Dim | None = None,
    use_mask: bool | None = None,
) -> tuple[Tensor, Dim, Dim]:
    """
    Short-time Fourier transform with a Hann window. Only frames which are inside of the sequence come out.

    The defaults are what `tf.signal.stft` does. What `torch.stft` does with `center=False` and a Hann window of the
    size of the frame is `align_window_left=False, window_enforce_even=False`.

    :param x: {..., in_spatial_dim}, real
    :param in_spatial_dim: the samples
    :param frame_step: distance of frames, in samples
    :param frame_length: samples in a frame
    :param fft_length: samples which are transformed, at least `frame_length`; zeros fill them up. Default: the next
        power of two
    :param window_use_frame_length: whether the window is as long as the frame, otherwise as `fft_length`
    :param align_window_left: zeros are behind the window. Otherwise the window is in the middle of `fft_length` samples
        of x, and there are only frames with so many
    :param window_enforce_even: of a window of odd size, the last sample is 0
    :param out_spatial_dim: the frames; default: made from the samples
    :param out_dim: the frequencies, `fft_length // 2 + 1`
    :param use_mask: whether samples beyond the end of a sequence become zero before. Default: see `use_mask_default`
    :return: [..., out_spatial_dim, out_dim], complex; out_spatial_dim; out_dim
    """
    require_dims("stft: in_spatial_dim", x, [in_spatial_dim])
    if frame_step < 1 or frame_length < 1:
        raise fail(f"stft: frame_step {frame_step} and frame_length {frame_length} should be positive.")
    if fft_length is None:
        fft_length = 1 << (frame_length - 1).bit_length()
    if fft_length < frame_length:
        raise fail(f"stft: fft_length {fft_length} should be at least frame_length {frame_length}.")
    if use_mask is None:
        use_mask = masks_frames("stft")
    if use_mask and (x.raw_tensor is not None or in_spatial_dim.is_dim_known()):
        x = x.copy_masked(0.0, dims=[in_spatial_dim])
    size = frame_length if window_use_frame_length and align_window_left else fft_length
    frames_dim = calc_conv_out_length(in_spatial_dim, filter_size=size, stride=frame_step, padding="valid")
    out_spatial_dim = out_dim_for("stft", out_spatial_dim, frames_dim)
    frequencies = Dim(fft_length // 2 + 1, name="stft-freq", kind=Dim.Types.Feature)
    out_dim = out_dim_for("stft", out_dim, frequencies)
    out = get_backend_of(x).stft(
        x,
        in_spatial_dim=in_spatial_dim,
        frame_step=frame_step,
        frame_length=frame_length,
        fft_length=fft_length,
        window_use_frame_length=window_use_frame_length,
        align_window_left=align_window_left,
        window_enforce_even=window_enforce_even,
        out_spatial_dim=out_spatial_dim,
        out_dim=out_dim,
    )
    return out, out_spatial_dim, out_dim


__all__ = ["stft"]
