//===- Actions.cpp - what runs as one piece -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is in a section, in the last loop, is in an action of the section: F is
// the forward pass, FA adds what the forward passes of all microbatches sum up,
// I is what the gradients depend on that leave the section, and W the rest of
// the backward pass, or of joined points all of it. S sums the section's
// gradients over other devices, once, behind its last W. All else is in an
// action of its point and segment, which all points have: what is in no section
// runs on each of them.
//
//===----------------------------------------------------------------------===//

#include "Actions.h"
#include "mlir/IR/Builders.h"
#include "tandem/Analysis/Gradients.h"
#include "tandem/Analysis/Loops.h"
#include "tandem/Analysis/TensorType.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/Host.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

void tandem::keepWhole(func::FuncOp step, MeshAttr mesh, unsigned axis) {
  Block &block = step.getBody().front();
  for (auto fetch :
       llvm::make_early_inc_range(block.getOps<nn::FromHostOp>())) {
    Type type = fetch.getResult().getType();
    if (nn::fetchesArgument(fetch) || getForms(type, mesh)[axis].isAt())
      continue;
    auto sent = fetch.getInput().getDefiningOp<nn::ToHostOp>();
    fetch.replaceAllUsesWith(sent.getInput());
    fetch.erase();
    if (sent.use_empty())
      sent.erase();
  }
}

/// Whether `op` is behind the passes: an update, or what is returned alone, as
/// a loss, which is checked there.
static bool isBehind(Operation *op) {
  auto isReturn = [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>();
  };
  return nn::getPass(op) == nn::PassKind::Update ||
         (llvm::all_of(op->getUsers(), isReturn) &&
          !isa<nn::LibraryOpInterface>(op));
}

Value Action::getOwn(Value value) const {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast && int64_t(broadcast.getFrom()) == point
             ? getOwn(broadcast.getOperand())
             : value;
}

Actions::Actions(func::FuncOp step, MeshAttr mesh, unsigned axis,
                 ArrayRef<int64_t> joined)
    : step(step), block(step.getBody().front()), mesh(mesh), axis(axis),
      joined(joined), segments(getSegments(block)) {
  bool hasLoops = llvm::any_of(
      block, [](Operation &op) { return getLoop(&op).has_value(); });
  // One microbatch: what is before the update is the only iteration.
  if (!hasLoops)
    for (auto &[op, segment] : segments)
      segment = isBehind(op) ? 2 : 1;
  for (const auto &[op, segment] : segments)
    if (segment % 2)
      lastLoop = std::max(lastLoop, segment);
  splitLast();
  findLeaving();
  findSums();
  for (const auto &[op, segment] : segments)
    numSegments = std::max(numSegments, segment + 1);
  last = std::max(numSegments - 1, lastLoop + 1);
}

/// What comes to other points behind the loops, as the gradient of a parameter
/// that two sections read, is in segments of its own, before the checks: points
/// cannot agree that all is well while one of them waits for another.
void Actions::splitLast() {
  llvm::DenseMap<Operation *, int64_t> depths; // transfers in front of it
  int64_t numDepths = 0;
  for (Operation &op : block) {
    if (segments.lookup(&op) <= lastLoop)
      continue;
    int64_t &depth = depths[&op];
    for (Value operand : op.getOperands())
      if (auto found = depths.find(operand.getDefiningOp());
          found != depths.end())
        depth = std::max(depth, found->second + isBoundary(found->first));
    if (isBoundary(&op))
      numDepths = std::max(numDepths, depth + 1);
  }
  llvm::DenseSet<Operation *> leading;
  for (Operation &op : llvm::reverse(block)) {
    auto leads = [&](Operation *user) {
      return leading.contains(user) || isBoundary(user);
    };
    if (!depths.contains(&op) || op.hasTrait<OpTrait::IsTerminator>())
      continue;
    bool isLeading = llvm::any_of(op.getUsers(), leads);
    if (isLeading)
      leading.insert(&op);
    segments[&op] += 2 * (isLeading ? depths.lookup(&op) : numDepths);
  }
}

