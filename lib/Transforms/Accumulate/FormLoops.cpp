//===- FormLoops.cpp - loop over parts of the batch -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is not `full` over the axis runs once per iteration. A change of form to
// `full` (a *join*) ends a loop. Most joins are read behind all loops only; one
// that a loop reads is inner, and what comes behind it is one level higher.
// Loop k makes the inner joins of level k; the last one all others. An operator
// that several loops need is made again in each.
//
// What is `full` and depends on arguments alone is made in the loop that reads
// it, as it would be in a step on an iteration's batch: held for all iterations
// it would be held beside everything. Only casts of what comes from the host
// are made once: they are what the device has of it.
//
//===----------------------------------------------------------------------===//

#include "CheckWhole.h"
#include "mlir/IR/IRMapping.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/StepAttrs.h"
#include "tandem/Analysis/StepBody.h"
#include "tandem/Analysis/TensorType.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Orders/Schedules.h"
#include "tandem/Transforms/Accumulate/Accumulate.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

namespace tandem {
#define GEN_PASS_DEF_FORMLOOPSPASS
#include "tandem/Transforms/Accumulate/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
using OpSet = llvm::DenseSet<Operation *>;

/// Takes the operators of one step apart, and writes them again, loop by loop.
class LoopFormer {
public:
  LoopFormer(func::FuncOp step, MeshAttr mesh, StringRef order)
      : step(step), block(step.getBody().front()), mesh(mesh), order(order),
        axis(mesh.getNumSpaceAxes()), count(mesh.getSize(axis)),
        builder(block.getTerminator()) {}
  LogicalResult run();

private:
  AxisForm getForm(Value value) const {
    return getForms(value.getType(), mesh)[axis];
  }
  bool isFull(Value value) const { return getForm(value).isFull(); }
  bool isJoin(Operation *op) const;
  bool isIterated(Operation *op) const;
  bool isInner(Operation *join) const {
    return readInside.contains(join->getResult(0));
  }
  int64_t getLevel(Value value) const { return levels.lookup(value); }
  bool isHeld(Value value) const;

  void joinThroughWhole();
  void joinResults();
  void findReadInside();
  void findLevels();
  OpSet getSlice(ArrayRef<Value> roots) const;
  LogicalResult fillLoops();
  LogicalResult verifySlice(Operation *join, const OpSet &slice) const;

  RankedTensorType getLocalType(Value value) const;
  Value permuteToFront(Value value, int64_t dim, Operation *origin);
  Value cut(Value whole, int64_t dim, Operation *origin);
  void addMakers(Value value, OpSet &ops) const;
  void emitOnce(const OpSet &ops);
  void emitHeld();
  void emitInFrontOf(unsigned loop);
  void emitRest();
  void emitLoop(unsigned loop);
  void emitIterated(Operation *op, unsigned loop);
  Value enter(Value whole, RankedTensorType type, Operation *origin,
              unsigned loop);
  Value getInside(Value value, unsigned loop, Operation *reader);
  void emitJoins(Operation *op, unsigned loop);
  Value uncut(Value rows, int64_t dim, Operation *join);
  void addArguments(Block &fresh);
  void emitWholeArguments();

  func::FuncOp step;
  Block &block;
  MeshAttr mesh;
  StringRef order;
  unsigned axis;
  int64_t count;
  OpBuilder builder;
  /// Values that are `full` and that loops need.
  llvm::DenseSet<Value> readInside;
  /// How many inner joins, one behind the other, lead to a value.
  llvm::DenseMap<Value, int64_t> levels;
  /// What is not `full`, by loop, changes to `gather` among it.
  std::vector<OpSet> loops;
  /// New values: of what runs once, arguments among it, and in each loop.
  llvm::DenseMap<Value, Value> once;
  std::vector<llvm::DenseMap<Value, Value>> inside;
  /// Of what is cut: the tensor with iterations in front that loops enter.
  llvm::DenseMap<Value, Value> wholes;
};

/// Gives operators the attributes of their origin, and a loop.
struct MarkLoop : OpBuilder::Listener {
  MarkLoop(Operation *origin, std::optional<unsigned> loop) : loop(loop) {
    NamedAttrList list(origin->getDiscardableAttrDictionary());
    list.erase(kPlanAttrName);
    attributes = list.getDictionary(origin->getContext());
  }
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    op->setDiscardableAttrs(attributes);
    if (loop)
      setInteger(op, kLoopAttrName, *loop);
  }
  DictionaryAttr attributes;
  std::optional<unsigned> loop;
};

