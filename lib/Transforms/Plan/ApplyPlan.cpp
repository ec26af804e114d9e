//===- ApplyPlan.cpp - a search's plan back onto the step -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ApplyPlan.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

void tandem::plan::applyPlan(StepGraph &graph, const Extraction &extraction,
                             const cost::Plan &plan) {
  const cost::SearchProblem &problem = extraction.problem;
  unsigned numAxes = graph.mesh.getNumAxes();
  for (auto [index, origin] : llvm::enumerate(extraction.origins)) {
    unsigned chosen = plan.signatures[index];
    if (origin.kind == Part::Kind::Argument) {
      const cost::Layout &layout =
          problem.getSignatures(index)[chosen].results[0];
      for (unsigned axis = 0; axis < numAxes; ++axis)
        graph.arguments[origin.index].forms[axis] =
            AxisForm::fromCode(layout[axis]);
    }
    if (origin.kind != Part::Kind::Group)
      continue;
    unsigned set = problem.operators[index].signatureSet;
    const auto &choices = extraction.choices[set][chosen];
    for (auto [member, choice] :
         llvm::zip(graph.getGroups().groups[origin.index].members, choices))
      for (unsigned axis = 0; axis < numAxes; ++axis)
        graph.ops[member].signatures[axis] =
            plan::getSignature(graph.ops[member].rule, choice[axis]);
  }
}
