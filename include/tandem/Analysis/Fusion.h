//===- Fusion.h - groups of operators for kernels ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A fusion group is a set of operators of one block that run as one command.
// Groups are formed from the loops of the operators (`Nest.h`): members share
// one nest of rows and columns, so that what flows between them stays in
// registers or in a buffer of one row. A loop that adds rows by their indices
// is a group of its own, with the addition to what lies in memory
// (`Lookups.h`).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_FUSION_H
#define TANDEM_ANALYSIS_FUSION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Block.h"
#include "tandem/Device/Device.h"

namespace tandem {

struct FusionGroup {
  enum class Kind {
    Kernel,  ///< generated code
    Library, ///< one operator that a library computes
    /// one operator: the same bytes under another type, or a run of those that
    /// lie in memory; or what enters a loop or leaves it
    View
  };
  Kind kind = Kind::Kernel;
  /// In the order of the block.
  llvm::SmallVector<mlir::Operation *> ops;
};

/// The groups of the nn operators and of `spmd.local_slice`, `keep_first` and
/// `coordinate` of `block`, in an order in which they can run: the operands of
/// a group come from groups before it, or from outside. Other operators
/// (collectives, terminators) are in no group; a block that mixes collectives
/// with computation must not rely on the order between the two.
///
/// Every such operator is in exactly one group, except *sources* (constants,
/// `iota`, `coordinate`, and cheap operators on nothing but sources): these are
/// in each group that reads them, and in one of their own only where a library
/// group, another operator or the terminator reads them. What is marked
/// `sched.again` is in each group that reads it as well, if only kernels do;
/// else it is an operator like others.
llvm::SmallVector<FusionGroup> formFusionGroups(mlir::Block &block,
                                                const FusionLimits &limits);

/// Whether all that reads the results of `op` is in libraries that read them by
/// strides: a permutation there costs nothing.
bool isReadByStrides(mlir::Operation *op);

/// What a group reads from outside (each value once, in order of first use),
/// and which of its results are read outside.
llvm::SmallVector<mlir::Value> getGroupInputs(const FusionGroup &group);
/// `groups` are all groups of the block: a source that another group holds as
/// well is not read from this one.
llvm::SmallVector<mlir::Value>
getGroupOutputs(const FusionGroup &group, llvm::ArrayRef<FusionGroup> groups);

/// Clones a kernel group into a new private function `name` (inputs -> outputs)
/// at the end of `module`, whose `spmd.mesh` must be that of the group.
/// Locations stay, discardable attributes are dropped.
mlir::func::FuncOp outlineGroup(const FusionGroup &group,
                                llvm::ArrayRef<mlir::Value> inputs,
                                llvm::ArrayRef<mlir::Value> outputs,
                                mlir::ModuleOp module, llvm::StringRef name);

} // namespace tandem

#endif // TANDEM_ANALYSIS_FUSION_H
