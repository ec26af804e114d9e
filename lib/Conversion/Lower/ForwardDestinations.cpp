//===- ForwardDestinations.cpp - results in place of copies ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandOrder.h"
#include "Steps.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/SPMD/MeshText.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_FORWARDDESTINATIONS
#include "tandem/Conversion/Lower/Passes.h.inc"

namespace {
/// Decides about one copy after the other, on the uses as they are then.
class Forwarder {
public:
  explicit Forwarder(func::FuncOp function)
      : order(function), accesses(getAccesses(order)) {
    for (auto check : function.getOps<sched::CheckOp>())
      checks.push_back(check);
    isAction =
        function->getParentOfType<ModuleOp>()->hasAttr(spmd::kOrderAttrName);
  }
  /// Removes the copy, if that is right.
  void forward(sched::CopyOp copy);

private:
  bool isSafe(sched::CopyOp copy, const BufferRange &source,
              const BufferRange &destination);
  bool mayShare(const Access &source, const Access &destination);
  bool mayWriteArgument(const Access &access);

  CommandOrder order;
  llvm::DenseMap<Value, SmallVector<Access>> accesses;
  SmallVector<sched::CheckOp> checks;
  /// Of one point of a pipeline, whose checks may be on another.
  bool isAction = false;
  SymbolTableCollection symbols;
};
} // namespace

/// Whether one command may use both buffers when they are the same: one read
/// and the other written, element by element.
bool Forwarder::mayShare(const Access &source, const Access &destination) {
  if (!source.isWrite || destination.isWrite)
    return false;
  if (auto collective = dyn_cast<sched::CollectiveOp>(source.command))
    return collective.getKind() == sched::CollectiveKind::AllReduce;
  auto launch = dyn_cast<sched::LaunchOp>(source.command);
  if (!launch)
    return false;
  auto kernel = symbols.lookupNearestSymbolFrom<func::FuncOp>(
      launch, launch.getKernelAttr());
  for (auto [i, input] : llvm::enumerate(launch.getInputs()))
    for (auto [j, output] : llvm::enumerate(launch.getOutputs()))
      if (getRange(input).overlaps(destination.range) &&
          getRange(output).overlaps(source.range))
        if (!mayAlias(kernel, i, j))
          return false;
  return true;
}

/// A step that is stopped leaves its arguments as they were. What all points
/// sum may be what another point checks.
bool Forwarder::mayWriteArgument(const Access &access) {
  auto collective = dyn_cast<sched::CollectiveOp>(access.command);
  if (isAction && collective &&
      collective.getKind() == sched::CollectiveKind::AllReduce)
    return false;
  return llvm::all_of(checks, [&](sched::CheckOp check) {
    return order.happensBefore(check, access.command);
  });
}

bool Forwarder::isSafe(sched::CopyOp copy, const BufferRange &source,
                       const BufferRange &destination) {
  bool isArgument = isa<BlockArgument>(destination.root);
  for (const Access &mine : accesses[source.root]) {
    if (mine.command == copy)
      continue;
    if (!order.happensBefore(mine.command, copy) ||
        (isArgument && mine.isWrite && !mayWriteArgument(mine)))
      return false;
    for (const Access &other : accesses[destination.root]) {
      if (other.command == copy || !other.range.overlaps(destination) ||
          order.happensBefore(copy, other.command))
        continue;
      if (mine.command == other.command) {
        if (!(other.range == destination) || !mayShare(mine, other))
          return false;
      } else if (!order.happensBefore(other.command, mine.command)) {
        return false;
      }
    }
  }
  return true;
}

/// Moves the root of `buffer` and the views in between to the beginning.
static void hoist(Value buffer, Block &block) {
  SmallVector<Operation *> chain;
  for (Operation *op = buffer.getDefiningOp(); op;
       op = op->getNumOperands() ? op->getOperand(0).getDefiningOp() : nullptr)
    chain.push_back(op);
  for (Operation *op : chain)
    op->moveBefore(&block, block.begin());
}

void Forwarder::forward(sched::CopyOp copy) {
  // Between device and host.
  if (copy.getQueue().getRole() == sched::QueueRole::Copy)
    return;
  auto alloc = copy.getSource().getDefiningOp<sched::AllocOp>();
  Value view = copy.getSource();
  while (auto op = view.getDefiningOp<sched::ViewOp>())
    view = op.getSource();
  if (!alloc)
    alloc = view.getDefiningOp<sched::AllocOp>();
  BufferRange destination = getRange(copy.getDestination());
  if (!alloc || destination.root == alloc.getBuffer())
    return;
  BufferRange source = getRange(copy.getSource());
  // A part that starts where the rank's coordinate says has the whole range.
  bool isPart = cast<MemRefType>(copy.getSource().getType()).getNumElements() !=
                alloc.getBuffer().getType().getNumElements();
  if (isPart || !(source == getRange(alloc.getBuffer())) ||
      !isSafe(copy, source, destination))
    return;
  hoist(copy.getDestination(), *copy->getBlock());
  Value place = copy.getDestination();
  if (place.getType() != alloc.getBuffer().getType()) {
    OpBuilder builder(alloc);
    builder.setInsertionPointToStart(copy->getBlock());
    if (Operation *op = place.getDefiningOp())
      builder.setInsertionPointAfter(op);
    place =
        sched::ViewOp::create(builder, alloc.getLoc(), alloc.getType(), place,
                              0, builder.getArrayAttr({}), ArrayRef<int64_t>());
  }
  // The uses of the source are now uses of the destination.
  auto &moved = accesses[destination.root];
  llvm::erase_if(moved, [&](const Access &a) { return a.command == copy; });
  for (Access access : accesses[source.root]) {
    if (access.command == copy)
      continue;
    access.range = {destination.root, access.range.begin + destination.begin,
                    access.range.end + destination.begin};
    moved.push_back(access);
  }
  accesses.erase(source.root);
  alloc.getBuffer().replaceAllUsesWith(place);
  alloc.erase();
  copy.erase();
}

namespace {
struct ForwardDestinationsPass
    : impl::ForwardDestinationsBase<ForwardDestinationsPass> {
  void runOnOperation() override {
    func::FuncOp function = getStepFunction(getOperation());
    if (!function || failed(verifyCommands(function)))
      return signalPassFailure();
    Forwarder forwarder(function);
    for (auto copy :
         llvm::make_early_inc_range(function.getOps<sched::CopyOp>()))
      forwarder.forward(copy);
  }
};
} // namespace

} // namespace tandem::lower