bool Actions::isJoined(int64_t section) const {
  auto points =
      step->getParentOp()->getAttrOfType<DenseI64ArrayAttr>(kSectionsAttrName);
  return points && llvm::is_contained(joined, points[section]);
}

/// A gradient leaves a section by a transfer of the last loop, or to another
/// section of the point.
void Actions::findLeaving() {
  for (Operation &op : llvm::reverse(block)) {
    auto section = getInteger(&op, kSectionAttrName);
    if (segments.lookup(&op) != lastLoop || !section || isCarried(&op) ||
        !isBackward(&op) || isJoined(*section))
      continue;
    auto leads = [&](Operation *user) {
      auto other = getInteger(user, kSectionAttrName);
      return segments.lookup(user) == lastLoop && !isCarried(user) &&
             (leaving.contains(user) || isa<TransferOp, BroadcastOp>(user) ||
              (other && *other != *section));
    };
    if (llvm::any_of(op.getUsers(), leads))
      leaving.insert(&op);
  }
}

/// Whether `operand` is there behind the last W of the section of `user`.
bool Actions::isReady(Value operand, Operation *user) const {
  Operation *maker = operand.getDefiningOp();
  int64_t point = getPoint(operand);
  if (point >= 0 && point != getPoint(user->getResult(0)))
    return false;
  if (!maker || isBoundary(maker))
    return !maker;
  if (sums.contains(maker) || segments.lookup(maker) == lastLoop)
    return getInteger(maker, kSectionAttrName) ==
           getInteger(user, kSectionAttrName);
  return segments.lookup(maker) < lastLoop;
}

/// Behind the loops what reads sums over microbatches alone; of a microbatch
/// that is the only one, collectives and what follows them. A point would wait
/// at once for what it sends.
bool Actions::canSum(Operation *op) const {
  auto isOfSum = [&](Value operand) {
    return sums.contains(operand.getDefiningOp());
  };
  auto isSent = [&](Operation *user) { return isBoundary(user); };
  int64_t segment = segments.lookup(op);
  if (segment < lastLoop || getLoop(op) || !isBackward(op) || isBoundary(op) ||
      isMeeting(op) || !getInteger(op, kSectionAttrName) ||
      getPoint(op->getResult(0)) < 0 || llvm::any_of(op->getUsers(), isSent))
    return false;
  return llvm::all_of(op->getOperands(),
                      [&](Value value) { return isReady(value, op); }) &&
         (segment > lastLoop || isCollective(op) ||
          llvm::any_of(op->getOperands(), isOfSum));
}

void Actions::findSums() {
  for (Operation &op : block.without_terminator())
    if (canSum(&op))
      sums.insert(&op);
  for (Operation &op : llvm::reverse(block)) {
    auto isSum = [&](Operation *user) { return sums.contains(user); };
    auto isPass = [&](Operation *user) {
      return !isSum(user) && segments.lookup(user) == lastLoop &&
             !user->hasTrait<OpTrait::IsTerminator>();
    };
    bool leads = isCollective(&op) || llvm::any_of(op.getUsers(), isSum);
    if (isSum(&op) && (!leads || llvm::any_of(op.getUsers(), isPass)))
      sums.erase(&op);
  }
}

int64_t Actions::getPoint(Value value) const {
  AxisForm form = getForms(value.getType(), mesh)[axis];
  return form.isAt() ? form.getPoint() : -1;
}

bool Actions::isIterated(Value value) const {
  Operation *maker = value.getDefiningOp();
  return maker && segments.lookup(maker) % 2 && !isCarried(maker);
}

/// What enters a loop is an input of its readers, and what all iterations make
/// is put together behind them. What waits on the host is copied between
/// actions.
bool Actions::isBoundary(Operation *op) const {
  bool copies = nn::isHostCopy(op) && !nn::fetchesArgument(op);
  return copies || isa<TransferOp, BroadcastOp, EnterOp, CollectOp>(op);
}

