"""Data sets over Kaldi's files, for torch's ``DataLoader``.

:class:`FeatureDataset` and :class:`WaveDataset` access utterances by number; :class:`ArchiveDataset` reads tables from
start to end. All open their files in the process that reads them and share no file positions, so they work with any
number of workers, forked or spawned. :class:`FeaturesOnDevice` computes features of batches of audio on a device.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

import io_ark
from io_ark.blocks import Wave, WaveInfo
from io_ark.codecs import InfoCodec
from io_ark.data_dir import Segment, parse_segment
from io_ark.errors import MissingKeyError
from io_ark.streams.access import Access
from io_ark.tables.loader import Loader
from io_ark.tables.relative import RelativeTo, folder_of
from io_ark.tables.script import Script
from kaldi_compat.data.batching import Batch, Utterance
from kaldi_compat.data.sampling import rank_and_world_size
from kaldi_compat.errors import AudioError, KaldiCompatError, OptionError
from kaldi_compat.exact.resample import resample_waveform
from kaldi_compat.functional.sinc import num_resampled

__all__ = ["Annotations", "ArchiveDataset", "FeatureDataset", "FeaturesOnDevice", "InEachProcess", "WaveDataset"]

Path = str | os.PathLike[str]
Labels = Path | Mapping[str, Any]
Value = TypeVar("Value")


class InEachProcess(Generic[Value]):
    """Value that is opened on first use, once in each process, and never pickled."""

    def __init__(self, open_it: Callable[..., Value], *arguments: Any, **options: Any) -> None:
        self._open = open_it, arguments, options
        self._opened: tuple[int, Value] | None = None

    def __call__(self) -> Value:
        if self._opened is None or self._opened[0] != os.getpid():
            open_it, arguments, options = self._open
            self._opened = os.getpid(), open_it(*arguments, **options)
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {"_open": self._open, "_opened": None}


class Annotations:
    """Speakers, labels and alignments of utterances, shared by all data sets.

    Args:
        utt2spk: path of a map from utterance to speaker.
        labels: path of a file with lines ``<utterance> <label>``, such as ``text``; or a mapping.
        parse_label: function from the rest of such a line to the label, such as ``int``. Must be importable by name for
            spawned workers.
        alignments: rspecifier of a table of integer vectors, such as ``scp:ali.scp`` or
            ``ark:gunzip -c ali.*.gz |``. An archive is read into the memory of each worker.
        pipes: False refuses to run commands.
        network: allow URLs.
    """

    def __init__(
        self,
        utt2spk: Path | None = None,
        labels: Labels | None = None,
        parse_label: Callable[[str], Any] | None = None,
        alignments: str | None = None,
        pipes: bool = True,
        network: bool = True,
    ) -> None:
        access = self.access = Access(pipes, network)
        self._speakers = None if utt2spk is None else Script.open(utt2spk, access)
        self._labels = labels if isinstance(labels, Mapping) else None
        self._label_lines = None
        if labels is not None and not isinstance(labels, Mapping):
            self._label_lines = Script.open(labels, access, empty=True)
        self._parse_label = parse_label
        self._alignments: InEachProcess[io_ark.RandomAccessReader[Any]] | None = None
        if alignments is not None:
            self._alignments = InEachProcess(
                io_ark.RandomAccessReader, "int-vector", alignments, pipes=pipes, network=network
            )

    def complete(self, key: str) -> bool:
        """Return True if the utterance has a speaker, a label and an alignment, as far as these are given."""
        return (
            (self._speakers is None or key in self._speakers)
            and (self._labels is None or key in self._labels)
            and (self._label_lines is None or key in self._label_lines)
            and (self._alignments is None or key in self._alignments())
        )

    def annotate(self, key: str, value: Tensor) -> Utterance:
        """Return the utterance with its speaker, label and alignment.

        Raises:
            MissingKeyError: one of them is missing.
        """
        speaker = None if self._speakers is None else self._speakers[key]
        label: Any = None
        if self._labels is not None:
            if key not in self._labels:
                raise MissingKeyError("has no label in the mapping: pass drop_incomplete=True to skip it", key=key)
            label = self._labels[key]
        elif self._label_lines is not None:
            line = self._label_lines[key]
            label = line if self._parse_label is None else self._parse_label(line)
        alignment = None
        if self._alignments is not None:
            alignment = torch.from_numpy(np.asarray(self._alignments()[key], np.int64))
        return Utterance(key, value, speaker=speaker, label=label, alignment=alignment)


class _KeyedDataset(Dataset[Utterance]):
    """Base class of data sets by number. A subclass reads an utterance."""

    def __init__(
        self,
        listing: Script,
        annotations: Annotations,
        transform: Callable[[Tensor], Tensor] | None,
        drop_incomplete: bool,
    ) -> None:
        self._listing = listing
        self._annotations = annotations
        self._transform = transform
        self._lines = np.arange(len(listing))
        if drop_incomplete:
            complete = [annotations.complete(key) for key in listing]
            self._lines = self._lines[np.array(complete, bool)]

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Utterance:
        key, rest = self._listing.line(int(self._lines[index]))
        utterance = self._annotated(key, self._read(key, rest))
        return utterance if self._transform is None else replace(utterance, input=self._transform(utterance.input))

    def _annotated(self, key: str, value: Tensor) -> Utterance:
        return self._annotations.annotate(key, value)

    @property
    def keys(self) -> list[str]:
        """Names of the utterances, in order."""
        return [self._listing.line(line)[0] for line in self._lines.tolist()]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._listing.name}: {len(self)} utterances>"

    def _repr_html_(self) -> str:
        from io_ark.notebook import FIRST, html_table

        rows = [self._listing.line(line) for line in self._lines[:FIRST].tolist()]
        more = f"... and {len(self) - len(rows)} more" if len(rows) < len(self) else ""
        return html_table(repr(self).strip("<>"), rows, ("utterance", "location"), more)

    def _read(self, key: str, rest: str) -> Tensor:
        raise NotImplementedError

    def _lengths_of(self, lengths: Path) -> list[str]:
        table = Script.open(lengths, self._annotations.access)
        return [table[key] for key in self.keys]


class FeatureDataset(_KeyedDataset):
    """Data set of the features that a script file lists.

    Args:
        feats: path of a ``feats.scp``, or ``scp:feats.scp``.
        utt2spk, labels, parse_label, alignments, pipes: as for :class:`Annotations`.
        length_tolerance: number of frames by which features and alignment may differ in length; both are cut to the
            shorter one, and a larger difference is an error (Kaldi's ``--length-tolerance``). None does not compare
            them, for alignments with a frame rate of their own.
        transform: function applied to the features ``(frames, dim)`` of each utterance, in the worker.
        drop_incomplete: skip utterances without speaker, label or alignment. Otherwise accessing one is an error.
        relative_to: "script" resolves relative file names in ``feats`` against its folder; None against the current
            folder, as Kaldi does.

    Items are :class:`~kaldi_compat.data.batching.Utterance` with features of shape ``(frames, dim)``, float32.

    Raises:
        ArkError: a file cannot be read.
        KaldiCompatError: features and alignment differ in length by more than the tolerance.

    >>> from torch.utils.data import DataLoader
    >>> from kaldi_compat.data.batching import collate
    >>> data = FeatureDataset("data/train/feats.scp", utt2spk="data/train/utt2spk")  # doctest: +SKIP
    >>> loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=4, collate_fn=collate)  # doctest: +SKIP
    """

    def __init__(
        self,
        feats: Path,
        *,
        utt2spk: Path | None = None,
        labels: Labels | None = None,
        parse_label: Callable[[str], Any] | None = None,
        alignments: str | None = None,
        length_tolerance: int | None = None,
        transform: Callable[[Tensor], Tensor] | None = None,
        drop_incomplete: bool = False,
        pipes: bool = True,
        network: bool = True,
        relative_to: RelativeTo | None = None,
    ) -> None:
        annotations = Annotations(utt2spk, labels, parse_label, alignments, pipes, network)
        name = _script_of(feats)
        script = Script.open(name, annotations.access)
        super().__init__(script, annotations, transform, drop_incomplete)
        folder = folder_of(name, relative_to)
        self._loader = InEachProcess(Loader, "matrix", annotations.access, folder=folder)
        self._length_tolerance = length_tolerance
        self._shapes = InEachProcess(Loader, InfoCodec("matrix"), annotations.access, folder=folder)

    def _annotated(self, key: str, value: Tensor) -> Utterance:
        utterance = super()._annotated(key, value)
        if utterance.alignment is None or self._length_tolerance is None:
            return utterance
        frames = min(len(value), len(utterance.alignment))
        if max(len(value), len(utterance.alignment)) - frames > self._length_tolerance:
            raise KaldiCompatError(
                f"{key}: {len(value)} frames, but an alignment of {len(utterance.alignment)}: they differ by more than "
                f"length_tolerance={self._length_tolerance}; are they of the same data and frame rate?"
            )
        return replace(utterance, input=value[:frames], alignment=utterance.alignment[:frames])

    def _read(self, key: str, rest: str) -> Tensor:
        return _tensor(_named(self._loader(), key, rest))

    def lengths(self, utt2num_frames: Path | None = None) -> list[int]:
        """Return the number of frames of each utterance, for a sampler.

        Args:
            utt2num_frames: file of these numbers; if None, the headers of all features are read.
        """
        if utt2num_frames is not None:
            return [int(frames) for frames in self._lengths_of(utt2num_frames)]
        lines = map(self._listing.line, self._lines.tolist())
        return [_named(self._shapes(), key, rest).shape[0] for key, rest in lines]


class WaveDataset(_KeyedDataset):
    """Data set of the audio that ``wav.scp`` lists, whole or cut into segments.

    Args:
        wav: path of a ``wav.scp``, or its rspecifier, ``scp:wav.scp``.
        segments: path of a ``segments`` file, whose lines are then the utterances, cut as by extract-segments.
        channel: channel of recordings with several channels; the channel of a segment takes precedence.
        sample_frequency: sampling rate in Hz that all audio is resampled to, as by Kaldi's programs; None keeps the
            audio's own.
        speeds: factors such as ``(0.9, 1.0, 1.1)``, at one of which each utterance is played; its pitch changes, too.
            The choice follows from the key, ``seed`` and the epoch, in any worker and run. Alignments stay as they are.
        seed: of the choice.
        utt2spk, labels, parse_label, alignments, pipes: as for :class:`Annotations`.
        transform: function applied to the audio ``(samples,)`` of each utterance, in the worker.
        drop_incomplete, relative_to: as for :class:`FeatureDataset`.

    Items are :class:`~kaldi_compat.data.batching.Utterance` with 16-bit audio of shape ``(samples,)``.

    Raises:
        ArkError: a file cannot be read, or a segment cannot be cut.
        AudioError: the audio cannot be resampled, or has several channels and none is chosen.
    """

    def __init__(
        self,
        wav: Path,
        segments: Path | None = None,
        *,
        channel: int | None = None,
        sample_frequency: float | None = None,
        speeds: Sequence[float] = (),
        seed: int = 0,
        utt2spk: Path | None = None,
        labels: Labels | None = None,
        parse_label: Callable[[str], Any] | None = None,
        alignments: str | None = None,
        transform: Callable[[Tensor], Tensor] | None = None,
        drop_incomplete: bool = False,
        pipes: bool = True,
        network: bool = True,
        relative_to: RelativeTo | None = None,
    ) -> None:
        annotations = Annotations(utt2spk, labels, parse_label, alignments, pipes, network)
        wav = _script_of(wav)
        recordings = Script.open(wav, annotations.access)
        listing = recordings if segments is None else Script.open(segments, annotations.access)
        super().__init__(listing, annotations, transform, drop_incomplete)
        self._recordings = None if segments is None else recordings
        self._channel, self._rate = channel, sample_frequency
        self._speeds, self._seed, self._epoch = tuple(speeds) or (1.0,), seed, _shared_number()
        if min(self._speeds) <= 0:
            raise OptionError(f"speeds={tuple(speeds)} must be positive factors, such as (0.9, 1.0, 1.1)")
        folder = folder_of(wav, relative_to)
        self._loader = InEachProcess(Loader, "wave", annotations.access, folder=folder)
        self._headers = InEachProcess(Loader, "wave-info", annotations.access, folder=folder)

    def _read(self, key: str, rest: str) -> Tensor:
        segment, recording, place = self._place_of(key, rest)
        wave = _channel_of(_named(self._loader(), recording, place), key, segment, self._channel)
        samples = wave.samples[0]
        rates = self._rates(key, wave.sample_frequency)
        if rates is not None:
            resampled = resample_waveform(samples.astype(np.float32), *rates)
            samples = resampled.round().clip(-32768, 32767).astype(np.int16)
        return _tensor(samples)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the speeds of the utterances. Reaches workers that persist."""
        self._epoch.fill_(epoch)

    def _rates(self, key: str, rate: float) -> tuple[int, int] | None:
        """Return the rates between which the audio of an utterance is resampled; None if it is not."""
        speed, wanted = self._speeds[0], rate if self._rate is None else self._rate
        if len(self._speeds) > 1:
            rng = np.random.default_rng(
                (self._seed, int(self._epoch), zlib.crc32(key.encode("utf-8", "surrogateescape")))
            )
            speed = self._speeds[rng.integers(len(self._speeds))]
        played = rate if speed == 1 else float(round(rate * speed))
        if played == wanted:
            return None
        if played != int(played) or wanted != int(wanted) or wanted <= 0:
            raise AudioError(f"{key}: cannot resample {played:g} Hz to {wanted:g} Hz: rates must be whole numbers")
        return int(played), int(wanted)

    def _place_of(self, key: str, rest: str) -> tuple[Segment | None, str, str]:
        """Return the segment of an utterance, if it is one, and the key and the place of its recording."""
        if self._recordings is None:
            return None, key, rest
        segment = parse_segment(f"{key} {rest}")
        return segment, segment.recording, self._recordings[segment.recording]

    def lengths(self, utt2dur: Path | None = None) -> list[int]:
        """Return the number of samples of each utterance in this epoch, for a sampler.

        Args:
            utt2dur: file of durations in seconds, which needs ``sample_frequency``. If None, the headers of all
                recordings are read. For the output of a command that means to run it.

        Raises:
            AudioError: ``utt2dur`` is given for a data set without ``sample_frequency``.
        """
        if utt2dur is not None:
            if self._rate is None:
                raise AudioError("durations give no numbers of samples: pass sample_frequency=16000 to the data set")
            counts = [round(float(duration) * self._rate) for duration in self._lengths_of(utt2dur)]
            return [self._count(key, count, self._rate) for key, count in zip(self.keys, counts, strict=True)]
        headers: dict[str, Wave] = {}
        counts = []
        for key, rest in map(self._listing.line, self._lines.tolist()):
            segment, recording, place = self._place_of(key, rest)
            if recording not in headers:
                headers = {recording: self._silence(recording, place)}  # segments of one recording follow each other
            wave = _channel_of(headers[recording], key, segment, self._channel)
            counts.append(self._count(key, wave.samples.shape[1], wave.sample_frequency))
        return counts

    def _count(self, key: str, samples: int, rate: float) -> int:
        """Return the number of samples of an utterance of so many at a sampling rate."""
        rates = self._rates(key, rate)
        return samples if rates is None else int(num_resampled(samples, *rates))

    def _silence(self, recording: str, place: str) -> Wave:
        """Return silence of the shape that a recording's header tells, which takes no memory."""
        info: WaveInfo = _named(self._headers(), recording, place)
        if info.sample_count is None:  # written to a pipe, or cut off
            return cast(Wave, _named(self._loader(), recording, place))
        return Wave(info.sample_frequency, np.broadcast_to(np.int16(0), (info.channels, info.sample_count)))


