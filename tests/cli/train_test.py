"""Commands that do their work: train, interrupted and resumed, evaluate, predict, bench, lists."""

import json
import os
import re
import shutil
import struct

from program_case import (CNN, ROOT, SHA256, SOFTMAX, ProgramCase, main,
                          test_labels)

SUMMARY_KEYS = {
    "model", "strategy", "workers", "ps", "devices", "replicas", "global_batch", "steps", "epochs",
    "examples", "final_loss", "train_accuracy", "test_accuracy", "examples_per_second",
    "step_ms_p50", "step_ms_p95", "first_step_seconds", "wall_seconds", "peak_rss_bytes",
    "params_sha256", "state_sha256", "restarts"
}


class TrainTest(ProgramCase):

  def test_the_summary_has_every_key(self):
    path = self.path("summary.json")
    done = self.run_program("train", SOFTMAX, "--steps", 85, "--summary", path)
    summary = self.read_json(path)
    self.assertEqual(set(summary), SUMMARY_KEYS)
    expected = {
        "model": "softmax_regression", "strategy": "one_device", "workers": 1, "ps": 0,
        "devices": 1, "replicas": 1, "global_batch": 100, "steps": 85, "epochs": 2,
        "examples": 8500, "restarts": 0
    }
    self.assertEqual({key: summary[key] for key in expected}, expected)
    self.assertRegex(summary["params_sha256"], SHA256)
    self.assertRegex(summary["state_sha256"], SHA256)
    self.assertNotEqual(summary["params_sha256"], summary["state_sha256"])
    for key in ("train_accuracy", "test_accuracy"):
      self.assertGreater(summary[key], 0.5)
      self.assertLessEqual(summary[key], 1)
    for key in ("final_loss", "examples_per_second", "step_ms_p50", "first_step_seconds"):
      self.assertGreater(summary[key], 0)
    self.assertLessEqual(summary["step_ms_p50"], summary["step_ms_p95"])
    self.assertGreater(summary["peak_rss_bytes"], 1 << 20)
    self.assertIn(f"test accuracy {summary['test_accuracy']:.4f}\n", done.stdout)
    self.assertIn(f"params_sha256 {summary['params_sha256']}\n", done.stdout)
    self.assertIn("epoch 1", done.stdout)
    self.assertNotIn("\r", done.stdout)

  def test_the_same_bits_run_after_run(self):
    one = self.train(SOFTMAX, "--steps", 50)
    two = self.train(SOFTMAX, "--steps", 50)
    for key in ("params_sha256", "state_sha256", "final_loss", "test_accuracy"):
      self.assertEqual(one[key], two[key])
    self.assertNotEqual(one["params_sha256"],
                        self.train(SOFTMAX, "--steps", 50, "--seed", 1)["params_sha256"])

  def test_the_same_bits_with_one_device_and_two(self):
    one = self.train(CNN, "--steps", 4, "--devices", "cpu:1")
    two = self.train(CNN, "--steps", 4, "--devices", "cpu:2")
    self.assertEqual((one["devices"], one["replicas"], one["strategy"]), (1, 2, "one_device"))
    self.assertEqual((two["devices"], two["replicas"], two["strategy"]), (2, 2, "mirrored"))
    self.assertEqual(one["state_sha256"], two["state_sha256"])
    other = self.train(CNN, "--steps", 4, "--replicas", 4, "--devices", "cpu:2")
    self.assertEqual(other["replicas"], 4)
    self.assertNotEqual(one["params_sha256"], other["params_sha256"])

  def test_flags_win_over_the_file_and_over_each_other(self):
    summary = self.train(SOFTMAX, "--set", "train.steps=3", "--set", "train.global_batch=50",
                         "--set", "train.steps=4", "--set", "optimizer.name=momentum")
    self.assertEqual((summary["steps"], summary["global_batch"]), (4, 50))
    # The file has a number of steps, which the flag replaces.
    self.assertEqual(self.train(SOFTMAX, "--epochs", 1)["steps"], 80)
    two = self.train(SOFTMAX, "--steps", 2, "--seed", 2)["params_sha256"]
    for order in (("--set", "train.seed=1", "--seed", 2), ("--seed", 1, "--set", "train.seed=2"),
                  ("--seed", 1, "--seed", 2)):
      self.assertEqual(self.train(SOFTMAX, "--steps", 2, *order)["params_sha256"], two)

  def test_quiet_says_nothing(self):
    done = self.run_program("train", SOFTMAX, "--steps", 2, "--quiet")
    self.assertEqual(done.stdout, "")

  def test_a_batch_larger_than_the_data_is_the_data(self):
    summary = self.train(SOFTMAX, "--steps", 2, "--set", "train.global_batch=2000000000")
    self.assertEqual(summary["examples"], 16000)

  def test_gradient_accumulation_sees_every_sample(self):
    summary = self.train(SOFTMAX, "--epochs", 1, "--set", "train.gradient_accumulation=3")
    self.assertEqual(summary["examples"], 8000)
    self.assertGreater(summary["test_accuracy"], 0.7)


