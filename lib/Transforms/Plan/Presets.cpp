//===- Presets.cpp - presets ----------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Presets.h"
#include "ExtractProblem.h"
#include "GroupSignatures.h"
#include "StartPlans.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Search/Descent.h"
#include "tandem/Support/Options.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

//===----------------------------------------------------------------------===//
// Stored forms
//===----------------------------------------------------------------------===//

/// Shards over the first dimension that divides, the major one first.
static void shardParameters(StepGraph &graph, unsigned axis,
                            SmallVectorImpl<bool> &keepsStored) {
  for (auto [index, node] : llvm::enumerate(graph.arguments)) {
    bool isOwn = node.role == Role::Parameter ||
                 (node.role == Role::State && node.parameter < 0);
    if (!isOwn || graph.isPinned(index, axis))
      continue;
    SmallVector<AxisForm> forms = graph.listStorable(index, axis);
    node.forms[axis] = forms.size() > 1 ? forms[1] : AxisForm::full();
  }
}

/// States are stored as their parameters are, so that updates are local.
static void followParameters(StepGraph &graph, unsigned axis) {
  for (auto [index, node] : llvm::enumerate(graph.arguments))
    if (node.role == Role::State && node.parameter >= 0 &&
        !graph.isPinned(index, axis))
      node.forms[axis] = graph.arguments[node.parameter].forms[axis];
}

//===----------------------------------------------------------------------===//
// Presets to axes
//===----------------------------------------------------------------------===//

namespace {
/// What a preset splits on its axis.
struct Preset {
  /// Whether it splits the batch.
  bool splitsBatch = false;
  /// Its axis on a mesh of several space axes: the first of these.
  llvm::ArrayRef<llvm::StringLiteral> axes = {};
  /// Splits what is stored, and what it looks for.
  void (*split)(StepGraph &graph, unsigned axis,
                SmallVectorImpl<bool> &keepsStored) = nullptr;
  llvm::StringLiteral wanted = "";
  /// Whether the backward pass takes the copies of parameters that the forward
  /// pass made.
  bool keepsCopies = false;
};

struct NamedPreset {
  llvm::StringLiteral name;
  const Preset &preset;
};
} // namespace

static constexpr llvm::StringLiteral kData[] = {"data"}, kModel[] = {"model"},
                                     kExpert[] = {"expert", "data"};
static constexpr Preset kReplicate{};
static constexpr Preset kDataParallel{true, kData};
static constexpr Preset kZero{true, kData, shardParameters,
                              "parameter that divides"};
static constexpr Preset kZero2{true, kData, shardParameters,
                               "parameter that divides", true};
static constexpr Preset kTensorParallel{
    false, kModel, splitTensors, "attention or feed-forward layer to split"};
static constexpr Preset kExpertParallel{true, kExpert, splitExperts,
                                        "expert weights to split"};
static constexpr NamedPreset kPresets[] = {
#define TANDEM_PRESET(ID, NAME, ...) {NAME, k##ID},
#define TANDEM_PIPELINE_PRESET(...)
#include "tandem/Support/Presets.def"
};

/// Null if there is none of the name.
static const NamedPreset *findPreset(StringRef name) {
  const NamedPreset *named = llvm::find_if(
      kPresets, [&](const NamedPreset &each) { return each.name == name; });
  return named == std::end(kPresets) ? nullptr : named;
}

SmallVector<StringRef> tandem::plan::getPresetNames() {
  return llvm::map_to_vector(
      kPresets, [](const NamedPreset &each) -> StringRef { return each.name; });
}

/// The preset of almost this name, or none.
static StringRef findNear(StringRef name) {
  constexpr unsigned kMostTypos = 2;
  for (const PresetInfo &each : getPresetTable())
    if (StringRef(each.name).edit_distance(name.lower(), true, kMostTypos) <=
        kMostTypos)
      return each.name;
  return "";
}

/// The preset of a name that others give it, or that was meant, or none.
static StringRef findMeant(StringRef name) {
  std::string lower = name.lower();
  for (const PresetInfo &each : getPresetTable())
    if (llvm::is_contained(llvm::split(StringRef(each.aliases), ','), lower))
      return each.name;
  return findNear(name);
}

/// All names of the table, those of whole compilations too.
static std::string listPresets() {
  auto names =
      llvm::map_to_vector(getPresetTable(), [](const PresetInfo &each) {
        return StringRef(each.name);
      });
  return llvm::join(ArrayRef(names).drop_back(), ", ") + " or " +
         names.back().str();
}

