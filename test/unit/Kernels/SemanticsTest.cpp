//===- SemanticsTest.cpp - special values, meshes, errors, the cache ------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"
#include "KernelRunner.h"
#include "tandem/Conversion/Kernels/Cache.h"
#include "tandem/Reference/Interpreter.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>
#include <sys/stat.h>
#include <thread>

using namespace mlir;
using namespace tandem;
using namespace tandem::test;

static KernelOptions withoutCache() {
  KernelOptions options;
  options.useCache = false;
  return options;
}

//===----------------------------------------------------------------------===//
// Special values
//===----------------------------------------------------------------------===//

/// Runs the function of the text on one row of floats that holds NaN and
/// infinities at some places, and compares with the reference.
static void checkSpecial(StringRef text, ArrayRef<double> specials) {
  auto context = makeContext();
  auto module = parse(*context, text);
  ASSERT_TRUE(module);
  LoadedKernels kernels(*module, withoutCache());
  ASSERT_EQ(kernels.getError(), "");
  for (auto function : module->getOps<func::FuncOp>()) {
    std::vector<Tensor> inputs = makeInputs(function, 11);
    for (auto [index, value] : llvm::enumerate(specials))
      inputs[0].setDouble(index * 7 % inputs[0].getNumElements(), value);
    auto expected = reference::interpret(function, {}, inputs);
    ASSERT_TRUE(succeeded(expected));
    std::vector<Tensor> actual = kernels.run(function, inputs);
    for (auto [mine, theirs] : llvm::zip(actual, *expected))
      EXPECT_LE(test::compare(mine, theirs), 2e-6) << function.getName().str();
  }
}

static const double kNaN = std::numeric_limits<double>::quiet_NaN();
static const double kInfinity = std::numeric_limits<double>::infinity();

TEST(SpecialValues, RowsWithMinusInfinity) {
  // The first row of the last two kernels is all -inf: NaN, and if safe 0.
  checkSpecial(R"(
    func.func @some(%x: tensor<4x33xf32>) -> tensor<4x33xf32> {
      %0 = nn.softmax %x {dim = 1 : i64} : (tensor<4x33xf32>) -> tensor<4x33xf32>
      return %0 : tensor<4x33xf32>
    }
    func.func @all(%x: tensor<3x40xf32>) -> tensor<3x40xf32> {
      %i = nn.iota : tensor<3xi64>
      %z = nn.constant dense<0> : tensor<i64> -> tensor<i64>
      %c = nn.compare eq %i, %z : (tensor<3xi64>, tensor<i64>) -> tensor<3xi1>
      %r = nn.reshape %c : (tensor<3xi1>) -> tensor<3x1xi1>
      %n = nn.constant dense<0xFF800000> : tensor<f32> -> tensor<f32>
      %m = nn.select %r, %n, %x : (tensor<3x1xi1>, tensor<f32>, tensor<3x40xf32>) -> tensor<3x40xf32>
      %0 = nn.softmax %m {dim = 1 : i64} : (tensor<3x40xf32>) -> tensor<3x40xf32>
      return %0 : tensor<3x40xf32>
    }
    func.func @safe(%x: tensor<3x40xf32>) -> tensor<3x40xf32> {
      %i = nn.iota : tensor<3xi64>
      %z = nn.constant dense<0> : tensor<i64> -> tensor<i64>
      %c = nn.compare eq %i, %z : (tensor<3xi64>, tensor<i64>) -> tensor<3xi1>
      %r = nn.reshape %c : (tensor<3xi1>) -> tensor<3x1xi1>
      %n = nn.constant dense<0xFF800000> : tensor<f32> -> tensor<f32>
      %m = nn.select %r, %n, %x : (tensor<3x1xi1>, tensor<f32>, tensor<3x40xf32>) -> tensor<3x40xf32>
      %0 = nn.softmax %m {dim = 1 : i64, safe = true} : (tensor<3x40xf32>) -> tensor<3x40xf32>
      return %0 : tensor<3x40xf32>
    })",
               {-kInfinity, -kInfinity, -kInfinity, -kInfinity});
}

