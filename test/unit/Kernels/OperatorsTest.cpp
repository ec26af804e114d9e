//===- OperatorsTest.cpp - a kernel for every operator --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"
#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>

using namespace tandem::test;

/// Replaces every `$name` by its value.
static std::string
substitute(std::string text,
           std::vector<std::pair<std::string, std::string>> values) {
  for (const auto &[name, value] : values)
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, name.size(), value);
  return text;
}

/// Checks `text` with `$T` replaced by each of `types`, all in one module.
static void checkTypes(const std::string &text,
                       std::vector<std::string> types) {
  std::string all;
  for (const std::string &type : types)
    all += substitute(text, {{"$T", type}, {"$N", "k_" + type}});
  checkKernels(all);
}

static const std::vector<std::string> kFloats = {"f64", "f32", "bf16"};
static const std::vector<std::string> kNumbers = {"f64", "f32", "bf16", "i64",
                                                  "i32"};

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

struct Unary {
  const char *name;
  std::vector<std::string> types;
  int low = -2, high = 2;
  const char *attributes = "";
};

static void PrintTo(const Unary &unary, std::ostream *os) { *os << unary.name; }

class UnaryTest : public testing::TestWithParam<Unary> {};

TEST_P(UnaryTest, EqualsReference) {
  const Unary &op = GetParam();
  std::string text = R"(
    func.func @$N(%x: tensor<3x37x$T> {test.low = $L, test.high = $H}) -> tensor<3x37x$T> {
      %0 = nn.$O %x $A : (tensor<3x37x$T>) -> tensor<3x37x$T>
      return %0 : tensor<3x37x$T>
    }
  )";
  checkTypes(substitute(text, {{"$O", op.name},
                               {"$A", op.attributes},
                               {"$L", std::to_string(op.low)},
                               {"$H", std::to_string(op.high)}}),
             op.types);
}

INSTANTIATE_TEST_SUITE_P(
    All, UnaryTest,
    testing::Values(
        Unary{"neg", kNumbers}, Unary{"abs", kNumbers}, Unary{"exp", kFloats},
        Unary{"log", kFloats, 0, 3}, Unary{"exp2", kFloats},
        Unary{"log2", kFloats, 0, 3}, Unary{"log10", kFloats, 0, 3},
        Unary{"log1p", kFloats, 0, 3}, Unary{"expm1", kFloats},
        Unary{"sqrt", kFloats, 0, 3}, Unary{"rsqrt", kFloats, 1, 4},
        Unary{"reciprocal", kFloats, 1, 4}, Unary{"sin", kFloats, -100, 100},
        Unary{"cos", kFloats, -100, 100}, Unary{"tanh", kFloats, -12, 12},
        Unary{"sigmoid", kFloats, -20, 20}, Unary{"erf", kFloats, -5, 5},
        Unary{"erfc", kFloats, -5, 5}, Unary{"sign", kNumbers},
        Unary{"floor", kFloats}, Unary{"ceil", kFloats},
        Unary{"round", kFloats, -5, 5}, Unary{"relu", kNumbers},
        Unary{"silu", kFloats, -10, 10}, Unary{"logical_not", {"i1"}, 0, 2},
        Unary{"gelu none", kFloats, -6, 6}, Unary{"gelu tanh", kFloats, -6, 6},
        Unary{"cumsum", kNumbers, -2, 2, "{dim = 0 : i64}"},
        Unary{"cumsum", kNumbers, -2, 2, "{dim = 1 : i64}"},
        Unary{"flip", kNumbers, -2, 2, "{dims = array<i64: 0, 1>}"},
        Unary{"softmax", kFloats, -5, 5, "{dim = 1 : i64}"},
        Unary{"softmax", kFloats, -5, 5, "{dim = 0 : i64}"},
        Unary{"log_softmax", kFloats, -5, 5, "{dim = 1 : i64}"}));

struct Binary {
  const char *name;
  std::vector<std::string> types;
  const char *attributes = "";
  int low = -3, high = 4;
};

static void PrintTo(const Binary &binary, std::ostream *os) {
  *os << binary.name;
}

class BinaryTest : public testing::TestWithParam<Binary> {};

