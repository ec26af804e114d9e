//===- PlanFile.cpp - a plan as text --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanFile.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Support/TextFile.h"
#include "tandem/Transforms/Plan/HostClaims.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;
using namespace tandem::spmd;
using namespace tandem::plan;

static constexpr llvm::StringLiteral kHeader = "tandem-plan 3";
/// Lines of what the plan is inside of. The compiler reads them before it.
static constexpr llvm::StringLiteral kOfPipelines[] = {
    "pipeline",   "section", "order",  "row",
    "accumulate", "strands", "joined", "sum-piece"};

//===----------------------------------------------------------------------===//
// What lines are about
//===----------------------------------------------------------------------===//

InFlightDiagnostic tandem::plan::emitLineError(const StepGraph &graph,
                                               StringRef file, unsigned line) {
  return mlir::emitError(graph.getLoc())
         << "plan file '" << file << "', line " << line << ": ";
}

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

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// What is wrong with the last line, `end N`, if anything is: without it a file
/// that was cut off would be a plan that replicates what is missing.
static std::string checkEnd(ArrayRef<PlanFile::Line> lines) {
  const PlanFile::Line *end = llvm::find_if(lines, [](const auto &line) {
    return StringRef(line.text).starts_with("end ");
  });
  std::string last =
      lines.empty() ? "" : StringRef(lines.back().text).take_front(40).str();
  size_t found = lines.size() - (end != lines.end()), said = 0;
  std::string number = std::to_string(found),
              expected = "expected a last line 'end " + number +
                         "', the number of lines before it";
  if (end == lines.end())
    return "is cut off after '" + last + "', " + expected;
  if (end + 1 != lines.end())
    return "has '" + last + "' behind its end, " + expected;
  if (StringRef(end->text).drop_front(4).trim().getAsInteger(10, said))
    return "ends with '" + last + "', " + expected;
  if (said == found)
    return "";
  return "has " + number + " lines before its end, but that says " +
         std::to_string(said) + "; if none is missing, change it to 'end " +
         number + "'";
}

/// All but the first one, without comments and empty ones.
static std::vector<PlanFile::Line> splitLines(StringRef text) {
  std::vector<PlanFile::Line> lines;
  unsigned number = 0;
  for (StringRef line : llvm::split(text, '\n'))
    if (number++ > 0 && !line.trim().empty() && !line.trim().starts_with("#"))
      lines.push_back({number, line.trim().str()});
  return lines;
}

static bool parseText(StringRef text, std::string &result) {
  result = text.str();
  return !text.empty();
}

static bool parseSeconds(StringRef text, double &seconds) {
  return text.consume_back(" s") && !text.getAsDouble(seconds) &&
         std::isfinite(seconds) && seconds >= 0;
}

/// Takes a line `word rest` about what was found. Nothing if it is none, else
/// what was expected behind the word, if that is not what there is.
static std::optional<StringRef> parseClaim(StringRef word, StringRef rest,
                                           Decisions &found) {
  auto expect = [](bool isRead, StringRef expected) {
    return isRead ? StringRef() : expected;
  };
  if (word == "search")
    return expect(parseText(rest, found.search), "ALGORITHM");
  if (word == "cluster")
    return expect(parseText(rest, found.cluster), "NAME");
  if (word == "pins")
    return expect(parseText(rest, found.pins), "PINS");
  if (word == "cost")
    return expect(parseSeconds(rest, found.cost), "SECONDS s");
  if (word == "bound") {
    auto [bound, proof] = rest.split(" proof ");
    found.proof = proof.trim().str();
    return expect(parseSeconds(bound.trim(), found.bound), "SECONDS s");
  }
  if (word == "offer") {
    found.offersHost = rest == "host";
    return expect(found.offersHost, "host");
  }
  if (word == "peak")
    return expect(rest.consume_back(" B") && !rest.getAsInteger(10, found.peak),
                  "BYTES B");
  return std::nullopt;
}

namespace {
class FileReader {
public:
  FileReader(const StepGraph &graph, StringRef path) : graph(graph) {
    file.path = path.str();
  }
  FailureOr<PlanFile> run(StringRef text);

private:
  InFlightDiagnostic emitError() {
    return mlir::emitError(graph.getLoc()) << "plan file '" << file.path << "'";
  }
  LogicalResult readLine(StringRef line, unsigned number);

  const StepGraph &graph;
  PlanFile file;
  std::string hash;
};
} // namespace

