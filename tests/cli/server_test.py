"""Clusters of real processes on loopback: the standard server, and the softmax example."""

import os
import signal
import subprocess
import sys
import time

import program_case
from program_case import ROOT, ProgramCase, free_ports

# The example's heartbeat is 2 s: a lost task is known to all within twice that.
LIMIT_SECONDS = 4.0


class ServerTest(ProgramCase):
  example = None

  def start(self, *command):
    return self.start_process(command)

  def start_example(self, steps, workers=3):
    addresses = ",".join(f"127.0.0.1:{port}" for port in free_ports(workers))
    return [self.start(self.example, "data/mnist", str(steps), addresses, str(task))
            for task in range(workers)]

  def test_softmax_on_three_workers(self):
    tasks = self.start_example(400)
    results = [task.communicate(timeout=program_case.DEADLINE_SECONDS) for task in tasks]
    self.assertEqual([task.returncode for task in tasks], [0, 0, 0], results)
    last = results[0][0].splitlines()[-1]
    self.assertRegex(last, r"\Atest accuracy 0\.\d{4}\Z")
    self.assertGreater(float(last.split()[-1]), 0.90)

  def test_a_killed_worker_is_named_in_time(self):
    for victim in (1, 0):
      with self.subTest(victim=victim):
        tasks = self.start_example(10_000_000)
        self.assertEqual(tasks[0].stdout.readline(), "first step done\n")
        tasks[victim].send_signal(signal.SIGKILL)
        begin = time.monotonic()
        for number, task in enumerate(tasks):
          if number != victim:
            errors = task.communicate(timeout=program_case.DEADLINE_SECONDS)[1]
            self.assertEqual(task.returncode, 3, errors)
            self.assertIn(f"/job:worker/task:{victim}", errors)
        # And the time that a process takes to say good-bye and end.
        self.assertLess(time.monotonic() - begin, LIMIT_SECONDS + 1.5)

  def test_launch_with_parameter_server(self):
    done = subprocess.run([self.program, "launch", "-n", "2", "--ps", "1", "--", self.example,
                           "data/mnist", "100"], cwd=ROOT, env=self.environment(), text=True,
                          capture_output=True, timeout=program_case.DEADLINE_SECONDS, check=False)
    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    self.assertRegex(done.stdout, r"test accuracy 0\.\d{4}")

  def start_server(self, path, task, *flags):
    return self.start(self.program, "server", "--cluster", path, "--job", "worker", "--task",
                      str(task), *flags)

  def write_cluster(self, workers):
    path = self.path("cluster.json")
    with open(path, "w", encoding="utf-8") as file:
      addresses = ", ".join(f'"127.0.0.1:{port}"' for port in free_ports(workers))
      file.write(f'{{"worker": [{addresses}]}}')
    return path

  def test_server_serves_until_sigterm(self):
    path = self.write_cluster(2)
    servers = [self.start_server(path, task) for task in range(2)]
    for server in servers:
      self.assertRegex(server.stdout.readline(), r"\Aserving grpc://127\.0\.0\.1:\d+ as ")
    for server in reversed(servers):
      server.send_signal(signal.SIGTERM)
      errors = server.communicate(timeout=program_case.DEADLINE_SECONDS)[1]
      self.assertEqual(server.returncode, 0, errors)

  def test_server_names_who_is_missing(self):
    path = self.write_cluster(3)
    server = self.start_server(path, 0, "--timeout", "1")
    errors = server.communicate(timeout=program_case.DEADLINE_SECONDS)[1]
    self.assertEqual(server.returncode, 3, errors)
    self.assertIn("/job:worker/task:1, /job:worker/task:2", errors)


if __name__ == "__main__":
  ServerTest.example = os.path.abspath(sys.argv.pop(2))
  program_case.main()
