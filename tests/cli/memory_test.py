"""Memory that is not there: code 1, one line. Not for sanitizers, which end the program."""

from program_case import SOFTMAX, ProgramCase, main

SYNTHETIC = "examples/configs/resnet20_synthetic.toml"


class MemoryTest(ProgramCase):

  def test_memory_that_is_not_there(self):
    # More than any machine has, wherever it is asked for: data, a variable, a buffer of a step.
    for args, says in (
        ((SYNTHETIC, "--set", "model.input_shape=[65536, 32767]", "--set",
          "data.train_samples=1000000", "--set", "model.name=softmax_regression"),
         "data.train_samples = 1000000"),
        ((SOFTMAX, "--set", "model.name=mlp", "--set", "model.hidden=[1, 16777216, 16777216]"),
         "dense3/kernel")):
      message = self.error(1, "train", *args)
      self.assertIn(says, message)
      self.assertIn("bytes", message)


if __name__ == "__main__":
  main()
