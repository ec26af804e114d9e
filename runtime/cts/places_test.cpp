//===- places_test.cpp - queues, memory spaces, workspaces, code ----------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"

#include <sstream>

namespace tandem::rt::cts {
namespace {

using F = std::vector<float>;
constexpr ElementType kF32 = ElementType::F32;

/// What the CPU says to a Program that is right in itself.
Status create(const ProgramBuilder &builder) {
  Expected<Bytes> bytes = builder.finish();
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return bytes.ok() ? Session::create(*bytes).status() : bytes.status();
}

/// x is copied by one queue, doubled by the second, summed over ranks by the
/// third and copied back by the first.
struct ThreeQueues {
  explicit ThreeQueues(int64_t ranks) : b({{"data", ranks}}) {
    addCommQueue(b);
    copies = b.addQueue(QueueRole::Copy, "copies");
    uint32_t code = b.addCodeObject("kernels", kernelImage());
    uint32_t x = b.addArgument({"input", "x", kF32, {4}});
    uint32_t y = b.addResult({"output", "y", kF32, {4}});
    b.setArena(256);
    BufferRef in = b.arena(0, 16), doubled = b.arena(64, 16),
              sum = b.arena(128, 16);
    b.add({.name = "fetch", .queue = copies}, Copy{b.argument(x), in});
    handOver(copies, kCompute);
    b.launch({.name = "double"}, code, "affine", {in}, {doubled}, {4, 2, 0});
    handOver(kCompute, kComm);
    b.add({.name = "sum", .queue = kComm},
          Collective{
              CollectiveKind::AllReduce, {0}, kF32, {4}, -1, -1, doubled, sum});
    handOver(kComm, copies);
    b.add({.name = "give", .queue = copies}, Copy{sum, b.result(y)});
  }
  void handOver(uint32_t from, uint32_t to) {
    b.waitEvent(to, b.recordEvent(from));
  }
  ProgramBuilder b;
  uint32_t copies;
};

TEST(Queues, ThreeOfThem) {
  for (int64_t ranks : {1, 2, 4}) {
    ThreeQueues p(ranks);
    auto session = startTwin(p.b, {.threads = 1, .trace = true});
    ASSERT_TRUE(session);
    set(*session, "input", "x", tensorOf<float>({4}, {1, 2, 3, 4}));
    EXPECT_OK(session->step());
    F expected;
    for (float x : {1, 2, 3, 4})
      expected.push_back(2 * x * float(ranks));
    EXPECT_EQ(valuesOf<float>(result(*session, "output", "y")), expected);
    std::ostringstream text;
    writeTimeline({headOf(session->plain().program(), ""),
                   session->plain().trace().events},
                  text);
    std::string json = text.str();
    for (const char *name : {"compute", "comm", "copies"})
      EXPECT_NE(json.find("{\"name\":\"" + std::string(name) + "\"}"),
                std::string::npos)
          << json;
  }
}

TEST(Queues, EveryWaitIsNeeded) {
  ThreeQueues p(2);
  const std::vector<Command> &commands = p.b.get().rankPrograms[0].commands;
  for (size_t i = 0; i < commands.size(); ++i)
    if (std::holds_alternative<WaitEvent>(commands[i].operation)) {
      Program program = p.b.get();
      auto &shorter = program.rankPrograms[0].commands;
      shorter.erase(shorter.begin() + int64_t(i));
      expectError(verifyProgram(program), "with no event between them");
    }
}

/// What one queue knows of a second it tells to a third.
TEST(Queues, OrderIsPassedOn) {
  ThreeQueues p(2);
  Command late = p.b.get().rankPrograms[0].commands[0];
  late.id = 100, late.queue = kComm;
  // The third queue writes what the first read, having waited for the second.
  std::get<Copy>(late.operation).source.offset.base = 0;
  auto &commands = p.b.mutableProgram().rankPrograms[0].commands;
  commands.insert(commands.begin() + 7, late);
  EXPECT_OK(verifyProgram(p.b.get()));
}

TEST(Queues, AreDeclared) {
  ThreeQueues p(1);
  std::string text = printProgram(p.b.get());
  EXPECT_NE(text.find("queue 2 copies for copy\n"), std::string::npos) << text;
  Program &program = p.b.mutableProgram();
  program.queues[2].name = "comm";
  expectError(verifyProgram(program), "program has two queues named 'comm'");
  program.queues.pop_back();
  expectError(verifyProgram(program),
              "command 0 'fetch' of rank 0: is on queue 2 of 2");
}

/// Everything in a space of pages, once from there to the other one and back.
struct TwoSpaces {
  TwoSpaces() : b({}) {
    uint32_t pages = b.addMemorySpace({"pages", MemoryKind::Host, kAlignment});
    uint32_t code = b.addCodeObject("kernels", kernelImage());
    x = b.addArgument({.role = "input",
                       .name = "x",
                       .globalShape = {4},
                       .memorySpace = pages});
    y = b.addResult({.role = "output",
                     .name = "y",
                     .globalShape = {4},
                     .memorySpace = pages});
    uint32_t z = b.addResult({.role = "output",
                              .name = "aligned",
                              .globalShape = {},
                              .memorySpace = pages});
    BufferRef c = b.addConstant(Bytes(16, 0), pages);
    b.setArena(64);
    uint32_t arena = b.addArena(64, pages);
    BufferRef there = b.arena(0, 16, arena), here = b.arena(0, 16);
    b.add({.name = "in"}, Copy{b.argument(x), there});
    b.add({.name = "over"}, Copy{there, here});
    b.launch({.name = "add"}, code, "add", {here, c}, {b.result(y)}, {4});
    b.launch({.name = "look"}, code, "isAligned", {b.argument(x), there, c},
             {b.result(z)}, {4, kAlignment});
  }
  static constexpr int64_t kAlignment = 4096;
  ProgramBuilder b;
  uint32_t x, y;
};

TEST(MemorySpaces, TwoOfThem) {
  TwoSpaces p;
  auto session = startTwin(p.b);
  ASSERT_TRUE(session);
  F values = {1, 2, 3, 4};
  set(*session, "input", "x", tensorOf({4}, values));
  // The interpreter's buffers lie anywhere.
  EXPECT_OK(session->plain().step());
  EXPECT_EQ(valuesOf<float>(result(*session, "output", "y")), values);
  EXPECT_EQ(valuesOf<float>(result(*session, "output", "aligned")), (F{1}));
  std::string text = printProgram(p.b.get());
  for (const char *line : {"memory space 1 pages of kind host aligned to 4096",
                           "constant 0 in pages 16 bytes", "form full in pages",
                           "arena 1 in pages 64 bytes"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(MemorySpaces, AreDeclared) {
  auto expect = [](auto change, const std::string &text) {
    TwoSpaces p;
    change(p.b.mutableProgram());
    expectError(verifyProgram(p.b.get()), text);
  };
  expect([](Program &p) { p.memorySpaces[1].name = "host"; },
         "program has two memory spaces named 'host'");
  expect([](Program &p) { p.memorySpaces[1].alignment = 8192; },
         "memory space 'pages' has alignment 8192, expected a power of two up "
         "to 4096");
  expect([](Program &p) { p.arguments[0].memorySpace = 2; },
         "argument 'input/x': lies in memory space 2 of 2");
  expect([](Program &p) { p.results[0].memorySpace = 7; },
         "result 'output/y': lies in memory space 7 of 2");
  expect([](Program &p) { p.constants[0].memorySpace = 2; },
         "constant 0: lies in memory space 2 of 2");
  expect([](Program &p) { p.rankPrograms[0].arenas[1].memorySpace = 2; },
         "arena 1: lies in memory space 2 of 2");
  ProgramBuilder b({});
  uint32_t w = b.addArgument({"parameter", "w", kF32, {1}});
  b.addUpdate(w);
  b.addMemorySpace({"other", MemoryKind::Host, 64});
  b.mutableProgram().arguments[0].memorySpace = 1;
  expectError(verifyProgram(b.get()),
              "result 'parameter/w': is in memory space 0 and lies in an "
              "argument in 1");
}

TEST(MemorySpaces, OfOtherDevicesAreRefused) {
  ProgramBuilder b({});
  b.addMemorySpace({"hbm", MemoryKind::Device, 256});
  expectError(create(b), "memory space 'hbm' is of kind device, expected host");
}

struct Workspace {
  Workspace() : b({}) {
    addCommQueue(b);
    uint32_t code = b.addCodeObject("kernels", kernelImage());
    uint32_t x = b.addArgument({"input", "x", kF32, {4}});
    uint32_t y = b.addResult({"output", "y", kF32, {4}});
    b.setArena(64);
    b.launch({.name = "turn", .workspace = b.arena(0, 16)}, code, "reverse",
             {b.argument(x)}, {b.result(y)}, {4});
  }
  Command &turn() { return b.mutableProgram().rankPrograms[0].commands[0]; }
  void expect(const std::string &text) {
    expectError(verifyProgram(b.get()), text);
  }
  ProgramBuilder b;
};

TEST(Workspaces, AreTheKernelsLastBuffer) {
  Workspace p;
  auto session = startTwin(p.b);
  ASSERT_TRUE(session);
  set(*session, "input", "x", tensorOf<float>({4}, {1, 2, 3, 4}));
  EXPECT_OK(session->step());
  EXPECT_EQ(valuesOf<float>(result(*session, "output", "y")), (F{4, 3, 2, 1}));
  EXPECT_NE(printProgram(p.b.get()).find("workspace arena[0][0, +16]"),
            std::string::npos);
}

TEST(Workspaces, AreWritten) {
  Workspace p;
  p.b.add({.name = "other", .queue = kComm}, Fill{p.b.arena(8, 8), {0}});
  p.expect(
      "command 1 'other' of rank 0 writes arena 0 [8, 16), which command 0 "
      "'turn' writes on queue 'compute', with no event between them");
}

TEST(Workspaces, HoldNothingAfterwards) {
  Workspace p;
  p.b.add({.name = "other"}, Copy{p.b.arena(0, 16), p.b.arena(32, 16)});
  p.expect("command 1 'other' of rank 0 reads arena 0 [0, 16), which nothing "
           "wrote before");
}

TEST(Workspaces, AreTheCommandsOwn) {
  Workspace p;
  p.turn().workspace->offset.base = 60;
  p.expect("buffer is arena 0 [60, 76), expected to lie within 64 bytes");
  Workspace q;
  q.turn().workspace = q.b.argument(0);
  q.expect("writes argument 'input/x', which is not declared as updated");
  Workspace r;
  r.turn().workspace = r.b.result(0);
  r.expect("workspace is result 'output/y' [0, 16), expected a range of an "
           "arena");
  Workspace s;
  std::get<Launch>(s.turn().operation).outputs.push_back(s.b.arena(12, 16));
  s.expect("workspace overlaps an operand at arena 0 [0, 16)");
  Workspace t;
  t.turn().operation = RecordEvent{0};
  t.b.mutableProgram().rankPrograms[0].numEvents = 1;
  t.expect("record_event has a workspace, expected none");
}

TEST(Code, OfOtherDevicesIsRefused) {
  for (auto [kind, name] :
       {std::pair{CodeKind::Ptx, "ptx"}, std::pair{CodeKind::Cubin, "cubin"}}) {
    ProgramBuilder b({});
    b.addCodeObject("kernels", {1, 2, 3}, kind);
    expectError(create(b), "code object 'kernels' is a " + std::string(name) +
                               ", expected a shared object, which the CPU "
                               "runs");
  }
}

TEST(Code, Geometry) {
  Workspace p;
  auto &launch = std::get<Launch>(p.turn().operation);
  launch.geometry = Geometry{{4, 2, 1}, {128, 1, 1}, 1024};
  expectError(create(p.b),
              "launch has a geometry, which the CPU does not have");
  EXPECT_NE(
      printProgram(p.b.get()).find("grid 4x2x1 block 128x1x1 shared 1024"),
      std::string::npos);
  launch.geometry->block[1] = 0;
  p.expect("launch has a geometry with extent 0, expected none below 1");
  launch.geometry.reset();
  p.b.mutableProgram().codeObjects[0].kind = CodeKind::Ptx;
  p.expect("launch from a ptx has no geometry");
}

} // namespace
} // namespace tandem::rt::cts
