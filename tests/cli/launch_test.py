"""`lockstep launch` with real processes: output, failures, signals, and that nobody survives."""

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time

from program_case import DEADLINE_SECONDS, ProgramCase, main

# Put before every task program: what it is, and a way to say that it has come so far.
PREAMBLE = """
import json, os, signal, socket, subprocess, sys, time
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
name = f"{task['type']}{task['index']}"
def mark(what, text=""):
  path = os.path.join(os.environ["MARKS"], what)
  with open(path + ".tmp", "w") as file:
    file.write(text)
  os.rename(path + ".tmp", path)
def wait(*marks):
  while not all(os.path.exists(os.path.join(os.environ["MARKS"], what)) for what in marks):
    time.sleep(0.01)
"""


def is_alive(pid):
  try:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
      return file.read().rsplit(")", 1)[1].split()[0] != "Z"
  except (FileNotFoundError, ProcessLookupError):
    return False


class LaunchCase(ProgramCase):

  def setUp(self):
    super().setUp()
    os.mkdir(self.path("marks"))

  def write_program(self, body):
    path = self.path("task.py")
    with open(path, "w", encoding="utf-8") as file:
      file.write(PREAMBLE + textwrap.dedent(body))
    return path

  def arguments(self, flags, body):
    return self.command("launch", *flags, "--", sys.executable, "-B", self.write_program(body))

  def task_environment(self, **extra):
    return self.environment(MARKS=self.path("marks"), **extra)

  def launch(self, *flags, body, code=0, env=None):
    done = subprocess.run(self.arguments(flags, body), env=self.task_environment(**(env or {})),
                          capture_output=True, timeout=DEADLINE_SECONDS, check=False)
    self.assertEqual(done.returncode, code, done.stdout[-3000:] + done.stderr[-3000:])
    return done.stdout.decode(), done.stderr.decode()

  def start(self, *flags, body, **options):
    """The launcher, running; killed at the end of the test if it is still there."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    process = subprocess.Popen(self.arguments(flags, body), env=self.task_environment(), **options)
    self.addCleanup(self.end, process)
    return process

  def end(self, process):
    if process.poll() is None:
      process.kill()
    process.communicate()

  def mark_text(self, what):
    """The text of a mark, once a task has set it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    path = self.path("marks", what)
    while not os.path.exists(path):
      self.assertLess(time.monotonic(), deadline, f"no task came to the mark {what}")
      time.sleep(0.01)
    with open(path, encoding="utf-8") as file:
      return file.read()

  def pids(self, *marks):
    return [int(pid) for mark in marks for pid in self.mark_text(mark).split()]

  def assert_all_gone(self, pids):
    deadline = time.monotonic() + 30
    while any(is_alive(pid) for pid in pids):
      self.assertLess(time.monotonic(), deadline, f"alive: {[p for p in pids if is_alive(p)]}")
      time.sleep(0.01)


