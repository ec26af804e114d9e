//===- Writers.h - the schedules of Schedules.def ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// p points, v sections on each of them, m microbatches. Each shape is one that
// the schedule's row allows.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_ORDERS_SCHEDULES_WRITERS_H
#define TANDEM_LIB_ORDERS_SCHEDULES_WRITERS_H

#include "tandem/Orders/Schedules.h"

namespace tandem::orders {

/// All forward passes, then all backward passes, of a section per point (Huang
/// et al., GPipe, 2019).
Order writeGpipe(const Shape &shape);

/// One forward and one backward pass in turn: point i begins with p - i forward
/// passes, which is also the number of microbatches whose activations it holds
/// at most (Narayanan et al., PipeDream, 2019).
Order write1F1B(const Shape &shape);

/// 1F1B of v sections per point: about p microbatches at a time pass through
/// all of them (Narayanan et al., Megatron-LM, 2021, section 2.2.2).
Order writeInterleaved(const Shape &shape);

/// All microbatches pass through one section of a point and then through its
/// next one: all in, all out (Fold3D, algorithm 1).
Order writeAiao(const Shape &shape);

/// 1F1B in which point i does W later by i microbatches, so that I comes early.
/// A point holds p microbatches (Qi et al., Zero Bubble, 2024, section 2.3).
Order writeZbH1(const Shape &shape);

/// Like it with 2 (p - i) - 1 forward passes in front, which fill the first
/// bubble, too. A point holds 2p - 1 microbatches (the same, section 2.3).
Order writeZbH2(const Shape &shape);

/// ZB-H1 of v sections per point.
Order writeInterleavedZb(const Shape &shape);

/// Two sections per point in a V: point 0 has the first and the last one. A
/// point holds as much as in 1F1B (Zero Bubble, section 6).
Order writeZbV(const Shape &shape);

/// Microbatches enter the V while others leave it: F of one section stands in
/// one group with B of the other (DeepSeek-AI, DualPipe, 2024, cut in half).
Order writeDualPipeV(const Shape &shape);

} // namespace tandem::orders

#endif // TANDEM_LIB_ORDERS_SCHEDULES_WRITERS_H
