"""`lockstep cluster`: what the program sees of its surroundings."""

import json

from program_case import ProgramCase, main

KUBEFLOW = json.dumps({
    "cluster": {
        "chief": ["mnist-chief-0.kubeflow.svc:2222"],
        "ps": ["mnist-ps-0.kubeflow.svc:2222"],
        "worker": ["mnist-worker-0.kubeflow.svc:2222", "mnist-worker-1.kubeflow.svc:2222"],
    },
    "task": {"type": "worker", "index": 1},
    "environment": "cloud",
})
SLURM = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_NODEID": "1",
    "SLURM_LOCALID": "0", "SLURM_STEP_NODELIST": "n[009-010]", "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
}


class ClusterCase(ProgramCase):

  def environment(self, **extra):
    """No launcher's variables but those of the test."""
    kept = {name: value for name, value in super().environment().items()
            if not name.startswith(("SLURM_", "OMPI_", "PMIX_"))}
    return {**kept, **extra}

  def cluster(self, *args, **env):
    return self.run_program("cluster", *args, env=env).stdout

  def cluster_json(self, *args, **env):
    return json.loads(self.cluster("--json", *args, **env))

  def write(self, name, text):
    with open(self.path(name), "w", encoding="utf-8") as file:
      file.write(text)
    return self.path(name)


