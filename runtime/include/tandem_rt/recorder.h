//===- recorder.h - values that commands wrote ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps what commands wrote that are results of operators of the step
// (Command::origins), for a comparison with what these gave in another stage.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_RECORDER_H
#define TANDEM_RT_RECORDER_H

#include "tandem_rt/program.h"
#include "tandem_rt/status.h"
#include "tandem_rt/tensor.h"

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace tandem::rt {

class ValueRecorder {
public:
  /// Copies the bytes of a reference to the host.
  using Fetch = std::function<Status(const BufferRef &ref, char *to)>;

  /// Behind a command, in the iteration of its Repeat. Queues and ranks may
  /// call it at a time.
  Status add(const Program &program, const Command &command, int64_t rank,
             int64_t iteration, const Fetch &fetch);

  /// What was added since clear(), each tensor as one dimension, with keys as
  /// those of `tandem-interpret --save-operators` (Reference/Recorder.h): the
  /// operator is the command, pass and operands are empty, and a value of
  /// several ranks that run the same has one number.
  std::map<std::string, TensorView> tensors() const;
  void clear();

private:
  std::string keyOf(const Program &program, const Command &command,
                    int64_t rank, int64_t iteration, size_t write);

  mutable std::mutex lock;
  /// By rank program, id of the command, iteration and number of the write.
  std::map<std::tuple<uint32_t, uint32_t, int64_t, size_t>, size_t> numbers;
  std::map<std::string, Tensor> values;
};

} // namespace tandem::rt

#endif // TANDEM_RT_RECORDER_H
