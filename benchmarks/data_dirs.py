"""Scripts for data directories against Kaldi's own: processor time of whole processes, peak memory, equal outputs.

python benchmarks/data_dirs.py --kaldi DIR [--utterances 1000000] [--only REGEX]

DIR is a checkout of Kaldi, whose scripts need no compiled program here; sox must be on PATH. Each job gets a new copy
of a directory without faults. The column "same" says whether all files and the standard output are equal to Kaldi's.
Without --kaldi, only our scripts run.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from figures import Table, report
from measuring import make_parser

from io_ark.data_dir.scripts import install_launchers

PER_SPEAKER = 100
JOBS = """
validate_data_dir.sh --no-feats data
fix_data_dir.sh data
subset_data_dir.sh data {tenth} out
subset_data_dir.sh --first data {tenth} out
subset_data_dir.sh --shortest data {tenth} out
subset_data_dir.sh --speakers data {tenth} out
subset_data_dir.sh --per-spk data 10 out
subset_data_dir.sh --utt-list data/list data out
split_data.sh data 100
split_data.sh --per-utt data 100
combine_data.sh out data other
copy_data_dir.sh --utt-prefix a- --spk-prefix a- data out
data/perturb_data_dir_speed.sh 0.9 data out
data/perturb_data_dir_speed_3way.sh data out
data/perturb_data_dir_volume.sh data
data/resample_data_dir.sh 8000 data
data/get_utt2dur.sh seg
data/get_reco2dur.sh data_no_reco
data/get_utt2num_frames.sh data_no_frames
data/get_segments_for_data.sh data
data/remove_dup_utts.sh 50 data out
data/modify_speaker_info.sh --utts-per-spk-max 10 data out
utt2spk_to_spk2utt.pl data/utt2spk
spk2utt_to_utt2spk.pl data/spk2utt
filter_scp.pl data/list data/text
filter_scp.pl --exclude data/list data/wav.scp
split_scp.pl data/text o1 o2 o3 o4 o5 o6 o7 o8
split_scp.pl --utt2spk=data/utt2spk data/text o1 o2 o3 o4 o5 o6 o7 o8
subset_scp.pl {tenth} data/text
shuffle_list.pl data/text
apply_map.pl -f 2 data/map < data/utt2spk
validate_text.pl data/text
"""
# Runs a command in a new process, and prints its status, its processor time, and the peak memory of its processes in
# MB.
RUN = """
import resource, subprocess, sys
done = subprocess.run(["bash", "-c", sys.argv[1]], stdout=open("stdout", "wb"), stderr=open("stderr", "wb"))
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)
"""


def make(folder: Path, count: int) -> None:
    """Write data directories: without and with segments, with other keys, and some that lack a file."""
    rng = random.Random(0)
    for name, start in (("data", "s"), ("other", "t")):
        files: dict[str, list[str]] = defaultdict(list)
        for at in range(count):
            speaker = f"{start}{at // PER_SPEAKER:06d}"
            key, seconds = f"{speaker}-u{at:08d}", rng.randrange(1000, 20000) / 1000
            if at % PER_SPEAKER == 0:
                files["map"].append(f"{speaker} group{at % 7}\n")
                files["spk2utt"].append(f"\n{speaker}"[not at :])
            files["spk2utt"].append(f" {key}")
            values = {"utt2spk": speaker, "utt2dur": f"{seconds:.3f}", "reco2dur": f"{seconds:.3f}",
                      "utt2num_frames": f"{int(seconds * 100)}", "wav.scp": f"/corpus/{speaker}/{key}.wav",
                      "feats.scp": f"/corpus/feats.{at // 50000}.ark:{at % 50000 * 8000 + 20}",
                      "text": f"WORDS OF UTTERANCE {at % 9973}"}  # fmt: skip
            for each, value in values.items():
                files[each].append(f"{key} {value}\n")
            files["list"].append(f"{key}\n" * (at % 3 == 0))
        files["spk2utt"].append("\n")
        (folder / name).mkdir(parents=True)
        for each, found in files.items():
            (folder / name / each).write_text("".join(found))
    shutil.copytree(folder / "data", folder / "seg")
    for name in ("utt2dur", "reco2dur", "utt2num_frames"):
        (folder / "seg" / name).unlink()
    with open(folder / "data" / "utt2dur") as lines, open(folder / "seg" / "segments", "w") as file:
        file.writelines(f"{key} {key} 0.25 {float(seconds) + 0.25:.3f}\n" for key, seconds in map(str.split, lines))
    for name, lacks in (("data_no_reco", ["reco2dur"]), ("data_no_frames", ["utt2num_frames", "feats.scp"])):
        shutil.copytree(folder / "data", folder / name)
        for each in lacks:
            (folder / name / each).unlink()


def run_in_new_folder(command: str, utils: Path, start: Path, place: Path) -> tuple[float, float, int, Path]:
    """Run a job in a new folder; return its seconds, its megabytes, its status, and the folder."""
    place.mkdir()
    needed = {name for name in os.listdir(start) if re.search(rf"\b{name}\b", command)}
    for name in needed:
        shutil.copytree(start / name, place / name)
    (place / "utils").symlink_to(utils)
    (place / "path.sh").write_text("export LC_ALL=C\n")
    settings = os.environ | {"LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "", "PATH": f"utils:{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, "-c", RUN, f"utils/{command}"], cwd=place, env=settings,
                          capture_output=True, text=True, check=True)  # fmt: skip
    status, seconds, megabytes = done.stdout.split()
    return float(seconds), float(megabytes), int(status), place


def list_files(place: Path) -> dict[str, bytes]:
    """Return the contents of the files in the folder of a job by name, without logs, backups and settings."""
    paths = (path for path in place.rglob("*") if path.is_file() and "utils" not in path.parts)
    names = {str(path.relative_to(place)): path for path in paths}
    hidden = ("stderr", "path.sh", "log", ".backup", "q/")
    return {name: path.read_bytes() for name, path in names.items() if not any(word in name for word in hidden)}


def main() -> None:
    """Run the jobs, and print a table."""
    parser = make_parser(__doc__)
    parser.add_argument("--kaldi", type=Path)
    parser.add_argument("--utterances", type=int, default=1_000_000)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        make(work / "start", chosen.utterances)
        install_launchers(str(work / "utils"))
        whose = {"ours": work / "utils"}
        if chosen.kaldi:
            whose["theirs"] = chosen.kaldi.absolute() / "egs" / "wsj" / "s5" / "utils"
        for line in filter(None, JOBS.splitlines()):
            command = line.format(tenth=chosen.utterances // 10)
            if not re.search(chosen.only, command):
                continue
            outcomes = [run_in_new_folder(command, utils, work / "start", work / name) for name, utils in whose.items()]
            bad = [str(status) for _, _, status, _ in outcomes if status]
            same = "failed" if bad else ""
            if chosen.kaldi and not bad:
                same = "yes" if list_files(outcomes[0][3]) == list_files(outcomes[1][3]) else "no"
            theirs = f"{outcomes[1][0]:.2f}" if chosen.kaldi else ""
            rows.append([command, f"{outcomes[0][0]:.2f}", theirs, f"{outcomes[0][1]:.0f}", same])
            print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
            for *_, place in outcomes:
                shutil.rmtree(place)
    columns = ["script", "ours: s", "Kaldi: s", "memory: MB", "same"]
    command = f"python benchmarks/data_dirs.py --kaldi DIR --utterances {chosen.utterances}"
    command += f" --only '{chosen.only}'" * bool(chosen.only)
    report("data-dirs", Table(command, columns, rows, [["times Kaldi", "Kaldi: s", "ours: s"]]))


if __name__ == "__main__":
    main()
