//===- Facts.h - attributes of a training step -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What each says stands with the dialect (`NN.td`). An accessor gives nothing
// (or an empty text) where the attribute is not there; verified IR has no
// value of another type. Included by `NN.h`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_FACTS_H
#define TANDEM_DIALECT_NN_FACTS_H

#include "tandem/Dialect/Facts.h"

namespace tandem::nn {

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

inline constexpr llvm::StringLiteral kPassAttrName =
    NNDialect::PassAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kIdAttrName =
    NNDialect::IdAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kStrandAttrName =
    NNDialect::StrandAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kJoinAttrName =
    NNDialect::JoinAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kAgainAttrName =
    NNDialect::AgainAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kSourceAttrName =
    NNDialect::SourceAttrHelper::getNameStr();

std::optional<PassKind> getPass(mlir::Operation *op);
void setPass(mlir::Operation *op, PassKind pass);
/// Gives `to` the pass of `from`, if it has one.
void copyPass(mlir::Operation *from, mlir::Operation *to);

/// The number that import gave the operator; what it was taken apart into has
/// it too. What a stage adds between operators has none.
inline std::optional<int64_t> getId(mlir::Operation *op) {
  return getInteger(op, kIdAttrName);
}

/// None: all strands share it.
inline std::optional<int64_t> getStrand(mlir::Operation *op) {
  return getInteger(op, kStrandAttrName);
}

/// Whether it makes again what another operator made.
inline bool isAgain(mlir::Operation *op) { return op->hasAttr(kAgainAttrName); }

/// The number of the operand that the plan chose for an `nn.either`; a region's
/// makes again what it was not told to save.
inline unsigned getSource(mlir::Operation *either) {
  return getInteger(either, kSourceAttrName).value_or(isAgain(either));
}

/// The attributes of what takes the place of `reform`, marked as a part of a
/// change of form. A reform with a number is a part of that operator instead.
mlir::DictionaryAttr getPartAttributes(mlir::Operation *reform);

//===----------------------------------------------------------------------===//
// Arguments and results, by their dictionaries (null: no attributes)
//===----------------------------------------------------------------------===//

inline constexpr llvm::StringLiteral kRoleAttrName =
    NNDialect::RoleAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kNameAttrName =
    NNDialect::NameAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kAliasesAttrName =
    NNDialect::AliasesAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kOfAttrName =
    NNDialect::OfAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kPartAttrName =
    NNDialect::PartAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kBatchDimAttrName =
    NNDialect::BatchDimAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kRangeAttrName =
    NNDialect::RangeAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kUpdatesAttrName =
    NNDialect::UpdatesAttrHelper::getNameStr();

/// Whether a result of this role updates nothing.
inline bool isOutput(Role role) { return role >= Role::Loss; }

std::optional<Role> getRole(mlir::DictionaryAttr attributes);

/// `nn.part`, or null.
inline PartAttr getPart(mlir::DictionaryAttr attributes) {
  return attributes ? attributes.getAs<PartAttr>(kPartAttrName) : PartAttr();
}

/// `nn.name`.
inline llvm::StringRef getTensorName(mlir::DictionaryAttr attributes) {
  return getText(attributes, kNameAttrName);
}

/// The argument whose new value a result is.
inline std::optional<int64_t> getUpdates(mlir::DictionaryAttr attributes) {
  return getInteger(attributes, kUpdatesAttrName);
}

inline std::optional<int64_t> getBatchDim(mlir::DictionaryAttr attributes) {
  return getInteger(attributes, kBatchDimAttrName);
}

/// `nn.range`: two numbers, both integers or both floating-point.
std::optional<std::pair<mlir::TypedAttr, mlir::TypedAttr>>
getRange(mlir::DictionaryAttr attributes);

} // namespace tandem::nn

#endif // TANDEM_DIALECT_NN_FACTS_H
