"""The plan of a dump: the utterances of each archive, and everything that determines the bytes of the archives.

The file of the plan has a JSON object per line: a header, an object for each archive, and a checksum. An archive refers
to its utterances by a range of bytes of ``wav.scp`` or ``segments``. Digests reveal changes of these files.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

from io_ark import __version__
from io_ark.data_dir.stage import refuse_half_changed_directory
from io_ark.text import escape_controls, shorten
from kaldi_compat.dump.configuration import compare_values, read_confs
from kaldi_compat.dump.devices import parse_devices
from kaldi_compat.dump.errors import DumpError, PlanError
from kaldi_compat.dump.files import Stamp, read_sealed_file, write_sealed_file
from kaldi_compat.dump.inputs import SCRIPT, SEGMENTS, UTT2SPK, compute_digests, list_extractor_paths, list_input_paths
from kaldi_compat.dump.model import Trial, describe_opaque
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.errors import OptionError
from kaldi_compat.options.config import normalize

logger = logging.getLogger(__name__)

VERSION = 6  # Version of the format of plans. A dump cannot resume a plan of another version.
# Options that determine the bytes of the archives. All other options may change when a dump is resumed.
DECISIVE = (
    "engine", "compress", "compression_method", "paste_length_tolerance", "seed", "pipes", "network", "speeds",
    "processor", "preset", "module", "layers", "pool", "dtype", "compile",
)  # fmt: skip
MAX_KEY_BYTES = 4096  # A longer key is probably an error in the file. File names have up to 255 bytes.
_CONTROL = re.compile(rb"[\0-\x1f\x7f]")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Shard:
    """A range of utterances of the plan, which is written to one archive for each output."""

    number: int  # Number from 1, which is part of the names of the archives.
    start: int  # Byte offset of the first line of the shard in the list of utterances.
    stop: int  # Byte offset after the last line of the shard.
    count: int  # Number of lines, and thus of utterances.


@dataclass(frozen=True)
class DumpPlan:
    """The archives to be written, and the settings that determine their bytes."""

    listing: str  # Name of the list of utterances in the data directory: wav.scp or segments.
    # Everything that determines the bytes of the archives: the version, the decisive options, the digests of the input
    # files, the texts of the configuration files, and the results of the trial.
    settings: dict[str, Any]
    shards: tuple[Shard, ...]  # The archives in order.
    # Stamps of the inputs in this run (see :class:`~kaldi_compat.dump.inputs.InputWatch`); not stored.
    stamps: Mapping[str, Stamp | None] = field(default_factory=dict, compare=False)
    is_new: bool = field(default=False, compare=False)  # True if this run has made the plan; not stored.

    @cached_property
    def count(self) -> int:
        """Number of utterances, including failures."""
        return sum(shard.count for shard in self.shards)

    @cached_property
    def trial(self) -> Trial:
        """Results of the extractor's trial, from the settings. For Kaldi's features, they are the default values."""
        return Trial(**self.settings.get("trial", {}))

    @cached_property
    def seed(self) -> int:
        """Seed of the dithering noise."""
        return int(self.settings["options"]["seed"])

    def select_part(self, number: int, count: int) -> tuple[Shard, ...]:
        """Return part ``number`` (from 1) of ``count``: shard ``number``, and every ``count``-th shard after it."""
        return self.shards[number - 1 :: count]


def make_plan(job: Job) -> DumpPlan:
    """Make the plan of a job, without trial results. Split the list of utterances as ``utils/split_scp.pl`` does.

    Raises:
        DumpError: the list is empty or has an invalid line, or an input file, a directory or a GPU cannot be used.
        DataDirError: a killed job has left the data directory half changed.
        OptionError: a configuration file or the command line has an invalid option.
    """
    check_inputs(job)
    listing = get_listing(job)
    line_sizes = _measure_lines(job.layout.data / listing)
    count = len(line_sizes)
    if count == 0:
        raise DumpError(f"{job.layout.data / listing} is empty: add the utterances to compute")
    max_utterances = job.options.shard_utterances
    # Make at least one archive for each part of a job and for each GPU of this machine, so that none of them is idle.
    gpu_count = len(parse_devices(job.options.device)) if job.options.on_gpu and job.options.runner == "local" else 0
    min_shards = max(job.options.nj, job.options.part[1], gpu_count)
    requested_count = -(-count // max_utterances) if max_utterances else min_shards
    shard_count = min(requested_count, count)
    # The first ``count % shard_count`` shards have one utterance more than the other shards.
    bounds = [i * (count // shard_count) + min(i, count % shard_count) for i in range(shard_count + 1)]
    offsets = [0, *accumulate(sum(line_sizes[first:end]) for first, end in pairwise(bounds))]
    shards = tuple(
        Shard(i + 1, offsets[i], offsets[i + 1], end - first) for i, (first, end) in enumerate(pairwise(bounds))
    )
    return DumpPlan(listing, collect_settings(job), shards)


def get_listing(job: Job) -> str:
    """Return the name of the list of utterances: segments if it exists, otherwise wav.scp."""
    return SEGMENTS if (job.layout.data / SEGMENTS).exists() else SCRIPT


def check_directory_paths(layout: Layout) -> None:
    """Raise :class:`DumpError` if a directory's path has a newline or "|", because script files would be misread."""
    for directory in (layout.data, layout.log, layout.archives):
        for character, name in ("\n", "newline"), ("|", "'|'"):
            if character in str(directory.absolute()):
                raise DumpError(
                    f"{str(directory)!r}: a script file cannot name files in a directory whose path has a {name}: "
                    "rename the directory"
                )


