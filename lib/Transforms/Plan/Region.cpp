//===- Region.cpp - how far a split reaches -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Region.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

SplitRegion::SplitRegion(StepGraph &graph, unsigned axis,
                         ArrayRef<bool> isPinned)
    : graph(graph), axis(axis), size(graph.mesh.getSize(axis)),
      isPinned(isPinned), candidates(graph.ops.size()) {
  for (auto [index, op] : llvm::enumerate(graph.ops))
    if (op.pass == PassKind::Forward)
      candidates[index] = op.rule.enumerate(size);
}

bool SplitRegion::isParameterView(unsigned value) const {
  int argument = graph.values[value].viewOf;
  return argument >= 0 && graph.arguments[argument].role == Role::Parameter;
}

std::optional<WeightedProduct> SplitRegion::matchProduct(unsigned index) const {
  const OpNode &op = graph.ops[index];
  if (!isa<nn::LibraryOpInterface>(op.op) || op.operands.size() != 2)
    return std::nullopt;
  bool left = isParameterView(op.operands[0]);
  if (left == isParameterView(op.operands[1]))
    return std::nullopt;
  unsigned weight = left ? 0 : 1;
  return WeightedProduct{
      index, weight, 1 - weight,
      static_cast<unsigned>(graph.values[op.operands[weight]].viewOf)};
}

SplitRegion::Origins SplitRegion::getOrigins(unsigned index) const {
  Origins all;
  for (unsigned value : graph.ops[index].operands)
    for (unsigned argument : origins[value])
      all.insert(argument);
  return all;
}

void SplitRegion::setResults(unsigned index, Form form, const Origins &from) {
  for (unsigned value : graph.ops[index].results) {
    forms[value] = form;
    origins[value] = form.isFull() ? Origins() : from;
  }
}

bool SplitRegion::decideWeight(const WeightedProduct &product,
                               const Signature &signature) {
  unsigned value = graph.ops[product.op].operands[product.weight];
  auto stored =
      graph.getStoredForm(value, signature.operands[product.weight], size);
  if (!stored || !graph.canStore(product.argument, axis, *stored))
    return false;
  if (isPinned[product.argument] &&
      graph.arguments[product.argument].forms[axis] != *stored)
    return false;
  auto [it, isNew] = decided.insert({product.argument, *stored});
  return isNew || it->second == *stored;
}

/// Notes in which stored form the parameters among the operands are used.
void SplitRegion::follow(unsigned index, const Signature &signature) {
  const OpNode &op = graph.ops[index];
  for (auto [value, form] : llvm::zip(op.operands, signature.operands)) {
    if (!isParameterView(value))
      continue;
    std::optional<Form> stored = graph.getStoredForm(value, form, size);
    auto [it, isNew] = wanted.insert(
        {static_cast<unsigned>(graph.values[value].viewOf), stored});
    if (!isNew && it->second != stored)
      it->second = std::nullopt;
  }
}

void SplitRegion::visit(unsigned index) {
  const OpNode &op = graph.ops[index];
  if (op.isView && isParameterView(op.results[0]))
    return;
  if (auto product = matchProduct(index); product && visitProduct(*product))
    return;
  auto isSplit = [&](unsigned value) { return forms[value].isGather(); };
  bool anySplit = llvm::any_of(op.operands, isSplit);
  auto isReduce = [](Form form) { return form.isReduce(); };
  for (const Signature &signature : candidates[index]) {
    bool fits = !llvm::any_of(signature.results, isReduce) &&
                !llvm::any_of(signature.operands, isReduce);
    for (auto [value, form] : llvm::zip(op.operands, signature.operands))
      fits &= !forms[value].isGather() || forms[value] == form;
    if (!fits || (!anySplit && &signature != candidates[index].begin()))
      continue;
    follow(index, signature);
    Origins from = getOrigins(index);
    for (auto [value, form] : llvm::zip(op.results, signature.results)) {
      forms[value] = form;
      if (form.isGather())
        origins[value] = from;
    }
    return;
  }
  follow(index, candidates[index].front());
  visitEnd(index, getOrigins(index));
  setResults(index, Form::full(), {});
}

void SplitRegion::walk() {
  forms.assign(graph.values.size(), Form::full());
  origins.assign(graph.values.size(), Origins());
  decided.clear();
  wanted.clear();
  for (auto [index, op] : llvm::enumerate(graph.ops))
    if (op.pass == PassKind::Forward)
      visit(index);
}

void SplitRegion::apply(AxisPolicy &policy) {
  decide();
  for (auto &[argument, form] : decided) {
    if (!form.isGather())
      continue;
    graph.arguments[argument].forms[axis] = form;
    policy.keepStored[argument] = true;
    policy.isFree[argument] = false;
  }
  for (auto &[argument, form] : wanted) {
    if (!form || !form->isGather() || decided.count(argument) ||
        isPinned[argument] || !graph.canStore(argument, axis, *form))
      continue;
    graph.arguments[argument].forms[axis] = *form;
    policy.keepStored[argument] = true;
  }
}
