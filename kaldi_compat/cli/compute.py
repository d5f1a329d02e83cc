"""Shared code of compute-fbank-feats, compute-mfcc-feats, compute-plp-feats and compute-spectrogram-feats.

The programs differ in their options, the module that computes, and the HTK parameter kind of the result.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, get_args

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from io_ark.codecs.htk import HtkFeatures
from io_ark.codecs.wave import AudioBlock, Wave
from kaldi_compat.cli.log import logger, verbose_level, vlog
from kaldi_compat.cli.loop import BlockTable, Counts, LookupReader, Skip, Table, write_block
from kaldi_compat.cli.objects import Matrix, audio_block, duration_of
from kaldi_compat.cli.pipeline import has_second_core, write_in_background
from kaldi_compat.cli.program import Program, program
from kaldi_compat.errors import AudioError, KaldiCompatError, OptionError
from kaldi_compat.exact.batch import make_batch
from kaldi_compat.exact.engine import compute, subtract_mean
from kaldi_compat.exact.features import features_of_list
from kaldi_compat.exact.plan import is_supported, plan_of
from kaldi_compat.exact.rand import KaldiRandom, NoiseSource
from kaldi_compat.exact.resample import resample_waveform
from kaldi_compat.features.registry import SPECTRAL_FEATURES, FeatureType
from kaldi_compat.options.base import as_float32, option, require
from kaldi_compat.options.spectral import Engine, FrameOptions

if TYPE_CHECKING:
    from kaldi_compat.features.spectral import SpectralFeature

__all__ = [
    "ApplicationOptions",
    "Computer",
    "ExactComputer",
    "Extractor",
    "TorchComputer",
    "VtlnOptions",
    "check_lone_speakers",
    "compute_features",
    "computer_for",
    "feature_options",
    "htk_frame_shift",
    "program_name",
    "program_options",
    "spectral_program",
    "warn_of_nan",
]

Options = TypeVar("Options", bound=FrameOptions)

USAGE = """
Computes {description} of audio.

Usage: {program} [options] <wav-rspecifier> <feats-wspecifier>
e.g.:  {program} --config=conf/{name}.conf scp:wav.scp ark,scp:feats.ark,feats.scp
"""
OUTPUT_FORMATS = ("kaldi", "htk")
MONO = -1
LOG_EVERY = 10


@dataclass(frozen=True, kw_only=True)
class ApplicationOptions(FrameOptions):
    """Options of the four programs besides those of the feature."""

    output_format: str = option("kaldi", "format of the output", choices=OUTPUT_FORMATS)
    subtract_mean: bool = option(False, "subtract each utterance's mean features (better done by apply-cmvn)")
    channel: int = option(MONO, "channel to take, from 0; -1 expects mono", ge=MONO)
    min_duration: float = option(0.0, "utterances shorter than this, in seconds, have no output")
    write_utt2dur: str = option("", "wspecifier for the duration of each utterance in seconds, e.g. ark,t:utt2dur")
    device: str = option("cpu", "where to compute: cpu, cuda or cuda:1 (not in Kaldi)")
    engine: str = option(
        "auto", "what computes: exact gives Kaldi's bits, on a CPU (not in Kaldi)", choices=get_args(Engine)
    )


@dataclass(frozen=True, kw_only=True)
class VtlnOptions(ApplicationOptions):
    """Options that give the VTLN factor of an utterance."""

    vtln_warp: float = option(1.0, "VTLN factor of all utterances (without --vtln-map)")
    vtln_map: str = option("", "rspecifier of VTLN factors by utterance, or by speaker with --utt2spk")
    utt2spk: str = option("", "rspecifier of the utterances' speakers, for --vtln-map")


def feature_options(cls: type[Options], options: Any) -> Options:
    """Return the feature's options among those of a program."""
    return cls(**{field.name: getattr(options, field.name) for field in dataclasses.fields(cls)})


def program_options(feature: FeatureType) -> type[ApplicationOptions]:
    """Return the options of the program that computes a feature: the feature's own and the application's."""
    application = VtlnOptions if feature.takes_vtln else ApplicationOptions
    bases = (application, feature.options)
    options = type("Options", bases, {"__doc__": f"Options of {program_name(feature)}.", "__module__": __name__})
    return dataclass(frozen=True, kw_only=True)(options)


