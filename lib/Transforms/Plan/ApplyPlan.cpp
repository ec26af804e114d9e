//===- ApplyPlan.cpp - a search's plan back onto the step -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ApplyPlan.h"
#include <map>

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

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

namespace {
/// Walks sources from the last to the first; readers of each are done before
/// it.
class SourcePlacer {
public:
  explicit SourcePlacer(StepGraph &graph);
  void run();

private:
  using Signatures = SmallVector<Signature, 3>;

  Forms getWanted(OpOperand &use) const;
  Signatures makeSignatures(const Rule &rule, ArrayRef<AxisForm> wanted) const;
  void place(unsigned index);
  Operation *clone(Operation *op, const Signatures &given);

  StepGraph &graph;
  const OperatorGroups &groups;
  /// Signatures of all operators that are done.
  llvm::DenseMap<Operation *, Signatures> signatures;
  int64_t nextId = 0;
};
} // namespace

static constexpr llvm::StringLiteral kId = nn::NNDialect::kIdAttrName;

SourcePlacer::SourcePlacer(StepGraph &graph)
    : graph(graph), groups(graph.getGroups()) {
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    if (groups.groupOf[index] >= 0)
      signatures[op.op] = op.signatures;
    nextId = std::max(nextId, op.id + 1);
  }
}

/// The return wants scalars, which are `full`.
Forms SourcePlacer::getWanted(OpOperand &use) const {
  Forms forms(graph.mesh.getNumAxes(), AxisForm::full());
  auto it = signatures.find(use.getOwner());
  if (it != signatures.end())
    for (auto [form, signature] : llvm::zip(forms, it->second))
      form = signature.operands[use.getOperandNumber()];
  return forms;
}

/// Signatures that give the result in the forms `wanted`; `full` throughout if
/// there are none, so that the result is cut out of the whole.
SourcePlacer::Signatures
SourcePlacer::makeSignatures(const Rule &whole,
                             ArrayRef<AxisForm> wanted) const {
  Rule rule = whole;
  Signatures full(wanted.size(), plan::getSignature(rule, 0));
  Signatures made = full;
  for (unsigned axis : graph.mesh.getLayoutOrder()) {
    int64_t size = graph.mesh.getSize(axis);
    auto legal = rule.enumerate(size);
    auto *it = llvm::find_if(legal, [&](const Signature &signature) {
      return signature.results[0] == wanted[axis] &&
             llvm::none_of(signature.operands,
                           [](AxisForm form) { return form.isReduce(); });
    });
    if (it == legal.end() || failed(rule.split(*it, size)))
      return full;
    made[axis] = *it;
  }
  return made;
}

Operation *SourcePlacer::clone(Operation *op, const Signatures &given) {
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Operation *copy = builder.clone(*op);
  copy->setAttr(kId, builder.getI64IntegerAttr(nextId++));
  SmallVector<std::string> texts;
  for (const Signature &signature : given)
    texts.push_back(signature.str());
  SmallVector<StringRef> refs(texts.begin(), texts.end());
  copy->setAttr(SPMDDialect::kSignatureAttrName, builder.getStrArrayAttr(refs));
  return copy;
}

/// One operator for each way in which readers want the result.
void SourcePlacer::place(unsigned index) {
  OpNode &node = graph.ops[index];
  std::map<std::vector<AxisForm>, SmallVector<OpOperand *>> byForms;
  for (OpOperand &use : node.op->getResult(0).getUses()) {
    Forms wanted = getWanted(use);
    byForms[{wanted.begin(), wanted.end()}].push_back(&use);
  }
  bool isFirst = true;
  for (auto &[forms, uses] : byForms) {
    Signatures made = makeSignatures(node.rule, forms);
    Operation *op = isFirst ? node.op : clone(node.op, made);
    signatures[op] = made;
    if (isFirst)
      node.signatures = made;
    else
      for (OpOperand *use : uses)
        use->set(op->getResult(0));
    isFirst = false;
  }
}

void SourcePlacer::run() {
  for (unsigned index = graph.ops.size(); index-- > 0;)
    if (groups.groupOf[index] < 0)
      place(index);
}

void tandem::plan::placeSources(StepGraph &graph) { SourcePlacer(graph).run(); }
