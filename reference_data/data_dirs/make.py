"""Write ``outputs.json.xz``: what Kaldi's data directory scripts write and return for directories made from seeds.

    python reference_data/data_dirs/make.py /path/to/kaldi/egs/wsj/s5/utils [count of directories]

Needs perl, bash, awk, sox, and the programs wav-to-duration, feat-to-len and wav-copy on PATH.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support import data_dirs  # noqa: E402

COUNT = 300


def run(utils: Path, seed: int) -> dict[str, object]:
    """Run the commands of a seed."""
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder, "start")
        told, commands = data_dirs.case(seed, start)
        before = data_dirs.tree(start)
        results = []
        for at, command in enumerate(commands):
            place = Path(folder, str(at))
            shutil.copytree(start, place)
            # Kaldi's scripts call each other as utils/NAME; combine_data.sh wants parse_options.sh on PATH.
            place.joinpath("utils").symlink_to(utils)
            bin_ = place / "in" / "bin"
            bin_.mkdir()
            bin_.joinpath("locale").write_text("#!/bin/sh\necho C.UTF-8\n")  # newer systems call it C.utf8
            bin_.joinpath("locale").chmod(0o755)
            bin_.joinpath("python").symlink_to(shutil.which("python3") or "")
            path = f"{bin_}:{place}/utils:{os.environ['PATH']}"
            done = subprocess.run(
                ["bash", "-c", f"utils/{command}"],
                cwd=place,
                capture_output=True,
                timeout=100,
                stdin=None if "<" in command else subprocess.DEVNULL,
                env={**os.environ, "PATH": path},
            )
            after = data_dirs.tree(place)
            changes = {
                name: after.get(name) for name in sorted({*before, *after}) if before.get(name) != after.get(name)
            }
            results.append(
                {
                    "command": command,
                    "status": done.returncode,
                    "stdout": done.stdout.decode("latin-1").replace(str(place), ""),
                    "files": {name: None if data is None else data.decode("latin-1") for name, data in changes.items()},
                }
            )
        return {"seed": seed, "faults": told, "results": results}


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("utils", type=Path, help="folder of Kaldi's scripts")
    parser.add_argument("count", type=int, nargs="?", default=COUNT, help="number of directories")
    arguments = parser.parse_args()
    with ThreadPoolExecutor(2) as threads:
        cases = []
        for case in threads.map(lambda seed: run(arguments.utils.resolve(), seed), range(arguments.count)):
            cases.append(case)
            print(case["seed"], flush=True)
    text = "".join(json.dumps(case) + "\n" for case in cases)
    Path(__file__).with_name("outputs.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main()
