"""The options of a dump, and the locations of its files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, get_args

from kaldi_compat.options.base import BaseOptions, require
from kaldi_compat.options.config import parse_real
from kaldi_compat.options.declaration import option
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
SECONDS_ON_GPU, SECONDS_ON_CPU = 600.0, 60.0  # Defaults of --batch-seconds for features.
# Options that name an extractor. kaldi_compat/dump/sources has a file for each option. If several options have values,
# the first one names the extractor.
SOURCES = "onnx", "transformers", "module", "preset"
# Maps an option to the option that it requires.
NEEDED = {"layers": "transformers", "statistics": "preset"}
# Sources that can be combined: the preset computes the input of the ONNX model.
COMBINED_SOURCES = ("onnx", "preset")
MAX_LAYER_DIGITS = 4
# Default names of outputs that are matrices, vectors, vectors of integers and matrices of integers, in this order.
FEATS, XVECTOR, LABELS, CODES = "feats", "xvector", "labels", "codes"
# Ending of an output's path in each value of --format. A slash stands for a folder.
FORMATS = {"ark": "", "npy": "/", "safetensors": ".safetensors", "webdataset": ".tar"}


class DumpOptions(BaseOptions):
    """Options of a dump. Configuration files and the feature's own options determine the features."""

    conf: str = option(
        "", "configuration file of the feature (not of appended pitch); conf/<feature>.conf, if it exists"
    )
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
    batch_seconds: float = option(
        0.0,
        "audio in a batch; 0 is 60 on a CPU, and on a GPU 600 for features or 300 for extractors",
        unit="seconds",
        ge=0,
    )
    window_utterances: int = option(
        512, "read at most this many utterances ahead, and put at most this many into a batch", ge=1
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
    max_failures: int = option(-1, "utterances that may fail before the job stops; -1 is no limit", ge=-1)
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
        "", "layers of --transformers such as 9,12: 0 is before the first, empty is the last; codebooks of a codec"
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

    # Values that are computed from the options above.
    on_gpu: ClassVar[bool]
    seconds_in_batch: ClassVar[float]
    # "CPU" or "GPU". Their features differ by rounding, so a dump can be resumed only on the same type of processor.
    # The size of batches may change, because it has no effect on features.
    processor: ClassVar[str]
    uses_numpy: ClassVar[bool]  # True if NumPy computes front ends. On a CPU, torch would give the same bits.
    cmvn_levels: ClassVar[tuple[str, ...]]
    by_speaker: ClassVar[bool]  # True if an option needs the speaker of each utterance.
    source: ClassVar[str]  # Name of the option that names the extractor; "" for Kaldi's features.
    layer_numbers: ClassVar[list[int]]
    resumes: ClassVar[bool]
    speed_factors: ClassVar[tuple[str, ...]]  # Speed factors as the user wrote them, because names contain them.
    part: ClassVar[tuple[int, int]]  # Number of this part, and number of parts; (1, 1) for the whole plan.

    def __post_init__(self) -> None:
        """Raise OptionError for invalid or conflicting options, and compute the values that depend on the options."""
        super().__post_init__()
        on_gpu, levels, layers = self.device != CPU, tuple(filter(None, self.cmvn.split(","))), self.layers.split(",")
        for level in levels:
            require(level in CMVN_LEVELS, f"cmvn must be speaker, global, or speaker,global, not {self.cmvn!r}")
        require(
            bool(self.speeds) == bool(self.speed_dir), "speeds=... and speed_dir=... go together: give both or neither"
        )
        require(
            self.engine != "exact" or not on_gpu,
            f"engine=exact computes on a CPU, not on device={self.device}: pass engine=auto",
        )
        require(self.engine != "triton" or on_gpu, "engine=triton computes on a GPU: also pass device=cuda")
        ray_assigns = f"device={self.device} names GPUs of this machine, but Ray assigns the GPUs: pass device=cuda"
        require(self.runner != "ray" or self.device in (CPU, "cuda"), ray_assigns)
        exclusive = "pool=... and kmeans=... exclude each other (pooled vectors have no frames): pass one"
        require(not self.kmeans or not self.pool, exclusive)
        are_numbers = all(number.isdecimal() and len(number) <= MAX_LAYER_DIGITS for number in layers)
        require(are_numbers or not self.layers, f"layers must be numbers such as 9,12, not {self.layers!r}")
        layer_numbers = [int(number) for number in layers if number]
        is_unique = len(set(layer_numbers)) == len(layer_numbers)
        require(is_unique, f"layers={self.layers} names a layer twice: name each layer once")
        one_layer = f"kmeans=... has the centroids of one layer, but layers={self.layers} names several: name one layer"
        require(not self.kmeans or len(layer_numbers) < 2, one_layer)
        for name, needed in NEEDED.items():
            require(not getattr(self, name) or bool(getattr(self, needed)), f"{name}=... needs {needed}=...: pass both")
        sources = [name for name in SOURCES if getattr(self, name)]
        can_combine = len(sources) < 2 or tuple(sources) == COMBINED_SOURCES
        require(can_combine, f"{'=... and '.join(sources)}=... exclude each other: pass one of them")
        factors = tuple(filter(None, map(str.strip, self.speeds.split(","))))
        for factor in factors:
            expected = "speeds must be numbers from 0.01 to 100, such as 0.9,1.0,1.1"
            require(is_speed(factor), f"{expected}, not {factor!r}")
        vars(self).update(
            on_gpu=on_gpu,
            seconds_in_batch=self.batch_seconds or (SECONDS_ON_GPU if on_gpu else SECONDS_ON_CPU),
            processor="GPU" if on_gpu else "CPU",
            uses_numpy=not on_gpu and self.engine in ("auto", "exact"),
            cmvn_levels=levels,
            by_speaker=self.per_speaker or BY_SPEAKER in levels,
            source=sources[0] if sources else "",
            layer_numbers=layer_numbers,
            resumes=self.resume or self.retry_failed,
            speed_factors=factors,
            part=parse_part(self.shard),
        )


def parse_part(text: str) -> tuple[int, int]:
    """Parse the value of ``--shard``: (3, 100) for "3/100", and (1, 1), the whole job, for an empty string.

    Raises:
        OptionError: the value has a different form, or the first number is not from 1 to the second.
    """
    if not text:
        return 1, 1
    part = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", text)
    number, count = (int(part[1]), int(part[2])) if part else (0, 0)
    expected = "shard must be the number of a part and the number of parts, such as 3/100"
    require(1 <= number <= count, f"{expected}, not {text!r}")
    return number, count


def is_speed(text: str) -> bool:
    """Return True if ``text`` is a number from 0.01 to 100. These limits bound the length of the resampling filter."""
    factor = parse_real(text)
    return factor is not None and 0.01 <= factor <= 100.0


@dataclass(frozen=True)
class Layout:
    """Locations of a dump's files, as in Kaldi's make_*.sh scripts."""

    data: Path  # Path of the data directory.
    feature: str  # Name of the feature, such as "fbank" or "mfcc_pitch".
    log: Path  # Directory of the plan, the logs, and the manifests of the archives.
    archives: Path  # Absolute path of the directory of the archives.
    name: str = field(init=False)  # Name of the data directory, which is part of the names of archives.
    log_stem: str = field(init=False)  # Start of the names of the plan, manifests and logs.
    plan: Path = field(init=False)  # Path of the plan, which a resumed dump reads.
    lock: Path = field(init=False)  # Path of the file that is locked while a dump runs.
    failures: Path = field(init=False)  # Path of the list of utterances without features, with reasons.

    def __post_init__(self) -> None:
        """Set the names and paths that depend on the directories and the feature."""
        name = os.path.basename(os.path.abspath(self.data))
        stem = f"dump_{self.feature}_{name}"
        plan, lock, failures = (self.log / f"{stem}.{suffix}" for suffix in ("plan.jsonl", "lock", "failures"))
        vars(self).update(name=name, log_stem=stem, plan=plan, lock=lock, failures=failures)

    @classmethod
    def from_paths(cls, data: str | Path, feature: str, log: str | Path = "", archives: str | Path = "") -> Layout:
        """Return the layout of a dump. If ``log`` or ``archives`` is "", use ``<data>/log`` or ``<data>/data``."""
        folder = Path(data)
        return cls(folder, feature, Path(log or folder / "log"), Path(archives or folder / "data").absolute())

    def get_archive(self, shard: int, output: str = FEATS) -> Path:
        """Return the path of the archive of an output for a shard (from 1). The name omits the output "feats"."""
        output_part = "" if output == FEATS else f"_{output}"
        return self.archives / f"raw_{self.feature}{output_part}_{self.name}.{shard}.ark"

    def get_script(self, shard: int, output: str = FEATS) -> Path:
        """Return the path of the script file of the archive that :meth:`get_archive` returns for the same arguments."""
        return self.get_archive(shard, output).with_suffix(".scp")

    def get_speaker_archive(self, name: str) -> Path:
        """Return the path of an archive with an entry per speaker. ``name`` is "cmvn" or "spk_<output>"."""
        return self.archives / f"{name}_{self.name}.ark"

    def get_manifest(self, shard: int) -> Path:
        """Return the path of a shard's manifest, which exists once the archives of the shard are complete."""
        return self.get_file_of_archive(shard, "json")

    def get_file_of_archive(self, shard: int, name: str) -> Path:
        """Return the path in the log folder of a shard's "json" (manifest), "log", "utt2num_frames" or "utt2dur"."""
        return self.log / f"{self.log_stem}.{shard}.{name}"


@dataclass(frozen=True)
class Job:
    """A dump: what to compute, where and how."""

    layout: Layout  # Locations of the files.
    options: DumpOptions = field(default_factory=DumpOptions)
    # Lines ``--name=value`` with options of the feature from the command line, which take precedence over the
    # configuration file.
    overrides: tuple[str, ...] = ()
    # Extractor object that was passed to :func:`kaldi_compat.dump`, in which case ``options.module`` is ":<name>". None
    # if there is no such object, as on the command line.
    extractor: Any = None
    # Data directory from which ``--speeds`` has made the data directory of this job; None without ``--speeds``.
    speed_source: Path | None = None
    feature: str = field(init=False)  # Name of the feature, from the layout.
    source: str = field(init=False)  # Kind of extractor that computes, one of :data:`SOURCES`; "" for Kaldi's features.
    spectral: str = field(init=False)  # Name of the spectral feature; "" for pitch alone, or for an extractor.
    with_pitch: bool = field(init=False)  # True if pitch is computed, alone or appended to a spectral feature.
    main_conf: str = field(init=False)  # Name of the configuration file that the overrides belong to.

    def __post_init__(self) -> None:
        """Set the attributes that depend on the layout and the options."""
        feature, source = self.layout.feature, self.options.source
        spectral = "" if source else get_spectral_part(feature)
        vars(self).update(feature=feature, source=source, spectral=spectral, main_conf=f"{spectral or PITCH}.conf")
        vars(self).update(with_pitch=not source and feature.endswith(PITCH))

    @cached_property
    def conf_paths(self) -> dict[str, Path | None]:
        """Maps the names of the configuration files of the feature, such as "fbank.conf", to their paths.

        A path is the value of an option, or ``conf/<name>`` if this file exists, or None for Kaldi's defaults. The name
        "pitch_postprocess.conf" is included only if its option has a value.
        """
        option_values: dict[str, str] = {}
        if self.spectral:
            option_values[f"{self.spectral}.conf"] = self.options.conf
        if self.with_pitch:
            option_values[PITCH_CONF] = self.options.pitch_conf or ("" if self.spectral else self.options.conf)
        paths: dict[str, Path | None] = {}
        for name, value in option_values.items():
            path = Path(value or f"conf/{name}")
            paths[name] = path if value or path.exists() else None
        if self.with_pitch and self.options.pitch_postprocess_conf:
            paths[PROCESS_CONF] = Path(self.options.pitch_postprocess_conf)
        return paths


def get_spectral_part(feature: str) -> str:
    """Return the spectral part of the name of a feature: "mfcc" for "mfcc_pitch" or "mfcc", and "" for "pitch"."""
    return feature.removesuffix(PITCH).removesuffix("_")


class Scope(NamedTuple):
    """The jobs in which options have an effect. A source may use further options (``list_used_options``)."""

    options: tuple[str, ...]  # Names of the options.
    text: str  # End of the sentence "it applies only to ...".
    includes: Callable[[Job], bool] = lambda job: False  # True for a job in which all of them have an effect.


SCOPES = (
    Scope(
        ("conf",),
        "Kaldi's features, and to pitch alone only without --pitch-conf",
        lambda job: bool(job.spectral) or (job.with_pitch and not job.options.pitch_conf),
    ),
    Scope(("seed",), "the dithering noise of Kaldi's features", lambda job: not job.source),
    Scope(
        ("pitch_conf", "pitch_postprocess_conf"), "features with pitch such as fbank_pitch", lambda job: job.with_pitch
    ),
    Scope(
        ("paste_length_tolerance",),
        "features with appended pitch such as fbank_pitch",
        lambda job: bool(job.spectral) and job.with_pitch,
    ),
    Scope(("compression_method",), "compressed archives (--compress)", lambda job: job.options.compress),
    Scope(("pool", "kmeans"), "extractors such as --preset and --transformers", lambda job: bool(job.source)),
    Scope(("dtype",), "--transformers, --module, and --preset that torch computes"),
    Scope(("compile",), "--transformers and --module"),
    Scope(("allow_pickle",), "--transformers"),
    Scope(("trust_extractor",), "--module, since all other extractors can be compared"),
    Scope(("engine",), "spectral features, and to --preset without --onnx", lambda job: bool(job.spectral)),
    Scope(("command_timeout",), "jobs that run the commands in wav.scp (--pipes)", lambda job: job.options.pipes),
    Scope(("max_device_memory",), "GPUs (--device=cuda)", lambda job: job.options.on_gpu),
    Scope(("address",), "--runner=ray", lambda job: job.options.runner == "ray"),
    Scope(
        ("verify",), "archives of an earlier run (--resume)", lambda job: job.options.resumes or bool(job.options.shard)
    ),
)
