//===- Factors.h - the relaxation as a factor graph -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For weights w of computation and of collectives, the cost of every plan is at
// least the sum over operators of w times their seconds plus, per tensor, w
// times the dearest of the changes that its users need
// (Tandem/Relaxation/Weights.cpp). That sum is a factor graph: a variable per
// group of tied operators, whose value is a signature, and a factor per tensor,
// between the layout that is produced and those that are wanted.
//
// Operators that share signatures share the maps from signature to layout, and
// tensors with equal maps share the tables of changes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_RELAXATION_FACTORS_H
#define TANDEM_LIB_SEARCH_TANDEM_RELAXATION_FACTORS_H

#include "Tandem/Problem/Held.h"
#include "Tandem/Problem/Serial.h"
#include "tandem/Cost/Changes.h"
#include <functional>
#include <map>

namespace tandem::search {

/// Prices of the relaxation, per second (Tandem/Relaxation/Weights.cpp).
struct Weights {
  /// Computation: of operators that do not depend on the strand, of the others
  /// over all strands, and of sums over time.
  double once = 1, split = 1, sums = 1;
  /// Of operators that do not depend on the strand, beside which nothing waits.
  double alone = 1;
  /// At most: of operators that may run ahead.
  double again = 1;
  /// Collectives: made once, made by every strand, of changes that join the
  /// strands, and those that may wait.
  double collectiveOnce = 1, collectiveSplit = 1, joined = 1, waiting = 1;
  /// Collectives of claims and of updates, which lie in serial slots; negative:
  /// priced as others.
  double serial = -1;
  /// Seconds per byte that is held all the time, or between the passes.
  double memory = 0;
  /// Whether no plan may cost less: else the next one may guide a search.
  bool isBound = false;
  /// Seconds for a change that joins the strands.
  double join = 0;

  bool operator==(const Weights &) const = default;
};

/// Weights whose relaxed cost bounds every plan: lambda is the weight of the
/// arm of a slot's maximum in which computation is the longer side, in the
/// first slots of stages and in the second ones, where it is no smaller; the
/// others lie between.
Weights getBoundWeights(const cost::SearchProblem &problem, double first,
                        double second);

/// The distinct layouts of one operand or result over an operator's signatures;
/// for a claimed one (Tandem/Problem/Serial.h) twice where some signatures
/// compute the whole batch at once and others do not.
struct LayoutMap {
  std::vector<cost::Layout> layouts;
  /// Of claimed operands: whether the signatures compute the batch at once.
  std::vector<bool> isAtOnce;
  std::vector<uint16_t> ofSignature;
};

/// Distinct distances from each produced layout, rising: those of layout `p`
/// are `values[begin[p]]` to `values[begin[p + 1] - 1]`.
struct LevelList {
  std::vector<double> values;
  std::vector<unsigned> begin{0};
};

/// What factors of equal tensors share. Slot 0 is the producer, the others are
/// the users in their order.
struct FactorKind {
  std::vector<unsigned> maps;
  /// Weighted seconds from each produced to each wanted layout of a slot
  /// (`distances[slot - 1][produced * wanted.size() + wanted]`).
  std::vector<std::vector<double>> distances;
  /// What a change is made of: seconds of collectives made once and by all
  /// strands together, and of local work, which joins the strands. Negative
  /// where there is no change.
  struct Parts {
    double once = -1, split = 0, local = 0;
    bool joins = false;
  };
  /// All layouts that are wanted.
  std::vector<cost::Layout> wanted;
  /// Indices into `FactorGraph::changes`, to each of these: from those that are
  /// wanted, which may be stations of a change, from each produced layout, and
  /// from its sum over time if there is one.
  std::vector<unsigned> between, direct, summed;
  /// Whether the first user is claimed, and whether all users are updates whose
  /// stages are serial.
  bool isClaimed = false, isInUpdates = false;
  /// Seconds of the sum, per produced layout; negative if there is none.
  std::vector<double> sums;
  /// Per slot and layout its index in `wanted`.
  std::vector<std::vector<unsigned>> wantedOf;
  LevelList levels;
  /// Index into the levels of the produced layout, like `distances`.
  std::vector<std::vector<uint16_t>> levelOf;
  /// Per slot the pass of its user.
  std::vector<cost::Pass> passes;

  //--- Where bytes have a price (Tandem/Relaxation/FactorLevels.cpp).
  /// Users before the place where memory counts of a tensor that others use
  /// behind it, so that copies are held for a price or made again; 0 of other
  /// tensors.
  unsigned numEarly = 0;
  /// Bytes of a device, per layout in `wanted`.
  std::vector<double> wantedBytes;
  /// Bytes that copies of early users may be held instead of, per produced
  /// layout.
  std::vector<double> producedBytes;
  /// Per produced layout: distances to all that are wanted, as copies that
  /// hide where they can.
  std::vector<double> rows;
  /// Whether `levels` are those of the first `numEarly` users, `lateLevels`
  /// those of the others, and `totals[produced][early * late levels + late]`
  /// what two levels cost together.
  bool isPriced = false;
  LevelList lateLevels;
  std::vector<std::vector<double>> totals;

