//===- OutlineActions.cpp - the functions of points -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All points are written at once, an action each in turn, as soon as what it
// reads is there; what it makes for another point, or for the host, is sent at
// once, and what waited on the host is fetched in front of its reader. So the
// functions are parts of one order in which all can run, even if no transfer is
// buffered.
//
//===----------------------------------------------------------------------===//

#include "Actions.h"
#include "PointOrder.h"
#include "mlir/IR/Builders.h"
#include "tandem/Analysis/StepBody.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Host.h"
#include "tandem/Dialect/Sched/Points.h"
#include "tandem/Transforms/Outline/Outline.h"
#include <map>
#include <set>

namespace tandem {
#define GEN_PASS_DEF_OUTLINEACTIONSPASS
#include "tandem/Transforms/Outline/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
/// An action of a point, and the microbatch; -1: it runs once.
struct Item {
  Action *action;
  int64_t microbatch;
  /// Of actions that run beside others: the first item of their group, and
  /// which of its strands this is in; -1: none.
  int64_t group = -1, strand = -1;
};

/// A value in a microbatch; -1: one that all have.
using Key = std::pair<Value, int64_t>;

/// What one point runs, and has.
struct PointWriter {
  func::FuncOp function;
  std::vector<Item> items;
  size_t next = 0;
  llvm::DenseMap<Key, Value> values;
  /// Of an action that adds up: the next microbatch, and those that wait.
  std::map<Action *, std::pair<int64_t, std::set<int64_t>>> turns;
  /// Of a section: backward passes that are listed whole.
  std::map<int64_t, int64_t> numEnded;
  /// Of sections whose last W is listed: they begin behind its group.
  std::vector<Item> sums;
};

/// Writes the functions of all points.
class PointsWriter {
public:
  PointsWriter(func::FuncOp step, MeshAttr mesh, unsigned axis,
               Actions &actions, int64_t count)
      : step(step), block(step.getBody().front()), mesh(mesh), axis(axis),
        actions(actions), count(count), builder(step.getContext()) {}
  void makePoints();
  void list(const orders::Order &order);
  void listLoop(int64_t point, int64_t segment);
  LogicalResult run();

private:
  void listRow(int64_t point, ArrayRef<orders::Action> row);
  void list(int64_t point, const orders::Action &entry);
  void listInTurn(int64_t point, const orders::Action &entry, StringRef letter);
  void listWeights(int64_t point, const orders::Action &entry);
  bool isIterated(Value value) const;
  Key getKey(Value value, int64_t microbatch) const {
    return {value, isIterated(value) ? microbatch : -1};
  }
  Value find(int64_t point, Value value, int64_t microbatch);
  Value makeZero(int64_t point, Value sum);
  Value getSum(int64_t point, Value sum);
  bool collectInputs(int64_t point, const Item &item,
                     SmallVectorImpl<Value> &inputs);
  sched::RunOp createRun(int64_t point, const Item &item, ValueRange inputs);
  SmallVector<int64_t> getTogether(int64_t point) const;
  bool isAhead(int64_t segment) const;
  bool runNext(int64_t point);
  MutableArrayRef<Item> getGroup(int64_t point);
  enum class GroupState { Ready, Waits, InTurn };
  GroupState getGroupState(int64_t point);
  bool runGroup(int64_t point);
  void endGroup(int64_t point);
  bool endWaitingGroup();
  void record(int64_t point, const Item &item, sched::RunOp run);
  void sendMade(int64_t point, const Item &item);
  void send(Operation *op, int64_t point, int64_t to, int64_t microbatch);
  void sendToHost(Operation *op, int64_t point, int64_t microbatch);
  void sendAll(Value value, int64_t point, int64_t microbatch);
  LogicalResult giveResults();
  LogicalResult reportWaiting();
  LogicalResult reportWhole(const Action &action);

  func::FuncOp step;
  Block &block;
  MeshAttr mesh;
  unsigned axis;
  Actions &actions;
  int64_t count;
  OpBuilder builder;
  std::vector<PointWriter> points;
  int64_t numTransfers = 0;
};

struct OutlineActionsPass
    : tandem::impl::OutlineActionsPassBase<OutlineActionsPass> {
  using OutlineActionsPassBase::OutlineActionsPassBase;
  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }
  LogicalResult run();
};
} // namespace

