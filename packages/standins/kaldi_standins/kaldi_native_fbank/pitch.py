"""Pitch features. See :mod:`kaldi_standins.kaldi_native_fbank`."""

from __future__ import annotations

import numpy as np

from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.pitch.online import Analysis, compute_first_pass_features, trace_online_paths
from kaldi_compat.pitch.process import compute_undelayed_features, draw_standard_normal, process_pitch
from kaldi_compat.pitch.tracker import track_pitch
from kaldi_standins.kaldi_native_fbank.online import FrameStore, Samples, check_chunk, check_options, to_samples
from kaldi_standins.kaldi_native_fbank.options import PitchExtractionOptions, ProcessPitchOptions


def compute_and_process_kaldi_pitch(
    pitch_opts: PitchExtractionOptions, process_opts: ProcessPitchOptions, wave: Samples
) -> Floats:
    """Compute pitch features (frames, dim) of audio (Kaldi: ComputeAndProcessKaldiPitch).

    Each call starts with the same noise as a Kaldi program.

    Args:
        pitch_opts: options of the pitch tracker.
        process_opts: options of the pitch features.
        wave: samples (T,) on the scale of 16-bit integers, at ``pitch_opts.samp_freq``.

    Raises:
        OptionError: Kaldi refuses a value.
        AudioError: a sample is infinite or NaN, or the audio is too loud.
        WrongOptionError: ``wave`` is not a sequence of numbers. The error is also a TypeError.

    >>> import numpy as np
    >>> from kaldi_standins import kaldi_native_fbank as knf
    >>> tone = 1000 * np.sin(0.1 * np.arange(16000))
    >>> knf.compute_and_process_kaldi_pitch(knf.PitchExtractionOptions(), knf.ProcessPitchOptions(), tone).shape
    (98, 3)
    """
    tracking, processing = pitch_opts.to_our_options(), process_opts.to_our_options()
    samples, noise = to_samples(wave), KaldiRandom()
    if tracking.simulate_first_pass_online:
        return compute_first_pass_features(Analysis.from_audio(samples, tracking), tracking, processing, noise)
    features: Floats = process_pitch(track_pitch(samples, tracking), processing, generator=noise)
    return features


class OnlinePitch(FrameStore):
    """Pitch features of audio in chunks, on Kaldi's scale (Kaldi: OnlinePitchFeature and OnlineProcessPitch).

    As in Kaldi, a frame that is read before the end may change later. The first access to frames after a chunk tracks
    the pitch of all audio received so far.

    Args:
        opts: options of the pitch tracker.
        popts: options of the pitch features. None for the defaults.

    Raises:
        OptionError: Kaldi refuses a value, or ``opts`` has a wrong type.

    >>> import numpy as np
    >>> from kaldi_standins.kaldi_native_fbank import OnlinePitch, PitchExtractionOptions
    >>> pitch = OnlinePitch(PitchExtractionOptions())
    >>> pitch.accept_waveform(16000, 1000 * np.sin(0.1 * np.arange(16000)))
    >>> pitch.num_frames_ready, pitch.get_frame(0).shape
    (21, (3,))
    """

    def __init__(self, opts: PitchExtractionOptions, popts: ProcessPitchOptions | None = None) -> None:
        super().__init__()
        opts = check_options(self, opts, PitchExtractionOptions)
        self._tracking, self._processing = opts.to_our_options(), (popts or ProcessPitchOptions()).to_our_options()
        self._rate, self._shift = opts.samp_freq, opts.frame_shift_ms
        self._chunks: list[Floats] = []
        self._is_current = True

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        return self._processing.dim

    @property
    def frame_shift_in_seconds(self) -> float:
        """Seconds from the start of one frame to the start of the next."""
        return float(np.float32(self._shift) / np.float32(1000))

    @property
    def num_frames_ready(self) -> int:
        """Number of frames that are available so far, including discarded frames."""
        self._update_frames()
        return super().num_frames_ready

    def get_frame(self, frame: int) -> Floats:
        """Return the features (dim,) of ``frame``, counted from 0.

        Raises:
            StreamError: the frame is not available yet or was discarded. It is also an IndexError and a RuntimeError.
        """
        self._update_frames()
        return super().get_frame(frame)

    def accept_waveform(self, sampling_rate: float, waveform: Samples) -> None:
        """Add a chunk of audio: samples (T,) at the sampling rate ``samp_freq`` of the options, in Hz.

        Raises:
            WrongOptionError: the chunk is not a sequence of numbers. The error is also a TypeError.
            AudioError: the chunk and the options have different sampling rates. The error is also a ValueError. If the
                chunk contains a NaN or an infinity, the next access to frames raises this error.
            StreamError: the audio has ended. The error is also a RuntimeError.
        """
        samples = to_samples(waveform)
        check_chunk(sampling_rate, self._rate, self._is_finished)
        self._chunks.append(samples.astype(np.float32))
        self._is_current = False

    def input_finished(self) -> None:
        """Mark the audio as ended, so that the features of all frames are final."""
        self._is_finished, self._is_current = True, False

    def _update_frames(self) -> None:
        """Compute all frames again if a chunk was added or the audio has ended since the last computation."""
        if not self._is_current:
            self._frames, self._is_current = list(self._compute_features()), True

    def _compute_features(self) -> Floats:
        """Return the features (frames, dim) of all audio received so far."""
        options, audio = self._processing, np.concatenate([np.empty(0, np.float32), *self._chunks])
        # Append an empty chunk, which the tracker treats as the end of the audio.
        analysis = Analysis.from_audio(
            audio, self._tracking, [*np.cumsum([len(chunk) for chunk in self._chunks]), len(audio)]
        )
        # The tracker's last track assumes that the audio has ended. Skip it as long as chunks may follow.
        tracks = [
            analysis.compute_features(lattice.slice_frames(0, count))
            for lattice, count, is_end in trace_online_paths(analysis, self._tracking)
            if is_end == self._is_finished
        ]
        track = tracks[-1] if tracks else np.empty((0, 2), np.float32)
        track_length = len(track)
        # Before the audio ends, the frames of the normalization's right context are not ready.
        context = 0 if self._is_finished else max(0, options.normalization_right_context)
        ready_count = max(0, track_length - context + options.delay) if track_length else 0
        noise = (
            draw_standard_normal(np.empty(track_length, np.float32), KaldiRandom()) if options.add_delta_pitch else None
        )
        features: Floats = compute_undelayed_features(track, noise, options)
        # Frame i of the result is frame i - delay of the undelayed features, and at least frame 0.
        return features[np.clip(np.arange(ready_count) - options.delay, 0, None)]
