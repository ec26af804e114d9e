//===- ExplainText.cpp - explanation as text ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainTable.h"
#include "tandem/Explain/Explain.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

using namespace tandem::cost;
using namespace tandem::explain;

/// Entries that are printed of each list.
constexpr size_t kMaxPrinted = 10;
/// And of gradients, which mostly follow from the rest.
constexpr size_t kMaxGradients = 5;

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

static std::string getPassSeconds(const PlanTime &time) {
  std::string text;
  for (unsigned pass = 0; pass < kNumPasses; ++pass)
    if (time.computation[pass] > 0)
      text += (text.empty() ? "" : ", ") +
              std::string(getPassName(static_cast<Pass>(pass))) + " " +
              formatSeconds(time.computation[pass]);
  if (time.local > 0)
    text += ", sums over time " + formatSeconds(time.local);
  return text;
}

static std::string getGapText(const Explanation &explanation) {
  const PlanTime &time = explanation.time;
  if (explanation.isOptimal)
    return "optimal";
  if (explanation.lowerBound <= 0 || time.seconds <= 0)
    return "";
  return "gap " + formatShare(getGap(time.seconds, explanation.lowerBound));
}

static std::string printTime(const Explanation &explanation) {
  const PlanTime &time = explanation.time;
  double computation = time.getComputation();
  double hidden = time.communication - time.exposed;
  Table table("lrl");
  table.add({"predicted", formatSeconds(time.seconds),
             "computation and exposed communication"});
  table.add(
      {"all computation", formatSeconds(computation), getPassSeconds(time)});
  table.add({"all communication", formatSeconds(time.communication),
             time.communication > 0
                 ? formatSeconds(hidden) + " (" +
                       formatShare(hidden / time.communication) + ") hidden, " +
                       formatSeconds(time.exposed) + " exposed"
                 : ""});
  double larger = std::max(computation, time.communication);
  table.add({"larger of both", formatSeconds(larger),
             larger > 0 ? "the step takes " +
                              formatShare(time.seconds / larger) + " of it"
                        : ""});
  table.add({"proven bound",
             explanation.lowerBound > 0 ? formatSeconds(explanation.lowerBound)
                                        : "none",
             getGapText(explanation)});
  std::string sections =
      explanation.pipeline.empty()
          ? ""
          : ", with the sections of " + explanation.pipeline +
                " one after another: --timeline has them in their order";
  return "Time of a step on " + explanation.mesh + sections + " (accounting " +
         explanation.accounting + ")\n" + table.print();
}

static std::string printKinds(const Explanation &explanation) {
  std::map<std::pair<std::string, std::string>, Collective> sums;
  for (const Collective &entry : explanation.collectives) {
    Collective &sum = sums[{entry.kind, entry.axis}];
    sum.groupSize = entry.groupSize;
    sum.count += entry.count;
    sum.totalBytes += entry.totalBytes;
    sum.seconds += entry.seconds;
    sum.exposed += entry.exposed;
  }
  Table table("llrrrr");
  for (const auto &[key, sum] : sums)
    table.add({key.first, key.second + " of " + std::to_string(sum.groupSize),
               std::to_string(sum.count) + " x", formatBytes(sum.totalBytes),
               formatSeconds(sum.seconds),
               formatShare(sum.getHiddenShare()) + " hidden"});
  return table.print("Collectives");
}

static std::string printCollectives(const Explanation &explanation) {
  Table table("llrrrrll", kMaxPrinted, formatSeconds);
  for (const Collective &entry : explanation.collectives)
    table.add({entry.kind + " " + entry.axis,
               std::string(getPassName(entry.pass)),
               std::to_string(entry.count) + " x", formatBytes(entry.bytes),
               formatSeconds(entry.seconds),
               formatShare(entry.getHiddenShare()) + " hidden",
               entry.name + (entry.waits ? " (waits)" : ""),
               formatPlace(entry.location)},
              entry.seconds);
  return table.print("The largest, by tensor");
}

