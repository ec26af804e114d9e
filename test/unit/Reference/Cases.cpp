//===- Cases.cpp - operators to try in every combination of forms -----===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cases.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tandem::reference::test {

#define UNARY(name, ...)                                                       \
  {                                                                            \
    "nn." name " %0 : (tensor<{a}x{b}xf64>) -> tensor<{a}x{b}xf64>", {         \
      __VA_ARGS__                                                              \
    }                                                                          \
  }
#define BINARY(name, ...)                                                      \
  {"nn." name " %0, %1 : (tensor<{a}x{b}xf64>, tensor<{b}xf64>) -> "           \
   "tensor<{a}x{b}xf64>",                                                      \
   {__VA_ARGS__}},                                                             \
  {                                                                            \
    "nn." name " %0, %1 : (tensor<{a}x{b}xf64>, tensor<{a}x{b}xf64>) -> "      \
    "tensor<{a}x{b}xf64>",                                                     \
    {                                                                          \
      __VA_ARGS__                                                              \
    }                                                                          \
  }
#define INTEGERS(name, ...)                                                    \
  {                                                                            \
    "nn." name " %0, %1 : (tensor<{a}x{b}xi64>, tensor<{b}xi64>) -> "          \
    "tensor<{a}x{b}xi64>",                                                     \
    {                                                                          \
      __VA_ARGS__                                                              \
    }                                                                          \
  }

static std::vector<Case> makeElementwiseCases() {
  return {
      UNARY("neg"),
      UNARY("abs"),
      UNARY("exp"),
      UNARY("log", kPositive),
      UNARY("exp2"),
      UNARY("log2", kPositive),
      UNARY("log10", kPositive),
      UNARY("log1p", kPositive),
      UNARY("expm1"),
      UNARY("sqrt", kPositive),
      UNARY("rsqrt", kPositive),
      UNARY("reciprocal"),
      UNARY("sin"),
      UNARY("cos"),
      UNARY("tanh"),
      UNARY("sigmoid"),
      UNARY("erf"),
      UNARY("erfc"),
      UNARY("sign"),
      UNARY("floor", kWide),
      UNARY("ceil", kWide),
      UNARY("round", kWide),
      UNARY("relu"),
      UNARY("silu"),
      {"nn.logical_not %0 : (tensor<{a}x{b}xi1>) -> tensor<{a}x{b}xi1>"},
      {"nn.neg %0 : (tensor<{a}x3xi64>) -> tensor<{a}x3xi64>", {kWide}},
      {"nn.gelu none %0 : (tensor<{a}x{b}xf64>) -> "
       "tensor<{a}x{b}xf64>"},
      {"nn.gelu tanh %0 : (tensor<{a}x{b}xf64>) -> "
       "tensor<{a}x{b}xf64>"},
      {"nn.convert %0 : (tensor<{a}x{b}xf64>) -> tensor<{a}x{b}xi64>", {kWide}},
      {"nn.convert %0 : (tensor<{a}x{b}xi64>) -> tensor<{a}x{b}xf64>", {kWide}},
      {"nn.convert %0 : (tensor<{a}x{b}xi64>) -> tensor<{a}x{b}xi32>", {kWide}},
      {"nn.convert %0 : (tensor<{a}x{b}xi1>) -> tensor<{a}x{b}xf64>"},
      {"nn.convert %0 : (tensor<{a}x{b}xi32>) -> tensor<{a}x{b}xi64>", {kWide}},
      {"nn.convert %0 : (tensor<{a}x{b}xf64>) -> tensor<{a}x{b}xi1>", {kHalf}},
      {"nn.convert %0 : (tensor<{a}x{b}xf32>) -> tensor<{a}x{b}xf64>"},
      {"nn.convert %0 : (tensor<{a}x{b}xf32>) -> tensor<{a}x{b}xbf16>"},
      BINARY("add"),
      BINARY("sub"),
      BINARY("mul"),
      BINARY("div"),
      BINARY("pow", kPositive),
      BINARY("maximum"),
      BINARY("minimum"),
      BINARY("remainder", kWide, kPositive),
      BINARY("floor_divide", kWide, kPositive),
      BINARY("atan2"),
      BINARY("copysign"),
      BINARY("silu_backward"),
      INTEGERS("add", kWide, kWide),
      INTEGERS("mul", kWide, kWide),
      INTEGERS("div", {20, 90}, {2, 5}),
      INTEGERS("remainder", kWide, {2, 5}),
      INTEGERS("floor_divide", {20, 90}, {2, 5}),
      INTEGERS("pow", kWide, {2, 3, false}),
      INTEGERS("logical_and", {3, 60}, {3, 60}),
      INTEGERS("logical_or", {3, 60}, {3, 60}),
      INTEGERS("logical_xor", {3, 60}, {3, 60}),
      {"nn.logical_and %0, %1 : (tensor<{a}x{b}xi1>, tensor<{b}xi1>) -> "
       "tensor<{a}x{b}xi1>"},
      // Broadcasting: of a dimension of size 1, of a scalar, of both operands.
      {"nn.add %0, %1 : (tensor<{a}x1xf64>, tensor<{a}x{b}xf64>) -> "
       "tensor<{a}x{b}xf64>"},
      {"nn.mul %0, %1 : (tensor<{a}x3x{b}xf64>, tensor<f64>) -> "
       "tensor<{a}x3x{b}xf64>"},
      {"nn.sub %0, %1 : (tensor<{a}x1xf64>, tensor<1x{b}xf64>) -> "
       "tensor<{a}x{b}xf64>"},
      {"nn.gelu_backward none %0, %1 : "
       "(tensor<{a}x{b}xf64>, tensor<{a}x{b}xf64>) -> tensor<{a}x{b}xf64>"},
      {"nn.gelu_backward tanh %0, %1 : "
       "(tensor<{a}x{b}xf64>, tensor<{a}x{b}xf64>) -> tensor<{a}x{b}xf64>"},
      {"nn.compare lt %0, %1 : (tensor<{a}x{b}xf64>, "
       "tensor<{b}xf64>) -> tensor<{a}x{b}xi1>"},
      {"nn.select %0, %1, %2 : (tensor<{a}x{b}xi1>, tensor<{a}x{b}xf64>, "
       "tensor<{b}xf64>) -> tensor<{a}x{b}xf64>"},
      {"nn.select %0, %1, %2 : (tensor<{b}xi1>, tensor<{a}x{b}xf64>, "
       "tensor<f64>) -> tensor<{a}x{b}xf64>"},
      {"nn.philox %0, %1, %2 {ordinal = 3 : i64} : (tensor<{a}x{b}xi64>, "
       "tensor<i64>, tensor<i64>) -> tensor<{a}x{b}xi64>",
       {indicesOf(1000), indicesOf(1000), indicesOf(1000)}},
  };
}

