//===- OperatorGroups.cpp - groups of operators ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BatchSplits.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/Host.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

/// An operand this many times smaller than the result has no weight: a bias, a
/// scale.
static constexpr int64_t kWeightless = 8;

namespace {
class Grouping {
public:
  Grouping(const StepGraph &graph, OperatorGroups &result)
      : graph(graph), result(result), isFree(graph.values.size()),
        mayReduce(graph.values.size()) {}
  void run();

private:
  bool isScalarArgument(unsigned value) const;
  void findSources();
  bool standsAlone(unsigned op) const;
  int64_t getBytes(unsigned value) const {
    return tandem::getBytes(graph.values[value].value.getType());
  }
  bool isWeighty(unsigned op, unsigned value) const;
  void findSums();
  bool isSumPoint(unsigned op) const;
  bool isReadBy(unsigned value, int group) const;
  bool mayShrink(unsigned op, int readers) const;
  int findReaders(ArrayRef<unsigned> values, PassKind pass, int own) const;
  bool joinsReaders(unsigned op, int readers) const;
  std::optional<unsigned> getOnlyOperand(unsigned op) const;
  bool joinsProducer(unsigned op) const;
  void joinReaders();
  void joinProducers();
  bool isOtherSource(const OperatorGroup &group, unsigned value) const;
  bool isSimple(const OperatorGroup &group) const;
  void joinGroups();
  void collect();
  void findBoundary(OperatorGroup &group, unsigned number);

  const StepGraph &graph;
  OperatorGroups &result;
  std::optional<BatchSplits> splits;
  /// Values that depend on no argument but scalars: a random mask.
  std::vector<bool> isFree;
  /// Values that can be sums still to be finished.
  std::vector<bool> mayReduce;
  /// Values that each group's members read.
  llvm::DenseMap<int, llvm::DenseSet<unsigned>> reads;
};
} // namespace

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

static bool isScalar(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank() == 0;
}

bool Grouping::isScalarArgument(unsigned value) const {
  if (graph.values[value].producer >= 0 || !isScalar(graph.values[value].value))
    return false;
  Role role = graph.arguments[graph.values[value].index].role;
  return role == Role::Step || role == Role::Seed || role == Role::LearningRate;
}

void Grouping::findSources() {
  result.isSource.assign(graph.values.size(), false);
  std::vector<bool> isPure(graph.values.size());
  for (unsigned value = 0; value < graph.arguments.size(); ++value)
    result.isSource[value] = isFree[value] = isScalarArgument(value);
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    auto all = [&](const std::vector<bool> &flags) {
      return llvm::all_of(op.operands,
                          [&](unsigned value) { return flags[value]; });
    };
    bool pure = all(isPure), free = all(isFree);
    bool source = pure || (all(result.isSource) &&
                           llvm::all_of(op.results, [&](unsigned value) {
                             return isScalar(graph.values[value].value);
                           }));
    for (unsigned value : op.results) {
      isPure[value] = pure;
      isFree[value] = free;
      result.isSource[value] = source;
    }
    if (source)
      result.groupOf[index] = -1;
  }
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

/// Whether it copies between device and host, or a pin says what it makes: what
/// its neighbours could not have with it would leave no signature that obeys.
bool Grouping::standsAlone(unsigned op) const {
  return nn::isHostCopy(graph.ops[op].op) ||
         llvm::any_of(graph.ops[op].results, [&](unsigned value) {
           return !graph.values[value].pinned.empty();
         });
}

/// Elementwise operators and views: forms pass them, dimension by dimension.
static bool isChainOp(const OpNode &op) {
  return op.isView || op.isEither() || op.op->hasTrait<nn::Broadcasting>();
}

