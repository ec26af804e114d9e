//===- Compile.cpp - from a training step to a Program --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Execution/Compile.h"
#include "ChooseLayout.h"
#include "HostLimit.h"
#include "OrderProblem.h"
#include "Pipe.h"
#include "PipeLines.h"
#include "ProgramCache.h"
#include "StageOf.h"
#include "SumPieces.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/HashStep.h"
#include "tandem/Analysis/UserLocation.h"
#include "tandem/Conversion/Emit/CutSums.h"
#include "tandem/Conversion/Emit/Emit.h"
#include "tandem/Cost/Plan.h"
#include "tandem/Device/Gpu.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Orders/Schedules.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Prediction/Prediction.h"
#include "tandem/Search/Pipeline/Deadline.h"
#include "tandem/Search/Watch.h"
#include "tandem/Support/ByteSize.h"
#include "tandem/Support/FoldLines.h"
#include "tandem/Support/TextFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileUtilities.h"
#include <chrono>
#include <set>

using namespace mlir;

namespace tandem {

/// Iterations of a Repeat (tandem_rt/program.h).
static constexpr int64_t kMaxAccumulate = int64_t(1) << 20;
/// How often a step is planned again whose Program exceeds its limit.
static constexpr unsigned kMaxRepeats = 3;

namespace {
/// What is needed to import a step again, with an offer to make values again.
struct Recompute {
  /// The step in front of the stage import; null where nobody asks for it.
  OwningOpRef<ModuleOp> step;
  /// In front of the stage plan, with the offer that `module` lacks, or without
  /// the one that it has.
  OwningOpRef<ModuleOp> other;
  /// Whether the plan stage found no plan that fits, or had a file of `other`.
  bool lacksMemory = false, isOfOther = false;
  /// The error without the offer, once it was made.
  std::string error;
};

/// What is needed to plan a step again.
struct Repeats {
  /// The step in front of the stage plan; null where its plan is given.
  OwningOpRef<ModuleOp> step;
  /// Of the results, what was there then.
  size_t numRemarks = 0, numIR = 0;
  unsigned count = 0;
  /// Of the plan; of the Program that was made of it, and its limit; B.
  int64_t peak = 0, held = 0, limit = 0;
  /// What the Program holds too much.
  std::string excess;
};

/// Of an order that is searched.
struct Unordered {
  /// The step in front of its actions.
  OwningOpRef<ModuleOp> step;
  size_t numIR = 0;
  /// The texts of orders whose Programs were made.
  std::set<std::string> tried;
  /// The one that is predicted to be the fastest.
  std::optional<orders::Order> best;
  double seconds = 0;
  std::string name;
  /// Of the last search: what the actions alone take, and what no order takes
  /// less than; or why there is no order.
  double cost = 0, bound = 0;
  std::string why;
};

/// One compilation.
class Compilation {
public:
  Compilation(const CompileOptions &options, CompiledProgram &result);
  bool run(std::string_view text, std::string_view name);
  bool find(const ProgramCache &cache);
  bool make(std::string_view text, std::string_view name);
  bool hash(std::string_view text, std::string_view name, std::string &found);
  bool findTarget(rt::Target &target);
  /// Of the step behind the stage import; at least so many, if it has them.
  bool listLayers(std::string_view text, std::string_view name, int64_t number,
                  StepLayers &found);
  const std::string &getError() const { return error; }

private:
  LogicalResult checkOptions();
  bool isCancelled() const {
    return options.isCancelled && options.isCancelled();
  }
  /// Whether searches have to do with what they have.
  bool endsSearch() const {
    return isCancelled() ||
           (options.takesInterrupts && search::InterruptGuard::isInterrupted());
  }
  LogicalResult checkStages();
  LogicalResult checkCut();
  LogicalResult parse(std::string_view text, std::string_view name);
  LogicalResult nameDevice();
  LogicalResult enter();
  LogicalResult verifyExit(const Stage &stage);
  LogicalResult takeGivenPipe();
  bool mayHidePlan(const Stage *from) const;
  LogicalResult runStage(const Stage &stage);
  LogicalResult runStages(const Stage *first);
  LogicalResult emit();
  FailureOr<std::string> findExcess();
  LogicalResult addTimeline();
  FailureOr<bool> compileFrom(const Stage *first);
  LogicalResult outline();
  LogicalResult cutSums();
  void tellSumPiece();
  FailureOr<double> predictSeconds(rt::Timeline &timeline);
  FailureOr<bool> searchOrder();
  FailureOr<bool> tryOrder(const orders::Order &order);
  void keepOrder(const orders::Order &order, StringRef name, double seconds);
  LogicalResult weighOrder(const orders::Order &order, StringRef name);
  LogicalResult weighSearched(pipeline::ScheduleProblem &problem,
                              const orders::Order &start);
  LogicalResult weighWithin(pipeline::ScheduleProblem &problem,
                            const orders::Order &start);
  LogicalResult weighNamed(const pipeline::ScheduleProblem &problem);
  FailureOr<pipeline::ScheduleProblem> makeProblem(const rt::Timeline &timeline,
                                                   orders::Order &start);
  LogicalResult fail(const Twine &message);
  void tell(StringRef what, size_t done = 0, size_t all = 0) const {
    if (options.progress)
      options.progress(what, done, all);
  }
  LogicalResult runPasses(const Stage &stage,
                          const PlanExchange &exchange = {});
  LogicalResult runPlan(const Stage &stage);
  bool isSearched() const;
  bool hasMemoryLimit() const;
  bool isGiven() const;
  LogicalResult keepSource(const Stage *first);
  bool offerAgain();
  ModuleOp getOtherOffer();
  void keepStep();
  FailureOr<bool> fits();
  FailureOr<bool> planLess();
  LogicalResult failTooLarge();
  void planAgain();
  int64_t getFirstLimit() const;
  int64_t getNextLimit() const;
  std::string describeHeld() const;
  void keepIR(StringRef stage);
  std::string getPlace(Location location) const;
  void diagnose(Diagnostic &diagnostic);

