//===- tandem-interpret.cpp - runs IR of any stage, slowly
//-----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Reference/Training.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"

using namespace tandem::reference;
namespace cl = llvm::cl;

static cl::opt<std::string> input(cl::Positional, cl::Required,
                                  cl::desc("<module>"));
static cl::opt<std::string>
    data("data", cl::desc("safetensors file with values and batches"));
static cl::opt<uint64_t> seed("seed",
                              cl::desc("seed of values that are made up"));
static cl::opt<unsigned> steps("steps", cl::init(1), cl::desc("steps to run"));
static cl::opt<std::string> entry("entry", cl::init("step"),
                                  cl::desc("function to run"));
static cl::opt<std::string>
    save("save", cl::desc("file for the values after the last step"));
static cl::opt<std::string>
    saveResults("save-results", cl::desc("file for the last step's results"));
static cl::opt<bool> printResults("print-results",
                                  cl::desc("print a line per result"));
static cl::opt<std::string>
    compare("compare",
            cl::desc("another module; fails unless its results are the same"));
static cl::opt<double> tolerance("tolerance",
                                 cl::desc("relative tolerance of --compare"));

static void printTensor(llvm::StringRef key, const Tensor &tensor) {
  double sum = 0, magnitude = 0;
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    sum += tensor.getDouble(i);
    magnitude += std::abs(tensor.getDouble(i));
  }
  llvm::outs() << key << " : " << tensor.getType()
               << llvm::format(" sum %.6g, sum of magnitudes %.6g, first", sum,
                               magnitude);
  for (int64_t i = 0; i < std::min<int64_t>(tensor.getNumElements(), 4); ++i)
    llvm::outs() << llvm::format(" %.6g", tensor.getDouble(i));
  llvm::outs() << "\n";
}

static void print(const TrainingResult &run) {
  for (auto [step, losses] : llvm::enumerate(run.losses))
    for (const auto &[key, loss] : losses)
      llvm::outs() << "step " << step << " " << key
                   << llvm::format(" %.12g\n", loss);
  if (printResults)
    for (const auto &[key, tensor] : run.results)
      printTensor(key, tensor);
}

static bool areSame(const TrainingResult &expected,
                    const TrainingResult &found) {
  bool same = expected.results.size() == found.results.size();
  if (!same)
    llvm::errs() << "error: " << input << " has " << found.results.size()
                 << " results, expected " << expected.results.size() << "\n";
  for (const auto &[key, tensor] : expected.results) {
    auto it = found.results.find(key);
    std::string reason = "is missing";
    if (it != found.results.end() &&
        isClose(tensor, it->second,
                tolerance.getNumOccurrences()
                    ? std::optional(tolerance.getValue())
                    : std::nullopt,
                reason = ""))
      continue;
    llvm::errs() << "error: '" << key << "' " << reason << "\n";
    same = false;
  }
  return same;
}

static mlir::FailureOr<TrainingResult> run(llvm::StringRef path,
                                           mlir::MLIRContext &context) {
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  if (!module)
    return mlir::failure();
  return train(*module, {data, seed, steps, entry});
}

/// Writes nothing where no file is wanted.
static bool write(llvm::StringRef path, const TensorMap &tensors) {
  if (path.empty())
    return true;
  llvm::Error error = writeSafeTensors(path, tensors);
  if (!error)
    return true;
  llvm::errs() << "error: " << llvm::toString(std::move(error)) << "\n";
  return false;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv, "Tandem's reference interpreter\n");
  mlir::DialectRegistry registry;
  tandem::registerDialects(registry);
  mlir::MLIRContext context(registry);
  auto result = run(input, context);
  if (failed(result))
    return 1;
  print(*result);
  if (!write(save, result->values) || !write(saveResults, result->results))
    return 1;
  if (compare.empty())
    return 0;
  auto other = run(compare, context);
  return succeeded(other) && areSame(*other, *result) ? 0 : 1;
}
