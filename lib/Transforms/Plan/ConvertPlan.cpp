//===- ConvertPlan.cpp - a planned step as a search's plan ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ApplyPlan.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

namespace {
class Converter {
public:
  Converter(const StepGraph &planned, const Extraction &extraction)
      : planned(planned), extraction(extraction), problem(extraction.problem) {}
  cost::Plan convert();

private:
  cost::Layout
  getLayout(llvm::function_ref<spmd::AxisForm(unsigned axis)> getForm) const;
  cost::Layout getProduced(unsigned value) const;
  cost::Layout getWanted(const OperatorGroup &group, unsigned value) const;
  unsigned findSignature(unsigned op);
  unsigned findNearest(const cost::SignatureSet &set,
                       ArrayRef<cost::Layout> operands,
                       ArrayRef<cost::Layout> results);

  const StepGraph &planned;
  const Extraction &extraction;
  const cost::SearchProblem &problem;
};
} // namespace

cost::Layout Converter::getLayout(
    llvm::function_ref<spmd::AxisForm(unsigned axis)> getForm) const {
  cost::Layout layout;
  for (unsigned axis = 0; axis < planned.mesh.getNumAxes(); ++axis)
    layout[axis] = getForm(axis).getCode();
  return layout;
}

cost::Layout Converter::getProduced(unsigned value) const {
  return getLayout([&](unsigned axis) { return planned.getForm(value, axis); });
}

/// The layout in which the first member that reads `value` wants it.
cost::Layout Converter::getWanted(const OperatorGroup &group,
                                  unsigned value) const {
  for (unsigned member : group.members) {
    const OpNode &op = planned.ops[member];
    for (auto [index, operand] : llvm::enumerate(op.operands))
      if (operand == value)
        return getLayout([&, number = index](unsigned axis) {
          return op.signatures[axis].operands[number];
        });
  }
  return cost::Layout();
}

/// The signature that differs on the fewest axes of the fewest values; results
/// count more, since others depend on them.
unsigned Converter::findNearest(const cost::SignatureSet &set,
                                ArrayRef<cost::Layout> operands,
                                ArrayRef<cost::Layout> results) {
  auto countDifferences = [](ArrayRef<cost::Layout> wanted,
                             const std::vector<cost::Layout> &found) {
    unsigned count = 0;
    for (auto [first, second] : llvm::zip(wanted, found))
      for (unsigned axis = 0; axis < cost::kMaxAxes; ++axis)
        count += first[axis] != second[axis];
    return count;
  };
  unsigned nearest = 0, least = -1;
  for (auto [index, signature] : llvm::enumerate(set)) {
    unsigned count = countDifferences(operands, signature.operands) +
                     2 * countDifferences(results, signature.results);
    if (count >= least)
      continue;
    nearest = index;
    least = count;
  }
  return nearest;
}

unsigned Converter::findSignature(unsigned op) {
  const Part &origin = extraction.origins[op];
  SmallVector<cost::Layout> operands, results;
  switch (origin.kind) {
  case Part::Kind::Argument:
    results.push_back(getProduced(origin.index));
    break;
  case Part::Kind::Result:
    operands.push_back(getLayout([&](unsigned axis) {
      return planned.getResultForm(origin.index, axis);
    }));
    break;
  case Part::Kind::Group:
    const OperatorGroup &group = planned.getGroups().groups[origin.index];
    for (unsigned value : group.inputs)
      operands.push_back(getWanted(group, value));
    for (unsigned value : group.outputs)
      results.push_back(getProduced(value));
  }
  return findNearest(problem.getSignatures(op), operands, results);
}

cost::Plan Converter::convert() {
  cost::Plan plan;
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    plan.signatures.push_back(findSignature(op));
  for (auto [argument, result] : problem.ties)
    plan.signatures[result] = plan.signatures[argument];
  plan.stageEnds.push_back(problem.operators.size());
  return plan;
}

cost::Plan tandem::plan::convertPlan(const StepGraph &planned,
                                     const Extraction &extraction) {
  return Converter(planned, extraction).convert();
}
