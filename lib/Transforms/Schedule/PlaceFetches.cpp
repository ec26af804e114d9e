//===- PlaceFetches.cpp - where parameters are fetched --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlaceFetches.h"
#include "mlir/IR/IRMapping.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tandem;

namespace {
/// Operators between copies that are not of arguments.
class Run {
public:
  Run(ArrayRef<Operation *> ops, const FusionLimits &limits);
  /// Writes them, and in between the `fetches` that they read and that are not
  /// in `placed`.
  void write(const llvm::SetVector<Operation *> &fetches,
             llvm::SetVector<Operation *> &placed) const;

private:
  void formGroups(const llvm::SetVector<Operation *> &own,
                  const FusionLimits &limits);
  void addGroup(ArrayRef<Operation *> members, bool isLibrary);
  void clone(Operation *op);

  ArrayRef<Operation *> ops;
  OpBuilder builder;
  IRMapping map;
  llvm::DenseMap<Operation *, Operation *> originals; ///< by their clones
  std::vector<SmallVector<Operation *>> groups;
  llvm::DenseSet<size_t> libraries; ///< of the groups
};
} // namespace

/// Sources are made again in the step that reads them.
void Run::clone(Operation *op) {
  for (Value operand : op->getOperands())
    if (Operation *maker = operand.getDefiningOp();
        maker && spmd::isSource(maker) && !map.contains(operand))
      clone(maker);
  originals[builder.clone(*op, map)] = op;
}

void Run::addGroup(ArrayRef<Operation *> members, bool isLibrary) {
  if (isLibrary)
    libraries.insert(groups.size());
  groups.emplace_back(members);
}

/// As one step, for the time being.
void Run::formGroups(const llvm::SetVector<Operation *> &own,
                     const FusionLimits &limits) {
  SmallVector<Value> read;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !own.contains(user); }))
        read.push_back(result);
  MLIRContext *context = builder.getContext();
  Location loc = ops.front()->getLoc();
  auto step = sched::StepOp::create(
      builder, loc, ValueRange(read).getTypes(), sched::EventType::get(context),
      sched::QueueAttr::get(context, sched::QueueRole::Compute, 0), 0, 0,
      ValueRange());
  Block *body = builder.createBlock(&step.getBody());
  for (Operation *op : ops)
    clone(op);
  for (Value &value : read)
    value = map.lookup(value);
  sched::YieldOp::create(builder, loc, read);
  for (const FusionGroup &group : formFusionGroups(*body, limits)) {
    SmallVector<Operation *> members;
    for (Operation *op : group.ops)
      members.push_back(originals.lookup(op));
    addGroup(members, group.kind == FusionGroup::Kind::Library);
  }
  step.erase();
}

Run::Run(ArrayRef<Operation *> ops, const FusionLimits &limits)
    : ops(ops), builder(ops.front()->getBlock()->getTerminator()) {
  llvm::SetVector<Operation *> own(ops.begin(), ops.end());
  formGroups(own, limits);
  for (ArrayRef<Operation *> group : groups)
    for (Operation *op : group)
      own.remove(op);
  if (own.empty())
    return;
  // What is in no group may be anywhere: the order of the text stays.
  groups.clear();
  libraries.clear();
  for (Operation *op : ops)
    addGroup(op, isa<nn::LibraryOpInterface>(op));
}

void Run::write(const llvm::SetVector<Operation *> &fetches,
                llvm::SetVector<Operation *> &placed) const {
  std::vector<llvm::SetVector<Operation *>> before(groups.size() + 1);
  llvm::SetVector<Operation *> known;
  size_t cut = 0;
  for (auto [index, group] : llvm::enumerate(groups)) {
    cut = libraries.contains(index) ? index : cut;
    for (Operation *op : group)
      for (Value operand : op->getOperands())
        if (Operation *fetch = operand.getDefiningOp();
            fetch && fetches.contains(fetch) && !placed.contains(fetch) &&
            known.insert(fetch))
          before[cut].insert(fetch);
  }
  llvm::DenseSet<Operation *> own(ops.begin(), ops.end());
  for (auto [fetched, group] : llvm::zip(before, groups)) {
    placed.insert(fetched.begin(), fetched.end());
    for (Operation *op : group)
      if (own.contains(op))
        placed.insert(op);
  }
}

void tandem::placeFetches(SmallVectorImpl<Operation *> &ops,
                          const FusionLimits &limits) {
  llvm::SetVector<Operation *> fetches, placed;
  SmallVector<Operation *> rest;
  for (Operation *op : ops)
    if (nn::fetchesArgument(op))
      fetches.insert(op);
    else
      rest.push_back(op);
  if (fetches.empty())
    return;
  for (ArrayRef<Operation *> left(rest); !left.empty();) {
    size_t size = llvm::find_if(left, nn::isHostCopy) - left.begin();
    if (size > 0)
      Run(left.take_front(size), limits).write(fetches, placed);
    left = left.drop_front(size);
    for (; !left.empty() && nn::isHostCopy(left.front());
         left = left.drop_front())
      placed.insert(left.front());
  }
  // What nothing of the slot reads.
  placed.insert(fetches.begin(), fetches.end());
  ops.assign(placed.begin(), placed.end());
}
