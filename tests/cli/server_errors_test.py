"""`lockstep server` that cannot take part: one line with the cause, soon, and its exit code."""

import os
import re
import signal
import socket
import time

import program_case
from program_case import ProgramCase, free_ports, main

# Far below --timeout, and far above what a refusal takes.
SOON_SECONDS = 30


class ServerErrorsCase(ProgramCase):

  def setUp(self):
    super().setUp()
    self.ports = free_ports(2)

  def spec(self, *ports):
    return "worker|" + ";".join(f"127.0.0.1:{port}" for port in ports or self.ports)

  def start(self, task, *flags, spec=None, env=None, timeout=60):
    command = self.command("server", "--spec", spec or self.spec(), "--job", "worker", "--task",
                           task, "--timeout", timeout, *flags)
    return self.start_process(command, env)

  def finish(self, process):
    return process.communicate(timeout=program_case.DEADLINE_SECONDS)

  def wait_for_port(self, port):
    """Returns when somebody listens there."""
    deadline = time.monotonic() + program_case.DEADLINE_SECONDS
    while time.monotonic() < deadline:
      with socket.socket() as sock:
        if sock.connect_ex(("127.0.0.1", port)) == 0:
          return
      time.sleep(0.02)
    self.fail(f"nobody listens at port {port}")

  def refused(self, code, task, *flags, spec=None, env=None):
    """The one line of a server that must end soon with this code."""
    begin = time.monotonic()
    process = self.start(task, *flags, spec=spec, env=env)
    out, errors = self.finish(process)
    self.assertEqual(process.returncode, code, errors)
    self.assertEqual(out, "")
    self.assertRegex(errors, r"\Alockstep: [^\n]+\n\Z")
    self.assertLess(time.monotonic() - begin, SOON_SECONDS)
    return errors

  def make_certificates(self):
    """Two authorities with a task each."""
    for name in ("one", "other"):
      self.run_program("certs", "ca", "--out", self.path(name))
      self.run_program("certs", "issue", "--ca", self.path(name), "--name", "task", "--host",
                       "127.0.0.1")

  def tls(self, authority, certificate=None, key=None):
    return ["--ca", self.path(authority, "ca.crt"),
            "--cert", self.path(certificate or authority, "task.crt"),
            "--key", self.path(key or certificate or authority, "task.key")]


class CertificatesTest(ServerErrorsCase):

  def test_what_cannot_work_is_seen_at_the_start(self):
    self.make_certificates()
    junk = self.path("junk.crt")
    with open(junk, "w", encoding="utf-8") as file:
      file.write("junk")
    flags = self.tls("one")
    self.assertIn("junk.crt: this is no certificate in PEM",
                  self.refused(2, 1, "--ca", junk, *flags[2:]))
    self.assertIn("one/ca.crt: this is no private key",
                  self.refused(2, 1, *flags[:4], "--key", self.path("one", "ca.crt")))
    self.assertIn("other/task.key is not the key of " + self.path("one", "task.crt"),
                  self.refused(2, 1, *self.tls("one", key="other")))
    self.assertIn("it is not of the authority in " + self.path("other", "ca.crt"),
                  self.refused(2, 1, *self.tls("other", certificate="one")))
    self.assertIn("the certificate is for IP Address:127.0.0.1, not for localhost",
                  self.refused(2, 1, *flags, spec=f"worker|localhost:{self.ports[0]};"
                                                  f"localhost:{self.ports[1]}"))

  def test_a_peer_that_does_not_fit_is_named_soon(self):
    self.make_certificates()
    chief = self.start(0, *self.tls("one"))
    self.wait_for_port(self.ports[0])
    self.assertIn("the certificate shown there is not accepted here",
                  self.refused(2, 1, *self.tls("other")))
    self.assertIn("TLS is spoken there, and this task has no certificates", self.refused(2, 1))
    self.assertIsNone(chief.poll())
    # Whoever fits is let in.
    other = self.start(1, *self.tls("one"))
    self.assertRegex(other.stdout.readline(), r"\Aserving ")

  def test_a_chief_without_tls(self):
    self.make_certificates()
    self.start(0)
    self.wait_for_port(self.ports[0])
    self.assertIn("TLS is not spoken there, and this task has certificates",
                  self.refused(2, 1, *self.tls("one")))

  def test_files_of_an_authority(self):
    self.make_certificates()
    path = self.path("one", "ca.key")
    os.chmod(path, 0o600)
    with open(path, "w", encoding="utf-8") as file:
      file.write("junk")
    self.assertIn("one/ca.key: this is no private key",
                  self.error(2, "certs", "issue", "--ca", self.path("one"), "--name", "x",
                             "--host", "a"))