class ResumeTest(ProgramCase):
  # Momentum and a schedule: slots, the order of samples and the step all have to come back.
  ARGS = ("examples/configs/mnist_mlp.toml", "--set",
          "model.hidden=[8]", "--set", "optimizer.schedule.name=cosine", "--set",
          "optimizer.schedule.decay_steps=300")

  def test_going_on_equals_no_interruption(self):
    whole = self.train(*self.ARGS, "--steps", 200)
    checkpoints = self.path("checkpoints")
    first = self.train(*self.ARGS, "--steps", 70, "--checkpoint-dir", checkpoints)
    self.assertNotEqual(first["state_sha256"], whole["state_sha256"])
    rest = self.train(*self.ARGS, "--steps", 200, "--checkpoint-dir", checkpoints, "--resume")
    self.assertEqual(rest["steps"], 130)
    self.assertEqual(rest["state_sha256"], whole["state_sha256"])
    self.assertEqual(rest["test_accuracy"], whole["test_accuracy"])

  def test_going_on_with_more_devices_equals_no_interruption(self):
    args = (*self.ARGS, "--replicas", 4)
    whole = self.train(*args, "--steps", 9)
    checkpoints = self.path("checkpoints")
    self.train(*args, "--steps", 4, "--devices", "cpu:3", "--checkpoint-dir", checkpoints)
    rest = self.train(*args, "--steps", 9, "--devices", "cpu:2", "--checkpoint-dir", checkpoints,
                      "--resume")
    self.assertEqual(rest["state_sha256"], whole["state_sha256"])

  def test_a_run_that_is_done_stays_as_it_is(self):
    checkpoints = self.path("checkpoints")
    args = (*self.ARGS, "--steps", 5, "--checkpoint-dir", checkpoints)
    first = self.train(*args)
    before = sorted(os.listdir(checkpoints))
    done = self.run_program("train", *args, "--resume")
    self.assertIn("nothing left to do: 5 steps were done before", done.stdout)
    self.assertNotIn("nan", done.stdout)
    again = self.train(*args, "--resume")
    self.assertEqual(again["steps"], 0)
    self.assertIsNone(again["final_loss"])
    self.assertEqual(again["state_sha256"], first["state_sha256"])
    self.assertEqual(sorted(os.listdir(checkpoints)), before)

  def test_another_program_does_not_go_on(self):
    checkpoints = self.path("checkpoints")
    args = ("--checkpoint-dir", checkpoints)
    self.train(SOFTMAX, "--steps", 2, *args)
    before = self.tree(checkpoints)
    resume = ("train", SOFTMAX, "--steps", 4, "--resume", *args)

    def refused(*more):
      message = self.error(4, *resume, *more)
      self.assertIn("is of a run with other settings", message)
      self.assertEqual(self.tree(checkpoints), before)
      return message

    self.assertIn("train.seed is 0 in the checkpoint, 1 in this run", refused("--seed", 1))
    self.assertIn("train.global_batch is 100 in the checkpoint, 50 in this run",
                  refused("--set", "train.global_batch=50"))
    self.assertIn("train.replicas * train.gradient_accumulation is 1 in the checkpoint, 2",
                  refused("--replicas", 2))
    for setting in ("optimizer.name=momentum", "optimizer.learning_rate=0.25", "data.shuffle=false",
                    "train.precision=bf16", "train.label_smoothing=0.1", "train.clip_norm=1",
                    "optimizer.l2=0.1", "optimizer.schedule.warmup_steps=3"):
      self.assertIn(setting.split("=")[0] + " is ", refused("--set", setting))
    other = ("train", "examples/configs/mnist_mlp.toml", "--steps", 4, "--resume", *args)
    self.assertIn("model.name is \"softmax_regression\" in the checkpoint, \"mlp\" in this run",
                  self.error(4, *other))

  def test_a_schedule_as_long_as_the_run_is_explained(self):
    checkpoints = self.path("checkpoints")
    args = (SOFTMAX, "--set", "optimizer.schedule.name=cosine", "--checkpoint-dir", checkpoints)
    self.train(*args, "--steps", 2)
    message = self.error(4, "train", *args, "--steps", 4, "--resume")
    self.assertIn("optimizer.schedule.decay_steps is 2 in the checkpoint, 4 in this run, where "
                  "nobody gave it: the schedule is as long as the run", message)
    given = self.error(4, "train", *args, "--steps", 4, "--resume", "--set",
                       "optimizer.schedule.decay_steps=5")
    self.assertIn("2 in the checkpoint, 5 in this run", given)
    self.assertNotIn("nobody", given)

  def test_other_data_does_not_go_on(self):
    checkpoints = self.path("checkpoints")
    folder = self.copy_mnist()
    args = (SOFTMAX, "--set", f"data.path={folder}", "--checkpoint-dir", checkpoints)
    self.train(*args, "--steps", 2)
    moved = self.path("moved")
    os.rename(folder, moved)
    args = (SOFTMAX, "--set", f"data.path={moved}", "--checkpoint-dir", checkpoints, "--resume")
    self.train(*args, "--steps", 3)
    for name, size in (("train-images-idx3-ubyte", 784), ("train-labels-idx1-ubyte", 1)):
      self.write_idx(os.path.join(moved, name + ".gz"),
                     lambda content, size=size: content[:7900 * size])
    message = self.error(4, "train", *args, "--steps", 4)
    self.assertIn("training samples is 8000 in the checkpoint, 7900 in this run", message)
    self.assertIn("SHA-256 of the training data is ", message)

  def test_more_threads_go_on_with_a_warning(self):
    checkpoints = self.path("checkpoints")
    args = (SOFTMAX, "--quiet", "--checkpoint-dir", checkpoints)
    self.train(*args[:1], "--steps", 2, *args[2:])
    self.run_program("train", *args, "--steps", 4, "--resume", "--threads-per-device", 2,
                     warning="--threads-per-device is 1 in the checkpoint, 2 in this run: ")

  def test_a_new_run_does_not_mix_with_an_old_one(self):
    checkpoints = self.path("checkpoints")
    self.train(SOFTMAX, "--steps", 5, "--checkpoint-dir", checkpoints)
    before = self.tree(checkpoints)
    for args in (("--checkpoint-dir", checkpoints), ("--set", f"checkpoint.dir={checkpoints}")):
      # Would take for ever.
      message = self.error(2, "train", SOFTMAX, "--steps", 10**9, *args)
      self.assertIn(f"{checkpoints} holds checkpoints of another run already, the newest of step 5",
                    message)
      self.assertIn("--resume", message)
      self.assertEqual(self.tree(checkpoints), before)

  def test_checkpoint_dir_of_the_configuration_is_used(self):
    checkpoints = self.path("checkpoints")
    args = (SOFTMAX, "--set", f"checkpoint.dir={checkpoints}")
    self.train(*args, "--steps", 5)
    self.assertEqual(self.train(*args, "--steps", 7, "--resume")["steps"], 2)


