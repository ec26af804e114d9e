//===- PlanRecord.cpp - what a search decided beside forms ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanRecord.h"
#include "PlanFile.h"
#include "tandem/Cost/Pieces.h"
#include "tandem/Transforms/Plan/Plan.h"
#include "llvm/Support/FormatVariadic.h"
#include <charconv>
#include <cmath>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

static constexpr const char *kPassNames[] = {"forward", "backward", "update"};

static std::string printForms(const cost::Layout &layout, unsigned numAxes) {
  std::string text;
  for (unsigned axis = 0; axis < numAxes; ++axis)
    text += (axis ? ", " : "") + cost::getFormName(layout[axis]);
  return text;
}

/// The shortest text that reads back to the same number.
static std::string printNumber(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

static std::optional<cost::Layout> parseLayout(StringRef text,
                                               unsigned numAxes) {
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  cost::Layout layout;
  if (parts.size() != numAxes)
    return std::nullopt;
  for (auto [axis, part] : llvm::enumerate(parts)) {
    auto form = cost::parseForm(std::string_view(part.trim()));
    if (!form)
      return std::nullopt;
    layout[axis] = *form;
  }
  return layout;
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

static int64_t getId(const OpNode &op) {
  auto id = op.op->getAttrOfType<IntegerAttr>(nn::NNDialect::kIdAttrName);
  return id ? id.getInt() : -1;
}

/// Operators of a problem by the number of what they stand for: an operator of
/// the step stands for its group.
static std::string describePlace(const StepGraph &graph,
                                 const Extraction &extraction, unsigned op) {
  const Extraction::Origin &origin = extraction.origins[op];
  switch (origin.kind) {
  case Extraction::Origin::Kind::Argument:
    return "argument " + std::to_string(origin.index);
  case Extraction::Origin::Kind::Result:
    return "result " + std::to_string(origin.index);
  case Extraction::Origin::Kind::Group:
    break;
  }
  const OperatorGroup &group = extraction.groups.groups[origin.index];
  return "operator " + std::to_string(getId(graph.ops[group.members.front()]));
}

static std::string describeValue(const StepGraph &graph, unsigned value) {
  const ValueNode &node = graph.values[value];
  if (node.producer < 0)
    return "argument " + std::to_string(node.index);
  return "operator " + std::to_string(getId(graph.ops[node.producer]));
}

static unsigned getResultNumber(const StepGraph &graph, unsigned value) {
  const ValueNode &node = graph.values[value];
  return node.producer < 0 ? 0 : node.index;
}

//===----------------------------------------------------------------------===//
// From a plan
//===----------------------------------------------------------------------===//

namespace {
class RecordMaker {
public:
  RecordMaker(const StepGraph &graph, const Extraction &extraction,
              const cost::Plan &plan)
      : graph(graph), extraction(extraction), problem(extraction.problem),
        plan(plan), table(problem), producers(problem.getProducers()) {}
  PlanRecord run();

private:
  cost::Layout getMade(unsigned tensor) const;
  std::string printSequence(const cost::CopyChange &change);
  void addCopy(const cost::CopyChange &change);
  void addWaits();

  const StepGraph &graph;
  const Extraction &extraction;
  const cost::SearchProblem &problem;
  const cost::Plan &plan;
  cost::ChangeTable table;
  std::vector<unsigned> producers;
  PlanRecord record;
};
} // namespace

/// In which the producer leaves the tensor.
cost::Layout RecordMaker::getMade(unsigned tensor) const {
  unsigned producer = producers[tensor];
  const auto &results = problem.operators[producer].results;
  return problem.getSignatures(producer)[plan.signatures[producer]]
      .results[llvm::find(results, tensor) - results.begin()];
}

/// All layouts on the way: `full, gather(0) -> full, full -> gather(1), full`.
std::string RecordMaker::printSequence(const cost::CopyChange &change) {
  unsigned numAxes = graph.mesh.getNumAxes();
  cost::Layout layout = change.from;
  std::string text = printForms(layout, numAxes);
  for (const cost::AxisChange &next :
       table.getSequence(change.copy.tensor, change.from, change.copy.layout)) {
    layout[next.axis] = next.to;
    text += " -> " + printForms(layout, numAxes);
  }
  return text;
}

void RecordMaker::addCopy(const cost::CopyChange &change) {
  const cost::Copy &copy = change.copy;
  cost::Layout made = getMade(copy.tensor);
  int time = problem.getTimeAxis();
  // The sum over time of a gradient is no copy of its own.
  if (copy.pass == cost::Pass::Update && time >= 0 &&
      made[time] == cost::kReduce && copy.layout[time] == cost::kFull)
    made[time] = cost::kFull;
  bool isKept = std::binary_search(plan.kept.begin(), plan.kept.end(), copy);
  bool isDirect =
      table.getSequence(copy.tensor, change.from, copy.layout).size() < 2;
  if (change.from == made && isDirect && !isKept)
    return;
  unsigned value = extraction.values[copy.tensor];
  record.copies.push_back({describeValue(graph, value),
                           std::to_string(getResultNumber(graph, value)) + " " +
                               kPassNames[unsigned(copy.pass)] +
                               (isKept ? " kept " : " ") +
                               printSequence(change)});
}

/// Where each waiting collective is sent, in pieces: `in 3/1 0.25, 4/0 1`; of
/// several, one after the other, `in 3/1 1 then 4/0 1`.
void RecordMaker::addWaits() {
  std::string error;
  auto report = cost::cost(problem, plan, table, error);
  std::vector<std::string> texts(plan.waiting.size());
  std::vector<unsigned> last(plan.waiting.size(), 0);
  if (report)
    for (const auto &piece : cost::cutWaiting(problem, plan, table, *report)) {
      std::string &text = texts[piece.waiting];
      const cost::Step &step = report->steps[piece.step];
      text += text.empty()                             ? " in "
              : last[piece.waiting] < piece.collective ? " then "
                                                       : ", ";
      last[piece.waiting] = piece.collective;
      text += std::to_string(step.stage) + "/" + std::to_string(step.strand) +
              " " + printNumber(piece.end);
    }
  for (auto [copy, text] : llvm::zip(plan.waiting, texts)) {
    unsigned value = extraction.values[copy.tensor];
    record.waits.push_back(
        {describeValue(graph, value),
         std::to_string(getResultNumber(graph, value)) + " " +
             printForms(copy.layout, graph.mesh.getNumAxes()) + text});
  }
}

PlanRecord RecordMaker::run() {
  record.cost = plan.cost;
  record.bound = plan.isOptimal ? plan.cost : plan.lowerBound;
  record.peak = plan.peak;
  for (unsigned end : ArrayRef<unsigned>(plan.stageEnds).drop_back())
    record.stages.push_back({describePlace(graph, extraction, end), ""});
  for (const cost::CopyChange &change : plan.changes)
    addCopy(change);
  addWaits();
  return std::move(record);
}

PlanRecord tandem::plan::makeRecord(const StepGraph &graph,
                                    const Extraction &extraction,
                                    const cost::Plan &plan) {
  return RecordMaker(graph, extraction, plan).run();
}
//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

void tandem::plan::print(const PlanRecord &record, llvm::raw_ostream &os) {
  if (!record.search.empty())
    os << "search " << record.search << "\n";
  if (record.cluster.empty())
    return;
  os << "cluster " << record.cluster << "\ncost " << printNumber(record.cost)
     << " s\n";
  if (record.bound > 0)
    os << "bound " << printNumber(record.bound) << " s\n";
  os << "peak " << record.peak << " B\n";
  for (const auto &entry : record.stages)
    os << "stage " << entry.place << "\n";
  for (const auto &entry : record.copies)
    os << "copy " << entry.place << ": " << entry.text << "\n";
  for (const auto &entry : record.waits)
    os << "wait " << entry.place << ": " << entry.text << "\n";
}

std::optional<bool> tandem::plan::parseLine(StringRef line, unsigned number,
                                            PlanRecord &record) {
  auto [word, rest] = line.split(' ');
  rest = rest.trim();
  auto addEntry = [&](std::vector<PlanRecord::Entry> &entries) {
    auto [place, text] = rest.split(": ");
    entries.push_back({place.trim().str(), text.trim().str(), number});
    return !place.trim().empty();
  };
  if (word == "search" || word == "cluster") {
    (word == "search" ? record.search : record.cluster) = rest.str();
    return !rest.empty();
  }
  if (word == "cost" || word == "bound") {
    double &seconds = word == "cost" ? record.cost : record.bound;
    return rest.consume_back(" s") && !rest.getAsDouble(seconds) &&
           std::isfinite(seconds) && seconds >= 0;
  }
  if (word == "peak")
    return rest.consume_back(" B") && !rest.getAsInteger(10, record.peak);
  if (word == "stage")
    return addEntry(record.stages);
  if (word == "copy")
    return addEntry(record.copies);
  if (word == "wait")
    return addEntry(record.waits);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// To the step
//===----------------------------------------------------------------------===//

PlaceReader::PlaceReader(const StepGraph &graph, StringRef file)
    : graph(graph), file(file) {
  for (auto [index, op] : llvm::enumerate(graph.ops))
    byId[getId(op)] = index;
}

InFlightDiagnostic
PlaceReader::emitError(const PlanRecord::Entry &entry) const {
  func::FuncOp step = graph.step;
  return mlir::emitError(step.getLoc())
         << "plan file '" << file << "', line " << entry.line << ": ";
}

FailureOr<std::pair<StringRef, unsigned>>
PlaceReader::parsePlace(const PlanRecord::Entry &entry) const {
  auto [kind, text] = StringRef(entry.place).split(' ');
  int64_t number = -1;
  bool isNumber = !text.trim().getAsInteger(10, number);
  if (kind == "operator" && byId.contains(number))
    return std::make_pair(kind, byId.lookup(number));
  size_t count = kind == "argument" ? graph.arguments.size()
                 : kind == "result" ? graph.results.size()
                                    : 0;
  if (isNumber && number >= 0 && number < static_cast<int64_t>(count))
    return std::make_pair(kind, static_cast<unsigned>(number));
  return emitError(entry) << "the step has no '" << entry.place
                          << "', expected operator, argument or result and "
                             "its number";
}

FailureOr<unsigned>
PlaceReader::parseValue(const PlanRecord::Entry &entry) const {
  auto place = parsePlace(entry);
  unsigned result = 0;
  if (failed(place))
    return failure();
  if (place->first == "argument")
    return place->second;
  StringRef number = StringRef(entry.text).split(' ').first;
  if (place->first != "operator" || number.getAsInteger(10, result) ||
      result >= graph.ops[place->second].results.size())
    return emitError(entry)
           << "'" << entry.place << "' has no result '" << number << "'";
  return graph.ops[place->second].results[result];
}

LogicalResult PlaceReader::emitExpected(const PlanRecord::Entry &entry,
                                        StringRef expected) const {
  return emitError(entry) << "found '" << entry.text << "', expected '"
                          << expected << "' with a form for each axis of mesh "
                          << getMeshText(graph.mesh);
}

bool PlaceReader::parsePath(StringRef text, CopyText &copy) const {
  SmallVector<StringRef> parts;
  text.split(parts, "->");
  for (StringRef part : parts) {
    auto layout = parseLayout(part, graph.mesh.getNumAxes());
    if (!layout)
      return false;
    copy.path.push_back(*layout);
  }
  return true;
}

FailureOr<CopyText>
PlaceReader::parseCopy(const PlanRecord::Entry &entry) const {
  auto value = parseValue(entry);
  if (failed(value))
    return failure();
  CopyText copy;
  copy.value = *value;
  auto [name, forms] = StringRef(entry.text).split(' ').second.split(' ');
  copy.isKept = forms.consume_front("kept ");
  const auto *pass = llvm::find(kPassNames, name);
  if (pass == std::end(kPassNames) || !parsePath(forms, copy) ||
      copy.path.size() < 2)
    return emitExpected(entry, "RESULT PASS [kept] FORMS -> ... -> FORMS");
  copy.pass = static_cast<cost::Pass>(pass - kPassNames);
  return copy;
}

FailureOr<CopyText>
PlaceReader::parseWait(const PlanRecord::Entry &entry) const {
  auto value = parseValue(entry);
  if (failed(value))
    return failure();
  CopyText copy;
  copy.value = *value;
  StringRef forms = StringRef(entry.text).split(' ').second;
  if (!parsePath(forms.split(" in ").first, copy) || copy.path.size() > 1)
    return emitExpected(entry, "RESULT FORMS [in STAGE/STRAND SHARE, ...]");
  return copy;
}

namespace {
class DecisionReader {
public:
  DecisionReader(const StepGraph &graph, const Extraction &extraction,
                 const PlanRecord &record, StringRef file)
      : extraction(extraction), record(record), places(graph, file) {}
  FailureOr<cost::Plan> run(cost::Plan plan);

private:
  LogicalResult readStage(const PlanRecord::Entry &entry, cost::Plan &plan);
  LogicalResult readCopy(const PlanRecord::Entry &entry, cost::Plan &plan);
  LogicalResult readWait(const PlanRecord::Entry &entry, cost::Plan &plan);
  LogicalResult take(const PlanRecord::Entry &entry, const CopyText &copy,
                     std::vector<cost::Copy> &copies);

  const Extraction &extraction;
  const PlanRecord &record;
  PlaceReader places;
};
} // namespace

LogicalResult DecisionReader::readStage(const PlanRecord::Entry &entry,
                                        cost::Plan &plan) {
  auto place = places.parsePlace(entry);
  if (failed(place))
    return failure();
  using Kind = Extraction::Origin::Kind;
  Kind kind = place->first == "argument" ? Kind::Argument
              : place->first == "result" ? Kind::Result
                                         : Kind::Group;
  unsigned index = place->second;
  if (kind == Kind::Group)
    index = extraction.groups.groupOf[place->second];
  for (auto [op, origin] : llvm::enumerate(extraction.origins))
    if (origin.kind == kind && origin.index == index) {
      plan.stageEnds.push_back(op);
      return success();
    }
  return places.emitError(entry)
         << "no stage can begin with '" << entry.place << "'";
}

LogicalResult DecisionReader::readCopy(const PlanRecord::Entry &entry,
                                       cost::Plan &plan) {
  auto copy = places.parseCopy(entry);
  if (failed(copy))
    return failure();
  // Others follow from prices.
  return copy->isKept ? take(entry, *copy, plan.kept) : success();
}

LogicalResult DecisionReader::readWait(const PlanRecord::Entry &entry,
                                       cost::Plan &plan) {
  auto copy = places.parseWait(entry);
  if (failed(copy))
    return failure();
  // Where it is sent follows from prices.
  return take(entry, *copy, plan.waiting);
}

/// Appends a copy for the last forms on its way.
LogicalResult DecisionReader::take(const PlanRecord::Entry &entry,
                                   const CopyText &copy,
                                   std::vector<cost::Copy> &copies) {
  int tensor = extraction.tensors[copy.value];
  if (tensor < 0)
    return places.emitError(entry)
           << "'" << entry.place << "' is nothing that is copied";
  copies.push_back(
      {static_cast<unsigned>(tensor), copy.path.back(), copy.pass});
  return success();
}

FailureOr<cost::Plan> DecisionReader::run(cost::Plan plan) {
  plan.stageEnds.clear();
  plan.waiting.clear();
  for (const auto &entry : record.stages)
    if (failed(readStage(entry, plan)))
      return failure();
  for (const auto &entry : record.copies)
    if (failed(readCopy(entry, plan)))
      return failure();
  for (const auto &entry : record.waits)
    if (failed(readWait(entry, plan)))
      return failure();
  plan.stageEnds.push_back(extraction.problem.operators.size());
  llvm::sort(plan.stageEnds);
  llvm::sort(plan.kept);
  llvm::sort(plan.waiting);
  return plan;
}

FailureOr<cost::Plan> tandem::plan::readDecisions(const StepGraph &graph,
                                                  const Extraction &extraction,
                                                  const PlanRecord &record,
                                                  StringRef file) {
  std::string error;
  auto plan = convertPlan(graph, extraction, error);
  if (!plan)
    plan = convertSignatures(graph, extraction);
  if (record.stages.empty())
    return *plan;
  return DecisionReader(graph, extraction, record, file).run(*plan);
}
