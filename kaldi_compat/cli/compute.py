"""What compute-fbank-feats, compute-mfcc-feats, compute-plp-feats and compute-spectrogram-feats have in common.

They differ in the options, in the module that computes, and in what HTK calls the result.
"""

from __future__ import annotations

import dataclasses
import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.codecs.htk import HtkFeatures
from io_ark.codecs.wave import Wave
from kaldi_compat.cli.log import logger, vlog
from kaldi_compat.cli.loop import Counts, Skip, Table
from kaldi_compat.cli.objects import Matrix, duration_of
from kaldi_compat.cli.pipeline import behind, has_second_core
from kaldi_compat.cli.program import Program, program
from kaldi_compat.errors import AudioError, KaldiCompatError, OptionError
from kaldi_compat.features.registry import SPECTRAL_FEATURES, FeatureType
from kaldi_compat.options.base import as_float32, option, require
from kaldi_compat.options.spectral import FrameOptions

if TYPE_CHECKING:
    from torch import Tensor

    from kaldi_compat.features.spectral import SpectralFeature

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
    """Options of the four programs that are no part of the feature."""

    output_format: str = option("kaldi", "format of the output: " + ", ".join(OUTPUT_FORMATS))
    subtract_mean: bool = option(False, "subtract each utterance's mean features (better done by apply-cmvn)")
    channel: int = option(MONO, "channel to take, from 0; -1 expects mono")
    min_duration: float = option(0.0, "utterances shorter than this, in seconds, have no output")
    write_utt2dur: str = option("", "wspecifier for the duration of each utterance in seconds, e.g. ark,t:utt2dur")
    device: str = option("cpu", "where to compute: cpu, cuda or cuda:1 (not in Kaldi)")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.output_format in OUTPUT_FORMATS,
            f"--output-format={self.output_format}: expected one of {', '.join(OUTPUT_FORMATS)}",
        )
        require(self.channel >= MONO, f"--channel={self.channel}: expected a channel from 0, or -1")


@dataclass(frozen=True, kw_only=True)
class VtlnOptions(ApplicationOptions):
    """Where the VTLN factor of an utterance comes from."""

    vtln_warp: float = option(1.0, "VTLN factor of all utterances (without --vtln-map)")
    vtln_map: str = option("", "rspecifier of VTLN factors by utterance, or by speaker with --utt2spk")
    utt2spk: str = option("", "rspecifier of the utterances' speakers, for --vtln-map")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.vtln_map != "" or self.utt2spk == "", "--utt2spk is only of use with --vtln-map")


def feature_options(cls: type[Options], options: Any) -> Options:
    """The feature's part of a program's options."""
    return cls(**{field.name: getattr(options, field.name) for field in dataclasses.fields(cls)})


def program_options(feature: FeatureType) -> type[ApplicationOptions]:
    """The options of the program that computes a feature: the feature's own, and those of the application."""
    application = VtlnOptions if feature.takes_vtln else ApplicationOptions
    bases = (application, feature.options)
    options = type("Options", bases, {"__doc__": f"Options of {program_name(feature)}.", "__module__": __name__})
    return dataclass(frozen=True, kw_only=True)(options)


def program_name(feature: FeatureType) -> str:
    """The name of the program that computes a feature."""
    return f"compute-{feature.name}-feats"


def spectral_program(name: str) -> Program:
    """The program that computes the feature of this name: ``spectral_program("fbank")`` is compute-fbank-feats."""
    feature = SPECTRAL_FEATURES[name]

    def main(options: Any, source: str, target: str) -> int:
        return compute_features(feature, options, source, target)

    text = USAGE.format(description=feature.description, program=program_name(feature), name=name)
    return program(program_name(feature), text, program_options(feature))(main)


def compute_features(
    feature: FeatureType,
    options: ApplicationOptions,
    source: str,
    target: str,
) -> int:
    """Compute the features of a table of audio and write them as a table; returns the exit status.

    Args:
        feature: what is computed.
        options: of the program.
        source: rspecifier of audio.
        target: wspecifier of features.
    """
    extractor = Extractor(feature.module()(feature_options(feature.options, options)), options)
    as_htk: Any = partial(
        HtkFeatures, sample_period=htk_frame_shift(feature, options), parameter_kind=feature.htk_kind(options)
    )
    counts = Counts()
    with ExitStack() as stack:
        warps = None
        if isinstance(options, VtlnOptions) and options.vtln_map:
            warps = stack.enter_context(
                io_ark.RandomAccessReader[float]("float", options.vtln_map, utt2spk=options.utt2spk)
            )
        reader = stack.enter_context(io_ark.SequentialReader[Wave]("wave", source, background=has_second_core()))
        htk = options.output_format == "htk"
        writer = stack.enter_context(io_ark.Writer[Any]("htk" if htk else "matrix", target))
        durations = None
        if options.write_utt2dur:
            durations = stack.enter_context(io_ark.Writer[float]("double", options.write_utt2dur))
        writing = stack.enter_context(behind(writer))
        for key, wave in reader:
            try:
                features = extractor(key, wave, warps)
            except Skip as reason:
                counts.failed += 1
                logger.warning("%s", reason)
                continue
            writing[key] = as_htk(features) if htk else features
            if durations is not None:
                durations[key] = duration_of(wave.samples.shape[1], wave.sample_frequency)
            counts.done += 1
            if counts.total % LOG_EVERY == 0:
                logger.info("Processed %d utterances", counts.total)
            vlog(2, "Processed features for key %s", key)
    logger.info(" Done %d out of %d utterances.", counts.done, counts.total)
    return counts.status


