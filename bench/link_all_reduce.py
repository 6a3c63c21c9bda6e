"""All-reduce between two hosts joined by a link of limited rate, which are network namespaces of
this machine.

    link_all_reduce.py build/release/bin/lockstep [--rates 1,10] [--bytes 104857600] [--rounds 3]

For each rate, in Gbit/s: the time of `lockstep bench allreduce` over UCX, that of two processes
that only send each other as many bytes over a plain TCP connection, and the time that the rate
allows at least: each process sends and receives as many bytes as the value has.
The kernel's token bucket limits each direction; frames have 1500 bytes. Needs the right to make
namespaces, iproute2 and the qdisc tbf; a delay of 50 us is added where the kernel has netem.
"""

import argparse
import json
import os
import subprocess
import sys
import time


def run(*command, check=True):
  return subprocess.run(command, capture_output=True, text=True, check=check, timeout=600)


class Link:
  """Two namespaces with an interface eth0 each."""

  def __init__(self, gigabits):
    self.names = [f"lsl{os.getpid()}{side}" for side in "ab"]
    self.made = []
    self.delay = False
    try:
      for name in self.names:
        run("ip", "netns", "add", name)
        self.made.append(name)
        run("ip", "-n", name, "link", "set", "lo", "up")
      run("ip", "-n", self.names[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
          "netns", self.names[1])
      for number, name in enumerate(self.names):
        run("ip", "-n", name, "addr", "add", f"10.77.1.{number + 1}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        # As much as the link moves in a quarter of a millisecond, at least one large packet.
        burst = max(int(gigabits * 1e9 / 8 / 4000), 70000)
        run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "tbf", "rate",
            f"{gigabits}gbit", "burst", str(burst), "latency", "10ms")
        delay = run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "parent", "1:1", "netem",
                    "delay", "50us", "limit", "10000", check=False)
        self.delay = delay.returncode == 0
      for name in self.names:
        self.await_carrier(name)
    except BaseException:
      self.close()
      raise

  @staticmethod
  def await_carrier(name):
    deadline = time.monotonic() + 10
    while "state UP" not in run("ip", "-n", name, "link", "show", "eth0").stdout:
      if time.monotonic() > deadline:
        raise TimeoutError(f"eth0 in {name} does not come up")
      time.sleep(0.02)

  def close(self):
    for name in self.made:
      run("ip", "netns", "del", name, check=False)


PLAIN_PEER = """
import socket, sys, threading, time
total, rounds, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if len(sys.argv) > 4:
  listener = socket.create_server((address, 4000))
  print("ready", flush=True)
  link = listener.accept()[0]
else:
  link = socket.create_connection((address, 4000))
data, buffer = bytes(total), bytearray(1 << 20)
def receive():
  left = total
  while left > 0:
    left -= link.recv_into(buffer, min(left, len(buffer)))
for _ in range(rounds):
  start = time.monotonic()
  receiver = threading.Thread(target=receive)
  receiver.start()
  link.sendall(data)
  receiver.join()
  print(time.monotonic() - start, flush=True)
"""


def plain_tcp(link, total, rounds):
  """Seconds in which the two exchange so many bytes: the median."""
  begin = ["ip", "netns", "exec"]
  arguments = [sys.executable, "-c", PLAIN_PEER, str(total), str(rounds), "10.77.1.1"]
  with subprocess.Popen([*begin, link.names[0], *arguments, "listen"], text=True,
                        stdout=subprocess.PIPE) as server:
    server.stdout.readline()
    run(*begin, link.names[1], *arguments)
    times = sorted(float(line) for line in server.stdout)
  return times[len(times) // 2]


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("lockstep")
  parser.add_argument("--rates", default="1,10", help="Gbit/s")
  parser.add_argument("--bytes", type=int, default=104857600)
  parser.add_argument("--rounds", type=int, default=3)
  arguments = parser.parse_args()
  for rate in arguments.rates.split(","):
    gigabits = float(rate)
    link = Link(gigabits)
    try:
      done = run(arguments.lockstep, "bench", "allreduce", "--workers", "2", "--transport", "ucx",
                 "--namespaces", ",".join(link.names), "--sizes", str(arguments.bytes), "--rounds",
                 str(arguments.rounds), "--json", check=False)
      plain = plain_tcp(link, arguments.bytes, 5)
    finally:
      link.close()
    if done.returncode != 0:
      sys.exit(f"{done.stdout}{done.stderr}")
    seconds = json.loads(done.stdout)["seconds"]["lockstep, any memory"][str(arguments.bytes)]
    least = arguments.bytes * 8 / (gigabits * 1e9)
    print(json.dumps({"gigabits": gigabits, "delay_50us": link.delay, "bytes": arguments.bytes,
                      "seconds": round(seconds, 5), "plain_tcp_seconds": round(plain, 5),
                      "least_seconds": round(least, 5), "share_of_rate": round(least / seconds, 3),
                      "share_of_plain_tcp": round(plain / seconds, 3)}))


if __name__ == "__main__":
  main()
