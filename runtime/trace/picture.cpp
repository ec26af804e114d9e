//===- picture.cpp - a step as a picture ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "tandem_rt/report.h"
#include "trace/choose.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tandem::rt {

using trace::CollectiveRun;
using trace::RankStep;
using trace::StepRun;

namespace {
/// By strand; what strands share is grey. Computation has the colour,
/// communication a light one of the same hue.
constexpr const char *kColours[] = {"#1f6fb4", "#e07b1a", "#2e9450", "#a44fa8"};
constexpr const char *kLight[] = {"#8fc1ea", "#f6c58f", "#97d3aa", "#d9aede"};
constexpr const char *kShared = "#666666", *kSharedLight = "#bbbbbb";
constexpr size_t kNumColours = std::size(kColours);
/// Of a pipeline, by action.
struct ActionColour {
  char action;
  const char *colour, *name;
};
constexpr ActionColour kActions[] = {
    {'F', "#1f6fb4", "F forward"},  {'I', "#e07b1a", "I inputs"},
    {'B', "#c0392b", "B backward"}, {'W', "#2e9450", "W weights"},
    {'S', "#b8a038", "S sums"},     {'U', "#a44fa8", "U update"}};
/// Pixels.
constexpr double kLabel = 150, kLane = 22, kBetween = 12, kTop = 52,
                 kRight = 20, kFoot = 56;
/// Narrower than this nobody sees it.
constexpr double kThinnest = 0.05;

std::string escape(const std::string &text) {
  std::string result;
  for (char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else if (uint8_t(c) >= 0x20)
      result += c;
  }
  return result;
}

std::string fixed(double value, int digits = 2) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

/// 1, 2 or 5 times a power of ten.
double tickOf(double span, int count) {
  double raw = span / count, power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power)
      return factor * power;
  return 10 * power;
}

class Painter {
public:
  Painter(const Timeline &timeline, const StepRun &step,
          std::vector<const RankStep *> ranks, int64_t width)
      : timeline(timeline), step(step), ranks(std::move(ranks)),
        width(double(width)),
        span(double(std::max<int64_t>(1, trace::lengthOf(step.span)))) {}
  std::string paint();

private:
  void paintTitle();
  void paintAxis();
  void paintRank(const RankStep &rank, double top);
  bool hasTransfers(uint32_t queue) const;
  std::vector<uint32_t> transferLanes(const RankStep &rank) const;
  double heightOf(const RankStep &rank) const {
    return double(2 + transferLanes(rank).size()) * kLane + kBetween;
  }
  bool hasAction(char action) const;
  void paintBar(const TraceEvent &event, double top, const char *colour);
  void paintLegend();
  void paintText(double x, double y, const std::string &text,
                 const char *attributes = "");
  double at(int64_t time) const {
    return kLabel +
           double(time - step.span.first) / span * (width - kLabel - kRight);
  }
  size_t numStrands() const;
  double height() const {
    double sum = kTop + kFoot;
    for (const RankStep *rank : ranks)
      sum += heightOf(*rank);
    return sum;
  }
  template <typename... Pieces> void add(const Pieces &...pieces) {
    svg += concat(pieces..., "\n");
  }

  const Timeline &timeline;
  const StepRun &step;
  const std::vector<const RankStep *> ranks;
  const double width, span;
  std::string svg;
};

size_t Painter::numStrands() const {
  size_t count = 1;
  for (const auto &program : timeline.head.rankPrograms)
    for (const TimelineCommand &command : program)
      count = std::max(count, size_t(command.strand + 1));
  return std::min(count, kNumColours);
}

bool Painter::hasAction(char action) const {
  for (const auto &program : timeline.head.rankPrograms)
    for (const TimelineCommand &command : program)
      if (actionOf(command) == action)
        return true;
  return false;
}

bool Painter::hasTransfers(uint32_t queue) const {
  for (const auto &program : timeline.head.rankPrograms)
    for (const TimelineCommand &command : program)
      if (command.queue == queue && command.isTransfer())
        return true;
  return false;
}

/// The queues with transfers that a rank has: one lane each, below the others.
std::vector<uint32_t> Painter::transferLanes(const RankStep &rank) const {
  std::vector<uint32_t> lanes;
  for (uint32_t queue = 0; queue < rank.queues.size(); ++queue)
    if (!rank.queues[queue].empty() && hasTransfers(queue))
      lanes.push_back(queue);
  return lanes;
}

const char *colourOf(const TimelineCommand &command) {
  bool computes = command.role == CommandRole::Compute;
  for (const ActionColour &entry : kActions)
    if ((computes || entry.action == 'S') && entry.action == actionOf(command))
      return entry.colour;
  if (command.strand < 0)
    return computes ? kShared : kSharedLight;
  return (computes ? kColours : kLight)[size_t(command.strand) % kNumColours];
}

void Painter::paintText(double x, double y, const std::string &text,
                        const char *attributes) {
  add("<text x=\"", fixed(x), "\" y=\"", fixed(y), "\" ", attributes, ">",
      escape(text), "</text>");
}

void Painter::paintBar(const TraceEvent &event, double top,
                       const char *colour) {
  const TimelineCommand &command = timeline.head[event];
  double x = at(event.begin), length = at(event.end) - x;
  if (length < kThinnest)
    return;
  add("<rect x=\"", fixed(x), "\" y=\"", fixed(top), "\" width=\"",
      fixed(length), "\" height=\"", fixed(kLane - 2), "\" fill=\"", colour,
      "\"><title>", escape(command.name), " ", escape(command.source), " ",
      fixed(double(event.end - event.begin) * 1e-6, 3), " ms</title></rect>");
}

