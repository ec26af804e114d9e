//===- OasesCost.cpp - the accounting of Oases ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OasesCost.h"
#include <algorithm>

using namespace tandem::cost;

//===----------------------------------------------------------------------===//
// Chains
//===----------------------------------------------------------------------===//

static const char kExpected[] = ", the accounting oases expects ";

static bool checkAxes(const SearchProblem &problem, std::string &error) {
  if (problem.getTimeAxis() >= 0)
    error = std::string("the problem has a time axis") + kExpected +
            "space axes: it splits the batch in two itself";
  else if (!problem.ties.empty())
    error = std::string("the problem has ties") + kExpected + "none";
  return error.empty();
}

int tandem::cost::findOasesRead(const SearchProblem &problem, unsigned op,
                                const std::vector<unsigned> &producers) {
  const std::vector<unsigned> &operands = problem.operators[op].operands;
  for (unsigned at = 0; at < operands.size(); ++at)
    if (!problem.operators[producers[operands[at]]].isArgument())
      return static_cast<int>(at);
  return -1;
}

static std::string checkOperator(const SearchProblem &problem,
                                 const OasesChain &chain, unsigned index,
                                 const std::vector<unsigned> &producers,
                                 const std::vector<unsigned> &numReaders) {
  const Operator &op = problem.operators[index];
  if (op.pass != Pass::Forward)
    return " is not in the forward pass";
  if (op.isArgument())
    return numReaders[op.results.front()] == 1
               ? ""
               : " is not read by exactly one operator";
  bool isOutput = op.kind == Operator::Kind::Output;
  if (!isOutput && op.results.size() != 1)
    return " has not one result";
  int read = findOasesRead(problem, index, producers);
  if (chain.empty() ? read >= 0 || isOutput
                    : read < 0 || producers[op.operands[read]] != chain.back())
    return " does not read what the operator before makes";
  for (unsigned tensor : op.operands)
    if (!problem.operators[producers[tensor]].isArgument() &&
        tensor != op.operands[read])
      return " reads several operators";
  return "";
}

