"""List the files that a dump writes, and compare them with the files that it reads, before anything is written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path

from io_ark.data_dir import DATA_FILES
from io_ark.specifier import Rspecifier, decode_file_name, parse_rspecifier
from io_ark.streams.unfinished import remove_abandoned_files, remove_unfinished
from io_ark.tables.overwriting import refuse_equal_files, refuse_replacing
from kaldi_compat.dump.configuration import read_confs
from kaldi_compat.dump.errors import OutputError
from kaldi_compat.dump.files import check_archive_path, encode_name
from kaldi_compat.dump.inputs import SCRIPT, list_input_paths
from kaldi_compat.dump.options import BY_SPEAKER, FORMATS, OVERALL, PROCESS_CONF, Job, Layout
from kaldi_compat.dump.plan import DumpPlan
from kaldi_compat.dump.speed_perturb import split_speed
from kaldi_compat.dump.write import DURATIONS, FRAMES

BACKUP, CONF = ".backup", "conf"
FRAME_SHIFT, CMVN_SCRIPT, CMVN_ARCHIVE = "frame_shift", "cmvn.scp", "cmvn.ark"


def check_outputs(job: Job, plan: DumpPlan) -> None:
    """Raise an error if this part of the dump would write a file twice, or replace a file that is not an output.

    Raises:
        ArkError: two outputs are the same file, or an input, data file or file of the extractor would be replaced.
        OutputError: a file cannot be written, or a folder of ``--format`` holds other files.
    """
    numbers, layout = [shard.number for shard in plan.select_part(*job.options.part)], job.layout
    shard_outputs = list(product(numbers, plan.trial.outputs))
    tables = [path for pair in shard_outputs for path in (layout.get_archive(*pair), layout.get_script(*pair))]
    shard_files = [layout.get_file_of_archive(*pair) for pair in product(numbers, ("json", "log", FRAMES, DURATIONS))]
    written_paths = [*tables, layout.plan, layout.lock, layout.failures, *shard_files, *list_outputs_in_data(job, plan)]
    # The dump must not replace other files of the data directory, or files that the extractor has used.
    protected = [decode_file_name(path) for name in DATA_FILES if (path := layout.data / name) not in written_paths]
    protected += map(decode_file_name, map(Path, plan.trial.files.values()))
    written_paths += [Path(job.options.report)] if job.options.report else []
    refuse_equal_files(map(decode_file_name, written_paths))
    confs = plan.settings["confs"]
    # A copy of a configuration file that already has the text is not written again, so it may also be an input.
    unchanged_paths = {
        path for name, text in select_copied_confs(confs).items() if has_text(path := get_conf_path(job, name), text)
    }
    replaced_paths = [decode_file_name(path) for path in written_paths if path not in unchanged_paths]
    # A part of a job does not look up the files of all lines of wav.scp, because every part would repeat this.
    refuse_replacing(replaced_paths, [*_iterate_inputs(job, confs), *protected], every_line=not job.options.shard)
    for path in tables:
        check_archive_path(path)
    _check_folders(job, plan, written_paths)


def check_speed_outputs(job: Job, speed_job: Job) -> None:
    """Raise :class:`ArkError` if ``speed_job`` (for ``--speed-dir``) or the report would replace inputs of ``job``."""
    layout = speed_job.layout
    written_paths = [layout.data / name for name in (*DATA_FILES, *(f"{BACKUP}/{name}" for name in DATA_FILES))]
    for folder, prefix in (layout.archives, f"raw_{layout.feature}_"), (layout.log, layout.log_stem):
        if folder.is_dir():
            written_paths += [path for path in folder.iterdir() if path.name.startswith(prefix)]
    written_paths += [Path(job.options.report)] if job.options.report else []
    refuse_replacing(
        map(decode_file_name, written_paths), _iterate_inputs(job, read_confs(job)), every_line=not job.options.shard
    )


def list_outputs_in_data(job: Job, plan: DumpPlan) -> Iterator[Path]:
    """Yield the files, but not folders, that a dump writes to the data directory, and the archives keyed by speaker.

    Copies of configuration files are included, even if they are in the log folder (see :func:`get_conf_path`).
    """
    layout, options, trial = job.layout, job.options, plan.trial
    for output in trial.outputs:
        yield layout.data / f"{output}.scp"
        yield layout.data / BACKUP / f"{output}.scp"
        if FORMATS[options.format] not in ("", "/"):  # The format has a file for each output.
            yield get_converted_path(layout, output, options.format)
    speaker_tables = [f"spk_{output}" for output in trial.vectors if options.per_speaker]
    speaker_tables += ["cmvn"] if BY_SPEAKER in options.cmvn_levels else []
    for name in speaker_tables:
        yield layout.data / f"{name}.scp"
        yield from (layout.get_speaker_archive(name), layout.get_speaker_archive(name).with_suffix(".scp"))
    names = {
        FRAMES: options.write_utt2num_frames and trial.framed,
        DURATIONS: options.write_utt2dur,
        FRAME_SHIFT: True,
        CMVN_ARCHIVE: OVERALL in options.cmvn_levels,
    }
    yield from (layout.data / name for name, is_written in names.items() if is_written)
    yield from (get_conf_path(job, name) for name in select_copied_confs(plan.settings["confs"]))


def select_copied_confs(confs: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration texts that a dump copies to ``<data>/conf``: all except PROCESS_CONF, as in Kaldi."""
    return {name: text for name, text in confs.items() if name != PROCESS_CONF}