class ClusterTest(LaunchCase):
  """What the tasks are told."""

  def test_every_task_has_its_own_description(self):
    out, _ = self.launch("-n", 3, "--ps", 1, body="print(json.dumps(config))")
    configs = {}
    for line in out.splitlines():
      prefix, text = line.split(" ", 1)
      config = json.loads(text)
      self.assertEqual(prefix, f"[{config['task']['type']}:{config['task']['index']}]")
      configs[prefix] = config
    self.assertEqual(sorted(configs), ["[ps:0]", "[worker:0]", "[worker:1]", "[worker:2]"])
    clusters = {json.dumps(config["cluster"]) for config in configs.values()}
    self.assertEqual(len(clusters), 1)
    cluster = configs["[ps:0]"]["cluster"]
    self.assertEqual({job: len(tasks) for job, tasks in cluster.items()}, {"ps": 1, "worker": 3})
    addresses = cluster["ps"] + cluster["worker"]
    self.assertEqual(len(set(addresses)), 4)

  def test_tasks_share_a_secret_of_their_own(self):
    secrets = []
    for _ in range(2):
      out, _ = self.launch("-n", 2, body="print(os.environ['LOCKSTEP_JOB_SECRET'])")
      tasks = {line.split()[1] for line in out.splitlines()}
      self.assertEqual(len(tasks), 1, out)
      secrets += tasks
    self.assertRegex(secrets[0], r"\A[0-9a-f]{64}\Z")
    self.assertNotEqual(*secrets)
    out, _ = self.launch("-n", 1, body="print(os.environ['LOCKSTEP_JOB_SECRET'])",
                         env={"LOCKSTEP_JOB_SECRET": "mine"})
    self.assertEqual(out, "[worker:0] mine\n")

  def test_tasks_can_listen_on_their_ports_and_find_each_other(self):
    out, _ = self.launch("-n", 2, body="""
        host, port = config["cluster"]["worker"][task["index"]].rsplit(":", 1)
        server = socket.create_server((host, int(port)))  # sets SO_REUSEADDR, as servers do
        mark("listening" + name)
        wait("listeningworker0", "listeningworker1")
        host, port = config["cluster"]["worker"][1 - task["index"]].rsplit(":", 1)
        with socket.create_connection((host, int(port))) as client:
          client.sendall(name.encode())
          connection, _ = server.accept()
          print("heard", connection.recv(100).decode())
        """)
    self.assertEqual(sorted(out.splitlines()),
                     ["[worker:0] heard worker1", "[worker:1] heard worker0"])

  def test_the_program_understands_what_it_is_given(self):
    done = subprocess.run(self.command("launch", "-n", 2, "--", self.program, "cluster", "--json"),
                          env=self.environment(TF_CONFIG="{broken"), capture_output=True, text=True,
                          timeout=DEADLINE_SECONDS, check=True)
    for index in (0, 1):
      prefix = f"[worker:{index}] "
      text = "\n".join(line[len(prefix):] for line in done.stdout.splitlines()
                       if line.startswith(prefix))
      self.assertEqual(json.loads(text)["task"], {"type": "worker", "index": index})

  def test_arguments_environment_and_input_of_the_tasks(self):
    path = self.write_program("print(sys.argv[1:], os.environ['COLOUR'], repr(sys.stdin.read()))")
    done = subprocess.run(
        self.command("launch", "-n", 1, "--", sys.executable, path, "--ps", "-n", "", "a b", "--"),
        env=self.task_environment(COLOUR="red"), input=b"for the launcher", capture_output=True,
        timeout=DEADLINE_SECONDS, check=True)
    self.assertEqual(done.stdout.decode(), "[worker:0] ['--ps', '-n', '', 'a b', '--'] red ''\n")


