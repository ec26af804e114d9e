//===- Cuts.cpp - what a cut costs ----------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Pipeline/Cuts.h"
#include "tandem/Orders/Simulate.h"
#include "tandem/Orders/VerifyOrder.h"
#include "tandem/Orders/Words.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace tandem;
using namespace tandem::pipeline;

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

unsigned CutProblem::getPoint(unsigned section) const {
  auto number = static_cast<unsigned>(points.size());
  unsigned round = section / number, place = section % number;
  bool turns = placement == orders::Placement::Vee && round % 2 == 1;
  return turns ? number - 1 - place : place;
}

const CutLink *CutProblem::findLink(unsigned from, unsigned to) const {
  for (const CutLink &link : links)
    if (std::minmax(link.from, link.to) == std::minmax(from, to))
      return &link;
  return nullptr;
}

double CutProblem::getTransfer(unsigned layer, unsigned border) const {
  unsigned from = getPoint(border - 1), to = getPoint(border);
  if (from == to)
    return 0;
  if (!layers[layer].comm.empty())
    return layers[layer].comm[border - 1];
  const CutLink *link = findLink(from, to);
  return link ? link->latency + layers[layer].bytes / link->bandwidth : 0;
}

bool CutProblem::repeats(unsigned layer, unsigned begin) const {
  auto getFirst = [&](unsigned each) {
    while (layers[each].tied >= 0)
      each = layers[each].tied;
    return each;
  };
  if (layers[layer].tied < 0)
    return false;
  unsigned first = getFirst(layer);
  while (layer > begin)
    if (getFirst(--layer) == first)
      return true;
  return false;
}

double CutProblem::getSum(unsigned section, unsigned begin,
                          unsigned end) const {
  double seconds = 0, bytes = 0;
  for (unsigned i = begin; i < end; ++i) {
    seconds += layers[i].sum;
    if (!repeats(i, begin))
      bytes += layers[i].gradients;
  }
  const CutPoint &point = points[getPoint(section)];
  return bytes > 0 ? seconds + point.latency + bytes / point.bandwidth
                   : seconds;
}

orders::Partition tandem::pipeline::makePartition(const CutProblem &problem,
                                                  const Cut &cut) {
  orders::Partition partition;
  partition.numPoints = static_cast<unsigned>(problem.points.size());
  unsigned layer = 0;
  for (unsigned i = 0; i < cut.size(); ++i) {
    orders::Section section;
    section.point = problem.getPoint(i);
    section.activations = 0;
    unsigned kind = problem.points[section.point].kind;
    if (i > 0)
      partition.edges.push_back({i - 1, i, problem.getTransfer(layer - 1, i)});
    section.sum = problem.getSum(i, layer, layer + cut[i]);
    for (unsigned end = layer + cut[i]; layer < end; ++layer) {
      const Layer &each = problem.layers[layer];
      section.forward += each.costs[kind].forward;
      section.input += each.costs[kind].input;
      section.weight += each.costs[kind].weight;
      section.activations += each.activations;
    }
    partition.sections.push_back(section);
  }
  return partition;
}

bool tandem::pipeline::verifySections(CutAccounting accounting,
                                      unsigned sectionsPerPoint,
                                      std::string &error) {
  if (accounting == CutAccounting::Tandem || sectionsPerPoint == 1)
    return true;
  error = "found " + std::to_string(sectionsPerPoint) +
          " sections per point, expected one: equation 4 of 'amp' knows no "
          "more; 'tandem' does";
  return false;
}

std::optional<orders::Order>
tandem::pipeline::makeOrder(const CutProblem &problem, std::string &error) {
  const orders::Schedule &schedule = *orders::findSchedule(problem.schedule);
  // Of one section on a point, both placements are the same.
  if (problem.sectionsPerPoint > 1 && schedule.placement != problem.placement) {
    error = "schedule '" + problem.schedule +
            "' has its sections in another placement, expected 'sections " +
            std::to_string(problem.sectionsPerPoint) +
            (problem.placement == orders::Placement::Loop ? " vee'" : " loop'");
    return std::nullopt;
  }
  return schedule.make({static_cast<unsigned>(problem.points.size()),
                        problem.getNumSections(), problem.numMicrobatches},
                       error);
}

double tandem::pipeline::getLowerBound(const CutProblem &problem) {
  double work = 0, way = 0;
  for (const Layer &layer : problem.layers) {
    double forward = kUnlimited, input = kUnlimited, total = kUnlimited;
    for (const CutPoint &point : problem.points) {
      const LayerCost &cost = layer.costs[point.kind];
      forward = std::min(forward, cost.forward);
      input = std::min(input, cost.input);
      total = std::min(total, cost.getTotal());
    }
    work += total;
    way += forward + input;
  }
  double number = static_cast<double>(problem.points.size());
  return std::max(work * problem.numMicrobatches / number, way);
}

//===----------------------------------------------------------------------===//
// The price
//===----------------------------------------------------------------------===//

