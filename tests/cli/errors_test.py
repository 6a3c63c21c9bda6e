"""Bad flags, configurations and files: the exit code, one clear line, and nothing half-written."""

import gzip
import os
import resource
import shutil
import subprocess

from program_case import CNN, DEADLINE_SECONDS, ROOT, SOFTMAX, ProgramCase, main

SYNTHETIC = "examples/configs/resnet20_synthetic.toml"


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

  def test_misspelt_options_suggest_the_nearest(self):
    self.assertIn("unknown option '--stesp', did you mean '--steps'?",
                  self.usage("train", SOFTMAX, "--stesp", 3))
    # A missing argument is the lesser mistake.
    self.assertIn("unknown option '--chekpoint', did you mean '--checkpoint'?",
                  self.usage("evaluate", SOFTMAX, "--chekpoint=x"))
    self.assertIn("unknown option '--frequency': lockstep train --help lists them",
                  self.usage("train", "--frequency", 3))
    self.assertIn("unknown option '--verison', did you mean '--version'?",
                  self.usage("--verison"))
    self.assertIn("unknown option '--hepl', did you mean '--help'?", self.usage("bench", "--hepl"))
    self.assertIn("unexpected argument 'b.toml'", self.usage("train", SOFTMAX, "b.toml"))
    self.assertIn("no strategy 'mirorred', did you mean 'mirrored'?",
                  self.usage("train", SOFTMAX, "--strategy", "mirorred"))
    # Nothing is suggested that would be refused.
    self.assertNotIn("did you mean", self.usage("train", SOFTMAX, "--strategy", "ps"))
    self.assertNotIn("async", self.usage("train", SOFTMAX, "--set", "cluster.mode=asynk"))
    self.assertNotIn("did you mean", self.usage("train", SOFTMAX, "--set", "model.hiden=[3]"))

  def test_empty_values_are_refused(self):
    for args in (("train", ""), ("train", SOFTMAX, "--checkpoint-dir", ""),
                 ("train", SOFTMAX, "--summary", ""), ("train", SOFTMAX, "--devices", ""),
                 ("train", SOFTMAX, "--strategy", ""), ("train", SOFTMAX, "--seed", ""),
                 ("train", SOFTMAX, "--steps", ""), ("train", SOFTMAX, "--logdir", ""),
                 ("train", SOFTMAX, "--set", ""), ("train", SOFTMAX, "--set", "data.path="),
                 ("evaluate", SOFTMAX, "--checkpoint", ""),
                 ("predict", SOFTMAX, "--checkpoint", "x", ""), ("bench", "step", "--model", ""),
                 ("bench", "step", "--optimizer", "")):
      message = self.usage(*args)
      self.assertIn("empty" if args[-2] not in ("--set", "--seed", "--steps") else "", message)

  def test_messages_are_one_plain_line_of_bounded_length(self):
    hostile = "x\x1b[31m\ny\r\x07\u202ez"
    huge = "z" * 100_000
    for text in (hostile, huge):
      for args in ((text,), ("bench", text), ("train", text), ("train", SOFTMAX, text),
                   ("train", SOFTMAX, "--" + text), ("train", SOFTMAX, "--devices", text),
                   ("train", SOFTMAX, "--strategy", text), ("train", SOFTMAX, "--set", text),
                   ("train", SOFTMAX, "--set", "train." + text + "=1"),
                   ("train", SOFTMAX, "--set", text + ".x=1"),
                   ("train", SOFTMAX, "--set", "optimizer.name=" + text),
                   ("train", SOFTMAX, "--set", "train.steps=" + text),
                   ("train", SOFTMAX, "--steps", text), ("train", SOFTMAX, "--seed", text),
                   ("train", SOFTMAX, "--workers", text),
                   ("train", SOFTMAX, "--threads-per-device", text),
                   ("bench", "step", "--model", text), ("bench", "step", "--optimizer", text),
                   ("bench", "step", "--precision", text), ("bench", "step", "--batch", text)):
        message = self.usage(*args)
        self.assertLess(len(message), 2500, args[:-1])
        self.assertTrue(message[:-1].isprintable(), args[:-1])

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
    self.assertIn("found 9223372036854775808, allowed are integers from 0 to 9223372036854775807",
                  self.usage("train", SOFTMAX, "--seed", 2**63))
    for key in ("optimizer.learning_rate", "optimizer.l2", "train.clip_norm"):
      self.assertIn(f"{key}: found the real number 1e+39", setting(f"{key}=1e39"))

  def test_numbers_of_every_kind_that_make_no_sense(self):
    keys = ("train.global_batch", "train.epochs", "train.steps", "train.seed", "train.replicas",
            "train.gradient_accumulation", "train.eval_batch", "train.log_every_steps",
            "train.label_smoothing", "train.clip_value", "train.clip_norm",
            "train.clip_global_norm", "model.num_classes", "optimizer.learning_rate",
            "optimizer.l2", "optimizer.schedule.warmup_steps", "checkpoint.every_steps",
            "cluster.max_restarts")
    for key in keys:
      for value in ("nan", "inf", "-inf", "-1", "1e39", "99999999999999999999", "true", "[1]", ""):
        self.assertIn(f"{key}: found ", self.usage("train", SOFTMAX, "--set", f"{key}={value}"))
    for key in ("train.global_batch", "train.replicas", "train.gradient_accumulation",
                "train.eval_batch", "model.num_classes"):
      self.assertIn(f"{key}: found 0", self.usage("train", SOFTMAX, "--set", f"{key}=0"))

  def test_exclusions_from_decay(self):
    exclude = ("--set", "optimizer.decay_exclude=['*bais']")
    self.assertIn("has no effect without weight_decay or l2",
                  self.usage("train", SOFTMAX, *exclude))
    message = self.usage("train", SOFTMAX, *exclude, "--set", "optimizer.l2=0.1")
    self.assertIn("the pattern '*bais' matches nothing: the model has 2 trainable variables, such "
                  "as ", message)
    self.assertIn("[--set optimizer.decay_exclude=['*bais']; model ", message)

  def test_models_that_cannot_be_built(self):
    message = self.usage("train", "examples/configs/resnet18_synthetic.toml", "--set",
                         "model.input_shape=[10]")
    self.assertIn("(examples/configs/resnet18_synthetic.toml:2)", message)
    self.assertIn("[model 'resnet18' for samples of the shape [10]]", message)
    self.assertNotIn(".cc", message)
    layers = "[{type = 'conv2d', filters = 2, kernel = 1024}, {type = 'dense', units = 10}]"
    message = self.usage("train", SOFTMAX, "--set", "model.name=layers", "--set",
                         f"model.layers={layers}")
    self.assertIn("a kernel of height 1024 on an input of height 28: at most 55", message)
    self.assertIn("model.layers[1] (conv2d)", message)
    self.assertNotIn(".cc", message)

  def test_a_last_layer_of_another_size_is_named(self):
    path = self.path("layers.toml")
    with open(os.path.join(ROOT, SOFTMAX), encoding="utf-8") as file:
      text = file.read().replace('name = "softmax_regression"', 'name = "layers"')
    with open(path, "w", encoding="utf-8") as file:
      file.write(text + "\n[[model.layers]]\ntype = 'dense'\nunits = 7\n")
    line = text.count("\n") + 2
    message = self.usage("train", path)
    self.assertIn("the model's output is float32 [?, 7], expected float32 [?, 10]", message)
    self.assertIn(f"model.layers[1] (dense) at {path}:{line}:1", message)

  def test_nothing_to_evaluate(self):
    message = self.usage("evaluate", SYNTHETIC, "--checkpoint", "x", "--set", "data.test_samples=0")
    self.assertIn("data.test_samples is 0", message)
    self.assertIn("[--set data.test_samples=0]", message)

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

    self.assertIn("--ps 1", refused("--ps", 1))
    self.assertIn("--logdir", refused("--logdir", self.path("logs")))
    self.assertIn("--strategy parameter_server", refused("--strategy", "parameter_server"))
    self.assertIn("--resume", refused("--strategy", "local_sgd", "--resume", "--checkpoint-dir",
                                      self.folder))
    self.assertIn("train.merge_steps has no effect",
                  self.usage("train", SOFTMAX, "--set", "train.merge_steps=3"))
    message = self.usage("train", SOFTMAX, env={"TF_CONFIG": "nonsense"})
    self.assertIn("TF_CONFIG: ", message)
    self.assertIn("can be unset to train in this process alone", message)
    self.assertIn("cluster.mode", refused("--set", "cluster.mode=async"))
    self.assertIn("cluster.max_restarts", refused("--set", "cluster.max_restarts=1"))
    self.assertIn("checkpoint.every_steps", refused("--set", "checkpoint.every_steps=5"))
    self.assertFalse(os.path.exists(self.path("logs")))
    self.assertIn("no strategy 'magic'", self.usage("train", SOFTMAX, "--strategy", "magic"))

  def test_resume_needs_a_folder(self):
    self.assertIn("--checkpoint-dir", self.usage("train", SOFTMAX, "--resume"))

  def test_bench(self):
    self.assertIn("did you mean 'mnist_cnn'?", self.usage("bench", "step", "--model", "mnist_cn"))
    self.assertIn("'sdg', did you mean 'sgd'?", self.usage("bench", "step", "--optimizer", "sdg"))
    self.assertIn("--batch", self.usage("bench", "step", "--batch", 0))
    self.assertIn("--precision", self.usage("bench", "step", "--precision", "fp8"))
    self.assertIn("5 is no multiple of 4", self.usage("bench", "allreduce", "--sizes", "8,5"))
    self.assertIn("--transport", self.usage("bench", "allreduce", "--transport", "tin"))


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

  def test_the_classes_of_other_digits(self):
    folder = self.copy_mnist()
    args = (SOFTMAX, "--set", "data.source=idx", "--set", f"data.path='{folder}'")
    message = self.error(2, "train", *args, "--set", "model.num_classes=5")
    self.assertIn("model.num_classes is 5, the data has 10 classes", message)
    self.assertIn("[--set model.num_classes=5]", message)
    self.assertEqual(self.train(*args, "--steps", 2, "--set", "model.num_classes=12")["steps"], 2)
    for name in ("train", "t10k"):
      self.write_idx(os.path.join(folder, f"{name}-labels-idx1-ubyte.gz"),
                     lambda labels: bytes(len(labels)))
    self.assertIn("all samples have the label 0", self.error(4, "train", *args))


