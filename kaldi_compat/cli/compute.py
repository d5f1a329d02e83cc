"""Shared code of compute-fbank-feats, compute-mfcc-feats, compute-plp-feats and compute-spectrogram-feats.

The four programs differ in their options, the module that computes the features, and the HTK parameter kind.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, Block, Skip, Wave, WaveBlock
from io_ark.codecs import HtkFeatures
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts, compute_results, log_progress, require_one_entry
from kaldi_compat.cli.objects import Matrix, compute_durations, list_waves, select_channel
from kaldi_compat.cli.program import Program, program
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.errors import AudioError, KaldiCompatError, OptionError
from kaldi_compat.exact.engine import compute_batch_features, make_batch, subtract_mean
from kaldi_compat.exact.plan import KINDS, Plan, make_plan
from kaldi_compat.exact.rand import KaldiRandom, NoiseSource
from kaldi_compat.exact.resample import choose_waveform_filter, resample_waveform
from kaldi_compat.options.base import as_float32, require
from kaldi_compat.options.declaration import option
from kaldi_compat.options.registry import SPECTRAL_FEATURES, FeatureType
from kaldi_compat.options.spectral import Engine, FrameOptions

if TYPE_CHECKING:
    from kaldi_compat.torch.features.spectral import SpectralFeature

Options = TypeVar("Options", bound=FrameOptions)

USAGE = """
Computes {description} of audio.

Usage: {program} [options] <wav-rspecifier> <feats-wspecifier>
e.g.:  {program} --config=conf/{name}.conf scp:wav.scp ark,scp:feats.ark,feats.scp
"""
OUTPUT_FORMATS = ("kaldi", "htk")
MONO = -1


class ApplicationOptions(FrameOptions):
    """Options that the programs for MFCC, PLP, filter banks and spectrograms share, besides the feature's options."""

    output_format: str = option("kaldi", "format of the output", choices=OUTPUT_FORMATS)
    subtract_mean: bool = option(False, "subtract each utterance's mean features (better done by apply-cmvn)")
    channel: int = option(MONO, "channel to take, from 0; -1 expects mono", ge=MONO)
    min_duration: float = option(0.0, "utterances shorter than this, in seconds, have no output")
    write_utt2dur: str = option("", "wspecifier for the duration of each utterance in seconds, e.g. ark,t:utt2dur")
    device: str = option("cpu", "where to compute: cpu, cuda or cuda:1 (not in Kaldi)")
    engine: str = option(
        "auto", "engine to compute with: exact gives Kaldi's bits, on a CPU (not in Kaldi)", choices=get_args(Engine)
    )


class VtlnOptions(ApplicationOptions):
    """Options that give the VTLN factor of an utterance."""

    vtln_warp: float = option(1.0, "VTLN factor of all utterances (without --vtln-map)")
    vtln_map: str = option("", "rspecifier of VTLN factors by utterance, or by speaker with --utt2spk")
    utt2spk: str = option("", "rspecifier of the utterances' speakers, for --vtln-map")


def select_feature_options(cls: type[Options], options: Any) -> Options:
    """Make the options ``cls`` of a feature from a program's ``options``, which have fields with the same names."""
    return cls(**{field.name: getattr(options, field.name) for field in dataclasses.fields(cls)})


def make_program_options(feature: FeatureType) -> type[ApplicationOptions]:
    """Make the class of a program's options from the feature's options and :class:`ApplicationOptions`.

    VTLN options are added if the feature has a warp factor.
    """
    application = VtlnOptions if feature.takes_vtln else ApplicationOptions
    bases = (application, feature.options)
    return type("Options", bases, {"__module__": __name__})


def make_spectral_program(name: str) -> Program:
    """Make the program that computes the feature ``name``, such as compute-fbank-feats for "fbank"."""
    feature = SPECTRAL_FEATURES[name]
    program_name = f"compute-{name}-feats"
    text = USAGE.format(description=feature.description, program=program_name, name=name)
    return program(program_name, text, make_program_options(feature))(partial(compute_features, feature))


def compute_features(feature: FeatureType, options: ApplicationOptions, source: str, target: str) -> int:
    """Compute the features of a table of audio, and write them to ``target``. Return 0 if an entry is written, else 1.

    Raises:
        OptionError: an option is invalid.
        ArkError: a table cannot be opened, read or written.
    """
    vtln = options if isinstance(options, VtlnOptions) else VtlnOptions()
    if vtln.utt2spk and not vtln.vtln_map:
        message = f"--utt2spk={vtln.utt2spk} has no effect without --vtln-map: pass both options, or neither"
        require(feature.name != "mfcc", message)  # Of Kaldi's programs, only compute-mfcc-feats refuses this.
        logger.warning("%s", message)
    extractor = SpectralExtractor(feature, options)
    is_htk = options.output_format == "htk"
    counts = Counts()
    with Tables() as tables:
        warps = tables.open_lookup("float", vtln.vtln_map, vtln.utt2spk) if vtln.vtln_map else None
        blocks = tables.read("wave", source)
        writer = tables.open_writer("htk" if is_htk else "matrix", target)
        durations_writer = tables.open_writer("double", options.write_utt2dur) if options.write_utt2dur else None

        def compute_block(block: Block) -> ArrayBlock:
            """Compute the features of a block. Write the durations of the utterances if an option asks for them."""
            features = extractor.compute_block(block, warps)
            if feature.can_be_nan:
                warn_of_nan(features)
            if durations_writer is not None:
                durations_writer.write_block(features.with_numbers(compute_durations(block)))
            return features

        results = compute_results(compute_block, tables.compute_ahead(blocks), counts)
        for features in tables.compute_ahead(log_progress(results, lambda: counts.total)):
            writer.write_block(convert_to_htk(features, feature, options) if is_htk else features)
    logger.info(" Done %d out of %d utterances.", counts.done, counts.total)
    return counts.status


