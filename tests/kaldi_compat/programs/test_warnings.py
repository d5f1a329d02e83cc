"""Warnings have the words of Kaldi's programs, which scripts search logs for. The expected ones are from Kaldi's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.support.programs import run_words
from tests.support.tables import save, wav_bytes

NOT_FINITE = ["Reading NaN value into %s.", "Reading infinite value into %s."]


TEXTS = {
    "nan.txt": "a  [\n  1 nan\n  infinity 2 ]\n",
    "vec.txt": "a  [ NaN 1 inf ]\n",
    "3.txt": "a 3\n",
    "bad.scp": "a a.ark:2\nbad /nosuch/x.ark:3\n",
    "blank.scp": "a a.ark:2\n\nb a.ark:2\n",
    "spk2utt": "s bad a\nc bad\n",
    "pipe.scp": "c exit 4 |\nd cat a.wav; exit 3 |\ne cat a.wav; kill -15 $$ |\n",
    "wav.scp": "w a.wav\nv a.wav\n",
    "segments": "s1 w   0.10  88.80\n",
    "short": "s1 w 0.1 0.15\ns2 w 0.1 0.5 0\n",
    "zero.mat": " [ 0 0 ]\n",
    "nan.mat": " [ 0 nan ]\n",
    "two.mat": " [ 1 2 3 4 ]\n",
    "less.mat": " [ 3 0 7 ]\n",
    "more.mat": " [ 1 1\n 1 1\n 1 2 ]\n",
    "ones.mat": " [ 1 1\n 1 1 ]\n",
    "square.mat": " [ 2 0\n 0 3 ]\n",
    "empty": "",
    "f": "u [ 1 2\n 3 4\n 5 7 ]\nv [ 1 2\n 2 1 ]\n",
    "half": "u [ 0.5 1\n 1.5 2\n 2.5 3.5 ]\nv [ 0.5 1\n 1 0.5 ]\n",
    "shorter": "u [ 1 2\n 3 4 ]\n",
    "wider": "u [ 1 2 3\n 4 5 6\n 7 8 9 ]\n",
    "gap": "u [ 1 2 ]\ne [ ]\n",
    "zeros": "u [ 0 1e20 1\n 0 1e20 1\n 0 1e20 1 ]\n",
    "flat": "u [ 1 2\n 1 3 ]\n",
    "flat.stats": "u [ 2 5 2\n 2 13 0 ]\n",
    "v": "u [ 1 0 1 ]\n",
    "v2": "u [ 1 1 ]\n",
    "vad": "u [ 1 0 ]\nv [ 0 0 ]\n",
    "quiet": "u [ -20 0\n -20 0 ]\ne [ ]\n",
    "x": "x [ 1 2 ]\n",
    "weights": "u [ 1 1 ]\nx [ 1 ]\n",
    "spk2utts": "a u\nb v missing\nc missing\n",
    "calls": "u call A\nv call B\nx one A\n",
    "no.stats": "none [ 0 0\n 0 0 ]\nu [ 2 2\n 2 0 ]\n",
    "post": "u [ 0 0.5 ] [ 1 1 ]\n",
    "large": "u [ 0 3e38 ] [ 1 1 ]\n",
    "infinite": "u [ 1 inf 3e38 ]\n",
    "utt2spk": "u s\nv t\n",
    "t.ark": "s [ 2 0\n 0 2 ]\n",
}
# The exit status, and warnings and messages of commands.
SAID: dict[str, tuple[int | str, ...]] = {
    "copy-feats ark:nan.txt ark:o.ark": (0, *(each % "matrix" for each in NOT_FINITE)),
    "copy-vector ark:vec.txt ark:o.ark": (0, *(each % "vector" for each in NOT_FINITE)),
    "copy-feats 'cat ones.mat |' 'o 1.mat'": (0, "Copied features from 'cat ones.mat |' to 'o 1.mat'"),
    "matrix-sum square.mat ones.mat '|cat >/dev/null'": (0, "wrote sum to '|cat >/dev/null'"),
    "copy-feats scp,p:bad.scp ark:o.ark": (0, "Failed to open file /nosuch/x.ark"),
    "copy-feats scp,p:blank.scp ark:o.ark": (0, "We got an invalid line in the scp file. "),
    "copy-feats ark,p:cut.ark ark:o.ark": (0, "Object read failed, reading archive cut.ark"),
    "copy-feats ark:empty ark:o.ark": (1, "Copied 0 feature matrices."),
    "compute-cmvn-stats --spk2utt=ark:spk2utt scp,p:bad.scp ark:o.ark": (
        0,
        "Failed to open file /nosuch/x.ark",
        "No stats accumulated for speaker c",
    ),
    "compute-cmvn-stats --weights=ark:weights ark:f ark:o.ark": (
        1,
        "Weights for utterance u have wrong dimension 2 vs. 3",
        "No weights available for utterance v",
    ),
    "compute-cmvn-stats --spk2utt=ark:spk2utts ark:f ark:o.ark": (
        0,
        "Did not find features for utterance missing",
        "No stats accumulated for speaker c",
        "2 utterances; 2 had errors",
    ),
    "compute-cmvn-stats ark:empty ark:o.ark": (1, "for 0 utterances; 0 had errors"),
    "compute-cmvn-stats-two-channel calls ark:f ark:o.ark": (
        0,
        "Number of frames differ between u and v: 3 vs. 2",
        "Call one has 1 utterances, expected two",
        "for 2 utterances; 1 had errors",
    ),
    "select-voiced-frames ark:a.ark ark,p:3.txt ark:o.ark": (1, "Object read failed, reading archive 3.txt"),
    "select-voiced-frames ark:f ark:vad ark:o.ark": (
        1,
        "Mismatch in number for frames 3 for features and VAD 2, for utterance u",
        "No features were judged as voiced for utterance v",
        "processed 0 utterances, 2 had errors",
    ),
    "select-voiced-frames ark:x ark:vad ark:o.ark": (1, "No VAD input found for utterance x"),
    "compute-vad ark:quiet ark:o.ark": (
        1,
        "; 1 had empty features, and 1 were completely unvoiced",
        "was 0 over 2 frames",
    ),
    "wav-copy scp,p:pipe.scp ark:o.ark": (
        0,
        "Failed to load object from exit 4 |",
        " had nonzero return status 1024",
        "Pipe cat a.wav; exit 3 | had nonzero return status 768",
        "Pipe cat a.wav; kill -15 $$ | had nonzero return status 15",
    ),
    "copy-matrix 'cat square.mat; exit 3|' o.mat": (0, "Pipe cat square.mat; exit 3| had nonzero return status 768"),
    "ivector-compute-dot-products 'echo u u; exit 4 |' ark:v ark:v o": (
        0,
        "Pipe echo u u; exit 4 | had nonzero return status 1024",
        "Processed 1 trials 0 had errors.",
    ),
    # A key of the second table is looked up only if the first table has the other key.
    "ivector-compute-dot-products 'echo x u; echo u u |' ark:v ark,o:v o": (
        0,
        "Key x not present in 1st table of ivectors.",
        "Processed 1 trials 1 had errors.",
    ),
    "compute-eer 'echo 1 target; echo 0 nontarget; exit 3 |'": (0, "echo 0 nontarget; exit 3 | had nonzero"),
    "compute-eer 'echo 1 target; echo nan nontarget |'": (0, "Line 2 has the score NaN, so the equal error rate is"),
    "subset-feats --include='echo u; exit 3 |' ark:f ark:o.ark": (0, "Pipe echo u; exit 3 | had nonzero return sta"),
    "transform-feats zero.mat ark:a.ark ark:o.ark": (
        0,
        "Matrix has bad logdet -inf",
        "Overall average [pseudo-]logdet is -nan over 0 frames.",
    ),
    "transform-feats nan.mat ark:a.ark ark:o.ark": (0, "Matrix has bad logdet nan"),
    "transform-feats two.mat ark:a.ark ark:o.ark": (
        1,
        "Transform matrix for utterance a has bad dimension 1x4 versus feat dim 2",
        "[perhaps the transform was created by compose-transforms, and you forgot the --b-is-affine option?]",
    ),
    "transform-feats less.mat ark:a.ark ark:o.ark": (0, "Overall average [pseudo-]logdet is 1.09861 over 3 frames"),
    "transform-feats square.mat ark:a.ark ark:o.ark": (0, "Overall average logdet is 1.79176 over 3 frames"),
    "transform-feats ones.mat ark:a.ark ark:o.ark": (0, "Matrix has bad logdet -inf"),
    "transform-feats more.mat ark:a.ark ark:o.ark": (0, "Applied transform to 1 utterances; 0 had errors"),
    "transform-feats --utt2spk=ark:utt2spk ark:t.ark ark:f ark:o.ark": (
        0,
        "No fMLLR transform available for utterance v",
        "Applied transform to 1 utterances; 1 had errors",
    ),
    "extract-segments scp:wav.scp short ark:o.ark": (
        0,
        "Segment s1 too short, skipping it.",
        "Successfully processed 1 lines out of 2 in the segments file.",
    ),
    "wav-copy scp:wav.scp ark:o.ark": (0, "Copied 2 wave files"),
    "wav-copy ark:cut ark:o.ark": (0, "Expected 3200 bytes of wave data, but read only 3180 bytes. Truncated file?"),
    "wav-copy ark:long ark:o.ark": (
        0,
        "Expected 5000 bytes in RIFF chunk, but after first data block there will be 36 + 3200 bytes ",
        "(we do not support reading multiple data chunks).",
    ),
    "extract-segments scp:wav.scp segments ark:o.ark": (
        0,
        "Segment end is too far out of file data range [0,1.6s]; skipping segment 's1 w   0.10  88.80'",
    ),
    "compare-feats ark:f ark:f": (0, "Overall similarity for the two feats is:1 "),
    "compare-feats ark:f ark:half": (
        1,
        "Similarity metric for each dimension  [ 0.8 0.8 ]",
        "Features are considered dissimilar since 0.8 < 0.99",
    ),
    "compare-feats --threshold=0.79 ark:f ark:half": (0,),
    "compare-feats ark:f ark:shorter": (255, "u: 3 frames in the first table, but 2 in the second"),
    "compare-feats ark:shorter ark:f": (255, "u: 2 frames in the first table, but 3 in the second"),
    "compare-feats ark:f ark:wider": (
        1,
        "Feature dimensions differ for utterance u, 2 vs. 3, skipping utterance.",
        "Second table has no feature for utterance v",
    ),
    "compare-feats ark:gap ark:gap": (
        0,
        "Both features of utterance e are empty, skipping utterance.",
        "Processed 1 feature files, 1 had errors.",
    ),
    "compare-feats ark:zeros ark:zeros": (
        1,
        "self-product of 1st features for each column dimension:  [ 0 inf 3 ]",
        "Similarity metric for each dimension  [ -nan -nan 1 ]",
        "Features are considered dissimilar since -nan < 0.99",
    ),
    "apply-cmvn --norm-vars ark:flat.stats ark:flat ark:o.ark": (0, "Flooring cepstral variance from 0 to 1e-20"),
    "append-vector-to-feats ark:f ark:v ark:o.ark": (0, "Could not read vector for utterance v"),
    "append-post-to-feats --post-dim=2 ark:f ark:post ark:o.ark": (
        255,
        "Mismatch of length! features: 3 posteriors: 2",
        "Could not read posteriors for utterance v",
    ),
    "multiply-vectors ark:v ark:v2 ark:o.ark": (255, "Length mismatch 3 vs. 2 for utt u exceeds tolerance 0"),
    "multiply-vectors --length-tolerance=-1 ark:v ark:v ark:o.ark": (
        255,
        "Length mismatch 3 vs. 3 for utt u exceeds tolerance -1",
    ),
    "multiply-vectors v.vec v2.vec o.vec": (1, "Length mismatch 3 vs. 2"),
    "paste-feats ark:f ark:x ark:o.ark": (255, "Missing utt u from input ark:x"),
    "paste-feats --length-tolerance=-1 ark:f ark:f ark:o.ark": (
        255,
        "Length mismatch 3 vs. 3 for utt u exceeds tolerance -1",
    ),
    "paste-feats square.mat two.mat o.mat": (1, "Length mismatch 2 vs. 1"),
    "paste-feats ark:f ark:o.ark": (1,),  # one table is too few
    "paste-vectors ark:v ark:x ark:o.ark": (255, "Missing utt u from input ark:x"),
    "modify-cmvn-stats --convert-to-mean-and-var ark:no.stats ark:o.ark": (
        0,
        "Zero or negative count for speaker none",
        "Modified 1 sets of stats.",
    ),
    "subsample-feats --n=-1 --offset=-1 ark:f ark:o.ark": (0, "--offset=-1 has no effect with a negative --n"),
    "add-deltas ark:gap ark:o.ark": (0, "Empty feature matrix for key e"),
    "add-deltas-sdc ark:gap ark:o.ark": (0, "Empty feature matrix for key e"),
    "ivector-normalize-length ark:infinite ark:o.ark": (0, "length was inf, standard deviation was -nan"),
    "ivector-subtract-global-mean ark:infinite ark:o.ark": (0, "Read 1 iVectors."),
    "sum-post ark:large ark:large ark:o.ark": (0, "Done adding 1 posteriors;  0 with errors."),
    "scale-post ark:post inf ark:o.ark": (0, "Done 1 posteriors;  0 had no scales."),
    "scale-post ark:large 1e39 ark:o.ark": (0, "Done 1 posteriors;  0 had no scales."),
    "vector-sum ark:infinite ark:infinite ark:o.ark": (0,),
    "matrix-dim ark:empty": (1, "No features read from rspecifier 'ark:empty'"),
}


@pytest.mark.parametrize("command", SAID)
def test_programs_say_what_kaldis_say(command: str) -> None:
    for name, text in TEXTS.items():
        Path(name).write_text(text)
    wave = wav_bytes(np.zeros((1600, 1), np.int16), 1000)
    Path("a.wav").write_bytes(wave)
    Path("cut").write_bytes(b"w " + wave[:-20])
    Path("long").write_bytes(b"w " + wave[:4] + (5000).to_bytes(4, "little") + wave[8:])
    for name in "v", "v2":
        Path(f"{name}.vec").write_text(TEXTS[name].removeprefix("u"))
    save("a.ark", {"a": np.ones((3, 2), np.float32)})
    Path("cut.ark").write_bytes(Path("a.ark").read_bytes() * 2 + b"b \0BFM \4")
    status, *messages = SAID[command]
    found, log = run_words(shlex.split(command))
    assert found == status, log
    for message in messages:
        assert re.search(rf"^(WARNING|LOG|ERROR) .*{re.escape(str(message))}", log, re.M), log
    assert "encountered in" not in log, "NumPy's own words"


def test_matrix_dim_warns_of_an_empty_table_only() -> None:
    save("a.ark", {"a": np.ones((3, 2), np.float32)})
    status, log = run_words(["matrix-dim", "ark:a.ark"])
    assert status == 0 and "WARNING" not in log
