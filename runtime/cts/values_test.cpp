//===- values_test.cpp - whole tensors, slices and files ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/bootstrap.h"
#include "cts/support.h"
#include "tandem_rt/safetensors.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sys/stat.h>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

Tensor iota(Shape shape) {
  std::vector<float> values(size_t(numElements(shape)));
  std::iota(values.begin(), values.end(), 0.0f);
  return tensorOf(std::move(shape), values);
}

/// A Program that copies an argument to a result of the same form, and to one
/// that shows the local slices of all ranks one after the other.
struct Mirror {
  Mirror(std::vector<Axis> mesh, Shape shape, Form form) : b(mesh) {
    uint32_t x = b.addArgument(
        {"input", "x", ElementType::F32, shape, {}, form, -1, {}});
    uint32_t y =
        b.addResult({"output", "y", ElementType::F32, shape, {}, form, {}});
    Shape local = b.get().arguments[x].localShape;
    Form stacked;
    stacked.dims.resize(1);
    for (uint32_t axis = 0; axis < mesh.size(); ++axis)
      stacked.dims[0].axes.push_back(axis);
    Shape all = {numElements(local) * b.get().numRanks()};
    uint32_t z = b.addResult(
        {"output", "slices", ElementType::F32, all, {}, stacked, {}});
    b.add({.name = "copy"}, Copy{b.argument(x), b.result(y)});
    b.add({.name = "show"}, Copy{b.argument(x), b.result(z)});
    session = startTwin(b);
    Tensor value = iota(shape);
    set(*session, "input", "x", value);
    EXPECT_OK(session->step());
    slices = valuesOf<float>(result(*session, "output", "slices"));
    EXPECT_EQ(valuesOf<float>(argument(*session, "input", "x")),
              valuesOf<float>(value));
    EXPECT_EQ(valuesOf<float>(result(*session, "output", "y")),
              valuesOf<float>(value));
  }
  ProgramBuilder b;
  std::unique_ptr<TwinSession> session;
  std::vector<float> slices;
};

using F = std::vector<float>;

TEST(Slices, OneAxis) {
  Mirror rows({{"data", 2}}, {4, 2}, {{{1, {0}}, {}}, {}});
  EXPECT_EQ(rows.slices, (F{0, 1, 2, 3, 4, 5, 6, 7}));
  Mirror columns({{"data", 2}}, {2, 4}, {{{}, {1, {0}}}, {}});
  EXPECT_EQ(columns.slices, (F{0, 1, 4, 5, 2, 3, 6, 7}));
}

/// Time is major: each rank holds its slice of every microbatch.
TEST(Slices, TimeComesFirst) {
  Mirror batch({{"data", 2}}, {8}, {{{2, {0}}}, {}});
  EXPECT_EQ(batch.slices, (F{0, 1, 4, 5, 2, 3, 6, 7}));
  Mirror four({{"data", 2}}, {8}, {{{4, {0}}}, {}});
  EXPECT_EQ(four.slices, (F{0, 2, 4, 6, 1, 3, 5, 7}));
}