#define ALONG(name, dim, ...)                                                  \
  {                                                                            \
    "nn." name " %0 {dim = " dim                                               \
    " : i64} : (tensor<{a}x{b}x{c}xf64>) -> tensor<{a}x{b}x{c}xf64>",          \
    {                                                                          \
      __VA_ARGS__                                                              \
    }                                                                          \
  }
#define ALONG_BACKWARD(name, dim)                                              \
  {"nn." name " %0, %1 {dim = " dim                                            \
   " : i64} : (tensor<{a}x{b}xf64>, tensor<{a}x{b}xf64>) -> "                  \
   "tensor<{a}x{b}xf64>"}
#define REDUCE(name, element, ...)                                             \
  {"nn." name " %0 {dims = array<i64: 1>} : (tensor<{a}x{b}x{c}x" element      \
   ">) -> tensor<{a}x{c}x" element ">",                                        \
   {__VA_ARGS__}},                                                             \
  {                                                                            \
    "nn." name " %0 {dims = array<i64: 0, 2>, keepdim = true} : "              \
    "(tensor<{a}x{b}x{c}x" element ">) -> tensor<1x{b}x1x" element ">",        \
    {                                                                          \
      __VA_ARGS__                                                              \
    }                                                                          \
  }

static std::vector<Case> makeReductionCases() {
  return {
      REDUCE("sum", "f64"),
      REDUCE("sum", "i64", kWide),
      REDUCE("max", "f64"),
      REDUCE("min", "f64"),
      REDUCE("prod", "f64"),
      REDUCE("max", "i1", kSparse),
      {"nn.argmax %0 {dim = 1 : i64} : (tensor<{a}x{b}x{c}xf64>) -> "
       "tensor<{a}x{c}xi64>"},
      {"nn.argmax %0 {dim = 0 : i64, keepdim = true} : (tensor<{a}x{b}xf64>) "
       "-> tensor<1x{b}xi64>"},
      ALONG("softmax", "2"),
      ALONG("softmax", "0"),
      {"nn.softmax %0 {dim = 1 : i64, safe = true} : (tensor<{a}x{b}xf64>) -> "
       "tensor<{a}x{b}xf64>"},
      ALONG("log_softmax", "1"),
      ALONG("cumsum", "1"),
      ALONG_BACKWARD("softmax_backward", "1"),
      ALONG_BACKWARD("log_softmax_backward", "0"),
      {"nn.roll %0 {dims = array<i64: 0>, shifts = array<i64: 1>} : "
       "(tensor<{a}x{b}xf64>) -> tensor<{a}x{b}xf64>"},
      {"nn.flip %0 {dims = array<i64: 0, 2>} : (tensor<{a}x{b}x{c}xf64>) -> "
       "tensor<{a}x{b}x{c}xf64>"},
      {"nn.topk %0 {k = 2 : i64, dim = 1 : i64} : (tensor<{a}x{b}x{c}xf64>) -> "
       "(tensor<{a}x2x{c}xf64>, tensor<{a}x2x{c}xi64>)"},
      {"nn.topk %0 {k = {b} : i64, dim = 1 : i64, largest = false} : "
       "(tensor<{a}x{b}xf64>) -> (tensor<{a}x{b}xf64>, tensor<{a}x{b}xi64>)"},
      {"nn.layer_norm %0, %1, %2 {normalized_rank = 1 : i64, eps = 1.0e-5 : "
       "f64} : (tensor<{a}x{b}xf64>, tensor<{b}xf64>, tensor<{b}xf64>) -> "
       "(tensor<{a}x{b}xf64>, tensor<{a}x1xf64>, tensor<{a}x1xf64>)"},
      {"nn.layer_norm %0, %1 {normalized_rank = 2 : i64, eps = 1.0e-5 : f64} : "
       "(tensor<{a}x{b}x4xf64>, tensor<{b}x4xf64>) -> (tensor<{a}x{b}x4xf64>, "
       "tensor<{a}x1x1xf64>, tensor<{a}x1x1xf64>)"},
      {"nn.layer_norm %0 {normalized_rank = 1 : i64, eps = 1.0e-5 : f64} : "
       "(tensor<{a}x{b}x{c}xf64>) -> (tensor<{a}x{b}x{c}xf64>, "
       "tensor<{a}x{b}x1xf64>, tensor<{a}x{b}x1xf64>)"},
      {"nn.layer_norm_backward %0, %1, %2, %3, %4 {normalized_rank = 1 : i64} "
       ": (tensor<{a}x{b}xf64>, tensor<{a}x{b}xf64>, tensor<{a}x1xf64>, "
       "tensor<{a}x1xf64>, tensor<{b}xf64>) -> (tensor<{a}x{b}xf64>, "
       "tensor<{b}xf64>, tensor<{b}xf64>)"},
      {"nn.layer_norm_backward %0, %1, %2, %3 {normalized_rank = 1 : i64} : "
       "(tensor<{a}x{b}x{c}xf64>, tensor<{a}x{b}x{c}xf64>, "
       "tensor<{a}x{b}x1xf64>, tensor<{a}x{b}x1xf64>) -> "
       "tensor<{a}x{b}x{c}xf64>"},
  };
}

