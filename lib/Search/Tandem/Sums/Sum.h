//===- Sum.h - additive problems --------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Without strands nothing overlaps but what waits (Cost.h, *Waiting*), so that
// the cost of a plan with one operator per stage and pieces that cost nothing
// is
//
//     T = sum p + sum c + beta W + (1 - beta) max(0, max over t of
//             W(t) - P(t) (1 - gamma) / (1 - beta)),
//
// W(t) being the waiting seconds of gradients made by operator t or later, and
// P(t) the computation behind operator t and before the updates: what waits is
// left over if, from some operator on, more arrives than there is room for.
// That is the largest of sums T_t, one per operator and one for an empty queue,
// and each of these is a factor graph: a variable per group of tied operators,
// whose value is a signature, and a factor per tensor, whose table has the
// seconds of the copies that its users make of it, one after the other in the
// order of the problem, each from the cheapest layout that was there before.
//
// Where a piece of what waits costs alpha seconds, slots with P seconds of
// computation together take at most max(0, P (1 - gamma) / (1 - beta) - alpha).
// A straight line lies above that for all P that the signatures allow: T_t has
// less room then, and is a sum all the same. Either slots take a piece or they
// do not: once that is decided as well, the line is the room itself.
//
// What is made again may run ahead (Cost.h, *Ahead*), and is then worth gamma,
// as much as its room leaves of it elsewhere: it counts that, and no room.
//
// T bounds the plans of all divisions into stages: larger stages, more pieces,
// copies that are dropped and limits of memory cost more.
//
// Given stages. T is then the cost itself, with t, W and the rooms counted in
// stages, each of which has a room of its own; a copy is made from what was
// there before its user's stage.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_SUMS_SUM_H
#define TANDEM_LIB_SEARCH_TANDEM_SUMS_SUM_H

#include "Tandem/Problem/Facts.h"
#include "Tandem/Sums/Chain.h"
#include "tandem/Cost/Changes.h"
#include "tandem/Cost/Plan.h"
#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace tandem::search {

/// What a second is worth: of an operator's computation, and of the waiting
/// copies of what it makes. Those of one T_t, or a mean of several.
struct SumPrices {
  std::vector<double> computation, waiting; // per operator
};

/// Weights of some T_t, t rising.
struct SumMean {
  std::vector<unsigned> thresholds;
  std::vector<double> weights;
};

/// One signature per variable, and what it makes of the stages.
struct SumChoice {
  std::vector<unsigned> signatures;
  /// With an empty queue, and T; it is T_t for t = `worst`.
  double base = 0, seconds = 0;
  unsigned worst = 0;
  /// Per stage what waits from there on, and the computation of its room.
  std::vector<double> waiting, computed;
};

/// Whether slots take a piece of what waits.
enum class Takes : uint8_t { Open, No, Yes };

/// Up to (1 - gamma) share P - offset seconds are hidden beside P seconds of
/// computation; no less than there is room for.
struct SumRoom {
  double share = 1, offset = 0;
  /// Between the least and the most P that signatures allow.
  double least = 0, most = 0;
  Takes takes = Takes::Open;
};

/// A group of tied operators.
struct SumVariable {
  std::vector<unsigned> operators;
  /// Indices of the signatures that are left to choose from.
  std::vector<unsigned> values;
  /// Factors that it takes part in, and the slots.
  std::vector<std::pair<unsigned, unsigned>> slots;
};

/// The layouts in which a variable makes or uses a tensor, one for each time
/// that it does so.
using SumRoles = std::vector<cost::Layout>;

/// Seconds of a tensor's copies.
struct SumTable {
  std::vector<unsigned> sizes; // per slot
  /// Whether some copy may wait.
  bool waits = false;
  /// Of all combinations, the last slot's layouts lying side by side: those
  /// that users wait for, and those that may wait (empty if nothing may).
  std::vector<double> made, waiting;
  /// In place of these where there are too many combinations.
  std::optional<SumChain> chain;

  /// Seconds that are made, and that wait.
  std::pair<double, double>
  getSeconds(const std::vector<unsigned> &roles) const;
  /// The table of some of the roles, per slot.
  SumTable restrict(const std::vector<std::vector<unsigned>> &kept) const;
  /// Numbers that are looked at to go through the table once.
  uint64_t getSize() const {
    return chain ? chain->getNumSteps() : made.size();
  }
};

/// What one variable has to do with a tensor.
struct SumSlot {
  unsigned variable;
  /// By value of the variable the index of its roles.
  std::vector<unsigned> roleOf;
  /// The roles' indices among all roles of the model of all values.
  std::vector<unsigned> origins;
};

/// A tensor with its producer and users.
struct SumFactor {
  unsigned tensor, table;
  std::vector<SumSlot> slots;
};

class SumModel {
public:
  /// Whether costs add up: one queue, and no signature that depends on a
  /// strand.
  static bool isSum(const Facts &facts);

  /// Gives up where the tables would have more than `maxEntries` entries.
  /// `stageEnds` are those of a plan; if empty, T bounds all divisions. What
  /// costs more than `ceiling` is as good as impossible. `proceeds` is asked
  /// while tables are made; false ends it.
  SumModel(const Facts &facts, cost::ChangeTable &table, uint64_t maxEntries,
           std::vector<unsigned> stageEnds = {},
           double ceiling = std::numeric_limits<double>::infinity(),
           std::function<bool()> proceeds = {});

