//===- Presets.cpp - what plan presets ask of each axis -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Presets.h"
#include "ExtractProblem.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Search/Descent.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

//===----------------------------------------------------------------------===//
// Presets to axes
//===----------------------------------------------------------------------===//

namespace {
enum class AxisPreset {
  Replicate,
  DataParallel,
  Zero,
  TensorParallel,
  ExpertParallel
};
} // namespace

static std::optional<AxisPreset> parsePreset(StringRef name) {
  return llvm::StringSwitch<std::optional<AxisPreset>>(name)
      .Case("replicate", AxisPreset::Replicate)
      .Case("data-parallel", AxisPreset::DataParallel)
      .Case("zero", AxisPreset::Zero)
      .Case("tensor-parallel", AxisPreset::TensorParallel)
      .Case("expert-parallel", AxisPreset::ExpertParallel)
      .Default(std::nullopt);
}

/// The axis that `preset` splits; on a mesh with one space axis, that one.
static std::optional<unsigned> findMainAxis(MeshAttr mesh, AxisPreset preset) {
  if (mesh.getNumSpaceAxes() == 1)
    return 0;
  if (preset == AxisPreset::TensorParallel)
    return mesh.lookup("model");
  if (preset == AxisPreset::ExpertParallel)
    if (auto axis = mesh.lookup("expert"))
      return axis;
  return mesh.lookup("data");
}

static StringRef getAxisName(AxisPreset preset) {
  if (preset == AxisPreset::TensorParallel)
    return "'model'";
  return preset == AxisPreset::ExpertParallel ? "'expert' or 'data'" : "'data'";
}

/// One per axis of the mesh, by the names of the axes: batch and ZeRO on
/// `data`, tensor parallelism on `model`, experts on `expert`, else `data`; on
/// a mesh with one axis, that one. Emits an error at the step where an axis is
/// missing or the preset is unknown.
static FailureOr<SmallVector<AxisPreset>>
getAxisPresets(func::FuncOp step, MeshAttr mesh, StringRef name) {
  std::optional<AxisPreset> preset = parsePreset(name);
  if (!preset)
    return emitError(step.getLoc())
           << "plan preset '" << name
           << "', expected replicate, data-parallel, zero, tensor-parallel or "
              "expert-parallel"
           << (llvm::sys::fs::exists(name)
                   ? "; it is a file, and --plan-file takes one"
                   : "");
  SmallVector<AxisPreset> presets(mesh.getNumAxes(), AxisPreset::Replicate);
  for (unsigned axis = mesh.getNumSpaceAxes(); axis < mesh.getNumAxes(); ++axis)
    presets[axis] = AxisPreset::DataParallel;
  if (*preset == AxisPreset::Replicate)
    return presets;
  auto main = findMainAxis(mesh, *preset);
  if (!main)
    return emitError(step.getLoc())
           << "plan preset '" << name << "' needs an axis "
           << getAxisName(*preset) << ", but the mesh is " << getMeshText(mesh);
  for (unsigned axis = 0; axis < mesh.getNumSpaceAxes(); ++axis)
    if (mesh.getName(axis) == "data" || *preset == AxisPreset::ExpertParallel)
      presets[axis] = AxisPreset::DataParallel;
  presets[*main] = *preset;
  return presets;
}

//===----------------------------------------------------------------------===//
// Stored forms
//===----------------------------------------------------------------------===//

static bool splitsBatch(AxisPreset preset) {
  return preset == AxisPreset::DataParallel || preset == AxisPreset::Zero ||
         preset == AxisPreset::ExpertParallel;
}

static LogicalResult emitIndivisible(StepGraph &graph, unsigned argument,
                                     unsigned axis) {
  const ArgumentNode &node = graph.arguments[argument];
  int64_t parts = 1;
  std::string axes;
  for (unsigned other = 0; other < graph.mesh.getNumAxes(); ++other) {
    if (other != axis && !node.forms[other].isGather(node.batchDim))
      continue;
    parts *= graph.mesh.getSize(other);
    axes += (axes.empty() ? "" : ", ") + graph.mesh.getName(other).str() + "=" +
            std::to_string(graph.mesh.getSize(other));
  }
  return emitError(graph.step.getLoc())
         << "the batch of input '" << node.name << "' has size "
         << node.type.getDimSize(node.batchDim)
         << ", which does not divide into " << parts << " equal parts (" << axes
         << "), expected a multiple";
}

LogicalResult tandem::plan::checkMicrobatches(StepGraph &graph,
                                              const PinFlags &isPinned) {
  for (unsigned axis = graph.mesh.getNumSpaceAxes();
       axis < graph.mesh.getNumAxes(); ++axis)
    for (auto [index, node] : llvm::enumerate(graph.arguments))
      if (node.role == Role::Input && node.batchDim >= 0 &&
          !isPinned[index][axis] &&
          node.type.getDimSize(node.batchDim) % graph.mesh.getSize(axis))
        return emitIndivisible(graph, index, axis);
  return success();
}

