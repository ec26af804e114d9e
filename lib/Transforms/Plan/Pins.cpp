//===- Pins.cpp - stored forms that the user asks for ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Presets.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Splits at commas outside of parentheses.
static SmallVector<StringRef> splitForms(StringRef text) {
  SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  return parts;
}

static LogicalResult parseAxis(func::FuncOp step, MeshAttr mesh, StringRef text,
                               Pin &pin) {
  auto [name, formText] = text.split('=');
  std::optional<unsigned> axis = mesh.lookup(name.trim());
  if (!axis)
    return emitError(step.getLoc())
           << "pin '" << pin.glob << "' names the axis '" << name.trim()
           << "', but the mesh is " << mesh;
  std::optional<AxisForm> form = parseAxisForm(formText);
  if (!form || form->isReduce())
    return emitError(step.getLoc())
           << "pin '" << pin.glob << "' asks for '" << formText.trim()
           << "' on axis '" << name.trim()
           << "', expected 'full' or 'gather(d)'";
  pin.forms.push_back({*axis, *form});
  return success();
}

FailureOr<SmallVector<Pin>>
tandem::plan::parsePins(func::FuncOp step, MeshAttr mesh, StringRef text) {
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
             << "', expected 'name:axis=form[,axis=form]'";
    for (StringRef part : splitForms(forms))
      if (failed(parseAxis(step, mesh, part, pin)))
        return failure();
  }
  return pins;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

/// Up to three names of arguments that are closest to `glob`.
static std::string getCloseNames(const StepGraph &graph, StringRef glob) {
  SmallVector<std::pair<unsigned, StringRef>> names;
  for (const ArgumentNode &node : graph.arguments)
    if (node.role == Role::Parameter || node.role == Role::Input ||
        node.role == Role::Buffer)
      names.push_back({node.name.edit_distance(glob), node.name});
  llvm::sort(names);
  names.erase(llvm::unique(names), names.end());
  names.truncate(std::min<size_t>(names.size(), 3));
  std::string text;
  for (auto &[distance, name] : names)
    text += (text.empty() ? "'" : ", '") + name.str() + "'";
  return text;
}

static std::string getLegalForms(const StepGraph &graph, unsigned argument,
                                 unsigned axis) {
  std::string legal = "full";
  int64_t rank = graph.arguments[argument].type.getRank();
  for (int64_t dim = 0; dim < rank; ++dim)
    if (AxisForm form = AxisForm::gather(dim);
        graph.canStore(argument, axis, form))
      legal += ", " + form.str();
  return legal;
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
                    << getLegalForms(graph, argument, axis);
}

LogicalResult
tandem::plan::applyPins(StepGraph &graph, ArrayRef<Pin> pins,
                        std::vector<SmallVector<bool>> &isPinned) {
  isPinned.assign(graph.arguments.size(),
                  SmallVector<bool>(graph.mesh.getNumAxes(), false));
  for (const Pin &pin : pins) {
    auto pattern = llvm::GlobPattern::create(pin.glob);
    if (!pattern) {
      llvm::consumeError(pattern.takeError());
      return emitError(graph.step.getLoc())
             << "pin '" << pin.glob << "' is no glob pattern";
    }
    bool matched = false;
    for (auto [index, node] : llvm::enumerate(graph.arguments)) {
      if (node.role != Role::Parameter && node.role != Role::Input &&
          node.role != Role::Buffer && node.role != Role::State)
        continue;
      // A pin on what was taken apart is one on all its parts. Inputs may be
      // called as plans and explanations call them.
      if (!pattern->match(node.name) && !pattern->match(node.whole) &&
          !(node.role == Role::Input &&
            pattern->match("input:" + node.name.str())))
        continue;
      matched = true;
      for (auto entry : pin.forms) {
        auto [axis, form] = entry;
        if (isPinned[index][axis] && node.forms[axis] != form)
          return emitError(graph.step.getLoc())
                 << "pin '" << pin.glob << "' asks for '" << node.name
                 << "' as " << form.str() << " on axis '"
                 << graph.mesh.getName(axis) << "', but a pin before it as "
                 << node.forms[axis].str() << ": remove one of them";
        if (failed(pinArgument(graph, index, pin, entry)))
          return failure();
        isPinned[index][entry.first] = true;
      }
    }
    if (!matched)
      return emitError(graph.step.getLoc())
             << "pin '" << pin.glob
             << "' matches no parameter, buffer or input; close names are "
             << getCloseNames(graph, pin.glob);
  }
  return success();
}
