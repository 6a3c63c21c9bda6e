"""Runs that are asked to stop: signals, once and twice, and output that nobody reads any more."""

import os
import signal
import subprocess
import time

from program_case import DEADLINE_SECONDS, ROOT, SOFTMAX, ProgramCase, main

# Longer than StopSignals::kAgain: a second signal is then another one.
AGAIN_SECONDS = 0.5
SYNTHETIC = "examples/configs/resnet20_synthetic.toml"


class InterruptCase(ProgramCase):

  def start(self, *args, ignored=(), config=SOFTMAX):
    """A training run without an end, with one line per step. `ignored`: signals, as nohup does."""

    def ignore():
      for number in ignored:
        signal.signal(number, signal.SIG_IGN)

    command = self.command("train", config, "--steps", 10**9, "--set", "train.log_every_steps=1",
                           *args)
    process = subprocess.Popen(command, cwd=ROOT, env=self.environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, preexec_fn=ignore)
    self.addCleanup(self.end, process)
    return process

  @staticmethod
  def end(process):
    process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
      if stream is not None:
        stream.close()

  def finish(self, process):
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    return process.returncode, out, err


class SignalTest(InterruptCase):

  def test_a_signal_saves_what_was_done(self):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
      checkpoints = self.path(f"checkpoints{number}")
      path = self.path("summary.json")
      process = self.start("--checkpoint-dir", checkpoints, "--summary", path)
      self.assertIn("step 1/", process.stdout.readline())
      process.send_signal(number)
      code, out, err = self.finish(process)
      self.assertEqual((code, err), (5, ""), out)
      self.assertIn(f"checkpoint saved in {checkpoints}", out)
      summary = self.read_json(path)
      steps = summary["steps"]
      self.assertIn(f"interrupted after {steps} step", out)
      self.assertIsNone(summary["test_accuracy"])
      self.assertIsNotNone(summary["train_accuracy"])
      whole = self.train(SOFTMAX, "--steps", steps + 3)
      rest = self.train(SOFTMAX, "--steps", steps + 3, "--checkpoint-dir", checkpoints, "--resume")
      self.assertEqual(rest["steps"], 3)
      self.assertEqual(rest["state_sha256"], whole["state_sha256"])

  def test_a_signal_before_the_first_step_is_not_waited_for(self):
    # A minute of making data up, of which each class takes its part: little memory until then.
    checkpoints = self.path("new", "checkpoints")
    process = self.start("--set", "model.name=softmax_regression", "--set",
                         "model.input_shape=[1048576]",
                         "--set", "model.num_classes=2000", "--set", "data.train_samples=1500",
                         "--checkpoint-dir", checkpoints, config=SYNTHETIC)
    self.wait_for_work(process)
    process.send_signal(signal.SIGTERM)
    start = time.monotonic()
    code, out, err = self.finish(process)
    self.assertEqual((code, err), (5, ""), out)
    self.assertIn("interrupted before the first step", out)
    self.assertLess(time.monotonic() - start, DEADLINE_SECONDS / 4)
    self.assertEqual(os.listdir(self.folder), [])

  def test_without_a_folder_nothing_is_saved_and_it_says_so(self):
    process = self.start()
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    code, out, err = self.finish(process)
    self.assertEqual((code, err), (5, ""), out)
    self.assertIn("nothing saved, as there is no --checkpoint-dir", out)

  def test_signals_at_the_same_time_are_one_request(self):
    # `timeout` signals its child and then the group.
    process = self.start("--checkpoint-dir", self.path("checkpoints"))
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    code, out, err = self.finish(process)
    self.assertEqual((code, err), (5, ""), out)

  def test_an_ignored_signal_stays_ignored(self):
    process = self.start(ignored=(signal.SIGINT, signal.SIGHUP))
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGHUP)
    # More steps than the pipe holds: they were done after the signals.
    for _ in range(5000):
      self.assertRegex(process.stdout.readline(), r"\Aepoch ")
    self.assertIsNone(process.poll())
    process.send_signal(signal.SIGTERM)
    code, _, err = self.finish(process)
    self.assertEqual((code, err), (5, ""))

  def test_a_second_signal_ends_a_long_step_at_once(self):
    # One step is minutes of work: two convolutions of 27 x 27, 64 to 64 channels, 500 samples.
    layers = ", ".join(["{type = 'conv2d', filters = 64, kernel = 27}"] * 2 +
                       ["{type = 'global_avg_pool'}", "{type = 'dense', units = 10}"])
    for first, second in ((signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT),
                          (signal.SIGINT, signal.SIGTERM)):
      process = self.start("--set", "model.name=layers", "--set", f"model.layers=[{layers}]",
                           "--set", "train.global_batch=500")
      self.wait_for_work(process)
      process.send_signal(first)
      time.sleep(AGAIN_SECONDS)
      self.assertIsNone(process.poll(), "the first signal waits for the end of the step")
      process.send_signal(second)
      code, _, _ = self.finish(process)
      self.assertEqual(code, -second)

  def wait_for_work(self, process):
    """Until it has used two seconds of a processor: much more than the start takes."""
    ticks = 2 * os.sysconf("SC_CLK_TCK")
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
      with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
      if int(fields[11]) >= ticks:
        return
      time.sleep(0.05)
    self.fail("it does not work")


class BrokenPipeTest(InterruptCase):

  def test_output_that_nobody_reads_ends_the_run_and_saves_it(self):
    checkpoints = self.path("checkpoints")
    process = self.start("--checkpoint-dir", checkpoints)
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    code, _, err = self.finish(process)
    self.assertEqual(code, 5, err)
    self.assertEqual(err, "lockstep: standard output: cannot write: Broken pipe\n")
    self.assertTrue(os.path.exists(os.path.join(checkpoints, "latest")))

  def test_a_quiet_run_needs_no_reader(self):
    read, write = os.pipe()
    os.close(read)
    try:
      done = subprocess.run(self.command("train", SOFTMAX, "--steps", 20, "--quiet"), cwd=ROOT,
                            env=self.environment(), stdout=write, stderr=subprocess.PIPE, text=True,
                            timeout=DEADLINE_SECONDS, check=False)
    finally:
      os.close(write)
    self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
  main()
