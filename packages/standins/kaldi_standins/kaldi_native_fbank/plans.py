"""Convert options to plans of the exact engine."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from kaldi_compat.errors import OptionError
from kaldi_compat.exact import plan as exact
from kaldi_compat.exact import tables
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.librosa_mel import compute_librosa_filters
from kaldi_compat.exact.mel import compute_mel_banks
from kaldi_compat.options import spectral as ours
from kaldi_compat.options.base import require
from kaldi_standins.kaldi_native_fbank.options import (
    EPSILON,
    FbankOptions,
    FrameExtractionOptions,
    MelBanksOptions,
    MfccOptions,
    RawAudioSamplesOptions,
    WhisperFeatureOptions,
)

PlanOptions = FbankOptions | MfccOptions | RawAudioSamplesOptions
WINDOWS = (*ours.WINDOW_TYPES, "hann")
# Users create a feature for each utterance, so everything that depends only on the options is cached.
cached_by_options = functools.lru_cache(maxsize=64)


@cached_by_options
def make_our_options(options_class: Any, **values: Any) -> Any:
    """Return kaldi-compat's options of the class ``options_class``. Raise OptionError if Kaldi refuses a value."""
    return options_class(**values)


def make_plan(opts: PlanOptions) -> exact.Plan:
    """Return the plan that computes the feature of ``opts``.

    Raise OptionError if Kaldi refuses a value, the window is unknown, or ``htk_mode`` is set for MFCCs.
    """
    options_class: Any = type(opts)
    return _make_cached_plan(options_class, tuple(opts.flatten().items()))


@cached_by_options
def _make_cached_plan(options_class: Any, items: tuple[tuple[str, Any], ...]) -> exact.Plan:
    """Return the plan for options of ``options_class``. ``items`` has their names and values in a hashable form."""
    values = dict(items)
    window = check_window(values["window_type"])
    values["window_type"] = "hanning" if window == "hann" else window
    values["allow_empty_bins"] = values.get("is_librosa", False)
    # A plan can only take Kaldi's logarithm. OnlineFbank takes any other logarithm of the plan's linear energies.
    values["use_log_fbank"] = values.get("use_log_fbank", True) and has_kaldis_log(values)
    if options_class is RawAudioSamplesOptions:
        # Raw frames need no FFT, but a plan refuses an odd number of samples unless the FFT is padded.
        values |= {"energy_floor": 0.0, "round_to_power_of_two": True}
    elif values["htk_mode"] and options_class is MfccOptions:
        raise OptionError("mel_opts.htk_mode=True is not supported with MfccOptions: set mel_opts.htk_mode=False")
    plan = exact.make_plan(options_class.convert(values))
    changes: dict[str, Any] = {}
    if window == "hann":
        changes["window"] = tables.make_window(window, plan.size)
    if options_class is RawAudioSamplesOptions:
        changes |= {"kind": "frames", "dim": plan.size, "use_energy": False}
    elif values["is_librosa"] or values["htk_mode"]:
        changes["mel"] = exact.make_mel_table(make_filters(items), np.zeros(values["num_bins"], np.float32))
    return dataclasses.replace(plan, **changes) if changes else plan


def has_kaldis_log(values: dict[str, Any]) -> bool:
    """Return True if options take the logarithm of mel energies as Kaldi does, with a floor of ``EPSILON``.

    ``htk_mode`` has a different floor. ``values`` maps names of options to values. The names ``use_log_floor``, ``eps``
    and ``htk_mode`` may be missing.
    """
    has_kaldis_floor = values.get("use_log_floor", True) and values.get("eps", EPSILON) == EPSILON
    return bool(has_kaldis_floor and not values.get("htk_mode"))


def check_window(name: str) -> str:
    """Return the name of a window, or raise OptionError if the name is not in :data:`WINDOWS`."""
    require(name in WINDOWS, f"invalid window type: {name}; choose from {', '.join(WINDOWS)}")
    return name


@cached_by_options
def make_window(name: str, size: int, blackman_coeff: float = 0.42) -> Floats:
    """Return a cached, read-only window (size,). Raise OptionError for an unknown name or a size below 1."""
    require(size > 0, f"a window needs at least one sample, not {size}")
    return tables.make_window(check_window(name), size, blackman_coeff)


@cached_by_options
def make_filters(items: tuple[tuple[str, Any], ...], vtln_warp: float = 1.0) -> Floats:
    """Return read-only mel filters (points // 2 + 1, num_bins) for the names and values ``items`` of options.

    The FFT has ``points`` points. ``vtln_warp`` is the VTLN factor. Raise OptionError if Kaldi refuses a value.
    """
    values = dict(items)
    frames = make_frame_options(values)
    if values["is_librosa"]:
        return compute_librosa_filters(
            values["num_bins"],
            frames.padded_window_size,
            frames.sample_frequency,
            values["low_freq"],
            values["high_freq"],
            slaney_scale=values["use_slaney_mel_scale"],
            norm=values["norm"],
            floor_to_int_bin=values["floor_to_int_bin"],
        )
    mel = {name: values[name] for name in ("low_freq", "high_freq", "vtln_low", "vtln_high", "debug_mel")}
    weights = compute_mel_banks(
        ours.MelFeatureOptions(num_mel_bins=values["num_bins"], **mel, **_rename_frame_options(values)), vtln_warp
    ).weights
    if values["htk_mode"] and values["low_freq"] != 0:
        weights = weights.copy()
        # Like HTK, Kaldi's htk_mode sets the first weight of the first filter to zero.
        weights[np.flatnonzero(weights[:, 0])[:1], 0] = 0.0
    return weights


def make_frame_options(values: dict[str, Any]) -> ours.FrameOptions:
    """Convert kaldi_native_fbank's options ``values`` to kaldi-compat's. Raise OptionError if Kaldi refuses a value."""
    options: ours.FrameOptions = make_our_options(ours.FrameOptions, **_rename_frame_options(values))
    return options


def _rename_frame_options(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options that determine the sizes of frames and of the FFT, by kaldi-compat's names."""
    return {
        "sample_frequency": values["samp_freq"],
        "frame_length": values["frame_length_ms"],
        "frame_shift": values["frame_shift_ms"],
        "round_to_power_of_two": values["round_to_power_of_two"],
    }


def make_whisper_options(opts: WhisperFeatureOptions) -> FbankOptions:
    """Return the options of a filter bank that computes Whisper's mel energies."""
    return FbankOptions(
        FrameExtractionOptions(
            dither=0,
            preemph_coeff=0,
            remove_dc_offset=False,
            window_type="hann",
            round_to_power_of_two=False,
            snip_edges=False,
        ),
        MelBanksOptions(num_bins=opts.dim, low_freq=0, is_librosa=True),
        use_log_fbank=False,
    )