TEST(Slices, TwoAxesInMeshOrder) {
  Mirror same({{"data", 2}, {"model", 2}}, {8}, {{{1, {0, 1}}}, {}});
  EXPECT_EQ(same.slices, (F{0, 1, 2, 3, 4, 5, 6, 7}));
  Mirror apart({{"data", 2}, {"model", 2}}, {2, 4}, {{{1, {1}}, {1, {0}}}, {}});
  EXPECT_EQ(apart.slices, (F{0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(Slices, FullAndReduce) {
  Mirror full({{"data", 2}}, {2}, {{{}}, {}});
  EXPECT_EQ(full.slices, (F{0, 1, 0, 1}));
  Mirror terms({{"data", 2}, {"model", 2}}, {2}, {{{1, {1}}}, {0}});
  EXPECT_EQ(terms.slices, (F{0, 1, 0, 0}));
}

TEST(Slices, ScalarsAndEmptyTensors) {
  Mirror scalar({{"data", 2}}, {}, {});
  EXPECT_EQ(scalar.slices, (F{0, 0}));
  Mirror empty({{"data", 2}}, {0, 3}, {{{1, {0}}, {}}, {}});
  EXPECT_TRUE(empty.slices.empty());
}

/// A name for a file that goes with the test.
class TemporaryFile {
public:
  TemporaryFile()
      : path(testing::TempDir() + "tandem-rt-" + std::to_string(getpid())) {}
  ~TemporaryFile() { std::remove(path.c_str()); }
  void write(const std::string &text) const {
    std::ofstream(path, std::ios::binary) << text;
  }
  /// A file with this header and so many bytes of data.
  void writeHeader(const std::string &header, size_t data) const {
    uint64_t length = header.size();
    std::string prefix(reinterpret_cast<const char *>(&length), 8);
    write(prefix + header + std::string(data, '\0'));
  }
  const std::string path;
};

TEST(Safetensors, ReadsWhatWasWritten) {
  TemporaryFile file;
  Tensor a = iota({2, 3});
  Tensor b = tensorOf<int64_t>({}, {-5});
  Tensor c(ElementType::I1, {3});
  c.data = {1, 0, 1};
  Tensor d(ElementType::BF16, {0, 4});
  EXPECT_OK(writeSafetensors(file.path,
                             {{"parameter/w \"quoted\"", a.view()},
                              {"step/step", b.view()},
                              {"mask", c.view()},
                              {"empty", d.view()}},
                             {{"format", "pt"}}));
  auto read = SafetensorsFile::open(file.path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->tensors().size(), 4u);
  EXPECT_EQ(read->metadata().at("format"), "pt");
  const TensorView *w = read->find("parameter/w \"quoted\"");
  ASSERT_TRUE(w);
  EXPECT_EQ(w->shape, (Shape{2, 3}));
  EXPECT_EQ(std::memcmp(w->data, a.data.data(), a.data.size()), 0);
  EXPECT_EQ(std::memcmp(read->find("mask")->data, c.data.data(), 3), 0);
  EXPECT_EQ(read->find("empty")->shape, (Shape{0, 4}));
  EXPECT_EQ(read->find("other"), nullptr);
}

TEST(Safetensors, SaysWhatIsWrong) {
  TemporaryFile file;
  auto expect = [&](const std::string &text) {
    expectError(SafetensorsFile::open(file.path).status(), text);
  };
  expectError(SafetensorsFile::open("/no/such/file").status(),
              "cannot read '/no/such/file': No such file or directory");
  expectError(SafetensorsFile::open("/").status(), "expected a regular file");
  file.write("");
  expect("has 0 bytes, expected at least 8");
  file.write("abc");
  expect("file has 3 bytes, expected at least 8");
  file.write("this is no such file at all");
  expect("the file is truncated or not a safetensors file");
  file.writeHeader("[1, 2]", 0);
  expect("header is not a JSON object");
  file.writeHeader("{\"a\": ", 0);
  expect("header is not a JSON object");
  auto entry = [](const char *dtype, const char *shape, const char *offsets) {
    return std::string("{\"w\":{\"dtype\":\"") + dtype +
           "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
  };
  file.writeHeader(entry("F32", "[2]", "[0,8]"), 7);
  expect("tensor 'w' lies at [0, 8), expected within 7 bytes: the file is "
         "truncated or corrupt");
  file.writeHeader(entry("F32", "[3]", "[0,8]"), 8);
  expect("tensor 'w' has 8 bytes, expected 12 for f32[3]");
  file.writeHeader(entry("U16", "[4]", "[0,8]"), 8);
  expect("tensor 'w' has dtype \"U16\", expected F64, F32");
  file.writeHeader(entry("F32", "[-2]", "[0,8]"), 8);
  expect("has extent -2");
  file.writeHeader(entry("F32", "[2]", "[8,0]"), 8);
  expect("lies at [8, 0)");
  file.writeHeader(entry("F32", "[2]", "null"), 8);
  expect("has no pair of data_offsets");
  file.writeHeader("{\"w\": 3}", 8);
  expect("tensor 'w' has no dtype, shape and data_offsets");
  file.writeHeader("{\"v\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":"
                   "[0,4]},\"w\":{\"dtype\":\"I8\",\"shape\":[4],"
                   "\"data_offsets\":[3,7]}}",
                   8);
  expect("tensor 'w' overlaps 'v'");
  file.writeHeader(entry("F32", "[281474976710656, 281474976710656]", "[0,8]"),
                   8);
  expect("tensor 'w' has the shape [281474976710656, 281474976710656], "
         "expected less than 2^64 bytes");
  std::string many = "1";
  for (int i = 1; i < 65; ++i)
    many += ",1";
  file.writeHeader(entry("F32", ("[" + many + "]").c_str(), "[0,4]"), 8);
  expect("has 65 dimensions, expected at most 64");
  file.writeHeader("{\"a\\nb\":{}}", 8);
  expect("header has a name with control characters, expected a text of one");
  file.writeHeader("{\"w\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":"
                   "[0,4]},\"w\":{\"dtype\":\"I8\",\"shape\":[4],"
                   "\"data_offsets\":[4,8]}}",
                   8);
  expect("header has 'w' twice, expected each name once");
  std::string deep(100000, '['), closed(100000, ']');
  file.writeHeader("{\"__metadata__\":{\"a\":" + deep + closed + "}}", 0);
  expect("header has brackets more than 64 deep in one another");
  std::string fifo = file.path + ".fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  expectError(SafetensorsFile::open(fifo).status(),
              "cannot read '" + fifo + "': expected a regular file");
  std::filesystem::remove(fifo);
  expectError(writeSafetensors("/no/such/folder/file", {}),
              "cannot write '/no/such/folder/file': No such file");
  expectError(writeSafetensors("/dev/null", {}),
              "cannot write '/dev/null': expected a regular file");
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
}

using Variables = std::map<std::string, const char *>;

Expected<Rendezvous> rendezvous(const Variables &variables) {
  return rendezvousFrom([&](const char *name) {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second;
  });
}

TEST(Bootstrap, KnowsTheLaunchers) {
  EXPECT_EQ(rendezvous({})->worldSize, 1);
  auto torchrun = rendezvous({{"RANK", "3"},
                              {"WORLD_SIZE", "4"},
                              {"LOCAL_RANK", "1"},
                              {"MASTER_ADDR", "host"},
                              {"MASTER_PORT", "1234"},
                              {"OMPI_COMM_WORLD_RANK", "0"},
                              {"OMPI_COMM_WORLD_SIZE", "1"}});
  ASSERT_TRUE(torchrun.ok());
  EXPECT_EQ(torchrun->rank, 3);
  EXPECT_EQ(torchrun->worldSize, 4);
  EXPECT_EQ(torchrun->localRank, 1);
  EXPECT_EQ(torchrun->masterAddress, "host");
  EXPECT_EQ(torchrun->masterPort, 1234);
  for (const Variables &variables :
       {Variables{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
        Variables{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}},
        Variables{{"SLURM_PROCID", "1"},
                  {"SLURM_STEP_NUM_TASKS", "2"},
                  {"SLURM_STEP_NODELIST", "n[07-09,11],m"}}}) {
    auto found = rendezvous(variables);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->rank, 1);
    EXPECT_EQ(found->worldSize, 2);
    EXPECT_EQ(found->masterAddress,
              variables.contains("SLURM_PROCID") ? "n07" : "127.0.0.1");
  }
}

TEST(Bootstrap, KnowsPortsAndTimes) {
  auto agent = rendezvous(
      {{"MASTER_PORT", "1"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_TRUE(agent->portIsTaken);
  auto told = rendezvous({{"MASTER_PORT", "1"},
                          {"TANDEM_PORT", "2"},
                          {"TANDEM_TIMEOUT", "2.5"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_FALSE(told->portIsTaken);
  EXPECT_EQ(told->masterPort, 2);
  EXPECT_EQ(told->timeout, std::chrono::milliseconds(2500));
}

TEST(Bootstrap, SaysWhatIsWrong) {
  expectError(rendezvous({{"RANK", "4"}, {"WORLD_SIZE", "4"}}).status(),
              "environment variable RANK is '4', expected a number from 0 to "
              "3");
  expectError(rendezvous({{"RANK", "0"}, {"WORLD_SIZE", "two"}}).status(),
              "environment variable WORLD_SIZE is 'two'");
  expectError(rendezvous({{"MASTER_PORT", "0"}}).status(), "MASTER_PORT");
  for (const char *text : {"0", "soon", "1s", "1e9", "nan"})
    expectError(rendezvous({{"TANDEM_TIMEOUT", text}}).status(),
                "expected seconds from 0.001 to 86400");
  expectError(rendezvous({{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}})
                  .status(),
              "OMPI_COMM_WORLD_LOCAL_SIZE is 1 of 2 processes, expected "
              "MASTER_ADDR with the host of process 0");
}

} // namespace
} // namespace tandem::rt::cts