class ConfigurationTest(ServerErrorsCase):

  def test_where_it_may_not_listen(self):
    self.assertIn("mutual TLS is needed there", self.refused(2, 0, spec="worker|192.0.2.1:4701"))
    self.assertIn("no address of this machine",
                  self.refused(2, 0, "--insecure", spec="worker|192.0.2.1:4701"))
    self.assertIn("cannot be resolved",
                  self.refused(2, 0, "--insecure", spec="worker|no.such.host.invalid:4701"))
    with socket.socket() as taken:
      taken.bind(("127.0.0.1", 0))
      taken.listen()
      self.assertIn("the port is in use",
                    self.refused(2, 0, spec=self.spec(taken.getsockname()[1])))

  def test_ucx_does_not_encrypt(self):
    self.make_certificates()
    self.assertIn("the transport ucx does not encrypt",
                  self.refused(2, 0, *self.tls("one"), "--transport", "ucx"))

  def test_the_chief_tells_whom_it_refused(self):
    secret = {"LOCKSTEP_JOB_SECRET": "right"}
    chief = self.start(0, env=secret, timeout=15)
    self.wait_for_port(self.ports[0])
    self.assertIn("does not know the secret of this job",
                  self.refused(2, 1, env={"LOCKSTEP_JOB_SECRET": "wrong"}))
    self.assertIn("holds another description of the cluster",
                  self.refused(2, 1, spec=self.spec(self.ports[0], self.ports[1], 9), env=secret))
    errors = self.finish(chief)[1]
    self.assertEqual(chief.returncode, 3, errors)
    lines = errors.splitlines()
    self.assertEqual(len(lines), 3, errors)
    self.assertRegex(lines[0], r" W a caller at 127\.0\.0\.1:\d+ is refused: it does not know")
    self.assertRegex(lines[1], r" W /job:worker/task:1 is refused: .* holds another description")
    self.assertRegex(lines[2], r"\Alockstep: still waiting for 1 of 2 tasks: /job:worker/task:1; "
                               r"/job:worker/task:1 was refused \S+ s ago: .*; "
                               r"a caller was refused without the secret of this job, the last at")


class StopTest(ServerErrorsCase):

  def test_a_task_that_is_told_to_stop_leaves(self):
    chief, other = self.start(0), self.start(1)
    for server in (chief, other):
      self.assertRegex(server.stdout.readline(), r"\Aserving ")
    other.send_signal(signal.SIGTERM)
    errors = self.finish(other)[1]
    self.assertEqual(other.returncode, 0, errors)
    lines = iter(chief.stderr.readline, "")
    self.assertTrue(any(re.search(r" I /job:worker/task:1 has left the job$", line)
                        for line in lines))
    chief.send_signal(signal.SIGTERM)
    self.finish(chief)
    self.assertEqual(chief.returncode, 0)

  def test_while_it_waits_for_others(self):
    chief = self.start(0)
    self.wait_for_port(self.ports[0])
    chief.send_signal(signal.SIGTERM)
    errors = self.finish(chief)[1]
    self.assertEqual(chief.returncode, 5, errors)


if __name__ == "__main__":
  main()
