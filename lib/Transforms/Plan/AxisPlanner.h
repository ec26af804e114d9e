//===- AxisPlanner.h - signatures along one axis ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Chooses one signature per operator for one axis, given the forms in which
// arguments are stored: a greedy pass in the order of the step, then sweeps in
// which each operator in turn takes the signature that is cheapest given its
// neighbours, until nothing improves. Deterministic.
//
// Cost is counted in bytes that a device sends: the changes of form, each once
// per (value, form, pass), plus, far below, the work that is done on every
// point of the axis though it could be split.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_AXISPLANNER_H
#define TANDEM_LIB_TRANSFORMS_PLAN_AXISPLANNER_H

#include "StepGraph.h"

namespace tandem::plan {

/// What a preset asks of one axis.
struct AxisPolicy {
  /// Every point trains on its own part of the batch: gradients are summed
  /// over the axis whatever the operators do, so that this costs next to
  /// nothing against other communication; parameters are full where used.
  bool isBatchAxis = false;
  /// Gradients are due as the shards of sharded parameters too (ZeRO); the
  /// gradient of an expert is not.
  bool scattersGradients = false;
  /// Per argument: used as it is stored in the forward and backward passes
  /// (experts, column and row split weights). Views keep the form as well.
  llvm::SmallVector<bool> keepStored;
  /// Per argument: no constraint on its uses (pinned by the user).
  llvm::SmallVector<bool> isFree;
  /// Per operator, the signature that it has already; empty where none has.
  std::vector<std::optional<spmd::Signature>> fixed;
};

class AxisPlanner {
public:
  AxisPlanner(StepGraph &graph, unsigned axis, const AxisPolicy &policy);

  /// Writes the signatures of the axis into the graph's operators.
  void run();

private:
  using Form = spmd::AxisForm;

  /// The cost of what cannot be.
  static constexpr double kImpossible = 1e30;

  /// Who wants a form: a pass, or an update (or result) for which the sum of a
  /// gradient is due whatever the plan. `Behind` is the forward pass where
  /// results are all that it is for.
  enum class Wanter : uint8_t {
    Forward,
    Behind,
    Backward,
    DueEarly,
    Update,
    Due
  };

  /// How often a value is wanted in a form.
  struct Demand {
    Form form;
    Wanter wanter;
    /// How often the change of form happens: once, or per strand.
    int64_t copies = 1;
    unsigned count = 0;

    bool isSame(const Demand &other) const {
      return form == other.form && wanter == other.wanter &&
             copies == other.copies;
    }
  };

  /// Operators, each with one of its candidates.
  using Choices = llvm::SmallVector<std::pair<unsigned, unsigned>, 4>;

  void findCandidates();
  void findGradients();
  void findDueUpdates();
  void findBehind();
  void findStoredForms();
  bool isDueResult(unsigned result) const;
  bool isGradientSum(unsigned op) const;
  Wanter getWanter(unsigned op) const;
  Wanter getResultWanter(unsigned result) const;
  int64_t countCopies(unsigned op, unsigned operand) const;
  Demand getDemand(unsigned op, unsigned operand, Form form) const;
  void addDemandsOfResults();
  void chooseGreedily();
  bool sweep(bool backwards);
  bool improve(unsigned op, bool raises);
  uint64_t getLastChange(unsigned op) const;
  void choose(const Choices &choices);
  unsigned getCurrent(unsigned op) const;
  void addViews(unsigned op, const spmd::Signature &signature,
                Choices &choices) const;
  double tryChoices(const Choices &choices, double &fewerResults);

  bool isAllowed(const OpNode &op, const spmd::Signature &signature) const;
  bool isAllowedOperand(const OpNode &op, unsigned operand, Form form) const;
  bool passesSum(const OpNode &op, unsigned operand) const;

  double getReformCost(unsigned value, Form from, const Demand &demand) const;
  double getTimeCost(double bytes, Form from, Form to, Wanter wanter) const;
  double getSpaceCost(double bytes, Form from, Form to, Wanter wanter) const;
  double getValueCost(unsigned value) const;
  double getRedundancy(const OpNode &op,
                       const spmd::Signature &signature) const;
  double getCost(const Choices &choices) const;
  double getResultCost(unsigned op) const;
  double getGreedyCost(unsigned op, const spmd::Signature &signature) const;

  void addDemand(unsigned value, const Demand &demand, int change);
  bool hasDemand(unsigned value, const Demand &demand) const;
  /// Whether what is wanted behind all strands is there as they want it, too.
  bool isMetInForward(unsigned value, Demand demand) const;
  void changeDemands(unsigned op, int change);
  void setSignature(unsigned op, unsigned candidate, bool isFirst = false);

  StepGraph &graph;
  unsigned axis;
  const AxisPolicy &policy;
  int64_t size;
  bool isTime;
  std::vector<llvm::SmallVector<spmd::Signature>> candidates;
  std::vector<llvm::SmallVector<Demand, 2>> demands;
  /// The form of each value, as its producer makes it.
  std::vector<Form> forms;
  /// Where a value ends, through linear operators, if that is in updates and
  /// results only: a gradient or a loss.
  std::vector<std::optional<Wanter>> gradients;
  /// When an operator's signature last changed around a value, and when each
  /// operator, by `raises`, was last found to have the best one: it still has
  /// if nothing that it looks at has changed since.
  std::vector<uint64_t> changedAt;
  std::array<std::vector<uint64_t>, 2> settledAt;
  uint64_t now = 0;
  /// Whether an operator updates what is stored as its summed gradient comes.
  std::vector<bool> isDue;
  /// Over time: whether results of the step are all that an operator of the
  /// forward pass is for.
  std::vector<bool> isBehind;
  /// The form in which the update stores what elementwise operators make of a
  /// value; full if that is not known.
  std::vector<Form> storedForms;
  /// Whether an update makes a sum of what an operator makes.
  std::vector<bool> feedsSum;
};

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_AXISPLANNER_H
