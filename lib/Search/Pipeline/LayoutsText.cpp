//===- LayoutsText.cpp - problems of layouts as text ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Words.h"
#include "tandem/Search/Pipeline/Layouts.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace tandem;
using namespace tandem::pipeline;
using orders::Names;
using orders::printNumber;
using orders::Words;

namespace {
class LayoutReader {
public:
  LayoutReader(std::string_view text, std::string_view name, std::string &error)
      : words(text, name, error) {}
  std::optional<LayoutProblem> read();

private:
  void readLine();
  void readKind();
  void readNodes();
  void readLink();
  void checkLinks();
  std::optional<unsigned> findKind(std::string_view name) const;
  unsigned takeKind();
  void readLayer();
  void readCost(ModelLayer &layer);
  void check();

  Words words;
  LayoutProblem problem;
};
} // namespace

void LayoutReader::readKind() {
  cost::DeviceKind kind;
  kind.name = words.take();
  if (kind.name.empty())
    words.expect("the name of a kind");
  if (findKind(kind.name))
    words.expect("a kind that no line in front of this one has");
  double memory = orders::kMaxQuantity; // a sum of such sizes does not overflow
  words.takeFields({{"memory", &memory}});
  kind.memorySize = std::llround(memory);
  problem.cluster.kinds.push_back(std::move(kind));
}

std::optional<unsigned> LayoutReader::findKind(std::string_view name) const {
  const auto &kinds = problem.cluster.kinds;
  for (unsigned i = 0; i < kinds.size(); ++i)
    if (kinds[i].name == name)
      return i;
  return std::nullopt;
}

unsigned LayoutReader::takeKind() {
  std::optional<unsigned> found = findKind(words.take());
  if (!found)
    words.expect("a kind that a line in front of this one names");
  return found.value_or(0);
}

void LayoutReader::readNodes() {
  cost::NodeGroup group;
  words.mark("nodes " + std::to_string(problem.cluster.nodes.size()));
  group.count = words.takeCount(1);
  while (words.ok() && (!words.isEnd() || group.devices.empty())) {
    unsigned kind = takeKind();
    group.devices.emplace_back(kind, words.takeCount(1));
  }
  problem.cluster.nodes.push_back(std::move(group));
}

/// Of the nodes in the line before.
void LayoutReader::readLink() {
  if (problem.cluster.nodes.empty())
    return words.fail("found a link in front of all nodes, expected it behind "
                      "the line of its nodes");
  cost::NodeGroup &group = problem.cluster.nodes.back();
  auto &link =
      words.takeChoice({"node", "network"}) ? group.network : group.node;
  link.emplace();
  link->isPerDevice = words.takeChoice({"node", "device"}) == 1;
  words.takeFields(
      {{"latency", &link->latency}, {"bandwidth", &link->bandwidth}});
  if (link->bandwidth <= 0)
    words.fail("found a link without bandwidth, expected some");
}

/// All nodes have the links that they need.
void LayoutReader::checkLinks() {
  auto links = problem.cluster.getLinks();
  size_t node = 0, number = 0;
  for (const cost::NodeGroup &group : problem.cluster.nodes) {
    std::string name = "nodes " + std::to_string(number++);
    for (int64_t i = 0; i < group.count; ++i, ++node) {
      bool hasNeighbours =
          group.devices.size() > 1 || group.devices.front().second > 1;
      bool lacksNode = hasNeighbours && !links[node].node;
      if (lacksNode || (links.size() > 1 && !links[node].network))
        return words.failAt(
            name, "no link '" + std::string(lacksNode ? "node" : "network") +
                      "' reaches the nodes of kind '" +
                      problem.cluster.kinds[group.devices.front().first].name +
                      "', expected one behind their line");
    }
  }
}

void LayoutReader::readCost(ModelLayer &layer) {
  unsigned kind = takeKind();
  if (!words.ok())
    return;
  const std::string &name = problem.cluster.kinds[kind].name;
  unsigned model = words.takeIf("model") ? words.takeCount(1) : 1;
  auto &costs = words.takeIf("fixed") ? layer.fixed : layer.costs;
  LayerCost &cost = costs[{name, model}];
  cost = {};
  auto found = words.takeFields(
      {{"F", &cost.forward}, {"I", &cost.input}, {"W", &cost.weight}});
  words.expectAll(found, {"F", "I", "W"});
}