def program_name(feature: FeatureType) -> str:
    """Return the name of the program that computes a feature."""
    return f"compute-{feature.name}-feats"


def spectral_program(name: str) -> Program:
    """Return the program that computes a feature: ``spectral_program("fbank")`` is compute-fbank-feats."""
    feature = SPECTRAL_FEATURES[name]

    def main(options: Any, source: str, target: str) -> int:
        return compute_features(feature, options, source, target)

    text = USAGE.format(description=feature.description, program=program_name(feature), name=name)
    return program(program_name(feature), text, program_options(feature))(main)


def check_lone_speakers(feature: FeatureType, utt2spk: str) -> None:
    """Refuse or ignore speakers without a table of VTLN factors, as each of Kaldi's programs does.

    Raises:
        OptionError: the program is compute-mfcc-feats. In Kaldi's other programs the condition is the wrong way round.
    """
    message = f"--utt2spk={utt2spk} has no effect without --vtln-map"
    require(feature.name != "mfcc", message)
    logger.warning("%s", message)


def compute_features(
    feature: FeatureType,
    options: ApplicationOptions,
    source: str,
    target: str,
) -> int:
    """Compute the features of a table of audio and write them as a table; return the exit status.

    Args:
        feature: feature type.
        options: options of the program.
        source: rspecifier of audio.
        target: wspecifier of features.
    """
    if isinstance(options, VtlnOptions) and options.utt2spk and not options.vtln_map:
        check_lone_speakers(feature, options.utt2spk)
    extractor = Extractor(feature, options)
    as_htk: Any = partial(
        HtkFeatures, sample_period=htk_frame_shift(feature, options), parameter_kind=feature.htk_kind(options)
    )
    counts = Counts()
    with ExitStack() as stack:
        warps = None
        if isinstance(options, VtlnOptions) and options.vtln_map:
            reader_of_warps = LookupReader[float]("float", options.vtln_map, utt2spk=options.utt2spk)
            warps = BlockTable(stack.enter_context(reader_of_warps))
        reader = stack.enter_context(
            io_ark.SequentialReader[Wave]("wave", source, background=has_second_core(), blocks=True)
        )
        htk = options.output_format == "htk"
        writer = stack.enter_context(io_ark.Writer[Any]("htk" if htk else "matrix", target))
        durations = None
        if options.write_utt2dur:
            durations = stack.enter_context(io_ark.Writer[float]("double", options.write_utt2dur))
        writing = stack.enter_context(write_in_background(writer))

        def finish(key: str) -> None:
            counts.done += 1
            if counts.total % LOG_EVERY == 0:
                log_progress(counts.total)
            vlog(2, "Processed features for key %s", key)

        def compute_each(entries: Iterable[tuple[str, Wave]]) -> None:
            for key, wave in entries:
                try:
                    features = extractor(key, wave, warps)
                except Skip as reason:
                    counts.failed += 1
                    logger.warning("%s", reason)
                    continue
                if feature.can_be_nan:
                    warn_of_nan(key, features)
                writing[key] = as_htk(features) if htk else features
                if durations is not None:
                    durations[key] = duration_of(wave.samples.shape[1], wave.sample_frequency)
                finish(key)

        for found in reader.blocks():
            item: Any = found if len(found) > 1 else next(found.entries())
            block = audio_block(item)
            if block is None:
                assert isinstance(item, tuple)
                compute_each([item])
                continue
            names = block.names()
            features = None if htk else extractor.of_block(block, names, warps)
            if features is None:
                compute_each(block.entries())
                continue
            if feature.can_be_nan and np.isnan(features.values.sum()):
                for key, each in features.entries():
                    warn_of_nan(key, each)
            write_block(writing, features)
            if durations is not None:
                for key, length, rate in zip(names, block.lengths.tolist(), block.rates.tolist(), strict=True):
                    durations[key] = duration_of(length, rate)
            if logger.isEnabledFor(verbose_level(1)):
                for key in names:
                    finish(key)
                continue
            following = counts.total + LOG_EVERY - counts.total % LOG_EVERY
            counts.done += len(names)
            for total in range(following, counts.total + 1, LOG_EVERY):
                log_progress(total)
    logger.info(" Done %d out of %d utterances.", counts.done, counts.total)
    return counts.status


def log_progress(total: int) -> None:
    """Log how many utterances have been processed."""
    logger.info("Processed %d utterances", total)


