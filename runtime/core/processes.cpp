//===- processes.cpp - the processes of a job -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/processes.h"
#include "core/control.h"

namespace tandem::rt {

Expected<int64_t> numProcesses() {
  Expected<Rendezvous> job = rendezvousFromEnvironment();
  if (!job.ok())
    return job.status();
  return job->worldSize;
}

Expected<int64_t> listenForProcesses() { return Control::listenForProcess(); }

Expected<Processes> Processes::join() {
  auto control = Control::ofProcess();
  if (!control.ok())
    return control.status();
  Processes processes;
  processes.control = *control;
  return processes;
}

int64_t Processes::process() const { return control->process(); }

Expected<std::vector<std::string>>
Processes::exchange(const std::string &what, const std::string &text) {
  return control->exchange(what, text);
}

Status Processes::conclude(const std::string &what, const std::string &error) {
  return control->conclude(what, error);
}

Status Processes::finish() {
  auto control = Control::joined();
  return control ? control->finish() : Status::success();
}

void Processes::leave(const std::string &error) {
  if (auto control = Control::joined())
    control->leave(error);
}

Expected<std::string> Processes::broadcast(const std::string &value) {
  return control->broadcast(value);
}

} // namespace tandem::rt
