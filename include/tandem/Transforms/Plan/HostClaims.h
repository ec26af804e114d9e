//===- HostClaims.h - what a plan file puts on the host ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_PLAN_HOSTCLAIMS_H
#define TANDEM_TRANSFORMS_PLAN_HOSTCLAIMS_H

#include <string>
#include <vector>

namespace tandem {

/// What a plan file says of the host's memory, before its step is known.
struct HostClaims {
  /// Those under which it was found.
  std::vector<std::string> pins;
  /// Whether values may wait there for the backward pass.
  bool sendsValues = false;
};

/// Nothing of a file that cannot be read: the stage says why.
HostClaims readHostClaims(const std::string &path);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_PLAN_HOSTCLAIMS_H
