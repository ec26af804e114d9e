//===- KernelRunner.cpp - runs a kernel and the reference -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"
#include "EmulatedKernels.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Reference/Interpreter.h"
#include "tandem_rt/kernel.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace tandem;
using namespace tandem::test;

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

std::string LoadedKernels::lastReport, LoadedKernels::lastRefusal;

static void recordReport(int64_t site, int64_t index, int64_t bound) {
  LoadedKernels::lastReport = "site " + std::to_string(site) + ": " +
                              std::to_string(index) + " of " +
                              std::to_string(bound);
}

LoadedKernels::LoadedKernels(ModuleOp module, KernelOptions options) {
  if (EmulatedKernels::areWanted())
    EmulatedKernels::prepare(module);
  ScopedDiagnosticHandler handler(module.getContext(),
                                  [&](Diagnostic &diagnostic) {
                                    error += diagnostic.str();
                                    return success();
                                  });
  FailureOr<CompiledKernels> result = compileKernels(module, options);
  if (failed(result)) {
    if (error.empty())
      error = "failed without an error";
    return;
  }
  compiled = std::move(*result);
  if (EmulatedKernels::areWanted())
    emulated = std::make_unique<EmulatedKernels>(compiled, error);
  else
    loadObject();
}

void LoadedKernels::loadObject() {
  llvm::SmallString<128> path;
  int descriptor;
  llvm::sys::fs::createTemporaryFile("kernels-test", "so", descriptor, path);
  llvm::raw_fd_ostream(descriptor, true) << compiled.object;
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    error = dlerror();
    return;
  }
  llvm::sys::fs::remove(path);
  auto hook = static_cast<void (**)(int64_t, int64_t, int64_t)>(
      dlsym(handle, "tandem_rt_report_index_hook"));
  if (hook)
    *hook = recordReport;
  else
    error = "no hook for errors";
}

LoadedKernels::~LoadedKernels() {
  if (handle)
    dlclose(handle);
}

LoadedKernels::Entry LoadedKernels::lookup(StringRef function) const {
  auto it = compiled.kernels.find(function);
  if (it == compiled.kernels.end())
    return nullptr;
  return reinterpret_cast<Entry>(dlsym(handle, it->second.symbol.c_str()));
}

void *LoadedKernels::lookup(StringRef function, StringRef suffix) const {
  const CompiledKernel &kernel = compiled.kernels.find(function)->second;
  return dlsym(handle, (kernel.symbol + suffix).str().c_str());
}

bool LoadedKernels::isShared(StringRef function) const {
  return lookup(function, TANDEM_RT_PART_SUFFIX) ||
         lookup(function, TANDEM_RT_PHASE_SUFFIX);
}

/// The last part first; what is no part is done once.
bool LoadedKernels::runInParts(StringRef function, ArrayRef<void *> buffers,
                               ArrayRef<int64_t> scalars) const {
  constexpr int64_t kParts = 3;
  auto part = reinterpret_cast<tandem_rt_kernel_part>(
      lookup(function, TANDEM_RT_PART_SUFFIX));
  auto phase = reinterpret_cast<tandem_rt_kernel_phase>(
      lookup(function, TANDEM_RT_PHASE_SUFFIX));
  const auto *phases = static_cast<const tandem_rt_kernel_phases *>(
      lookup(function, TANDEM_RT_PHASES_SUFFIX));
  EXPECT_EQ(!phase, !phases) << function.str();
  EXPECT_TRUE(!part || !phase) << function.str();
  for (int64_t index : llvm::reverse(llvm::seq(part ? kParts : 0)))
    part(buffers.data(), scalars.data(), index, kParts);
  for (int64_t number : llvm::seq(phase ? phases->count : 0)) {
    int64_t parts = (phases->shared >> number) & 1 ? kParts : 1;
    for (int64_t index : llvm::reverse(llvm::seq(parts)))
      phase(buffers.data(), scalars.data(), number, index, parts);
  }
  return part || phase;
}

