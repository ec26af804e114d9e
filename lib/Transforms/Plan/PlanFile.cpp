//===- PlanFile.cpp - a plan as text --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanFile.h"
#include "WriteOrder.h"
#include "tandem/Transforms/Plan/Plan.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"
#include <map>
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;
using namespace tandem::spmd;
using namespace tandem::plan;

static constexpr llvm::StringLiteral kHeader = "tandem-plan 2";

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

static bool parseForms(StringRef text, SmallVectorImpl<AxisForm> &forms) {
  SmallVector<StringRef> parts;
  if (!text.trim().empty())
    text.split(parts, ',');
  for (StringRef part : parts) {
    auto form = parseAxisForm(part);
    if (!form)
      return false;
    forms.push_back(*form);
  }
  return true;
}

std::optional<Signature> tandem::plan::parseSignature(StringRef text) {
  size_t arrow = text.find("->");
  Signature signature;
  if (arrow == StringRef::npos ||
      !parseForms(text.take_front(arrow), signature.operands) ||
      !parseForms(text.drop_front(arrow + 2), signature.results))
    return std::nullopt;
  return signature;
}

std::string tandem::plan::hashGraph(ModuleOp module) {
  OwningOpRef<ModuleOp> copy = module.clone();
  copy.get()->setAttrs(DictionaryAttr::get(module.getContext()));
  copy->walk([](Operation *op) {
    op->removeAttr(SPMDDialect::kSignatureAttrName);
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      auto name = StringAttr::get(op->getContext(), kFormAttrName);
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        function.removeArgAttr(i, name);
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        function.removeResultAttr(i, name);
      clearOrder(function);
    }
  });
  std::string text;
  llvm::raw_string_ostream os(text);
  copy->print(os,
              OpPrintingFlags().printGenericOpForm().enableDebugInfo(false));
  auto digest = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  return llvm::toHex(digest, /*LowerCase=*/true);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
/// Finds the last line, `end N`: without it a file that was cut off would be a
/// plan that replicates what is missing.
class EndOfFile {
public:
  /// Takes a line; true if it is the last one.
  bool take(StringRef line) {
    if (!isFound && line.consume_front("end ")) {
      isFound = true;
      isNumber = !line.trim().getAsInteger(10, expected);
      return true;
    }
    ++found;
    last = line;
    isBehind |= isFound;
    return false;
  }
  /// Empty if the file is whole.
  std::string check() const {
    std::string end = "expected a last line 'end " + std::to_string(found) +
                      "', the number of lines before it";
    if (!isFound)
      return "is cut off after '" + last.take_front(40).str() + "', " + end;
    if (isBehind || !isNumber)
      return "has '" + last.take_front(40).str() + "' behind its end, " + end;
    if (expected == found)
      return "";
    return "has " + std::to_string(found) + " lines before its end, but that " +
           "says " + std::to_string(expected) +
           "; if none is missing, change it to 'end " + std::to_string(found) +
           "'";
  }

private:
  bool isFound = false, isNumber = false, isBehind = false;
  unsigned expected = 0, found = 0;
  StringRef last;
};
} // namespace

/// How a record's line of this first word is written.
static StringRef getLineForm(StringRef word) {
  return llvm::StringSwitch<StringRef>(word)
      .Cases({"cost", "bound"}, "SECONDS s")
      .Case("peak", "BYTES B")
      .Case("search", "ALGORITHM")
      .Case("cluster", "NAME")
      .Case("stage", "operator NUMBER")
      .Default("PLACE NUMBER: RESULT ...");
}

