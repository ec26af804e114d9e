//===- UserLocation.h - locations in the user's code ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_USERLOCATION_H
#define TANDEM_ANALYSIS_USERLOCATION_H

#include "mlir/IR/Location.h"

namespace tandem {

/// `file.py:12` of the innermost place in the user's code; empty if unknown.
std::string getUserLocation(mlir::Location location);

/// The places of all that was fused: `file.py:12,15`, of more than four lines
/// `file.py:12-40`. Where none is in the user's code the first three names:
/// `optimizer.w`.
std::string getUserLocations(mlir::Location location);

} // namespace tandem

#endif // TANDEM_ANALYSIS_USERLOCATION_H
