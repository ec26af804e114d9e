//===- LayoutsText.cpp - problems of layouts as text ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Words.h"
#include "tandem/Search/Pipeline/Layouts.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace tandem;
using namespace tandem::pipeline;

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
  unsigned takeKind();
  void readLayer();
  void readCost(ModelLayer &layer);
  void readLayout();
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
  auto pairs = words.takePairs({"memory"});
  // A sum of such sizes does not overflow.
  kind.memorySize =
      std::llround(pairs.count("memory") ? pairs["memory"] : 1e15);
  problem.cluster.kinds.push_back(std::move(kind));
}

unsigned LayoutReader::takeKind() {
  std::string_view name = words.take();
  const auto &kinds = problem.cluster.kinds;
  for (unsigned i = 0; i < kinds.size(); ++i)
    if (kinds[i].name == name)
      return i;
  words.expect("a kind that a line in front of this one names");
  return 0;
}

void LayoutReader::readNodes() {
  cost::NodeGroup group;
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
  auto pairs = words.takePairs({"latency", "bandwidth"});
  link->latency = pairs["latency"];
  link->bandwidth = pairs["bandwidth"];
  if (words.ok() && link->bandwidth <= 0)
    words.fail("found a link without bandwidth, expected some");
}

/// All nodes have the links that they need.
void LayoutReader::checkLinks() {
  auto links = problem.cluster.getLinks();
  size_t node = 0;
  for (const cost::NodeGroup &group : problem.cluster.nodes)
    for (int64_t i = 0; i < group.count; ++i, ++node) {
      bool hasNeighbours =
          group.devices.size() > 1 || group.devices.front().second > 1;
      bool lacksNode = hasNeighbours && !links[node].node;
      if (lacksNode || (links.size() > 1 && !links[node].network))
        return words.failWhole(
            "no link '" + std::string(lacksNode ? "node" : "network") +
            "' reaches the nodes of kind '" +
            problem.cluster.kinds[group.devices.front().first].name +
            "', expected one behind their line");
    }
}

void LayoutReader::readCost(ModelLayer &layer) {
  words.take();
  unsigned kind = takeKind();
  if (!words.ok())
    return;
  const std::string &name = problem.cluster.kinds[kind].name;
  unsigned model = 1;
  if (words.peek() == "model") {
    words.take();
    model = words.takeCount(1);
  }
  bool isFixed = words.peek() == "fixed";
  if (isFixed)
    words.take();
  auto pairs = words.takePairs({"F", "I", "W"});
  LayerCost cost{pairs["F"], pairs["I"], pairs["W"]};
  (isFixed ? layer.fixed : layer.costs)[{name, model}] = cost;
}

void LayoutReader::readLayer() {
  unsigned number = words.takeCount(0);
  if (words.ok() && number > problem.layers.size())
    words.expect("at most " + std::to_string(problem.layers.size()) +
                 ", the next layer");
  if (!words.ok())
    return;
  problem.layers.resize(std::max<size_t>(problem.layers.size(), number + 1));
  ModelLayer &layer = problem.layers[number];
  if (words.peek() == "kind")
    return readCost(layer);
  if (words.peek() == "tied") {
    words.take();
    unsigned other = words.takeCount(0);
    if (words.ok() && other >= number)
      words.expect("a layer in front of it");
    layer.tied = static_cast<int>(other);
  }
  auto pairs = words.takePairs({"weights", "activations", "bytes", "reduced"});
  auto set = [&](std::string_view name, double &value) {
    if (pairs.count(name))
      value = pairs[name];
  };
  set("weights", layer.weights);
  set("activations", layer.activations);
  set("bytes", layer.bytes);
  set("reduced", layer.reduced);
}

void LayoutReader::readLayout() {
  Layout layout;
  auto take = [&](std::string_view name, unsigned &value) {
    if (words.peek() != name)
      return;
    words.take();
    value = words.takeCount(1);
  };
  take("pipe", layout.pipe);
  take("data", layout.data);
  take("model", layout.model);
  take("rows", layout.rows);
  take("sections", layout.sectionsPerPoint);
  if (words.peek() == "schedule") {
    words.take();
    layout.schedule = words.take();
    if (!orders::findSchedule(layout.schedule))
      words.expect(orders::listSchedules());
  }
  words.expectEnd();
  int64_t devices = problem.cluster.getNumDevices();
  if (words.ok() &&
      int64_t(layout.pipe) * layout.data * layout.model != devices)
    words.fail(
        "found a layout of " +
        std::to_string(int64_t(layout.pipe) * layout.data * layout.model) +
        " devices, expected " + std::to_string(devices) +
        ", those of the cluster");
  if (words.ok() && problem.batch % (layout.data * layout.rows) != 0)
    words.fail("found data " + std::to_string(layout.data) + " and rows " +
               std::to_string(layout.rows) +
               ", expected their product to divide the batch of " +
               std::to_string(problem.batch));
  problem.layouts.push_back(layout);
}

void LayoutReader::readLine() {
  static const Names lines = {"accounting", "batch", "states", "kind",
                              "nodes",      "link",  "layer",  "layout"};
  switch (words.takeChoice(lines)) {
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
    readLayout();
    break;
  }
  words.expectEnd();
}

void LayoutReader::check() {
  if (problem.cluster.nodes.empty())
    return words.failWhole("found no nodes, expected 'nodes 4 KIND 8'");
  checkLinks();
  if (problem.layers.empty())
    return words.failWhole("found no layers, expected some");
  for (unsigned i = 0; i < problem.layers.size(); ++i)
    for (const auto &kind : problem.cluster.kinds)
      if (!problem.layers[i].costs.count({kind.name, 1}))
        return words.failWhole("layer " + std::to_string(i) +
                               " has no cost on kind '" + kind.name +
                               "', expected F, I and W of one device");
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

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

std::string tandem::pipeline::print(const Layout &layout) {
  std::string text = "pipe=" + std::to_string(layout.pipe) +
                     ",data=" + std::to_string(layout.data) +
                     ",model=" + std::to_string(layout.model) +
                     " rows=" + std::to_string(layout.rows);
  if (layout.pipe > 1)
    text += " " + layout.schedule;
  if (layout.sectionsPerPoint > 1)
    text += "x" + std::to_string(layout.sectionsPerPoint);
  if (std::is_sorted(layout.nodes.begin(), layout.nodes.end()))
    return text;
  for (size_t i = 0; i < layout.nodes.size(); ++i)
    text += (i ? "," : " nodes=") + std::to_string(layout.nodes[i]);
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
    text += "  cut";
    for (unsigned count : result.cut)
      text += " " + std::to_string(count);
    if (result.isMadeAgain)
      text += "  layers made again";
    if (result.seconds > fastest)
      text +=
          printFixed("  %.1f %% slower", 100 * (result.seconds / fastest - 1));
    text += "\n";
  }
  return text;
}
