//===- Rule.h - sharding rules ----------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rule names the factors of an operator's iteration space and says of which
// factors each dimension of each operand and result is made. All signatures
// (HiDup, section 4.1) are enumerated from it:
//
//  * a factor that may be split gives `gather` to every tensor that has it and
//    `reduce` to every result that lacks it (it is summed there);
//  * a group of operands in which the operator is linear *together* passes
//    `reduce` from all of them to all results.
//
// One more signature needs no rule: on a space axis, results are `at(i)` where
// each operand is `at(i)` or `full`. Point i alone runs the operator. Since it
// is the same for every operator, `enumerate` leaves it out.
//
// Truth values (i1) are never `reduce`: their sum is no truth value.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_RULE_H
#define TANDEM_DIALECT_SPMD_RULE_H

#include "tandem/Dialect/SPMD/Form.h"

namespace tandem::spmd {

/// The forms of an operator's operands and results along one axis.
struct Signature {
  llvm::SmallVector<AxisForm, 4> operands;
  llvm::SmallVector<AxisForm, 2> results;

  bool operator==(const Signature &) const = default;
  /// `gather(0), full -> gather(0)`.
  std::string str() const;
};

/// Whether point i alone has what all results are made of: each is `at(i)`, and
/// each operand `at(i)` or `full`.
bool isPlaced(const Signature &signature);

/// Reads what `Signature::str` prints.
std::optional<Signature> parseSignature(llvm::StringRef text);

struct Rule {
  struct Factor {
    int64_t size = 1;
    /// False for a dimension that must stay whole (softmax's own).
    bool splittable = true;
    /// What splitting it would need, for errors: `a halo`. Of static storage.
    llvm::StringRef need = {};
  };
  /// The factors of one dimension, from major to minor. Empty for size 1.
  using Dim = llvm::SmallVector<unsigned, 1>;
  using Dims = llvm::SmallVector<Dim, 4>;

  llvm::SmallVector<Factor, 8> factors;
  llvm::SmallVector<Dims, 4> operands;
  llvm::SmallVector<Dims, 2> results;
  /// Groups of operands in which the operator is linear together.
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 2> linear;

  unsigned addFactor(int64_t size, bool splittable = true) {
    factors.push_back({size, splittable});
    return factors.size() - 1;
  }
  unsigned addWholeFactor(int64_t size, llvm::StringRef need) {
    factors.push_back({size, false, need});
    return factors.size() - 1;
  }

  /// Whether an axis of `axisSize` points can split `factor`: it may be split,
  /// its size divides, and in every dimension that has it, it is the major-most
  /// factor larger than one.
  bool canSplit(unsigned factor, int64_t axisSize) const;

  /// The signature of splitting `factor`.
  Signature getSplitSignature(unsigned factor) const;

  /// Whether some split leaves a result to be summed.
  bool makesSums() const;

  /// All signatures for an axis of `axisSize` points but those that are placed
  /// (`isPlaced`); all-`full` comes first.
  llvm::SmallVector<Signature> enumerate(int64_t axisSize) const;

  /// What a signature that is none of the rule's would need, as far as it
  /// splits what stays whole: `; splitting dimension 2 needs a halo`, or
  /// nothing.
  std::string explain(const Signature &signature) const;

  /// Divides the factor that `signature` splits, if any, by `axisSize`: the
  /// rule of the shards. Fails if `signature` is none of the rule's, and is
  /// not placed.
  mlir::LogicalResult split(const Signature &signature, int64_t axisSize);
};

/// Parses an einsum-like rule for `op`'s shapes, e.g.
/// `(... m k), (... k n) -> (... m n)`. `...` stands for leading dimensions,
/// `x!` for a factor that stays whole, `1` for a dimension of size 1, `(b s)`
/// inside a list for a compound dimension. A factor that a result lacks is
/// summed. Trailing operands and results that `op` does not have are ignored.
/// `linear` lists groups: `0 1` (together), `0 | 1` (separately).
/// A text that does not fit `op` is a programming error of the dialect and is
/// reported as fatal.
Rule parseRule(mlir::Operation *op, llvm::StringRef text,
               llvm::StringRef linear);

/// Adds the groups of operands in which `op` is linear, as `parseRule` reads
/// them. What is no number is fatal.
void addLinear(mlir::Operation *op, Rule &rule, llvm::StringRef text);

/// `rule` without what would make `reduce` of truth values, since a sum of them
/// is none: factors that a result of i1 lacks stay whole, and groups of
/// operands with an operand or result of i1 go. Every `getRule` ends in it.
Rule withoutSumsOfTruth(mlir::Operation *op, Rule rule);

/// The forms that `op`'s types have along `axis` of `mesh`.
Signature getSignature(mlir::Operation *op, MeshAttr mesh, unsigned axis);

/// Checks the forms in the types of `op` against its rule, axis by axis in
/// layout order. The verifier of `SignatureOpInterface`.
mlir::LogicalResult verifySignature(mlir::Operation *op);

} // namespace tandem::spmd

#endif // TANDEM_DIALECT_SPMD_RULE_H
