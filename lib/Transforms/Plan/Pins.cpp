//===- Pins.cpp - pins ----------------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ApplyPlan.h"
#include "ExplainMemory.h"
#include "OperatorGroups.h"
#include "Presets.h"
#include "mlir/IR/Diagnostics.h"
#include "tandem/Analysis/UserLocation.h"
#include "tandem/Device/HostSpace.h"
#include "tandem/Dialect/NN/Early.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Search/Natural.h"
#include "tandem/Support/ByteSize.h"
#include "tandem/Transforms/Plan/Plan.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

namespace {
/// The forms in which arguments whose name matches are stored; or, if the name
/// is that of an operator (`nn.softmax#17`, `nn.softmax@model.py:12`), in which
/// operators make it.
struct Pin {
  std::string glob;
  SmallVector<std::pair<unsigned, AxisForm>> forms;
  /// Instead of forms: the backward pass makes the values again. With the name
  /// of a parameter, those of the operators that read it, and what follows from
  /// them until another parameter is read.
  bool isAgain = false;
  /// Instead of forms: states or, with `parameter:`, parameters lie in the
  /// host's memory between steps; or, as with `isAgain`, values wait there for
  /// the backward pass.
  bool isHost = false;

  bool isOfMade() const { return glob.find_first_of("#@") != glob.npos; }
};
} // namespace

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static LogicalResult parseAxis(func::FuncOp step, MeshAttr mesh, StringRef text,
                               Pin &pin) {
  auto [name, formText] = text.split('=');
  if (!text.contains('='))
    return emitError(step.getLoc())
           << "pin '" << pin.glob << "' asks for '" << text.trim()
           << "', expected 'axis=form', 'again' or 'host'";
  std::optional<unsigned> axis = mesh.lookup(name.trim());
  if (!axis)
    return emitError(step.getLoc())
           << "pin '" << pin.glob << "' names the axis '" << name.trim()
           << "', but the mesh is " << getMeshText(mesh);
  std::optional<AxisForm> form = parseAxisForm(formText);
  if (form && form->isAt())
    return emitError(step.getLoc())
           << "pin '" << pin.glob << "' asks for '" << form->str()
           << "' on axis '" << name.trim()
           << "', but plans place nothing on points: expected 'full' or "
              "'gather(d)'";
  if (!form || (form->isReduce() && !pin.isOfMade()))
    return emitError(step.getLoc())
           << "pin '" << pin.glob << "' asks for '" << formText.trim()
           << "' on axis '" << name.trim()
           << "', expected 'full' or 'gather(d)'"
           << (pin.isOfMade() ? " or 'reduce'" : "");
  pin.forms.push_back({*axis, *form});
  return success();
}

/// A parameter is called by its name alone where its form or what is made of
/// it is meant.
static LogicalResult checkWord(func::FuncOp step, const Pin &pin,
                               StringRef word) {
  StringRef name = pin.glob;
  if (pin.isHost || !name.consume_front(kParameterPin))
    return success();
  auto diagnostic = emitError(step.getLoc())
                    << "pin '" << pin.glob << "' asks for '" << word << "', ";
  if (pin.isAgain)
    return diagnostic << "but a parameter is stored, and nothing makes it "
                         "again: expected '"
                      << name << ":again', for what is made of it, or '"
                      << pin.glob << ":host'";
  return diagnostic << "expected '" << pin.glob << ":host', or '" << name
                    << ":axis=form' for the form in which it is stored";
}

