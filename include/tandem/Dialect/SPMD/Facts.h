//===- Facts.h - attributes of a step that is split ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What each says stands with the dialect (`SPMD.td`). Included by `SPMD.h`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_FACTS_H
#define TANDEM_DIALECT_SPMD_FACTS_H

#include "tandem/Dialect/Facts.h"

namespace tandem::spmd {

inline constexpr llvm::StringLiteral kMeshAttrName =
    SPMDDialect::MeshAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kMemoryAttrName =
    SPMDDialect::MemoryAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kPlanAttrName =
    SPMDDialect::PlanAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kLayoutAttrName =
    SPMDDialect::LayoutAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kChangeAttrName =
    SPMDDialect::ChangeAttrHelper::getNameStr();

/// Whether `op` is a part of a change of form: a collective, a sum over
/// strands, a slice or a concatenation that took the place of a reform.
inline bool isPartOfChange(mlir::Operation *op) {
  return op->hasAttr(kChangeAttrName);
}

/// The whole tensor, with its forms, that `localize` noted with an argument or
/// result; null if there is none.
mlir::RankedTensorType getLayout(mlir::DictionaryAttr attributes);

} // namespace tandem::spmd

#endif // TANDEM_DIALECT_SPMD_FACTS_H
