//===- communicator.h - ranks are threads -----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMM_LOCAL_COMMUNICATOR_H
#define TANDEM_RT_COMM_LOCAL_COMMUNICATOR_H

#include "core/communicator.h"

namespace tandem::rt {

/// Ranks are threads of this process.
std::shared_ptr<Fabric> createLocalFabric();

} // namespace tandem::rt

#endif // TANDEM_RT_COMM_LOCAL_COMMUNICATOR_H