static FailureOr<SmallVector<Pin>> parsePins(func::FuncOp step, MeshAttr mesh,
                                             StringRef text) {
  SmallVector<StringRef> entries;
  text.split(entries, ';', -1, /*KeepEmpty=*/false);
  SmallVector<Pin> pins;
  for (StringRef entry : entries) {
    if (entry.trim().empty())
      continue;
    auto [glob, forms] = entry.rsplit(':');
    Pin &pin = pins.emplace_back();
    pin.glob = glob.trim().str();
    if (forms.trim().empty() || pin.glob.empty())
      return emitError(step.getLoc())
             << "pin '" << entry.trim()
             << "', expected 'name:axis=form[,axis=form]' or 'name:again' or "
                "'name:host'";
    pin.isAgain = asksAgain(entry);
    pin.isHost = asksHost(entry);
    if (failed(checkWord(step, pin, forms.trim())))
      return failure();
    if (pin.isAgain || pin.isHost)
      continue;
    for (StringRef part : llvm::split(forms, ','))
      if (failed(parseAxis(step, mesh, part, pin)))
        return failure();
  }
  return pins;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

/// Up to three of `names`, each once, that are closest to `glob`.
static std::string getClosest(ArrayRef<std::string> names, StringRef glob) {
  std::set<std::pair<unsigned, StringRef>> sorted;
  for (StringRef name : names)
    sorted.insert({name.edit_distance(glob), name});
  std::string text;
  for (auto [index, name] : llvm::enumerate(sorted))
    if (index < 3)
      text += (index ? ", '" : "'") + name.second.str() + "'";
  return text;
}

static std::string getCloseNames(const StepGraph &graph, StringRef glob) {
  std::vector<std::string> names;
  for (const ArgumentNode &node : graph.arguments)
    if (node.role == Role::Parameter || node.role == Role::Input ||
        node.role == Role::Buffer)
      names.push_back(node.name.str());
  return getClosest(names, glob);
}

static LogicalResult pinArgument(StepGraph &graph, unsigned argument,
                                 const Pin &pin,
                                 std::pair<unsigned, AxisForm> entry) {
  auto [axis, form] = entry;
  ArgumentNode &node = graph.arguments[argument];
  std::string reason;
  if (form.isFull() || graph.canStore(argument, axis, form, &reason)) {
    node.forms[axis] = form;
    return success();
  }
  auto diagnostic = emitError(graph.step.getLoc())
                    << "pin '" << pin.glob << "': '" << node.name
                    << "' of shape [";
  llvm::interleaveComma(node.type.getShape(), diagnostic);
  return diagnostic << "] cannot be " << form.str() << " on axis '"
                    << graph.mesh.getName(axis) << "': " << reason
                    << "; expected one of: "
                    << printForms(graph.listStorable(argument, axis));
}

namespace {
/// Applies one pin.
class PinApplier {
public:
  PinApplier(StepGraph &graph, const Pin &pin, const llvm::GlobPattern &pattern)
      : graph(graph), pin(pin), pattern(pattern) {}
  LogicalResult run() {
    if (pin.isAgain)
      return pinChoices();
    if (pin.isHost)
      return pinHost();
    return pin.isOfMade() ? pinMade() : pinStored();
  }
  /// The choices that the pin decides.
  std::vector<unsigned> findChoices(const std::vector<bool> &isAsked) const;
  SourcePin getSourcePin() const {
    return pin.isHost ? SourcePin::Host : SourcePin::Again;
  }
  std::vector<bool> findAgain() const;

private:
  InFlightDiagnostic emitError() const {
    return mlir::emitError(graph.step.getLoc()) << "pin '" << pin.glob << "'";
  }
  LogicalResult note(unsigned value, StringRef name, unsigned axis,
                     AxisForm form);
  bool matches(const ArgumentNode &node) const;
  bool matchesMade(unsigned value) const;
  LogicalResult pinStored();
  LogicalResult pinMade();
  FailureOr<SmallVector<unsigned>> findMade() const;
  LogicalResult pinMade(unsigned value, unsigned axis, AxisForm form);
  bool isAtBorder(const OpNode &either) const;
  LogicalResult pinHost();
  LogicalResult pinParameters(StringRef glob);
  LogicalResult pinChoices();
  LogicalResult pinChoice(OpNode &either);
  LogicalResult refuseChoices(const std::vector<bool> &isAsked) const;

  StepGraph &graph;
  const Pin &pin;
  const llvm::GlobPattern &pattern;
};
} // namespace

/// Fails if a pin before it asks for another form.
LogicalResult PinApplier::note(unsigned value, StringRef name, unsigned axis,
                               AxisForm form) {
  auto &pinned = graph.values[value].pinned;
  pinned.resize(graph.mesh.getNumAxes());
  if (pinned[axis].value_or(form) != form)
    return emitError() << " asks for '" << name << "' as " << form.str()
                       << " on axis '" << graph.mesh.getName(axis)
                       << "', but a pin before it as " << pinned[axis]->str()
                       << ": remove one of them";
  pinned[axis] = form;
  return success();
}

//===----------------------------------------------------------------------===//
// Stored tensors
//===----------------------------------------------------------------------===//

bool PinApplier::matches(const ArgumentNode &node) const {
  if (node.role != Role::Parameter && node.role != Role::Input &&
      node.role != Role::Buffer && node.role != Role::State)
    return false;
  // A pin on what was taken apart is one on all its parts. Inputs may be
  // called as plans and explanations call them.
  return pattern.match(node.name) || pattern.match(node.whole) ||
         (node.role == Role::Input &&
          pattern.match("input:" + node.name.str()));
}

LogicalResult PinApplier::pinStored() {
  bool matched = false;
  for (auto [index, node] : llvm::enumerate(graph.arguments)) {
    if (!matches(node))
      continue;
    matched = true;
    for (auto entry : pin.forms) {
      auto [axis, form] = entry;
      if (failed(note(index, node.name, axis, form)) ||
          failed(pinArgument(graph, index, pin, entry)))
        return failure();
    }
  }
  if (matched)
    return success();
  return emitError() << " matches no parameter, buffer or input; close names "
                        "are "
                     << getCloseNames(graph, pin.glob)
                     << "; what operators make is called as in "
                        "'nn.softmax#17' or 'nn.softmax@model.py:12'";
}

//===----------------------------------------------------------------------===//
// What lies on the host
//===----------------------------------------------------------------------===//

/// The stage `import` has put copies in front of their readers.
LogicalResult PinApplier::pinParameters(StringRef glob) {
  bool isFound = false;
  for (auto [index, node] : llvm::enumerate(graph.arguments)) {
    if (node.role != Role::Parameter ||
        !asksToStore(graph.step.getArgAttrDict(index), pin.glob + ":host"))
      continue;
    isFound = true;
    for (Use use : graph.values[index].uses)
      if (use.op < graph.ops.size() &&
          graph.ops[use.op].pass != PassKind::Update &&
          !isa<nn::FromHostOp>(graph.ops[use.op].op))
        return emitError() << " asks for '" << node.name
                           << "' on the host, but '"
                           << graph.ops[use.op].op->getName()
                           << "' reads it there: expected a step that the "
                              "stage import has seen with this pin";
    graph.values[index].isOnHost = true;
  }
  if (isFound)
    return success();
  return emitError() << " matches no parameter; close names are "
                     << getCloseNames(graph, glob);
}

LogicalResult PinApplier::pinHost() {
  StringRef glob = pin.glob;
  bool isOfParameters = glob.consume_front(kParameterPin),
       asks = asksToSend(graph.step, pin.glob + ":host");
  const Device &device = sched::getDevice(graph.step);
  if (!findHostSpace(device))
    return emitError() << ": device '" << device.name
                       << "' does not copy from the host";
  if (isOfParameters && failed(pinParameters(glob)))
    return failure();
  for (auto [index, node] : llvm::enumerate(graph.arguments))
    if (node.role == Role::State && matches(node))
      graph.values[index].isOnHost = true;
  for (const ResultNode &node : graph.results)
    if (node.isUpdate && graph.values[node.argument].isOnHost)
      graph.values[node.value].isOnHost = true;
  return asks ? pinChoices() : success();
}

//===----------------------------------------------------------------------===//
// What operators make
//===----------------------------------------------------------------------===//

/// `nn.softmax@model.py:12`, as the forward pass makes it; or empty.
static std::string getLineName(const StepGraph &graph, unsigned value) {
  const ValueNode &node = graph.values[value];
  const OpNode &op = graph.ops[node.producer];
  std::string line = getUserLocation(op.op->getLoc());
  if (line.empty() || op.pass != PassKind::Forward)
    return "";
  std::string name = op.op->getName().getStringRef().str() + "@" + line;
  return node.index ? name + ":" + std::to_string(node.index) : name;
}

bool PinApplier::matchesMade(unsigned value) const {
  return graph.values[value].producer >= 0 &&
         (pattern.match(graph.getMadeName(value)) ||
          pattern.match(getLineName(graph, value)));
}

static std::string getCloseMade(const StepGraph &graph, StringRef glob) {
  std::vector<std::string> names;
  for (unsigned value = graph.arguments.size(); value < graph.values.size();
       ++value)
    for (std::string name :
         {graph.getMadeName(value), getLineName(graph, value)})
      if (!name.empty())
        names.push_back(std::move(name));
  return getClosest(names, glob);
}

/// The tensors of the pin, which operators of one kind make.
FailureOr<SmallVector<unsigned>> PinApplier::findMade() const {
  SmallVector<unsigned> found;
  for (unsigned value = 0; value < graph.values.size(); ++value)
    if (matchesMade(value))
      found.push_back(value);
  if (found.empty())
    return emitError() << " matches nothing that an operator makes; close "
                          "names are "
                       << getCloseMade(graph, pin.glob);
  auto getKind = [&](unsigned value) {
    return graph.values[value].value.getDefiningOp()->getName();
  };
  const unsigned *other = llvm::find_if(found, [&](unsigned value) {
    return getKind(value) != getKind(found.front());
  });
  if (other != found.end())
    return emitError() << " matches tensors of several kinds, '"
                       << graph.getMadeName(found.front()) << "' and '"
                       << graph.getMadeName(*other)
                       << "', expected one kind: name the operator";
  for (const ArgumentNode &node : graph.arguments)
    if (matches(node))
      return emitError() << " matches tensors of several kinds, '" << node.name
                         << "', which is stored, and '"
                         << graph.getMadeName(found.front())
                         << "', expected one kind";
  return found;
}

LogicalResult PinApplier::pinMade(unsigned value, unsigned axis,
                                  AxisForm form) {
  ValueNode &node = graph.values[value];
  if (graph.getGroups().isSource[value])
    return emitError() << " names '" << graph.getMadeName(value)
                       << "', which is made in every form that is wanted, "
                          "expected what depends on tensors of the step";
  if (failed(note(value, graph.getMadeName(value), axis, form)))
    return failure();
  SmallVector<AxisForm> legal;
  const Rule &rule = graph.ops[node.producer].rule;
  for (const Signature &signature : rule.enumerate(graph.mesh.getSize(axis)))
    if (!llvm::is_contained(legal, signature.results[node.index]))
      legal.push_back(signature.results[node.index]);
  if (llvm::is_contained(legal, form))
    return success();
  Signature asked;
  asked.results.resize(rule.results.size());
  asked.results[node.index] = form;
  return emitError() << ": '" << graph.getMadeName(value) << "' of type "
                     << node.value.getType() << " cannot be made as "
                     << form.str() << " on axis '" << graph.mesh.getName(axis)
                     << "'" << rule.explain(asked)
                     << "; expected one of: " << printForms(legal);
}

LogicalResult PinApplier::pinMade() {
  FailureOr<SmallVector<unsigned>> found = findMade();
  if (failed(found))
    return failure();
  for (unsigned value : *found)
    for (auto [axis, form] : pin.forms)
      if (failed(pinMade(value, axis, form)))
        return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// What is made again
//===----------------------------------------------------------------------===//

/// Per operator of the forward pass, whether the pin asks for its results. The
/// last parameter on the way to an operator is the one that it belongs to.
std::vector<bool> PinApplier::findAgain() const {
  std::vector<bool> isAsked(graph.ops.size());
  // Per value, the operator that read the parameter, and the parameter.
  std::vector<std::pair<int, int>> owners(graph.values.size(), {-1, -1});
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    if (op.pass != PassKind::Forward)
      continue;
    std::pair<int, int> owner(-1, -1);
    for (unsigned value : op.operands) {
      int argument = graph.values[value].viewOf;
      bool isParameter =
          argument >= 0 && graph.arguments[argument].role == Role::Parameter;
      owner = std::max(owner, isParameter ? std::pair(int(index), argument)
                                          : owners[value]);
    }
    bool isMade = false;
    for (unsigned value : op.results) {
      owners[value] = owner;
      isMade |= pin.isOfMade() && matchesMade(value);
    }
    isAsked[index] = isMade || (!pin.isOfMade() && owner.second >= 0 &&
                                matches(graph.arguments[owner.second]));
  }
  return isAsked;
}

/// Whether it is of a clone that begins a segment, or a group of them: it reads
/// what was saved, or what is made early for it, and for no early one.
bool PinApplier::isAtBorder(const OpNode &either) const {
  auto isOfReader = [&](Use use) {
    return use.op < graph.ops.size() && nn::isAgain(graph.ops[use.op].op) &&
           !nn::isEarly(graph.ops[use.op].op);
  };
  const auto &uses = graph.values[either.results[0]].uses;
  unsigned made = either.operands.size() - 1;
  if (graph.isFromHost(either, made))
    --made;
  auto isOfEarly = [&](Use use) {
    return use.op < graph.ops.size() && nn::isEarly(graph.ops[use.op].op);
  };
  auto isTakenEarly = [&](Use use) {
    return use.op < graph.ops.size() && graph.ops[use.op].isEither() &&
           llvm::any_of(graph.values[graph.ops[use.op].results[0]].uses,
                        isOfEarly);
  };
  const ValueNode &last = graph.values[either.operands[made]];
  return made == 1 && llvm::all_of(uses, isOfReader) && last.producer >= 0 &&
         nn::isEarly(graph.ops[last.producer].op) &&
         llvm::none_of(last.uses, isTakenEarly);
}

std::vector<unsigned>
PinApplier::findChoices(const std::vector<bool> &isAsked) const {
  std::vector<unsigned> choices;
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    if (!op.isEither())
      continue;
    OpNode pinned = op;
    pinned.sourcePin = getSourcePin();
    bool isOffered = false;
    for (unsigned source = 1; source < op.operands.size(); ++source)
      isOffered |= graph.mayTake(pinned, source);
    int saved = graph.values[op.operands.front()].producer;
    if (isOffered && saved >= 0 && isAsked[saved] &&
        (pin.isHost || !isAtBorder(op)))
      choices.push_back(index);
  }
  return choices;
}

