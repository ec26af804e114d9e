//===- StepGraph.cpp - a training step as the planner sees it -------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OperatorGroups.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/HashStep.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/NN/Regions.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;
using namespace tandem::spmd;
using namespace tandem::plan;

StepGraph::StepGraph(func::FuncOp step, ArrayRef<unsigned> ofRegions)
    : step(step), hash(hashStep(step)),
      byId(std::make_shared<std::map<int64_t, unsigned>>()) {
  addArguments();
  addRegions(ofRegions);
  addOperators();
  findOptional();
  findLeftOut();
  addResults();
  group();
}

void StepGraph::group() {
  groups = std::make_shared<const OperatorGroups>(*this);
}

StepGraph StepGraph::onMesh(MeshAttr ofGraph) const {
  StepGraph graph = *this;
  graph.mesh = ofGraph;
  unsigned numAxes = ofGraph.getNumAxes();
  for (ArgumentNode &node : graph.arguments)
    node.forms.assign(numAxes, AxisForm::full());
  for (ValueNode &value : graph.values)
    value.pinned.clear();
  for (OpNode &op : graph.ops) {
    Signature full;
    full.operands.assign(op.operands.size(), AxisForm::full());
    full.results.assign(op.results.size(), AxisForm::full());
    op.signatures.assign(numAxes, full);
    op.sourcePin = SourcePin::None;
  }
  return graph;
}

std::optional<unsigned> StepGraph::findOperator(int64_t id) const {
  auto it = byId->find(id);
  return it == byId->end() ? std::nullopt : std::optional(it->second);
}

/// Finds the parameter of each state, by name: `exp_avg.<parameter>`.
static void findParameters(MutableArrayRef<ArgumentNode> arguments) {
  llvm::StringMap<unsigned> parameters;
  for (auto [index, argument] : llvm::enumerate(arguments))
    if (argument.role == Role::Parameter)
      parameters.try_emplace(argument.name, index);
  for (ArgumentNode &state : arguments) {
    auto it = parameters.find(state.name.split('.').second);
    if (state.role == Role::State && it != parameters.end() &&
        arguments[it->second].type.getShape() == state.type.getShape())
      state.parameter = it->second;
  }
}

void StepGraph::addArguments() {
  for (BlockArgument argument : step.getArguments()) {
    unsigned index = argument.getArgNumber();
    ArgumentNode node;
    DictionaryAttr attributes = step.getArgAttrDict(index);
    node.role = getRole(attributes).value_or(Role::Input);
    node.name = getTensorName(attributes);
    auto part = getPart(attributes);
    node.whole = part ? part.getName() : node.name;
    node.type = cast<RankedTensorType>(argument.getType());
    if (std::optional<int64_t> dim = getBatchDim(attributes))
      node.batchDim = *dim;
    arguments.push_back(std::move(node));
    ValueNode &value = values.emplace_back();
    value.value = argument;
    value.index = index;
    value.bytes = getBytes(argument.getType());
    value.viewOf = index;
  }
  findParameters(arguments);
}

/// Finds the choices of regions and, readers first, what nobody reads because
/// of their sources.
void StepGraph::addRegions(ArrayRef<unsigned> sources) {
  Block &body = step.getBody().front();
  for (EitherOp either : body.getOps<EitherOp>())
    if (isOfRegion(either))
      regions.push_back(
          {either, getId(either).value_or(-1),
           sources.empty() ? getSource(either) : sources[regions.size()]});
  if (regions.empty())
    return;
  llvm::DenseSet<Value> read;
  llvm::DenseSet<Operation *> left;
  auto choice = regions.rbegin();
  for (Operation &op : llvm::reverse(body)) {
    bool isRead = llvm::any_of(
        op.getResults(), [&](Value result) { return read.contains(result); });
    bool isChoice = isOfRegion(&op);
    if (isChoice && isRead)
      read.insert(op.getOperand(choice->source));
    choice += isChoice;
    auto isLeft = [&](Operation *user) { return left.contains(user); };
    if (isChoice || (!isRead && llvm::any_of(op.getUsers(), isLeft))) {
      left.insert(&op);
      unread.push_back(&op);
    } else {
      read.insert_range(op.getOperands());
    }
  }
}

