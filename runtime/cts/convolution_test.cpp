//===- convolution_test.cpp - convolution, against the interpreter --------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/convolution.h"
#include "cts/interpreter.h"
#include "cts/support.h"

namespace tandem::rt::cts {
namespace {

constexpr ConvolutionKind kKinds[] = {ConvolutionKind::Forward,
                                      ConvolutionKind::InputGradient,
                                      ConvolutionKind::WeightGradient};

/// The strides of a tensor that lies with its channels last.
Shape channelsLast(const Shape &extents) {
  Shape moved = extents;
  moved.erase(moved.begin() + 1);
  moved.push_back(extents[1]);
  Shape strides = contiguousStrides(moved);
  strides.insert(strides.begin() + 1, strides.back());
  strides.pop_back();
  return strides;
}

struct Options {
  bool channelsLast = false;
  int64_t workspace = 0; ///< Bytes.
};

/// Of all tensors, but of the gradient of the weight.
struct Types {
  ElementType type, ofWeight;
};

/// Extents, without strides, of a convolution.
struct Sizes {
  Shape input, weight, output, stride, padding, dilation;

  Convolution make(ElementType type, bool last = false) const {
    Convolution op{.type = type,
                   .madeType = type,
                   .stride = stride,
                   .padding = padding,
                   .dilation = dilation};
    const Shape *extents[] = {&input, &weight, &output};
    for (size_t i = 0; i < 3; ++i) {
      op.tensors[i].extents = *extents[i];
      op.tensors[i].strides = last && i != 1 ? channelsLast(*extents[i])
                                             : contiguousStrides(*extents[i]);
    }
    return op;
  }
};

/// A Program with a convolution and both its gradients, on random values.
class Case {
public:
  Case(const Convolution &op, ElementType ofWeight, const Options &options)
      : op(op), ofWeight(ofWeight), options(options) {}
  void run() {
    if (options.workspace)
      p.setArena(options.workspace);
    for (size_t i = 0; i < 3; ++i)
      inputs.push_back(input(i));
    for (ConvolutionKind kind : kKinds)
      add(kind);
    auto session = startTwin(p);
    ASSERT_TRUE(session);
    for (const auto &[name, value] : values)
      set(*session, "parameter", name.c_str(), value);
    EXPECT_OK(session->step());
  }

private:
  BufferRef input(size_t number) {
    const Shape &shape = op.tensors[number].extents;
    Tensor value(op.type, shape);
    auto random = randomValues<double>(numElements(shape), unsigned(number));
    for (size_t i = 0; i < random.size(); ++i)
      storeNumber(op.type, value.data.data(), int64_t(i), random[i]);
    std::string name = "of " + std::to_string(number);
    uint32_t index =
        p.addArgument({"parameter", name, op.type, shape, {}, {}, -1, {}});
    values.emplace_back(name, std::move(value));
    return p.argument(index);
  }
  void add(ConvolutionKind kind) {
    Convolution one = op;
    one.kind = kind;
    if (kind == ConvolutionKind::WeightGradient)
      one.madeType = ofWeight;
    auto [lhs, rhs, made] = one.roles();
    one.tensors[lhs].buffer = inputs[lhs];
    one.tensors[rhs].buffer = inputs[rhs];
    one.tensors[made].buffer =
        p.result(p.addResult({"output",
                              "made " + std::to_string(made),
                              one.madeType,
                              op.tensors[made].extents,
                              {},
                              {},
                              {}}));
    CommandInfo info{.name = "convolution"};
    if (options.workspace)
      info.workspace = p.arena(0, options.workspace);
    p.add(std::move(info), std::move(one));
  }

