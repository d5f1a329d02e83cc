"""The plan: which utterances go to which archive, and everything that decides their bytes. It is made first.

A file with a JSON object per line: a header, then one for each archive, and a checksum. The utterances themselves stay
in ``wav.scp`` or ``segments``, of which an archive takes a range of bytes; a digest reveals if those files change.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

from io_ark import __version__
from io_ark.data_dir.stage import refuse_half_changed
from io_ark.text import printable
from kaldi_compat.dump.configuration import changed_values, conf_texts
from kaldi_compat.dump.devices import devices_of
from kaldi_compat.dump.errors import DumpError, PlanError
from kaldi_compat.dump.failures import shorten
from kaldi_compat.dump.files import read_sealed, write_sealed
from kaldi_compat.dump.inputs import SCRIPT, SEGMENTS, UTT2SPK, Stamp, digests_of, extractor_paths
from kaldi_compat.dump.model import Trial, describe_opaque
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.errors import OptionError
from kaldi_compat.options.config import normalize

logger = logging.getLogger(__name__)

VERSION = 5
# Options that decide the bytes of the archives. The others may differ when a dump is resumed.
DECISIVE = (
    "engine",
    "compress",
    "compression_method",
    "paste_length_tolerance",
    "seed",
    "pipes",
    "network",
    "speeds",
    "processor",
    "preset",
    "module",
    "layers",
    "pool",
    "dtype",
    "compile",
)
LONGEST_KEY = 4096  # bytes; no recipe has names like that, and file systems and tools fail at less
_CONTROL = re.compile(rb"[\0-\x1f\x7f]")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Shard:
    """An archive of the plan.

    Attributes:
        number: counted from 1, as in the archive's name.
        start, stop: the range of the list of utterances, in bytes.
        count: its number of lines.
    """

    number: int
    start: int
    stop: int
    count: int


@dataclass(frozen=True)
class DumpPlan:
    """The archives to be made.

    Attributes:
        listing: the file of the data directory that lists the utterances: wav.scp or segments.
        settings: everything that decides the bytes of the archives: the version, the decisive options, the digests of
            the files of the data directory, and the texts of the configuration files.
        shards: the archives in order.
        stamps: the inputs' stamps in this run (see :class:`~kaldi_compat.dump.inputs.InputWatch`); not stored.
    """

    listing: str
    settings: dict[str, Any]
    shards: tuple[Shard, ...]
    stamps: Mapping[str, Stamp | None] = field(default_factory=dict, compare=False)

    @property
    def count(self) -> int:
        """Number of utterances, good and bad."""
        return sum(shard.count for shard in self.shards)

    @property
    def trial(self) -> Trial:
        """Findings of the trial of the extractor at the start."""
        return Trial(**self.settings.get("trial", {}))

    @property
    def seed(self) -> int:
        """Seed of the dithering noise."""
        return int(self.settings["options"]["seed"])

    def part(self, number: int, count: int) -> tuple[Shard, ...]:
        """Return every ``count``-th archive from ``number`` (1 or more): a batch job's share."""
        return self.shards[number - 1 :: count]