class ShowTest(ClusterCase):

  def test_alone(self):
    self.assertEqual(self.cluster(), "no cluster: this process is alone\n")
    shown = self.cluster_json()
    self.assertEqual((shown["source"], shown["cluster"], shown["task"]), ("none", {}, None))

  def test_tf_config(self):
    text = self.cluster(TF_CONFIG=KUBEFLOW)
    self.assertIn("cluster from TF_CONFIG: 4 tasks\n", text)
    self.assertIn("  /job:chief/task:0   mnist-chief-0.kubeflow.svc:2222  chief\n", text)
    self.assertIn("  /job:worker/task:1  mnist-worker-1.kubeflow.svc:2222  this process\n", text)
    self.assertRegex(text, "fingerprint [0-9a-f]{64}\n")
    self.assertIn("  task = /job:worker/task:1  (TF_CONFIG, line 1, column ", text)
    shown = self.cluster_json(TF_CONFIG=KUBEFLOW)
    self.assertEqual(shown["cluster"], json.loads(KUBEFLOW)["cluster"])
    self.assertEqual(shown["task"], {"type": "worker", "index": 1})
    self.assertEqual(shown["chief"], {"type": "chief", "index": 0})
    self.assertIn("environment", [fact["name"] for fact in shown["facts"]])

  def test_slurm(self):
    shown = self.cluster_json(**SLURM)
    self.assertEqual(shown["source"], "Slurm")
    self.assertEqual(shown["cluster"], {"worker": ["n009:8888", "n009:8889", "n010:8888"]})
    shown = self.cluster_json("--ps", 1, "--port-base", 5000, **SLURM)
    self.assertEqual(shown["cluster"], {"ps": ["n010:5000"], "worker": ["n009:5000", "n009:5001"]})
    self.assertEqual(shown["task"], {"type": "ps", "index": 0})

  def test_open_mpi(self):
    local = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2",
             "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    self.assertEqual(self.cluster_json(**local)["cluster"],
                     {"worker": ["127.0.0.1:8888", "127.0.0.1:8889"]})
    spread = {**local, "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
    self.assertIn("--host-file", self.error(2, "cluster", env=spread))
    hosts = self.write("hosts", "a slots=1\nb slots=1\n")
    for flags in (("--hosts", "a,b"), ("--host-file", hosts)):
      self.assertEqual(self.cluster_json(*flags, **spread)["cluster"],
                       {"worker": ["a:8888", "b:8888"]})

  def test_files_and_flags(self):
    toml = self.write("c.toml", "[cluster]\nps = ['a:1']\nworker = {0 = 'b:1', 7 = '[::1]:1'}\n")
    shown = self.cluster_json("--cluster", toml, "--job", "worker", "--task", 7)
    self.assertEqual(shown["cluster"], {"ps": ["a:1"], "worker": {"0": "b:1", "7": "[::1]:1"}})
    self.assertEqual(shown["task"], {"type": "worker", "index": 7})
    spec = "ps|a:1,worker|b:1;c:1"
    self.assertIsNone(self.cluster_json("--spec", spec)["task"])
    self.assertEqual(self.cluster_json("--spec", spec, "--job", "ps")["task"],
                     {"type": "ps", "index": 0})

  def test_equal_clusters_have_equal_fingerprints(self):
    first = self.cluster_json("--spec", "worker|b:1;c:1,ps|A:1")
    path = self.write("c", '{"ps":["a:1"],"worker":["b:1","c:1"]}')
    second = self.cluster_json("--cluster", path)
    third = self.cluster_json("--spec", "worker|c:1;b:1,ps|a:1")
    self.assertEqual(first["fingerprint"], second["fingerprint"])
    self.assertNotEqual(first["fingerprint"], third["fingerprint"])

  def test_one_family_is_used_and_the_others_are_named(self):
    shown = self.cluster_json(TF_CONFIG=KUBEFLOW, **SLURM)
    self.assertEqual(shown["source"], "TF_CONFIG")
    self.assertIn("Variables of Slurm are set too", " ".join(shown["notes"]))
    self.assertIn("note: Variables of Slurm", self.cluster(TF_CONFIG=KUBEFLOW, **SLURM))

  def test_an_evaluator(self):
    text = self.cluster(TF_CONFIG='{"cluster":{"worker":["a:1"],"evaluator":["b:1"]},'
                        '"task":{"type":"evaluator","index":0}}')
    self.assertIn("this process is the evaluator, which is no member of training", text)
    self.assertNotIn("/job:evaluator/task:0  b:1", text)

  def test_control_characters_do_not_reach_the_terminal(self):
    env = {**SLURM, "SLURM_STEP_NODELIST": "n\x1b[1-2]"}
    self.assertIn(r"'n\x1b[1-2]': byte 1: expected ',' or the end, found '\x1b'",
                  self.error(2, "cluster", env=env))


class ErrorTest(ClusterCase):
  """Exit code 2 and one line."""

  def test_tf_config(self):
    def fault(text):
      return self.error(2, "cluster", env={"TF_CONFIG": text})

    self.assertIn("TF_CONFIG: line 1, column 2 (byte 1): expected a key in double quotes",
                  fault("{'cluster': {}}"))
    self.assertIn("unknown job 'worker_hosts', did you mean 'worker'?",
                  fault('{"cluster": {"worker_hosts": ["a:1"]}}'))
    self.assertIn("there is no /job:worker/task:1",
                  fault('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}'))
    self.assertIn("repeated", fault('{"cluster": {}, "cluster": {}}'))
    self.assertIn("TF_CONFIG: line 1, column 25 (byte 24): /job:worker/task:0: the address 0.0.0.0",
                  fault('{"cluster": {"worker": ["0.0.0.0:1"]}}'))
    self.assertIn("/job:worker/task:1 has the address 10.0.0.1:1, which /job:worker/task:0 has",
                  fault('{"cluster": {"worker": ["[::ffff:10.0.0.1]:1", "10.0.0.1:1"]}}'))

  def test_slurm(self):
    env = {**SLURM, "SLURM_STEP_NODELIST": "n[1-999999999]"}
    self.assertIn("a range of 999999999 hosts", self.error(2, "cluster", env=env))

  def test_files(self):
    self.assertIn("nowhere.json", self.error(2, "cluster", "--cluster", self.path("nowhere.json")))
    path = self.write("c.json", '{"worker": ["a:1", "a"]}')
    self.assertIn(f"{path}:1:20: /job:worker/task:1", self.error(2, "cluster", "--cluster", path))

  def test_flags(self):
    self.assertIn("--spec or --cluster", self.error(2, "cluster", "--job", "ps"))
    self.assertIn("--port-base", self.error(2, "cluster", "--port-base", 70000))
    self.assertIn("--ps is given, but", self.error(2, "cluster", "--ps", 1))
    self.assertIn("give one", self.error(2, "cluster", "--hosts", "a", "--host-file", "b"))
    self.assertIn("--spec and --cluster both",
                  self.error(2, "cluster", "--spec", "worker|a:1", "--cluster", "nowhere.json"))
    self.assertIn("port 65536", self.error(2, "cluster", "--port-base", 65535, env=SLURM))


if __name__ == "__main__":
  main()