  const CompileOptions &options;
  /// What stages read: the limit of memory is lowered to plan again.
  Options ofStages;
  /// What the pins say of sections, taken out of what stages read.
  std::optional<Pipe> pipe;
  /// Of a pipeline's Program, where a size was chosen.
  std::optional<SumPiece> sumPiece;
  CompiledProgram &result;
  DialectRegistry registry;
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
  rt::Program program;
  Recompute recompute;
  Repeats repeats;
  Unordered unordered;
  /// Of all searches together.
  pipeline::Deadline deadline;
  /// Of the module and its step, in a text that users rarely see.
  SmallVector<Location> wholes;
  std::string error;
};

/// Adds the seconds of its life to a result; those of a stage that runs again
/// add up.
class StageTimer {
public:
  StageTimer(CompiledProgram &result, StringRef stage)
      : result(result), stage(stage), begin(Clock::now()) {}
  ~StageTimer() {
    std::chrono::duration<double> seconds = Clock::now() - begin;
    auto found = llvm::find_if(
        result.seconds, [&](const auto &each) { return each.first == stage; });
    if (found == result.seconds.end())
      result.seconds.emplace_back(stage.str(), seconds.count());
    else
      found->second += seconds.count();
  }

private:
  using Clock = std::chrono::steady_clock;
  CompiledProgram &result;
  StringRef stage;
  Clock::time_point begin;
};
} // namespace

Compilation::Compilation(const CompileOptions &options, CompiledProgram &result)
    : options(options), ofStages(options), result(result),
      deadline(options.searchTimeLimit) {
  registerDialects(registry);
  // Stages work on the module as a whole: a pool of threads would only cost.
  context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  // An error names its place; the operation behind it may be a whole step.
  context->printOpOnDiagnostic(false);
  context->getDiagEngine().registerHandler(
      [this](Diagnostic &diagnostic) { diagnose(diagnostic); });
  if (!options.isCancelled)
    return;
  // Of a compilation that is cancelled the passes that are left do nothing.
  context->registerActionHandler(
      [this](function_ref<void()> act, const tracing::Action &action) {
        if (!isa<PassExecutionAction>(action) || !isCancelled())
          act();
      });
}

/// The user's line, or else the name of what has none: `optimizer.w`. What is
/// said of the step as a whole is said of the options: it has no place.
std::string Compilation::getPlace(Location location) const {
  if (llvm::is_contained(wholes, location))
    return "";
  std::string place = getUserLocation(location);
  auto name = dyn_cast<NameLoc>(location);
  return place.empty() && name ? name.getName().str() : place;
}

/// The first error is the cause; what follows is a consequence.
void Compilation::diagnose(Diagnostic &diagnostic) {
  std::string place = getPlace(diagnostic.getLocation());
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

std::vector<std::string> getStageNames() {
  std::vector<std::string> names;
  for (const Stage &stage : getStages())
    names.push_back(stage.name.str());
  return names;
}

/// Every stage that is named is there, and those that are to be seen run.
LogicalResult Compilation::checkStages() {
  std::vector<std::string> names = getStageNames();
  SmallVector<std::string> given(options.printAfter.begin(),
                                 options.printAfter.end());
  given.append({options.fromStage, options.stopAfter});
  auto from = llvm::find(names, options.fromStage);
  for (const std::string &name : given) {
    auto stage = llvm::find(names, name);
    if (!name.empty() && stage == names.end())
      return fail("unknown stage '" + Twine(name) + "', expected one of " +
                  llvm::join(names, ", "));
    if (!name.empty() && name != options.fromStage && from != names.end() &&
        stage < from)
      return fail("stage '" + Twine(name) + "' does not run behind '" +
                  options.fromStage + "', expected a later one");
  }
  if (!options.fromStage.empty() && options.stopAfter == options.fromStage)
    return fail("stage '" + Twine(options.fromStage) +
                "' is left already, expected a later one to stop after");
  return success();
}

/// The stage accumulate cuts sections, and orders their actions.
LogicalResult Compilation::checkCut() {
  const Stage *from = findStage(options.fromStage);
  if (!from || from < findStage("accumulate"))
    return success();
  StringRef given = !options.order.empty()      ? "an order"
                    : !options.sections.empty() ? "sections"
                                                : "";
  return given.empty()
             ? success()
             : fail(Twine("found ") + given +
                    ", which the stage accumulate reads: the module has left "
                    "that stage, expected none");
}

LogicalResult Compilation::checkOptions() {
  if (failed(checkStages()) || failed(checkCut()))
    return failure();
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
  bool isLimited = options.searchTimeLimit > 0 && !options.explain;
  if ((isLimited || (!options.start.empty() && !given.empty())) &&
      options.search.empty() && options.mesh != "auto" &&
      (!isLimited || options.order != "search"))
    return fail(Twine("found ") +
                (isLimited ? "a search time limit" : "a start") +
                " without a search, expected 'tandem' or another one" +
                (isLimited ? ", or an explanation" : ""));
  pipe = takePipe(ofStages, error);
  if (!error.empty())
    return failure();
  ofStages.memory = getFirstLimit();
  // How long a step takes is said of its Program. Where there will be none, the
  // schedule is priced as its plan was.
  if (pipe || options.stopAfter.empty())
    ofStages.timeline = false;
  if (!pipe)
    ofStages.cost |= options.timeline;
  // The search of the plan leaves some time to that of the order.
  if (pipe && pipe->isSearched)
    ofStages.searchTimeLimit /= 2;
  if (!pipe && options.sumPiece >= 0 && options.fromStage.empty())
    return fail("sum-piece is " + Twine(options.sumPiece) +
                ", but the step is no pipeline, expected one with sections on "
                "an axis 'pipe'");
  if (options.micro < 1)
    return fail("micro is " + Twine(options.micro) + ", expected at least 1");
  if (options.accumulate < 1 || options.accumulate > kMaxAccumulate)
    return fail("accumulate is " + Twine(options.accumulate) +
                ", expected an integer from 1 to " + Twine(kMaxAccumulate));
  return success();
}

/// Empty: what the module names.
static std::string getDeviceName(const CompileOptions &options) {
  if (options.architecture.empty())
    return options.device;
  return nameWithArchitecture(options.device.empty()
                                  ? kDefaultDevice
                                  : std::string_view(options.device),
                              options.architecture);
}

LogicalResult Compilation::nameDevice() {
  std::string name = getDeviceName(options);
  return name.empty() ? success() : sched::setDevice(*module, name);
}

LogicalResult Compilation::parse(std::string_view text, std::string_view name) {
  StageTimer timer(result, "parse");
  if (!isParsable(text, name, error))
    return failure();
  module = parseSourceString<ModuleOp>(StringRef(text), context.get(),
                                       StringRef(name));
  if (module) {
    wholes.push_back(module->getLoc());
    if (Operation *step = module->lookupSymbol("step"))
      wholes.push_back(step->getLoc());
    return nameDevice();
  }
  return fail(Twine(std::string(name)) +
              ": found no module, expected a step as `python -m tandem export` "
              "writes it");
}

//===----------------------------------------------------------------------===//
// Entering
//===----------------------------------------------------------------------===//

/// Of a pipeline that is outlined, the exits are those of its actions.
LogicalResult Compilation::verifyExit(const Stage &stage) {
  auto manager = PassManager::on<ModuleOp>(context.get(),
                                           OpPassManager::Nesting::Implicit);
  stage.verify(manager);
  auto actions = llvm::to_vector(module->getOps<ModuleOp>());
  for (ModuleOp action : actions)
    if (failed(manager.run(action)))
      return failure();
  return actions.empty() ? manager.run(*module) : success();
}

/// What is behind the stage `accumulate` has its pipeline in the module.
LogicalResult Compilation::takeGivenPipe() {
  auto given = readPipe(*module, ofStages.mesh);
  if (options.fromStage.empty() || !given)
    return success();
  if (options.micro > 1)
    return fail("micro is " + Twine(options.micro) +
                ", but the microbatches of a pipeline are those of the stage "
                "accumulate, which the module has left, expected none");
  pipe = std::move(given);
  ofStages.timeline = false;
  ofStages.memory = getFirstLimit();
  return success();
}

/// A plan is no more than attributes, so a step that has one can be taken for
/// one without: it would be made again without a word.
bool Compilation::mayHidePlan(const Stage *from) const {
  if (!(*module)->hasAttr(spmd::kMeshAttrName))
    return false;
  if (from)
    return from->name == "import" || from->name == "accumulate";
  return options.mesh.empty() && options.preset.empty() &&
         options.planFile.empty() && options.search.empty();
}

/// The module is behind the stage that the options name, or else a step.
LogicalResult Compilation::enter() {
  const Stage *from = findStage(options.fromStage);
  bool isRefused = from && failed(verifyExit(*from));
  if (!isRefused && !mayHidePlan(from))
    return success();
  const Stage *left = findStageOf(*module, from);
  if (!isRefused && !left)
    return success();
  if (!isRefused)
    error = "the module has left the stage " + left->name.str();
  if (left && left != from)
    error += ": compile it with --from " + left->name.str();
  return failure();
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

void Compilation::keepIR(StringRef stage) {
  if (!llvm::is_contained(options.printAfter, stage.str()) &&
      stage != options.stopAfter)
    return;
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os, OpPrintingFlags().enableDebugInfo(options.printLocations));
  result.ir.emplace_back(stage.str(), foldLines(text));
}

/// Runs a stage's passes. The verifier of IR runs once, behind the last one:
/// behind each, as in `tandem-opt`, it took half of what all stages take.
LogicalResult Compilation::runPasses(const Stage &stage,
                                     const PlanExchange &exchange) {
  auto manager = PassManager::on<ModuleOp>(context.get(),
                                           OpPassManager::Nesting::Implicit);
  manager.enableVerifier(false);
  if (pipe)
    addPassesBefore(manager, *pipe, stage.name);
  addStage(manager, stage, ofStages, exchange);
  bool isOrdered = pipe && pipe->isSearched && stage.name == "localize";
  if (pipe && !isOrdered)
    addPassesBehind(manager, *pipe, stage.name);
  if (isOrdered) {
    if (failed(manager.run(*module)))
      return failure();
    unordered.step = module->clone();
    unordered.numIR = result.ir.size();
    return outline();
  }
  if (pipe && isOfActions(stage.name)) {
    for (ModuleOp action : module->getOps<ModuleOp>())
      if (failed(manager.run(action)))
        return failure();
  } else if (failed(manager.run(*module))) {
    return failure();
  }
  if (isCancelled())
    return fail("interrupted in stage " + stage.name);
  return verify(*module);
}

/// Makes actions of the step, in the order that the pipeline has now.
LogicalResult Compilation::outline() {
  auto manager = PassManager::on<ModuleOp>(context.get(),
                                           OpPassManager::Nesting::Implicit);
  manager.enableVerifier(false);
  addPassesBehind(manager, *pipe, "localize");
  return failed(manager.run(*module)) ? failure() : verify(*module);
}

LogicalResult Compilation::runPlan(const Stage &stage) {
  PlanExchange exchange;
  exchange.endsSearch = [this] { return endsSearch(); };
  exchange.getOtherOffer = [this] { return getOtherOffer(); };
  exchange.mayOffer =
      recompute.step && !ofStages.recompute && options.planFile.empty();
  std::optional<search::InterruptGuard> guard;
  if (options.takesInterrupts)
    guard.emplace();
  if (failed(runPasses(stage, exchange))) {
    recompute.lacksMemory = exchange.result->lacksMemory;
    recompute.isOfOther = exchange.result->isOfOther;
    if (repeats.count > 0 && !isCancelled())
      error =
          repeats.excess + ", and no plan was found that holds less: " + error;
    return failure();
  }
  PlanResult &found = *exchange.result;
  repeats.peak = found.peak;
  // Of the Program, whatever its plan is held to.
  if (repeats.count > 0 && !pipe)
    setInteger(*module, spmd::kMemoryAttrName, repeats.limit);
  result.plan = pipe ? addPipe(*pipe, *module, found.text) : found.text;
  result.explanation = std::move(found.explanation);
  result.explanationJson = std::move(found.explanationJson);
  result.comparison = std::move(found.comparison);
  result.planTable.clear();
  llvm::raw_string_ostream table(result.planTable);
  printPlanTable(*module, table);
  return success();
}

LogicalResult Compilation::runStage(const Stage &stage) {
  StageTimer timer(result, stage.name);
  tell(stage.name);
  if (failed(stage.name == "plan" ? runPlan(stage) : runPasses(stage)))
    return fail("stage " + stage.name + " failed");
  keepIR(stage.name);
  return success();
}

LogicalResult Compilation::runStages(const Stage *first) {
  for (const Stage &stage : llvm::make_range(first, getStages().end())) {
    if (stage.name == "plan")
      keepStep();
    if (failed(runStage(stage)))
      return failure();
    if (stage.name == options.stopAfter)
      break;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Recomputation
//===----------------------------------------------------------------------===//

/// Whether a user gives a limit of memory, or a cluster that has one.
bool Compilation::hasMemoryLimit() const {
  return options.memory >= 0 || !options.cluster.empty();
}

/// Whether a file has a plan, which may be of a step with the offer.
bool Compilation::isGiven() const {
  return !options.planFile.empty() || !options.start.empty();
}

LogicalResult Compilation::keepSource(const Stage *first) {
  auto step = module->lookupSymbol<func::FuncOp>("step");
  if (first->name != "import" || !step)
    return success();
  ofStages.hostMemory = findHostLimit(options, step, pipe.has_value(), error);
  ofStages.recompute |= llvm::any_of(options.pins, [&](StringRef pin) {
    return asksAgain(pin) || asksToSend(step, pin);
  });
  if (hasMemoryLimit() || isGiven())
    recompute.step = module->clone();
  return success(error.empty());
}

/// What plan files of the other step are read for. It says nothing.
ModuleOp Compilation::getOtherOffer() {
  if (recompute.other || !recompute.step)
    return recompute.other.get();
  ScopedDiagnosticHandler silent(context.get(),
                                 [](Diagnostic &) { return success(); });
  recompute.other = recompute.step->clone();
  std::swap(module, recompute.other);
  ofStages.recompute = !ofStages.recompute;
  bool isMade = true;
  for (const Stage *stage = findStage("import"); stage->name != "plan"; ++stage)
    isMade = isMade && succeeded(runPasses(*stage));
  ofStages.recompute = !ofStages.recompute;
  std::swap(module, recompute.other);
  return isMade ? recompute.other.get() : ModuleOp();
}

/// After an error, with an offer to make values again where no plan fits
/// without; with or without, as the step has it that a file has a plan of.
/// False if it is of no use.
bool Compilation::offerAgain() {
  // A plan that is given stays as it is.
  recompute.lacksMemory &= options.planFile.empty() && !ofStages.recompute;
  if (!recompute.step || isCancelled() ||
      !(recompute.lacksMemory || recompute.isOfOther))
    return false;
  error.clear();
  module = recompute.step->clone();
  recompute.other = nullptr;
  repeats = Repeats();
  ofStages.memory = getFirstLimit();
  ofStages.recompute = !ofStages.recompute;
  result.ir.clear();
  result.remarks.clear();
  if (recompute.lacksMemory)
    result.remarks.push_back("remark: no plan fits that holds all that is "
                             "saved: the backward pass may make values again");
  recompute.lacksMemory = recompute.isOfOther = false;
  return true;
}

//===----------------------------------------------------------------------===//
// The limit of memory
//===----------------------------------------------------------------------===//

/// Whether another limit makes another plan. `hidup` knows none; a preset
/// chooses sources.
bool Compilation::isSearched() const {
  if (options.search == "hidup" || !options.planFile.empty())
    return false;
  return !options.search.empty() || options.mesh == "auto" ||
         ofStages.recompute;
}

void Compilation::keepStep() {
  if (!hasMemoryLimit() || !isSearched() || repeats.step)
    return;
  repeats.step = module->clone();
  repeats.numRemarks = result.remarks.size();
  repeats.numIR = result.ir.size();
}

std::string Compilation::describeHeld() const {
  return "the Program holds " + printByteSize(repeats.held) +
         " on each rank, " + printByteSize(repeats.held - repeats.limit) +
         " more than the limit of " + printByteSize(repeats.limit);
}

/// The peak of a plan is of all sections, so that it has no limit at first: the
/// points of its Program do.
int64_t Compilation::getFirstLimit() const {
  return pipe && hasMemoryLimit() ? std::numeric_limits<int64_t>::max()
                                  : options.memory;
}

/// What the Program holds too much; empty: it fits.
FailureOr<std::string> Compilation::findExcess() {
  if (pipe && hasMemoryLimit()) {
    std::string why;
    std::vector<int64_t> limits = getLimits(options, program.numRanks(), why);
    if (!why.empty())
      return fail(why);
    return describeExcess(*module, program, limits, repeats.held,
                          repeats.limit);
  }
  auto limit = getInteger(*module, spmd::kMemoryAttrName);
  if (pipe || !limit || repeats.held <= *limit)
    return std::string();
  repeats.limit = *limit;
  return describeHeld();
}

/// A plan counts what tensors hold, by stages; buffers are aligned, leave gaps
/// and overlap stages, and kernels have scratch. False: the step has to be
/// planned again. A plan that was given may exceed the memory of a cluster,
/// with a warning, as many a cluster prices it, and no limit that somebody asks
/// for.
FailureOr<bool> Compilation::fits() {
  if (std::string why = describeHostExcess(options, program); !why.empty())
    return fail(why);
  FailureOr<std::string> excess = findExcess();
  if (failed(excess) || excess->empty())
    return failed(excess) ? FailureOr<bool>(failure()) : true;
  repeats.excess = std::move(*excess);
  if (pipe || repeats.step || options.memory >= 0)
    return planLess();
  module->emitWarning() << repeats.excess
                        << ", into which its plan fits: leave room with "
                           "'reserved' in the cluster file";
  return true;
}

/// False: the step has to be planned again.
FailureOr<bool> Compilation::planLess() {
  if (!repeats.step || repeats.count == kMaxRepeats)
    return failTooLarge();
  planAgain();
  return false;
}

/// Where an offer to make values again is of no use, this is what is said.
LogicalResult Compilation::failTooLarge() {
  recompute.lacksMemory = true;
  std::string tries =
      repeats.count ? " after " + std::to_string(repeats.count) + " repeats"
                    : "";
  if (pipe)
    (void)fail(repeats.excess +
               "; expected more memory, more points, a search, or another cut "
               "or order");
  else
    (void)fail(repeats.excess + "; its plan" + tries + " holds " +
               printByteSize(repeats.peak) + ": expected memory of at least " +
               printByteSize(repeats.held) + ", or more ranks");
  if (!ofStages.recompute)
    recompute.error = error;
  return failure();
}

/// With the excess less than what the plan was held to, or holds: so another
/// plan is found each time. Of a pipeline the plan holds all sections and one
/// microbatch, so that its limit falls as that of the point has to.
int64_t Compilation::getNextLimit() const {
  int64_t last = ofStages.memory < 0 ? repeats.limit : ofStages.memory;
  last = std::min(last, repeats.peak);
  if (pipe)
    return static_cast<double>(last) * repeats.limit / repeats.held;
  return std::max<int64_t>(0, last - (repeats.held - repeats.limit));
}

void Compilation::planAgain() {
  ofStages.memory = getNextLimit();
  ++repeats.count;
  module = repeats.step->clone();
  result.ir.resize(repeats.numIR);
  result.remarks.resize(repeats.numRemarks++);
  result.remarks.push_back(
      "remark: " + repeats.excess + ": planned again, for at most " +
      printByteSize(ofStages.memory) + (pipe ? " of all sections" : ""));
}

LogicalResult Compilation::emit() {
  StageTimer timer(result, "emit");
  EmitOptions emitOptions;
  emitOptions.kernels.progress = [this](size_t done, size_t all) {
    tell("kernels", done, all);
    return !isCancelled();
  };
  FailureOr<EmittedProgram> emitted = emitProgram(*module, emitOptions);
  if (failed(emitted))
    return fail("stage emit failed");
  program = std::move(emitted->program);
  result.bytes = std::move(emitted->bytes);
  repeats.held = emitted->heldBytes;
  return pipe ? cutSums() : success();
}

/// Into pieces of the size that is given, or else of that which is predicted to
/// be best.
LogicalResult Compilation::cutSums() {
  int64_t bytes = pipe->sumPiece;
  sumPiece.reset();
  if (llvm::none_of(program.queues,
                    [](const rt::Queue &queue) { return queue.yields; }))
    return success();
  if (bytes < 0 && options.triesSumPieces) {
    std::string why;
    sumPiece = chooseSumPiece(program, options.cluster, why);
    if (!why.empty())
      return fail(why);
    bytes = sumPiece ? sumPiece->bytes : 0;
  }
  program = tandem::cutSums(program, std::max<int64_t>(0, bytes));
  if (rt::Status status = rt::verifyProgram(program); !status.ok())
    return fail("internal error: pieces of sums: " + status.message());
  rt::Bytes made = rt::serializeProgram(program);
  result.bytes.assign(made.begin(), made.end());
  return success();
}

/// Says which size was chosen, and why.
void Compilation::tellSumPiece() {
  if (!sumPiece)
    return;
  if (sumPiece->bytes > 0)
    result.remarks.push_back("remark: " + sumPiece->why);
  if (!result.explanation.empty())
    result.explanation += "\n" + sumPiece->why + "\n";
  if (StringRef(result.plan).contains("\naccumulate "))
    result.plan = addSumPiece(result.plan, sumPiece->bytes);
}

/// How long a step of the Program takes.
LogicalResult Compilation::addTimeline() {
  if (!options.timeline)
    return success();
  auto timeline = predictProgram(result.bytes, options.cluster);
  if (!timeline.ok())
    return fail(timeline.status().message());
  auto line = describeTime(*timeline);
  if (!line.ok())
    return fail(line.status().message());
  result.remarks.push_back("remark: " + *line);
  return success();
}

/// What a step of the Program is predicted to take.
FailureOr<double> Compilation::predictSeconds(rt::Timeline &timeline) {
  auto predicted = predictProgram(result.bytes, options.cluster);
  if (!predicted.ok())
    return fail(predicted.status().message());
  timeline = std::move(*predicted);
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  for (const rt::TraceEvent &event : timeline.events) {
    begin = std::min(begin, event.begin);
    end = std::max(end, event.end);
  }
  return 1e-9 * static_cast<double>(end - std::min(begin, end));
}

/// Makes the Program of another order from the step in front of its actions.
FailureOr<bool> Compilation::tryOrder(const orders::Order &order) {
  module = unordered.step->clone();
  result.ir.resize(unordered.numIR);
  pipe->order = "search"; // no name of a schedule
  pipe->rows = orders::print(order);
  if (failed(outline()))
    return failure();
  keepIR("localize");
  if (failed(runStages(findStage("localize") + 1)) || failed(emit()))
    return failure();
  FailureOr<std::string> excess = findExcess();
  return failed(excess) ? FailureOr<bool>(failure()) : excess->empty();
}

/// Keeps an order in mind if its Program, which fits, is predicted to be faster
/// than those before.
void Compilation::keepOrder(const orders::Order &order, StringRef name,
                            double seconds) {
  if (unordered.best && seconds >= unordered.seconds)
    return;
  unordered.best = order;
  unordered.seconds = seconds;
  unordered.name = name.str();
}

LogicalResult Compilation::weighOrder(const orders::Order &order,
                                      StringRef name) {
  if (!unordered.tried.insert(orders::print(order)).second)
    return success();
  FailureOr<bool> isSmall = tryOrder(order);
  if (failed(isSmall) || !*isSmall)
    return failed(isSmall) ? failure() : success();
  rt::Timeline timeline;
  FailureOr<double> seconds = predictSeconds(timeline);
  if (succeeded(seconds))
    keepOrder(order, name, *seconds);
  return seconds;
}

/// Searches orders of one step and of steps behind each other.
LogicalResult Compilation::weighSearched(pipeline::ScheduleProblem &problem,
                                         const orders::Order &start) {
  pipeline::OrderSearchOptions search;
  search.starts.push_back(start);
  search.endsSearch = [this] { return endsSearch(); };
  for (auto objective :
       {pipeline::OrderObjective::Span, pipeline::OrderObjective::Makespan}) {
    problem.objective = objective;
    // Half of what is left, for the other one and for Programs.
    if (options.searchTimeLimit > 0)
      search.timeLimit =
          std::max(1e-3, (options.searchTimeLimit - deadline.getPassed()) / 2);
    pipeline::OrderSearchResult found = pipeline::searchOrder(problem, search);
    unordered.why = found.error;
    if (!found.order)
      return success();
    unordered.cost = found.cost;
    unordered.bound = found.lowerBound;
    if (failed(weighOrder(*found.order, "an order of its own")))
      return failure();
  }
  return success();
}

/// What is left of a limit is known by the Program alone: where it does not
/// fit, the search gets less.
LogicalResult Compilation::weighWithin(pipeline::ScheduleProblem &problem,
                                       const orders::Order &start) {
  const std::vector<double> limits = problem.limits;
  constexpr unsigned kMaxTries = 4;
  for (unsigned i = 0; i < kMaxTries; ++i) {
    if (failed(weighSearched(problem, start)))
      return failure();
    if (unordered.best || endsSearch() || deadline.isOver())
      break;
    for (double &room : problem.limits)
      room = std::max(0.0,
                      room - static_cast<double>(repeats.held - repeats.limit));
  }
  problem.limits = limits;
  return success();
}

/// Orders with a name that fit: what a step does behind its actions may decide.
LogicalResult
Compilation::weighNamed(const pipeline::ScheduleProblem &problem) {
  for (const orders::Schedule &schedule : orders::getSchedules()) {
    if (unordered.best && (endsSearch() || deadline.isOver()))
      return success();
    std::optional<orders::Order> order = placeOrder(problem, schedule.name);
    std::string why;
    if (order && measureOrder(problem, *order, "order", why) &&
        failed(weighOrder(*order, schedule.name)))
      return failure();
  }
  return success();
}

/// The problem that the Program shows, and the order that it has.
FailureOr<pipeline::ScheduleProblem>
Compilation::makeProblem(const rt::Timeline &timeline, orders::Order &start) {
  auto problem =
      makeOrderProblem(*module, timeline, pipe->accumulate, pipe->strands);
  std::string why;
  auto given = pipe->rows.empty()
                   ? placeOrder(problem, pipe->order)
                   : orders::parseOrder(pipe->rows, pipe->order, why);
  if (!given)
    return fail("order 'search' starts at " + pipe->order + ": " + why);
  start = std::move(*given);
  if (hasMemoryLimit())
    limitPoints(problem, start, program,
                getLimits(options, program.numRanks(), why));
  return why.empty() ? FailureOr<pipeline::ScheduleProblem>(problem)
                     : FailureOr<pipeline::ScheduleProblem>(fail(why));
}

/// Finds the order by what the Program of another one shows, and keeps the one
/// whose Program is predicted to be the fastest. False: no order fits, and the
/// step has to be planned again.
FailureOr<bool> Compilation::searchOrder() {
  std::optional<search::InterruptGuard> guard;
  if (options.takesInterrupts)
    guard.emplace();
  rt::Timeline timeline;
  orders::Order start;
  FailureOr<double> before = predictSeconds(timeline);
  FailureOr<std::string> excess = findExcess();
  if (failed(before) || failed(excess))
    return failure();
  int64_t held = repeats.held, limit = repeats.limit;
  auto problem = makeProblem(timeline, start);
  if (failed(problem))
    return failure();
  Pipe given = *pipe;
  std::string name =
      pipe->rows.empty() ? pipe->order : "one microbatch behind the other";
  unordered.tried.insert(orders::print(start));
  if (excess->empty())
    keepOrder(start, name, *before);
  if (failed(weighWithin(*problem, start)) || failed(weighNamed(*problem)))
    return failure();
  if (!unordered.best) {
    pipe = std::move(given);
    unordered = Unordered();
    repeats.excess = "order 'search': " + *excess + "; no order fits";
    std::tie(repeats.held, repeats.limit) = std::pair(held, limit);
    return planLess();
  }
  result.remarks.push_back(
      "remark: order search: " + unordered.name +
      ", a step is predicted to take " + cost::printSeconds(unordered.seconds) +
      ", " + cost::printSeconds(*before) + " by " + name +
      (excess->empty() ? "" : ", which does not fit") +
      (unordered.cost > 0
           ? "; the actions alone take " + cost::printSeconds(unordered.cost) +
                 ", no order less than " + cost::printSeconds(unordered.bound)
           : ""));
  FailureOr<bool> isMade = tryOrder(*unordered.best);
  if (succeeded(isMade))
    result.plan = replaceOrder(pipe->rows, result.plan);
  return isMade;
}

/// False: the step has to be planned again.
FailureOr<bool> Compilation::compileFrom(const Stage *first) {
  if (failed(runStages(first)))
    return failure();
  if (!options.stopAfter.empty())
    return true;
  FailureOr<bool> isDone = failure();
  if (succeeded(emit()))
    isDone = pipe && pipe->isSearched ? searchOrder() : fits();
  if (failed(isDone) || !*isDone)
    return isDone;
  tellSumPiece();
  return failed(addTimeline()) ? FailureOr<bool>(failure()) : true;
}

bool Compilation::run(std::string_view text, std::string_view name) {
  ProgramCache cache(text, name, options);
  if (failed(checkOptions()) || !cache.check(error))
    return false;
  if (find(cache))
    return true;
  result.seconds.clear();
  if (!make(text, name))
    return false;
  cache.store(result);
  return true;
}

bool Compilation::find(const ProgramCache &cache) {
  StageTimer timer(result, "cache");
  return cache.lookup(result);
}

bool Compilation::make(std::string_view text, std::string_view name) {
  if (failed(parse(text, name)))
    return false;
  if (failed(takeGivenPipe()) || failed(enter()))
    return false;
  const Stage *from = findStage(options.fromStage);
  const Stage *first = from ? from + 1 : getStages().begin();
  if (failed(keepSource(first)))
    return false;
  for (FailureOr<bool> isDone = compileFrom(first); failed(isDone) || !*isDone;
       isDone = compileFrom(first)) {
    if (failed(isDone) && !offerAgain()) {
      error = recompute.error.empty() ? error : recompute.error;
      return false;
    }
    first = findStage(failed(isDone) ? "import" : "plan");
  }
  return true;
}

bool Compilation::hash(std::string_view text, std::string_view name,
                       std::string &found) {
  if (failed(parse(text, name)))
    return false;
  auto step = module->lookupSymbol<func::FuncOp>("step");
  if (!step)
    return succeeded(fail("module has no function @step"));
  found = hashStep(step);
  return true;
}

bool Compilation::findTarget(rt::Target &target) {
  module = ModuleOp::create(UnknownLoc::get(context.get()));
  if (failed(nameDevice()))
    return false;
  target = getTarget(sched::getDevice(*module));
  return true;
}

bool findTarget(const CompileOptions &options, rt::Target &target,
                std::string &error) {
  CompiledProgram unused;
  Compilation compilation(options, unused);
  bool done = compilation.findTarget(target);
  error = compilation.getError();
  return done;
}

bool hashModule(std::string_view module, std::string_view name,
                std::string &hash, std::string &error) {
  CompileOptions options;
  CompiledProgram unused;
  Compilation compilation(options, unused);
  bool done = compilation.hash(module, name, hash);
  error = compilation.getError();
  return done;
}

/// Of what operators with the most FLOPs read.
static std::string findType(func::FuncOp step) {
  llvm::StringMap<double> flops;
  std::string most;
  step.walk([&](Operation *op) {
    auto type = op->getNumOperands() > 0
                    ? dyn_cast<RankedTensorType>(op->getOperand(0).getType())
                    : RankedTensorType();
    if (!type || !isa<FloatType>(type.getElementType()))
      return;
    std::string name;
    llvm::raw_string_ostream(name) << type.getElementType();
    flops[name] += getFlops(op);
    if (most.empty() || flops[name] > flops[most])
      most = name;
  });
  return most;
}

bool Compilation::listLayers(std::string_view text, std::string_view name,
                             int64_t number, StepLayers &found) {
  if (failed(checkOptions()) || failed(parse(text, name)) || failed(enter()) ||
      failed(runPasses(*findStage("import"))))
    return false;
  auto step = module->lookupSymbol<func::FuncOp>("step");
  found.layers = tandem::listLayers(step, number);
  if (std::string type = findType(step); !type.empty())
    found.type = std::move(type);
  double parameters = 0, states = 0;
  for (BlockArgument argument : step.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    DictionaryAttr attributes = step.getArgAttrDict(argument.getArgNumber());
    auto role = nn::getRole(attributes);
    if (!type || !role)
      continue;
    auto bytes = static_cast<double>(getBytes(type));
    if (auto dim = nn::getBatchDim(attributes); dim && found.rows == 0)
      found.rows = type.getDimSize(*dim);
    else if (*role == nn::Role::Parameter)
      parameters += bytes;
    else if (*role == nn::Role::State)
      states += bytes;
  }
  // Parameters, their gradients, and states.
  found.states = parameters > 0 ? 2 + states / parameters : 1;
  return true;
}

/// By the plan that was priced, which a search might not find again.
static bool compileChoice(std::string_view module, std::string_view name,
                          const LayoutChoice &choice, CompiledProgram &result,
                          std::string &error) {
  SmallString<128> path;
  if (llvm::sys::fs::createTemporaryFile("layout", "plan", path)) {
    error = "cannot write a plan into the folder for temporary files";
    return false;
  }
  llvm::FileRemover remover(path);
  if (!writeTextFile(path.str().str(), kPlanFile, choice.plan, error))
    return false;
  CompileOptions own = choice.options;
  own.planFile = path.str();
  for (std::string *text : {&own.mesh, &own.search, &own.preset, &own.order})
    text->clear();
  own.pins.clear();
  own.sections.clear();
  own.searchTimeLimit = 0;
  own.usesCache = false; // the whole choice is kept
  if (!StringRef(choice.plan).contains("\npipeline "))
    own.sumPiece = -1;
  if (!compile(module, name, own, result, error))
    return false;
  // What the plan costs was said when it was found.
  llvm::erase_if(result.remarks, [&](const std::string &remark) {
    return StringRef(remark).contains(path) ||
           llvm::is_contained(choice.remarks, remark);
  });
  result.remarks.insert(result.remarks.begin(), choice.remarks.begin(),
                        choice.remarks.end());
  return true;
}

/// The fastest layout, and then its Program. What explains the plan is that of
/// the layout, behind the table of layouts.
static bool compileFastest(std::string_view module, std::string_view name,
                           const CompileOptions &options,
                           CompiledProgram &result, std::string &error) {
  ProgramCache cache(module, name, options);
  if (!cache.check(error))
    return false;
  {
    StageTimer timer(result, "cache");
    if (cache.lookup(result))
      return true;
  }
  StepLayers step;
  {
    CompiledProgram unused;
    Compilation compilation(options, unused);
    // A pipeline of as many points as a cluster has nodes, with two sections.
    constexpr int64_t kLeastLayers = 8;
    if (!compilation.listLayers(module, name, kLeastLayers, step)) {
      error = compilation.getError();
      return false;
    }
  }
  auto choice = chooseLayout(module, name, options, step, error);
  if (!choice || !compileChoice(module, name, *choice, result, error))
    return false;
  result.layouts = llvm::join(choice->table, "\n") + "\n";
  std::vector<std::string> remarks;
  for (const std::string &line : choice->table)
    remarks.push_back("remark: " + line);
  if (options.explain)
    result.explanation = result.layouts + "\n" + result.explanation;
  else
    result.remarks.insert(result.remarks.begin(), remarks.begin(),
                          remarks.end());
  cache.store(result);
  return true;
}

bool compile(std::string_view module, std::string_view name,
             const CompileOptions &options, CompiledProgram &result,
             std::string &error) {
  result = CompiledProgram();
  if (weighsLayouts(options))
    return compileFastest(module, name, options, result, error);
  Compilation compilation(options, result);
  bool done = compilation.run(module, name);
  error = compilation.getError();
  return done;
}

} // namespace tandem
