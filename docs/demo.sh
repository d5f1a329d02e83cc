#!/bin/sh
# What `make demo` runs: fbank features of the audio in this repository, from script file to archive, as a recipe would.
# usage: demo.sh OUTPUT_FOLDER
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
docs=$(cd "$(dirname "$0")" && pwd)
cd "$docs/../reference_data/inputs"

echo "Computing 80-bin fbank features, dithered as Kaldi dithers, of the utterances in $(pwd)/main.scp:"
compute-fbank-feats --num-mel-bins=80 --write-utt2dur="ark,t:$out/utt2dur" scp:main.scp ark:- |
    copy-feats --compress=true --write-num-frames="ark,t:$out/utt2num_frames" ark:- "ark,scp:$out/fbank.ark,$out/fbank.scp"

echo
echo "Left in $out:"
echo "  fbank.ark       $(wc -c < "$out/fbank.ark") bytes, compressed"
while read -r key where; do
    frames=$(awk -v key="$key" '$1 == key { print $2 }' "$out/utt2num_frames")
    seconds=$(awk -v key="$key" '$1 == key { print $2 }' "$out/utt2dur")
    echo "  $key: $seconds s of audio, $frames frames x $(feat-to-dim "scp:echo $key $where |" - 2>/dev/null) bins"
done < "$out/fbank.scp"
python "$docs/picture.py" "$out/fbank.scp" "$out/fbank.png"

echo
echo "Features of the first one with another window, and what kaldi-compat explain says of them:"
read -r key wave < main.scp
head -n 1 main.scp | compute-fbank-feats --dither=0 --num-mel-bins=80 --window-type=hamming scp:- "ark:$out/other.ark" \
    2> /dev/null
kaldi-compat explain "$out/other.ark:$key" "$wave"