def warn_of_nan(key: str, features: Matrix) -> None:
    """Log a warning if features hold NaN, which Kaldi's PLP has for frames of digital silence without dither."""
    if features.size and np.isnan(features.sum()) and (frames := int(np.isnan(features).any(axis=1).sum())):
        logger.warning(
            "%d of %d frames of utterance %s hold NaN, as Kaldi's do for digital silence without dither",
            frames,
            len(features),
            key,
        )


def htk_frame_shift(feature: FeatureType, options: FrameOptions) -> int:
    """Return the frame shift for the HTK header in units of 100 ns: in Kaldi, 10 ms except for the spectrogram."""
    return int(np.float32(options.frame_shift) * np.float32(10_000)) if feature.name == "spectrogram" else 100_000


class Extractor:
    """Computes the features of one utterance after the other; Kaldi's random numbers continue from one to the next.

    Attributes:
        generator: source of the noise of dithering.
    """

    def __init__(self, feature: FeatureType, options: ApplicationOptions) -> None:
        self.options = options
        self.generator: NoiseSource = KaldiRandom()
        self.computer = computer_for(feature, options)

    def __call__(self, key: str, wave: Wave, warps: Table[float] | None) -> Matrix:
        """Compute the features of an utterance.

        Raises:
            Skip: the utterance is too short, lacks the channel or a VTLN factor, or its features cannot be computed.
        """
        samples, warp = self.audio(key, wave, warps)
        generator = copy.copy(self.generator)
        try:
            self.check_rate(wave.sample_frequency)
            features = self.computer.features(samples, wave.sample_frequency, warp, generator)
        except KaldiCompatError as error:
            if isinstance(error, OptionError) and self.options.dither != 0:
                self.generator.frame_seeds(1)  # Kaldi makes the filters of a VTLN factor after the first frame's noise
            raise Skip(f"Failed to compute features for utterance {key}: {error}") from error
        self.generator = generator
        return subtract_mean(features) if self.options.subtract_mean and len(features) else features

    def audio(self, key: str, wave: Wave, warps: Table[float] | None) -> tuple[npt.NDArray[np.int16], float]:
        """Return the samples to compute features of, and the utterance's VTLN factor.

        Raises:
            Skip: the utterance is too short, or lacks the channel or a VTLN factor.
        """
        duration = duration_of(wave.samples.shape[1], wave.sample_frequency)
        if duration < as_float32(self.options.min_duration):
            raise Skip(f"File: {key} is too short ({duration:g} sec): producing no output.")
        return wave.samples[self.channel(key, len(wave.samples))], self.warp(key, warps)

    def channel(self, key: str, num_channels: int) -> int:
        """Return the channel to use of an utterance with ``num_channels`` channels."""
        if self.options.channel >= num_channels:
            raise Skip(
                f"File with id {key} has {num_channels} channels but you specified channel {self.options.channel}, "
                "producing no output."
            )
        if self.options.channel == MONO and num_channels > 1:
            logger.warning("Channel not specified but you have data with %d channels; defaulting to zero", num_channels)
        return max(self.options.channel, 0)

    def warp(self, key: str, warps: Table[float] | None) -> float:
        """Return the utterance's VTLN factor."""
        if warps is None:
            return self.options.vtln_warp if isinstance(self.options, VtlnOptions) else 1.0
        if key not in warps:
            raise Skip(f"No vtln-map entry for utterance-id (or speaker-id) {key}")
        return warps[key]

    def check_rate(self, rate: float) -> None:
        """Raise :class:`AudioError` if audio of this sampling rate must be resampled and the options forbid it."""
        wanted = self.options.sample_frequency
        if rate != wanted and not (self.options.allow_downsample if rate > wanted else self.options.allow_upsample):
            flag = "--allow-downsample=true" if rate > wanted else "--allow-upsample=true"
            raise AudioError(
                f"Waveform and config sample Frequency mismatch: {rate:g} .vs {wanted:g} (use {flag} to resample)"
            )

    def of_block(self, block: AudioBlock, names: Sequence[str], warps: BlockTable[float] | None) -> ArrayBlock | None:
        """Compute the features of a block of utterances at once; None if one of them needs anything unusual."""
        if not isinstance(self.computer, ExactComputer) or self.options.channel > 0:
            return None
        if (block.durations() < as_float32(self.options.min_duration)).any() or (
            block.rates.astype(np.float32) != self.options.sample_frequency
        ).any():
            return None
        factors = self.warp("", None) if warps is None else warps.values(names)
        if factors is None:
            return None
        generator = copy.copy(self.generator)
        try:
            features, counts = self.computer.features_of_block(block, factors, generator)
        except KaldiCompatError:
            return None  # the utterance that is to blame is found by computing one after the other
        self.generator = generator
        if self.options.subtract_mean:
            bounds = np.concatenate(([0], np.cumsum(counts))).tolist()
            for first, end in itertools.pairwise(bounds):
                features[first:end] = subtract_mean(features[first:end])
        shapes = np.stack((counts, np.full_like(counts, features.shape[1])), axis=1)
        return ArrayBlock(block.keys, features.reshape(-1), shapes)


