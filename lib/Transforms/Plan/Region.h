//===- Region.h - how far a split reaches -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Walks the forward pass with the forms that a preset gives to weights, and
// follows each split through the operators that take it without a change of
// form. What to do at a product with a weight, and where a split ends, is the
// preset's to say.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_REGION_H
#define TANDEM_LIB_TRANSFORMS_PLAN_REGION_H

#include "AxisPlanner.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallSet.h"

namespace tandem::plan {

/// A product of an activation and a parameter.
struct WeightedProduct {
  unsigned op;
  unsigned weight, activation; // operand numbers
  unsigned argument;           // the parameter
};

class SplitRegion {
public:
  SplitRegion(StepGraph &graph, unsigned axis, llvm::ArrayRef<bool> isPinned);
  virtual ~SplitRegion() = default;

  /// Writes stored forms of weights and of the parameters that meet the split
  /// (biases) into the graph, and marks them in `policy.keepStored`.
  void apply(AxisPolicy &policy);

protected:
  using Form = spmd::AxisForm;
  using Origins = llvm::SmallSet<unsigned, 4>;

  /// One walk; sets `forms`, `origins` and `decided`.
  void walk();
  /// Sets the forms of a product's results. True if it did.
  virtual bool visitProduct(const WeightedProduct &product) = 0;
  /// No signature carries the split of `origins` through `op`.
  virtual void visitEnd(unsigned op, const Origins &origins) {}
  /// Walks until decisions stand.
  virtual void decide() { walk(); }

  std::optional<WeightedProduct> matchProduct(unsigned op) const;
  bool isParameterView(unsigned value) const;
  /// Takes the weight's stored form for `product` under `signature`; false if
  /// none is stored so, or if it is stored otherwise already.
  bool decideWeight(const WeightedProduct &product,
                    const spmd::Signature &signature);
  void setResults(unsigned op, Form form, const Origins &from);
  Origins getOrigins(unsigned op) const;

  StepGraph &graph;
  unsigned axis;
  int64_t size;
  llvm::ArrayRef<bool> isPinned;
  std::vector<llvm::SmallVector<spmd::Signature>> candidates;
  std::vector<Form> forms;
  std::vector<Origins> origins;
  /// Stored forms of the weights.
  llvm::MapVector<unsigned, Form> decided;

private:
  void visit(unsigned op);
  void follow(unsigned op, const spmd::Signature &signature);

  /// Stored forms that other parameters' uses in the region ask for; none
  /// where two uses differ.
  llvm::MapVector<unsigned, std::optional<Form>> wanted;
};

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_REGION_H
