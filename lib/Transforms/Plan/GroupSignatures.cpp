//===- GroupSignatures.cpp - signatures of all groups ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupSignatures.h"
#include "GroupCost.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/SPMD/Host.h"
#include <limits>
#include <map>
#include <numeric>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

std::vector<unsigned>
tandem::plan::findFastest(const cost::SignatureSet &signatures) {
  using Layouts = ArrayRef<cost::Layout>;
  std::map<std::pair<Layouts, Layouts>, unsigned> places;
  std::vector<unsigned> fastest;
  for (auto [index, signature] : llvm::enumerate(signatures)) {
    auto [it, isNew] = places.try_emplace(
        {signature.operands, signature.results}, fastest.size());
    if (isNew)
      fastest.push_back(index);
    else if (unsigned &known = fastest[it->second];
             signature.seconds < signatures[known].seconds)
      known = index;
  }
  return fastest;
}

SignatureMaker::SignatureMaker(const StepGraph &graph,
                               const cost::Cluster &cluster)
    : graph(graph), groups(graph.getGroups()), cluster(cluster),
      marks(graph, groups.isSource), canReduce(graph.values.size()) {
  if (llvm::any_of(groups.groups, [&](const OperatorGroup &group) {
        return isHostCopy(group);
      })) {
    sumSeconds();
    for (PassKind pass : {PassKind::Forward, PassKind::Backward})
      hideCopies(pass);
  }
  auto module = graph.step->getParentOfType<ModuleOp>();
  if (auto limit = getInteger(module, kSentLimitAttrName))
    limitSent(*limit);
}

static void append(std::string &key, int64_t number) {
  key.append(reinterpret_cast<const char *>(&number), sizeof number);
}

template <typename T> static void append(std::string &key, ArrayRef<T> list) {
  append(key, list.size());
  for (const T &each : list)
    append(key, ArrayRef(each));
}

template <> void append(std::string &key, ArrayRef<unsigned> list) {
  append(key, list.size());
  for (unsigned number : list)
    append(key, number);
}

static void append(std::string &key, const Rule &rule) {
  append(key, rule.factors.size());
  for (const Rule::Factor &factor : rule.factors)
    append(key, factor.splittable ? factor.size : -factor.size);
  append(key, ArrayRef(rule.operands));
  append(key, ArrayRef(rule.results));
  append(key, ArrayRef(rule.linear));
}

/// All that the signatures and their seconds follow from.
std::string SignatureMaker::getKey(const OperatorGroup &group) const {
  std::string key;
  append(key, static_cast<int64_t>(group.pass));
  llvm::DenseMap<unsigned, int64_t> numbers;
  auto number = [&](unsigned value) {
    if (groups.isSource[value])
      return int64_t(-1);
    return numbers.try_emplace(value, numbers.size()).first->second;
  };
  for (unsigned value : group.inputs) {
    append(key, number(value));
    append(key, canReduce[value]);
    append(key, graph.values[value].isSummedInUpdate);
  }
  for (unsigned member : group.members) {
    const OpNode &op = graph.ops[member];
    append(key,
           reinterpret_cast<int64_t>(op.op->getName().getAsOpaquePointer()));
    append(key, op.rule);
    append(key, op.isOptional);
    append(key, hidden.contains(member));
    append(key, refused.contains(member));
    append(key, static_cast<int64_t>(op.sourcePin));
    for (unsigned source = 0; op.isEither() && source < op.operands.size();
         ++source)
      append(key, graph.isFromHost(op, source));
    append(key, marks.factors[member]);
    append(key, static_cast<int64_t>(op.flops));
    append(key, isReadByStrides(op.op));
    append(key, getLoop(op.op).has_value());
    for (unsigned value : op.results)
      for (std::optional<AxisForm> form : graph.values[value].pinned)
        append(key, form ? form->getCode() : INT64_MIN);
    for (const auto *values : {&op.operands, &op.results})
      for (unsigned value : *values) {
        append(key, number(value));
        append(key, graph.values[value].isOnHost);
        append(key, static_cast<int64_t>(graph.values[value].bytes));
        append(key,
               reinterpret_cast<int64_t>(
                   cast<RankedTensorType>(graph.values[value].value.getType())
                       .getElementType()
                       .getAsOpaquePointer()));
      }
  }
  for (unsigned value : group.outputs) {
    append(key, number(value));
    append(key, graph.isTerm(value));
  }
  return key;
}

void SignatureMaker::noteSums(const OperatorGroup &group,
                              const GroupSignatures &set) {
  for (const cost::Signature &signature : set.signatures)
    for (auto [value, layout] : llvm::zip(group.outputs, signature.results))
      for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
        if (layout[axis] == cost::kReduce)
          canReduce[value] |= 1 << axis;
}

//===----------------------------------------------------------------------===//
// Copies from and to the host
//===----------------------------------------------------------------------===//

bool SignatureMaker::isHostCopy(const OperatorGroup &group) const {
  return nn::isHostCopy(graph.ops[group.members.front()].op);
}

/// On one device, whole.
double SignatureMaker::getSeconds(const OperatorGroup &group) const {
  SmallVector<int64_t> shares(group.members.size(), 1);
  return GroupCost(graph, group, cluster).getSeconds(shares, [](unsigned) {
    return cost::Layout();
  });
}

/// Whether gradients are made of `value`, and not only what is made again.
bool SignatureMaker::isSaved(unsigned value) const {
  return llvm::any_of(graph.values[value].uses, [&](Use use) {
    if (use.op >= graph.ops.size())
      return false;
    const OpNode &reader = graph.ops[use.op];
    if (reader.pass == PassKind::Forward)
      return false;
    // A choice, or a view of it, is what its readers are.
    bool isView = reader.op->hasTrait<nn::View>();
    return reader.isEither() || isView ? isSaved(reader.results.front())
                                       : !nn::isAgain(reader.op);
  });
}

