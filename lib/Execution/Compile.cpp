//===- Compile.cpp - from a training step to a Program --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Execution/Compile.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Analysis/UserLocation.h"
#include "tandem/Conversion/Emit/Emit.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Search/Watch.h"
#include "tandem/Support/TextFile.h"
#include "llvm/ADT/StringExtras.h"
#include <chrono>

using namespace mlir;

namespace tandem {

namespace {
/// One compilation.
class Compilation {
public:
  Compilation(const CompileOptions &options, CompiledProgram &result);
  bool run(std::string_view text, std::string_view name);
  const std::string &getError() const { return error; }

private:
  LogicalResult checkOptions();
  bool isCancelled() const {
    return options.isCancelled && options.isCancelled();
  }
  LogicalResult parse(std::string_view text, std::string_view name);
  LogicalResult runStage(const Stage &stage);
  LogicalResult emit();
  LogicalResult fail(const Twine &message);
  LogicalResult runPlan(const Stage &stage);
  void configurePlan(PlanOptions &plan);
  void warnOfMemory();
  void keepIR(StringRef stage);
  void diagnose(Diagnostic &diagnostic);

  const CompileOptions &options;
  CompiledProgram &result;
  DialectRegistry registry;
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
  std::optional<int64_t> memoryLimit;
  std::string error;
};

/// Adds the seconds of its life to a result.
class StageTimer {
public:
  StageTimer(CompiledProgram &result, StringRef stage)
      : result(result), stage(stage), begin(Clock::now()) {}
  ~StageTimer() {
    std::chrono::duration<double> seconds = Clock::now() - begin;
    result.seconds.emplace_back(stage.str(), seconds.count());
  }

private:
  using Clock = std::chrono::steady_clock;
  CompiledProgram &result;
  StringRef stage;
  Clock::time_point begin;
};
} // namespace

Compilation::Compilation(const CompileOptions &options, CompiledProgram &result)
    : options(options), result(result) {
  registerDialects(registry);
  // Stages work on the module as a whole: a pool of threads would only cost.
  context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  context->getDiagEngine().registerHandler(
      [this](Diagnostic &diagnostic) { diagnose(diagnostic); });
}

/// The first error is the cause; what follows is a consequence.
void Compilation::diagnose(Diagnostic &diagnostic) {
  std::string place = getUserLocation(diagnostic.getLocation());
  std::string line = place.empty() ? "" : place + ": ";
  if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
    if (error.empty())
      error = line + diagnostic.str();
    return;
  }
  bool warns = diagnostic.getSeverity() == DiagnosticSeverity::Warning;
  result.remarks.push_back(line + (warns ? "warning: " : "remark: ") +
                           diagnostic.str());
}

LogicalResult Compilation::fail(const Twine &message) {
  if (error.empty())
    error = message.str();
  return failure();
}

static bool isStage(StringRef name) {
  return llvm::is_contained(kStages, std::string_view(name));
}

LogicalResult Compilation::checkOptions() {
  SmallVector<std::string> names(options.printAfter.begin(),
                                 options.printAfter.end());
  if (!options.stopAfter.empty())
    names.push_back(options.stopAfter);
  for (const std::string &name : names)
    if (!isStage(name))
      return fail("unknown stage '" + Twine(name) + "', expected one of " +
                  llvm::join(std::begin(kStages), std::end(kStages), ", "));
  const std::string &given =
      options.preset.empty() ? options.planFile : options.preset;
  if (!options.search.empty() && !given.empty())
    return fail("search '" + Twine(options.search) + "' beside the plan '" +
                given + "', expected one of the two");
  if (options.mesh == "auto" && !given.empty())
    return fail("mesh 'auto' beside the plan '" + given +
                "', expected a search, which tries meshes");
  if (!options.planFile.empty() && !options.pins.empty())
    return fail("pin '" + Twine(options.pins.front()) +
                "' beside the plan file '" + options.planFile +
                "', which names all forms, expected one of the two: change the "
                "form there, or search with the file as a start");
  bool isLimited = options.searchTimeLimit > 0 && !options.explains;
  if ((isLimited || (!options.start.empty() && !given.empty())) &&
      options.search.empty() && options.mesh != "auto")
    return fail(Twine("found ") +
                (isLimited ? "a search time limit" : "a start") +
                " without a search, expected 'tandem' or another one" +
                (isLimited ? ", or an explanation" : ""));
  if (options.micro < 1)
    return fail("micro is " + Twine(options.micro) + ", expected at least 1");
  return success();
}

