"""Odd paths where a file or a folder belongs: links, pipes, devices, folders, very long names."""

import os
import shutil
import subprocess
import unittest

from program_case import DEADLINE_SECONDS, ROOT, SOFTMAX, ProgramCase, main

LONG = 10**9  # Steps that nobody waits for: the path must be refused before.


class OddPathCase(ProgramCase):

  def setUp(self):
    super().setUp()
    self.loop = self.path("loop")
    os.symlink(self.loop, self.loop)
    self.dangling = self.path("dangling")
    os.symlink(self.path("nowhere"), self.dangling)
    self.fifo = self.path("fifo")
    os.mkfifo(self.fifo)
    self.file = self.path("file")
    with open(self.file, "w", encoding="utf-8"):
      pass
    self.before = sorted(os.listdir(self.folder))

  def refused(self, code, *args, path, says):
    message = self.error(code, *args)
    self.assertIn(path[:200], message)
    self.assertIn(says, message)
    self.assertEqual(sorted(os.listdir(self.folder)), self.before)


class OutputTest(OddPathCase):

  def test_summaries(self):
    for path, says in ((self.loop, "Too many levels of symbolic links"),
                       (self.dangling, f"is a link to '{self.path('nowhere')}', which is not"),
                       (self.fifo, "is a pipe, socket or device, expected a regular file"),
                       ("/dev/null", "is a pipe, socket or device"),
                       ("/dev/stdout", "is a pipe, socket or device, expected a regular file"),
                       (self.folder, "is a directory, expected a regular file"),
                       (os.path.join(self.file, "x"), "Not a directory"),
                       (os.path.join(self.path("none"), "x"),
                        f"cannot write into the folder '{self.path('none')}': No such file"),
                       ("/proc/x", "cannot write into the folder '/proc'"),
                       (self.path("n" * 300), "File name too long")):
      if path == "/proc/x" and os.access("/proc", os.W_OK):
        continue
      self.refused(2, "train", SOFTMAX, "--steps", LONG, "--summary", path, path=path, says=says)
      self.refused(2, "evaluate", SOFTMAX, "--checkpoint", "x", "--summary", path, path=path,
                   says=says)

  def test_a_link_to_a_file_is_followed(self):
    link = self.path("link")
    os.symlink(self.file, link)
    self.train(SOFTMAX, "--steps", 2, name="link")
    self.assertTrue(os.path.islink(link))
    self.assertEqual(self.read_json(self.file)["steps"], 2)

  def test_only_a_summary_is_replaced(self):
    program = self.path("program")
    shutil.copy("/bin/true", program)
    notes = self.path("notes.json")
    with open(notes, "w", encoding="utf-8") as file:
      file.write('{"notes": 1}')
    self.before = sorted(os.listdir(self.folder))
    content = self.tree_of_files()
    for path in (program, notes):
      for command in (("train", SOFTMAX, "--steps", LONG),
                      ("evaluate", SOFTMAX, "--checkpoint", "x")):
        self.refused(2, *command, "--summary", path, path=path,
                     says="is there, and is no summary of an earlier run")
    self.assertEqual(self.tree_of_files(), content)
    self.assertTrue(os.access(program, os.X_OK))
    self.train(SOFTMAX, "--steps", 2)
    self.assertEqual(self.train(SOFTMAX, "--steps", 3)["steps"], 3)

  def tree_of_files(self):
    found = {}
    for name in self.before:
      path = self.path(name)
      if os.path.isfile(path):
        with open(path, "rb") as file:
          found[name] = file.read()
    return found

  def test_folders_of_checkpoints(self):
    nowhere = f"is a link to '{self.path('nowhere')}', which is not there"
    for path, says in ((self.loop, "Too many levels of symbolic links"), (self.dangling, nowhere),
                       (os.path.join(self.dangling, "x"), nowhere),
                       (self.fifo, "is a pipe, socket or device, expected a folder"),
                       ("/dev/null", "expected a folder"),
                       (self.file, "is a file, expected a folder"),
                       (os.path.join(self.file, "x"), "is a file, expected a folder"),
                       (self.path("n" * 300), "File name too long"),
                       ("/proc/x", "/proc/x: cannot make the folder"),
                       (self.path("step-00000005"), f"such as {self.folder}")):
      self.refused(2, "train", SOFTMAX, "--steps", LONG, "--checkpoint-dir", path, path=path,
                   says=says)