class Computer(Protocol):
    """Computes the features of audio."""

    def features(self, samples: npt.NDArray[np.int16], rate: float, warp: float, noise: NoiseSource) -> Matrix:
        """Compute the features of samples at a sampling rate, resampled if that is not the feature's."""


def computer_for(feature: FeatureType, options: ApplicationOptions) -> Computer:
    """Return what computes a feature with the engine and on the device that the options name.

    Raises:
        OptionError: that engine cannot compute on that device, or the device does not exist.
    """
    if options.engine == "exact" and options.device != "cpu":
        raise OptionError(f"--engine=exact computes on the CPU, not on --device={options.device}: use --engine=torch")
    own_options = feature_options(feature.options, options)
    if options.engine == "exact" and not is_supported(own_options):
        raise OptionError(f"--engine=exact cannot compute {feature.name} features: use --engine=torch")
    exact_by_default = options.engine == "auto" and is_supported(own_options)
    if options.device == "cpu" and (options.engine == "exact" or exact_by_default):
        return ExactComputer(own_options)
    return TorchComputer(feature.module()(own_options, engine=cast(Any, options.engine)), options.device)


class ExactComputer:
    """Computes features with Kaldi's bits, on one thread of a CPU."""

    def __init__(self, options: FrameOptions) -> None:
        self.options = options
        self.plan = plan_of(options)

    def features(self, samples: npt.NDArray[np.int16], rate: float, warp: float, noise: NoiseSource) -> Matrix:
        """Compute the features of samples at a sampling rate, resampled if that is not the feature's."""
        audio: npt.NDArray[Any] = samples
        if rate != self.options.sample_frequency:
            audio = resample_waveform(samples.astype(np.float32), int(rate), int(self.options.sample_frequency))
        (features,) = features_of_list(self.plan, [audio], warp, noise.frame_seeds)
        return features

    def features_of_block(
        self, block: AudioBlock, warps: float | Sequence[float], noise: NoiseSource
    ) -> tuple[Matrix, npt.NDArray[np.int64]]:
        """Compute the features of audio at the feature's sampling rate: all frames, and how many each entry has."""
        batch = make_batch(self.plan, block.samples, block.lengths, starts=block.starts, vtln_warp=warps)
        if self.options.dither != 0:
            batch = batch.with_seeds(noise.frame_seeds(int(batch.rows[-1])))
        return compute(self.plan, batch), np.diff(batch.rows)


class TorchComputer:
    """Computes features with a torch module."""

    def __init__(self, module: SpectralFeature, device: str) -> None:
        import torch

        # Recipes start one process per core, as they do with Kaldi's single-threaded programs.
        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        self.device = device
        try:
            self.module = module.to(device)
        except (RuntimeError, AssertionError) as error:
            raise OptionError(f"--device={device}: {str(error).splitlines()[0]}") from error

    def features(self, samples: npt.NDArray[np.int16], rate: float, warp: float, noise: NoiseSource) -> Matrix:
        """Compute the features of samples at a sampling rate, resampled if that is not the feature's."""
        import torch

        from kaldi_compat.tensors.resample import resample_waveform as resample_tensor

        wanted = self.module.options.sample_frequency
        with torch.inference_mode():
            # torch warns of arrays that may not be written to, such as views of what was read.
            samples = samples if samples.flags.writeable else samples.copy()
            audio = torch.from_numpy(samples).to(self.device)
            audio = audio if rate == wanted else resample_tensor(audio, int(rate), int(wanted))
            return np.asarray(self.module(audio, vtln_warp=warp, generator=noise).cpu())
