//===- ReadPlan.cpp - the lines of a plan file ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckDecisions.h"
#include "PlanFile.h"
#include "Presets.h"
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

namespace {
/// Reads the lines of a file, one after the other: `HEAD: BODY`.
class PlanReader {
public:
  PlanReader(StepGraph &graph, PlanFile &file) : graph(graph), file(file) {}
  LogicalResult run();

private:
  /// Kind and number; the number of an operator is its index in the graph.
  using Place = std::pair<StringRef, unsigned>;

  InFlightDiagnostic emitError() {
    return emitLineError(graph, file.path, line);
  }
  FailureOr<unsigned> parseAxis(StringRef name);
  FailureOr<Place> parsePlace(StringRef text);
  FailureOr<unsigned> parseValue(StringRef place);
  LogicalResult readLine(StringRef text);
  FailureOr<bool> readRegion(StringRef text,
                             SmallVectorImpl<unsigned> &sources);
  FailureOr<llvm::DenseSet<unsigned>> readRegions();
  LogicalResult readForms(StringRef text, StringRef kind, StringRef rest);
  InFlightDiagnostic emitName(StringRef kind, StringRef digits, StringRef found,
                              StringRef expected);
  InFlightDiagnostic emitTwice(StringRef kind, StringRef digits);
  LogicalResult checkName(Place place, StringRef digits, StringRef found);
  LogicalResult applyArgument(unsigned number, StringRef forms);
  FailureOr<unsigned> parseSource(StringRef start, StringRef &text,
                                  unsigned numSources);
  LogicalResult applySource(OpNode &op, StringRef &text);
  LogicalResult applyOperator(unsigned number, StringRef signatures);
  LogicalResult emitExpected(StringRef found, StringRef expected);
  LogicalResult readStage(StringRef place);
  LogicalResult readCopy(StringRef place);
  LogicalResult readWait(StringRef place);
  LogicalResult checkKernels();
  LogicalResult checkOperand(unsigned op, unsigned operand);

  StepGraph &graph;
  PlanFile &file;
  unsigned line = 0;
  /// Of the line.
  StringRef body;
  std::set<Place> seen;
};
} // namespace

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

FailureOr<unsigned> PlanReader::parseAxis(StringRef name) {
  if (auto axis = graph.mesh.lookup(name.trim()))
    return *axis;
  return emitError() << "the mesh has no axis '" << name.trim() << "'";
}

FailureOr<PlanReader::Place> PlanReader::parsePlace(StringRef text) {
  auto [kind, digits] = text.split(' ');
  int64_t number = -1;
  bool isNumber = !digits.trim().getAsInteger(10, number);
  if (kind == "operator" && isNumber)
    if (auto op = graph.findOperator(number))
      return Place(kind, *op);
  size_t count = kind == "argument" ? graph.arguments.size()
                 : kind == "result" ? graph.results.size()
                                    : 0;
  if (isNumber && number >= 0 && number < static_cast<int64_t>(count))
    return Place(kind, number);
  auto error = emitError() << "the step has no '" << text << "', expected ";
  if (count)
    return error << "one below " << count;
  return error << "operator, argument or result and its number";
}

/// The value that a line is about, whose body begins with the result's number.
FailureOr<unsigned> PlanReader::parseValue(StringRef place) {
  auto found = parsePlace(place);
  if (failed(found))
    return failure();
  SmallVector<unsigned, 4> values;
  if (found->first == "argument")
    values.push_back(found->second);
  else if (found->first == "operator")
    values = graph.ops[found->second].results;
  unsigned result = 0;
  StringRef number;
  std::tie(number, body) = body.split(' ');
  if (!number.getAsInteger(10, result) && result < values.size())
    return values[result];
  return emitError() << "'" << place << "' has no result '" << number << "'";
}

//===----------------------------------------------------------------------===//
// Forms and signatures
//===----------------------------------------------------------------------===//

InFlightDiagnostic PlanReader::emitName(StringRef kind, StringRef digits,
                                        StringRef found, StringRef expected) {
  return emitError() << kind << " " << digits << " is '" << found.trim()
                     << "', expected '" << expected
                     << "', which has this number in the step";
}

InFlightDiagnostic PlanReader::emitTwice(StringRef kind, StringRef digits) {
  return emitError() << kind << " " << digits
                     << " has a line already, expected one";
}