/// Of bf16, whose last place at 1 is 2^-7: halves go to even. The interpreter
/// and the kernels are held to numbers worked out by hand.
TEST(SpecialValues, RoundingToBf16IsToNearestEven) {
  const double unit = 0x1p-7;
  const std::pair<double, double> kRoundings[] = {
      {1, 1},
      {1 + 0.5 * unit, 1},
      {1 + 0.5 * unit + 0x1p-20, 1 + unit},
      {1 + 1.5 * unit, 1 + 2 * unit},
      {1 + 1.5 * unit - 0x1p-20, 1 + unit},
      {1 + 0.75 * unit, 1 + unit},
      {-1 - 0.75 * unit, -1 - unit},
      {-1 - 0.5 * unit, -1},
      {-1 - 1.5 * unit, -1 - 2 * unit},
      {2 - 0.5 * unit, 2},
      {0x1.fffffep127, kInfinity},
      {-0x1.fffffep127, -kInfinity},
      {0x1p-130 + 0x1p-140, 0x1p-130},
      {0x1.8p-133, 0x1p-132},
  };
  const int64_t count = std::size(kRoundings);
  auto context = makeContext();
  auto module = parse(*context, R"(
    func.func @convert(%x: tensor<14xf32>) -> tensor<14xbf16> {
      %0 = nn.convert %x : (tensor<14xf32>) -> tensor<14xbf16>
      return %0 : tensor<14xbf16>
    }
    func.func @copy_of_a_row(%x: tensor<14xf32>) -> tensor<2x14xbf16> {
      %0 = nn.convert %x : (tensor<14xf32>) -> tensor<14xbf16>
      %1 = nn.expand %0 : (tensor<14xbf16>) -> tensor<2x14xbf16>
      return %1 : tensor<2x14xbf16>
    })");
  ASSERT_TRUE(module);
  LoadedKernels kernels(*module, withoutCache());
  ASSERT_EQ(kernels.getError(), "");
  for (auto function : module->getOps<func::FuncOp>()) {
    std::vector<Tensor> inputs = makeInputs(function, 1);
    ASSERT_EQ(inputs[0].getNumElements(), count);
    for (int64_t i = 0; i < count; ++i)
      inputs[0].setDouble(i, kRoundings[i].first);
    auto interpreted = reference::interpret(function, {}, inputs);
    ASSERT_TRUE(succeeded(interpreted));
    std::vector<Tensor> actual = kernels.run(function, inputs);
    for (int64_t i = 0; i < actual[0].getNumElements(); ++i) {
      auto [from, to] = kRoundings[i % count];
      EXPECT_EQ(actual[0].getDouble(i), to)
          << function.getName().str() << " of " << from;
      EXPECT_EQ((*interpreted)[0].getDouble(i), to)
          << function.getName().str() << " of " << from;
    }
  }
}

/// Their polynomials in f32, and the C library in f64: not e^x - 1, ln(1 + x).
TEST(SpecialValues, SmallArguments) {
  const double small[] = {1e-3, -1e-6, 1e-12, 0.25};
  auto context = makeContext();
  std::string text;
  for (std::string op : {"expm1", "log1p"})
    for (std::string type : {"f64", "f32"})
      text += "func.func @" + op + "_" + type + "(%x: tensor<4x" + type +
              ">) -> tensor<4x" + type + "> {\n  %0 = nn." + op +
              " %x : (tensor<4x" + type + ">) -> tensor<4x" + type +
              ">\n  return %0 : tensor<4x" + type + ">\n}\n";
  auto module = parse(*context, text);
  ASSERT_TRUE(module);
  LoadedKernels kernels(*module, withoutCache());
  ASSERT_EQ(kernels.getError(), "");
  for (auto function : module->getOps<func::FuncOp>()) {
    std::vector<Tensor> inputs = makeInputs(function, 3);
    for (auto [i, x] : llvm::enumerate(small))
      inputs[0].setDouble(i, x);
    auto expected = reference::interpret(function, {}, inputs);
    ASSERT_TRUE(succeeded(expected));
    bool isDouble = function.getName().ends_with("f64");
    std::vector<Tensor> actual = kernels.run(function, inputs);
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_NEAR(actual[0].getDouble(i) / (*expected)[0].getDouble(i), 1,
                  isDouble ? 1e-15 : 3e-7)
          << function.getName().str() << " at " << inputs[0].getDouble(i);
  }
}

