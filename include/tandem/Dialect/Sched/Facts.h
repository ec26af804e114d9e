//===- Facts.h - attributes of a scheduled step -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What each says stands with the dialect (`Sched.td`). Included by `Sched.h`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_FACTS_H
#define TANDEM_DIALECT_SCHED_FACTS_H

#include "tandem/Dialect/Facts.h"

namespace tandem::sched {

inline constexpr llvm::StringLiteral kSlotAttrName =
    SchedDialect::SlotAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kKernelAttrName =
    SchedDialect::KernelAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kLabelAttrName =
    SchedDialect::LabelAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kAgainAttrName =
    SchedDialect::AgainAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kArenaAttrName =
    SchedDialect::ArenaAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kDeviceAttrName =
    SchedDialect::DeviceAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kQueuesAttrName =
    SchedDialect::QueuesAttrHelper::getNameStr();

/// On a module that is made to be simulated: its arena may have more gaps.
inline constexpr llvm::StringLiteral kDraftAttrName = "sched.draft";

} // namespace tandem::sched

#endif // TANDEM_DIALECT_SCHED_FACTS_H