/// A line that was changed by hand, but not its number, or the other way round,
/// would change something else than was meant.
LogicalResult PlanReader::checkName(Place place, StringRef digits,
                                    StringRef found) {
  auto [kind, number] = place;
  std::string expected =
      kind == "argument" ? graph.describeArgument(number)
                         : graph.ops[number].op->getName().getStringRef().str();
  if (found.trim() == expected)
    return success();
  return emitName(kind, digits, found, expected);
}

LogicalResult PlanReader::applyArgument(unsigned number, StringRef forms) {
  SmallVector<StringRef> parts;
  forms.split(parts, ',');
  for (StringRef part : parts) {
    auto [name, text] = part.split('=');
    FailureOr<unsigned> axis = parseAxis(name);
    if (failed(axis))
      return failure();
    auto form = parseAxisForm(text);
    if (!form || form->isReduce() || form->isAt())
      return emitError() << "'" << text << "' is no stored form";
    std::string reason;
    if (!graph.canStore(number, *axis, *form, &reason))
      return emitError() << reason;
    graph.arguments[number].forms[*axis] = *form;
  }
  return success();
}

/// Takes the number of `again N`, of a choice of so many sources.
FailureOr<unsigned> PlanReader::parseSource(StringRef start, StringRef &text,
                                            unsigned numSources) {
  auto [digits, rest] = text.ltrim().split(' ');
  unsigned source = 0;
  if (digits.getAsInteger(10, source) || source == 0 || source >= numSources)
    return emitError() << start << " " << digits
                       << "', expected the number of one of its operands, from "
                          "1 to "
                       << numSources - 1;
  text = rest.ltrim();
  return source;
}

/// Takes `again N` or `host N` from the front of what a line says of a choice.
LogicalResult PlanReader::applySource(OpNode &op, StringRef &text) {
  StringRef word = text.starts_with(kHost) ? kHost : kAgain;
  if (!text.consume_front(word))
    return success();
  std::string start = "operator " + std::to_string(op.id) + " " +
                      op.op->getName().getStringRef().str() + " takes '" +
                      word.str();
  if (!op.isEither())
    return emitError() << start << "', expected it for '"
                       << nn::EitherOp::getOperationName() << "' only";
  FailureOr<unsigned> source = parseSource(start, text, op.operands.size());
  if (failed(source))
    return failure();
  op.source = *source;
  StringRef expected = graph.isFromHost(op, *source) ? kHost : kAgain;
  if (word != expected)
    return emitError() << start << " " << *source << "', expected '" << expected
                       << " " << *source << "' for this operand";
  return success();
}

LogicalResult PlanReader::applyOperator(unsigned number, StringRef signatures) {
  OpNode &op = graph.ops[number];
  if (failed(applySource(op, signatures)))
    return failure();
  while (!signatures.trim().empty()) {
    auto [name, rest] = signatures.split('=');
    if (op.isEither() && !graph.mesh.lookup(name.trim()))
      return emitError() << "found '" << name.trim() << "', expected '"
                         << kAgain << " N' or '" << kHost
                         << " N', or an axis of mesh "
                         << getMeshText(graph.mesh) << " with its signature";
    FailureOr<unsigned> axis = parseAxis(name);
    if (failed(axis))
      return failure();
    rest.consume_front("'");
    auto [text, more] = rest.split('\'');
    auto signature = parseSignature(text);
    if (!signature || signature->operands.size() != op.operands.size() ||
        signature->results.size() != op.results.size())
      return emitError() << "'" << text << "' is no signature of "
                         << op.op->getName().getStringRef() << " with "
                         << op.operands.size() << " operands and "
                         << op.results.size() << " results";
    op.signatures[*axis] = *signature;
    signatures = more;
  }
  Rule rule = op.rule;
  for (unsigned axis : graph.mesh.getLayoutOrder())
    if (failed(rule.split(op.signatures[axis], graph.mesh.getSize(axis))))
      return emitError() << op.op->getName().getStringRef()
                         << " has no signature '" << op.signatures[axis].str()
                         << "' on axis '" << graph.mesh.getName(axis) << "'"
                         << rule.explain(op.signatures[axis]);
  return success();
}

