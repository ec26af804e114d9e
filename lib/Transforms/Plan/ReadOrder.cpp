//===- ReadOrder.cpp - stages and copies of a record ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReadOrder.h"
#include "CheckCopies.h"
#include "PlanFile.h"
#include <map>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

namespace {
using Entry = PlanRecord::Entry;

constexpr llvm::StringLiteral kAdvice =
    "; leave out 'in ...' to have the slots chosen";

class OrderReader {
public:
  OrderReader(const StepGraph &graph, const OperatorGroups &groups,
              const PlanRecord &record, StringRef file);
  FailureOr<RecordedOrder> run();

private:
  InFlightDiagnostic emitError(const Entry &entry) const {
    return emitLineError(graph, file, entry);
  }
  LogicalResult emitExpected(const Entry &entry, StringRef expected) const;
  FailureOr<std::pair<StringRef, unsigned>>
  parsePlace(const Entry &entry) const;
  FailureOr<CopyText> parseCopied(const Entry &entry) const;
  bool parsePath(StringRef text, CopyText &copy) const;
  LogicalResult readStage(const Entry &entry);
  LogicalResult readCopy(const Entry &entry);
  LogicalResult readWait(const Entry &entry);
  void numberStages();
  const OperatorGroup *getGroup(unsigned op) const;
  unsigned countCollectives(const CopyText &wait) const;
  LogicalResult checkWait(const Entry &entry, const CopyText &wait);
  LogicalResult checkPieces(const Entry &entry, const CopyText &wait);

  const StepGraph &graph;
  const OperatorGroups &groups;
  const PlanRecord &record;
  StringRef file;
  std::map<int64_t, unsigned> byId;
  RecordedOrder order;
  unsigned firstUpdateStage = 0;
};
} // namespace

unsigned RecordedOrder::getIndex(const Extraction::Origin &origin) const {
  using Kind = Extraction::Origin::Kind;
  if (origin.kind == Kind::Argument)
    return origin.index;
  if (origin.kind == Kind::Group)
    return numArguments + origin.index;
  return numArguments + numGroups + origin.index;
}

InFlightDiagnostic tandem::plan::emitLineError(const StepGraph &graph,
                                               StringRef file,
                                               const Entry &entry) {
  func::FuncOp step = graph.step;
  return mlir::emitError(step.getLoc())
         << "plan file '" << file << "', line " << entry.line << ": ";
}

