//===- choose.h - the step and the ranks of a picture -----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_TRACE_CHOOSE_H
#define TANDEM_RT_TRACE_CHOOSE_H

#include "tandem_rt/report.h"
#include "trace/analysis.h"

namespace tandem::rt::trace {

struct ChosenStep {
  const StepRun *step = nullptr;
  std::vector<const RankStep *> ranks = {};
};

/// What `options` name, or their defaults. Refers to `steps`. Fails where a
/// step or a rank was not recorded.
Expected<ChosenStep> choose(const std::vector<StepRun> &steps,
                            const PictureOptions &options);

} // namespace tandem::rt::trace

#endif // TANDEM_RT_TRACE_CHOOSE_H
