//===- ExplainForms.cpp - entries of tensors ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainForms.h"
#include <algorithm>
#include <tuple>

using namespace tandem::cost;
using namespace tandem::explain;

static Role getRole(const Operator &op) {
  if (op.kind == Operator::Kind::Resident)
    return Role::Stored;
  if (op.kind == Operator::Kind::Input)
    return Role::Input;
  constexpr Role roles[] = {Role::Activation, Role::Gradient, Role::Update};
  return roles[static_cast<unsigned>(op.pass)];
}

/// `all-gather data, sum micro`: what a change does on each axis.
static std::string getSteps(PlanFacts &facts, const CopyChange &change) {
  std::string text;
  for (const AxisChange &step : facts.table.getSequence(
           change.copy.tensor, change.from, change.copy.layout)) {
    std::string_view kind = getStepName(facts.problem, step);
    if (!kind.empty())
      text += (text.empty() ? "" : ", ") + std::string(kind) + " " +
              facts.problem.axes[step.axis].name;
  }
  return text;
}

static void addChanges(PlanFacts &facts, std::vector<FormEntry> &entries) {
  for (FormEntry &entry : entries)
    for (const CopyChange &change : facts.report.changes)
      if (change.copy.tensor == entry.tensors.front())
        entry.changes.push_back(
            {change.copy.pass, print(facts.problem, change.copy.layout),
             getSteps(facts, change),
             std::ranges::binary_search(facts.plan.kept, change.copy),
             change.waits});
}

std::vector<FormEntry> tandem::explain::getForms(PlanFacts &facts) {
  const SearchProblem &problem = facts.problem;
  using Key =
      std::tuple<std::string, std::vector<int64_t>, Layout, Role, unsigned>;
  Groups<Key, FormEntry> groups;
  for (unsigned i = 0; i < problem.tensors.size(); ++i) {
    const TensorFacts &tensor = facts.index.tensors[i];
    const Operator &producer = problem.operators[tensor.producer];
    const Layout &layout = facts.getLayout(i);
    FormEntry first;
    first.name = facts.names.getLabel(i);
    first.location = facts.names.getLocation(i);
    first.form = print(problem, layout);
    first.role = getRole(producer);
    first.bytes = problem.getBytes(i, layout);
    first.wholeBytes = problem.getBytes(i, Layout());
    first.numForms = facts.getLayouts(i).size();
    Key key{producer.location, problem.tensors[i].shape, layout, first.role,
            tensor.result};
    groups.get(key, first).tensors.push_back(i);
  }
  std::vector<FormEntry> entries = groups.take([](const FormEntry &entry) {
    return entry.bytes * int64_t(entry.tensors.size());
  });
  addChanges(facts, entries);
  return entries;
}