/// The rounded quotients of the first five are integers, the exact ones not.
TEST(SpecialValues, FloorDivide) {
  const std::pair<double, double> pairs[] = {
      {-1.5, 0.3},     {1.5, -0.3},      {0.6, 0.2},  {-0.9, 0.3},
      {1.0, 0.1},      {kInfinity, 0.3}, {3, 0},      {0, 0},
      {-5, kInfinity}, {5, kInfinity},   {1e17, 0.7}, {-7.5, 2.5}};
  auto context = makeContext();
  auto module = parse(*context, R"(
    func.func @f64(%x: tensor<12xf64>, %y: tensor<12xf64>) -> tensor<12xf64> {
      %0 = nn.floor_divide %x, %y : (tensor<12xf64>, tensor<12xf64>) -> tensor<12xf64>
      return %0 : tensor<12xf64>
    }
    func.func @f32(%x: tensor<12xf32>, %y: tensor<12xf32>) -> tensor<12xf32> {
      %0 = nn.floor_divide %x, %y : (tensor<12xf32>, tensor<12xf32>) -> tensor<12xf32>
      return %0 : tensor<12xf32>
    })");
  ASSERT_TRUE(module);
  LoadedKernels kernels(*module, withoutCache());
  ASSERT_EQ(kernels.getError(), "");
  for (auto function : module->getOps<func::FuncOp>()) {
    std::vector<Tensor> inputs = makeInputs(function, 3);
    for (auto [i, pair] : llvm::enumerate(pairs)) {
      inputs[0].setDouble(i, pair.first);
      inputs[1].setDouble(i, pair.second);
    }
    auto expected = reference::interpret(function, {}, inputs);
    ASSERT_TRUE(succeeded(expected));
    std::vector<Tensor> actual = kernels.run(function, inputs);
    EXPECT_EQ(test::compare(actual[0], (*expected)[0]), 0)
        << function.getName().str();
    if (function.getName() == "f64") {
      EXPECT_EQ(actual[0].getDouble(0), -6);
    }
  }
}

TEST(SpecialValues, NaNPropagates) {
  std::string text;
  for (std::string op : {"exp", "exp2", "log", "log2", "log10", "sign", "tanh",
                         "erf", "erfc", "relu", "sigmoid", "silu", "neg", "abs",
                         "sqrt", "expm1", "log1p", "floor"})
    text += "func.func @" + op +
            "(%x: tensor<64xf32>) -> tensor<64xf32> {\n"
            "  %0 = nn." +
            op +
            " %x : (tensor<64xf32>) -> tensor<64xf32>\n"
            "  return %0 : tensor<64xf32>\n}\n";
  for (std::string op : {"maximum", "minimum", "add", "mul", "div"})
    text += "func.func @" + op +
            "(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {\n"
            "  %0 = nn." +
            op +
            " %x, %y : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>\n"
            "  return %0 : tensor<64xf32>\n}\n";
  for (std::string op : {"sum", "max", "min"})
    text += "func.func @reduce_" + op +
            "(%x: tensor<4x64xf32>) -> tensor<4xf32> {\n"
            "  %0 = nn." +
            op +
            " %x {dims = array<i64: 1>} : (tensor<4x64xf32>) -> tensor<4xf32>\n"
            "  return %0 : tensor<4xf32>\n}\n";
  checkSpecial(text, {kNaN, 1.0, kNaN, 0.5, kNaN});
}

/// A NaN is unequal to everything, itself too, and in no order.
TEST(SpecialValues, ComparisonsWithNaN) {
  for (std::string element : {"f64", "f32"}) {
    std::string type = "tensor<64x" + element + ">", text;
    std::string types = " : (" + type + ", " + type + ") -> tensor<64xi1>\n";
    for (std::string predicate : {"eq", "ne", "lt", "le", "gt", "ge"})
      text += "func.func @" + predicate + "(%x: " + type + ", %y: " + type +
              ") -> (tensor<64xi1>, tensor<64xi1>) {\n  %0 = nn.compare " +
              predicate + " %x, %y" + types + "  %1 = nn.compare " + predicate +
              " %x, %x" + types +
              "  return %0, %1 : tensor<64xi1>, tensor<64xi1>\n}\n";
    checkSpecial(text, {kNaN, kInfinity, kNaN, -kInfinity, kNaN});
  }
}

TEST(SpecialValues, Infinities) {
  std::string text;
  for (std::string op : {"exp", "tanh", "erf", "erfc", "relu", "sigmoid", "neg",
                         "abs", "sqrt", "expm1", "floor", "reciprocal"})
    text += "func.func @" + op +
            "(%x: tensor<64xf32>) -> tensor<64xf32> {\n"
            "  %0 = nn." +
            op +
            " %x : (tensor<64xf32>) -> tensor<64xf32>\n"
            "  return %0 : tensor<64xf32>\n}\n";
  checkSpecial(text, {kInfinity, -kInfinity, 1e30, -1e30, 88.0, -88.0, -103.0});
}

