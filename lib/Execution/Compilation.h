//===- Compilation.h - one compilation, from text to Program -------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Owns the context, the module and what is kept of it to plan again, to offer
// recomputation, or to try another order. Nothing here is public: callers use
// `compile` (tandem/Execution/Compile.h). Not thread-safe; an error is the
// first one, in one line.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXECUTION_COMPILATION_H
#define TANDEM_LIB_EXECUTION_COMPILATION_H

#include "Buckets.h"
#include "ChooseLayout.h"
#include "HostLimit.h"
#include "OrderProblem.h"
#include "Pipe.h"
#include "ProgramCache.h"
#include "SumPieces.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "tandem/Conversion/Emit/Emit.h"
#include "tandem/Execution/Compile.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Prediction/Prediction.h"
#include "tandem/Search/Pipeline/Deadline.h"
#include "tandem/Search/Watch.h"
#include "llvm/ADT/StringSet.h"
#include <chrono>
#include <memory>
#include <optional>
#include <set>

namespace tandem {

/// What is needed to import a step again, with an offer to make values again.
struct Recompute {
  /// The step in front of the stage import; null where nobody asks for it.
  mlir::OwningOpRef<mlir::ModuleOp> step;
  /// In front of the stage plan, with the offer that `module` lacks, or without
  /// the one that it has.
  mlir::OwningOpRef<mlir::ModuleOp> other;
  /// Whether the plan stage found no plan that fits, or had a file of `other`.
  bool lacksMemory = false, isOfOther = false;
  /// Whether values may wait on the host that no pin sends there, so that less
  /// may be offered; whether no pin says what lies there.
  bool mayWithdraw = false, competes = false;
  /// The pins that stages read, and those that would put states on the host,
  /// until they are tried.
  std::vector<std::string> pins, statePins;
  /// What users that allow nothing on the host may do; may be empty.
  std::string remedy;
  /// The most bytes of its host that a rank may take for values of the step.
  int64_t hostMemory = 0;
};

/// What is needed to plan a step again.
struct Repeats {
  /// The step in front of the stage plan; null where its plan is given.
  mlir::OwningOpRef<mlir::ModuleOp> step;
  /// Of the results, what was there then.
  size_t numRemarks = 0, numIR = 0;
  unsigned count = 0;
  /// Of the plan; of the Program that was made of it, and its limit; B.
  int64_t peak = 0, held = 0, limit = 0;
  /// What the Program before held, and by how much the plan's limit was lowered
  /// for this one; B.
  int64_t heldBefore = 0, lowered = 0;
  /// Of the plan, in s, how far that may be above the best, and its text
  /// without a pipeline.
  double cost = 0, gap = 0;
  std::string plan;
  /// Of the smallest plan that was found where none fits, B.
  int64_t smallest = 0;
  /// How many pins were tried, and the error before the first one.
  size_t numPinned = 0;
  std::string error;
  /// Of the first plan of a pipeline, B.
  int64_t first = 0;
  /// What the Program holds too much.
  std::string excess;
  /// Bytes of values, whole, that the plan sends to the host.
  int64_t sent = 0;
  /// The step in front of the stage schedule, and what the results had then.
  mlir::OwningOpRef<mlir::ModuleOp> duplexed;
  size_t numEarlyRemarks = 0, numEarlyIR = 0;
};

/// Of a pipeline whose actions are made again.
struct Unordered {
  /// The step in front of its actions.
  mlir::OwningOpRef<mlir::ModuleOp> step;
  size_t numIR = 0;
  /// Other orders have their sums in the pieces that were chosen for the first.
  bool isWeighed = false;
  /// The texts of orders whose Programs were made.
  std::set<std::string> tried;
  /// The one that is predicted to be the fastest.
  std::optional<orders::Order> best;
  double seconds = 0;
  std::string name;
  /// Of the last search: what the actions alone take, and what no order takes
  /// less than.
  double cost = 0, bound = 0;
};

/// Of a pipeline under a limit.
struct Joins {
  bool isAllowed = true;
  /// Of the Program without joined points: what it held, its limit and the peak
  /// of its plan, B, and what is too much.
  int64_t held = 0, limit = 0, peak = 0;
  std::string excess;
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
  mlir::LogicalResult checkOptions();
  bool isCancelled() const {
    return options.isCancelled && options.isCancelled();
  }
  /// Whether searches have to do with what they have.
  bool endsSearch() const {
    return isCancelled() ||
           (options.takesInterrupts && search::InterruptGuard::isInterrupted());
  }
  mlir::LogicalResult checkStages();
  mlir::LogicalResult checkCut();
  mlir::LogicalResult failNoSections();
  mlir::LogicalResult parse(std::string_view text, std::string_view name);
  mlir::LogicalResult nameDevice();
  mlir::LogicalResult enter();
  mlir::LogicalResult verifyExit(const Stage &stage);
  mlir::LogicalResult takeGivenPipe();
  bool mayHidePlan(const Stage *from) const;
  mlir::LogicalResult runStage(const Stage &stage);
  mlir::LogicalResult runStages(const Stage *first);
  bool isLast(const Stage &stage);
  mlir::LogicalResult emit();
  /// Bytes of each rank of a pipeline that has limits; else none.
  mlir::FailureOr<std::vector<int64_t>> getLimitsOfPipe();
  mlir::FailureOr<std::string> findExcess();
  mlir::LogicalResult addTimeline();
  mlir::FailureOr<bool> compileFrom(const Stage *first);
  mlir::LogicalResult outline();
  mlir::LogicalResult cutSums(llvm::ArrayRef<int64_t> limits);
  void tellSumPiece();
  int64_t countExcess(const EmittedProgram &emitted,
                      llvm::ArrayRef<int64_t> limits) const;
  mlir::LogicalResult runToEnd();
  mlir::LogicalResult lowerOthers();
  mlir::LogicalResult weighBucket(mlir::ModuleOp duplexed, BucketTrial &trial);
  mlir::FailureOr<int64_t> weighProgram(mlir::ModuleOp duplexed,
                                        BucketTrial &trial, bool isDraft);
  mlir::LogicalResult chooseBucket();
  void tellBucket();
  mlir::FailureOr<SimulationReport> simulate();
  mlir::FailureOr<bool> searchOrder();
  mlir::LogicalResult outlineAgain();
  mlir::FailureOr<bool> lowerAgain();
  mlir::FailureOr<bool> tryOrder(const orders::Order &order);
  void keepOrder(const orders::Order &order, llvm::StringRef name,
                 double seconds);
  mlir::LogicalResult weighOrder(const orders::Order &order,
                                 llvm::StringRef name);
  mlir::LogicalResult weighSearched(pipeline::ScheduleProblem &problem,
                                    const orders::Order &start);
  mlir::LogicalResult weighWithin(pipeline::ScheduleProblem &problem,
                                  const orders::Order &start);
  mlir::LogicalResult weighNamed(const pipeline::ScheduleProblem &problem);
  mlir::FailureOr<pipeline::ScheduleProblem>
  makeProblem(const rt::Timeline &timeline, orders::Order &start);
  mlir::LogicalResult fail(const llvm::Twine &message);
  void tell(llvm::StringRef what, size_t done = 0, size_t all = 0) const {
    if (options.progress)
      options.progress(what, done, all);
  }
  mlir::LogicalResult runPasses(const Stage &stage,
                                const PlanExchange &exchange = {});
  mlir::LogicalResult runPlan(const Stage &stage);
  bool isSearched() const;
  bool hasMemoryLimit() const;
  bool isGiven() const;
  mlir::LogicalResult keepSource(const Stage *first);
  std::string offerMore();
  bool offerAgain();
  void offer(const std::string &remark);
  std::string withdraw();
  bool complete(mlir::FailureOr<bool> isDone);
  std::string storeStates();
  bool tryOffer(const std::string &remark);
  void tryWithout();
  bool isBound() const;
  void tryOthers();
  mlir::ModuleOp getOtherOffer();
  void keepStep();
  void keepDuplexed();
  mlir::FailureOr<bool> fits();
  mlir::FailureOr<bool> waitForMemory();
  mlir::FailureOr<bool> joinPasses();
  void trySplit();
  bool tryOther(llvm::function_ref<bool()> make);
  double predictStep() const;
  mlir::FailureOr<bool> planLess();
  void noteExcess(int64_t bytes, const std::string &why);
  std::string describeTooLarge() const;
  void planAgain(int64_t limit);
  bool planSmallest();
  bool planPinned();
  void restart(const std::string &remark);
  mlir::FailureOr<bool> sendLess(const HostExcess &excess);
  int64_t getFirstLimit() const;
  int64_t getNextRung();
  int64_t getNextLimit();
  std::string describeHeld() const;
  std::string describeBuckets() const;
  void keepIR(llvm::StringRef stage);
  std::string getPlace(mlir::Location location) const;
  void diagnose(mlir::Diagnostic &diagnostic);

