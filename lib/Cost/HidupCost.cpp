//===- HidupCost.cpp - the accountings of HiDup ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HidupCost.h"
#include <algorithm>
#include <array>
#include <tuple>

using namespace tandem::cost;

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

static AccountingRules makeRules(bool overlapsBackward) {
  return {.passes = {{Pass::Forward, 1, true},
                     {Pass::Backward, 2, overlapsBackward}},
          .hasArguments = false,
          .separatesUpdates = false,
          .decidesCopies = false,
          .splitsEvenly = false};
}

const AccountingRules &tandem::cost::getHidupRules(Accounting accounting) {
  static const AccountingRules serial = makeRules(false),
                               overlapped = makeRules(true);
  return accounting == Accounting::HidupSerial ? serial : overlapped;
}

//===----------------------------------------------------------------------===//
// Changes of form
//===----------------------------------------------------------------------===//

static double getSeconds(const SearchProblem &problem, unsigned tensor,
                         std::optional<Change> change) {
  if (!change)
    return 0;
  double bytes = static_cast<double>(problem.tensors[tensor].elementBytes);
  for (int64_t size : problem.tensors[tensor].shape)
    bytes *= static_cast<double>(size);
  const ChangeRate &rate =
      problem.axes.front().rates[static_cast<unsigned>(*change)];
  return static_cast<double>(problem.tensors[tensor].times) *
         (rate.latency + bytes * rate.secondsPerByte);
}

namespace {
/// Of the passes; nothing where it is free.
using Collectives = std::array<std::optional<Change>, 2>;
} // namespace

/// The table of Hidup.h.
static std::optional<Collectives> findCollectives(Form from, Form to) {
  if (from == to)
    return Collectives{};
  if (to != kFull && to < 0)
    return std::nullopt;
  switch (from) {
  case kFull:
    return Collectives{};
  case kReplicate:
    return Collectives{std::nullopt, Change::AllReduce};
  case kReduce:
    if (to == kFull)
      return Collectives{Change::AllReduce, Change::AllReduce};
    return Collectives{Change::ReduceScatter, Change::AllGather};
  default:
    if (to == kFull)
      return Collectives{Change::AllGather, Change::ReduceScatter};
    return Collectives{Change::AllToAll, Change::AllToAll};
  }
}

std::optional<std::vector<PassChange>>
tandem::cost::getPassChanges(const SearchProblem &problem, unsigned tensor,
                             Form from, Form to) {
  std::optional<Collectives> collectives = findCollectives(from, to);
  if (!collectives)
    return std::nullopt;
  std::vector<PassChange> changes;
  for (std::optional<Change> change : *collectives)
    changes.push_back({change, getSeconds(problem, tensor, change)});
  return changes;
}

std::optional<HidupChange>
tandem::cost::getHidupChange(const SearchProblem &problem, unsigned tensor,
                             Form from, Form to) {
  std::optional<Collectives> collectives = findCollectives(from, to);
  if (!collectives)
    return std::nullopt;
  auto [forward, backward] = *collectives;
  return HidupChange{getSeconds(problem, tensor, forward),
                     getSeconds(problem, tensor, backward)};
}

//===----------------------------------------------------------------------===//
// Legality
//===----------------------------------------------------------------------===//

bool tandem::cost::checkHidupProblem(const SearchProblem &problem,
                                     std::string &error) {
  if (problem.axes.size() != 1 || problem.axes.front().isTime) {
    error = "the problem has " + std::to_string(problem.axes.size()) +
            " axes, the hidup accountings expect one space axis: use the "
            "accounting tandem";
    return false;
  }
  if (!problem.ties.empty()) {
    error = "the problem has ties between operators, the hidup accountings "
            "expect none: use the accounting tandem";
    return false;
  }
  for (const Operator &op : problem.operators)
    if (op.pass != Pass::Forward) {
      error = "operator " + op.name +
              " is not in the forward pass, the hidup accountings expect the "
              "forward graph only: use the accounting tandem";
      return false;
    }
  return true;
}

