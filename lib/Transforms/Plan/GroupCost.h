//===- GroupCost.h - the seconds of a group of operators --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `lower` makes of a group: a library call per product, and one kernel of
// everything else, which reads and writes memory only where a value comes from
// or goes to something outside of the kernel. Reshapes, and permutations that
// only products read, cost nothing.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_GROUPCOST_H
#define TANDEM_LIB_TRANSFORMS_PLAN_GROUPCOST_H

#include "OperatorGroups.h"
#include "tandem/Cost/Cluster.h"

namespace tandem::plan {

/// Whether products alone read the results of `op`: they read by strides.
bool isReadByProductsOnly(mlir::Operation *op);

class GroupCost {
public:
  GroupCost(const StepGraph &graph, const OperatorGroups &groups,
            const OperatorGroup &group, const cost::Cluster &cluster);

  /// Seconds where one device does 1 / `shares[m]` of member m, and holds
  /// 1 / `parts(v)` of value v.
  double getSeconds(llvm::ArrayRef<int64_t> shares,
                    llvm::function_ref<double(unsigned)> parts) const;

private:
  struct Work {
    /// Members whose operations it does.
    llvm::SmallVector<unsigned, 4> members;
    /// Values that it reads or writes in memory.
    llvm::SmallVector<unsigned, 6> traffic;
    std::string op, type;
    /// Loops of a product: batch, m, n, k.
    llvm::SmallVector<int64_t, 4> loops;
  };

  bool isFree(unsigned member) const;
  unsigned getRoot(unsigned value) const;
  void addProduct(unsigned member);
  void addKernel();
  void addTraffic(Work &work, unsigned value);

  const StepGraph &graph;
  const OperatorGroups &groups;
  const OperatorGroup &group;
  const cost::Cluster &cluster;
  std::vector<Work> works;
};

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_GROUPCOST_H