void LayoutReader::readLayer() {
  ModelLayer *layer = words.takeElement(problem.layers, "layer");
  if (!layer)
    return;
  if (words.takeIf("kind"))
    return readCost(*layer);
  if (words.takeIf("tied"))
    layer->tied = static_cast<int>(words.takeIndex(
        layer - problem.layers.data(), "layers in front of it"));
  words.takeFields({{"weights", &layer->weights},
                    {"activations", &layer->activations},
                    {"bytes", &layer->bytes},
                    {"reduced", &layer->reduced}});
}

static void readLayout(Words &words, Layout &layout) {
  for (auto [name, value] : {std::pair("pipe", &layout.pipe),
                             {"data", &layout.data},
                             {"model", &layout.model},
                             {"rows", &layout.rows},
                             {"sections", &layout.sectionsPerPoint}})
    if (words.takeIf(name))
      *value = words.takeCount(1);
  if (words.takeIf("schedule")) {
    layout.schedule = words.take();
    if (!orders::findSchedule(layout.schedule))
      words.expect(orders::listSchedules());
  }
  if (words.takeIf("nodes"))
    while (words.ok() && !words.isEnd())
      layout.nodes.push_back(words.takeCount(0));
  words.expectEnd();
}

void LayoutReader::readLine() {
  static const Names lines = {"accounting", "batch", "states", "kind",
                              "nodes",      "link",  "layer",  "layout"};
  unsigned line = words.takeChoice(lines);
  if (line < 3)
    words.expectFirst(lines[line]);
  switch (line) {
  case 0:
    problem.accounting =
        static_cast<CutAccounting>(words.takeChoice({"amp", "tandem"}));
    break;
  case 1:
    problem.batch = words.takeCount(1);
    break;
  case 2:
    problem.states = words.takeNumber();
    break;
  case 3:
    readKind();
    break;
  case 4:
    readNodes();
    break;
  case 5:
    readLink();
    break;
  case 6:
    readLayer();
    break;
  case 7:
    words.mark("layout " + std::to_string(problem.layouts.size()));
    readLayout(words, problem.layouts.emplace_back());
    break;
  }
  words.expectEnd();
}

/// Whether there is an order for a layout with a name.
static bool isPossible(const LayoutProblem &problem, const Layout &layout,
                       std::string &error) {
  if (!verifyLayout(problem, layout, error) ||
      !verifySections(problem.accounting, layout.sectionsPerPoint, error))
    return false;
  auto cuts = makeCutProblem(problem, layout, error);
  return cuts && makeOrder(*cuts, error);
}

void LayoutReader::check() {
  int64_t devices = problem.cluster.getNumDevices();
  if (devices < 1 || devices >= orders::kMaxNumber)
    return words.fail("found " + std::to_string(devices) +
                      " devices in nodes, expected 'nodes 4 KIND 8', and less "
                      "than " +
                      std::to_string(orders::kMaxNumber) + " devices");
  checkLinks();
  if (!words.ok())
    return;
  if (problem.layers.empty())
    return words.fail("found no layers, expected some");
  for (unsigned i = 0; i < problem.layers.size(); ++i)
    for (const auto &kind : problem.cluster.kinds)
      if (!problem.layers[i].costs.count({kind.name, 1})) {
        std::string name = "layer " + std::to_string(i);
        return words.failAt(name, name + " has no cost on kind '" + kind.name +
                                      "', expected F, I and W of one device");
      }
  std::string why;
  for (unsigned i = 0; i < problem.layouts.size(); ++i)
    if (!isPossible(problem, problem.layouts[i], why))
      return words.failAt("layout " + std::to_string(i), why);
}

std::optional<LayoutProblem> LayoutReader::read() {
  while (words.next())
    readLine();
  if (words.ok())
    check();
  if (!words.ok())
    return std::nullopt;
  return std::move(problem);
}

std::optional<LayoutProblem> tandem::pipeline::parseLayoutProblem(
    std::string_view text, std::string_view name, std::string &error) {
  error.clear();
  return LayoutReader(text, name, error).read();
}