/// Behind an error that says which presets there are.
static std::string getHint(StringRef name) {
  if (name == StringRef(kPipelinePreset))
    return "; the plan of a section is another one";
  if (StringRef meant = findMeant(name); !meant.empty())
    return "; did you mean '" + meant.str() + "'?";
  return llvm::sys::fs::exists(name)
             ? "; it is a file, and --plan-file takes one"
             : "";
}

/// The axis that `preset` splits; on a mesh with one space axis, that one.
static std::optional<unsigned> findMainAxis(MeshAttr mesh,
                                            const Preset &preset) {
  if (mesh.getNumSpaceAxes() == 1)
    return 0;
  for (StringRef name : preset.axes)
    if (auto axis = mesh.lookup(name))
      return axis;
  return std::nullopt;
}

/// One per axis of the mesh: time and `data` split the batch, all space axes do
/// with experts, and the preset has its own axis. Emits an error at the step
/// where that is missing or the preset is unknown.
static FailureOr<SmallVector<const Preset *>>
getAxisPresets(func::FuncOp step, MeshAttr mesh, StringRef name) {
  const NamedPreset *named = findPreset(name);
  if (!named)
    return emitError(step.getLoc()) << "plan preset '" << name << "', expected "
                                    << listPresets() << getHint(name);
  const Preset *preset = &named->preset;
  SmallVector<const Preset *> presets(mesh.getNumAxes(), &kReplicate);
  for (unsigned axis = mesh.getNumSpaceAxes(); axis < mesh.getNumAxes(); ++axis)
    presets[axis] = &kDataParallel;
  if (preset->axes.empty())
    return presets;
  auto main = findMainAxis(mesh, *preset);
  if (!main)
    return emitError(step.getLoc())
           << "plan preset '" << name << "' needs an axis '"
           << llvm::join(preset->axes, "' or '") << "', but the mesh is "
           << getMeshText(mesh);
  for (unsigned axis = 0; axis < mesh.getNumSpaceAxes(); ++axis)
    if (mesh.getName(axis) == "data" || preset->split == splitExperts)
      presets[axis] = &kDataParallel;
  presets[*main] = preset;
  return presets;
}

//===----------------------------------------------------------------------===//
// The batch
//===----------------------------------------------------------------------===//

static LogicalResult emitIndivisible(const StepGraph &graph, unsigned argument,
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
  return emitError(graph.getLoc())
         << "the batch of input '" << node.name << "' has size "
         << node.type.getDimSize(node.batchDim)
         << ", which does not divide into " << parts << " equal parts (" << axes
         << "), expected a multiple";
}

LogicalResult tandem::plan::checkMicrobatches(const StepGraph &graph) {
  for (unsigned axis = graph.mesh.getNumSpaceAxes();
       axis < graph.mesh.getNumAxes(); ++axis)
    for (auto [index, node] : llvm::enumerate(graph.arguments))
      if (node.role == Role::Input && node.batchDim >= 0 &&
          !graph.isPinned(index, axis) &&
          node.type.getDimSize(node.batchDim) % graph.mesh.getSize(axis))
        return emitIndivisible(graph, index, axis);
  return success();
}

