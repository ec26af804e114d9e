//===- Parts.h - parameters that were taken apart ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Import takes a parameter apart that holds several side by side. An argument
// or result that is a part of one of the model's tensors says so:
//
//   nn.name = "qkv.weight.part1",
//   nn.part = {name = "qkv.weight", shape = array<i64: 96, 32>, dim = 0 : i64,
//              offset = 32 : i64}
//
// Values come and go as whole tensors, under the model's own names.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_PARTS_H
#define TANDEM_DIALECT_NN_PARTS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace tandem::nn {

/// Where a part lies: elements `offset` and following of dimension `dim` of the
/// tensor called `name`, which has the shape `shape`.
struct PartOf {
  llvm::StringRef name;
  llvm::ArrayRef<int64_t> shape;
  int64_t dim, offset;
};

/// What the value of `nn.part` says; none if it is not as above.
std::optional<PartOf> parsePart(mlir::DictionaryAttr part);

/// What `nn.part` among the attributes of an argument or result says; none if
/// it is not there.
std::optional<PartOf> getPart(mlir::DictionaryAttr attributes);

/// The attribute.
mlir::DictionaryAttr makePart(mlir::MLIRContext *context, const PartOf &part);

} // namespace tandem::nn

#endif // TANDEM_DIALECT_NN_PARTS_H