/// (m - 1) times the largest section, and all sections and transfers once;
/// behind them, the longest sum of gradients. It stands for 1F1B, in which
/// point i has up to p - i microbatches in flight.
static void priceByEquations(const CutProblem &problem,
                             const orders::Partition &partition,
                             CutPrice &price) {
  double largest = 0;
  for (size_t i = 0; i < partition.sections.size(); ++i) {
    const orders::Section &section = partition.sections[i];
    double own = section.forward + section.input + section.weight;
    largest = std::max(largest, own);
    price.exposed = std::max(price.exposed, section.sum);
    price.seconds += own;
    price.held[i] = section.activations *
                    static_cast<double>(std::min<size_t>(
                        problem.numMicrobatches, price.held.size() - i));
  }
  for (const orders::Edge &edge : partition.edges)
    price.seconds += edge.seconds;
  price.seconds += (problem.numMicrobatches - 1) * largest + price.exposed;
}

CutPrice tandem::pipeline::priceCut(const CutProblem &problem, const Cut &cut,
                                    const std::optional<orders::Order> &order) {
  orders::Partition partition = makePartition(problem, cut);
  CutPrice price;
  price.held.resize(problem.points.size());
  if (order) {
    orders::Simulation simulation = orders::simulate(partition, *order);
    price.seconds = simulation.end;
    price.exposed = simulation.end - simulation.makespan;
    price.bubble = simulation.getBubble();
    for (size_t i = 0; i < price.held.size(); ++i)
      price.held[i] = simulation.points[i].peak;
  } else {
    priceByEquations(problem, partition, price);
  }
  unsigned begin = 0;
  for (unsigned i = 0; i < cut.size(); begin += cut[i++])
    for (unsigned layer = begin; layer < begin + cut[i]; ++layer)
      if (!problem.repeats(layer, begin))
        price.held[problem.getPoint(i)] += problem.layers[layer].weights;
  double most = 0;
  for (unsigned i = 0; i < price.held.size(); ++i) {
    double more = std::max(0.0, price.held[i] -
                                    problem.points[i].memory * (1 + kRounding));
    price.excess += more;
    if (more > most) {
      most = more;
      price.worst = i;
    }
  }
  return price;
}

/// `section 1 (layers 3 to 5)`.
static std::string describeSections(const CutProblem &problem, const Cut &cut,
                                    unsigned point) {
  std::string text;
  unsigned layer = 0;
  for (unsigned i = 0; i < cut.size(); layer += cut[i++])
    if (problem.getPoint(i) == point)
      text += (text.empty() ? "section " : ", section ") + std::to_string(i) +
              " (layers " + std::to_string(layer) + " to " +
              std::to_string(layer + cut[i] - 1) + ")";
  return text;
}

std::string tandem::pipeline::describeExcess(const CutProblem &problem,
                                             const Cut &cut,
                                             const CutPrice &price) {
  double held = price.held[price.worst];
  double limit = problem.points[price.worst].memory;
  return "point " + std::to_string(price.worst) + " holds " +
         orders::printQuantity(held) + ", " +
         orders::printQuantity(held - limit) + " more than its limit of " +
         orders::printQuantity(limit) + ", by " +
         describeSections(problem, cut, price.worst);
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

std::optional<CutPrice> tandem::pipeline::checkCut(const CutProblem &problem,
                                                   const Cut &cut,
                                                   std::string &error) {
  if (cut.size() != problem.getNumSections()) {
    error = "found " + std::to_string(cut.size()) + " sections, expected " +
            std::to_string(problem.getNumSections());
    return std::nullopt;
  }
  size_t layers = std::accumulate(cut.begin(), cut.end(), size_t(0));
  if (layers != problem.layers.size() ||
      std::find(cut.begin(), cut.end(), 0u) != cut.end()) {
    error = "found " + std::to_string(layers) +
            " layers in the sections, expected " +
            std::to_string(problem.layers.size()) +
            ", and one in each section at least";
    return std::nullopt;
  }
  std::optional<orders::Order> order;
  if (problem.accounting == CutAccounting::Tandem) {
    order = makeOrder(problem, error);
    orders::Partition partition = makePartition(problem, cut);
    if (!order || !orders::verifyPartition(partition, error) ||
        !orders::verifyOrder(partition, *order, {problem.numMicrobatches, {}},
                             problem.schedule, error))
      return std::nullopt;
  }
  CutPrice price = priceCut(problem, cut, order);
  if (price.excess <= 0)
    return price;
  error = describeExcess(problem, cut, price);
  return std::nullopt;
}

bool tandem::pipeline::isSameCost(double found, double expected,
                                  std::string &error) {
  if (std::abs(found - expected) <= kRounding * expected)
    return true;
  error = "found cost " + orders::printNumber(found) + ", expected " +
          orders::printNumber(expected);
  return false;
}

bool tandem::pipeline::verifyCut(const CutProblem &problem,
                                 const CutResult &result, std::string &error) {
  auto price = checkCut(problem, result.cut, error);
  return price && isSameCost(result.cost, price->seconds, error);
}