#define RESHAPE(from, to)                                                      \
  {"nn.reshape %0 : (tensor<" from "xf64>) -> tensor<" to "xf64>"}

static std::vector<Case> makeShapeCases() {
  return {
      {"nn.constant dense<2.5> : tensor<{a}x{b}xf64> -> tensor<{a}x{b}xf64>"},
      {"nn.constant dense<3> : tensor<i64> -> tensor<i64>"},
      {"nn.constant dense<[1, 2, 3, 4, 1, 2, 3, 4]> : tensor<8xi64> -> "
       "tensor<8xi64>"},
      {"nn.iota : tensor<{a}xi64>"},
      {"nn.either %0, %1 : (tensor<{a}x{b}xf64>, tensor<{a}x{b}xf64>) -> "
       "tensor<{a}x{b}xf64>",
       {},
       true},
      {"nn.either %0, %1, %2 : (tensor<{a}xi64>, tensor<{a}xi64>, "
       "tensor<{a}xi64>) -> tensor<{a}xi64>",
       {kWide},
       true},
      {"nn.to_host %0 : (tensor<{a}x{b}xf64>) -> tensor<{a}x{b}xf64>"},
      {"nn.from_host %0 : (tensor<{a}x{b}xf64>) -> tensor<{a}x{b}xf64>"},
      RESHAPE("{a}x{b}x{c}", "{a}x{b}x{c}"),
      RESHAPE("8x8", "64"),
      RESHAPE("64", "8x8"),
      RESHAPE("8x4", "4x8"),
      RESHAPE("4x8", "8x4"),
      RESHAPE("6x4", "4x6"),
      RESHAPE("8x3", "3x8"),
      RESHAPE("12x4", "8x6"),
      RESHAPE("8x3x4", "24x4"),
      RESHAPE("3x8", "24"),
      RESHAPE("1x8", "8x1x1"),
      RESHAPE("{a}x1x{b}", "{a}x{b}"),
      RESHAPE("{a}x24", "{a}x4x6"),
      RESHAPE("{a}x4x6", "{a}x24"),
      RESHAPE("8x6x4", "4x12x4"),
      RESHAPE("16x3", "4x12"),
      RESHAPE("20x6", "12x10"),
      RESHAPE("2x2x8", "4x8"),
      RESHAPE("2x6", "4x3"),
      RESHAPE("8", "2x2x2"),
      {"nn.permute %0 {permutation = array<i64: 2, 0, 1>} : "
       "(tensor<{a}x{b}x{c}xf64>) -> tensor<{c}x{a}x{b}xf64>"},
      {"nn.permute %0 {permutation = array<i64: 1, 0>} : (tensor<{a}x3xi64>) "
       "-> tensor<3x{a}xi64>"},
      {"nn.expand %0 : (tensor<{a}x1xf64>) -> tensor<{b}x{a}x{c}xf64>"},
      {"nn.expand %0 : (tensor<f64>) -> tensor<{a}x{b}xf64>"},
      {"nn.slice %0 {dim = 0 : i64, start = 1 : i64, stop = 5 : i64} : "
       "(tensor<8x{b}xf64>) -> tensor<4x{b}xf64>"},
      {"nn.slice %0 {dim = 1 : i64, start = 0 : i64, stop = 8 : i64, step = 2 "
       ": i64} : (tensor<{a}x8xf64>) -> tensor<{a}x4xf64>"},
      // No sums of truth values.
      {"nn.reshape %0 : (tensor<{a}x24xi1>) -> tensor<{a}x4x6xi1>"},
      {"nn.permute %0 {permutation = array<i64: 1, 0>} : (tensor<{a}x{b}xi1>) "
       "-> tensor<{b}x{a}xi1>"},
      {"nn.expand %0 : (tensor<{a}x1xi1>) -> tensor<{b}x{a}x{c}xi1>"},
      {"nn.flip %0 {dims = array<i64: 0>} : (tensor<{a}x{b}xi1>) -> "
       "tensor<{a}x{b}xi1>"},
      {"nn.slice %0 {dim = 0 : i64, start = 1 : i64, stop = 5 : i64} : "
       "(tensor<8x{b}xi1>) -> tensor<4x{b}xi1>"},
      {"nn.pad %0 {dim = 0 : i64, low = 3 : i64, high = 1 : i64} : "
       "(tensor<4x{b}xi1>) -> tensor<8x{b}xi1>"},
      {"nn.cat %0, %1 {dim = 0 : i64} : (tensor<4x{b}xi1>, tensor<8x{b}xi1>) "
       "-> tensor<12x{b}xi1>"},
      {"nn.select %0, %1, %2 : (tensor<{a}x{b}xi1>, tensor<{a}x{b}xi1>, "
       "tensor<{b}xi1>) -> tensor<{a}x{b}xi1>"},
      {"nn.pad %0 {dim = 0 : i64, low = 3 : i64, high = 1 : i64} : "
       "(tensor<4x{b}xf64>) -> tensor<8x{b}xf64>"},
      {"nn.pad %0 {dim = 1 : i64, low = 1 : i64, high = 0 : i64, step = 2 : "
       "i64} : (tensor<{a}x4xf64>) -> tensor<{a}x8xf64>"},
      {"nn.cat %0, %1 {dim = 0 : i64} : (tensor<4x{b}xf64>, "
       "tensor<8x{b}xf64>) -> tensor<12x{b}xf64>"},
      {"nn.cat %0, %1, %2 {dim = 1 : i64} : (tensor<{a}x4xi64>, "
       "tensor<{a}x4xi64>, tensor<{a}x8xi64>) -> tensor<{a}x16xi64>",
       {kWide, kWide, kWide}},
  };
}

