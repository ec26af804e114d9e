//===- Descent.cpp - signatures by coordinate descent ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DescentPrices.h"
#include <algorithm>
#include <limits>
#include <numeric>

using namespace tandem::cost;
using namespace tandem::search;

/// Improvements below this share of the cost are rounding.
static constexpr double kEpsilon = 1e-13;
/// Costs that differ by less bytes are equal.
static constexpr double kEqualCost = 1e-6;
static constexpr int kMaxSweeps = 50;

namespace {
/// How often a tensor is wanted in a form.
struct Demand {
  Form form;
  Wanter wanter;
  unsigned count = 0;
};

class AxisDescent {
public:
  AxisDescent(const SearchProblem &problem, const AxisUse &use,
              const std::vector<std::vector<unsigned>> &left,
              const std::vector<double> &bytes);
  void run();

  /// The forms on the axis of operands, then of results.
  using Forms = std::vector<Form>;
  Forms getForms(const Signature &signature) const;
  const Forms &getChosen(unsigned op) const {
    return candidates[op][chosen[op]];
  }

private:
  const Operator &getOp(unsigned op) const { return problem.operators[op]; }
  bool passesSum(unsigned op, unsigned operand) const;
  void findWanters();

  double getCost(unsigned tensor, Form from, const Demand &demand) const;
  double getCost(const std::vector<unsigned> &tensors) const;
  double getRedundancy(unsigned op) const;
  double getGreedyCost(unsigned op, unsigned candidate) const;

  bool has(unsigned tensor, Form form, Wanter wanter) const;
  bool isMet(unsigned tensor, const Demand &demand) const;
  void changeDemands(unsigned op, int change);
  void choose(unsigned op, unsigned candidate);
  void chooseGreedily();
  bool improve(unsigned op, bool raises);
  bool sweep(bool backwards);

  const SearchProblem &problem;
  const AxisUse &use;
  const std::vector<double> &bytes;
  DescentPrices prices;
  /// Per operator.
  std::vector<std::vector<Forms>> candidates;
  std::vector<unsigned> chosen;
  std::vector<Wanter> wanters;
  /// The form of each tensor, as its producer makes it, and as it is wanted.
  std::vector<Form> made;
  std::vector<std::vector<Demand>> demands;
};
} // namespace

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

AxisDescent::Forms AxisDescent::getForms(const Signature &signature) const {
  Forms forms;
  for (const auto *layouts : {&signature.operands, &signature.results})
    for (const Layout &layout : *layouts)
      forms.push_back(layout[use.axis]);
  return forms;
}

AxisDescent::AxisDescent(const SearchProblem &problem, const AxisUse &use,
                         const std::vector<std::vector<unsigned>> &left,
                         const std::vector<double> &bytes)
    : problem(problem), use(use), bytes(bytes),
      prices(problem.axes[use.axis], use.isBatchAxis),
      candidates(problem.operators.size()), chosen(problem.operators.size()),
      wanters(problem.operators.size()), made(problem.tensors.size()),
      demands(problem.tensors.size()) {
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    for (unsigned index : left[op]) {
      Forms forms = getForms(problem.getSignatures(op)[index]);
      if (std::find(candidates[op].begin(), candidates[op].end(), forms) ==
          candidates[op].end())
        candidates[op].push_back(std::move(forms));
    }
  findWanters();
}

/// Whether an operator hands on a sum that the operand brings.
bool AxisDescent::passesSum(unsigned op, unsigned operand) const {
  size_t numOperands = getOp(op).operands.size();
  return std::any_of(
      candidates[op].begin(), candidates[op].end(), [&](const Forms &forms) {
        return forms[operand] == kReduce && forms.size() > numOperands &&
               forms[numOperands] == kReduce;
      });
}

