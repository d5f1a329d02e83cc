"""Digest and watch the files, apart from the audio, that determine the computed numbers.

Workers read these files at different times. An archive, or the job, is finished only if the files still have the
digests of the plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from io_ark.errors import ArkError
from io_ark.specifier import parse_rspecifier, parse_rxfilename
from kaldi_compat.dump.configuration import parse_confs
from kaldi_compat.dump.errors import PlanError
from kaldi_compat.dump.files import Stamp, get_stamp, read_in_chunks
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.sources import make_source

SCRIPT, SEGMENTS, UTT2SPK = "wav.scp", "segments", "utt2spk"
# Files of the data directory that determine the features. Some may be missing.
IN_DATA = (SCRIPT, SEGMENTS, "spk2warp", "utt2warp", UTT2SPK)
# Options of a feature that name a table with a value for each speaker or utterance.
IN_CONF = ("vtln_map", "utt2spk")


def list_input_paths(job: Job, confs: Mapping[str, str], files: Mapping[str, str] | None = None) -> dict[str, Path]:
    """Return the paths of the input files by name, such as ``wav.scp`` or ``--onnx``. A file may be missing.

    ``confs`` has the texts of configuration files by name. ``files`` has the paths, by name, of the files that the
    extractor used in its trial.
    """
    paths = {name: job.layout.data / name for name in IN_DATA}
    if job.speed_source:
        paths |= {f"original {name}": job.speed_source / name for name in IN_DATA}
    options = parse_confs(job, confs).get(job.spectral)
    paths |= list_extractor_paths(job) | {name: Path(path) for name, path in (files or {}).items()}
    for name in IN_CONF:
        if path := _find_table_file(getattr(options, name, "")):
            paths["--" + name.replace("_", "-")] = path
    return paths


def list_extractor_paths(job: Job) -> dict[str, Path]:
    """Return the paths of the files that determine the extractor's results, by names such as ``--onnx``."""
    source = make_source(job)
    files = source.list_files() if source else {}
    return files | ({"--kmeans": Path(job.options.kmeans)} if job.options.kmeans else {})


def _find_table_file(rspecifier: str) -> Path | None:
    """Return the file from which a table is read, or None if the table comes from a command or another source."""
    try:
        location = parse_rxfilename(parse_rspecifier(rspecifier).rxfilename)
    except ArkError:  # An empty rspecifier has no file. The reader of the table reports an invalid rspecifier.
        return None
    return Path(location.path) if location.kind == "file" else None


def get_stamps(job: Job, confs: Mapping[str, str]) -> dict[str, Stamp | None]:
    """Return the stamps of the input files, by name, before they are read. The stamp of a missing file is None."""
    return {name: get_stamp(path) for name, path in list_input_paths(job, confs).items()}


def compute_digests(paths: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 digests of files by name, in hexadecimal digits. Paths without a regular file are left out."""
    return {name: compute_digest(path) for name, path in paths.items() if path.is_file()}


class InputWatch:
    """Compares the inputs of a job with the digests in ``settings``, the settings of its plan.

    ``stamps`` has the stamps of the inputs at the previous comparison. If a stamp differs, as it may on another node of
    a cluster, the digest of the input is compared.
    """

    def __init__(self, job: Job, settings: Mapping[str, Any], stamps: Mapping[str, Stamp | None]) -> None:
        used_files = settings.get("trial", {}).get("files", {})
        self._paths = list_input_paths(job, settings["confs"], used_files)
        self._digests = settings["inputs"]
        self._stamps = dict(stamps)

    def check(self) -> None:
        """Raise :class:`PlanError` if an input differs from the plan. Skip inputs whose stamps have not changed."""
        for name, path in self._paths.items():
            stamp = get_stamp(path)
            if name in self._stamps and stamp == self._stamps[name]:
                continue
            digest = compute_digest(path) if stamp else None
            if digest != self._digests.get(name):
                raise PlanError(
                    f"{path} changed while it was being used: restore the old file and resume with --resume, or start "
                    "again without --resume"
                )
            self._stamps[name] = stamp


def compute_digest(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal digits."""
    hasher = hashlib.sha256()
    for chunk in read_in_chunks(path):
        hasher.update(chunk)
    return hasher.hexdigest()