static std::vector<Case> makeProductCases() {
  return {
      // No sums of truth values.
      {"nn.embedding %0, %1 : (tensor<8x{b}xi1>, tensor<{a}xi64>) -> "
       "tensor<{a}x{b}xi1>",
       {kHalf, indicesOf(8)}},
      {"nn.gather %0, %1 {dim = 1 : i64} : (tensor<{a}x8xi1>, "
       "tensor<{a}x{b}xi64>) -> tensor<{a}x{b}xi1>",
       {kHalf, indicesOf(8)}},
      {"nn.matmul %0, %1 : (tensor<{a}x{b}xf64>, tensor<{b}x{c}xf64>) -> "
       "tensor<{a}x{c}xf64>"},
      {"nn.matmul %0, %1 : (tensor<4x{a}x{b}xf64>, tensor<4x{b}x{c}xf64>) -> "
       "tensor<4x{a}x{c}xf64>"},
      {"nn.embedding %0, %1 : (tensor<{a}x{b}xf64>, tensor<{c}x4xi64>) -> "
       "tensor<{c}x4x{b}xf64>",
       {Range(), indicesOf(4)}},
      {"nn.embedding %0, %1 : (tensor<8x4x3xf64>, tensor<{a}xi64>) -> "
       "tensor<{a}x4x3xf64>",
       {Range(), indicesOf(8)}},
      {"nn.embedding_backward %0, %1 : (tensor<{a}x4x{b}xf64>, "
       "tensor<{a}x4xi64>) -> tensor<8x{b}xf64>",
       {Range(), indicesOf(8)}},
      {"nn.gather %0, %1 {dim = 1 : i64} : (tensor<{a}x8xf64>, "
       "tensor<{a}x{b}xi64>) -> tensor<{a}x{b}xf64>",
       {Range(), indicesOf(8)}},
      {"nn.gather %0, %1 {dim = 0 : i64} : (tensor<4x{b}xi64>, "
       "tensor<8x{b}xi64>) -> tensor<8x{b}xi64>",
       {kWide, indicesOf(4)}},
      {"nn.scatter_add %0, %1 {dim = 1 : i64} : (tensor<{a}x{b}xf64>, "
       "tensor<{a}x{b}xi64>) -> tensor<{a}x8xf64>",
       {Range(), indicesOf(8)}},
  };
}