  /// What is left of a model with these values, and with what is decided of
  /// rooms (if anything), a part of its own.
  SumModel(const SumModel &other,
           const std::vector<std::vector<unsigned>> &values,
           const std::vector<Takes> &takes = {});

  /// False if the tables would be too large, or their making had to end;
  /// nothing else may be called then but `getNumSteps`.
  bool isComplete() const { return complete; }
  /// In which tables were made.
  uint64_t getNumSteps() const { return fillWork.getNumSteps(); }

  const Facts &facts;
  std::vector<SumVariable> variables;
  std::vector<SumFactor> factors;
  std::vector<SumTable> tables;
  /// Roles of all slots in the model of all values.
  unsigned numOrigins = 0;
  /// Stands for what is impossible.
  double forbidden = 0;
  /// The stages; if none are given, each operator is one. Of each stage's own
  /// slot, if they are given; else of all behind it.
  unsigned numStages = 0;
  std::vector<SumRoom> rooms;

  /// The prices of T_t; of an empty queue, if `t` is the number of stages.
  SumPrices getPrices(unsigned t) const;
  SumPrices getMean(const SumMean &mean) const;
  /// What the mean adds to the sums under its prices, whatever the choice.
  double getOffset(const SumMean &mean) const;
  double getUnary(const SumPrices &prices, unsigned variable,
                  unsigned value) const;
  /// What all combinations of a factor without a chain cost.
  std::vector<double> getEntries(const SumPrices &prices,
                                 unsigned factor) const;
  double getFactorCost(const SumPrices &prices, unsigned factor,
                       const std::vector<unsigned> &choice) const;
  /// What a waiting second of a factor's tensor is worth.
  double getWaitingPrice(const SumPrices &prices, unsigned factor) const {
    return prices.waiting[facts.tensors[factors[factor].tensor].producer];
  }

  /// `choice` holds indices into `SumVariable::values`.
  double getCost(const SumPrices &prices,
                 const std::vector<unsigned> &choice) const;
  SumChoice evaluate(const std::vector<unsigned> &choice) const;
  /// T_t by stage and, last, of an empty queue, for a choice of any model;
  /// `worst` is the t for which it is largest.
  std::vector<double> getSums(const SumChoice &made, unsigned &worst) const;
  /// Whether T_t has the room.
  bool looksAt(unsigned t, unsigned room) const {
    return stageEnds.empty() ? room == t : room > t;
  }
  /// By how much the room's line is above what a choice leaves.
  double getExcess(const SumChoice &made, unsigned room) const;
  /// Seconds of a factor's copies that are made, and that wait.
  std::pair<double, double>
  getFactorSeconds(unsigned factor, const std::vector<unsigned> &choice) const;
  /// Indices into `values` of the signatures; nothing if some is not left.
  std::optional<std::vector<unsigned>>
  getChoice(const std::vector<unsigned> &signatures) const;
  /// The plan whose cost is meant, with the stages that are given or one
  /// operator in each.
  cost::Plan getPlan(const std::vector<unsigned> &choice) const;

private:
  /// One layout among those of a factor, in the order of the problem: the
  /// producer's first.
  struct Role {
    unsigned slot, index;
    bool mayWait;
    /// What those before it left is there.
    bool beginsStage;
  };
  /// Those of each slot.
  using AllRoles = std::vector<std::vector<SumRoles>>;

  void restrictFactor(const SumModel &other, unsigned factor,
                      std::map<std::vector<unsigned>, unsigned> &known);
  void addStages();
  void addVariables();
  void addRooms();
  void setLine(SumRoom &room) const;
  bool isAgain(unsigned op) const {
    return facts.problem.operators[op].isAgain;
  }
  /// Whether things may wait beside the operator.
  bool givesRoom(unsigned op) const {
    return facts.problem.operators[op].pass != cost::Pass::Update &&
           !isAgain(op);
  }
  double getRoom(double computed) const;
  double getLine(const SumRoom &room, double computed) const {
    return (1 - gamma) * room.share * computed - room.offset;
  }
  bool addFactor(unsigned tensor);
  std::vector<Role> addSlots(SumFactor &factor, AllRoles &roles);
  bool fillTable(unsigned tensor, const AllRoles &roles,
                 const std::vector<Role> &order);
  void fillDistances(unsigned tensor, const AllRoles &roles,
                     std::map<cost::Layout, unsigned> &numberOf);
  bool fillChain(SumTable &table, const AllRoles &roles,
                 const std::vector<Role> &order, uint64_t maxSteps,
                 std::map<cost::Layout, unsigned> &numberOf);
  void addEntry(SumTable &table, const std::vector<unsigned> &layouts,
                const std::vector<Role> &roles,
                std::vector<unsigned> &copies) const;
  void addCopies(cost::Plan &plan, unsigned factor) const;
  bool mayWait(unsigned tensor, const cost::TensorUse &use) const;

  cost::ChangeTable &changes;
  uint64_t maxEntries, numEntries = 0;
  FillWork fillWork;
  bool complete = true;
  std::map<std::vector<int64_t>, unsigned> tableOf;
  /// Of the table being filled: seconds between layouts.
  std::vector<double> distances;
  size_t numLayouts = 0;
  double beta, gamma;
  /// As they are given; per operator.
  std::vector<unsigned> stageEnds, stageOf;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_SUMS_SUM_H
