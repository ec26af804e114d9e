//===- Plan.h - the plan stage ----------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Plan decides how every tensor of a training step is split on a mesh. It
// changes no operator and no type; it writes
//
//  * `spmd.mesh` on the module, with a time axis `micro` if there are several
//    microbatches; `spmd.memory`, if there is a limit and the plan fits;
//  * `spmd.plan` (Planned.h) on each operator with one signature per axis, in
//    mesh order, or `as_wanted`; on arguments and results that are not `full`
//    everywhere; of a search also stages, copies and what waits; if asked for
//    seconds and, on the module, prices.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_PLAN_PLAN_H
#define TANDEM_TRANSFORMS_PLAN_PLAN_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "tandem/Transforms/PassOptions.h"
#include <limits>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tandem {

/// What a pin says of a value in place of forms: the backward pass makes it
/// again.
inline constexpr llvm::StringLiteral kAgainPin = "again";
/// Whether the pin `NAME:...` says so.
inline bool asksAgain(llvm::StringRef pin) {
  return pin.rsplit(':').second.trim() == kAgainPin;
}

/// What a pin says in place of forms: states lie in the host's memory, values
/// wait there for the backward pass.
inline constexpr llvm::StringLiteral kHostPin = "host";
inline bool asksHost(llvm::StringRef pin) {
  return pin.rsplit(':').second.trim() == kHostPin;
}
/// In front of the names of parameters that lie there between steps: without it
/// a pin with their names is one on what is made with them.
inline constexpr llvm::StringLiteral kParameterPin = "parameter:";
/// Whether the pin asks that the parameter with these attributes lies there.
bool asksToStore(mlir::DictionaryAttr parameter, llvm::StringRef pin);
/// Whether the pin asks that values of the step wait there: it names more than
/// states and stored parameters.
bool asksToSend(mlir::func::FuncOp step, llvm::StringRef pin);

/// What the stage says beside the IR that it writes.
struct PlanResult {
  /// The plan as the text of a plan file.
  std::string text;
  /// What a device holds of it at its peak, in bytes; 0 without a price.
  int64_t peak = 0;
  /// Of a step, in s; 0 without a price.
  double cost = 0;
  /// By how much at most that is above the best, as a share of it; 0 where it
  /// is proven to be the best.
  double gap = 0;
  /// Why it is as it is, for people and as JSON (tandem/Explain/Explain.h).
  std::string explanation, explanationJson;
  /// Whether no plan was found since none fits into the memory.
  bool lacksMemory = false;
  /// Then, of a search, the peak of the smallest plan that it found, in bytes;
  /// 0 where that is not known.
  int64_t smallestPeak = 0;
  /// By how much that plan, or else what every plan holds at least, exceeds the
  /// limit, in bytes; the most where that is not known.
  int64_t excess = std::numeric_limits<int64_t>::max();
  /// Whether none was made since the plan file, or the start, is of the step of
  /// `PlanExchange::getOtherOffer`.
  bool isOfOther = false;
  /// Where it differs from another plan.
  std::string comparison;
};

/// What a caller and the stage tell each other.
struct PlanExchange {
  /// Filled when the stage has run; whoever holds it may outlive the pass.
  std::shared_ptr<PlanResult> result = std::make_shared<PlanResult>();
  /// Asked while a search goes on: true ends it with the best plan so far.
  std::function<bool()> endsSearch;
  /// Asked for the same step with an offer to make values again, if this one
  /// has none, or else without, for plan files of that one. May be null, or
  /// give null. The caller keeps the module.
  std::function<mlir::ModuleOp()> getOtherOffer;
  /// Whether the step is planned with that offer where no plan fits without.
  bool mayOffer = false;
};

struct PlanOptions : mlir::PassPipelineOptions<PlanOptions> {
  PlanOptions() = default;
#define TANDEM_PLAN_OPTION TANDEM_PASS_OPTION
#include "tandem/Support/Options.def"
  Option<std::string> timeAxis{
      *this, "time-axis",
      llvm::cl::desc("The name of the axis of microbatches."),
      llvm::cl::init("micro")};
  Option<std::string> output{*this, "output",
                             llvm::cl::desc("Writes the plan to this file."),
                             llvm::cl::init("")};
  PlanExchange exchange;

  void take(const Options &options){
#define TANDEM_PLAN_OPTION TANDEM_TAKE_OPTION
#include "tandem/Support/Options.def"
  } /// The preset that is given, or the default.
  llvm::StringRef getPreset() const {
    return preset.empty() ? llvm::StringRef(kDefaultPreset)
                          : llvm::StringRef(preset);
  }
};

/// Plans by the options. A plan file brings its own mesh and number of
/// microbatches; naming another mesh beside it is an error.
std::unique_ptr<mlir::Pass> createPlanPass(const PlanOptions &options);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Transforms/Plan/Passes.h.inc"

/// The stage.
void buildPlanPipeline(mlir::OpPassManager &manager,
                       const PlanOptions &options);

/// Prints how a planned module (after `plan`, before `shard`) is split:
/// parameters and activations by form, collectives by kind with bytes,
/// operators computed whole on every rank of an axis though they could be
/// split, parameters that do not divide, and operators where strands join.
void printPlanTable(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_PLAN_PLAN_H
