#!/usr/bin/env python3
"""Point to point of Gloo between two processes of this machine, beside `lockstep bench transport`.

    gloo_transport.py                       # a JSON object
    gloo_transport.py --lockstep build/dev/bin/lockstep --rounds 5   # in turn with ours, and ratios

Gloo is reached through torch.distributed (send and recv of CPU tensors over loopback TCP). Figures:
the median round trip of 8 bytes, and the rate of a one-way stream of 64 MB blocks.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUND_TRIPS = 2000
WARM_UP = 200
BLOCK_BYTES = 64 << 20
BLOCKS = 8
STREAMS = 5


def work(rank, meeting):
  import torch
  import torch.distributed as dist

  os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
  dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
  other = 1 - rank
  small = torch.zeros(8, dtype=torch.uint8)
  times = []
  for i in range(WARM_UP + ROUND_TRIPS):
    start = time.perf_counter()
    if rank == 0:
      dist.send(small, other)
      dist.recv(small, other)
    else:
      dist.recv(small, other)
      dist.send(small, other)
    if i >= WARM_UP:
      times.append(time.perf_counter() - start)
  block = torch.zeros(BLOCK_BYTES, dtype=torch.uint8)
  rates = []
  for _ in range(STREAMS):
    dist.barrier()
    start = time.perf_counter()
    # The next block is posted while one is moved, as in ours.
    pending = []
    for _ in range(BLOCKS):
      pending.append(dist.isend(block, other) if rank == 0 else dist.irecv(block, other))
      if len(pending) == 2:
        pending.pop(0).wait()
    pending.pop().wait()
    rates.append(BLOCKS * BLOCK_BYTES / (time.perf_counter() - start) / 1e9)
  if rank == 1:
    print(json.dumps({"peer": f"gloo (torch {torch.__version__})",
                      "round_trip_8b_us": 1e6 * statistics.median(times),
                      "stream_64mb_gbps": statistics.median(rates)}), flush=True)
  dist.barrier()
  dist.destroy_process_group()


def measure_gloo(python):
  with tempfile.TemporaryDirectory() as folder:
    meeting = os.path.join(folder, "meeting")
    command = [python, __file__, "--meeting", meeting, "--rank"]
    first = subprocess.Popen(command + ["0"], stdout=subprocess.DEVNULL)
    try:
      second = subprocess.run(command + ["1"], capture_output=True, text=True, timeout=300,
                              check=True)
    finally:
      first.wait(timeout=60)
    return json.loads(second.stdout.strip().splitlines()[-1])


def measure_ours(program, link):
  command = [program, "bench", "transport", "--links", link, "--json"]
  done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
  figures = json.loads(done.stdout)["links"][link]
  return {"peer": f"lockstep {link}", "round_trip_8b_us": figures["round_trip_8b_us"],
          "stream_64mb_gbps": figures["stream_64mb_gbps"]}


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--lockstep", help="the program, to be measured in turn")
  parser.add_argument("--link", default="ucx", help="its kind of link")
  parser.add_argument("--rounds", type=int, default=1)
  parser.add_argument("--python", default=sys.executable, help="one that has torch")
  parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
  parser.add_argument("--meeting", help=argparse.SUPPRESS)
  options = parser.parse_args()
  if options.rank is not None:
    work(options.rank, options.meeting)
    return
  gloo, ours = [], []
  for _ in range(options.rounds):
    gloo.append(measure_gloo(options.python))
    print(json.dumps(gloo[-1]), flush=True)
    if options.lockstep:
      ours.append(measure_ours(options.lockstep, options.link))
      print(json.dumps(ours[-1]), flush=True)
  if ours:
    def median(runs, key):
      return statistics.median(run[key] for run in runs)

    print(json.dumps({
        "stream_of_gloo": median(ours, "stream_64mb_gbps") / median(gloo, "stream_64mb_gbps"),
        "round_trip_of_gloo":
            median(ours, "round_trip_8b_us") / median(gloo, "round_trip_8b_us")}))


if __name__ == "__main__":
  main()
