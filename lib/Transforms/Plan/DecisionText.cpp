//===- DecisionText.cpp - decisions as lines of a plan file ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decisions.h"
#include "PlanFile.h"
#include <cmath>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

static constexpr llvm::StringLiteral kInTurn = "in turn";
static constexpr llvm::StringLiteral kPassNames[] = {"forward", "backward",
                                                     "update"};

InFlightDiagnostic tandem::plan::emitLineError(const StepGraph &graph,
                                               StringRef file, unsigned line) {
  return mlir::emitError(graph.getLoc())
         << "plan file '" << file << "', line " << line << ": ";
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

std::string tandem::plan::describe(const StepGraph &graph, Part part) {
  if (part.kind == Part::Kind::Argument)
    return "argument " + std::to_string(part.index);
  if (part.kind == Part::Kind::Result)
    return "result " + std::to_string(part.index);
  unsigned first = graph.getGroups().groups[part.index].members.front();
  return "operator " + std::to_string(graph.ops[first].id);
}

std::string tandem::plan::describeMaker(const StepGraph &graph,
                                        unsigned value) {
  const ValueNode &node = graph.values[value];
  if (node.producer < 0)
    return "argument " + std::to_string(node.index);
  return "operator " + std::to_string(graph.ops[node.producer].id);
}

StringRef tandem::plan::getPassName(cost::Pass pass) {
  return kPassNames[static_cast<unsigned>(pass)];
}

/// The number of the result that a value is.
static std::string printResult(const StepGraph &graph, unsigned value) {
  const ValueNode &node = graph.values[value];
  return std::to_string(node.producer < 0 ? 0 : node.index);
}

Copy tandem::plan::getCopy(const PlannedCopy &copy) {
  return {getPassName(copy.pass).str(), copy.isKept, copy.path};
}

Wait tandem::plan::getWait(const PlannedWait &wait) {
  return {wait.forms, wait.pieces};
}

void tandem::plan::print(const StepGraph &graph, const Decisions &decisions,
                         llvm::raw_ostream &os) {
  if (!decisions.search.empty())
    os << "search " << decisions.search << "\n";
  if (!decisions.pins.empty())
    os << "pins " << decisions.pins << "\n";
  if (decisions.cluster.empty())
    return;
  os << "cluster " << decisions.cluster << "\ncost "
     << printNumber(decisions.cost) << " s\n";
  if (decisions.bound > 0)
    os << "bound " << printNumber(decisions.bound) << " s proof "
       << decisions.proof << "\n";
  os << "peak " << decisions.peak << " B\n";
  for (const StageBegin &stage : decisions.stages)
    os << "stage " << describe(graph, stage.part)
       << (stage.isInTurn ? ": " + kInTurn.str() : "") << "\n";
  for (const PlannedCopy &copy : decisions.copies)
    os << "copy " << describeMaker(graph, copy.value) << ": "
       << printResult(graph, copy.value) << " " << print(getCopy(copy)) << "\n";
  for (const PlannedWait &wait : decisions.waits)
    os << "wait " << describeMaker(graph, wait.value) << ": "
       << printResult(graph, wait.value) << " " << print(getWait(wait)) << "\n";
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

/// `0.12 s` and the hash behind it, if there is one.
static std::pair<StringRef, std::string> splitProof(StringRef text) {
  auto [bound, proof] = text.split(" proof ");
  return {bound.trim(), proof.trim().str()};
}

static bool parseText(StringRef text, std::string &result) {
  result = text.str();
  return !text.empty();
}

static bool parseSeconds(StringRef text, double &seconds) {
  return text.consume_back(" s") && !text.getAsDouble(seconds) &&
         std::isfinite(seconds) && seconds >= 0;
}

std::optional<bool> tandem::plan::parseClaim(StringRef word, StringRef rest,
                                             Decisions &decisions) {
  if (word == "search")
    return parseText(rest, decisions.search);
  if (word == "cluster")
    return parseText(rest, decisions.cluster);
  if (word == "pins")
    return parseText(rest, decisions.pins);
  if (word == "cost")
    return parseSeconds(rest, decisions.cost);
  if (word == "bound") {
    std::tie(rest, decisions.proof) = splitProof(rest);
    return parseSeconds(rest, decisions.bound);
  }
  if (word == "peak")
    return rest.consume_back(" B") && !rest.getAsInteger(10, decisions.peak);
  return std::nullopt;
}

namespace {
/// Reads `PLACE NUMBER: TEXT`.
class DecisionParser {
public:
  DecisionParser(const StepGraph &graph, StringRef rest, unsigned line,
                 StringRef file)
      : graph(graph), line(line), file(file) {
    auto [before, behind] = rest.split(": ");
    place = before.trim();
    text = behind.trim();
  }
  FailureOr<StageBegin> parseStage() const;
  FailureOr<PlannedCopy> parseCopy() const;
  FailureOr<PlannedWait> parseWait() const;

private:
  InFlightDiagnostic emitError() const {
    return emitLineError(graph, file, line);
  }
  LogicalResult emitExpected(StringRef expected) const;
  FailureOr<std::pair<StringRef, unsigned>> parsePlace() const;
  FailureOr<unsigned> parseValue() const;

  const StepGraph &graph;
  unsigned line;
  StringRef file, place, text;
};
} // namespace

LogicalResult DecisionParser::emitExpected(StringRef expected) const {
  return emitError() << "found '" << text << "', expected '" << expected
                     << "' with a form for each axis of mesh "
                     << getMeshText(graph.mesh);
}

/// Kind and number; the number of an operator is its index in the graph.
FailureOr<std::pair<StringRef, unsigned>> DecisionParser::parsePlace() const {
  auto [kind, digits] = place.split(' ');
  int64_t number = -1;
  bool isNumber = !digits.trim().getAsInteger(10, number);
  if (kind == "operator" && isNumber)
    if (auto op = graph.findOperator(number))
      return std::make_pair(kind, *op);
  size_t count = kind == "argument" ? graph.arguments.size()
                 : kind == "result" ? graph.results.size()
                                    : 0;
  if (isNumber && number >= 0 && number < static_cast<int64_t>(count))
    return std::make_pair(kind, static_cast<unsigned>(number));
  return emitError() << "the step has no '" << place
                     << "', expected operator, argument or result and its "
                        "number";
}

/// The value that a line is about, whose text begins with the result's number.
FailureOr<unsigned> DecisionParser::parseValue() const {
  auto found = parsePlace();
  if (failed(found))
    return failure();
  ArrayRef<unsigned> values(found->second);
  if (found->first != "argument")
    values = found->first == "operator"
                 ? ArrayRef<unsigned>(graph.ops[found->second].results)
                 : ArrayRef<unsigned>();
  unsigned result = 0;
  StringRef number = text.split(' ').first;
  if (!number.getAsInteger(10, result) && result < values.size())
    return values[result];
  return emitError() << "'" << place << "' has no result '" << number << "'";
}

FailureOr<StageBegin> DecisionParser::parseStage() const {
  auto found = parsePlace();
  if (failed(found))
    return failure();
  if (!text.empty() && text != kInTurn)
    return emitError() << "found '" << text << "', expected '" << kInTurn
                       << "' or nothing";
  StageBegin stage{{Part::Kind::Group, found->second}, !text.empty(), line};
  if (found->first == "argument")
    stage.part.kind = Part::Kind::Argument;
  else if (found->first == "result")
    stage.part.kind = Part::Kind::Result;
  else if (int group = graph.getGroups().groupOf[found->second]; group >= 0)
    stage.part.index = group;
  else
    return emitError() << "no stage can begin with '" << place << "'";
  return stage;
}

FailureOr<PlannedCopy> DecisionParser::parseCopy() const {
  auto value = parseValue();
  if (failed(value))
    return failure();
  auto copy = spmd::parseCopy(text.split(' ').second);
  if (!copy || copy->path.front().size() != graph.mesh.getNumAxes())
    return emitExpected(kCopyGrammar);
  const auto *pass = llvm::find(kPassNames, copy->pass);
  return PlannedCopy{*value, static_cast<cost::Pass>(pass - kPassNames),
                     copy->isKept, copy->path, line};
}

FailureOr<PlannedWait> DecisionParser::parseWait() const {
  auto value = parseValue();
  if (failed(value))
    return failure();
  StringRef wrong;
  auto wait = spmd::parseWait(text.split(' ').second, &wrong);
  if (!wrong.empty())
    return emitError()
           << "found 'in " << wrong
           << "', expected 'in STAGE/STRAND SHARE, ... [then STAGE/STRAND "
              "SHARE, ...]' with shares that rise to 1 and slots that do not "
              "go back; leave out 'in ...' to have the slots chosen";
  if (!wait || wait->forms.size() != graph.mesh.getNumAxes())
    return emitExpected(kWaitGrammar);
  return PlannedWait{*value, wait->forms, wait->pieces, line};
}

template <typename T>
static LogicalResult append(std::vector<T> &all, FailureOr<T> parsed) {
  if (failed(parsed))
    return failure();
  all.push_back(std::move(*parsed));
  return success();
}

LogicalResult tandem::plan::parseDecision(const StepGraph &graph,
                                          StringRef word, StringRef rest,
                                          unsigned line, StringRef file,
                                          Decisions &decisions) {
  DecisionParser parser(graph, rest, line, file);
  if (word == "stage")
    return append(decisions.stages, parser.parseStage());
  if (word == "copy")
    return append(decisions.copies, parser.parseCopy());
  return append(decisions.waits, parser.parseWait());
}
