//===- mesh.h - a connection with each other process ------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMM_GLOO_MESH_H
#define TANDEM_RT_COMM_GLOO_MESH_H

#include "core/control.h"

namespace tandem::rt::gloo {

/// A connection with each other process of the job, by process (none with
/// itself), over the interface that leads to process 0, or GLOO_SOCKET_IFNAME.
/// Both ends of each have proven that they know the job's secret; strangers are
/// refused, and the others go on. All processes come here with the same name,
/// once for each.
Expected<std::vector<Socket>> connectMesh(Control &control,
                                          const std::string &name);

} // namespace tandem::rt::gloo

#endif // TANDEM_RT_COMM_GLOO_MESH_H
