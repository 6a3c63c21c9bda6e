// Hand-made messages, one for each rule of the reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "lockstep/graph/graph.pb.h"
#include "lockstep/graph/serialize.h"
#include "lockstep/graph/testing/sample_graph.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// A varint of any value and a field of any number, as a writer of another version could write them.
std::string Varint(uint64_t value) {
  std::string bytes;
  while (value >= 0x80) {
    bytes += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  return bytes + static_cast<char>(value);
}

std::string Delimited(uint64_t number, const std::string& content) {
  return Varint(number << 3 | 2) + Varint(content.size()) + content;
}

class SerializeHostileTest : public ::testing::Test {
 protected:
  SerializeHostileTest() {
    message_.set_version(kGraphFormatVersion);
    proto::NodeDef& x = AddNode("x", "TestInput");
    SetAttr(x, "shape").mutable_shape_value()->add_dims(2);
  }

  proto::NodeDef& AddNode(const std::string& name, const std::string& op,
                          const std::vector<std::string>& inputs = {}) {
    proto::NodeDef& node = *message_.add_nodes();
    node.set_name(name);
    node.set_op(op);
    for (const std::string& input : inputs) {
      node.add_inputs(input);
    }
    return node;
  }

  static proto::AttrValue& SetAttr(proto::NodeDef& node, const std::string& name) {
    proto::AttrDef& attr = *node.add_attrs();
    attr.set_name(name);
    return *attr.mutable_value();
  }

  proto::CollectionDef& AddCollection(const std::string& name,
                                      const std::vector<std::string>& values) {
    proto::CollectionDef& collection = *message_.add_collections();
    collection.set_name(name);
    for (const std::string& value : values) {
      collection.add_values(value);
    }
    return collection;
  }

  Status ParseBytes(std::string_view bytes) const {
    return ParseGraph(bytes, catalog_, limits_).status();
  }

  Status Parse() const { return ParseBytes(message_.SerializeAsString()); }

  // The message is INVALID_ARGUMENT and says so.
  void ExpectInvalid(const ::testing::Matcher<std::string>& message) const {
    const Status status = Parse();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), message);
  }

  void ExpectTooMuch(const ::testing::Matcher<std::string>& message) const {
    const Status status = Parse();
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(), message);
  }

  // One constant more, with the tensor that `fill` writes.
  void ExpectBadTensor(const std::function<void(proto::TensorProto&)>& fill,
                       const std::string& message) {
    const proto::GraphDef saved = message_;
    proto::NodeDef& node = AddNode("t", "TestConst");
    fill(*SetAttr(node, "value").mutable_tensor_value());
    ExpectInvalid(AllOf(HasSubstr("node 1 't' (byte"), HasSubstr("attrs[0] 'value': " + message)));
    message_ = saved;
  }

  OpCatalog catalog_{testing::SampleOps()};
  ParseLimits limits_;
  proto::GraphDef message_;
};

TEST_F(SerializeHostileTest, TheBaseOfAllCasesIsGood) {
  EXPECT_TRUE(Parse().ok()) << Parse().ToString();
}

TEST_F(SerializeHostileTest, Versions) {
  EXPECT_THAT(ParseBytes("").message(),
              HasSubstr("a graph of format version 0, this program reads 1"));
  message_.set_version(2);
  ExpectInvalid(HasSubstr("a graph of format version 2, this program reads 1"));
  // Not the low 32 bits only, and before the fields that such a version may have.
  message_.set_version(uint64_t{1} << 32 | 1);
  const std::string bytes = Delimited(9, "news") + message_.SerializeAsString();
  EXPECT_THAT(ParseBytes(bytes).message(), HasSubstr("a graph of format version 4294967297"));
}