LogicalResult PinApplier::pinChoices() {
  std::vector<bool> isAsked = findAgain();
  std::vector<unsigned> choices = findChoices(isAsked);
  for (unsigned choice : choices)
    if (failed(pinChoice(graph.ops[choice])))
      return failure();
  return choices.empty() ? refuseChoices(isAsked) : success();
}

/// Fails if a pin before it asks for another source.
LogicalResult PinApplier::pinChoice(OpNode &either) {
  SourcePin before = std::exchange(either.sourcePin, getSourcePin());
  if (before == SourcePin::None || before == either.sourcePin)
    return success();
  auto getText = [](SourcePin pin) {
    return pin == SourcePin::Host ? "on the host" : "again";
  };
  return emitError() << " asks for '"
                     << graph.getMadeName(either.operands.front()) << "' "
                     << getText(either.sourcePin)
                     << ", but a pin before it asks for it " << getText(before)
                     << ": remove one of them";
}

LogicalResult
PinApplier::refuseChoices(const std::vector<bool> &isAsked) const {
  const auto asked = llvm::find(isAsked, true);
  if (asked != isAsked.end()) {
    unsigned value = graph.ops[asked - isAsked.begin()].results.front();
    return emitError() << " asks for '" << graph.getMadeName(value)
                       << (pin.isHost
                               ? "' on the host, but nothing of it is saved "
                                 "for the backward pass that is worth a copy"
                               : "' again, but nothing of it is saved for the "
                                 "backward pass that can be made again")
                       << ": remove the pin";
  }
  if (pin.isOfMade())
    return emitError() << " matches nothing that the forward pass makes; close "
                          "names are "
                       << getCloseMade(graph, pin.glob);
  for (const ArgumentNode &node : graph.arguments)
    if (matches(node))
      return emitError() << " names " << stringifyRole(node.role) << " '"
                         << node.name
                         << "', which no operator makes: expected the name of "
                            "an operator, or of a parameter that one reads";
  return emitError() << " matches no "
                     << (pin.isHost ? "state of the optimizer and no parameter"
                                    : "parameter")
                     << "; close names are " << getCloseNames(graph, pin.glob)
                     << "; what operators make is called as in "
                        "'nn.softmax#17' or 'nn.softmax@model.py:12'";
}