/// Whether each action that reads it makes it.
bool Actions::isWhole(Operation *op) const {
  return isIterated(op->getResult(0)) && !isBoundary(op) &&
         getPoint(op->getResult(0)) < 0;
}

/// Whether `op` puts the rows of all microbatches together, or returns values.
static bool isOfResults(Operation *op) {
  return isa<CollectOp>(op) || op->hasTrait<OpTrait::IsTerminator>();
}

StringRef Actions::getLetter(Operation *op) const {
  if (segments.lookup(op) != lastLoop)
    return isBackward(op) ? "B" : "F";
  if (!isBackward(op))
    return isCarried(op) ? "FA" : "F";
  return leaving.contains(op) ? "I" : "W";
}

std::string Actions::getName(Operation *op, int64_t point) const {
  int64_t segment = segments.lookup(op);
  auto section = getInteger(op, kSectionAttrName);
  if (sums.contains(op))
    return getName(*section, "S", lastLoop);
  if (segment % 2 == 0 || !section)
    return ("p" + Twine(point) + "." + Twine(segment)).str();
  return getName(*section, getLetter(op), segment);
}

std::string Actions::getName(int64_t section, StringRef letter,
                             int64_t segment) const {
  std::string name = ("s" + Twine(section) + "." + letter).str();
  return segment == lastLoop ? name : name + "." + std::to_string(segment);
}

Action *Actions::findOf(int64_t section, StringRef letter, int64_t segment) {
  auto found = byName.find(getName(section, letter, segment));
  return found == byName.end() ? nullptr : &found->second;
}