class OutputTest(LaunchCase):

  def test_lines_are_whole_and_streams_stay_apart(self):
    out, err = self.launch("-n", 3, body="""
        for i in range(200):
          os.write(1, f"{name} out {i} ".encode())
          os.write(2, f"{name} err {i}\\n".encode())
          os.write(1, b"end\\n")
        """)
    for index in range(3):
      prefix = f"[worker:{index}] "
      self.assertEqual([line for line in out.splitlines() if line.startswith(prefix)],
                       [f"{prefix}worker{index} out {i} end" for i in range(200)])
      self.assertEqual([line for line in err.splitlines() if line.startswith(prefix)],
                       [f"{prefix}worker{index} err {i}" for i in range(200)])
    self.assertEqual((len(out.splitlines()), len(err.splitlines())), (600, 600))

  def test_lines_of_megabytes_and_without_an_end(self):
    out, _ = self.launch("-n", 2, body="""
        letter = "ab"[task["index"]].encode()
        data = letter * (5 << 20) + b"\\n\\n" + letter * 3
        while data:
          data = data[os.write(1, data[:100000]):]
        """)
    for index, letter in enumerate("ab"):
      prefix = f"[worker:{index}] "
      lines = [line[len(prefix):] for line in out.splitlines() if line.startswith(prefix)]
      self.assertEqual([len(line) for line in lines], [5 << 20, 0, 3])
      self.assertEqual(set("".join(lines)), {letter})
    self.assertEqual(len(out.splitlines()), 6)
    self.assertTrue(out.endswith("\n"))

  def test_a_line_longer_than_the_limit(self):
    # 64 MiB and the rest as a line of its own; in seconds, not minutes.
    begin = time.monotonic()
    out, _ = self.launch("-n", 1, body="""
        data = b"x" * 70000000
        while data:
          data = data[os.write(1, data[:1 << 20]):]
        """)
    self.assertLess(time.monotonic() - begin, 60)
    self.assertEqual([len(line) for line in out.splitlines()],
                     [len("[worker:0] ") + size for size in (64 << 20, 70000000 - (64 << 20))])

  def test_a_slow_reader_loses_nothing(self):
    process = self.start("-n", 1, body="""
        for i in range(300000):
          print("line", i)
        """)
    time.sleep(0.3)  # The pipe is full by now, or else the test is only easier to pass.
    out, _ = process.communicate(timeout=DEADLINE_SECONDS)
    self.assertEqual(process.returncode, 0)
    self.assertEqual(out.decode().splitlines(), [f"[worker:0] line {i}" for i in range(300000)])

  def test_a_reader_that_goes_away_ends_all(self):
    process = self.start("-n", 2, body="""
        mark(name, str(os.getpid()))
        wait("worker0", "worker1")
        while True:
          print("x" * 1000)
        """)
    pids = self.pids("worker0", "worker1")
    process.stdout.read(1000)
    process.stdout.close()
    self.assertEqual(process.wait(DEADLINE_SECONDS), 1)
    self.assertIn(b"standard output: cannot write", process.stderr.read())
    self.assert_all_gone(pids)