LogicalResult tandem::plan::emitOneStage(const StepGraph &graph, StringRef file,
                                         const Entry &entry, StringRef what) {
  return emitLineError(graph, file, entry)
         << "'" << entry.place << "' " << what
         << " in a plan of one stage, expected lines 'stage'; leave out those "
            "of 'copy' and 'wait', too, to have all chosen";
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

OrderReader::OrderReader(const StepGraph &graph, const OperatorGroups &groups,
                         const PlanRecord &record, StringRef file)
    : graph(graph), groups(groups), record(record), file(file) {
  order.numArguments = graph.arguments.size();
  order.numGroups = groups.groups.size();
  for (auto [index, op] : llvm::enumerate(graph.ops))
    if (auto id = op.op->getAttrOfType<IntegerAttr>(nn::NNDialect::kIdAttrName))
      byId[id.getInt()] = index;
}

LogicalResult OrderReader::emitExpected(const Entry &entry,
                                        StringRef expected) const {
  return emitError(entry) << "found '" << entry.text << "', expected '"
                          << expected << "' with a form for each axis of mesh "
                          << getMeshText(graph.mesh);
}

/// Kind and number; the number of an operator is its index in the graph.
FailureOr<std::pair<StringRef, unsigned>>
OrderReader::parsePlace(const Entry &entry) const {
  auto [kind, text] = StringRef(entry.place).split(' ');
  int64_t number = -1;
  bool isNumber = !text.trim().getAsInteger(10, number);
  if (auto it = byId.find(number); kind == "operator" && it != byId.end())
    return std::make_pair(kind, it->second);
  size_t count = kind == "argument" ? graph.arguments.size()
                 : kind == "result" ? graph.results.size()
                                    : 0;
  if (isNumber && number >= 0 && number < static_cast<int64_t>(count))
    return std::make_pair(kind, static_cast<unsigned>(number));
  return emitError(entry) << "the step has no '" << entry.place
                          << "', expected operator, argument or result and "
                             "its number";
}

/// A copy of the value that a line is about, whose text begins with the
/// result's number.
FailureOr<CopyText> OrderReader::parseCopied(const Entry &entry) const {
  auto place = parsePlace(entry);
  if (failed(place))
    return failure();
  ArrayRef<unsigned> values(place->second);
  if (place->first != "argument")
    values = place->first == "operator"
                 ? ArrayRef<unsigned>(graph.ops[place->second].results)
                 : ArrayRef<unsigned>();
  unsigned result = 0;
  StringRef number = StringRef(entry.text).split(' ').first;
  if (number.getAsInteger(10, result) || result >= values.size())
    return emitError(entry)
           << "'" << entry.place << "' has no result '" << number << "'";
  CopyText copy;
  copy.value = values[result];
  return copy;
}

static std::optional<cost::Layout> parseLayout(StringRef text,
                                               unsigned numAxes) {
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  cost::Layout layout;
  if (parts.size() != numAxes || numAxes > cost::kMaxAxes)
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
bool OrderReader::parsePath(StringRef text, CopyText &copy) const {
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

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

LogicalResult OrderReader::readStage(const Entry &entry) {
  auto place = parsePlace(entry);
  if (failed(place))
    return failure();
  if (!entry.text.empty() && entry.text != kInTurn)
    return emitError(entry) << "found '" << entry.text << "', expected '"
                            << kInTurn << "' or nothing";
  using Kind = Extraction::Origin::Kind;
  Extraction::Origin origin{Kind::Group, place->second};
  if (place->first == "argument")
    origin.kind = Kind::Argument;
  else if (place->first == "result")
    origin.kind = Kind::Result;
  else if (int group = groups.groupOf[place->second]; group >= 0)
    origin.index = group;
  else
    return emitError(entry)
           << "no stage can begin with '" << entry.place << "'";
  unsigned index = order.getIndex(origin);
  if (llvm::is_contained(order.stages, index))
    return emitError(entry) << "a stage begins with '" << entry.place
                            << "' twice, expected it once";
  order.stages.push_back(index);
  return success();
}

LogicalResult OrderReader::readCopy(const Entry &entry) {
  auto copy = parseCopied(entry);
  if (failed(copy))
    return failure();
  auto [name, forms] = StringRef(entry.text).split(' ').second.split(' ');
  copy->isKept = forms.consume_front("kept ");
  const auto *pass = llvm::find(kPassNames, name);
  if (pass == std::end(kPassNames) || !parsePath(forms, *copy) ||
      copy->path.size() < 2)
    return emitExpected(entry, "RESULT PASS [kept] FORMS -> ... -> FORMS");
  copy->pass = static_cast<cost::Pass>(pass - kPassNames);
  order.copies.push_back(std::move(*copy));
  return success();
}

LogicalResult OrderReader::readWait(const Entry &entry) {
  auto wait = parseCopied(entry);
  if (failed(wait))
    return failure();
  wait->waits = true;
  StringRef text = StringRef(entry.text).split(' ').second;
  auto [forms, slots] = text.split(" in ");
  if (!parsePath(forms, *wait) || wait->path.size() > 1)
    return emitExpected(entry, kWaitGrammar);
  if (!slots.empty()) {
    std::optional<PlannedPieces> pieces = parsePieces(slots);
    if (!pieces)
      return emitError(entry)
             << "found 'in " << slots
             << "', expected 'in STAGE/STRAND SHARE, ... [then STAGE/STRAND "
                "SHARE, ...]' with shares that rise to 1 and slots that do not "
                "go back"
             << kAdvice;
    wait->pieces = std::move(*pieces);
  }
  if (failed(checkWait(entry, *wait)))
    return failure();
  order.waits.push_back(std::move(*wait));
  return success();
}

//===----------------------------------------------------------------------===//
// What waits
//===----------------------------------------------------------------------===//

/// Null for sources.
const OperatorGroup *OrderReader::getGroup(unsigned op) const {
  int group = groups.groupOf[op];
  return group < 0 ? nullptr : &groups.groups[group];
}

void OrderReader::numberStages() {
  std::vector<bool> begins(order.numArguments + order.numGroups +
                           graph.results.size());
  for (unsigned index : order.stages)
    begins[index] = true;
  unsigned stage = 0;
  for (bool isFirst : begins)
    order.stageOf.push_back(stage += isFirst);
  for (auto [entry, index] : llvm::zip(record.stages, order.stages))
    if (!entry.text.empty())
      order.inTurn.push_back(order.stageOf[index]);
  auto update = llvm::find_if(groups.groups, [](const auto &group) {
    return group.pass == PassKind::Update;
  });
  firstUpdateStage =
      order.stageOf[order.numArguments + (update - groups.groups.begin())];
}

/// How many collectives lead from the gradient to the copy; a slice sends
/// nothing.
unsigned OrderReader::countCollectives(const CopyText &wait) const {
  unsigned numAxes = graph.mesh.getNumAxes(), count = 0;
  auto path = CopyUses(graph, groups, order)
                  .getPath(wait.value, wait.pass, wait.path.back());
  for (auto [from, to] : llvm::zip(path, ArrayRef(path).drop_front()))
    for (unsigned axis = 0; axis < numAxes; ++axis)
      count += !graph.mesh.isTime(axis) && from[axis] != to[axis] &&
               from[axis] != cost::kFull;
  return count;
}

/// A preset's plan has neither lines of copies nor, where a form changes inside
/// a group, the forms of `graph`; nothing follows what it says of slots.
LogicalResult OrderReader::checkWait(const Entry &entry, const CopyText &wait) {
  if (record.stages.empty())
    return emitOneStage(graph, file, entry, "waits");
  int producer = graph.values[wait.value].producer;
  const OperatorGroup *group = producer < 0 ? nullptr : getGroup(producer);
  if (!group || group->pass == PassKind::Update)
    return emitError(entry) << "'" << entry.place
                            << "' does not wait, expected a gradient, which is "
                               "made before the updates";
  for (const CopyText &other : order.waits)
    if (other.value == wait.value && other.path == wait.path)
      return emitError(entry)
             << "'" << entry.place << "' waits twice, expected one line";
  if (record.search.empty())
    return checkPieces(entry, wait);
  if (!CopyUses(graph, groups, order)
           .findStage(wait.value, wait.pass, wait.path.back()))
    return emitError(entry) << "no update takes '" << entry.place
                            << "' in these forms, expected those of one that "
                               "reads it";
  unsigned count = countCollectives(wait);
  order.lacksPieces |= wait.pieces.size() < count;
  if (wait.pieces.empty() || wait.pieces.size() == count)
    return checkPieces(entry, wait);
  return emitError(entry) << "found slots of " << wait.pieces.size()
                          << ", divided by 'then', expected those of " << count
                          << ", the collectives that lead to these forms"
                          << kAdvice;
}

LogicalResult OrderReader::checkPieces(const Entry &entry,
                                       const CopyText &wait) {
  int group = groups.groupOf[graph.values[wait.value].producer];
  unsigned made = order.stageOf[order.numArguments + group];
  unsigned numStrands = graph.mesh.getNumStrands();
  for (const auto &pieces : wait.pieces)
    for (const PlannedPiece &piece : pieces) {
      if (piece.stage <= made || piece.stage > firstUpdateStage)
        return emitError(entry)
               << "'" << entry.place << "' is sent in stage " << piece.stage
               << ", expected one behind stage " << made
               << ", which makes it, up to stage " << firstUpdateStage
               << " of the first update" << kAdvice;
      unsigned limit = piece.stage == firstUpdateStage ? 1 : numStrands;
      if (piece.strand >= limit)
        return emitError(entry) << "'" << entry.place << "' is sent in strand "
                                << piece.strand << " of stage " << piece.stage
                                << ", expected one below " << limit << kAdvice;
    }
  return success();
}

FailureOr<RecordedOrder> OrderReader::run() {
  for (const Entry &entry : record.stages)
    if (failed(readStage(entry)))
      return failure();
  numberStages();
  for (const Entry &entry : record.copies)
    if (failed(readCopy(entry)))
      return failure();
  if (failed(checkCopies(graph, groups, record, order, file)))
    return failure();
  for (const Entry &entry : record.waits)
    if (failed(readWait(entry)))
      return failure();
  return std::move(order);
}

FailureOr<RecordedOrder> tandem::plan::readOrder(const StepGraph &graph,
                                                 const OperatorGroups &groups,
                                                 const PlanRecord &record,
                                                 StringRef file) {
  return OrderReader(graph, groups, record, file).run();
}

//===----------------------------------------------------------------------===//
// What prices move
//===----------------------------------------------------------------------===//

static std::vector<MovedLine> findMovedCopies(const StepGraph &graph,
                                              const OperatorGroups &groups,
                                              const PlanRecord &record,
                                              const RecordedOrder &order,
                                              const RecordedOrder &costed) {
  std::vector<MovedLine> moved;
  CopyUses uses(graph, groups, costed);
  for (auto [entry, copy] : llvm::zip(record.copies, order.copies)) {
    auto path = uses.getPath(copy.value, copy.pass, copy.path.back());
    if (path == copy.path)
      continue;
    std::string text;
    for (const cost::Layout &forms : path)
      text += (text.empty() ? "is copied by " : " -> ") +
              printForms(forms, graph.mesh.getNumAxes());
    moved.push_back({&entry, text});
  }
  return moved;
}

static void addMovedWaits(const PlanRecord &record, const RecordedOrder &order,
                          const PlanRecord &costedRecord,
                          const RecordedOrder &costed,
                          std::vector<MovedLine> &moved) {
  std::map<std::pair<unsigned, cost::Layout>, unsigned> costedLines;
  for (auto [line, wait] : llvm::enumerate(costed.waits))
    costedLines[{wait.value, wait.path.back()}] = line;
  for (auto [entry, wait] : llvm::zip(record.waits, order.waits)) {
    auto it = costedLines.find({wait.value, wait.path.back()});
    if (it == costedLines.end() || wait.pieces.empty() ||
        wait.pieces == costed.waits[it->second].pieces)
      continue;
    StringRef text = costedRecord.waits[it->second].text;
    moved.push_back({&entry, "is sent in " + text.split(" in ").second.str()});
  }
}

FailureOr<std::vector<MovedLine>>
tandem::plan::findMoved(const StepGraph &graph, const PlanRecord &record,
                        const RecordedOrder &order, const PlanRecord &costed,
                        StringRef file) {
  OperatorGroups groups(graph);
  auto again = readOrder(graph, groups, costed, file);
  if (failed(again))
    return failure();
  auto moved = findMovedCopies(graph, groups, record, order, *again);
  addMovedWaits(record, order, costed, *again, moved);
  return moved;
}