Action *Actions::findOnce(int64_t point, int64_t segment) {
  auto found = byName.find(("p" + Twine(point) + "." + Twine(segment)).str());
  return found == byName.end() ? nullptr : &found->second;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// Whether all points meet in it.
bool Actions::isMeeting(Operation *op) const {
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  return isa<AllReduceOp>(op) && axes &&
         llvm::is_contained(axes.getAsValueRange<StringAttr>(),
                            mesh.getName(axis));
}

void Actions::add(Operation *op, Action &action) {
  action.ops.push_back(op);
  bool isSum = sums.contains(op);
  action.segment = isSum ? lastLoop : segments.lookup(op);
  action.isIterated = !isSum && action.segment % 2;
  action.meets |= isMeeting(op);
}

/// Adds what all points have and an action of the last loop reads.
void Actions::addWhole() {
  for (auto &[name, action] : byName) {
    llvm::DenseSet<Operation *> own(action.ops.begin(), action.ops.end());
    SmallVector<Operation *> todo(action.ops);
    while (!todo.empty())
      for (Value operand : todo.pop_back_val()->getOperands())
        if (Operation *maker = operand.getDefiningOp();
            maker && isWhole(maker) && own.insert(maker).second) {
          action.addCopy(maker);
          todo.push_back(maker);
        }
    llvm::sort(action.ops, [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
  }
}

void Actions::findInputs(Action &action) {
  llvm::DenseSet<Operation *> own(action.ops.begin(), action.ops.end());
  for (Operation *op : action.ops) {
    auto zeroed = dyn_cast<ZeroOthersOp>(op);
    if (zeroed && int64_t(zeroed.getPoint()) != action.point)
      continue;
    for (Value operand : op->getOperands()) {
      Value value = action.getOwn(operand);
      if (!own.contains(value.getDefiningOp()))
        action.inputs.insert(value);
    }
  }
}

/// What actions of the point read, or what is sent or returned.
void Actions::findOutputs(Action &action, const llvm::DenseSet<Value> &read) {
  for (Operation *op : action.ops) {
    if (isa<CarryOp>(op)) {
      action.sums.push_back(op->getResult(0));
      continue;
    }
    // What all points have is made where it is read.
    auto isForOthers = [&](Value result) {
      return (!isWhole(op) && read.contains(result)) ||
             llvm::any_of(result.getUsers(), [&](Operation *user) {
               return isOfResults(user) || (!isWhole(op) && isBoundary(user));
             });
    };
    if (!action.copies.contains(op))
      for (Value result : op->getResults())
        if (isForOthers(result))
          action.outputs.insert(result);
  }
}

/// A point takes part in a sum over points that it does not read itself, too.
void Actions::keepMeetings(Action &action) {
  llvm::DenseSet<Value> read(action.outputs.begin(), action.outputs.end());
  read.insert(action.sums.begin(), action.sums.end());
  for (Operation *op : llvm::reverse(action.ops)) {
    if (isMeeting(op) && !read.contains(op->getResult(0))) {
      action.outputs.insert(op->getResult(0));
      read.insert(op->getResult(0));
    }
    if (llvm::any_of(op->getResults(),
                     [&](Value made) { return read.contains(made); }))
      read.insert(op->operand_begin(), op->operand_end());
  }
}

static bool isChecked(DictionaryAttr facts) {
  auto role = nn::getRole(facts);
  return role == nn::Role::Loss || role == nn::Role::Check;
}

/// Whether a result is checked, or stored, or an argument: what is stored may
/// take its place.
static bool isOfLast(func::FuncOp step, OpOperand &result) {
  DictionaryAttr facts = step.getResultAttrDict(result.getOperandNumber());
  if (auto updated = nn::getUpdates(facts))
    return result.get() != step.getArgument(*updated);
  return isChecked(facts) || isa<BlockArgument>(result.get());
}

/// The last action of a point checks what all its actions have made, and stores
/// behind the checks of all points.
void Actions::addToLast() {
  for (OpOperand &operand : block.getTerminator()->getOpOperands()) {
    if (!isOfLast(step, operand))
      continue;
    numSegments = last + 1;
    int64_t at = getPoint(operand.get());
    for (int64_t point = 0; point < mesh.getSize(axis); ++point)
      if (at < 0 || at == point)
        addToLast(operand, point);
  }
}

void Actions::addToLast(OpOperand &result, int64_t point) {
  std::string name = ("p" + Twine(point) + "." + Twine(last)).str();
  Action &action = byName[name];
  action.name = name;
  action.isOfAll = true;
  action.point = point;
  action.segment = last;
  Operation *maker = result.get().getDefiningOp();
  if (!maker || isBoundary(maker) || sums.contains(maker) ||
      segments.lookup(maker) < last) {
    action.inputs.insert(action.getOwn(result.get()));
    action.outputs.insert(result.get());
  }
  DictionaryAttr facts = step.getResultAttrDict(result.getOperandNumber());
  if (auto updated = nn::getUpdates(facts))
    action.inputs.insert(step.getArgument(*updated));
}

LogicalResult Actions::find() {
  int64_t numPoints = mesh.getSize(axis);
  for (Operation &op : block.without_terminator()) {
    if (isa<ReduceOp>(op))
      return op.emitError("a sum that one point of '")
             << mesh.getName(axis) << "' gets, expected one for all points";
    int64_t point = getPoint(op.getResult(0));
    if (isBoundary(&op) ||
        (isWhole(&op) && llvm::none_of(op.getUsers(), isOfResults)))
      continue;
    for (int64_t other = 0; other < numPoints; ++other)
      if (point < 0 || point == other) {
        std::string name = getName(&op, other);
        Action &action = byName[name];
        action.name = name;
        action.isOfAll = name.front() == 'p';
        action.point = other;
        add(&op, action);
      }
  }
  remakeViews();
  addWhole();
  std::vector<llvm::DenseSet<Value>> read(numPoints);
  for (auto &[name, action] : byName) {
    findInputs(action);
    read[action.point].insert(action.inputs.begin(), action.inputs.end());
  }
  for (auto &[name, action] : byName) {
    findOutputs(action, read[action.point]);
    keepMeetings(action);
  }
  addToLast();
  for (auto &[name, action] : byName)
    action.isLast = action.segment == last;
  return success();
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

Type Actions::getType(Type type) const {
  Forms forms = getForms(type, mesh);
  forms[axis] = AxisForm::full();
  return withForms(withoutForms(cast<RankedTensorType>(type)), mesh, forms);
}

namespace {
/// What an argument or a result of an action is called.
NamedAttrList describe(Builder &builder, nn::Role role, const Twine &name) {
  NamedAttrList attributes;
  attributes.set(nn::kRoleAttrName,
                 nn::RoleAttr::get(builder.getContext(), role));
  attributes.set(nn::kNameAttrName, builder.getStringAttr(name));
  return attributes;
}

/// The facts of a tensor of the step that hold for one of an action, too.
NamedAttrList keepFacts(DictionaryAttr attributes) {
  NamedAttrList kept;
  if (attributes)
    for (StringRef name :
         {nn::kRoleAttrName, nn::kNameAttrName, nn::kOfAttrName, kHostAttrName})
      if (Attribute value = attributes.get(name))
        kept.set(name, value);
  return kept;
}

/// Writes the step of one action.
class ActionWriter {
public:
  ActionWriter(const Action &action, func::FuncOp step,
               llvm::function_ref<Type(Type)> getType)
      : action(action), step(step), getType(getType),
        builder(step.getContext()) {}
  void write(Block &body);

private:
  void addArguments();
  void mapOwn(ValueRange values);
  void cloneOp(Operation *op);
  Value makeZeros(Operation *op);
  void addResults();
  OpOperand *findResult(Value output);
  void addResult(Value value);

  const Action &action;
  func::FuncOp step;
  llvm::function_ref<Type(Type)> getType;
  OpBuilder builder;
  func::FuncOp function;
  IRMapping map;
  llvm::DenseMap<Value, unsigned> numbers; ///< of arguments
  SmallVector<Value> results;
  SmallVector<NamedAttrList> argumentFacts, resultFacts;
};
} // namespace

void ActionWriter::addArguments() {
  Block &entry = function.getBody().emplaceBlock();
  SmallVector<Value> inputs(action.inputs.begin(), action.inputs.end());
  llvm::append_range(inputs, action.sums);
  for (auto [index, input] : llvm::enumerate(inputs)) {
    map.map(input, entry.addArgument(getType(input.getType()), input.getLoc()));
    numbers[input] = index;
    auto argument = dyn_cast<BlockArgument>(input);
    bool isSum = index >= action.inputs.size();
    NamedAttrList facts =
        argument ? keepFacts(step.getArgAttrDict(argument.getArgNumber()))
                 : describe(builder, isSum ? nn::Role::State : nn::Role::Input,
                            "v" + Twine(index));
    argumentFacts.push_back(facts);
  }
  builder.setInsertionPointToEnd(&entry);
}

/// On a point that lacks the value.
Value ActionWriter::makeZeros(Operation *op) {
  auto type = cast<RankedTensorType>(getType(op->getResult(0).getType()));
  auto zeros = DenseElementsAttr::get(
      withoutForms(type), builder.getZeroAttr(type.getElementType()));
  return nn::ConstantOp::create(builder, op->getLoc(), type, zeros);
}

/// The names of one tensor are one argument: an update in place has to know.
void ActionWriter::mapOwn(ValueRange values) {
  for (Value value : values)
    if (Value own = action.getOwn(value); own != value)
      map.map(value, map.lookup(own));
}

void ActionWriter::cloneOp(Operation *op) {
  mapOwn(op->getOperands());
  Value result = op->getResult(0);
  if (auto zeroed = dyn_cast<ZeroOthersOp>(op);
      zeroed && int64_t(zeroed.getPoint()) != action.point) {
    map.map(result, makeZeros(op));
    nn::copyPass(op, map.lookup(result).getDefiningOp());
    return;
  }
  if (isa<ZeroOthersOp, KeepAtOp>(op)) {
    map.map(result, map.lookup(op->getOperand(0)));
    return;
  }
  if (isa<CarryOp>(op)) {
    Value sum = map.lookup(result), term = map.lookup(op->getOperand(0));
    auto added =
        nn::AddOp::create(builder, op->getLoc(), sum.getType(), sum, term);
    nn::copyPass(op, added);
    map.map(result, added);
    return;
  }
  Operation *copy = builder.clone(*op, map);
  if (action.copies.contains(op))
    nn::copyPass(*llvm::find_if_not(action.ops,
                                    [&](Operation *own) {
                                      return action.copies.contains(own);
                                    }),
                 copy);
  copy->removeAttr(kLoopAttrName);
  copy->removeAttr(kSectionAttrName);
  for (Value made : copy->getResults())
    made.setType(getType(made.getType()));
}

/// The result of the step that an output is. One that is checked comes first,
/// then one that is stored: others are copies of it.
OpOperand *ActionWriter::findResult(Value output) {
  OpOperand *found = nullptr;
  int best = -1;
  for (OpOperand &use : output.getUses()) {
    if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>())
      continue;
    DictionaryAttr facts = step.getResultAttrDict(use.getOperandNumber());
    int rank = isChecked(facts) ? 2 : nn::getUpdates(facts) ? 1 : 0;
    if (rank > best)
      found = &use;
    best = std::max(best, rank);
  }
  return found;
}

void ActionWriter::addResult(Value value) {
  mapOwn(value);
  results.push_back(map.lookup(value));
  OpOperand *result = findResult(value);
  if (!result)
    return resultFacts.push_back(
        describe(builder, nn::Role::Output, "v" + Twine(results.size())));
  DictionaryAttr own = step.getResultAttrDict(result->getOperandNumber());
  NamedAttrList facts = keepFacts(own);
  if (!action.isLast)
    facts.set(nn::kRoleAttrName,
              nn::RoleAttr::get(builder.getContext(), nn::Role::Output));
  else if (auto updated = nn::getUpdates(own))
    facts.set(nn::kUpdatesAttrName, builder.getI64IntegerAttr(numbers.lookup(
                                        step.getArgument(*updated))));
  resultFacts.push_back(facts);
}

void ActionWriter::addResults() {
  for (Value output : action.outputs)
    addResult(output);
  for (Value sum : action.sums) {
    results.push_back(map.lookup(sum));
    unsigned number = numbers.lookup(sum);
    NamedAttrList facts = argumentFacts[number];
    facts.set(nn::kUpdatesAttrName, builder.getI64IntegerAttr(number));
    resultFacts.push_back(facts);
  }
  func::ReturnOp::create(builder, step.getLoc(), results);
}

void ActionWriter::write(Block &body) {
  builder.setInsertionPointToEnd(&body);
  function = func::FuncOp::create(builder, step.getLoc(), "step",
                                  builder.getFunctionType({}, {}));
  addArguments();
  for (Operation *op : action.ops)
    cloneOp(op);
  addResults();
  function.setType(
      builder.getFunctionType(function.getBody().front().getArgumentTypes(),
                              ValueRange(results).getTypes()));
  auto toArray = [&](MutableArrayRef<NamedAttrList> lists, TypeRange types) {
    SmallVector<Attribute> dictionaries;
    // What a rank has is a whole to an action.
    for (auto [list, type] : llvm::zip_equal(lists, types)) {
      list.set(kLayoutAttrName, TypeAttr::get(type));
      dictionaries.push_back(list.getDictionary(builder.getContext()));
    }
    return builder.getArrayAttr(dictionaries);
  };
  function.setArgAttrsAttr(toArray(argumentFacts, function.getArgumentTypes()));
  function.setResAttrsAttr(toArray(resultFacts, function.getResultTypes()));
}

ModuleOp Actions::write(const Action &action, ModuleOp module) {
  OpBuilder builder(module.getContext());
  builder.setInsertionPointToEnd(module.getBody());
  auto own = ModuleOp::create(builder, step.getLoc(), action.name);
  for (NamedAttribute fact : module->getDiscardableAttrs())
    if (fact.getName() != kSectionsAttrName && fact.getName() != kPipeAttrName)
      own->setAttr(fact.getName(), fact.getValue());
  ActionWriter(action, step, [&](Type type) {
    return getType(type);
  }).write(*own.getBody());
  return own;
}
