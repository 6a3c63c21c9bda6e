#!/usr/bin/env python3
"""Rules of the code base that the compiler and clang-tidy cannot see.

Usage: lint.py [--root DIR] [--format] [--quiet]

Prints one line per finding, `file:line: rule: message`, then the longest files and functions, and
exits 1 when there was a finding. Rules (by the names that scripts/lint_allow.txt uses):

  layer      an include goes from a layer to a later one, or into another layer's internal/ folder
  fence      a third-party header, or getenv, outside the folders that may use it
  test       a source file of a layer has no test beside it, and none elsewhere (TESTED_ELSEWHERE)
  text       #pragma once, white space, encoding, line length, wording, unnumbered to-do notes
  ownership  a naked new or delete
  file-size, function-size   over the hard limits
  allow      a line of the allow file that allows nothing
  format     clang-format would change the file (with --format, where clang-format is installed)

An allow line is `rule path  # reason`, for functions `function-size path Name  # reason`.
"""

import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

LAYERS = ("base", "tensor", "graph", "op", "model", "net", "pass", "collective", "exec", "observe",
          "cluster", "data", "train", "strategy", "cli")
LAYER_RANK = {name: rank for rank, name in enumerate(LAYERS)}

# Inside lockstep/, an include that matches the pattern is allowed only in the paths beside it.
FENCES = (
    ("oneDNN", re.compile(r"^(oneapi/dnnl/|dnnl)"),
     ("lockstep/op/*.cc", "lockstep/op/internal/*", "lockstep/exec/onednn/*")),
    ("protobuf", re.compile(r"(^google/protobuf/|\.pb\.h$)"),
     ("lockstep/graph/*serial*.cc", "lockstep/graph/internal/serial*",
      "lockstep/cluster/internal/*")),
    ("gRPC", re.compile(r"^grpc(pp)?/"), ("lockstep/cluster/internal/rpc*", "lockstep/net/grpc/*")),
    ("UCX", re.compile(r"^uc[pst]/"), ("lockstep/net/ucx/*",)),
    ("CLI11", re.compile(r"^CLI/"), ("lockstep/cli/*",)),
    ("toml++", re.compile(r"^(toml\+\+/|toml\.hpp$)"),
     ("lockstep/cli/*", "lockstep/train/config*", "lockstep/cluster/internal/toml_document.cc")),
)
JSON_HEADER = re.compile(r"^nlohmann/")
GETENV = re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b")
GETENV_ALLOWED = "lockstep/cli/"

# Sources in the first folder need no test beside them where the second path exists: kernels behind
# ops by the conformance and parity tests of the ops that use them, the program by running it.
TESTED_ELSEWHERE = (
    ("lockstep/op/internal/", "lockstep/op/conformance_test.cc"),
    ("lockstep/cli/", "tests/cli/"),
)

MAX_COLUMNS = 100
MAX_FILE_LINES = 900
MAX_FUNCTION_LINES = 150

