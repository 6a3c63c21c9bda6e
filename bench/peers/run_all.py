#!/usr/bin/env python3
"""Measures every peer and mode that this machine has on one core; prints the fastest of each.

    run_all.py --model resnet18 --core 1 --python ~/peers/bin/python --python /usr/bin/python3

Each measurement is a process of its own, pinned with taskset. What is absent or fails is reported
on standard error; results are JSON lines on standard output (and in --out), fastest last.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from peer_step import MODELS, MODES

STEP = pathlib.Path(__file__).resolve().parent / "peer_step.py"
# Steps and warm-up by model: a ResNet step takes seconds, a softmax step microseconds.
STEPS = {"resnet18": (7, 2), "mnist_cnn": (60, 10), "softmax": (3000, 500)}


def has_framework(python, framework):
    probe = f"import importlib.util as u, sys; sys.exit(u.find_spec({framework!r}) is None)"
    return subprocess.run([python, "-c", probe]).returncode == 0


def modes_of(framework, python, model):
    modes = MODES[framework]
    if framework == "torch":
        if model == "softmax":
            modes = [m for m in modes if "channels_last" not in m]
        probe = "import sys, torch; sys.exit(not hasattr(torch, 'compile'))"
        if subprocess.run([python, "-c", probe], stderr=subprocess.DEVNULL).returncode != 0:
            modes = [m for m in modes if m in ("eager", "channels_last")]
    return modes


def measure(python, framework, mode, options):
    steps, warmup = STEPS[options.model]
    if options.dtype == "bf16" and options.model == "resnet18":
        steps, warmup = 3, 1  # Slow on a CPU without bf16 instructions.
    command = ["taskset", "-c", str(options.core), python, str(STEP)]
    command += ["--framework", framework, "--model", options.model, "--mode", mode]
    command += ["--dtype", options.dtype, "--steps", str(options.steps or steps)]
    command += ["--warmup", str(options.warmup or warmup)]
    if options.batch:
        command += ["--batch", str(options.batch)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return None, f"no result after {options.timeout} s"
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        errors = done.stderr.strip().splitlines() or ["no output"]
        return None, f"exit code {done.returncode}: {errors[-1]}"
    return json.loads(lines[-1]), None


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, choices=MODELS)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--python", action="append", help="interpreters that have peers")
    parser.add_argument("--framework", action="append", choices=MODES, help="default: all")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--timeout", type=int, default=600, help="seconds for one measurement")
    parser.add_argument("--out", type=pathlib.Path, help="append the JSON lines to this file")
    return parser.parse_args()


def main():
    options = parse_arguments()
    best = {}
    for python in options.python or [sys.executable]:
        for framework in options.framework or MODES:
            if not has_framework(python, framework):
                print(f"SKIPPED {framework}: {python} does not have it", file=sys.stderr)
                continue
            for mode in modes_of(framework, python, options.model):
                result, problem = measure(python, framework, mode, options)
                if problem is not None:
                    print(f"FAILED {framework} {mode} ({python}): {problem}", file=sys.stderr)
                    continue
                line = json.dumps(result)
                print(line, flush=True)
                if options.out:
                    with options.out.open("a") as out:
                        out.write(line + "\n")
                key = (framework, result["version"])
                if key not in best or result["step_ms_median"] < best[key]["step_ms_median"]:
                    best[key] = result
    if not best:
        sys.exit("run_all: no peer could be measured")
    for result in sorted(best.values(), key=lambda r: -r["step_ms_median"]):
        print(json.dumps({"fastest": True, **result}))


if __name__ == "__main__":
    main()
