//===- collective.cpp - agreement within a group --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/collective.h"
#include "core/text.h"
#include "core/verify.h"

namespace tandem::rt {

bool isSame(const Collective &a, const Collective &b) {
  return a.kind == b.kind && a.type == b.type && a.shape == b.shape &&
         a.splitDim == b.splitDim && a.concatDim == b.concatDim;
}

std::string describe(const Collective &op) {
  return concat(Program::kindName(op), " of ", elementName(op.type),
                shapeText(op.shape));
}

namespace {
bool sums(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce ||
         kind == CollectiveKind::ReduceScatter;
}

Status verifyDims(const Collective &op, int64_t members) {
  bool splits = op.kind == CollectiveKind::ReduceScatter ||
                op.kind == CollectiveKind::AllToAll;
  bool joins = op.kind == CollectiveKind::AllGather ||
               op.kind == CollectiveKind::AllToAll;
  int32_t dims = int32_t(op.shape.size());
  if (splits && (op.splitDim < 0 || op.splitDim >= dims))
    return errorOf("collective splits dimension ", op.splitDim, " of ",
                   shapeText(op.shape));
  if (joins && (op.concatDim < 0 || op.concatDim >= dims))
    return errorOf("collective concatenates along dimension ", op.concatDim,
                   " of ", shapeText(op.shape));
  if (splits && op.shape[size_t(op.splitDim)] % members != 0)
    return errorOf("collective splits dimension ", op.splitDim, " of ",
                   shapeText(op.shape), " into ", members, " parts");
  return Status::success();
}
} // namespace

Status verifyCollective(const Collective &op, int64_t members) {
  if (Status status = verifyShape(op.shape); !status.ok())
    return status;
  if (sums(op.kind) &&
      (op.type == ElementType::I1 || op.type == ElementType::F16))
    return errorOf("collective sums ", elementName(op.type),
                   ", expected f64, f32, bf16, i64, i32 or i8");
  return verifyDims(op, members);
}

Status disagreement(const Collective &first, size_t member,
                    const Collective &other) {
  return errorOf("member 0 of the group runs ", describe(first),
                 ", but member ", member, " runs ", describe(other));
}

} // namespace tandem::rt
