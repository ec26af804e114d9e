//===- Parts.cpp - parameters that were taken apart -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/Parts.h"
#include "mlir/IR/Builders.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;

namespace tandem::nn {

std::optional<PartOf> getPart(DictionaryAttr attributes) {
  auto part = attributes ? attributes.getAs<DictionaryAttr>(kPartAttrName)
                         : DictionaryAttr();
  return part ? parsePart(part) : std::nullopt;
}

std::optional<PartOf> parsePart(DictionaryAttr part) {
  auto name = part.getAs<StringAttr>("name");
  auto shape = part.getAs<DenseI64ArrayAttr>("shape");
  auto dim = part.getAs<IntegerAttr>("dim");
  auto offset = part.getAs<IntegerAttr>("offset");
  if (!name || !shape || !dim || !offset || dim.getInt() < 0 ||
      dim.getInt() >= static_cast<int64_t>(shape.size()) || offset.getInt() < 0)
    return std::nullopt;
  return PartOf{name.getValue(), shape.asArrayRef(), dim.getInt(),
                offset.getInt()};
}

DictionaryAttr makePart(MLIRContext *context, const PartOf &part) {
  Builder builder(context);
  NamedAttrList attributes;
  attributes.set("name", builder.getStringAttr(part.name));
  attributes.set("shape", builder.getDenseI64ArrayAttr(part.shape));
  attributes.set("dim", builder.getI64IntegerAttr(part.dim));
  attributes.set("offset", builder.getI64IntegerAttr(part.offset));
  return attributes.getDictionary(context);
}

} // namespace tandem::nn
