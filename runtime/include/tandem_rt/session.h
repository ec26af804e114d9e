//===- session.h - runs a Program -------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loaded Program with its ranks, seen from outside as one device: values go
// in and come out as whole tensors, and are sliced and put together by the
// forms in the Program. tandem-run and the Python bindings use nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_SESSION_H
#define TANDEM_RT_SESSION_H

#include "tandem_rt/program.h"
#include "tandem_rt/tensor.h"
#include "tandem_rt/trace.h"
#include "tandem_rt/wholes.h"

#include <memory>
#include <string_view>

namespace tandem::rt {

struct SessionOptions {
  /// Cores of one rank's compute thread.
  int threads = 1;
  /// Record a timeline from the start.
  bool trace = false;
};

/// All ranks of a Program in this process, each with its own threads, which
/// sleep between steps. Calls on one session must not overlap in time.
class Session {
public:
  /// Loads, verifies and prepares; allocates every buffer. Arguments are zero.
  static Expected<std::unique_ptr<Session>>
  create(std::span<const uint8_t> program, const SessionOptions &options = {});
  ~Session();

  const Program &program() const;

  /// The tensors of the model: the Program's arguments and results, where parts
  /// of one tensor are one.
  const std::vector<Whole> &arguments() const;
  const std::vector<Whole> &results() const;

  /// Indices into arguments() and results(); -1 if there is none.
  int findArgument(std::string_view role, std::string_view name) const;
  int findResult(std::string_view role, std::string_view name) const;
  /// The arguments of role "input", in order.
  const std::vector<uint32_t> &inputs() const;

  /// Copies a whole tensor into the ranks' slices. Type and shape must be the
  /// argument's. Blocks until copied.
  Status setArgument(uint32_t index, const TensorView &value);
  /// Puts the ranks' slices together; `reduce` axes are summed.
  Status getArgument(uint32_t index, const MutableTensorView &value) const;
  Status getResult(uint32_t index, const MutableTensorView &value) const;
  Expected<Tensor> getArgument(uint32_t index) const;
  Expected<Tensor> getResult(uint32_t index) const;

  /// Sets the inputs, in the order of inputs(), then runs one step on all
  /// ranks and waits for it. After a step stopped by CheckFinite every argument
  /// is as before and the session can go on; after any other error values can
  /// only be read.
  Status step(std::span<const TensorView> inputs);
  /// One step with the inputs that are there.
  Status step();

  /// Recording costs two clock readings per command. Starting clears.
  void startTrace();
  void stopTrace();
  const Trace &trace() const;

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace tandem::rt

#endif // TANDEM_RT_SESSION_H