class OutputOfTheRunTest(ProgramCase):
  """A summary onto something that the run needs."""

  def test_a_summary_onto_a_file_of_the_run(self):
    config = self.path("run.toml")
    shutil.copy(os.path.join(ROOT, SOFTMAX), config)
    link = self.path("link")
    os.symlink(config, link)
    data = self.copy_mnist()
    checkpoints = self.path("checkpoints")
    self.train(config, "--steps", 2, "--checkpoint-dir", checkpoints)
    before = self.tree(self.folder)
    for path, says in ((config, "is the configuration of this run"),
                       (link, "is the configuration of this run"),
                       (os.path.join(data, "t10k-labels-idx1-ubyte.gz"), "data file of this run"),
                       # Another run would find it before the compressed file.
                       (os.path.join(data, "t10k-labels-idx1-ubyte"), "data file of this run"),
                       (os.path.join(checkpoints, "latest"), "a file of a checkpoint"),
                       (os.path.join(checkpoints, "step-00000002", "manifest.json"),
                        "a file of a checkpoint"), (checkpoints, "is a directory")):
      for command in (("train", config, "--resume", "--checkpoint-dir", checkpoints),
                      ("evaluate", config, "--checkpoint", checkpoints)):
        message = self.error(2, *command, "--set", f"data.path='{data}'", "--summary", path)
        self.assertIn(f"{path}: ", message)
        self.assertIn(says, message)
        self.assertEqual(self.tree(self.folder), before)

  def test_a_summary_onto_standard_output(self):
    path = self.path("output")
    for stream in ("/dev/stdout", path):
      with open(path, "w", encoding="utf-8") as file:
        done = subprocess.run(self.command("train", SOFTMAX, "--steps", LONG, "--summary", stream),
                              cwd=ROOT, env=self.environment(), stdout=file, stderr=subprocess.PIPE,
                              text=True, timeout=DEADLINE_SECONDS, check=False)
      self.assertEqual(done.returncode, 2)
      self.assertIn(f"{stream}: is where this program's messages go", done.stderr)


class CheckpointFolderTest(ProgramCase):
  """A run replaces and removes nothing that it did not write."""

  def setUp(self):
    super().setUp()
    self.checkpoints = self.path("checkpoints")

  def refused(self, *args, says, folder=None):
    before = self.tree(self.checkpoints)
    message = self.error(2, "train", SOFTMAX, "--steps", LONG, "--checkpoint-dir",
                         folder or self.checkpoints, *args)
    self.assertIn(says, message)
    self.assertEqual(self.tree(self.checkpoints), before)

  def test_a_folder_of_somebody_else(self):
    mine = os.path.join(self.checkpoints, "step-00000005")
    os.makedirs(mine)
    with open(os.path.join(mine, "notes.txt"), "w", encoding="utf-8") as file:
      file.write("mine")
    self.refused(says=f"{mine} is there, and is no checkpoint of this run")

  def test_a_single_checkpoint(self):
    self.train(SOFTMAX, "--steps", 2, "--checkpoint-dir", self.checkpoints)
    single = os.path.join(self.checkpoints, "step-00000002")
    for args in ((), ("--resume",)):
      self.refused(*args, folder=single, says=f"the folder that holds them, such as "
                   f"{self.checkpoints}")

  def test_a_newer_checkpoint_is_not_replaced(self):
    args = (SOFTMAX, "--checkpoint-dir", self.checkpoints)
    self.train(*args, "--steps", 2)
    self.train(*args, "--steps", 4, "--resume")
    with open(os.path.join(self.checkpoints, "latest"), "w", encoding="utf-8") as file:
      file.write("step-00000002\n")
    self.refused("--resume", says="step-00000004 is newer than ")

  def test_two_runs_at_once(self):
    command = self.command("train", SOFTMAX, "--steps", LONG, "--set", "train.log_every_steps=1",
                           "--checkpoint-dir", self.checkpoints)
    with subprocess.Popen(command, cwd=ROOT, env=self.environment(), stdout=subprocess.PIPE,
                          text=True) as first:
      try:
        self.assertIn("step 1/", first.stdout.readline())
        for args in ((), ("--resume",)):
          self.refused(*args, says=f"{self.checkpoints}: another run")
      finally:
        first.kill()
    self.train(SOFTMAX, "--steps", 2, "--checkpoint-dir", self.checkpoints)


class SharedSummaryTest(ProgramCase):

  def test_two_runs_at_once(self):
    checkpoints = self.path("checkpoints")
    self.train(SOFTMAX, "--steps", 2, "--checkpoint-dir", checkpoints)
    path = self.path("shared.json")
    command = self.command("train", SOFTMAX, "--steps", LONG, "--set", "train.log_every_steps=1",
                           "--summary", path)
    with subprocess.Popen(command, cwd=ROOT, env=self.environment(), stdout=subprocess.PIPE,
                          text=True) as first:
      try:
        self.assertIn("step 1/", first.stdout.readline())
        for args in (("train", SOFTMAX, "--steps", LONG),
                     ("evaluate", SOFTMAX, "--checkpoint", checkpoints)):
          message = self.error(2, *args, "--summary", path)
          self.assertIn(f"{path}: another run", message)
          self.assertIn("writes its summary to this file", message)
      finally:
        first.kill()
    self.assertFalse(os.path.exists(path))
    self.train(SOFTMAX, "--steps", 2, name="shared.json")
    self.assertEqual(sorted(os.listdir(self.folder)),
                     ["checkpoints", "shared.json", "summary.json"])


def mounts():
  """Whether this user can mount a disk of his own."""
  return subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                        capture_output=True, check=False).returncode == 0