/// On equal shapes, and with both operands broadcast.
TEST_P(BinaryTest, EqualsReference) {
  const Binary &op = GetParam();
  std::string text = R"(
    func.func @$N(%x: tensor<5x19x$T> {test.low = $L, test.high = $H}, %y: tensor<5x19x$T> {test.low = 1, test.high = 4}) -> tensor<5x19x$T> {
      %0 = nn.$O %x, %y $A : (tensor<5x19x$T>, tensor<5x19x$T>) -> tensor<5x19x$T>
      return %0 : tensor<5x19x$T>
    }
    func.func @b_$N(%x: tensor<5x1x$T> {test.low = $L, test.high = $H}, %y: tensor<19x$T> {test.low = 1, test.high = 4}) -> tensor<5x19x$T> {
      %0 = nn.$O %x, %y $A : (tensor<5x1x$T>, tensor<19x$T>) -> tensor<5x19x$T>
      return %0 : tensor<5x19x$T>
    }
  )";
  checkTypes(substitute(text, {{"$O", op.name},
                               {"$A", op.attributes},
                               {"$L", std::to_string(op.low)},
                               {"$H", std::to_string(op.high)}}),
             op.types);
}

static const std::vector<std::string> kAll = {"f64", "f32", "bf16", "i64",
                                              "i32"};
static const std::vector<std::string> kIntegers = {"i64", "i32", "i1"};

INSTANTIATE_TEST_SUITE_P(
    All, BinaryTest,
    testing::Values(Binary{"add", kAll}, Binary{"sub", kAll},
                    Binary{"mul", kAll}, Binary{"div", kAll},
                    Binary{"pow", kAll, "", 1, 3}, Binary{"maximum", kAll},
                    Binary{"minimum", kAll}, Binary{"remainder", kAll},
                    Binary{"floor_divide", kAll}, Binary{"atan2", kFloats},
                    Binary{"logical_and", kIntegers},
                    Binary{"logical_or", kIntegers},
                    Binary{"logical_xor", kIntegers},
                    Binary{"gelu_backward none", kFloats},
                    Binary{"gelu_backward tanh", kFloats},
                    Binary{"silu_backward", kFloats}));

TEST(Compare, EveryPredicate) {
  std::string text;
  for (std::string predicate : {"eq", "ne", "lt", "le", "gt", "ge"})
    for (std::string type : {"f64", "f32", "bf16", "i64", "i1"})
      text += substitute(R"(
    func.func @$P_$T(%x: tensor<40x$T> {test.high = 2}, %y: tensor<40x$T> {test.high = 2}) -> tensor<40xi1> {
      %0 = nn.compare $P %x, %y : (tensor<40x$T>, tensor<40x$T>) -> tensor<40xi1>
      return %0 : tensor<40xi1>
    })",
                         {{"$P", predicate}, {"$T", type}});
  checkKernels(text);
}

TEST(Select, EveryType) {
  checkTypes(R"(
    func.func @$N(%c: tensor<6x1xi1>, %x: tensor<6x9x$T> , %y: tensor<$T>) -> tensor<6x9x$T> {
      %0 = nn.select %c, %x, %y : (tensor<6x1xi1>, tensor<6x9x$T>, tensor<$T>) -> tensor<6x9x$T>
      return %0 : tensor<6x9x$T>
    })",
             {"f64", "f32", "bf16", "i64", "i1"});
}

TEST(Convert, EveryPair) {
  std::string text;
  std::vector<std::string> types = {"f64", "f32", "bf16", "i64", "i32", "i1"};
  for (const std::string &from : types)
    for (const std::string &to : types)
      text += substitute(R"(
    func.func @$F_$G(%x: tensor<33x$F>) -> tensor<33x$G> {
      %0 = nn.convert %x : (tensor<33x$F>) -> tensor<33x$G>
      return %0 : tensor<33x$G>
    })",
                         {{"$F", from}, {"$G", to}});
  checkKernels(text);
}

TEST(Philox, EqualsReference) {
  checkKernels(R"(
    func.func @philox(%i: tensor<100xi64> {test.low = 0, test.high = 100000}, %seed: tensor<i64> {test.low = 0, test.high = 1000000000000}, %step: tensor<i64> {test.low = 0}) -> tensor<100xi64> {
      %0 = nn.philox %i, %seed, %step {ordinal = 3 : i64} : (tensor<100xi64>, tensor<i64>, tensor<i64>) -> tensor<100xi64>
      return %0 : tensor<100xi64>
    })");
}

