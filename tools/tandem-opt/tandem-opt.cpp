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
#include "tandem/Support/FoldLines.h"
#include "tandem/Support/TextFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <vector>

/// MLIR's flags that have another default here. An error names its place; the
/// operation behind it may be a whole step. A stage that is given what another
/// one printed still knows the user's lines.
static constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral>
    kDefaults[] = {{"--mlir-print-op-on-diagnostic", "false"},
                   {"--mlir-print-debuginfo", "true"}};

static llvm::cl::opt<unsigned>
    width("width", llvm::cl::init(tandem::kScreenWidth),
          llvm::cl::desc("columns of the IR's lines; 0 breaks none"));

/// Those of LLVM's backends, hundreds of them, would bury the passes in the
/// help.
/// --help-hidden lists them.
static void hideOptionsOfLibraries() {
  for (auto &entry : llvm::cl::getRegisteredOptions())
    if (entry.first != "help" && entry.second != &width)
      entry.second->setHiddenFlag(llvm::cl::Hidden);
}

static mlir::LogicalResult fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return mlir::failure();
}

/// What MLIR's own driver does, but its parser gets no text that would end it,
/// and lines fit on a screen.
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
  bool isFile = output != "-";
  if (isFile &&
      !tandem::mayReplace(output, tandem::kModuleFile, error, {input}))
    return fail("cannot write '" + output + "': " + error);
  // The linker of kernels forgets all options of the command line.
  unsigned columns = config.shouldEmitBytecode() ? 0 : width.getValue();
  std::string printed;
  llvm::raw_string_ostream os(printed);
  auto done = mlir::MlirOptMain(
      os, llvm::MemoryBuffer::getMemBuffer(*text, input), registry, config);
  if (columns)
    printed = tandem::foldLines(printed, columns);
  if (!isFile)
    llvm::outs() << printed;
  else if (succeeded(done) &&
           !tandem::writeTextFile(output, tandem::kModuleFile, printed, error))
    return fail("cannot write '" + output + "': " + error);
  return done;
}

/// Our defaults of flags that are not given.
static std::vector<std::string>
getDefaults(llvm::ArrayRef<llvm::StringRef> given) {
  std::vector<std::string> arguments;
  for (auto [flag, value] : kDefaults)
    if (llvm::none_of(given, [&](llvm::StringRef argument) {
          return argument.split('=').first == flag;
        }))
      arguments.push_back((flag + "=" + value).str());
  return arguments;
}

int main(int argc, char **argv) {
  std::vector<std::string> defaults =
      getDefaults(llvm::SmallVector<llvm::StringRef>(argv, argv + argc));
  llvm::SmallVector<char *> arguments(argv, argv + argc);
  for (std::string &argument : defaults)
    arguments.insert(arguments.begin() + 1, argument.data());
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
