//===- session.h - runs a Program -------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loaded Program with the ranks of this process. Values go in and come out as
// whole tensors, and are sliced and put together by the forms in the Program.
// tandem-run and the Python bindings use nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_SESSION_H
#define TANDEM_RT_SESSION_H

#include "tandem_rt/command_times.h"
#include "tandem_rt/store.h"
#include "tandem_rt/tensor.h"
#include "tandem_rt/wholes.h"

#include <functional>
#include <memory>
#include <string_view>

namespace tandem::rt {

/// What a rank has of a stored tensor of the model: a box, contiguous.
struct Slice {
  uint32_t member = 0; ///< Of the Program's arguments.
  int64_t rank = 0;
  Shape offsets = {}; ///< Of its first element in the tensor.
  Shape extents = {};
};

class ValueRecorder;

struct SessionOptions {
  /// Cores of one rank's compute thread.
  int threads = 1;
  /// Record a timeline from the start.
  bool trace = false;
  /// All ranks of the Program by default; where a launcher has started several
  /// processes, this one's part of them on fabric 'gloo'.
  Job job = {};
  /// The values to run on; null: a store of its own.
  std::shared_ptr<ValueStore> store = {};
  /// Computing commands sleep so long in place of computing; collectives are
  /// done. Null: they compute. With times the store has to be its own.
  std::shared_ptr<const CommandTimes> times = {};
  /// Each rank runs its queues as one: nothing is beside anything.
  bool oneQueue = false;
  /// A device that can has the whole step as one thing (a CUDA graph), which
  /// it starts without the host; the same values without.
  bool graph = true;
  /// Asked while the session is made, and never later; true lets that fail. May
  /// be empty.
  std::function<bool()> isCancelled = {};
  /// A step fails at the first command that makes a number which is not finite
  /// of finite operands. So it does where TANDEM_CHECK is nan. Slow.
  bool checksNumbers = false;
  /// Told of what each command wrote; null: nobody is. Slow.
  std::shared_ptr<ValueRecorder> recorder = {};
};

/// A Program on a store, with threads that sleep between steps. One call at a
/// time on all sessions of a store: one that comes while another thread is in
/// such a call is an error, and changes nothing.
///
/// In a job of several processes all make the same calls in the same order.
class Session {
public:
  /// Blocks until all processes have the same Program, and fails on all of them
  /// if they have not. Loads, verifies and prepares; allocates every buffer.
  /// What the store has not yet, and arguments of the session's own, are zero.
  static Expected<std::unique_ptr<Session>>
  create(std::span<const uint8_t> program, const SessionOptions &options = {});
  ~Session();

  const Program &program() const;
  /// programHash() of its file.
  const std::string &hash() const;
  const std::shared_ptr<ValueStore> &store() const;
  /// Which ranks are here.
  const Job &job() const;
  /// A line for people on what this machine lacks, and what stands for it, at
  /// the cost of time alone; empty: nothing.
  std::string notice() const;
  /// Bytes of memory that the device has in all, which ranks here share.
  int64_t memoryBytes() const;

  /// The tensors of the model: the Program's arguments and results, where parts
  /// of one tensor are one.
  const std::vector<Whole> &arguments() const;
  const std::vector<Whole> &results() const;

  /// Indices into arguments() and results(); -1 if there is none.
  int findArgument(std::string_view role, std::string_view name) const;
  int findResult(std::string_view role, std::string_view name) const;
  /// The arguments of role "input", in order.
  const std::vector<uint32_t> &inputs() const;

  /// Copies a whole tensor into the slices of ranks. Type and shape must be the
  /// argument's. Blocks until copied. Each process gives the whole, or, with
  /// `root`, the process of that rank, and the others no data.
  Status setArgument(uint32_t index, const TensorView &value,
                     std::optional<int64_t> root = {});
  /// Puts the ranks' slices together; `reduce` axes are summed. Each process
  /// gets the whole, or, with `root`, the process of that rank alone. An error
  /// behind a step whose commands have slept in place of computing.
  Status getArgument(uint32_t index, const MutableTensorView &value,
                     std::optional<int64_t> root = {}) const;
  Status getResult(uint32_t index, const MutableTensorView &value,
                   std::optional<int64_t> root = {}) const;
  /// As above, of a tensor in memory of the Program's device: by copies within
  /// it, which the caller's stream does behind what it has, and the next step
  /// comes behind them. They return at once. An error for what is not direct.
  Status setArgument(uint32_t index, const DeviceTensor &value);
  Status getResult(uint32_t index, const DeviceTensor &value) const;
  /// Whether these can be called: the device has memory of its own, no slice is
  /// a term of a sum, and ranks of this process have all of a result.
  bool isDirectArgument(uint32_t index) const;
  bool isDirectResult(uint32_t index) const;
  Expected<Tensor> getArgument(uint32_t index) const;
  Expected<Tensor> getResult(uint32_t index) const;

  /// What all ranks have of a stored one, those elsewhere as well; where ranks
  /// have the same box, its values are the same. A rank at another point of the
  /// form has none.
  Expected<std::vector<Slice>> slices(uint32_t index) const;
  /// Copies bytes of the slice that a rank of this process has of an argument
  /// of the Program, from byte `offset` on. Neither waits for other processes.
  Status readSlice(uint32_t member, int64_t rank, int64_t offset,
                   std::span<uint8_t> to) const;
  Status writeSlice(uint32_t member, int64_t rank, int64_t offset,
                    std::span<const uint8_t> from);
  /// From here to endLoading() all stored values of the session are damaged, so
  /// that a step is an error where slices were written in part. `source` is
  /// what they are loaded from.
  Status beginLoading(const std::string &source);
  Status endLoading();

  /// Sets the inputs, in the order of inputs(), then runs one step on the ranks
  /// of this process and waits for it.
  ///
  /// The session can be used again after an error. After a check that refused
  /// the step (Status::isRefusal), and after an error before the step's first
  /// write to a stored value, all are as before. After any other error those
  /// that the step may have begun to write are damaged (in a job of several
  /// processes all that the Program updates): they can be read, and the next
  /// step is an error until setArgument() has set each of them.
  Status step(std::span<const TensorView> inputs);
  /// One step with the inputs that are there.
  Status step();

  /// Recording costs two clock readings per command. Starting clears, and reads
  /// the clock of process 0.
  void startTrace();
  void stopTrace();
  /// That of the ranks of this process.
  const Trace &trace() const;
  /// Writes the timeline of all ranks to `path`, in the process that has rank 0
  /// (timeline.h). Every process takes part, and gets the same error where it
  /// cannot be written: then what was at `path` is as it was. What a process
  /// that is gone has recorded is left out: the summary says so. With `alone`
  /// each takes part for itself, and the timeline lacks the ranks of the
  /// others; for who does not know what the others do. Needs at most 200 bytes
  /// of memory per event, with recording.
  Expected<TraceSummary> writeTrace(const std::string &path,
                                    bool alone = false) const;

  /// Bytes of values that this process has given to others so far.
  int64_t bytesSent() const;

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace tandem::rt

#endif // TANDEM_RT_SESSION_H