class FailureTest(LaunchCase):

  def test_the_first_failure_stops_the_rest_and_decides_the_code(self):
    _, err = self.launch("-n", 3, "--settle", 0, code=7, body="""
        mark(name)
        wait("worker0", "worker1", "worker2")
        if task["index"] == 1:
          for i in range(100):
            print("working", i)
          print("the reason", file=sys.stderr)
          sys.exit(7)
        time.sleep(1000)
        """)
    self.assertIn("lockstep: /job:worker/task:1 ended with exit code 7; its last lines:\n", err)
    last = err[err.index("its last lines"):].splitlines()[1:]
    self.assertEqual(len(last), 20)
    self.assertIn("[worker:1] the reason", last)
    self.assertIn("[worker:1] working 99", last)
    self.assertNotIn("[worker:1] working 50", last)

  def test_the_others_may_notice_by_themselves(self):
    out, err = self.launch("-n", 2, "--settle", 60, code=3, body="""
        mark(name, str(os.getpid()))
        wait("worker0", "worker1")
        if task["index"] == 1:
          os.kill(os.getpid(), signal.SIGKILL)
        with open(os.path.join(os.environ["MARKS"], "worker1")) as file:
          peer = int(file.read())
        while os.path.exists(f"/proc/{peer}"):
          time.sleep(0.01)
        print("lost worker1")
        sys.exit(4)
        """)
    self.assertIn("[worker:0] lost worker1\n", out)
    self.assertIn("lockstep: /job:worker/task:1 was ended by signal 9 (Killed)\n", err)

  def test_a_task_that_ignores_sigterm_is_killed(self):
    _, err = self.launch("-n", 2, "--settle", 0, "--grace", 0.2, code=9, body="""
        signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
        mark(name, str(os.getpid()))
        wait("worker0", "worker1")
        if task["index"] == 0:
          sys.exit(9)
        while True:
          time.sleep(1)
        """)
    self.assertIn("/job:worker/task:0 ended with exit code 9", err)
    self.assert_all_gone(self.pids("worker0", "worker1"))

  def test_a_task_that_failed_by_itself_is_the_cause_of_those_that_lost_it(self):
    _, err = self.launch("-n", 3, "--settle", 60, code=7, body="""
        if task["index"] > 0:
          mark(name, str(os.getpid()))
          sys.exit(3)
        wait("worker1", "worker2")
        for peer in ("worker1", "worker2"):
          with open(os.path.join(os.environ["MARKS"], peer)) as file:
            pid = int(file.read())
          while os.path.exists(f"/proc/{pid}"):
            time.sleep(0.01)
        print("the reason")
        sys.exit(7)
        """)
    self.assertIn("lockstep: /job:worker/task:0 ended with exit code 7; its last lines:\n"
                  "[worker:0] the reason\n", err)

  def test_a_task_that_hangs_while_others_have_lost_it_is_named(self):
    _, err = self.launch("-n", 2, "--settle", 0.2, code=3, body="""
        if task["index"] == 0:
          sys.exit(3)
        time.sleep(1000)
        """)
    self.assertIn("/job:worker/task:0 ended with exit code 3; "
                  "/job:worker/task:1 did not end by itself and was ended\n", err)

  def test_closed_standard_streams(self):
    for stream in ("<&-", ">&-", "2>&-"):
      command = shlex.join(self.command("launch", "-n", "1", "--", "true"))
      done = subprocess.run(["sh", "-c", f"{command} {stream}"], env=self.environment(),
                            timeout=DEADLINE_SECONDS, check=False)
      self.assertEqual(done.returncode, 0, stream)

  def test_a_program_that_cannot_be_started(self):
    for program, words in (("./no_such_program", "No such file"), ("/", "Permission denied")):
      done = subprocess.run(self.command("launch", "-n", 3, "--", program), capture_output=True,
                            text=True, env=self.environment(), timeout=DEADLINE_SECONDS,
                            check=False)
      self.assertEqual((done.returncode, done.stdout), (2, ""))
      self.assertRegex(done.stderr, rf"\Alockstep: {program}: cannot execute: {words}[^\n]*\n\Z")

  def test_flags(self):
    self.assertIn("-n is missing", self.error(2, "launch", "--", "true"))
    self.assertIn("the program is missing: lockstep launch -n N -- PROGRAM",
                  self.error(2, "launch", "-n", 1))
    self.assertIn("found '0', expected a whole number from 1 to 1024",
                  self.error(2, "launch", "-n", 0, "--", "true"))
    self.assertIn("1024", self.error(2, "launch", "-n", 1024, "--ps", 1, "--", "true"))

  def test_parameter_servers_need_not_end_by_themselves(self):
    out, err = self.launch("-n", 2, "--ps", 2, "--settle", 0, body="""
        mark(name, str(os.getpid()))
        wait("worker0", "worker1", "ps0", "ps1")
        if task["type"] == "ps":
          time.sleep(1000)
        print("done")
        """)
    self.assertEqual(sorted(out.splitlines()), ["[worker:0] done", "[worker:1] done"])
    self.assertEqual(err, "")
    self.assert_all_gone(self.pids("ps0", "ps1"))

  def test_a_parameter_server_that_fails_is_a_failure(self):
    _, err = self.launch("-n", 1, "--ps", 1, "--settle", 0, code=6, body="""
        if task["type"] == "ps":
          sys.exit(6)
        time.sleep(1000)
        """)
    self.assertIn("/job:ps/task:0 ended with exit code 6", err)


# Children of all kinds: plain, with a session of its own, and orphaned twice over; each ignores
# what it can.
FAMILY = """
    stubborn = "import signal, time\\n" \\
               "for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\\n" \\
               "  signal.signal(s, signal.SIG_IGN)\\n" \\
               "time.sleep(1000)\\n"
    command = [sys.executable, "-c", stubborn]
    pids = [os.getpid()]
    pids.append(subprocess.Popen(command).pid)
    pids.append(subprocess.Popen(command, start_new_session=True).pid)
    orphan = "import subprocess, sys\\n" \\
             "print(subprocess.Popen(sys.argv[1:], start_new_session=True,\\n" \\
             "                       stdout=subprocess.DEVNULL).pid)\\n"
    pids.append(int(subprocess.run([sys.executable, "-c", orphan, *command], check=True,
                                   start_new_session=True, stdout=subprocess.PIPE).stdout))
    mark(name, " ".join(str(pid) for pid in pids))
"""