/// Elements beyond 2^34 reach the upper half of the counter, beyond 2^33 the
/// sign of its lower half. The interpreter is compared with eager there
/// (test/Reference/check_operators.py), and eager with published answers.
TEST(Philox, EqualsReferenceAtHighIndices) {
  checkKernels(R"(
    func.func @high(%i: tensor<100xi64> {test.low = 17179869184, test.high = 4611686018427387904}, %seed: tensor<i64> {test.low = 0, test.high = 1000000000000}, %step: tensor<i64> {test.low = 0}) -> tensor<100xi64> {
      %0 = nn.philox %i, %seed, %step {ordinal = 3 : i64} : (tensor<100xi64>, tensor<i64>, tensor<i64>) -> tensor<100xi64>
      return %0 : tensor<100xi64>
    }
    func.func @across(%seed: tensor<i64> {test.low = 0}, %step: tensor<i64> {test.low = 0}) -> tensor<3x32xi1> {
      %i = nn.iota : tensor<32xi64>
      %start = nn.constant dense<[[8589934576], [17179869168], [1099511627760]]> : tensor<3x1xi64> -> tensor<3x1xi64>
      %at = nn.add %i, %start : (tensor<32xi64>, tensor<3x1xi64>) -> tensor<3x32xi64>
      %0 = nn.philox %at, %seed, %step {ordinal = 1 : i64} : (tensor<3x32xi64>, tensor<i64>, tensor<i64>) -> tensor<3x32xi64>
      %p = nn.constant dense<2147483648> : tensor<i64> -> tensor<i64>
      %1 = nn.compare lt %0, %p : (tensor<3x32xi64>, tensor<i64>) -> tensor<3x32xi1>
      return %1 : tensor<3x32xi1>
    })");
}

/// Two dropouts differ in their ordinals alone: one kernel, of which launches
/// say which ordinals it draws with.
TEST(Philox, OrdinalsAreScalars) {
  std::string text;
  for (auto [name, first, second] :
       {std::tuple("f", 3, 5), std::tuple("g", 7, 2), std::tuple("h", 4, 4)})
    text += substitute(R"(
    func.func @$N(%i: tensor<100xi64>, %seed: tensor<i64>, %step: tensor<i64>) -> (tensor<100xi64>, tensor<100xi64>) {
      %0 = nn.philox %i, %seed, %step {ordinal = $A : i64} : (tensor<100xi64>, tensor<i64>, tensor<i64>) -> tensor<100xi64>
      %1 = nn.philox %i, %seed, %step {ordinal = $B : i64} : (tensor<100xi64>, tensor<i64>, tensor<i64>) -> tensor<100xi64>
      return %0, %1 : tensor<100xi64>, tensor<100xi64>
    })",
                       {{"$N", name},
                        {"$A", std::to_string(first)},
                        {"$B", std::to_string(second)}});
  auto context = makeContext();
  auto module = parse(*context, text);
  ASSERT_TRUE(module);
  tandem::KernelOptions options;
  options.useCache = false;
  LoadedKernels kernels(*module, options);
  ASSERT_EQ(kernels.getError(), "");
  const auto &compiled = kernels.getCompiled().kernels;
  EXPECT_EQ(compiled.lookup("f").symbol, compiled.lookup("g").symbol);
  EXPECT_NE(compiled.lookup("f").symbol, compiled.lookup("h").symbol);
  EXPECT_EQ(compiled.lookup("g").ordinals, (std::vector<int64_t>{7, 2}));
  EXPECT_EQ(compiled.lookup("h").ordinals, (std::vector<int64_t>{4}));
  checkKernels(text);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

TEST(Reductions, EveryDimension) {
  std::vector<std::pair<std::string, std::vector<std::string>>> dims = {
      {"", {"4x1x3x17", "4x1x3x17"}}, {"0", {"1x1x3x17", "1x3x17"}},
      {"2", {"4x1x1x17", "4x1x17"}},  {"3", {"4x1x3x1", "4x1x3"}},
      {"0, 2", {"1x1x1x17", "1x17"}}, {"2, 3", {"4x1x1x1", "4x1"}},
      {"0, 1, 2, 3", {"1x1x1x1", ""}}};
  for (std::string op : {"sum", "max", "min", "prod"})
    for (std::string type : {"f64", "f32", "bf16", "i64"}) {
      std::string text;
      int count = 0;
      for (const auto &[which, shapes] : dims)
        for (int drop : {0, 1}) {
          std::string shape = shapes[drop];
          text += substitute(
              R"(
    func.func @k$I(%x: tensor<4x1x3x17x$T>) -> tensor<$S> {
      %0 = nn.$O %x {dims = array<i64$D>, keepdim = $K} : (tensor<4x1x3x17x$T>) -> tensor<$S>
      return %0 : tensor<$S>
    })",
              {{"$I", std::to_string(count++)},
               {"$S", shape.empty() ? type : shape + "x" + type},
               {"$D", which.empty() ? "" : ": " + which},
               {"$K", drop ? "false" : "true"},
               {"$O", op},
               {"$T", type}});
        }
      checkKernels(text);
    }
}