void StepGraph::addOperators() {
  llvm::DenseMap<Value, unsigned> numbers;
  llvm::SmallPtrSet<Operation *, 8> left(unread.begin(), unread.end());
  auto choice = regions.begin();
  for (auto [index, node] : llvm::enumerate(values))
    numbers[node.value] = index;
  Block &body = step.getBody().front();
  ops.reserve(body.getOperations().size());
  for (Operation &op : body) {
    if (isOfRegion(&op)) {
      auto source = numbers.find(op.getOperand(choice->source));
      if (source != numbers.end())
        numbers[op.getResult(0)] = choice->value = source->second;
      ++choice;
    }
    if (left.contains(&op))
      continue;
    unsigned number = ops.size();
    for (auto [index, operand] : llvm::enumerate(op.getOperands()))
      values[numbers[operand]].uses.push_back(
          {number, static_cast<unsigned>(index)});
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value operand : op.getOperands())
        results.push_back({numbers[operand]});
      break;
    }
    OpNode &node = ops.emplace_back();
    node.op = &op;
    if (std::optional<int64_t> id = getId(&op)) {
      node.id = *id;
      (*byId)[node.id] = number;
    }
    node.pass = getPass(&op).value_or(PassKind::Forward);
    node.isView = op.hasTrait<View>();
    node.flops = getFlops(&op);
    node.source = node.isEither() ? getSource(&op) : 0;
    node.rule = cast<SignatureOpInterface>(op).getRule();
    for (Value operand : op.getOperands())
      node.operands.push_back(numbers[operand]);
    if (isa<FromHostOp>(op))
      values[node.operands[0]].isOnHost = true;
    auto hasSum = [&](const auto &linear) {
      return llvm::any_of(linear, [&](unsigned operand) {
        return values[node.operands[operand]].isSummedInUpdate;
      });
    };
    bool isSummed =
        node.pass == PassKind::Update &&
        (node.rule.makesSums() || llvm::any_of(node.rule.linear, hasSum));
    for (auto [index, result] : llvm::enumerate(op.getResults())) {
      unsigned value = values.size();
      numbers[result] = value;
      node.results.push_back(value);
      ValueNode &added = values.emplace_back();
      added.value = result;
      added.producer = number;
      added.index = index;
      added.bytes = getBytes(result.getType());
      added.isOnHost = isa<ToHostOp>(op);
      added.isSummedInUpdate = isSummed;
      if (node.isView || isa<FromHostOp>(op))
        added.viewOf = values[node.operands[0]].viewOf;
    }
  }
}

bool StepGraph::isFromHost(const OpNode &either, unsigned source) const {
  int producer = values[either.operands[source]].producer;
  return producer >= 0 && isa<FromHostOp>(ops[producer].op);
}

bool StepGraph::mayTake(const OpNode &either, unsigned source) const {
  switch (either.sourcePin) {
  case SourcePin::None:
    return true;
  case SourcePin::Again:
    return source > 0 && !isFromHost(either, source);
  case SourcePin::Host:
    return isFromHost(either, source);
  }
  llvm_unreachable("no such pin");
}

bool StepGraph::isChosenOf(unsigned value) const {
  return llvm::any_of(values[value].uses, [&](Use use) {
    return use.op < ops.size() && ops[use.op].isEither();
  });
}

bool StepGraph::isTerm(unsigned value) const {
  const auto &uses = values[value].uses;
  return !uses.empty() && llvm::all_of(uses, [&](const Use &use) {
    return use.op < ops.size() && isa<CarryOp>(ops[use.op].op);
  });
}

void StepGraph::findOptional() {
  auto leavesOut = [&](Use use) {
    return use.op < ops.size() &&
           (ops[use.op].isEither() || ops[use.op].isOptional);
  };
  for (OpNode &op : llvm::reverse(ops))
    op.isOptional =
        isAgain(op.op) && llvm::all_of(op.results, [&](unsigned value) {
          return llvm::all_of(values[value].uses, leavesOut);
        });
}

void StepGraph::findLeftOut() {
  auto isNone = [&](unsigned value) {
    return llvm::all_of(values[value].uses,
                        [&](const Use &use) { return isLeftOut(use); });
  };
  for (OpNode &op : llvm::reverse(ops))
    op.isLeftOut =
        (op.isOptional || op.isEither()) && llvm::all_of(op.results, isNone);
}

void StepGraph::addResults() {
  for (auto [index, result] : llvm::enumerate(results)) {
    DictionaryAttr attributes = step.getResultAttrDict(index);
    if (std::optional<int64_t> updates = getUpdates(attributes)) {
      result.argument = *updates;
      result.isUpdate = true;
      values[result.value].isOnHost |= values[*updates].isOnHost;
      continue;
    }
    StringRef name = getTensorName(attributes);
    if (getRole(attributes) != Role::Gradient || name.empty())
      continue;
    for (auto [number, argument] : llvm::enumerate(arguments))
      if (argument.role == Role::Parameter && argument.name == name)
        result.argument = number;
  }
}

