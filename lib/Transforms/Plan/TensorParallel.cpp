//===- TensorParallel.cpp - column and row splits of weights --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A weight whose activation is whole is split by columns; the split of the
// result is followed until a product contracts it with another weight, which
// is split by rows and gives a sum: the one all-reduce of an attention or of a
// feed-forward layer. A column split that ends elsewhere is not taken.
//
//===----------------------------------------------------------------------===//

#include "Presets.h"
#include "Region.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

namespace {
class TensorRegion : public SplitRegion {
public:
  using SplitRegion::SplitRegion;

private:
  bool visitProduct(const WeightedProduct &product) override;
  void visitEnd(unsigned op, const Origins &origins) override;
  void decide() override;
  bool splitColumns(const WeightedProduct &product);
  bool splitRows(const WeightedProduct &product);

  /// Weights whose column split ended without a row split.
  llvm::SmallSet<unsigned, 8> rejected;
  /// Weights whose column split ends in a row split.
  llvm::SmallSet<unsigned, 8> confirmed;
};
} // namespace

bool TensorRegion::splitColumns(const WeightedProduct &product) {
  if (rejected.contains(product.argument))
    return false;
  for (const Signature &signature : candidates[product.op]) {
    if (!signature.operands[product.activation].isFull() ||
        !signature.operands[product.weight].isGather() ||
        !signature.results[0].isGather())
      continue;
    if (!decideWeight(product, signature))
      return false;
    Origins from;
    from.insert(product.argument);
    setResults(product.op, signature.results[0], from);
    return true;
  }
  return false;
}

bool TensorRegion::splitRows(const WeightedProduct &product) {
  unsigned activation = graph.ops[product.op].operands[product.activation];
  for (const Signature &signature : candidates[product.op]) {
    if (signature.operands[product.activation] != forms[activation] ||
        !signature.operands[product.weight].isGather() ||
        !signature.results[0].isReduce() ||
        rejected.contains(product.argument) ||
        !decideWeight(product, signature))
      continue;
    for (unsigned argument : origins[activation])
      confirmed.insert(argument);
    confirmed.insert(product.argument);
    setResults(product.op, Form::full(), {});
    return true;
  }
  return false;
}

bool TensorRegion::visitProduct(const WeightedProduct &product) {
  unsigned activation = graph.ops[product.op].operands[product.activation];
  return forms[activation].isFull() ? splitColumns(product)
                                    : splitRows(product);
}

void TensorRegion::visitEnd(unsigned, const Origins &origins) {
  for (unsigned argument : origins)
    rejected.insert(argument);
}

void TensorRegion::decide() {
  // A table that is indexed is wanted whole there.
  for (const OpNode &op : graph.ops)
    if (op.op->hasTrait<nn::Lookup>() && isParameterView(op.operands[0]))
      rejected.insert(graph.values[op.operands[0]].viewOf);
  // Rejections only grow, so this ends.
  size_t before;
  do {
    before = rejected.size();
    confirmed.clear();
    walk();
    for (auto &[argument, form] : decided)
      if (form.isGather() && !confirmed.contains(argument) &&
          !isPinned[argument])
        rejected.insert(argument);
  } while (rejected.size() != before);
}

void tandem::plan::splitTensors(StepGraph &graph, unsigned axis,
                                ArrayRef<bool> isPinned, AxisPolicy &policy) {
  TensorRegion(graph, axis, isPinned).apply(policy);
}