TEST(Reductions, Booleans) {
  checkKernels(R"(
    func.func @any(%x: tensor<9x5xi1>) -> tensor<9xi1> {
      %0 = nn.max %x {dims = array<i64: 1>} : (tensor<9x5xi1>) -> tensor<9xi1>
      return %0 : tensor<9xi1>
    }
    func.func @all(%x: tensor<9x5xi1>) -> tensor<5xi1> {
      %0 = nn.min %x {dims = array<i64: 0>} : (tensor<9x5xi1>) -> tensor<5xi1>
      return %0 : tensor<5xi1>
    })");
}

TEST(Argmax, LowestIndexWins) {
  for (std::string dim : {"0", "1", "2"}) {
    std::string shape = dim == "0" ? "7x6" : dim == "1" ? "5x6" : "5x7";
    checkTypes(substitute(R"(
    func.func @$N(%x: tensor<5x7x6x$T> {test.low = 0, test.high = 3}) -> tensor<$Sxi64> {
      %i = nn.convert %x : (tensor<5x7x6x$T>) -> tensor<5x7x6xi64>
      %y = nn.convert %i : (tensor<5x7x6xi64>) -> tensor<5x7x6x$T>
      %0 = nn.argmax %y {dim = $D : i64} : (tensor<5x7x6x$T>) -> tensor<$Sxi64>
      return %0 : tensor<$Sxi64>
    })",
                          {{"$S", shape}, {"$D", dim}}),
               {"f64", "f32", "bf16", "i64"});
  }
}

TEST(Topk, StableBothWays) {
  for (std::string largest : {"true", "false"})
    checkTypes(substitute(R"(
    func.func @$N(%x: tensor<4x9x3x$T> {test.low = 0, test.high = 4}) -> (tensor<4x5x3x$T>, tensor<4x5x3xi64>) {
      %i = nn.convert %x : (tensor<4x9x3x$T>) -> tensor<4x9x3xi64>
      %y = nn.convert %i : (tensor<4x9x3xi64>) -> tensor<4x9x3x$T>
      %0, %1 = nn.topk %y {k = 5 : i64, dim = 1 : i64, largest = $L} : (tensor<4x9x3x$T>) -> (tensor<4x5x3x$T>, tensor<4x5x3xi64>)
      return %0, %1 : tensor<4x5x3x$T>, tensor<4x5x3xi64>
    })",
                          {{"$L", largest}}),
               {"f64", "f32", "bf16", "i64"});
}

/// Many of a row are sorted by merging, in a size that is no power of two.
TEST(Topk, SortsRows) {
  for (std::string largest : {"true", "false"})
    checkTypes(substitute(R"(
    func.func @$N(%x: tensor<2x301x3x$T> {test.low = 0, test.high = 40}) -> (tensor<2x200x3x$T>, tensor<2x200x3xi64>, tensor<2x301x3x$T>, tensor<2x301x3xi64>) {
      %i = nn.convert %x : (tensor<2x301x3x$T>) -> tensor<2x301x3xi64>
      %y = nn.convert %i : (tensor<2x301x3xi64>) -> tensor<2x301x3x$T>
      %0, %1 = nn.topk %y {k = 200 : i64, dim = 1 : i64, largest = $L} : (tensor<2x301x3x$T>) -> (tensor<2x200x3x$T>, tensor<2x200x3xi64>)
      %2, %3 = nn.topk %y {k = 301 : i64, dim = 1 : i64, largest = $L} : (tensor<2x301x3x$T>) -> (tensor<2x301x3x$T>, tensor<2x301x3xi64>)
      return %0, %1, %2, %3 : tensor<2x200x3x$T>, tensor<2x200x3xi64>, tensor<2x301x3x$T>, tensor<2x301x3xi64>
    })",
                          {{"$L", largest}}),
               {"f64", "f32", "bf16", "i64"});
}

