"""The softmax example under a real Slurm: munge, slurmctld and two slurmd, started here."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import isolated
import program_case
from program_case import ROOT, ProgramCase

# Nodes are addresses of loopback, so that each has all ports.
NODES = {"n1": "127.0.0.2", "n2": "127.0.0.3"}


class Slurm:
  """A controller and two nodes on this machine, in a folder of their own."""

  def __init__(self):
    self.folder = tempfile.mkdtemp(prefix="lockstep_slurm_")
    self.daemons = []
    try:
      self._start()
    except BaseException:
      self.stop()
      raise

  def path(self, name):
    return os.path.join(self.folder, name)

  def _daemon(self, *command):
    log = open(self.path(f"{os.path.basename(command[0])}{len(self.daemons)}.out"), "wb")
    with log:
      self.daemons.append(subprocess.Popen(command, stdout=log, stderr=log,
                                           stdin=subprocess.DEVNULL))

  def _start(self):
    os.chmod(self.folder, 0o755)
    for name in ("munge", "state", "spool_n1", "spool_n2"):
      os.mkdir(self.path(name), 0o700)
    with open(self.path("munge/key"), "wb") as file:
      os.fchmod(file.fileno(), 0o600)
      file.write(os.urandom(1024))
    self._daemon("munged", "--foreground", "--force", f"--socket={self.path('munge.socket')}",
                 f"--key-file={self.path('munge/key')}", f"--pid-file={self.path('munge/pid')}",
                 f"--log-file={self.path('munge/log')}", f"--seed-file={self.path('munge/seed')}")
    self._await("munged", lambda: os.path.exists(self.path("munge.socket")))
    self._write_configuration()
    os.environ["SLURM_CONF"] = self.path("slurm.conf")
    self._daemon("slurmctld", "-D")
    for node in NODES:
      self._daemon("slurmd", "-D", "-N", node)
    self._await("two idle nodes", lambda: self._states() == ["idle", "idle"])

  def _write_configuration(self):
    host = socket.gethostname()
    nodes = "".join(
        f"NodeName={name} NodeHostname={host} NodeAddr={address} Port={6820 + number} CPUs=2\n"
        for number, (name, address) in enumerate(NODES.items()))
    with open(self.path("slurm.conf"), "w", encoding="utf-8") as file:
      file.write(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthInfo=socket={self.path('munge.socket')}
StateSaveLocation={self.path('state')}
SlurmdSpoolDir={self.path('spool_%n')}
SlurmctldPidFile={self.path('slurmctld.pid')}
SlurmdPidFile={self.path('slurmd_%n.pid')}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
{nodes}PartitionName=main Nodes=n1,n2 Default=YES MaxTime=10 State=UP
""")

  @staticmethod
  def _states():
    done = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], capture_output=True, text=True,
                          check=False)
    return done.stdout.split()

  def _await(self, what, condition):
    deadline = time.monotonic() + 60
    while not condition():
      ended = [d.args[0] for d in self.daemons if d.poll() is not None]
      if ended or time.monotonic() > deadline:
        raise RuntimeError(f"no {what}; ended: {ended}; {self._logs()}")
      time.sleep(0.05)

  def _logs(self):
    logs = []
    for name in sorted(os.listdir(self.folder)):
      if name.endswith(".out"):
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
          logs.append(f"{name}: {file.read()[-1500:]}")
    return "\n".join(logs)

  def stop(self):
    for daemon in reversed(self.daemons):
      daemon.send_signal(signal.SIGTERM)
    for daemon in self.daemons:
      try:
        daemon.wait(timeout=20)
      except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
    shutil.rmtree(self.folder, ignore_errors=True)


class SlurmTest(ProgramCase):
  example = None
  slurm = None

  @classmethod
  def setUpClass(cls):
    cls.slurm = Slurm()
    cls.addClassCleanup(cls.slurm.stop)

  def srun(self, *command):
    process = subprocess.Popen(["srun", "-N2", "-n3", "--kill-on-bad-exit=0", *command], cwd=ROOT,
                               env=self.environment(), text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    self.addCleanup(process.communicate)
    self.addCleanup(process.kill)
    return process

  def finish(self, process):
    return process.communicate(timeout=program_case.DEADLINE_SECONDS)

  def test_cluster_says_what_srun_gave(self):
    out, errors = self.finish(self.srun("-l", self.program, "cluster"))
    for rank, address in enumerate(("n1:8888", "n1:8889", "n2:8888")):
      here = [line.split(": ", 1)[1] for line in out.splitlines() if line.startswith(f"{rank}: ")]
      self.assertIn("cluster from Slurm: 3 tasks", here, out + errors)
      self.assertTrue(any(f"/job:worker/task:{rank}  {address}" in line and "this process" in line
                          for line in here), here)

  def test_softmax_over_two_nodes(self):
    process = self.srun(self.example, "data/mnist", "400")
    out, errors = self.finish(process)
    self.assertEqual(process.returncode, 0, out + errors)
    last = out.splitlines()[-1]
    self.assertRegex(last, r"\Atest accuracy 0\.\d{4}\Z")
    self.assertGreater(float(last.split()[-1]), 0.90)

  def test_a_killed_task_is_named_by_the_others(self):
    script = (f'echo $$ > "{self.folder}/$SLURM_PROCID"; '
              f'exec "{self.example}" data/mnist 10000000')
    process = self.srun("sh", "-c", script)
    self.assertEqual(process.stdout.readline(), "first step done\n")
    with open(self.path("1"), encoding="utf-8") as file:
      os.kill(int(file.read()), signal.SIGKILL)
    _, errors = self.finish(process)
    self.assertEqual(errors.count("/job:worker/task:1"), 2, errors)
    # srun's words for the tasks 0 and 2.
    self.assertEqual(errors.count("Exited with exit code 3"), 2, errors)


if __name__ == "__main__":
  SlurmTest.example = os.path.abspath(sys.argv[2])
  isolated.need("munged", "slurmctld", "slurmd", "srun", "sinfo")
  isolated.enter("".join(f"{address} {name}\n" for name, address in NODES.items()))
  sys.argv.pop(2)
  program_case.main()