TEST_F(SerializeHostileTest, UnknownFieldsAtEveryLevel) {
  const std::string good = message_.SerializeAsString();
  EXPECT_THAT(ParseBytes(good + Delimited(9, "")).message(),
              HasSubstr("unknown field 9 of GraphDef"));
  const std::string version = "\x08\x01";
  const auto node = [&](const std::string& content) {
    return ParseBytes(version + Delimited(2, content)).message();
  };
  const auto attr = [&](const std::string& value) {
    return node(Delimited(1, "n") + Delimited(5, Delimited(1, "a") + Delimited(2, value)));
  };
  EXPECT_THAT(node(Delimited(9, "")), HasSubstr("node 0 '' (byte 2): unknown field 9 of NodeDef"));
  EXPECT_THAT(node(Delimited(5, Delimited(3, ""))), HasSubstr("unknown field 3 of AttrDef"));
  EXPECT_THAT(attr(Delimited(9, "")), HasSubstr("unknown field 9 of AttrValue"));
  EXPECT_THAT(attr(Delimited(8, Delimited(4, ""))), HasSubstr("unknown field 4 of TensorProto"));
  EXPECT_THAT(attr(Delimited(7, Delimited(2, ""))), HasSubstr("unknown field 2 of ShapeProto"));
  EXPECT_THAT(attr(Delimited(5, Delimited(2, ""))), HasSubstr("unknown field 2 of Ints"));
  EXPECT_THAT(ParseBytes(good + Delimited(3, Delimited(3, ""))).message(),
              HasSubstr("unknown field 3 of CollectionDef"));
}

TEST_F(SerializeHostileTest, MalformedBytesNameTheirPosition) {
  const std::string version = "\x08\x01";
  const auto error = [&](const std::string& rest) {
    const Status status = ParseBytes(version + rest);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_THAT(error("\x12"), HasSubstr("byte 2: malformed or cut off"));
  EXPECT_THAT(error("\x12\x05 ab"), HasSubstr("byte 2: malformed or cut off"));
  // A length of 2^64 - 1, a group, the field number 0, an endless varint.
  EXPECT_THAT(error("\x12" + Varint(UINT64_MAX) + "ab"), HasSubstr("byte 2: malformed"));
  EXPECT_THAT(error("\x13\x14"), HasSubstr("byte 2: malformed"));
  EXPECT_THAT(error(std::string(2, '\0')), HasSubstr("byte 2: malformed"));
  EXPECT_THAT(error("\x08" + std::string(20, '\xff')), HasSubstr("byte 2: malformed"));
  // Within a node, whose content starts at byte 4.
  EXPECT_THAT(error(Delimited(2,
                              "\x0a\x01"
                              "a\x12")),
              HasSubstr("node 0 '' (byte 2): byte 7: malformed or cut off"));
  EXPECT_THAT(error(Delimited(2, Delimited(5, "\x12"))),
              HasSubstr("node 0 '' (byte 2): malformed or cut off"));
  EXPECT_THAT(error(Delimited(3, "\x0a")), HasSubstr("collection '' (byte 2): byte 4: malformed"));
}

TEST_F(SerializeHostileTest, Limits) {
  limits_.max_bytes = message_.ByteSizeLong() - 1;
  ExpectTooMuch(HasSubstr("(max_bytes)"));
  limits_ = {.max_nodes = 1};
  EXPECT_TRUE(Parse().ok());
  AddNode("y", "TestSum", {"x", "x", "^x"});
  ExpectTooMuch(HasSubstr("more than 1 nodes (max_nodes)"));
  AddCollection("c", {"x"});
  limits_ = {.max_edges = 4};
  EXPECT_TRUE(Parse().ok());
  limits_ = {.max_edges = 3};
  ExpectTooMuch(AllOf(HasSubstr("collection ''"), HasSubstr("(max_edges)")));
  limits_ = {.max_edges = 2};
  ExpectTooMuch(AllOf(HasSubstr("node 1"), HasSubstr("(max_edges)")));
  limits_ = {.max_name_bytes = 8};
  ExpectTooMuch(HasSubstr("node 0 'x' (byte 2): op: 'TestInput' has 9 bytes, allowed are 8"));
}

TEST_F(SerializeHostileTest, ManyEmptyFieldsAreCountedBeforeTheyAreBuilt) {
  std::string attrs;
  for (int i = 0; i < 2000; ++i) {
    attrs += Delimited(5, "");
  }
  EXPECT_THAT(ParseBytes("\x08\x01" + Delimited(2, attrs)).message(),
              HasSubstr("node 0 '' (byte 2): more than 1024 fields"));
  std::string collections;
  for (int i = 0; i < 2000; ++i) {
    collections += Delimited(3, "");
  }
  EXPECT_THAT(ParseBytes("\x08\x01" + collections).message(),
              HasSubstr("more than 1024 collections"));
}

TEST_F(SerializeHostileTest, Names) {
  proto::NodeDef& x = *message_.mutable_nodes(0);
  for (const char* bad : {"", "^x", "a b", "a:0", "-a", "/a", "\xc3\xa9"}) {
    x.set_name(bad);
    ExpectInvalid(AllOf(HasSubstr("node 0 '"), HasSubstr("name: "), HasSubstr("allowed are")));
  }
  x.set_name("a\x1b[2Jb");
  ExpectInvalid(HasSubstr("name: 'a\\x1b[2Jb' has a control character"));
  x.set_name(std::string(2000, 'n'));
  ExpectTooMuch(HasSubstr("name: 'nnnnnnnnnnnnnnnn...' (2000 bytes) has 2000 bytes, allowed are"));
}

TEST_F(SerializeHostileTest, ANameGivenTwice) {
  AddNode("y", "TestNothing");
  AddNode("x", "TestNothing");
  const Status status = Parse();
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("node 2 'x' (byte "), HasSubstr("name: node 0 has the same name")));
}

