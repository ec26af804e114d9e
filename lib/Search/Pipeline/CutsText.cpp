//===- CutsText.cpp - problems of cuts as text ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Words.h"
#include "tandem/Search/Pipeline/Cuts.h"
#include <algorithm>

using namespace tandem;
using namespace tandem::pipeline;
using orders::Names;
using orders::printNumber;
using orders::printPair;
using orders::Words;

static const Names kAccountings = {"amp", "tandem"};
static const Names kPlacements = {"loop", "vee"};
/// Of a point that names no kind.
static constexpr std::string_view kPlainKind = "device";

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

static std::string printLayer(const CutProblem &problem, unsigned number) {
  const Layer &layer = problem.layers[number];
  std::string text;
  for (unsigned kind = 0; kind < problem.kinds.size(); ++kind) {
    const LayerCost &cost = layer.costs[kind];
    text += "layer " + std::to_string(number) + " kind " + problem.kinds[kind] +
            printPair("F", cost.forward) + printPair("I", cost.input) +
            printPair("W", cost.weight) + "\n";
  }
  text += "layer " + std::to_string(number);
  if (layer.tied >= 0)
    text += " tied " + std::to_string(layer.tied);
  text += printPair("weights", layer.weights) +
          printPair("activations", layer.activations) +
          printPair("sum", layer.sum) +
          printPair("gradients", layer.gradients) +
          printPair("bytes", layer.bytes) + "\n";
  if (layer.comm.empty())
    return text;
  text += "cut " + std::to_string(number);
  for (double seconds : layer.comm)
    text += " " + printNumber(seconds);
  return text + "\n";
}

std::string tandem::pipeline::print(const CutProblem &problem) {
  std::string text =
      "accounting " +
      std::string(kAccountings[static_cast<unsigned>(problem.accounting)]) +
      "\nschedule " + problem.schedule + "\nmicrobatches " +
      std::to_string(problem.numMicrobatches) + "\nsections " +
      std::to_string(problem.sectionsPerPoint) + " " +
      std::string(kPlacements[static_cast<unsigned>(problem.placement)]) + "\n";
  for (unsigned i = 0; i < problem.points.size(); ++i) {
    const CutPoint &point = problem.points[i];
    text += "point " + std::to_string(i) + " kind " + problem.kinds[point.kind];
    if (point.memory < kUnlimited)
      text += printPair("memory", point.memory);
    text += printPair("latency", point.latency);
    if (point.bandwidth < kUnlimited)
      text += printPair("bandwidth", point.bandwidth);
    text += "\n";
  }
  for (const CutLink &link : problem.links) {
    text += "link " + std::to_string(link.from) + " " +
            std::to_string(link.to) + printPair("latency", link.latency);
    if (link.bandwidth < kUnlimited)
      text += printPair("bandwidth", link.bandwidth);
    text += "\n";
  }
  for (unsigned i = 0; i < problem.layers.size(); ++i)
    text += printLayer(problem, i);
  return text;
}

std::string tandem::pipeline::print(const CutResult &result) {
  std::string text = "cut";
  for (unsigned count : result.cut)
    text += " " + std::to_string(count);
  return text + "\ncost " + printNumber(result.cost) + "\n";
}

//===----------------------------------------------------------------------===//
// Input
//===----------------------------------------------------------------------===//

namespace {
class CutReader {
public:
  CutReader(std::string_view text, std::string_view name, std::string &error)
      : words(text, name, error) {}
  std::optional<CutProblem> read();

private:
  void readLine();
  void readPoint();
  void readLink();
  void readLayer();
  void readCut();
  unsigned takeKind();
  void check();
  void checkCosts();
  void checkBorders();
  void checkLinks();

  Words words;
  CutProblem problem;
  /// By layer and kind.
  std::vector<std::vector<bool>> hasCost;
};
} // namespace

/// The kind that the line names, which is there from then on; without a name
/// all are alike.
unsigned CutReader::takeKind() {
  std::string_view name = kPlainKind;
  if (words.takeIf("kind"))
    name = words.take();
  if (name.empty())
    words.expect("the name of a kind");
  auto found = std::find(problem.kinds.begin(), problem.kinds.end(), name);
  if (found == problem.kinds.end())
    found = problem.kinds.emplace(found, name);
  words.mark("kind " + std::string(name));
  return static_cast<unsigned>(found - problem.kinds.begin());
}