class NobodySurvivesTest(LaunchCase):

  def family(self, *flags, body="    time.sleep(1000)\n"):
    process = self.start("-n", 2, *flags, body=FAMILY + body)
    pids = self.pids("worker0", "worker1")
    self.assertEqual(len(pids), 8)
    self.assertTrue(all(is_alive(pid) for pid in pids))
    return process, pids

  def supervisor_of(self, process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
      return [int(pid) for pid in file.read().split()]

  def test_at_the_end_of_the_tasks(self):
    process, pids = self.family(body="    wait('worker0', 'worker1')\n")
    self.assertEqual(process.wait(DEADLINE_SECONDS), 0)
    self.assertFalse(any(is_alive(pid) for pid in pids))

  def test_after_a_failure(self):
    process, pids = self.family("--settle", 0, "--grace", 0.1,
                                body="    wait('worker0', 'worker1')\n    sys.exit(5)\n")
    self.assertEqual(process.wait(DEADLINE_SECONDS), 5)
    self.assertFalse(any(is_alive(pid) for pid in pids))

  def test_kill_9_of_the_launcher(self):
    process, pids = self.family()
    supervisor = self.supervisor_of(process)
    process.kill()
    process.wait(DEADLINE_SECONDS)
    self.assert_all_gone(pids + supervisor)

  def test_kill_9_of_the_supervisor(self):
    process, pids = self.family()
    supervisor = self.supervisor_of(process)
    self.assertEqual(len(supervisor), 1)
    os.kill(supervisor[0], signal.SIGKILL)
    self.assertEqual(process.wait(DEADLINE_SECONDS), 3)
    self.assertFalse(any(is_alive(pid) for pid in pids))
    self.assertIn(b"the supervisor of the tasks was ended by signal 9", process.stderr.read())

  def test_kill_9_while_the_output_is_stuck(self):
    # Nobody reads: the launcher has output that it cannot write.
    process, pids = self.family(body="    while True: print('x' * 1000)\n")
    supervisor = self.supervisor_of(process)
    process.kill()
    process.wait(DEADLINE_SECONDS)
    self.assert_all_gone(pids + supervisor)

  def test_signals(self):
    for number, name in ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM"),
                         (signal.SIGHUP, "SIGTERM")):
      with self.subTest(number=number):
        process, pids = self.family(body="""
    def stop(number, _):
      print("got", signal.Signals(number).name, flush=True)
      sys.exit(5)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    mark("ready" + name)
    time.sleep(1000)
""")
        self.mark_text("readyworker0")
        self.mark_text("readyworker1")
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
        self.assertEqual(process.returncode, 5, err)
        self.assertEqual(sorted(out.decode().splitlines()),
                         [f"[worker:0] got {name}", f"[worker:1] got {name}"])
        self.assert_all_gone(pids)
        for mark in ("worker0", "worker1", "readyworker0", "readyworker1"):
          os.remove(self.path("marks", mark))

  def test_the_second_signal_does_not_wait(self):
    process, pids = self.family("--grace", 1000, body="""
    signal.signal(signal.SIGINT, lambda *_: mark("got" + name))
    mark("ready" + name)
    while True:
      time.sleep(1000)
""")
    self.mark_text("readyworker0")
    self.mark_text("readyworker1")
    process.send_signal(signal.SIGINT)
    self.mark_text("gotworker0")
    self.mark_text("gotworker1")
    process.send_signal(signal.SIGINT)
    self.assertEqual(process.wait(DEADLINE_SECONDS), 5)
    self.assertFalse(any(is_alive(pid) for pid in pids))


if __name__ == "__main__":
  main()