//===----------------------------------------------------------------------===//
// What points run
//===----------------------------------------------------------------------===//

void PointsWriter::makePoints() {
  points.resize(mesh.getSize(axis));
  auto module = cast<ModuleOp>(step->getParentOp());
  for (auto [number, point] : llvm::enumerate(points)) {
    builder.setInsertionPointToEnd(module.getBody());
    SmallVector<Type> types;
    for (Type type : step.getArgumentTypes())
      types.push_back(withoutForms(cast<RankedTensorType>(type)));
    point.function = func::FuncOp::create(builder, step.getLoc(),
                                          ("p" + Twine(number)).str(),
                                          builder.getFunctionType(types, {}));
    Block *entry = point.function.addEntryBlock();
    for (auto [own, argument] :
         llvm::zip_equal(entry->getArguments(), step.getArguments()))
      if (int64_t at = actions.getPoint(argument);
          at < 0 || at == int64_t(number))
        point.values[{argument, -1}] = own;
    builder.setInsertionPointToEnd(entry);
    func::ReturnOp::create(builder, step.getLoc());
  }
}

/// A loop in front of the last one: all forward passes, then all backward ones.
void PointsWriter::listLoop(int64_t point, int64_t segment) {
  auto sections =
      step->getParentOp()->getAttrOfType<DenseI64ArrayAttr>(kSectionsAttrName);
  auto listAll = [&](int64_t section, StringRef letter) {
    Action *own = actions.findOf(section, letter, segment);
    for (int64_t i = 0; own && own->point == point && i < count; ++i)
      points[point].items.push_back({own, i});
  };
  int64_t numSections = sections ? sections.size() : 0;
  for (int64_t section = 0; section < numSections; ++section)
    listAll(section, "F");
  for (int64_t section = numSections; section-- > 0;)
    listAll(section, "B");
}

/// Actions that add up run in the order of microbatches, as soon as it is their
/// turn: so all orders have equal bits.
void PointsWriter::listInTurn(int64_t point, const orders::Action &entry,
                              StringRef letter) {
  PointWriter &own = points[point];
  Action *action = actions.findOf(entry.section, letter, actions.getLastLoop());
  if (!action)
    return;
  auto &[next, waiting] = own.turns[action];
  waiting.insert(entry.microbatch);
  for (; waiting.erase(next); ++next)
    own.items.push_back({action, next});
}

/// Behind the last W of a section the sum of its gradients may begin.
void PointsWriter::listWeights(int64_t point, const orders::Action &entry) {
  listInTurn(point, entry, "W");
  Action *sum = actions.findOf(entry.section, "S", actions.getLastLoop());
  if (++points[point].numEnded[entry.section] == count && sum)
    points[point].sums.push_back({sum, -1});
}

/// B is I and then W, so that the gradient leaves before W runs. Of a joined
/// point W is all of it, and runs where I would.
void PointsWriter::list(int64_t point, const orders::Action &entry) {
  bool isJoined = actions.isJoined(entry.section);
  auto add = [&](StringRef letter) {
    if (Action *own =
            actions.findOf(entry.section, letter, actions.getLastLoop()))
      points[point].items.push_back({own, entry.microbatch});
  };
  switch (entry.kind) {
  case orders::ActionKind::Forward:
    add("F");
    return listInTurn(point, entry, "FA");
  case orders::ActionKind::BackwardInput:
    return isJoined ? listWeights(point, entry) : add("I");
  case orders::ActionKind::Backward:
    add("I");
    return listWeights(point, entry);
  case orders::ActionKind::BackwardWeight:
    return isJoined ? void() : listWeights(point, entry);
  }
}

/// Marks what is a group of actions, each with a strand of its own. Sums are in
/// none.
void PointsWriter::listRow(int64_t point, ArrayRef<orders::Action> row) {
  std::vector<Item> &items = points[point].items;
  while (!row.empty()) {
    int64_t group = items.size(), numStrands = 0;
    for (bool isGroup = true; isGroup; row = row.drop_front()) {
      size_t begin = items.size();
      list(point, row.front());
      for (Item &item : MutableArrayRef(items).drop_front(begin))
        std::tie(item.group, item.strand) = std::pair(group, numStrands);
      numStrands += items.size() > begin;
      isGroup = row.front().overlapsNext && row.size() > 1;
    }
    if (numStrands < 2)
      for (Item &item : MutableArrayRef(items).drop_front(group))
        item.group = item.strand = -1;
    llvm::append_range(items, std::exchange(points[point].sums, {}));
  }
}

