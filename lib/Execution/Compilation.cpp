//===- Compilation.cpp - one compilation, from text to Program -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compilation.h"
#include "PipeLines.h"
#include "StageOf.h"
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
#include "tandem/Support/FoldLines.h"
#include "tandem/Support/TextFile.h"
#include "tandem_rt/model_facts.h"

using namespace mlir;

namespace tandem {

Compilation::Compilation(const CompileOptions &options, CompiledProgram &result)
    : options(options), ofStages(options), result(result),
      deadline(options.searchTimeLimit, [this] { return endsSearch(); }) {
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
  if (options.fromStage.empty())
    return success();
  if (!given)
    return options.sumPiece < 0 ? success() : failNoSections();
  if (options.micro > 1)
    return fail("micro is " + Twine(options.micro) +
                ", but the microbatches of a pipeline are those of the stage "
                "accumulate, which the module has left, expected none");
  pipe = std::move(given);
  pipe->sumPiece = options.sumPiece;
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
    addPassesBefore(manager, *pipe, stage.name, options.cluster);
  addStage(manager, stage, ofStages, exchange);
  bool isOrdered = pipe && (pipe->isSearched || hasMemoryLimit()) &&
                   stage.name == "localize";
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
      if (!skipped.contains(*action.getName()) && failed(manager.run(action)))
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
    repeats.smallest = exchange.result->smallestPeak;
    // Of a repeat another limit is too small, and of fewer offers a bound.
    bool isBound = repeats.smallest == 0 && !nearest.empty();
    if (recompute.lacksMemory && repeats.count == 0 && !exchange.mayOffer &&
        !isBound)
      noteExcess(exchange.result->excess, error);
    return failure();
  }
  PlanResult &found = *exchange.result;
  repeats.peak = found.peak;
  repeats.cost = found.cost;
  repeats.gap = found.gap;
  repeats.sent = countSent(module->lookupSymbol<func::FuncOp>("step"));
  // Of the Program, whatever its plan is held to.
  if (repeats.limit > 0 && !pipe)
    setInteger(*module, spmd::kMemoryAttrName, repeats.limit);
  repeats.plan = std::move(found.text);
  result.plan = pipe ? addPipe(*pipe, *module, repeats.plan) : repeats.plan;
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
  if (stage.name == "schedule") {
    keepDuplexed();
    if (failed(chooseBucket()))
      return failure();
  }
  if (failed(stage.name == "plan" ? runPlan(stage) : runPasses(stage)))
    return fail("stage " + stage.name + " failed");
  keepIR(stage.name);
  return success();
}

bool Compilation::isLast(const Stage &stage) {
  if (stage.name == "plan" && options.isPlanEnough)
    endsWithPlan = options.isPlanEnough();
  return endsWithPlan || stage.name == options.stopAfter;
}