/// Of input, weight and output, in the order of each of the three operators.
#define CONV(input, weight, output, windows)                                   \
  {"nn.conv %0, %1 {" windows "} : (tensor<" input "xf64>, tensor<" weight     \
   "xf64>) -> tensor<" output "xf64>"},                                        \
      {"nn.conv_input_grad %0, %1 {" windows "} : (tensor<" output             \
       "xf64>, tensor<" weight "xf64>) -> tensor<" input "xf64>"},             \
      {"nn.conv_weight_grad %0, %1 {" windows "} : (tensor<" input             \
       "xf64>, tensor<" output "xf64>) -> tensor<" weight "xf64>"}
#define POOL(input, output, kernel, windows)                                   \
  {"nn.max_pool %0 {kernel = array<i64: " kernel ">, " windows                 \
   "} : (tensor<" input "xf64>) -> (tensor<" output "xf64>, tensor<" output    \
   "xi64>)"}
#define WINDOWS(stride, padding, dilation)                                     \
  "stride = array<i64: " stride ">, padding = array<i64: " padding             \
  ">, dilation = array<i64: " dilation ">"

static std::vector<Case> makeConvolutionCases() {
  return {
      CONV("{a}x{b}x8", "{c}x{b}x3", "{a}x{c}x8", WINDOWS("1", "1", "1")),
      CONV("{a}x4x5x6", "8x4x3x2", "{a}x8x2x4",
           WINDOWS("2, 1", "0, 1", "1, 3")),
      CONV("2x{b}x4x4x3", "4x{b}x2x3x1", "2x4x3x2x3",
           WINDOWS("1, 2, 1", "0, 1, 0", "1, 1, 1")),
      // Groups, of several channels and of one.
      CONV("3x16x4", "8x4x3", "3x8x4", WINDOWS("1", "1", "1")),
      CONV("3x{a}x8", "{a}x1x4", "3x{a}x4", WINDOWS("2", "1", "1")),
      CONV("3x4x8", "8x1x4", "3x8x4", WINDOWS("2", "1", "1")),
      // Positions may be split: patches, and kernels of one position.
      CONV("2x3x8x16", "4x3x2x4", "2x4x4x4", WINDOWS("2, 4", "0, 0", "1, 1")),
      CONV("2x3x{a}", "4x3x1", "2x4x{a}", WINDOWS("1", "0", "1")),
      // Windows with gaps; ends that are not read, and kernels that reach
      // beyond the input.
      CONV("2x3x8", "5x3x1", "2x5x4", WINDOWS("2", "0", "1")),
      CONV("2x3x7", "5x3x2", "2x5x3", WINDOWS("2", "0", "1")),
      CONV("2x3x4", "5x3x4", "2x5x4", WINDOWS("1", "3", "2")),
      // As many windows as positions, which reach into the next part: a kernel
      // of even size under padding "same" pads the end alone.
      CONV("2x3x8", "5x3x2", "2x5x8", WINDOWS("1", "0", "1")),
      POOL("{a}x{b}x8", "{a}x{b}x4", "2", WINDOWS("2", "0", "1")),
      POOL("{a}x8x4", "{a}x8x4", "3, 3", WINDOWS("1, 1", "1, 1", "1, 1")),
      POOL("2x{b}x5x4x8", "2x{b}x3x4x3", "2, 1, 3",
           WINDOWS("2, 1, 2", "0, 0, 0", "1, 1, 2")),
  };
}

