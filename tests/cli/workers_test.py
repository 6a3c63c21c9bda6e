"""Training in several processes: the same bits as in one, and what happens when one is lost."""

import json
import os
import signal
import subprocess
import sys
import time

from program_case import CNN, ROOT, SHA256, SOFTMAX, ProgramCase, free_ports, main


class WorkersTest(ProgramCase):
  example = None

  def bits(self, config, *args):
    summary = self.train(config, *args)
    return (summary["params_sha256"], summary["state_sha256"], summary["final_loss"],
            summary["train_accuracy"], summary["test_accuracy"])

  def test_the_same_bits_with_any_number_of_workers(self):
    run = (SOFTMAX, "--replicas", 8, "--steps", 30)
    alone = self.bits(*run)
    for workers in (1, 2, 3, 4, 8):
      self.assertEqual(
          self.bits(*run, "--strategy", "multi_worker_mirrored", "--workers", workers), alone,
          workers)

  def test_the_same_bits_with_devices_strategies_links_and_buckets(self):
    run = (CNN, "--replicas", 8, "--steps", 3)
    alone = self.bits(*run)
    for args in (("--strategy", "mirrored", "--devices", "cpu:2"),
                 ("--strategy", "central_storage", "--devices", "cpu:2"),
                 ("--workers", 2, "--devices", "cpu:2", "--set", "cluster.transport=shm"),
                 ("--workers", 2, "--set", "cluster.transport=ucx", "--set",
                  "cluster.bucket_bytes=65536"),
                 ("--workers", 3, "--set", "cluster.transport=grpc", "--check-replicas", 1)):
      self.assertEqual(self.bits(*run, *args), alone, args)

  def test_the_summary_counts_all_workers(self):
    summary = self.train(SOFTMAX, "--workers", 3, "--devices", "cpu:2", "--steps", 5)
    self.assertEqual(summary["strategy"], "multi_worker_mirrored")
    self.assertEqual((summary["workers"], summary["devices"], summary["replicas"]), (3, 6, 6))
    self.assertEqual(summary["examples"], 500)

  def test_local_sgd_has_the_same_bits_too(self):
    run = (SOFTMAX, "--strategy", "local_sgd", "--replicas", 4, "--epochs", 1, "--set",
           "train.merge_steps=10")
    alone = self.train(*run)
    # 80 steps.
    self.assertEqual((alone["sync_rounds"], alone["examples"]), (8, 8000))
    self.assertGreater(alone["test_accuracy"], 0.8)
    for args in (("--workers", 2), ("--workers", 3, "--set", "cluster.transport=ucx"),
                 ("--devices", "cpu:2")):
      summary = self.train(*run, *args)
      self.assertEqual(summary["strategy"], "local_sgd")
      for key in ("params_sha256", "state_sha256", "final_loss", "test_accuracy", "sync_rounds"):
        self.assertEqual(summary[key], alone[key], (args, key))
    self.assertNotEqual(alone["params_sha256"],
                        self.train(*run, "--set", "train.merge_steps=20")["params_sha256"])

  def test_the_example_in_four_processes(self):
    def hash_of(*command):
      done = subprocess.run(command, cwd=ROOT, env=self.environment(), capture_output=True,
                            text=True, timeout=90, check=False)
      self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
      return done.stdout.split("params_sha256 ")[1].strip()

    alone = hash_of(self.example, "data/mnist", "6")
    self.assertRegex(alone, SHA256)
    self.assertEqual(hash_of(*self.command("launch", "-n", 4, "--", self.example, "data/mnist", 6)),
                     alone)

  def test_workers_and_devices_without_a_replica(self):
    run = (SOFTMAX, "--replicas", 2, "--steps", 10)
    path = self.path("summary.json")
    waste = "3 workers with 2 devices each for 2 logical replicas: 4 devices have nothing to do"
    self.run_program("train", *run, "--workers", 3, "--devices", "cpu:2", "--quiet", "--summary",
                     path, warning=waste)
    self.assertEqual(self.read_json(path)["state_sha256"],
                     self.train(*run, name="alone.json")["state_sha256"])

  def test_only_the_chief_prints(self):
    done = self.run_program("train", SOFTMAX, "--workers", 2, "--steps", 5)
    self.assertNotIn("[worker:", done.stdout)
    self.assertEqual(done.stdout.count("params_sha256"), 1)

  def test_interrupted_and_resumed_with_other_numbers_of_workers(self):
    run = (SOFTMAX, "--replicas", 4, "--epochs", 300)
    folder = self.path("run")
    process = subprocess.Popen(self.command("train", *run, "--workers", 2, "--checkpoint-dir",
                                            folder), cwd=ROOT, env=self.environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    self.addCleanup(process.kill)
    # A line of progress: it trains.
    while "epoch" not in (line := process.stdout.readline()):
      self.assertNotEqual(line, "")
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=60)[0]
    self.assertEqual(process.returncode, 5, output)
    with open(self.checkpoint_file(folder, "manifest.json"), encoding="utf-8") as file:
      step = json.load(file)["step"]
    end = ("train", SOFTMAX, "--replicas", 4, "--steps", step + 25)
    whole = self.train(*end[1:], name="whole.json")
    resumed = self.train(*end[1:], "--workers", 3, "--resume", "--checkpoint-dir", folder,
                         name="resumed.json")
    self.assertEqual(resumed["steps"], 25)
    self.assertEqual(resumed["state_sha256"], whole["state_sha256"])

  def start_tasks(self, count, *args, arguments=None):
    """The tasks of a cluster, as an operator starts them; `arguments` of single tasks besides."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    tasks = []
    for index in range(count):
      config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
      more = (arguments or {}).get(index, ())
      tasks.append(self.start_process(self.command("train", *args, *more),
                                      {"TF_CONFIG": json.dumps(config),
                                       "LOCKSTEP_JOB_SECRET": "s"}))
    return tasks

  def ends(self, tasks):
    """Exit code, standard output and error of each."""
    found = []
    for task in tasks:
      out, err = task.communicate(timeout=90)
      found.append((task.returncode, out, err))
    return found

  def test_tasks_of_an_operator(self):
    path = self.path("summary.json")
    ends = self.ends(self.start_tasks(2, SOFTMAX, "--steps", 30, "--replicas", 8, "--summary",
                                      path))
    self.assertEqual([end[0] for end in ends], [0, 0], ends)
    self.assertEqual((ends[1][1], ends[1][2]), ("", ""))
    self.assertEqual(self.read_json(path)["params_sha256"],
                     self.bits(SOFTMAX, "--steps", 30, "--replicas", 8)[0])

  def test_tasks_with_other_settings_are_refused_by_name(self):
    ends = self.ends(self.start_tasks(2, SOFTMAX, "--steps", 30,
                                      arguments={1: ("--set", "optimizer.learning_rate=0.25")}))
    self.assertEqual(ends[1][0], 2, ends)
    self.assertIn("/job:worker/task:1 would train something else than the chief: "
                  "optimizer.learning_rate is", ends[1][2])
    self.assertEqual(ends[0][0], 3, ends)
    self.assertRegex(ends[0][2], r"\Alockstep: /job:worker/task:1 gave up: [^\n]*learning_rate is "
                     r"[^\n]*\n\Z")

  def test_tasks_with_other_limits_are_refused_too(self):
    for key, args in (("train.steps", ("--steps", 9)),
                      ("train.eval_batch", ("--set", "train.eval_batch=100")),
                      ("cluster.bucket_bytes", ("--set", "cluster.bucket_bytes=64"))):
      ends = self.ends(self.start_tasks(2, SOFTMAX, "--steps", 5, arguments={1: args}))
      self.assertEqual([end[0] for end in ends], [3, 2], ends)
      self.assertIn(f"{key} is", ends[1][2])

  def test_a_killed_worker_is_named(self):
    tasks = self.start_tasks(3, SOFTMAX, "--epochs", 10000, "--set", "cluster.heartbeat=1")
    while "epoch" not in (line := tasks[0].stdout.readline()):
      self.assertNotEqual(line, "")
    tasks[1].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    ends = self.ends(tasks)
    self.assertLess(time.monotonic() - killed, 30)
    self.assertEqual([end[0] for end in ends], [3, -signal.SIGKILL, 3], ends)
    for end in (ends[0], ends[2]):
      self.assertIn("/job:worker/task:1", end[2])

  def test_a_killed_worker_of_the_launcher(self):
    process = self.start_process(self.command("train", SOFTMAX, "--epochs", 10000, "--workers", 3,
                                              "--set", "cluster.heartbeat=1"))
    while "epoch" not in (line := process.stdout.readline()):
      self.assertNotEqual(line, "")
    workers = self.descendants(process.pid)
    os.kill(workers[-1], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    self.assertEqual(process.returncode, 3, errors)
    self.assertIn("was ended by signal 9", errors)
    self.assertEqual([pid for pid in workers if os.path.exists(f"/proc/{pid}")], [])

  def test_a_stopped_worker_of_the_launcher(self):
    process = self.start_process(self.command("train", SOFTMAX, "--epochs", 10000, "--workers", 3,
                                              "--set", "cluster.heartbeat=0.5"))
    while "epoch" not in (line := process.stdout.readline()):
      self.assertNotEqual(line, "")
    workers = self.descendants(process.pid)
    os.kill(workers[-1], signal.SIGSTOP)
    _, errors = process.communicate(timeout=60)
    self.assertEqual(process.returncode, 3, errors)
    self.assertIn("/job:worker/task:2 is lost", errors)
    self.assertEqual([pid for pid in workers if os.path.exists(f"/proc/{pid}")], [])

  def descendants(self, pid):
    """The processes below this one that have no children, in order of their start."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
      children = [int(child) for child in file.read().split()]
    return [end for child in children for end in self.descendants(child)] or [pid]

  def test_what_cannot_be_is_refused(self):
    for args, words in (
        (("--workers", 2, "--strategy", "mirrored"), "mirrored runs in one process"),
        (("--workers", 2, "--strategy", "central_storage"), "central_storage runs in one process"),
        (("--workers", 2, "--set", "model.name=nonsense"), "nonsense"),
        (("--workers", 2, "--set", "cluster.transport=tcp"), "auto, shm, ucx, grpc"),
        (("--workers", 2, "--set", "cluster.step_timeout=0"), "cluster.step_timeout")):
      self.assertIn(words, self.error(2, "train", SOFTMAX, *args), args)

  def test_data_that_are_not_there(self):
    done = subprocess.run(
        self.command("train", SOFTMAX, "--workers", 2, "--set", "data.path=/nonexistent"), cwd=ROOT,
        env=self.environment(), capture_output=True, text=True, timeout=60, check=False)
    self.assertEqual(done.returncode, 4, done.stderr)
    self.assertIn("lockstep: /nonexistent: ", done.stderr)

  def test_clusters_that_cannot_train(self):
    def refused(config, *args):
      return self.error(2, "train", SOFTMAX, *args, env={"TF_CONFIG": json.dumps(config)})

    workers = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}
    here = {"type": "worker", "index": 0}
    self.assertIn("--workers 3, but the cluster of TF_CONFIG has 2 tasks",
                  refused({"cluster": workers, "task": here}, "--workers", 3))
    self.assertIn("one_device runs in one process",
                  refused({"cluster": workers, "task": here}, "--strategy", "one_device"))
    self.assertIn("evaluator", refused({"cluster": {**workers, "evaluator": ["127.0.0.1:3"]},
                                        "task": {"type": "evaluator", "index": 0}}))
    self.assertIn("parameter servers are not available",
                  refused({"cluster": {**workers, "ps": ["127.0.0.1:3"]}, "task": here}))
    self.assertIn("none of the tasks", refused({"cluster": workers}))

  def test_who_is_missing_is_named(self):
    port = free_ports(1)[0]
    config = {"cluster": {"worker": [f"127.0.0.1:{port}", "127.0.0.1:1"]},
              "task": {"type": "worker", "index": 0}}
    message = self.error(3, "train", SOFTMAX, "--set", "cluster.start_timeout=1",
                         env={"TF_CONFIG": json.dumps(config)})
    self.assertIn("/job:worker/task:1", message)


if __name__ == "__main__":
  WorkersTest.example = os.path.abspath(sys.argv.pop(2))
  main()