TEST(SpecialValues, IntegersDoNotTrap) {
  auto context = makeContext();
  auto module = parse(*context, R"(
    func.func @div(%x: tensor<4xi64>, %y: tensor<4xi64>) -> tensor<4xi64> {
      %0 = nn.div %x, %y : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
      return %0 : tensor<4xi64>
    }
    func.func @remainder(%x: tensor<4xi64>, %y: tensor<4xi64>) -> tensor<4xi64> {
      %0 = nn.remainder %x, %y : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
      return %0 : tensor<4xi64>
    })");
  LoadedKernels kernels(*module, withoutCache());
  ASSERT_EQ(kernels.getError(), "");
  for (auto function : module->getOps<func::FuncOp>()) {
    std::vector<Tensor> inputs = makeInputs(function, 1);
    inputs[0].setInteger(0, INT64_MIN);
    inputs[1].setInteger(0, -1);
    inputs[1].setInteger(1, 0);
    kernels.run(function, inputs);
  }
}

//===----------------------------------------------------------------------===//
// Meshes
//===----------------------------------------------------------------------===//

/// The slice's map is the identity, but its input is larger than the loops.
TEST(Views, SliceThatBeginsAtZero) {
  checkKernels(R"(
    func.func @k(%x: tensor<16xi64>) -> (tensor<8xi64>, tensor<i64>) {
      %0 = nn.slice %x {dim = 0 : i64, start = 0 : i64, stop = 8 : i64}
        : (tensor<16xi64>) -> tensor<8xi64>
      %1 = nn.sum %0 {dims = array<i64: 0>} : (tensor<8xi64>) -> tensor<i64>
      return %0, %1 : tensor<8xi64>, tensor<i64>
    })");
}

TEST(Mesh, CoordinatesAreScalars) {
  auto context = makeContext();
  auto module = parse(*context, R"(
    module attributes {spmd.mesh = #spmd.mesh<data = 2, model = 3>} {
    func.func @f(%x: tensor<12x4xf32>) -> (tensor<2x4xf32>, tensor<12x4xf32>, tensor<2xi64>, tensor<i64>) {
      %0 = spmd.local_slice %x over ["data", "model"] dim 0 : tensor<12x4xf32> -> tensor<2x4xf32>
      %1 = spmd.keep_first %x over ["model"] : tensor<12x4xf32> -> tensor<12x4xf32>
      %c = spmd.coordinate "data" : tensor<i64>
      %i = nn.iota : tensor<2xi64>
      %2 = nn.add %i, %c : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
      return %0, %1, %2, %c : tensor<2x4xf32>, tensor<12x4xf32>, tensor<2xi64>, tensor<i64>
    }})");
  ASSERT_TRUE(module);
  LoadedKernels kernels(*module, withoutCache());
  ASSERT_EQ(kernels.getError(), "");
  auto function = *module->getOps<func::FuncOp>().begin();
  std::vector<std::string> axes = {"data", "model"};
  EXPECT_EQ(getKernelAxes(function), axes);
  EXPECT_EQ(kernels.getCompiled().kernels.lookup("f").axes, axes);
  std::vector<Tensor> inputs = makeInputs(function, 2);
  for (int64_t data : {0, 1})
    for (int64_t model : {0, 1, 2}) {
      std::vector<Tensor> results =
          kernels.run(function, inputs, {data, model});
      int64_t first = (data * 3 + model) * 8;
      for (int64_t i = 0; i < 8; ++i)
        EXPECT_EQ(results[0].getDouble(i), inputs[0].getDouble(first + i));
      for (int64_t i = 0; i < 48; ++i)
        EXPECT_EQ(results[1].getDouble(i),
                  model == 0 ? inputs[0].getDouble(i) : 0.0);
      EXPECT_EQ(results[2].getInteger(1), data + 1);
      EXPECT_EQ(results[3].getInteger(0), data);
    }
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

static std::string getError(StringRef text) {
  auto context = makeContext();
  auto module = parse(*context, text);
  if (!module)
    return "does not parse";
  return LoadedKernels(*module, withoutCache()).getError();
}

TEST(Errors, NameTheOperator) {
  EXPECT_EQ(getError(R"(
    func.func @f(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
      %0 = nn.matmul %x, %x : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      return %0 : tensor<2x2xf32>
    })"),
            "'nn.matmul' op has no kernel");
}

/// The place is that of the user's operator, not of a printed copy.
TEST(Errors, StandAtTheOperatorsLocation) {
  auto context = makeContext();
  auto module = parse(*context, R"(
    func.func @f(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
      %0 = nn.neg %x : (tensor<2x2xf32>) -> tensor<2x2xf32> loc("model.py":5:1)
      %1 = nn.matmul %0, %0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32> loc("model.py":6:1)
      return %1 : tensor<2x2xf32>
    })");
  unsigned line = 0;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    if (auto place = dyn_cast<FileLineColLoc>(diagnostic.getLocation()))
      line = place.getLine();
    return success();
  });
  EXPECT_TRUE(failed(compileKernels(*module, withoutCache())));
  EXPECT_EQ(line, 6u);
}

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

