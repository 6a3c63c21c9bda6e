"""`lockstep certs`: files, modes, and what the tool `openssl` says about them."""

import os
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import unittest

from program_case import ProgramCase, main


class CertsTest(ProgramCase):

  def setUp(self):
    super().setUp()
    self.ca = self.path("ca")
    self.run_program("certs", "ca", "--out", self.ca, "--name", "Test CA")

  def issue(self, name, *args, code=0):
    return self.run_program("certs", "issue", "--ca", self.ca, "--name", name, *args, code=code)

  def file(self, name):
    return os.path.join(self.ca, name)

  def mode(self, name):
    return stat.S_IMODE(os.stat(self.file(name)).st_mode)

  @unittest.skipIf(shutil.which("openssl") is None, "openssl is not installed")
  def test_openssl_accepts_them(self):
    self.issue("node", "--host", "node1.example.com", "--host", "10.0.0.7", "--host", "::1")
    done = subprocess.run(["openssl", "verify", "-x509_strict", "-CAfile", self.file("ca.crt"),
                           self.file("node.crt")], capture_output=True, text=True, check=False)
    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    text = subprocess.run(["openssl", "x509", "-noout", "-text", "-in", self.file("node.crt")],
                          capture_output=True, text=True, check=True).stdout
    self.assertIn("DNS:node1.example.com, IP Address:10.0.0.7, IP Address:0:0:0:0:0:0:0:1", text)
    self.assertIn("CA:FALSE", text)
    self.assertIn("TLS Web Server Authentication, TLS Web Client Authentication", text)
    text = subprocess.run(["openssl", "x509", "-noout", "-text", "-in", self.file("ca.crt")],
                          capture_output=True, text=True, check=True).stdout
    self.assertIn("CA:TRUE, pathlen:0", text)
    self.assertIn("Certificate Sign, CRL Sign", text)

  def context(self, purpose, name, ca=None):
    context = ssl.create_default_context(purpose, cafile=os.path.join(ca or self.ca, "ca.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(self.file(name + ".crt"), self.file(name + ".key"))
    return context

  def handshake(self, server_context, client_context, host):
    """The common name that the client sees; raises what the client's side raises."""
    server_end, client_end = socket.socketpair()

    def serve():
      try:
        with server_context.wrap_socket(server_end, server_side=True) as connection:
          connection.recv(1)
      except OSError:
        server_end.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
      with client_context.wrap_socket(client_end, server_hostname=host) as connection:
        return dict(entry[0] for entry in connection.getpeercert()["subject"])["commonName"]
    finally:
      client_end.close()
      thread.join()

  def test_both_ends_of_a_connection(self):
    self.issue("one", "--host", "one.example.com", "--host", "127.0.0.1")
    self.issue("two", "--host", "two.example.com")
    server = self.context(ssl.Purpose.CLIENT_AUTH, "one")
    client = self.context(ssl.Purpose.SERVER_AUTH, "two")
    self.assertEqual(self.handshake(server, client, "one.example.com"), "one")
    self.assertEqual(self.handshake(server, client, "127.0.0.1"), "one")
    with self.assertRaises(ssl.SSLCertVerificationError):
      self.handshake(server, client, "two.example.com")
    other = self.path("other")
    self.run_program("certs", "ca", "--out", other)
    stranger = self.context(ssl.Purpose.SERVER_AUTH, "two", ca=other)
    with self.assertRaises(ssl.SSLCertVerificationError):
      self.handshake(server, stranger, "one.example.com")

  def test_modes(self):
    self.issue("node", "--host", "a")
    for name in ("ca", "node"):
      self.assertEqual(self.mode(name + ".key"), 0o600)
      self.assertEqual(self.mode(name + ".crt"), 0o644)

  def test_hosts_of_a_cluster(self):
    spec = "ps|a:1,worker|b:1;b:2;[::1]:3"
    out = self.issue("all", "--spec", spec, "--host", "extra").stdout
    self.assertIn("for DNS:extra, DNS:a, DNS:b, IP Address:0:0:0:0:0:0:0:1", out)

  def test_nothing_is_overwritten(self):
    with open(self.file("ca.key"), encoding="utf-8") as file:
      before = file.read()
    self.assertIn("exists already", self.error(2, "certs", "ca", "--out", self.ca))
    self.issue("node", "--host", "a")
    self.assertIn("node.key: exists already", self.issue("node", "--host", "b", code=2).stderr)
    with open(self.file("ca.key"), encoding="utf-8") as file:
      self.assertEqual(file.read(), before)

  def test_errors(self):
    self.assertIn("no hosts", self.issue("node", code=2).stderr)
    self.assertIn("'a:1'", self.issue("node", "--host", "a:1", code=2).stderr)
    self.assertIn("days", self.issue("node", "--host", "a", "--days", 0, code=2).stderr)
    self.assertIn("longer than its authority",
                  self.issue("node", "--host", "a", "--days", 5000, code=2).stderr)
    self.assertIn("--name ca", self.issue("ca", "--host", "a", code=2).stderr)
    self.assertIn("'../x'", self.issue("../x", "--host", "a", code=2).stderr)
    self.assertIn("ca.crt", self.error(2, "certs", "issue", "--ca", self.path("none"), "--name",
                                       "node", "--host", "a"))
    self.assertEqual(sorted(os.listdir(self.ca)), ["ca.crt", "ca.key"])
    self.issue("node", "--host", "a", "--out", self.path("new", "folder"))
    self.assertEqual(sorted(os.listdir(self.path("new", "folder"))), ["node.crt", "node.key"])
    self.assertIn("ca, issue", self.error(2, "certs"))


if __name__ == "__main__":
  main()