struct FormLoopsPass : tandem::impl::FormLoopsPassBase<FormLoopsPass> {
  using FormLoopsPassBase::FormLoopsPassBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>("step");
    MeshAttr mesh = step ? getMesh(step) : MeshAttr();
    if (!mesh || mesh.getNumAxes() != mesh.getNumSpaceAxes() + 1) {
      module.emitError() << "found " << (mesh ? "the mesh " : "no mesh")
                         << (mesh ? Attribute(mesh)
                                  : UnitAttr::get(&getContext()))
                         << ", expected a function @step on one time axis";
      return signalPassFailure();
    }
    if (failed(verifyStepBody(step)) ||
        failed(verifyForms(step, mesh, FormsLeft::All)) ||
        failed(LoopFormer(step, mesh, order).run()))
      return signalPassFailure();
    module->removeAttr(kMeshAttrName);
  }
};
} // namespace

bool LoopFormer::isJoin(Operation *op) const {
  auto reform = dyn_cast<ReformOp>(op);
  return reform && !isFull(reform.getInput()) && isFull(reform.getResult());
}

/// Whether `op` runs once per iteration.
bool LoopFormer::isIterated(Operation *op) const {
  auto isCut = [&](Value value) { return !isFull(value); };
  return !isJoin(op) && !op->hasTrait<OpTrait::IsTerminator>() &&
         (llvm::any_of(op->getOperands(), isCut) ||
          llvm::any_of(op->getResults(), isCut));
}

//===----------------------------------------------------------------------===//
// What runs in which loop
//===----------------------------------------------------------------------===//

/// A change from one form to another that is not `full` is two: the whole
/// lies between them.
void LoopFormer::joinThroughWhole() {
  for (auto reform : llvm::make_early_inc_range(block.getOps<ReformOp>())) {
    if (isFull(reform.getInput()) || isFull(reform.getResult()))
      continue;
    OpBuilder before(reform);
    auto whole = ReformOp::create(
        before, reform.getLoc(), withoutForms(getTensorType(reform.getInput())),
        reform.getInput());
    whole->setDiscardableAttrs(reform->getDiscardableAttrDictionary());
    reform.getInputMutable().assign(whole);
  }
}

void LoopFormer::joinResults() {
  Operation *ret = block.getTerminator();
  for (OpOperand &operand : ret->getOpOperands()) {
    Value value = operand.get();
    if (isFull(value))
      continue;
    auto whole = ReformOp::create(builder, value.getLoc(),
                                  withoutForms(getTensorType(value)), value);
    if (Operation *maker = value.getDefiningOp())
      nn::copyPass(maker, whole);
    operand.set(whole);
  }
}

void LoopFormer::findReadInside() {
  for (Operation &op : llvm::reverse(block)) {
    bool isRead = isIterated(&op) ||
                  (!isJoin(&op) && llvm::any_of(op.getResults(), [&](Value v) {
                    return readInside.contains(v);
                  }));
    if (!isRead)
      continue;
    for (Value operand : op.getOperands())
      if (isFull(operand))
        readInside.insert(operand);
  }
}

void LoopFormer::findLevels() {
  for (Operation &op : block) {
    int64_t level = 0;
    for (Value operand : op.getOperands())
      level = std::max(level, getLevel(operand));
    level += isJoin(&op) && isInner(&op);
    for (Value result : op.getResults())
      levels[result] = level;
  }
}

