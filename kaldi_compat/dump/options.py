"""What is asked for: the options of a dump, and where its files lie."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kaldi_compat.features.registry import SPECTRAL_FEATURES
from kaldi_compat.options.base import BaseOptions, option, require
from kaldi_compat.options.config import parse_real

SPECTRAL = tuple(SPECTRAL_FEATURES)
PITCH = "pitch"
FEATURES = (*SPECTRAL, PITCH, *(f"{name}_{PITCH}" for name in SPECTRAL))
ENGINES = ("local", "ray")
PROCESS_CONF = "pitch_postprocess.conf"
BY_SPEAKER, OVERALL = "speaker", "global"
CMVN_LEVELS = (BY_SPEAKER, OVERALL)
CPU = "cpu"
SECONDS_ON_GPU, SECONDS_ON_CPU = 600.0, 60.0


@dataclass(frozen=True, kw_only=True)
class DumpOptions(BaseOptions):
    """How a dump is done. What is computed is set by the configuration files."""

    conf: str = option("", "configuration file of the spectral feature; conf/<feature>.conf if not given")
    pitch_conf: str = option("", "configuration file of compute-kaldi-pitch-feats; conf/pitch.conf if not given")
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
        "archives, as in Kaldi's scripts; and worker processes: on a CPU at most one a core, else spread over the GPUs",
        ge=1,
    )
    shard_utterances: int = option(
        0, "utterances in an archive at most, in place of nj archives; 0 leaves it to nj", ge=0
    )
    device: str = option("cpu", "cpu, cuda (all GPUs), or GPUs by number such as cuda:0,1")
    readers: int = option(2, "threads of each worker that read and decode audio", ge=1)
    batch_seconds: float = option(0.0, "audio in a batch; 0 is 600 on a GPU and 60 on a CPU", unit="seconds", ge=0)
    window_utterances: int = option(
        512, "utterances read ahead at most, from which batches of like lengths are made", ge=1
    )
    max_device_memory: float = option(0.0, "GPU memory of a worker at most; 0 is no limit", unit="GiB", ge=0)
    seed: int = option(0, "seed of the dithering noise; each utterance's noise depends on it and on the key alone")
    resume: bool = option(False, "go on with the plan that is there: only archives that are not complete are made")
    max_failures: int = option(-1, "utterances that may fail before the job stops; -1 is no limit")
    cmvn: str = option("", "statistics in the same pass: speaker (cmvn.scp), global (cmvn.ark), or speaker,global")
    speeds: str = option("", "speed factors such as 0.9,1.0,1.1, for which --speed-dir is made from the data directory")
    speed_dir: str = option("", "data directory with the speed-perturbed utterances, which is then the one dumped")
    pipes: bool = option(True, "run the commands in wav.scp; without, an utterance that needs one fails")
    report: str = option("", "write a page about the job to this file (HTML)")
    engine: str = option("local", "engine that runs the archives", choices=ENGINES)
    address: str = option("auto", "address of the Ray cluster")
    shard: str = option("", "only this part of the plan's archives, such as 3/100: for arrays of batch jobs")

    def __post_init__(self) -> None:
        super().__post_init__()
        for level in self.cmvn_levels:
            require(level in CMVN_LEVELS, f"cmvn is made of {', '.join(CMVN_LEVELS)}; not {level!r}")
        require(bool(self.speeds) == bool(self.speed_dir), "speeds and speed_dir go together: give both or neither")
        self.part  # noqa: B018  refuses a shard that cannot be meant
        self.speed_factors  # noqa: B018  likewise

    @property
    def on_gpu(self) -> bool:
        """Whether the features are computed on GPUs."""
        return self.device != CPU

    @property
    def seconds_in_batch(self) -> float:
        """Seconds of audio that make a batch."""
        return self.batch_seconds or (SECONDS_ON_GPU if self.on_gpu else SECONDS_ON_CPU)

    @property
    def batching(self) -> str:
        """What decides which utterances are computed together, where that matters.

        It does on a GPU, whose matrix product rounds by the number of rows.
        """
        if not self.on_gpu:
            return "each utterance alone"
        return f"{self.seconds_in_batch:g} s at once of {self.window_utterances} utterances"

    @property
    def cmvn_levels(self) -> tuple[str, ...]:
        """The statistics that are asked for."""
        return tuple(filter(None, self.cmvn.split(",")))

    @property
    def wants_stats(self) -> bool:
        """Whether statistics are kept of each archive: by speaker, whatever is made of them."""
        return bool(self.cmvn_levels or self.report)

    @property
    def speed_factors(self) -> tuple[str, ...]:
        """The speed factors as they were written, since they become part of names."""
        factors = tuple(filter(None, map(str.strip, self.speeds.split(","))))
        for factor in factors:
            require(is_speed(factor), f"speeds are positive numbers such as 0.9,1.0,1.1; not {factor!r}")
        return factors

    @property
    def part(self) -> tuple[int, int]:
        """Which of how many parts of the plan to do: (1, 1) is all of it."""
        if not self.shard:
            return 1, 1
        number, _, count = self.shard.partition("/")
        holds = number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)
        require(holds, f"shard is a number from 1 on and a count, such as 3/100; not {self.shard!r}")
        return int(number), int(count)


def is_speed(text: str) -> bool:
    """Whether a text is a factor that speech can be sped up by."""
    factor = parse_real(text)
    return factor is not None and 0.0 < factor < float("inf")


@dataclass(frozen=True)
class Layout:
    """Where a dump's files lie: as Kaldi's make_*.sh scripts have it.

    Attributes:
        data: the data directory.
        feature: what is computed, such as "fbank" or "mfcc_pitch".
        log: the plan and the archives' manifests.
        archives: the archives, an absolute path.
    """

    data: Path
    feature: str
    log: Path
    archives: Path

    @classmethod
    def of(cls, data: str | Path, feature: str, log: str | Path = "", archives: str | Path = "") -> Layout:
        """The layout with the scripts' defaults, ``<data>/log`` and ``<data>/data``."""
        return cls(
            Path(data), feature, Path(log or Path(data) / "log"), Path(archives or Path(data) / "data").absolute()
        )

    @property
    def name(self) -> str:
        """The data directory's name, which is part of the archives' names."""
        return os.path.basename(os.path.abspath(self.data))

    @property
    def stem(self) -> str:
        """What the archives' names start with."""
        return f"raw_{self.feature}_{self.name}"

    def archive(self, shard: int) -> Path:
        """An archive."""
        return self.archives / f"{self.stem}.{shard}.ark"

    def script(self, shard: int) -> Path:
        """The script file of an archive."""
        return self.archives / f"{self.stem}.{shard}.scp"

    @property
    def log_stem(self) -> str:
        """What the names of plan, manifests and logs start with."""
        return f"dump_{self.feature}_{self.name}"

    @property
    def plan(self) -> Path:
        """The plan."""
        return self.log / f"{self.log_stem}.plan.jsonl"

    @property
    def lock(self) -> Path:
        """The file that says a dump is under way."""
        return self.log / f"{self.log_stem}.lock"

    @property
    def failures(self) -> Path:
        """Utterances without features, and why."""
        return self.log / f"{self.log_stem}.failures"

    def manifest(self, shard: int) -> Path:
        """What is in an archive; it is there once the archive is complete."""
        return self.log / f"{self.log_stem}.{shard}.json"

    def messages(self, shard: int) -> Path:
        """What was said while an archive was made."""
        return self.log / f"{self.log_stem}.{shard}.log"

    def stats(self, shard: int) -> Path:
        """The mean and variance statistics of an archive's features."""
        return self.log / f"{self.log_stem}.{shard}.stats"

    def in_data(self, name: str) -> Path:
        """A file of the data directory."""
        return self.data / name


@dataclass(frozen=True)
class Job:
    """A dump: what, where and how."""

    layout: Layout
    options: DumpOptions = field(default_factory=DumpOptions)

    @property
    def feature(self) -> str:
        """What is computed."""
        return self.layout.feature

    @property
    def spectral(self) -> str:
        """The spectral feature that is computed, or "" if none is."""
        return self.feature.removesuffix(PITCH).removesuffix("_")

    @property
    def with_pitch(self) -> bool:
        """Whether pitch is computed, alone or to be pasted."""
        return self.feature.endswith(PITCH)

    def confs(self) -> dict[str, Path]:
        """The configuration files, by the names that they get in ``<data>/conf``."""
        found: dict[str, Any] = {}
        if self.spectral:
            found[f"{self.spectral}.conf"] = self.options.conf or f"conf/{self.spectral}.conf"
        if self.with_pitch:
            found["pitch.conf"] = self.options.pitch_conf or "conf/pitch.conf"
        if self.with_pitch and self.options.pitch_postprocess_conf:
            found[PROCESS_CONF] = self.options.pitch_postprocess_conf
        return {name: Path(path) for name, path in found.items()}
