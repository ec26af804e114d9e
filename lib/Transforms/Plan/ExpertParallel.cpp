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
// Where no tokens are dispatched, since every expert sees all of them, a
// product may have the experts among its columns (tokens times the matrices
// of all experts side by side) or its rows (which sums over experts). A
// parameter is split by these only if its experts meet those of a parameter
// that is split by the rule above: heads of attention look the same, and they
// are no experts.
//
//===----------------------------------------------------------------------===//

#include "Presets.h"
#include "Region.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

namespace {
/// Where a product has the experts.
enum class Place { Batch, Rows, Columns };

class ExpertRegion : public SplitRegion {
public:
  using SplitRegion::SplitRegion;

private:
  bool visitProduct(const WeightedProduct &product) override;
  void decide() override;
  bool visitAt(const WeightedProduct &product, Place place);
  bool isAt(const WeightedProduct &product, const Signature &signature,
            Place place) const;

  /// Parameters whose results meet experts of others in a batch of products.
  llvm::SmallSet<unsigned, 4> meeting;
  /// In the second walk, the parameters that may be split by columns.
  std::optional<llvm::SmallSet<unsigned, 4>> allowed;
};
} // namespace

bool ExpertRegion::isAt(const WeightedProduct &product,
                        const Signature &signature, Place place) const {
  Form weight = signature.operands[product.weight];
  Form activation = signature.operands[product.activation];
  Form result = signature.results[0];
  Form found = forms[graph.ops[product.op].operands[product.activation]];
  switch (place) {
  case Place::Batch:
    return weight.isGather() && weight == activation && weight == result &&
           (!found.isGather() || found == activation);
  case Place::Rows:
    return weight.isGather() && activation.isGather() && result.isReduce() &&
           found == activation;
  case Place::Columns:
    return weight.isGather() && activation.isFull() && result.isGather() &&
           !found.isGather() &&
           (!allowed || allowed->contains(product.argument));
  }
  return false;
}

bool ExpertRegion::visitAt(const WeightedProduct &product, Place place) {
  const OpNode &op = graph.ops[product.op];
  unsigned weight = op.operands[product.weight];
  for (const Signature &signature : candidates[product.op]) {
    if (!isAt(product, signature, place))
      continue;
    auto stored =
        graph.getStoredForm(weight, signature.operands[product.weight], size);
    if (!stored || !stored->isGather(0) || !decideWeight(product, signature))
      continue;
    if (place == Place::Batch)
      for (unsigned origin : origins[op.operands[product.activation]])
        meeting.insert(origin);
    Origins from;
    from.insert(product.argument);
    // A sum over experts ends the region.
    bool ends = place == Place::Rows;
    setResults(product.op, ends ? Form::full() : signature.results[0], from);
    return true;
  }
  return false;
}

bool ExpertRegion::visitProduct(const WeightedProduct &product) {
  if (graph.arguments[product.argument].type.getRank() < 3)
    return false;
  return visitAt(product, Place::Batch) || visitAt(product, Place::Rows) ||
         visitAt(product, Place::Columns);
}

/// The first walk finds which columns meet experts, the second splits those.
void ExpertRegion::decide() {
  walk();
  allowed = std::move(meeting);
  meeting.clear();
  walk();
}

void tandem::plan::splitExperts(StepGraph &graph, unsigned axis,
                                ArrayRef<bool> isPinned, AxisPolicy &policy) {
  ExpertRegion(graph, axis, isPinned).apply(policy);
}