/// Splits inputs over the batch on every axis that asks for it.
static LogicalResult splitBatch(StepGraph &graph,
                                ArrayRef<const Preset *> presets) {
  for (unsigned axis : graph.mesh.getLayoutOrder()) {
    if (!presets[axis]->splitsBatch || graph.mesh.getSize(axis) == 1)
      continue;
    for (auto [index, node] : llvm::enumerate(graph.arguments)) {
      if (node.role != Role::Input || node.batchDim < 0 ||
          graph.isPinned(index, axis))
        continue;
      AxisForm form = AxisForm::gather(node.batchDim);
      if (!graph.canStore(index, axis, form))
        return emitIndivisible(graph, index, axis);
      node.forms[axis] = form;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Allowed signatures
//===----------------------------------------------------------------------===//

namespace {
/// What is asked of one axis, of each argument.
struct AxisAsk {
  unsigned axis;
  bool isBatchAxis;
  /// Whether passes share what they gather.
  bool keepsCopies;
  /// Used as it is stored in the forward and backward passes (experts, column
  /// and row split weights). Views keep the form as well.
  SmallVector<bool> keepsStored = {};
};
} // namespace

/// Whether `group` makes views of a parameter alone, which may be made before
/// it is gathered as well. Passes that share what is gathered make views of
/// that, each its own; but for a cast, which both read.
static bool mayKeepStored(const StepGraph &graph, const OperatorGroup &group,
                          const AxisAsk &ask) {
  auto isView = [&](unsigned member) { return graph.ops[member].isView; };
  auto isCast = [&](unsigned member) {
    return isa<nn::ConvertOp>(graph.ops[member].op);
  };
  return llvm::all_of(group.members, isView) &&
         (!ask.keepsCopies || llvm::any_of(group.members, isCast));
}

/// Whether `group` fetches a parameter from the host, or casts what was
/// fetched: the cast of what is stored is held, and gathered where it is read.
static bool isOfStored(const StepGraph &graph, const OperatorGroup &group,
                       unsigned value) {
  int producer = graph.values[value].producer;
  bool isFetched = producer >= 0 && nn::fetchesArgument(graph.ops[producer].op);
  return llvm::all_of(group.members, [&](unsigned member) {
    Operation *op = graph.ops[member].op;
    return nn::fetchesArgument(op) || (isFetched && isa<nn::ConvertOp>(op));
  });
}

/// The forms on the axis in which operators of the forward and backward passes
/// that make `group` may take `value`; all, if none are said. A parameter is
/// taken whole on a batch axis, or as it is stored; what repeats one (a token
/// for each sample) may have the batch. Of a pinned one nothing more is asked.
/// From the host it is fetched, and cast, as it is stored.
static std::optional<SmallVector<AxisForm, 2>>
getAllowed(const StepGraph &graph, const OperatorGroup &group, unsigned value,
           const AxisAsk &ask) {
  int argument = graph.values[value].viewOf;
  if (argument < 0 || graph.arguments[argument].role != Role::Parameter)
    return std::nullopt;
  unsigned axis = ask.axis;
  auto kept = graph.getViewForm(value, graph.arguments[argument].forms[axis],
                                graph.mesh.getSize(axis));
  if (ask.keepsStored[argument] || isOfStored(graph, group, value))
    return kept ? std::optional(SmallVector<AxisForm, 2>{*kept}) : std::nullopt;
  auto type = cast<RankedTensorType>(graph.values[value].value.getType());
  bool repeats =
      type.getNumElements() > graph.arguments[argument].type.getNumElements();
  if (!ask.isBatchAxis || repeats || graph.isPinned(argument, axis))
    return std::nullopt;
  SmallVector<AxisForm, 2> allowed{AxisForm::full()};
  // What is stored in pieces; no other split is asked for.
  if (kept && mayKeepStored(graph, group, ask))
    allowed.push_back(*kept);
  return allowed;
}

/// Leaves the signatures that go with the stored forms of `graph`.
static void keepAllowed(const StepGraph &graph, const Extraction &extraction,
                        const AxisAsk &ask, search::Descent &descent) {
  unsigned axis = ask.axis;
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
        allowed.push_back(getAllowed(graph, group, value, ask));
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
// Sources
//===----------------------------------------------------------------------===//

/// Leaves the signatures that take what was saved, and leave out the rest; what
/// a pin wants again is made of what was saved.
static void keepSaved(const cost::SearchProblem &problem,
                      search::Descent &descent) {
  std::vector<bool> isTaken(problem.tensors.size());
  for (unsigned index = problem.operators.size(); index-- > 0;) {
    const cost::Operator &op = problem.operators[index];
    const cost::SignatureSet &set = problem.getSignatures(index);
    bool isWanted = llvm::any_of(
        op.results, [&](unsigned tensor) { return isTaken[tensor]; });
    const cost::Signature &pattern =
        set[isWanted && isLeftOut(set.front()) ? 1 : 0];
    descent.keep(index, [&](const cost::Signature &signature) {
      return isLeftOut(signature) == isLeftOut(pattern) &&
             llvm::all_of_zip(signature.operands, pattern.operands,
                              [](const cost::Layout &a, const cost::Layout &b) {
                                return a.isAbsent() == b.isAbsent();
                              });
    });
    for (auto [tensor, layout] : llvm::zip(op.operands, pattern.operands))
      if (!layout.isAbsent())
        isTaken[tensor] = true;
  }
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Whether the tensor is made of a parameter alone.
static bool isOfParameter(const StepGraph &graph, const Extraction &extraction,
                          unsigned tensor) {
  int argument = graph.values[extraction.values[tensor]].viewOf;
  return argument >= 0 && graph.arguments[argument].role == Role::Parameter;
}

static bool keepsCopies(StringRef preset) {
  const NamedPreset *named = findPreset(preset);
  return named && named->preset.keepsCopies;
}

/// In a pipeline each microbatch in flight would have copies of its own.
static bool isPipeline(const StepGraph &graph) {
  return graph.step->getParentOfType<ModuleOp>()->hasAttr(kPipeAttrName);
}

void tandem::plan::keepCopies(const StepGraph &graph,
                              const Extraction &extraction, StringRef preset,
                              cost::Plan &plan) {
  if (keepsCopies(preset) && !isPipeline(graph))
    plan.kept = findSharedCopies(
        extraction.problem, plan,
        [&](unsigned tensor, const cost::Layout &, const cost::Layout &) {
          return isOfParameter(graph, extraction, tensor);
        });
}

//===----------------------------------------------------------------------===//
// All axes
//===----------------------------------------------------------------------===//

FailureOr<cost::Plan> tandem::plan::planByPreset(StepGraph graph,
                                                 const Extraction &extraction,
                                                 StringRef preset,
                                                 bool isInOneStrand) {
  auto presets = getAxisPresets(graph.step, graph.mesh, preset);
  if (failed(presets))
    return failure();
  if (isInOneStrand)
    for (unsigned axis = graph.mesh.getNumSpaceAxes();
         axis < graph.mesh.getNumAxes(); ++axis)
      (*presets)[axis] = &kReplicate;
  if (failed(splitBatch(graph, *presets)))
    return failure();
  search::Descent descent(extraction.problem);
  keepSaved(extraction.problem, descent);
  // In layout order: an axis divides what the axes before it have left.
  for (unsigned axis : graph.mesh.getLayoutOrder()) {
    if (graph.mesh.getSize(axis) == 1)
      continue;
    const Preset &preset = *(*presets)[axis];
    AxisAsk ask{axis, preset.splitsBatch || graph.mesh.isTime(axis),
                preset.keepsCopies};
    ask.keepsStored.assign(graph.arguments.size(), false);
    if (preset.split)
      preset.split(graph, axis, ask.keepsStored);
    followParameters(graph, axis);
    keepAllowed(graph, extraction, ask, descent);
    descent.decide({axis, preset.splitsBatch});
  }
  cost::Plan plan = descent.getPlan();
  keepCopies(graph, extraction, preset, plan);
  return plan;
}

//===----------------------------------------------------------------------===//
// What came of it
//===----------------------------------------------------------------------===//

/// What lies on the host is fetched for each pass.
static bool fetchesParameters(const StepGraph &graph) {
  return llvm::any_of(graph.ops, [&](const OpNode &op) {
    return isa_and_nonnull<nn::FromHostOp>(op.op) &&
           isa<BlockArgument>(op.op->getOperand(0));
  });
}

/// Says of a preset that keeps copies where it keeps none.
static void tellNotKept(const StepGraph &graph, StringRef preset) {
  if (!keepsCopies(preset))
    return;
  const char *where = isPipeline(graph)          ? "in a pipeline"
                      : fetchesParameters(graph) ? "of parameters on the host"
                                                 : nullptr;
  if (where)
    emitRemark(graph.getLoc())
        << "plan preset '" << preset << "' keeps no gathered copies " << where
        << ": the backward pass gathers them again, as with 'zero'";
}

static bool splitsParameters(const StepGraph &graph, unsigned axis) {
  return llvm::any_of(graph.arguments, [&](const ArgumentNode &node) {
    return node.role == Role::Parameter && node.forms[axis].isGather();
  });
}

static bool isIdle(const StepGraph &graph, unsigned axis) {
  return llvm::all_of(graph.arguments,
                      [&](const ArgumentNode &node) {
                        return node.forms[axis].isFull();
                      }) &&
         llvm::all_of(graph.ops, [&](const OpNode &op) {
           return isFull(op.signatures[axis]);
         });
}

void tandem::plan::warnOfUnsplit(const StepGraph &graph, StringRef preset) {
  tellNotKept(graph, preset);
  auto presets = getAxisPresets(graph.step, graph.mesh, preset);
  if (failed(presets) || preset == "replicate")
    return;
  for (unsigned axis = 0; axis < graph.mesh.getNumSpaceAxes(); ++axis) {
    int64_t size = graph.mesh.getSize(axis);
    StringRef name = graph.mesh.getName(axis),
              wanted = (*presets)[axis]->wanted;
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