class CacheTest : public testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> path;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("kernel-cache", path));
    options.cacheDir = std::string(path);
    context = makeContext();
    module = parse(*context, R"(
      func.func @a(%x: tensor<8xf32>) -> tensor<8xf32> {
        %0 = nn.neg %x : (tensor<8xf32>) -> tensor<8xf32>
        return %0 : tensor<8xf32>
      }
      func.func @same(%y: tensor<8xf32>) -> tensor<8xf32> {
        %0 = nn.neg %y {nn.id = 3 : i64} : (tensor<8xf32>) -> tensor<8xf32>
        return %0 : tensor<8xf32>
      }
      func.func @other(%x: tensor<9xf32>) -> tensor<9xf32> {
        %0 = nn.neg %x : (tensor<9xf32>) -> tensor<9xf32>
        return %0 : tensor<9xf32>
      })");
  }
  void TearDown() override {
    llvm::sys::fs::remove_directories(options.cacheDir);
  }

  void expectCounts(unsigned cached, unsigned compiled) {
    LoadedKernels kernels(*module, options);
    ASSERT_EQ(kernels.getError(), "");
    EXPECT_EQ(kernels.getCompiled().numCached, cached);
    EXPECT_EQ(kernels.getCompiled().numCompiled, compiled);
    auto function = *module->getOps<func::FuncOp>().begin();
    std::vector<Tensor> inputs = makeInputs(function, 4);
    EXPECT_EQ(kernels.run(function, inputs)[0].getDouble(3),
              -inputs[0].getDouble(3));
  }

  std::string getFolder() const {
    return options.cacheDir + "/" + kCacheFolder;
  }

  std::vector<std::string> getFiles() {
    std::vector<std::string> files;
    std::error_code code;
    for (llvm::sys::fs::directory_iterator it(getFolder(), code), end;
         it != end && !code; it.increment(code))
      files.push_back(it->path());
    return files;
  }

  /// Of two kernels: the code, and what it has beside (launches, or scratch).
  const size_t numFiles = 4;
  KernelOptions options;
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(CacheTest, EqualKernelsAreCompiledOnce) {
  expectCounts(0, 2);
  expectCounts(2, 0);
  EXPECT_EQ(getFiles().size(), numFiles);
}

TEST_F(CacheTest, DamagedEntriesAreIgnored) {
  expectCounts(0, 2);
  std::vector<std::string> files = getFiles();
  ASSERT_EQ(files.size(), numFiles);
  {
    // One is cut short, in the others a byte differs.
    std::error_code code;
    llvm::raw_fd_ostream(files[0], code) << "not an object";
    for (const std::string &file : llvm::drop_begin(files))
      llvm::raw_fd_ostream(file, code, llvm::sys::fs::OF_Append) << "x";
  }
  expectCounts(0, 2);
  expectCounts(2, 0);
}

/// Stores 1000 bytes, used so many hours ago.
static void storeOld(const FileCache &cache, const std::string &hash,
                     int hours) {
  auto path = cache.store(hash, std::string(968, 'x')); // and a digest
  ASSERT_TRUE(path);
  auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(*path, now - std::chrono::hours(hours));
}

TEST_F(CacheTest, EvictsWhatWasUsedLeast) {
  const std::string oldest(32, '0'), old(32, '1');
  const std::string again = "tandem_" + std::string(32, '2') + "-parts";
  FileCache objects(options.cacheDir, ".o");
  FileCache programs(options.cacheDir, ".program");
  storeOld(objects, oldest, 4);
  storeOld(programs, old, 3);
  storeOld(objects, again, 5);
  EXPECT_TRUE(objects.read(again)); // now it was used last
  objects.evict(3000);
  EXPECT_EQ(getFiles().size(), 3u);
  objects.evict(2999);
  EXPECT_FALSE(objects.lookup(oldest));
  EXPECT_EQ(getFiles().size(), 2u);
  objects.evict(0);
  EXPECT_FALSE(programs.read(old));
  EXPECT_EQ(objects.read(again), std::string(968, 'x'))
      << "somebody may be about to read it";
}

