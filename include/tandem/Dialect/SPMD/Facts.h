//===- Facts.h - attributes of a sharded step -------------------*- C++ -*-===//
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

inline constexpr llvm::StringLiteral kLoopAttrName =
    SPMDDialect::LoopAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kIterationsAttrName =
    SPMDDialect::IterationsAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kIteratedAttrName =
    SPMDDialect::IteratedAttrHelper::getNameStr();

inline constexpr llvm::StringLiteral kSectionsAttrName =
    SPMDDialect::SectionsAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kPipeAttrName =
    SPMDDialect::PipeAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kSectionAttrName =
    SPMDDialect::SectionAttrHelper::getNameStr();

/// The loop that `op` is in; none: it runs once.
inline std::optional<int64_t> getLoop(mlir::Operation *op) {
  return getInteger(op, kLoopAttrName);
}
/// How often the loops of the function of `op` run; 1 if it has none.
int64_t getIterations(mlir::Operation *op);
/// Puts `op` where `other` is: into the same loop, or behind all of them.
void setLoopOf(mlir::Operation *op, mlir::Operation *other);

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
