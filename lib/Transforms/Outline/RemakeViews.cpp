//===- RemakeViews.cpp - views in the pass that reads them ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor and its views cost the memory of each of them, for as long as later
// passes have not read them: they are results of an action, each with a buffer
// of its own. So views of one tensor are made in the passes that read them
// where that holds fewer bytes.
//
//===----------------------------------------------------------------------===//

#include "Actions.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
/// What the passes of one section read of one tensor that others make.
struct Read {
  /// Its views, each with the pass that reads it.
  llvm::SetVector<std::pair<Action *, Value>> ofViews;
  bool isRead = false; ///< the tensor itself
};

/// Finds what sections read, and lets their passes make views.
class Remaker {
public:
  explicit Remaker(const Actions &actions) : actions(actions) {}
  void visit(Action &action);
  void remake();

private:
  bool isView(Value value) const;
  int64_t getHeld(Value root) const;

  const Actions &actions;
  /// By the tensor, and the section.
  llvm::MapVector<std::pair<Value, int64_t>, Read> reads;
};
} // namespace

bool Remaker::isView(Value value) const {
  Operation *maker = value.getDefiningOp();
  return actions.isIterated(value) &&
         (maker->hasTrait<nn::View>() || isa<KeepAtOp>(maker));
}

void Remaker::visit(Action &action) {
  llvm::DenseSet<Operation *> own(action.ops.begin(), action.ops.end());
  for (Operation *op : action.ops)
    for (Value value : op->getOperands()) {
      Value root = value;
      while (isView(root) && !own.contains(root.getDefiningOp()))
        root = root.getDefiningOp()->getOperand(0);
      if (own.contains(root.getDefiningOp()))
        continue;
      Read &read = reads[{root, *getInteger(op, kSectionAttrName)}];
      if (root == value)
        read.isRead = true;
      else
        read.ofViews.insert({&action, value});
    }
}

/// What its point holds of `root` for a microbatch: nothing of what the point
/// has anyway.
int64_t Remaker::getHeld(Value root) const {
  bool isHeld = actions.isIterated(root) &&
                !isa<EnterOp>(root.getDefiningOp()) &&
                actions.getPoint(root) >= 0;
  return isHeld ? getBytes(root.getType()) : 0;
}

/// The bytes of the views themselves, each once.
static int64_t getHeldViews(const Read &read) {
  llvm::SmallDenseSet<Value> views;
  int64_t bytes = 0;
  for (auto [action, view] : read.ofViews)
    if (views.insert(view).second)
      bytes += getBytes(view.getType());
  return bytes;
}

void Remaker::remake() {
  for (auto &[key, read] : reads) {
    int64_t held = getHeld(key.first);
    if (held >= getHeldViews(read) + (read.isRead ? held : 0))
      continue;
    for (auto [action, view] : read.ofViews)
      for (Value made = view; made != key.first;
           made = made.getDefiningOp()->getOperand(0))
        action->addCopy(made.getDefiningOp());
  }
}

void Actions::remakeViews() {
  Remaker remaker(*this);
  for (auto &[name, action] : byName)
    if (!action.isOfAll)
      remaker.visit(action);
  remaker.remake();
}
