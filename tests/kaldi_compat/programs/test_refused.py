"""A user's mistake ends a program with status 255 and one line that says what is wrong."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.support.output_order import write_inputs
from tests.support.programs import ERROR_STATUS, run_words
from tests.support.tables import wav

# Inputs besides those of the commands on outputs. Names of tables have a prefix.
INPUTS = {
    "empty": "",
    "e": "u [ 1 2 ]\ne [ ]\n",
    "narrow": "u [ 1 2 3 ]\nn [ 1 2 ]\n",
    "dims": "u [ 1 2 ]\nx [ 1 2 3 4 ]\n",
    "half": "u [ 1 0.5 0 ]\n",
    "one": "u [ 1 2 3 ]\n",
    "spk2utt2": "s u x\n",
    "spk2utt3": "s u\nt x\n",
    "fewer": "x y\n",
    "nan": "a [ 1 ]\nb [ nan ]\nc [ 5 ]\nd [ 7 ]\n",
    "odd": "a [ 1 ]\nb [ 2 3 ]\nc [ 5 ]\nd [ 7 ]\n",
    "alone": "s a b c d\n",
    "void": "a [ ]\nb [ ]\nc [ ]\nd [ ]\n",
    "singles": "s a\nt b\nv c\nw d\n",
    "all": "a s\nb s\nc s\nd s\n",
    "none_of": "u 0\n",
    "three": " [ 1 0 0\n 0 1 0\n 0 0 1 ]\n",
    "row": " [ 1 1 ]\n",
    "ones": " [ 1 1\n 1 1 ]\n",
    "wide": " [ 1 1 1 1\n 1 1 1 1 ]\n",
    "nothing": " [ 0 0 0\n 0 0 0 ]\n",
    "rows": " [ 1 1 1\n 1 1 1\n 1 1 1 ]\n",
    "bare": "1 2 3\n",
    "open": "[ 1 2\n",
    "word": "[ 1 x ]\n",
    "cut": "\0B\4\2\0\0\0\1\0\0\0",
    "blank": "u\n\n",
    "hollow": " [ ]\n",
    "phones": "<eps> 0\nSIL -3\n",
    "lists": "a 1 2 ; 3 ;",
}
MODELS = Path(__file__).parents[3] / "reference_data" / "inputs" / "models"
REFUSED = {
    "shift-feats hollow out": "hollow: Empty input matrix",
    "append-vector-to-feats hollow hollow out": "hollow: the feature matrix is empty",
    "add-deltas --truncate=3 ark:m ark:out": "u: Cannot truncate features as dimension 2 is smaller than --truncate=3",
    "add-deltas --truncate=-1 ark:m ark:out": "--truncate must be at least 0, not -1",
    "add-deltas-sdc --truncate=3 ark:m ark:out": "dimension 2 is smaller than --truncate=3",
    "add-deltas-sdc --truncate=-1 ark:m ark:out": "--truncate must be at least 0, not -1",
    f"ali-to-pdf {MODELS}/mono.mdl ark:{MODELS}/ali_bad.txt ark:out": "b: 999 is not a transition-id",
    "apply-cmvn --norm-vars --norm-means=false sums ark:m ark:out": "--norm-vars=true needs --norm-means=true",
    "apply-cmvn --utt2spk=ark:x sums ark:m ark:out": "--utt2spk option not compatible with rxfilename",
    "apply-cmvn --skip-dims=1,2 sums ark:m ark:out": "--skip-dims: expected a colon-separated list of integers",
    "apply-cmvn --skip-dims=2 sums ark:m ark:out": "u: dimensions to skip must be from 0 to 1, not 2",
    "apply-cmvn-online --norm-means=false --skip-dims=13 sums ark:m ark:out": "u: dimensions to skip must be from",
    "apply-cmvn --skip-dims=1 rows ark:m ark:out": "u: CMVN statistics have two rows",
    "apply-cmvn wide ark:m ark:out": "u: CMVN statistics of shape (2, 4) do not fit",
    "apply-cmvn nothing ark:m ark:out": "u: the CMVN statistics count 0 frames, but must",
    "compose-transforms square square ark:out": "ark:out: the output must be a table if",
    "compose-transforms ark:t ark:t out": "out: the output must be a table if",
    "compose-transforms --utt2spk=ark:x square ark:t ark:out": "--utt2spk needs two tables",
    "compose-transforms square three out": "2 columns cannot follow one with 3 rows",
    "compute-cmvn-stats --spk2utt=ark:spk2utt2 ark:dims ark:out": "x: the features have dimension 4, but earlier",
    "compute-cmvn-stats --spk2utt=ark:spk2utt ark:m out": "--spk2utt option not compatible with wxfilename",
    "compute-cmvn-stats-two-channel fewer ark:m ark:out": (
        "Expecting 3 fields per line of reco2file_and_channel file fewer, got: x y (line 1)"
    ),
    "compute-fbank-feats --channel=-2 scp:wav.scp ark:out": "--channel must be at least -1, not -2",
    "concat-feats mat three out": "three has 3 columns, but mat has 2",
    "copy-feats --compress mat out": "--compress works on tables",
    "copy-feats --write-num-frames=ark:n mat out": "--write-num-frames option not supported",
    "copy-feats --sphinx-in mat out": "sphinx input is not yet supported",
    "copy-feats-to-htk --output-dir=no/out ark:m": "Could not create output directory: no/out: No such file",
    "copy-feats-to-sphinx --output-dir=no/out ark:m": "Could not create output directory: no/out: No such file",
    "copy-gselect ark:lists ark,t:-": "lacks the end of its line",
    **{f"copy-int-vector {name} out": f"{name}:" for name in ("bare", "open", "word", "cut")},
    **{
        f"copy-{kind} {words}": message
        for kind in ("feats", "matrix", "vector", "int-vector")
        for words, message in {
            "ark:m out": "ark:m is a table, but out is a single file",
            "mat ark:out": "ark:out is a table, but mat is a single file",
        }.items()
    },
    "extend-transform-dim square out": "--new-dimension argument invalid or not specified",
    "extend-transform-dim --new-dimension=1 square out": "the new dimension 1 must be at least 2",
    "feat-to-dim ark:empty -": "Could not read any features from ark:empty",
    "get-full-lda-mat row ones out out2": "has no inverse",
    "get-full-lda-mat square wide out": "2 x 4",
    "ivector-adapt-plda plda ark:/dev/null out": "there are no vectors in ark:/dev/null: check",
    "ivector-adapt-plda plda ark:pairs out": "a: the vector has 1 dimension, but the PLDA model has 3",
    "ivector-adapt-plda --mean-diff-scale=-1 plda ark:v out": "--mean-diff-scale must be at least 0, not -1",
    "ivector-compute-dot-products trials ark:v ark:dims o": "the vectors of the trials have different dimensions, 2, 3",
    "ivector-compute-dot-products spk2utts ark:v ark:v o": "spk2utts: Bad line 0 in input (expected two fields",
    "ivector-compute-lda --dim=2 ark:pairs ark:utt2spk out": "--dim must be at most 1, the dimension of the vec",
    "ivector-compute-lda --dim=0 ark:pairs ark:utt2spk out": "--dim must be at least 1, not 0",
    "ivector-compute-lda --dim=1 ark:nan ark:utt2spk out": "b: the vector contains NaN or infinities",
    "ivector-compute-lda --dim=1 ark:odd ark:utt2spk out": "b: the vector has 2 dimensions, but earlier vectors have 1",
    "ivector-compute-lda --dim=1 ark:pairs ark:all out": "LDA needs at least 2 speakers",
    "ivector-compute-lda --dim=1 ark:pairs ark:fewer out": "Did not read any utterances.",
    "ivector-compute-plda ark:spk2utts ark:nan out": "b: the vector contains NaN or infinities: remove the utterance",
    "ivector-compute-plda ark:spk2utts ark:odd out": "s: the utterances have vectors of dimensions ",
    "ivector-compute-plda ark:singles ark:odd out": "b: the vector has 2 dimensions, but earlier vectors have 1",
    "ivector-compute-plda ark:singles ark:pairs out": "every speaker has only one vector",
    "ivector-compute-plda ark:alone ark:pairs out": "all vectors are from one speaker",
    "ivector-compute-plda ark:spk2utts ark:v out": "No stats accumulated, unable to estimate PLDA.",
    "ivector-copy-plda --smoothing=1.5 plda out": "--smoothing must be from 0 to 1, not 1.5",
    "ivector-compute-plda ark:spk2utts ark:void out": "a: the vector is empty",
    "ivector-copy-plda mat out": "mat:",
    "ivector-plda-scoring plda ark:pairs ark:v trials out": "a: the vector has 1 dimension, but the PLDA model has 3",
    "ivector-plda-scoring plda ark:v ark:pairs trials out": "a: the vector has 1 dimension, but the PLDA model has 3",
    "ivector-plda-scoring plda ark:/dev/null ark:v trials out": "No training iVectors present.",
    "ivector-plda-scoring plda ark:v ark:/dev/null trials out": "No test iVectors present.",
    "ivector-plda-scoring --num-utts=ark:none_of plda ark:v ark:v trials out": "u: the number of utterances must be",
    "ivector-plda-scoring plda 'ark:cat v v |' ark:v trials out": "Duplicate training iVector found for speaker u",
    "ivector-plda-scoring plda ark:v 'ark:cat v v |' trials out": "Duplicate test iVector found for utterance u",
    "ivector-plda-scoring plda ark:v ark:v spk2utts o": "spk2utts: Bad line 0 in input (expected two fields: key1 k",
    "ivector-plda-scoring plda ark:v ark:v trials trials": "trials: is read as well, and writing would destroy it",
    "ivector-compute-dot-products trials ark:v ark:v v": "v: is read as well, and writing would destroy it",
    "ivector-mean ark:spk2utt2 ark:dims ark:out": "s: the utterances have vectors of dimensions ",
    "ivector-mean ark:spk2utt3 ark:dims ark:out": "t: vectors have dimension ",
    "modify-cmvn-stats 0-2 ark:stats ark:out": "first argument: expected a colon-separated list of integers",
    "modify-cmvn-stats ark:one ark:out": "u: Expected input to be CMVN stats",
    "post-to-feats --post-dim=1 ark:post ark:out": "u: posterior of class 1: with --post-dim=1, classes are 0 to 0",
    "post-to-feats ark:post ark:out": "--post-dim=D",
    "select-feats 0-2 ark:narrow ark:out": "n: the selection needs features of dimension 3 or more, not 2",
    "select-voiced-frames ark:m ark:half ark:out": "u: the voice activity of each frame must be 0 or 1",
    f"show-transitions phones {MODELS}/mono.mdl": "expected a symbol and its number",
    "splice-feats ark:e ark:out": "e: there are no frames to splice",
    "subsample-feats --n=0 ark:m ark:out": "--n=0",
    "subsample-feats --offset=-1 ark:m ark:out": "--offset must be at least 0, not -1",
    "subset-feats --n=0 ark:m ark:out": "--n must be at least 1, not 0",
    "subset-feats --n=2 --include=list ark:m ark:out": "--n cannot be combined",
    "subset-feats --include=list --exclude=list ark:m ark:out": "--include and --exclude exclude each other",
    "subset-feats --include=blank ark:m ark:out": "line 2 of blank is empty: remove",
    "copy-feats scp:wav.scp ark:out": "expected a matrix, found a WAV file: compute features first",
    "transform-feats --utt2spk=ark:empty ark:t ark:m ark:out": "map: add a line for the utterance, or, if",
    "wav-copy scp:wav.scp out": "scp:wav.scp is a table, but out is a single file",
    "wav-copy u.wav ark:out": "ark:out is a table, but u.wav is a single file",
    **{
        f"wav-reverberate {options} u.wav out": message
        for options, message in {
            "--input-wave-channel=1": "u.wav has no channel 1",
            "--impulse-response=u.wav --rir-channel=1": "u.wav has no channel 1",
            "--additive-signals=u.wav": "--additive-signals has 1 entries, --snrs 0 and --start-times 0",
            "--additive-signals=u.wav --snrs=1,2 --start-times=0": "--snrs 2",
            "--additive-signals=u.wav --snrs=loud --start-times=0": "--snrs: expected comma-separated numbers",
            "--additive-signals=u.wav --snrs=1_0 --start-times=0": "expected comma-separated numbers, not '1_0'",
            "--additive-signals=u.wav --snrs=1 --start-times=nan": "starts at nan s",
            "--additive-signals=slow.wav --snrs=1 --start-times=0": "slow.wav has a sampling rate of 8000 Hz",
            "--duration=0.00001": "duration=1e-05 s is 0.16 samples",
            "--multi-channel-output=true": "needs an impulse response",
            "--impulse-response=absent.wav": "absent.wav",
        }.items()
    },
}
# More memory or time than there is: refused before any is taken.
REFUSED |= {
    f"{command} scp:wav.scp ark:out": message
    for command, message in {
        "compute-fbank-feats --num-mel-bins=1000000000": "--num-mel-bins=1000000000 over an FFT of 512 points",
        "compute-mfcc-feats --num-mel-bins=1000000000": "--num-mel-bins=1000000000 over an FFT of 512 points",
        "compute-fbank-feats --num-mel-bins=1000 --frame-length=1e6": "over an FFT of 16777216 points",
        "compute-spectrogram-feats --frame-length=1e7": "is more than 16777216 samples: reduce it",
        "compute-spectrogram-feats --round-to-power-of-two=false --frame-length=25.0625": "401 points (frame_",
        "compute-plp-feats --lpc-order=1000000000": "--lpc-order=1000000000 with --num-mel-bins=23",
        "compute-kaldi-pitch-feats --lowpass-filter-width=1000000000": "filter of more than 4194304 samples",
        "compute-kaldi-pitch-feats --lowpass-cutoff=1e-9": "filter of more than 4194304 samples",
        "compute-and-process-kaldi-pitch-feats --delay=1000000000": "--delay must be at least 0 and less than 1e+07",
    }.items()
} | {
    "process-kaldi-pitch-feats --delay=1000000000 ark:m ark:out": "--delay must be at least 0 and less than 1e+07",
    "add-deltas-sdc --num-blocks=10000000 ark:m ark:out": "--num-blocks must be at least 0 and less than 1e+06",
}


ADVICE = {
    "ivector-compute-lda --dim=1 ark:pairs ark:fewer out": "No key of the vectors ark:pairs is in the utt2spk table",
    "ivector-compute-lda --dim=1 'scp,p:echo u absent |' ark:fewer out": "have no readable entry, so the utt2spk",
    "ivector-compute-plda ark:spk2utts ark:v out": "each line is '<speaker> <utterance> ...', not '<utterance> <",
    "ivector-compute-plda ark:/dev/null ark:v out": "check that both tables have the same utterances, and that each",
    "ivector-plda-scoring plda ark:v ark:v spk2utts o": "Line 1 of the trials must have two keys: remove other columns",
    "ivector-plda-scoring plda ark:v ark:v 'echo |' o": "must have two keys: add the missing key, or remove the line",
    "compute-eer 'printf \"1 target\\njunk\\n\" |'": "Line 2 must have a score and a label, such as '0.5 target'",
    "compute-eer 'printf \"1 target\\n\" |'": "label 'target': add trials with the label 'nontarget'",
}


@pytest.mark.parametrize("command", ADVICE)
def test_advice_stands_in_a_line_before_the_error_of_kaldi(command: str) -> None:
    write_inputs()
    for name, content in INPUTS.items():
        Path(name).write_text(content)
    status, stderr = run_words(shlex.split(command))
    assert status == ERROR_STATUS
    advice, last = stderr.splitlines()[-2:]
    assert advice.startswith("WARNING (") and ADVICE[command] in advice and last.startswith("ERROR (")


@pytest.mark.parametrize("command", REFUSED)
def test_a_mistake_is_refused_in_one_line(command: str) -> None:
    write_inputs()
    for name, content in INPUTS.items():
        Path(name).write_text(content)
    wav("slow.wav", 8000, np.ones((800, 1)))
    status, stderr = run_words(shlex.split(command))
    assert status == ERROR_STATUS
    last = stderr.splitlines()[-1]
    assert last.startswith("ERROR (") and REFUSED[command] in last
    assert not command.endswith(" out") or not Path("out").exists()  # single files are written last
