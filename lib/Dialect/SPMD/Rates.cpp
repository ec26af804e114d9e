//===- Rates.cpp - what changes of form take ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/SPMD/Rates.h"

using namespace mlir;

namespace tandem::spmd {

DictionaryAttr getRates(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  return module->getAttrOfType<DictionaryAttr>(kRatesAttrName);
}

std::optional<ChangePrice> getRate(DictionaryAttr rates, StringRef axis,
                                   ChangeKind kind) {
  auto ofAxis = rates ? rates.getAs<DenseF64ArrayAttr>(axis) : nullptr;
  if (!ofAxis)
    return std::nullopt;
  unsigned first = 2 * static_cast<unsigned>(kind);
  return ChangePrice{ofAxis[first], ofAxis[first + 1]};
}

} // namespace tandem::spmd
