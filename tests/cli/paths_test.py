"""Odd paths where a file or a folder belongs: links, pipes, devices, folders, very long names."""

import os

from program_case import SOFTMAX, ProgramCase, main

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
                       (self.dangling, "cannot follow the link: No such file or directory"),
                       (self.fifo, "is a pipe, socket or device, expected a regular file"),
                       ("/dev/null", "is a pipe, socket or device"),
                       (self.folder, "is a directory, expected a regular file"),
                       (os.path.join(self.file, "x"), "Not a directory"),
                       (os.path.join(self.path("none"), "x"),
                        f"cannot write into the folder '{self.path('none')}': No such file"),
                       ("/proc/x", "cannot write into the folder '/proc'"),
                       (self.path("n" * 300), "File name too long")):
      if path == "/proc/x" and os.access("/proc", os.W_OK):
        continue
      self.refused(1, "train", SOFTMAX, "--steps", LONG, "--summary", path, path=path, says=says)
      self.refused(1, "evaluate", SOFTMAX, "--checkpoint", "x", "--summary", path, path=path,
                   says=says)

  def test_a_link_to_a_file_is_followed(self):
    link = self.path("link")
    os.symlink(self.file, link)
    self.train(SOFTMAX, "--steps", 2, name="link")
    self.assertTrue(os.path.islink(link))
    self.assertEqual(self.read_json(self.file)["steps"], 2)

  def test_folders_of_checkpoints(self):
    for path, says in ((self.loop, "Too many levels of symbolic links"),
                       (self.dangling, "No such file or directory"),
                       (os.path.join(self.dangling, "x"), "No such file or directory"),
                       (self.fifo, "is not a folder"), ("/dev/null", "is not a folder"),
                       (self.file, "is not a folder"),
                       (os.path.join(self.file, "x"), "is not a folder"),
                       (self.path("n" * 300), "File name too long")):
      self.refused(1, "train", SOFTMAX, "--steps", LONG, "--checkpoint-dir", path, path=path,
                   says=says)


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
                       (self.dangling, "No such file or directory"), (self.fifo, "Not a directory"),
                       ("/dev/null", "Not a directory"), (self.file, "Not a directory"),
                       (self.folder, "no checkpoint")):
      self.refused(4, "evaluate", SOFTMAX, "--checkpoint", path, path=path, says=says)
      self.refused(4, "predict", SOFTMAX, "--checkpoint", path, self.file, path=path, says=says)


if __name__ == "__main__":
  main()
