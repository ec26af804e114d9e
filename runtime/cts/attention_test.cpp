//===- attention_test.cpp - attention, against the interpreter ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/attention.h"
#include "cts/interpreter.h"
#include "cts/support.h"

namespace tandem::rt::cts {
namespace {

/// What a case has beside its sizes.
struct Options {
  bool withinRows = false; ///< [batch, row, head, width] in memory.
  std::optional<ElementType> mask = {};
  Shape maskExtents = {}; ///< 1 where it is broadcast.
  double covering = 0;    ///< What each other row of it has, if it is not 0.
  int64_t before = -1, after = -1;
  double dropout = 0;
  int64_t firstPosition = 0;
  int64_t firstRow = 3; ///< In the numbers of dropout.
};

Tensor numbers(ElementType type, Shape shape, unsigned seed) {
  Tensor tensor(type, shape);
  auto values = randomValues<double>(numElements(shape), seed);
  for (size_t i = 0; i < values.size(); ++i)
    storeNumber(type, tensor.data.data(), int64_t(i), values[i]);
  return tensor;
}

/// A Program with the forward and the backward of one attention, on random
/// values.
class Case {
public:
  Case(Attention sizes, const Options &options)
      : forward(std::move(sizes)), options(options), p({}) {}
  void run(int threads);

private:
  BufferRef input(const char *name, Tensor value) {
    uint32_t index = p.addArgument(
        {"parameter", name, value.type, value.shape, {}, {}, -1, {}});
    values.emplace_back(name, std::move(value));
    return p.argument(index);
  }
  AttentionTensor tensor(const Shape &extents, BufferRef buffer) const;
  AttentionTensor input(const char *name, const Shape &extents, unsigned seed) {
    return tensor(extents, input(name, numbers(forward.type, extents, seed)));
  }
  AttentionTensor result(const char *name, const Shape &extents) {
    return tensor(extents,
                  p.result(p.addResult(
                      {"output", name, forward.type, extents, {}, {}, {}})));
  }
  void addOthers();
  void addCommands();

