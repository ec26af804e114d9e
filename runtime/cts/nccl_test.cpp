//===- nccl_test.cpp - several processes with a GPU each ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/children.h"
#include "cts/random_program.h"
#include "cts/stages.h"
#include "tandem_rt/safetensors.h"

namespace tandem::rt::cts {
namespace {

/// Processes of a job on emulated GPUs, of which there are eight.
class NcclTest : public GpuProcessesTest {
protected:
  /// What two processes say, the second of which has `variable`.
  std::pair<std::string, std::string>
  errorsWith(const std::string &variable,
             const std::vector<std::string> &arguments) {
    variables = {};
    Child first = start(0, 2, arguments);
    variables = {variable};
    Child second = start(1, 2, arguments);
    return {errorOfEnd(first), errorOfEnd(second)};
  }
};

/// All kinds of collectives, over each axis of a mesh and over both, beside
/// ranks of the one process that has them all.
TEST_F(NcclTest, GroupsOfAMeshGiveTheBitsOfOneProcess) {
  ProgramBuilder b({{"data", 2}, {"model", 2}});
  addCommQueue(b);
  uint32_t x = b.addArgument(
      {"input", "x", ElementType::F32, {4, 64}, {}, {{{1, {0, 1}}, {}}, {}}});
  b.setArena(8192);
  uint32_t event = 0;
  auto collect = [&](const char *name, CollectiveKind kind,
                     std::vector<uint32_t> axes, Shape shape, int32_t split,
                     int32_t join, BufferRef from, BufferRef to) {
    b.add({.name = name, .queue = event % 2 ? kComm : kCompute},
          Collective{kind, std::move(axes), ElementType::F32, std::move(shape),
                     split, join, from, to});
    // The next one is of the other queue.
    uint32_t made = b.recordEvent(event % 2 ? kComm : kCompute);
    ++event;
    b.waitEvent(event % 2 ? kComm : kCompute, made);
  };
  BufferRef first = b.arena(0, 256), second = b.arena(512, 512),
            third = b.arena(1024, 512), fourth = b.arena(2048, 256);
  collect("sum", CollectiveKind::AllReduce, {0, 1}, {1, 64}, -1, -1,
          b.argument(x), first);
  collect("gather", CollectiveKind::AllGather, {1}, {1, 64}, -1, 1, first,
          second);
  collect("turn", CollectiveKind::AllToAll, {0}, {2, 64}, 1, 0, second, third);
  collect("scatter", CollectiveKind::ReduceScatter, {1}, {4, 32}, 1, -1, third,
          fourth);
  uint32_t loss = b.addResult(
      {"loss", "loss", ElementType::F32, {64}, {}, {{{1, {}}}, {0, 1}}, {}});
  collect("end", CollectiveKind::AllReduce, {0}, {64}, -1, -1, fourth,
          b.result(loss));
  Expected<Bytes> program = finish(b);
  ASSERT_TRUE(program.ok()) << program.status().message();
  write("mesh", *program);
  std::vector<std::string> run = {at("mesh"), "--steps=3"};
  Child alone({"TANDEM_SHARE_GPU=1"}, run);
  ASSERT_EQ(alone.finish(30s), 0) << alone.getText();
  EXPECT_NE(alone.getText().find("step 3 loss "), std::string::npos);
  // All communicators, of parts too, may take as many multiprocessors as said.
  variables = {"TANDEM_MAX_CTAS=4", "TANDEM_EMULATED_NCCL_CTAS=4"};
  for (const char *more : {"--steps=3", "--no-graph"}) {
    run.push_back(more);
    std::vector<Child> children = startAll(4, run);
    for (Child &child : children)
      EXPECT_EQ(child.finish(60s), 0) << child.getText();
    EXPECT_EQ(children[0].getText(), alone.getText());
  }
}

/// Each process measures another algorithm as the fastest, and would keep it.
/// All take the first one's, as ranks that do the same have to have the same
/// bits.
TEST_F(NcclTest, AProductIsDoneInOneWayByAllProcesses) {
  constexpr int64_t kSize = 256; // large enough to be measured
  ProgramBuilder b({{"data", 2}});
  Form rows{{{1, {0}}, {1, {}}}, {}};
  Shape shape = {2 * kSize, kSize};
  uint32_t x = b.addArgument(
      {"parameter", "x", ElementType::F32, shape, {}, {}, -1, {}});
  uint32_t y = b.addArgument(
      {"parameter", "y", ElementType::F32, shape, {}, rows, -1, {}});
  b.addUpdate(y);
  Gemm product = contiguousGemm(ElementType::F32, kSize, kSize, kSize);
  constexpr int64_t kBytes = kSize * kSize * sizeof(float);
  product.a = ProgramBuilder::slice(b.argument(x), 0, kBytes);
  product.b = ProgramBuilder::slice(b.argument(x), kBytes, kBytes);
  product.c = b.argument(y);
  b.add({.name = "multiply"}, product);
  write("product", *finish(b));
  auto run = [&](const std::string &name, std::array<const char *, 2> fastest) {
    std::vector<Child> children;
    for (int64_t process = 0; process < 2; ++process) {
      std::string cache = at(name + std::to_string(process));
      variables = {"TANDEM_CACHE_DIR=" + cache,
                   std::string("TANDEM_EMULATED_FASTEST=") +
                       fastest[size_t(process)]};
      children.push_back(start(
          process, 2, {at("product"), "--steps=1", "--save=" + at(name)}));
    }
    for (Child &child : children)
      EXPECT_EQ(child.finish(60s), 0) << child.getText();
    auto file = SafetensorsFile::open(at(name));
    EXPECT_OK(file.status());
    auto *data = static_cast<const char *>(file->find("parameter/y")->data);
    std::string first(data, kBytes), second(data + kBytes, kBytes);
    EXPECT_TRUE(first == second) << name;
    return first;
  };
  // The fourth adds in another order than the first.
  std::string mixed = run("mixed", {"4", "1"});
  EXPECT_TRUE(mixed == run("fourth", {"4", "4"}));
  EXPECT_TRUE(mixed != run("first", {"1", "4"}));
}

TEST_F(NcclTest, MultiprocessorsOfCollectivesAreAnOption) {
  for (const char *given : {"", "TANDEM_MAX_CTAS=5"}) {
    variables = {"TANDEM_EMULATED_NCCL_CTAS=4"};
    if (*given)
      variables.push_back(given);
    for (Child &child : startAll(2, {at("p2")}))
      EXPECT_NE(errorOfEnd(child).find("maxCTAs is above the emulated ones"),
                std::string::npos)
          << given;
  }
  for (const char *wrong : {"0", "-1", "4x", "many", ""}) {
    variables = {std::string("TANDEM_MAX_CTAS=") + wrong};
    for (Child &child : startAll(2, {at("p2")}))
      EXPECT_NE(errorOfEnd(child).find(
                    std::string("environment variable TANDEM_MAX_CTAS is '") +
                    wrong + "', expected how many multiprocessors"),
                std::string::npos);
  }
}

/// Of two processes with a rank each, or with two.
TEST_F(NcclTest, AHungCollectiveIsNamed) {
  timeout = "3";
  for (const char *program : {"p2", "p4"}) {
    SCOPED_TRACE(program);
    auto [first, second] =
        errorsWith("TANDEM_EMULATED_NCCL_HANGS=2", {at(program), "--steps=5"});
    EXPECT_EQ(first, second);
    EXPECT_NE(first.find("step 2, rank "), first.npos) << first;
    EXPECT_NE(first.find("command 1 'sum loss': not done within 3000 ms "
                         "(TANDEM_TIMEOUT), expected all processes to come"),
              first.npos)
        << first;
  }
}

/// Point 1 never takes what point 0 sends.
TEST_F(NcclTest, AHungTransferIsNamed) {
  timeout = "3";
  write("stages", *finish(Stages(1).b));
  auto [first, second] =
      errorsWith("TANDEM_EMULATED_NCCL_HANGS=1", {at("stages")});
  EXPECT_EQ(first, second);
  EXPECT_NE(first.find("step 1, rank "), first.npos) << first;
  EXPECT_NE(first.find("'receive': not done within 3000 ms (TANDEM_TIMEOUT), "
                       "expected all processes to come"),
            first.npos)
      << first;
}

TEST_F(NcclTest, AFailureOfNcclIsNamed) {
  for (auto [program, rank] : {std::pair("p2", "1"), {"p4", "2"}}) {
    auto [first, second] =
        errorsWith("TANDEM_EMULATED_NCCL_FAILS=3", {at(program), "--steps=5"});
    EXPECT_EQ(first, second);
    EXPECT_NE(first.find("step 3, rank " + std::string(rank)), first.npos)
        << first;
    EXPECT_NE(first.find("NCCL cannot go on: remote process exited or there "
                         "was a network error (an emulated failure)"),
              first.npos)
        << first;
  }
}

TEST_F(NcclTest, AnOlderOneIsRefused) {
  variables = {"TANDEM_EMULATED_NCCL=21703"};
  for (Child &child : startAll(2, {at("p2")}))
    EXPECT_NE(errorOfEnd(child).find(
                  "NCCL is of version 2.17.3, expected 2.18.0 or later"),
              std::string::npos);
}

/// Beside the emulated driver alone.
TEST_F(NcclTest, AMissingOneIsNamed) {
  std::filesystem::path emulator = std::getenv("TANDEM_CUDA_LIBRARIES");
  for (const char *library :
       {"libcuda.so.1", "libcublasLt.so.13", "libtandem_cuda_kernels.so"})
    std::filesystem::create_symlink(emulator / library, at(library));
  variables = {"TANDEM_CUDA_LIBRARIES=" + folder};
  for (Child &child : startAll(2, {at("p2")}))
    EXPECT_NE(errorOfEnd(child).find("several processes need NCCL, cannot load "
                                     "libnccl.so.2: "),
              std::string::npos);
}

TEST_F(NcclTest, TwoProcessesOfOneGpuAreRefused) {
  variables = {"LOCAL_RANK=0"};
  for (Child &child : startAll(2, {at("p2")}))
    EXPECT_NE(errorOfEnd(child).find(
                  "ranks 0 and 1 have one GPU, expected one for each process"),
              std::string::npos);
}

TEST_F(NcclTest, SeveralRanksOfAProcessAreRefusedUnasked) {
  variables = {"TANDEM_SHARE_GPU=0"};
  for (Child &child : startAll(2, {at("p4")}))
    EXPECT_NE(errorOfEnd(child).find("device 'cuda' has 2 ranks and one GPU in "
                                     "this process, expected a process for "
                                     "each"),
              std::string::npos);
}

/// What a run prints and saves, but for its name.
using Left = std::pair<std::string, std::map<std::string, Bytes>>;

class JointTest : public NcclTest {
protected:
  Left run(int64_t processes, const std::string &program,
           const std::vector<std::string> &more = {}) {
    std::string saved = at(program + "-" + std::to_string(processes));
    std::vector<std::string> arguments = {at(program), "--save=" + saved};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<Child> children = startAll(processes, arguments);
    Left left;
    for (Child &child : children) {
      int status = child.finish(60s);
      EXPECT_GE(status, 0) << child.getText();
      left.first += child.getText();
    }
    if (!std::filesystem::exists(saved))
      return left;
    auto file = SafetensorsFile::open(saved);
    EXPECT_OK(file.status());
    if (!file.ok())
      return left;
    for (const auto &[name, view] : file->tensors()) {
      auto *data = static_cast<const uint8_t *>(view.data);
      size_t bytes = size_t(numElements(view.shape) * elementBytes(view.type));
      left.second.emplace(name, Bytes(data, data + bytes));
    }
    return left;
  }
};

/// Processes with two ranks each, and with four, have the bits of one process:
/// of a graph, command by command, and where each is waited for.
TEST_F(JointTest, RandomProgramsRunAsInOneProcess) {
  int tried = 0;
  for (unsigned seed = 0; tried < 12; ++seed) {
    ProgramBuilder b = randomProgram(seed);
    int64_t ranks = b.get().numRanks();
    if (ranks < 4)
      continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::string name = "random-" + std::to_string(seed);
    write(name, *finish(b));
    std::vector<std::string> more = {"--steps=3"};
    if (tried % 3 == 1)
      more.push_back("--no-graph");
    variables = {};
    if (tried++ % 3 == 2)
      variables = {"TANDEM_CUDA_WAIT=1"};
    Left alone = run(1, name, more);
    for (int64_t processes = 2; processes < ranks; processes *= 2) {
      Left several = run(processes, name, more);
      EXPECT_EQ(several.second, alone.second);
      if (alone.first.find("error") == std::string::npos)
        EXPECT_EQ(several.first, alone.first);
      else
        EXPECT_NE(several.first.find("error"), std::string::npos);
    }
  }
}

/// Sums that are exchanged in parts, which the elements do not divide into, and
/// blocks that lie in rows; of groups with one member in each process, and with
/// two.
TEST_F(JointTest, LargeCollectivesGiveTheBitsOfOneProcess) {
  constexpr int64_t kRows = 9, kColumns = 1003, kBytes = kRows * kColumns * 4;
  for (std::vector<uint32_t> axes : {std::vector<uint32_t>{0}, {0, 1}}) {
    int64_t n = int64_t(2 * axes.size());
    SCOPED_TRACE(n);
    ProgramBuilder b({{"data", 2}, {"model", 2}});
    auto addParameter = [&](const char *name) {
      Form form{{{1, {0}}, {1, {1}}}, {}};
      Shape shape = {2 * kRows, 2 * kColumns};
      return b.addArgument(
          {"parameter", name, ElementType::F32, shape, {}, form, -1, {}});
    };
    uint32_t x = addParameter("x"), y = addParameter("y"),
             sum = addParameter("sum");
    b.addUpdate(y), b.addUpdate(sum);
    b.setArena(2 * n * kBytes);
    BufferRef wide = b.arena(0, n * kBytes),
              turned = b.arena(n * kBytes, n * kBytes);
    auto add = [&](const char *name, CollectiveKind kind, Shape shape,
                   int32_t split, int32_t join, BufferRef from, BufferRef to) {
      b.add({.name = name},
            Collective{kind, axes, ElementType::F32, std::move(shape), split,
                       join, from, to});
    };
    add("sum", CollectiveKind::AllReduce, {kRows, kColumns}, -1, -1,
        b.argument(x), b.argument(sum));
    add("sum again", CollectiveKind::AllReduce, {kRows, kColumns}, -1, -1,
        b.argument(sum), b.argument(sum));
    add("gather columns", CollectiveKind::AllGather, {kRows, kColumns}, -1, 1,
        b.argument(x), wide);
    add("turn", CollectiveKind::AllToAll, {kRows, n * kColumns}, 1, 0, wide,
        turned);
    add("scatter columns", CollectiveKind::ReduceScatter, {kRows, n * kColumns},
        1, -1, turned, b.argument(y));
    add("add up", CollectiveKind::AllReduce, {kRows, kColumns}, -1, -1,
        b.argument(y), b.argument(y));
    write("large", *finish(b));
    Left alone = run(1, "large", {"--steps=1"});
    ASSERT_EQ(alone.second.count("parameter/y"), 1u);
    EXPECT_EQ(run(2, "large", {"--steps=1"}).second, alone.second);
  }
}

/// A mesh whose rows do not divide among processes: of what is of both, the
/// first comes to the sum of ranks 1, 3 and 5 before that of 2 and 3, and the
/// second to that of 2 and 3.
TEST_F(JointTest, ProcessesComeToSumsInOtherOrders) {
  ProgramBuilder b({{"data", 3}, {"model", 2}});
  auto addParameter = [&](const char *name) {
    Form form{{{1, {0, 1}}}, {}};
    return b.addArgument(
        {"parameter", name, ElementType::F32, {6 * 16}, {}, form, -1, {}});
  };
  uint32_t x = addParameter("x"), y = addParameter("y");
  b.addUpdate(y);
  b.setArena(64);
  auto add = [&](const char *name, uint32_t axis, BufferRef from,
                 BufferRef to) {
    b.add({.name = name}, Collective{CollectiveKind::AllReduce,
                                     {axis},
                                     ElementType::F32,
                                     {16},
                                     -1,
                                     -1,
                                     from,
                                     to});
  };
  add("within rows", 1, b.argument(x), b.arena(0, 64));
  add("across rows", 0, b.arena(0, 64), b.argument(y));
  write("rows", *finish(b));
  Left alone = run(1, "rows", {"--steps=2"});
  ASSERT_EQ(alone.second.count("parameter/y"), 1u);
  for (const char *more : {"--steps=2", "--no-graph"})
    EXPECT_EQ(run(2, "rows", {"--steps=2", more}).second, alone.second);
}

TEST_F(JointTest, StepsWithACheckAreThoseOfOneProcess) {
  Left alone = run(1, "p4", {"--steps=4"});
  EXPECT_EQ(run(2, "p4", {"--steps=4"}), alone);
  EXPECT_NE(alone.first.find("step 4 loss"), std::string::npos);
}

/// Each point has a Program of its own. Two processes have two ranks each.
TEST_F(JointTest, StagesRunAsInOneProcess) {
  write("stages", *finish(Stages().b));
  for (std::vector<std::string> steps :
       {std::vector<std::string>{"--steps=2"}, {"--steps=2", "--no-graph"}}) {
    Left alone = run(1, "stages", steps);
    ASSERT_EQ(alone.second.count("parameter/second"), 1u);
    for (int64_t processes : {2, 4})
      EXPECT_EQ(run(processes, "stages", steps).second, alone.second)
          << processes;
  }
}

/// What the GPU has too little memory for ends all, before anybody waits.
TEST_F(NcclTest, TooLittleMemoryIsTheErrorOfAll) {
  for (const char *program : {"p2", "p4"}) {
    auto [first, second] =
        errorsWith("TANDEM_EMULATED_MEMORY=100", {at(program)});
    EXPECT_NE(second.find("of 100 are free"), second.npos) << second;
    EXPECT_EQ(first, "process 1 ended with error: " + second);
  }
}

} // namespace
} // namespace tandem::rt::cts