void CutReader::readPoint() {
  words.takeNext(problem.points.size(), "point");
  CutPoint point;
  point.kind = takeKind();
  words.takeFields({{"memory", &point.memory},
                    {"latency", &point.latency},
                    {"bandwidth", &point.bandwidth}});
  if (point.bandwidth <= 0)
    words.fail("found a point without bandwidth, expected some");
  problem.points.push_back(point);
}

void CutReader::readLink() {
  CutLink link;
  link.from = words.takeIndex(problem.points.size(), "points");
  link.to = words.takeIndex(problem.points.size(), "points");
  if (link.from == link.to)
    words.expect("another point than " + std::to_string(link.from));
  if (problem.findLink(link.from, link.to))
    words.fail("found a second link of points " + std::to_string(link.from) +
               " and " + std::to_string(link.to) + ", expected one");
  words.takeFields(
      {{"latency", &link.latency}, {"bandwidth", &link.bandwidth}});
  if (link.bandwidth <= 0)
    words.fail("found a link without bandwidth, expected some");
  problem.links.push_back(link);
}

void CutReader::readLayer() {
  if (problem.points.empty())
    words.fail("found a layer in front of the points, expected them first");
  Layer *layer = words.takeElement(problem.layers, "layer");
  if (!layer)
    return;
  bool namesKind = words.peek() == "kind";
  if (!namesKind && words.takeIf("tied"))
    layer->tied = static_cast<int>(words.takeIndex(
        layer - problem.layers.data(), "layers in front of it"));
  // A cost without a kind is that of all kinds.
  size_t first = namesKind ? takeKind() : 0;
  size_t end = namesKind ? first + 1 : problem.kinds.size();
  LayerCost cost;
  auto found = words.takeFields({{"F", &cost.forward},
                                 {"I", &cost.input},
                                 {"W", &cost.weight},
                                 {"weights", &layer->weights},
                                 {"activations", &layer->activations},
                                 {"sum", &layer->sum},
                                 {"gradients", &layer->gradients},
                                 {"bytes", &layer->bytes}});
  if (!found.contains("F") && !found.contains("I") && !found.contains("W"))
    return;
  words.expectAll(found, {"F", "I", "W"});
  hasCost.resize(problem.layers.size());
  std::vector<bool> &has = hasCost[layer - problem.layers.data()];
  layer->costs.resize(std::max(layer->costs.size(), end));
  has.resize(layer->costs.size());
  for (size_t i = first; i < end; ++i) {
    layer->costs[i] = cost;
    has[i] = true;
  }
}

void CutReader::readCut() {
  unsigned number = words.takeIndex(problem.layers.size(), "layers");
  std::vector<double> seconds;
  while (words.ok() && !words.isEnd())
    seconds.push_back(words.takeNumber());
  words.mark("cut " + std::to_string(number));
  if (words.ok())
    problem.layers[number].comm = std::move(seconds);
}

void CutReader::readLine() {
  static const Names lines = {"accounting", "schedule", "microbatches",
                              "sections",   "point",    "link",
                              "layer",      "cut"};
  unsigned line = words.takeChoice(lines);
  if (line < 4)
    words.expectFirst(lines[line]);
  switch (line) {
  case 0:
    problem.accounting =
        static_cast<CutAccounting>(words.takeChoice(kAccountings));
    break;
  case 1:
    problem.schedule = words.take();
    if (!orders::findSchedule(problem.schedule))
      words.expect(orders::listSchedules());
    break;
  case 2:
    problem.numMicrobatches = words.takeCount(1);
    break;
  case 3:
    problem.sectionsPerPoint = words.takeCount(1);
    if (!words.isEnd())
      problem.placement =
          static_cast<orders::Placement>(words.takeChoice(kPlacements));
    break;
  case 4:
    return readPoint();
  case 5:
    return readLink();
  case 6:
    return readLayer();
  case 7:
    return readCut();
  }
  words.expectEnd();
}