def warn_of_nan(block: ArrayBlock) -> None:
    """Log a warning for each utterance with NaN. Kaldi's PLP gives NaN for frames of digital silence without dither."""
    if not np.isnan(block.values.sum()):
        return
    for key, features in block.entries():
        if features.size and (num_nan_frames := int(np.isnan(features).any(axis=1).sum())):
            logger.warning(
                "%d of %d frames of utterance %s contain NaN, as in Kaldi for digital silence without dither: "
                "use --dither=1",
                num_nan_frames, len(features), key,
            )  # fmt: skip


def convert_to_htk(block: Block, feature: FeatureType, options: FrameOptions) -> Block:
    """Convert features to HTK format. As in Kaldi, the sample period is 10 ms, or a spectrogram's frame shift."""
    period, kind = 100_000, feature.get_htk_kind(options)  # The unit of the period is 100 ns, so this is 10 ms.
    if feature.name == "spectrogram":
        period = int(np.float32(options.frame_shift) * np.float32(10_000))  # One millisecond has 10,000 units.
    return block.map(lambda _, matrix: HtkFeatures(matrix, sample_period=period, parameter_kind=kind))


class SpectralExtractor:
    """Computes the features of blocks of utterances. Kaldi's random numbers continue from block to block.

    ``feature`` is the type of the feature, and ``options`` are the options of the program.
    """

    def __init__(self, feature: FeatureType, options: ApplicationOptions) -> None:
        self.options = options
        self.computer = choose_computer(feature, options)
        self._random = KaldiRandom()

    def compute_block(
        self, block: Block, warps: LookupReader[float] | None, noise: NoiseSource | None = None
    ) -> ArrayBlock:
        """Compute the features (frames, dim) of each utterance, and return them as a block.

        Args:
            block: audio.
            warps: table of VTLN factors by utterance. If None, all utterances have the factor in the options.
            noise: source of the noise for dithering. If None, the noise comes from Kaldi's random numbers.

        Raises:
            Skip: an utterance is too short, lacks the channel or a VTLN factor, or its features cannot be computed. For
                a block of several utterances, ``Skip`` asks the caller to split the block.
        """
        audio = self.select_channels(block)
        factors = self.find_warps(block, warps)
        random = copy.copy(self._random)  # A refused block must not change the state, because it is computed again.
        try:
            self.check_rates(audio)
            features, counts = self.computer.compute(audio, factors, noise or random)
        except (KaldiCompatError, MemoryError) as error:
            key = require_one_entry(block, block.decode_keys())[0]
            if isinstance(error, OptionError) and self.options.dither != 0:
                self._random.frame_seeds(1)  # Kaldi draws this noise before the error, so later noise depends on it.
            raise Skip(f"Failed to compute features for utterance {key}: {error}") from error
        self._random = random
        if self.options.subtract_mean:
            bounds = np.concatenate(([0], np.cumsum(counts))).tolist()
            for first, end in itertools.pairwise(bounds):
                if end > first:
                    features[first:end] = subtract_mean(features[first:end])
        shapes = np.stack((counts, np.full_like(counts, features.shape[1])), axis=1)
        return ArrayBlock(block.keys, features.reshape(-1), shapes)

    def select_channels(self, block: Block) -> WaveBlock:
        """Return a block with the selected channel (``options.channel``) of each utterance.

        Raise Skip if an utterance is too short or lacks the channel, or if the block cannot be processed as a whole.
        The caller splits a block of several utterances, so that the message is only used for a single utterance.
        """
        channel, durations = self.options.channel, compute_durations(block)
        if (durations < as_float32(self.options.min_duration)).any():
            raise Skip(f"File: {block.decode_keys()[0]} is too short ({durations[0]:g} sec): producing no output.")
        num_channels = 1 if isinstance(block, WaveBlock) else len(list_waves(block)[0].samples)
        if channel >= num_channels:
            mistake = f"has {num_channels} channels but you specified channel {channel}, producing no output."
            raise Skip(f"File with id {block.decode_keys()[0]} {mistake}")
        return select_channel(block, channel)

    def find_warps(self, block: Block, table: LookupReader[float] | None) -> float | list[float]:
        """Look up each utterance's VTLN factor in ``table``. Raise Skip if an utterance has no factor.

        Without a table, return the factor in the options, or 1 for features without a warp.
        """
        if table is None:
            return self.options.vtln_warp if isinstance(self.options, VtlnOptions) else 1.0
        return table.require_values(block, lambda key: f"No vtln-map entry for utterance-id (or speaker-id) {key}")

    def check_rates(self, audio: WaveBlock) -> None:
        """Raise AudioError if audio must be resampled, but the options forbid it or the block has several entries.

        The caller splits a block of several entries, so that audio that must be resampled is alone in its block.
        """
        target = as_float32(self.options.sample_frequency)
        for rate in audio.rates[audio.rates.astype(np.float32) != target].tolist():
            is_allowed = self.options.allow_downsample if rate > target else self.options.allow_upsample
            if len(audio) > 1 or not is_allowed:
                flag = "--allow-downsample=true" if rate > target else "--allow-upsample=true"
                raise AudioError(
                    f"Waveform and config sample Frequency mismatch: {rate:g} .vs {target:g} (use {flag} to resample)"
                )