/// Seconds that it takes to make `value` again of what is saved: of groups that
/// are not in `counted`.
double
SignatureMaker::getSecondsAgain(unsigned value,
                                llvm::SmallDenseSet<int> &counted) const {
  int maker = graph.values[value].producer,
      group = maker < 0 ? -1 : groups.groupOf[maker];
  if (group < 0 || !counted.insert(group).second)
    return 0;
  double seconds = getSeconds(groups.groups[group]);
  for (unsigned read : groups.groups[group].inputs)
    if (!isSaved(read))
      seconds += getSecondsAgain(read, counted);
  return seconds;
}

/// Seconds that it takes to make the copied value again instead, per byte. What
/// only others are made again of is worth nothing beside these. A parameter
/// that lies on the host has to be fetched.
double SignatureMaker::getWorth(const OperatorGroup &copy) const {
  const OpNode *op = &graph.ops[copy.members.front()];
  if (isa<nn::FromHostOp>(op->op)) {
    int sent = graph.values[op->operands[0]].producer;
    if (sent < 0)
      return std::numeric_limits<double>::infinity();
    op = &graph.ops[sent];
  }
  unsigned value = op->operands[0];
  llvm::SmallDenseSet<int> counted;
  return isSaved(value)
             ? getSecondsAgain(value, counted) / graph.values[value].bytes
             : 0;
}

/// Of the groups that are in every plan, by the operators in front of one.
void SignatureMaker::sumSeconds() {
  secondsBefore.assign(graph.ops.size() + 1, 0);
  for (const OperatorGroup &group : groups.groups)
    if (unsigned first = group.members.front();
        !isHostCopy(group) && !graph.ops[first].isOptional)
      secondsBefore[first + 1] = getSeconds(group);
  std::partial_sum(secondsBefore.begin(), secondsBefore.end(),
                   secondsBefore.begin());
}

/// Whether a value that the copy sends, or fetches, is away for as long as both
/// copies take.
bool SignatureMaker::mayHide(const OperatorGroup &copy) const {
  unsigned sent = copy.members.front();
  if (isa<nn::FromHostOp>(graph.ops[sent].op)) {
    int maker = graph.values[graph.ops[sent].operands[0]].producer;
    if (maker < 0)
      return true;
    sent = maker;
  }
  double seconds = 2 * getSeconds(copy);
  return llvm::all_of(
      graph.values[graph.ops[sent].results[0]].uses, [&](Use fetch) {
        return secondsBefore[fetch.op] - secondsBefore[sent] >= seconds;
      });
}

/// Copies run beside the computation of their pass. It hides those that it has
/// time for, what is worth most first: they have the seconds that it loses, the
/// others their own. This is right where all of these are taken or none of the
/// others, else too much.
void SignatureMaker::hideCopies(PassKind pass) {
  std::vector<std::pair<double, const OperatorGroup *>> copies;
  double seconds = 0;
  for (const OperatorGroup &group : groups.groups) {
    if (group.pass != pass)
      continue;
    if (isHostCopy(group)) {
      if (mayHide(group))
        copies.push_back({-getWorth(group), &group});
    } else if (!graph.ops[group.members.front()].isOptional) {
      seconds += getSeconds(group);
    }
  }
  llvm::stable_sort(copies, llvm::less_first());
  for (auto [worth, group] : copies)
    if (double done = getSeconds(*group) / cluster.copySlowdown;
        done <= seconds) {
      seconds -= done;
      hidden.insert(group->members.front());
    }
}

/// Leaves the signature of what is not there.
static void leaveOut(GroupSignatures &set) {
  set.signatures.resize(1);
  set.members.resize(1);
  set.sources.resize(std::min<size_t>(set.sources.size(), 1));
}

/// What is worth most may wait on the host, and what a pin sends there.
void SignatureMaker::limitSent(int64_t bytes) {
  std::vector<std::pair<double, const OpNode *>> sent;
  auto isAsked = [&](Use use) {
    return graph.ops[use.op].isEither() &&
           graph.ops[use.op].sourcePin == SourcePin::Host;
  };
  for (const OperatorGroup &group : groups.groups)
    if (const OpNode &op = graph.ops[group.members.front()];
        isa<nn::ToHostOp>(op.op))
      sent.push_back({-getWorth(group), &op});
  llvm::stable_sort(sent, llvm::less_first());
  for (auto [worth, op] : sent) {
    const ValueNode &copy = graph.values[op->results[0]];
    bool isPinned = llvm::any_of(copy.uses, [&](Use fetch) {
      return llvm::any_of(graph.values[graph.ops[fetch.op].results[0]].uses,
                          isAsked);
    });
    if (isPinned || copy.bytes <= bytes) {
      bytes -= copy.bytes;
      continue;
    }
    refused.insert(copy.producer);
    for (Use fetch : copy.uses)
      refused.insert(fetch.op);
  }
}

unsigned SignatureMaker::getSet(unsigned index) {
  const OperatorGroup &group = groups.groups[index];
  auto [it, isNew] = known.try_emplace(getKey(group), sets.size());
  if (isNew) {
    GroupCost cost(graph, group, cluster);
    sets.push_back(enumerateSignatures(graph, group, marks, canReduce, cost));
    if (hidden.contains(group.members.front()))
      for (cost::Signature &signature : sets.back().signatures)
        signature.seconds *= cluster.getCopyLoss();
    addSources(graph, group, sets.back());
    if (refused.contains(group.members.front()))
      leaveOut(sets.back());
  }
  noteSums(group, sets[it->second]);
  return it->second;
}
