//===- DecisionText.cpp - decisions as lines of a plan file ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decisions.h"
#include "PlanFile.h"
#include <charconv>
#include <cmath>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

static constexpr llvm::StringLiteral kInTurn = "in turn";
static constexpr llvm::StringLiteral kCopyGrammar =
    "RESULT PASS [kept] FORMS -> ... -> FORMS";
static constexpr llvm::StringLiteral kPassNames[] = {"forward", "backward",
                                                     "update"};

InFlightDiagnostic tandem::plan::emitLineError(const StepGraph &graph,
                                               StringRef file, unsigned line) {
  func::FuncOp step = graph.step;
  return mlir::emitError(step.getLoc())
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

std::string tandem::plan::printForms(const cost::Layout &layout,
                                     unsigned numAxes) {
  std::string text;
  for (unsigned axis = 0; axis < numAxes; ++axis)
    text += (axis ? ", " : "") + cost::getFormName(layout[axis]);
  return text;
}

std::string tandem::plan::printPath(ArrayRef<cost::Layout> path,
                                    unsigned numAxes) {
  std::string text;
  for (const cost::Layout &layout : path)
    text += (text.empty() ? "" : " -> ") + printForms(layout, numAxes);
  return text;
}

StringRef tandem::plan::getPassName(cost::Pass pass) {
  return kPassNames[static_cast<unsigned>(pass)];
}

/// The shortest text that reads back to the same number.
static std::string printNumber(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

/// The number of the result that a value is.
static std::string printResult(const StepGraph &graph, unsigned value) {
  const ValueNode &node = graph.values[value];
  return std::to_string(node.producer < 0 ? 0 : node.index);
}

std::string tandem::plan::print(const StepGraph &graph,
                                const PlannedCopy &copy) {
  std::string text = printResult(graph, copy.value) + " " +
                     getPassName(copy.pass).str() +
                     (copy.isKept ? " kept " : " ");
  return text + printPath(copy.path, graph.mesh.getNumAxes());
}

std::string tandem::plan::print(const StepGraph &graph,
                                const PlannedWait &wait) {
  std::string text = printResult(graph, wait.value) + " " +
                     printForms(wait.forms, graph.mesh.getNumAxes());
  if (!wait.pieces.empty())
    text += " in " + printPieces(wait.pieces);
  return text;
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
       << print(graph, copy) << "\n";
  for (const PlannedWait &wait : decisions.waits)
    os << "wait " << describeMaker(graph, wait.value) << ": "
       << print(graph, wait) << "\n";
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
  std::optional<cost::Layout> parseLayout(StringRef forms) const;
  bool parsePath(StringRef forms, SmallVectorImpl<cost::Layout> &path) const;

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

std::optional<cost::Layout> DecisionParser::parseLayout(StringRef forms) const {
  SmallVector<StringRef> parts;
  forms.split(parts, ',');
  cost::Layout layout;
  if (parts.size() != graph.mesh.getNumAxes() || parts.size() > cost::kMaxAxes)
    return std::nullopt;
  for (auto [axis, part] : llvm::enumerate(parts)) {
    auto form = cost::parseForm(std::string_view(part.trim()));
    if (!form || *form == cost::kReplicate)
      return std::nullopt;
    layout[axis] = *form;
  }
  return layout;
}

/// `FORMS -> ... -> FORMS`, with a form per axis.
bool DecisionParser::parsePath(StringRef forms,
                               SmallVectorImpl<cost::Layout> &path) const {
  SmallVector<StringRef> parts;
  forms.split(parts, "->");
  for (StringRef part : parts) {
    auto layout = parseLayout(part);
    if (!layout)
      return false;
    path.push_back(*layout);
  }
  return true;
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
  PlannedCopy copy{*value, {}, false, {}, line};
  auto [name, forms] = text.split(' ').second.split(' ');
  copy.isKept = forms.consume_front("kept ");
  const auto *pass = llvm::find(kPassNames, name);
  if (pass == std::end(kPassNames) || !parsePath(forms, copy.path) ||
      copy.path.size() < 2)
    return emitExpected(kCopyGrammar);
  copy.pass = static_cast<cost::Pass>(pass - kPassNames);
  return copy;
}

FailureOr<PlannedWait> DecisionParser::parseWait() const {
  auto value = parseValue();
  if (failed(value))
    return failure();
  auto [forms, slots] = text.split(' ').second.split(" in ");
  auto layout = parseLayout(forms);
  if (!layout)
    return emitExpected(kWaitGrammar);
  PlannedWait wait{*value, *layout, {}, line};
  if (slots.empty())
    return wait;
  std::optional<PlannedPieces> pieces = parsePieces(slots);
  if (!pieces)
    return emitError()
           << "found 'in " << slots
           << "', expected 'in STAGE/STRAND SHARE, ... [then STAGE/STRAND "
              "SHARE, ...]' with shares that rise to 1 and slots that do not "
              "go back; leave out 'in ...' to have the slots chosen";
  wait.pieces = std::move(*pieces);
  return wait;
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
