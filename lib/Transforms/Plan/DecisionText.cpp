//===- DecisionText.cpp - decisions as lines of a plan file ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decisions.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

InFlightDiagnostic tandem::plan::emitLineError(const StepGraph &graph,
                                               StringRef file, unsigned line) {
  return mlir::emitError(graph.getLoc())
         << "plan file '" << file << "', line " << line << ": ";
}

std::string tandem::plan::describe(const StepGraph &graph, Part part) {
  if (part.kind == Part::Kind::Argument)
    return "argument " + std::to_string(part.index);
  if (part.kind == Part::Kind::Result)
    return "result " + std::to_string(part.index);
  unsigned first = graph.getGroups().groups[part.index].members.front();
  return "operator " + std::to_string(graph.ops[first].id);
}

std::string tandem::plan::describeMaker(const StepGraph &graph,
                                        unsigned value) {
  const ValueNode &node = graph.values[value];
  if (node.producer < 0)
    return "argument " + std::to_string(node.index);
  return "operator " + std::to_string(graph.ops[node.producer].id);
}

Copy tandem::plan::getCopy(const PlannedCopy &copy) {
  return {stringifyPassKind(copy.pass).str(), copy.isKept, copy.path};
}

void tandem::plan::print(const StepGraph &graph, const Decisions &decisions,
                         llvm::raw_ostream &os) {
  if (!decisions.search.empty())
    os << "search " << decisions.search << "\n";
  if (!decisions.pins.empty())
    os << "pins " << decisions.pins << "\n";
  if (decisions.cluster.empty())
    return;
  os << "cluster " << decisions.cluster << "\ncost "
     << printNumber(decisions.cost) << " s\n";
  if (decisions.bound > 0)
    os << "bound " << printNumber(decisions.bound) << " s proof "
       << decisions.proof << "\n";
  os << "peak " << decisions.peak << " B\n";
  for (const StageBegin &stage : decisions.stages)
    os << "stage " << describe(graph, stage.part)
       << (stage.isInTurn ? ": " + kInTurn.str() : "") << "\n";
  auto printLine = [&](StringRef word, unsigned value,
                       const std::string &text) {
    os << word << " " << describeMaker(graph, value) << ": "
       << graph.values[value].getResult() << " " << text << "\n";
  };
  for (const PlannedCopy &copy : decisions.copies)
    printLine("copy", copy.value, spmd::print(getCopy(copy)));
  for (const PlannedWait &wait : decisions.waits)
    printLine("wait", wait.value, spmd::print(wait));
}