FailureOr<PlanFile> tandem::plan::readPlanFile(func::FuncOp step,
                                               StringRef path, StringRef hash) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return emitError(step.getLoc()) << "cannot read the plan file '" << path
                                    << "': " << buffer.getError().message();
  PlanFile file;
  file.path = path.str();
  SmallVector<StringRef> lines;
  (*buffer)->getBuffer().split(lines, '\n');
  if (lines.front().trim() != kHeader)
    return emitError(step.getLoc())
           << "plan file '" << path << "' begins with '"
           << lines.front().trim().take_front(40) << "', expected '" << kHeader
           << "'; save the plan again";
  std::string graph;
  EndOfFile end;
  for (auto [number, raw] : llvm::enumerate(lines)) {
    StringRef line = raw.trim();
    if (number == 0 || line.empty() || line.starts_with("#") || end.take(line))
      continue;
    if (line.consume_front("graph "))
      graph = line.trim().str();
    else if (line.consume_front("mesh "))
      file.mesh = line.trim().str();
    else if (line.consume_front("micro ")) {
      if (line.trim().getAsInteger(10, file.micro))
        return emitError(step.getLoc())
               << "plan file '" << path << "', line " << number + 1
               << ": micro is '" << line.trim() << "', expected a number";
    } else if (auto isRead = parseLine(line, number + 1, file.record)) {
      StringRef word = line.take_until(llvm::isSpace);
      if (!*isRead)
        return emitError(step.getLoc())
               << "plan file '" << path << "', line " << number + 1
               << ": cannot read '" << line.take_front(60) << "', expected '"
               << word << " " << getLineForm(word) << "'";
    } else
      file.lines.push_back({static_cast<unsigned>(number + 1), line.str()});
  }
  if (std::string error = end.check(); !error.empty())
    return emitError(step.getLoc()) << "plan file '" << path << "' " << error;
  if (graph != hash)
    return emitError(step.getLoc())
           << "plan file '" << path << "' was made for the graph "
           << StringRef(graph).take_front(16) << ", but this one is "
           << hash.take_front(16)
           << ": make the plan again, or compile with --recompute as it was "
              "made";
  return file;
}

/// The words behind the number of an argument's line: `parameter layers.0.w1`.
static std::string describeArgument(const StepGraph &graph, unsigned index) {
  func::FuncOp step = graph.step;
  auto role =
      step.getArgAttrOfType<StringAttr>(index, NNDialect::kRoleAttrName);
  return (role.getValue() + " " + graph.arguments[index].name).str();
}

namespace {
/// Applies the lines of a file, one after the other.
class PlanReader {
public:
  PlanReader(StepGraph &graph, const PlanFile &file)
      : graph(graph), file(file) {
    for (auto [index, op] : llvm::enumerate(graph.ops))
      if (auto id = op.op->getAttrOfType<IntegerAttr>(NNDialect::kIdAttrName))
        byId[id.getInt()] = index;
  }
  LogicalResult run();

private:
  InFlightDiagnostic emitError() {
    return mlir::emitError(graph.step.getLoc())
           << "plan file '" << file.path << "', line " << line << ": ";
  }
  LogicalResult checkName(const Twine &place, StringRef found,
                          StringRef expected);
  LogicalResult applyArgument(int64_t number, StringRef name, StringRef forms);
  LogicalResult applyOperator(int64_t id, StringRef name, StringRef signatures);
  LogicalResult checkKernels();
  LogicalResult checkOperand(unsigned op, unsigned operand);
  FailureOr<unsigned> parseAxis(StringRef name);

  StepGraph &graph;
  const PlanFile &file;
  unsigned line = 0;
  std::map<int64_t, unsigned> byId;
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
                       describeArgument(graph, number))))
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
  auto it = byId.find(id);
  if (it == byId.end())
    return emitError() << "the step has no operator " << id;
  OpNode &op = graph.ops[it->second];
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
                         << "' on axis '" << graph.mesh.getName(axis) << "'";
  return success();
}

LogicalResult PlanReader::run() {
  for (const auto &[number, text] : file.lines) {
    line = number;
    auto [head, body] = StringRef(text).split(": ");
    auto [kind, rest] = head.split(' ');
    int64_t id;
    auto [digits, name] = rest.split(' ');
    if (digits.getAsInteger(10, id) ||
        (kind != "argument" && kind != "operator"))
      return emitError() << "'" << StringRef(text).take_front(40)
                         << "', expected 'argument N ...', 'operator N ...', "
                            "'stage ...', 'copy ...', 'wait ...', 'end N', or "
                            "one of graph, mesh, micro, search, pins, cluster, "
                            "cost, "
                            "bound and peak with its value";
    if (body.trim().empty())
      return emitError() << "'" << StringRef(text).take_front(40)
                         << "' has no forms, expected ': ' and what is not "
                            "full; leave the line out if all is";
    if (!seen.insert({kind, id}).second)
      return emitError() << kind << " " << id
                         << " has a line already, expected one";
    if (failed(kind == "argument" ? applyArgument(id, name, body)
                                  : applyOperator(id, name, body)))
      return failure();
  }
  return file.record.search.empty() ? success() : checkKernels();
}

