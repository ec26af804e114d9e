//===- PrintPlan.cpp - the plan as a table --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Changes.h"
#include "OperatorGroups.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/UserLocation.h"
#include "tandem/Transforms/Plan/Plan.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"
#include <map>

namespace tandem {
#define GEN_PASS_DEF_PRINTPLANPASS
#include "tandem/Transforms/Plan/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string formatCount(double count, ArrayRef<const char *> units,
                               double base) {
  size_t unit = 0;
  while (count >= base && unit + 1 < units.size()) {
    count /= base;
    ++unit;
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::format(unit == 0 ? "%.0f %s" : "%.1f %s", count, units[unit]);
  return text;
}

static std::string formatBytes(double bytes) {
  return formatCount(bytes, {"B", "KiB", "MiB", "GiB", "TiB"}, 1024);
}

static std::string formatFlops(double flops) {
  return formatCount(flops, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"}, 1000);
}

static std::string formatForms(MeshAttr mesh, ArrayRef<AxisForm> forms) {
  std::string text;
  for (auto [axis, form] : llvm::enumerate(forms))
    if (!form.isFull())
      text += (text.empty() ? "" : ", ") + mesh.getName(axis).str() + ": " +
              form.str();
  return text.empty() ? "full" : text;
}

/// `layers.3.w1` -> `layers.*.w1`: equal layers share a line.
static std::string getPattern(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  std::string text;
  for (auto [index, part] : llvm::enumerate(parts)) {
    unsigned number;
    text += index ? "." : "";
    text += part.getAsInteger(10, number) ? part.str() : "*";
  }
  return text;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {
class PlanTable {
public:
  PlanTable(const StepGraph &graph, llvm::raw_ostream &os)
      : graph(graph), mesh(graph.mesh), changes(findChanges(graph)), os(os) {}
  void print();

private:
  struct Sum {
    int64_t count = 0;
    double bytes = 0;
    double share = 0;
  };
  /// In the order in which they come up.
  using Lines =
      llvm::MapVector<std::string, Sum, std::map<std::string, unsigned>>;

  void printArguments();
  void printUndivided();
  void printActivations();
  void printCollectives();
  void printWhole(unsigned axis);
  void printJoins();
  void title(const Twine &text) { os << "\n" << text << "\n"; }
  std::string getUser(const Change &change) const;
  std::string getKind(const Change &change) const;
  bool couldBeSplit(const OpNode &op, unsigned axis) const;

  const StepGraph &graph;
  MeshAttr mesh;
  std::vector<Change> changes;
  llvm::raw_ostream &os;
};
} // namespace

void PlanTable::printArguments() {
  title("Stored tensors: global and per-rank bytes");
  Lines lines;
  for (const ArgumentNode &node : graph.arguments) {
    if (node.type.getRank() == 0)
      continue;
    bool isNamed = node.role == Role::Parameter || node.role == Role::State ||
                   node.role == Role::Input;
    std::string role = stringifyRole(isNamed ? node.role : Role::Buffer).str();
    Sum &sum =
        lines[role + " " + getPattern(node.name) + " " + printShape(node.type) +
              "  " + formatForms(mesh, node.forms)];
    double parts = 1;
    for (unsigned axis = 0; axis < mesh.getNumSpaceAxes(); ++axis)
      parts *= node.forms[axis].isGather() ? mesh.getSize(axis) : 1;
    sum.count += 1;
    sum.bytes += getBytes(node.type);
    sum.share += getBytes(node.type) / parts;
  }
  for (auto &[text, sum] : lines)
    os << "  " << sum.count << "x " << text << "  " << formatBytes(sum.bytes)
       << " -> " << formatBytes(sum.share) << "\n";
}

/// Parameters that no axis could split where it splits others.
void PlanTable::printUndivided() {
  for (unsigned axis = 0; axis < mesh.getNumSpaceAxes(); ++axis) {
    auto isSplit = [&](const ArgumentNode &node) {
      return node.role == Role::Parameter && node.forms[axis].isGather();
    };
    if (llvm::none_of(graph.arguments, isSplit))
      continue;
    for (auto [index, node] : llvm::enumerate(graph.arguments)) {
      if (node.role == Role::Parameter &&
          graph.listStorable(index, axis).size() == 1)
        os << "  whole on axis '" << mesh.getName(axis) << "' of size "
           << mesh.getSize(axis)
           << ", since no dimension divides: " << node.name << " "
           << printShape(node.type) << "\n";
    }
  }
}

void PlanTable::printActivations() {
  title("Activations and gradients: tensors made, by form");
  Lines lines;
  for (auto [index, node] : llvm::enumerate(graph.values)) {
    if (node.producer < 0 || graph.getGroups().isSource[index] ||
        graph.ops[node.producer].isView ||
        graph.ops[node.producer].pass == PassKind::Update)
      continue;
    Sum &sum = lines[stringifyPassKind(graph.ops[node.producer].pass).str() +
                     "  " + formatForms(mesh, graph.getForms(index))];
    sum.count += 1;
    sum.bytes += getBytes(node.value.getType());
  }
  for (auto &[text, sum] : lines)
    os << "  " << sum.count << "x " << text << "  " << formatBytes(sum.bytes)
       << "\n";
}

std::string PlanTable::getKind(const Change &change) const {
  const ValueNode &value = graph.values[change.value];
  if (cast<RankedTensorType>(value.value.getType()).getRank() == 0)
    return "scalar";
  int argument = value.viewOf;
  if (argument >= 0 && graph.arguments[argument].role == Role::Parameter)
    return "parameter";
  if (change.pass == PassKind::Update && value.producer >= 0 &&
      graph.ops[value.producer].pass == PassKind::Update)
    return "updated value";
  return change.pass == PassKind::Update ? "gradient" : "activation";
}

void PlanTable::printCollectives() {
  title("Collectives per step: pass, kind, axis, tensors, number, bytes");
  Lines lines;
  Sum total;
  for (const Change &change : changes) {
    if (!change.isCommunication(mesh))
      continue;
    for (Sum *sum :
         {&total,
          &lines[stringifyPassKind(change.pass).str() + "  " +
                 getChangeName(change).str() + "  " +
                 mesh.getName(change.axis).str() + "  " + getKind(change)]}) {
      sum->count += change.count;
      sum->bytes += change.count * change.bytes;
    }
  }
  for (auto &[text, sum] : lines)
    os << "  " << text << "  " << sum.count << "x  " << formatBytes(sum.bytes)
       << "\n";
  os << "  total  " << total.count << "x  " << formatBytes(total.bytes) << "\n";
}

bool PlanTable::couldBeSplit(const OpNode &op, unsigned axis) const {
  auto isGather = [](AxisForm form) { return form.isGather(); };
  if (isSplit(op.signatures[axis]))
    return false;
  Rule rule = op.rule;
  for (unsigned other : mesh.getLayoutOrder())
    if (other != axis &&
        failed(rule.split(op.signatures[other], mesh.getSize(other))))
      return false;
  return llvm::any_of(rule.enumerate(mesh.getSize(axis)),
                      [&](const Signature &signature) {
                        return llvm::any_of(signature.operands, isGather);
                      });
}

void PlanTable::printWhole(unsigned axis) {
  Lines groups;
  for (const OpNode &op : graph.ops) {
    if (op.flops == 0 || !couldBeSplit(op, axis))
      continue;
    double flops = op.flops;
    for (unsigned other = 0; other < mesh.getNumSpaceAxes(); ++other)
      if (llvm::any_of(op.signatures[other].operands,
                       [](AxisForm form) { return form.isGather(); }))
        flops /= mesh.getSize(other);
    Sum &sum = groups[stringifyPassKind(op.pass).str() + "  " +
                      op.op->getName().getStringRef().str() + "  " +
                      getUserLocation(op.op->getLoc())];
    sum.count += 1;
    sum.bytes += flops;
  }
  auto lines = groups.takeVector();
  llvm::sort(lines, [](const auto &lhs, const auto &rhs) {
    return std::tie(rhs.second.bytes, lhs.first) <
           std::tie(lhs.second.bytes, rhs.first);
  });
  title("Computed whole on every rank of axis '" + mesh.getName(axis) +
        "' though it could be split: " + Twine(lines.size()) + " kinds");
  for (auto &[text, sum] : lines)
    os << "  " << text << "  " << sum.count << "x  " << formatFlops(sum.bytes)
       << "\n";
}

std::string PlanTable::getUser(const Change &change) const {
  if (change.user == graph.ops.size())
    return "the results of the step";
  Operation *op = graph.ops[change.user].op;
  std::string text = op->getName().getStringRef().str();
  if (std::optional<int64_t> id = nn::getId(op))
    text += " " + std::to_string(*id);
  return text + "  " + getUserLocation(op->getLoc());
}

void PlanTable::printJoins() {
  if (mesh.getNumTimeAxes() == 0)
    return;
  title("Operators where the strands join");
  for (const Change &change : changes)
    if (change.isJoin(mesh))
      os << "  " << stringifyPassKind(change.pass) << "  " << change.from.str()
         << " -> " << change.to.str() << "  "
         << printShape(cast<RankedTensorType>(
                graph.values[change.value].value.getType()))
         << "  before " << getUser(change) << "\n";
}

void PlanTable::print() {
  os << "Plan for the mesh";
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
    os << (axis ? ", " : " ") << mesh.getName(axis) << "="
       << mesh.getSize(axis);
  os << "\n";
  printArguments();
  printUndivided();
  printActivations();
  printCollectives();
  for (unsigned axis = 0; axis < mesh.getNumSpaceAxes(); ++axis)
    if (mesh.getSize(axis) > 1)
      printWhole(axis);
  printJoins();
}

void tandem::printPlanTable(ModuleOp module, llvm::raw_ostream &os) {
  StepGraph graph = readPlannedGraph(module);
  PlanTable(graph, os).print();
}

namespace {
struct PrintPlanPass : tandem::impl::PrintPlanPassBase<PrintPlanPass> {
  void runOnOperation() override {
    printPlanTable(getOperation(), llvm::errs());
    markAllAnalysesPreserved();
  }
};
} // namespace