/// Of layers on the kinds of points. A kind without a point is a typing error.
void CutReader::checkCosts() {
  std::vector<bool> isUsed(problem.kinds.size());
  for (const CutPoint &point : problem.points)
    isUsed[point.kind] = true;
  hasCost.resize(problem.layers.size());
  for (size_t kind = 0; kind < isUsed.size(); ++kind) {
    if (!isUsed[kind])
      words.failAt("kind " + problem.kinds[kind],
                   "no point is of kind '" + problem.kinds[kind] +
                       "', on which a layer has a cost, expected one");
    for (size_t i = 0; i < problem.layers.size(); ++i) {
      problem.layers[i].costs.resize(isUsed.size());
      hasCost[i].resize(isUsed.size());
      std::string name = "layer " + std::to_string(i);
      if (!hasCost[i][kind])
        words.failAt(name, name + " has no cost on kind '" +
                               problem.kinds[kind] +
                               "', expected F, I and W for it");
    }
  }
}

/// Sections may come behind the seconds of their borders.
void CutReader::checkBorders() {
  unsigned numSections = problem.getNumSections();
  for (unsigned i = 0; i < problem.layers.size(); ++i) {
    size_t found = problem.layers[i].comm.size();
    std::string name = "cut " + std::to_string(i);
    if (found > 0 && found != numSections - 1)
      return words.failAt(name, name + " has " + std::to_string(found) +
                                    " seconds, expected " +
                                    std::to_string(numSections - 1) +
                                    ", one for each border of " +
                                    std::to_string(numSections) + " sections");
  }
}

/// Borders of sections that lie on two points need a link, or seconds.
void CutReader::checkLinks() {
  for (unsigned border = 1; border < problem.getNumSections(); ++border) {
    unsigned from = problem.getPoint(border - 1), to = problem.getPoint(border);
    if (from == to || problem.findLink(from, to))
      continue;
    for (unsigned i = 0; i < problem.layers.size(); ++i) {
      std::string name = "layer " + std::to_string(i);
      if (problem.layers[i].bytes > 0 && problem.layers[i].comm.empty())
        return words.failAt(name,
                            "no link joins points " + std::to_string(from) +
                                " and " + std::to_string(to) + ", but " + name +
                                " has bytes for the transfer, expected 'link " +
                                std::to_string(from) + " " +
                                std::to_string(to) + " ...'");
    }
  }
}

void CutReader::check() {
  if (problem.points.empty())
    return words.fail("found no point, expected 'point 0', and so on");
  unsigned numSections = problem.getNumSections();
  if (problem.layers.size() < numSections)
    return words.fail("found " + std::to_string(problem.layers.size()) +
                      " layers, expected at least " +
                      std::to_string(numSections) + ", one for each section");
  std::string why;
  if (problem.accounting == CutAccounting::Tandem && !makeOrder(problem, why))
    return words.failAt("schedule", why);
  if (!verifySections(problem.accounting, problem.sectionsPerPoint, why))
    return words.failAt("sections", why);
  checkCosts();
  checkBorders();
  checkLinks();
}

std::optional<CutProblem> CutReader::read() {
  while (words.next())
    readLine();
  if (words.ok())
    check();
  if (!words.ok())
    return std::nullopt;
  return std::move(problem);
}

std::optional<CutProblem>
tandem::pipeline::parseCutProblem(std::string_view text, std::string_view name,
                                  std::string &error) {
  error.clear();
  return CutReader(text, name, error).read();
}

std::optional<CutResult>
tandem::pipeline::readCutResult(const CutProblem &problem,
                                std::string_view text, std::string_view name,
                                std::string &error) {
  error.clear();
  Words words(text, name, error);
  CutResult result;
  static const Names lines = {"cut", "cost"};
  while (words.next()) {
    unsigned line = words.takeChoice(lines);
    words.expectFirst(lines[line]);
    if (line == 1) {
      result.cost = words.takeNumber();
      words.expectEnd();
      continue;
    }
    while (words.ok() && !words.isEnd())
      result.cut.push_back(words.takeCount(1));
  }
  if (!words.hasLine("cost") || result.cut.empty())
    words.fail("found no cut with its cost, expected 'cut 2 3 3 1' and 'cost "
               "22.3'");
  std::string why;
  auto price = words.ok() ? checkCut(problem, result.cut, why) : std::nullopt;
  if (!price)
    words.failAt("cut", why);
  else if (!isSameCost(result.cost, price->seconds, why))
    words.failAt("cost", why);
  return words.ok() ? std::optional(std::move(result)) : std::nullopt;
}
