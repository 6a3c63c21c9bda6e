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


def rate(name):
  """The median over the rounds of the samples a second."""
  found = []
  for turn in (1, 2, 3):
    with open(f"{sys.argv[1]}/{name}-{turn}.json", encoding="utf-8") as file:
      found.append(json.load(file)["examples_per_second"])
  return statistics.median(found)


a, b, together = (rate(name) for name in ("apart-0", "apart-1", "together"))
print(f"apart {a:.1f} and {b:.1f} samples/s, together {together:.1f}: {together / (a + b):.2f} of "
      f"the two apart, {together / (2 * min(a, b)):.2f} of twice the slower one")
P