TEST(Softmax, Backward) {
  for (std::string op : {"softmax_backward", "log_softmax_backward"})
    for (std::string dim : {"0", "2"})
      checkTypes(substitute(R"(
    func.func @$N(%dy: tensor<3x4x21x$T>, %y: tensor<3x4x21x$T>) -> tensor<3x4x21x$T> {
      %0 = nn.$O %dy, %y {dim = $D : i64} : (tensor<3x4x21x$T>, tensor<3x4x21x$T>) -> tensor<3x4x21x$T>
      return %0 : tensor<3x4x21x$T>
    })",
                            {{"$O", op}, {"$D", dim}}),
                 kFloats);
}

TEST(LayerNorm, Forward) {
  checkTypes(R"(
    func.func @$N(%x: tensor<4x5x33x$T>, %w: tensor<33x$T>, %b: tensor<33x$T>) -> (tensor<4x5x33x$T>, tensor<4x5x1x$T>, tensor<4x5x1x$T>) {
      %0:3 = nn.layer_norm %x, %w, %b {normalized_rank = 1 : i64, eps = 1.0e-5 : f64} : (tensor<4x5x33x$T>, tensor<33x$T>, tensor<33x$T>) -> (tensor<4x5x33x$T>, tensor<4x5x1x$T>, tensor<4x5x1x$T>)
      return %0#0, %0#1, %0#2 : tensor<4x5x33x$T>, tensor<4x5x1x$T>, tensor<4x5x1x$T>
    }
    func.func @two_$N(%x: tensor<4x5x33x$T>) -> tensor<4x5x33x$T> {
      %0:3 = nn.layer_norm %x {normalized_rank = 2 : i64, eps = 1.0e-5 : f64} : (tensor<4x5x33x$T>) -> (tensor<4x5x33x$T>, tensor<4x1x1x$T>, tensor<4x1x1x$T>)
      return %0#0 : tensor<4x5x33x$T>
    })",
             kFloats);
}

TEST(LayerNorm, Backward) {
  checkTypes(R"(
    func.func @$N(%dy: tensor<4x5x33x$T>, %x: tensor<4x5x33x$T>, %m: tensor<4x5x1x$T>, %r: tensor<4x5x1x$T>, %w: tensor<33x$T>) -> (tensor<4x5x33x$T>, tensor<33x$T>, tensor<33x$T>) {
      %0:3 = nn.layer_norm_backward %dy, %x, %m, %r, %w {normalized_rank = 1 : i64} : (tensor<4x5x33x$T>, tensor<4x5x33x$T>, tensor<4x5x1x$T>, tensor<4x5x1x$T>, tensor<33x$T>) -> (tensor<4x5x33x$T>, tensor<33x$T>, tensor<33x$T>)
      return %0#0, %0#1, %0#2 : tensor<4x5x33x$T>, tensor<33x$T>, tensor<33x$T>
    })",
             kFloats);
}

//===----------------------------------------------------------------------===//
// Views and pieces
//===----------------------------------------------------------------------===//