def choose_computer(feature: FeatureType, options: ApplicationOptions) -> ExactComputer | TorchComputer:
    """Return the object that computes a feature with the engine and on the device that ``options`` name.

    Raise :class:`OptionError` if the engine cannot compute the feature or use the device, or there is no such device.
    """
    if options.engine == "exact" and options.device != "cpu":
        raise OptionError(f"--engine=exact computes on the CPU, not on --device={options.device}: use --engine=torch")
    feature_options = select_feature_options(feature.options, options)
    is_supported = feature.options in KINDS
    if options.engine == "exact" and not is_supported:
        raise OptionError(f"--engine=exact cannot compute {feature.name} features: use --engine=torch")
    if options.device == "cpu" and options.engine in ("auto", "exact") and is_supported:
        return ExactComputer(make_plan(feature_options))
    return TorchComputer(feature.import_class()(feature_options, engine=cast(Any, options.engine)), options.device)


@dataclass(frozen=True)
class ExactComputer:
    """Computes features in one thread of a CPU. The results have Kaldi's bits."""

    plan: Plan

    def compute(
        self, block: WaveBlock, warps: float | Sequence[float], noise: NoiseSource
    ) -> tuple[Matrix, npt.NDArray[np.int64]]:
        """Compute the features of a block of utterances. Audio that must be resampled has to be alone in its block.

        Args:
            block: audio with one channel.
            warps: a VTLN factor for each utterance, or one factor for all utterances.
            noise: source of the noise for dithering.

        Returns:
            The frames of all utterances, (frames, dim), and the number of frames of each utterance, (utterances,).
        """
        samples: npt.NDArray[Any] = block.samples
        starts, lengths, options = block.starts, block.lengths, self.plan.options
        target = as_float32(options.sample_frequency)
        if (rate := float(block.rates[0])) != target:
            audio = samples[starts[0] : starts[0] + lengths[0]].astype(np.float32)
            samples = resample_waveform(audio, rate, target)
            starts, lengths = np.zeros_like(starts), np.array([len(samples)])
        batch = make_batch(self.plan, samples, lengths, starts=starts, vtln_warp=warps)
        if options.dither != 0:
            batch = batch.with_seeds(noise.frame_seeds(int(batch.rows[-1])))
        return compute_batch_features(self.plan, batch), np.diff(batch.rows)


class TorchComputer:
    """Computes features with the torch module ``module`` on ``device``, for example "cpu" or "cuda:1".

    Raise OptionError if torch cannot use the device.
    """

    def __init__(self, module: SpectralFeature, device: str) -> None:
        import torch

        # Use one thread, because recipes start one process per core, as for Kaldi's single-threaded programs.
        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        self.device = device
        try:
            self.module = module.to(device)
        except (RuntimeError, AssertionError) as error:
            raise OptionError(f"--device={device}: {str(error).splitlines()[0]}") from error

    def compute(
        self, block: WaveBlock, warps: float | Sequence[float], noise: NoiseSource
    ) -> tuple[Matrix, npt.NDArray[np.int64]]:
        """Compute the features of a block of utterances (see :meth:`ExactComputer.compute`)."""
        factors = itertools.repeat(warps) if isinstance(warps, float) else warps
        waves = (wave for _, wave in block.entries())
        features = [self._compute_utterance(wave, warp, noise) for wave, warp in zip(waves, factors, strict=False)]
        return np.concatenate(features), np.array([len(matrix) for matrix in features])

    def _compute_utterance(self, wave: Wave, warp: float, noise: NoiseSource) -> Matrix:
        """Compute the features of one utterance, (frames, dim). Resample audio of a different rate first."""
        import torch

        from kaldi_compat.torch.features.resample import resample_linearly

        rate, target = wave.sample_frequency, as_float32(self.module.options.sample_frequency)
        with torch.inference_mode():
            # Copy read-only arrays, such as views of a file's bytes, because torch warns about them.
            samples = wave.samples[0] if wave.samples.flags.writeable else wave.samples[0].copy()
            audio = torch.from_numpy(samples).to(self.device)
            audio = audio if rate == target else resample_linearly(audio.float(), *choose_waveform_filter(rate, target))
            return np.asarray(self.module(audio, vtln_warp=warp, generator=noise).cpu())
