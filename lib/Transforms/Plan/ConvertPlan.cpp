//===- ConvertPlan.cpp - a planned step as a search's plan ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ApplyPlan.h"
#include "tandem/Cost/Cost.h"
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

namespace {
class Converter {
public:
  Converter(const StepGraph &planned, const Extraction &extraction)
      : planned(planned), extraction(extraction), problem(extraction.problem) {}
  std::optional<cost::Plan> run(std::string &error);
  cost::Plan convert();

  /// Groups whose plan is none of their signatures.
  unsigned numNearest = 0;
  /// What `findNearest` found last is what was wanted.
  bool isExact = true;

private:
  cost::Layout
  getLayout(llvm::function_ref<spmd::AxisForm(unsigned axis)> getForm) const;
  cost::Layout getProduced(unsigned value) const;
  cost::Layout getWanted(const OperatorGroup &group, unsigned value) const;
  unsigned findSignature(unsigned op);
  unsigned findNearest(const cost::SignatureSet &set,
                       ArrayRef<cost::Layout> operands,
                       ArrayRef<cost::Layout> results);
  std::vector<unsigned> cutStages(const cost::Plan &plan, bool isFine) const;
  std::vector<cost::Copy> findGradientCopies(const cost::Plan &plan) const;

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
  isExact = least == 0;
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
  unsigned found = findNearest(problem.getSignatures(op), operands, results);
  numNearest += origin.kind == Part::Kind::Group && !isExact;
  return found;
}

/// A cut before every operator, or only where an operator takes a copy of what
/// its stage has made, and before the updates.
std::vector<unsigned> Converter::cutStages(const cost::Plan &plan,
                                           bool isFine) const {
  std::vector<unsigned> ends;
  std::vector<int> madeIn(problem.tensors.size(), -1);
  std::vector<cost::Layout> produced(problem.tensors.size());
  std::set<cost::Copy> copies;
  cost::Pass last = cost::Pass::Forward;
  for (auto [index, op] : llvm::enumerate(problem.operators)) {
    const cost::Signature &signature =
        problem.getSignatures(index)[plan.signatures[index]];
    int stage = ends.size();
    bool cuts =
        isFine && !op.isArgument() && op.kind != cost::Operator::Kind::Output;
    cuts |= op.pass == cost::Pass::Update && last != cost::Pass::Update;
    for (auto [tensor, layout] : llvm::zip(op.operands, signature.operands))
      cuts |= layout != produced[tensor] &&
              copies.insert({tensor, layout, op.pass}).second &&
              madeIn[tensor] == stage;
    if (cuts && index > 0)
      ends.push_back(index);
    last = op.pass;
    for (auto [tensor, layout] : llvm::zip(op.results, signature.results)) {
      madeIn[tensor] = op.isArgument() ? -1 : int(ends.size());
      produced[tensor] = layout;
    }
  }
  ends.push_back(problem.operators.size());
  return ends;
}

/// Copies of what the backward pass made, for the updates: all of them wait.
std::vector<cost::Copy>
Converter::findGradientCopies(const cost::Plan &plan) const {
  std::set<cost::Copy> copies;
  std::vector<unsigned> producers = problem.getProducers();
  cost::ChangeTable table(problem);
  int time = problem.getTimeAxis();
  for (auto [index, op] : llvm::enumerate(problem.operators)) {
    const cost::Signature &signature =
        problem.getSignatures(index)[plan.signatures[index]];
    for (auto [tensor, layout] : llvm::zip(op.operands, signature.operands)) {
      unsigned producer = producers[tensor];
      const cost::Operator &from = problem.operators[producer];
      if (op.pass != cost::Pass::Update || from.pass == cost::Pass::Update ||
          from.kind != cost::Operator::Kind::Compute)
        continue;
      const auto &made =
          problem.getSignatures(producer)[plan.signatures[producer]].results;
      cost::Layout base =
          made[llvm::find(from.results, tensor) - from.results.begin()];
      if (time >= 0 && base[time] == cost::kReduce &&
          layout[time] == cost::kFull)
        base[time] = cost::kFull;
      const cost::ChangeCost &change = table.getCost(tensor, base, layout);
      if (layout != base && change.isPossible && !change.joins)
        copies.insert({tensor, layout, cost::Pass::Update});
    }
  }
  return {copies.begin(), copies.end()};
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

std::optional<cost::Plan> Converter::run(std::string &error) {
  cost::Plan plan = convert();
  std::vector<cost::Copy> gradients = findGradientCopies(plan);
  std::optional<cost::Plan> best;
  cost::ChangeTable table(problem);
  for (bool isFine : {false, true})
    for (bool waits : {true, false}) {
      plan.stageEnds = cutStages(plan, isFine);
      plan.waiting = waits ? gradients : std::vector<cost::Copy>();
      auto report = cost::cost(problem, plan, table, error);
      if (!report || (best && best->cost <= report->seconds))
        continue;
      best = plan;
      best->cost = report->seconds;
      best->peak = report->peak;
    }
  return best;
}

std::optional<cost::Plan>
tandem::plan::convertPlan(const StepGraph &planned,
                          const Extraction &extraction, std::string &error,
                          unsigned *numNearest) {
  Converter converter(planned, extraction);
  std::optional<cost::Plan> plan = converter.run(error);
  if (numNearest)
    *numNearest = converter.numNearest;
  return plan;
}

cost::Plan tandem::plan::convertSignatures(const StepGraph &planned,
                                           const Extraction &extraction) {
  return Converter(planned, extraction).convert();
}