/// A line of an argument or an operator.
LogicalResult PlanReader::readForms(StringRef text, StringRef kind,
                                    StringRef rest) {
  auto [digits, name] = rest.split(' ');
  if (kind != "argument" && kind != "operator")
    return emitError() << "'" << text.take_front(40)
                       << "', expected 'argument N ...', 'operator N ...', "
                          "'stage ...', 'copy ...', 'wait ...', 'end N', or "
                          "one of graph, mesh, micro, search, pins, cluster, "
                          "cost, bound, peak, pipeline, section, order and "
                          "row with its value";
  if (body.empty())
    return emitError() << "'" << text.take_front(40)
                       << "' has no forms, expected ': ' and what is not full; "
                          "leave the line out if all is";
  auto place = parsePlace(text.take_front(kind.size() + 1 + digits.size()));
  if (failed(place))
    return failure();
  if (!seen.insert(*place).second)
    return emitTwice(kind, digits);
  if (failed(checkName(*place, digits, name)))
    return failure();
  return kind == "argument" ? applyArgument(place->second, body)
                            : applyOperator(place->second, body);
}

/// An operand that the operator's own kernel makes has the form that is wanted.
LogicalResult PlanReader::checkOperand(unsigned number, unsigned operand) {
  const OpNode &op = graph.ops[number];
  unsigned value = op.operands[operand];
  const OpNode &maker = graph.ops[graph.values[value].producer];
  for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis) {
    AxisForm wanted = op.signatures[axis].operands[operand];
    AxisForm found = graph.getForm(value, axis);
    if (wanted == found)
      continue;
    std::string start = "operator " + std::to_string(op.id) + " ";
    for (const auto &[place, text] : file.lines)
      if (StringRef(text).starts_with(start))
        line = place;
    return emitError() << start << op.op->getName() << " takes operand "
                       << operand << " as '" << wanted.str() << "' on axis '"
                       << graph.mesh.getName(axis) << "', but operator "
                       << maker.id << " " << maker.op->getName()
                       << " makes it as '" << found.str()
                       << "': one kernel computes both, change them together";
  }
  return success();
}

/// A search gives a kernel one signature, in which nothing changes its form.
LogicalResult PlanReader::checkKernels() {
  const OperatorGroups &groups = graph.getGroups();
  for (const OperatorGroup &group : groups.groups)
    for (unsigned member : group.members)
      for (auto [index, value] : llvm::enumerate(graph.ops[member].operands)) {
        int maker = graph.values[value].producer;
        if (maker >= 0 && !groups.isSource[value] &&
            groups.groupOf[maker] == groups.groupOf[member] &&
            failed(checkOperand(member, index)))
          return failure();
      }
  return success();
}

//===----------------------------------------------------------------------===//
// Stages, copies and what waits
//===----------------------------------------------------------------------===//

LogicalResult PlanReader::emitExpected(StringRef found, StringRef expected) {
  return emitError() << "found '" << found << "', expected '" << expected
                     << "' with a form for each axis of mesh "
                     << getMeshText(graph.mesh);
}

LogicalResult PlanReader::readStage(StringRef place) {
  auto found = parsePlace(place);
  if (failed(found))
    return failure();
  auto isOne = [](StringRef word) { return word == kInTurn || word == kAhead; };
  auto [first, second] = body.split(", ");
  if ((!body.empty() && !isOne(first)) ||
      (body.contains(',') && (!isOne(second) || first == second)))
    return emitError() << "found '" << body << "', expected '" << kAhead
                       << "', '" << kInTurn << "', both or nothing";
  Part part{Part::Kind::Group, found->second};
  if (found->first == "argument")
    part.kind = Part::Kind::Argument;
  else if (found->first == "result")
    part.kind = Part::Kind::Result;
  else if (int group = graph.getGroups().groupOf[found->second]; group >= 0)
    part.index = group;
  else
    return emitError() << "no stage can begin with '" << place << "'";
  auto says = [&](StringRef word) { return first == word || second == word; };
  file.decisions.stages.push_back({part, says(kInTurn), says(kAhead), line});
  return success();
}

LogicalResult PlanReader::readCopy(StringRef place) {
  StringRef whole = body;
  auto value = parseValue(place);
  if (failed(value))
    return failure();
  auto copy = spmd::parseCopy(body);
  if (!copy || copy->path.front().size() != graph.mesh.getNumAxes())
    return emitExpected(whole, kCopyGrammar);
  file.decisions.copies.push_back({*value, *nn::symbolizePassKind(copy->pass),
                                   copy->isKept, copy->path, line});
  return success();
}

