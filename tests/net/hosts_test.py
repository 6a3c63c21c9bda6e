"""Jobs over several hosts, which are network namespaces of this machine joined by a switch.

    hosts_test.py build/dev/bin/lockstep build/dev/bin/host_peer build/dev/bin/host_server

Needs the right to make namespaces, and iproute2: skipped, with a line that says so, where they are
missing. All addresses are of the test's own hosts: 10.77.0.0/24 and fd77::/64 in the namespaces.
"""

import fcntl
import heapq
import os
import random
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = None
PEER = None
SERVER = None
DEADLINE_SECONDS = 90
HEARTBEAT_SECONDS = 2


def run(*command, check=True):
  return subprocess.run(command, capture_output=True, text=True, check=check, timeout=30)


class Wire:
  """A switch in this process instead of the kernel's: frames are delayed, lost, or stopped by a
  firewall, whatever the kernel was built with. Ports are TAP devices."""

  TUNSETIFF = 0x400454CA
  TAP_WITHOUT_HEADER = 0x1002  # IFF_TAP | IFF_NO_PI

  def __init__(self, delay=0.0, loss=0.0, open_ports=None):
    self.delay = delay
    self.loss = loss
    self.open_ports = open_ports
    self.lost = 0
    self.refused = 0
    self.ports = []
    self.random = random.Random(1)
    self.waiting = []  # a heap of (when, number, port, frame)
    self.number = 0
    self.stop = threading.Event()
    self.thread = threading.Thread(target=self.forward, daemon=True)

  def add(self, device):
    port = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    self.ports.append(port)
    fcntl.ioctl(port, self.TUNSETIFF, struct.pack("16sH", device.encode(), self.TAP_WITHOUT_HEADER))

  def start(self):
    self.thread.start()

  def close(self):
    self.stop.set()
    if self.thread.is_alive():
      self.thread.join()
    for port in self.ports:
      os.close(port)

  def begins_elsewhere(self, frame):
    """Whether it begins a TCP connection to a port that is not open."""
    if frame[12:14] != b"\x08\x00" or frame[23] != 6:
      return False
    tcp = 14 + 4 * (frame[14] & 15)
    port = int.from_bytes(frame[tcp + 2:tcp + 4], "big")
    return frame[tcp + 13] & 0x12 == 0x02 and port not in self.open_ports

  def take(self, port, frame):
    if self.open_ports is not None and self.begins_elsewhere(frame):
      self.refused += 1
      return
    for other in self.ports:
      if other == port:
        continue
      if self.random.random() < self.loss:
        self.lost += 1
        continue
      self.number += 1
      heapq.heappush(self.waiting, (time.monotonic() + self.delay, self.number, other, frame))

  def forward(self):
    while not self.stop.is_set():
      patience = 0.1
      if self.waiting:
        patience = min(patience, max(0.0, self.waiting[0][0] - time.monotonic()))
      ready, _, _ = select.select(self.ports, [], [], patience)
      for port in ready:
        for _ in range(64):
          try:
            self.take(port, os.read(port, 65536))
          except BlockingIOError:
            break
          except OSError:
            return  # the host is gone
      while self.waiting and self.waiting[0][0] <= time.monotonic():
        _, _, port, frame = heapq.heappop(self.waiting)
        try:
          os.write(port, frame)
        except OSError:
          self.lost += 1


