//===- CombineWaiting.cpp - small waiting collectives as one --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Roles.h"
#include "Slot.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/TensorType.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Support/PieceLimit.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_COMBINEWAITINGPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
/// Collectives of a slot that are alike: a row per member of the group (one, if
/// it gets the whole), side by side.
struct Bundle {
  SmallVector<Operation *> ops;
  Slot slot;
  int64_t rows;

  bool takes(Operation *op, const Slot &at, int64_t rowsOf) const;
};

class CombineWaitingPass
    : public tandem::StepPass<
          tandem::impl::CombineWaitingPassBase<CombineWaitingPass>> {
public:
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

static bool isSame(const Slot &slot, const Slot &other) {
  return !(slot < other) && !(other < slot);
}

bool Bundle::takes(Operation *op, const Slot &at, int64_t rowsOf) const {
  Operation *first = ops.front();
  return isSame(at, slot) && rowsOf == rows &&
         first->getName() == op->getName() &&
         first->getAttr("axes") == op->getAttr("axes") &&
         getTensorType(first->getOperand(0)).getElementType() ==
             getTensorType(op->getOperand(0)).getElementType();
}

/// How many members get a row of `op` each; none if these are no rows.
static std::optional<int64_t> getRows(Operation *op) {
  if (isa<AllReduceOp>(op))
    return 1;
  auto scatter = dyn_cast<ReduceScatterOp>(op);
  if (!scatter)
    return std::nullopt;
  RankedTensorType type = getTensorType(op->getOperand(0));
  if (llvm::any_of(type.getShape().take_front(scatter.getDim()),
                   [](int64_t size) { return size != 1; }))
    return std::nullopt;
  return type.getNumElements() /
         getTensorType(op->getResult(0)).getNumElements();
}

/// Whether what `op` reads and what reads it is computed, so that copies can
/// stand there.
static bool isBetweenComputation(Operation *op) {
  auto computes = [](Operation *other) {
    std::optional<Slot> slot = getSlot(other);
    return slot && slot->lane == Lane::Compute;
  };
  Operation *maker = op->getOperand(0).getDefiningOp();
  return maker && computes(maker) &&
         llvm::all_of(op->getUsers(), [&](Operation *user) {
           return user->hasTrait<OpTrait::IsTerminator>() || computes(user);
         });
}

static SmallVector<Bundle> findBundles(func::FuncOp step) {
  SmallVector<Bundle> bundles;
  Operation *loss = findLoss(step);
  for (Operation &op : step.getBody().front().without_terminator()) {
    std::optional<Slot> slot = getSlot(&op);
    if (!slot || slot->lane != Lane::Waiting || isWaiting(&op) || &op == loss)
      continue;
    std::optional<int64_t> rows = getRows(&op);
    if (!rows || getBytes(op.getOperand(0).getType()) > kMaxJoinedBytes ||
        !isBetweenComputation(&op))
      continue;
    auto *it = llvm::find_if(bundles, [&](const Bundle &bundle) {
      return bundle.takes(&op, *slot, *rows);
    });
    if (it == bundles.end())
      bundles.push_back({{&op}, *slot, *rows});
    else
      it->ops.push_back(&op);
  }
  return bundles;
}

namespace {
/// One collective in place of those of a bundle.
class Combiner {
public:
  Combiner(Bundle &bundle, const Slot &end) : bundle(bundle), end(end) {}
  void run();

private:
  void dropReadEarly();
  Value pack(OpBuilder &builder) const;
  Operation *communicate(OpBuilder &builder, Value packed) const;
  void unpack(OpBuilder &builder, Value whole) const;
  Slot getMade() const;
  Slot getRead(Operation *op) const;

  Bundle &bundle;
  const Slot end; ///< Of what is only returned.
};

/// What is made is part of the change and has a slot.
struct Marker : OpBuilder::Listener {
  explicit Marker(Operation *collective) : loop(getLoop(collective)) {}
  Slot slot;
  std::optional<int64_t> loop;
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    op->setAttr(kChangeAttrName, UnitAttr::get(op->getContext()));
    setSlot(op, slot);
    if (loop)
      tandem::setInteger(op, kLoopAttrName, *loop);
  }
};
} // namespace

/// All stand where the last one stood.
void Combiner::dropReadEarly() {
  Operation *last = bundle.ops.back();
  llvm::erase_if(bundle.ops, [&](Operation *op) {
    return llvm::any_of(op->getUsers(), [&](Operation *user) {
      return user->isBeforeInBlock(last);
    });
  });
}

