"""What training on the digits must reach."""

from program_case import CNN, SOFTMAX, ProgramCase, main


class LearningTest(ProgramCase):

  def test_softmax_regression(self):
    # SGD with a rate of 0.5, 1,000 steps of 100.
    summary = self.train(SOFTMAX)
    self.assertEqual((summary["steps"], summary["examples"]), (1000, 100000))
    self.assertGreaterEqual(summary["test_accuracy"], 0.90)

  def test_convolutions(self):
    # Adam with a rate of 1e-3, 5 epochs in batches of 64.
    summary = self.train(CNN, "--devices", "cpu:2")
    self.assertEqual((summary["steps"], summary["examples"]), (625, 40000))
    self.assertGreaterEqual(summary["test_accuracy"], 0.96)


if __name__ == "__main__":
  main()