def htk_frame_shift(feature: FeatureType, options: FrameOptions) -> int:
    """The frame shift in HTK's header, in units of 100 ns: Kaldi's programs say 10 ms except for the spectrogram."""
    return int(np.float32(options.frame_shift) * np.float32(10_000)) if feature.name == "spectrogram" else 100_000


class Extractor:
    """Computes the features of one utterance after the other, with Kaldi's random numbers running on through them."""

    def __init__(self, module: SpectralFeature, options: ApplicationOptions) -> None:
        import torch

        from kaldi_compat.exact.rand import KaldiRandom

        # Recipes start one process per core, as they do with Kaldi's single-threaded programs.
        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        self.options = options
        try:
            self.module = module.to(options.device)
        except (RuntimeError, AssertionError) as error:
            raise OptionError(f"--device={options.device}: {str(error).splitlines()[0]}") from error
        self.generator = KaldiRandom()

    def __call__(self, key: str, wave: Wave, warps: Table[float] | None) -> Matrix:
        """The features.

        Raises:
            Skip: the utterance is too short, lacks the channel or a VTLN factor, or its features cannot be computed.
        """
        samples, warp = self.audio(key, wave, warps)
        try:
            features = self.compute(samples, wave.sample_frequency, warp)
        except KaldiCompatError as error:
            raise Skip(f"Failed to compute features for utterance {key}: {error}") from error
        if self.options.subtract_mean and len(features):
            features = features - features.mean(axis=0)
        return features

    def audio(self, key: str, wave: Wave, warps: Table[float] | None) -> tuple[npt.NDArray[np.int16], float]:
        """The samples to compute features of, and the utterance's VTLN factor.

        Raises:
            Skip: the utterance is too short, or lacks the channel or a VTLN factor.
        """
        duration = duration_of(wave.samples.shape[1], wave.sample_frequency)
        if duration < as_float32(self.options.min_duration):
            raise Skip(f"File: {key} is too short ({duration:g} sec): producing no output.")
        return wave.samples[self.channel(key, len(wave.samples))], self.warp(key, warps)

    def channel(self, key: str, num_channels: int) -> int:
        """The channel to take of an utterance that has so many."""
        if self.options.channel >= num_channels:
            raise Skip(
                f"File with id {key} has {num_channels} channels but you specified channel {self.options.channel}, "
                "producing no output."
            )
        if self.options.channel == MONO and num_channels > 1:
            logger.warning(
                "Channel not specified but you have data with %d channels (%s); defaulting to zero", num_channels, key
            )
        return max(self.options.channel, 0)

    def warp(self, key: str, warps: Table[float] | None) -> float:
        """The utterance's VTLN factor."""
        if warps is None:
            return self.options.vtln_warp if isinstance(self.options, VtlnOptions) else 1.0
        if key not in warps:
            raise Skip(f"No vtln-map entry for utterance-id (or speaker-id) {key}")
        return warps[key]

    def compute(self, samples: npt.NDArray[np.int16], rate: float, warp: float) -> Matrix:
        """The features of samples at some sampling rate."""
        import torch

        with torch.inference_mode():
            # torch warns of arrays that may not be written to, such as views of what was read.
            samples = samples if samples.flags.writeable else samples.copy()
            audio = self.resampled(torch.from_numpy(samples).to(self.options.device), rate)
            features = self.module(audio, vtln_warp=warp, generator=self.generator)
            return np.asarray(features.cpu())

    def resampled(self, audio: Tensor, rate: float) -> Tensor:
        """Audio at the sampling rate that the features are computed at.

        Raises:
            AudioError: it has another one, and no option allows to resample it.
        """
        from kaldi_compat.functional.resample import resample_waveform

        wanted = self.options.sample_frequency
        if rate == wanted:
            return audio
        if not (self.options.allow_downsample if rate > wanted else self.options.allow_upsample):
            flag = "--allow-downsample=true" if rate > wanted else "--allow-upsample=true"
            raise AudioError(f"it has {rate:g} Hz, not --sample-frequency={wanted:g}; {flag} would resample it")
        return resample_waveform(audio, int(rate), int(wanted))
