"""The order in which programs open their files: commands with an unreadable input, and the state of older outputs.

``python -m tests.support.output_order DIRECTORY`` runs Kaldi's programs in a directory and stores the state of their
outputs in ``output_order.json``. The tests of the programs compare ours with it.
"""

from __future__ import annotations

import json
import re
import shlex
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

STORED = Path(__file__).with_suffix(".json")
OLD = b"yesterday"
# Inputs that can be read. Names of tables have a prefix, "ark:" or "scp:".
INPUTS = {
    "m": "u [ 1 2\n 3 4\n 5 7 ]\n",
    "p": "u [ 0.5 100\n 0.5 120\n 0.4 130 ]\n",
    "v": "u [ 1 0 1 ]\n",
    "i": "u 1 2 3\n",
    "stats": "u [ 9 13 3\n 35 69 0 ]\n",
    "post": "u [ 0 0.5 ] [ 1 1 ] [ 0 1 ]\n",
    "t": "u [ 1 0\n 0 1 ]\n",
    "mat": " [ 1 2\n 3 4\n 5 7 ]\n",
    "square": " [ 1 0\n 0 1 ]\n",
    "cube": " [ 1 0 0\n 0 1 0\n 0 0 1 ]\n",
    "vec": " [ 1 0 1 ]\n",
    "onepost": "[ 0 0.5 ] [ 1 1 ] [ 0 1 ]\n",
    "ints": "[ 1 2 3 ]\n",
    "sums": " [ 9 13 3\n 35 69 0 ]\n",
    "spk2utt": "s u\n",
    "segments": "s u 0 0.2\n",
    "calls": "u call A\n",
    "list": "u\n",
    "wav.scp": "u u.wav\n",
    "ali": "u 26 28 30\n",
    "tids": "u [ 26 0.5 ] [ 28 1 ] [ 30 0.5 ]\n",
    "gsel": "u 1 2 ; 3 ; 4 ;\n",
    "scale": "u 0.5\n",
    "scores": "1 target\n0 nontarget\n",
    "trials": "u u\n",
    "plda": "<Plda>  [ 0 0 0 ]\n [\n  1 0 0\n  0 1 0\n  0 0 1 ]\n [ 3 2 1 ]\n</Plda> ",
    "pairs": "a [ 1 ]\nb [ 2 ]\nc [ 5 ]\nd [ 7 ]\n",
    "utt2spk": "a s\nb s\nc t\nd t\n",
    "spk2utts": "s a b\nt c d\n",
}
MODELS = Path(__file__).parents[2] / "reference_data" / "inputs" / "models"
INPUTS |= {name: (MODELS / name).read_text() for name in ("mono.txt", "tri.txt", "tritree.txt", "phones.txt")}
_FEATURES = (
    "add-deltas add-deltas-sdc apply-cmvn-sliding compute-cmvn-stats compute-vad copy-feats copy-matrix feat-to-dim "
    "feat-to-len shift-feats splice-feats subsample-feats subset-feats"
)
_AUDIO = "compute-kaldi-pitch-feats compute-and-process-kaldi-pitch-feats wav-copy wav-to-duration"
COMMANDS = [
    *(f"{program} ark:m ark:out" for program in _FEATURES.split()),
    *(f"compute-{name}-feats --dither=0 scp:wav.scp ark:out" for name in ("fbank", "mfcc", "plp", "spectrogram")),
    *(f"{program} scp:wav.scp ark:out" for program in _AUDIO.split()),
    "add-deltas --truncate=3 ark:m ark:out",
    "ali-to-pdf mono.txt ark:ali ark:out",
    "ali-to-phones --ctm-output mono.txt ark:ali out",
    "ali-to-phones --write-lengths mono.txt ark:ali ark,t:out",
    "ali-to-post ark:ali ark:out",
    "am-info mono.txt",
    "append-post-to-feats --post-dim=2 ark:m ark:post ark:out",
    "append-post-to-feats --post-dim=2 mat onepost out",
    "append-vector-to-feats ark:m ark:v ark:out",
    "append-vector-to-feats mat vec out",
    "apply-cmvn ark:stats ark:m ark:out",
    "apply-cmvn sums ark:m ark:out",
    "apply-cmvn --norm-means=false sums ark:m ark:out",
    "apply-cmvn-online sums ark:m ark:out",
    "apply-cmvn-online --cmn-window=0 sums ark:m ark:out",
    "apply-cmvn-online --spk2utt=ark:spk2utt --skip-dims=x sums ark:m ark:out",
    "apply-cmvn-online --spk2utt=ark:spk2utt sums ark:m ark:out",
    "compare-feats ark:m ark:m",
    "compose-transforms ark:t ark:t ark:out",
    "compose-transforms ark:t square ark:out",
    "compose-transforms square ark:t ark:out",
    "compose-transforms square square out",
    "compute-cmvn-stats --spk2utt=ark:spk2utt ark:m ark:out",
    "compute-cmvn-stats ark:m out",
    "compute-cmvn-stats-two-channel calls ark:m ark:out",
    "compute-eer scores",
    "compute-fbank-feats --dither=0 --write-utt2dur=ark,t:out2 scp:wav.scp ark:out",
    "concat-feats mat mat out",
    "convert-ali mono.txt tri.txt tritree.txt ark:ali ark:out",
    "copy-feats --compress=true ark:m ark:out",
    "copy-feats --write-num-frames=ark,t:out2 ark:m ark,scp:out,out3",
    "copy-feats mat out",
    "copy-feats-to-htk --output-dir=. --output-ext=htk ark:m",
    "copy-feats-to-sphinx --output-dir=. --output-ext=mfc ark:m",
    "copy-gselect ark:gsel ark:out",
    "copy-int-vector ark:i ark:out",
    "copy-int-vector ints out",
    "copy-matrix mat out",
    "copy-post ark:post ark:out",
    "copy-transition-model mono.txt out",
    "copy-tree tritree.txt out",
    "copy-vector ark:v ark:out",
    "copy-vector vec out",
    "extend-transform-dim --new-dimension=3 ark:t ark:out",
    "extend-transform-dim --new-dimension=3 square out",
    "extract-feature-segments --min-segment-length=0 --max-overshoot=1 ark:m segments ark:out",
    "extract-segments scp:wav.scp segments ark:out",
    "feat-to-dim ark:m out",
    "feat-to-len ark:m",
    "feat-to-post ark:m ark:out",
    "get-full-lda-mat square square out out2",
    "get-post-on-ali ark:tids ark:ali ark:out",
    "hmm-info mono.txt",
    "interpolate-pitch ark:p ark:out",
    "ivector-adapt-plda plda ark:v out",
    "ivector-compute-dot-products trials ark:v ark:v out",
    "ivector-compute-lda --dim=1 ark:pairs ark:utt2spk out",
    "ivector-compute-plda ark:spk2utts ark:pairs out",
    "ivector-copy-plda plda out",
    "ivector-mean ark:spk2utt ark:v ark:out",
    "ivector-mean ark:spk2utt ark:v ark:out ark,t:out2",
    "ivector-mean ark:v out",
    "ivector-normalize-length ark:v ark:out",
    "ivector-plda-scoring plda ark:v ark:v trials out",
    "ivector-subtract-global-mean ark:v ark:out",
    "ivector-subtract-global-mean vec ark:v ark:out",
    "matrix-dim ark:m",
    "matrix-dim mat",
    "matrix-sum ark:m ark:m ark:out",
    "matrix-sum ark:m out",
    "matrix-sum mat mat out",
    "matrix-sum-rows ark:m ark:out",
    "modify-cmvn-stats 0 ark:stats ark:out",
    "multiply-vectors ark:v ark:v ark:out",
    "multiply-vectors vec vec out",
    "paste-feats ark:m ark:m ark:out",
    "paste-feats mat mat out",
    "paste-vectors ark:v ark:v ark:out",
    "post-to-feats --post-dim=2 ark:post ark:out",
    "post-to-pdf-post mono.txt ark:tids ark:out",
    "post-to-weights ark:post ark:out",
    "process-kaldi-pitch-feats ark:p ark:out",
    "process-pitch-feats ark:p ark:out",
    "scale-post ark:post 0.5 ark:out",
    "scale-post ark:post ark:scale ark:out",
    "select-feats 1,0 ark:m ark:out",
    "select-feats 1,5 ark:m ark:out",
    "select-voiced-frames ark:m ark:v ark:out",
    "shift-feats mat out",
    "show-alignments phones.txt mono.txt ark:ali",
    "show-transitions phones.txt mono.txt",
    "subset-feats --include=list ark:m ark:out",
    "sum-post ark:post ark:post ark:out",
    "transform-feats ark:t ark:m ark:out",
    "transform-feats square ark:m ark:out",
    "transform-vec cube ark:v ark:out",
    "tree-info tritree.txt",
    "vector-sum ark:v ark:v ark:out",
    "vector-sum ark:v out",
    "vector-sum vec vec out",
    "wav-copy u.wav out",
    "wav-reverberate --impulse-response=u.wav u.wav out",
    "weight-post ark:post ark:v ark:out",
    "weight-silence-post 0.5 5 mono.txt ark:tids ark:out",
    "weight-silence-post --distribute 0.5 5 mono.txt ark:tids ark:out",
]
# Unreadable tables that replace an input. An input file is replaced by a missing file only.
BROKEN = ["ark:none", "scp:none", "scp:echo u none |", "ark:echo u ]x |"]
OUTPUTS = re.compile(r"\bout\d?\b|u\.(?:htk|mfc)")
INPUT = re.compile(r"(?:(?:ark|scp):)?(?:" + "|".join(map(re.escape, [*INPUTS, "u.wav"])) + ")")


