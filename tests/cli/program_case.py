"""What the tests of the program share: running it in the repository's root, and looking at the end.

Each test file is called with the path of the program: python3 train_test.py build/dev/bin/lockstep
"""

import gzip
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOFTMAX = "examples/configs/mnist_softmax.toml"
CNN = "examples/configs/mnist_cnn.toml"
# Far more than any command here takes; a hang must end with a message.
DEADLINE_SECONDS = 100

SHA256 = re.compile("[0-9a-f]{64}")


class ProgramCase(unittest.TestCase):
  """A test case with a folder of its own, `self.folder`, which is removed at the end."""

  program = None

  def setUp(self):
    self.folder = tempfile.mkdtemp(prefix="lockstep_")
    self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

  def path(self, *names):
    return os.path.join(self.folder, *names)

  def command(self, *args):
    return [self.program, *(str(arg) for arg in args)]

  def environment(self, **extra):
    """Nothing of the machine's cluster; OpenMP without threads that the program did not ask for."""
    kept = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    return {**kept, "OMP_NUM_THREADS": "1", **extra}

  def start_process(self, command, env=None):
    """Starts it in the repository's root; it ends with the test."""
    process = subprocess.Popen(command, cwd=ROOT, env=self.environment(**(env or {})), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    self.addCleanup(self.end_process, process)
    return process

  @staticmethod
  def end_process(process):
    if process.poll() is None:
      process.kill()
    process.communicate()

  def run_program(self, *args, code=0, env=None, warning=None):
    """Runs it to its end, which must be `code`. An error must be one line on standard error.

    `warning` is how the one warning of a run that succeeds must begin.
    """
    done = subprocess.run(self.command(*args), cwd=ROOT, env=self.environment(**(env or {})),
                          capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
    if warning is not None:
      self.assertRegex(done.stderr,
                       rf"\Alockstep: warning: {re.escape(warning)}[^\n]*\n\Z", args)
    elif code in (0, 5):
      self.assertEqual(done.stderr, "", args)
    else:
      self.assertRegex(done.stderr, r"\Alockstep: [^\n]+\n\Z", args)
    return done

  def error(self, code, *args, env=None):
    """The message of a run that must fail with this exit code."""
    return self.run_program(*args, code=code, env=env).stderr

  def train(self, config, *args, code=0, name="summary.json"):
    """Trains without output and returns the summary."""
    path = self.path(name)
    done = self.run_program("train", config, "--quiet", "--summary", path, *args, code=code)
    self.assertEqual(done.stdout, "")
    return self.read_json(path)

  def read_json(self, path):
    with open(path, encoding="utf-8") as file:
      return json.load(file)

  def checkpoint_file(self, folder, name):
    """The path of a file of the checkpoint that `latest` of the folder names."""
    with open(os.path.join(folder, "latest"), encoding="utf-8") as file:
      return os.path.join(folder, file.read().strip(), name)

  def tree(self, folder):
    """Every file below the folder with its content."""
    found = {}
    for parent, _, names in os.walk(folder):
      for name in names:
        path = os.path.join(parent, name)
        with open(path, "rb") as file:
          found[os.path.relpath(path, folder)] = file.read()
    return found

  def write_idx(self, path, change):
    """Replaces the elements, and so the count of samples, of a compressed IDX file of bytes."""
    with gzip.open(path, "rb") as file:
      content = file.read()
    header = 4 + 4 * content[3]
    sample = 1
    for axis in range(1, content[3]):
      sample *= struct.unpack_from(">I", content, 4 + 4 * axis)[0]
    elements = change(content[header:])
    with gzip.open(path, "wb") as file:
      file.write(content[:4] + struct.pack(">I", len(elements) // sample) + content[8:header] +
                 elements)

  def copy_mnist(self):
    """A copy of the digits that a test may damage. Returns its folder."""
    folder = self.path("mnist")
    shutil.copytree(os.path.join(ROOT, "data", "mnist"), folder)
    return folder


def free_ports(count):
  """Ports of the loopback address that nobody listens at now."""
  sockets = [socket.socket() for _ in range(count)]
  for sock in sockets:
    sock.bind(("127.0.0.1", 0))
  ports = [sock.getsockname()[1] for sock in sockets]
  for sock in sockets:
    sock.close()
  return ports


def test_labels():
  """The classes of the digits of the test part."""
  with gzip.open(os.path.join(ROOT, "data/mnist/t10k-labels-idx1-ubyte.gz"), "rb") as file:
    magic, count = struct.unpack(">II", file.read(8))
    assert magic == 0x801
    labels = list(file.read())
  assert len(labels) == count
  return labels


def main():
  if len(sys.argv) < 2:
    sys.exit(f"usage: {sys.argv[0]} PROGRAM [unittest options]")
  ProgramCase.program = os.path.abspath(sys.argv.pop(1))
  unittest.main()
