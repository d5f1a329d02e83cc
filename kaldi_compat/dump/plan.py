"""The plan: which utterances go to which archive, and all that decides their bytes. Made first, followed exactly.

A JSON object a line: first a header, then an archive each. The utterances themselves stay in ``wav.scp`` or
``segments``, of which an archive is a stretch of bytes; a digest notices if those files change.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from io_ark.tables.script import Script
from kaldi_compat import __version__
from kaldi_compat.dump.errors import DumpError, PlanError
from kaldi_compat.dump.files import write_whole
from kaldi_compat.dump.options import BY_SPEAKER, DumpOptions, Job

logger = logging.getLogger(__name__)

VERSION = 1
SCRIPT, SEGMENTS, UTT2SPK = "wav.scp", "segments", "utt2spk"
# What the computed numbers depend on besides the audio: files of the data directory, if they are there.
INPUTS = (SCRIPT, SEGMENTS, "spk2warp", "utt2warp", UTT2SPK)
# Options that decide the bytes of the archives. The others may differ when a plan is gone on with.
DECISIVE = ("compress", "compression_method", "paste_length_tolerance", "seed", "pipes", "speeds", "batching")


@dataclass(frozen=True)
class Shard:
    """An archive of the plan.

    Attributes:
        number: from 1 on, as in the archive's name.
        start, stop: the stretch of the list of utterances, in bytes.
        count: its lines.
    """

    number: int
    start: int
    stop: int
    count: int


@dataclass(frozen=True)
class Plan:
    """What is to be made.

    Attributes:
        listing: the file of the data directory that lists the utterances: wav.scp or segments.
        settings: all that decides the bytes of the archives: the version, the decisive options, and the digests of the
            files of the data directory and of the configuration files.
        shards: the archives in order.
    """

    listing: str
    settings: dict[str, Any]
    shards: tuple[Shard, ...]

    @property
    def count(self) -> int:
        """Utterances, good and bad."""
        return sum(shard.count for shard in self.shards)

    @property
    def seed(self) -> int:
        """The seed of the dithering noise."""
        return int(self.settings["options"]["seed"])

    def part(self, number: int, count: int) -> tuple[Shard, ...]:
        """Every ``count``-th archive from ``number`` (1 on): a batch job's share."""
        return self.shards[number - 1 :: count]


