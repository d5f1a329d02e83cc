"""The options of a dump, and the locations of its files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from kaldi_compat.options.base import BaseOptions, option, require
from kaldi_compat.options.config import parse_real
from kaldi_compat.options.registry import SPECTRAL_FEATURES
from kaldi_compat.options.spectral import Engine

SPECTRAL = tuple(SPECTRAL_FEATURES)
PITCH = "pitch"
FEATURES = (*SPECTRAL, PITCH, *(f"{name}_{PITCH}" for name in SPECTRAL))
ENGINES = get_args(Engine)
RUNNERS = ("local", "ray")
PITCH_CONF, PROCESS_CONF = "pitch.conf", "pitch_postprocess.conf"
BY_SPEAKER, OVERALL = "speaker", "global"
CMVN_LEVELS = (BY_SPEAKER, OVERALL)
CPU = "cpu"
SECONDS_ON_GPU, SECONDS_ON_CPU = 600.0, 60.0
# Options that name an extractor. kaldi_compat/dump/sources has a file for each option. The first option that has a
# value decides.
SOURCES = "onnx", "transformers", "module", "preset"
# Options that require the option on the right.
NEEDED = {"layers": "transformers", "statistics": "preset"}
# Sources that can be combined: the preset is the front end before the model.
COMBINED_SOURCES = ("onnx", "preset")
MAX_LAYER_DIGITS = 4
# Default names of outputs: matrices, vectors, integer vectors, integer matrices.
FEATS, XVECTOR, LABELS, CODES = "feats", "xvector", "labels", "codes"
FORMATS = {"ark": "", "npy": "/", "safetensors": ".safetensors", "webdataset": ".tar"}


class DumpOptions(BaseOptions):
    """Options of a dump. Configuration files and the feature's own options decide what it computes."""

    conf: str = option("", "configuration file of the spectral feature; conf/<feature>.conf, if it exists")
    pitch_conf: str = option("", "configuration file of compute-kaldi-pitch-feats; conf/pitch.conf, if it exists")
    pitch_postprocess_conf: str = option(
        "", "configuration file of process-kaldi-pitch-feats; Kaldi's defaults if not given"
    )
    paste_length_tolerance: int = option(2, "frames by which pitch and spectral feature may differ in length", ge=0)
    compress: bool = option(True, "write compressed archives")
    compression_method: int = option(1, "how to compress, as in copy-feats", ge=1, le=7)
    write_utt2num_frames: bool = option(True, "write <data>/utt2num_frames")
    write_utt2dur: bool = option(True, "write <data>/utt2dur")
    nj: int = option(
        4,
        "archives, as in Kaldi's scripts, and worker processes: on a CPU at most one per core, else over all GPUs",
        ge=1,
    )
    shard_utterances: int = option(0, "at most this many utterances in an archive, instead of nj; 0 uses nj", ge=0)
    device: str = option("cpu", "cpu, cuda (all GPUs), or GPUs by number such as cuda:0,1")
    readers: int = option(2, "threads of each worker that read and decode audio", ge=1)
    batch_seconds: float = option(0.0, "audio in a batch; 0 is 600 on a GPU and 60 on a CPU", unit="seconds", ge=0)
    window_utterances: int = option(
        512, "read at most this many utterances ahead, and put at most so many into a batch", ge=1
    )
    max_device_memory: float = option(0.0, "GPU memory that a worker may use; 0 is no limit", unit="GiB", ge=0)
    seed: int = option(0, "seed of the dithering noise; an utterance's noise depends only on it and on the key")
    max_duration: float = option(
        43200.0, "longest audio that is accepted; longer audio, such as an endless stream, fails", unit="seconds", gt=0
    )
    command_timeout: float = option(0.0, "time that a command in wav.scp may take; 0 is no limit", unit="seconds", ge=0)
    resume: bool = option(
        False, "resume an interrupted dump: create the missing and damaged archives; start if there is no plan"
    )
    verify: bool = option(True, "compare checksums of the archives that --resume keeps; if false, only sizes")
    retry_failed: bool = option(False, "resume, and recreate the archives that have failed utterances")
    max_failures: int = option(-1, "utterances that may fail before the job stops; -1 is no limit")
    cmvn: str = option(
        "", "statistics at the end, as compute-cmvn-stats: speaker (cmvn.scp), global (cmvn.ark), or speaker,global"
    )
    speeds: str = option("", "speed factors such as 0.9,1.0,1.1, for the data directory --speed-dir")
    speed_dir: str = option("", "data directory to create with the speed-perturbed utterances, which is then dumped")
    pipes: bool = option(True, "run the commands in wav.scp; if false, utterances that need one fail")
    network: bool = option(True, "read from the URLs in wav.scp; if false, utterances that need one fail")
    report: str = option("", "write an HTML report about the job to this file")
    preset: str = option("", "compute the front end of a published model; with --onnx, the one in front of the model")
    statistics: str = option("", "file of the statistics that the preset normalizes by, such as am.mvn")
    module: str = option("", "compute with a Python object: package.module:name or path/to/file.py:name")
    transformers: str = option("", "compute with an encoder or codec of transformers: a folder, or a name on the hub")
    onnx: str = option("", "compute with an ONNX model: of audio, or with --preset of its features")
    layers: str = option(
        "",
        "layers of --transformers such as 9,12: 0 is before the first, empty is the last; codebooks of a codec",
    )
    pool: str = option("", "reduce each matrix to a vector", choices=("", "mean"))
    kmeans: str = option("", "replace each frame by its nearest centroid: a .npy file of shape (clusters, dim)")
    dtype: str = option(
        "float32", "precision of models; less than float32 is autocast", choices=("float32", "bfloat16", "float16")
    )
    compile: bool = option(False, "compile the model with torch.compile")
    allow_pickle: bool = option(False, "read pickled weights of --transformers (.bin), which may run any code")
    trust_extractor: bool = option(
        False, "resume although some of the extractor cannot be compared with that of the plan: you vouch for it"
    )
    per_speaker: bool = option(False, "write the mean vector of each speaker, spk_<name>.scp")
    format: str = option("ark", "also write the outputs in this format, as `ark convert` does", choices=tuple(FORMATS))
    engine: str = option(
        "auto", "engine to compute with: exact gives Kaldi's bits, on a CPU; auto selects it there", choices=ENGINES
    )
    runner: str = option("local", "where to compute: on this machine, or on a Ray cluster", choices=RUNNERS)
    address: str = option("auto", "address of the Ray cluster")
    shard: str = option("", "compute only this part of the archives, such as 3/100, for job arrays")

    def __post_init__(self) -> None:
        super().__post_init__()
        for level in self.cmvn_levels:
            require(level in CMVN_LEVELS, f"cmvn is made of {', '.join(CMVN_LEVELS)}; not {level!r}")
        require(
            bool(self.speeds) == bool(self.speed_dir), "speeds=... and speed_dir=... go together: give both or neither"
        )
        require(
            self.engine != "exact" or not self.on_gpu, f"engine=exact computes on a CPU, not on device={self.device}"
        )
        require(self.engine != "triton" or self.on_gpu, "engine=triton computes on a GPU: give device=cuda, too")
        require(
            not self.kmeans or not self.pool,
            "pool=... and kmeans=... exclude each other: pooled vectors have no frames",
        )
        require(
            all(number.isdecimal() and len(number) <= MAX_LAYER_DIGITS for number in self.layers.split(","))
            or not self.layers,
            f"layers are numbers such as 9,12; not {self.layers!r}",
        )
        layers = self.layer_numbers
        require(len(set(layers)) == len(layers), f"layers={self.layers} names a layer twice: name it once")
        for name, needed in NEEDED.items():
            require(not getattr(self, name) or bool(getattr(self, needed)), f"{name}=... needs {needed}=..., too")
        sources = [name for name in SOURCES if getattr(self, name)]
        can_combine = len(sources) < 2 or tuple(sources) == COMBINED_SOURCES
        require(can_combine, f"{'=... and '.join(sources)}=... exclude each other")
        parse_part(self.shard)
        parse_speeds(self.speeds)

    @cached_property
    def on_gpu(self) -> bool:
        """True if the features are computed on GPUs."""
        return self.device != CPU

    @cached_property
    def seconds_in_batch(self) -> float:
        """Seconds of audio in a batch."""
        return self.batch_seconds or (SECONDS_ON_GPU if self.on_gpu else SECONDS_ON_CPU)

    @cached_property
    def processor(self) -> str:
        """The kind of processor that computes the features, CPU or GPU. Features differ by rounding between the two.

        A frame's features do not depend on its batch, so a dump on a GPU may be resumed with batches of another size.
        """
        return "GPU" if self.on_gpu else "CPU"

    @cached_property
    def cmvn_levels(self) -> tuple[str, ...]:
        """The requested statistics."""
        return tuple(filter(None, self.cmvn.split(",")))

    @cached_property
    def source(self) -> str:
        """The option that names the extractor; "" if there is none."""
        return next((name for name in SOURCES if getattr(self, name)), "")

    @cached_property
    def layer_numbers(self) -> list[int]:
        """The numbers of ``layers``."""
        return [int(number) for number in self.layers.split(",") if number]

    @cached_property
    def resumes(self) -> bool:
        """True if an existing plan is resumed."""
        return self.resume or self.retry_failed

    @cached_property
    def speed_factors(self) -> tuple[str, ...]:
        """The speed factors as strings, which become part of names."""
        return parse_speeds(self.speeds)

    @cached_property
    def part(self) -> tuple[int, int]:
        """Number of this part of the plan, and number of parts; (1, 1) for the whole plan."""
        return parse_part(self.shard)


