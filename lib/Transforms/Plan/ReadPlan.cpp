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
/// Reads the lines of a file, one after the other.
class PlanReader {
public:
  PlanReader(StepGraph &graph, PlanFile &file) : graph(graph), file(file) {}
  LogicalResult run();

private:
  InFlightDiagnostic emitError() {
    return emitLineError(graph, file.path, line);
  }
  LogicalResult checkName(const Twine &place, StringRef found,
                          StringRef expected);
  LogicalResult applyArgument(int64_t number, StringRef name, StringRef forms);
  LogicalResult applyOperator(int64_t id, StringRef name, StringRef signatures);
  LogicalResult readForms(StringRef text);
  LogicalResult checkKernels();
  LogicalResult checkOperand(unsigned op, unsigned operand);
  FailureOr<unsigned> parseAxis(StringRef name);

  StepGraph &graph;
  PlanFile &file;
  unsigned line = 0;
  std::set<std::pair<StringRef, int64_t>> seen;
};
} // namespace

FailureOr<unsigned> PlanReader::parseAxis(StringRef name) {
  if (auto axis = graph.mesh.lookup(name.trim()))
    return *axis;
  return emitError() << "the mesh has no axis '" << name.trim() << "'";
}

/// A line that was changed by hand, but not its number, or the other way round,
/// would change something else than was meant.
LogicalResult PlanReader::checkName(const Twine &place, StringRef found,
                                    StringRef expected) {
  if (found.trim() == expected)
    return success();
  return emitError() << place << " is '" << found.trim() << "', expected '"
                     << expected << "', which has this number in the step";
}

LogicalResult PlanReader::applyArgument(int64_t number, StringRef name,
                                        StringRef forms) {
  if (number < 0 || number >= static_cast<int64_t>(graph.arguments.size()))
    return emitError() << "the step has no argument " << number
                       << ", expected one below " << graph.arguments.size();
  if (failed(checkName("argument " + Twine(number), name,
                       graph.describeArgument(number))))
    return failure();
  SmallVector<StringRef> parts;
  forms.split(parts, ',');
  for (StringRef part : parts) {
    auto [name, text] = part.split('=');
    FailureOr<unsigned> axis = parseAxis(name);
    if (failed(axis))
      return failure();
    auto form = parseAxisForm(text);
    if (!form || form->isReduce())
      return emitError() << "'" << text << "' is no stored form";
    std::string reason;
    if (!graph.canStore(number, *axis, *form, &reason))
      return emitError() << reason;
    graph.arguments[number].forms[*axis] = *form;
  }
  return success();
}

LogicalResult PlanReader::applyOperator(int64_t id, StringRef kind,
                                        StringRef signatures) {
  std::optional<unsigned> index = graph.findOperator(id);
  if (!index)
    return emitError() << "the step has no operator " << id;
  OpNode &op = graph.ops[*index];
  if (failed(checkName("operator " + Twine(id), kind,
                       op.op->getName().getStringRef())))
    return failure();
  while (!signatures.trim().empty()) {
    auto [name, rest] = signatures.split('=');
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
LogicalResult PlanReader::readForms(StringRef text) {
  auto [head, body] = text.split(": ");
  auto [kind, rest] = head.split(' ');
  int64_t id;
  auto [digits, name] = rest.split(' ');
  if (digits.getAsInteger(10, id) || (kind != "argument" && kind != "operator"))
    return emitError() << "'" << text.take_front(40)
                       << "', expected 'argument N ...', 'operator N ...', "
                          "'stage ...', 'copy ...', 'wait ...', 'end N', or "
                          "one of graph, mesh, micro, search, pins, cluster, "
                          "cost, bound and peak with its value";
  if (body.trim().empty())
    return emitError() << "'" << text.take_front(40)
                       << "' has no forms, expected ': ' and what is not full; "
                          "leave the line out if all is";
  if (!seen.insert({kind, id}).second)
    return emitError() << kind << " " << id
                       << " has a line already, expected one";
  return kind == "argument" ? applyArgument(id, name, body)
                            : applyOperator(id, name, body);
}

LogicalResult PlanReader::run() {
  Decisions &decisions = file.decisions;
  // Kernels and stages are those of the pins under which it was found.
  if (auto pinned = tryPins(graph, decisions.pins))
    graph.shareGroups(*pinned);
  for (const auto &[number, text] : file.lines) {
    line = number;
    auto [word, rest] = StringRef(text).split(' ');
    bool isOrder = word == "stage" || word == "copy" || word == "wait";
    if (failed(isOrder ? parseDecision(graph, word, rest, line, file.path,
                                       decisions)
                       : readForms(text)))
      return failure();
  }
  if (!decisions.search.empty() && failed(checkKernels()))
    return failure();
  return checkDecisions(graph, decisions, file.path);
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

LogicalResult tandem::plan::readPlan(StepGraph &graph, PlanFile &file) {
  return PlanReader(graph, file).run();
}