  /// The levels that a slot of a user has.
  const LevelList &getLevels(unsigned slot) const {
    return isPriced && slot > numEarly ? lateLevels : levels;
  }
};

struct Factor {
  unsigned kind, tensor;
  /// Per slot: the variable, and where its messages begin.
  std::vector<unsigned> variables, messages;
};

struct Variable {
  /// Its operators.
  std::vector<unsigned> operators;
  unsigned size;
  /// Index into `unaries`.
  unsigned unary;
  /// Factors that it takes part in, and the slots.
  std::vector<std::pair<unsigned, unsigned>> slots;
};

/// The least sum of two numbers at the same place.
double getLeastSum(const double *a, const double *b, size_t size);

class FactorGraph {
public:
  FactorGraph(const Facts &facts, cost::ChangeTable &table);

  /// Takes apart the changes that prices are put on, which takes longest of all
  /// before the first plan, until `ends` says so; goes on where it was when
  /// asked again. Whether it is done.
  bool prepare(const std::function<bool()> &ends);
  /// Sets the prices: fills in unaries and distances.
  void setWeights(const Weights &weights);

  const Facts &facts;
  /// What memory counts.
  const HeldTensors held;
  /// One for each of `Facts::groups`.
  std::vector<Variable> variables;
  std::vector<Factor> factors;
  std::vector<LayoutMap> maps;
  std::vector<FactorKind> kinds;
  std::vector<std::vector<double>> unaries;
  unsigned numMessages = 0;
  /// Changes with the weights.
  unsigned numPriced = 0;
  /// Stands for what is impossible.
  double forbidden = 0;
  Weights weights;

  const LayoutMap &getMap(const Factor &factor, unsigned slot) const {
    return maps[kinds[factor.kind].maps[slot]];
  }
  /// About how many numbers a sweep, there and back, looks at for a variable.
  uint64_t getSweepWork(unsigned variable) const;
  /// Weighted seconds of the changes that one tensor needs, in all passes;
  /// copies are kept. `layouts` holds a slot's layout index.
  double getChangeCost(const Factor &factor, const uint16_t *layouts) const;

  /// Bytes of the tensors that are held, in the smallest layouts that each can
  /// have.
  int64_t getLeastBytes() const;
  /// Bytes of the tensors that are held, with a signature per operator.
  int64_t getHeldBytes(const std::vector<unsigned> &signatures) const;

private:
  enum class Price { Usual, Waiting, Serial };
  using MapKey = std::array<unsigned, 4>;
  unsigned getMap(unsigned op, bool isResult, unsigned index,
                  bool isClaimed = false);
  void addVariables();
  void addFactors();
  void setForbidden();
  void setUnaries();
  void setDistances(FactorKind &kind, bool mayWait);
  void addRow(FactorKind &kind, size_t produced, bool mayWait, Price price,
              const std::vector<double> &row) const;
  void setLevels(FactorKind &kind);
  void addLevels(FactorKind &kind, size_t produced, unsigned first,
                 unsigned last, LevelList &list) const;
  void setTotals(FactorKind &kind, size_t produced);
  double getKeptPrice(const FactorKind &kind, size_t layout) const {
    return weights.memory * kind.wantedBytes[layout];
  }
  void setWanted(FactorKind &kind);
  void setParts(FactorKind &kind, unsigned tensor, unsigned shape);
  unsigned getChanges(const FactorKind &kind, unsigned tensor, unsigned wanted,
                      const cost::Layout &from);
  FactorKind::Parts getParts(unsigned tensor, const cost::Layout &from,
                             const cost::Layout &to) const;
  Price getPrice(const FactorKind &kind, bool mayWait, unsigned slot,
                 size_t layout) const;
  std::vector<double> getSteps(const FactorKind &kind, Price price) const;
  double getDistance(const FactorKind::Parts &parts, Price price) const;
  void addStations(const FactorKind &kind, const std::vector<double> &steps,
                   const std::vector<bool> &isFinal,
                   std::vector<double> &best) const;
  std::vector<double> getRow(const FactorKind &kind, size_t produced,
                             Price price,
                             const std::vector<double> &steps) const;
  int64_t getHeldBytes(const std::vector<unsigned> &signatures,
                       unsigned tensor) const;
  bool needsProduced(const std::vector<unsigned> &signatures, unsigned tensor,
                     const std::vector<cost::Layout> &copies) const;
  /// Whether the producer's layout is there whatever the users want.
  bool isHeldByItself(unsigned tensor) const {
    return held.isHeld(tensor) && !held.isReplaceable(tensor);
  }
  double getOperatorCost(unsigned op, const cost::Signature &signature) const;

  cost::ChangeTable &table;
  SerialClaims claims;
  std::map<MapKey, unsigned> mapOf;
  /// A tensor of each kind, and whether its copies for updates may wait.
  std::vector<unsigned> kindTensors, kindShapes;
  /// Changes of a tensor to what is wanted of it, by shape and wanted layouts,
  /// and by the layout that is changed.
  std::vector<std::vector<FactorKind::Parts>> changes;
  std::map<std::pair<unsigned, std::vector<cost::Layout>>, unsigned> wantedOf;
  std::map<std::pair<unsigned, cost::Layout>, unsigned> changesOf;
  std::vector<bool> kindWaits;
  /// How many kinds' changes are taken apart.
  unsigned numPrepared = 0;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_RELAXATION_FACTORS_H
