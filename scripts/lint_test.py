#!/usr/bin/env python3
"""Tests of lint.py: each rule fires on a small tree that breaks it and is silent on another."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import lint  # pylint: disable=wrong-import-position

HEADER = "#pragma once\n"


class LintTest(unittest.TestCase):

  def setUp(self):
    self.root = Path(tempfile.mkdtemp())
    self.addCleanup(shutil.rmtree, self.root)

  def write(self, path, text):
    file = self.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)

  def run_lint(self, tree, **options):
    for path, text in tree.items():
      self.write(path, text)
    return lint.lint(self.root, **options)[0]

  def expect(self, tree, *expected, **options):
    """`expected` are (path, line, rule) triples; the tree must give these and nothing else."""
    findings = self.run_lint(tree, **options)
    found = sorted((finding.path, int(finding.line), finding.rule) for finding in findings)
    self.assertEqual(found, sorted(expected), "\n".join(str(finding) for finding in findings))


class LayerTest(LintTest):

  def test_including_an_earlier_or_the_own_layer_is_right(self):
    self.expect({
        "lockstep/op/a.h": HEADER + '#include "lockstep/base/b.h"\n#include "lockstep/op/c.h"\n'
    })

  def test_including_a_later_layer(self):
    self.expect({"lockstep/base/a.h": HEADER + '\n#include "lockstep/tensor/b.h"\n'},
                ("lockstep/base/a.h", 3, "layer"))

  def test_every_neighbour_pair_of_the_order(self):
    tree = {}
    expected = []
    for earlier, later in zip(lint.LAYERS, lint.LAYERS[1:]):
      tree[f"lockstep/{earlier}/a.h"] = HEADER + f'#include "lockstep/{later}/x.h"\n'
      tree[f"lockstep/{later}/b.h"] = HEADER + f'#include "lockstep/{earlier}/x.h"\n'
      expected.append((f"lockstep/{earlier}/a.h", 2, "layer"))
    self.expect(tree, *expected)

  def test_internal_header_of_another_layer(self):
    include = '#include "lockstep/op/internal/x.h"\n'
    self.expect({
        "lockstep/op/a.h": HEADER + include,
        "lockstep/exec/b.h": HEADER + include,
        "examples/c.cc": include,
    }, ("lockstep/exec/b.h", 2, "layer"), ("examples/c.cc", 1, "layer"))

  def test_unknown_layer(self):
    self.expect({
        "lockstep/misc/a.h": HEADER,
        "lockstep/op/b.h": HEADER + '#include "lockstep/misc/a.h"\n',
        "lockstep/loose.h": HEADER,
    }, ("lockstep/misc/a.h", 1, "layer"), ("lockstep/op/b.h", 2, "layer"),
                ("lockstep/loose.h", 1, "layer"))

  def test_code_outside_the_layers_may_include_any(self):
    self.expect({"examples/a.cc": '#include "lockstep/cli/a.h"\n#include "lockstep/base/b.h"\n'})


class FenceTest(LintTest):

  def test_onednn(self):
    include = '#include <oneapi/dnnl/dnnl.hpp>\n'
    self.expect({
        "lockstep/op/relu.cc": include + "OpDef ReluDef() {}\n",
        "lockstep/op/internal/dnnl.h": HEADER + include,
        "lockstep/exec/onednn/layout.h": HEADER + include,
        "lockstep/op/relu.h": HEADER + include,
        "lockstep/exec/plan.h": HEADER + '#include "dnnl.hpp"\n',
        "lockstep/op/sub/deep.h": HEADER + include,
    }, ("lockstep/op/relu.h", 2, "fence"), ("lockstep/exec/plan.h", 2, "fence"),
                ("lockstep/op/sub/deep.h", 2, "fence"))

  def test_protobuf(self):
    self.expect({
        "lockstep/graph/serialize.cc": '#include "lockstep/graph/graph.pb.h"\n',
        "lockstep/graph/serialize_test.cc": "#include <google/protobuf/message.h>\n",
        "lockstep/graph/node.h": HEADER + '#include "lockstep/graph/graph.pb.h"\n',
        "lockstep/exec/a.h": HEADER + "#include <google/protobuf/message.h>\n",
    }, ("lockstep/graph/node.h", 2, "fence"), ("lockstep/exec/a.h", 2, "fence"))

  def test_cli_and_toml(self):
    self.expect({
        "lockstep/cli/a.h": HEADER + "#include <CLI/CLI.hpp>\n#include <toml++/toml.h>\n",
        "lockstep/train/config.h": HEADER + "#include <toml++/toml.h>\n",
        "lockstep/train/config_reader.h": HEADER + "#include <CLI/CLI.hpp>\n",
        "lockstep/train/fit.h": HEADER + "#include <toml++/toml.h>\n",
    }, ("lockstep/train/config_reader.h", 2, "fence"), ("lockstep/train/fit.h", 2, "fence"))

  def test_json_in_a_header_anywhere(self):
    include = "#include <nlohmann/json.hpp>\n"
    self.expect({
        "lockstep/observe/a_test.cc": include,
        "lockstep/observe/a.h": HEADER + include,
        "tests/b.h": HEADER + include,
    }, ("lockstep/observe/a.h", 2, "fence"), ("tests/b.h", 2, "fence"))

  def test_getenv(self):
    call = '\nconst char* home = std::getenv("HOME");\n'
    self.expect({
        "lockstep/cli/env.h": HEADER + call,
        "lockstep/train/a.h": HEADER + call,
        "lockstep/train/b.h": HEADER + "// getenv() is not called here.\nint getenv_count;\n",
    }, ("lockstep/train/a.h", 3, "fence"))


class TestBesideTest(LintTest):

  def test_source_without_test(self):
    self.expect({
        "lockstep/base/a.cc": "\n",
        "lockstep/base/a_test.cc": "\n",
        "lockstep/base/b.cc": "\n",
        "lockstep/base/internal/c.cc": "\n",
        "examples/main.cc": "\n",
    }, ("lockstep/base/b.cc", 1, "test"), ("lockstep/base/internal/c.cc", 1, "test"))

  def test_an_op_definition_has_the_conformance_test(self):
    self.expect({
        "lockstep/op/relu.cc": "namespace lockstep::op {\nOpDef ReluDef() {\n}\n}\n",
        "lockstep/op/mention.cc": "// OpDef ReluDef() is elsewhere.\n",
        "lockstep/graph/x.cc": "OpDef ReluDef() {\n}\n",
    }, ("lockstep/op/mention.cc", 1, "test"), ("lockstep/graph/x.cc", 1, "test"))

  def test_op_internals_have_the_tests_of_the_ops(self):
    self.expect({
        "lockstep/op/conformance_test.cc": "\n",
        "lockstep/op/internal/kernel.cc": "\n",
        "lockstep/op/helper.cc": "\n",
        "lockstep/exec/internal/kernel.cc": "\n",
    }, ("lockstep/op/helper.cc", 1, "test"), ("lockstep/exec/internal/kernel.cc", 1, "test"))

  def test_the_program_has_the_tests_that_run_it(self):
    self.expect({"lockstep/cli/main.cc": "\n"}, ("lockstep/cli/main.cc", 1, "test"))
    self.expect({"tests/cli/train.py": "\n"})

  def test_op_internals_without_the_conformance_test(self):
    self.expect({"lockstep/op/internal/kernel.cc": "\n"},
                ("lockstep/op/internal/kernel.cc", 1, "test"))


class TextTest(LintTest):

  def test_pragma_once(self):
    self.expect({"lockstep/base/a.h": "// #pragma once\n#ifndef A\n#endif\n"},
                ("lockstep/base/a.h", 1, "text"))

  def test_white_space_and_encoding(self):
    self.expect({
        "a.md": "fine\nnot fine \n",
        "b.py": "x = 1\n\ty = 2\n",
        "c.sh": "x=1\r\n",
        "d.toml": "x = 1",
        "e.txt": b"caf\xe9\n",
        "f.txt": "caf\u00e9\n",
        "g.json": b"\xef\xbb\xbf{}\n",
        "Makefile": "all:\n\techo\n",
    }, ("a.md", 2, "text"), ("b.py", 2, "text"), ("c.sh", 1, "text"), ("d.toml", 1, "text"),
                ("e.txt", 1, "text"), ("g.json", 1, "text"))

  def test_columns_count_characters_of_code(self):
    self.expect({
        "a.cc": "//" + 98 * "\u00e9" + "\n//" + 99 * "x" + "\n",
        "a.md": 200 * "x" + "\n",
    }, ("a.cc", 2, "text"))

  def test_to_do_needs_an_issue(self):
    note = "TO" + "DO"
    self.expect({
        "a.cc": f"// {note}(#12): later\n// {note}: later\n// {note}(me): later\nint {note}S;\n",
        "a.md": f"How a {note} is written.\n",
    }, ("a.cc", 2, "text"), ("a.cc", 3, "text"))

  def test_forbidden_words(self):
    self.expect({
        "a.md": "/wor" + "k/data\n/ho" + "me/joe/data\n",
        "b.cc": "// The Agen" + "t runs.\n// A user-agen" + "t header, reagents, agenda.\n",
        "c.py": "# the session's helpe" + "r\n# a Session's fetches; the network/layers path\n",
    }, ("a.md", 1, "text"), ("a.md", 2, "text"), ("b.cc", 1, "text"), ("c.py", 1, "text"))


class OwnershipTest(LintTest):

  def test_naked_new_and_delete(self):
    self.expect({
        "a.cc": "int* a = new int;\nauto b = new (place) T;\ndelete a;\ndelete[] a;\nF(new T());\n"
    }, *(("a.cc", line, "ownership") for line in (1, 2, 3, 4, 5)))

  def test_words_that_are_not_expressions(self):
    self.expect({
        "a.cc": "T(const T&) = delete;\n// A new value; delete it.\n"
                'F("new row, delete row");\n/* new\n   delete x */\nint new_rank = renew (3);\n'
                "#include <new>\nvoid operator delete(void*) noexcept;\nauto r = R\"(new T)\";\n"
    })


class SizeTest(LintTest):

  def test_file_over_the_limit(self):
    self.expect({"a.cc": 900 * "\n", "b.cc": 901 * "\n"}, ("b.cc", 1, "file-size"))

  def test_function_over_the_limit(self):
    body = 148 * "  x();\n"
    self.expect({
        "a.cc": "void F() {\n" + body + "}\nvoid G() {\n  y();\n" + body + "}\n"
    }, ("a.cc", 151, "function-size"))

  def test_functions_are_told_from_other_braces(self):
    code = '''\
namespace lockstep {
namespace {
constexpr int kTable[] = {
    1, 2};
const Options kOptions = Options{.a = 1,
                                 .b = 2};
}  // namespace

enum class Kind : int {
  kA,
};

template <typename T, typename = std::enable_if_t<sizeof(T)>>
class LS_CAPABILITY("mutex") Holder final : public Base<T> {
 public:
  Holder(int a, std::function<void(int)> f = {})
      : a_{a}, f_(std::move(f)), c_{1} {
    Start([&] {
      if (a) { Stop("}"); }
    });
  }
  bool operator==(const Holder& other) const {
    return true;
  }
  Result<std::unique_ptr<T>> Create(
      const std::map<int, std::vector<int>>& m) const LS_REQUIRES(mu_) {
    return {};
  }

 private:
  int a_ = 0;
  std::array<int, 2> b_{1, 2};
};

#define LS_TWICE(x) \\
  { x; x; }

auto Trailing(int x) -> Result<int> {
  return x == 1 ? 2 : 1'000;
}
extern "C" {
__attribute__((target("avx2"))) void Wide() {
}
}
TEST(Suite, Name) {
}
}  // namespace lockstep
'''
    found = lint.Scanner(lint.strip_cpp(code)).scan()
    self.assertEqual(found, [("Holder", 16, 6), ("operator==", 22, 3), ("Create", 25, 4),
                             ("Trailing", 38, 3), ("Wide", 42, 2), ("Suite.Name", 45, 2)])

  def test_longest_come_first(self):
    for path, lines in (("a.cc", 3), ("b.cc", 7), ("c.py", 5)):
      self.write(path, lines * "\n")
    self.write("d.cc", "void Short() {}\nvoid Long() {\n\n}\n")
    _, lengths, bodies = lint.lint(self.root)
    self.assertEqual(lengths, [(7, "b.cc"), (5, "c.py"), (4, "d.cc"), (3, "a.cc")])
    self.assertEqual(bodies, [(3, "Long", "d.cc", 2), (1, "Short", "d.cc", 1)])


class AllowTest(LintTest):

  ALLOW = "scripts/lint_allow.txt"

  def test_a_line_allows_its_finding_only(self):
    self.expect({
        "lockstep/base/a.cc": "\n",
        "lockstep/base/b.cc": "\n",
        self.ALLOW: "# Comment.\n\ntest lockstep/base/a.cc  # covered by b\n",
    }, ("lockstep/base/b.cc", 1, "test"))

  def test_a_function_is_allowed_by_name(self):
    body = "() {\n" + 150 * "  x();\n" + "}\n"
    self.expect({
        "a.cc": "void F" + body + "void G" + body,
        self.ALLOW: "function-size a.cc F  # a table\n",
    }, ("a.cc", 153, "function-size"))

  def test_an_unused_line(self):
    self.expect({
        "lockstep/base/a.cc": "\n",
        "lockstep/base/a_test.cc": "\n",
        self.ALLOW: "test lockstep/base/a.cc  # covered by b\n",
    }, (self.ALLOW, 1, "allow"))

  def test_lines_without_reason_or_of_unknown_form(self):
    self.expect({
        self.ALLOW: "test a.cc\nnothing a.cc  # why\nfunction-size a.cc  # which\n",
    }, *((self.ALLOW, line, "allow") for line in (1, 2, 3)))


class FormatTest(LintTest):

  @unittest.skipIf(shutil.which("clang-format") is None, "clang-format is not installed")
  def test_format(self):
    tree = {
        ".clang-format": "BasedOnStyle: Google\n",
        "a.cc": "int  main( ) {return 0;}\n\n\n\n\nint x  ;\n",
        "b.cc": "int x;\n",
    }
    self.expect(tree)
    self.expect(tree, ("a.cc", 1, "format"), with_format=True)


class ProgramTest(LintTest):

  def run_program(self):
    return subprocess.run([sys.executable, str(Path(lint.__file__)), "--root", str(self.root)],
                          capture_output=True, text=True, check=False)

  def test_exit_status_and_output(self):
    self.write("lockstep/base/a.h", HEADER)
    result = self.run_program()
    self.assertEqual(result.returncode, 0)
    self.assertEqual(result.stdout.splitlines()[-1], "lint: 0 findings in 1 files")
    self.write("lockstep/base/b.h", "\n")
    result = self.run_program()
    self.assertEqual(result.returncode, 1)
    self.assertIn("lockstep/base/b.h:1: text: header without #pragma once", result.stdout)

  def test_ignored_files_of_a_repository_are_not_read(self):
    subprocess.run(["git", "init", "-q", str(self.root)], check=True)
    self.expect({
        ".gitignore": "/build/\n",
        "build/a.h": "\n",
        "new.h": "\n",
    }, ("new.h", 1, "text"))


if __name__ == "__main__":
  unittest.main()
