"""The softmax example under a real mpirun."""

import os
import subprocess
import sys

import isolated
import program_case
from program_case import ROOT, ProgramCase


class MpirunTest(ProgramCase):
  example = None

  def mpirun(self, *command):
    # Oversubscribe: more processes than cores. Only loopback is there.
    return subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca",
                           "oob_tcp_if_include", "lo", "-n", "3", *command],
                          cwd=ROOT, env=self.environment(), text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=program_case.DEADLINE_SECONDS,
                          check=False)

  def test_cluster_says_what_mpirun_gave(self):
    done = self.mpirun(self.program, "cluster")
    self.assertEqual(done.returncode, 0, done.stderr)
    self.assertEqual(done.stdout.count("cluster from Open MPI: 3 tasks"), 3, done.stdout)
    for rank in range(3):
      self.assertRegex(done.stdout, rf"/job:worker/task:{rank} .*this process")

  def test_softmax_on_three_ranks(self):
    done = self.mpirun(self.example, "data/mnist", "400")
    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    last = done.stdout.splitlines()[-1]
    self.assertRegex(last, r"\Atest accuracy 0\.\d{4}\Z")
    self.assertGreater(float(last.split()[-1]), 0.90)


if __name__ == "__main__":
  MpirunTest.example = os.path.abspath(sys.argv[2])
  isolated.need("mpirun")
  isolated.enter()
  sys.argv.pop(2)
  program_case.main()