static std::string printExposures(const Explanation &explanation) {
  Table table("rrll");
  for (const Exposure &entry : explanation.exposures)
    table.add(
        {formatSeconds(entry.seconds),
         std::to_string(entry.numSlots) +
             (entry.numSlots == 1 ? " slot" : " slots"),
         describe(entry.cause),
         "most: " + entry.example +
             (entry.location.empty() ? ""
                                     : " " + formatPlace(entry.location))});
  return table.print("What exposes communication");
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// `again +1.2 ms, peak -3 MB`.
static std::string getPriceText(const Explanation &explanation,
                                const std::string &word, const Choice &choice) {
  double added = choice.seconds - explanation.time.seconds;
  // Rounding is no difference.
  if (std::abs(added) <= 1e-9 * explanation.time.seconds)
    added = 0;
  int64_t bytes = choice.peak - explanation.peak;
  return word + " " + formatSeconds(added, true) + ", " +
         (bytes == 0 ? "same peak"
                     : "peak " + formatBytes(static_cast<double>(bytes), true));
}

/// Of both ways, or why there is none.
static std::string getWithoutText(const Explanation &explanation,
                                  const PeakEntry &entry) {
  std::string text = entry.whyHeld;
  if (entry.without)
    text = getPriceText(explanation, "again", *entry.without);
  if (!entry.sent)
    return text;
  std::string sent = getPriceText(explanation, "host", *entry.sent);
  return entry.without ? text + "; " + sent : sent;
}

static std::string printPeak(const Explanation &explanation) {
  std::string title = "Memory: peak " + formatBytes(explanation.peak);
  if (explanation.memoryLimit != kNoLimit)
    title += " of " + formatBytes(explanation.memoryLimit);
  title += " in stage " + std::to_string(explanation.peakStage) + " of " +
           std::to_string(explanation.numStages) +
           ", held there, and what a step without it costs";
  Table table("rllllll", kMaxPrinted, formatBytes);
  for (const PeakEntry &entry : explanation.peakEntries) {
    std::string stages = entry.kind == Holding::Kind::Stored
                             ? "always"
                             : "stages " + std::to_string(entry.first) +
                                   " to " + std::to_string(entry.last);
    std::string count =
        entry.count > 1 ? " x " + std::to_string(entry.count) : "";
    table.add({formatBytes(entry.bytes), describe(entry.kind),
               entry.name + count, entry.form, stages,
               formatPlace(entry.location), getWithoutText(explanation, entry)},
              entry.bytes);
  }
  return table.print(title);
}

/// What its copies take, which computation does not hide.
static std::string getCopiesText(const HostEntry &entry) {
  if (!entry.hasOwnCopies)
    return "copied beside its update";
  return entry.seconds > 0 ? "copies " + formatSeconds(entry.seconds, true)
                           : "copies hidden";
}

static std::string printHost(const Explanation &explanation) {
  int64_t bytes = 0;
  Table table("rlllll", kMaxPrinted, formatBytes);
  for (const HostEntry &entry : explanation.hostEntries) {
    bytes += entry.bytes;
    std::string count =
        entry.count > 1 ? " x " + std::to_string(entry.count) : "";
    table.add({formatBytes(entry.bytes), entry.isStored ? "stored" : "sent",
               entry.name + count, entry.form, formatPlace(entry.location),
               getCopiesText(entry)},
              entry.bytes);
  }
  return table.print("On the host: " + formatBytes(bytes) +
                     " of each rank, and what its copies cost");
}

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

static std::string getChangesText(const FormEntry &entry) {
  std::string text;
  for (const FormChange &change : entry.changes) {
    if (change.collectives.empty())
      continue;
    text += (text.empty() ? "" : "; ") + std::string(getPassName(change.pass)) +
            ": " + change.collectives + " to " + change.form;
    if (change.isKept)
      text += ", kept";
    if (change.waits)
      text += ", may wait";
  }
  return text;
}

static std::string getChoiceText(const Explanation &explanation,
                                 const Choice &choice) {
  std::string text = choice.form + (choice.isMixed ? " and others" : "");
  double added = choice.seconds - explanation.time.seconds;
  // Rounding is no difference.
  if (std::abs(added) <= 1e-9 * explanation.time.seconds)
    added = 0;
  if (choice.seconds > 0 && explanation.time.seconds > 0)
    text += " " + formatSeconds(added, true) + " (" +
            formatShare(added / explanation.time.seconds, true) + ")";
  if (!choice.fits)
    text += ", too large: " + formatBytes(choice.peak);
  else if (choice.grownSeconds > 0 && added > 0)
    text +=
        ", " + choice.grown + " " + formatSeconds(choice.grownSeconds, true);
  return text;
}

/// Why the entry has its form, and what would be next.
static std::string getReasonText(const Explanation &explanation,
                                 const FormEntry &entry) {
  std::string text = entry.why.empty() ? "" : "why: " + entry.why;
  const char *separator = "; next: ";
  for (const Choice &choice : entry.choices) {
    text += separator + getChoiceText(explanation, choice);
    separator = "; ";
  }
  return text;
}

/// How the next best forms were found.
static std::string getMethodText(const Explanation &explanation) {
  bool isSearched = false, isEstimated = false;
  for (const FormEntry &entry : explanation.forms)
    for (const Choice &choice : entry.choices)
      (choice.isSearched ? isSearched : isEstimated) = true;
  if (!isEstimated)
    return "searched again without the better ones\n";
  return isSearched ? "searched again, as far as there was time, or by a local "
                      "estimate\n"
                    : "by a local estimate: what lies around adapts\n";
}

static std::string printForms(const Explanation &explanation, const char *title,
                              std::vector<Role> roles, size_t maxPrinted) {
  Table table("lrlll", maxPrinted, formatBytes);
  for (const FormEntry &entry : explanation.forms) {
    if (std::find(roles.begin(), roles.end(), entry.role) == roles.end())
      continue;
    size_t count = entry.tensors.size();
    if (!table.add(
            {entry.name,
             formatBytes(entry.bytes) + " of " + formatBytes(entry.wholeBytes),
             "x " + std::to_string(count), entry.form,
             formatPlace(entry.location)},
            entry.bytes * count))
      continue;
    for (const std::string &note :
         {getChangesText(entry), getReasonText(explanation, entry)})
      if (!note.empty())
        table.addNote(note);
  }
  return table.print(title);
}

std::string tandem::explain::printText(const Explanation &explanation) {
  std::string text = printTime(explanation) + printKinds(explanation) +
                     printCollectives(explanation) +
                     printExposures(explanation) + printPeak(explanation) +
                     printHost(explanation);
  text += "\nForms: bytes of one device, of the whole tensor; what would be "
          "next best, " +
          getMethodText(explanation);
  text += printForms(explanation, "Parameters and states", {Role::Stored},
                     kMaxPrinted);
  text += printForms(explanation, "Inputs and activations",
                     {Role::Input, Role::Activation}, kMaxPrinted);
  return text +
         printForms(explanation, "Gradients", {Role::Gradient}, kMaxGradients);
}
