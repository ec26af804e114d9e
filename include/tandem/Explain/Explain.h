//===- Explain.h - explanation of a plan ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a problem and a legal plan a report as plain data: the form of every
// tensor and what other forms would cost, the collectives and which of their
// seconds hide beside computation, what exposes the rest, and the tensors that
// make up the peak of memory. Seconds are those of one device and step, bytes
// those of one device.
//
// Repeated layers are one entry: tensors whose names differ only in numbers
// that stand alone, of one shape, form, source line and pass.
//
// A step takes as long as its computation and its *exposed* communication: in a
// slot (Cost.h, *Slots*) of s seconds beside p seconds of computation, s - p of
// the collectives are exposed, those of the longest queue in equal shares. What
// waits is exposed where it slows computation down, and where it is left over.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXPLAIN_EXPLAIN_H
#define TANDEM_EXPLAIN_EXPLAIN_H

#include "tandem/Cost/Holdings.h"
#include "tandem/Cost/Plan.h"
#include <functional>

namespace tandem::explain {

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

/// The totals of a plan.
struct PlanTime {
  double seconds = 0;
  /// Of all operators and strands, by pass; and sums and concatenations over
  /// time.
  std::array<double, cost::kNumPasses> computation{};
  double local = 0;
  /// Of all collectives, as if each ran alone.
  double communication = 0;
  double exposed = 0;

  double getComputation() const {
    return computation[0] + computation[1] + computation[2] + local;
  }
};

/// Why seconds of communication lie beside no computation.
enum class Cause : uint8_t {
  /// There is no time axis: nothing can compute meanwhile.
  NoStrands,
  /// The first slot of the step: nothing has computed yet.
  FirstSlot,
  /// A change of form brings the strands together in this stage.
  Join,
  /// Nothing in the stage is split over time.
  NotSplit,
  /// The strands begin again behind a stage that has one.
  AfterJoin,
  /// Longer than the computation beside it.
  TooLittleComputation,
  /// Computation is slower beside a collective.
  SlowDown,
  /// Waited, and no slot had room before the first update.
  LeftOver,
  /// `hidup-serial` overlaps the forward pass only.
  SerialBackward,
};
constexpr unsigned kNumCauses = 9;
/// In a few words.
const char *describe(Cause cause);

struct Exposure {
  Cause cause = Cause::NoStrands;
  double seconds = 0;
  unsigned numSlots = 0;
  /// The collective that is exposed longest for this cause, as in
  /// `Collective::name`, and the source line.
  std::string example, location;
};

/// Collectives of one kind on one axis, for tensors of one entry.
struct Collective {
  /// `all-gather`, `reduce-scatter`, `all-reduce` or `all-to-all`; of what
  /// waits also `sum` and `concatenate`, over the time axis.
  std::string kind, axis;
  /// Devices in a group.
  int64_t groupSize = 1;
  /// The tensor's entry, and the source line of what wants it, else of what
  /// makes it.
  std::string name, location;
  cost::Pass pass = cost::Pass::Forward;
  /// How often a device takes part, all strands.
  unsigned count = 0;
  /// Of each: what a device would hold if the axis were `full`; and of all.
  int64_t bytes = 0, totalBytes = 0;
  double seconds = 0, exposed = 0;
  /// May lie beside any computation between a gradient and its update.
  bool waits = false;