/// Operators that `lower` makes one kernel of, with what they read: it is read
/// where it is made.
static bool isKernelOp(const OpNode &op) {
  if (isChainOp(op))
    return true;
  auto looped = dyn_cast<LoopOpInterface>(op.op);
  std::optional<LoopOp> loops = looped ? looped.getLoops() : std::nullopt;
  return loops && llvm::none_of(loops->inputs, [](const LoopAccess &access) {
           return llvm::is_contained(access.dims, LoopAccess::kElsewhere);
         });
}

/// Whether a change of form of this operand would cost something: it is not
/// much smaller than the result, and cannot be made in any form.
bool Grouping::isWeighty(unsigned op, unsigned value) const {
  return !isFree[value] &&
         getBytes(value) * kWeightless > getBytes(graph.ops[op].results[0]);
}

void Grouping::findSums() {
  for (const OpNode &op : graph.ops) {
    bool sums = false;
    for (unsigned factor = 0; factor < op.rule.factors.size(); ++factor)
      sums |= op.rule.canSplit(factor, 1) &&
              op.rule.getSplitSignature(factor).results[0].isReduce();
    for (const auto &linear : op.rule.linear)
      sums |= llvm::all_of(linear, [&](unsigned operand) {
        return mayReduce[op.operands[operand]];
      });
    for (unsigned value : op.results)
      mayReduce[value] = sums;
  }
}

/// Whether sums that are not finished meet here: finishing them behind is
/// cheaper than before, so nothing behind may join.
bool Grouping::isSumPoint(unsigned index) const {
  const OpNode &op = graph.ops[index];
  return llvm::any_of(op.rule.linear, [&](const auto &linear) {
    return llvm::count_if(linear, [&](unsigned operand) {
             unsigned value = op.operands[operand];
             return mayReduce[value] && isWeighty(index, value);
           }) > 1;
  });
}

/// Whether `group` reads `value`, or all that it is made of.
bool Grouping::isReadBy(unsigned value, int group) const {
  auto it = reads.find(group);
  if (isFree[value] || (it != reads.end() && it->second.contains(value)))
    return true;
  int producer = graph.values[value].producer;
  return producer >= 0 && isKernelOp(graph.ops[producer]) &&
         llvm::all_of(graph.ops[producer].operands, [&](unsigned operand) {
           return !isWeighty(producer, operand) || isReadBy(operand, group);
         });
}

/// A result that is smaller than what it is made of is cheaper to change, but
/// for one number, or a statistic of a norm, which is applied to its operand.
bool Grouping::mayShrink(unsigned index, int readers) const {
  const OpNode &op = graph.ops[index];
  return llvm::all_of(op.operands, [&](unsigned value) {
    bool shrinks = getBytes(value) > getBytes(op.results[0]) &&
                   !isScalar(graph.values[value].value);
    return isFree[value] || !shrinks ||
           (!isa<nn::ConvertOp>(op.op) && isReadBy(value, readers));
  });
}

/// The one group beside `own` that reads `values` in their pass; -1 if there is
/// none. Later passes, the return, and what sends it to the host read what a
/// group makes besides.
int Grouping::findReaders(ArrayRef<unsigned> values, PassKind pass,
                          int own) const {
  int readers = -1;
  for (unsigned value : values)
    for (Use use : graph.values[value].uses) {
      if (use.op == graph.ops.size() || graph.ops[use.op].pass != pass ||
          isa<nn::ToHostOp>(graph.ops[use.op].op))
        continue;
      int group = result.groupOf[use.op];
      if (group == own)
        continue;
      if (readers >= 0 && readers != group)
        return -1;
      readers = group;
    }
  return readers;
}

