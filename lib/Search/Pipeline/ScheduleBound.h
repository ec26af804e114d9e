//===- ScheduleBound.h - what no schedule is below --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEBOUND_H
#define TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEBOUND_H

#include "ScheduleModel.h"

namespace tandem::pipeline::schedule {

/// A cost of the model that no rows are below: for each machine the best that
/// it could do alone if it might interrupt operations, given when each one can
/// begin and how long the rest takes at least. Limits count as far as one
/// section alone reaches them.
double findBound(const Model &model);

} // namespace tandem::pipeline::schedule

#endif // TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEBOUND_H