LogicalResult Compilation::runStages(const Stage *first) {
  for (const Stage &stage : llvm::make_range(first, getStages().end())) {
    if (stage.name == "plan")
      keepStep();
    if (failed(runStage(stage)))
      return failure();
    if (isLast(stage))
      break;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The way from text to Program
//===----------------------------------------------------------------------===//

LogicalResult Compilation::emit() {
  StageTimer timer(result, "emit");
  EmitOptions emitOptions;
  emitOptions.kernels.progress = [this](size_t done, size_t all) {
    tell("kernels", done, all);
    return !isCancelled();
  };
  FailureOr<std::vector<int64_t>> limits = getLimitsOfPipe();
  if (failed(limits))
    return failure();
  emitOptions.limits = std::move(*limits);
  FailureOr<EmittedProgram> emitted = emitProgram(*module, emitOptions);
  if (failed(emitted))
    return fail("stage emit failed");
  program = std::move(emitted->program);
  result.bytes = std::move(emitted->bytes);
  repeats.held = emitted->heldBytes;
  return pipe ? cutSums(emitOptions.limits) : success();
}

/// By rank; without limits everything does.
static bool holdsAtMost(const rt::Program &program, ArrayRef<int64_t> limits) {
  for (auto [rank, limit] : llvm::enumerate(limits))
    if (rt::heldBytes(program, rank) > limit)
      return false;
  return true;
}

/// Into pieces of the size that is given, or else of that which is predicted to
/// be best.
LogicalResult Compilation::cutSums(ArrayRef<int64_t> limits) {
  int64_t bytes = pipe->sumPiece;
  if (!unordered.isWeighed)
    sumPiece.reset();
  if (!hasSums(program))
    return success();
  if (bytes < 0 && options.triesSizes && !unordered.isWeighed) {
    std::string why;
    sumPiece = chooseSumPiece(
        program, options.cluster, [this] { return endsSearch(); },
        [&](const rt::Program &cut) { return holdsAtMost(cut, limits); }, why);
    if (!why.empty())
      return fail(why);
  }
  if (bytes < 0)
    bytes = sumPiece ? sumPiece->bytes : 0;
  program = tandem::cutSums(program, bytes);
  if (rt::Status status = rt::verifyProgram(program); !status.ok())
    return fail("internal error: pieces of sums: " + status.message());
  std::span whole(reinterpret_cast<const uint8_t *>(result.bytes.data()),
                  result.bytes.size());
  auto facts = rt::readModelFacts(whole);
  if (!facts.ok())
    return fail("internal error: " + facts.status().message());
  rt::Bytes made = rt::serializeProgram(program, *facts);
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

//===----------------------------------------------------------------------===//
// Buckets
//===----------------------------------------------------------------------===//

/// Bytes over the limit of the rank that exceeds its own most; 0: all fit.
int64_t Compilation::countExcess(const EmittedProgram &emitted,
                                 ArrayRef<int64_t> limits) const {
  int64_t excess = 0;
  for (auto [rank, limit] : llvm::enumerate(limits))
    excess = std::max(excess, rt::heldBytes(emitted.program, rank) - limit);
  ModuleOp planned = module.get();
  auto limit = getInteger(planned, spmd::kMemoryAttrName);
  return limit && !pipe ? std::max<int64_t>(0, emitted.heldBytes - *limit)
                        : excess;
}

/// From the stage schedule on.
LogicalResult Compilation::runToEnd() {
  for (const Stage *stage = findStage("schedule"); stage != getStages().end();
       ++stage)
    if (failed(runPasses(*stage)))
      return failure();
  return success();
}

/// Actions of a pipeline that have no buckets are equal in all trials.
LogicalResult Compilation::lowerOthers() {
  llvm::StringSet<> others;
  for (ModuleOp action : module->getOps<ModuleOp>())
    (countStored(action) > 0 ? skipped : others).insert(*action.getName());
  LogicalResult isMade = pipe ? runToEnd() : success();
  skipped = std::move(others);
  return isMade;
}

/// Schedules and lowers the step with this size, and simulates it. A draft is
/// too large by its gaps at most: such a one is made as it will be.
LogicalResult Compilation::weighBucket(ModuleOp duplexed, BucketTrial &trial) {
  constexpr double kMostGaps = 0.05;
  ofStages.bucket = trial.bytes;
  ofStages.largestFirst = trial.largestFirst;
  FailureOr<int64_t> held = weighProgram(duplexed, trial, /*isDraft=*/true);
  if (succeeded(held) && trial.excess > 0 &&
      static_cast<double>(trial.excess) <= kMostGaps * double(*held))
    held = weighProgram(duplexed, trial, /*isDraft=*/false);
  return held;
}

/// Returns what it holds; B.
FailureOr<int64_t> Compilation::weighProgram(ModuleOp duplexed,
                                             BucketTrial &trial, bool isDraft) {
  module = duplexed.clone();
  if (isDraft)
    module->walk([](ModuleOp each) {
      each->setAttr(sched::kDraftAttrName, UnitAttr::get(each.getContext()));
    });
  if (failed(runToEnd()))
    return failure();
  FailureOr<std::vector<int64_t>> limits = getLimitsOfPipe();
  if (failed(limits))
    return failure();
  EmitOptions emitOptions;
  emitOptions.limits = *limits;
  emitOptions.namesKernels = true;
  FailureOr<EmittedProgram> emitted = emitProgram(*module, emitOptions);
  if (failed(emitted))
    return failure();
  auto report = simulateMade(emitted->bytes, options.cluster);
  if (!report.ok())
    return failure();
  trial.seconds = report->seconds;
  trial.excess = countExcess(*emitted, *limits);
  trial.held = countBuckets(emitted->program);
  return emitted->heldBytes;
}

/// In front of the stage schedule. What a trial reports the stage will report,
/// too. Orders that a search weighs have the size of the first one; that which
/// it takes has one of its own.
LogicalResult Compilation::chooseBucket() {
  int64_t stored = countStored(*module);
  if (options.bucket >= 0 && stored == 0)
    return fail("bucket is " + Twine(options.bucket) +
                ", but nothing that is updated lies on the host, expected a "
                "pin ':host', or no bucket");
  if (options.bucket >= 0 || !options.triesSizes || unordered.isWeighed)
    return success();
  bucket.reset();
  if (stored == 0)
    return success();
  ScopedDiagnosticHandler silent(context.get(),
                                 [](Diagnostic &) { return success(); });
  std::string before = error;
  OwningOpRef<ModuleOp> duplexed = module->clone();
  if (succeeded(lowerOthers())) {
    OwningOpRef<ModuleOp> lowered = std::move(module);
    bucket = tandem::chooseBucket(
        stored, pipe ? BucketEffort::Little : BucketEffort::Thorough,
        [&](BucketTrial &trial) { return weighBucket(*lowered, trial); },
        [this] { return endsSearch(); });
  }
  skipped.clear();
  module = std::move(duplexed);
  error = before;
  ofStages.bucket = bucket ? bucket->best.bytes : -1;
  ofStages.largestFirst = bucket && bucket->best.largestFirst;
  return success();
}

void Compilation::tellBucket() {
  if (!bucket)
    return;
  result.remarks.push_back("remark: " + bucket->why);
  if (!result.explanation.empty())
    result.explanation += "\n" + bucket->why + "\n";
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

/// False: the step has to be planned again.
FailureOr<bool> Compilation::compileFrom(const Stage *first) {
  // The first interrupt ends the searches of plan and order.
  std::optional<search::InterruptGuard> guard;
  if (options.takesInterrupts && pipe && pipe->isSearched)
    guard.emplace();
  if (failed(runStages(first)))
    return planSmallest() || planPinned() ? FailureOr<bool>(false)
                                          : FailureOr<bool>(failure());
  if (endsWithPlan || !options.stopAfter.empty())
    return true;
  FailureOr<bool> isDone = failure();
  if (succeeded(emit()))
    isDone = pipe && pipe->isSearched ? searchOrder() : fits();
  if (failed(isDone) && planPinned())
    return false;
  if (failed(isDone) || !*isDone)
    return isDone;
  tellSumPiece();
  tellBucket();
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
  if (!complete(compileFrom(first))) {
    if (recompute.lacksMemory)
      error += recompute.remedy;
    return false;
  }
  tryOthers();
  trySplit();
  return true;
}

/// Plans again, with more that may be chosen of, until a Program fits.
bool Compilation::complete(FailureOr<bool> isDone) {
  while (failed(isDone) || !*isDone) {
    if (failed(isDone) && !offerAgain()) {
      error = nearest.empty() ? error : nearest;
      return false;
    }
    isDone = compileFrom(findStage(failed(isDone) ? "import" : "plan"));
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

} // namespace tandem