/// Behind a loop, what it carries out is there from the first stage on.
Slot Combiner::getMade() const {
  std::optional<Slot> made;
  for (Operation *op : bundle.ops) {
    Operation *maker = op->getOperand(0).getDefiningOp();
    Slot slot = getLoop(maker) == getLoop(op)
                    ? *getSlot(maker)
                    : Slot{bundle.slot.stage - 1, bundle.slot.strand};
    made = std::max(made.value_or(slot), slot);
  }
  return *made;
}

Slot Combiner::getRead(Operation *op) const {
  Slot read = end;
  for (Operation *user : op->getUsers())
    read = std::min(read, getSlot(user).value_or(end));
  return read;
}

static Value reshape(OpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  auto type =
      RankedTensorType::get(shape, getTensorType(value).getElementType());
  if (type == value.getType())
    return value;
  return nn::ReshapeOp::create(builder, value.getLoc(), type, value);
}

Value Combiner::pack(OpBuilder &builder) const {
  SmallVector<Value> parts;
  int64_t columns = 0;
  for (Operation *op : bundle.ops) {
    int64_t size =
        getTensorType(op->getOperand(0)).getNumElements() / bundle.rows;
    parts.push_back(reshape(builder, op->getOperand(0), {bundle.rows, size}));
    columns += size;
  }
  auto type = RankedTensorType::get(
      {bundle.rows, columns}, getTensorType(parts.front()).getElementType());
  return nn::CatOp::create(builder, bundle.ops.back()->getLoc(), type, parts,
                           1);
}

/// It is called as its largest part, and pays one latency.
Operation *Combiner::communicate(OpBuilder &builder, Value packed) const {
  auto getSize = [](Operation *op) {
    return getBytes(op->getOperand(0).getType());
  };
  Operation *largest = bundle.ops.front();
  double seconds = 0, latency = 0;
  for (Operation *op : bundle.ops) {
    if (getSize(op) > getSize(largest))
      largest = op;
    double own = getPlanned(op).seconds, start = getLatency(op, own);
    seconds += own - start;
    latency = std::max(latency, start);
  }
  auto axes = largest->getAttrOfType<ArrayAttr>("axes");
  auto type = RankedTensorType::get({1, getTensorType(packed).getDimSize(1)},
                                    getTensorType(packed).getElementType());
  Operation *whole;
  if (isa<AllReduceOp>(largest))
    whole = AllReduceOp::create(builder, largest->getLoc(), type, packed, axes);
  else
    whole = ReduceScatterOp::create(builder, largest->getLoc(), type, packed,
                                    axes, 0);
  whole->setDiscardableAttrs(largest->getDiscardableAttrDictionary());
  editPlanned(whole,
              [&](Planned &planned) { planned.seconds = seconds + latency; });
  return whole;
}

void Combiner::unpack(OpBuilder &builder, Value whole) const {
  auto *marker = static_cast<Marker *>(builder.getListener());
  int64_t begin = 0;
  for (Operation *op : bundle.ops) {
    RankedTensorType type = getTensorType(op->getResult(0));
    int64_t size = type.getNumElements();
    marker->slot = getRead(op);
    Value part = nn::SliceOp::create(
        builder, op->getLoc(),
        RankedTensorType::get({1, size}, type.getElementType()), whole, 1,
        begin, begin + size, 1);
    op->getResult(0).replaceAllUsesWith(
        reshape(builder, part, type.getShape()));
    begin += size;
    op->erase();
  }
}

void Combiner::run() {
  dropReadEarly();
  if (bundle.ops.size() < 2)
    return;
  Marker marker(bundle.ops.front());
  OpBuilder builder(bundle.ops.back()->getContext(), &marker);
  builder.setInsertionPointAfter(bundle.ops.back());
  marker.slot = getMade();
  Value packed = pack(builder);
  Operation *whole = communicate(builder, packed);
  unpack(builder, whole->getResult(0));
}

LogicalResult CombineWaitingPass::runOnStep(func::FuncOp step) {
  Slot end;
  for (Operation &op : step.getBody().front())
    end = std::max(end, getSlot(&op).value_or(end));
  end.lane = Lane::Compute;
  for (Bundle &bundle : findBundles(step))
    Combiner(bundle, end).run();
  return success();
}