class CheckpointErrorTest(ProgramCase):
  """Exit code 4."""

  def setUp(self):
    super().setUp()
    self.checkpoints = self.path("checkpoints")
    self.train(SOFTMAX, "--steps", 2, "--checkpoint-dir", self.checkpoints)

  def errors(self, code=4):
    """The messages of every command that reads the checkpoint."""
    images = "data/mnist/t10k-images-idx3-ubyte.gz"
    return [
        self.error(code, "evaluate", SOFTMAX, "--checkpoint", self.checkpoints),
        self.error(code, "predict", SOFTMAX, "--checkpoint", self.checkpoints, images),
        self.error(code, "train", SOFTMAX, "--steps", 3, "--resume", "--checkpoint-dir",
                   self.checkpoints)
    ]

  def test_nothing_there(self):
    # A wrong path on the command line, and no checkpoint.
    shutil.rmtree(self.checkpoints)
    for message in self.errors(code=2):
      self.assertIn(f"{self.checkpoints}: cannot ", message)

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

  def test_waste_is_a_warning(self):
    self.run_program("train", SOFTMAX, "--steps", 2, "--set", "train.global_batch=2", "--replicas",
                     5, warning="train.replicas * train.gradient_accumulation = 5 parts of a step")

  def test_a_summary_that_cannot_be_written_is_known_before_the_work(self):
    folder = self.path("nowhere")
    path = os.path.join(folder, "summary.json")
    # Would take for ever.
    message = self.error(2, "train", SOFTMAX, "--steps", 10**9, "--summary", path)
    self.assertIn(path, message)
    self.assertFalse(os.path.exists(folder))
    self.assertIn("directory", self.error(2, "train", SOFTMAX, "--steps", 10**9, "--summary",
                                          self.folder))
    self.assertEqual(os.listdir(self.folder), [])

  def test_a_summary_of_a_failed_run_is_not_written(self):
    path = self.path("summary.json")
    message = self.error(1, "train", SOFTMAX, "--set", "optimizer.learning_rate=1e38", "--quiet",
                         "--summary", path, "--checkpoint-dir", self.path("checkpoints"))
    self.assertIn("the loss is not a number in step", message)
    self.assertFalse(os.path.exists(path))
    self.assertFalse(os.path.exists(self.path("checkpoints")))

  def test_a_full_disk_leaves_nothing_half_written(self):
    # A limit of the file size stands for the disk: the system call fails in the same way. Above
    # 1 KiB, which clang's OpenMP runtime takes when it starts.
    def small_files():
      resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    folder = self.path("new", "checkpoints")
    done = subprocess.run(
        self.command("train", SOFTMAX, "--steps", 2, "--quiet", "--checkpoint-dir", folder),
        cwd=ROOT, env=self.environment(), capture_output=True, text=True, timeout=DEADLINE_SECONDS,
        preexec_fn=small_files, check=False)
    self.assertEqual(done.returncode, 1, done.stderr)
    self.assertRegex(
        done.stderr,
        rf"\Alockstep: {folder}/[^\n]+: cannot write at offset 4096: File too large \[the "
        r"checkpoint of step 2 could not be saved: 2 steps of this run are lost[^\n]*\]\n\Z")
    self.assertEqual(os.listdir(self.folder), [])

  def test_output_that_cannot_be_written(self):
    for args in (("models",), ("ops",), ("train", SOFTMAX, "--steps", 2)):
      with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(self.command(*args), cwd=ROOT, env=self.environment(), stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=DEADLINE_SECONDS,
                              check=False)
      self.assertEqual(done.returncode, 1, args)
      self.assertEqual(done.stderr,
                       "lockstep: standard output: cannot write: No space left on device\n")

  def test_output_that_is_closed_from_the_start(self):
    checkpoints = self.path("checkpoints")
    for args, code in ((("models",), 1), (("ops",), 1), (("train", SOFTMAX, "--steps", 2,
                                                          "--checkpoint-dir", checkpoints), 1),
                       (("train", SOFTMAX, "--steps", 2, "--quiet"), 0)):
      done = subprocess.run(self.command(*args), cwd=ROOT, env=self.environment(),
                            preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE, text=True,
                            timeout=DEADLINE_SECONDS, check=False)
      self.assertEqual(done.returncode, code, done.stderr)
      said = "lockstep: standard output: cannot write: Bad file descriptor\n"
      self.assertEqual(done.stderr, said if code else "")
    # The work itself was done.
    self.assertTrue(os.path.exists(os.path.join(checkpoints, "latest")))

  def test_threads_of_the_environment_change_nothing(self):
    expected = self.train(SOFTMAX, "--steps", 5)["state_sha256"]
    for value in ("7", "1,2,3", "1000000"):
      path = self.path("summary.json")
      self.run_program("train", SOFTMAX, "--steps", 5, "--quiet", "--summary", path,
                       env={"OMP_NUM_THREADS": value})
      self.assertEqual(self.read_json(path)["state_sha256"], expected)
    # Where kernels have fewer threads than they were planned for, oneDNN leaves work out.
    args = (CNN, "--steps", 2, "--threads-per-device", 2)
    expected = self.train(*args)["state_sha256"]
    path = self.path("dynamic.json")
    self.run_program("train", *args, "--quiet", "--summary", path, env={"OMP_DYNAMIC": "true"})
    self.assertEqual(self.read_json(path)["state_sha256"], expected)
    for name, value in (("OMP_THREAD_LIMIT", "1"), ("OMP_MAX_ACTIVE_LEVELS", "0")):
      self.assertIn(f"2 threads per device, but {name}", self.error(2, "train", *args,
                                                                    env={name: value}))


if __name__ == "__main__":
  main()
