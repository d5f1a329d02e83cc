#!/usr/bin/env python3
"""Run the reference commands with the Kaldi programs on PATH and rewrite the set with their outputs.

usage: regenerate.py [--group NAME ...] [--id ID ...] [--programs DIR]

Rewrites expected/GROUP/ID/ and, in cases.json, the exit status, the counts of warnings and errors, the list of files
and, where a case holds a program's options, the options that its --help prints. Inputs are never touched: each command
runs in a copy of them. Refuses to run with this project's own programs: the project must not be its own judge.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
OPTION_LINE = re.compile(r"^\s+--([\w-]+)\s+: .*\((\w+), default = (.*)\)$", re.MULTILINE | re.DOTALL)
TIME_LIMIT_S = 120


def option_list(usage: str) -> list[list[str]]:
    """Return the (name, type, default) triples in the usage text of a Kaldi program; meanings may span lines."""
    entries = re.split(r"\n(?=\s+--[\w-]+\s+: )", usage)
    found = (OPTION_LINE.match(entry.rstrip().split("\n\n")[0]) for entry in entries)
    return [[match[1], match[2], match[3]] for match in found if match]


def run(case: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    """Run one case's command in a copy of the inputs, keep what it leaves, and return the case brought up to date."""
    with tempfile.TemporaryDirectory() as scratch:
        work, out = Path(scratch) / "inputs", Path(scratch) / "out"
        shutil.copytree(ROOT / "inputs", work)
        out.mkdir()
        result = subprocess.run(
            ["bash", "-o", "pipefail", "-c", case["cmd"].replace("{out}", str(out))],
            cwd=work,
            env=environment,
            capture_output=True,
            input=case.get("stdin", "").encode("latin1"),
            timeout=TIME_LIMIT_S,
        )
        log = result.stderr.decode("utf8", "replace")
        updated = case | {
            "exit": result.returncode,
            "warnings": len(re.findall(r"^WARNING \(", log, re.MULTILINE)),
            "errors": len(re.findall(r"^ERROR \(", log, re.MULTILINE)),
        }
        if "options" in case:
            return updated | {"options": option_list(log + result.stdout.decode("utf8", "replace"))}
        if result.stdout:
            (out / "stdout").write_bytes(result.stdout)
        for script in out.rglob("*.scp"):
            script.write_bytes(script.read_bytes().replace(str(out).encode(), b"{out}"))
        kept = ROOT / "expected" / case["group"] / case["id"]
        shutil.rmtree(kept, ignore_errors=True)
        files = sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file())
        if files:
            shutil.copytree(out, kept)
        return updated | {"files": files}


def check_programs(environment: dict[str, str]) -> None:
    """Exit with a message unless the program found on PATH is a compiled one, hence not ours."""
    found = shutil.which("copy-feats", path=environment["PATH"])
    if found is None:
        sys.exit(
            "regenerate.py: no copy-feats on PATH; build Kaldi and put its featbin, bin and ivectorbin folders there"
        )
    if Path(found).read_bytes()[:2] == b"#!":
        sys.exit(f"regenerate.py: {found} is a script, not Kaldi's compiled program; put Kaldi's folders first on PATH")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", nargs="*", help="only these groups")
    parser.add_argument("--id", nargs="*", help="only these ids")
    parser.add_argument("--programs", type=Path, nargs="*", default=[], help="folders of Kaldi's programs, before PATH")
    chosen = parser.parse_args()
    environment = os.environ | {"PATH": os.pathsep.join([*map(str, chosen.programs), os.environ["PATH"]])}
    check_programs(environment)
    cases = json.loads((ROOT / "cases.json").read_text())
    for number, case in enumerate(cases):
        if (chosen.group and case["group"] not in chosen.group) or (chosen.id and case["id"] not in chosen.id):
            continue
        print(f"{case['group']}/{case['id']}: {case['cmd']}", flush=True)
        cases[number] = run(case, environment)
    (ROOT / "cases.json").write_text(json.dumps(cases, indent=0))


if __name__ == "__main__":
    main()