//===----------------------------------------------------------------------===//
// All pins
//===----------------------------------------------------------------------===//

LogicalResult tandem::plan::applyPins(StepGraph &graph, StringRef text) {
  auto pins = parsePins(graph.step, graph.mesh, text);
  if (failed(pins))
    return failure();
  for (const Pin &pin : *pins) {
    auto pattern = llvm::GlobPattern::create(pin.glob);
    if (!pattern) {
      llvm::consumeError(pattern.takeError());
      return emitError(graph.step.getLoc())
             << "pin '" << pin.glob << "' is no glob pattern";
    }
    if (failed(PinApplier(graph, pin, *pattern).run()))
      return failure();
  }
  if (llvm::any_of(*pins, [](const Pin &pin) {
        return pin.isOfMade() && !pin.isAgain && !pin.isHost;
      }))
    graph.group();
  return success();
}

bool tandem::asksToStore(DictionaryAttr parameter, StringRef pin) {
  StringRef glob = pin.rsplit(':').first.trim();
  if (!asksHost(pin) || !glob.consume_front(kParameterPin))
    return false;
  auto pattern = llvm::GlobPattern::create(glob);
  if (!pattern) {
    llvm::consumeError(pattern.takeError());
    return false; // the stage says so
  }
  auto part = nn::getPart(parameter);
  return pattern->match(nn::getTensorName(parameter)) ||
         (part && pattern->match(part.getName()));
}

