//===- limits_test.cpp - limits of numbers in Programs --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Files with a right hash and wrong numbers: an error each, at once, whatever
// the number stands for.
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"

#include <chrono>
#include <functional>

namespace tandem::rt::cts {
namespace {

constexpr ElementType kF32 = ElementType::F32;
constexpr int64_t kHuge = int64_t(1) << 62;

/// One of everything that has numbers.
struct Small {
  Small() : b({{"data", 2}}) {
    uint32_t x = b.addArgument({"input", "x", kF32, {4, 4}});
    uint32_t y = b.addResult({"output", "y", kF32, {4, 4}});
    b.addCodeObject("kernels", {1});
    b.setArena(4096);
    Gemm gemm = contiguousGemm(kF32, 4, 4, 4, {1});
    gemm.a = gemm.b = b.argument(x), gemm.c = b.arena(0, 64);
    b.add({.name = "gemm"}, gemm);
    b.launch({.name = "launch"}, 0, "kernel", {b.arena(0, 64)},
             {b.arena(64, 64)}, {1});
    b.add({.name = "sum"}, Collective{CollectiveKind::AllGather,
                                      {0},
                                      kF32,
                                      {4, 4},
                                      -1,
                                      0,
                                      b.arena(0, 64),
                                      b.arena(128, 128)});
    b.add({.name = "copy"}, Copy{b.arena(0, 64), b.result(y)});
  }
  template <typename T> T &op(size_t index) {
    return std::get<T>(
        b.mutableProgram().rankPrograms[0].commands[index].operation);
  }
  ProgramBuilder b;
};

/// By way of a file.
void expectRefused(const std::function<void(Small &)> &change,
                   const std::string &text) {
  Small small;
  change(small);
  auto begin = std::chrono::steady_clock::now();
  expectError(loadProgram(serializeProgram(small.b.get())).status(), text);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Limits, TheSmallProgramIsRight) {
  EXPECT_OK(loadProgram(serializeProgram(Small().b.get())).status());
}

TEST(Limits, Declarations) {
  auto program = [](Small &s) -> Program & { return s.b.mutableProgram(); };
  expectRefused(
      [&](Small &s) { program(s).rankPrograms[0].numEvents = 4'000'000'000u; },
      "rank program has 4000000000 events, expected at most one for each of "
      "its 4 commands");
  expectRefused(
      [&](Small &s) {
        program(s).arguments[0].form.dims[0].timeFactor = kHuge;
      },
      "time factor of dimension 0 is 4611686018427387904, expected 1 to");
  expectRefused(
      [&](Small &s) { program(s).arguments[0].globalShape[0] = kHuge; },
      "shape is [4611686018427387904, 4], expected no extent below 0 "
      "or above");
  expectRefused(
      [&](Small &s) {
        program(s).arguments[0].globalShape = Shape(4, int64_t(1) << 40);
      },
      "is too large");
  expectRefused([&](Small &s) { program(s).mesh[0].size = kHuge; },
                "mesh axis 'data' has size 4611686018427387904");
  expectRefused(
      [&](Small &s) { program(s).rankPrograms[0].arenas[0].bytes = kHuge; },
      "arena 0: has 4611686018427387904 bytes, expected 0 to");
  expectRefused(
      [&](Small &s) {
        program(s).arguments[0].part = Part{"w", {kHuge, 4}, 0, kHuge};
      },
      "expected a piece of it");
  expectRefused(
      [&](Small &s) {
        program(s).arguments[0].part = Part{"w", {4, 4}, 0, INT64_MAX};
      },
      "expected a piece of it");
  // As many parts as 64 bits cannot count.
  expectRefused(
      [&](Small &s) {
        Program &p = program(s);
        p.mesh.resize(5, {"", int64_t(1) << 20});
        for (size_t i = 0; i < 5; ++i)
          p.mesh[i].name = std::to_string(i);
      },
      "mesh has more than 1048576 ranks");
}

TEST(Limits, Products) {
  for (auto field : {&Gemm::m, &Gemm::n, &Gemm::k})
    expectRefused([&](Small &s) { s.op<Gemm>(0).*field = kHuge; },
                  "expected none below 1 or above");
  expectRefused([&](Small &s) { s.op<Gemm>(0).batch[0] = kHuge; },
                "expected no extent below 1 or above");
  expectRefused([&](Small &s) { s.op<Gemm>(0).stridesA[1] = kHuge; },
                "gemm operand a has stride 4611686018427387904");
  expectRefused(
      [&](Small &s) {
        s.op<Gemm>(0).m = int64_t(1) << 40;
        s.op<Gemm>(0).stridesA[1] = int64_t(1) << 40;
      },
      "gemm operand a spans more bytes than 64 bits can count");
}

TEST(Limits, Commands) {
  expectRefused([](Small &s) { s.op<Launch>(1).outputs.clear(); },
                "launch writes nothing, expected at least one output");
  expectRefused([](Small &s) { s.op<Copy>(3).source.bytes = kHuge; },
                "expected to lie within 4096 bytes");
  expectRefused([](Small &s) { s.op<Copy>(3).source.offset.base = INT64_MAX; },
                "expected to lie within 4096 bytes");
  expectRefused([](Small &s) { s.op<Copy>(3).source.bytes = INT64_MIN; },
                "buffer is arena 0 [0, -9223372036854775808)");
  expectRefused(
      [](Small &s) {
        s.op<Copy>(3).source.offset = Affine(0, {{0, kHuge}, {0, kHuge}});
      },
      "is too large for 64 bits");
  expectRefused(
      [](Small &s) {
        s.op<Launch>(1).scalars = {Affine(1, {{0, INT64_MIN}, {0, INT64_MIN}})};
      },
      "is too large for 64 bits");
  expectRefused([](Small &s) { s.op<Collective>(2).shape = {kHuge, 0}; },
                "expected no extent below 0 or above");
  expectRefused([](Small &s) { s.op<Collective>(2).shape = {-4, -4}; },
                "expected no extent below 0 or above");
  expectRefused([](Small &s) { s.op<Collective>(2).concatDim = 1 << 30; },
                "concatenates along dimension 1073741824");
}

/// Slices that leave gaps are looked at one by one, so there may not be many.
TEST(Limits, RepeatsThatMoveManyBuffers) {
  expectRefused(
      [](Small &s) {
        Program &p = s.b.mutableProgram();
        p.rankPrograms[0].arenas[0].bytes = int64_t(1) << 40;
        auto &commands = p.rankPrograms[0].commands;
        Command repeat{
            .id = 100, .name = "repeat", .operation = Repeat(kMaxIterations)};
        for (uint32_t i = 0; i < 100; ++i)
          std::get<Repeat>(repeat.operation)
              .body.push_back(
                  {.id = 200 + i,
                   .name = "fill",
                   .operation =
                       Fill{s.b.arena(Affine::moving(8192 + 16 * i, 4096), 8),
                            {0}}});
        commands.push_back(repeat);
      },
      "repeats move more than 262144 buffers");
}

/// A file of half a megabyte that would take thirty in memory, or any number.
TEST(Limits, WhatIsStoredOnceIsNotUsedForEver) {
  Small s;
  std::string name(size_t(1) << 19, 'n');
  for (int i = 0; i < 64; ++i)
    s.b.add({.name = name}, Fill{s.b.arena(0, 64), {0}});
  Bytes bytes = serializeProgram(s.b.get());
  EXPECT_LT(bytes.size(), size_t(1) << 20);
  expectError(loadProgram(bytes).status(),
              "program file is corrupt: its strings and lists are stored once "
              "and used too often");
}

/// Errors quote names, each on one line.
TEST(Limits, TextsHaveOneLine) {
  Small s;
  s.b.add({.name = "fill\nthe arena"}, Fill{s.b.arena(0, 64), {0}});
  expectError(loadProgram(serializeProgram(s.b.get())).status(),
              "program file is corrupt: a text of it has several lines, "
              "expected one line");
}

/// Two queues, an event each way per layer, buffers used again and again.
Program manyCommands(int64_t layers) {
  ProgramBuilder b({{"data", 4}});
  addCommQueue(b);
  uint32_t x = b.addArgument({"input", "x", kF32, {16}});
  b.setArena(1 << 20);
  b.addCodeObject("kernels", {1});
  b.add({.name = "begin"}, Copy{b.argument(x), b.arena(0, 64)});
  for (int64_t i = 0; i < layers; ++i) {
    BufferRef in = b.arena(i % 1000 * 128, 64),
              out = b.arena((i + 1) % 1000 * 128, 64),
              sum = b.arena((1 << 19) + i % 100 * 128, 64);
    b.launch({.name = "layer"}, 0, "kernel", {in, b.argument(x)}, {out});
    if (i % 8 != 0)
      continue;
    b.waitEvent(kComm, b.recordEvent(kCompute));
    b.add({.name = "sum", .queue = kComm},
          Collective{
              CollectiveKind::AllReduce, {0}, kF32, {16}, -1, -1, out, sum});
    b.waitEvent(kCompute, b.recordEvent(kComm));
  }
  return b.get();
}

double secondsOf(const std::function<void()> &body) {
  auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// 42,000 launches, as 48 layers with 16 microbatches have. The bound is loose,
/// for a busy machine; comparing pairs takes minutes.
TEST(Limits, VerifyingTakesTimeInProportion) {
  Program program = manyCommands(42'000);
  double seconds = secondsOf([&] { EXPECT_OK(verifyProgram(program)); });
  RecordProperty("seconds", std::to_string(seconds));
  std::printf("%zu commands verified in %.3f s\n",
              program.rankPrograms[0].commands.size(), seconds);
  EXPECT_LT(seconds, 5);
  Bytes bytes = serializeProgram(program);
  seconds = secondsOf([&] { EXPECT_OK(loadProgram(bytes).status()); });
  std::printf("loaded in %.3f s\n", seconds);
  EXPECT_LT(seconds, 10);
}

} // namespace
} // namespace tandem::rt::cts