def parse_speeds(text: str) -> tuple[str, ...]:
    """Split the value of ``--speeds``; raise OptionError unless it is a list of valid speeds."""
    factors = tuple(filter(None, map(str.strip, text.split(","))))
    for factor in factors:
        require(is_speed(factor), f"speeds are positive numbers from 0.01 to 100, such as 0.9,1.0,1.1; not {factor!r}")
    return factors


def parse_part(text: str) -> tuple[int, int]:
    """Split the value of ``--shard``; raise OptionError unless it is a number and a count.

    >>> parse_part("3/100"), parse_part("")
    ((3, 100), (1, 1))
    """
    if not text:
        return 1, 1
    part = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", text)
    number, count = (int(part[1]), int(part[2])) if part else (0, 0)
    require(1 <= number <= count, f"shard is a number from 1 and a count, such as 3/100; not {text!r}")
    return number, count


def is_speed(text: str) -> bool:
    """Return True for a speed factor from 0.01 to 100, for which the resampling filter has a bounded length."""
    factor = parse_real(text)
    return factor is not None and 0.01 <= factor <= 100.0


@dataclass(frozen=True)
class Layout:
    """Locations of a dump's files, as in Kaldi's make_*.sh scripts.

    Attributes:
        data: the data directory.
        feature: name of the feature, such as "fbank" or "mfcc_pitch".
        log: directory of the plan and the archives' manifests.
        archives: absolute path of the directory of the archives.
    """

    data: Path
    feature: str
    log: Path
    archives: Path

    @classmethod
    def of(cls, data: str | Path, feature: str, log: str | Path = "", archives: str | Path = "") -> Layout:
        """Return the layout with the scripts' defaults, ``<data>/log`` and ``<data>/data``."""
        return cls(
            Path(data), feature, Path(log or Path(data) / "log"), Path(archives or Path(data) / "data").absolute()
        )

    @cached_property
    def name(self) -> str:
        """Name of the data directory, which is part of the archives' names."""
        return os.path.basename(os.path.abspath(self.data))

    @cached_property
    def stem(self) -> str:
        """Start of the archives' names."""
        return f"raw_{self.feature}_{self.name}"

    def archive(self, shard: int, output: str = FEATS) -> Path:
        """Path of the archive of an output, for a part of the utterances."""
        stem = self.stem if output == FEATS else f"raw_{self.feature}_{output}_{self.name}"
        return self.archives / f"{stem}.{shard}.ark"

    def script(self, shard: int, output: str = FEATS) -> Path:
        """Path of an archive's script file."""
        return self.archive(shard, output).with_suffix(".scp")

    def speaker_archive(self, name: str) -> Path:
        """Path of the archive of a table with an entry for each speaker."""
        return self.archives / f"{name}_{self.name}.ark"

    @cached_property
    def log_stem(self) -> str:
        """Start of the names of plan, manifests and logs."""
        return f"dump_{self.feature}_{self.name}"

    @cached_property
    def plan(self) -> Path:
        """Path of the plan."""
        return self.log / f"{self.log_stem}.plan.jsonl"

    @cached_property
    def lock(self) -> Path:
        """Path of the file that is locked while a dump runs."""
        return self.log / f"{self.log_stem}.lock"

    @cached_property
    def failures(self) -> Path:
        """Path of the list of utterances without features, with reasons."""
        return self.log / f"{self.log_stem}.failures"

    def manifest(self, shard: int) -> Path:
        """Path of an archive's manifest, which exists once the archive is complete."""
        return self.of_archive(shard, "json")

    def of_archive(self, shard: int, name: str) -> Path:
        """Path of the manifest, the log, or the part of ``utt2num_frames`` or ``utt2dur`` of an archive."""
        return self.log / f"{self.log_stem}.{shard}.{name}"


