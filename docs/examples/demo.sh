#!/bin/sh
# What `make demo` runs, on the audio in this repository: the archive that Kaldi wrote, a data directory, and features of
# unknown origin.
# usage: demo.sh OUTPUT_FOLDER
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
kaldi=$here/../../reference_data/expected/fbank-dither/003/feats.ark
cd "$here/../../reference_data/inputs"

digest() {
    python -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest()[:32])' "$1"
}

echo "1. Kaldi's bytes, dithered: features of the four recordings of main.scp"
echo "\$ compute-fbank-feats --snip-edges=false --num-mel-bins=30 scp:main.scp ark,scp:feats.ark,feats.scp"
compute-fbank-feats --snip-edges=false --num-mel-bins=30 scp:main.scp "ark,scp:$out/feats.ark,$out/feats.scp" \
    2> "$out/log"
echo "  sha256 of feats.ark:                $(digest "$out/feats.ark")..."
echo "  sha256 of the archive Kaldi wrote:  $(digest "$kaldi")..."
cmp "$out/feats.ark" "$kaldi"
echo "  same digest as Kaldi's stored archive"

echo
echo "2. A data directory: 2000 utterances, as steps/make_fbank.sh computes them, by one process"
rm -rf "$out/data"
mkdir "$out/data"
awk -v folder="$PWD" '{ for (i = 100; i < 600; i++) print $1 "-" i, folder "/" $2 }' main.scp |
    LC_ALL=C sort > "$out/data/wav.scp"
awk '{ print $1, $1 }' "$out/data/wav.scp" > "$out/data/utt2spk"
echo "\$ kaldi-compat dump fbank data --num-mel-bins=80 --nj 1"
kaldi-compat dump fbank "$out/data" --num-mel-bins=80 --nj 1 2>&1 | sed -n '/ utterances have \| this run: /s/^kaldi-compat:/ /p'

echo
echo "3. Features of unknown origin: which front end made them?"
compute-fbank-feats --dither=0 --num-mel-bins=80 --window-type=hamming scp:main.scp "ark:$out/unknown.ark" 2>> "$out/log"
echo "\$ kaldi-compat explain unknown.ark:speech16k speech16k.wav"
kaldi-compat explain "$out/unknown.ark:speech16k" wav/speech16k.wav | sed 's/^/  /'
echo "  The window is wrong: Kaldi's is povey. A model that was trained on Kaldi's features would get others."

echo
echo "Left in $out: feats.ark, feats.scp, unknown.ark, and the data directory data with a feats.scp of its own"
python "$here/picture.py" "$out/feats.scp" "$out/fbank.png"