std::string StepGraph::getMadeName(unsigned value) const {
  const ValueNode &node = values[value];
  const OpNode &op = ops[node.producer];
  std::string name =
      op.op->getName().getStringRef().str() + "#" + std::to_string(op.id);
  return node.index ? name + ":" + std::to_string(node.index) : name;
}

bool StepGraph::obeysPins(const OpNode &op, const Signature &signature,
                          unsigned axis) const {
  for (auto [value, form] : llvm::zip(op.results, signature.results)) {
    const auto &pinned = values[value].pinned;
    if (!pinned.empty() && pinned[axis] && *pinned[axis] != form)
      return false;
  }
  return true;
}

std::string StepGraph::describeArgument(unsigned index) const {
  const ArgumentNode &node = arguments[index];
  return (stringifyRole(node.role) + " " + node.name).str();
}

AxisForm StepGraph::getForm(unsigned value, unsigned axis) const {
  const ValueNode &node = values[value];
  if (node.producer < 0)
    return arguments[node.index].forms[axis];
  return ops[node.producer].signatures[axis].results[node.index];
}

Forms StepGraph::getForms(unsigned value) const {
  Forms forms;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
    forms.push_back(getForm(value, axis));
  return forms;
}

Forms StepGraph::getWanted(const Use &use) const {
  if (isLeftOut(use))
    return getForms(ops[use.op].operands[use.operand]);
  Forms forms;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
    forms.push_back(use.op == ops.size()
                        ? getResultForm(use.operand, axis)
                        : ops[use.op].signatures[axis].operands[use.operand]);
  return forms;
}

AxisForm StepGraph::getResultForm(unsigned index, unsigned axis) const {
  int argument = results[index].argument;
  return argument < 0 ? AxisForm::full() : arguments[argument].forms[axis];
}

std::optional<AxisForm> StepGraph::getViewForm(unsigned value, AxisForm stored,
                                               int64_t axisSize) const {
  const ValueNode &node = values[value];
  if (node.producer < 0)
    return stored;
  const OpNode &op = ops[node.producer];
  auto input = getViewForm(op.operands[0], stored, axisSize);
  if (!input)
    return std::nullopt;
  for (const Signature &signature : op.rule.enumerate(axisSize))
    if (signature.operands[0] == *input)
      return signature.results[0];
  return std::nullopt;
}

std::optional<AxisForm> StepGraph::getStoredForm(unsigned value,
                                                 AxisForm viewed,
                                                 int64_t axisSize) const {
  const ArgumentNode &argument = arguments[values[value].viewOf];
  if (viewed.isFull())
    return viewed;
  for (int64_t dim = 0; dim < argument.type.getRank(); ++dim)
    if (argument.type.getDimSize(dim) % axisSize == 0 &&
        getViewForm(value, AxisForm::gather(dim), axisSize) == viewed)
      return AxisForm::gather(dim);
  return std::nullopt;
}

bool tandem::plan::isSplit(const Signature &signature) {
  auto isGather = [](AxisForm form) { return form.isGather(); };
  return llvm::any_of(signature.operands, isGather) ||
         llvm::any_of(signature.results, isGather);
}

bool tandem::plan::isFull(const Signature &signature) {
  auto isFull = [](AxisForm form) { return form.isFull(); };
  return llvm::all_of(signature.operands, isFull) &&
         llvm::all_of(signature.results, isFull);
}

std::string tandem::plan::printShape(RankedTensorType type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(type.getShape(), os << "[");
  return text + "]";
}

bool StepGraph::canStore(unsigned index, unsigned axis, AxisForm form,
                         std::string *reason) const {
  // State is updated once for all microbatches: over time it is whole.
  bool isKept = arguments[index].role != Role::Input;
  if (isKept && mesh.isTime(axis) && !form.isFull()) {
    if (reason)
      *reason = "what is kept from step to step is full over time";
    return false;
  }
  Forms forms = arguments[index].forms;
  forms[axis] = form;
  return canHaveForms(arguments[index].type, mesh, forms, reason);
}

SmallVector<AxisForm> StepGraph::listStorable(unsigned index,
                                              unsigned axis) const {
  SmallVector<AxisForm> forms{AxisForm::full()};
  for (int64_t dim = 0; dim < arguments[index].type.getRank(); ++dim)
    if (canStore(index, axis, AxisForm::gather(dim)))
      forms.push_back(AxisForm::gather(dim));
  return forms;
}
