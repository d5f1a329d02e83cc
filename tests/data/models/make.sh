#!/usr/bin/env bash
# Writes the models of this folder with Kaldi's programs, which are on PATH, from random numbers of NumPy.
set -euo pipefail
cd "$(dirname "$0")"
export OPENBLAS_NUM_THREADS=1
inputs=../../../reference_data/inputs/models
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Vectors of speakers in text: DIM SPEAKERS UTTERANCES; spk2utt; feature matrices.
vectors() {
  python3 - "$@" "$work" <<'END'
import sys

import numpy as np

dim, speakers, utterances, work = *map(int, sys.argv[1:4]), sys.argv[4]
rng = np.random.default_rng(dim)
mixing = rng.standard_normal((dim, dim)) / np.sqrt(dim)
means = rng.standard_normal((speakers, dim)) @ mixing * np.linspace(2, 0.3, dim) + rng.standard_normal(dim)
with open(f"{work}/vectors{dim}", "w") as vectors, open(f"{work}/spk2utt{dim}", "w") as spk2utt:
    for s, mean in enumerate(means):
        keys = [f"s{s}-{u}" for u in range(utterances)]
        print(f"s{s}", *keys, file=spk2utt)
        for key in keys:
            values = mean + rng.standard_normal(dim) @ mixing.T * 0.7
            print(f"{key}  [ {' '.join(f'{x:.5g}' for x in values)} ]", file=vectors)
with open(f"{work}/feats{dim}", "w") as feats:
    for i in range(8):
        rows = rng.standard_normal((60, dim)) @ mixing + 3 * rng.integers(0, 3, (60, 1)) * np.sin(np.arange(dim))
        print(f"u{i}  [", *(" ".join(f"{x:.5g}" for x in row) for row in rows), sep="\n", end=" ]\n", file=feats)
END
}

for dim in 1 3 12; do
  vectors $dim 40 5
  ivector-compute-plda ark:$work/spk2utt$dim ark:$work/vectors$dim plda$dim
  ivector-copy-plda --binary=false plda$dim plda$dim.txt
done
ivector-copy-plda plda12.txt plda12.from_text
ivector-copy-plda --smoothing=0.1 plda12 plda12.smooth
ivector-copy-plda --smoothing=1.0 plda12 plda12.smooth1

# Trials, with other vectors than those of the training. A speaker has no entry in num_utts.
head -n 60 $work/vectors12 | tail -n 12 > test.vectors
head -n 30 $work/vectors12 | awk 'NR % 5 == 1 { sub(/-0 /, " "); print }' > train.vectors
awk '{ print $1, 2 * NR - 1 }' train.vectors > num_utts
awk 'NR == FNR { train[NR] = $1; n = NR; next } { for (i = 1; i <= n; i++) print train[i], $1 }' \
  train.vectors test.vectors > $work/trials
score() {
  ivector-plda-scoring "${@:2}" ark:train.vectors ark:test.vectors $work/trials $work/scores
  awk '{ print $3 }' $work/scores > scores.$1
}
score plain plda12
score simple --simple-length-normalization=true plda12
score unnormalized --normalize-length=false plda12
score unnormalized_simple --normalize-length=false --simple-length-normalization=true plda12
score num_utts --num-utts=ark:num_utts plda12
score num_utts_simple --num-utts=ark:num_utts --simple-length-normalization=true plda12
score num_utts_unnormalized --num-utts=ark:num_utts --normalize-length=false plda12
score smooth --num-utts=ark:num_utts plda12.smooth
score text --num-utts=ark:num_utts plda12.txt

# Mixtures. Kaldi trains diagonal ones, then full ones from them.
mixtures() {
  local dim=$1 count=$2
  [ -f $work/feats$dim ] || vectors $dim 2 2
  gmm-global-init-from-feats --num-threads=1 --remove-low-count-gaussians=false --num-gauss=$count ark:$work/feats$dim diag$dim.gmm
  gmm-global-copy --binary=false diag$dim.gmm diag$dim.txt
  gmm-global-to-fgmm diag$dim.gmm $work/full
  fgmm-global-acc-stats $work/full ark:$work/feats$dim $work/accs
  fgmm-global-est --remove-low-count-gaussians=false --min-gaussian-occupancy=5 $work/full $work/accs full$dim.gmm
  fgmm-global-copy --binary=false full$dim.gmm full$dim.txt
}
mixtures 1 1
mixtures 4 5
mixtures 7 3

# Extractors of i-vectors: FEATURES IVECTOR WEIGHTS ITERATIONS.
extractor() {
  local dim=$1 name=extractor$1
  ivector-extractor-init --ivector-dim=$2 --use-weights=$3 full$dim.gmm $work/ie
  if [ $4 = 1 ]; then
    python3 - $work $dim 3 <<'END'
import sys

import numpy as np

work, dim, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(0)
with open(f"{work}/post", "w") as post:
    for i in range(8):
        frames = [f"[ {a} 0.75 {b} 0.25 ]" for a, b in (rng.permutation(count)[:2] for _ in range(60))]
        print(f"u{i}", *frames, file=post)
END
    ivector-extractor-acc-stats --num-threads=1 $work/ie ark:$work/feats$dim ark:$work/post $work/ieaccs
    ivector-extractor-est --num-threads=1 $work/ie $work/ieaccs $name.ie
  else
    cp $work/ie $name.ie
  fi
  ivector-extractor-copy --binary=false $name.ie $name.txt
}
extractor 1 2 false 0
extractor 4 6 true 0
extractor 7 3 false 1

for name in mono tri; do
  gmm-copy --binary=false $inputs/$name.mdl $name.mdl.txt
done