LogicalResult FileReader::readLine(StringRef line, unsigned number) {
  auto [word, rest] = line.split(' ');
  rest = rest.trim();
  if (word == "graph" || word == "mesh") {
    (word == "graph" ? hash : file.mesh) = rest.str();
    return success();
  }
  if (word == "micro") {
    if (!rest.getAsInteger(10, file.micro))
      return success();
    return emitError() << ", line " << number << ": micro is '" << rest
                       << "', expected a number";
  }
  if (llvm::is_contained(kOfPipelines, word))
    return success();
  if (word == "pins")
    file.pinsLine = number;
  auto expected = parseClaim(word, rest, file.decisions);
  if (!expected)
    file.lines.push_back({number, line.str()});
  if (expected.value_or("").empty())
    return success();
  return emitError() << ", line " << number << ": cannot read '"
                     << line.take_front(60) << "', expected '" << word << " "
                     << *expected << "'";
}

/// Parameters on the host change the graph: where a pin of the file puts none
/// there, that may be why it is another one.
static std::string describeIdlePin(const StepGraph &graph,
                                   const PlanFile &file) {
  func::FuncOp step = graph.step;
  for (StringRef pin : llvm::split(file.decisions.pins, ';')) {
    auto isStored = [&](unsigned argument) {
      return asksToStore(step.getArgAttrDict(argument), pin.trim());
    };
    if (pin.trim().starts_with(kParameterPin) &&
        llvm::none_of(llvm::seq(step.getNumArguments()), isStored))
      return ", or correct line " + std::to_string(file.pinsLine) + ": '" +
             pin.trim().str() + "' puts no parameter on the host";
  }
  return "";
}

FailureOr<PlanFile> FileReader::run(StringRef text) {
  StringRef first = text.split('\n').first;
  if (!first.starts_with("tandem-plan "))
    return emitError() << " is no plan, expected a first line '" << kHeader
                       << "'";
  if (first.trim() != kHeader)
    return emitError() << " begins with '" << first.trim().take_front(40)
                       << "', expected '" << kHeader
                       << "', which names its graph by another hash; make the "
                          "plan again";
  std::vector<PlanFile::Line> lines = splitLines(text);
  if (std::string error = checkEnd(lines); !error.empty())
    return emitError() << " " << error;
  lines.pop_back();
  for (const auto &[number, line] : lines)
    if (failed(readLine(line, number)))
      return failure();
  if (hash.empty())
    return emitError()
           << " has no line 'graph', expected the graph that it was "
              "made for";
  if (hash != graph.hash)
    return emitError() << " was made for the graph "
                       << StringRef(hash).take_front(16) << ", but this one is "
                       << StringRef(graph.hash).take_front(16)
                       << ": make the plan again"
                       << describeIdlePin(graph, file);
  return std::move(file);
}

/// Whether the file can be read, and is for this graph.
static bool isOfGraph(const StepGraph &graph, StringRef path) {
  std::string why;
  std::optional<std::string> text = readTextFile(path.str(), why);
  return text && StringRef(*text).contains("\ngraph " + graph.hash + "\n");
}

std::optional<StepGraph>
tandem::plan::findOtherStep(const StepGraph &graph,
                            const PlanExchange &exchange, StringRef path) {
  if (isOfGraph(graph, path) || !exchange.getOtherOffer)
    return std::nullopt;
  ModuleOp module = exchange.getOtherOffer();
  if (!module)
    return std::nullopt;
  StepGraph other(module.lookupSymbol<func::FuncOp>("step"));
  return isOfGraph(other, path) ? std::optional(std::move(other))
                                : std::nullopt;
}

InFlightDiagnostic tandem::plan::emitOtherStep(const StepGraph &graph,
                                               const PlanExchange &exchange,
                                               StringRef path) {
  exchange.result->isOfOther = true;
  return emitError(graph.getLoc())
         << "plan file '" << path
         << "' has another offer to make values again than the step";
}

FailureOr<PlanFile> tandem::plan::readPlanFile(const StepGraph &graph,
                                               StringRef path) {
  std::string why;
  std::optional<std::string> text = readTextFile(path.str(), why);
  if (text)
    return FileReader(graph, path).run(*text);
  return emitError(graph.getLoc())
         << "cannot read the plan file '" << path << "': " << why;
}

/// Of `operator 17 nn.either: host 2`.
static bool takesFromHost(StringRef line) {
  return line.consume_front("operator ") &&
         line.split(' ').second.starts_with(
             (nn::EitherOp::getOperationName() + ": " + kHost + " ").str());
}