/// Segments in order; the order of the pipeline in place of the last loop.
void PointsWriter::list(const orders::Order &order) {
  for (auto [number, point] : llvm::enumerate(points)) {
    for (int64_t segment = 0; segment < actions.getNumSegments(); ++segment) {
      if (Action *once = actions.findOnce(number, segment))
        for (int64_t i = 0; i < (segment % 2 ? count : 1); ++i)
          point.items.push_back({once, segment % 2 ? i : -1});
      if (segment % 2 && segment != actions.getLastLoop())
        listLoop(number, segment);
      if (segment == actions.getLastLoop())
        listRow(number, order.points[number]);
    }
  }
}

//===----------------------------------------------------------------------===//
// What points have
//===----------------------------------------------------------------------===//

/// Whether each microbatch has a value of its own.
bool PointsWriter::isIterated(Value value) const {
  Operation *maker = value.getDefiningOp();
  return maker && getLoop(maker) && !isCarried(maker);
}

/// `value` on a point, or null while it is not there.
Value PointsWriter::find(int64_t point, Value value, int64_t microbatch) {
  PointWriter &own = points[point];
  Key key = getKey(value, microbatch);
  if (Value known = own.values.lookup(key))
    return known;
  Operation *maker = value.getDefiningOp();
  if (!maker)
    return nullptr;
  builder.setInsertionPoint(own.function.getBody().front().getTerminator());
  if (auto fetch = dyn_cast<nn::FromHostOp>(maker)) {
    Value sent = find(point, fetch.getInput(), microbatch);
    if (!sent)
      return nullptr;
    return own.values[key] = sched::FromHostOp::create(builder, maker->getLoc(),
                                                       sent.getType(), sent);
  }
  if (isa<EnterOp>(maker)) {
    Value whole = find(point, maker->getOperand(0), -1);
    if (!whole)
      return nullptr;
    return own.values[key] = sched::RowOp::create(
               builder, maker->getLoc(),
               withoutForms(cast<RankedTensorType>(value.getType())), whole,
               microbatch);
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(maker);
      broadcast && int64_t(broadcast.getFrom()) == point)
    return find(point, maker->getOperand(0), microbatch);
  if (isa<CollectOp>(maker)) {
    SmallVector<Value> rows;
    for (int64_t row = 0; row < count; ++row)
      if (Value made = find(point, maker->getOperand(0), row))
        rows.push_back(made);
    if (int64_t(rows.size()) != count)
      return nullptr;
    builder.setInsertionPoint(own.function.getBody().front().getTerminator());
    return own.values[key] = sched::StackOp::create(
               builder, maker->getLoc(),
               withoutForms(cast<RankedTensorType>(value.getType())), rows);
  }
  return nullptr;
}

/// A sum before the first microbatch.
Value PointsWriter::makeZero(int64_t point, Value sum) {
  builder.setInsertionPoint(
      points[point].function.getBody().front().getTerminator());
  return sched::ZerosOp::create(
             builder, sum.getLoc(),
             TypeRange(withoutForms(cast<RankedTensorType>(sum.getType()))))
      .getResult(0);
}

/// A sum over the microbatches so far.
Value PointsWriter::getSum(int64_t point, Value sum) {
  Value &known = points[point].values[{sum, -2}];
  if (!known)
    known = makeZero(point, sum);
  return known;
}

