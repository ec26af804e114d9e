//===- Facts.h - attributes that dialects declare --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A fact is an attribute that a stage leaves on an operator, an argument, a
// result, a function or the module, for later ones: `nn.pass`, `spmd.layout`,
// `sched.slot`. Its dialect declares the name (`discardableAttrs` in ODS), and
// a table says what may carry it and which values it may have. A dialect's
// `Facts.h` has the names and the accessors; no other file writes such a name.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FACTS_H
#define TANDEM_DIALECT_FACTS_H

#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectInterface.h"
#include "mlir/IR/OpDefinition.h"

namespace tandem {

/// What may carry a fact: bits of a set.
enum Carrier : unsigned {
  OnOperator = 1,
  OnFunction = 2,
  OnModule = 4,
  OnArgument = 8,
  OnResult = 16,
};

/// What a table says about one fact.
struct Fact {
  llvm::StringRef name;
  /// Bits of `Carrier`.
  unsigned carriers;
  /// Whether a value is right by itself.
  bool (*fits)(mlir::Attribute value);
  /// What a right value is, for diagnostics: `an integer from 0 on`.
  llvm::StringRef expected;
};

/// The table of a dialect, registered with it.
class FactTable : public mlir::DialectInterface::Base<FactTable> {
public:
  FactTable(mlir::Dialect *dialect, llvm::ArrayRef<Fact> facts)
      : Base(dialect), facts(facts) {}
  llvm::ArrayRef<Fact> getFacts() const { return facts; }

private:
  llvm::ArrayRef<Fact> facts;
};

namespace detail {
/// Checks that each attribute of `op` is one of its definition or of a dialect,
/// which then looks at it. Reports one that is not, with the nearest name.
mlir::LogicalResult verifyKnownAttributes(mlir::Operation *op);
} // namespace detail

/// An operator without attributes that nobody would read: MLIR keeps any name
/// without a dialect's prefix, and asks dialects about their own only.
template <typename ConcreteOp>
class KnownAttributes
    : public mlir::OpTrait::TraitBase<ConcreteOp, KnownAttributes> {
public:
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) {
    return detail::verifyKnownAttributes(op);
  }
};

/// What `op` is as a carrier.
Carrier getCarrier(mlir::Operation *op);

/// Checks a fact of the operation `op`, or, with `carrier`, of its argument or
/// result number `index`, by the table of its dialect. Reports a name that the
/// table does not have, with the nearest one, a carrier that it may not stand
/// on, and a value that does not fit.
mlir::LogicalResult verifyFact(llvm::ArrayRef<Fact> table, mlir::Operation *op,
                               mlir::NamedAttribute attribute);
mlir::LogicalResult verifyFact(llvm::ArrayRef<Fact> table, mlir::Operation *op,
                               mlir::NamedAttribute attribute, Carrier carrier,
                               unsigned index);

/// What `fits` of many facts is.
bool isString(mlir::Attribute value);
bool isStringList(mlir::Attribute value);
bool isUnit(mlir::Attribute value);
/// An i64 from 0 on.
bool isIndex(mlir::Attribute value);
template <typename AttrT> bool isOf(mlir::Attribute value) {
  return mlir::isa<AttrT>(value);
}

/// The value of a fact that is an i64; none if `attributes` (null: none at all)
/// or the operation does not have it.
std::optional<int64_t> getInteger(mlir::DictionaryAttr attributes,
                                  llvm::StringRef name);
std::optional<int64_t> getInteger(mlir::Operation *op, llvm::StringRef name);
void setInteger(mlir::Operation *op, llvm::StringRef name, int64_t value);

/// The value of a fact that is a string; empty if it is not there.
llvm::StringRef getText(mlir::DictionaryAttr attributes, llvm::StringRef name);

} // namespace tandem

#endif // TANDEM_DIALECT_FACTS_H