HostClaims tandem::readHostClaims(const std::string &path) {
  HostClaims claims;
  Decisions decisions;
  std::string why;
  auto text = path.empty() ? std::nullopt : readTextFile(path, why);
  for (const auto &[number, line] : splitLines(text.value_or(""))) {
    auto [word, rest] = StringRef(line).split(' ');
    parseClaim(word, rest.trim(), decisions);
    claims.sendsValues |= takesFromHost(line);
  }
  claims.sendsValues |= decisions.offersHost;
  for (StringRef pin : llvm::split(decisions.pins, ';'))
    if (!pin.trim().empty())
      claims.pins.push_back(pin.trim().str());
  return claims;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static void writeDecisions(const StepGraph &graph, const Decisions &decisions,
                           llvm::raw_ostream &os) {
  if (!decisions.search.empty())
    os << "search " << decisions.search << "\n";
  if (!decisions.pins.empty())
    os << "pins " << decisions.pins << "\n";
  if (!decisions.cluster.empty()) {
    os << "cluster " << decisions.cluster << "\ncost "
       << printNumber(decisions.cost) << " s\n";
    if (decisions.bound > 0)
      os << "bound " << printNumber(decisions.bound) << " s proof "
         << decisions.proof << "\n";
    os << "peak " << decisions.peak << " B\n";
  }
  for (const StageBegin &stage : decisions.stages) {
    os << "stage " << describe(graph, stage.part)
       << (stage.isAhead ? ": " + kAhead.str() : "");
    if (stage.isInTurn)
      os << (stage.isAhead ? ", " : ": ") << kInTurn;
    os << "\n";
  }
  auto printLine = [&](StringRef word, unsigned value,
                       const std::string &text) {
    os << word << " " << describeMaker(graph, value) << ": "
       << graph.values[value].getResult() << " " << text << "\n";
  };
  for (const PlannedCopy &copy : decisions.copies)
    printLine("copy", copy.value, spmd::print(copy.getCopy()));
  for (const PlannedWait &wait : decisions.waits)
    printLine("wait", wait.value, spmd::print(wait));
}

static void writeArguments(const StepGraph &graph, llvm::raw_ostream &os) {
  for (auto [index, node] : llvm::enumerate(graph.arguments)) {
    std::string forms;
    for (auto [axis, form] : llvm::enumerate(node.forms))
      if (!form.isFull())
        forms += (forms.empty() ? "" : ",") + graph.mesh.getName(axis).str() +
                 "=" + form.str();
    if (forms.empty())
      continue;
    os << "argument " << index << " " << graph.describeArgument(index) << ": "
       << forms << "\n";
  }
}

static void writeRegions(const StepGraph &graph, llvm::raw_ostream &os) {
  for (const RegionChoice &choice : graph.regions)
    if (choice.source > 0)
      os << "operator " << choice.id << " " << nn::EitherOp::getOperationName()
         << ": " << kAgain << " " << choice.source << "\n";
}

static void writeOperators(const StepGraph &graph, bool hasSources,
                           llvm::raw_ostream &os) {
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    bool isSource = graph.getGroups().groupOf[index] < 0;
    if ((isSource && !hasSources) ||
        (llvm::all_of(op.signatures, isFull) && op.source == 0))
      continue;
    os << "operator " << op.id << " " << op.op->getName() << ":";
    if (op.source > 0)
      os << " " << (graph.isFromHost(op, op.source) ? kHost : kAgain) << " "
         << op.source;
    for (auto [axis, signature] : llvm::enumerate(op.signatures))
      if (!isFull(signature))
        os << " " << graph.mesh.getName(axis) << "='" << signature.str() << "'";
    os << "\n";
  }
}

/// Whether it brings back a value that may wait on the host: a part of the
/// step, whatever the plan does.
static bool offersHost(const OpNode &op) {
  return op.op && nn::fetchesValue(op.op);
}

std::string tandem::plan::printPlan(const StepGraph &graph,
                                    const Decisions &decisions) {
  std::string text;
  llvm::raw_string_ostream lines(text);
  lines << "graph " << graph.hash << "\n";
  lines << "mesh " << getMeshText(graph.mesh) << "\nmicro "
        << graph.mesh.getNumStrands() << "\n";
  if (llvm::any_of(graph.ops, offersHost))
    lines << "offer host\n";
  writeDecisions(graph, decisions, lines);
  writeArguments(graph, lines);
  writeOperators(graph, /*hasSources=*/decisions.search.empty(), lines);
  writeRegions(graph, lines);
  return (kHeader + "\n" + text + "end ").str() +
         std::to_string(llvm::count(text, '\n')) + "\n";
}
