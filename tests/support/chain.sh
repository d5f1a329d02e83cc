#!/usr/bin/env bash
# What a recipe does with a data directory, from audio to the input of a model; see test_programs_chain.py.
# usage: chain.sh DATA (wav.scp, segments, utt2spk, spk2utt, transform.mat) OUT
set -euo pipefail
data=$1 out=$2
mkdir -p "$out"

extract-segments "scp:$data/wav.scp" "$data/segments" ark:- |
  compute-mfcc-feats --dither=0 --write-utt2dur="ark,t:$out/utt2dur" ark:- ark:- |
  copy-feats --compress=true --compression-method=2 --write-num-frames="ark,t:$out/utt2num_frames" \
    ark:- "ark,scp:$out/feats.ark,$out/feats.scp"

compute-cmvn-stats "--spk2utt=ark:$data/spk2utt" "scp:$out/feats.scp" "ark,scp:$out/cmvn.ark,$out/cmvn.scp"

apply-cmvn --norm-vars=true "--utt2spk=ark:$data/utt2spk" "scp:$out/cmvn.scp" "scp:$out/feats.scp" ark:- |
  add-deltas --delta-order=1 ark:- ark:- |
  splice-feats --left-context=2 --right-context=1 ark:- ark:- |
  transform-feats "$data/transform.mat" ark:- "ark:$out/final.ark"

compute-vad --vad-energy-threshold=5.5 --vad-energy-mean-scale=0.5 "scp:$out/feats.scp" "ark,t:$out/vad.txt"
