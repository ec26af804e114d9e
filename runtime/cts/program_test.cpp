//===- program_test.cpp - errors of verifier and loader -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"
#include "tandem_rt/model_facts.h"

namespace tandem::rt::cts {
namespace {

Form split(size_t rank, size_t dim, std::vector<uint32_t> axes,
           int64_t time = 1) {
  Form form;
  form.dims.resize(rank);
  form.dims[dim] = {time, std::move(axes)};
  return form;
}

/// Two queues that hand a buffer over: compute fills it, comm sums it up,
/// compute copies the sum to a result.
struct HandOver {
  HandOver() : b({{"data", 2}, {"model", 2}}) {
    addCommQueue(b);
    x = b.addArgument({"input",
                       "x",
                       ElementType::F32,
                       {8, 4},
                       {},
                       split(2, 0, {0}, 2),
                       -1,
                       {}});
    y = b.addResult({"output", "y", ElementType::F32, {4}, {}, {}, {}});
    b.setArena(256);
    local = b.arena(0, 16), sum = b.arena(64, 16);
    b.add({.name = "produce"}, Copy{b.slice(b.argument(x), 0, 16), local});
    produced = b.recordEvent(kCompute);
    b.waitEvent(kComm, produced);
    b.add({.name = "sum", .location = "model.py:9", .queue = kComm},
          Collective{CollectiveKind::AllReduce,
                     {0},
                     ElementType::F32,
                     {4},
                     -1,
                     -1,
                     local,
                     sum});
    summed = b.recordEvent(kComm);
    b.waitEvent(kCompute, summed);
    b.add({.name = "consume"}, Copy{sum, b.result(y)});
  }
  std::vector<Command> &commands() {
    return b.mutableProgram().rankPrograms[0].commands;
  }
  template <typename T> T &op(size_t index) {
    return std::get<T>(commands()[index].operation);
  }
  void expect(const std::string &text) {
    expectError(verifyProgram(b.get()), text);
  }