def variants(command: str) -> list[str]:
    """Return the command, and all variants of it with one unreadable input."""
    words = command.split()
    commands = [command]
    for at, word in enumerate(words[1:], 1):
        option, equals, value = word.rpartition("=")
        if not INPUT.fullmatch(value) or (option and not option.startswith(("--spk2utt", "--include", "--impulse"))):
            continue
        broken_inputs = BROKEN if ":" in value else ["none"]
        commands += [shlex.join([*words[:at], option + equals + broken, *words[at + 1 :]]) for broken in broken_inputs]
    return commands


def outcome(run: Callable[[Sequence[str]], int], command: str) -> list[str]:
    """Run a command in this directory; return "ok" or "failed", and of each output if it is old, empty or new."""
    words = shlex.split(command)
    outputs = list(dict.fromkeys(OUTPUTS.findall(" ".join(words[1:]))))
    if "copy-feats-to-" in words[0]:
        outputs = ["u.htk", "u.mfc"]
    for name in outputs:
        Path(name).write_bytes(OLD)
    status = run(words)
    left = [Path(name).read_bytes() for name in outputs]
    return ["failed" if status else "ok", *("old" if data == OLD else "new" if data else "empty" for data in left)]


def write_inputs() -> None:
    """Write the inputs to this directory."""
    for name, content in INPUTS.items():
        Path(name).write_text(content)
    samples = b"".join(struct.pack("<h", (i * i * 7) % 3001 - 1500) for i in range(6400))
    head = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(samples), b"WAVEfmt ", 16, 1, 1, 16000, 32000, 2, 16,
                       b"data", len(samples))  # fmt: skip
    Path("u.wav").write_bytes(head + samples)


def main(directory: str) -> None:
    """Run Kaldi's programs of a directory and store what they leave."""

    def run(words: Sequence[str]) -> int:
        return subprocess.run([f"{directory}/{words[0]}", *words[1:]], capture_output=True).returncode

    write_inputs()
    stored = {variant: outcome(run, variant) for command in COMMANDS for variant in variants(command)}
    rows = ",\n".join(f"  {json.dumps(command)}: {json.dumps(left)}" for command, left in stored.items())
    STORED.write_text(f"{{\n{rows}\n}}\n")


if __name__ == "__main__":
    main(sys.argv[1])