/// Bytes around every buffer that a kernel must not write.
constexpr size_t kGuardBytes = 256;
constexpr char kGuard = 0x7b;
/// What a kernel does not write must be seen.
constexpr char kUnwritten = 0x5a;

static std::vector<char> addGuards(const std::vector<char> &bytes) {
  std::vector<char> guarded(bytes.size() + 2 * kGuardBytes, kGuard);
  llvm::copy(bytes, guarded.begin() + kGuardBytes);
  return guarded;
}

static bool areGuardsWhole(ArrayRef<char> guarded) {
  auto isGuard = [](char byte) { return byte == kGuard; };
  return llvm::all_of(guarded.take_front(kGuardBytes), isGuard) &&
         llvm::all_of(guarded.take_back(kGuardBytes), isGuard);
}

/// With a scratch that holds anything, if the kernel has one.
std::vector<void *>
LoadedKernels::beginsOf(StringRef function,
                        ArrayRef<llvm::MutableArrayRef<char>> buffers) {
  std::vector<void *> pointers;
  for (llvm::MutableArrayRef<char> buffer : buffers)
    pointers.push_back(buffer.data());
  int64_t bytes = compiled.kernels[function].scratchBytes;
  scratch = addGuards(std::vector<char>(bytes, kUnwritten));
  if (bytes > 0)
    pointers.push_back(scratch.data() + kGuardBytes);
  return pointers;
}

void LoadedKernels::runOn(StringRef function,
                          ArrayRef<llvm::MutableArrayRef<char>> buffers,
                          ArrayRef<int64_t> scalars) {
  if (emulated) {
    lastRefusal =
        emulated->run(compiled.kernels[function], buffers, scalars, lastReport);
    return;
  }
  lookup(function)(beginsOf(function, buffers).data(), scalars.data());
  EXPECT_TRUE(areGuardsWhole(scratch)) << function.str();
}

void LoadedKernels::runBothWays(StringRef function,
                                ArrayRef<llvm::MutableArrayRef<char>> buffers,
                                size_t numInputs, ArrayRef<int64_t> scalars) {
  if (emulated || !runInParts(function, beginsOf(function, buffers), scalars))
    return runOn(function, buffers, scalars);
  EXPECT_TRUE(areGuardsWhole(scratch)) << function.str();
  // Whole, which writes the same.
  std::vector<std::vector<char>> inParts;
  for (llvm::MutableArrayRef<char> buffer : buffers) {
    inParts.emplace_back(buffer.begin(), buffer.end());
    if (inParts.size() > numInputs)
      std::fill(buffer.begin(), buffer.end(), kUnwritten);
  }
  std::string report = std::exchange(lastReport, "");
  runOn(function, buffers, scalars);
  EXPECT_EQ(report.empty(), lastReport.empty()) << function.str();
  for (auto [index, bytes] : llvm::enumerate(inParts))
    EXPECT_TRUE(!report.empty() || ArrayRef<char>(bytes) == buffers[index])
        << function.str() << " in parts: buffer " << index << " differs";
}