bool tandem::asksToSend(func::FuncOp step, StringRef pin) {
  StringRef glob = pin.rsplit(':').first.trim();
  if (glob.starts_with(kParameterPin))
    return false;
  auto pattern = llvm::GlobPattern::create(glob);
  if (!pattern) {
    llvm::consumeError(pattern.takeError());
    return false; // the stage says so
  }
  auto matches = [&](Role role) {
    for (unsigned i = 0; i < step.getNumArguments(); ++i)
      if (DictionaryAttr attributes = step.getArgAttrDict(i);
          nn::getRole(attributes) == role &&
          pattern->match(nn::getTensorName(attributes)))
        return true;
    return false;
  };
  return asksHost(pin) && (matches(Role::Parameter) || !matches(Role::State));
}

std::optional<StepGraph> tandem::plan::tryPins(const StepGraph &graph,
                                               StringRef text,
                                               std::string *why) {
  func::FuncOp step = graph.step;
  ScopedDiagnosticHandler silent(step.getContext(), [&](Diagnostic &said) {
    if (why && why->empty())
      *why = said.str();
    return success();
  });
  StepGraph pinned = graph;
  return succeeded(applyPins(pinned, text)) ? std::optional(std::move(pinned))
                                            : std::nullopt;
}

bool tandem::plan::obeysPins(const StepGraph &graph, StringRef text) {
  std::optional<StepGraph> pinned = tryPins(graph, text);
  auto isSame = [](const ArgumentNode &a, const ArgumentNode &b) {
    return a.forms == b.forms;
  };
  return pinned && llvm::equal(pinned->arguments, graph.arguments, isSame) &&
         llvm::all_of_zip(pinned->ops, graph.ops,
                          [&](const OpNode &pin, const OpNode &op) {
                            OpNode pinned = op;
                            pinned.sourcePin = pin.sourcePin;
                            return graph.mayTake(pinned, op.source);
                          }) &&
         llvm::all_of(graph.ops, [&](const OpNode &op) {
           for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
             if (!pinned->obeysPins(op, op.signatures[axis], axis))
               return false;
           return true;
         });
}

