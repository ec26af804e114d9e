//===- CopyHost.cpp - copies of what lies on the host ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueueClock.h"
#include "tandem/Device/HostSpace.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Dialect/Sched/Host.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace tandem {
#define GEN_PASS_DEF_COPYHOSTPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using sched::StepOp;

namespace {
class HostCopier {
public:
  explicit HostCopier(func::FuncOp step)
      : step(step), builder(step.getContext()) {}
  LogicalResult run();

private:
  using Reads = SmallVector<OpOperand *>;

  void fetch(StepOp reader);
  LogicalResult send();
  LogicalResult findSent(unsigned result, llvm::MapVector<StepOp, Reads> &sent);
  template <typename CopyT>
  StepOp createStep(StepOp beside, unsigned queue, ArrayRef<Value> values);

  func::FuncOp step;
  OpBuilder builder;
  /// What a pass has fetched, of each argument.
  llvm::DenseMap<Value, std::map<std::optional<nn::PassKind>, Value>> fetched;
};

struct CopyHostPass : tandem::impl::CopyHostPassBase<CopyHostPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<sched::SchedDialect>();
  }
  void runOnOperation() override;
};
} // namespace

static bool isOnQueue(StepOp step, sched::QueueRole role) {
  return step.getQueue().getRole() == role;
}

/// A step that copies `values`, in the slot of the step beside it.
template <typename CopyT>
StepOp HostCopier::createStep(StepOp beside, unsigned queue,
                              ArrayRef<Value> values) {
  MLIRContext *context = builder.getContext();
  Location loc = values.front().getLoc();
  auto made = StepOp::create(
      builder, loc, ValueRange(values).getTypes(),
      sched::EventType::get(context), sched::getCopyQueue(context, queue),
      beside.getStage(), beside.getStrand(), ValueRange());
  setLoopOf(made, beside);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&made.getBody());
  SmallVector<Value> copies;
  for (Value value : values)
    copies.push_back(
        CopyT::create(builder, value.getLoc(), value.getType(), value));
  sched::YieldOp::create(builder, loc, copies);
  return made;
}

/// In front of the step that is the first of its pass to read it. A pass does
/// not hold what only another one reads.
void HostCopier::fetch(StepOp reader) {
  llvm::MapVector<Value, Reads> uses;
  for (Operation &op : reader.getBody().front())
    for (OpOperand &use : op.getOpOperands())
      if (isOnHost(step, use.get()))
        uses[use.get()].push_back(&use);
  auto getCopy = [&](Value argument, const Reads &reads) -> Value & {
    return fetched[argument][nn::getPass(reads.front()->getOwner())];
  };
  SmallVector<Value> missing;
  for (auto &[argument, reads] : uses)
    if (!getCopy(argument, reads))
      missing.push_back(argument);
  if (!missing.empty()) {
    builder.setInsertionPoint(reader);
    StepOp copies =
        createStep<sched::FromHostOp>(reader, sched::kFromHostQueue, missing);
    for (auto [argument, copy] : llvm::zip_equal(missing, copies.getValues()))
      getCopy(argument, uses[argument]) = copy;
  }
  for (auto &[argument, reads] : uses)
    for (OpOperand *use : reads)
      use->set(getCopy(argument, reads));
}

/// The new value of an argument on the host, by the step that makes it.
LogicalResult HostCopier::findSent(unsigned result,
                                   llvm::MapVector<StepOp, Reads> &sent) {
  auto updated = nn::getUpdates(step.getResultAttrDict(result));
  OpOperand &use = step.getBody().front().getTerminator()->getOpOperand(result);
  if (!updated || !isOnHost(step, *updated) ||
      use.get() == step.getArgument(*updated))
    return success();
  auto maker = use.get().getDefiningOp<StepOp>();
  if (!maker)
    return step.emitError()
           << "result " << result << " is an argument, and the new value of "
           << "argument " << *updated
           << ", which lies on the host: expected what the step makes";
  sent[maker].push_back(&use);
  return success();
}

LogicalResult HostCopier::send() {
  llvm::MapVector<StepOp, Reads> sent;
  for (unsigned i = 0; i < step.getNumResults(); ++i)
    if (failed(findSent(i, sent)))
      return failure();
  for (auto &[maker, uses] : sent) {
    builder.setInsertionPointAfter(maker);
    SmallVector<Value> values;
    for (OpOperand *use : uses)
      values.push_back(use->get());
    StepOp copies =
        createStep<sched::ToHostOp>(maker, sched::kToHostQueue, values);
    for (auto [use, value] : llvm::zip_equal(uses, copies.getValues()))
      use->set(value);
  }
  return success();
}

LogicalResult HostCopier::run() {
  SmallVector<StepOp> steps(step.getBody().front().getOps<StepOp>());
  for (StepOp reader : steps)
    if (!isOnQueue(reader, sched::QueueRole::Copy))
      fetch(reader);
  return send();
}

/// The module's queues, and one for each direction of copies.
static void addQueues(ModuleOp module) {
  sched::Queues known(module);
  SmallVector<Attribute> queues;
  for (unsigned i = 0; i < known.size(); ++i)
    queues.push_back(known[i]);
  for (unsigned number : {sched::kFromHostQueue, sched::kToHostQueue})
    if (auto queue = sched::getCopyQueue(module.getContext(), number);
        !known.contains(queue))
      queues.push_back(queue);
  module->setAttr(sched::kQueuesAttrName,
                  ArrayAttr::get(module.getContext(), queues));
}

/// What a fetch is moved in front of: the computation before it, but nothing
/// that makes what it copies.
static Operation *findEarlier(StepOp fetch) {
  for (Operation *op = fetch->getPrevNode(); op; op = op->getPrevNode()) {
    auto step = cast<StepOp>(op);
    if (spmd::getLoop(step) != spmd::getLoop(fetch) ||
        llvm::is_contained(getReadSteps(fetch), step))
      return nullptr;
    if (isOnQueue(step, sched::QueueRole::Compute))
      return step;
  }
  return nullptr;
}

/// Whether it copies parameters alone: what else waits on the host begins to
/// come back where the text says.
static bool fetchesArguments(StepOp fetch) {
  return llvm::all_of(
      fetch.getBody().front().without_terminator(),
      [](Operation &copy) { return isa<BlockArgument>(copy.getOperand(0)); });
}

/// Parameters come beside the computation before their reader.
static void fetchEarly(func::FuncOp function) {
  sched::QueueAttr queue =
      sched::getCopyQueue(function.getContext(), sched::kFromHostQueue);
  for (StepOp step :
       llvm::make_early_inc_range(function.getBody().front().getOps<StepOp>()))
    if (step.getQueue() == queue && fetchesArguments(step))
      if (Operation *earlier = findEarlier(step))
        step->moveBefore(earlier);
}

static bool hasCopies(func::FuncOp function) {
  return hasHostArguments(function) ||
         llvm::any_of(function.getOps<StepOp>(), [](StepOp step) {
           return isOnQueue(step, sched::QueueRole::Copy);
         });
}

void CopyHostPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step || step.isExternal() || !hasCopies(step))
    return;
  const Device &device = sched::getDevice(module);
  if (!findHostSpace(device)) {
    step.emitError() << "values lie on the host, which device '" << device.name
                     << "' does not copy from";
    return signalPassFailure();
  }
  addQueues(module);
  fetchEarly(step);
  if (failed(HostCopier(step).run()))
    signalPassFailure();
}
