//===- RemakeViews.cpp - views in the pass that reads them ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor and its views cost the memory of each of them, for as long as the
// backward pass has not read them: they are results of an action, each with a
// buffer of its own. So views of one tensor are made in the pass that reads
// them where that holds fewer bytes.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Transforms/Outline/Outline.h"
#include "llvm/ADT/MapVector.h"

namespace tandem {
#define GEN_PASS_DEF_REMAKEVIEWSPASS
#include "tandem/Transforms/Outline/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
/// What backward operators of one section read of one tensor.
struct Read {
  /// Uses of views that the forward pass makes.
  SmallVector<OpOperand *> ofViews;
  bool isRead = false; ///< the tensor itself
};

/// By the tensor, and the section that reads.
using Reads = llvm::MapVector<std::pair<Value, int64_t>, Read>;

struct RemakeViewsPass : tandem::impl::RemakeViewsPassBase<RemakeViewsPass> {
  void runOnOperation() override;
};
} // namespace

static bool isBackward(Operation *op) {
  return nn::getPass(op) == nn::PassKind::Backward;
}

/// Whether the forward pass makes `value` for each microbatch that `reader`
/// runs on.
static bool isOfForward(Value value, Operation *reader) {
  Operation *maker = value.getDefiningOp();
  return maker && !isBackward(maker) && getLoop(maker) == getLoop(reader);
}

/// What `value` is in another shape, layout or type.
static Value getRoot(Value value, Operation *reader) {
  while (isOfForward(value, reader)) {
    Operation *maker = value.getDefiningOp();
    if (!maker->hasTrait<nn::View>() && !isa<KeepAtOp>(maker))
      break;
    value = maker->getOperand(0);
  }
  return value;
}

static Reads findReads(Block &block) {
  Reads reads;
  for (Operation &op : block) {
    auto section = getInteger(&op, kSectionAttrName);
    if (!section || !isBackward(&op))
      continue;
    for (OpOperand &use : op.getOpOperands()) {
      Value root = getRoot(use.get(), &op);
      Read &read = reads[{root, *section}];
      if (root == use.get())
        read.isRead = true;
      else
        read.ofViews.push_back(&use);
    }
  }
  return reads;
}

/// What `reader` lets its point hold of `root` for a microbatch: nothing of
/// what the point has anyway.
static int64_t getHeld(Value root, Operation *reader, MeshAttr mesh,
                       unsigned axis) {
  bool isHeld = isOfForward(root, reader) &&
                !isa<EnterOp>(root.getDefiningOp()) &&
                getForms(root.getType(), mesh)[axis].isAt();
  return isHeld ? getBytes(root.getType()) : 0;
}

/// The bytes of the views themselves, each once.
static int64_t getHeldViews(const Read &read) {
  llvm::SetVector<Value> views;
  for (OpOperand *use : read.ofViews)
    views.insert(use->get());
  int64_t bytes = 0;
  for (Value view : views)
    bytes += getBytes(view.getType());
  return bytes;
}

namespace {
/// Makes views again in the pass of a reader.
class Remaker {
public:
  Remaker(Value root, Operation *reader)
      : builder(reader->getContext()), reader(reader) {
    made.map(root, root);
  }
  Value remake(Value view);

private:
  OpBuilder builder;
  Operation *reader;
  IRMapping made;
};
} // namespace

Value Remaker::remake(Value view) {
  if (Value known = made.lookupOrNull(view))
    return known;
  Operation *maker = view.getDefiningOp();
  remake(maker->getOperand(0));
  builder.setInsertionPointAfter(maker);
  Operation *copy = builder.clone(*maker, made);
  nn::setPass(copy, nn::PassKind::Backward);
  setInteger(copy, kSectionAttrName, *getInteger(reader, kSectionAttrName));
  return made.lookup(view);
}

void RemakeViewsPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto pipe = module->getAttrOfType<StringAttr>(kPipeAttrName);
  auto step = module.lookupSymbol<func::FuncOp>("step");
  MeshAttr mesh = getMesh(module);
  std::optional<unsigned> axis;
  if (pipe && mesh)
    axis = mesh.lookup(pipe);
  if (!axis || !step || step.isDeclaration())
    return;
  for (auto &[key, read] : findReads(step.getBody().front())) {
    if (read.ofViews.empty())
      continue;
    Operation *reader = read.ofViews.front()->getOwner();
    int64_t held = getHeld(key.first, reader, mesh, *axis);
    if (held >= getHeldViews(read) + (read.isRead ? held : 0))
      continue;
    Remaker remaker(key.first, reader);
    for (OpOperand *use : read.ofViews)
      use->set(remaker.remake(use->get()));
  }
}