CPP_SUFFIXES = (".h", ".cc", ".cu")
CODE_SUFFIXES = CPP_SUFFIXES + (".proto", ".py", ".sh", ".cmake")
NARROW_SUFFIXES = CPP_SUFFIXES + (".proto", ".py", ".sh")
TEXT_SUFFIXES = CODE_SUFFIXES + (".md", ".toml", ".json", ".txt", ".yml", ".yaml")
CODE_NAMES = ("CMakeLists.txt", "Makefile", "run")
TEXT_NAMES = CODE_NAMES + (".clang-format", ".clang-tidy", ".gitignore", "LICENSE")
SKIPPED_FOLDERS = ("build", "runs", ".git", "__pycache__")

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
UNNUMBERED_TODO = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X)\b(?!\(#\d+\))")
# The brackets keep this file from matching itself.
FORBIDDEN_WORDS = (
    (re.compile(r"(?<![\w.])/wor[k]/"), "a path of one machine"),
    (re.compile(r"(?<![\w.])/home/[a-z]"), "a path of one machine"),
    (re.compile(r"(?<!user-)(?<!user )(?<!user_)\bagen[t]s?\b", re.IGNORECASE),
     "the project speaks of itself only"),
    (re.compile(r"\bsession's helpe[r]", re.IGNORECASE), "the project speaks of itself only"),
)
NAKED_NEW = re.compile(r"(?<!operator )\bnew\b\s*[\w:(<]")
NAKED_DELETE = re.compile(r"(?<!operator )\bdelete\b\s*(\[\s*\]\s*)?[\w:(*]")
OP_DEF = re.compile(r"^\s*(\w+::)*OpDef\s+\w+Def\s*\(", re.MULTILINE)


class Finding:
  def __init__(self, path, line, rule, message, subject=""):
    self.path = path
    self.line = line
    self.rule = rule
    self.message = message
    self.subject = subject

  def __str__(self):
    return f"{self.path}:{self.line}: {self.rule}: {self.message}"


class SourceFile:
  """One file: path from the root, text, and of C++ the text without comments and literals."""

  def __init__(self, path, data):
    self.path = path
    self.name = path.rsplit("/", 1)[-1]
    self.suffix = os.path.splitext(path)[1]
    self.data = data
    self.text = data.decode("utf-8", errors="replace")
    self.lines = self.text.split("\n")
    if self.lines and self.lines[-1] == "":
      self.lines.pop()
    self.is_cpp = self.suffix in CPP_SUFFIXES
    self.is_code = self.suffix in CODE_SUFFIXES or self.name in CODE_NAMES
    self.code = strip_cpp(self.text) if self.is_cpp else ""

  @property
  def layer(self):
    parts = self.path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "lockstep" else None

  def includes(self):
    for number, line in enumerate(self.lines, 1):
      match = INCLUDE.match(line)
      if match:
        yield number, match.group(1)


TOKEN = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|(?:u8|[uUL])?R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'",
    re.DOTALL)


def strip_cpp(text):
  """Comments become blanks and literals become empty strings; line numbers stay."""

  def replace(match):
    token = match.group(0)
    filler = '""' if token[-1] == '"' else "0" if token[-1] == "'" else " "
    return filler + "\n" * token.count("\n")

  return TOKEN.sub(replace, text)


def list_files(root):
  """What git tracks or would track; without git, every file outside SKIPPED_FOLDERS."""
  if (root / ".git").exists():
    command = ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    names = sorted(set(output.decode("utf-8").split("\0")) - {""})
    return [name for name in names if (root / name).is_file()]
  names = []
  for folder, folders, files in os.walk(root):
    folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
    names += [(Path(folder) / name).relative_to(root).as_posix() for name in files]
  return sorted(names)


def load(root):
  files = []
  for path in list_files(root):
    name = path.rsplit("/", 1)[-1]
    if os.path.splitext(path)[1] in TEXT_SUFFIXES or name in TEXT_NAMES:
      files.append(SourceFile(path, (root / path).read_bytes()))
  return files


def check_layers(file):
  if file.layer is None:
    if file.path.startswith("lockstep/") and file.is_cpp:
      yield Finding(file.path, 1, "layer", "code lives in a layer folder, not in lockstep/ itself")
    return
  if file.layer not in LAYER_RANK:
    yield Finding(file.path, 1, "layer",
                  f"unknown layer '{file.layer}'; layers: {' '.join(LAYERS)}")
    return
  for number, header in file.includes():
    parts = header.split("/")
    if parts[0] != "lockstep":
      continue
    if len(parts) < 3 or parts[1] not in LAYER_RANK:
      yield Finding(file.path, number, "layer", f"'{header}' is in no known layer")
      continue
    if LAYER_RANK[parts[1]] > LAYER_RANK[file.layer]:
      yield Finding(file.path, number, "layer",
                    f"'{file.layer}' must not include the later layer '{parts[1]}' ({header})")


def check_internal(file):
  for number, header in file.includes():
    parts = header.split("/")
    if parts[0] == "lockstep" and "internal" in parts[2:-1] and parts[1] != file.layer:
      yield Finding(file.path, number, "layer",
                    f"'{header}' is internal to layer '{parts[1]}'")


def check_fences(file):
  for number, header in file.includes():
    if JSON_HEADER.match(header) and file.suffix != ".cc":
      yield Finding(file.path, number, "fence", "nlohmann/json may be included in .cc files only")
    if not file.path.startswith("lockstep/"):
      continue
    for library, pattern, allowed in FENCES:
      if pattern.search(header) and not any(matches(file.path, glob) for glob in allowed):
        yield Finding(file.path, number, "fence",
                      f"{library} header '{header}' is allowed only in {', '.join(allowed)}")
  if file.path.startswith("lockstep/") and not file.path.startswith(GETENV_ALLOWED):
    for number, line in enumerate(file.code.split("\n"), 1):
      if GETENV.search(line):
        yield Finding(file.path, number, "fence",
                      f"the environment is read only in {GETENV_ALLOWED}")


def matches(path, glob):
  """As fnmatch, but a star before a suffix does not cross folders (`lockstep/op/*.cc`)."""
  if not fnmatch.fnmatchcase(path, glob):
    return False
  return glob.endswith("*") or path.count("/") == glob.count("/")


def check_test_beside(file, paths):
  if file.layer is None or file.suffix != ".cc" or file.name.endswith("_test.cc"):
    return
  if file.path[:-len(".cc")] + "_test.cc" in paths:
    return
  for folder, covering in TESTED_ELSEWHERE:
    if file.path.startswith(folder) and any(path.startswith(covering) for path in paths):
      return
  if file.layer == "op" and OP_DEF.search(file.code):
    return  # The conformance test runs every op's samples.
  yield Finding(file.path, 1, "test",
                f"no {file.name[:-len('.cc')]}_test.cc beside it and no line in the allow file")


def check_text(file):
  path = file.path
  try:
    file.data.decode("utf-8")
  except UnicodeDecodeError as error:
    yield Finding(path, file.data[:error.start].count(b"\n") + 1, "text", "not valid UTF-8")
  if file.data.startswith(b"\xef\xbb\xbf"):
    yield Finding(path, 1, "text", "byte order mark")
  if file.data and not file.data.endswith(b"\n"):
    yield Finding(path, len(file.lines), "text", "no newline at the end")
  if file.suffix == ".h" and not any(line.strip() == "#pragma once" for line in file.lines):
    yield Finding(path, 1, "text", "header without #pragma once")
  for number, line in enumerate(file.lines, 1):
    if line.endswith((" ", "\t", "\r")):
      yield Finding(path, number, "text", "white space at the end of the line")
    if "\t" in line and file.name != "Makefile":
      yield Finding(path, number, "text", "tab")
    if file.suffix in NARROW_SUFFIXES and len(line) > MAX_COLUMNS:
      yield Finding(path, number, "text", f"{len(line)} columns, at most {MAX_COLUMNS}")
    if file.is_code and UNNUMBERED_TODO.search(line):
      yield Finding(path, number, "text", "a to-do note needs its issue number: TO" "DO(#12)")
    if file.name != "LICENSE":
      for pattern, reason in FORBIDDEN_WORDS:
        match = pattern.search(line)
        if match:
          yield Finding(path, number, "text", f"'{match.group(0)}': {reason}")


def check_ownership(file):
  for number, line in enumerate(file.code.split("\n"), 1):
    if line.lstrip().startswith("#"):
      continue
    if NAKED_NEW.search(line):
      yield Finding(file.path, number, "ownership", "naked new; use std::make_unique")
    if NAKED_DELETE.search(line):
      yield Finding(file.path, number, "ownership", "naked delete; let an owner do it")


PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
ATTRIBUTE = re.compile(r"__attribute__ ?\(\(.*?\)\)")
TEMPLATE_ARGUMENTS = re.compile(r"<[^<>]*>")
TYPE_HEAD = re.compile(r"^(template +)?(typedef +)?(class|struct|union|enum)\b")
QUALIFIED_END = re.compile(r"\)( ?(const|noexcept|override|final))*$")
INITIALISER_LIST = re.compile(r"\) ?(noexcept)? ?:(?!:).*\w$")
ASSIGNED = re.compile(r"(?<![=!<>])=(?!=) ?[\w:, ]*$")
CALLED_NAME = re.compile(r"(~?[A-Za-z_][\w:~]*|operator[^(]+|operator ?\( ?\)) ?\(")
NOT_NAMES = ("decltype", "requires", "alignas", "noexcept", "explicit")
TEST_MACRO = re.compile(r"^(TEST|TEST_F|TEST_P|TYPED_TEST) ?\( ?(\w+) ?, ?(\w+) ?\)")
ACCESS = ("public", "private", "protected")


class Scanner:
  """Finds function definitions by matching braces: [(name, first line, line count)]."""

  def __init__(self, code):
    self.code = PREPROCESSOR.sub(lambda match: "\n" * match.group(0).count("\n"), code)
    self.found = []
    self.stack = []  # One (kind, name, head, parens) per open brace.
    self.line = 1
    self.parens = 0
    self.head = None  # Where the text before the next brace starts: (offset, line), or None.

  def scan(self):
    for offset, char in enumerate(self.code):
      if char == "\n":
        self.line += 1
      elif not char.isspace():
        if self.head is None:
          self.head = (offset, self.line)
        self.step(char, offset)
    return self.found

  def step(self, char, offset):
    if char == "(":
      self.parens += 1
    elif char == ")":
      self.parens = max(0, self.parens - 1)
    elif char == "{":
      kind, name = self.classify(" ".join(self.code[self.head[0]:offset].split()))
      self.stack.append((kind, name, self.head, self.parens))
      self.parens = 0
      self.head = None
    elif char == "}" and self.stack:
      kind, name, head, self.parens = self.stack.pop()
      if kind == "function":
        self.found.append((name, head[1], self.line - head[1] + 1))
      self.head = head if kind == "initialiser" else None
    elif char == ";" and self.parens == 0:
      self.head = None
    elif char == ":" and self.code[self.head[0]:offset].strip() in ACCESS:
      self.head = None

  def classify(self, head):
    """(function, name), or (block | initialiser | scope, ""), of the brace after `head`."""
    outer = self.stack[-1][0] if self.stack else "scope"
    if outer in ("function", "block"):
      return "block", ""
    if self.parens > 0 or outer == "initialiser":
      return "initialiser", ""
    head = ATTRIBUTE.sub("", head.replace("->", " "))
    while TEMPLATE_ARGUMENTS.search(head):
      head = TEMPLATE_ARGUMENTS.sub("", head)
    if "namespace" in head.split() or head.startswith('extern ""'):
      return "scope", ""
    if TYPE_HEAD.search(head) and not QUALIFIED_END.search(head):
      return "scope", ""
    if INITIALISER_LIST.search(head) and not QUALIFIED_END.search(head):
      return "initialiser", ""
    test = TEST_MACRO.match(head)
    if test:
      return "function", f"{test.group(2)}.{test.group(3)}"
    if not ASSIGNED.search(head):
      for match in CALLED_NAME.finditer(head):
        name = match.group(1).replace(" ", "")
        if name not in NOT_NAMES:
          return "function", name
    return "initialiser", ""


def check_sizes(files):
  """Returns the findings, the longest files and the longest functions."""
  findings = []
  lengths = []
  bodies = []
  for file in files:
    if not file.is_cpp and file.suffix != ".py":
      continue
    lengths.append((len(file.lines), file.path))
    if len(file.lines) > MAX_FILE_LINES:
      findings.append(Finding(file.path, 1, "file-size",
                              f"{len(file.lines)} lines, at most {MAX_FILE_LINES}"))
    if not file.is_cpp:
      continue
    for name, first, count in Scanner(file.code).scan():
      bodies.append((count, name, file.path, first))
      if count > MAX_FUNCTION_LINES:
        findings.append(Finding(file.path, first, "function-size",
                                f"{name}: {count} lines, at most {MAX_FUNCTION_LINES}", name))
  lengths.sort(reverse=True)
  bodies.sort(reverse=True)
  return findings, lengths, bodies


class AllowList:
  """The accepted exceptions, each with its reason; an unused line is itself a finding."""

  PATH = "scripts/lint_allow.txt"
  RULES = ("layer", "fence", "test", "text", "ownership", "file-size", "function-size")

  def __init__(self, root):
    self.entries = {}
    self.findings = []
    path = root / self.PATH
    if not path.is_file():
      return
    for number, raw in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
      line, _, reason = raw.partition("#")
      words = line.split()
      if not words:
        continue
      expected = 3 if words[0] == "function-size" else 2
      if words[0] not in self.RULES or len(words) != expected or not reason.strip():
        self.findings.append(Finding(self.PATH, number, "allow",
                                     f"expected `rule path  # reason`, found '{raw.strip()}'"))
        continue
      self.entries[tuple(words)] = [number, False]

  def allows(self, finding):
    key = (finding.rule, finding.path)
    if finding.rule == "function-size":
      key += (finding.subject,)
    entry = self.entries.get(key)
    if entry is None:
      return False
    entry[1] = True
    return True

  def unused(self):
    for key, (number, used) in self.entries.items():
      if not used:
        yield Finding(self.PATH, number, "allow", f"'{' '.join(key)}' allows nothing; remove it")


def check_format(root, files):
  paths = [file.path for file in files if file.suffix in (".h", ".cc")]
  if shutil.which("clang-format") is None:
    print("lint: clang-format is not installed; formatting not checked")
    return []
  jobs = max(1, os.cpu_count() or 1)
  batches = [paths[start::jobs] for start in range(jobs) if paths[start::jobs]]
  running = [subprocess.Popen(["clang-format", "--dry-run", "--Werror", *batch], cwd=root,
                              text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
             for batch in batches]
  findings = {}
  for process in running:
    output = process.communicate()[1]
    reported = len(findings)
    for line in output.split("\n"):
      match = re.match(r"(.+?):(\d+):\d+: error: ", line)
      if match and match.group(1) not in findings:
        findings[match.group(1)] = Finding(match.group(1), match.group(2), "format",
                                           "not as clang-format writes it; run `make format`")
    if process.returncode != 0 and len(findings) == reported:
      raise RuntimeError(f"clang-format failed: {output.strip()}")
  return list(findings.values())


def lint(root, with_format=False):
  """Returns (findings, longest files, longest functions) of the tree at root."""
  files = load(root)
  paths = {file.path for file in files}
  found = []
  for file in files:
    found += check_text(file)
    if file.is_cpp:
      found += check_layers(file)
      found += check_internal(file)
      found += check_fences(file)
      found += check_test_beside(file, paths)
      found += check_ownership(file)
  size_findings, lengths, bodies = check_sizes(files)
  found += size_findings
  allow = AllowList(root)
  found = [finding for finding in found if not allow.allows(finding)]
  found += allow.findings
  found += allow.unused()
  if with_format:
    found += check_format(root, files)
  return found, lengths, bodies


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
  parser.add_argument("--format", action="store_true", help="also check with clang-format")
  parser.add_argument("--quiet", action="store_true",
                      help="do not print the longest files and functions")
  options = parser.parse_args()
  findings, lengths, bodies = lint(options.root.resolve(), options.format)
  for finding in findings:
    print(finding)
  if not options.quiet:
    print("longest files:")
    for count, path in lengths[:10]:
      print(f"  {count:5d}  {path}")
    print("longest functions:")
    for count, name, path, first in bodies[:10]:
      print(f"  {count:5d}  {name}  {path}:{first}")
  print(f"lint: {len(findings)} finding{'s' if len(findings) != 1 else ''} in {len(lengths)} files")
  return 1 if findings else 0


if __name__ == "__main__":
  sys.exit(main())