class Network:
  """Hosts 0..n-1, each with one interface, eth0, on one switch."""

  def __init__(self, hosts, ipv4=True, ipv6=False, wire=None):
    self.wire = wire
    self.tag = f"ls{os.getpid()}"
    self.switch = f"{self.tag}s"
    self.hosts = [f"{self.tag}h{i}" for i in range(hosts)]
    self.made = []
    try:
      self.make(ipv4, ipv6)
    except BaseException:
      self.close()
      raise

  def make(self, ipv4, ipv6):
    for name in [self.switch, *self.hosts]:
      run("ip", "netns", "add", name)
      self.made.append(name)
      run("ip", "-n", name, "link", "set", "lo", "up")
    if self.wire is None:
      run("ip", "-n", self.switch, "link", "add", "bridge0", "type", "bridge")
      run("ip", "-n", self.switch, "link", "set", "bridge0", "up")
    for i, name in enumerate(self.hosts):
      self.plug_in(i, name)
      run("ip", "-n", name, "link", "set", "eth0", "up")
      # Duplicate address detection off ("nodad"): nobody waits for it.
      if ipv4:
        run("ip", "-n", name, "addr", "add", f"{self.ipv4(i)}/24", "dev", "eth0")
      if ipv6:
        run("ip", "-n", name, "addr", "add", f"{self.ipv6(i)}/64", "dev", "eth0", "nodad")
    if self.wire is not None:
      self.wire.start()
    self.names([self.ipv4(i) if ipv4 else self.ipv6(i) for i in range(len(self.hosts))])

  def plug_in(self, i, name):
    if self.wire is not None:
      device = f"{self.tag}p{i}"
      self.wire.add(device)
      run("ip", "link", "set", device, "netns", name, "name", "eth0", "mtu", "9000")
      return
    run("ip", "-n", self.switch, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0",
        "netns", name)
    run("ip", "-n", self.switch, "link", "set", f"port{i}", "master", "bridge0", "up")

  @staticmethod
  def ipv4(host):
    return f"10.77.0.{host + 1}"

  @staticmethod
  def ipv6(host):
    return f"fd77::{host + 1}"

  def names(self, addresses, only=None):
    """What node0, node1, ... stand for, on all hosts or on one."""
    for name in self.hosts if only is None else [self.hosts[only]]:
      folder = f"/etc/netns/{name}"
      os.makedirs(folder, exist_ok=True)
      with open(f"{folder}/hosts", "w", encoding="utf-8") as file:
        file.write("127.0.0.1 localhost\n")
        file.writelines(f"{address} node{i}\n" for i, address in enumerate(addresses))

  def start(self, host, *command):
    return subprocess.Popen(["ip", "netns", "exec", self.hosts[host], *command], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

  def unplug(self, host):
    run("ip", "-n", self.switch, "link", "set", f"port{host}", "down")

  def plug(self, host):
    run("ip", "-n", self.switch, "link", "set", f"port{host}", "up")

  def close(self):
    if self.wire is not None:
      self.wire.close()
    for name in self.made:
      run("ip", "netns", "del", name, check=False)
      shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)


def why_not():
  """Why namespaces cannot be made here, or None."""
  if shutil.which("ip") is None:
    return "iproute2 (ip) is not installed"
  try:
    Network(1).close()
    Network(1, wire=Wire()).close()
  except (subprocess.CalledProcessError, OSError) as error:
    return f"network namespaces cannot be made: {getattr(error, 'stderr', None) or error}"
  return None