  Attention forward;
  const Options options;
  ProgramBuilder p;
  std::vector<std::pair<std::string, Tensor>> values;
};

AttentionTensor Case::tensor(const Shape &extents, BufferRef buffer) const {
  int64_t heads = extents[1], rows = extents[2], width = extents[3];
  if (rows == 1) // There is no next one.
    return {buffer, {heads * width, width, 0}};
  if (options.withinRows)
    return {buffer, {heads * rows * width, width, heads * width}};
  return {buffer, {heads * rows * width, rows * width, width}};
}

void Case::addOthers() {
  Attention &op = forward;
  if (options.mask) {
    Tensor mask = numbers(*options.mask, options.maskExtents, 7);
    if (*options.mask == ElementType::I1)
      for (uint8_t &byte : mask.data)
        byte = byte % 3 != 0;
    int64_t keys = options.maskExtents[3];
    for (int64_t i = 0; options.covering && i < numElements(mask.shape); ++i)
      if (i / keys % 2 == 1 || i % 5 == 3)
        storeNumber(mask.type, mask.data.data(), i, options.covering);
    Shape strides = contiguousStrides(options.maskExtents);
    for (size_t dim = 0; dim < strides.size(); ++dim)
      if (options.maskExtents[dim] == 1)
        strides[dim] = 0;
    op.mask = AttentionMask{*options.mask, input("mask", mask), strides};
  }
  op.before = options.before, op.after = options.after;
  auto count = [](int64_t size, int64_t first) {
    std::vector<int64_t> list;
    for (int64_t i = 0; i < size; ++i)
      list.push_back(first + i);
    return tensorOf<int64_t>({size}, list);
  };
  if (op.hasBand())
    op.positions = input("positions", count(op.queries, options.firstPosition));
  if (options.dropout > 0)
    op.dropout =
        AttentionDropout{options.dropout, 5,
                         input("rows", count(op.batch * op.heads * op.queries,
                                             options.firstRow)),
                         input("seed", tensorOf<int64_t>({}, {0x123456789ab})),
                         input("step", tensorOf<int64_t>({}, {2}))};
}

void Case::addCommands() {
  Attention &op = forward;
  op.query = input("query", queryExtents(op), 1);
  op.key = input("key", keyExtents(op), 2);
  op.value = input("value", valueExtents(op), 3);
  addOthers();
  op.output = result("output", outputExtents(op));
  Shape rows = {op.batch, op.heads, op.queries};
  // Of lower numbers it is any (core/attention.h).
  if (options.covering < -2e38) {
    int64_t bytes = numElements(rows) * elementBytes(wideType(op.type));
    p.setArena(bytes);
    op.logsumexp = p.arena(0, bytes);
  } else {
    op.logsumexp = p.result(p.addResult(
        {"output", "logsumexp", wideType(op.type), rows, {}, {}, {}}));
  }
  p.add({.name = "attention"}, op);
  Attention backward = op;
  backward.gradients = AttentionGradients{
      input("gradient", outputExtents(op), 4), result("dq", queryExtents(op)),
      result("dk", keyExtents(op)), result("dv", valueExtents(op))};
  p.add({.name = "attention_backward"}, backward);
}

void Case::run(int threads) {
  addCommands();
  auto session = startTwin(p, {.threads = threads});
  ASSERT_TRUE(session);
  for (const auto &[name, value] : values)
    set(*session, "parameter", name.c_str(), value);
  EXPECT_OK(session->step());
}

class AttentionTest : public testing::TestWithParam<ElementType> {
protected:
  void check(Attention sizes, const Options &options = {}) {
    sizes.type = GetParam();
    bool isCpu = !std::getenv("TANDEM_CTS_DEVICE");
    for (int threads : isCpu ? std::vector{1, 3} : std::vector{1})
      Case(sizes, options).run(threads);
  }
  Watchdog watchdog{120};
};

TEST_P(AttentionTest, Plain) {
  check({.queries = 1, .keys = 1});
  check({.batch = 2,
         .heads = 3,
         .keyHeads = 3,
         .queries = 5,
         .keys = 7,
         .width = 4,
         .valueWidth = 6,
         .scale = 0.5});
}

/// Its stride over rows is any number, which BLAS would refuse.
TEST_P(AttentionTest, OneQueryOrKey) {
  for (auto [queries, keys] : {std::pair{5, 1}, {1, 7}})
    check({.batch = 2,
           .heads = 4,
           .keyHeads = 2,
           .queries = queries,
           .keys = keys,
           .width = 8,
           .valueWidth = 4});
}

TEST_P(AttentionTest, ManyBlocks) {
  check({.heads = 2,
         .keyHeads = 2,
         .queries = 261,
         .keys = 1043,
         .width = 8,
         .valueWidth = 8,
         .scale = 0.3});
}

/// Heads as they are: several tiles, the last of which is not full, of widths
/// that a GPU's kernels by tiles have, that they fill up, and that they have
/// not.
TEST_P(AttentionTest, WideHeads) {
  for (auto [width, valueWidth] :
       {std::pair<int64_t, int64_t>{64, 64}, {128, 128}, {80, 96}, {144, 20}})
    check({.heads = 2,
           .keyHeads = 1,
           .queries = 70,
           .keys = 75,
           .width = width,
           .valueWidth = valueWidth,
           .scale = 0.1},
          {.withinRows = width == 128, .after = 0, .dropout = 0.2});
}

/// More queries than the widest of these have in a block; tiles of which every
/// key is seen, and draws by fours in all rows of a warp.
TEST_P(AttentionTest, WideHeadsInSeveralBlocks) {
  Attention sizes = {.queries = 150,
                     .keys = 148,
                     .width = 128,
                     .valueWidth = 100,
                     .scale = 0.1};
  check(sizes, {.withinRows = true, .dropout = 0.3});
  check(sizes, {.after = 0, .dropout = 0.2});
  check(sizes, {.mask = ElementType::I1, .maskExtents = {1, 1, 150, 148}});
  check(sizes, {.mask = GetParam(), .maskExtents = {1, 1, 150, 1}});
  sizes.keys = 69;
  check(sizes, {.dropout = 0.3});
}

TEST_P(AttentionTest, GroupsOfHeads) {
  for (int64_t keyHeads : {1, 2, 6})
    check({.batch = 2,
           .heads = 6,
           .keyHeads = keyHeads,
           .queries = 9,
           .keys = 33,
           .width = 8,
           .valueWidth = 4});
}

TEST_P(AttentionTest, HeadsWithinRows) {
  check({.batch = 2,
         .heads = 4,
         .keyHeads = 2,
         .queries = 17,
         .keys = 20,
         .width = 8,
         .valueWidth = 8},
        {.withinRows = true});
}

/// Also bands that begin behind all queries, so that some see nothing.
TEST_P(AttentionTest, Bands) {
  for (auto [before, after, first] : {std::array<int64_t, 3>{-1, 0, 0},
                                      {3, 0, 0},
                                      {2, 2, 0},
                                      {-1, 0, -9},
                                      {4, -1, 600},
                                      {1, 0, 1100}})
    check({.heads = 2,
           .keyHeads = 1,
           .queries = 140,
           .keys = 600,
           .width = 4,
           .valueWidth = 4},
          {.before = before, .after = after, .firstPosition = first});
}

TEST_P(AttentionTest, Masks) {
  Attention sizes = {.batch = 2,
                     .heads = 3,
                     .keyHeads = 3,
                     .queries = 4,
                     .keys = 19,
                     .width = 4,
                     .valueWidth = 4};
  for (ElementType type : {ElementType::I1, GetParam()})
    for (Shape extents :
         {Shape{2, 3, 4, 19}, {1, 1, 4, 19}, {2, 1, 1, 19}, {1, 3, 4, 1}})
      check(sizes, {.mask = type, .maskExtents = extents});
}

/// Beside the lowest numbers all else that a score has is lost, and beside
/// -2,000 digits of the logarithm of the sum.
TEST_P(AttentionTest, FiniteMasksOverWholeRows) {
  Attention sizes = {.batch = 2,
                     .heads = 4,
                     .keyHeads = 2,
                     .queries = 140,
                     .keys = 600,
                     .width = 4,
                     .valueWidth = 8};
  for (Shape extents : {Shape{2, 4, 140, 600}, {2, 1, 1, 600}, {1, 4, 140, 1}})
    check(sizes,
          {.mask = GetParam(), .maskExtents = extents, .covering = -3.3e38});
  for (double covering : {-2e3, -3.3e38})
    check(sizes, {.mask = GetParam(),
                  .maskExtents = {1, 1, 140, 600},
                  .covering = covering,
                  .before = 40,
                  .after = 3,
                  .dropout = 0.3});
}

TEST_P(AttentionTest, Dropout) {
  check({.batch = 2,
         .heads = 2,
         .keyHeads = 1,
         .queries = 6,
         .keys = 101,
         .width = 4,
         .valueWidth = 4},
        {.dropout = 0.3});
  check({.queries = 6, .keys = 18, .width = 4, .valueWidth = 4},
        {.mask = ElementType::I1,
         .maskExtents = {1, 1, 6, 18},
         .after = 0,
         .dropout = 0.5});
  // Blocks of four numbers have more than 32 bits.
  check({.queries = 6, .keys = 18, .width = 4, .valueWidth = 4},
        {.dropout = 0.5, .firstRow = int64_t(5) << 33});
  // Four neighbouring keys have one draw: of several tiles, and of a few.
  check({.heads = 2,
         .keyHeads = 1,
         .queries = 70,
         .keys = 136,
         .width = 16,
         .valueWidth = 8},
        {.after = 0, .dropout = 0.4});
  check({.queries = 9, .keys = 20, .width = 72, .valueWidth = 80},
        {.dropout = 0.2, .firstRow = int64_t(3) << 33});
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionTest,
                         testing::Values(ElementType::F64, ElementType::F32,
                                         ElementType::BF16),
                         [](const auto &info) {
                           return std::string(elementName(info.param));
                         });

/// What verifyProgram says of a wrong one.
void expectRefused(Attention op, const std::string &text) {
  expectError(verifyAttention(op), text);
}

TEST(Attention, WrongOnesAreRefused) {
  Attention good = {.heads = 4, .keyHeads = 2};
  for (AttentionTensor *t : {&good.query, &good.key, &good.value, &good.output})
    *t = {{.bytes = 16}, {4, 1, 1}};
  good.logsumexp.bytes = 16;
  EXPECT_OK(verifyAttention(good));
  Attention wrong = good;
  wrong.keyHeads = 3;
  expectRefused(wrong, "attention has 4 heads, expected a multiple of the 3 of "
                       "the keys");
  wrong = good, wrong.after = 0;
  expectRefused(wrong, "attention has no positions for its band");
  wrong = good, wrong.query.buffer.bytes = 12;
  expectRefused(wrong,
                "attention operand query has 12 bytes, expected at least ");
  wrong = good, wrong.output.strides[1] = 0;
  expectRefused(wrong, "attention operand output has stride 0 over a dimension "
                       "of extent 4");
  wrong = good, wrong.keys = 2, wrong.key.buffer.bytes = 64;
  wrong.width = 4, wrong.key.strides = {8, 8, 1};
  wrong.query.buffer.bytes = wrong.output.buffer.bytes = 64;
  wrong.query.strides = {16, 4, 4};
  expectRefused(wrong, "attention operand key has rows 1 elements apart, "
                       "expected at least their width, 4");
  wrong = good, wrong.logsumexp.bytes = 8;
  expectRefused(wrong, "attention operand logsumexp has 8 bytes, expected 16");
  wrong = good, wrong.dropout = AttentionDropout{.probability = 1};
  expectRefused(wrong,
                "attention drops with probability 1.000000, expected more "
                "than 0 and less than 1");
}

} // namespace
} // namespace tandem::rt::cts