@dataclass(frozen=True)
class Job:
    """A dump: what to compute, where and how.

    Attributes:
        layout: locations of the files.
        options: options of the dump.
        overrides: lines ``--name=value`` with options of the feature from the command line, which take precedence over
            the configuration file.
        extractor: the extractor object of a call of :func:`kaldi_compat.dump`; then ``module`` is ":<name>".
    """

    layout: Layout
    options: DumpOptions = field(default_factory=DumpOptions)
    overrides: tuple[str, ...] = ()
    extractor: Any = None

    @cached_property
    def source(self) -> str:
        """Kind of extractor that computes, one of :data:`SOURCES`; "" for Kaldi's features."""
        return self.options.source

    @cached_property
    def feature(self) -> str:
        """Name of the feature."""
        return self.layout.feature

    @cached_property
    def spectral(self) -> str:
        """Name of the spectral feature; "" for pitch alone, or for an extractor."""
        return "" if self.source else spectral_of(self.feature)

    @cached_property
    def with_pitch(self) -> bool:
        """True if pitch is computed, alone or pasted to a spectral feature."""
        return not self.source and self.feature.endswith(PITCH)

    @cached_property
    def main_conf(self) -> str:
        """Name of the configuration file that the overrides belong to."""
        return f"{self.spectral or PITCH}.conf"

    @cached_property
    def conf_paths(self) -> dict[str, Path | None]:
        """The configuration files by their names in ``<data>/conf``; None for Kaldi's defaults."""
        named: dict[str, str] = {}
        if self.spectral:
            named[f"{self.spectral}.conf"] = self.options.conf
        if self.with_pitch:
            named[PITCH_CONF] = self.options.pitch_conf
        paths: dict[str, Path | None] = {name: _conf_path(name, path) for name, path in named.items()}
        if self.with_pitch and self.options.pitch_postprocess_conf:
            paths[PROCESS_CONF] = Path(self.options.pitch_postprocess_conf)
        return paths


def spectral_of(feature: str) -> str:
    """Return the spectral part of a feature's name; "" for pitch alone.

    >>> spectral_of("mfcc_pitch"), spectral_of("fbank"), spectral_of("pitch")
    ('mfcc', 'fbank', '')
    """
    return feature.removesuffix(PITCH).removesuffix("_")


def _conf_path(name: str, option_value: str) -> Path | None:
    path = Path(option_value or f"conf/{name}")
    return path if option_value or path.exists() else None
