//===- report.h - report of hidden communication ----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers are seconds of a step: medians over the steps that ran to their end
// on every rank (over all, if there is no such step). What is of several ranks
// is first their mean.
//
// A rank computes while a computing command of it runs, and communicates while
// a collective or a combined check does, waiting for late members included.
// Hidden is the time in which it does both. It copies while a command of a
// queue of copies runs, from its host's memory or to it; that is hidden while
// it computes or communicates.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_REPORT_H
#define TANDEM_RT_REPORT_H

#include "tandem_rt/command_times.h"
#include "tandem_rt/simulate.h"

#include <optional>

namespace tandem::rt {

struct StepTimes {
  double seconds = 0; ///< From the first begin on any rank to the last end.
  double computation = 0, communication = 0, hidden = 0;
  double exposed = 0; ///< Communication that is not hidden.
  double idle = 0;    ///< Of `seconds`, nothing is computed.
  /// Of the communication, until the last member of a group came.
  double waitedForPeers = 0;
  /// Copies between device and host, and what of them is hidden.
  double copies = 0, copiesHidden = 0;

  /// Of what could be hidden; 0 where that is nothing.
  double hiddenOfMin() const;
  /// Of all communication.
  double hiddenShare() const;
};

/// A command of a rank program.
struct CommandName {
  uint32_t rankProgram = 0, id = 0;
  std::string name = {}, kind = {}, source = {};
  bool operator<(const CommandName &other) const {
    return std::pair(rankProgram, id) < std::pair(other.rankProgram, other.id);
  }
};

/// Time for which something stood still, and for what.
struct WaitReason {
  /// "collective", "computation", "beginning" (nothing was computed yet),
  /// "end" (all was computed), "launch" (between two commands); of a
  /// collective also "needed": computation waits for itself.
  std::string why = {};
  std::optional<CommandName> command = {};
  double seconds = 0;
};

struct RankReport {
  int64_t rank = 0;
  StepTimes times = {};
  std::optional<StepTimes> predicted = {};
  std::vector<WaitReason> idleFor = {}; ///< The longest first.
};

struct PointReport {
  int64_t point = 0;
  std::vector<int64_t> ranks = {}; ///< Those that have events.
  double bubble = 0; ///< Share of the step in which nothing is computed.
  std::optional<double> predicted = {};
  double idle = 0;                      ///< Mean of its ranks.
  std::vector<WaitReason> idleFor = {}; ///< The longest first.
  /// Of a rank, most of all ranks; nothing: the timeline does not say it.
  std::optional<TimelineMemory> memory = {};
  /// Microbatches of its sections at most, from their forward passes to the
  /// ends of their backward passes.
  int64_t inFlight = 0;
};

/// What a rank of point `from` sends to one of point `to` in a step.
struct EdgeReport {
  int64_t from = 0, to = 0;
  double transfers = 0, bytes = 0;
};

struct CollectiveReport {
  CommandName command = {};
  int64_t bytes = 0;                  ///< Sent by a rank, each time.
  std::vector<std::string> axes = {}; ///< Of its group.
  int32_t stage = 0, strand = 0;
  double times = 1; ///< In a step.
  double seconds = 0, hidden = 0, exposed = 0;
  /// Before it began: for its data, and, with the data there, for the
  /// collective before it. Then for the last member of its group.
  double data = 0, link = 0, peer = 0;
  std::optional<CommandName> dataFrom = {}, linkAfter = {};
  int64_t lastPeer = -1; ///< The one that was last most of the time.
  std::vector<WaitReason> exposedFor = {};
  struct Prediction {
    double seconds = 0, hidden = 0;
  };
  std::optional<Prediction> predicted = {};
};

struct ComputationReport {
  CommandName command = {};
  double times = 1, seconds = 0;
  std::optional<double> predicted = {};
};

struct StepReport {
  int64_t step = 0;
  bool isComplete = true;
  StepTimes times = {};
};

struct Report {
  TimelineHead head = {}; ///< Without commands.
  std::vector<MissingRank> missing = {};
  std::string predictedFrom = {}; ///< Empty: nothing is predicted.
  /// Empty: nothing is wrong with the prediction.
  std::string warning = {};
  StepTimes total = {};
  std::optional<StepTimes> predicted = {};
  std::vector<StepReport> steps = {};
  std::vector<RankReport> ranks = {};
  /// Of a pipeline: the axis of its transfers, its points, and the pairs of
  /// points with transfers.
  std::string pipeAxis = {};
  std::vector<PointReport> points = {};
  std::vector<EdgeReport> edges = {};
  std::vector<CollectiveReport> collectives = {};   ///< The most exposed first.
  std::vector<ComputationReport> computations = {}; ///< The longest first.

  /// Of all clocks, in nanoseconds; below 0: not known.
  int64_t clockError() const;
};

struct ReportOptions {
  /// Steps at the begin of the timeline that do not count.
  int64_t skip = 0;
};

/// Fails where nothing was recorded, or where `predicted` is of another
/// Program.
Expected<Report> makeReport(const Timeline &timeline,
                            const Timeline *predicted = nullptr,
                            const ReportOptions &options = {});

/// A queue of a rank: means over the steps.
struct QueueTimes {
  int64_t rank = 0;
  uint32_t queue = 0;
  double busy = 0, idle = 0; ///< Commands run; nothing runs.
  /// Of a busy queue, its movements beside no computation of the rank.
  double exposed = 0;
  /// Why nothing is computed: while a compute queue is idle, or a movement of
  /// another queue is exposed. The longest first.
  std::vector<WaitReason> reasons = {};
};
/// Of the queues that have commands, by rank.
std::vector<QueueTimes> queueTimes(const Timeline &timeline);

/// `for all_gather 'w' (model.py:7)`, `nothing left to compute`.
std::string reasonText(const WaitReason &reason);

/// For people. Without `all` the ten most exposed collectives and the ten worst
/// predicted commands.
std::string printText(const Report &report, bool all = false);
/// docs/timelines.md has the fields.
std::string printJson(const Report &report);

/// A timeline of one step as the table of seconds in `path` predicts it, for
/// the Program of `head`. The table (docs/timelines.md) is that of timed runs,
/// with the times of collectives. Collectives begin when their last member has
/// come; computation and collectives beside each other slow each other down as
/// the table says.
Expected<Timeline> predictTimeline(const TimelineHead &head,
                                   const std::string &path);

/// The timeline of the steps of `head` by the seconds in `times`, which has
/// them for all its commands.
Expected<Timeline> predictTimeline(const TimelineHead &head,
                                   const CommandTimes &times,
                                   const SimulationOptions &options = {});

/// Either of the two: a timeline, or a table for the Program of `head`.
Expected<Timeline> readPrediction(const TimelineHead &head,
                                  const std::string &path);

struct PictureOptions {
  std::optional<int64_t> step = {}; ///< Default: that of median length.
  std::vector<int64_t> ranks = {};  ///< Default: the first eight.
  int64_t width = 1200;             ///< Of the whole picture, in pixels.
};

/// An SVG of one step: for each rank what it computes, and beside it what it
/// communicates, in the colours of the strands.
Expected<std::string> drawTimeline(const Timeline &timeline,
                                   const PictureOptions &options = {});

/// The same step as JSON, for the page of a report (docs/rationale/report.md
/// has the fields). `width` does not count.
Expected<std::string> printStep(const Timeline &timeline,
                                const PictureOptions &options = {});

} // namespace tandem::rt

#endif // TANDEM_RT_REPORT_H