bool Grouping::joinsReaders(unsigned index, int readers) const {
  const OpNode &op = graph.ops[index];
  // A choice is its reader's, whatever else the reader joins.
  if (op.isEither())
    return readers >= 0;
  // What a reader may leave out is made apart from it.
  if (op.isOptional && llvm::any_of(op.results, [&](unsigned value) {
        return graph.isChosenOf(value);
      }))
    return false;
  // A group has the number of its last member.
  if (readers < 0 || !isKernelOp(op) || standsAlone(index) ||
      standsAlone(readers))
    return false;
  // A sum that the update makes is finished once, behind its last term.
  auto isSum = [&](unsigned value) {
    return graph.values[value].isSummedInUpdate;
  };
  if (isSum(op.results[0]) &&
      !llvm::all_of(graph.values[op.results[0]].uses, [&](Use use) {
        return use.op == graph.ops.size() ||
               isSum(graph.ops[use.op].results[0]);
      }))
    return false;
  return (op.pass == PassKind::Update && isChainOp(op)) ||
         (!isSumPoint(index) && !splits->isSummed(index) &&
          mayShrink(index, readers) && !splits->isLost(index, readers));
}

void Grouping::joinReaders() {
  for (unsigned index = graph.ops.size(); index-- > 0;) {
    if (result.groupOf[index] < 0)
      continue;
    const OpNode &op = graph.ops[index];
    int readers = findReaders(op.results, op.pass, index);
    int group = joinsReaders(index, readers) ? readers : int(index);
    result.groupOf[index] = group;
    reads[group].insert_range(op.operands);
  }
}

/// The operand of an operator whose other operands are sources.
std::optional<unsigned> Grouping::getOnlyOperand(unsigned index) const {
  std::optional<unsigned> only;
  for (auto [number, value] : llvm::enumerate(graph.ops[index].operands)) {
    if (result.isSource[value])
      continue;
    if (only)
      return std::nullopt;
    only = number;
  }
  return only;
}

/// A view or scaling of what an operator of its pass made for it alone.
bool Grouping::joinsProducer(unsigned index) const {
  const OpNode &op = graph.ops[index];
  std::optional<unsigned> only = getOnlyOperand(index);
  if (!only || !isChainOp(op) || op.pass == PassKind::Update ||
      standsAlone(index))
    return false;
  unsigned value = op.operands[*only];
  const ValueNode &node = graph.values[value];
  if (node.producer < 0 || node.uses.size() != 1 ||
      standsAlone(node.producer) || graph.ops[node.producer].pass != op.pass ||
      getBytes(value) < getBytes(op.results[0]))
    return false;
  // A sum over the batch that several passes read is finished before, once.
  auto isOwnPass = [&](Use use) {
    return use.op < graph.ops.size() && graph.ops[use.op].pass == op.pass;
  };
  const auto &uses = graph.values[op.results[0]].uses;
  if (splits->isSummed(node.producer) && llvm::any_of(uses, isOwnPass) &&
      !llvm::all_of(uses, isOwnPass))
    return false;
  // A sum must be able to wait until it is behind the operator.
  return llvm::any_of(op.rule.linear, [&](const auto &group) {
    return group.size() == 1 && group[0] == *only;
  });
}