/// What is iterated of what `roots` are made of.
OpSet LoopFormer::getSlice(ArrayRef<Value> roots) const {
  OpSet slice;
  SmallVector<Value> todo(roots);
  while (!todo.empty()) {
    Operation *op = todo.pop_back_val().getDefiningOp();
    if (!op || !isIterated(op) || !slice.insert(op).second)
      continue;
    for (Value operand : op->getOperands())
      if (!isFull(operand))
        todo.push_back(operand);
  }
  return slice;
}

/// Whether a point holds what all microbatches make.
static bool holdsAll(StringRef order) {
  const orders::Schedule *named = orders::findSchedule(order);
  return named && named->runsForwardFirst();
}

/// `'gpipe' or 'aiao'`.
static std::string listForwardFirst() {
  std::vector<std::string> names;
  for (const orders::Schedule &schedule : orders::getSchedules())
    if (schedule.runsForwardFirst())
      names.push_back("'" + std::string(schedule.name) + "'");
  return llvm::join(names, " or ");
}

/// What is made again costs little. Where all forward passes come first, the
/// pipeline holds it instead.
LogicalResult LoopFormer::verifySlice(Operation *join,
                                      const OpSet &slice) const {
  bool isDear = llvm::any_of(slice, [&](Operation *op) {
    return isa<nn::LibraryOpInterface>(op) && loops.back().contains(op);
  });
  if (!isDear || holdsAll(order))
    return success();
  Value value = join->getOperand(0);
  Operation *maker = value.getDefiningOp();
  return maker->emitError()
         << "accumulate=" << count << ": '" << maker->getName().getStringRef()
         << "' " << kJoinsBatch << ": what iterations compute depends on "
         << (getForm(value).isReduce()
                 ? "its sum over all of them (batch normalization while "
                   "training, a loss of sums that are multiplied or divided?)"
                 : "its rows of all of them (a loss that compares samples, "
                   "rows that are shifted or chosen?)")
         << ", and would be computed once more for it; expected rows that do "
            "not depend on one another, or "
         << (order.empty() ? "accumulate=1"
                           : "an order whose forward passes come first, as " +
                                 listForwardFirst());
}

LogicalResult LoopFormer::fillLoops() {
  int64_t last = 0;
  for (Operation &op : block)
    if (isIterated(&op))
      for (Value operand : op.getOperands())
        last = std::max(last, getLevel(operand));
  loops.resize(last + 1);
  inside.resize(last + 1);
  std::vector<SmallVector<Value>> roots(last + 1);
  SmallVector<Operation *> inner;
  for (Operation &op : block) {
    if (!isJoin(&op))
      continue;
    Value value = op.getOperand(0);
    roots[isInner(&op) ? getLevel(value) : last].push_back(value);
    if (isInner(&op))
      inner.push_back(&op);
  }
  for (int64_t loop = 0; loop <= last; ++loop)
    loops[loop] = getSlice(roots[loop]);
  for (Operation *join : inner)
    if (failed(verifySlice(join, getSlice(join->getOperand(0)))))
      return failure();
  auto isOnce = [&](Operation *op) { return !loops.back().contains(op); };
  return checkWhole(step, count, isOnce);
}

//===----------------------------------------------------------------------===//
// What runs once
//===----------------------------------------------------------------------===//

RankedTensorType LoopFormer::getLocalType(Value value) const {
  RankedTensorType type = getTensorType(value);
  return RankedTensorType::get(
      getLocalShape(type.getShape(), mesh, getForms(type, mesh)),
      type.getElementType());
}

/// `size` becomes `count` times a part of it, at `dim`.
static SmallVector<int64_t> cutShape(ArrayRef<int64_t> shape, int64_t dim,
                                     int64_t count) {
  SmallVector<int64_t> cut(shape);
  cut[dim] /= count;
  cut.insert(cut.begin() + dim, count);
  return cut;
}

