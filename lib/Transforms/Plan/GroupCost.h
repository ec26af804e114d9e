//===- GroupCost.h - seconds and memory of a group of operators -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `lower` makes of a group: a library call per product, and kernels of
// everything else, formed by the grouping that `lower` uses
// (Analysis/Fusion.h). A kernel reads and writes memory only where a value
// comes from or goes to something outside of it. Reshapes, and permutations
// that only libraries read, cost nothing. Kernels that `lower` makes of several
// groups count for each.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_GROUPCOST_H
#define TANDEM_LIB_TRANSFORMS_PLAN_GROUPCOST_H

#include "OperatorGroups.h"
#include "Residence.h"
#include "tandem/Cost/Cluster.h"

namespace tandem::plan {

class GroupCost {
public:
  GroupCost(const StepGraph &graph, const OperatorGroup &group,
            const cost::Cluster &cluster);

  using LayoutOf = llvm::function_ref<cost::Layout(unsigned value)>;

  /// Seconds where one device does 1 / `shares[m]` of member m, and holds value
  /// v as `layoutOf(v)`. A measured time of a product and its shape replaces
  /// the formula.
  double getSeconds(llvm::ArrayRef<int64_t> shares, LayoutOf layoutOf) const;

  /// The most bytes that one strand on one device holds of values between
  /// kernels and library calls of the group, and of workspaces of the calls.
  int64_t getWorkspace(LayoutOf layoutOf) const;

private:
  struct Work {
    /// Members whose operations it does.
    llvm::SmallVector<unsigned, 4> members;
    /// Values that it reads or writes in memory.
    llvm::SmallVector<unsigned, 6> traffic;
    std::string op, type;
    bool isLibraryCall = false;
  };
  /// A value between the kernels or calls from `first` to `last`.
  struct Inside {
    unsigned value, first, last;
  };

  bool isHostCopy() const;
  unsigned getRoot(unsigned value) const;
  bool isForClones(unsigned value) const;
  bool isReturned(unsigned value) const;
  bool isInside(unsigned value) const;
  void addInside(llvm::ArrayRef<FusionGroup> groups, const CloneMap &clones);
  void addLibraryCall(unsigned member);
  void addKernel(const FusionGroup &fused, llvm::ArrayRef<FusionGroup> all,
                 const CloneMap &clones);
  void addKernels();
  int64_t getWorkspace(const OpNode &op, LayoutOf layoutOf) const;
  int64_t getCopiedBytes(LayoutOf layoutOf) const;
  double getCopySeconds(llvm::ArrayRef<unsigned> values, bool isToHost,
                        LayoutOf layoutOf) const;
  llvm::SmallVector<int64_t> getShape(mlir::Value value,
                                      const cost::Layout &layout) const;
  double getParts(const cost::Layout &layout) const;
  llvm::SmallVector<int64_t, 4> getLoops(unsigned member, double flops,
                                         const cost::Layout &layout) const;
  void addTraffic(Work &work, unsigned value);

  const StepGraph &graph;
  const OperatorGroups &groups;
  const OperatorGroup &group;
  const cost::Cluster &cluster;
  const Device &device;
  std::vector<Work> works;
  std::vector<Inside> inside;
  /// Members that are convolutions, and their places among kernels and calls.
  std::vector<std::pair<unsigned, unsigned>> convolutions;
};

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_GROUPCOST_H
