"""Bad flags, configurations and files: the exit code, one clear line, and nothing half-written."""

import gzip
import os
import shutil
import subprocess

from program_case import CNN, DEADLINE_SECONDS, ROOT, SOFTMAX, ProgramCase, main


class UsageTest(ProgramCase):
  """Exit code 2."""

  def usage(self, *args, env=None):
    return self.error(2, *args, env=env)

  def test_commands(self):
    self.assertIn("train, evaluate, predict", self.usage())
    message = self.usage("trian", SOFTMAX)
    self.assertIn("unknown command 'trian', did you mean 'train'?: allowed are", message)
    self.assertIn("step", self.usage("bench"))
    self.assertIn("unknown command 'stp'", self.usage("bench", "stp"))

  def test_arguments(self):
    self.assertIn("CONFIG", self.usage("train"))
    self.assertIn("--frequency", self.usage("train", SOFTMAX, "--frequency", 3))
    self.assertIn("surplus.toml", self.usage("train", SOFTMAX, "surplus.toml"))
    self.assertIn("--checkpoint", self.usage("evaluate", SOFTMAX))
    self.assertIn("INPUT", self.usage("predict", SOFTMAX, "--checkpoint", "x"))
    self.assertIn("--steps", self.usage("train", SOFTMAX, "--steps"))
    self.assertIn("--threads-per-device", self.usage("train", SOFTMAX, "--threads-per-device", 0))

  def test_configurations(self):
    self.assertIn("nowhere.toml", self.usage("train", "nowhere.toml"))
    self.assertIn("examples: ", self.usage("train", "examples"))
    path = self.path("broken.toml")
    with open(path, "w", encoding="utf-8") as file:
      file.write("[model]\nname = 'mlp\n")
    self.assertIn(f"{path}:2:", self.usage("train", path))
    with open(os.path.join(ROOT, SOFTMAX), encoding="utf-8") as file:
      text = file.read()
    with open(path, "w", encoding="utf-8") as file:
      file.write(text.replace("learning_rate", "lerning_rate"))
    message = self.usage("train", path)
    self.assertIn(f"{path}:15:1: unknown key 'optimizer.lerning_rate'", message)
    self.assertIn("did you mean 'learning_rate'?", message)

  def test_settings(self):
    def setting(value):
      return self.usage("train", SOFTMAX, "--set", value)

    self.assertIn("unknown key 'train.stepz', did you mean 'steps'?", setting("train.stepz=3"))
    self.assertIn("expected section.key=value", setting("train.steps"))
    self.assertIn("section.key", setting("steps=3"))
    self.assertIn("'three'", setting("train.steps=three"))
    self.assertIn("--steps -1", self.usage("train", SOFTMAX, "--steps", -1))
    self.assertIn("would never end", self.usage("train", SOFTMAX, "--steps", 0))
    self.assertIn("would never end", self.usage("train", SOFTMAX, "--epochs", 0))
    self.assertIn("softmax_regression", setting("model.name=softmax"))
    self.assertIn("model.num_classes is 9", setting("model.num_classes=9"))
    self.assertIn("model.input_shape is [28, 28]", setting("model.input_shape=[28,28]"))
    self.assertIn("nan", setting("optimizer.learning_rate=nan"))

  def test_models_that_cannot_be_built(self):
    message = self.usage("train", "examples/configs/resnet18_synthetic.toml", "--set",
                         "model.input_shape=[10]")
    self.assertIn("model 'resnet18'", message)

  def test_devices(self):
    for devices in ("gpu:1", "cpu", "cpu:", "cpu:0", "cpu:-1", "cpu:1.5", "cpu:257", "cpu:2x",
                    "cpu:99999999999999999999", "2"):
      message = self.usage("train", SOFTMAX, "--devices", devices)
      self.assertIn(f"--devices '{devices}': expected cpu:N", message)
    self.assertIn("3 devices for 2 logical replicas",
                  self.usage("train", CNN, "--devices", "cpu:3"))
    self.assertIn("asks for 2",
                  self.usage("train", CNN, "--devices", "cpu:2", "--strategy", "one_device"))

  def test_what_is_not_there_yet_is_refused_by_name(self):
    def refused(*args, env=None):
      message = self.usage("train", SOFTMAX, *args, env=env)
      self.assertIn("not available in this version", message)
      return message

    self.assertIn("--workers 2", refused("--workers", 2))
    self.assertIn("--ps 1", refused("--ps", 1))
    self.assertIn("--logdir", refused("--logdir", self.path("logs")))
    for strategy in ("local_sgd", "parameter_server", "multi_worker_mirrored", "central_storage"):
      self.assertIn(f"--strategy {strategy}", refused("--strategy", strategy))
    self.assertIn("TF_CONFIG", refused(env={"TF_CONFIG": "{}"}))
    self.assertIn("cluster.mode", refused("--set", "cluster.mode=async"))
    self.assertIn("cluster.max_restarts", refused("--set", "cluster.max_restarts=1"))
    self.assertIn("checkpoint.every_steps", refused("--set", "checkpoint.every_steps=5"))
    self.assertFalse(os.path.exists(self.path("logs")))
    self.assertIn("no strategy 'magic'", self.usage("train", SOFTMAX, "--strategy", "magic"))

  def test_resume_needs_a_folder(self):
    self.assertIn("--checkpoint-dir", self.usage("train", SOFTMAX, "--resume"))

  def test_bench(self):
    self.assertIn("did you mean 'mnist_cnn'?", self.usage("bench", "step", "--model", "mnist_cn"))
    self.assertIn("'sdg'", self.usage("bench", "step", "--optimizer", "sdg"))
    self.assertIn("--batch", self.usage("bench", "step", "--batch", 0))
    self.assertIn("--precision", self.usage("bench", "step", "--precision", "fp8"))