class CheckpointCommandsTest(ProgramCase):

  def setUp(self):
    super().setUp()
    self.checkpoints = self.path("checkpoints")
    self.summary = self.train(SOFTMAX, "--steps", 100, "--checkpoint-dir", self.checkpoints)

  def test_evaluate_measures_what_train_measured(self):
    path = self.path("evaluation.json")
    done = self.run_program("evaluate", SOFTMAX, "--checkpoint", self.checkpoints, "--summary",
                            path)
    evaluation = self.read_json(path)
    self.assertEqual(evaluation["test_accuracy"], self.summary["test_accuracy"])
    self.assertEqual(evaluation["params_sha256"], self.summary["params_sha256"])
    self.assertRegex(
        done.stdout, r"\A2000 samples: loss \d\.\d{4}, accuracy "
        rf"{self.summary['test_accuracy']:.4f}, top-5 accuracy \d\.\d{{4}}\n\Z")
    # The batch of an evaluation changes nothing, nor do devices.
    other = self.run_program("evaluate", SOFTMAX, "--checkpoint", self.checkpoints, "--set",
                             "train.eval_batch=7", "--devices", "cpu:2", "--summary", path)
    self.assertEqual(other.stdout, done.stdout)
    again = self.read_json(path)
    self.assertEqual((evaluation["devices"], again["devices"]), (1, 2))
    self.assertGreater(again["wall_seconds"], 0)

  def test_evaluate_takes_a_single_checkpoint_that_was_moved(self):
    moved = self.path("elsewhere")
    shutil.move(os.path.dirname(self.checkpoint_file(self.checkpoints, "manifest.json")), moved)
    done = self.run_program("evaluate", SOFTMAX, "--checkpoint", moved)
    self.assertIn(f"accuracy {self.summary['test_accuracy']:.4f}", done.stdout)

  def test_predict_prints_a_line_for_each_image(self):
    images = "data/mnist/t10k-images-idx3-ubyte.gz"
    done = self.run_program("predict", SOFTMAX, "--checkpoint", self.checkpoints, images)
    lines = done.stdout.splitlines()
    labels = test_labels()
    self.assertEqual(len(lines), len(labels))
    correct = 0
    for index, (line, label) in enumerate(zip(lines, labels)):
      match = re.fullmatch(rf"{re.escape(images)} {index} (\d) ([01]\.\d{{4}})", line)
      self.assertIsNotNone(match, line)
      self.assertTrue(0.1 <= float(match[2]) <= 1, line)
      correct += int(match[1]) == label
    self.assertAlmostEqual(correct / len(labels), self.summary["test_accuracy"], places=12)

  def predict_error(self, *inputs, code=4):
    done = self.run_program("predict", SOFTMAX, "--checkpoint", self.checkpoints, *inputs,
                            code=code)
    # Nothing is written before all inputs are known to be right.
    self.assertEqual(done.stdout, "")
    return done.stderr

  def test_predict_reads_several_files_and_names_the_bad_one(self):
    images = "data/mnist/t10k-images-idx3-ubyte.gz"
    labels = "data/mnist/t10k-labels-idx1-ubyte.gz"
    message = self.predict_error(images, labels)
    self.assertIn(labels, message)
    self.assertIn("[28, 28, 1]", message)
    self.assertIn("nowhere", self.predict_error(images, self.path("nowhere"), code=2))
    done = self.run_program("predict", SOFTMAX, "--checkpoint", self.checkpoints, images, images)
    self.assertEqual(len(done.stdout.splitlines()), 2 * len(test_labels()))

  def test_predict_refuses_what_it_cannot_classify(self):
    def file_of(kind, dims, content):
      path = self.path("input")
      with open(path, "wb") as file:
        file.write(bytes((0, 0, kind, len(dims))) + struct.pack(f">{len(dims)}I", *dims) + content)
      return path

    self.assertIn("holds no sample", self.predict_error(file_of(8, (0, 28, 28), b"")))
    # As many pixels as a digit has, in another shape.
    self.assertIn("[1, 14, 56]", self.predict_error(file_of(8, (1, 14, 56), bytes(784))))
    self.assertIn("[28, 28]", self.predict_error(file_of(8, (28, 28), bytes(784))))
    values = [0.0] * 1567 + [float("nan")]
    self.assertIn("sample 1 holds nan",
                  self.predict_error(file_of(13, (2, 28, 28), struct.pack(">1568f", *values))))

  def test_predict_takes_samples_in_any_shape_that_is_clear(self):
    pixels = bytes(range(256)) * 3 + bytes(16)
    results = set()
    for dims in ((1, 28, 28), (1, 28, 28, 1), (1, 784)):
      path = self.path("input")
      with open(path, "wb") as file:
        file.write(bytes((0, 0, 8, len(dims))) + struct.pack(f">{len(dims)}I", *dims) + pixels)
      results.add(
          self.run_program("predict", SOFTMAX, "--checkpoint", self.checkpoints, path).stdout)
    self.assertEqual(len(results), 1)

  def test_predict_needs_no_data(self):
    images = "data/mnist/t10k-images-idx3-ubyte.gz"
    args = ("--checkpoint", self.checkpoints, images)
    done = self.run_program("predict", SOFTMAX, *args)
    without = self.run_program("predict", SOFTMAX, "--set", "data.path=/nowhere", *args)
    self.assertEqual(without.stdout, done.stdout)

  def test_a_checkpoint_of_another_model_is_refused(self):
    message = self.error(4, "evaluate", CNN, "--checkpoint", self.checkpoints)
    self.assertIn('model.name is "softmax_regression" in the checkpoint, "mnist_cnn" in this run',
                  message)

  def test_the_same_variables_in_another_model_are_refused(self):
    def layers(activation):
      return ("--set", "model.name=layers", "--set",
              f"model.layers=[{{type='dense', units=8, activation='{activation}'}}, "
              "{type='dense', units=10}]")

    checkpoints = self.path("layers")
    self.train(SOFTMAX, *layers("relu"), "--steps", 2, "--checkpoint-dir", checkpoints)
    for command in (("evaluate", SOFTMAX), ("predict", SOFTMAX, os.path.join(ROOT, SOFTMAX))):
      message = self.error(4, *command, *layers("tanh"), "--checkpoint", checkpoints)
      self.assertIn("model.layers[1] is dense, units 8, activation relu in the checkpoint, dense, "
                    "units 8, activation tanh in this run", message)
    self.run_program("evaluate", SOFTMAX, *layers("relu"), "--checkpoint", checkpoints)

  def test_evaluation_says_where_it_measures_something_else(self):
    config = "examples/configs/resnet20_synthetic.toml"
    small = ("--set", "model.name=softmax_regression", "--set", "data.train_samples=8", "--set",
             "data.test_samples=8")
    checkpoints = self.path("synthetic")
    self.train(config, *small, "--steps", 1, "--checkpoint-dir", checkpoints)
    self.run_program("evaluate", config, *small, "--checkpoint", checkpoints, "--seed", 7,
                     warning="train.seed is 0 in the checkpoint, 7 in this run: another seed makes")


