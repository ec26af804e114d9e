//===- CopyUses.cpp - who takes a value in which forms --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CopyUses.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

Forms CopyUses::getWanted(const Use &use) const {
  Forms wanted;
  for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
    wanted.push_back(
        use.op == graph.ops.size()
            ? graph.getResultForm(use.operand, axis)
            : graph.ops[use.op].signatures[axis].operands[use.operand]);
  return wanted;
}

std::optional<unsigned> CopyUses::findStage(unsigned value, cost::Pass pass,
                                            const Forms *forms) const {
  std::optional<unsigned> first;
  const OperatorGroups &groups = graph.getGroups();
  for (const Use &use : graph.values[value].uses) {
    Part part{Part::Kind::Result, use.operand};
    cost::Pass ofUse = cost::Pass::Update;
    if (use.op < graph.ops.size()) {
      if (groups.groupOf[use.op] < 0)
        continue;
      part = {Part::Kind::Group, unsigned(groups.groupOf[use.op])};
      ofUse = cost::Pass(groups.groups[part.index].pass);
    }
    if (ofUse != pass || (forms && getWanted(use) != *forms))
      continue;
    unsigned stage = stages.get(part);
    first = std::min(first.value_or(stage), stage);
  }
  return first;
}

Forms CopyUses::getMade(unsigned value, cost::Pass pass,
                        const Forms &forms) const {
  Forms made;
  for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis) {
    AxisForm form = graph.getForm(value, axis);
    bool isSummed = pass == cost::Pass::Update && graph.mesh.isTime(axis) &&
                    form.isReduce() && forms[axis].isFull();
    made.push_back(isSummed ? AxisForm::full() : form);
  }
  return made;
}

SmallVector<Forms, 2> CopyUses::getPath(unsigned value, cost::Pass pass,
                                        const Forms &forms) const {
  for (const PlannedCopy &copy : decisions.copies)
    if (copy.value == value && copy.pass == pass && copy.path.back() == forms)
      return copy.path;
  return {getMade(value, pass, forms), forms};
}

unsigned CopyUses::countCollectives(const PlannedWait &wait) const {
  unsigned count = 0;
  auto path = getPath(wait.value, cost::Pass::Update, wait.forms);
  for (auto [from, to] : llvm::zip(path, ArrayRef(path).drop_front()))
    for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
      count += !graph.mesh.isTime(axis) && from[axis] != to[axis] &&
               !from[axis].isFull();
  return count;
}