class DataTest(ProgramCase):
  """Exit code 4."""

  def data_error(self, folder):
    return self.error(4, "train", SOFTMAX, "--set", f"data.path='{folder}'")

  def test_a_missing_folder(self):
    folder = self.path("nowhere")
    self.assertIn(folder, self.data_error(folder))

  def test_a_missing_file(self):
    folder = self.copy_mnist()
    os.remove(os.path.join(folder, "t10k-labels-idx1-ubyte.gz"))
    self.assertIn("t10k-labels-idx1-ubyte", self.data_error(folder))

  def test_truncated_and_damaged_files(self):
    folder = self.copy_mnist()
    packed = os.path.join(folder, "train-images-idx3-ubyte.gz")
    with gzip.open(packed, "rb") as file:
      content = file.read()
    with open(packed, "rb") as file:
      compressed = file.read()
    plain = packed[:-len(".gz")]

    def error_of(path, data):
      os.remove(packed if os.path.exists(packed) else plain)
      with open(path, "wb") as file:
        file.write(data)
      message = self.data_error(folder)
      self.assertIn(path, message)
      return message

    self.assertIn("6272015", error_of(plain, content[:-1]))
    error_of(plain, content + b"\0")
    error_of(plain, content[:10])
    error_of(plain, b"")
    # A count that would need 3 TB.
    error_of(plain, content[:4] + b"\xff\xff\xff\xff" + content[8:])
    error_of(plain, b"\x00\x00\x07\x03" + content[4:])
    os.rename(plain, packed)
    error_of(packed, compressed[:-1000])
    error_of(packed, compressed[:5000] + b"\xff" * 8 + compressed[5008:])

  def test_labels_that_do_not_fit(self):
    folder = self.copy_mnist()
    path = os.path.join(folder, "train-labels-idx1-ubyte.gz")
    with gzip.open(path, "rb") as file:
      content = file.read()
    with gzip.open(path, "wb") as file:
      file.write(content[:-1] + b"\x0a")
    self.assertIn("10", self.data_error(folder))

  def test_synthetic_data_beyond_all_memory(self):
    message = self.error(4, "train", "examples/configs/resnet20_synthetic.toml", "--set",
                         "model.input_shape=[1048576, 1048576, 1048576]")
    self.assertIn("1048576", message)