def _channel_of(wave: Wave, key: str, segment: Segment | None, channel: int | None) -> Wave:
    """Return the audio of one utterance and one channel, cut out of its recording if it is a segment."""
    if segment is not None:
        return (segment if segment.channel is not None else replace(segment, channel=channel)).cut(wave, min_length=0.0)
    channels = len(wave.samples)
    if channel is None and channels > 1:
        raise AudioError(f"{key}: the audio has {channels} channels: pass channel=0 to {channels - 1}")
    chosen = channel or 0
    if not 0 <= chosen < channels:
        raise AudioError(f"{key}: channel={chosen} does not exist, the audio has {channels}")
    return Wave(wave.sample_frequency, wave.samples[chosen : chosen + 1])


def _shared_number() -> Tensor:
    """Return a number in shared memory: persistent workers copy a data set before the epoch is set."""
    number: Tensor = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
    return number


def _script_of(file: Path) -> Path:
    """Return the script file of an rspecifier; anything else is a file name."""
    table = io_ark.classify_rspecifier(file) if isinstance(file, str) else None
    if table is not None and table.kind == "ark":
        raise KaldiCompatError(f"{file!r} is an archive, which cannot be accessed by number: use ArchiveDataset")
    return file if table is None else table.rxfilename


def _tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """Return the array as a writable tensor."""
    if not (array.flags.c_contiguous and array.flags.writeable):
        array = array.copy()
    return torch.from_numpy(array)