LogicalResult Compilation::parse(std::string_view text, std::string_view name) {
  StageTimer timer(result, "parse");
  if (!isParsable(text, name, error))
    return failure();
  module = parseSourceString<ModuleOp>(StringRef(text), context.get(),
                                       StringRef(name));
  if (module)
    return success();
  error += (error.empty() ? std::string(name) : "") +
           ": found no module, expected a step as `python -m tandem export` "
           "writes it";
  return failure();
}

void Compilation::configurePlan(PlanOptions &plan) {
  plan.mesh = options.mesh;
  plan.micro = options.micro;
  if (!options.preset.empty())
    plan.preset = options.preset;
  plan.pins = llvm::join(options.pins, ";");
  plan.planFile = options.planFile;
  plan.search = options.search;
  plan.cluster = options.cluster;
  plan.timeLimit = options.searchTimeLimit;
  plan.start = options.start;
  plan.noPresets = !options.usesPresets;
  plan.recompute = options.recompute;
  plan.problemOut = options.problemOut;
  plan.costsPlan = options.costsPlan;
  plan.explains = options.explains;
  plan.failOnReplicate = options.failOnReplicate;
  plan.compareWith = options.compareWith;
  plan.seconds = options.timeline;
  plan.endsSearch = [this] {
    return isCancelled() ||
           (options.takesInterrupts && search::InterruptGuard::isInterrupted());
  };
}

void Compilation::keepIR(StringRef stage) {
  if (!llvm::is_contained(options.printAfter, stage.str()) &&
      stage != options.stopAfter)
    return;
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  if (options.printLocations)
    flags.enableDebugInfo();
  module->print(os, flags);
  result.ir.emplace_back(stage.str(), std::move(text));
}

LogicalResult Compilation::runPlan(const Stage &stage) {
  PlanOptions plan;
  configurePlan(plan);
  auto manager = PassManager::on<ModuleOp>(context.get(),
                                           OpPassManager::Nesting::Implicit);
  stage.build(manager, plan);
  std::optional<search::InterruptGuard> guard;
  if (options.takesInterrupts)
    guard.emplace();
  if (failed(manager.run(*module)))
    return failure();
  PlanResult &found = *plan.result;
  result.plan = std::move(found.text);
  result.explanation = std::move(found.explanation);
  result.explanationJson = std::move(found.explanationJson);
  result.comparison = std::move(found.comparison);
  memoryLimit = found.memoryLimit;
  llvm::raw_string_ostream table(result.planTable);
  printPlanTable(*module, table);
  return success();
}

/// A plan counts what tensors hold, by stages; buffers are aligned, leave gaps
/// and overlap stages.
void Compilation::warnOfMemory() {
  int64_t held = lower::countHeldBytes(*module);
  if (!memoryLimit || held <= *memoryLimit)
    return;
  module->emitWarning() << "the Program holds " << held
                        << " B on each device, its plan fits into the "
                        << *memoryLimit
                        << " B of the cluster: leave room with 'reserved' in "
                           "the cluster file";
}

LogicalResult Compilation::runStage(const Stage &stage) {
  StageTimer timer(result, stage.name);
  if (stage.name == "plan") {
    if (failed(runPlan(stage)))
      return fail("stage plan failed");
  } else {
    auto manager = PassManager::on<ModuleOp>(context.get(),
                                             OpPassManager::Nesting::Implicit);
    PlanOptions plan;
    plan.recompute = options.recompute;
    stage.build(manager, plan);
    if (failed(manager.run(*module)))
      return fail("stage " + stage.name + " failed");
  }
  if (stage.name == "lower")
    warnOfMemory();
  keepIR(stage.name);
  return success();
}

LogicalResult Compilation::emit() {
  StageTimer timer(result, "emit");
  EmitOptions emitOptions;
  FailureOr<std::string> bytes = emitProgram(*module, emitOptions);
  if (failed(bytes))
    return fail("stage emit failed");
  result.bytes = std::move(*bytes);
  return success();
}

bool Compilation::run(std::string_view text, std::string_view name) {
  if (failed(checkOptions()) || failed(parse(text, name)))
    return false;
  for (const Stage &stage : getStages()) {
    if (isCancelled())
      return succeeded(fail("interrupted before stage " + Twine(stage.name)));
    if (failed(runStage(stage)))
      return false;
    if (stage.name == options.stopAfter)
      return true;
  }
  return succeeded(emit());
}

bool compile(std::string_view module, std::string_view name,
             const CompileOptions &options, CompiledProgram &result,
             std::string &error) {
  result = CompiledProgram();
  Compilation compilation(options, result);
  bool done = compilation.run(module, name);
  error = compilation.getError();
  return done;
}

} // namespace tandem
