//===- collective.cpp - what members of a group agree on ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/collective.h"
#include "core/text.h"

namespace tandem::rt {

bool isSame(const Collective &a, const Collective &b) {
  return a.kind == b.kind && a.type == b.type && a.shape == b.shape &&
         a.splitDim == b.splitDim && a.concatDim == b.concatDim;
}

std::string describe(const Collective &op) {
  return concat(Program::kindName(op), " of ", elementName(op.type),
                shapeText(op.shape));
}

Status disagreement(const Collective &first, size_t member,
                    const Collective &other) {
  return errorOf("member 0 of the group runs ", describe(first),
                 ", but member ", member, " runs ", describe(other));
}

} // namespace tandem::rt
