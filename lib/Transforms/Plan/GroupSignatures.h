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
// Where readers choose between sources (`nn.either`), each of these ways is
// there once per choice, with what is not taken `absent`: at most eight times,
// and choices beyond that follow the first one. A group of optional clones has
// a first signature in which all is `absent`, without seconds.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_GROUPSIGNATURES_H
#define TANDEM_LIB_TRANSFORMS_PLAN_GROUPSIGNATURES_H

#include "BatchSplits.h"
#include "tandem/Cost/Cluster.h"
#include "tandem/Cost/SearchProblem.h"
#include "llvm/ADT/DenseSet.h"

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
  /// For each signature, for each member, which source it takes; empty where no
  /// member is a choice.
  std::vector<std::vector<uint8_t>> sources;
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

/// Of what is not taken, or not made: `absent` on all axes.
cost::Layout getAbsentLayout(const StepGraph &graph);
/// Whether it is that of an operator that is not there.
bool isLeftOut(const cost::Signature &signature);

/// Adds the choices of sources, and what is not there (AddSources.cpp).
void addSources(const StepGraph &graph, const OperatorGroup &group,
                GroupSignatures &set);

class SignatureMaker {
public:
  SignatureMaker(const StepGraph &graph, const cost::Cluster &cluster);

  /// Number of the set of the group's signatures; equal groups share one.
  /// Groups are asked for in their order.
  unsigned getSet(unsigned group);

  std::vector<GroupSignatures> sets;

private:
  std::string getKey(const OperatorGroup &group) const;
  double getSeconds(const OperatorGroup &group) const;
  void sumSeconds();
  bool mayHide(const OperatorGroup &copy) const;
  bool isSaved(unsigned value) const;
  double getSecondsAgain(unsigned value,
                         llvm::SmallDenseSet<int> &counted) const;
  double getWorth(const OperatorGroup &copy) const;
  void hideCopies(nn::PassKind pass);
  void limitSent(int64_t bytes);
  bool isHostCopy(const OperatorGroup &group) const;
  void noteSums(const OperatorGroup &group, const GroupSignatures &set);

  const StepGraph &graph;
  const OperatorGroups &groups;
  const cost::Cluster &cluster;
  BatchMarks marks;
  /// Bit a of `canReduce[value]`: some signature makes it `reduce` on axis a.
  std::vector<uint8_t> canReduce;
  llvm::StringMap<unsigned> known;
  /// Where values may wait on the host: of operators in front of one.
  std::vector<double> secondsBefore;
  /// Members of copies from and to the host that computation hides.
  llvm::DenseSet<unsigned> hidden;
  /// Those for which the host has no memory.
  llvm::DenseSet<unsigned> refused;
};

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_GROUPSIGNATURES_H
