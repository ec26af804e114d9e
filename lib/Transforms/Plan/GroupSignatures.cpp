//===- GroupSignatures.cpp - signatures of all groups ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupSignatures.h"
#include "GroupCost.h"
#include <map>

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
      marks(graph, groups.isSource), canReduce(graph.values.size()) {}

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
    append(key, op.isPinnedAgain);
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

unsigned SignatureMaker::getSet(unsigned index) {
  const OperatorGroup &group = groups.groups[index];
  auto [it, isNew] = known.try_emplace(getKey(group), sets.size());
  if (isNew) {
    GroupCost cost(graph, group, cluster);
    sets.push_back(enumerateSignatures(graph, group, marks, canReduce, cost));
    addSources(graph, group, sets.back());
  }
  noteSums(group, sets[it->second]);
  return it->second;
}
