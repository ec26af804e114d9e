//===- CopyUses.cpp - uses of a value by form -----------------------------===//
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

std::optional<unsigned> CopyUses::getMadeIn(unsigned value) const {
  int producer = graph.values[value].producer;
  int group = producer < 0 ? -1 : graph.getGroups().groupOf[producer];
  return group < 0 ? std::nullopt : std::optional(stages.getOfGroup(group));
}

std::optional<unsigned> CopyUses::findStage(unsigned value, PassKind pass,
                                            const Forms *forms) const {
  std::optional<unsigned> first;
  const OperatorGroups &groups = graph.getGroups();
  for (const Use &use : graph.values[value].uses) {
    Part part{Part::Kind::Result, use.operand};
    PassKind ofUse = PassKind::Update;
    if (use.op < graph.ops.size()) {
      if (groups.groupOf[use.op] < 0)
        continue;
      part = {Part::Kind::Group, unsigned(groups.groupOf[use.op])};
      ofUse = groups.groups[part.index].pass;
    }
    if (ofUse != pass || (forms && graph.getWanted(use) != *forms))
      continue;
    unsigned stage = stages.get(part);
    first = std::min(first.value_or(stage), stage);
  }
  return first;
}

Forms CopyUses::getMade(unsigned value, PassKind pass,
                        const Forms &forms) const {
  Forms made = graph.getForms(value);
  for (auto [axis, form] : llvm::enumerate(made))
    if (pass == PassKind::Update && graph.mesh.isTime(axis) &&
        form.isReduce() && forms[axis].isFull())
      form = AxisForm::full();
  return made;
}

SmallVector<Forms, 2> CopyUses::getPath(unsigned value, PassKind pass,
                                        const Forms &forms) const {
  for (const PlannedCopy &copy : decisions.copies)
    if (copy.value == value && copy.pass == pass && copy.path.back() == forms)
      return copy.path;
  return {getMade(value, pass, forms), forms};
}

unsigned CopyUses::countCollectives(const PlannedWait &wait) const {
  unsigned count = 0;
  auto path = getPath(wait.value, PassKind::Update, wait.forms);
  for (auto [from, to] : llvm::zip(path, ArrayRef(path).drop_front()))
    for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
      count += !graph.mesh.isTime(axis) && from[axis] != to[axis] &&
               !from[axis].isFull();
  return count;
}
