//===- LowerToLLVM.h - from loops to LLVM -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_LOWERTOLLVM_H
#define TANDEM_LIB_CONVERSION_KERNELS_LOWERTOLLVM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/CodeGen.h"
#include <memory>
#include <optional>
#include <string>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace tandem {

/// Lets the code generator contract floating-point arithmetic, ignore the sign
/// of zero, and add up what a loop carries in any order, as sums side by side
/// need. NaN, infinities and the order of all other operations stay. Must run
/// before approximations are put in, which have no such sums.
void setFastMath(mlir::ModuleOp module);

/// Replaces exp, log, tanh, erf, ... on f32 by polynomials that vectorise, and
/// conversions to bf16 by integer arithmetic (round to nearest even on every
/// CPU).
mlir::LogicalResult approximateMath(mlir::ModuleOp module);

/// The rest of the way to the llvm dialect.
mlir::LogicalResult lowerToLLVM(mlir::ModuleOp module);

/// What code is made for: the CPU that it is tuned for, and those of its
/// features that the code may use.
struct HostTarget {
  std::string cpu, features;
  static const HostTarget &get();
};

/// A code generator for this machine.
std::unique_ptr<llvm::TargetMachine> createHostMachine(std::string &error);

void setHostFeatures(llvm::Module &module, llvm::TargetMachine &machine);

/// All of LLVM's optimisations, or those alone that neither vectorise nor
/// replace loops, nor inline what does not ask for it.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);
void simplify(llvm::Module &module, llvm::TargetMachine &machine);

/// What a code generator writes of a module in the llvm dialect, which `finish`
/// has changed as LLVM IR. None, with `error`, where there is no generator or
/// `finish` fails.
std::optional<std::string> generateCode(
    std::unique_ptr<llvm::TargetMachine> machine, mlir::ModuleOp module,
    llvm::CodeGenFileType type,
    llvm::function_ref<bool(llvm::Module &, llvm::TargetMachine &)> finish,
    std::string &error);

/// An ELF object of a module in the llvm dialect, with vectors of so many bits.
std::optional<std::string>
generateObject(mlir::ModuleOp module, unsigned vectorBits, std::string &error);

/// Links objects (paths) into a shared object.
std::optional<std::string> linkObjects(llvm::ArrayRef<std::string> objects,
                                       std::string &error);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_LOWERTOLLVM_H
