//===- PrintSimulation.cpp - simulations as text --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Plan.h"
#include "tandem/Prediction/Prediction.h"
#include <algorithm>
#include <cstdio>

namespace tandem {

using namespace rt;

/// Ranks that are shown; a trace has all.
static constexpr size_t kShownRanks = 8;
/// Reasons of a queue; shorter ones are for the trace.
static constexpr size_t kShownReasons = 3;

template <typename... Values>
static std::string format(const char *pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

/// `12.3 ms`.
static std::string printTime(double seconds) {
  if (seconds >= 1)
    return format("%.3f s", seconds);
  return seconds >= 1e-3 ? format("%.3f ms", seconds * 1e3)
                         : format("%.1f us", seconds * 1e6);
}

/// `1.25 GiB`.
static std::string printBytes(int64_t bytes) {
  double value = static_cast<double>(bytes);
  const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  return format(value < 1024 && value >= 100 ? "%.0f %s" : "%.3g %s", value,
                units[unit]);
}

/// Commands of one line of the model are one reason: a pipeline has them once
/// for each microbatch. The longest come first.
static std::vector<WaitReason>
joinReasons(const std::vector<WaitReason> &reasons) {
  std::vector<WaitReason> joined;
  for (const WaitReason &reason : reasons) {
    auto same = [&](const WaitReason &other) {
      if (!reason.command || !other.command)
        return !reason.command && !other.command && reason.why == other.why;
      return !reason.command->source.empty() &&
             reason.command->kind == other.command->kind &&
             reason.command->source == other.command->source;
    };
    auto found = std::find_if(joined.begin(), joined.end(), same);
    if (found == joined.end()) {
      joined.push_back(reason);
      continue;
    }
    found->seconds += reason.seconds;
    if (found->command && found->command->name != reason.command->name)
      found->command->name = found->command->kind;
  }
  std::sort(joined.begin(), joined.end(),
            [](const WaitReason &a, const WaitReason &b) {
              return a.seconds > b.seconds;
            });
  return joined;
}

static std::string printQueue(const TimelineHead &head,
                              const QueueTimes &queue) {
  std::string reasons;
  std::vector<WaitReason> joined = joinReasons(queue.reasons);
  for (size_t i = 0; i < std::min(kShownReasons, joined.size()); ++i)
    reasons += (i ? "; " : "  ") + printTime(joined[i].seconds) + " " +
               reasonText(joined[i]);
  bool moves = head.queues[queue.queue].role != QueueRole::Compute;
  return format("  %-12s %11s %11s %11s", head.queues[queue.queue].name.c_str(),
                printTime(queue.busy).c_str(), printTime(queue.idle).c_str(),
                moves ? printTime(queue.exposed).c_str() : "") +
         reasons + "\n";
}

/// In tenths of the step: the most that is in use in each.
static std::string printOverTime(const MemoryUse &use, double seconds) {
  constexpr size_t kParts = 10;
  std::vector<int64_t> most(kParts, 0);
  auto partOf = [&](int64_t time) {
    double share = static_cast<double>(time) * 1e-9 / seconds;
    return std::min(kParts - 1,
                    static_cast<size_t>(share * static_cast<double>(kParts)));
  };
  int64_t last = use.fixed;
  size_t at = 0;
  for (auto [time, bytes] : use.overTime) {
    for (size_t part = partOf(time); at < part; ++at)
      most[at] = std::max(most[at], last), most[at + 1] = last;
    most[at] = std::max(most[at], bytes);
    last = bytes;
  }
  for (; at + 1 < kParts; ++at)
    most[at] = std::max(most[at], last), most[at + 1] = last;
  std::string text;
  for (int64_t bytes : most)
    text += (text.empty() ? "" : ", ") + printBytes(bytes);
  return text;
}

static std::string printMemory(const SimulationReport::Memory &memory,
                               double seconds) {
  const MemoryUse &use = memory.use;
  std::string text =
      "  memory: holds " + printBytes(use.held) + " of " +
      printBytes(memory.room) + ", " + printBytes(use.fixed) +
      " of it outside of arenas; in use at most " + printBytes(use.peak) +
      ", from " + printTime(static_cast<double>(use.peakTime) * 1e-9) +
      "\n  in use, by tenths of the step: " + printOverTime(use, seconds) +
      "\n";
  if (use.held > memory.room)
    text += "  warning: rank " + std::to_string(memory.rank) + " holds " +
            printBytes(use.held - memory.room) + " more than its device has\n";
  return text;
}

static std::string printHead(const SimulationReport &report) {
  const Simulated &simulated = report.simulated;
  size_t ranks = simulated.equalTo.size(), own = simulated.ranks.size();
  std::string text = "simulated step " + cost::printSeconds(report.seconds) +
                     " (" + simulated.timeline.head.predictedFrom + ")";
  if (report.steps.size() > 1) {
    auto [least, most] =
        std::minmax_element(report.steps.begin(), report.steps.end());
    text += ", mean of " + std::to_string(report.steps.size()) + " from " +
            printTime(*least) + " to " + printTime(*most);
  }
  text += "\n" + std::to_string(ranks) + " ranks";
  if (own < ranks)
    text += ", " + std::to_string(own) +
            " simulated: each other one does the same as one of them";
  return text + "\n";
}

static std::string printRates(const SimulationReport &report) {
  std::string text;
  if (report.items > 0)
    text += report.itemName +
            format(" per second: %.6g\n",
                   static_cast<double>(report.items) / report.seconds);
  if (report.utilization)
    text += format("MFU: %.1f %% of the peak rates (the model's products, each "
                   "once)\n",
                   100 * *report.utilization);
  if (report.cost)
    text += format("cost: %.6g USD per step\n", *report.cost);
  for (const std::string &remark : report.remarks)
    text += "remark: " + remark + "\n";
  return text;
}

std::string printSimulation(const SimulationReport &report) {
  const TimelineHead &head = report.simulated.timeline.head;
  std::string text = printHead(report);
  size_t shown = std::min(kShownRanks, report.memory.size());
  for (size_t i = 0; i < shown; ++i) {
    int64_t rank = report.memory[i].rank;
    int64_t equal = std::count(report.simulated.equalTo.begin(),
                               report.simulated.equalTo.end(), rank);
    text += "rank " + std::to_string(rank) +
            (equal > 1 ? " and " + std::to_string(equal - 1) + " more" : "") +
            format("\n  %-12s %11s %11s %11s  why nothing is computed\n",
                   "queue", "busy", "idle", "exposed");
    for (const QueueTimes &queue : report.queues)
      if (queue.rank == rank)
        text += printQueue(head, queue);
    text += printMemory(report.memory[i], report.steps.front());
  }
  if (shown < report.memory.size())
    text += "ranks that differ from these: " +
            std::to_string(report.memory.size() - shown) + ", see --trace\n";
  return report.seconds > 0 ? text + printRates(report) : text;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

/// In quotation marks. Names come from users' files.
static std::string quote(const std::string &text) {
  std::string quoted = "\"";
  for (char letter : text)
    if (letter == '"' || letter == '\\')
      quoted += {'\\', letter};
    else if (static_cast<unsigned char>(letter) < ' ')
      quoted += format("\\u%04x", static_cast<unsigned>(letter));
    else
      quoted += letter;
  return quoted + "\"";
}

static std::string printNumber(std::optional<double> number) {
  return number ? format("%.9g", *number) : "null";
}

/// `[...]`, or `{...}` for entries with a name.
template <typename List, typename Print>
static std::string join(const char *ends, const List &list, Print print) {
  std::string text;
  for (const auto &entry : list)
    text += (text.empty() ? "" : ", ") + print(entry);
  return ends[0] + text + ends[1];
}

static std::string printQueueJson(const TimelineHead &head,
                                  const QueueTimes &queue) {
  return format("{\"rank\": %lld, \"queue\": ",
                static_cast<long long>(queue.rank)) +
         quote(head.queues[queue.queue].name) +
         format(", \"busy\": %.9g, \"idle\": %.9g, \"exposed\": %.9g}",
                queue.busy, queue.idle, queue.exposed);
}

static std::string printMemoryJson(const SimulationReport::Memory &memory) {
  return format("{\"rank\": %lld, \"room\": %lld, \"held\": %lld, \"fixed\": "
                "%lld, \"peak\": %lld}",
                static_cast<long long>(memory.rank),
                static_cast<long long>(memory.room),
                static_cast<long long>(memory.use.held),
                static_cast<long long>(memory.use.fixed),
                static_cast<long long>(memory.use.peak));
}

std::string printSimulationJson(const SimulationReport &report) {
  const TimelineHead &head = report.simulated.timeline.head;
  std::string text = "{\"from\": " + quote(head.predictedFrom);
  text += ",\n \"mesh\": " + join("{}", head.mesh, [](const Axis &axis) {
            return quote(axis.name) + ": " + std::to_string(axis.size);
          });
  text +=
      format(",\n \"ranks\": %zu, \"simulated\": %zu",
             report.simulated.equalTo.size(), report.simulated.ranks.size());
  text += format(",\n \"seconds\": %.9g, \"steps\": ", report.seconds) +
          join("[]", report.steps,
               [](double seconds) { return format("%.9g", seconds); });
  text += format(",\n \"items\": %lld, \"item_name\": ",
                 static_cast<long long>(report.items)) +
          quote(report.itemName);
  text += ",\n \"model_flops\": " +
          join("{}", report.modelFlops, [](const auto &each) {
            return quote(each.first) + ": " + format("%.17g", each.second);
          });
  text += ",\n \"mfu\": " + printNumber(report.utilization) +
          ", \"cost\": " + printNumber(report.cost) +
          ", \"remarks\": " + join("[]", report.remarks, quote);
  text += ",\n \"queues\": " +
          join("[]", report.queues, [&](const QueueTimes &queue) {
            return printQueueJson(head, queue);
          });
  text += ",\n \"memory\": " + join("[]", report.memory, printMemoryJson);
  return text + "}\n";
}

} // namespace tandem