/// Splits inputs over the batch on every axis that asks for it.
static LogicalResult splitBatch(StepGraph &graph, ArrayRef<AxisPreset> presets,
                                const PinFlags &isPinned) {
  for (unsigned axis : graph.mesh.getLayoutOrder()) {
    if (!splitsBatch(presets[axis]) || graph.mesh.getSize(axis) == 1)
      continue;
    for (auto [index, node] : llvm::enumerate(graph.arguments)) {
      if (node.role != Role::Input || node.batchDim < 0 ||
          isPinned[index][axis])
        continue;
      AxisForm form = AxisForm::gather(node.batchDim);
      if (!graph.canStore(index, axis, form))
        return emitIndivisible(graph, index, axis);
      node.forms[axis] = form;
    }
  }
  return success();
}

/// The first dimension over which a parameter divides, the major one first.
static AxisForm findShard(const StepGraph &graph, unsigned argument,
                          unsigned axis) {
  int64_t rank = graph.arguments[argument].type.getRank();
  for (int64_t dim = 0; dim < rank; ++dim)
    if (graph.canStore(argument, axis, AxisForm::gather(dim)))
      return AxisForm::gather(dim);
  return AxisForm::full();
}

static void shardParameters(StepGraph &graph, unsigned axis,
                            ArrayRef<bool> isPinned) {
  for (auto [index, node] : llvm::enumerate(graph.arguments)) {
    bool isOwn = node.role == Role::Parameter ||
                 (node.role == Role::State && node.parameter < 0);
    if (isOwn && !isPinned[index])
      node.forms[axis] = findShard(graph, index, axis);
  }
}

/// States are stored as their parameters are, so that updates are local.
static void followParameters(StepGraph &graph, unsigned axis,
                             ArrayRef<bool> isPinned) {
  for (auto [index, node] : llvm::enumerate(graph.arguments))
    if (node.role == Role::State && node.parameter >= 0 && !isPinned[index])
      node.forms[axis] = graph.arguments[node.parameter].forms[axis];
}

static ParameterUse splitStored(StepGraph &graph, unsigned axis,
                                AxisPreset preset, ArrayRef<bool> isPinned) {
  ParameterUse use;
  use.keepsStored.assign(graph.arguments.size(), false);
  use.isFree.assign(isPinned.begin(), isPinned.end());
  if (preset == AxisPreset::Zero)
    shardParameters(graph, axis, isPinned);
  if (preset == AxisPreset::TensorParallel)
    splitTensors(graph, axis, isPinned, use);
  if (preset == AxisPreset::ExpertParallel)
    splitExperts(graph, axis, isPinned, use);
  followParameters(graph, axis, isPinned);
  return use;
}

//===----------------------------------------------------------------------===//
// Allowed signatures
//===----------------------------------------------------------------------===//

/// The forms on `axis` in which operators of the forward and backward passes
/// that make `group` may take `value`; all, if none are said. A parameter is
/// taken whole on a batch axis, or as it is stored; what repeats one (a token
/// for each sample) may have the batch.
static std::optional<SmallVector<AxisForm, 2>>
getAllowed(const StepGraph &graph, const OperatorGroup &group, unsigned value,
           unsigned axis, const ParameterUse &use, bool isBatchAxis) {
  int argument = graph.values[value].viewOf;
  if (argument < 0 || graph.arguments[argument].role != Role::Parameter ||
      use.isFree[argument])
    return std::nullopt;
  auto kept = graph.getViewForm(value, graph.arguments[argument].forms[axis],
                                graph.mesh.getSize(axis));
  if (use.keepsStored[argument])
    return kept ? std::optional(SmallVector<AxisForm, 2>{*kept}) : std::nullopt;
  auto type = cast<RankedTensorType>(graph.values[value].value.getType());
  bool repeats =
      type.getNumElements() > graph.arguments[argument].type.getNumElements();
  if (!isBatchAxis || repeats)
    return std::nullopt;
  SmallVector<AxisForm, 2> allowed{AxisForm::full()};
  // A view may keep what is stored in pieces; no other split is asked for.
  bool isView = llvm::all_of(
      group.members, [&](unsigned member) { return graph.ops[member].isView; });
  if (isView && kept)
    allowed.push_back(*kept);
  return allowed;
}