def check_inputs(job: Job) -> None:
    """Raise an error if an input file of a job is missing, or if a directory of the job cannot be used.

    Raises:
        DumpError: a file is missing or is not a file, the data directory is a file, the path of a directory has a
            newline or a "|", or an ONNX model is invalid.
        DataDirError: a killed job has left the data directory half changed.
    """
    check_directory_paths(job.layout)
    if job.layout.data.is_file():
        raise DumpError(f"{job.layout.data} is a file: name the data directory, the folder that contains {SCRIPT}")
    refuse_half_changed_directory(str(job.layout.data))
    required_paths = [job.layout.data / SCRIPT, *filter(None, job.conf_paths.values())]
    required_paths += list_extractor_paths(job).values()
    if (job.layout.data / "spk2warp").exists():
        required_paths.append(job.layout.data / UTT2SPK)
    for path in required_paths:
        if not path.is_file():
            fault = "is not a file" if path.exists() else "is missing"
            needs = f"the {job.feature} features of {job.layout.data} need this file"
            raise DumpError(f"{path} {fault}: {needs}; create it, or correct the path")


def collect_settings(job: Job, used_files: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the settings of a plan, except the results of the trial. The settings determine the bytes of the archives.

    ``used_files`` maps names to the paths of additional files that an extractor used in its trial.
    """
    confs = read_confs(job)
    return {
        "version": VERSION,
        "program": __version__,
        "feature": job.feature,
        "options": {name: getattr(job.options, name) for name in DECISIVE},
        "inputs": compute_digests(list_input_paths(job, confs, used_files)),
        "confs": confs,
    }


def write_plan(plan: DumpPlan, path: Path) -> None:
    """Write a plan. An interruption leaves no incomplete file at ``path``."""
    header = {"listing": plan.listing, "archives": len(plan.shards), **plan.settings}
    write_sealed_file(path, [header, *map(dataclasses.asdict, plan.shards)])


def read_plan(path: Path) -> DumpPlan:
    """Read the plan in the file ``path``.

    Raises:
        PlanError: the file is missing, cannot be read, is damaged, or has another version of the format.
    """
    try:
        header, *lines = read_sealed_file(path)
        listing, count = header.pop("listing"), header.pop("archives")
        shards = tuple(Shard(**line) for line in lines)
        if len(shards) != count or header["version"] != VERSION:
            raise ValueError("it was written by another version of kaldi-compat")
    except FileNotFoundError:
        raise PlanError(f"there is no plan {path}: start without --resume") from None
    except OSError as error:
        raise PlanError(f"the plan {path} cannot be read: {error.strerror}: start again without --resume") from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise PlanError(f"cannot use the plan {path} ({error}): delete the plan and start again") from None
    return DumpPlan(listing, header, shards)


def find_changes_since(plan: DumpPlan, job: Job) -> dict[str, bool]:
    """Compare a job with the plan that it resumes.

    Returns:
        a dictionary from the name of each changed option or file that determines the bytes of the archives to True if
        the change can turn failures into features but cannot change existing features, and otherwise to False.
    """
    new, old = collect_settings(job, plan.trial.files), plan.settings
    changes = {name: False for name in ("feature", "program") if old[name] != new[name]}
    changes |= {name: False for name, _, _ in _find_differences(old["inputs"], new["inputs"])}
    for conf, *texts in _find_differences(old["confs"], new["confs"]):
        value_pairs = None  # Without pairs of values, the whole file counts as changed.
        if None not in texts:
            with suppress(OptionError):  # The old text may have an option that this version lacks.
                value_pairs = compare_values(job, conf, *texts)
        option_changes = {name: _can_only_add_features(name, *pair) for name, pair in (value_pairs or {}).items()}
        changes |= {conf: False} if value_pairs is None else option_changes
    for name, *values in _find_differences(old["options"], new["options"]):
        flag = "device (CPU or GPU)" if name == "processor" else normalize(name)
        changes[flag] = _can_only_add_features(flag, *values)
    return changes


def _find_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return (name, old value, new value) for each name whose values differ, in any order. A missing value is None."""
    values = ((name, old.get(name), new.get(name)) for name in old.keys() | new.keys())
    return [(name, old_value, new_value) for name, old_value, new_value in values if old_value != new_value]


def _can_only_add_features(name: str, old: Any, new: Any) -> bool:
    """Return True if this change of option ``name`` can add features of failed utterances, but not change features."""
    if name == "min-duration":
        return bool(new < old)
    return name in ("allow-downsample", "allow-upsample", "pipes", "network") and bool(new)


def update_plan(plan: DumpPlan, job: Job, path: Path, failed_shards: Sequence[int]) -> DumpPlan:
    """Return the plan to resume: ``plan``, with the settings of the job if they have changed.

    ``path`` is the file of the plan, for messages. ``failed_shards`` has the numbers of archives with failures.

    Raises:
        PlanError: archives would have to be created again because of changed settings, which is allowed only for
            archives with failures and with ``--retry-failed``; or the extractor cannot be compared with the plan.
    """
    if plan.trial.opaque and not job.options.trust_extractor:
        raise PlanError(
            f"{describe_opaque(plan.trial.opaque)} of {job.feature} cannot be compared with the extractor of the plan "
            f"{path}: add --trust-extractor if the extractor has not changed, or "
            f"{explain_how_to_start_over(job.options)}; an attribute 'version' of the object lets later jobs resume"
        )
    changes = find_changes_since(plan, job)
    if not changes:
        return plan
    # An option such as "module" and the digest of its file, "--module", are one change, so only the file is named.
    names = sorted(name for name in changes if f"--{name}" not in changes)
    fault = f"{', '.join(names)} changed since the plan {path} was made"
    undone = "these changes" if len(names) > 1 else "this change"
    if not all(changes.values()):
        raise PlanError(
            f"{fault}, so every archive would be created again: undo {undone}, or "
            f"{explain_how_to_start_over(job.options)}"
        )
    failed_numbers = ", ".join(map(str, sorted(failed_shards)))
    if failed_numbers and not job.options.retry_failed:
        raise PlanError(
            f"{fault}, so the archives with failed utterances ({shorten(failed_numbers)}) would be created again: add "
            f"--retry-failed, or undo {undone}"
        )
    return replace(plan, settings=plan.settings | collect_settings(job, plan.trial.files))


def explain_how_to_start_over(options: DumpOptions) -> str:
    """Return advice for starting the dump again, such as "start again without --resume"."""
    # With --shard, a job uses an existing plan even without --resume.
    delete = "delete the plan and " if options.shard else ""
    flags = (("--resume", options.resume), ("--retry-failed", options.retry_failed))
    switches = [flag for flag, is_set in flags if is_set]
    return f"{delete}start again{' without ' if switches else ''}{' and '.join(switches)}"


def read_shard_lines(plan: DumpPlan, shard: Shard, data: Path) -> Iterator[bytes]:
    """Yield the lines of a shard, without newlines, from the list of utterances in the directory ``data``."""
    with open(data / plan.listing, "rb") as file:
        file.seek(shard.start)
        for line in islice(file, shard.count):
            yield line.removesuffix(b"\n")


def _measure_lines(path: Path) -> Sequence[int]:
    """Return the size in bytes, including the newline, of each line of the list of utterances in the file ``path``.

    Warn of blank lines at the end, which are skipped, and of a list that is not sorted.

    Raises:
        DumpError: a line has an invalid key or only a key, a blank line precedes a key, or a key occurs twice.
    """
    sizes = array("I")
    previous_key, is_sorted, blank_line_number = b"", True, 0
    with open(path, "rb") as file:
        for line_number, line in enumerate(file, start=1):
            key, *values = line.split(None, 1)[:2] or [b""]
            if blank_line_number and key:
                raise DumpError(f"{path}, line {blank_line_number}: a blank line precedes a key: remove the line")
            if not key:
                blank_line_number = blank_line_number or line_number
                continue
            if len(key) > MAX_KEY_BYTES or _CONTROL.search(key) or key.startswith(_BOM):
                raise DumpError(f"{path}, line {line_number}: {_describe_key_fault(key)}")
            if not values:
                fault = f"nothing follows the key {_format_key(key)}: complete the line"
                raise DumpError(f"{path}, line {line_number}: {fault}")
            sizes.append(len(line))
            is_sorted &= previous_key < key
            previous_key = key
    if blank_line_number:
        logger.warning("%s, line %d: skipped blank lines at the end of the file", path, blank_line_number)
    if not is_sorted:  # In strictly ascending order, no key can occur twice.
        _refuse_duplicate_keys(path)
    return sizes


def _describe_key_fault(key: bytes) -> str:
    """Describe why a key is invalid, with advice: it is too long, or has a control character or byte order mark."""
    if len(key) > MAX_KEY_BYTES:
        return f"the key has {len(key)} bytes, but at most {MAX_KEY_BYTES} are supported: rename the utterance"
    if key.startswith(_BOM):
        return "the file starts with a byte order mark (BOM), which would be part of the key: remove it"
    return f"the key {_format_key(key)} has a control character, which no table can hold: rename the utterance"


def _format_key(key: bytes) -> str:
    return repr(shorten(key.decode(errors="replace")))


def _refuse_duplicate_keys(path: Path) -> None:
    """Raise :class:`DumpError` if a key of an unsorted file occurs twice. Otherwise, warn that the file is unsorted."""
    keys: set[bytes] = set()
    with open(path, "rb") as file:
        for line_number, line in enumerate(file, start=1):
            if not (fields := line.split(None, 1)):
                break  # Only blank lines follow.
            key = fields[0]
            if key in keys:
                name = escape_controls(key.decode(errors="replace"))
                raise DumpError(
                    f"{path}, line {line_number}: {name} occurs a second time: remove or rename one of the utterances"
                )
            keys.add(key)
    logger.warning("%s is not sorted, but later steps of a Kaldi recipe require it: sort it with LC_ALL=C sort", path)
