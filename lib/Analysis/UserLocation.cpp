//===- UserLocation.cpp - locations in the user's code --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/UserLocation.h"

using namespace mlir;

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