void Grouping::joinProducers() {
  std::vector<unsigned> sizes(graph.ops.size());
  for (int group : result.groupOf)
    if (group >= 0)
      ++sizes[group];
  for (unsigned index = 0; index < graph.ops.size(); ++index) {
    int group = result.groupOf[index];
    if (group < 0 || sizes[group] != 1 || !joinsProducer(index))
      continue;
    unsigned value = graph.ops[index].operands[*getOnlyOperand(index)];
    result.groupOf[index] = result.groupOf[graph.values[value].producer];
  }
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

void Grouping::findBoundary(OperatorGroup &group, unsigned number) {
  auto isInside = [&](unsigned op) {
    return op < graph.ops.size() &&
           result.groupOf[op] == static_cast<int>(number);
  };
  for (unsigned member : group.members) {
    for (unsigned value : graph.ops[member].operands) {
      int producer = graph.values[value].producer;
      if (!result.isSource[value] && (producer < 0 || !isInside(producer)) &&
          !llvm::is_contained(group.inputs, value))
        group.inputs.push_back(value);
    }
    for (unsigned value : graph.ops[member].results)
      if (llvm::any_of(graph.values[value].uses,
                       [&](Use use) { return !isInside(use.op); }))
        group.outputs.push_back(value);
  }
  // A random mask reads scalars alone: it begins with one of them.
  for (unsigned value = 0;
       group.inputs.empty() && value < graph.arguments.size(); ++value)
    if (result.isSource[value])
      group.inputs.push_back(value);
}

/// Numbers the groups in order of their first members.
void Grouping::collect() {
  llvm::DenseMap<int, int> numbers;
  for (auto [index, group] : llvm::enumerate(result.groupOf)) {
    if (group < 0)
      continue;
    auto [it, isNew] = numbers.try_emplace(group, result.groups.size());
    if (isNew)
      result.groups.emplace_back().pass = graph.ops[index].pass;
    group = it->second;
    result.groups[group].members.push_back(index);
  }
  for (auto [number, group] : llvm::enumerate(result.groups))
    findBoundary(group, number);
}

/// Whether members read `value` only where they might take operand 0 of a
/// choice instead.
bool Grouping::isOtherSource(const OperatorGroup &group, unsigned value) const {
  auto isRead = [&](unsigned member) {
    const OpNode &op = graph.ops[member];
    return op.isEither() ? op.operands[0] == value
                         : llvm::is_contained(op.operands, value);
  };
  return llvm::none_of(group.members, isRead);
}

/// A kernel without a table, with one input of weight.
bool Grouping::isSimple(const OperatorGroup &group) const {
  unsigned last = group.members.back(), numWeighty = 0;
  // Of sources to choose of one is read.
  for (unsigned value : group.inputs)
    numWeighty += isWeighty(last, value) && !isOtherSource(group, value);
  return numWeighty <= 1 && group.pass != PassKind::Update &&
         !graph.ops[last].isOptional &&
         llvm::all_of(group.members, [&](unsigned member) {
           return isKernelOp(graph.ops[member]) && !standsAlone(member);
         });
}

/// A group with one input of weight joins the group that alone reads it, even
/// if sums meet inside: they are sums of the same.
void Grouping::joinGroups() {
  std::vector<OperatorGroup> groups = std::move(result.groups);
  result.groups.clear();
  // As before, a group has the number of its last member.
  for (int &group : result.groupOf)
    if (group >= 0)
      group = groups[group].members.back();
  llvm::sort(groups, [](const OperatorGroup &a, const OperatorGroup &b) {
    return a.members.back() > b.members.back();
  });
  for (const OperatorGroup &group : groups) {
    int own = group.members.back();
    int readers = findReaders(group.outputs, group.pass, own);
    if (readers < 0 || standsAlone(readers) || !isSimple(group))
      continue;
    int64_t most = 0;
    for (unsigned value : group.inputs)
      most = std::max(most, isFree[value] ? 0 : getBytes(value));
    // What it hands on is as large as what it reads.
    bool joins = llvm::all_of(group.outputs, [&](unsigned value) {
      return getBytes(value) >= most || findReaders(value, group.pass, own) < 0;
    });
    if (joins && llvm::none_of(group.members, [&](unsigned member) {
          return splits->isLost(member, {own, readers}) &&
                 !splits->isLost(member, own);
        }))
      for (unsigned member : group.members)
        result.groupOf[member] = readers;
  }
}

void Grouping::run() {
  result.groupOf.resize(graph.ops.size());
  for (unsigned index = 0; index < graph.ops.size(); ++index)
    result.groupOf[index] = index;
  findSources();
  splits.emplace(graph, result);
  findSums();
  joinReaders();
  joinProducers();
  collect();
  joinGroups();
  collect();
  sortGroups(graph, result);
}

OperatorGroups::OperatorGroups(const StepGraph &graph) {
  Grouping(graph, *this).run();
}