/// An operand that the operator's own kernel makes has the form that is wanted.
LogicalResult PlanReader::checkOperand(unsigned number, unsigned operand) {
  const OpNode &op = graph.ops[number];
  unsigned value = op.operands[operand];
  const OpNode &maker = graph.ops[graph.values[value].producer];
  auto getId = [](const OpNode &node) {
    return node.op->getAttrOfType<IntegerAttr>(NNDialect::kIdAttrName).getInt();
  };
  for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis) {
    AxisForm wanted = op.signatures[axis].operands[operand];
    AxisForm found = graph.getForm(value, axis);
    if (wanted == found)
      continue;
    std::string start = "operator " + std::to_string(getId(op)) + " ";
    for (const auto &[place, text] : file.lines)
      if (StringRef(text).starts_with(start))
        line = place;
    return emitError() << start << op.op->getName() << " takes operand "
                       << operand << " as '" << wanted.str() << "' on axis '"
                       << graph.mesh.getName(axis) << "', but operator "
                       << getId(maker) << " " << maker.op->getName()
                       << " makes it as '" << found.str()
                       << "': one kernel computes both, change them together";
  }
  return success();
}

/// A search gives a kernel one signature, in which nothing changes its form.
LogicalResult PlanReader::checkKernels() {
  OperatorGroups groups(graph);
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

LogicalResult tandem::plan::readSignatures(StepGraph &graph,
                                           const PlanFile &file) {
  return PlanReader(graph, file).run();
}

LogicalResult tandem::plan::applyPlanFile(StepGraph &graph,
                                          const PlanFile &file) {
  if (failed(writeOrder(graph, file.record, file.path)))
    return failure();
  if (!file.record.search.empty())
    placeSources(graph, OperatorGroups(graph));
  return success();
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

std::string tandem::plan::getMeshText(MeshAttr mesh) {
  std::string text;
  for (unsigned axis = 0; axis < mesh.getNumSpaceAxes(); ++axis)
    text += (axis ? "," : "") + mesh.getName(axis).str() + "=" +
            std::to_string(mesh.getSize(axis));
  return text;
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
    os << "argument " << index << " " << describeArgument(graph, index) << ": "
       << forms << "\n";
  }
}

static bool isFull(const Signature &signature) {
  auto full = [](AxisForm form) { return form.isFull(); };
  return llvm::all_of(signature.operands, full) &&
         llvm::all_of(signature.results, full);
}

static void writeOperators(const StepGraph &graph, bool hasSources,
                           llvm::raw_ostream &os) {
  OperatorGroups groups(graph);
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    if (llvm::all_of(op.signatures, isFull) ||
        (groups.groupOf[index] < 0 && !hasSources))
      continue;
    auto id = op.op->getAttrOfType<IntegerAttr>(NNDialect::kIdAttrName);
    os << "operator " << id.getInt() << " " << op.op->getName() << ":";
    for (auto [axis, signature] : llvm::enumerate(op.signatures))
      if (!isFull(signature))
        os << " " << graph.mesh.getName(axis) << "='" << signature.str() << "'";
    os << "\n";
  }
}

LogicalResult tandem::plan::writePlanFile(const StepGraph &graph,
                                          StringRef path, StringRef hash,
                                          const PlanRecord &record) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error, llvm::sys::fs::OF_Text);
  func::FuncOp step = graph.step;
  if (error)
    return emitError(step.getLoc()) << "cannot write the plan file '" << path
                                    << "': " << error.message();
  std::string text;
  llvm::raw_string_ostream lines(text);
  lines << "graph " << hash << "\n";
  lines << "mesh " << getMeshText(graph.mesh) << "\nmicro "
        << graph.mesh.getNumStrands() << "\n";
  print(record, lines);
  writeArguments(graph, lines);
  writeOperators(graph, /*hasSources=*/record.search.empty(), lines);
  os << kHeader << "\n" << text << "end " << llvm::count(text, '\n') << "\n";
  return success();
}
