//===- tandem-opt.cpp - runs stages on IR ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tandem/Conversion/Kernels/Passes.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Support/TextFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/raw_ostream.h"

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

static mlir::LogicalResult fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return mlir::failure();
}

/// What MLIR's own driver does, but its parser gets no text that would end it.
static mlir::LogicalResult run(int argc, char **argv, const std::string &input,
                               const std::string &output,
                               mlir::DialectRegistry &registry) {
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::MlirOptMain(argc, argv, input, output, registry);
  std::string error;
  auto text = tandem::readTextFile(input, error);
  if (!text)
    return fail(input + ": " + error);
  if (!tandem::isParsable(*text, input, error))
    return fail(error);
  auto file = mlir::openOutputFile(output, &error);
  if (!file || failed(mlir::MlirOptMain(
                   file->os(), llvm::MemoryBuffer::getMemBuffer(*text, input),
                   registry, config)))
    return file ? mlir::failure() : fail(error);
  file->keep();
  return mlir::success();
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
  llvm::InitLLVM init(argc, argv);
  auto [input, output] =
      mlir::registerAndParseCLIOptions(arguments.size(), arguments.data(),
                                       "Tandem's optimizer driver\n", registry);
  return mlir::asMainReturnCode(run(argc, argv, input, output, registry));
}