std::optional<OasesChain>
tandem::cost::makeOasesChain(const SearchProblem &problem, std::string &error) {
  if (!checkAxes(problem, error))
    return std::nullopt;
  std::vector<unsigned> producers = problem.getProducers();
  std::vector<unsigned> numReaders(problem.tensors.size());
  for (const Operator &op : problem.operators)
    for (unsigned tensor : op.operands)
      ++numReaders[tensor];
  OasesChain chain;
  for (unsigned index = 0; index < problem.operators.size(); ++index) {
    const Operator &op = problem.operators[index];
    std::string wrong =
        checkOperator(problem, chain, index, producers, numReaders);
    if (wrong.empty() && !op.isArgument() && !chain.empty() &&
        problem.operators[chain.back()].kind == Operator::Kind::Output)
      wrong = " stands behind the output";
    if (!wrong.empty()) {
      error = "operator " + op.name + wrong + kExpected + "a chain";
      return std::nullopt;
    }
    if (!op.isArgument())
      chain.push_back(index);
  }
  if (chain.empty() ||
      problem.operators[chain.back()].kind != Operator::Kind::Output) {
    error = std::string("the problem has no output") + kExpected +
            "one at the end of a chain";
    return std::nullopt;
  }
  return chain;
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

static double getSeconds(const Axis &axis, Change change, double bytes) {
  const ChangeRate &rate = axis.rates[static_cast<unsigned>(change)];
  return rate.latency + bytes * rate.secondsPerByte;
}

std::optional<OasesChange>
tandem::cost::getOasesChange(const SearchProblem &problem, unsigned tensor,
                             const Layout &from, const Layout &to) {
  OasesChange change;
  // Of what the axes that split both layouts leave to a device.
  Layout shared = from;
  for (unsigned axis = 0; axis < problem.axes.size(); ++axis)
    shared[axis] = from[axis] == to[axis] ? from[axis] : kFull;
  double reduced = double(problem.getBytes(tensor, shared)), gathered = reduced;
  for (unsigned axis = problem.axes.size(); axis-- > 0;) {
    const Axis &info = problem.axes[axis];
    if (from[axis] == to[axis])
      continue;
    bool isSummed = from[axis] == kReduce, wasSplit = from[axis] >= 0;
    bool isSplit = to[axis] >= 0;
    if ((!isSummed && !wasSplit && from[axis] != kFull) ||
        (!isSplit && to[axis] != kFull) || (wasSplit && isSplit))
      return std::nullopt;
    // The sum is made first, and each device takes its part of it.
    if (isSummed) {
      change.allReduce += getSeconds(info, Change::AllReduce, reduced);
      reduced /= double(info.size);
    }
    if (wasSplit || isSplit) {
      (wasSplit ? change.forwardGather : change.backwardGather) +=
          getSeconds(info, Change::AllGather, gathered);
      gathered /= double(info.size);
    }
  }
  return change;
}

double tandem::cost::getOasesTime(double before, const OasesChange &change,
                                  double after) {
  double seconds = 0;
  for (double factor : {1.0, kOasesBackward}) {
    double gather = factor == 1 ? change.forwardGather : change.backwardGather;
    seconds += std::max(factor * before, change.allReduce) +
               std::max(factor * after, change.allReduce);
    if (gather > 0)
      seconds += gather + std::min(factor * after, change.allReduce);
  }
  return seconds;
}

double tandem::cost::getOasesBegin(double after) {
  return (1 + kOasesBackward) * after;
}

double tandem::cost::getOasesEnd(double before, const OasesChange &change) {
  return getOasesTime(before, change, 0);
}

int64_t tandem::cost::getOasesBytes(const SearchProblem &problem, unsigned op,
                                    const Signature &signature) {
  const std::vector<unsigned> producers = problem.getProducers();
  const Operator &info = problem.operators[op];
  int64_t bytes = 0;
  for (unsigned i = 0; i < info.operands.size(); ++i) {
    unsigned tensor = info.operands[i];
    bool isResident =
        problem.operators[producers[tensor]].kind == Operator::Kind::Resident;
    bytes += problem.getBytes(tensor, signature.operands[i]) *
             (isResident ? 1 : kOasesStrands);
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// The cost of a plan
//===----------------------------------------------------------------------===//

namespace {
class Walk {
public:
  Walk(const SearchProblem &problem, const Plan &plan, std::string &error)
      : problem(problem), plan(plan), error(error),
        producers(problem.getProducers()) {}
  std::optional<CostReport> run();

private:
  bool checkDecisions();
  bool addOperator(unsigned op);
  bool fail(unsigned op, unsigned tensor);

  const SearchProblem &problem;
  const Plan &plan;
  std::string &error;
  std::vector<unsigned> producers;
  CostReport report;
  /// Of the block before; it has no tensor at first.
  double before = 0;
  bool isFirst = true;
  int64_t workspace = 0;
};
} // namespace

bool Walk::checkDecisions() {
  size_t numOperators = problem.operators.size();
  bool isLegal = plan.signatures.size() == numOperators && plan.kept.empty() &&
                 plan.waiting.empty() && !plan.stageEnds.empty() &&
                 plan.stageEnds.back() == numOperators;
  for (unsigned op = 0; isLegal && op < numOperators; ++op)
    isLegal = plan.signatures[op] < problem.getSignatures(op).size();
  if (!isLegal)
    error = "the plan does not have one signature for each of " +
            std::to_string(numOperators) +
            " operators, without copies that are kept or wait, as the "
            "accounting oases expects";
  return isLegal;
}

bool Walk::fail(unsigned op, unsigned tensor) {
  error = "operator " + problem.operators[op].name + " wants tensor " +
          problem.tensors[tensor].name +
          " in a form into which the accounting oases does not change it";
  return false;
}

bool Walk::addOperator(unsigned op) {
  const Operator &info = problem.operators[op];
  const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
  bool isOutput = info.kind == Operator::Kind::Output;
  for (unsigned i = 0; i < info.operands.size(); ++i) {
    unsigned tensor = info.operands[i], maker = producers[tensor];
    const Layout &made =
        problem.getSignatures(maker)[plan.signatures[maker]].results.front();
    if (problem.operators[maker].isArgument()) {
      if (made != signature.operands[i])
        return fail(op, tensor);
      continue;
    }
    auto change = getOasesChange(problem, tensor, made, signature.operands[i]);
    if (!change)
      return fail(op, tensor);
    report.seconds += isOutput
                          ? getOasesEnd(before, *change)
                          : getOasesTime(before, *change, signature.seconds);
    if (made != signature.operands[i])
      report.changes.push_back(
          {0, {tensor, signature.operands[i], Pass::Forward}, made, false});
  }
  if (isOutput)
    return true;
  if (isFirst)
    report.seconds += getOasesBegin(signature.seconds);
  isFirst = false;
  before = signature.seconds;
  workspace = signature.workspace;
  report.peak += getOasesBytes(problem, op, signature);
  return true;
}

std::optional<CostReport> Walk::run() {
  std::optional<OasesChain> chain = makeOasesChain(problem, error);
  if (!chain || !checkDecisions())
    return std::nullopt;
  for (unsigned op : *chain)
    if (!addOperator(op))
      return std::nullopt;
  report.peak += workspace;
  std::sort(
      report.changes.begin(), report.changes.end(),
      [](const CopyChange &a, const CopyChange &b) { return a.copy < b.copy; });
  report.stageBytes.assign(plan.stageEnds.size(), report.peak);
  report.stageStrands.assign(plan.stageEnds.size(), kOasesStrands);
  return std::move(report);
}

std::optional<CostReport> tandem::cost::costOases(const SearchProblem &problem,
                                                  const Plan &plan,
                                                  std::string &error) {
  return Walk(problem, plan, error).run();
}
