//===- NestAnalysis.cpp - columns, levels and buffers of a nest -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nest/NestEmitter.h"

using namespace mlir;
using namespace tandem;

NestEmitter::NestEmitter(KernelEmitter &kernel, const Nest &nest)
    : kernel(kernel), nest(nest), builder(kernel.builder), loc(kernel.loc),
      column(nest.isColumn) {
  for (int factor : nest.order)
    groups.push_back({factor});
}

NestEmitter::Factors NestEmitter::getColumns(const Factors &factors) const {
  Factors columns;
  for (int factor : nest.order)
    if (isColumn(factor) && llvm::is_contained(factors, factor))
      columns.push_back(factor);
  return columns;
}

NestEmitter::Factors NestEmitter::getLayout(Value value) const {
  Factors layout;
  for (const Factors &dim : nest.lookup(value).dims)
    layout.append(dim);
  return layout;
}

bool NestEmitter::reducesRows(Value value) const {
  return llvm::any_of(nest.lookup(value).reduced,
                      [&](int factor) { return !isColumn(factor); });
}

/// Where nothing forces columns, the innermost loop is one.
void NestEmitter::chooseColumns() {
  if (groups.empty() || llvm::is_contained(column, true))
    return;
  for (int factor : groups.back())
    column[factor] = true;
}

void NestEmitter::analyzeMembers() {
  DenseMap<Value, int> available;
  infos.assign(nest.members.size(), {});
  maxLevel = 0;
  for (auto [index, member] : llvm::enumerate(nest.members)) {
    MemberInfo &info = infos[index];
    info.generic = dyn_cast<linalg::GenericOp>(member.op);
    info.isReduction = hasReduction(member.op);
    info.isExpensive = isExpensive(member.op, kernel.plan.device.kernels);
    info.columns = getColumns(nest.getDomain(index));
    info.isRow = !info.isReduction && info.columns.empty();
    for (Value operand : member.op->getOperands())
      if (nest.makes(operand))
        info.level = std::max(info.level, available.lookup(operand));
    maxLevel = std::max(maxLevel, info.level);
    for (Value result : member.op->getResults())
      available[result] = info.level + (info.isReduction ? 1 : 0);
  }
  // A value of the row that only later rows' memory needs has its own level.
  for (MemberInfo &info : infos)
    if (info.isRow)
      maxLevel = std::max(maxLevel, info.level);
}

/// A value that is costly to evaluate and read at later levels is kept. What
/// reads a value at a level is a reduction or a root of that level, or an
/// operator that is evaluated there again.
void NestEmitter::findBuffered() {
  std::vector<std::set<int>> levels(infos.size());
  DenseMap<Value, unsigned> memberOf;
  for (auto [index, member] : llvm::enumerate(nest.members))
    for (Value result : member.op->getResults())
      memberOf[result] = index;
  for (int index = infos.size() - 1; index >= 0; --index) {
    MemberInfo &info = infos[index];
    Operation *op = nest.members[index].op;
    std::set<int> &mine = levels[index];
    Value result = op->getResult(0);
    bool isStored = kernel.plan.inMemory.contains(result);
    if (info.isReduction || info.isRow || isStored)
      mine.insert(info.level);
    bool isLater = !mine.empty() && *mine.rbegin() > info.level;
    if (!info.isReduction && !info.isRow && info.generic && isLater &&
        info.isExpensive && !isStored)
      buffered.insert(result);
    if (isStored || buffered.contains(result))
      mine = {info.level};
    for (Value operand : op->getOperands())
      if (auto it = memberOf.find(operand); it != memberOf.end())
        levels[it->second].insert(mine.begin(), mine.end());
  }
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

static bool contains(ArrayRef<int> factors, int factor) {
  return llvm::is_contained(factors, factor);
}

/// Two adjacent loops are one where every index moves along them as if they
/// were, and no member runs over one of them only.
bool NestEmitter::canMerge(int major, int minor) const {
  if (isColumn(major) != isColumn(minor))
    return false;
  for (unsigned member : llvm::seq<unsigned>(0, nest.members.size())) {
    Factors domain = nest.getDomain(member);
    if (contains(domain, major) != contains(domain, minor))
      return false;
  }
  for (const auto &[value, info] : nest.made)
    if (contains(info.reduced, major) != contains(info.reduced, minor))
      return false;
  for (const LinearIndex &index : recorded)
    if (index.getCoefficient(major) !=
        index.getCoefficient(minor) * nest.sizes[minor])
      return false;
  return true;
}

void NestEmitter::mergeFactors() {
  std::vector<Factors> merged;
  for (int factor : nest.order) {
    if (!merged.empty() && canMerge(merged.back().back(), factor))
      merged.back().push_back(factor);
    else
      merged.push_back({factor});
  }
  groups = std::move(merged);
}
