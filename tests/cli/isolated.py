"""Runs a test file in namespaces of its own: its ports and /etc/hosts are nobody else's."""

import os
import shutil
import socket
import subprocess
import sys

# What CTest shows as skipped (SKIP_RETURN_CODE).
SKIPPED = 77
MARK = "LOCKSTEP_TEST_ISOLATED"


def skip(reason):
  print(f"SKIPPED {os.path.basename(sys.argv[0])}: {reason}", file=sys.stderr)
  sys.exit(SKIPPED)


def need(*programs):
  """Skips the whole file when one of these is not installed."""
  missing = [name for name in programs if shutil.which(name) is None]
  if missing:
    skip(f"not installed: {', '.join(missing)}")


def enter(hosts=""):
  """Starts the file again inside, where `hosts` are the only names besides localhost."""
  if MARK not in os.environ:
    need("unshare", "ip", "mount")
    if subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True,
                      check=False).returncode != 0:
      skip("no right to make namespaces (needs root)")
    os.execvpe("unshare", ["unshare", "--mount", "--net", sys.executable, "-B", *sys.argv],
               {**os.environ, MARK: "1"})
  # An address besides loopback, without which getaddrinfo(AI_ADDRCONFIG) finds nothing at all.
  for command in ("link set lo up", "address add 10.77.0.1/32 dev lo"):
    subprocess.run(["ip", *command.split()], check=True)
  path = f"/tmp/lockstep_hosts_{os.getpid()}"
  with open(path, "w", encoding="utf-8") as file:
    file.write(f"127.0.0.1 localhost {socket.gethostname()}\n{hosts}")
  try:
    subprocess.run(["mount", "--bind", path, "/etc/hosts"], check=True)
  finally:
    os.unlink(path)