class ListsAndBenchTest(ProgramCase):

  def test_models(self):
    lines = self.run_program("models").stdout.splitlines()
    names = [line.split()[0] for line in lines]
    self.assertEqual(names, sorted(names))
    for name in ("softmax_regression", "mlp", "mnist_cnn", "lenet5", "resnet20", "resnet32",
                 "resnet18", "resnet34", "resnet50"):
      self.assertIn(name, names)

  def test_ops(self):
    lines = self.run_program("ops").stdout.splitlines()
    names = [line.split()[0] for line in lines[1:]]
    self.assertEqual(names, sorted(names))
    for name in ("Conv2D", "MatMul", "Softmax", "BatchNorm", "Relu"):
      self.assertIn(name, names)

  def test_bench_step(self):
    done = self.run_program("bench", "step", "--model", "softmax_regression", "--batch", 8,
                            "--steps", 3, "--warmup", 1, "--optimizer", "adam")
    result = json.loads(done.stdout)
    self.assertEqual((result["model"], result["batch"], result["steps"]),
                     ("softmax_regression", 8, 3))
    self.assertGreater(result["step_ms_median"], 0)
    self.assertGreater(result["first_loss"], result["last_loss"])

  def test_bench_step_describes_its_plan(self):
    done = self.run_program("bench", "step", "--model", "lenet5", "--batch", 2, "--plan")
    self.assertIn("Conv2D", done.stdout)
    self.assertRegex(done.stdout, r"arena \d+ bytes, scratch \d+ bytes, \d+ kernels")

  def test_help_and_version(self):
    self.assertRegex(self.run_program("--version").stdout, r"\Alockstep \d+\.\d+\.\d+\n\Z")
    top = self.run_program("--help").stdout
    for command in ("train", "evaluate", "predict", "bench", "models", "ops"):
      self.assertIn(command, top)
    train = self.run_program("train", "--help").stdout
    for flag in ("--strategy", "--workers", "--ps", "--devices", "--replicas",
                 "--threads-per-device", "--steps", "--epochs", "--seed", "--set", "--logdir",
                 "--checkpoint-dir", "--resume", "--summary", "--quiet"):
      self.assertIn(flag, train)

  def test_help_states_ranges_and_defaults(self):
    def words(*command):
      return " ".join(self.run_program(*command, "--help").stdout.split())

    train = words("train")
    for text in ("N from 1 to 256 (cpu:1)", "1 to 1024 (1)", "1 to 65536 (one per device)",
                 "0 to 2^63 - 1 (0)", "as many as the cluster has (1)", "Parameter servers (0)",
                 "0 to 10^12", "must hold no checkpoint", "[train.replicas]"):
      self.assertIn(text, train)
    step = words("bench", "step")
    for text in ("(mnist_cnn)", "1 to 1048576 (64)", "(fp32)", "1 to 1024 (1)"):
      self.assertIn(text, step)
    self.assertIn("1 to 10000 (5)", words("bench", "transport"))
    self.assertIn("2 to 64 (2)", words("bench", "allreduce"))


if __name__ == "__main__":
  main()
