#!/usr/bin/env python3
"""All-reduce of Gloo among processes of this machine, for `lockstep bench allreduce --peers`.

    gloo_all_reduce.py --workers 2 4096:10:2000 4194304:10:100      # bytes:warm-up:repeats

Gloo is reached through torch.distributed (float32 sums in place, over loopback TCP). Prints one
JSON object: median seconds by bytes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


def work(rank, args):
  import torch
  import torch.distributed as dist

  torch.set_num_threads(1)
  os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
  dist.init_process_group("gloo", init_method=f"file://{args.meeting}", rank=rank,
                          world_size=args.workers)
  seconds = {}
  for case in args.cases:
    size, warm_up, repeats = (int(word) for word in case.split(":"))
    value = torch.zeros(size // 4, dtype=torch.float32)
    times = []
    for i in range(warm_up + repeats):
      start = time.perf_counter()
      dist.all_reduce(value)
      if i >= warm_up:
        times.append(time.perf_counter() - start)
    seconds[size] = statistics.median(times)
  if rank == 0:
    print(json.dumps({"gloo": seconds}))
  dist.destroy_process_group()


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--workers", type=int, default=2)
  parser.add_argument("--rank", type=int)
  parser.add_argument("--meeting")
  parser.add_argument("cases", nargs="+")
  args = parser.parse_args()
  if args.rank is not None:
    work(args.rank, args)
    return 0
  try:
    import torch.distributed  # pylint: disable=unused-import
  except ImportError as error:
    print(f"{sys.executable} has no PyTorch: {error}", file=sys.stderr)
    return 1
  with tempfile.TemporaryDirectory() as folder:
    command = [sys.executable, __file__, "--workers", str(args.workers), "--meeting",
               os.path.join(folder, "meeting"), *args.cases]
    tasks = [subprocess.Popen(command + ["--rank", str(rank)]) for rank in range(args.workers)]
    return max(abs(task.wait()) for task in tasks)


if __name__ == "__main__":
  sys.exit(main())
