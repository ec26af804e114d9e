//===- report_text.cpp - reports as text ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "tandem_rt/report.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace tandem::rt {

namespace {
/// Lines of a list without `all`.
constexpr size_t kShort = 10;
/// Reasons that a line says; shorter ones are for --json.
constexpr size_t kReasons = 3;
/// Of the time of a collective: less is not worth a word.
constexpr double kLittle = 0.01;

std::string format(const char *pattern, ...) {
  char buffer[256];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(buffer, sizeof buffer, pattern, arguments);
  va_end(arguments);
  return buffer;
}

/// Three digits and a unit, of ten characters.
std::string time(double seconds) {
  if (seconds >= 0.9995)
    return format("%7.3f s ", seconds);
  if (seconds >= 0.9995e-3)
    return format("%7.2f ms", seconds * 1e3);
  return format("%7.1f us", seconds * 1e6);
}

/// The same inside of a sentence.
std::string plain(double seconds) {
  std::string text = time(seconds);
  text.erase(0, text.find_first_not_of(' '));
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

std::string bytesText(int64_t bytes) {
  if (bytes >= 10 << 20)
    return format("%.0f MiB", double(bytes) / (1 << 20));
  if (bytes >= 10 << 10)
    return format("%.0f KiB", double(bytes) / (1 << 10));
  return format("%lld B", static_cast<long long>(bytes));
}

std::string quoted(const CommandName &name) {
  std::string place = name.source.empty() ? "" : concat(" (", name.source, ")");
  std::string own = name.name == name.kind ? "" : concat(" '", name.name, "'");
  return concat(name.kind, own, place);
}

/// "all_gather over data (strand 1, model.py:7)".
std::string quoted(const CollectiveReport &entry) {
  std::string axes;
  for (const std::string &axis : entry.axes)
    axes += (axes.empty() ? " over " : ", ") + axis;
  std::string strand =
      entry.strand < 0 ? "shared" : concat("strand ", entry.strand);
  CommandName name = entry.command;
  name.source = concat(strand, name.source.empty() ? "" : ", ", name.source);
  name.kind += axes;
  if (name.name == entry.command.kind)
    name.name = name.kind;
  return quoted(name);
}

/// "33 MiB, activations and gradients at most 20 MiB of them; 4 microbatches of
/// its sections at a time".
std::string memoryText(const PointReport &entry) {
  std::string flight = concat(
      entry.inFlight, entry.inFlight == 1 ? " microbatch" : " microbatches",
      " of its sections at a time");
  if (!entry.memory)
    return flight;
  return concat(bytesText(entry.memory->held),
                ", activations and gradients at most ",
                bytesText(entry.memory->values), " of them; ", flight);
}

class TextPrinter {
public:
  TextPrinter(const Report &report, bool all) : report(report), all(all) {}
  std::string print();

private:
  void printHead();
  void printTimes();
  void printRow(const std::string &name, const StepTimes &times);
  void printPoints();
  void printIdle();
  void printCollectives();
  void printWaits(const CollectiveReport &entry);
  void printComputations();
  template <typename... Pieces> void add(const Pieces &...pieces) {
    text += concat(pieces..., "\n");
  }

  const Report &report;
  const bool all;
  std::string text;
};

void TextPrinter::printHead() {
  std::string mesh;
  for (const Axis &axis : report.head.mesh)
    mesh += concat(mesh.empty() ? "" : ", ", axis.name, "=", axis.size);
  size_t whole = size_t(
      std::count_if(report.steps.begin(), report.steps.end(),
                    [](const StepReport &step) { return step.isComplete; }));
  add(report.head.predictedFrom.empty() ? "" : "predicted, ",
      report.steps.size(), " steps of program ", report.head.program, " on ",
      report.head.numRanks(), " ranks", mesh.empty() ? "" : " (", mesh,
      mesh.empty() ? "" : ")", "; medians",
      whole > 1 ? concat(" of ", whole, " steps") : "");
  if (whole != report.steps.size())
    add("note: ", report.steps.size() - whole,
        " steps did not run to their end on every rank",
        whole ? " and are left out" : "");
  for (const MissingRank &entry : report.missing)
    add("note: of rank ", entry.rank, " events are missing: ", entry.why);
  int64_t error = report.clockError();
  if (error < 0)
    add("note: a process did not measure its clock; times of different "
        "processes do not compare");
  else if (report.head.clocks.size() > 1)
    add("clocks of ", report.head.clocks.size(), " processes within ",
        plain(double(error) * 1e-9));
}

void TextPrinter::printRow(const std::string &name, const StepTimes &times) {
  add(format("%-10s", name.c_str()), " ", time(times.seconds), "  ",
      time(times.computation), "  ", time(times.communication), "  ",
      time(times.hidden), "  ", time(times.exposed), "  ",
      format("%6.1f %%", 100 * times.hiddenOfMin()), "  ", time(times.idle),
      "  ", time(times.waitedForPeers));
}

void TextPrinter::printTimes() {
  add();
  add(format("%-10s %10s  %10s  %10s  %10s  %10s  %8s  %10s  %10s", "", "step",
             "compute P", "comm. C", "hidden", "exposed", "of min", "idle",
             "late peers"));
  for (const RankReport &rank : report.ranks)
    printRow(concat("rank ", rank.rank), rank.times);
  printRow("mean", report.total);
  if (double copies = report.total.copies; copies > 0) {
    double hidden = report.total.copiesHidden;
    add("copies between device and host: ", plain(copies), ", hidden ",
        plain(hidden), format(" (%.1f %%)", 100 * hidden / copies),
        ", exposed ", plain(copies - hidden));
  }
  if (report.predicted) {
    printRow("predicted", *report.predicted);
    double ratio = report.predicted->seconds / report.total.seconds;
    add("predicted from ", report.predictedFrom, ": ",
        format("%+.1f %%", 100 * (ratio - 1)), " of the measured step");
    if (!report.warning.empty())
      add("warning: ", report.warning);
  }
}

void TextPrinter::printPoints() {
  add();
  add("bubble: share of the step without computation, by point of axis ",
      report.pipeAxis);
  for (const PointReport &entry : report.points) {
    add(format("%10lld  %6.1f %%", static_cast<long long>(entry.point),
               100 * entry.bubble),
        entry.predicted ? format("  predicted %6.1f %%", 100 * *entry.predicted)
                        : "");
    add("            holds ", memoryText(entry));
    for (size_t i = 0; i < entry.idleFor.size(); ++i)
      if (all || i < kReasons)
        add("            ", time(entry.idleFor[i].seconds), "  ",
            reasonText(entry.idleFor[i]));
  }
  add();
  add("sent in a step, by a rank of a point");
  for (const EdgeReport &edge : report.edges)
    add(format("%10lld to %lld  %10s  in %g transfers",
               static_cast<long long>(edge.from),
               static_cast<long long>(edge.to),
               bytesText(int64_t(edge.bytes)).c_str(), edge.transfers));
}

void TextPrinter::printIdle() {
  add();
  add("why nothing is computed");
  for (const RankReport &rank : report.ranks) {
    for (size_t i = 0; i < rank.idleFor.size(); ++i)
      if (all || i < kReasons)
        add("  rank ", rank.rank, "  ", time(rank.idleFor[i].seconds), "  ",
            reasonText(rank.idleFor[i]));
  }
}

void TextPrinter::printWaits(const CollectiveReport &entry) {
  std::string waits, why;
  auto append = [](std::string &list, const std::string &piece) {
    list += (list.empty() ? "" : ", ") + piece;
  };
  double little = kLittle * entry.seconds;
  if (entry.data > little)
    append(waits, plain(entry.data) + (entry.dataFrom
                                           ? " for " + quoted(*entry.dataFrom)
                                           : " for its data"));
  if (entry.link > little && entry.linkAfter)
    append(waits, plain(entry.link) + " with its data there, behind " +
                      quoted(*entry.linkAfter));
  if (entry.peer > little)
    append(waits, concat(plain(entry.peer), " for rank ", entry.lastPeer,
                         ", which came last"));
  for (size_t i = 0; i < std::min(kReasons, entry.exposedFor.size()); ++i)
    if (entry.exposedFor[i].seconds > little)
      append(why, plain(entry.exposedFor[i].seconds) + " " +
                      reasonText(entry.exposedFor[i]));
  if (!waits.empty())
    add("            waited ", waits);
  if (!why.empty())
    add("            exposed ", why);
}

void TextPrinter::printCollectives() {
  size_t count = report.collectives.size();
  size_t shown = all ? count : std::min(kShort, count);
  add();
  add("collectives, the most exposed first",
      shown < count ? concat(" (", shown, " of ", count, ")") : "");
  add(format("%10s %10s %10s ", "exposed", "hidden", "time"),
      report.predicted ? format("%10s ", "predicted") : "",
      format("%10s", "sent"));
  for (size_t i = 0; i < shown; ++i) {
    const CollectiveReport &entry = report.collectives[i];
    std::string predicted =
        entry.predicted ? time(entry.predicted->seconds) : std::string(10, ' ');
    add(time(entry.exposed), " ", time(entry.hidden), " ", time(entry.seconds),
        " ", report.predicted ? predicted + " " : "",
        format("%10s", bytesText(entry.bytes).c_str()), "  ", quoted(entry));
    printWaits(entry);
  }
}

double errorOf(const ComputationReport &entry) {
  return entry.predicted ? std::abs(*entry.predicted - entry.seconds)
                         : entry.seconds;
}

/// The longest, or, where they are predicted, the worst predicted first.
void TextPrinter::printComputations() {
  std::vector<ComputationReport> list = report.computations;
  if (report.predicted)
    std::sort(list.begin(), list.end(), [](auto &a, auto &b) {
      return std::pair(-errorOf(a), a.command) <
             std::pair(-errorOf(b), b.command);
    });
  size_t shown = all ? list.size() : std::min(kShort, list.size());
  add();
  add("computing commands, the ",
      report.predicted ? "worst predicted" : "longest", " first",
      shown < list.size() ? concat(" (", shown, " of ", list.size(), ")") : "");
  for (size_t i = 0; i < shown; ++i) {
    const ComputationReport &entry = list[i];
    std::string predicted =
        entry.predicted ? time(*entry.predicted) : std::string(10, ' ');
    add(time(entry.seconds), " ",
        report.predicted ? "predicted " + predicted + " " : "", " ",
        quoted(entry.command));
  }
}

std::string TextPrinter::print() {
  printHead();
  printTimes();
  if (!report.points.empty())
    printPoints();
  printIdle();
  if (!report.collectives.empty())
    printCollectives();
  printComputations();
  return text;
}
} // namespace

std::string reasonText(const WaitReason &reason) {
  if (reason.command)
    return concat("for ", quoted(*reason.command));
  if (reason.why == "needed")
    return "computation needs it at once";
  if (reason.why == "end")
    return "nothing left to compute";
  if (reason.why == "beginning")
    return "nothing computed yet";
  return "between commands";
}

std::string printText(const Report &report, bool all) {
  return TextPrinter(report, all).print();
}

} // namespace tandem::rt
