//===- MeshText.cpp - a mesh as text --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/SPMD/MeshText.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tandem::spmd;

std::string tandem::spmd::getMeshText(MeshAttr mesh) {
  std::string text;
  for (unsigned axis = 0; axis < mesh.getNumSpaceAxes(); ++axis)
    text += (axis ? "," : "") + mesh.getName(axis).str() + "=" +
            std::to_string(mesh.getSize(axis));
  return text;
}

static bool isIdentifier(StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

FailureOr<MeshAttr> tandem::spmd::parseMesh(Location location, StringRef text,
                                            int64_t micro, StringRef file,
                                            StringRef timeAxis) {
  std::string place = file.empty() ? "" : "plan file '" + file.str() + "': ";
  auto emitAtPlace = [&]() -> InFlightDiagnostic {
    return emitError(location) << place;
  };
  SmallVector<StringRef> parts;
  if (!text.empty())
    text.split(parts, ',');
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  auto add = [&](StringRef name, int64_t size) {
    names.push_back(StringAttr::get(location.getContext(), name));
    sizes.push_back(size);
  };
  for (StringRef part : parts) {
    auto [name, sizeText] = part.split('=');
    int64_t size;
    if (name.trim().empty() || sizeText.trim().getAsInteger(10, size) ||
        size < 1)
      return emitAtPlace()
             << "mesh '" << text
             << "': expected 'axis=size', a size of at least 1, found '"
             << part.trim() << "'";
    if (!isIdentifier(name.trim()))
      return emitAtPlace() << "mesh '" << text << "': found axis '"
                           << name.trim()
                           << "', expected an identifier of letters, digits "
                              "and _";
    add(name.trim(), size);
  }
  // One device is a mesh of one point.
  if (names.empty())
    add("data", 1);
  if (micro < 1)
    return emitAtPlace() << timeAxis << " is " << micro
                         << ", expected at least 1";
  if (micro > 1)
    add(timeAxis, micro);
  unsigned numTimeAxes = micro > 1 ? 1 : 0;
  if (failed(MeshAttr::verify(emitAtPlace, names, sizes, numTimeAxes)))
    return failure();
  return MeshAttr::get(location.getContext(), names, sizes, numTimeAxes);
}

FailureOr<MeshAttr> tandem::spmd::getWholeMesh(ModuleOp op, MeshAttr mesh) {
  auto text = op->getAttrOfType<StringAttr>(kWholeMeshAttrName);
  return parseMesh(op.getLoc(), text ? text.getValue() : getMeshText(mesh),
                   /*micro=*/1, /*file=*/"");
}