std::vector<Tensor> LoadedKernels::run(func::FuncOp function,
                                       ArrayRef<Tensor> inputs,
                                       ArrayRef<int64_t> scalars) {
  lastReport.clear();
  std::vector<std::vector<char>> buffers;
  for (const Tensor &input : inputs)
    buffers.push_back(addGuards(toBytes(input)));
  std::vector<std::vector<char>> before = buffers;
  for (Type type : function.getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    std::vector<char> bytes =
        toBytes(Tensor(tensor.getShape(), tensor.getElementType()));
    std::fill(bytes.begin(), bytes.end(), kUnwritten);
    buffers.push_back(addGuards(bytes));
  }
  std::vector<int64_t> all = scalars.vec();
  llvm::append_range(all, compiled.kernels[function.getName()].ordinals);
  std::vector<llvm::MutableArrayRef<char>> ranges;
  for (auto &buffer : buffers)
    ranges.push_back(llvm::MutableArrayRef(buffer)
                         .drop_front(kGuardBytes)
                         .drop_back(kGuardBytes));
  runBothWays(function.getName(), ranges, inputs.size(), all);
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool isWritten = buffers[i] != before[i];
    EXPECT_TRUE(!isWritten || hasMistakes) << "input " << i << " was written";
    if (isWritten)
      lastRefusal = "input " + std::to_string(i) + " was written";
  }
  std::vector<Tensor> results;
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    ArrayRef<char> guarded = buffers[inputs.size() + index];
    EXPECT_TRUE(areGuardsWhole(guarded))
        << function.getName().str() << " writes beside result " << index;
    results.push_back(
        fromBytes(guarded.drop_front(kGuardBytes).drop_back(kGuardBytes),
                  cast<RankedTensorType>(type)));
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

std::unique_ptr<MLIRContext> tandem::test::makeContext() {
  DialectRegistry registry;
  registry.insert<func::FuncDialect, nn::NNDialect, spmd::SPMDDialect,
                  sched::SchedDialect>();
  auto context = std::make_unique<MLIRContext>(registry);
  context->allowUnregisteredDialects();
  context->loadAllAvailableDialects();
  return context;
}

OwningOpRef<ModuleOp> tandem::test::parse(MLIRContext &context,
                                          StringRef text) {
  return parseSourceString<ModuleOp>(text, &context);
}

KernelsOfText::KernelsOfText(StringRef text) : module(parse(*context, text)) {
  if (!module) {
    error = "the text is no module";
    return;
  }
  KernelOptions options;
  options.useCache = false;
  loaded = std::make_unique<LoadedKernels>(*module, options);
  error = loaded->getError();
}

std::vector<Tensor> tandem::test::makeInputs(func::FuncOp function,
                                             unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    Tensor input(tensor.getShape(), tensor.getElementType());
    bool isFloat = input.isFloat();
    double low = isFloat ? -2 : -4, high = isFloat ? 2 : 5;
    if (tensor.getElementType().isInteger(1))
      low = 0, high = 2;
    if (auto attr = function.getArgAttrOfType<IntegerAttr>(index, "test.low"))
      low = attr.getInt();
    if (auto attr = function.getArgAttrOfType<IntegerAttr>(index, "test.high"))
      high = attr.getInt();
    std::uniform_real_distribution<double> values(low, high);
    for (int64_t i = 0; i < input.getNumElements(); ++i) {
      if (isFloat)
        input.setDouble(i, values(random));
      else
        input.setInteger(i, std::floor(values(random)));
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

template <typename T> static void append(std::vector<char> &bytes, T value) {
  const char *data = reinterpret_cast<const char *>(&value);
  bytes.insert(bytes.end(), data, data + sizeof(T));
}

static uint16_t toHalf(double value, const llvm::fltSemantics &semantics) {
  llvm::APFloat number(value);
  bool lost;
  number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &lost);
  return number.bitcastToAPInt().getZExtValue();
}

static double fromHalf(uint16_t bits, const llvm::fltSemantics &semantics) {
  llvm::APFloat number(semantics, llvm::APInt(16, bits));
  bool lost;
  number.convert(llvm::APFloat::IEEEdouble(),
                 llvm::APFloat::rmNearestTiesToEven, &lost);
  return number.convertToDouble();
}

std::vector<char> tandem::test::toBytes(const Tensor &tensor) {
  std::vector<char> bytes;
  Type type = tensor.getElementType();
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    if (type.isF64())
      append(bytes, tensor.getDouble(i));
    else if (type.isF32())
      append(bytes, static_cast<float>(tensor.getDouble(i)));
    else if (auto narrow = dyn_cast<FloatType>(type))
      append(bytes, toHalf(tensor.getDouble(i), narrow.getFloatSemantics()));
    else if (type.isInteger(64))
      append(bytes, tensor.getInteger(i));
    else if (type.isInteger(32))
      append(bytes, static_cast<int32_t>(tensor.getInteger(i)));
    else
      append(bytes, static_cast<int8_t>(tensor.getInteger(i)));
  }
  return bytes;
}