  const CompileOptions &options;
  /// What stages read: the limit of memory is lowered to plan again.
  Options ofStages;
  /// What the pins say of sections, taken out of what stages read.
  std::optional<Pipe> pipe;
  /// Of a pipeline's Program, where a size was chosen.
  std::optional<SumPiece> sumPiece;
  /// Of updates on the host, where a size was chosen.
  std::optional<BucketChoice> bucket;
  /// Actions that stages leave as they are.
  llvm::StringSet<> skipped;
  CompiledProgram &result;
  mlir::DialectRegistry registry;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  rt::Program program;
  Recompute recompute;
  Repeats repeats;
  Unordered unordered;
  Joins joins;
  /// Whether the plan was all that was wanted.
  bool endsWithPlan = false;
  /// Of all searches together.
  pipeline::Deadline deadline;
  /// Of the module and its step, in a text that users rarely see.
  mlir::SmallVector<mlir::Location> wholes;
  std::string error;
  /// Of what was made or planned, why that which exceeds a limit least does not
  /// fit: by `result.excess`.
  std::string nearest;
};

/// Adds the seconds of its life to a result; those of a stage that runs again
/// add up.
class StageTimer {
public:
  StageTimer(CompiledProgram &result, llvm::StringRef stage)
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
  llvm::StringRef stage;
  Clock::time_point begin;
};

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_COMPILATION_H