def _named(loader: Loader, key: str, rxfilename: str) -> Any:
    """Load the object of an rxfilename. Errors name the key too."""
    try:
        return loader.load(rxfilename)
    except io_ark.ArkError as error:
        error.key = error.key or key
        raise


class ArchiveDataset(IterableDataset[Utterance]):
    """Iterable data set of tables read from start to end: archives, pipes, or very large script files.

    Each utterance goes to one reader, a worker of a rank. With at least as many tables as readers, whole tables are
    distributed. Otherwise every reader scans all tables and takes every n-th utterance (of a script file without
    reading the others); each reader then runs the command of a pipe.

    Args:
        rspecifiers: one rspecifier or several, such as ``ark:gunzip -c feats.1.gz |``.
        utt2spk, labels, parse_label, alignments, pipes: as for :class:`Annotations`.
        transform: function applied to the features ``(frames, dim)`` of each utterance, in the worker.
        drop_incomplete: as for :class:`FeatureDataset`.
        shuffle_buffer: number of utterances kept in a buffer to shuffle them; 0 keeps the order.
        seed: of the shuffling.
        rank, world_size: of this process; from ``torch.distributed`` by default, if it is initialized.

    Items are :class:`~kaldi_compat.data.batching.Utterance`.

    Ranks may get different numbers of utterances. Use ``torch.distributed.algorithms.Join`` where ranks synchronize.
    """

    def __init__(
        self,
        rspecifiers: str | Sequence[str],
        *,
        utt2spk: Path | None = None,
        labels: Labels | None = None,
        parse_label: Callable[[str], Any] | None = None,
        alignments: str | None = None,
        transform: Callable[[Tensor], Tensor] | None = None,
        drop_incomplete: bool = False,
        shuffle_buffer: int = 0,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        pipes: bool = True,
        network: bool = True,
    ) -> None:
        super().__init__()
        self._rspecifiers = [rspecifiers] if isinstance(rspecifiers, str) else list(rspecifiers)
        self._annotations = Annotations(utt2spk, labels, parse_label, alignments, pipes, network)
        self._transform, self._drop_incomplete = transform, drop_incomplete
        self._shuffle_buffer, self._seed = shuffle_buffer, seed
        self._rank, self._world_size = rank_and_world_size(rank, world_size)
        self._pipes = pipes
        self._network = network
        self._epoch = _shared_number()

    def __repr__(self) -> str:
        first, *others = self._rspecifiers or ["nothing"]
        return f"<ArchiveDataset of {first}{f' and {len(others)} more tables' if others else ''}>"

    def _repr_html_(self) -> str:
        from io_ark.notebook import FIRST, html_table

        rows = [(table,) for table in self._rspecifiers[:FIRST]]
        more = f"... and {len(self._rspecifiers) - len(rows)} more" if len(rows) < len(self._rspecifiers) else ""
        return html_table(f"ArchiveDataset of {len(self._rspecifiers)} tables", rows, (), more)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order of the following iterations."""
        self._epoch.fill_(epoch)

    def __iter__(self) -> Iterator[Utterance]:
        worker = get_worker_info()
        workers, number = (1, 0) if worker is None else (worker.num_workers, worker.id)
        reader, readers = self._rank * workers + number, self._world_size * workers
        utterances = self._read(reader, readers)
        return self._shuffled(utterances, reader) if self._shuffle_buffer > 1 else utterances

    def _read(self, reader: int, readers: int) -> Iterator[Utterance]:
        whole_tables = len(self._rspecifiers) >= readers
        number = 0
        for rspecifier in self._rspecifiers[reader::readers] if whole_tables else self._rspecifiers:
            with io_ark.SequentialReader[Any]("matrix", rspecifier, pipes=self._pipes, network=self._network) as table:
                for key, load in table.entries():
                    mine = whole_tables or number % readers == reader
                    number += 1
                    if mine and (not self._drop_incomplete or self._annotations.complete(key)):
                        value = _tensor(load())
                        value = value if self._transform is None else self._transform(value)
                        yield self._annotations.annotate(key, value)

    def _shuffled(self, utterances: Iterable[Utterance], reader: int) -> Iterator[Utterance]:
        rng = np.random.default_rng((self._seed, int(self._epoch), reader))
        held: list[Utterance] = []
        for utterance in utterances:
            if len(held) < self._shuffle_buffer:
                held.append(utterance)
                continue
            at = int(rng.integers(len(held)))
            held[at], utterance = utterance, held[at]
            yield utterance
        for at in rng.permutation(len(held)):
            yield held[at]


class FeaturesOnDevice:
    """Iterable over batches of features, computed on a device from batches of audio.

    Workers read and pad audio; features are computed in the process of the model and on its device.

    Args:
        loader: batches of audio: a ``DataLoader`` over a :class:`WaveDataset` with ``collate_fn=collate``.
        feature: ``Fbank``, ``Mfcc`` ... or a function from audio ``(B, T)`` and lengths ``(B,)`` to features and
            their numbers of frames.
        device: the device; the feature is moved there too.

    >>> from kaldi_compat import Fbank
    >>> from kaldi_compat.data.batching import collate
    >>> audio = [collate([Utterance("a", torch.zeros(16000)), Utterance("b", torch.zeros(8000))])]
    >>> [batch] = FeaturesOnDevice(audio, Fbank(num_mel_bins=80), "cpu")
    >>> batch.inputs.shape, batch.lengths.tolist()
    (torch.Size([2, 98, 80]), [98, 48])
    """

    def __init__(
        self,
        loader: Iterable[Batch],
        feature: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
        device: torch.device | str,
    ) -> None:
        self._loader, self._device = loader, device
        self._feature = feature.to(device) if isinstance(feature, torch.nn.Module) else feature

    def __repr__(self) -> str:
        return f"<FeaturesOnDevice: {self._feature!r} on {self._device}>"

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._loader:
            if batch.inputs.ndim != 2:
                raise KaldiCompatError(f"batches of audio must have the shape (B, T), not {tuple(batch.inputs.shape)}")
            here = batch.to(self._device)
            with torch.no_grad():
                features, frames = self._feature(here.inputs, here.lengths)
            yield replace(here, inputs=features, lengths=frames)
