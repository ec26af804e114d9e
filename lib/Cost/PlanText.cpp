//===- PlanText.cpp - a plan as text --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Text.h"
#include "tandem/Cost/Plan.h"
#include <algorithm>
#include <cmath>

using namespace tandem::cost;

std::string tandem::cost::printSeconds(double seconds) {
  double size = std::abs(seconds);
  int decimals = size > 0 && size < 1e-3
                     ? 5 - static_cast<int>(std::floor(std::log10(size)))
                     : 6;
  char text[400];
  snprintf(text, sizeof text, "%.*f s", decimals, seconds);
  return text;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

/// `5 x forward data=gather(0)`.
static std::string printCopy(const SearchProblem &problem, const Copy &copy) {
  return std::to_string(copy.tensor) + " " +
         printWord(problem.tensors[copy.tensor].name) + " " +
         std::string(getPassName(copy.pass)) + " " +
         print(problem, copy.layout);
}

static std::string printHeader(const SearchProblem &problem, const Plan &plan) {
  std::string text = "tandem-plan 2\n";
  text += "hash " + plan.structureHash + "\n";
  text +=
      "accounting " + std::string(getAccountingName(plan.accounting)) + "\n";
  text += "cost " + printNumber(plan.cost) + " s\n";
  text += "peak " + std::to_string(plan.peak) + " B\n";
  text += "bound " + printNumber(plan.lowerBound) + " s";
  if (plan.lowerBound > 0)
    text += " proof " + getProofHash(problem, plan.lowerBound);
  text += "\n";
  text += std::string("optimal ") + (plan.isOptimal ? "yes" : "no") + "\n";
  for (const Copy &copy : plan.kept)
    text += "keep " + printCopy(problem, copy) + "\n";
  for (const Copy &copy : plan.waiting)
    text += "wait " + printCopy(problem, copy) + "\n";
  return text;
}

std::string tandem::cost::print(const SearchProblem &problem,
                                const Plan &plan) {
  std::string text = printHeader(problem, plan);
  unsigned begin = 0;
  auto change = plan.changes.begin();
  for (unsigned stage = 0; stage < plan.stageEnds.size(); ++stage) {
    text += "stage " + std::to_string(stage) +
            (plan.isAhead(begin) ? " ahead\n" : "\n");
    for (; change != plan.changes.end() && change->stage <= stage; ++change)
      text += "  change " + printCopy(problem, change->copy) + " from " +
              print(problem, change->from) + (change->waits ? " waits" : "") +
              "\n";
    for (unsigned op = begin; op < plan.stageEnds[stage]; ++op)
      text += "  operator " + std::to_string(op) + " " +
              printWord(problem.operators[op].name) + " " +
              print(problem, problem.getSignatures(op)[plan.signatures[op]]) +
              "\n";
    begin = plan.stageEnds[stage];
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

namespace {
class PlanParser : LineReader {
public:
  PlanParser(const SearchProblem &problem, std::string_view text,
             std::string_view name, std::string &error)
      : LineReader(text, name, error), problem(problem) {}

  std::optional<Plan> run();

private:
  bool parseLine();
  bool parseHeader();
  bool parseStage();
  void dropUnproven();
  bool parseChange();
  bool parseOperator();
  std::optional<Copy> parseCopy(size_t place);

  template <typename T> bool readNumber(T &value, std::string_view unit) {
    auto number = parseNumber<T>(getWord(1));
    if (!number || !std::isfinite(static_cast<double>(*number)) ||
        getWord(2) != unit)
      return failWord(1, "a finite number and the unit '" + std::string(unit) +
                             "'");
    value = *number;
    return true;
  }

  const SearchProblem &problem;
  Plan plan;
  /// Of the bound, as the text has it.
  std::string proof;
};
} // namespace

std::optional<Copy> PlanParser::parseCopy(size_t place) {
  auto tensor = parseNumber<unsigned>(getWord(place));
  auto pass = parsePass(getWord(place + 2));
  auto layout = parseLayout(problem, getWord(place + 3));
  if (tensor && *tensor < problem.tensors.size() && pass && layout &&
      problem.isDivisible(*tensor, *layout))
    return Copy{*tensor, *layout, *pass};
  fail("found no copy, expected 'TENSOR NAME PASS LAYOUT' such as '5 x forward "
       "data=gather(0)'");
  return std::nullopt;
}

bool PlanParser::parseHeader() {
  std::string_view word = getWord(0);
  if (word == "cost")
    return readNumber(plan.cost, "s");
  if (word == "bound") {
    if (getWord(3) == "proof")
      proof = getWord(4);
    return readNumber(plan.lowerBound, "s");
  }
  if (word == "peak")
    return readNumber(plan.peak, "B");
  if (word == "hash") {
    // Said here, before the first line that happens not to fit.
    plan.structureHash = getWord(1);
    std::string expected = getStructureHash(problem);
    return plan.structureHash == expected ||
           failWord(1, expected + ", the hash of this problem: search again");
  }
  if (word == "optimal") {
    plan.isOptimal = getWord(1) == "yes";
    return plan.isOptimal || getWord(1) == "no" || failWord(1, "yes or no");
  }
  if (word == "accounting") {
    auto accounting = parseAccounting(getWord(1));
    plan.accounting = accounting.value_or(Accounting::Tandem);
    return accounting ||
           failWord(1, "hidup-serial, hidup-overlapped or tandem");
  }
  auto copy = parseCopy(1);
  if (copy)
    (word == "keep" ? plan.kept : plan.waiting).push_back(*copy);
  return copy.has_value();
}

bool PlanParser::parseStage() {
  if (!expectIndex("stage", plan.stageEnds.size()))
    return false;
  bool isAhead = getWords().size() > 2;
  if (isAhead && (getWord(2) != "ahead" || getWords().size() > 3))
    return failWord(2, "'ahead' or the end of the line");
  if (isAhead)
    plan.ahead.push_back(plan.signatures.size());
  plan.stageEnds.push_back(plan.signatures.size());
  return true;
}

bool PlanParser::parseChange() {
  auto copy = parseCopy(1);
  auto from = parseLayout(problem, getWord(6));
  if (!copy || getWord(5) != "from" || !from)
    return fail(
        "found no change, expected 'change TENSOR NAME PASS LAYOUT from "
        "LAYOUT'");
  if (plan.stageEnds.empty())
    return fail("found a change before the first stage, expected 'stage 0'");
  bool waits = getWord(7) == "waits";
  if (getWords().size() > 7 && !waits)
    return failWord(7, "'waits' or the end of the line");
  plan.changes.push_back(
      {static_cast<unsigned>(plan.stageEnds.size() - 1), *copy, *from, waits});
  return true;
}

bool PlanParser::parseOperator() {
  unsigned op = plan.signatures.size();
  auto index = parseNumber<unsigned>(getWord(1));
  if (!index || *index != op || op >= problem.operators.size())
    return failWord(1, op < problem.operators.size()
                           ? "operator " + std::to_string(op)
                           : std::string("no further operator"));
  if (plan.stageEnds.empty())
    return fail("found an operator before the first stage, expected 'stage 0'");
  const auto &words = getWords();
  std::optional<Signature> forms;
  if (words.size() > 3)
    forms = parseForms(problem, {words.begin() + 3, words.end()});
  const SignatureSet &signatures = problem.getSignatures(op);
  for (unsigned i = 0; forms && i < signatures.size(); ++i)
    if (signatures[i].operands == forms->operands &&
        signatures[i].results == forms->results) {
      plan.signatures.push_back(i);
      plan.stageEnds.back() = op + 1;
      return true;
    }
  return fail("operator " + std::to_string(op) + " '" +
              problem.operators[op].name +
              "' has no such signature, expected one of the " +
              std::to_string(signatures.size()) + " that it has");
}

bool PlanParser::parseLine() {
  std::string_view word = getWord(0);
  if (word == "stage")
    return parseStage();
  if (word == "change")
    return parseChange();
  if (word == "operator")
    return parseOperator();
  for (std::string_view known : {"hash", "accounting", "cost", "peak", "bound",
                                 "optimal", "keep", "wait"})
    if (word == known)
      return parseHeader();
  if (word == "graph")
    return fail("found a plan for a step, expected one for a problem: give it "
                "to tandem-compile STEP.mlir --plan-file or --replan");
  return failWord(0,
                  "hash, accounting, cost, peak, bound, optimal, keep, wait, "
                  "stage, change or operator");
}

/// What was proven of another problem, or never, is no claim of this plan.
void PlanParser::dropUnproven() {
  if (plan.lowerBound > 0 && proof == getProofHash(problem, plan.lowerBound))
    return;
  plan.lowerBound = 0;
  plan.isOptimal = false;
}

std::optional<Plan> PlanParser::run() {
  if (!next() || getWord(0) != "tandem-plan") {
    failWord(0, "'tandem-plan 2'");
    return std::nullopt;
  }
  // Plans for steps, which `parseLine` refuses, count versions for themselves.
  LineReader ahead = *this;
  bool isOfStep = ahead.next() && ahead.getWords().front() == "graph";
  if (getWord(1) != "2" && !isOfStep) {
    failWord(1, "version 2 of a plan");
    return std::nullopt;
  }
  while (next())
    if (!parseLine())
      return std::nullopt;
  if (plan.signatures.size() != problem.operators.size()) {
    fail("the plan ends before operator " +
         std::to_string(plan.signatures.size()) + ", expected all " +
         std::to_string(problem.operators.size()));
    return std::nullopt;
  }
  dropUnproven();
  return std::move(plan);
}

std::optional<Plan> tandem::cost::parsePlan(const SearchProblem &problem,
                                            std::string_view text,
                                            std::string_view name,
                                            std::string &error) {
  error.clear();
  return PlanParser(problem, text, name, error).run();
}