Value LoopFormer::permuteToFront(Value value, int64_t dim, Operation *origin) {
  if (dim == 0)
    return value;
  RankedTensorType type = getTensorType(value);
  SmallVector<int64_t> order{dim}, shape{type.getDimSize(dim)};
  for (int64_t other = 0; other < type.getRank(); ++other)
    if (other != dim) {
      order.push_back(other);
      shape.push_back(type.getDimSize(other));
    }
  MarkLoop mark(origin, std::nullopt);
  builder.setListener(&mark);
  Value moved = nn::PermuteOp::create(
      builder, origin->getLoc(),
      RankedTensorType::get(shape, type.getElementType()), value, order);
  builder.setListener(nullptr);
  return moved;
}

/// What iterations have of a tensor that is made once, in front of loops.
Value LoopFormer::cut(Value whole, int64_t dim, Operation *origin) {
  RankedTensorType type = getTensorType(whole);
  MarkLoop mark(origin, std::nullopt);
  builder.setListener(&mark);
  Value parts = nn::ReshapeOp::create(
      builder, origin->getLoc(),
      RankedTensorType::get(cutShape(type.getShape(), dim, count),
                            type.getElementType()),
      whole);
  builder.setListener(nullptr);
  return permuteToFront(parts, dim, origin);
}

/// Writes the operators of the set, which are `full`, as they are.
void LoopFormer::emitOnce(const OpSet &ops) {
  for (Operation &op : block) {
    if (!ops.contains(&op))
      continue;
    MarkLoop mark(&op, std::nullopt);
    builder.setListener(&mark);
    IRMapping map;
    for (Value operand : op.getOperands())
      map.map(operand, once.lookup(operand));
    Operation *copy = builder.clone(op, map);
    builder.setListener(nullptr);
    for (auto [result, made] : llvm::zip(op.getResults(), copy->getResults()))
      once[result] = made;
  }
}

/// Adds the operators that `value` is made of and that are not written yet.
void LoopFormer::addMakers(Value value, OpSet &ops) const {
  SmallVector<Value> todo{value};
  while (!todo.empty()) {
    Value next = todo.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (op && !once.contains(next) && ops.insert(op).second)
      llvm::append_range(todo, op->getOperands());
  }
}

/// Whether it has fewer bytes than what it was cast from, which came from the
/// host for the forward pass.
bool LoopFormer::isHeld(Value value) const {
  auto convert = value.getDefiningOp<nn::ConvertOp>();
  if (!convert || !isFull(value))
    return false;
  Value fetched = convert->getOperand(0);
  return fetched.getDefiningOp<nn::FromHostOp>() &&
         nn::getPass(convert) == nn::PassKind::Forward &&
         getBytes(value.getType()) < getBytes(fetched.getType());
}

void LoopFormer::emitHeld() {
  OpSet ops;
  for (auto convert : block.getOps<nn::ConvertOp>())
    if (Value value = convert->getResult(0);
        isHeld(value) && readInside.contains(value))
      addMakers(value, ops);
  emitOnce(ops);
}

/// What is made in front of a loop: what depends on a join, and what is cut.
void LoopFormer::emitInFrontOf(unsigned loop) {
  OpSet ops;
  for (Operation *op : loops[loop])
    for (Value operand : op->getOperands())
      if (isFull(operand) && (getLevel(operand) > 0 || isa<ReformOp>(op)))
        addMakers(operand, ops);
  emitOnce(ops);
  for (Operation &op : block) {
    if (!loops[loop].contains(&op))
      continue;
    if (isa<ReformOp>(op)) {
      Value whole = once.lookup(op.getOperand(0));
      wholes[op.getResult(0)] =
          cut(whole, getForm(op.getResult(0)).getDim(), &op);
      continue;
    }
    for (Value operand : op.getOperands())
      if (isa<BlockArgument>(operand) && !isFull(operand) &&
          !wholes.contains(operand))
        wholes[operand] = permuteToFront(once.lookup(operand),
                                         getForm(operand).getDim(), &op);
  }
}

