//===- communicator.h - communicator interface ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_COMMUNICATOR_H
#define TANDEM_RT_CORE_COMMUNICATOR_H

#include "tandem_rt/trace.h"

#include <functional>
#include <memory>

namespace tandem::rt {

/// One rank's place in one group, which does collectives or transfers. Used by
/// one thread at a time.
class Communicator {
public:
  virtual ~Communicator() = default;

  /// Does one collective; every member calls it with the same `op`, in the
  /// same order. Blocks, asleep, until this member's destination is complete
  /// and its source is free. Sums are added in the order of the group, so that
  /// they are equal to the bit on all members and from run to run; bf16 is
  /// added in f32. Fails when members disagree, and on every member after
  /// Fabric::abort().
  virtual Status run(const Collective &op, const void *source,
                     void *destination) = 0;

  /// One end of a transfer between two members: `data` is read where it sends,
  /// else written. The n-th send meets the n-th receive, with as many bytes.
  /// Blocks, asleep, until the source is free, or the destination complete.
  /// Fails at both ends after Fabric::abort(). Calls `moves`, if there is one,
  /// when the other end is there: from then on nothing else is waited for.
  virtual Status transfer(bool sends, void *data, size_t bytes,
                          const std::function<void()> &moves = {}) = 0;
};

/// Connects the ranks of a job, which may be of several processes.
class Fabric {
public:
  virtual ~Fabric() = default;

  /// The place of `rank`, one of this process, in the group of `members`
  /// (ascending, `rank` among them). Collectives of different channels do not
  /// see one another. Thread-safe.
  virtual Expected<std::unique_ptr<Communicator>>
  connect(const std::vector<int64_t> &members, int64_t rank,
          unsigned channel) = 0;

  /// Moves a slice of a value, between steps: every process calls it with the
  /// same ranks and size, in the same order. `data` is read in the process of
  /// rank `from` and written in that of rank `to`, or in all; where it is
  /// neither it may be null. Blocks.
  virtual Status move(int64_t from, std::optional<int64_t> to, void *data,
                      size_t bytes) = 0;

  /// Whether all processes have the same, such as a Program's hash; an error
  /// that is the same on all of them if not. Every process calls it, in the
  /// same order. Blocks until all have.
  virtual Status agree(const std::string &what, const std::string &text) = 0;

  /// Wakes every member of every group, in all processes, and makes collectives
  /// fail until recover(). The first reason of a job counts. Thread-safe;
  /// returns at once.
  virtual void abort(const Status &why) = 0;

  /// Whether all processes' part of `what` went well, this one's by `own`; if
  /// not the first error, which names its process. Every process calls it, in
  /// the same order. Blocks until all have.
  virtual Status conclude(const std::string &what, const Status &own) = 0;

  /// Around a step: no process is left in one when the job has failed.
  virtual void setStepping(bool stepping) = 0;

  /// The reason of the abort, once collectives fail by one; else success. One
  /// for all processes: waits until they have it. Thread-safe.
  virtual Status reason() const = 0;
  /// Whether somebody in this process was given the reason.
  virtual bool isReasonKnown() const = 0;

  /// After an abort, with no collective running: groups are as new. Every
  /// process calls it; blocks until all have. Does nothing where nothing has
  /// failed.
  virtual Status recover() = 0;

  /// How the clock of this process stands to that of process 0, by round trips.
  /// Asks process 0 alone.
  virtual Expected<ClockReading> readClock() = 0;

  /// Bytes of values that this process has given to others so far.
  virtual int64_t bytesSent() const = 0;
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_COMMUNICATOR_H