  ProgramBuilder b;
  uint32_t x, y, produced, summed;
  BufferRef local, sum;
};

constexpr size_t kProduce = 0, kRecord = 1, kWait = 2, kSum = 3, kWaitSum = 5,
                 kConsume = 6;

TEST(Verify, AcceptsAHandOver) {
  HandOver p;
  EXPECT_OK(verifyProgram(p.b.get()));
}

TEST(Verify, AMissingWaitIsAHazard) {
  HandOver p;
  p.commands().erase(p.commands().begin() + kWait);
  p.expect("command 3 'sum' (model.py:9) of rank 0 reads arena 0 [0, 16), "
           "which command 0 'produce' writes on queue 'compute', with no "
           "event between them");
}

TEST(Verify, AMissingWaitOnTheWayBackIsAHazard) {
  HandOver p;
  p.commands().erase(p.commands().begin() + kWaitSum);
  p.expect("command 6 'consume' of rank 0 reads arena 0 [64, 80), which "
           "command 3 'sum' (model.py:9) writes on queue 'comm'");
}

TEST(Verify, ABufferReusedTooEarlyIsAHazard) {
  HandOver p;
  Command early = p.commands()[kProduce];
  early.id = 100;
  p.commands().insert(p.commands().begin() + kWaitSum, early);
  p.expect("command 100 'produce' of rank 0 writes arena 0 [0, 16), which "
           "command 3 'sum' (model.py:9) reads on queue 'comm'");
}

TEST(Verify, AnOverlapOfOneByteIsAHazard) {
  HandOver p;
  Command early = p.commands()[kProduce];
  early.id = 100;
  std::get<Copy>(early.operation).destination.offset.base = 79;
  p.commands().insert(p.commands().begin() + kWaitSum, early);
  p.expect("command 100 'produce' of rank 0 writes arena 0 [79, 95)");
}

/// What is wrong on a further rank of the same commands alone.
TEST(Verify, HazardsThatDependOnCoordinates) {
  HandOver p;
  Command early = p.commands()[kProduce];
  early.id = 100;
  std::get<Copy>(early.operation).destination.offset = Affine(128, {{0, -49}});
  p.commands().insert(p.commands().begin() + kWaitSum, early);
  p.expect("command 100 'produce' of rank 2 writes arena 0 [79, 95)");
  HandOver q;
  q.op<Copy>(kConsume).source.offset = Affine(64, {{0, 4}});
  q.expect("command 6 'consume' of rank 2 reads arena 0 [68, 84), which "
           "nothing wrote before");
}

TEST(Verify, TwoReadersAreNoHazard) {
  HandOver p;
  Command second = p.commands()[kConsume];
  second.id = 100;
  std::get<Copy>(second.operation).source = p.local;
  p.commands().insert(p.commands().begin() + kWaitSum, second);
  EXPECT_OK(verifyProgram(p.b.get()));
}

TEST(Verify, ReadsBeforeWrites) {
  HandOver p;
  p.op<Copy>(kConsume).source.offset.base = 68;
  p.expect("command 6 'consume' of rank 0 reads arena 0 [68, 84), which "
           "nothing wrote before");
}

TEST(Verify, ResultsAreWrittenFromEndToEnd) {
  HandOver p;
  p.op<Copy>(kConsume).source.bytes = 12;
  p.op<Copy>(kConsume).destination.bytes = 12;
  p.expect("result 'output/y' of rank 0 is not written from byte 12 of 16");
}

TEST(Verify, Events) {
  HandOver p;
  std::swap(p.commands()[kRecord], p.commands()[kWait]);
  p.expect("waits for event 0, which nothing recorded before");
  HandOver q;
  q.commands().insert(q.commands().begin() + 2, q.commands()[kRecord]);
  q.commands()[2].id = 100;
  q.expect("records event 0 a second time");
  HandOver r;
  r.op<WaitEvent>(kWait).event = 9;
  r.expect("event is 9, expected less than 2");
}

TEST(Verify, Buffers) {
  HandOver p;
  p.op<Copy>(kProduce).destination.offset.base = 250;
  p.expect("command 0 'produce' of rank 0: buffer is arena 0 [250, 266), "
           "expected to lie within 256 bytes");
  HandOver q;
  q.op<Copy>(kProduce).destination.offset.base = -4;
  q.expect("buffer is arena 0 [-4, 12)");
  HandOver r;
  r.op<Copy>(kProduce).source.index = 7;
  r.expect("buffer names a space that does not exist: argument 7");
  HandOver s;
  // Only ranks at model = 1 leave the arena.
  s.op<Copy>(kProduce).destination.offset.terms = {{1, 1024}};
  s.expect("command 0 'produce' of rank 1: buffer is arena 0 [1024, 1040)");
  HandOver t;
  t.op<Copy>(kProduce).destination.offset.terms = {{2, 1}};
  t.expect("a coordinate names axis 2 of a mesh with 2 axes");
}

TEST(Verify, OnlyUpdatedArgumentsAreWritten) {
  HandOver p;
  p.op<Copy>(kProduce).destination = p.b.slice(p.b.argument(p.x), 16, 16);
  p.expect("writes argument 'input/x', which is not declared as updated");
}

TEST(Verify, ChecksComeBeforeUpdates) {
  ProgramBuilder b({});
  uint32_t w =
      b.addArgument({"parameter", "w", ElementType::F32, {1}, {}, {}, -1, {}});
  uint32_t l =
      b.addArgument({"input", "l", ElementType::F32, {1}, {}, {}, -1, {}});
  b.addUpdate(w);
  b.add({.name = "update"}, Copy{b.argument(l), b.argument(w)});
  b.add({.name = "check"},
        Check{CheckKind::Finite, ElementType::F32, b.argument(l), "loss", {}});
  expectError(verifyProgram(b.get()),
              "command 0 'update' of rank 0 writes argument 'parameter/w' [0, "
              "4) before command 1 'check' has checked the step");
}

TEST(Verify, Collectives) {
  HandOver p;
  p.op<Collective>(kSum).axes = {1, 0};
  p.expect("axes of a group are not a set in mesh order");
  HandOver q;
  q.op<Collective>(kSum).axes = {5};
  q.expect("a group names axis 5 of a mesh with 2 axes");
  HandOver r;
  r.op<Collective>(kSum).shape = {5};
  r.expect("collective's source has 16 bytes, expected 20");
  HandOver s;
  s.op<Collective>(kSum).kind = CollectiveKind::AllGather;
  s.op<Collective>(kSum).concatDim = 0;
  s.expect("collective's destination has 16 bytes, expected 32");
  HandOver t;
  t.op<Collective>(kSum).kind = CollectiveKind::ReduceScatter;
  t.op<Collective>(kSum).splitDim = 1;
  t.expect("collective splits dimension 1 of [4]");
  HandOver u;
  u.op<Collective>(kSum).type = ElementType::I1;
  u.expect("collective sums i1, expected f64, f32, bf16, i64, i32 or i8");
  HandOver v;
  v.op<Collective>(kSum).source = v.b.slice(v.sum, 4, 16);
  v.expect("collective's source and destination overlap");
}

/// A second rank program for half of the ranks.
void giveRankOneItsOwn(HandOver &p) {
  Program &program = p.b.mutableProgram();
  program.rankPrograms.push_back(program.rankPrograms[0]);
  program.rankToProgram = {0, 1, 0, 1};
}

TEST(Verify, CollectivesAgreeBetweenRanks) {
  HandOver same;
  giveRankOneItsOwn(same);
  EXPECT_OK(verifyProgram(same.b.get()));
  HandOver other;
  giveRankOneItsOwn(other);
  auto &commands = other.b.mutableProgram().rankPrograms[1].commands;
  std::get<Collective>(commands[kSum].operation).axes = {1};
  other.expect("rank program 1 waits in all_reduce of command 3 'sum' "
               "(model.py:9) for rank program 0, which has come to its end");
  HandOver fewer;
  giveRankOneItsOwn(fewer);
  auto &shorter = fewer.b.mutableProgram().rankPrograms[1].commands;
  shorter[kSum].operation = Copy{fewer.local, fewer.sum};
  // Ranks 1 and 3, which have it not, are a group of their own.
  EXPECT_OK(verifyProgram(fewer.b.get()));
  fewer.b.mutableProgram().rankToProgram = {0, 0, 1, 1};
  fewer.expect("rank program 0 waits in all_reduce of command 3 'sum' "
               "(model.py:9) for rank program 1, which has come to its end");
}

/// One rank would refuse the step, the others update.
TEST(Verify, ChecksAgreeBetweenRanks) {
  HandOver p;
  Check check{CheckKind::Finite, ElementType::F32, p.sum, "sum", {0, 1}};
  p.b.add({.name = "check"}, check);
  giveRankOneItsOwn(p);
  EXPECT_OK(verifyProgram(p.b.get()));
  auto &commands = p.b.mutableProgram().rankPrograms[1].commands;
  std::get<Check>(commands.back().operation).message = "loss";
  p.expect("rank program 1 runs check_finite of command 7 'check', expected "
           "check_finite of command 7 'check' as in rank program 0");
  commands.pop_back();
  p.expect("rank program 0 waits in check_finite of command 7 'check' for rank "
           "program 1, which has come to its end");
}

TEST(Verify, Forms) {
  HandOver p;
  Argument &x = p.b.mutableProgram().arguments[0];
  EXPECT_EQ(x.localShape, (Shape{4, 4}));
  x.localShape = {8, 4};
  p.expect("argument 'input/x': local shape is [8, 4], expected [4, 4] from "
           "its form time(0): 2, data: gather(0)");
  x.globalShape = {6, 4};
  p.expect("dimension 0 of [6, 4] has extent 6, which does not divide into 4 "
           "parts");
  x.form.reduce = {0};
  p.expect("form uses axis 'data' twice");
  x.form.reduce = {9};
  p.expect("form names axis 9 of a mesh with 2 axes");
}

TEST(Verify, Declarations) {
  HandOver p;
  p.b.mutableProgram().rankToProgram = {0};
  p.expect("program maps 1 ranks, expected 4 as in its mesh");
  HandOver q;
  q.b.mutableProgram().rankToProgram[2] = 3;
  q.expect("rank 2 runs rank program 3 of 1");
  HandOver r;
  r.b.mutableProgram().mesh[0].size = 0;
  r.expect("mesh axis 'data' has size 0");
  HandOver s;
  s.b.mutableProgram().mesh[1].name = "data";
  s.expect("mesh has two axes named 'data'");
  HandOver t;
  t.b.mutableProgram().arguments[0].updatedBy = 0;
  t.expect("argument 'input/x': updated by result 'output/y', which does not "
           "lie in it");
  HandOver u;
  u.b.mutableProgram().arguments.push_back(u.b.get().arguments[0]);
  u.expect("name is taken by another argument of the same role");
  HandOver v;
  v.commands()[1].id = 0;
  v.expect("id is taken by another command");
  HandOver w;
  w.b.mutableProgram().memorySpaces[0].alignment = 48;
  w.expect("memory space 'host' has alignment 48, expected a power of two");
}

TEST(Verify, ElementsBeginAtMultiplesOfTheirBytes) {
  HandOver p;
  p.op<Collective>(kSum).destination.offset.base += 2;
  p.expect("expected a multiple of its elements' 4 bytes");
  HandOver q;
  // Only ranks at model = 1 begin between two elements.
  q.op<Collective>(kSum).source.offset.terms = {{1, 1}};
  q.expect("of rank 1: collective's source begins at arena 0 [");
  HandOver r;
  Gemm gemm = contiguousGemm(ElementType::F32, 1, 1, 1);
  gemm.a = gemm.b = r.b.slice(r.local, 2, 8), gemm.c = r.b.slice(r.sum, 0, 4);
  r.commands()[kConsume].operation = gemm;
  r.expect("gemm operand begins at arena 0 [");
}

TEST(Verify, GemmsAndFills) {
  HandOver p;
  Gemm gemm = contiguousGemm(ElementType::F32, 2, 2, 2);
  gemm.a = gemm.b = p.local, gemm.c = p.sum;
  p.commands()[kConsume].operation = gemm;
  auto &g = p.op<Gemm>(kConsume);
  g.m = 3;
  p.expect("gemm operand a has 16 bytes, expected at least 24");
  g.m = 0;
  p.expect("gemm has m 0, n 2, k 2, expected none below 1 or above");
  g.m = 2, g.outputType = ElementType::F64;
  p.expect("gemm from f32 to f64, expected");
  g.outputType = ElementType::F32, g.stridesB = {1};
  p.expect("gemm operand b has 1 strides, expected 2");
  g.stridesB = {2, 1}, g.stridesC = {0, 1};
  p.expect("gemm operand c has stride 0 over a dimension of extent 2, expected "
           "at least 1: what is written has a place for each element");
  g.stridesC = {2, 1}, g.postOp = PostOp::GeluTanhGradient;
  p.expect("gemm has a gradient of GELU, expected a pre-activation");
  g.preActivation = p.b.slice(p.local, 0, 8);
  p.expect("gemm pre-activation has 8 bytes, expected 16");
  g.postOp = PostOp::Relu;
  p.expect("gemm has a pre-activation, expected GELU by tanh or its gradient");
  g.postOp = PostOp::GeluTanh, g.preActivation = p.local;
  p.expect("gemm writes arena 0 [0, 16), which overlaps another operand");
  g.batch = {1}, g.stridesA = g.stridesB = g.stridesC = {0, 2, 1};
  p.expect("gemm has batch [1] and a pre-activation or sums, expected no "
           "batch");
  HandOver q;
  q.commands()[kConsume].operation = Fill{q.b.result(q.y), {1, 2, 3}};
  q.expect("fill has a pattern of 3 bytes, expected 1, 2, 4 or 8");
  HandOver r;
  r.commands()[kConsume].operation = Launch{0, "k", {}, {}, {}};
  r.expect("launches from code object 0 of 0");
}

/// Elements of a product that are apart leave what is between them as it was.
TEST(Verify, BytesBetweenElementsAreNotWritten) {
  auto expectUnwritten = [](bool fills) {
    HandOver p;
    BufferRef apart = p.b.arena(128, 28), other = p.b.arena(64, 28);
    Gemm gemm = contiguousGemm(ElementType::F32, 2, 2, 2);
    gemm.a = gemm.b = p.sum, gemm.c = apart, gemm.stridesC = {4, 2};
    if (fills)
      p.b.add({.name = "fill"}, Fill{apart, {0}});
    p.b.add({.name = "product"}, gemm);
    p.b.add({.name = "read"}, Copy{apart, other});
    if (fills)
      EXPECT_OK(verifyProgram(p.b.get()));
    else
      p.expect("'read' of rank 0 reads arena 0 [128, 156), which nothing wrote "
               "before");
  };
  expectUnwritten(false);
  expectUnwritten(true);
}

/// A Program with one of everything.
Bytes everything() {
  HandOver p;
  p.b.setTarget({"x86_64-unknown-linux-gnu", "znver4", {"avx2", "fma"}});
  p.b.addCodeObject("kernels", {1, 2, 3, 4, 5});
  BufferRef constant = p.b.addConstant({9, 9, 9, 9});
  uint32_t w = p.b.addArgument({"parameter",
                                "w",
                                ElementType::BF16,
                                {4, 2},
                                {},
                                split(2, 1, {1}),
                                -1,
                                std::pair(-0.5, 0.5)});
  p.b.addUpdate(w);
  Gemm gemm = contiguousGemm(ElementType::F32, 2, 2, 2);
  gemm.a = gemm.b = p.local, gemm.c = p.b.arena(128, 16);
  gemm.bias = p.b.slice(p.sum, 0, 8);
  gemm.postOp = PostOp::GeluTanh, gemm.alpha = 0.25;
  gemm.preActivation = p.b.arena(144, 16);
  gemm.sumsA = p.b.arena(160, 8), gemm.sumsB = p.b.arena(168, 8);
  p.b.add({.name = "gemm",
           .flops = 16,
           .bytes = 48,
           .stage = 2,
           .strand = -1,
           .origins = {{7, 0}, {}, {3, 1}}},
          gemm);
  std::vector<Affine> scalars = {5};
  scalars.push_back(Affine(1, {{0, 2}, {1, 3}}));
  p.b.launch({.name = "kernel"}, 0, "kernel_0", {constant}, {p.b.argument(w)},
             scalars);
  BufferRef tail = p.b.arena(192, 8);
  tail.offset.terms.push_back({1, 16});
  p.b.add({.name = "fill"}, Fill{tail, {1, 0}});
  Expected<Bytes> bytes = p.b.finish();
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return bytes.ok() ? *bytes : Bytes();
}

TEST(Load, ReadsWhatWasWritten) {
  Bytes bytes = everything();
  Expected<Program> program = loadProgram(bytes);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(serializeProgram(*program), bytes);
  EXPECT_EQ(program->codeObjects[0].image, (Bytes{1, 2, 3, 4, 5}));
  EXPECT_EQ(program->arguments[1].range, std::pair(-0.5, 0.5));
  for (const Command &command : program->rankPrograms[0].commands)
    if (command.name == "gemm") {
      ASSERT_EQ(command.origins.size(), 3u);
      EXPECT_EQ(command.origins[1].op, -1);
      EXPECT_EQ(command.origins[2].op, 3);
      EXPECT_EQ(command.origins[2].result, 1u);
    }
  std::string text = printProgram(*program);
  for (const char *line :
       {"mesh data=2 model=2, 4 ranks, micro 1",
        "argument 0 input/x f32[8, 4] local [4, 4] form time(0): 2, data: "
        "gather(0) in host",
        "argument 1 parameter/w bf16[4, 2] local [4, 1] form model: gather(1) "
        "in host updated by result 1",
        "3 comm all_reduce 'sum' stage 0 strand 0 {data} f32[4] arena[0][0, "
        "+16] -> arena[0][64, +16] at model.py:9",
        "scalars (5, 1 + 2*data + 3*model)", "gelu_tanh"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(Load, ModelFacts) {
  HandOver p;
  auto read = [&](const std::vector<ModelFlops> &flops, int64_t tokens = 0) {
    return readModelFacts(serializeProgram(p.b.get(), {flops, tokens}));
  };
  auto found = read({{ElementType::F32, 3e18}, {ElementType::BF16, 12}}, 7);
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->flops.size(), 2u);
  EXPECT_EQ(found->flops[0].flops, 3e18);
  EXPECT_EQ(found->flops[1].type, ElementType::BF16);
  EXPECT_EQ(found->tokens, 7);
  expectError(read({}, -1).status(), "program has -1 tokens");
  expectError(read({{ElementType::F32, 1}, {ElementType::F32, 2}}).status(),
              "program has model flops of f32, expected floating-point types, "
              "each once");
  expectError(read({{ElementType::I64, 1}}).status(), "model flops of i64");
  expectError(read({{ElementType::BF16, -1}}).status(), "negative");
  expectError(readModelFacts({}).status(), "not a Tandem program");
  // What was written before anybody counted.
  Expected<Bytes> bytes = p.b.finish();
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto missing = readModelFacts(*bytes);
  EXPECT_TRUE(missing.ok() && missing->flops.empty() && !missing->tokens);
}

TEST(Load, NoDamageGoesUnseen) {
  Bytes bytes = everything();
  for (size_t at = 0; at < bytes.size(); ++at) {
    Bytes damaged = bytes;
    damaged[at] ^= uint8_t(1u << (at % 8));
    Expected<Program> program = loadProgram(damaged);
    ASSERT_FALSE(program.ok()) << "byte " << at << " of " << bytes.size();
  }
  for (size_t size = 0; size < bytes.size(); size += 7)
    EXPECT_FALSE(loadProgram(std::span(bytes).first(size)).ok()) << size;
}

TEST(Load, SaysWhatIsWrong) {
  Bytes bytes = everything();
  expectError(loadProgram({}).status(),
              "not a Tandem program: file has 0 bytes, expected at least 16");
  Bytes text(100, 'x');
  expectError(loadProgram(text).status(), "no identifier 'TDMP' at byte 4");
  Bytes cut(bytes.begin(), bytes.begin() + int64_t(bytes.size() / 2));
  expectError(loadProgram(cut).status(), "corrupt or truncated");
  // The version is the first field of the root table: its place stands in the
  // table's vtable.
  auto load = [](const Bytes &from, size_t at, auto value) {
    std::memcpy(&value, from.data() + at, sizeof value);
    return value;
  };
  size_t root = load(bytes, 0, uint32_t());
  size_t vtable = size_t(int64_t(root) - load(bytes, root, int32_t()));
  Bytes newer = bytes;
  newer[root + load(bytes, vtable + 4, uint16_t())] = 7;
  expectError(loadProgram(newer).status(),
              "program has version 7, this runtime reads version 6");
  Bytes flipped = bytes;
  flipped[flipped.size() - 3] ^= 4;
  expectError(loadProgram(flipped).status(), "content hash is ");
}

} // namespace
} // namespace tandem::rt::cts
