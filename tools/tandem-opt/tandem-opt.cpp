//===- tandem-opt.cpp - runs stages on IR ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tandem/Conversion/Kernels/Passes.h"
#include "tandem/Pipelines/Pipelines.h"
#include "llvm/Support/CommandLine.h"

/// An error names its place; the operation behind it may be a whole step.
static constexpr char kPrintOperation[] = "--mlir-print-op-on-diagnostic";

/// Those of LLVM's backends, hundreds of them, would bury the passes in the
/// help.
/// --help-hidden lists them.
static void hideOptionsOfLibraries() {
  for (auto &entry : llvm::cl::getRegisteredOptions())
    if (entry.first != "help")
      entry.second->setHiddenFlag(llvm::cl::Hidden);
}

int main(int argc, char **argv) {
  std::string quiet = std::string(kPrintOperation) + "=false";
  llvm::SmallVector<char *> arguments(argv, argv + argc);
  if (llvm::none_of(arguments, [](llvm::StringRef argument) {
        return argument.starts_with(kPrintOperation);
      }))
    arguments.insert(arguments.begin() + 1, quiet.data());
  hideOptionsOfLibraries();
  mlir::DialectRegistry registry;
  tandem::registerDialects(registry);
  // So that what a pass on kernels writes can be fed to the next one.
  tandem::registerKernelDialects(registry);
  tandem::registerPipelines();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(arguments.size(), arguments.data(),
                        "Tandem's optimizer driver\n", registry));
}
