//===- GroupSignatures.h - the joint signatures of a group ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All ways to give each member of a group a signature on each axis, such that
// values inside the group have one form and every axis, in layout order,
// divides what the axes before it have left. What is left out on purpose:
//
//  * what makes a pinned value in another form;
//  * `reduce` where no producer can make it, and in updates;
//  * over time, splits of anything but the batch, and any split of an update;
//  * of ways with equal forms outside, all but the fastest.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_GROUPSIGNATURES_H
#define TANDEM_LIB_TRANSFORMS_PLAN_GROUPSIGNATURES_H

#include "BatchSplits.h"
#include "tandem/Cost/Cluster.h"
#include "tandem/Cost/SearchProblem.h"

namespace tandem::plan {

class GroupCost;

/// Signatures of a group, for the search and for the way back.
struct GroupSignatures {
  /// A choice of a member on an axis: 0 for `full`, 1 + f to split factor f,
  /// 1 + (number of factors) + g for its linear group g.
  using Choice = uint8_t;
  using MemberChoices = std::array<Choice, cost::kMaxAxes>;

  cost::SignatureSet signatures;
  /// For each signature, for each member.
  std::vector<std::vector<MemberChoices>> members;
};

/// Of signatures with equal layouts the fastest, in the place of the first.
std::vector<unsigned> findFastest(const cost::SignatureSet &signatures);

/// The signature that `choice` stands for.
spmd::Signature getSignature(const spmd::Rule &rule,
                             GroupSignatures::Choice choice);

/// The signatures of one group (EnumerateSignatures.cpp). Bit a of
/// `canReduce[value]`: the value can come as `reduce` on axis a.
GroupSignatures enumerateSignatures(const StepGraph &graph,
                                    const OperatorGroup &group,
                                    const BatchMarks &marks,
                                    const std::vector<uint8_t> &canReduce,
                                    const GroupCost &cost);

class SignatureMaker {
public:
  SignatureMaker(const StepGraph &graph, const cost::Cluster &cluster);

  /// Number of the set of the group's signatures; equal groups share one.
  /// Groups are asked for in their order.
  unsigned getSet(unsigned group);

  std::vector<GroupSignatures> sets;

private:
  std::string getKey(const OperatorGroup &group) const;
  void noteSums(const OperatorGroup &group, const GroupSignatures &set);

  const StepGraph &graph;
  const OperatorGroups &groups;
  const cost::Cluster &cluster;
  BatchMarks marks;
  /// Bit a of `canReduce[value]`: some signature makes it `reduce` on axis a.
  std::vector<uint8_t> canReduce;
  llvm::StringMap<unsigned> known;
};

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_GROUPSIGNATURES_H
