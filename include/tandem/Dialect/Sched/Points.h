//===- Points.h - programs of points ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the functions of the points of a pipe axis consist of.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_POINTS_H
#define TANDEM_DIALECT_SCHED_POINTS_H

#include "tandem/Dialect/Sched/Sched.h"

#define GET_OP_CLASSES
#include "tandem/Dialect/Sched/PointsOps.h.inc"

#endif // TANDEM_DIALECT_SCHED_POINTS_H
