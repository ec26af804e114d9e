//===- KernelRunner.h - runs a kernel and the reference ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_KERNELS_KERNELRUNNER_H
#define TANDEM_TEST_UNIT_KERNELS_KERNELRUNNER_H

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Reference/Tensor.h"

namespace tandem::test {

class EmulatedKernels;

using reference::Tensor;

/// A compiled module of kernels, loaded into this process. Where
/// TANDEM_TEST_DEVICE is `cuda`, onto the emulated GPU.
class LoadedKernels {
public:
  /// Compiles without a cache. Check `getError()` first.
  LoadedKernels(mlir::ModuleOp module, KernelOptions options);
  ~LoadedKernels();
  LoadedKernels(const LoadedKernels &) = delete;

  /// Whether several threads can share the kernel.
  bool isShared(llvm::StringRef function) const;
  const std::string &getError() const { return error; }
  const CompiledKernels &getCompiled() const { return compiled; }

  /// Runs `function`; the inputs are not changed. What can be done in parts is
  /// done so as well, and must give the same bits.
  std::vector<Tensor> run(mlir::func::FuncOp function,
                          llvm::ArrayRef<Tensor> inputs,
                          llvm::ArrayRef<int64_t> scalars = {});
  /// The same on the bytes of inputs and results, which may be in place: of
  /// equal begin.
  void runOn(llvm::StringRef function,
             llvm::ArrayRef<llvm::MutableArrayRef<char>> buffers,
             llvm::ArrayRef<int64_t> scalars);
  /// Message that the last run reported; empty if none.
  static std::string lastReport;
  /// What the emulated GPU refused of the last run; empty if nothing.
  static std::string lastRefusal;
  /// Whether kernels have mistakes: what writes an input is refused, not
  /// failed.
  bool hasMistakes = false;
  /// Null on the host.
  EmulatedKernels *getEmulated() const { return emulated.get(); }

private:
  using Entry = void (*)(void *const *, const int64_t *);
  Entry lookup(llvm::StringRef function) const;
  void *lookup(llvm::StringRef function, llvm::StringRef suffix) const;
  bool runInParts(llvm::StringRef function, llvm::ArrayRef<void *> buffers,
                  llvm::ArrayRef<int64_t> scalars) const;
  std::vector<void *>
  beginsOf(llvm::StringRef function,
           llvm::ArrayRef<llvm::MutableArrayRef<char>> buffers);
  void loadObject();
  /// In parts, too, where the kernel has some.
  void runBothWays(llvm::StringRef function,
                   llvm::ArrayRef<llvm::MutableArrayRef<char>> buffers,
                   size_t numInputs, llvm::ArrayRef<int64_t> scalars);

  CompiledKernels compiled;
  void *handle = nullptr;
  std::vector<char> scratch;
  std::unique_ptr<EmulatedKernels> emulated;
  std::string error;
};

/// A context with all dialects that tests parse.
std::unique_ptr<mlir::MLIRContext> makeContext();
mlir::OwningOpRef<mlir::ModuleOp> parse(mlir::MLIRContext &context,
                                        llvm::StringRef text);

/// The kernels of a text, loaded. Check `getError()` first.
class KernelsOfText {
public:
  explicit KernelsOfText(llvm::StringRef text);
  const std::string &getError() const { return error; }
  auto getFunctions() { return module->getOps<mlir::func::FuncOp>(); }
  LoadedKernels *operator->() { return loaded.get(); }

private:
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<LoadedKernels> loaded;
  std::string error;
};

/// Seeded values: floats in [-2, 2), integers in [-4, 5), i1; or in the
/// argument's attributes `test.low` and `test.high` (integers).
std::vector<Tensor> makeInputs(mlir::func::FuncOp function, unsigned seed);

/// Bytes as a kernel sees them, and back.
std::vector<char> toBytes(const Tensor &tensor);
Tensor fromBytes(llvm::ArrayRef<char> bytes, mlir::RankedTensorType type);

/// The largest difference, relative to the largest absolute value (at least
/// 1); infinity where NaN or infinities are at different places.
double compare(const Tensor &actual, const Tensor &expected);

/// How far a kernel may be from the reference.
double getTolerance(const Tensor &value);

/// Compiles and runs every function of the text, and compares with the
/// reference interpreter; `tolerance` of 0 is by element type. Uses gtest's
/// expectations.
void checkKernels(llvm::StringRef text, double tolerance = 0);

/// The same for a module, on inputs that the caller makes.
using InputMaker = llvm::function_ref<std::vector<Tensor>(mlir::func::FuncOp)>;
void checkKernels(mlir::ModuleOp module, InputMaker makeInputs,
                  double tolerance = 0);

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_KERNELS_KERNELRUNNER_H