const std::vector<Case> &getCases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    for (auto &&part :
         {makeElementwiseCases(), makeReductionCases(), makeShapeCases(),
          makeProductCases(), makeConvolutionCases(), makeAttentionCases()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return cases;
}

std::string Case::getName() const {
  return StringRef(text).take_until([](char c) { return c == ' '; }).str();
}

//===----------------------------------------------------------------------===//
// Instances
//===----------------------------------------------------------------------===//

static std::string chooseSizes(StringRef text, Generator &generator) {
  std::string result = text.str();
  for (StringRef name : {"{a}", "{b}", "{c}"}) {
    const char *size = generator() % 2 ? "8" : "4";
    for (size_t at; (at = result.find(name)) != std::string::npos;)
      result.replace(at, name.size(), size);
  }
  return result;
}

/// `%0: type, %1: type` from `... : (type, type) -> ...`.
static std::string makeArguments(StringRef text) {
  auto [before, types] = text.split(" : (");
  std::string arguments;
  if (types.empty())
    return arguments;
  SmallVector<StringRef> split;
  types.split(") ->").first.split(split, ", ");
  for (auto [index, type] : llvm::enumerate(split))
    arguments +=
        (index ? ", %" : "%") + std::to_string(index) + ": " + type.str();
  return arguments;
}

/// Of `... -> (type, type)`; one where no list of types says more.
static size_t countResults(StringRef text) {
  return std::max<size_t>(text.rsplit("-> ").second.count("tensor<"), 1);
}

Instance::Instance(MLIRContext &context, const Case &source,
                   Generator &generator)
    : source(source) {
  std::string text = chooseSizes(source.text, generator);
  std::string module = "func.func @f(" + makeArguments(text) +
                       ") {\n %r:" + std::to_string(countResults(text)) +
                       " = " + text + "\n return\n}";
  this->module = parseSourceString<ModuleOp>(module, &context);
  if (!this->module)
    llvm::report_fatal_error(llvm::StringRef("a case does not parse: " + text));
  auto function = *this->module->getOps<func::FuncOp>().begin();
  op = &function.getBody().front().front();
}

Tensor Instance::makeValue(unsigned index, RankedTensorType type,
                           Generator &generator) const {
  Range fallback = type.getElementType().isInteger(1) ? kHalf : Range();
  Range range = index < source.ranges.size() ? source.ranges[index] : fallback;
  Tensor tensor(type.getShape(), type.getElementType());
  std::uniform_real_distribution<double> fraction(0, 1);
  std::uniform_real_distribution<double> uniform(range.low, range.high);
  std::uniform_int_distribution<int64_t> integer(range.low, range.high);
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    int64_t sign = range.signs && generator() % 2 ? -1 : 1;
    if (fraction(generator) < range.zeros)
      continue;
    if (type.getElementType().isInteger(1))
      tensor.setInteger(i, 1);
    else if (tensor.isFloat())
      tensor.setDouble(i, sign * uniform(generator));
    else
      tensor.setInteger(i, sign * integer(generator));
  }
  return tensor;
}

std::vector<Tensor> Instance::makeOperands(Generator &generator) const {
  std::vector<Tensor> operands;
  for (auto [index, type] : llvm::enumerate(op->getOperandTypes()))
    operands.push_back(
        source.areEqual && index > 0
            ? operands.front()
            : makeValue(index, cast<RankedTensorType>(type), generator));
  return operands;
}

} // namespace tandem::reference::test