//===----------------------------------------------------------------------===//
// Pins that save nothing
//===----------------------------------------------------------------------===//

/// The plan of the graph's signatures, with as few stages as can be.
static std::optional<cost::Plan> complete(const StepGraph &graph,
                                          const Extraction &extraction) {
  std::string error;
  return search::completePlan(extraction.problem,
                              convertPlan(graph, extraction), error);
}

void tandem::plan::tellIdlePins(const StepGraph &graph, StringRef text,
                                const cost::Cluster &cluster) {
  auto pins = parsePins(graph.step, graph.mesh, text);
  auto isAgain = [](const Pin &pin) { return pin.isAgain; };
  if (failed(pins) || llvm::none_of(*pins, isAgain))
    return;
  // Without pins on choices, so that what is saved can be priced.
  StepGraph free = graph;
  for (OpNode &op : free.ops)
    op.sourcePin = SourcePin::None;
  FailureOr<std::unique_ptr<Extraction>> extraction = failure();
  {
    ScopedDiagnosticHandler silent(graph.mesh.getContext(),
                                   [](Diagnostic &) { return success(); });
    extraction = extractProblem(free, cluster);
  }
  if (failed(extraction))
    return;
  auto with = complete(free, **extraction);
  for (const Pin &pin : llvm::make_filter_range(*pins, isAgain)) {
    auto pattern = llvm::cantFail(llvm::GlobPattern::create(pin.glob));
    StepGraph saved = free;
    PinApplier applier(saved, pin, pattern);
    for (unsigned choice : applier.findChoices(applier.findAgain()))
      saved.ops[choice].source = 0;
    saved.findLeftOut();
    auto without = complete(saved, **extraction);
    if (!with || !without || without->peak > with->peak)
      continue;
    emitRemark(graph.getLoc())
        << "pin '" << pin.glob << "' saves nothing: the plan holds "
        << printByteSize(with->peak) << " at its peak, and "
        << printByteSize(without->peak) << " if all that the pin names is saved"
        << listLargestAtPeak((*extraction)->problem, *with);
  }
}