class CheckpointErrorTest(ProgramCase):
  """Exit code 4."""

  def setUp(self):
    super().setUp()
    self.checkpoints = self.path("checkpoints")
    self.train(SOFTMAX, "--steps", 2, "--checkpoint-dir", self.checkpoints)

  def errors(self):
    """The messages of every command that reads the checkpoint."""
    images = "data/mnist/t10k-images-idx3-ubyte.gz"
    return [
        self.error(4, "evaluate", SOFTMAX, "--checkpoint", self.checkpoints),
        self.error(4, "predict", SOFTMAX, "--checkpoint", self.checkpoints, images),
        self.error(4, "train", SOFTMAX, "--steps", 3, "--resume", "--checkpoint-dir",
                   self.checkpoints)
    ]

  def test_nothing_there(self):
    shutil.rmtree(self.checkpoints)
    for message in self.errors():
      self.assertIn(self.checkpoints, message)

  def test_an_empty_folder(self):
    shutil.rmtree(self.checkpoints)
    os.mkdir(self.checkpoints)
    for message in self.errors():
      self.assertIn(self.checkpoints, message)

  def test_a_changed_bit(self):
    folder = os.path.dirname(self.checkpoint_file(self.checkpoints, "manifest.json"))
    shard = next(name for name in os.listdir(folder) if name.endswith(".safetensors"))
    path = os.path.join(folder, shard)
    with open(path, "r+b") as file:
      file.seek(-3, os.SEEK_END)
      byte = file.read(1)[0]
      file.seek(-3, os.SEEK_END)
      file.write(bytes([byte ^ 1]))
    for message in self.errors():
      self.assertIn(shard, message)

  def test_a_truncated_shard_and_a_broken_manifest(self):
    folder = os.path.dirname(self.checkpoint_file(self.checkpoints, "manifest.json"))
    shard = next(name for name in os.listdir(folder) if name.endswith(".safetensors"))
    os.truncate(os.path.join(folder, shard), 100)
    for message in self.errors():
      self.assertIn(shard, message)
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
      file.write("{")
    for message in self.errors():
      self.assertIn("manifest.json", message)


class OtherErrorTest(ProgramCase):
  """Exit code 1."""

  def test_a_summary_that_cannot_be_written_is_known_before_the_work(self):
    folder = self.path("nowhere")
    path = os.path.join(folder, "summary.json")
    # Would take for ever.
    message = self.error(1, "train", SOFTMAX, "--steps", 10**9, "--summary", path)
    self.assertIn(path, message)
    self.assertFalse(os.path.exists(folder))
    self.assertIn("directory", self.error(1, "train", SOFTMAX, "--steps", 10**9, "--summary",
                                          self.folder))
    self.assertEqual(os.listdir(self.folder), [])

  def test_a_checkpoint_folder_that_cannot_be_made_is_known_before_the_work(self):
    path = self.path("file")
    with open(path, "w", encoding="utf-8"):
      pass
    for folder in (path, os.path.join(path, "below")):
      message = self.error(1, "train", SOFTMAX, "--steps", 10**9, "--checkpoint-dir", folder)
      self.assertIn(path, message)

  def test_a_summary_of_a_failed_run_is_not_written(self):
    path = self.path("summary.json")
    message = self.error(1, "train", SOFTMAX, "--set", "optimizer.learning_rate=1e38", "--quiet",
                         "--summary", path, "--checkpoint-dir", self.path("checkpoints"))
    self.assertIn("the loss is not a number in step", message)
    self.assertFalse(os.path.exists(path))
    self.assertFalse(os.path.exists(self.path("checkpoints", "latest")))

  def test_output_that_cannot_be_written(self):
    for args in (("models",), ("ops",), ("train", SOFTMAX, "--steps", 2)):
      with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(self.command(*args), cwd=ROOT, env=self.environment(), stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=DEADLINE_SECONDS,
                              check=False)
      self.assertEqual(done.returncode, 1, args)
      self.assertIn("lockstep: ", done.stderr)


if __name__ == "__main__":
  main()