std::optional<LayoutResult>
tandem::pipeline::readLayoutResult(const LayoutProblem &problem,
                                   std::string_view text, std::string_view name,
                                   std::string &error) {
  error.clear();
  Words words(text, name, error);
  LayoutResult result;
  static const Names lines = {"layout", "cut", "again", "cost"};
  while (words.next()) {
    unsigned line = words.takeChoice(lines);
    words.expectFirst(lines[line]);
    if (line == 0)
      readLayout(words, result.layout);
    while (line == 1 && words.ok() && !words.isEnd())
      result.cut.push_back(words.takeCount(1));
    result.isMadeAgain |= line == 2;
    if (line == 3)
      result.seconds = words.takeNumber();
    words.expectEnd();
  }
  for (std::string_view each : {"layout", "cut", "cost"})
    if (!words.hasLine(each))
      words.fail("found no line '" + std::string(each) +
                 "', expected one of 'layout pipe 2 data 4', of 'cut 3 2' and "
                 "of 'cost 0.5'");
  std::string why;
  if (words.ok() && !isPossible(problem, result.layout, why))
    words.failAt("layout", why);
  auto seconds = words.ok() ? checkLayout(problem, result, why) : std::nullopt;
  if (!seconds)
    words.failAt("cut", why);
  else if (!isSameCost(result.seconds, *seconds, why))
    words.failAt("cost", why);
  return words.ok() ? std::optional(std::move(result)) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

static std::string printNumbers(const std::vector<unsigned> &numbers,
                                const char *separator) {
  std::string text;
  for (unsigned number : numbers)
    text += (text.empty() ? "" : separator) + std::to_string(number);
  return text;
}

std::string tandem::pipeline::print(const LayoutResult &result) {
  const Layout &layout = result.layout;
  std::string text =
      "layout pipe " + std::to_string(layout.pipe) + " data " +
      std::to_string(layout.data) + " model " + std::to_string(layout.model) +
      " rows " + std::to_string(layout.rows) + " sections " +
      std::to_string(layout.sectionsPerPoint) + " schedule " + layout.schedule;
  if (!layout.nodes.empty())
    text += " nodes " + printNumbers(layout.nodes, " ");
  return text + "\ncut " + printNumbers(result.cut, " ") + "\n" +
         (result.isMadeAgain ? "again\n" : "") + "cost " +
         printNumber(result.seconds) + "\n";
}

std::string tandem::pipeline::print(const Layout &layout) {
  std::string text = "pipe=" + std::to_string(layout.pipe) +
                     ",data=" + std::to_string(layout.data) +
                     ",model=" + std::to_string(layout.model) +
                     " rows=" + std::to_string(layout.rows);
  if (layout.pipe > 1)
    text += " " + layout.schedule;
  if (layout.sectionsPerPoint > 1)
    text += "x" + std::to_string(layout.sectionsPerPoint);
  if (!std::is_sorted(layout.nodes.begin(), layout.nodes.end()))
    text += " nodes=" + printNumbers(layout.nodes, ",");
  return text;
}

static std::string printFixed(const char *format, double value) {
  char buffer[64];
  snprintf(buffer, sizeof(buffer), format, value);
  return buffer;
}

std::string tandem::pipeline::print(const std::vector<LayoutResult> &results) {
  size_t width = 6;
  for (const LayoutResult &result : results)
    width = std::max(width, print(result.layout).size());
  auto pad = [&](std::string text) {
    text.resize(std::max(width, text.size()), ' ');
    return text;
  };
  std::string text =
      pad("layout") + "      step s    bubble  exposed s  held\n";
  double fastest = results.empty() ? 0 : results.front().seconds;
  for (const LayoutResult &result : results) {
    text += pad(print(result.layout)) + " ";
    if (result.cut.empty()) {
      text += " " + result.why + "\n";
      continue;
    }
    text += printFixed("%11.6f", result.seconds) +
            printFixed("%8.1f %%", 100 * result.bubble) +
            printFixed("%11.6f", result.exposed) + "  ";
    for (size_t i = 0; i < result.held.size(); ++i)
      text += (i ? "," : "") + printFixed("%.3g", result.held[i]);
    text += "  cut " + printNumbers(result.cut, " ");
    if (result.isMadeAgain)
      text += "  layers made again";
    if (result.seconds > fastest)
      text +=
          printFixed("  %.1f %% slower", 100 * (result.seconds / fastest - 1));
    text += "\n";
  }
  return text;
}