/// Whether the plan's decisions are of the right number and in range.
static bool checkDecisions(const SearchProblem &problem, const Plan &plan,
                           std::string &error) {
  size_t numOperators = problem.operators.size();
  if (plan.signatures.size() != numOperators) {
    error = "the plan has " + std::to_string(plan.signatures.size()) +
            " signatures, expected one for each of " +
            std::to_string(numOperators) + " operators";
    return false;
  }
  for (unsigned op = 0; op < numOperators; ++op)
    if (plan.signatures[op] >= problem.getSignatures(op).size()) {
      error = "operator " + problem.operators[op].name + " takes signature " +
              std::to_string(plan.signatures[op]) + ", expected one below " +
              std::to_string(problem.getSignatures(op).size());
      return false;
    }
  if (!plan.kept.empty() || !plan.waiting.empty()) {
    error = "the plan has kept or waiting copies, the hidup accountings expect "
            "none";
    return false;
  }
  unsigned start = 0;
  for (unsigned end : plan.stageEnds) {
    if (end <= start) {
      error = "a stage ends at operator " + std::to_string(end) +
              ", expected behind operator " + std::to_string(start);
      return false;
    }
    start = end;
  }
  if (start != numOperators) {
    error = "the last stage ends at operator " + std::to_string(start) +
            ", expected " + std::to_string(numOperators);
    return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// The cost
//===----------------------------------------------------------------------===//

namespace {
/// A tensor's forms so far.
struct TensorForms {
  Form made = kFull;
  std::optional<Form> copy;
  unsigned stage = 0;
};

/// Walks a plan stage by stage.
class Walk {
public:
  Walk(const SearchProblem &problem, const Plan &plan, std::string &error)
      : problem(problem), plan(plan), error(error),
        forms(problem.tensors.size()) {}

  std::optional<CostReport> run();

private:
  bool addOperator(unsigned op);
  bool addOperand(unsigned op, unsigned tensor, Form wanted);
  bool fail(unsigned op, unsigned tensor, Form wanted, const char *reason);

  const SearchProblem &problem;
  const Plan &plan;
  std::string &error;
  std::vector<TensorForms> forms;
  CostReport report;
  unsigned stage = 0;
  HidupStage<double> sums;
};
} // namespace

bool Walk::fail(unsigned op, unsigned tensor, Form wanted, const char *reason) {
  const TensorForms &have = forms[tensor];
  error = "operator " + problem.operators[op].name + " in stage " +
          std::to_string(stage) + " wants tensor " +
          problem.tensors[tensor].name + " as " + getFormName(wanted) +
          ", which is made in stage " + std::to_string(have.stage) + " as " +
          getFormName(have.made) +
          (have.copy ? " and has a copy as " + getFormName(*have.copy) : "") +
          ": " + reason;
  return false;
}

bool Walk::addOperand(unsigned op, unsigned tensor, Form wanted) {
  TensorForms &have = forms[tensor];
  if (wanted == have.made || have.copy == wanted)
    return true;
  if (have.copy)
    return fail(op, tensor, wanted, "expected at most one copy of a tensor");
  std::optional<HidupChange> change =
      getHidupChange(problem, tensor, have.made, wanted);
  if (!change)
    return fail(op, tensor, wanted, "there is no such change of form");
  if (have.stage == stage)
    return fail(op, tensor, wanted,
                "expected a change in a later stage than the producer's");
  have.copy = wanted;
  sums.forward += change->forward;
  sums.backward += change->backward;
  Layout from, to;
  from[0] = have.made;
  to[0] = wanted;
  report.changes.push_back({stage, {tensor, to, Pass::Forward}, from, false});
  return true;
}

bool Walk::addOperator(unsigned op) {
  const Operator &info = problem.operators[op];
  const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
  for (unsigned i = 0; i < info.operands.size(); ++i)
    if (!addOperand(op, info.operands[i], signature.operands[i][0]))
      return false;
  for (unsigned i = 0; i < info.results.size(); ++i)
    forms[info.results[i]] = {signature.results[i][0], std::nullopt, stage};
  sums.computation += signature.seconds;
  return true;
}

std::optional<CostReport> Walk::run() {
  unsigned op = 0;
  for (stage = 0; stage < plan.stageEnds.size(); ++stage) {
    sums = {sums.computation};
    for (; op < plan.stageEnds[stage]; ++op)
      if (!addOperator(op))
        return std::nullopt;
    report.seconds += getHidupTime(problem.accounting, sums);
  }
  report.seconds += sums.computation;
  std::sort(report.changes.begin(), report.changes.end(),
            [](const CopyChange &a, const CopyChange &b) {
              return std::tie(a.stage, a.copy) < std::tie(b.stage, b.copy);
            });
  report.stageBytes.assign(plan.stageEnds.size(), 0);
  report.stageStrands.assign(plan.stageEnds.size(), 2);
  return std::move(report);
}

std::optional<CostReport> tandem::cost::costHidup(const SearchProblem &problem,
                                                  const Plan &plan,
                                                  std::string &error) {
  if (!checkHidupProblem(problem, error) ||
      !checkDecisions(problem, plan, error))
    return std::nullopt;
  return Walk(problem, plan, error).run();
}
