//===- kernel-benchmark.cpp - speed of fused kernels ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kernel-benchmark                measures typical kernels in f32, GB/s read
//                                 and written, one thread
// kernel-benchmark step.mlir      forms the fusion groups of the function
//                                 `step`, and compiles them: numbers and times
// kernel-benchmark --print FILE   prints the kernels as well
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Analysis/Fusion.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <dlfcn.h>

using namespace mlir;
using namespace tandem;

static const char *kKernels = R"(
func.func @bias_gelu(%x: tensor<4096x1024xf32>, %b: tensor<1024xf32>) -> tensor<4096x1024xf32> {
  %0 = nn.add %x, %b : (tensor<4096x1024xf32>, tensor<1024xf32>) -> tensor<4096x1024xf32>
  %1 = nn.gelu none %0 : (tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  return %1 : tensor<4096x1024xf32>
}
func.func @bias_gelu_tanh(%x: tensor<4096x1024xf32>, %b: tensor<1024xf32>) -> tensor<4096x1024xf32> {
  %0 = nn.add %x, %b : (tensor<4096x1024xf32>, tensor<1024xf32>) -> tensor<4096x1024xf32>
  %1 = nn.gelu tanh %0 : (tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  return %1 : tensor<4096x1024xf32>
}
func.func @gelu_backward_bias(%g: tensor<4096x1024xf32>, %x: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>, tensor<1024xf32>) {
  %0 = nn.gelu_backward none %g, %x : (tensor<4096x1024xf32>, tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  %1 = nn.sum %0 {dims = array<i64: 0>} : (tensor<4096x1024xf32>) -> tensor<1024xf32>
  return %0, %1 : tensor<4096x1024xf32>, tensor<1024xf32>
}
func.func @softmax(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
  %0 = nn.softmax %x {dim = 1 : i64} : (tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  return %0 : tensor<4096x1024xf32>
}
func.func @softmax_backward(%g: tensor<4096x1024xf32>, %y: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
  %0 = nn.softmax_backward %g, %y {dim = 1 : i64} : (tensor<4096x1024xf32>, tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  return %0 : tensor<4096x1024xf32>
}
func.func @layer_norm(%x: tensor<4096x1024xf32>, %w: tensor<1024xf32>, %b: tensor<1024xf32>) -> (tensor<4096x1024xf32>, tensor<4096x1xf32>, tensor<4096x1xf32>) {
  %0:3 = nn.layer_norm %x, %w, %b {normalized_rank = 1 : i64, eps = 1.0e-5 : f64} : (tensor<4096x1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> (tensor<4096x1024xf32>, tensor<4096x1xf32>, tensor<4096x1xf32>)
  return %0#0, %0#1, %0#2 : tensor<4096x1024xf32>, tensor<4096x1xf32>, tensor<4096x1xf32>
}
func.func @layer_norm_backward(%g: tensor<4096x1024xf32>, %x: tensor<4096x1024xf32>, %m: tensor<4096x1xf32>, %r: tensor<4096x1xf32>, %w: tensor<1024xf32>) -> (tensor<4096x1024xf32>, tensor<1024xf32>, tensor<1024xf32>) {
  %0:3 = nn.layer_norm_backward %g, %x, %m, %r, %w {normalized_rank = 1 : i64} : (tensor<4096x1024xf32>, tensor<4096x1024xf32>, tensor<4096x1xf32>, tensor<4096x1xf32>, tensor<1024xf32>) -> (tensor<4096x1024xf32>, tensor<1024xf32>, tensor<1024xf32>)
  return %0#0, %0#1, %0#2 : tensor<4096x1024xf32>, tensor<1024xf32>, tensor<1024xf32>
}
func.func @adamw(%p: tensor<4096x1024xf32>, %g: tensor<4096x1024xf32>, %m: tensor<4096x1024xf32>, %v: tensor<4096x1024xf32>, %lr: tensor<f32>, %c1: tensor<f32>, %c2: tensor<f32>) -> (tensor<4096x1024xf32>, tensor<4096x1024xf32>, tensor<4096x1024xf32>) {
  %b1 = nn.constant dense<0.9> : tensor<f32> -> tensor<f32>
  %a1 = nn.constant dense<0.1> : tensor<f32> -> tensor<f32>
  %b2 = nn.constant dense<0.999> : tensor<f32> -> tensor<f32>
  %a2 = nn.constant dense<0.001> : tensor<f32> -> tensor<f32>
  %eps = nn.constant dense<1.0e-8> : tensor<f32> -> tensor<f32>
  %0 = nn.mul %m, %b1 : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096x1024xf32>
  %1 = nn.mul %g, %a1 : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096x1024xf32>
  %m2 = nn.add %0, %1 : (tensor<4096x1024xf32>, tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  %2 = nn.mul %v, %b2 : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096x1024xf32>
  %3 = nn.mul %g, %g : (tensor<4096x1024xf32>, tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  %4 = nn.mul %3, %a2 : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096x1024xf32>
  %v2 = nn.add %2, %4 : (tensor<4096x1024xf32>, tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  %5 = nn.div %v2, %c2 : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096x1024xf32>
  %6 = nn.sqrt %5 : (tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  %7 = nn.add %6, %eps : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096x1024xf32>
  %8 = nn.div %m2, %c1 : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096x1024xf32>
  %9 = nn.div %8, %7 : (tensor<4096x1024xf32>, tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  %10 = nn.mul %9, %lr : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096x1024xf32>
  %p2 = nn.sub %p, %10 : (tensor<4096x1024xf32>, tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  return %p2, %m2, %v2 : tensor<4096x1024xf32>, tensor<4096x1024xf32>, tensor<4096x1024xf32>
}
func.func @heads(%x: tensor<8x512x16x64xf32>) -> tensor<8x16x512x64xf32> {
  %0 = nn.permute %x {permutation = array<i64: 0, 2, 1, 3>} : (tensor<8x512x16x64xf32>) -> tensor<8x16x512x64xf32>
  return %0 : tensor<8x16x512x64xf32>
}
func.func @transpose(%x: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %0 : tensor<2048x2048xf32>
}
func.func @dropout(%x: tensor<4096x1024xf32>, %seed: tensor<i64>, %step: tensor<i64>) -> (tensor<4096x1024xf32>, tensor<4096x1024xi1>) {
  %j = nn.iota : tensor<4194304xi64>
  %k = nn.reshape %j : (tensor<4194304xi64>) -> tensor<4096x1024xi64>
  %p = nn.philox %k, %seed, %step {ordinal = 1 : i64} : (tensor<4096x1024xi64>, tensor<i64>, tensor<i64>) -> tensor<4096x1024xi64>
  %t = nn.constant dense<3865470566> : tensor<i64> -> tensor<i64>
  %keep = nn.compare lt %p, %t : (tensor<4096x1024xi64>, tensor<i64>) -> tensor<4096x1024xi1>
  %z = nn.constant dense<0.0> : tensor<f32> -> tensor<f32>
  %s = nn.constant dense<1.25> : tensor<f32> -> tensor<f32>
  %y = nn.mul %x, %s : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096x1024xf32>
  %2 = nn.select %keep, %y, %z : (tensor<4096x1024xi1>, tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096x1024xf32>
  return %2, %keep : tensor<4096x1024xf32>, tensor<4096x1024xi1>
}
)";

using Clock = std::chrono::steady_clock;

static double getSeconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

/// Processor time of this thread, so that other work on the machine counts
/// less.
static double getThreadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static int64_t getBytes(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * ((tensor.getElementTypeBitWidth() + 7) / 8);
}

static void *loadObject(const std::string &object) {
  llvm::SmallString<128> path;
  int descriptor;
  llvm::sys::fs::createTemporaryFile("kernels", "so", descriptor, path);
  llvm::raw_fd_ostream(descriptor, true) << object;
  void *handle = dlopen(path.c_str(), RTLD_NOW);
  llvm::sys::fs::remove(path);
  return handle;
}

/// Best of several runs after one to warm up.
static void measure(func::FuncOp function, void *entry,
                    ArrayRef<int64_t> scalars) {
  std::vector<std::vector<float>> buffers;
  std::vector<void *> pointers;
  int64_t bytes = 0;
  auto add = [&](Type type) {
    bytes += getBytes(type);
    buffers.emplace_back(getBytes(type) / 4 + 16);
    for (size_t i = 0; i < buffers.back().size(); ++i)
      buffers.back()[i] = 1.0f + 0.001f * (i % 1000);
  };
  for (Type type : function.getArgumentTypes())
    add(type);
  for (Type type : function.getResultTypes())
    add(type);
  for (auto &buffer : buffers)
    pointers.push_back(buffer.data());
  auto run = reinterpret_cast<void (*)(void *const *, const int64_t *)>(entry);
  run(pointers.data(), scalars.data());
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    double start = getThreadSeconds();
    run(pointers.data(), scalars.data());
    best = std::min(best, getThreadSeconds() - start);
  }
  llvm::outs() << llvm::format("%-22s %8.2f ms %7.1f GB/s\n",
                               function.getName().str().c_str(), best * 1e3,
                               bytes / best * 1e-9);
}

static int measureKernels(MLIRContext &context) {
  auto module = parseSourceString<ModuleOp>(kKernels, &context);
  KernelOptions options;
  options.useCache = false;
  auto start = Clock::now();
  auto compiled = compileKernels(*module, options);
  if (failed(compiled))
    return 1;
  llvm::outs() << llvm::format("%u kernels compiled in %.0f ms on %s\n",
                               compiled->numCompiled, getSeconds(start) * 1e3,
                               compiled->cpu.c_str());
  void *handle = loadObject(compiled->object);
  for (auto function : module->getOps<func::FuncOp>()) {
    const CompiledKernel &kernel = compiled->kernels[function.getName()];
    measure(function, dlsym(handle, kernel.symbol.c_str()), kernel.ordinals);
  }
  return 0;
}

static int compileStep(MLIRContext &context, StringRef path, bool print) {
  auto module = parseSourceFile<ModuleOp>(path, &context);
  if (!module)
    return 1;
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module->getLoc());
  if (Attribute mesh = module.get()->getAttr(spmd::kMeshAttrName))
    kernels.get()->setAttr(spmd::kMeshAttrName, mesh);
  auto function = *module->getOps<func::FuncOp>().begin();
  auto start = Clock::now();
  SmallVector<FusionGroup> groups =
      formFusionGroups(function.front(), findDevice(kDefaultDevice)->fusion);
  double forming = getSeconds(start);
  unsigned count[3] = {0, 0, 0}, ops = 0;
  for (auto [index, group] : llvm::enumerate(groups)) {
    ++count[static_cast<int>(group.kind)];
    if (group.kind != FusionGroup::Kind::Kernel)
      continue;
    ops += group.ops.size();
    outlineGroup(group, getGroupInputs(group), getGroupOutputs(group, groups),
                 *kernels, ("kernel" + Twine(index)).str());
  }
  llvm::outs() << llvm::format("%u kernels of %u operators, %u products, %u "
                               "views, formed in %.0f ms\n",
                               count[0], ops, count[1], count[2],
                               forming * 1e3);
  if (print)
    kernels->print(llvm::outs());
  KernelOptions options;
  options.useCache = false;
  start = Clock::now();
  auto compiled = compileKernels(*kernels, options);
  if (failed(compiled))
    return 1;
  double seconds = getSeconds(start);
  llvm::outs() << llvm::format("%u different ones compiled in %.0f ms, %.1f ms "
                               "each, %zu bytes\n",
                               compiled->numCompiled, seconds * 1e3,
                               seconds * 1e3 / compiled->numCompiled,
                               compiled->object.size());
  return loadObject(compiled->object) ? 0 : 1;
}

int main(int argc, char **argv) {
  DialectRegistry registry;
  registry.insert<func::FuncDialect, nn::NNDialect, spmd::SPMDDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  bool print = argc > 2 && StringRef(argv[1]) == "--print";
  if (argc > 1)
    return compileStep(context, argv[argc - 1], print);
  return measureKernels(context);
}