  const Convolution &op;
  const ElementType ofWeight;
  const Options options;
  ProgramBuilder p{{}};
  std::vector<BufferRef> inputs;
  std::vector<std::pair<std::string, Tensor>> values;
};

class ConvolutionTest : public testing::TestWithParam<Types> {
protected:
  void check(const Sizes &sizes, const Options &options = {}) {
    auto [type, ofWeight] = GetParam();
    Case(sizes.make(type, options.channelsLast), ofWeight, options).run();
  }
  Watchdog watchdog{120};
};

const Sizes kPlain = {{2, 3, 7, 6}, {5, 3, 3, 2}, {2, 5, 7, 5},
                      {1, 1},       {1, 0},       {1, 1}};

TEST_P(ConvolutionTest, OneToThreeDimensions) {
  check({{2, 3, 9}, {4, 3, 3}, {2, 4, 9}, {1}, {1}, {1}});
  check(kPlain);
  check({{2, 2, 4, 5, 6},
         {3, 2, 2, 3, 1},
         {2, 3, 3, 5, 6},
         {1, 1, 1},
         {0, 1, 0},
         {1, 1, 1}});
}

TEST_P(ConvolutionTest, StridesAndDilation) {
  check({{2, 3, 9, 8}, {4, 3, 3, 3}, {2, 4, 5, 4}, {2, 2}, {1, 1}, {1, 1}});
  check({{1, 4, 12}, {4, 4, 3}, {1, 4, 12}, {1}, {4}, {2}});
  // Ends that no window reads, and windows that are longer than the input.
  check({{2, 3, 8, 7}, {4, 3, 1, 2}, {2, 4, 4, 3}, {2, 2}, {0, 0}, {1, 1}});
  check({{2, 3, 4}, {4, 3, 4}, {2, 4, 4}, {1}, {3}, {2}});
}

TEST_P(ConvolutionTest, Groups) {
  check({{2, 6, 5, 5}, {4, 3, 3, 3}, {2, 4, 5, 5}, {1, 1}, {1, 1}, {1, 1}});
  // As many as channels, with one and two results each.
  check({{2, 20, 6, 6}, {20, 1, 3, 3}, {2, 20, 3, 3}, {2, 2}, {1, 1}, {1, 1}});
  check({{1, 3, 8}, {6, 1, 3}, {1, 6, 8}, {1}, {1}, {1}});
}

TEST_P(ConvolutionTest, BlocksOfChannels) {
  check({{2, 32, 6, 6}, {48, 32, 3, 3}, {2, 48, 6, 6}, {1, 1}, {1, 1}, {1, 1}});
  check({{2, 33, 5, 5}, {17, 33, 1, 1}, {2, 17, 5, 5}, {1, 1}, {0, 0}, {1, 1}});
}

TEST_P(ConvolutionTest, ChannelsLast) {
  check(kPlain, {.channelsLast = true});
  check({{2, 32, 6, 6}, {48, 32, 3, 3}, {2, 48, 3, 3}, {2, 2}, {1, 1}, {1, 1}},
        {.channelsLast = true});
  check({{2, 32, 6, 6}, {32, 1, 3, 3}, {2, 32, 6, 6}, {1, 1}, {1, 1}, {1, 1}},
        {.channelsLast = true});
}

/// Of any size, also one that is too small.
TEST_P(ConvolutionTest, Workspaces) {
  for (int64_t bytes : {64, 4096, 1 << 20})
    check(kPlain, {.workspace = bytes});
}

/// With room for one image, for some of them and for all: weights first.
TEST_P(ConvolutionTest, FewImagesAtATime) {
  const Sizes sizes = {{6, 20, 4, 3}, {18, 20, 3, 3}, {6, 18, 4, 3},
                       {1, 1},        {1, 1},         {1, 1}};
  auto [type, ofWeight] = GetParam();
  int64_t width = elementBytes(type), widthOfWeight = elementBytes(ofWeight);
  int64_t weights = 32 * 32 * 9 * widthOfWeight, image = 2 * 32 * 4 * 3 * width;
  for (int64_t images : {0, 1, 2, 3, 5, 6})
    check(sizes, {.workspace = weights + images * image});
  check({{4, 32, 6, 6}, {32, 1, 3, 3}, {4, 32, 6, 6}, {1, 1}, {1, 1}, {1, 1}},
        {.workspace = 32 * 9 * widthOfWeight + 2 * 2 * 32 * 36 * width});
}

static std::string nameOf(Types types) {
  auto [type, ofWeight] = types;
  std::string name(elementName(type));
  return ofWeight == type ? name : name + "_to_f32";
}

INSTANTIATE_TEST_SUITE_P(
    Types, ConvolutionTest,
    testing::Values(Types{ElementType::F64, ElementType::F64},
                    Types{ElementType::F32, ElementType::F32},
                    Types{ElementType::BF16, ElementType::BF16},
                    Types{ElementType::BF16, ElementType::F32}),
    [](const auto &info) { return nameOf(info.param); });

TEST(Convolution, WrongOnesAreRefused) {
  Convolution good = kPlain.make(ElementType::F32);
  for (ConvolutionTensor &tensor : good.tensors)
    tensor.buffer.bytes = 4 * numElements(tensor.extents);
  EXPECT_OK(verifyConvolution(good));
  auto refuse = [&](auto change, const std::string &text) {
    Convolution wrong = good;
    change(wrong);
    expectError(verifyConvolution(wrong), "convolution " + text);
  };
  constexpr int64_t kHuge = int64_t(1) << 62;
  refuse([](auto &c) { c.type = ElementType::I64; },
         "of i64, expected f64, f32 or bf16");
  // The gradient of a weight alone, and of bf16, may be wider.
  constexpr const char *kMade = ", expected the same, or f32 for the gradient "
                                "of a weight of bf16";
  refuse([](auto &c) { c.type = ElementType::BF16; },
         "of bf16 makes f32" + std::string(kMade));
  refuse(
      [](auto &c) {
        c.kind = ConvolutionKind::WeightGradient;
        c.madeType = ElementType::F64;
      },
      "of f32 makes f64" + std::string(kMade));
  refuse([](auto &c) { c.tensors[0].extents = {2, 3}; },
         "has an input of 2 dimensions, expected 3 to 5");
  refuse([](auto &c) { c.tensors[1].strides.pop_back(); },
         "operand weight has 4 extents and 3 strides, expected 4");
  refuse([](auto &c) { c.tensors[2].extents[2] = 0; },
         "operand output has extents [2, 5, 0, 5], expected 1 to 2^30");
  refuse(
      [](auto &c) { c.tensors[2].extents[2] = kHuge; },
      "operand output has extents [2, 5, 4611686018427387904, 5], expected 1 "
      "to 2^30");
  refuse([](auto &c) { c.stride = {1}; },
         "has windows of 1 dimensions, expected 2");
  refuse([](auto &c) { c.tensors[1].extents[1] = 2; },
         "has input [2, 3, 7, 6], weight [5, 2, 3, 2] and output [2, 5, 7, 5], "
         "expected [n, g i, ...], [g o, i, ...] and [n, g o, ...]");
  refuse([](auto &c) { c.dilation[1] = 0; },
         "has stride 1, padding 0 and dilation 0, expected 1, 0 and 1 to 2^30");
  refuse(
      [](auto &c) { c.padding[0] = kHuge; },
      "has stride 1, padding 4611686018427387904 and dilation 1, expected 1, "
      "0 and 1 to 2^30");
  refuse([](auto &c) { c.tensors[2].extents[3] = 4; },
         "does not read the last 1 elements of spatial dimension 1, expected "
         "fewer than its stride 1");
  refuse([](auto &c) { c.tensors[0].buffer.bytes -= 4; },
         "operand input has 1004 bytes, expected at least 1008");
  refuse([](auto &c) { c.tensors[0].strides[2] = kHuge; },
         "operand input has stride 4611686018427387904, expected 0 to 2^40");
  refuse([](auto &c) { c.tensors[2].strides[1] = 0; },
         "operand output has stride 0 over a dimension of extent 5");
}

} // namespace
} // namespace tandem::rt::cts