  double getHiddenShare() const {
    return seconds > 0 ? 1 - exposed / seconds : 0;
  }
};

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

/// A plan with another form for all tensors of an entry.
struct Choice {
  /// As `cost::print` writes a layout, of the first tensor whose form differs.
  std::string form;
  /// Whether the tensors of the entry take several forms.
  bool isMixed = false;
  /// A search without the forms before it found the plan; else it is a local
  /// estimate: tensors next to it adapt, and the stages.
  bool isSearched = false;
  /// Whether it keeps the memory limit. If not, `seconds` may be unknown (0)
  /// and `peak` is the least that was found.
  bool fits = true;
  double seconds = 0;
  double computation = 0, exposed = 0;
  int64_t peak = 0;
  /// The collectives whose exposed seconds grow the most, `all-gather data`,
  /// and by how much; empty if none grow.
  std::string grown;
  double grownSeconds = 0;
};

/// A change of form of a tensor, per pass.
struct FormChange {
  cost::Pass pass;
  std::string form;
  /// `all-gather data`, several divided by commas; empty if it is free.
  std::string collectives;
  /// Stays for the next pass; may wait for a slot.
  bool isKept = false, waits = false;
};

enum class Role : uint8_t { Stored, Input, Activation, Gradient, Update };

/// A tensor, or the tensors of repeated layers.
struct FormEntry {
  std::string name, location, form;
  Role role = Role::Stored;
  /// In the order of the problem.
  std::vector<unsigned> tensors;
  /// Of each tensor: of one device, and whole.
  int64_t bytes = 0, wholeBytes = 0;
  /// How many forms its signatures give the first tensor.
  unsigned numForms = 1;
  std::vector<FormChange> changes;
  /// One sentence.
  std::string why;
  /// Up to two, the better one first; empty if there is no other form that what
  /// lies around takes, and of what updates make.
  std::vector<Choice> choices;
};

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// What is held at the peak: the tensors of an entry in one form.
struct PeakEntry {
  cost::Holding::Kind kind = cost::Holding::Kind::Stored;
  std::string name, location, form;
  unsigned count = 0;
  int64_t bytes = 0;
  /// From the first stage of any to the last of any.
  unsigned first = 0, last = 0;
  /// In the order of the problem; of a workspace the operators.
  std::vector<unsigned> tensors;
  /// The plan that makes them again where they are read in the backward pass,
  /// or changes their form again in each pass, and is the same otherwise.
  std::optional<Choice> without;
  /// The plan that has them wait on the host instead.
  std::optional<Choice> sent;
  /// Why there is none of the first kind, in a few words.
  std::string whyHeld;
};
/// `stored`, `copy`, ...
const char *describe(cost::Holding::Kind kind);

/// What lies on the host: the tensors of an entry in one form.
struct HostEntry {
  /// From step to step; else it waits there for the backward pass.
  bool isStored = false;
  std::string name, location, form;
  unsigned count = 0;
  /// Of all of them, of one device.
  int64_t bytes = 0;
  /// What the plan pays for copies that are operators of their own: what
  /// computation does not hide. States are copied beside their updates.
  double seconds = 0;
  bool hasOwnCopies = false;
};

//===----------------------------------------------------------------------===//
// All together
//===----------------------------------------------------------------------===//

struct ExplainOptions {
  /// Entries of each role, from the largest, for which many other forms are
  /// tried, with new stages; of gradients half as many. For the others it is
  /// two forms with the plan's stages. Searches take no notice of it, but 0
  /// asks nothing. So many entries of the peak are asked what the step costs
  /// without them.
  unsigned numChoices = 10;
  /// Problems of up to this many operators are searched again for every choice,
  /// larger ones estimated; under the accountings `hidup-*` all are searched.
  unsigned maxSearched = 40;
  /// Seconds after which no form is searched for again: those of the entries
  /// that are left are estimated briefly, as long as a fixed amount of work
  /// lasts; entries that are left then are not looked at, and say so. 0: no
  /// limit. Explanations are reproducible only without one.
  double timeLimit = 0;
  /// Asked meanwhile: true ends the searches as the limit does. May be empty.
  std::function<bool()> endsSearch = {};
  /// Bytes of an element of each tensor that lies on the host, of which
  /// problems know none; 0 of all others. Empty: nothing lies there.
  std::vector<int64_t> hostElements = {};
};

struct Explanation {
  std::string accounting, mesh;
  /// The mesh with the pipe axis, where the plan is that of all sections of a
  /// pipeline one after another.
  std::string pipeline;
  PlanTime time;
  double lowerBound = 0; // s
  bool isOptimal = false;
  int64_t peak = 0, memoryLimit = 0;
  /// The stage of the peak, the number of stages, and of those with several
  /// strands.
  unsigned peakStage = 0, numStages = 0, numSplitStages = 0;
  /// The largest first.
  std::vector<FormEntry> forms;
  std::vector<Collective> collectives;
  std::vector<Exposure> exposures;
  std::vector<PeakEntry> peakEntries;
  std::vector<HostEntry> hostEntries;
};

/// Explains a legal plan. Nothing, and one line in `error`, if it is not one.
/// The same plan gives the same explanation.
std::optional<Explanation> explain(const cost::SearchProblem &problem,
                                   const cost::Plan &plan,
                                   const ExplainOptions &options,
                                   std::string &error);

/// One to two pages: the ten largest of each, the rest summed up.
std::string printText(const Explanation &explanation);
/// Everything, as JSON.
std::string printJson(const Explanation &explanation);

/// The largest tensor of more than `bytes` that is the same on all devices
/// (whole on every space axis, and no term of a sum), as an error: its name,
/// bytes, place, and how many there are. Empty if there is none, or but one
/// device. Copies that are made for a while are not looked at.
std::string findReplicated(const cost::SearchProblem &problem,
                           const cost::Plan &plan, int64_t bytes);

/// Where two plans differ, and what that costs: totals, forms, collectives and
/// operators whose seconds differ. The problems may differ in mesh and prices;
/// tensors are matched by name. Empty, with one line in `error`, if a plan is
/// not legal.
std::string compare(const cost::SearchProblem &problemA,
                    const cost::Plan &planA,
                    const cost::SearchProblem &problemB,
                    const cost::Plan &planB, std::string &error);

} // namespace tandem::explain

#endif // TANDEM_EXPLAIN_EXPLAIN_H
