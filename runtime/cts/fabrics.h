//===- fabrics.h - fabrics of tests -----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_FABRICS_H
#define TANDEM_RT_CTS_FABRICS_H

#include "comm/local/communicator.h"
#include "core/control.h"

namespace tandem::rt::cts {

using Fabrics = std::vector<std::shared_ptr<Fabric>>;
using Controls = std::vector<std::shared_ptr<Control>>;

/// Calls `body` for each process, in a thread each, as they wait for another.
void inProcesses(int64_t count, const std::function<void(int64_t)> &body);

inline constexpr const char *kSecret = "secret of the tests";

/// On a free port of the loopback.
Expected<Listener> listenHere();

/// What a process hears that goes to the job at this port of the loopback, and
/// leaves it again; process 0 brings its listener.
Status join(int64_t process, int64_t processes, int64_t port,
            std::chrono::milliseconds timeout = std::chrono::milliseconds(500),
            Listener listener = {}, const std::string &secret = kSecret);

/// The control connections of a job whose processes are threads of this one,
/// and the port on which they met.
Controls joinAll(int64_t processes,
                 std::chrono::milliseconds timeout = std::chrono::seconds(30),
                 int64_t *port = nullptr);

#ifdef TANDEM_CUDA
/// Ranks are threads, each with an emulated GPU of its own.
Fabrics ncclFabrics(int64_t ranks);
#endif

#ifdef TANDEM_GLOO
/// By rank; ranks of one process have one fabric. Processes have neighbouring
/// ranks, or take turns.
Fabrics glooFabrics(int64_t ranks, int64_t processes, bool neighbours);
#endif

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_FABRICS_H
