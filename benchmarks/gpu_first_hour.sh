#!/bin/bash
# Everything that has to be known about a GPU, in less than an hour: gpu_first_hour.sh OUTDIR [STEP...]
#
# Each step takes less than ten minutes, and a failure stops nothing. OUTDIR gets a log and a line of JSON for each
# step, and summary.txt after each of them. Without a GPU, steps that need one are marked "no GPU".
#
# Steps: versions probe odd kernels sanitizer streaming dump faults resident stages throughput variants cpu
#

set -u
ALL="versions probe odd kernels sanitizer streaming dump faults resident stages throughput variants cpu"
LIMIT=${LIMIT:-570}  # seconds of a step
if [ $# -lt 1 ]; then
    echo "usage: $0 OUTDIR [STEP...], steps: $ALL" >&2
    exit 2
fi
out=$(mkdir -p "$1" && cd "$1" && pwd) || exit 2
shift
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 2
python=${PYTHON:-python}
if nvidia-smi -L > "$out/gpus.txt" 2> /dev/null && "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    gpu=yes
else
    gpu=no
fi
export KALDI_COMPAT_EXAMPLES=${KALDI_COMPAT_EXAMPLES:-24}

record() {  # step state seconds
    printf '{"step": "%s", "state": "%s", "seconds": %d, "log": "%s.log"}\n' "$1" "$2" "$3" "$1" > "$out/$1.json"
    cat "$out"/*.json > "$out/all.jsonl"
    {
        echo "GPU: $gpu"
        for each in $ALL; do
            if [ -f "$out/$each.json" ]; then
                echo "== $each: $(sed 's/.*"state": "\([^"]*\)", "seconds": \([0-9]*\).*/\1, \2 s/' "$out/$each.json")"
                tail -n 15 "$out/$each.log" 2> /dev/null
            fi
        done
    } > "$out/summary.txt"
    echo "$1: $2, $3 s"
}

step() {  # name needs_gpu command
    local start=$SECONDS state=passed
    : > "$out/$1.log"
    if [ "$2" = gpu ] && [ $gpu = no ]; then
        record "$1" "no GPU" 0
        return
    fi
    timeout -k 10 "$LIMIT" bash -c "$3" >> "$out/$1.log" 2>&1
    case $? in
        0) ;;
        124 | 137) state="over $LIMIT s" ;;
        *) state=failed ;;
    esac
    record "$1" "$state" $((SECONDS - start))
}

run() {
    case $1 in
        versions) step versions any "
            '$python' -c 'import platform, sys, torch; print(sys.version, torch.__version__, torch.version.cuda)'
            '$python' -c 'import triton; print(\"triton\", triton.__version__)'
            nvidia-smi -q -d COMPUTE,MEMORY,CLOCK,PERFORMANCE 2> /dev/null | head -80
            lscpu | head -20; df -h . | tail -1; true" ;;
        probe) step probe gpu "'$python' benchmarks/gpu_probe.py" ;;
        odd) step odd gpu "'$python' benchmarks/gpu_probe.py --odd" ;;
        kernels) step kernels gpu "'$python' -m pytest -q tests/kaldi_compat/kernels -m 'not slow' --maxfail=20" ;;
        sanitizer) step sanitizer gpu "
            for tool in memcheck racecheck initcheck; do
                echo \"== \$tool\"
                timeout 180 compute-sanitizer --tool \$tool --error-exitcode 9 '$python' benchmarks/gpu_probe.py --small
            done" ;;
        streaming) step streaming gpu "
            '$python' -m pytest -q tests/kaldi_compat/streaming tests/kaldi_compat/features/test_properties.py -m 'gpu'
            '$python' benchmarks/gpu_probe.py --overlap" ;;
        dump) step dump gpu "'$python' -m pytest -q tests/kaldi_compat/dump -m gpu" ;;
        faults) step faults gpu "'$python' benchmarks/gpu_dump_faults.py --work '$out/work-faults'" ;;
        resident) step resident gpu "'$python' benchmarks/resident.py" ;;
        stages) step stages gpu "'$python' benchmarks/gpu_probe.py --stages" ;;
        throughput) step throughput gpu "
            for jobs in 1 4 8 16; do '$python' benchmarks/dump.py --gpu --hours 20 --jobs \$jobs --work '$out/work'; done" ;;
        variants) step variants gpu "
            for more in --dither=1 --cmvn=global --no-compress --cold; do
                echo \"== \$more\"
                '$python' benchmarks/dump.py --gpu --hours 10 --jobs 4 --work '$out/work' --only-dump \"--more=\$more\"
            done" ;;
        cpu) step cpu any "'$python' benchmarks/dump.py --hours 1 --runs 1 --work '$out/work-cpu'" ;;
        *) echo "unknown step $1; steps: $ALL" >&2 ;;
    esac
}

for each in ${*:-$ALL}; do
    run "$each"
done
echo "summary: $out/summary.txt"