bool PointsWriter::collectInputs(int64_t point, const Item &item,
                                 SmallVectorImpl<Value> &inputs) {
  for (Value input : item.action->inputs) {
    inputs.push_back(find(point, input, item.microbatch));
    if (!inputs.back())
      return false;
  }
  for (Value sum : item.action->sums)
    inputs.push_back(getSum(point, sum));
  return true;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

void PointsWriter::send(Operation *op, int64_t point, int64_t to,
                        int64_t microbatch) {
  Value value = find(point, op->getOperand(0), microbatch);
  auto at = [&](int64_t end) {
    builder.setInsertionPoint(
        points[end].function.getBody().front().getTerminator());
  };
  IntegerAttr number =
      microbatch < 0 ? IntegerAttr() : builder.getI64IntegerAttr(microbatch);
  at(point);
  sched::SendOp::create(builder, op->getLoc(), value, to, numTransfers, number);
  at(to);
  Value received = sched::ReceiveOp::create(
      builder, op->getLoc(), value.getType(), point, numTransfers++, number);
  points[to].values[{op->getResult(0), microbatch}] = received;
  sendAll(op->getResult(0), to, microbatch);
}

void PointsWriter::sendToHost(Operation *op, int64_t point,
                              int64_t microbatch) {
  Value value = find(point, op->getOperand(0), microbatch);
  builder.setInsertionPoint(
      points[point].function.getBody().front().getTerminator());
  points[point].values[getKey(op->getResult(0), microbatch)] =
      sched::ToHostOp::create(builder, op->getLoc(), value.getType(), value);
}

/// Sends `value`, which `point` has now, to all points that want it, and so its
/// rows and what is put together of it; and to the host, if it waits there.
void PointsWriter::sendAll(Value value, int64_t point, int64_t microbatch) {
  for (Operation *user : value.getUsers()) {
    if (isa<CollectOp>(user) && find(point, user->getResult(0), -1))
      sendAll(user->getResult(0), point, -1);
    if (isa<EnterOp>(user))
      for (int64_t row = 0; row < count; ++row)
        sendAll(user->getResult(0), point, row);
    if (isa<nn::ToHostOp>(user))
      sendToHost(user, point, microbatch);
    if (auto transfer = dyn_cast<TransferOp>(user))
      if (int64_t(transfer.getFrom()) == point)
        send(user, point, transfer.getTo(), microbatch);
    if (auto broadcast = dyn_cast<BroadcastOp>(user))
      if (int64_t(broadcast.getFrom()) == point)
        for (int64_t to = 0; to < int64_t(points.size()); ++to)
          if (to != point)
            send(user, point, to, microbatch);
  }
}

void PointsWriter::record(int64_t point, const Item &item, sched::RunOp run) {
  PointWriter &own = points[point];
  size_t index = 0;
  for (Value output : item.action->outputs)
    own.values[getKey(output, item.microbatch)] = run.getResult(index++);
  for (Value sum : item.action->sums)
    own.values[{sum, -2}] = run.getResult(index++);
}

/// Sends what an action has made to the points that want it.
void PointsWriter::sendMade(int64_t point, const Item &item) {
  PointWriter &own = points[point];
  for (Value output : item.action->outputs)
    if (item.action->makes(output))
      sendAll(output, point, isIterated(output) ? item.microbatch : -1);
  if (item.microbatch != count - 1)
    return;
  for (Value sum : item.action->sums) {
    own.values.insert({{sum, -1}, own.values.lookup({sum, -2})});
    sendAll(sum, point, -1);
  }
}

sched::RunOp PointsWriter::createRun(int64_t point, const Item &item,
                                     ValueRange inputs) {
  SmallVector<Type> types;
  for (Value output : item.action->outputs)
    types.push_back(withoutForms(cast<RankedTensorType>(output.getType())));
  for (Value sum : item.action->sums)
    types.push_back(withoutForms(cast<RankedTensorType>(sum.getType())));
  builder.setInsertionPoint(
      points[point].function.getBody().front().getTerminator());
  return sched::RunOp::create(
      builder, step.getLoc(), types, item.action->name,
      item.microbatch < 0 ? IntegerAttr()
                          : builder.getI64IntegerAttr(item.microbatch),
      item.strand < 0 ? IntegerAttr() : builder.getI64IntegerAttr(item.strand),
      inputs);
}

/// The points that run their next action together with that of `point`.
SmallVector<int64_t> PointsWriter::getTogether(int64_t point) const {
  const PointWriter &own = points[point];
  if (!own.items[own.next].action->meets)
    return {point};
  return llvm::to_vector(llvm::seq<int64_t>(0, points.size()));
}

/// Whether another point has not yet run an earlier segment behind the loops:
/// what it sends there comes before the checks of the later ones.
bool PointsWriter::isAhead(int64_t segment) const {
  return segment > actions.getLastLoop() &&
         llvm::any_of(points, [&](const PointWriter &other) {
           return other.next < other.items.size() &&
                  other.items[other.next].action->segment < segment;
         });
}

/// Runs the next action of a point, if it can. Where points meet, all run
/// theirs before one of them sends or receives.
bool PointsWriter::runNext(int64_t point) {
  if (points[point].next == points[point].items.size())
    return false;
  const Item &first = points[point].items[points[point].next];
  if (isAhead(first.action->segment))
    return false;
  if (first.group >= 0)
    return runGroup(point);
  SmallVector<int64_t> together = getTogether(point);
  std::vector<SmallVector<Value>> inputs(together.size());
  for (auto [other, own] : llvm::zip_equal(together, inputs)) {
    const PointWriter &writer = points[other];
    if (writer.next == writer.items.size())
      return false;
    const Item &item = writer.items[writer.next];
    if (item.action->segment != first.action->segment ||
        item.microbatch != first.microbatch || !collectInputs(other, item, own))
      return false;
  }
  SmallVector<sched::RunOp> runs;
  for (auto [other, own] : llvm::zip_equal(together, inputs))
    runs.push_back(
        createRun(other, points[other].items[points[other].next++], own));
  for (auto [other, run] : llvm::zip_equal(together, runs)) {
    const Item &item = points[other].items[points[other].next - 1];
    record(other, item, run);
    sendMade(other, item);
  }
  return true;
}

/// The actions of the group that is next on a point.
MutableArrayRef<Item> PointsWriter::getGroup(int64_t point) {
  PointWriter &own = points[point];
  int64_t group = own.items[own.next].group;
  return MutableArrayRef(own.items).drop_front(own.next).take_while(
      [&](const Item &item) { return item.group == group; });
}

/// Whether a group can begin: what an action reads is there, or its own strand
/// makes it. Sums go from one strand to the next. Where a strand waits for
/// another one, the group never can.
PointsWriter::GroupState PointsWriter::getGroupState(int64_t point) {
  GroupState state = GroupState::Ready;
  std::map<std::pair<const void *, int64_t>, int64_t> strands;
  for (const Item &item : getGroup(point)) {
    auto getMade = [&](Value value) {
      auto [known, microbatch] = getKey(value, item.microbatch);
      return std::pair(known.getAsOpaquePointer(), microbatch);
    };
    if (item.action->meets)
      return GroupState::InTurn;
    for (Value input : item.action->inputs) {
      if (find(point, input, item.microbatch))
        continue;
      auto made = strands.find(getMade(input));
      if (made == strands.end())
        state = GroupState::Waits;
      else if (made->second != item.strand)
        return GroupState::InTurn;
    }
    for (Value output : item.action->outputs)
      strands[getMade(output)] = item.strand;
  }
  return state;
}

/// Runs a group, if it can; then sends what all its actions have made.
bool PointsWriter::runGroup(int64_t point) {
  GroupState state = getGroupState(point);
  if (state == GroupState::InTurn)
    endGroup(point);
  if (state != GroupState::Ready)
    return state == GroupState::InTurn && runNext(point);
  ArrayRef<Item> group = getGroup(point);
  // Nothing stands between the runs of a group.
  for (const Item &item : group)
    for (Value sum : item.action->sums)
      getSum(point, sum);
  for (const Item &item : group) {
    SmallVector<Value> inputs;
    collectInputs(point, item, inputs);
    record(point, item, createRun(point, item, inputs));
  }
  for (const Item &item : group)
    sendMade(point, item);
  points[point].next += group.size();
  return true;
}

/// Lets the actions of the next group run in turn.
void PointsWriter::endGroup(int64_t point) {
  for (Item &item : getGroup(point))
    item.group = item.strand = -1;
}

/// If all points wait: ends the first group whose first action can run. A
/// strand waits for another one by way of other points.
bool PointsWriter::endWaitingGroup() {
  for (int64_t point = 0; point < int64_t(points.size()); ++point) {
    const PointWriter &own = points[point];
    SmallVector<Value> inputs;
    if (own.next == own.items.size() || own.items[own.next].group < 0 ||
        !collectInputs(point, own.items[own.next], inputs))
      continue;
    endGroup(point);
    return true;
  }
  return false;
}

/// Points that wait for each other's part of what runs on the whole batch.
LogicalResult PointsWriter::reportWhole(const Action &action) {
  auto found = llvm::find_if(action.ops, [](Operation *op) {
    return isa<nn::LibraryOpInterface>(op) &&
           nn::getPass(op) != nn::PassKind::Update;
  });
  if (action.isIterated || found == action.ops.end())
    return success();
  return (*found)->emitError("'")
         << (*found)->getName()
         << "' runs on the whole batch, and not on each microbatch: points of '"
         << mesh.getName(axis)
         << "' cannot take turns on it; expected rows that do not depend on "
            "one another";
}

/// Names what the first point that waits lacks.
LogicalResult PointsWriter::reportWaiting() {
  for (auto [number, point] : llvm::enumerate(points)) {
    if (point.next == point.items.size())
      continue;
    const Item &item = point.items[point.next];
    if (failed(reportWhole(*item.action)))
      return failure();
    for (Value input : item.action->inputs) {
      if (find(number, input, item.microbatch))
        continue;
      InFlightDiagnostic error = emitError(input.getLoc())
                                 << "point " << number << " of '"
                                 << mesh.getName(axis) << "' never runs '"
                                 << item.action->name << "'";
      if (item.microbatch >= 0)
        error << " of microbatch " << item.microbatch;
      if (Operation *maker = input.getDefiningOp())
        error << ", which reads what '" << maker->getName() << "' makes";
      return error << ": the order has no action that makes it before, or "
                      "points wait for each other";
    }
  }
  return success();
}

/// Each result is given by the points that have it.
LogicalResult PointsWriter::giveResults() {
  for (OpOperand &operand : block.getTerminator()->getOpOperands()) {
    bool isGiven = false;
    for (int64_t point = 0; point < int64_t(points.size()); ++point) {
      int64_t at = actions.getPoint(operand.get());
      Value value = find(point, operand.get(), -1);
      if ((at >= 0 && at != point) || !value)
        continue;
      builder.setInsertionPoint(
          points[point].function.getBody().front().getTerminator());
      sched::GiveOp::create(builder, step.getLoc(), value,
                            operand.getOperandNumber());
      isGiven = true;
    }
    if (!isGiven)
      return step.emitError("result ")
             << operand.getOperandNumber() << " ("
             << nn::getTensorName(
                    step.getResultAttrDict(operand.getOperandNumber()))
             << ") is made in no section";
  }
  return success();
}

LogicalResult PointsWriter::run() {
  for (BlockArgument argument : step.getArguments())
    if (int64_t at = actions.getPoint(argument); at >= 0)
      sendAll(argument, at, -1);
  bool isMoving = true;
  while (isMoving || endWaitingGroup()) {
    isMoving = false;
    for (int64_t point = 0; point < int64_t(points.size()); ++point)
      isMoving |= runNext(point);
  }
  if (failed(reportWaiting()))
    return failure();
  return giveResults();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

LogicalResult OutlineActionsPass::run() {
  ModuleOp module = getOperation();
  auto step = module.lookupSymbol<func::FuncOp>("step");
  auto pipe = module->getAttrOfType<StringAttr>(kPipeAttrName);
  MeshAttr mesh = getMesh(module);
  if (!pipe)
    return success();
  std::optional<unsigned> axis;
  if (mesh)
    axis = mesh.lookup(pipe);
  if (!step || !axis)
    return module.emitError("module has no function @step on a mesh with the "
                            "axis '")
           << pipe.getValue() << "'";
  if (failed(verifyForms(step, mesh, FormsLeft::TimeAndAt)))
    return failure();
  if (strands < 1)
    return module.emitError("strands is ")
           << strands << ", expected at least 1";
  int64_t count = getIterations(step);
  OrderSource source{order, std::nullopt, strands};
  if (!rows.empty())
    source.rows = rows.getValue();
  auto made = makePointOrder(step, mesh.getSize(*axis), count, source);
  if (failed(made))
    return failure();
  keepWhole(step, mesh, *axis);
  if (orders::runsForwardFirst(*made))
    reuseEarlierLoops(step, mesh, *axis);
  Actions actions(step, mesh, *axis, *joined);
  if (failed(actions.find()))
    return failure();
  for (const auto &[name, action] : actions.byName)
    actions.write(action, module);
  PointsWriter writer(step, mesh, *axis, actions, count);
  writer.makePoints();
  writer.list(*made);
  if (failed(writer.run()))
    return failure();
  step.eraseBody();
  step.setPrivate();
  return success();
}