@unittest.skipUnless(shutil.which("unshare") and mounts(), "no right to mount a disk")
class DiskTest(ProgramCase):
  """Disks that are full, have no name left for a file, or are read-only."""

  SCRIPT = '''mount -t tmpfs -o "$1" tmpfs "$2" && cd "$2" && eval "$3" || exit 99
              cd "$4"; shift 4; "$@"'''

  def on_disk(self, code, *args, options="size=64k", prepare="true"):
    disk = self.path("disk")
    os.makedirs(disk, exist_ok=True)
    done = subprocess.run(["unshare", "-rm", "sh", "-c", self.SCRIPT, "sh", options, disk, prepare,
                           ROOT, *self.command("train", SOFTMAX, *args)],
                          cwd=ROOT, env=self.environment(), capture_output=True, text=True,
                          timeout=DEADLINE_SECONDS, check=False)
    self.assertEqual(done.returncode, code, done.stderr)
    self.assertRegex(done.stderr, r"\Alockstep: [^\n]+\n\Z")
    return done.stderr

  def test_what_is_known_before_the_work(self):
    disk = self.path("disk")
    summary = ("--steps", LONG, "--summary", os.path.join(disk, "s.json"))
    checkpoint = ("--steps", LONG, "--checkpoint-dir", os.path.join(disk, "new"))
    fill = "dd if=/dev/zero of=fill bs=4k count=100 2>/dev/null || true"
    read_only = f"mount -o remount,ro {disk}"
    self.assertIn("a summary takes ", self.on_disk(1, *summary, prepare=fill))
    self.assertIn("a checkpoint takes ", self.on_disk(1, *checkpoint, options="size=16k"))
    for args in (summary, checkpoint):
      self.assertIn("No space left on device", self.on_disk(1, *args, options="nr_inodes=1"))
      self.assertIn("Read-only file system", self.on_disk(2, *args, prepare=read_only))

  def test_messages_onto_a_full_disk(self):
    onto = "dd if=/dev/zero of=fill bs=4k count=100 2>/dev/null || exec >>fill"
    self.assertIn("standard output: cannot write: No space left on device",
                  self.on_disk(1, "--steps", 2, prepare=onto))


class InputTest(OddPathCase):

  def test_configurations(self):
    for path, says in ((self.loop, "Too many levels of symbolic links"),
                       (self.dangling, "No such file or directory"),
                       (self.fifo, "is a pipe, socket or device, expected a regular file"),
                       ("/dev/null", "is a pipe, socket or device"),
                       (self.folder, "is a directory, expected a regular file"),
                       (self.file, "missing key 'model.name'"),
                       (self.path("n" * 300), "File name too long"),
                       (self.path("n/" * 3000), "File name too long")):
      self.refused(2, "train", path, path=path, says=says)

  def test_data(self):
    for path, says in ((self.loop, "Too many levels of symbolic links"),
                       (self.dangling, "No such file or directory"),
                       (self.fifo, "not a folder, expected one with IDX files"),
                       ("/dev/null", "not a folder"), (self.file, "not a folder"),
                       (self.folder, "none of the files")):
      self.refused(4, "train", SOFTMAX, "--set", f"data.path='{path}'", path=path, says=says)

  def test_data_files(self):
    folder = self.copy_mnist()
    self.before = sorted(os.listdir(self.folder))
    images = os.path.join(folder, "t10k-images-idx3-ubyte.gz")
    for target, says in ((images, "Too many levels of symbolic links"),
                         (self.fifo, "is a pipe, socket or device"), ("/dev/null", "is a pipe"),
                         (self.folder, "is a directory")):
      os.remove(images)
      os.symlink(target, images)
      self.refused(4, "train", SOFTMAX, "--set", f"data.path='{folder}'", path=images, says=says)

  def test_checkpoints(self):
    for path, says in ((self.loop, "Too many levels of symbolic links"),
                       (self.dangling, "which is not there"),
                       (self.path("none"), "No such file or directory"),
                       (self.fifo, "is a pipe, socket or device, expected a folder"),
                       ("/dev/null", "expected a folder"),
                       (self.file, "is a file, expected a folder"),
                       (self.folder, "no checkpoint")):
      # What is no folder is a wrong argument, a folder without a checkpoint is the wrong data.
      code = 4 if path == self.folder else 2
      self.refused(code, "evaluate", SOFTMAX, "--checkpoint", path, path=path, says=says)
      self.refused(code, "predict", SOFTMAX, "--checkpoint", path, self.file, path=path, says=says)

  def test_inputs(self):
    for path, says in ((self.loop, "Too many levels of symbolic links"),
                       (self.dangling, "No such file or directory"),
                       (self.path("none"), "No such file or directory"),
                       (self.fifo, "is a pipe, socket or device, expected a regular file"),
                       (self.folder, "is a directory, expected a regular file")):
      self.refused(2, "predict", SOFTMAX, "--checkpoint", self.folder, self.file, path, path=path,
                   says=says)


if __name__ == "__main__":
  main()