def make_plan(job: Job) -> Plan:
    """Divide a data directory's utterances over archives, as evenly as ``utils/split_scp.pl`` does.

    Raises:
        DumpError: the data directory lacks a file, or lists nothing, or an utterance twice.
    """
    check_inputs(job)
    listing = listing_of(job)
    offsets = _line_offsets(job.layout.in_data(listing))
    count = len(offsets) - 1
    if count == 0:
        raise DumpError(f"{job.layout.in_data(listing)} is empty: there is nothing to do")
    size = job.options.shard_utterances
    # An array of batch jobs divides what nj does elsewhere.
    wanted = -(-count // size) if size else max(job.options.nj, job.options.part[1])
    number = min(wanted, count)
    bounds = [i * (count // number) + min(i, count % number) for i in range(number + 1)]
    shards = tuple(
        Shard(i + 1, offsets[first], offsets[last], last - first) for i, (first, last) in enumerate(pairwise(bounds))
    )
    return Plan(listing, settings_of(job), shards)


def listing_of(job: Job) -> str:
    """The file that lists the utterances: segments if it is there."""
    return SEGMENTS if job.layout.in_data(SEGMENTS).exists() else SCRIPT


def check_inputs(job: Job) -> None:
    """Raise :class:`DumpError` unless the data directory and the configuration files are there."""
    needed = [job.layout.in_data(SCRIPT), *job.confs().values()]
    if job.layout.in_data("spk2warp").exists():
        needed.append(job.layout.in_data(UTT2SPK))
    for path in needed:
        if not path.is_file():
            raise DumpError(f"{path} is missing: it is needed for {job.feature} features of {job.layout.data}")


def check_speakers(job: Job) -> None:
    """Raise :class:`DumpError` unless ``utt2spk`` serves the statistics that are asked for.

    Those by speaker need everyone's: Kaldi's steps go by ``spk2utt`` there, and fail without it.
    """
    path, listing = job.layout.in_data(UTT2SPK), job.layout.in_data(listing_of(job))
    by_speaker = BY_SPEAKER in job.options.cmvn_levels
    if by_speaker and not path.is_file():
        raise DumpError(
            f"{path} is missing, and --cmvn={BY_SPEAKER} needs it; to take each utterance for its own speaker: "
            f"awk '{{print $1, $1}}' {listing} > {path}"
        )
    if not (job.options.wants_stats and path.is_file()):
        return
    speakers, missing = Script.open(str(path)), []
    for key in Script.open(str(listing)):
        speaker = speakers.get(key)
        if speaker is None:
            missing.append(key)
        elif len(speaker.split()) > 1:
            raise DumpError(f"{path}: {key} should have one speaker, not {speaker!r}")
    if by_speaker and missing:
        raise DumpError(
            f"{path} lacks {len(missing)} of the utterances in {listing}, the first one {missing[0]}, and "
            f"--cmvn={BY_SPEAKER} needs everyone's speaker: add them, or utils/fix_data_dir.sh drops the utterances"
        )


def settings_of(job: Job) -> dict[str, Any]:
    """All that decides the bytes of the archives, to be kept with the plan."""
    inputs = {name: digest(job.layout.in_data(name)) for name in INPUTS if job.layout.in_data(name).is_file()}
    return {
        "version": VERSION,
        "program": __version__,
        "feature": job.feature,
        "options": {name: getattr(job.options, name) for name in DECISIVE},
        "inputs": inputs,
        "confs": {name: path.read_text(encoding="utf-8", errors="replace") for name, path in job.confs().items()},
    }


def digest(path: Path) -> str:
    """A digest of a file's bytes."""
    hasher = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            hasher.update(piece)
    return hasher.hexdigest()


def write_plan(plan: Plan, path: Path) -> None:
    """Write a plan, whole or not at all."""
    header = {"listing": plan.listing, "archives": len(plan.shards), **plan.settings}
    lines = [header, *map(dataclasses.asdict, plan.shards)]
    write_whole(path, "".join(json.dumps(line) + "\n" for line in lines))


def read_plan(path: Path) -> Plan:
    """Read a plan.

    Raises:
        PlanError: there is none, or what is there is none.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        header, *rest = map(json.loads, lines)
        listing, count = header.pop("listing"), header.pop("archives")
        shards = tuple(Shard(**line) for line in rest)
        complete = len(shards) == count and header["version"] == VERSION
    except FileNotFoundError:
        raise PlanError(f"there is no plan {path} to go on with: start without --resume") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PlanError(f"{path} is no plan of this version: delete it and start again ({error})") from None
    if not complete:
        raise PlanError(f"{path} is no complete plan of this version: delete it and start again")
    return Plan(listing, header, shards)


def check_plan(plan: Plan, job: Job, path: Path) -> None:
    """Raise :class:`PlanError` if going on would give other bytes than the plan was made for."""
    now = settings_of(job)
    changed = sorted(
        name
        for group in ("options", "inputs", "confs")
        for name in plan.settings[group].keys() | now[group].keys()
        if plan.settings[group].get(name) != now[group].get(name)
    )
    changed += [name for name in ("feature", "program") if plan.settings[name] != now[name]]
    if changed:
        raise PlanError(
            f"{', '.join(changed)} changed since the plan {path} was made, so what is there would not fit what is "
            f"missing: set it back, or {how_to_start_over(job.options)}"
        )


def how_to_start_over(options: DumpOptions) -> str:
    """What to do about a plan that a dump follows and should not: parts of a plan do without being asked."""
    delete, resume = "delete it and " if options.shard else "", " without --resume" if options.resume else ""
    return f"{delete}start again{resume}"


def lines_of(plan: Plan, shard: Shard, data: Path) -> list[str]:
    """The lines of the list of utterances that an archive is made of."""
    with open(data / plan.listing, "rb") as file:
        file.seek(shard.start)
        text = file.read(shard.stop - shard.start)
    return [line.decode("utf-8", "surrogateescape") for line in text.split(b"\n") if line.strip()]


def _line_offsets(path: Path) -> Sequence[int]:
    """Where each line starts, and the end of the last one.

    Raises:
        DumpError: a line has no key or nothing after it, or a key is there twice.
    """
    offsets = array("q", [0])
    previous, ordered = b"", True
    with open(path, "rb") as file:
        for line in file:
            offsets.append(offsets[-1] + len(line))
            key, *rest = line.split(None, 1)[:2] or [b""]
            if not rest:
                found = repr(key.decode(errors="replace")) if key else "a blank line"
                raise DumpError(f"{path}, line {len(offsets) - 1}: expected a key and more, not {found}")
            ordered &= previous < key
            previous = key
    if not ordered:  # sorted files, as Kaldi wants them, need no set of all keys
        _refuse_twice(path)
    return offsets


def _refuse_twice(path: Path) -> None:
    keys: set[bytes] = set()
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            key = line.split(None, 1)[0]
            if key in keys:
                raise DumpError(f"{path}, line {number}: {key.decode(errors='replace')} is there a second time")
            keys.add(key)
    logger.warning("%s is not sorted (LC_ALL=C sort), as later steps of a Kaldi recipe want it", path)
