//===- communicator.h - ranks of several processes --------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMM_GLOO_COMMUNICATOR_H
#define TANDEM_RT_COMM_GLOO_COMMUNICATOR_H

#include "core/communicator.h"
#include "core/control.h"

namespace tandem::rt {

/// Ranks are threads of the job's processes; `ranks` are those of this one.
/// Every process calls it, blocks until all have, and gets an error if the
/// ranks of all are not those below `worldSize`.
Expected<std::shared_ptr<Fabric>>
createGlooFabric(std::shared_ptr<Control> control,
                 const std::vector<int64_t> &ranks, int64_t worldSize);

} // namespace tandem::rt

#endif // TANDEM_RT_COMM_GLOO_COMMUNICATOR_H