/// A maximum that is returned and that nothing else reads joins no strands, as
/// the rows beside it that are returned do not. What is carried out of a loop
/// is of one iteration, and the next one waits for it.
void AxisDescent::findWanters() {
  std::vector<bool> isRead(problem.tensors.size());
  for (unsigned op = problem.operators.size(); op-- > 0;) {
    const Operator &node = getOp(op);
    auto isCarried = [&](unsigned tensor) {
      return problem.tensors[tensor].times >
             problem.tensors[node.results.front()].times;
    };
    wanters[op] = node.pass == Pass::Forward    ? Wanter::Forward
                  : node.pass == Pass::Backward ? Wanter::Backward
                                                : Wanter::Update;
    if (problem.axes[use.axis].isTime && wanters[op] == Wanter::Forward &&
        !node.isArgument() &&
        std::none_of(node.results.begin(), node.results.end(),
                     [&](unsigned tensor) { return isRead[tensor]; }) &&
        std::none_of(node.operands.begin(), node.operands.end(), isCarried))
      wanters[op] = Wanter::Returned;
    if (node.kind != Operator::Kind::Output && wanters[op] != Wanter::Returned)
      for (unsigned tensor : node.operands)
        isRead[tensor] = true;
  }
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

double AxisDescent::getCost(unsigned tensor, Form from,
                            const Demand &demand) const {
  return prices.getChange(bytes[tensor], from, demand.form, demand.wanter);
}

double AxisDescent::getCost(const std::vector<unsigned> &tensors) const {
  double cost = 0;
  for (unsigned tensor : tensors)
    for (const Demand &demand : demands[tensor])
      if (!isMet(tensor, demand))
        cost += getCost(tensor, made[tensor], demand);
  return cost;
}

double AxisDescent::getRedundancy(unsigned op) const {
  if (std::any_of(getChosen(op).begin(), getChosen(op).end(),
                  [](Form form) { return form >= 0; }))
    return 0;
  double traffic = 0;
  for (const auto *tensors : {&getOp(op).operands, &getOp(op).results})
    for (unsigned tensor : *tensors)
      traffic += bytes[tensor];
  return prices.getRedundant(traffic);
}

/// What a candidate costs with the operands as they come, and the finishing of
/// sums, which the users of a result will want.
double AxisDescent::getGreedyCost(unsigned op, unsigned candidate) const {
  const Operator &node = getOp(op);
  const Forms &forms = candidates[op][candidate];
  double cost = 0;
  for (unsigned i = 0; i < node.operands.size(); ++i) {
    unsigned tensor = node.operands[i];
    Demand demand{forms[i], wanters[op]};
    if (demand.form == made[tensor] ||
        has(tensor, demand.form, demand.wanter) || isMet(tensor, demand))
      continue;
    // Half an all-reduce now is followed by the other half: operators between
    // the two would work on slices, for which nothing speaks yet.
    if (made[tensor] == kReduce)
      demand.form = kFull;
    cost += getCost(tensor, made[tensor], demand);
    // Nor cut what is whole. Sums wait where they may meet other sums.
    if (demand.form != kReduce && (made[tensor] == kFull || passesSum(op, i)))
      cost += 1;
  }
  // Those of the backward pass are gradients, mostly.
  Wanter wanter =
      wanters[op] == Wanter::Forward ? Wanter::Forward : Wanter::Update;
  for (unsigned i = 0; i < node.results.size(); ++i)
    if (forms[node.operands.size() + i] == kReduce)
      cost += getCost(node.results[i], kReduce, {kFull, wanter});
  return cost;
}

//===----------------------------------------------------------------------===//
// Demands
//===----------------------------------------------------------------------===//

bool AxisDescent::has(unsigned tensor, Form form, Wanter wanter) const {
  return std::any_of(demands[tensor].begin(), demands[tensor].end(),
                     [&](const Demand &demand) {
                       return demand.form == form && demand.wanter == wanter;
                     });
}

/// Whether what is wanted behind all strands is there as they want it, too.
bool AxisDescent::isMet(unsigned tensor, const Demand &demand) const {
  return demand.wanter == Wanter::Returned &&
         has(tensor, demand.form, Wanter::Forward);
}

void AxisDescent::changeDemands(unsigned op, int change) {
  for (unsigned i = 0; i < getOp(op).operands.size(); ++i) {
    auto &list = demands[getOp(op).operands[i]];
    Demand demand{getChosen(op)[i], wanters[op]};
    auto it = std::find_if(list.begin(), list.end(), [&](const Demand &other) {
      return other.form == demand.form && other.wanter == demand.wanter;
    });
    if (it == list.end())
      it = list.insert(list.end(), demand);
    it->count += change;
    if (it->count == 0)
      list.erase(it);
  }
}

//===----------------------------------------------------------------------===//
// Descent
//===----------------------------------------------------------------------===//

void AxisDescent::choose(unsigned op, unsigned candidate) {
  changeDemands(op, -1);
  chosen[op] = candidate;
  changeDemands(op, 1);
  const Operator &node = getOp(op);
  for (unsigned i = 0; i < node.results.size(); ++i)
    made[node.results[i]] = getChosen(op)[node.operands.size() + i];
}

void AxisDescent::chooseGreedily() {
  // Results have no choice: what they want is known to all.
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    if (getOp(op).kind == Operator::Kind::Output)
      changeDemands(op, 1);
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    if (getOp(op).kind == Operator::Kind::Output)
      continue;
    double best = std::numeric_limits<double>::infinity();
    for (unsigned i = 0; i < candidates[op].size(); ++i)
      if (double cost = getGreedyCost(op, i); cost < best) {
        chosen[op] = i;
        best = cost;
      }
    changeDemands(op, 1);
    choose(op, chosen[op]);
  }
}

