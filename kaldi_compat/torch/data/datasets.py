"""Data sets of Kaldi's script files, for torch's ``DataLoader``.

:class:`FeatureDataset` and :class:`WaveDataset` access utterances by index. Every process opens the files for itself,
so that processes share no file positions, and the data sets work with any number of forked or spawned workers.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar, cast

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from io_ark.blocks import Wave, WaveInfo
from io_ark.codecs import InfoCodec
from io_ark.codecs.wave import WaveCodec
from io_ark.data_dir import Segment, parse_segment
from io_ark.errors import FormatError
from io_ark.tables import Loader, RelativeTo, Script, resolve_folder
from io_ark.text import format_count
from kaldi_compat.errors import AudioError, KaldiCompatError, OptionError
from kaldi_compat.exact.resample import count_resampled, resample_waveform
from kaldi_compat.torch.data.annotations import Annotations, Labels, Path, Tokenizer
from kaldi_compat.torch.data.arguments import (
    check_functions,
    check_positive_number,
    check_rate,
    check_whole_number,
    find_file,
    find_rate,
)
from kaldi_compat.torch.data.batching import Utterance
from kaldi_compat.torch.data.each_process import InEachProcess
from kaldi_compat.torch.data.items import ItemAttributes, Items, Transform, describe_items
from kaldi_compat.torch.data.places import find_script, load_object, to_writable_tensor
from kaldi_compat.torch.data.seeds import Seeds
from kaldi_compat.torch.data.skipped import OnError, Skipped

Augment = Callable[[Tensor, float], Tensor]
Length = TypeVar("Length", int, float)
_SLOWEST, _FASTEST = 0.01, 100.0  # Limits of the speed factors, far beyond useful speeds.


class _KeyedDataset(ItemAttributes, Dataset[Utterance]):
    """Base class of data sets that access utterances by index. A subclass defines how an utterance is read.

    ``listing`` is a script file or a file ``segments`` with a line for each utterance. ``items`` makes the utterances.
    For ``drop_incomplete`` and ``on_error``, see :class:`FeatureDataset`.
    """

    def __init__(self, listing: Script, items: Items, drop_incomplete: bool, on_error: OnError) -> None:
        listing.check_unique()
        self._listing, self._skipped = listing, Skipped(on_error)
        self._items = items
        self._lines = np.arange(len(listing))  # Indices of the lines of the utterances that the data set returns.
        if drop_incomplete:
            is_complete = [items.annotations.has_all_targets(key) for key in listing]
            self._lines = self._lines[np.array(is_complete, bool)]

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Utterance:
        """Return the utterance ``index``. If it is unreadable and skipped, return the next readable utterance.

        After the last utterance, continue with the first utterance. Raise KaldiCompatError if no utterance can be read.
        """
        if (utterance := self._read_utterance(index)) is not None:
            return utterance
        for next_index in range(index + 1, index + len(self)):
            if (utterance := self._read_utterance(next_index % len(self))) is not None:
                return utterance
        raise KaldiCompatError(
            f"{self._listing.name}: no utterance can be read: pass on_error='raise' to see the reason"
        )

    def __getitems__(self, indices: Sequence[int]) -> list[Utterance]:
        """Return the utterances of a batch. Readable utterances of the batch replace skipped utterances.

        If the batch has no readable utterance, the next readable utterance of the data set replaces all of them.
        """
        utterances = [self._read_utterance(index) for index in indices]
        readable = [utterance for utterance in utterances if utterance is not None] or [self[indices[0]]]
        return [utterance or readable[i % len(readable)] for i, utterance in enumerate(utterances)]

    def _read_utterance(self, index: int) -> Utterance | None:
        """Return the utterance ``index``, or None if it is unreadable and skipped. A wrong type raises TypeError."""
        try:
            line = int(self._lines[operator.index(index)])
        except TypeError:
            advice = "pass a sampler of batches to the DataLoader as batch_sampler=, not as sampler="
            if isinstance(index, str):
                advice = "pass data.keys.index(KEY)"
            raise TypeError(f"expected the index of an utterance, not {index!r}: {advice}") from None
        key, location = self._listing.get_line(line)
        return self._skipped.read_or_skip(key, partial(self._make_utterance, key, location))

    def _make_utterance(self, key: str, location: str) -> Utterance:
        """Return the utterance ``key`` with its targets. For ``location``, see :meth:`_read_input`."""
        return self._items.make_utterance(key, partial(self._read_input, key, location))

    @property
    def keys(self) -> list[str]:
        """Keys of the utterances, in order."""
        return [self._listing.get_line(line)[0] for line in self._lines.tolist()]

    def __repr__(self) -> str:
        contents = f"{format_count(len(self), 'utterance')}{self._describe_details()}{describe_items(self._items)}"
        return f"<{type(self).__name__} of {self._listing.name}: {contents}>"

    def _describe_details(self) -> str:
        """Return the settings of a subclass for ``repr``. By default, there are no settings."""
        return ""

    def _repr_html_(self) -> str:
        from io_ark.text import FIRST, format_html_table

        rows = [self._listing.get_line(line) for line in self._lines[:FIRST].tolist()]
        remark = f"... and {len(self) - len(rows)} more" if len(rows) < len(self) else ""
        return format_html_table(repr(self).strip("<>"), rows, ("utterance", "location"), remark)

    def _read_input(self, key: str, location: str, seed: int) -> Tensor:
        """Read the input of the utterance ``key``. ``seed`` determines the random changes of the input.

        ``location`` is the string after the key in the script file or in the file ``segments``.
        """
        raise NotImplementedError

    def _read_lengths(self, file: Path, to_number: Callable[[str], float]) -> list[float]:
        """Return the length of each utterance in the unit of ``file``, or 0 if the utterance is skipped.

        The lines of the file are ``<key> <length>``. ``to_number`` converts the string of a length.
        """
        table = Script.open(file, self._items.annotations.access)
        table.check_unique()

        def parse_length(key: str) -> float:
            return _parse_length(table[key], to_number, table.name, key)

        return [self._measure_length(key, partial(parse_length, key)) for key in self.keys]

    def _measure_length(self, key: str, measure: Callable[[], Length]) -> Length | Literal[0]:
        """Return the length that ``measure`` computes for ``key``, or 0 if the utterance is unreadable and skipped."""
        return self._skipped.read_or_skip(key, measure) or 0


class FeatureDataset(_KeyedDataset):
    """Data set of the features that a script file lists.

    Args:
        feats: path of a ``feats.scp``, its rspecifier ``scp:feats.scp``, or a data directory that contains the file.
        utt2spk, labels, parse_label, alignments, posteriors, text, tokenizer, ctm, pipes, network: as for
            :class:`~kaldi_compat.torch.data.annotations.Annotations`.
        length_tolerance: maximum difference in frames between the lengths of features, alignment and posteriors, which
            are then cut to the shortest length (Kaldi's ``--length-tolerance``). A larger difference is an error. None
            does not compare the lengths, for targets with a different frame rate.
        transform: function applied to the features ``(frames, dim)`` of each utterance, in the worker, such as
            :class:`~kaldi_compat.torch.data.spec_augment.SpecAugment`. The function may draw random numbers from torch,
            which depend only on the utterance, ``seed`` and the epoch.
        seed: seed of the random numbers of ``transform``.
        drop_incomplete: True leaves out utterances that lack a target. False raises an error on access.
        on_error: "raise" raises an error if an utterance cannot be read. "skip" warns once, adds the key to
            ``skipped``, sets the length of the utterance to 0, and returns a different utterance instead: a readable
            utterance of the same batch if there is one, else the next utterance.
        relative_to: "script" resolves relative file names in ``feats`` against the folder of ``feats``. None resolves
            them against the current folder, as Kaldi does.

    Items are :class:`~kaldi_compat.torch.data.batching.Utterance` with float32 features ``(frames, dim)``.

    Raises:
        ArkError: a file cannot be read.
        KaldiCompatError: ``feats`` names an archive; on access, an utterance is empty, a target is invalid, or features
            and targets differ in length by more than the tolerance.
        OptionError: an argument is invalid.

    >>> import io_ark, numpy as np, tempfile
    >>> from kaldi_compat import FeatureDataset
    >>> path = tempfile.mkdtemp() + "/feats"
    >>> io_ark.save(path + ".mat", np.ones((98, 80), np.float32))
    >>> _ = open(path + ".scp", "w").write(f"utt1 {path}.mat\\n")
    >>> FeatureDataset(path + ".scp")[0].input.shape
    torch.Size([98, 80])
    """

    def __init__(
        self,
        feats: Path,
        *,
        utt2spk: Path | None = None,
        labels: Labels | None = None,
        parse_label: Callable[[str], object] | None = None,
        alignments: str | None = None,
        posteriors: str | None = None,
        text: Labels | None = None,
        tokenizer: Tokenizer | None = None,
        ctm: Path | None = None,
        length_tolerance: int | None = None,
        transform: Transform | None = None,
        seed: int = 0,
        drop_incomplete: bool = False,
        on_error: OnError = "raise",
        pipes: bool = True,
        network: bool = True,
        relative_to: RelativeTo | None = None,
    ) -> None:
        annotations = Annotations(
            utt2spk, labels, parse_label, alignments, pipes, network,
            posteriors=posteriors, text=text, tokenizer=tokenizer, ctm=ctm,
        )  # fmt: skip
        name = find_script(find_file(feats, "feats.scp"))
        script = Script.open(name, annotations.access)
        items = Items(annotations, Seeds(seed), transform, length_tolerance)
        super().__init__(script, items, drop_incomplete, on_error)
        folder = resolve_folder(name, relative_to)
        self._loader = InEachProcess(Loader, "matrix", annotations.access, folder=folder)
        self._shapes = InEachProcess(Loader, InfoCodec("matrix"), annotations.access, folder=folder)

    def _read_input(self, key: str, location: str, seed: int) -> Tensor:
        return to_writable_tensor(load_object(self._loader(), key, location))

    def lengths(self, utt2num_frames: Path | None = None) -> list[int]:
        """Return the number of frames of each utterance, for a sampler. Skipped utterances have 0 frames.

        Args:
            utt2num_frames: path of the file ``utt2num_frames``, or of a data directory that contains the file. None
                reads the headers of all features.

        Raises:
            ArkError: a file cannot be read, or lacks an utterance.
        """
        if utt2num_frames is not None:
            return [int(frames) for frames in self._read_lengths(find_file(utt2num_frames, "utt2num_frames"), int)]
        lines = map(self._listing.get_line, self._lines.tolist())
        return [self._measure_length(key, partial(self._read_num_frames, key, location)) for key, location in lines]

    def _read_num_frames(self, key: str, location: str) -> int:
        return int(load_object(self._shapes(), key, location).shape[0])


class WaveDataset(_KeyedDataset):
    """Data set of the audio that ``wav.scp`` lists, whole or cut into segments.

    Args:
        wav: path of a ``wav.scp``, its rspecifier ``scp:wav.scp``, or a data directory (a path or a
            :class:`~io_ark.data_dir.DataDir`). The file ``segments`` of a data directory is used if it exists.
        segments: path of a ``segments`` file. Its lines are then the utterances, which are cut as by extract-segments.
            From a 16-bit wave file, only the segment is read. Files in other formats are decoded and commands are run
            again for every segment, so convert long recordings first.
        channel: channel of recordings with several channels. The channel of a segment takes precedence.
        sample_frequency: sampling rate in Hz that all audio is resampled to, as by Kaldi's programs; None keeps the
            sampling rate of the audio.
        speeds: factors such as ``(0.9, 1.0, 1.1)``. For each utterance, a random factor changes speed and pitch. The
            times of words are divided by the factor, but alignments and posteriors are not changed.
        augment: function, called in the worker, from int16 audio and its sampling rate to audio of the same length,
            such as :class:`~kaldi_compat.torch.data.reverberation.NoiseAndReverberation`.
        feature: a module such as ``Fbank``, or a function from audio ``(samples,)`` to features ``(frames, dim)``.
            It is called in the worker. To compute features on the device of the model, see
            :class:`~kaldi_compat.torch.data.on_device.FeaturesOnDevice`.
        length_tolerance: see :class:`FeatureDataset`. Requires ``feature``.
        transform: function that is applied last, to the features, or to the audio without ``feature``.
        seed: seed of the speeds and of the random numbers that ``augment``, ``feature`` and ``transform`` draw from
            torch. The numbers depend only on the utterance, this seed and the epoch.
        utt2spk, labels, parse_label, alignments, posteriors, text, tokenizer, ctm, pipes, network: as for
            :class:`~kaldi_compat.torch.data.annotations.Annotations`.
        drop_incomplete, on_error, relative_to: as for :class:`FeatureDataset`.

    Items are :class:`~kaldi_compat.torch.data.batching.Utterance` with 16-bit audio ``(samples,)``, or with features.

    Raises:
        ArkError: a file cannot be read, or a segment cannot be cut.
        AudioError: the audio cannot be resampled, has several channels and ``channel`` is None, or has a different
            sampling rate than ``feature``.
        KaldiCompatError: ``wav`` names an archive; on access, an utterance is empty, a target is invalid, or features
            and targets differ in length by more than the tolerance.
        OptionError: an argument is invalid.

    >>> import io_ark, numpy as np, tempfile
    >>> from kaldi_compat import Fbank, SpecAugment, WaveDataset
    >>> path = tempfile.mkdtemp() + "/speech"
    >>> io_ark.save(path + ".wav", io_ark.Wave(16000.0, np.ones((1, 16000), np.int16)))
    >>> _ = open(path + ".scp", "w").write(f"utt1 {path}.wav\\n")
    >>> WaveDataset(path + ".scp", feature=Fbank(num_mel_bins=80), transform=SpecAugment())[0].input.shape
    torch.Size([98, 80])
    """

    def __init__(
        self,
        wav: Path,
        segments: Path | None = None,
        *,
        channel: int | None = None,
        sample_frequency: float | None = None,
        speeds: Sequence[float] = (),
        augment: Augment | None = None,
        feature: Transform | None = None,
        seed: int = 0,
        utt2spk: Path | None = None,
        labels: Labels | None = None,
        parse_label: Callable[[str], object] | None = None,
        alignments: str | None = None,
        posteriors: str | None = None,
        text: Labels | None = None,
        tokenizer: Tokenizer | None = None,
        ctm: Path | None = None,
        length_tolerance: int | None = None,
        transform: Transform | None = None,
        drop_incomplete: bool = False,
        on_error: OnError = "raise",
        pipes: bool = True,
        network: bool = True,
        relative_to: RelativeTo | None = None,
    ) -> None:
        annotations = Annotations(
            utt2spk, labels, parse_label, alignments, pipes, network,
            posteriors=posteriors, text=text, tokenizer=tokenizer, ctm=ctm,
        )  # fmt: skip
        if length_tolerance is not None and feature is None:
            raise OptionError("length_tolerance compares numbers of frames: also pass feature=Fbank(...)")
        self._speeds = tuple(check_positive_number("speeds", speed) for speed in speeds) or (1.0,)
        if not all(_SLOWEST <= speed <= _FASTEST for speed in self._speeds):
            raise OptionError(f"speeds={self._speeds} must be factors from 0.01 to 100, such as (0.9, 1.0, 1.1)")
        check_functions(augment=augment, feature=feature)
        self._augment, self._feature, self._feature_rate = augment, feature, find_rate(feature)
        # If wav is a file, find_file returns wav itself.
        if segments is None and os.path.isfile(segments_file := find_file(wav, "segments")) and segments_file != wav:
            segments = segments_file
        wav = find_script(find_file(wav, "wav.scp"))
        recordings = Script.open(wav, annotations.access)
        listing = recordings if segments is None else Script.open(segments, annotations.access)
        draws_numbers = augment is not None or feature is not None
        items = Items(annotations, Seeds(seed), transform, length_tolerance, draws_numbers)
        super().__init__(listing, items, drop_incomplete, on_error)
        recordings.check_unique()
        self._recordings = None if segments is None else recordings  # Without segments, the listing has the recordings.
        self._channel = None if channel is None else check_whole_number("channel", channel)
        # Sampling rate in Hz that all audio is resampled to, or None to keep the rate of the audio.
        self._rate = None if sample_frequency is None else check_positive_number("sample_frequency", sample_frequency)
        folder = resolve_folder(wav, relative_to)
        codec = WaveCodec(in_parts=segments is not None)  # A segment needs only a part of a recording.
        self._loader = InEachProcess(Loader, codec, annotations.access, folder=folder)
        self._headers = InEachProcess(Loader, "wave-info", annotations.access, folder=folder)

    def _describe_details(self) -> str:
        """Return the sampling rate, the speeds and the functions for ``repr``."""
        rate = "" if self._rate is None else f" at {self._rate:g} Hz"
        speeds = "" if self._speeds == (1.0,) else f", speeds {'|'.join(f'{speed:g}' for speed in self._speeds)}"
        augmented = "" if self._augment is None else f", augment={self._augment!r}"
        return f"{rate}{speeds}{augmented}{'' if self._feature is None else f', feature={self._feature!r}'}"

    def _make_utterance(self, key: str, location: str) -> Utterance:
        """Return an utterance with its targets and sampling rate. Divide the times of words by the speed factor."""
        rate_read: list[float] = []  # _read_audio appends the sampling rate, because its result is the input alone.
        utterance = self._items.make_utterance(key, partial(self._read_audio, key, location, rate_read))
        utterance = replace(utterance, sample_frequency=rate_read[0])
        if not utterance.words or self._speeds == (1.0,):
            return utterance
        speed = self._choose_speed(self._items.seeds.derive(utterance.key))
        words = (word._replace(start=word.start / speed, duration=word.duration / speed) for word in utterance.words)
        return replace(utterance, words=tuple(words))

    def _read_audio(self, key: str, location: str, rate_read: list[float], seed: int) -> Tensor:
        """Return the resampled, augmented audio ``(samples,)`` of an utterance, or its features if ``feature`` is set.

        ``seed`` determines the speed factor. The sampling rate in Hz after resampling is appended to ``rate_read``.
        """
        segment, recording, recording_location = self._locate_audio(key, location)
        wave = _select_channel(load_object(self._loader(), recording, recording_location), key, segment, self._channel)
        samples, rate = wave.samples[0], self._rate or wave.sample_frequency
        rates = self._choose_rates(key, wave.sample_frequency, seed)
        if rates is not None:
            resampled = resample_waveform(samples.astype(np.float32), *rates)
            samples = resampled.round().clip(-32768, 32767).astype(np.int16)
        rate_read.append(rate)
        check_rate(key, rate, self._feature_rate)
        audio = to_writable_tensor(samples)
        audio = audio if self._augment is None else self._augment(audio, rate)
        return audio if self._feature is None else self._feature(audio)

    def _choose_speed(self, seed: int) -> float:
        """Return the speed factor of the utterance whose seed is ``seed``."""
        return self._speeds[seed % len(self._speeds)]

    def _choose_rates(self, key: str, rate: float, seed: int) -> tuple[int, int] | None:
        """Return the input and output rates in Hz for resampling the utterance ``key``, or None for no resampling.

        ``rate`` is the sampling rate of the recording in Hz. ``seed`` determines the speed of the utterance. Raise
        AudioError if resampling is necessary, and a rate is not a positive whole number.
        """
        speed = self._choose_speed(seed)
        target_rate = rate if self._rate is None else self._rate
        # The audio is resampled as if its sampling rate were higher by the speed factor, which makes it faster.
        assumed_rate = rate if speed == 1 else float(round(rate * speed))
        if assumed_rate == target_rate:
            return None
        if assumed_rate != int(assumed_rate) or target_rate != int(target_rate) or target_rate <= 0:
            raise AudioError(
                f"{key}: cannot resample {assumed_rate:g} Hz to {target_rate:g} Hz, because both must be whole "
                "numbers: change sample_frequency, or the sampling rate of the audio"
            )
        return int(assumed_rate), int(target_rate)

    def _locate_audio(self, key: str, location: str) -> tuple[Segment | None, str, str]:
        """Return the segment of an utterance (None for a whole recording), and the recording's key and location."""
        if self._recordings is None:
            return None, key, location
        segment = parse_segment(f"{key} {location}")
        return segment, segment.recording, self._recordings[segment.recording]

    def lengths(self, utt2dur: Path | None = None) -> list[int]:
        """Return the number of samples of each utterance in this epoch, for a sampler; 0 for skipped utterances.

        The numbers include resampling and the random speed factors of the epoch.

        Args:
            utt2dur: path of the file ``utt2dur`` of durations in seconds, or of a data directory that contains the
                file. Requires ``sample_frequency``. None reads the headers of all recordings, and runs every
                command that a recording comes from.

        Raises:
            AudioError: ``utt2dur`` is passed, but the data set has no ``sample_frequency``; or the audio cannot be
                resampled, or has several channels and ``channel`` is None.
            ArkError: a file cannot be read, or lacks an utterance.
        """
        if utt2dur is not None:
            if self._rate is None:
                raise AudioError(
                    "utt2dur has seconds, not samples: pass sample_frequency, such as 16000, to the data set"
                )
            durations = self._read_lengths(find_file(utt2dur, "utt2dur"), float)
            counts = [round(duration * self._rate) for duration in durations]
            return [self._count_resampled(key, count, self._rate) for key, count in zip(self.keys, counts, strict=True)]
        headers: dict[str, Wave] = {}

        def count_samples(key: str, location: str) -> int:
            """Return the number of samples of an utterance after resampling, from the header of its recording."""
            segment, recording, recording_location = self._locate_audio(key, location)
            if recording not in headers:
                headers.clear()  # Usually, segments of a recording are consecutive, so only one header is kept.
                headers[recording] = self._load_placeholder(recording, recording_location)
            wave = _select_channel(headers[recording], key, segment, self._channel)
            return self._count_resampled(key, wave.samples.shape[1], wave.sample_frequency)

        lines = map(self._listing.get_line, self._lines.tolist())
        return [self._measure_length(key, partial(count_samples, key, location)) for key, location in lines]

    def _count_resampled(self, key: str, count: int, rate: float) -> int:
        """Return the number of samples of the utterance ``key`` after resampling ``count`` samples at ``rate`` Hz."""
        rates = self._choose_rates(key, rate, self._items.seeds.derive(key))
        return count if rates is None else int(count_resampled(count, *rates))

    def _load_placeholder(self, recording: str, location: str) -> Wave:
        """Return silence with the length and number of channels of a recording, in an array that takes no memory.

        If the header does not give the length, return the recording itself.
        """
        info: WaveInfo = load_object(self._headers(), recording, location)
        if info.sample_count is None:  # The header of a file written to a pipe has no length, so the audio is read.
            return cast(Wave, load_object(self._loader(), recording, location))
        return Wave(info.sample_frequency, np.broadcast_to(np.int16(0), (info.channels, info.sample_count)))


def _parse_length(value: str, to_number: Callable[[str], float], file: str, key: str) -> float:
    """Convert a length with ``to_number``. Raise FormatError, which shows ``file`` and ``key``, if it is not valid.

    A valid length is a finite number of at least 0.
    """
    with suppress(ValueError):
        if 0 <= (length := to_number(value)) < math.inf:
            return length
    raise FormatError(
        f"expected the length of the utterance, found {value!r}: write a finite number of 0 or more", file=file, key=key
    )


def _select_channel(wave: Wave, key: str, segment: Segment | None, channel: int | None) -> Wave:
    """Return one channel (1, samples) of the recording ``wave``, cut to the segment if there is one.

    Channels are counted from 0. The channel of the segment takes precedence over ``channel``. If both are None, the
    recording must have a single channel. Errors show ``key``, the key of the utterance.

    Raises:
        AudioError: there is no segment, and the channel does not exist, or is None although there are several channels.
        ArkError: the segment cannot be cut, or its channel is missing.
    """
    if segment is not None:
        if segment.channel is None:
            segment = replace(segment, channel=channel)
        return segment.cut(wave, min_length=0.0)
    channels = len(wave.samples)
    if channel is None and channels > 1:
        raise AudioError(f"{key}: the audio has {channels} channels: pass a channel from 0 to {channels - 1}")
    chosen = channel or 0
    if not 0 <= chosen < channels:
        raise AudioError(f"{key}: channel={chosen} does not exist: pass a channel from 0 to {channels - 1}")
    return Wave(wave.sample_frequency, wave.samples[chosen : chosen + 1])