def make_plan(job: Job) -> DumpPlan:
    """Divide a data directory's utterances over archives, as evenly as ``utils/split_scp.pl`` does.

    Raises:
        DumpError: the data directory lacks a file, or lists nothing, or an utterance twice.
    """
    check_inputs(job)
    listing = listing_of(job)
    lengths = _line_lengths(job.layout.in_data(listing))
    count = len(lengths)
    if count == 0:
        raise DumpError(f"{job.layout.in_data(listing)} is empty: there is nothing to compute")
    size = job.options.shard_utterances
    # An array of batch jobs divides what nj does elsewhere.
    # A GPU of this machine is to have an archive at least.
    gpus = len(devices_of(job.options.device)) if job.options.on_gpu and job.options.runner == "local" else 0
    wanted = -(-count // size) if size else max(job.options.nj, job.options.part[1], gpus)
    number = min(wanted, count)
    bounds = [i * (count // number) + min(i, count % number) for i in range(number + 1)]
    offsets = [0, *accumulate(sum(lengths[first:last]) for first, last in pairwise(bounds))]
    shards = tuple(
        Shard(i + 1, offsets[i], offsets[i + 1], last - first) for i, (first, last) in enumerate(pairwise(bounds))
    )
    return DumpPlan(listing, settings_of(job), shards)


def listing_of(job: Job) -> str:
    """Return the name of the file that lists the utterances: segments if it exists."""
    return SEGMENTS if job.layout.in_data(SEGMENTS).exists() else SCRIPT


def check_places(layout: Layout) -> None:
    """Raise :class:`DumpError` unless a script file can name files in the directories."""
    for place in (layout.data, layout.log, layout.archives):
        for sign, name in ("\n", "newline"), ("|", "'|'"):
            if sign in str(place.absolute()):
                raise DumpError(
                    f"{str(place)!r}: a script file cannot name files in a directory with a {name} in its name"
                )


def check_inputs(job: Job) -> None:
    """Raise :class:`DumpError` unless the data directory and the configuration files exist and can be named."""
    check_places(job.layout)
    refuse_half_changed(str(job.layout.data))
    needed = [job.layout.in_data(SCRIPT), *filter(None, job.conf_paths().values())]
    needed += extractor_paths(job).values()
    if job.layout.in_data("spk2warp").exists():
        needed.append(job.layout.in_data(UTT2SPK))
    for path in needed:
        if not path.is_file():
            fault = "is not a file" if path.exists() else "is missing"
            raise DumpError(f"{path} {fault}: it is needed for {job.feature} features of {job.layout.data}")


def settings_of(job: Job, used: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return everything that decides the bytes of the archives, to be stored with the plan.

    Args:
        job: the job.
        used: files that the extractor of the plan has used, by name.
    """
    confs = conf_texts(job)
    return {
        "version": VERSION,
        "program": __version__,
        "feature": job.feature,
        "options": {name: getattr(job.options, name) for name in DECISIVE},
        "inputs": digests_of(job, confs, used or {}),
        "confs": confs,
    }


def write_plan(plan: DumpPlan, path: Path) -> None:
    """Write a plan completely or not at all."""
    header = {"listing": plan.listing, "archives": len(plan.shards), **plan.settings}
    write_sealed(path, [header, *map(dataclasses.asdict, plan.shards)])


def read_plan(path: Path) -> DumpPlan:
    """Read a plan.

    Raises:
        PlanError: it is missing or damaged, or of another version.
    """
    try:
        header, *rest = read_sealed(path)
        listing, count = header.pop("listing"), header.pop("archives")
        shards = tuple(Shard(**line) for line in rest)
        if len(shards) != count or header["version"] != VERSION:
            raise ValueError("it has another version")
    except FileNotFoundError:
        raise PlanError(f"there is no plan {path}: start without --resume") from None
    except OSError as error:
        raise PlanError(f"the plan {path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise PlanError(f"{path} is not a plan of this version: delete it and start again ({error})") from None
    return DumpPlan(listing, header, shards)


def changes_since(plan: DumpPlan, job: Job) -> dict[str, bool]:
    """Compare a job with the plan that it resumes.

    Returns:
        the options and files that decide bytes of the archives and have changed, and whether the change can only turn
        failures into features, and leaves the other features as they are.
    """
    now, before = settings_of(job, plan.trial.files), plan.settings
    changes = {name: False for name in ("feature", "program") if before[name] != now[name]}
    changes |= {name: False for name, _, _ in _differences(before["inputs"], now["inputs"])}
    for conf, *texts in _differences(before["confs"], now["confs"]):
        options = None
        if None not in texts:
            with suppress(OptionError):  # an option that this version does not have any more
                options = changed_values(job, conf, *texts)
        changed = {name: _only_mends(name, *values) for name, values in (options or {}).items()}
        changes |= {conf: False} if options is None else changed
    for name, *values in _differences(before["options"], now["options"]):
        changes[normalize(name)] = _only_mends(normalize(name), *values)
    return changes


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the names with different values, and both values; None stands for a missing one."""
    both = ((name, before.get(name), now.get(name)) for name in before.keys() | now.keys())
    return [each for each in both if each[1] != each[2]]


def _only_mends(name: str, before: Any, now: Any) -> bool:
    if name == "min-duration":
        return bool(now < before)
    return name in ("allow-downsample", "allow-upsample", "pipes", "network") and bool(now)


def update_plan(plan: DumpPlan, job: Job, path: Path, with_failures: Sequence[int]) -> DumpPlan:
    """Return the plan to resume, with the job's settings as far as they may differ.

    Args:
        plan: as it was read.
        job: what is to be made now.
        path: where the plan is stored.
        with_failures: numbers of the complete archives that have failed utterances.

    Raises:
        PlanError: the settings changed such that complete archives would have to be made again; says which.
    """
    if plan.trial.opaque and not job.options.trust_extractor:
        raise PlanError(
            f"{describe_opaque(plan.trial.opaque)} of {job.feature} cannot be compared with the extractor of the plan "
            f"{path}: give the object a version, add --trust-extractor if it is the same, or "
            f"{how_to_start_over(job.options)}"
        )
    changes = changes_since(plan, job)
    if not changes:
        return plan
    since = f"{', '.join(sorted(changes))} changed since the plan {path} was made"
    if not all(changes.values()):
        raise PlanError(
            f"{since}: all {len(plan.shards)} archives would be made again: set it back, or "
            f"{how_to_start_over(job.options)}"
        )
    if with_failures and not job.options.retry_failed:
        raise PlanError(
            f"{since}: archives {_ranges(with_failures)} would be made again, which have failed utterances: do so with "
            "--retry-failed, or set it back"
        )
    return replace(plan, settings=plan.settings | settings_of(job, plan.trial.files))


def _ranges(numbers: Sequence[int]) -> str:
    """Write numbers as ranges.

    >>> _ranges([1, 2, 3, 7])
    '1-3, 7'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def how_to_start_over(options: DumpOptions) -> str:
    """Return the advice for a plan that a dump should not follow; parts of a plan follow it without being asked."""
    delete = "delete it and " if options.shard else ""
    switches = [
        flag for flag, given in (("--resume", options.resume), ("--retry-failed", options.retry_failed)) if given
    ]
    return f"{delete}start again{' without ' if switches else ''}{' and '.join(switches)}"


def lines_of(plan: DumpPlan, shard: Shard, data: Path) -> Iterator[bytes]:
    """Yield the lines of the list of utterances that an archive is made of, without their ends."""
    with open(data / plan.listing, "rb") as file:
        file.seek(shard.start)
        for line in islice(file, shard.count):
            yield line.removesuffix(b"\n")


def _line_lengths(path: Path) -> Sequence[int]:
    """Return the number of bytes of each line.

    Raises:
        DumpError: a line has an impossible key or nothing after its key, or a key occurs twice.
    """
    lengths = array("I")
    previous, ordered, blank = b"", True, 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            key, *rest = line.split(None, 1)[:2] or [b""]
            if blank and key:
                raise DumpError(f"{path}, line {blank}: expected a key and more, not a blank line")
            if not key:
                blank = blank or number
                continue
            if len(key) > LONGEST_KEY or _CONTROL.search(key) or key.startswith(_BOM):
                raise DumpError(f"{path}, line {number}: {_wrong_with(key)}")
            if not rest:
                raise DumpError(f"{path}, line {number}: expected a key and more, not {_shown(key)}")
            lengths.append(len(line))
            ordered &= previous < key
            previous = key
    if blank:
        logger.warning("%s, line %d: skipped blank lines at the end of the file", path, blank)
    if not ordered:  # sorted files, as Kaldi requires them, need no set of all keys
        _refuse_duplicates(path)
    return lengths


def _wrong_with(key: bytes) -> str:
    if len(key) > LONGEST_KEY:
        return f"a key of {len(key)} bytes; at most {LONGEST_KEY} are supported"
    if key.startswith(_BOM):
        return "the file starts with a byte order mark (BOM), which would be part of the key: remove it"
    return f"the key {_shown(key)} has a control character in it, which no table can hold: rename the utterance"


def _shown(key: bytes) -> str:
    return repr(shorten(key.decode(errors="replace")))


def _refuse_duplicates(path: Path) -> None:
    keys: set[bytes] = set()
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            key = b"".join(line.split(None, 1)[:1])
            if key in keys:
                shown = printable(key.decode(errors="replace"))
                raise DumpError(f"{path}, line {number}: {shown} occurs a second time")
            keys.add(key)
    logger.warning("%s is not sorted (LC_ALL=C sort), as later steps of a Kaldi recipe require it", path)
