#!/usr/bin/env python3
"""Measures a training step of one model in PyTorch, TensorFlow or JAX; prints one JSON line.

    peer_step.py --framework torch --model resnet18 --batch 16 --mode channels_last --steps 5

The data is synthetic and lies in memory; a step is forward, backward and update, and ends when its
loss is known. `first_step_seconds` runs from the fork of the process to the end of the first step,
so a shell that execs this program adds its own age; run_all.py forks for each measurement.
"""

import argparse
import importlib
import json
import os
import resource
import statistics
import sys
import time

MODES = {
    "torch": (
        "eager",
        "channels_last",
        "compile",
        "compile_channels_last",
        "max_autotune",
        "max_autotune_channels_last",
    ),
    "tensorflow": ("function", "jit_compile"),
    "jax": ("jit",),
}
MODELS = {"resnet18": 16, "mnist_cnn": 64, "softmax": 100}


def process_age_seconds():
    """Time since this process was started, interpreter start included (Linux)."""
    with open("/proc/self/stat") as stat:
        start_ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as uptime:
        return float(uptime.read().split()[0]) - start_ticks / os.sysconf("SC_CLK_TCK")


def limit_threads(threads):
    """Must run before a framework is imported: they read these once."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)
    os.environ["TF_NUM_INTEROP_THREADS"] = str(threads)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["JAX_PLATFORMS"] = "cpu"
    if threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = (flags + " --xla_cpu_multi_thread_eigen=false").strip()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--framework", required=True, choices=MODES)
    parser.add_argument("--model", required=True, choices=MODELS)
    parser.add_argument("--batch", type=int, help="default: 16, 64 or 100, by model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", help="one of " + str(MODES))
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    arguments = parser.parse_args()
    arguments.batch = arguments.batch or MODELS[arguments.model]
    arguments.mode = arguments.mode or MODES[arguments.framework][0]
    if arguments.mode not in MODES[arguments.framework]:
        known = ", ".join(MODES[arguments.framework])
        parser.error(f"--mode {arguments.mode}: {arguments.framework} has {known}")
    for name in ("batch", "threads", "steps", "warmup"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return arguments


def main():
    arguments = parse_arguments()
    limit_threads(arguments.threads)
    peer = importlib.import_module(arguments.framework + "_peer")
    step = peer.make_step(arguments.model, arguments.batch, arguments.mode, arguments.dtype)

    losses = [step()]
    first_step_seconds = process_age_seconds()
    losses += [step() for _ in range(arguments.warmup - 1)]
    times_ms, cpu_ms = [], []
    load_average = os.getloadavg()[0]
    for _ in range(arguments.steps):
        cpu_start, start = time.process_time(), time.perf_counter()
        losses.append(step())
        times_ms.append((time.perf_counter() - start) * 1e3)
        cpu_ms.append((time.process_time() - cpu_start) * 1e3)
    if not all(abs(loss) < 1e6 for loss in losses):
        sys.exit(f"peer_step: the loss is not finite: {losses}")

    times_ms.sort()
    last = len(times_ms) - 1
    print(
        json.dumps(
            {
                "framework": arguments.framework,
                "version": peer.VERSION,
                "model": arguments.model,
                "mode": arguments.mode,
                "dtype": arguments.dtype,
                "batch": arguments.batch,
                "threads": arguments.threads,
                "steps": arguments.steps,
                "step_ms_median": round(statistics.median(times_ms), 4),
                "step_ms_p10": round(times_ms[round(0.1 * last)], 4),
                "step_ms_p90": round(times_ms[round(0.9 * last)], 4),
                "step_cpu_ms_median": round(statistics.median(cpu_ms), 4),
                "load_average": round(load_average, 2),
                "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "first_step_seconds": round(first_step_seconds, 3),
                "first_loss": round(losses[0], 5),
                "last_loss": round(losses[-1], 5),
            }
        )
    )


if __name__ == "__main__":
    main()
