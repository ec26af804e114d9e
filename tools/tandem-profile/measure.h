//===- measure.h - times of commands of the runtime -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything is measured as the runtime does it: a Program whose ranks all run
// the same command again and again, timed by its own trace.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_PROFILE_MEASURE_H
#define TANDEM_TOOLS_TANDEM_PROFILE_MEASURE_H

#include "tandem/Device/Device.h"
#include "tandem_rt/processes.h"
#include "tandem_rt/program_builder.h"
#include "tandem_rt/session.h"
#include <functional>
#include <optional>

namespace tandem::profile {

/// How long, on what, and with how many ranks.
struct Effort {
  std::string device{kDefaultDevice};
  int64_t ranks = 4;
  int threads = 1;
  /// A step repeats its command until it takes so many seconds.
  double stepSeconds = 0.03;
  /// Steps that are timed; the fastest counts.
  int numSteps = 7;
  /// That have the ranks, alike many each. All of them measure the same, and
  /// all take what process 0 measured.
  int64_t processes = 1;
  /// What have a link within: processes, whose ranks have one memory, or hosts
  /// of GPUs.
  int64_t nodes = 1;
  std::optional<rt::Processes> job = {};

  /// Of process 0, on all.
  rt::Expected<double> share(double seconds) const;
  /// Process 0 writes on standard error.
  [[gnu::format(printf, 2, 3)]] void say(const char *format, ...) const;
};

/// The name of commands that are timed.
constexpr const char *kTimed = "timed";

/// Puts `count` equal commands named `kTimed` on one queue, after what they
/// need.
using AddCommands = std::function<void(rt::ProgramBuilder &, int64_t count)>;

/// Seconds of one of the commands: from the begin of the first to the end of
/// the last, divided by their number, the mean over the ranks.
rt::Expected<double> timeCommand(const Effort &effort,
                                 const std::vector<rt::Axis> &mesh,
                                 const AddCommands &add);

/// Bytes of memory that a process' ranks share.
rt::Expected<int64_t> memoryOfDevice(const Effort &effort);

/// m x k times k x n on each rank.
AddCommands addGemms(rt::ElementType type, int64_t m, int64_t n, int64_t k);
/// Copies of so many bytes.
AddCommands addCopies(int64_t bytes);
/// Collectives of f32 over `axis`, a device holding `bytes` of the tensor where
/// it is whole; bytes divide by 4 n^2.
AddCommands addCollectives(rt::CollectiveKind kind, uint32_t axis, int64_t n,
                           int64_t bytes);

/// Matrix products and all-reduces of all ranks beside each other: seconds of
/// each, the mean of those that run while the other queue is busy.
struct Beside {
  double computation = 0, collective = 0;
};
rt::Expected<Beside> timeBeside(const Effort &effort, int64_t size,
                                int64_t bytes, Beside alone);

/// Reserves a range of the arena, filled with ones.
rt::BufferRef addBuffer(rt::ProgramBuilder &builder, int64_t bytes,
                        uint32_t queue);

/// The queues of the Programs made here: that of the builder, and one more.
constexpr uint32_t kCompute = 0, kComm = 1;
/// A Program for the device that is measured.
rt::ProgramBuilder makeBuilder(const Effort &effort,
                               const std::vector<rt::Axis> &mesh);

} // namespace tandem::profile

#endif // TANDEM_TOOLS_TANDEM_PROFILE_MEASURE_H