LogicalResult PlanReader::readWait(StringRef place) {
  StringRef whole = body;
  auto value = parseValue(place);
  if (failed(value))
    return failure();
  StringRef wrong;
  auto wait = spmd::parseWait(body, &wrong);
  if (!wrong.empty())
    return emitError()
           << "found 'in " << wrong
           << "', expected 'in STAGE/STRAND SHARE, ... [then STAGE/STRAND "
              "SHARE, ...]' with shares that rise to 1 and slots that do not "
              "go back; leave out 'in ...' to have the slots chosen";
  if (!wait || wait->forms.size() != graph.mesh.getNumAxes())
    return emitExpected(whole, kWaitGrammar);
  file.decisions.waits.push_back({*wait, *value, line});
  return success();
}

//===----------------------------------------------------------------------===//
// All lines
//===----------------------------------------------------------------------===//

LogicalResult PlanReader::readLine(StringRef text) {
  auto [head, behind] = text.split(": ");
  auto [word, rest] = head.split(' ');
  body = behind.trim();
  if (word == "stage")
    return readStage(rest.trim());
  if (word == "copy")
    return readCopy(rest.trim());
  return word == "wait" ? readWait(rest.trim()) : readForms(text, word, rest);
}

/// Reads the line of a region's choice. False if it is another line.
FailureOr<bool> PlanReader::readRegion(StringRef text,
                                       SmallVectorImpl<unsigned> &sources) {
  auto [head, rest] = text.split(": ");
  auto [digits, name] = head.split(' ').second.split(' ');
  int64_t id = -1;
  if (!head.starts_with("operator ") || digits.getAsInteger(10, id))
    return false;
  auto choice = llvm::find_if(
      graph.regions, [&](const RegionChoice &each) { return each.id == id; });
  if (choice == graph.regions.end())
    return false;
  unsigned &source = sources[choice - graph.regions.begin()];
  if (source > 0)
    return emitTwice("operator", digits);
  StringRef expected = nn::EitherOp::getOperationName();
  if (name.trim() != expected)
    return emitName("operator", digits, name, expected);
  rest = rest.trim();
  if (!rest.consume_front(kAgain))
    return emitError() << "found '" << rest << "', expected '" << kAgain
                       << " N'";
  std::string start = (head + " takes '" + kAgain).str();
  auto found = parseSource(start, rest, choice->op->getNumOperands());
  if (failed(found))
    return failure();
  if (!rest.empty())
    return emitError() << "found '" << rest << "' behind '" << kAgain << " "
                       << *found << "', expected nothing";
  source = *found;
  return true;
}

/// What regions' choices take says what the graph has. A choice without a line
/// takes what is saved.
FailureOr<llvm::DenseSet<unsigned>> PlanReader::readRegions() {
  SmallVector<unsigned> sources(graph.regions.size());
  llvm::DenseSet<unsigned> found;
  for (const auto &[number, text] : file.lines) {
    line = number;
    FailureOr<bool> isRegion = readRegion(text, sources);
    if (failed(isRegion))
      return failure();
    if (*isRegion)
      found.insert(number);
  }
  if (sources != graph.getRegionSources())
    graph = graph.withSources(sources);
  return found;
}

LogicalResult PlanReader::run() {
  Decisions &decisions = file.decisions;
  auto regions = readRegions();
  if (failed(regions))
    return failure();
  // Kernels and stages are those of the pins under which it was found.
  std::string why;
  auto pinned = tryPins(graph, decisions.pins, &why);
  if (!pinned)
    return emitLineError(graph, file.path, file.pinsLine)
           << why << ": correct the pin, or make the plan again";
  graph.shareGroups(*pinned);
  for (auto [own, other] : llvm::zip_equal(graph.values, pinned->values))
    own.isOnHost = other.isOnHost;
  for (const auto &[number, text] : file.lines) {
    line = number;
    if (!regions->contains(number) && failed(readLine(text)))
      return failure();
  }
  graph.findLeftOut();
  if (!decisions.search.empty() && failed(checkKernels()))
    return failure();
  return checkDecisions(graph, decisions, file.path);
}

LogicalResult tandem::plan::readPlan(StepGraph &graph, PlanFile &file) {
  return PlanReader(graph, file).run();
}