/// Takes the best candidate. With `raises`, also one of equal cost if a change
/// of form thereby moves from the results to the operands: it may meet an equal
/// one there.
bool AxisDescent::improve(unsigned op, bool raises) {
  const Operator &node = getOp(op);
  std::vector<unsigned> tensors = node.operands;
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  tensors.insert(tensors.end(), node.results.begin(), node.results.end());
  auto getAll = [&] { return getRedundancy(op) + getCost(tensors); };
  unsigned current = chosen[op], best = current;
  double before = getAll(), ofResults = getCost(node.results), bestGain = 0;
  for (unsigned i = 0; i < candidates[op].size(); ++i) {
    if (i == current)
      continue;
    choose(op, i);
    double gain = before - getAll();
    if (gain > 0 && gain <= kEpsilon * before)
      gain = 0;
    bool isHigher = raises && best == current && gain >= -kEqualCost &&
                    ofResults - getCost(node.results) > 1;
    if (gain <= bestGain && !isHigher)
      continue;
    best = i;
    bestGain = std::max(gain, 0.0);
  }
  choose(op, best);
  return best != current;
}

bool AxisDescent::sweep(bool backwards) {
  bool changed = false;
  unsigned count = problem.operators.size();
  for (unsigned i = 0; i < count; ++i) {
    unsigned op = backwards ? count - 1 - i : i;
    changed |= candidates[op].size() > 1 && improve(op, /*raises=*/backwards);
  }
  return changed;
}

void AxisDescent::run() {
  chooseGreedily();
  for (int i = 0; i < kMaxSweeps; ++i) {
    bool backwards = sweep(true), onwards = sweep(false);
    if (!backwards && !onwards)
      break;
  }
}

//===----------------------------------------------------------------------===//
// All axes
//===----------------------------------------------------------------------===//

Descent::Descent(const SearchProblem &problem)
    : problem(problem), left(problem.operators.size()) {
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    for (unsigned i = 0; i < problem.getSignatures(op).size(); ++i)
      left[op].push_back(i);
  for (const Tensor &tensor : problem.tensors)
    bytes.push_back(static_cast<double>(
        std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                        tensor.elementBytes, std::multiplies<int64_t>())));
}

void Descent::keep(unsigned op,
                   const std::function<bool(const Signature &)> &isAllowed) {
  std::vector<unsigned> kept;
  for (unsigned index : left[op])
    if (isAllowed(problem.getSignatures(op)[index]))
      kept.push_back(index);
  if (!kept.empty())
    left[op] = std::move(kept);
}

void Descent::decide(const AxisUse &use) {
  const Axis &axis = problem.axes[use.axis];
  // An axis of one point splits nothing: forms on it would only cost.
  if (axis.size == 1)
    return;
  AxisDescent descent(problem, use, left, bytes);
  descent.run();
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const AxisDescent::Forms &forms = descent.getChosen(op);
    keep(op, [&](const Signature &signature) {
      return descent.getForms(signature) == forms;
    });
    // Strands together send as much as the whole.
    const Operator &node = problem.operators[op];
    for (unsigned i = 0; i < node.results.size(); ++i)
      if (!axis.isTime && forms[node.operands.size() + i] >= 0)
        bytes[node.results[i]] /= axis.size;
  }
}

Plan Descent::getPlan() const {
  Plan plan;
  for (const auto &indices : left)
    plan.signatures.push_back(indices.front());
  plan.stageEnds.push_back(problem.operators.size());
  return plan;
}
