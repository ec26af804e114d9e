//===- Target.h - kernels of one kind of device -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All that depends on the device while kernels are compiled, but for the
// numbers of its description (`Device`). Each kind of device has a folder with
// a target, and a line in `Target.cpp`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_TARGET_H
#define TANDEM_LIB_CONVERSION_KERNELS_TARGET_H

#include "Calls.h"
#include "tandem/Device/Device.h"
#include <memory>
#include <optional>

namespace tandem {

class KernelEmitter;

/// The code of a Program, and what it is for (`CompiledKernels`).
struct CodeFormat {
  rt::CodeKind kind;
  std::string triple, cpu, features;
};

/// Has no state: threads share it.
class KernelTarget {
public:
  explicit KernelTarget(const Device &device) : device(device) {}
  virtual ~KernelTarget() = default;

  const Device &device;

  //===--- Loops ----------------------------------------------------------===//

  /// Whether no other operator may be in the loops of `op`.
  virtual bool needsOwnNest(mlir::Operation *op) const { return false; }
  /// Writes the kernel, as linalg, into `module` as loops on pointers.
  virtual std::unique_ptr<KernelEmitter>
  createEmitter(mlir::func::FuncOp kernel, mlir::ModuleOp module,
                llvm::StringRef symbol) const = 0;

  //===--- Kernels that call kernels --------------------------------------===//

  /// Inputs and outputs of a kernel at most.
  virtual int64_t getMaxBuffers() const { return INT64_MAX; }
  /// Whether the code of a kernel of calls holds that of what it calls, which
  /// then has none of its own unless it is launched as well. Else the two are
  /// linked.
  virtual bool holdsCallees() const { return false; }
  /// Writes the kernel `symbol` of calls into `module`. If it holds its
  /// callees, `kernels` has these by symbol, as linalg.
  virtual KernelParts
  emitCalls(llvm::ArrayRef<KernelCall> calls,
            const llvm::StringMap<mlir::func::FuncOp> &kernels,
            mlir::ModuleOp module, llvm::StringRef symbol) const = 0;

  //===--- Code -----------------------------------------------------------===//

  /// Writes out functions that the device has no library for, before others
  /// become polynomials.
  virtual void prepareMath(mlir::ModuleOp module) const {}
  virtual CodeFormat getFormat() const = 0;
  /// Code of a module in the llvm dialect; none, with `error`, on failure.
  virtual std::optional<std::string> generate(mlir::ModuleOp module,
                                              std::string &error) const = 0;
  /// One object of several files of such code; none, with `error`, on failure.
  virtual std::optional<std::string> link(llvm::ArrayRef<std::string> paths,
                                          std::string &error) const = 0;
};

/// The target of a known device. It lives as long as the process.
const KernelTarget &getKernelTarget(const Device &device);

/// Dialects that the emitters of some target use, beside those of loops.
void registerTargetDialects(mlir::DialectRegistry &registry);

//===--- Of each folder ---------------------------------------------------===//

/// Null for a device of another kind.
std::unique_ptr<KernelTarget> createCpuTarget(const Device &device);
std::unique_ptr<KernelTarget> createGpuTarget(const Device &device);
void registerGpuDialects(mlir::DialectRegistry &registry);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_TARGET_H
