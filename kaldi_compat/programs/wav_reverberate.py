"""wav-reverberate: add reverberation and noises to audio."""

import numpy as np

import io_ark
from io_ark.blocks import Wave
from io_ark.codecs import pcm16
from kaldi_compat.cli.log import log_verbose, logger
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.program import program
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.functional.reverberate import AdditiveSignal, reverberate
from kaldi_compat.options.base import FLOAT32_END, require
from kaldi_compat.options.config import parse_real
from kaldi_compat.options.declaration import option
from kaldi_compat.options.postprocessing import ReverberationOptions

USAGE = """
Convolves audio with a room impulse response and adds noises.

Usage: wav-reverberate [options] <wav-rxfilename> <wav-wxfilename>
e.g.:  wav-reverberate --impulse-response=rir.wav --additive-signals=noise1.wav,noise2.wav --snrs=20.0,15.0
                       --start-times=0,17.8 --duration=20.25 input.wav output.wav
"""

FULL_SCALE = np.float32(1 << 15)
Noise = tuple[str, Wave, float, float]  # Name, audio, signal-to-noise ratio in dB, and start time in seconds.


class Options(ReverberationOptions):
    multi_channel_output: bool = option(False, "write one output channel for each channel of the impulse response")
    input_wave_channel: int = option(0, "channel of the input to use, from 0")
    rir_channel: int = option(0, "channel of the impulse response to use, unless --multi-channel-output is true")
    noise_channel: int = option(0, "channel of the noises to use, unless --multi-channel-output is true")
    impulse_response: str = option("", "WAV file or command ('... |') with the impulse response")
    additive_signals: str = option("", "comma-separated WAV files or commands with noises to add")
    snrs: str = option("", "comma-separated signal-to-noise ratios of the noises in dB")
    start_times: str = option("", "comma-separated start times of the noises in seconds")


@program("wav-reverberate", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Add reverberation and noises to one channel of the input, write the result, and return the exit status 0.

    With ``--multi-channel-output``, the output has one channel for each channel of the impulse response.
    """
    if options.multi_channel_output and (options.rir_channel or options.noise_channel):
        logger.warning("options for --rir-channel and --noise-channel are ignored as --multi-channel-output is true.")
    wave = read_wave(source)
    rir = read_wave(options.impulse_response) if options.impulse_response else None
    noises = read_noises(options, wave.sample_frequency)
    channel_pairs = choose_channels(options, rir, noises)
    for rir_channel, _ in channel_pairs:
        if rir is not None and not get_channel(rir, rir_channel, options.impulse_response).any():
            location = f" in channel {rir_channel}" if len(rir.samples) > 1 else ""
            logger.warning(
                "The impulse response %s is silent%s, so the output is silent", options.impulse_response, location
            )
    speech = get_channel(wave, options.input_wave_channel, source)
    rir_frequency = None if rir is None else rir.sample_frequency
    output = []
    for rir_channel, noise_channel in channel_pairs:
        response = None if rir is None else get_channel(rir, rir_channel, options.impulse_response) / FULL_SCALE
        noise_signals = [AdditiveSignal(get_channel(noise, noise_channel, name), snr, start)
                         for name, noise, snr, start in noises]  # fmt: skip
        output.append(reverberate(speech, wave.sample_frequency, response, noise_signals, options,
                                  rir_frequency=rir_frequency))  # fmt: skip
    io_ark.save(target, Wave(wave.sample_frequency, pcm16(np.stack(output))), kind="wave")
    return 0


def choose_channels(options: Options, rir: Wave | None, noises: list[Noise]) -> list[tuple[int, int]]:
    """Return the channel of the impulse response and the channel of the noises, for each channel of the output.

    Raises:
        OptionError: ``multi_channel_output`` is set, but there is no impulse response.
        AudioError: ``multi_channel_output`` is set, but a noise and the impulse response differ in number of channels.
    """
    if not options.multi_channel_output:
        return [(options.rir_channel, options.noise_channel)]
    if rir is None:
        raise OptionError(
            "--multi-channel-output needs an impulse response, which determines the channels of the output: "
            "pass --impulse-response"
        )
    num_channels = len(rir.samples)
    for name, noise, _, _ in noises:
        if len(noise.samples) != num_channels:
            raise AudioError(
                f"{name} and the impulse response have {len(noise.samples)} and {num_channels} channels: "
                "use noises with as many channels as the impulse response"
            )
    return [(channel, channel) for channel in range(num_channels)]


def read_wave(name: str) -> Wave:
    """Read audio from a file or from the output of a command, and log its size."""
    wave: Wave = io_ark.load(name, kind="wave")
    channels, samples = wave.samples.shape
    log_verbose(1, "%s: sampling frequency %g, %d samples, %d channels", name, wave.sample_frequency, samples, channels)
    return wave


def read_noises(options: Options, sample_frequency: float) -> list[Noise]:
    """Read the noises that the options list. ``sample_frequency`` is the sampling rate of the input in Hz.

    Raises:
        OptionError: a number is invalid, or the options list different numbers of noises, ratios and start times.
        AudioError: the sampling rates of a noise and the input differ.
    """
    names = [name for name in options.additive_signals.split(",") if name]
    if not names:
        return []
    snrs, starts = parse_numbers(options.snrs, "--snrs"), parse_numbers(options.start_times, "--start-times")
    require(
        len(names) == len(snrs) == len(starts),
        f"--additive-signals has {len(names)} entries, --snrs {len(snrs)} and --start-times {len(starts)}:"
        " the numbers must be equal",
    )
    noises = []
    for name, snr, start in zip(names, snrs, starts, strict=True):
        noise = read_wave(name)
        if noise.sample_frequency != sample_frequency:
            raise AudioError(
                f"the noise {name} has a sampling rate of {noise.sample_frequency:g} Hz, but the input has "
                f"{sample_frequency:g} Hz: resample the noise"
            )
        noises.append((name, noise, snr, start))
    return noises


def parse_numbers(text: str, name: str) -> list[float]:
    """Parse comma-separated numbers. For an invalid string, raise OptionError with a message about ``name``."""
    numbers = [parse_real(part, FLOAT32_END) for part in text.split(",") if part]
    require(None not in numbers, f"{name}: expected comma-separated numbers, not {text!r}")
    return [number for number in numbers if number is not None]


def get_channel(wave: Wave, channel: int, name: str) -> Vector:
    """Return a channel (T,) on the scale of 16-bit integers. Raise AudioError if the audio lacks the channel."""
    if not 0 <= channel < len(wave.samples):
        raise AudioError(f"{name} has no channel {channel}: choose from 0 to {len(wave.samples) - 1}")
    samples: Vector = wave.samples[channel].astype(np.float32)
    return samples
