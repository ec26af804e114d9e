//===- tandem-interpret.cpp - the reference interpreter -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Reference/Compare.h"
#include "tandem/Reference/Recorder.h"
#include "tandem/Support/TextFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"

using namespace tandem::reference;
namespace cl = llvm::cl;

/// The options of LLVM's libraries, hundreds of them, are not listed.
static cl::OptionCategory category("tandem-interpret options");

static cl::opt<std::string> input(cl::Positional, cl::Required,
                                  cl::desc("<module>"), cl::cat(category));
static cl::opt<std::string>
    data("data", cl::desc("safetensors file: parameters, state, batches"),
         cl::cat(category));
static cl::opt<uint64_t> seed("seed",
                              cl::desc("seed of random values without --data"),
                              cl::cat(category));
static cl::opt<unsigned> steps("steps", cl::init(1),
                               cl::desc("number of steps (1)"),
                               cl::cat(category));
static cl::opt<std::string> entry("entry", cl::init("step"),
                                  cl::desc("function to run (step)"),
                                  cl::cat(category));
static cl::opt<std::string>
    save("save", cl::desc("output file of the values after the last step"),
         cl::cat(category));
static cl::opt<std::string>
    saveResults("save-results",
                cl::desc("output file of the last step's results"),
                cl::cat(category));
static cl::opt<std::string> saveOperators(
    "save-operators",
    cl::desc("output file of what each operator of the last step gave, until "
             "an error ended it"),
    cl::cat(category));
static cl::opt<bool>
    exact("exact",
          cl::desc("round no value to its type: all arithmetic is f64"),
          cl::cat(category));
static cl::opt<bool> shouldPrint("print-results",
                                 cl::desc("print one line per result"),
                                 cl::cat(category));
static cl::opt<bool> shouldPrintSignature(
    "print-signature",
    cl::desc("print mesh, arguments and results of the step, and run nothing"),
    cl::cat(category));
static cl::opt<std::string>
    compare("compare", cl::desc("module that must give the same values"),
            cl::cat(category));
static cl::opt<double>
    tolerance("tolerance",
              cl::desc("largest relative difference for --compare"),
              cl::cat(category));

/// Calls `use` with the module in a file, whose errors go to standard error.
static mlir::LogicalResult
read(llvm::StringRef path, mlir::MLIRContext &context,
     llvm::function_ref<mlir::LogicalResult(mlir::ModuleOp)> use) {
  std::string error;
  auto text = tandem::readTextFile(path.str(), error);
  if (!text)
    error = path.str() + ": " + error;
  if (!text || !tandem::isParsable(*text, path.str(), error)) {
    llvm::errs() << "error: " << error << "\n";
    return mlir::failure();
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(*text, path), {});
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  return module ? use(*module) : mlir::failure();
}

static mlir::FailureOr<TrainingResult> run(llvm::StringRef path,
                                           mlir::MLIRContext &context,
                                           Recorder *recorder = nullptr) {
  mlir::FailureOr<TrainingResult> result = mlir::failure();
  (void)read(path, context, [&](mlir::ModuleOp module) {
    result = train(module, {data, seed, steps, entry, recorder});
    return mlir::success(succeeded(result));
  });
  return result;
}

/// What a variable of a shell that is not set leaves is no file.
static bool hasNames() {
  for (const auto *option :
       {&data, &save, &saveResults, &saveOperators, &compare})
    if (option->getNumOccurrences() > 0 && option->empty()) {
      llvm::errs() << "error: --" << option->ArgStr
                   << " is '', expected the path of a file\n";
      return false;
    }
  return true;
}

/// Asked before the work.
static bool mayWrite() {
  std::string error;
  for (const std::string &path :
       {save.getValue(), saveResults.getValue(), saveOperators.getValue()})
    if (!tandem::mayReplace(path, tandem::kValuesFile, error,
                            {input, data, compare})) {
      llvm::errs() << "error: '" << path << "': " << error << "\n";
      return false;
    }
  return true;
}

static bool write(llvm::StringRef path, const TensorMap &tensors) {
  if (path.empty())
    return true;
  llvm::Error error = writeSafeTensors(path, tensors);
  if (!error)
    return true;
  llvm::errs() << "error: " << llvm::toString(std::move(error)) << "\n";
  return false;
}

static bool isAsExpected(const TrainingResult &result,
                         mlir::MLIRContext &context) {
  if (compare.empty())
    return true;
  auto other = run(compare, context);
  bool isGiven = tolerance.getNumOccurrences() > 0;
  return succeeded(other) &&
         areSame(*other, result,
                 isGiven ? std::optional(tolerance.getValue()) : std::nullopt,
                 llvm::errs());
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, "Tandem's reference interpreter\n");
  if (!(tolerance >= 0)) {
    llvm::errs() << "error: --tolerance is " << tolerance
                 << ", expected a number that is not negative\n";
    return 1;
  }
  if (!hasNames() || !mayWrite())
    return 1;
  mlir::DialectRegistry registry;
  tandem::registerDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  setRounding(!exact);
  if (shouldPrintSignature) {
    auto print = [](mlir::ModuleOp module) {
      return printSignature(module, entry, llvm::outs());
    };
    return failed(read(input, context, print));
  }
  Recorder recorder;
  auto result =
      run(input, context, saveOperators.empty() ? nullptr : &recorder);
  // What a step that fails gave before is looked at, too.
  bool isRecorded = write(saveOperators, recorder.getTensors());
  if (failed(result))
    return 1;
  printLosses(*result, llvm::outs());
  if (shouldPrint)
    printResults(*result, llvm::outs());
  bool isWritten = write(save, result->values) &&
                   write(saveResults, result->results) && isRecorded;
  return isWritten && isAsExpected(*result, context) ? 0 : 1;
}