TEST_F(SerializeHostileTest, Ops) {
  proto::NodeDef& node = AddNode("y", "TestNothink");
  EXPECT_EQ(Parse().code(), StatusCode::kNotFound);
  EXPECT_THAT(Parse().message(),
              AllOf(HasSubstr("node 1 'y' (byte "), HasSubstr("did you mean 'TestNothing'?")));
  node.set_op("TestFused");
  node.add_inputs("x");
  ExpectInvalid(HasSubstr("op: op TestFused is internal"));
  node.set_op("a\nb");
  ExpectInvalid(HasSubstr("op: 'a\\nb' has a control character"));
}

TEST_F(SerializeHostileTest, Inputs) {
  proto::NodeDef& node = AddNode("y", "TestSum", {"x", "z"});
  ExpectInvalid(
      AllOf(HasSubstr("node 1 'y' (byte "), HasSubstr("inputs[1]: there is no node 'z'")));
  const auto bad_input = [&](const std::string& input, const std::string& message) {
    node.set_inputs(1, input);
    ExpectInvalid(HasSubstr("inputs[1]: " + message));
  };
  bad_input("^z", "there is no node 'z'");
  bad_input("", "'' is no name of a node");
  bad_input("x:", "'x:' is malformed, expected NAME, NAME:OUTPUT or ^NAME");
  bad_input("x:-1", "'x:-1' is malformed");
  bad_input("x:1x", "'x:1x' is malformed");
  bad_input("x:99999999999", "'x:99999999999' is malformed");
  bad_input("^x:0", "'x:0' is no name of a node");
  bad_input("x\n", "'x\\n' has a control character");
  node.set_inputs(0, "^x");
  bad_input("x", "a value after a control input");
  node.set_inputs(0, "x");
  node.set_inputs(1, "x:1");
  ExpectInvalid(HasSubstr("input 1 is output 1 of 'x', which has 1 output"));
  node.set_inputs(1, "x:0");
  EXPECT_TRUE(Parse().ok());
  node.set_op("TestPair");
  ExpectInvalid(HasSubstr("op TestPair 'y': it has 2 inputs, expected 1"));
  node.set_op("TestAssign");
  ExpectInvalid(HasSubstr("input 0 ('x') must be a variable"));
}

TEST_F(SerializeHostileTest, CyclesOfValuesAndOfControl) {
  AddNode("a", "TestSum", {"c"});
  AddNode("b", "TestSum", {"a"});
  proto::NodeDef& c = AddNode("c", "TestSum", {"x", "^b"});
  ExpectInvalid(AllOf(HasSubstr("node 1 'a' (byte "),
                      HasSubstr("inputs: the graph has a cycle: a -> b -> c -> a")));
  c.set_inputs(1, "^c");
  ExpectInvalid(HasSubstr("cycle: c -> c"));
  c.set_inputs(1, "^x");
  EXPECT_TRUE(Parse().ok());
}

TEST_F(SerializeHostileTest, NodesInAnyOrder) {
  proto::GraphDef reversed;
  reversed.set_version(1);
  AddNode("a", "TestSum", {"x"});
  AddNode("b", "TestSum", {"a", "x"});
  for (int i = message_.nodes_size() - 1; i >= 0; --i) {
    *reversed.add_nodes() = message_.nodes(i);
  }
  const auto graph = ParseGraph(reversed.SerializeAsString(), catalog_, {});
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  EXPECT_EQ((*graph)->nodes()[0]->name, "x");
  EXPECT_EQ((*graph)->nodes()[1]->name, "a");
  EXPECT_EQ((*graph)->nodes()[2]->inputs[0].name(), "a");
}

