#!/usr/bin/env bash
# Training by two processes against two processes that have nothing to do with each other, on two
# cores, in turn.
#   bench/two_workers.sh build/release/bin/lockstep CONFIG BATCH_OF_EACH STEPS [OPTIONS OF train...]
set -euo pipefail
program=$1 config=$2 batch=$3 steps=$4
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# train NAME OPTIONS...: the summary goes to NAME.json.
train() {
  local name=$1
  shift
  OMP_NUM_THREADS=1 "$program" train "$config" --steps "$steps" --quiet \
    --summary "$folder/$name.json" "$@"
}

for round in 1 2 3; do
  for core in 0 1; do
    train "apart-$core-$round" --replicas 1 --set train.global_batch="$batch" "$@" &
    taskset -p -c "$core" $! > /dev/null
  done
  wait
  train "together-$round" --replicas 2 --workers 2 --set train.global_batch=$((2 * batch)) "$@"
done

python3 - "$folder" <<'P'
import json
import statistics
import sys


def step(name):
  """The median over the rounds of the milliseconds of a step."""
  found = []
  for turn in (1, 2, 3):
    with open(f"{sys.argv[1]}/{name}-{turn}.json", encoding="utf-8") as file:
      found.append(json.load(file)["step_ms_p50"])
  return statistics.median(found)


a, b, together = (step(name) for name in ("apart-0", "apart-1", "together"))
share = 2 / together / (1 / a + 1 / b)
print(f"apart {a:.1f} and {b:.1f} ms, together {together:.1f} ms a step: {share:.2f} of the "
      f"samples/s of the two apart, {max(a, b) / together:.2f} of twice the slower one's")
P
