#!/usr/bin/env python3
"""All-reduce of an MPI among processes of this machine, for `lockstep bench allreduce --peers`.

    mpi_all_reduce.py --workers 2 4096:10:2000 4194304:10:100      # bytes:warm-up:repeats

Builds mpi_all_reduce.c beside this file with mpicc, in a folder that goes at the end, and runs it
with mpirun. Prints one JSON object: median seconds by bytes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--workers", type=int, default=2)
  parser.add_argument("cases", nargs="+")
  args = parser.parse_args()
  for program in ("mpicc", "mpirun"):
    if shutil.which(program) is None:
      print(f"there is no {program}", file=sys.stderr)
      return 1
  source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_all_reduce.c")
  with tempfile.TemporaryDirectory() as folder:
    program = os.path.join(folder, "mpi_all_reduce")
    built = subprocess.run(["mpicc", "-O2", source, "-o", program], check=False)
    if built.returncode != 0:
      return 1
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = ["mpirun", "-np", str(args.workers), program, *args.cases]
    if args.workers > os.cpu_count():
      command.insert(1, "--oversubscribe")
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
  sys.exit(main())