def get_conf_path(job: Job, name: str) -> Path:
    """Return the path to which the dump copies the configuration file ``name``.

    It is ``<data>/conf/<name>``, or a file in the log folder if the job reads ``<data>/conf/<name>`` itself.
    """
    path, read_path = job.layout.data / CONF / name, job.conf_paths.get(name)
    if read_path is not None and path.exists() and read_path.exists() and path.samefile(read_path):
        return job.layout.log / f"{job.layout.log_stem}.{name}"
    return path


def has_text(path: Path, text: str) -> bool:
    """Return True if a file exists, and its content is exactly ``text``."""
    return path.is_file() and path.read_bytes() == encode_name(text)


def get_converted_path(layout: Layout, output: str, format_name: str) -> Path:
    """Return the path to which an output is converted in the format ``format_name``: a file or a folder."""
    return Path(f"{layout.data / output}{FORMATS[format_name]}")


def _iterate_inputs(job: Job, confs: Mapping[str, str]) -> Iterator[str | Rspecifier]:
    """Yield the inputs of a dump: ``wav.scp`` as an rspecifier, other files, and inputs of sox's speed commands."""
    script = job.layout.data / SCRIPT
    yield parse_rspecifier("scp:-")._replace(rxfilename=decode_file_name(script))
    yield from map(decode_file_name, list_input_paths(job, confs).values())
    yield from (decode_file_name(path) for path in job.conf_paths.values() if path)
    with open(script, "rb") as lines:  # For commands that change the speed, the dump reads the file itself.
        for line in lines:
            if b" speed " in line:
                rxfilename = os.fsdecode(b"".join(line.split(None, 1)[1:]).strip())
                file, factor = split_speed(rxfilename)
                if factor is not None:
                    yield file


def _check_folders(job: Job, plan: DumpPlan, written_paths: Iterable[Path]) -> None:
    """Raise :class:`OutputError` if a folder in which ``--format`` writes ``.npy`` files has another use.

    The folder must not be a file, or contain files that a dump does not write. The dump must not write its log,
    its archives or one of the files ``written_paths`` to it.
    """
    if not FORMATS[job.options.format].endswith("/"):
        return
    layout = job.layout
    used_paths = [layout.log, layout.archives, layout.data / CONF, layout.data / BACKUP, *written_paths]
    paths_in_use = {os.path.realpath(path): path for used_path in used_paths for path in (used_path, used_path.parent)}
    for output in plan.trial.outputs:
        folder = get_converted_path(layout, output, job.options.format)
        if used_path := paths_in_use.get(os.path.realpath(folder)):
            raise OutputError(f"{folder}: the dump writes other files to {used_path}: rename the output {output}")
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder} is not a folder: move it out of the way")
        paths_in_folder = sorted(folder.iterdir()) if folder.is_dir() else []
        for path in paths_in_folder:
            if path.suffix != ".npy" or (path.is_dir() and not path.is_symlink()):
                raise OutputError(f"{folder} holds {path.name}, which a dump does not write: move it away")


def remove_all_unfinished_files(job: Job) -> int:
    """Remove temporary files of killed jobs from the folders of this dump, and return the number of removed files.

    Also remove temporary files of the report, of copied configurations, and of linked files in the data directory.
    """
    layout = job.layout
    folders = (layout.data, layout.log, layout.archives, *layout.archives.glob("storage/*"))
    folders_by_path = {os.path.realpath(folder): folder for folder in folders}
    removed_count = sum(map(remove_abandoned_files, folders_by_path.values()))
    # The folder of an output in another format may be a link, whose temporary folders are beside the link's target.
    links = [path for path in layout.data.iterdir() if path.is_symlink() and path.name not in DATA_FILES]
    removed_count += sum(map(remove_unfinished, links))
    removed_count += sum(remove_unfinished(layout.data / CONF / name) for name in job.conf_paths)
    return removed_count + (remove_unfinished(Path(job.options.report)) if job.options.report else 0)
