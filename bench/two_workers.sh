#!/usr/bin/env bash
# Training by two processes against two processes that have nothing to do with each other, on two
# cores, in turn.
#   bench/two_workers.sh build/release/bin/lockstep CONFIG BATCH_OF_EACH STEPS [OPTIONS OF train...]
set -euo pipefail
program=$1 config=$2 batch=$3 steps=$4
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
train() { OMP_NUM_THREADS=1 "$program" train "$config" --steps "$steps" --quiet "${@}"; }
for round in 1 2 3; do
  for core in 0 1; do
    train --replicas 1 --set train.global_batch="$batch" --summary "$folder/apart-$core-$round.json" "$@" &
    taskset -p -c "$core" $! > /dev/null
  done
  wait
  train --replicas 2 --workers 2 --set train.global_batch=$((2 * batch)) --summary "$folder/together-$round.json" "$@"
done
python3 - "$folder" <<'P'
import json, statistics, sys
def median(name):
  return [statistics.median(json.load(open(f"{sys.argv[1]}/{n}-{r}.json"))["step_ms_p50"] for r in (1, 2, 3)) for n in name]
a, b, together = median(("apart-0", "apart-1", "together"))
share = 2 / together / (1 / a + 1 / b)
print(f"apart {a:.1f} and {b:.1f} ms, together {together:.1f} ms a step: {share:.2f} of the samples/s of the two apart, "
      f"{max(a, b) / together:.2f} of twice the slower one's")
P