TEST_F(SerializeHostileTest, DevicesFilesAndLines) {
  proto::NodeDef& x = *message_.mutable_nodes(0);
  x.set_device("/gpu");
  EXPECT_TRUE(Parse().ok());
  x.set_device("/job:1");
  ExpectInvalid(
      AllOf(HasSubstr("node 0 'x' (byte 2): device: "), HasSubstr("'job:1' is malformed")));
  x.set_device("cpu:0\r");
  ExpectInvalid(HasSubstr("device: 'cpu:0\\x0d' has a control character"));
  x.set_device("");
  x.set_file("a\x7f");
  ExpectInvalid(HasSubstr("file: 'a\\x7f' has a control character"));
  x.set_file(std::string(5000, 'f'));
  ExpectTooMuch(HasSubstr("file: "));
  x.set_file("");
  for (const int64_t bad : {int64_t{-1}, int64_t{1} << 31, kMax}) {
    x.set_line(bad);
    ExpectInvalid(HasSubstr("line: "));
  }
}

TEST_F(SerializeHostileTest, Colocation) {
  proto::NodeDef& x = *message_.mutable_nodes(0);
  x.set_colocate_with("nothing");
  ExpectInvalid(HasSubstr("colocate_with: there is no node 'nothing'"));
  x.set_colocate_with("a b");
  ExpectInvalid(HasSubstr("colocate_with: 'a b' is no name of a node"));
  x.set_colocate_with("x");
  const Result<std::unique_ptr<Graph>> graph =
      ParseGraph(message_.SerializeAsString(), catalog_, {});
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  EXPECT_EQ((*graph)->nodes()[0]->colocate_with, "x");
}

