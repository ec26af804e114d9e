//===- Cuts.cpp - what a cut costs ----------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Pipeline/Cuts.h"
#include "Words.h"
#include "tandem/Orders/Simulate.h"
#include "tandem/Orders/VerifyOrder.h"
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
    for (unsigned end = layer + cut[i]; layer < end; ++layer) {
      const Layer &each = problem.layers[layer];
      section.forward += each.costs[kind].forward;
      section.input += each.costs[kind].input;
      section.weight += each.costs[kind].weight;
      section.activations += each.activations;
      section.sum += each.sum;
    }
    partition.sections.push_back(section);
  }
  return partition;
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
// Memory
//===----------------------------------------------------------------------===//

void tandem::pipeline::addWeights(const CutProblem &problem, const Cut &cut,
                                  std::vector<double> &held) {
  unsigned layer = 0;
  for (unsigned i = 0; i < cut.size(); ++i)
    for (unsigned end = layer + cut[i]; layer < end; ++layer)
      held[problem.getPoint(i)] += problem.layers[layer].weights;
}

/// What each point holds: weights, and what its microbatches in flight hold.
/// Equation 4 stands for 1F1B, in which point i has up to p - i of them.
static std::vector<double> getHeld(const CutProblem &problem, const Cut &cut,
                                   const std::optional<orders::Order> &order) {
  orders::Partition partition = makePartition(problem, cut);
  std::vector<double> held(problem.points.size());
  if (order) {
    orders::Simulation simulation = orders::simulate(partition, *order);
    for (size_t i = 0; i < held.size(); ++i)
      held[i] = simulation.points[i].peak;
  } else {
    for (size_t i = 0; i < held.size(); ++i)
      held[i] = partition.sections[i].activations *
                static_cast<double>(
                    std::min<size_t>(problem.numMicrobatches, held.size() - i));
  }
  addWeights(problem, cut, held);
  return held;
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

std::string
tandem::pipeline::findExcess(const CutProblem &problem, const Cut &cut,
                             const std::optional<orders::Order> &order) {
  auto isUnlimited = [](const CutPoint &point) {
    return point.memory == kUnlimited;
  };
  if (std::all_of(problem.points.begin(), problem.points.end(), isUnlimited))
    return "";
  std::vector<double> held = getHeld(problem, cut, order);
  unsigned worst = 0;
  auto getExcess = [&](unsigned point) {
    return held[point] - problem.points[point].memory;
  };
  for (unsigned i = 1; i < held.size(); ++i)
    if (getExcess(i) > getExcess(worst))
      worst = i;
  if (getExcess(worst) <= 0)
    return "";
  return "point " + std::to_string(worst) + " holds " +
         orders::printQuantity(held[worst]) + ", " +
         orders::printQuantity(getExcess(worst)) + " more than its limit of " +
         orders::printQuantity(problem.points[worst].memory) + ", by " +
         describeSections(problem, cut, worst);
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

static bool fail(std::string &error, const std::string &message) {
  error = message;
  return false;
}

/// Equation 4, of the sums of layers alone.
static double getEquation4(const CutProblem &problem, const Cut &cut) {
  double largest = 0, all = 0;
  unsigned layer = 0;
  for (unsigned i = 0; i < cut.size(); ++i) {
    if (i > 0)
      all += problem.getTransfer(layer - 1, i);
    double section = 0;
    for (unsigned end = layer + cut[i]; layer < end; ++layer)
      section += problem.layers[layer].costs[problem.points[i].kind].getTotal();
    largest = std::max(largest, section);
    all += section;
  }
  return (problem.numMicrobatches - 1) * largest + all;
}

bool tandem::pipeline::verifyCut(const CutProblem &problem,
                                 const CutResult &result, std::string &error) {
  const Cut &cut = result.cut;
  if (cut.size() != problem.getNumSections())
    return fail(error, "found " + std::to_string(cut.size()) +
                           " sections, expected " +
                           std::to_string(problem.getNumSections()));
  size_t layers = std::accumulate(cut.begin(), cut.end(), size_t(0));
  if (layers != problem.layers.size() ||
      std::find(cut.begin(), cut.end(), 0u) != cut.end())
    return fail(error, "found " + std::to_string(layers) +
                           " layers in the sections, expected " +
                           std::to_string(problem.layers.size()) +
                           ", and one in each section at least");
  std::optional<orders::Order> order;
  double cost = 0;
  if (problem.accounting == CutAccounting::Tandem) {
    order = makeOrder(problem, error);
    orders::Partition partition = makePartition(problem, cut);
    if (!order || !orders::verifyPartition(partition, error) ||
        !orders::verifyOrder(partition, *order, {problem.numMicrobatches, {}},
                             problem.schedule, error))
      return false;
    cost = orders::simulate(partition, *order).end;
  } else {
    cost = getEquation4(problem, cut);
  }
  error = findExcess(problem, cut, order);
  if (!error.empty())
    return false;
  // Sums of other orders round in other ways.
  constexpr double kRounding = 1e-9;
  return std::abs(cost - result.cost) <= kRounding * cost ||
         fail(error, "found cost " + printNumber(result.cost) + ", expected " +
                         printNumber(cost));
}
