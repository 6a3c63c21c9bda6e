"""lockstep checkpoint: models that were trained apart become one."""

import array
import json
import os
import struct

from program_case import CNN, SOFTMAX, ProgramCase, main


class MergeTest(ProgramCase):

  def trained(self, name, *args, config=SOFTMAX):
    folder = self.path(name)
    self.run_program("train", config, "--quiet", "--steps", 20, "--checkpoint-dir", folder, *args)
    return folder

  def variables(self, folder):
    """Name to numbers of the newest checkpoint's file, read by the rules of safetensors."""
    found = {}
    step = self.checkpoint_file(folder, "")
    for name in sorted(os.listdir(step)):
      if name.endswith(".safetensors"):
        with open(os.path.join(step, name), "rb") as file:
          content = file.read()
        size = struct.unpack_from("<Q", content)[0]
        header = json.loads(content[8:8 + size])
        for variable, entry in header.items():
          if variable != "__metadata__":
            begin, end = entry["data_offsets"]
            found[variable] = array.array("f", content[8 + size + begin:8 + size + end])
    return found

  def test_is_the_weighted_average_and_can_be_evaluated(self):
    one = self.trained("one", "--seed", 1, "--strategy", "one_device")
    two = self.trained("two", "--seed", 2)
    out = self.path("out")
    done = self.run_program("checkpoint", "merge", "--weights", "1,3", one, two, "-o", out)
    self.assertEqual(done.stdout, self.checkpoint_file(out, "")[:-1] + "\n")
    first, second, merged = (self.variables(folder) for folder in (one, two, out))
    self.assertEqual(set(merged), {name for name in first if "momentum" not in name})
    for name, values in merged.items():
      for a, b, m in zip(first[name], second[name], values):
        self.assertAlmostEqual(m, (a + 3 * b) / 4, delta=1e-6)
    report = self.path("report.json")
    self.run_program("evaluate", SOFTMAX, "--checkpoint", out, "--quiet", "--seed", 1,
                     "--summary", report)
    self.assertGreater(self.read_json(report)["test_accuracy"], 0.7)

  def test_without_weights_all_count_the_same(self):
    one = self.trained("one")
    out = self.path("out")
    self.run_program("checkpoint", "merge", one, one, one, "--output", out)
    self.assertEqual(self.variables(out), self.variables(one))

  def test_what_does_not_go_together_is_refused_and_nothing_is_left(self):
    one = self.trained("one")
    other = self.trained("other", "--set", "train.global_batch=8", config=CNN)
    out = self.path("out")

    def refused(code, *args):
      message = self.error(code, "checkpoint", "merge", *args, "-o", out)
      self.assertFalse(os.path.exists(out), args)
      return message

    self.assertIn("another model", refused(4, one, other))
    self.assertIn("3 numbers for 2 checkpoints", refused(2, "--weights", "1,2,3", one, one))
    self.assertIn("the weight -1", refused(2, "--weights", "-1,2", one, one))
    self.assertIn("add up to 0", refused(2, "--weights", "0,0", one, one))
    self.assertIn("--weights", refused(2, "--weights", "1,x", one, one))
    self.assertIn(self.path("none"), refused(4, one, self.path("none")))
    before = self.tree(one)
    self.assertIn("one", self.error(2, "checkpoint", "merge", one, "-o", one))
    self.assertEqual(self.tree(one), before)


if __name__ == "__main__":
  main()