/// Not even where they lie in its folder, and were used before all others.
TEST_F(CacheTest, RemovesNoFilesOfOthers) {
  FileCache objects(options.cacheDir, ".o");
  storeOld(objects, std::string(32, 'a'), 1);
  const std::vector<std::string> names = {"../thesis.tex",
                                          "../" + std::string(32, 'a') + ".o",
                                          "thesis.tex",
                                          std::string(31, 'a') + ".o",
                                          std::string(32, 'a'),
                                          std::string(32, 'a') + ".tex",
                                          std::string(32, 'a') + ".o.tex"};
  for (const std::string &name : names) {
    std::error_code code;
    std::string path = getFolder() + "/" + name;
    llvm::raw_fd_ostream(path, code) << "of somebody";
    auto now = std::filesystem::file_time_type::clock::now();
    std::filesystem::last_write_time(path, now - std::chrono::hours(1000));
  }
  objects.evict(0);
  EXPECT_EQ(getFiles().size(), names.size() - 2);
  for (const std::string &name : names)
    EXPECT_TRUE(std::filesystem::exists(getFolder() + "/" + name)) << name;
}

/// Though each of them is whole.
TEST_F(CacheTest, ReadsNothingThatWasStoredUnderAnotherName) {
  FileCache objects(options.cacheDir, ".o");
  const std::string first(32, '0'), second(32, '1');
  auto path = objects.store(first, "first"), other = objects.store(second, "2");
  ASSERT_TRUE(path && other);
  EXPECT_EQ(objects.read(first), "first");
  std::filesystem::rename(*path, *other);
  EXPECT_FALSE(objects.read(second));
  EXPECT_FALSE(objects.lookup(second));
  ASSERT_TRUE(objects.store(second, "2"));
  std::filesystem::resize_file(*other, uint64_t(1) << 40);
  EXPECT_FALSE(objects.read(second));
}

TEST_F(CacheTest, OnlyAFolderOfThisUserIsUsed) {
  std::string error, hash(32, 'a');
  ASSERT_TRUE(FileCache(options.cacheDir, ".o").store(hash, "code"));
  EXPECT_TRUE(checkCacheDirectory(options.cacheDir, error)) << error;
  for (const std::string &folder : {options.cacheDir, getFolder()}) {
    ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
    EXPECT_FALSE(FileCache(options.cacheDir, ".o").lookup(hash));
    EXPECT_FALSE(FileCache(options.cacheDir, ".o").store(hash, "code"));
    EXPECT_FALSE(checkCacheDirectory(options.cacheDir, error));
    EXPECT_EQ(error, "cache folder '" + folder +
                         "' can be written by other users (mode 0777), "
                         "expected only by its owner: what lies there is run "
                         "as code; name a folder of your own in "
                         "TANDEM_CACHE_DIR");
    ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
  }
  ASSERT_EQ(chmod(options.cacheDir.c_str(), 01777), 0);
  auto path = FileCache(options.cacheDir, ".o").lookup(hash);
  ASSERT_TRUE(path);
  ASSERT_EQ(chmod(path->c_str(), 0666), 0);
  EXPECT_FALSE(FileCache(options.cacheDir, ".o").lookup(hash));
}

TEST_F(CacheTest, FolderThatCannotBeWritten) {
  std::string file = options.cacheDir + "/file";
  std::error_code code;
  llvm::raw_fd_ostream(file, code) << "no folder";
  std::string folder = options.cacheDir;
  options.cacheDir = file;
  expectCounts(0, 2);
  options.cacheDir = folder;
}

TEST_F(CacheTest, SeveralWritersAtOnce) {
  if (EmulatedKernels::areWanted())
    EmulatedKernels::prepare(*module);
  std::vector<std::thread> threads;
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      auto own = makeContext();
      auto copy = parse(*own, text);
      EXPECT_TRUE(succeeded(compileKernels(*copy, options)));
    });
  for (std::thread &thread : threads)
    thread.join();
  expectCounts(2, 0);
  EXPECT_EQ(getFiles().size(), numFiles);
}

TEST_F(CacheTest, CompilesOnSeveralThreads) {
  options.useCache = false;
  options.threads = 3;
  expectCounts(0, 2);
}