void Painter::paintRank(const RankStep &rank, double top) {
  paintText(8, top + kLane + 4, concat("rank ", rank.rank));
  const char *small = "font-size=\"10\" text-anchor=\"end\" fill=\"#555\"";
  paintText(kLabel - 8, top + kLane * 0.65, "compute", small);
  paintText(kLabel - 8, top + kLane * 1.65, "communicate", small);
  std::vector<uint32_t> lanes = transferLanes(rank);
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    paintText(kLabel - 8, top + kLane * (double(lane) + 2.65),
              timeline.head.queues[lanes[lane]].name, small);
  auto topOf = [&](const TimelineCommand &command) {
    auto lane = std::find(lanes.begin(), lanes.end(), command.queue);
    bool isTransfer = lane != lanes.end();
    return top + kLane * (isTransfer ? double(lane - lanes.begin() + 2) : 1);
  };
  for (const auto &queue : rank.queues)
    for (const TraceEvent *event : queue) {
      const TimelineCommand &command = timeline.head[*event];
      if (command.role == CommandRole::Compute)
        paintBar(*event, top, colourOf(command));
      else if (command.role == CommandRole::Communicate)
        paintBar(*event, topOf(command), colourOf(command));
    }
  for (const CollectiveRun &run : rank.collectives) {
    TraceEvent late = *run.event;
    late.end = late.begin + run.peer;
    paintBar(late, topOf(timeline.head[late]), "url(#late)");
  }
}

void Painter::paintAxis() {
  constexpr double kNanosPerMilli = 1e6;
  double bottom = height() - kFoot + 4, tick = tickOf(span, 10);
  int digits = std::max(0, int(std::ceil(-std::log10(tick / kNanosPerMilli))));
  for (double time = 0; time <= span; time += tick) {
    double x = at(step.span.first + int64_t(time));
    add("<line x1=\"", fixed(x), "\" x2=\"", fixed(x), "\" y1=\"",
        fixed(kTop - 6), "\" y2=\"", fixed(bottom), "\" stroke=\"#ddd\"/>");
    paintText(x, bottom + 14, fixed(time / kNanosPerMilli, digits),
              "font-size=\"10\" text-anchor=\"middle\" fill=\"#555\"");
  }
  paintText(width - kRight, bottom + 28, "ms",
            "font-size=\"10\" text-anchor=\"end\" fill=\"#555\"");
}

void Painter::paintTitle() {
  int64_t hidden = 0, possible = 0;
  for (const RankStep &rank : step.ranks) {
    hidden += rank.hidden;
    possible += std::min(trace::lengthOf(rank.computing),
                         trace::lengthOf(rank.communicating));
  }
  std::string share =
      possible
          ? concat(", ", fixed(100.0 * double(hidden) / double(possible), 1),
                   " % of min(computation, communication) hidden")
          : "";
  bool predicted = !timeline.head.predictedFrom.empty();
  paintText(
      8, 20,
      concat(predicted ? "predicted step: " : concat("step ", step.step, ": "),
             fixed(span * 1e-6, 2), " ms", share),
      "font-size=\"14\" font-weight=\"bold\"");
}

void Painter::paintLegend() {
  double x = kLabel, y = height() - 14;
  auto entry = [&](const char *colour, const std::string &text) {
    add("<rect x=\"", fixed(x), "\" y=\"", fixed(y - 9),
        "\" width=\"12\" height=\"12\" fill=\"", colour, "\"/>");
    paintText(x + 16, y + 1, text, "font-size=\"11\"");
    x += 30 + 6.5 * double(text.size());
  };
  bool isPipeline = false;
  for (const ActionColour &action : kActions)
    if (hasAction(action.action)) {
      isPipeline = true;
      entry(action.colour, action.name);
    }
  for (size_t strand = 0; strand < numStrands() && !isPipeline; ++strand) {
    entry(kColours[strand], concat("strand ", strand, " computes"));
    entry(kLight[strand], "communicates");
  }
  entry(kShared, "shared by strands");
  entry("url(#late)", "waits for another rank");
}

std::string Painter::paint() {
  add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", fixed(width, 0),
      "\" height=\"", fixed(height(), 0),
      "\" font-family=\"sans-serif\" font-size=\"12\">");
  add("<defs><pattern id=\"late\" width=\"5\" height=\"5\" "
      "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
      "<rect width=\"5\" height=\"5\" fill=\"white\"/>"
      "<rect width=\"2\" height=\"5\" fill=\"#999\"/></pattern></defs>");
  add("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>");
  paintTitle();
  paintAxis();
  double top = kTop;
  for (const RankStep *rank : ranks) {
    paintRank(*rank, top);
    top += heightOf(*rank);
  }
  paintLegend();
  add("</svg>");
  return std::move(svg);
}
} // namespace

Expected<std::string> drawTimeline(const Timeline &timeline,
                                   const PictureOptions &options) {
  std::vector<StepRun> steps = trace::analyse(timeline);
  Expected<trace::ChosenStep> chosen = trace::choose(steps, options);
  if (!chosen.ok())
    return chosen.status();
  return Painter(timeline, *chosen->step, chosen->ranks, options.width).paint();
}

} // namespace tandem::rt
