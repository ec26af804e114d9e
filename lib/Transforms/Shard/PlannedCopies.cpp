//===- PlannedCopies.cpp - the copies that a plan names -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlannedCopies.h"
#include "tandem/Analysis/StepAttrs.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

static constexpr llvm::StringLiteral kCopiesAttrName = "spmd.copies";
static constexpr llvm::StringLiteral kPlannedWaitsAttrName = "spmd.waits";

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

static bool parseForms(StringRef text, MeshAttr mesh, Forms &forms) {
  SmallVector<StringRef> names;
  text.split(names, ',');
  for (StringRef name : names) {
    std::optional<AxisForm> form = parseAxisForm(name);
    if (!form)
      return false;
    forms.push_back(*form);
  }
  return forms.size() == mesh.getNumAxes();
}

/// Reads `RESULT PASS [kept] FORMS -> ... -> FORMS`; false if it is something
/// else.
static bool parseCopy(StringRef text, MeshAttr mesh, unsigned &result,
                      PlannedCopy &copy) {
  auto [number, rest] = text.split(' ');
  auto [pass, path] = rest.split(' ');
  copy.pass = pass.str();
  copy.isKept = path.consume_front("kept ");
  SmallVector<StringRef> parts;
  path.split(parts, "->");
  for (StringRef part : parts)
    if (!parseForms(part, mesh, copy.path.emplace_back()))
      return false;
  return !number.getAsInteger(10, result) && parts.size() > 1;
}

/// Reads what `kWaitGrammar` says.
static bool parseWait(StringRef text, MeshAttr mesh, unsigned &result,
                      PlannedWait &wait) {
  auto [number, rest] = text.split(' ');
  auto [forms, places] = rest.split(" in ");
  if (number.getAsInteger(10, result) || !parseForms(forms, mesh, wait.forms))
    return false;
  if (places.empty())
    return true;
  std::optional<PlannedPieces> pieces = parsePieces(places);
  wait.pieces = pieces.value_or(PlannedPieces());
  return pieces.has_value();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

/// Hands each text of `attribute` to `add`, which says what it expected if it
/// cannot read it.
static LogicalResult readTexts(Operation *op, Attribute attribute,
                               StringRef what,
                               function_ref<StringRef(StringRef)> add) {
  auto texts = dyn_cast_or_null<ArrayAttr>(attribute);
  if (!attribute)
    return success();
  if (!texts)
    return op->emitError() << "has the " << what << " " << attribute
                           << ", expected an array of texts";
  for (Attribute entry : texts) {
    auto text = dyn_cast<StringAttr>(entry);
    StringRef expected = add(text ? text.getValue() : "");
    if (!expected.empty())
      return op->emitError()
             << "has the " << what << " " << entry << ", expected " << expected;
  }
  return success();
}

LogicalResult PlannedCopies::readCopies(Operation *op, Attribute attribute,
                                        ValueRange values) {
  std::string expected;
  llvm::raw_string_ostream(expected)
      << "'RESULT PASS [kept] FORMS -> FORMS' with a form per axis of " << mesh;
  return readTexts(op, attribute, "copy", [&](StringRef text) -> StringRef {
    unsigned result = 0;
    PlannedCopy copy;
    if (!parseCopy(text, mesh, result, copy) || result >= values.size())
      return expected;
    copies[values[result]].push_back(std::move(copy));
    return "";
  });
}

LogicalResult PlannedCopies::readWaits(Operation *op, Attribute attribute,
                                       ValueRange values) {
  std::string expected;
  llvm::raw_string_ostream(expected)
      << "'" << kWaitGrammar << "' with a form per axis of " << mesh
      << ", shares that rise to 1 and slots that do not go back";
  return readTexts(op, attribute, "wait", [&](StringRef text) -> StringRef {
    unsigned result = 0;
    PlannedWait wait;
    if (!parseWait(text, mesh, result, wait) || result >= values.size())
      return expected;
    waits[values[result]].push_back(std::move(wait));
    return "";
  });
}

LogicalResult PlannedCopies::read(func::FuncOp step, MeshAttr ofMesh) {
  mesh = ofMesh;
  copies.clear();
  waits.clear();
  for (BlockArgument argument : step.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (failed(readCopies(step, step.getArgAttr(index, kCopiesAttrName),
                          {argument})) ||
        failed(readWaits(step, step.getArgAttr(index, kPlannedWaitsAttrName),
                         {argument})))
      return failure();
  }
  editArgAttrs(step, [](unsigned, NamedAttrList &attrs) {
    attrs.erase(kCopiesAttrName);
    attrs.erase(kPlannedWaitsAttrName);
  });
  for (Operation &op : step.getBody().front()) {
    if (failed(readCopies(&op, op.getAttr(kCopiesAttrName), op.getResults())) ||
        failed(
            readWaits(&op, op.getAttr(kPlannedWaitsAttrName), op.getResults())))
      return failure();
    op.removeAttr(kCopiesAttrName);
    op.removeAttr(kPlannedWaitsAttrName);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Look-ups
//===----------------------------------------------------------------------===//

ArrayRef<PlannedCopy> PlannedCopies::getCopies(Value value) const {
  auto it = copies.find(value);
  return it == copies.end() ? ArrayRef<PlannedCopy>() : it->second;
}

const PlannedCopy *PlannedCopies::find(Value value, const Forms &forms,
                                       StringRef pass) const {
  for (const PlannedCopy &copy : getCopies(value))
    if (copy.path.back() == forms && copy.pass == pass)
      return &copy;
  return nullptr;
}

const PlannedWait *PlannedCopies::findWait(Value value,
                                           const Forms &forms) const {
  auto it = waits.find(value);
  if (it != waits.end())
    for (const PlannedWait &wait : it->second)
      if (wait.forms == forms)
        return &wait;
  return nullptr;
}
