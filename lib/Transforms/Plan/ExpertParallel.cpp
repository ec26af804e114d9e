//===- ExpertParallel.cpp - expert weights over an axis -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A parameter of three or more dimensions whose first one is a batch dimension
// of a product holds one matrix per expert. It is split by experts, and so are
// the parameters that meet its results before experts are mixed again. Tokens
// come and go by all-to-all, since they are split by batch elsewhere.
//
//===----------------------------------------------------------------------===//

#include "Presets.h"
#include "Region.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

namespace {
class ExpertRegion : public SplitRegion {
public:
  using SplitRegion::SplitRegion;

private:
  bool visitProduct(const WeightedProduct &product) override;
};
} // namespace

bool ExpertRegion::visitProduct(const WeightedProduct &product) {
  const OpNode &op = graph.ops[product.op];
  if (graph.arguments[product.argument].type.getRank() < 3)
    return false;
  unsigned activation = op.operands[product.activation];
  for (const Signature &signature : candidates[product.op]) {
    bool isBatch = signature.operands[0].isGather() &&
                   signature.operands[0] == signature.operands[1] &&
                   signature.operands[0] == signature.results[0];
    if (!isBatch || (forms[activation].isGather() &&
                     forms[activation] != signature.operands[0]))
      continue;
    unsigned weight = op.operands[product.weight];
    auto stored =
        graph.getStoredForm(weight, signature.operands[product.weight], size);
    if (!stored || !stored->isGather(0) || !decideWeight(product, signature))
      continue;
    Origins from;
    from.insert(product.argument);
    setResults(product.op, signature.results[0], from);
    return true;
  }
  return false;
}

void tandem::plan::splitExperts(StepGraph &graph, unsigned axis,
                                ArrayRef<bool> isPinned, AxisPolicy &policy) {
  ExpertRegion(graph, axis, isPinned).apply(policy);
}
