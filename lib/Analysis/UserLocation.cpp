//===- UserLocation.cpp - locations in the user's code --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/UserLocation.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace mlir;

namespace {
/// What a location is made of.
struct Places {
  explicit Places(Location location) { add(location); }
  void add(Location location);

  llvm::MapVector<StringRef, std::set<unsigned>> lines; ///< By file.
  llvm::SetVector<StringRef> names; ///< Of what has no line.
};
} // namespace

void Places::add(Location location) {
  if (auto file = dyn_cast<FileLineColLoc>(location))
    lines[file.getFilename().getValue()].insert(file.getLine());
  if (auto name = dyn_cast<NameLoc>(location)) {
    if (isa<UnknownLoc>(name.getChildLoc()))
      names.insert(name.getName().getValue());
    add(name.getChildLoc());
  }
  if (auto call = dyn_cast<CallSiteLoc>(location))
    add(call.getCallee());
  if (auto fused = dyn_cast<FusedLoc>(location))
    llvm::for_each(fused.getLocations(), [&](Location part) { add(part); });
}

std::string tandem::getUserLocation(Location location) {
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return (file.getFilename().getValue() + ":" + Twine(file.getLine())).str();
  if (auto name = dyn_cast<NameLoc>(location))
    return getUserLocation(name.getChildLoc());
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return getUserLocation(call.getCallee());
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (std::string text = getUserLocation(part); !text.empty())
        return text;
  return "";
}

static std::string print(StringRef file, const std::set<unsigned> &lines) {
  constexpr size_t kMost = 4;
  std::string text =
      lines.size() > kMost
          ? std::to_string(*lines.begin()) + "-" +
                std::to_string(*lines.rbegin())
          : llvm::join(
                llvm::map_range(
                    lines, [](unsigned line) { return std::to_string(line); }),
                ",");
  return (file + ":" + text).str();
}

std::string tandem::getUserLocations(Location location) {
  Places places(location);
  if (!places.lines.empty())
    return llvm::join(llvm::map_range(places.lines,
                                      [](const auto &each) {
                                        return print(each.first, each.second);
                                      }),
                      ", ");
  constexpr size_t kMost = 3;
  ArrayRef<StringRef> names = places.names.getArrayRef();
  std::string text = llvm::join(names.take_front(kMost), ", ");
  return names.size() > kMost
             ? text + " and " + std::to_string(names.size() - kMost) + " more"
             : text;
}