/// Leaves the signatures of `axis` that go with the stored forms of `graph`.
static void keepAllowed(const StepGraph &graph, const Extraction &extraction,
                        unsigned axis, const ParameterUse &use,
                        bool isBatchAxis, search::Descent &descent) {
  for (auto [index, origin] : llvm::enumerate(extraction.origins)) {
    SmallVector<std::optional<SmallVector<AxisForm, 2>>> allowed;
    if (origin.kind == Part::Kind::Argument)
      allowed = {{{graph.arguments[origin.index].forms[axis]}}};
    if (origin.kind == Part::Kind::Result)
      allowed = {{{graph.getResultForm(origin.index, axis)}}};
    if (origin.kind == Part::Kind::Group) {
      const OperatorGroup &group = graph.getGroups().groups[origin.index];
      if (group.pass == PassKind::Update)
        continue;
      for (unsigned value : group.inputs)
        allowed.push_back(
            getAllowed(graph, group, value, axis, use, isBatchAxis));
    }
    bool ofResults = origin.kind == Part::Kind::Argument;
    descent.keep(index, [&](const cost::Signature &signature) {
      return llvm::all_of_zip(
          ofResults ? signature.results : signature.operands, allowed,
          [&](const cost::Layout &layout, const auto &forms) {
            return !forms ||
                   llvm::is_contained(*forms, AxisForm::fromCode(layout[axis]));
          });
    });
  }
}

//===----------------------------------------------------------------------===//
// All axes
//===----------------------------------------------------------------------===//

FailureOr<cost::Plan> tandem::plan::planByPreset(StepGraph graph,
                                                 const Extraction &extraction,
                                                 const PinFlags &isPinned,
                                                 StringRef preset,
                                                 bool isInOneStrand) {
  auto presets = getAxisPresets(graph.step, graph.mesh, preset);
  if (failed(presets))
    return failure();
  if (isInOneStrand)
    for (unsigned axis = graph.mesh.getNumSpaceAxes();
         axis < graph.mesh.getNumAxes(); ++axis)
      (*presets)[axis] = AxisPreset::Replicate;
  if (failed(splitBatch(graph, *presets, isPinned)))
    return failure();
  search::Descent descent(extraction.problem);
  // In layout order: an axis divides what the axes before it have left.
  for (unsigned axis : graph.mesh.getLayoutOrder()) {
    if (graph.mesh.getSize(axis) == 1)
      continue;
    SmallVector<bool> pinned;
    for (const auto &flags : isPinned)
      pinned.push_back(flags[axis]);
    AxisPreset ofAxis = (*presets)[axis];
    ParameterUse use = splitStored(graph, axis, ofAxis, pinned);
    bool isBatchAxis = splitsBatch(ofAxis);
    keepAllowed(graph, extraction, axis, use,
                isBatchAxis || graph.mesh.isTime(axis), descent);
    descent.decide({axis, isBatchAxis});
  }
  return descent.getPlan();
}

//===----------------------------------------------------------------------===//
// What came of it
//===----------------------------------------------------------------------===//

static bool splitsParameters(const StepGraph &graph, unsigned axis) {
  return llvm::any_of(graph.arguments, [&](const ArgumentNode &node) {
    return node.role == Role::Parameter && node.forms[axis].isGather();
  });
}

static bool isIdle(const StepGraph &graph, unsigned axis) {
  auto isFull = [](AxisForm form) { return form.isFull(); };
  return llvm::all_of(graph.arguments,
                      [&](const ArgumentNode &node) {
                        return node.forms[axis].isFull();
                      }) &&
         llvm::all_of(graph.ops, [&](const OpNode &op) {
           return llvm::all_of(op.signatures[axis].operands, isFull) &&
                  llvm::all_of(op.signatures[axis].results, isFull);
         });
}

/// What a preset splits beside the batch, or nothing.
static StringRef getWanted(AxisPreset preset) {
  if (preset == AxisPreset::Zero)
    return "parameter that divides";
  if (preset == AxisPreset::TensorParallel)
    return "attention or feed-forward layer to split";
  return preset == AxisPreset::ExpertParallel ? "expert weights to split" : "";
}

void tandem::plan::warnOfUnsplit(const StepGraph &graph, StringRef preset) {
  auto presets = getAxisPresets(graph.step, graph.mesh, preset);
  if (failed(presets) || parsePreset(preset) == AxisPreset::Replicate)
    return;
  for (unsigned axis = 0; axis < graph.mesh.getNumSpaceAxes(); ++axis) {
    int64_t size = graph.mesh.getSize(axis);
    StringRef name = graph.mesh.getName(axis),
              wanted = getWanted((*presets)[axis]);
    if (size == 1)
      continue;
    if (!wanted.empty() && !splitsParameters(graph, axis))
      emitWarning(graph.getLoc()) << "plan preset '" << preset << "' finds no "
                                  << wanted << " on axis '" << name << "'";
    if (isIdle(graph, axis))
      emitWarning(graph.getLoc())
          << "axis '" << name << "' splits nothing: its " << size
          << " points compute the same";
  }
}
