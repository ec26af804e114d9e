//===- Pipeline.h - cuts and layouts of pipelines ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_PLAN_PIPELINE_H
#define TANDEM_TOOLS_TANDEM_PLAN_PIPELINE_H

#include "Options.h"

namespace tandem {

/// The exit status of `tandem-plan --partition`.
int runPartition(const Arguments &arguments);
/// Of `tandem-plan --layouts`.
int runLayouts(const Arguments &arguments);

/// The exit status of `tandem-plan --schedule`.
int runSchedule(const Arguments &arguments);

} // namespace tandem

#endif // TANDEM_TOOLS_TANDEM_PLAN_PIPELINE_H
