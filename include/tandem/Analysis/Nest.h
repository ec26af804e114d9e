//===- Nest.h - loop nest of several operators ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loops of a nest are *factors*. Each dimension of a value that is made in
// the nest is a product of factors, so that a reshape only regroups them. An
// operator whose loops can be mapped to the factors such that it reads, of
// every value made in the nest, exactly the current element, may join.
//
// Factors are *columns* (inner) or rows (outer). For one row, the columns may
// be run over several times: a reduction over columns gives a value of the row,
// which operators behind it use. Columns are the innermost factors (but for an
// operator alone). A reduction over rows is complete only after the nest: no
// member may read it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_NEST_H
#define TANDEM_ANALYSIS_NEST_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "tandem/Dialect/SPMD/Loops.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVector.h"

namespace tandem {

using spmd::LoopAccess;
using spmd::LoopOp;

class Nest {
public:
  /// Factors, from major to minor.
  using Factors = llvm::SmallVector<int>;

  /// `maxColumns`: the device's, of a row that several members work on.
  explicit Nest(int64_t maxColumns) : maxColumns(maxColumns) {}

  struct Member {
    mlir::Operation *op;
    llvm::SmallVector<Factors> loops;
  };
  struct Made {
    unsigned member;
    llvm::SmallVector<Factors> dims;
    Factors reduced;
    bool isRead = false;
  };

  /// Lets `op` join, or leaves the nest as it was and returns false. Inputs
  /// that no member makes are in memory, and may be read at any index.
  bool tryAdd(const LoopOp &op);
  /// The same for a reshape of a value of the nest.
  bool tryAddReshape(mlir::Operation *op, mlir::Value from, mlir::Value to);

  bool makes(mlir::Value value) const { return made.contains(value); }
  const Made &lookup(mlir::Value value) const {
    return made.find(value)->second;
  }

  llvm::SmallVector<int64_t> sizes; ///< by factor
  Factors order;                    ///< from outer to inner
  llvm::SmallVector<bool> isColumn; ///< by factor; what members force
  llvm::SmallVector<Member> members;
  llvm::MapVector<mlir::Value, Made> made;

  /// Makes two of a factor: one of the `minor` elements that are innermost, and
  /// one of as many as are left, which keeps the number.
  void splitFactor(int factor, int64_t minor) {
    llvm::SmallVector<Factors> none;
    split(factor, minor, none);
  }

  /// Factors of all loops of a member.
  Factors getDomain(unsigned member) const;
  int64_t getSize(const Factors &factors) const;

private:
  int64_t maxColumns;

  bool add(const LoopOp &op);
  bool addReshape(mlir::Operation *op, mlir::Value from, mlir::Value to);
  bool assignRead(const LoopOp &op, llvm::SmallVectorImpl<Factors> &loops,
                  llvm::SmallVectorImpl<bool> &assigned);
  bool assignFree(const LoopOp &op, llvm::SmallVectorImpl<Factors> &loops,
                  llvm::SmallVectorImpl<bool> &assigned);
  bool matchFree(int64_t size, int &position, const Factors &used,
                 Factors &result, llvm::SmallVectorImpl<Factors> &loops);
  bool takeWhole(const LoopOp &op, bool fromOuter,
                 llvm::SmallVectorImpl<Factors> &loops) const;
  bool alignRows(const LoopOp &op, llvm::SmallVectorImpl<Factors> &loops,
                 llvm::ArrayRef<bool> assigned) const;
  bool repeatsLast() const;
  bool addOutputs(const LoopOp &op, llvm::ArrayRef<Factors> loops);
  /// Makes `factors` columns.
  void forceColumns(const Factors &factors);
  bool check() const;
  int addFactor(int64_t size, int position);
  /// Splits `factor` into one of `major` and one of the rest, in everything
  /// that the nest holds and in `loops`.
  void split(int factor, int64_t minor, llvm::SmallVectorImpl<Factors> &loops);
  /// Splits factors until both lists are equal in sizes; false where they
  /// cannot be.
  bool regroup(const Factors &flat, llvm::ArrayRef<int64_t> shape,
               llvm::SmallVectorImpl<Factors> &dims);
};

} // namespace tandem

#endif // TANDEM_ANALYSIS_NEST_H