class HostsTest(unittest.TestCase):

  def setUp(self):
    self.folder = tempfile.mkdtemp(prefix="lockstep_")
    self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
    self.jobs = 0

  def network(self, *args, **kwargs):
    network = Network(*args, **kwargs)
    self.addCleanup(network.close)
    return network

  def certificates(self, hosts):
    folder = os.path.join(self.folder, "ca")
    run(PROGRAM, "certs", "ca", "--out", folder)
    for i, host in enumerate(hosts):
      run(PROGRAM, "certs", "issue", "--ca", folder, "--name", f"task{i}", "--host", host)
    return [["--ca", f"{folder}/ca.crt", "--cert", f"{folder}/task{i}.crt", "--key",
             f"{folder}/task{i}.key"] for i in range(len(hosts))]

  def job(self, network, hosts, *flags, own=None):
    """Starts one task on each host; `own` adds flags of single tasks."""
    self.jobs += 1
    folder = os.path.join(self.folder, f"job{self.jobs}")
    os.mkdir(folder)
    tasks = []
    for i, host in enumerate(hosts):
      tasks.append(network.start(i, PEER, "--self", str(i), "--tasks", str(len(hosts)), "--folder",
                                 folder, "--host", host, *flags, *(own[i] if own else [])))
      self.addCleanup(self.end, tasks[-1])
    return tasks

  @staticmethod
  def end(process):
    if process.poll() is None:
      process.kill()
    process.communicate()

  def finish(self, tasks):
    results = []
    for task in tasks:
      output, errors = task.communicate(timeout=DEADLINE_SECONDS)
      results.append((task.returncode, output, errors))
    return results

  def expect_exchange(self, tasks, kind):
    for code, output, errors in self.finish(tasks):
      self.assertEqual(code, 0, output + errors)
      self.assertIn("exchanged", output)
      self.assertEqual(set(re.findall(r"(\w+) to /job", output)), {kind}, output)

  def test_ucx_by_name_without_encryption(self):
    network = self.network(3)
    self.expect_exchange(self.job(network, ["node0", "node1", "node2"], "--insecure"), "ucx")

  def test_where_encryption_is_required_grpc_is_chosen(self):
    network = self.network(3)
    hosts = ["node0", "node1", "node2"]
    self.expect_exchange(self.job(network, hosts, own=self.certificates(hosts)), "grpc")

  def test_without_encryption_nothing_is_bound(self):
    network = self.network(2)
    for links in ("ucx", "grpc"):
      for code, output, errors in self.finish(
          self.job(network, ["node0", "node1"], "--links", links)):
        self.assertEqual(code, 3, output)
        self.assertIn("is not on loopback", errors)
        self.assertIn("--insecure", errors)

  def test_ipv6_only(self):
    network = self.network(2, ipv4=False, ipv6=True)
    hosts = ["node0", network.ipv6(1)]
    self.expect_exchange(self.job(network, hosts, "--links", "grpc", own=self.certificates(hosts)),
                         "grpc")

  def test_a_certificate_of_another_host_is_refused(self):
    network = self.network(2)
    own = self.certificates(["node7", "node1"])
    results = self.finish(self.job(network, ["node0", "node1"], "--links", "grpc", "--timeout", "3",
                                   own=own))
    self.assertEqual([code for code, _, _ in results], [3, 3], results)
    self.assertIn("did not connect over gRPC: /job:worker/task:0", results[1][2])

  def test_a_name_that_is_loopback_on_its_own_host(self):
    network = self.network(2)
    network.names(["127.0.1.1", network.ipv4(1)], only=0)
    hosts = ["node0", "node1"]
    results = self.finish(self.job(network, hosts, "--links", "grpc", "--timeout", "3",
                                   own=self.certificates(hosts)))
    self.assertEqual([code for code, _, _ in results], [3, 3], results)
    self.assertIn("node0 stands for 127.0.1.1 on this host", results[0][2])
    self.assertIn("did not connect over gRPC: /job:worker/task:0", results[1][2])

  def test_one_open_port(self):
    port = 4000
    network = self.network(3, wire=Wire(open_ports={port}))
    hosts = ["node0", "node1", "node2"]
    certificates = self.certificates(hosts)
    self.expect_exchange(self.job(network, hosts, "--port", str(port), own=certificates), "grpc")
    # The firewall is one: any other port cannot be reached.
    results = self.finish(self.job(network, hosts, "--port", str(port + 1), "--timeout", "3",
                                   own=certificates))
    self.assertEqual([code for code, _, _ in results], [3, 3, 3], results)
    self.assertGreater(network.wire.refused, 0)

  def servers(self, network, count, *flags, own=None):
    """One server a host at port 4000; the first runs steps through all of them."""
    secret = "the secret of this test"
    spec = "worker|" + ";".join(f"node{i}:4000" for i in range(count))
    servers = []
    for i in range(count):
      variables = [f"LOCKSTEP_JOB_SECRET={secret}"]
      if own:
        variables += [f"LOCKSTEP_{name}_FILE={path}"
                      for name, path in zip(("CA", "CERT", "KEY"), own[i][1::2])]
      servers.append(network.start(i, "env", *variables, SERVER, "--spec", spec, "--task", str(i),
                                   *flags))
      self.addCleanup(self.end, servers[-1])
    return servers

  def expect_steps(self, servers, kind):
    results = self.finish(servers)
    for code, output, errors in results:
      self.assertEqual(code, 0, output + errors)
      self.assertEqual(set(re.findall(r"(?m)task:\d: (\w+) to \S+$", errors)), {kind}, errors)
    self.assertIn("all steps right", results[0][1])

  def test_placed_steps_with_one_open_port(self):
    network = self.network(3, wire=Wire(open_ports={4000}))
    hosts = ["node0", "node1", "node2"]
    self.expect_steps(self.servers(network, 3, own=self.certificates(hosts)), "grpc")
    # Nobody even tried another one.
    self.assertEqual(network.wire.refused, 0)

  def test_placed_steps_over_ucx_in_a_range_of_ports(self):
    network = self.network(3, wire=Wire(open_ports={4000, 5000, 5001, 5002}))
    self.expect_steps(self.servers(network, 3, "--insecure", "--transport", "ucx", "--data-ports",
                                   "5000-5002"), "ucx")
    self.assertEqual(network.wire.refused, 0)

  def test_where_no_data_port_is_open_steps_use_the_port_of_the_server(self):
    network = self.network(2, wire=Wire(open_ports={4000}))
    self.expect_steps(self.servers(network, 2, "--insecure"), "grpc")
    self.assertGreater(network.wire.refused, 0)

  def test_a_host_that_disappears_is_named(self):
    network = self.network(3)
    hosts = ["node0", "node1", "node2"]
    for links in ("ucx", "grpc"):
      with self.subTest(links=links):
        tasks = self.job(network, hosts, "--insecure", "--links", links, "--hold", "1",
                         "--heartbeat", str(HEARTBEAT_SECONDS))
        for task in tasks:
          self.assertIn("links", task.stdout.readline())
          self.assertEqual(task.stdout.readline(), "exchanged\n")
        network.unplug(1)
        begin = time.monotonic()
        for number in (0, 2):
          errors = tasks[number].communicate(timeout=DEADLINE_SECONDS)[1]
          self.assertEqual(tasks[number].returncode, 3, errors)
          self.assertIn("task /job:worker/task:1 is lost", errors)
        # And the second that a task takes to say good-bye to nobody.
        self.assertLess(time.monotonic() - begin, 2 * HEARTBEAT_SECONDS + 1.5)
        self.end(tasks[1])
        network.plug(1)

  def test_servers_name_a_host_that_disappears(self):
    network = self.network(3)
    hosts = ["node0", "node1", "node2"]
    own = self.certificates(hosts)
    secret = os.path.join(self.folder, "secret")
    with open(secret, "w", encoding="utf-8") as file:
      file.write("the secret of this test")
    os.chmod(secret, 0o600)
    spec = "worker|" + ";".join(f"{host}:4000" for host in hosts)
    servers = []
    for i in range(3):
      servers.append(network.start(
          i, PROGRAM, "server", "--spec", spec, "--job", "worker", "--task", str(i),
          "--heartbeat", str(HEARTBEAT_SECONDS), "--job-secret-file", secret, *own[i]))
      self.addCleanup(self.end, servers[-1])
    for i, server in enumerate(servers):
      self.assertRegex(server.stdout.readline(), rf"\Aserving grpc://node{i}:4000 as ")
    network.unplug(2)
    begin = time.monotonic()
    for server in servers[:2]:
      errors = server.communicate(timeout=DEADLINE_SECONDS)[1]
      self.assertEqual(server.returncode, 3, errors)
      self.assertIn("/job:worker/task:2", errors)
    # And the time that servers take to say good-bye to somebody who does not answer.
    self.assertLess(time.monotonic() - begin, 2 * HEARTBEAT_SECONDS + 4)

  def test_loss_and_delay(self):
    network = self.network(2, wire=Wire(delay=0.02, loss=0.01))
    for links in ("ucx", "grpc"):
      with self.subTest(links=links):
        lost = network.wire.lost
        begin = time.monotonic()
        self.expect_exchange(
            self.job(network, ["node0", "node1"], "--insecure", "--links", links, "--rounds", "5"),
            links)
        # The delay is there, forth and back, in each round; and so is the loss.
        self.assertGreater(time.monotonic() - begin, 5 * 0.04)
        self.assertGreater(network.wire.lost, lost)


if __name__ == "__main__":
  PROGRAM, PEER, SERVER = (os.path.abspath(path) for path in sys.argv[1:4])
  del sys.argv[1:4]
  reason = why_not()
  if reason is not None:
    print(f"SKIPPED: every test of several hosts, because {reason}", file=sys.stderr)
    sys.exit(77)
  unittest.main(verbosity=2)