void LoopFormer::emitRest() {
  OpSet ops;
  for (Value value : block.getTerminator()->getOperands())
    addMakers(value, ops);
  emitOnce(ops);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

Value LoopFormer::enter(Value whole, RankedTensorType type, Operation *origin,
                        unsigned loop) {
  MarkLoop mark(origin, loop);
  builder.setListener(&mark);
  Value made = EnterOp::create(builder, origin->getLoc(), type, whole);
  builder.setListener(nullptr);
  return made;
}

/// What `reader` reads in the loop; makes what depends on arguments alone.
Value LoopFormer::getInside(Value value, unsigned loop, Operation *reader) {
  if (Value known = inside[loop].lookup(value))
    return known;
  bool isArgument = isa<BlockArgument>(value);
  if (isFull(value) && (isArgument || getLevel(value) > 0 || isHeld(value)))
    return once.lookup(value);
  if (isArgument) {
    Value made = enter(wholes.lookup(value), getLocalType(value), reader, loop);
    return inside[loop][value] = made;
  }
  Operation *op = value.getDefiningOp();
  IRMapping map;
  for (Value operand : op->getOperands())
    map.map(operand, getInside(operand, loop, op));
  MarkLoop mark(op, loop);
  builder.setListener(&mark);
  Operation *copy = builder.clone(*op, map);
  builder.setListener(nullptr);
  for (auto [result, made] : llvm::zip(op->getResults(), copy->getResults()))
    inside[loop][result] = made;
  return inside[loop].lookup(value);
}

void LoopFormer::emitIterated(Operation *op, unsigned loop) {
  if (auto reform = dyn_cast<ReformOp>(op)) {
    inside[loop][reform.getResult()] =
        enter(wholes.lookup(reform.getResult()),
              getLocalType(reform.getResult()), op, loop);
    return;
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(getInside(operand, loop, op));
  SmallVector<Type> types;
  for (Value result : op->getResults())
    types.push_back(getLocalType(result));
  MarkLoop mark(op, loop);
  builder.setListener(&mark);
  SmallVector<Value> results;
  if (auto positions = dyn_cast<LocalizeOpInterface>(op)) {
    Shard shard(mesh, operands, op->getOperandTypes(), op->getResultTypes(),
                types, std::nullopt, /*isIteration=*/true);
    results = positions.buildShard(builder, shard);
  } else {
    OperationState state(op->getLoc(), op->getName(), operands, types,
                         op->getAttrs());
    state.propertiesAttr = op->getPropertiesAsAttribute();
    results = builder.create(state)->getResults();
  }
  builder.setListener(nullptr);
  for (auto [result, made] : llvm::zip(op->getResults(), results))
    inside[loop][result] = made;
}

/// The whole of rows that were collected: dimension `dim` in one piece.
Value LoopFormer::uncut(Value rows, int64_t dim, Operation *join) {
  RankedTensorType type = getTensorType(rows);
  SmallVector<int64_t> order, shape;
  for (int64_t other = 1; other <= dim; ++other)
    order.push_back(other);
  order.push_back(0);
  for (int64_t other = dim + 1; other < type.getRank(); ++other)
    order.push_back(other);
  for (int64_t other : order)
    shape.push_back(type.getDimSize(other));
  MarkLoop mark(join, std::nullopt);
  builder.setListener(&mark);
  if (dim > 0)
    rows = nn::PermuteOp::create(
        builder, join->getLoc(),
        RankedTensorType::get(shape, type.getElementType()), rows, order);
  Value whole = nn::ReshapeOp::create(
      builder, join->getLoc(), withoutForms(getTensorType(join->getResult(0))),
      rows);
  builder.setListener(nullptr);
  return whole;
}

/// What leaves the loop of what `op` makes, as soon as it is made.
void LoopFormer::emitJoins(Operation *op, unsigned loop) {
  for (Value result : op->getResults())
    for (Operation *user : result.getUsers()) {
      bool isOwn = isJoin(user) && (isInner(user) ? getLevel(result) == loop
                                                  : loop + 1 == loops.size());
      if (!isOwn)
        continue;
      MarkLoop mark(user, loop);
      builder.setListener(&mark);
      Value value = inside[loop].lookup(result);
      Value &made = once[user->getResult(0)];
      if (getForm(result).isReduce()) {
        made = CarryOp::create(builder, user->getLoc(), value.getType(), value);
      } else {
        SmallVector<int64_t> shape(getTensorType(value).getShape());
        shape.insert(shape.begin(), count);
        made = CollectOp::create(
            builder, user->getLoc(),
            RankedTensorType::get(shape, getTensorType(value).getElementType()),
            value);
      }
      nn::copyPass(op, made.getDefiningOp());
      builder.setListener(nullptr);
    }
}

void LoopFormer::emitLoop(unsigned loop) {
  for (Operation &op : block)
    if (loops[loop].contains(&op)) {
      emitIterated(&op, loop);
      emitJoins(&op, loop);
    }
  for (Operation &op : block) {
    Value rows = isJoin(&op) ? once.lookup(op.getResult(0)) : Value();
    if (rows && rows.getDefiningOp<CollectOp>())
      once[op.getResult(0)] =
          uncut(rows, getForm(op.getOperand(0)).getDim(), &op);
  }
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// An input that is cut has a dimension of iterations before the one that is.
void LoopFormer::addArguments(Block &fresh) {
  for (BlockArgument argument : step.getArguments()) {
    RankedTensorType type = withoutForms(getTensorType(argument));
    if (AxisForm form = getForm(argument); form.isGather())
      type =
          RankedTensorType::get(cutShape(type.getShape(), form.getDim(), count),
                                type.getElementType());
    once[argument] = fresh.addArgument(type, argument.getLoc());
  }
  Builder b(step.getContext());
  editArgAttrs(step, [&](unsigned index, NamedAttrList &attrs) {
    AxisForm form = getForm(step.getArgument(index));
    if (!form.isGather())
      return;
    attrs.set(kIteratedAttrName, b.getI64IntegerAttr(form.getDim()));
    auto batch =
        dyn_cast_or_null<IntegerAttr>(attrs.get(nn::kBatchDimAttrName));
    if (batch && batch.getInt() >= form.getDim())
      attrs.set(nn::kBatchDimAttrName, b.getI64IntegerAttr(batch.getInt() + 1));
  });
}

/// What is read of an input as a whole.
void LoopFormer::emitWholeArguments() {
  for (Operation &op : block)
    if (isJoin(&op) && isa<BlockArgument>(op.getOperand(0))) {
      MarkLoop mark(&op, std::nullopt);
      builder.setListener(&mark);
      once[op.getResult(0)] = nn::ReshapeOp::create(
          builder, op.getLoc(), getTensorType(op.getResult(0)),
          once.lookup(op.getOperand(0)));
      builder.setListener(nullptr);
    }
}

LogicalResult LoopFormer::run() {
  joinThroughWhole();
  joinResults();
  findReadInside();
  findLevels();
  if (failed(fillLoops()))
    return failure();
  setInteger(step, kIterationsAttrName, count);
  Block *fresh = new Block;
  step.getBody().push_back(fresh);
  builder.setInsertionPointToEnd(fresh);
  addArguments(*fresh);
  emitWholeArguments();
  emitHeld();
  for (unsigned loop = 0; loop < loops.size(); ++loop) {
    emitInFrontOf(loop);
    emitLoop(loop);
  }
  emitRest();
  SmallVector<Value> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(once.lookup(value));
  func::ReturnOp::create(builder, block.getTerminator()->getLoc(), results);
  block.dropAllReferences();
  block.erase();
  step.setType(FunctionType::get(step.getContext(), fresh->getArgumentTypes(),
                                 ValueRange(results).getTypes()));
  return success();
}