template <typename T> static T readAt(ArrayRef<char> bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

Tensor tandem::test::fromBytes(ArrayRef<char> bytes, RankedTensorType type) {
  Tensor tensor(type.getShape(), type.getElementType());
  Type element = type.getElementType();
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    if (element.isF64())
      tensor.setDouble(i, readAt<double>(bytes, i));
    else if (element.isF32())
      tensor.setDouble(i, readAt<float>(bytes, i));
    else if (auto narrow = dyn_cast<FloatType>(element))
      tensor.setDouble(
          i, fromHalf(readAt<uint16_t>(bytes, i), narrow.getFloatSemantics()));
    else if (element.isInteger(64))
      tensor.setInteger(i, readAt<int64_t>(bytes, i));
    else if (element.isInteger(32))
      tensor.setInteger(i, readAt<int32_t>(bytes, i));
    else
      tensor.setInteger(i, readAt<int8_t>(bytes, i));
  }
  return tensor;
}

double tandem::test::compare(const Tensor &actual, const Tensor &expected) {
  double largest = 1, difference = 0;
  for (int64_t i = 0; i < expected.getNumElements(); ++i) {
    double x = actual.getDouble(i), y = expected.getDouble(i);
    if (!actual.isFloat()) {
      if (actual.getInteger(i) != expected.getInteger(i))
        return std::numeric_limits<double>::infinity();
      continue;
    }
    if (!std::isfinite(x) || !std::isfinite(y)) {
      bool same = x == y || (std::isnan(x) && std::isnan(y));
      if (!same)
        return std::numeric_limits<double>::infinity();
      continue;
    }
    largest = std::max(largest, std::abs(y));
    difference = std::max(difference, std::abs(x - y));
  }
  return difference / largest;
}

//===----------------------------------------------------------------------===//
// Checking
//===----------------------------------------------------------------------===//

double tandem::test::getTolerance(const Tensor &value) {
  Type type = value.getElementType();
  if (type.isF64())
    return 1e-12;
  if (type.isF32())
    return 2e-6;
  return isa<FloatType>(type) ? 1.5e-2 : 0;
}

void tandem::test::checkKernels(StringRef text, double tolerance) {
  std::unique_ptr<MLIRContext> context = makeContext();
  OwningOpRef<ModuleOp> module = parse(*context, text);
  ASSERT_TRUE(module) << text.str();
  checkKernels(
      *module, [](func::FuncOp function) { return makeInputs(function, 7); },
      tolerance);
}

void tandem::test::checkKernels(ModuleOp module, InputMaker makeInputs,
                                double tolerance) {
  KernelOptions options;
  options.useCache = false;
  LoadedKernels kernels(module, options);
  ASSERT_EQ(kernels.getError(), "");
  for (auto function : module.getOps<func::FuncOp>()) {
    std::vector<Tensor> inputs = makeInputs(function);
    auto expected = reference::interpret(function, {}, inputs);
    ASSERT_TRUE(succeeded(expected)) << function.getName().str();
    std::vector<Tensor> actual = kernels.run(function, inputs);
    EXPECT_EQ(LoadedKernels::lastReport, "");
    EXPECT_EQ(LoadedKernels::lastRefusal, "") << function.getName().str();
    for (auto [index, value] : llvm::enumerate(*expected))
      EXPECT_LE(compare(actual[index], value),
                tolerance > 0 ? tolerance : getTolerance(value))
          << function.getName().str() << ", result " << index;
  }
}