TEST(Views, EveryType) {
  checkTypes(R"(
    func.func @$N_permute(%x: tensor<2x3x4x5x$T>) -> tensor<2x4x3x5x$T> {
      %0 = nn.permute %x {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x4x5x$T>) -> tensor<2x4x3x5x$T>
      return %0 : tensor<2x4x3x5x$T>
    }
    func.func @$N_transpose(%x: tensor<17x29x$T>) -> tensor<29x17x$T> {
      %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<17x29x$T>) -> tensor<29x17x$T>
      return %0 : tensor<29x17x$T>
    }
    func.func @$N_merge(%x: tensor<2x3x4x5x$T>) -> tensor<2x4x15x$T> {
      %0 = nn.permute %x {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x4x5x$T>) -> tensor<2x4x3x5x$T>
      %1 = nn.reshape %0 : (tensor<2x4x3x5x$T>) -> tensor<2x4x15x$T>
      return %1 : tensor<2x4x15x$T>
    }
    func.func @$N_reshape(%x: tensor<6x10x$T>) -> tensor<4x15x$T> {
      %0 = nn.reshape %x : (tensor<6x10x$T>) -> tensor<4x15x$T>
      return %0 : tensor<4x15x$T>
    }
    func.func @$N_expand(%x: tensor<3x1x5x$T>) -> tensor<2x3x4x5x$T> {
      %0 = nn.expand %x : (tensor<3x1x5x$T>) -> tensor<2x3x4x5x$T>
      return %0 : tensor<2x3x4x5x$T>
    }
    func.func @$N_slice(%x: tensor<3x20x$T>) -> tensor<3x5x$T> {
      %0 = nn.slice %x {dim = 1 : i64, start = 2 : i64, stop = 15 : i64, step = 3 : i64} : (tensor<3x20x$T>) -> tensor<3x5x$T>
      return %0 : tensor<3x5x$T>
    }
    func.func @$N_first(%x: tensor<3x2x20x$T>) -> tensor<3x2x7x$T> {
      %0 = nn.slice %x {dim = 2 : i64, start = 0 : i64, stop = 7 : i64} : (tensor<3x2x20x$T>) -> tensor<3x2x7x$T>
      return %0 : tensor<3x2x7x$T>
    }
    func.func @$N_last(%x: tensor<9x20x$T>) -> tensor<4x20x$T> {
      %0 = nn.slice %x {dim = 0 : i64, start = 5 : i64, stop = 9 : i64} : (tensor<9x20x$T>) -> tensor<4x20x$T>
      return %0 : tensor<4x20x$T>
    }
    func.func @$N_pad(%x: tensor<3x4x$T>) -> tensor<3x9x$T> {
      %0 = nn.pad %x {dim = 1 : i64, low = 2 : i64, high = 3 : i64} : (tensor<3x4x$T>) -> tensor<3x9x$T>
      return %0 : tensor<3x9x$T>
    }
    func.func @$N_padstep(%x: tensor<3x4x$T>) -> tensor<10x4x$T> {
      %0 = nn.pad %x {dim = 0 : i64, low = 1 : i64, high = 2 : i64, step = 3 : i64} : (tensor<3x4x$T>) -> tensor<10x4x$T>
      return %0 : tensor<10x4x$T>
    }
    func.func @$N_cat(%x: tensor<3x4x$T>, %y: tensor<3x2x$T>, %z: tensor<3x5x$T>) -> tensor<3x11x$T> {
      %0 = nn.cat %x, %y, %z {dim = 1 : i64} : (tensor<3x4x$T>, tensor<3x2x$T>, tensor<3x5x$T>) -> tensor<3x11x$T>
      return %0 : tensor<3x11x$T>
    }
    func.func @$N_cat0(%x: tensor<3x4x$T>, %y: tensor<2x4x$T>) -> tensor<5x4x$T> {
      %0 = nn.cat %x, %y {dim = 0 : i64} : (tensor<3x4x$T>, tensor<2x4x$T>) -> tensor<5x4x$T>
      return %0 : tensor<5x4x$T>
    }
    func.func @$N_same(%x: tensor<3x4x$T>) -> (tensor<12x$T>, tensor<3x4x$T>) {
      %0 = nn.reshape %x : (tensor<3x4x$T>) -> tensor<12x$T>
      return %0, %x : tensor<12x$T>, tensor<3x4x$T>
    })",
             {"f64", "f32", "bf16", "i64", "i1"});
}

