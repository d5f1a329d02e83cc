"""Draw features, pitch and mel filters with matplotlib (extra ``plot``).

All functions take NumPy arrays or tensors, draw into ``axes`` (the current axes if None) and return the axes, so that
you can change titles, limits and lines afterwards. ``options`` are the options of the features or the module that
computed them, and give the axes their scales in seconds and Hz.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from io_ark.extras import import_extra
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.mel import compute_mel_banks
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.options.spectral import FbankOptions, FrameOptions, MelFeatureOptions, SpectrogramOptions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["compare", "show_features", "show_mel_banks", "show_pitch"]

Floats = npt.NDArray[Any]
TICKS = 6  # Largest number of labels on the vertical axis. More labels would overlap.
UNVOICED = 0.2  # Below this correlation (NCCF), a frame is probably unvoiced, so its pitch is drawn pale.


def show_features(
    features: Any,
    options: Any = None,
    *,
    axes: Axes | None = None,
    title: str = "",
    colorbar: bool = True,
    limits: tuple[float, float] | None = None,
    cmap: str = "viridis",
) -> Axes:
    """Draw features as an image, with time from left to right and mel bins, Hz or coefficients from bottom to top.

    Args:
        features: (frames, dim), an array or a tensor. NaN and infinite values are drawn in red.
        options: the options or the module that computed the features. If None, the axes count frames and columns.
        axes: matplotlib axes to draw into; the current axes if None.
        title: title of the axes.
        colorbar: True to draw the scale of the colors.
        limits: values of the first and the last color; the range of the finite values if None.
        cmap: name of a matplotlib colormap.

    Returns:
        The axes.

    Raises:
        FeatureError: the features do not have two dimensions or are empty, or ``options`` are not options of a spectral
            feature.
        ModuleNotFoundError: matplotlib is not installed.

    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from kaldi_compat import plot
    >>> from kaldi_compat.numpy import Fbank
    >>> fbank = Fbank(num_mel_bins=40, dither=0.0)
    >>> axes = plot.show_features(fbank(np.random.default_rng(0).standard_normal(16000) * 1000), fbank)
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('time in seconds', 'mel bin (center in Hz)')
    """
    target: Axes = _prepare_axes(axes, title)
    values, frame_options = _convert_features(features), _get_frame_options(options)
    colors = import_extra("matplotlib").colormaps[cmap].with_extremes(bad="red")
    color_limits = _find_range(values) if limits is None else limits
    image = _draw_image(target, values, frame_options, step=1.0, cmap=colors, limits=color_limits)
    target.set_xlabel("frame" if frame_options is None else "time in seconds")
    _label_columns(target, frame_options, values.shape[1])
    if colorbar:
        target.figure.colorbar(image, ax=target, label=_get_color_label(frame_options))
    return target


def show_pitch(
    track: Any,
    options: Any = None,
    *,
    spectrogram: Any = None,
    spectrogram_options: Any = None,
    axes: Axes | None = None,
    title: str = "",
) -> Axes:
    """Draw a pitch track over time, alone or over a spectrogram. The line of voiced frames is thick.

    Args:
        track: (frames, 2): correlation and pitch in Hz, the output of ``Pitch`` or ``compute-kaldi-pitch-feats``.
        options: the options or the module of the pitch. If None, the time axis counts frames, except over a
            spectrogram, where Kaldi's default options give the times in seconds.
        spectrogram: (frames, dim), the output of ``Spectrogram``, drawn behind the track; None for no spectrogram.
        spectrogram_options: the options or the module of the spectrogram; Kaldi's defaults if None.
        axes: matplotlib axes to draw into; the current axes if None.
        title: title of the axes.

    Returns:
        The axes.

    Raises:
        FeatureError: the track is empty or does not have two columns, or the spectrogram or its options are invalid.
        ModuleNotFoundError: matplotlib is not installed.

    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from kaldi_compat import PitchOptions, plot
    >>> axes = plot.show_pitch(np.array([[0.9, 110.0], [0.9, 112.0], [0.1, 115.0]]), PitchOptions())
    >>> axes.get_ylabel()
    'pitch in Hz'
    """
    target: Axes = _prepare_axes(axes, title)
    values = _convert_features(track)
    if values.shape[1] != 2:
        raise FeatureError(
            f"a pitch track has the shape (frames, 2), not {values.shape}: call show_features for processed pitch"
        )
    pitch_options = getattr(options, "options", options)
    if pitch_options is None and spectrogram is not None:
        pitch_options = PitchOptions()  # The times are in seconds, as on the axis of the spectrogram.
    times = _compute_frame_times(len(values), pitch_options)
    if spectrogram is not None:
        _draw_spectrogram(
            target, _convert_features(spectrogram), _get_frame_options(spectrogram_options) or SpectrogramOptions()
        )
    is_voiced = values[:, 0] >= UNVOICED
    color = "C0" if spectrogram is None else "white"
    target.plot(times, values[:, 1], color=color, alpha=0.4, linewidth=1)
    target.plot(times, np.where(is_voiced, values[:, 1], np.nan), color=color, linewidth=2.5, label="pitch")
    target.set_xlabel("frame" if pitch_options is None else "time in seconds")
    target.set_ylabel("pitch in Hz" if spectrogram is None else "frequency in Hz")
    return target


def show_mel_banks(
    options: Any = None, *, vtln_warp: float | Sequence[float] = 1.0, axes: Axes | None = None, title: str = ""
) -> Axes:
    """Draw the weights of mel filters over frequency.

    Args:
        options: options of the mel filters, or the module; Kaldi's defaults of fbank if None.
        vtln_warp: VTLN factor, or several factors, whose filters are drawn over each other.
        axes: matplotlib axes to draw into; the current axes if None.
        title: title of the axes.

    Returns:
        The axes.

    Raises:
        FeatureError: the options have no mel filters.
        OptionError: the filters cannot be computed from the options.
        ModuleNotFoundError: matplotlib is not installed.

    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from kaldi_compat import FbankOptions, plot
    >>> axes = plot.show_mel_banks(FbankOptions(num_mel_bins=10), vtln_warp=[1.0, 1.1])
    >>> axes.get_xlabel(), len(axes.lines)
    ('frequency in Hz', 20)
    """
    target: Axes = _prepare_axes(axes, title)
    frame_options = FbankOptions() if options is None else _get_frame_options(options)
    if not isinstance(frame_options, MelFeatureOptions):
        raise FeatureError(f"{type(frame_options).__name__} has no mel filters: pass the options of fbank, MFCC or PLP")
    factors = [float(factor) for factor in np.atleast_1d(np.asarray(vtln_warp))]
    for number, factor in enumerate(factors):
        weights = compute_mel_banks(frame_options, factor).weights
        frequencies = np.arange(len(weights)) * frame_options.sample_frequency / frame_options.padded_window_size
        style = "--" if number else "-"
        lines = target.plot(frequencies, weights, color=f"C{number}", linewidth=1, linestyle=style)
        lines[0].set_label(f"VTLN factor {factor:g}" if len(factors) > 1 or factor != 1 else "weights")
    if len(factors) > 1:
        target.legend(loc="upper right")
    target.set_xlabel("frequency in Hz")
    target.set_ylabel("weight")
    return target


def compare(
    first: Any,
    second: Any,
    options: Any = None,
    *,
    names: tuple[str, str] = ("first", "second"),
    axes: Sequence[Axes] | None = None,
) -> Sequence[Axes]:
    """Draw two feature matrices with the same colors, and the difference ``second - first``.

    Args:
        first: (frames, dim), an array or a tensor.
        second: features of the same shape.
        options: the options or the module that computed the features. If None, the axes count frames and columns.
        names: titles of the two matrices.
        axes: three matplotlib axes; None for a new figure.

    Returns:
        The three axes. The title of the third axes has the largest and the mean absolute difference of finite values.

    Raises:
        FeatureError: the features are not matrices of the same shape, or ``options`` are not options of a spectral
            feature.
        ModuleNotFoundError: matplotlib is not installed.

    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from kaldi_compat import plot
    >>> feats = np.zeros((50, 4))
    >>> plot.compare(feats, feats + 0.5)[2].get_title()
    'second - first: largest 0.5, mean 0.5'
    """
    pyplot = import_extra("matplotlib.pyplot", "Plots")
    values_1, values_2 = _convert_features(first), _convert_features(second)
    if values_1.shape != values_2.shape:
        raise FeatureError(
            f"cannot compare features of shapes {values_1.shape} and {values_2.shape}: pass arrays of the same shape"
        )
    if axes is None:
        _, axes = pyplot.subplots(3, 1, figsize=(8, 7), sharex=True, layout="constrained")
    limits = _find_range(np.concatenate((values_1, values_2)))
    for target, values, name in zip(axes, (values_1, values_2), names, strict=False):
        show_features(values, options, axes=target, title=name, limits=limits)
    with np.errstate(invalid="ignore"):
        difference = np.where(values_1 == values_2, 0.0, values_2.astype(np.float64) - values_1)
    errors = np.abs(difference[np.isfinite(difference)])
    largest, mean = (float(errors.max()), float(errors.mean())) if errors.size else (float("nan"), float("nan"))
    title = f"{names[1]} - {names[0]}: largest {largest:.3g}, mean {mean:.3g}"
    if nonfinite_count := int(difference.size - errors.size):
        title += f", {nonfinite_count} not finite"
    show_features(
        difference, options, axes=axes[2], title=title, limits=(-(largest or 1.0), largest or 1.0), cmap="RdBu_r"
    )
    for target in axes[:2]:
        target.set_xlabel("")
    return axes


def _prepare_axes(axes: Axes | None, title: str) -> Any:
    """Return the axes to draw into, the current axes if ``axes`` is None. If ``title`` is not empty, set the title."""
    target = import_extra("matplotlib.pyplot", "Plots").gca() if axes is None else axes
    if title:
        target.set_title(title)
    return target


def _draw_image(
    axes: Any, values: Floats, options: FrameOptions | None, *, step: float, cmap: Any, limits: tuple[float, float]
) -> Any:
    """Draw a matrix (frames, columns) as an image over time, and return the image.

    ``step`` is the distance between columns in units of the vertical axis. ``limits`` are the values of the first and
    the last color. Times are in seconds with ``options``, otherwise in frames.
    """
    low, high = limits
    return axes.imshow(
        np.ma.masked_invalid(values.T),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        extent=(*_compute_time_extent(len(values), options), -step / 2, (values.shape[1] - 0.5) * step),
        cmap=cmap,
        vmin=low,
        vmax=high,
    )


def _convert_features(features: Any) -> Floats:
    """Convert features to an array (frames, dim). Raise FeatureError if they are empty or not a matrix."""
    if hasattr(features, "detach"):
        features = features.detach().cpu()
    values = np.asarray(features)
    if values.ndim != 2 or not values.size:
        raise FeatureError(
            f"the features have the shape {values.shape}: pass the features of one utterance, (frames, dim)"
        )
    return values


def _get_frame_options(options: Any) -> FrameOptions | None:
    """Return the options of a spectral feature or its module; None for None. Raise FeatureError for other options."""
    frame_options = getattr(options, "options", options)
    if frame_options is not None and not isinstance(frame_options, FrameOptions):
        raise FeatureError(
            f"{type(frame_options).__name__} does not describe a spectral feature: pass options such as FbankOptions"
        )
    return frame_options


def _find_range(values: Floats) -> tuple[float, float]:
    """Return the smallest and the largest finite value; (0, 1) if no value is finite."""
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _compute_frame_times(count: int, options: Any) -> Floats:
    """Return the centers of ``count`` frames in seconds, or the indices of the frames if ``options`` is None."""
    indices = np.arange(count, dtype=np.float64)
    if options is None:
        return indices
    first_center = options.frame_length / 2 if options.snip_edges else options.frame_shift / 2
    return np.asarray((indices * options.frame_shift + first_center) / 1000)


def _compute_time_extent(count: int, options: FrameOptions | None) -> tuple[float, float]:
    """Return the left and the right edge of an image of ``count`` frames, in seconds, or in frames without options."""
    half_frame = 0.5 if options is None else options.frame_shift / 2000
    times = _compute_frame_times(count, options)
    return float(times[0] - half_frame), float(times[-1] + half_frame)


def _label_columns(axes: Axes, options: FrameOptions | None, num_columns: int) -> None:
    """Label the vertical axis of an image of features with ``num_columns`` columns.

    The labels are mel bins and their centers in Hz for fbank, frequencies in Hz for spectrograms, indices of
    coefficients for other features, and indices of columns without options.
    """
    if isinstance(options, FbankOptions):
        centers = compute_mel_banks(options).centers
        first_bin = int(options.use_energy and not options.htk_compat)  # In HTK's order, the energy is the last column.
        if num_columns >= len(centers) + first_bin:
            bins = np.unique(np.linspace(0, len(centers) - 1, TICKS).round().astype(int))
            axes.set_yticks(bins + first_bin, [f"{bin_} ({centers[bin_]:.0f})" for bin_ in bins])
        axes.set_ylabel("mel bin (center in Hz)")
    elif isinstance(options, SpectrogramOptions):
        frequencies = np.linspace(0, options.sample_frequency / 2, TICKS - 1)
        step = options.sample_frequency / options.padded_window_size
        axes.set_yticks(frequencies / step, [f"{frequency:.0f}" for frequency in frequencies])
        axes.set_ylabel("frequency in Hz")
    else:
        axes.set_ylabel("column" if options is None else "coefficient")
        axes.locator_params(axis="y", integer=True)


def _get_color_label(options: FrameOptions | None) -> str:
    """Return the label of the color scale of features."""
    if isinstance(options, FbankOptions):
        return "log energy" if options.use_log_fbank else "energy"
    return "log power" if isinstance(options, SpectrogramOptions) else "value"


def _draw_spectrogram(axes: Axes, values: Floats, options: FrameOptions) -> None:
    """Draw a spectrogram (frames, dim) up to 1000 Hz, with an axis in Hz, so that pitch can be drawn over it.

    The colors range from the 5th to the 99.8th percentile of the finite values.
    """
    step = options.sample_frequency / options.padded_window_size
    low, high = np.percentile(values[np.isfinite(values)], (5, 99.8)) if np.isfinite(values).any() else (0, 1)
    _draw_image(axes, values, options, step=step, cmap="magma", limits=(low, high))
    axes.set_ylim(0, min(1000.0, options.sample_frequency / 2))