TEST_F(SerializeHostileTest, Attributes) {
  proto::NodeDef& node = AddNode("y", "TestNothing");
  SetAttr(node, "count").set_int_value(1);
  SetAttr(node, "count").set_int_value(2);
  EXPECT_EQ(Parse().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(Parse().message(), HasSubstr("attrs[1] 'count': the attribute is given twice"));
  proto::AttrDef& attr = *node.mutable_attrs(1);
  attr.set_name("colour");
  ExpectInvalid(HasSubstr("op TestNothing 'y': there is no attribute 'colour'"));
  attr.set_name("flag");
  ExpectInvalid(HasSubstr("op TestNothing 'y': attribute 'flag' is int, expected bool"));
  attr.clear_value();
  ExpectInvalid(HasSubstr("attrs[1] 'flag': there is no value"));
  attr.set_name("fl\tag");
  ExpectInvalid(HasSubstr("attrs[1]: 'fl\\tag' has a control character"));
  attr.set_name("label");
  attr.mutable_value()->set_string_value(std::string(1, '\0'));
  ExpectInvalid(HasSubstr("attrs[1] 'label': '\\x00' has a control character"));
  attr.mutable_value()->set_string_value(std::string(5000, 's'));
  ExpectTooMuch(HasSubstr("attrs[1] 'label': "));
  message_.mutable_nodes()->RemoveLast();
  proto::NodeDef& x = *message_.mutable_nodes(0);
  for (const int64_t bad : {int64_t{-1}, int64_t{0}, int64_t{8}, int64_t{257}, kMax}) {
    proto::NodeDef saved = x;
    SetAttr(x, "dtype").set_dtype_value(bad);
    ExpectInvalid(HasSubstr("attrs[1] 'dtype': unknown element type number"));
    x = saved;
  }
  proto::ShapeProto& shape = *x.mutable_attrs(0)->mutable_value()->mutable_shape_value();
  shape.set_dims(0, -2);
  ExpectInvalid(HasSubstr("attrs[0] 'shape': dims: a shape has the dimension -2"));
  shape.set_dims(0, kMax);
  ExpectInvalid(HasSubstr("attrs[0] 'shape': dims: "));
  shape.set_dims(0, int64_t{1} << 61);
  ExpectInvalid(HasSubstr("larger than any memory"));
  for (int i = 0; i < 100000; ++i) {
    shape.add_dims(1);
  }
  ExpectInvalid(HasSubstr("dims: a shape has 100001 dimensions, allowed are at most 8"));
  x.clear_attrs();
  ExpectInvalid(HasSubstr("op TestInput 'x': the attribute 'shape' (shape) is missing"));
}

TEST_F(SerializeHostileTest, Tensors) {
  const auto tensor = [](int64_t dtype, std::vector<int64_t> dims, std::string data) {
    return [=](proto::TensorProto& message) {
      message.set_dtype(dtype);
      message.mutable_dims()->Assign(dims.begin(), dims.end());
      message.set_data(data);
    };
  };
  constexpr int64_t kHuge = int64_t{1} << 61;
  ExpectBadTensor(tensor(0, {}, "abcd"), "dtype: unknown element type number 0");
  ExpectBadTensor(tensor(8, {}, "abcd"), "dtype: unknown element type number 8");
  ExpectBadTensor(tensor(int64_t{1} << 32 | 1, {}, "abcd"), "dtype: unknown element type number");
  ExpectBadTensor(tensor(1, {-1}, ""), "dims: a tensor needs a fully known shape, found [?]");
  ExpectBadTensor(tensor(1, {-2}, ""), "dims: a shape has the dimension -2");
  ExpectBadTensor(tensor(1, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "abcd"), "dims: a shape has 9 dimensions");
  ExpectBadTensor(tensor(1, {}, ""), "data: 0 bytes, a tensor float32 [] needs 1 times 4");
  ExpectBadTensor(tensor(1, {2}, "abcdefg"), "data: 7 bytes, a tensor float32 [2] needs 2 times 4");
  ExpectBadTensor(tensor(1, {2}, "abcd"), "data: 4 bytes");
  ExpectBadTensor(tensor(1, {0}, "abcd"), "data: 4 bytes, a tensor float32 [0] needs 0 times 4");
  // 2^61 elements of 8 bytes are 2^64, which is 0 in 64 bits.
  ExpectBadTensor(tensor(3, {kHuge}, ""), "data: 0 bytes");
  ExpectBadTensor(tensor(6, {kHuge, kHuge}, ""), "dims: ");
  ExpectBadTensor(tensor(7, {3}, std::string("\0\1\2", 3)),
                  "data: element 2 of a bool tensor is 2, allowed are 0 and 1");
  limits_.max_tensor_bytes = 7;
  proto::NodeDef& node = AddNode("t", "TestConst");
  tensor(1, {2}, "abcdefgh")(*SetAttr(node, "value").mutable_tensor_value());
  ExpectTooMuch(HasSubstr("attrs[0] 'value': data: 8 bytes, allowed are 7 (max_tensor_bytes)"));
  limits_.max_tensor_bytes = 8;
  EXPECT_TRUE(Parse().ok());
  // Dimensions whose product is no number are harmless beside a zero.
  tensor(1, {kHuge, kHuge, 0}, "")(*node.mutable_attrs(0)->mutable_value()->mutable_tensor_value());
  EXPECT_TRUE(Parse().ok()) << Parse().ToString();
}

TEST_F(SerializeHostileTest, Collections) {
  AddNode("n", "TestNothing");
  proto::CollectionDef& collection = AddCollection("c", {"x", "n"});
  EXPECT_TRUE(Parse().ok());
  const auto bad_value = [&](const std::string& value, const std::string& message) {
    collection.set_values(1, value);
    ExpectInvalid(AllOf(HasSubstr("collection 'c' (byte "), HasSubstr(message)));
  };
  bad_value("z", "there is no node 'z'");
  bad_value("^x", "values[1]: '^x' is no value");
  bad_value("x:1", "node 'x' has 1 output, there is no output 1");
  bad_value("n:1", "node 'n' has 0 outputs, there is no output 1");
  bad_value("x:y", "values[1]: 'x:y' is malformed");
  collection.clear_values();
  ExpectInvalid(HasSubstr("collection 'c' (byte "));
  collection.add_values("x");
  AddCollection("c", {"x"});
  EXPECT_EQ(Parse().code(), StatusCode::kAlreadyExists);
  collection.set_name("");
  ExpectInvalid(HasSubstr("collection '' (byte "));
  collection.set_name("a\nb");
  ExpectInvalid(HasSubstr("collection 'a\\nb' (byte "));
}

}  // namespace
}  // namespace lockstep