TEST(Sources, ConstantsAndIota) {
  checkKernels(R"(
    func.func @splat() -> tensor<3x4xf32> {
      %0 = nn.constant dense<2.5> : tensor<3x4xf32> -> tensor<3x4xf32>
      return %0 : tensor<3x4xf32>
    }
    func.func @dense() -> tensor<3xf32> {
      %0 = nn.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32> -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }
    func.func @booleans(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = nn.constant dense<[true, false, true]> : tensor<3xi1> -> tensor<3xi1>
      %1 = nn.constant dense<0.0> : tensor<f32> -> tensor<f32>
      %2 = nn.select %0, %x, %1 : (tensor<3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
      return %2 : tensor<3xf32>
    }
    func.func @iota() -> (tensor<12xi64>, tensor<3x4xi64>) {
      %0 = nn.iota : tensor<12xi64>
      %1 = nn.reshape %0 : (tensor<12xi64>) -> tensor<3x4xi64>
      return %0, %1 : tensor<12xi64>, tensor<3x4xi64>
    }
    func.func @causal(%x: tensor<2x8x8xf32>) -> tensor<2x8x8xf32> {
      %i = nn.iota : tensor<8xi64>
      %r = nn.reshape %i : (tensor<8xi64>) -> tensor<8x1xi64>
      %m = nn.compare le %i, %r : (tensor<8xi64>, tensor<8x1xi64>) -> tensor<8x8xi1>
      %n = nn.constant dense<0xFF800000> : tensor<f32> -> tensor<f32>
      %0 = nn.select %m, %x, %n : (tensor<8x8xi1>, tensor<2x8x8xf32>, tensor<f32>) -> tensor<2x8x8xf32>
      return %0 : tensor<2x8x8xf32>
    })");
}

//===----------------------------------------------------------------------===//
// Lookups
//===----------------------------------------------------------------------===//

TEST(Lookups, EqualReference) {
  checkTypes(R"(
    func.func @$N_embedding(%w: tensor<11x7x$T>, %i: tensor<3x4xi64> {test.low = 0, test.high = 11}) -> tensor<3x4x7x$T> {
      %0 = nn.embedding %w, %i : (tensor<11x7x$T>, tensor<3x4xi64>) -> tensor<3x4x7x$T>
      return %0 : tensor<3x4x7x$T>
    }
    func.func @$N_embedding_backward(%g: tensor<3x4x7x$T>, %i: tensor<3x4xi64> {test.low = 0, test.high = 11}) -> tensor<11x7x$T> {
      %0 = nn.embedding_backward %g, %i : (tensor<3x4x7x$T>, tensor<3x4xi64>) -> tensor<11x7x$T>
      return %0 : tensor<11x7x$T>
    }
    func.func @$N_gather(%x: tensor<3x8x4x$T>, %i: tensor<3x5x4xi64> {test.low = 0, test.high = 8}) -> tensor<3x5x4x$T> {
      %0 = nn.gather %x, %i {dim = 1 : i64} : (tensor<3x8x4x$T>, tensor<3x5x4xi64>) -> tensor<3x5x4x$T>
      return %0 : tensor<3x5x4x$T>
    }
    func.func @$N_scatter(%x: tensor<3x5x4x$T>, %i: tensor<3x5x4xi64> {test.low = 0, test.high = 8}) -> tensor<3x8x4x$T> {
      %0 = nn.scatter_add %x, %i {dim = 1 : i64} : (tensor<3x5x4x$T>, tensor<3x5x4xi64>) -> tensor<3x8x4x$T>
      return %0 : tensor<3x8x4x$T>
    })",
             {"f64", "f32", "bf16", "i64"});
}

TEST(Lookups, ReportBadIndices) {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  auto module = parse(*context, R"(
    func.func @embedding(%w: tensor<4x8xf32>, %i: tensor<6xi64>) -> tensor<6x8xf32> {
      %0 = nn.embedding %w, %i : (tensor<4x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
      return %0 : tensor<6x8xf32>
    }
    func.func @gradient(%g: tensor<6x8xf32>, %i: tensor<6xi64>) -> tensor<4x8xf32> {
      %0 = nn.embedding_backward %g, %i : (tensor<6x8xf32>, tensor<6xi64>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    func.func @gather(%x: tensor<4xf32>, %i: tensor<6xi64>) -> tensor<6xf32> {
      %0 = nn.gather %x, %i {dim = 0 : i64} : (tensor<4xf32>, tensor<6xi64>) -> tensor<6xf32>
      return %0 : tensor<6xf32>
    }
    func.func @scatter(%x: tensor<6xf32>, %i: tensor<6xi64>) -> tensor<4xf32> {
      %0 = nn.scatter_add %x, %i {dim = 0 : i64} : (tensor<6xf32>, tensor<6xi64>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    })");
  tandem::KernelOptions options;
  options.useCache = false;
  LoadedKernels kernels(*module, options);
  ASSERT_EQ(kernels.getError(), "");
  for (auto function : module->getOps<mlir::func::FuncOp>()) {
    std::vector<Tensor> inputs = makeInputs(function, 1);
    for (int64_t bad : {4, -1}) {
      for (int64_t i = 0; i < 6; ++i)
        inputs[1].setInteger(i, i == 5 ? bad : i % 4);
      kernels.run(function, inputs);
      EXPECT_EQ(LoadedKernels::lastReport,
                "site 0: " + std::to_string(bad) + " of 4")
          << function.getName().str();
    }
    inputs[1].setInteger(5, 0);
    kernels.run(function, inputs);
    EXPECT_EQ(LoadedKernels::lastReport, "");
  }
}
