//===- ScheduleModel.cpp - a schedule as letters on machines --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleModel.h"
#include "Noise.h"
#include <algorithm>
#include <limits>
#include <set>

using namespace tandem::orders;
using namespace tandem::pipeline;
using namespace tandem::pipeline::schedule;

namespace {
/// Letters of a section.
struct SectionLetters {
  unsigned forward = 0;
  /// I or B, and W or B; equal to `forward` without a backward pass.
  unsigned input = 0, weight = 0;
};

class ModelMaker {
public:
  explicit ModelMaker(const ScheduleProblem &problem)
      : problem(problem), partition(problem.partition) {}
  Model run();

private:
  void addMachines();
  unsigned addLetter(unsigned section, std::optional<ActionKind> kind);
  void addSection(unsigned section);
  void addArc(unsigned from, unsigned to, double seconds);
  void addEdges();
  void sortLetters();
  void visit(unsigned letter, std::vector<bool> &isDone);
  void measureAlone();
  void setTails();
  void addSamples();

  const ScheduleProblem &problem;
  const Partition &partition;
  Model model;
  std::vector<SectionLetters> sections;
};
} // namespace

void ModelMaker::addMachines() {
  model.numPoints = partition.numPoints;
  model.numMicrobatches = problem.numMicrobatches;
  model.machines.resize(2 * partition.numPoints);
  for (unsigned i = 0; i < model.machines.size(); ++i)
    model.machines[i].limit = i < problem.limits.size()
                                  ? problem.limits[i]
                                  : std::numeric_limits<double>::infinity();
}

unsigned ModelMaker::addLetter(unsigned section,
                               std::optional<ActionKind> kind) {
  const Section &costs = partition.sections[section];
  Letter letter;
  letter.machine = costs.point + (kind ? 0 : partition.numPoints);
  letter.count = kind ? problem.numMicrobatches : 1;
  letter.first = model.numOperations;
  letter.seconds = kind ? getSeconds(costs, *kind) : costs.sum;
  if (kind)
    letter.held = getHeldChange(costs, *kind);
  letter.section = section;
  letter.kind = kind;
  model.numOperations += letter.count;
  model.machines[letter.machine].letters.push_back(model.letters.size());
  model.letters.push_back(letter);
  return model.letters.size() - 1;
}

void ModelMaker::addArc(unsigned from, unsigned to, double seconds) {
  model.letters[to].needs.push_back({from, seconds});
  model.letters[from].feeds.push_back({to, seconds});
}

void ModelMaker::addSection(unsigned section) {
  const Section &costs = partition.sections[section];
  unsigned forward = addLetter(section, ActionKind::Forward);
  unsigned input = forward, weight = forward;
  if (costs.hasBackward) {
    input = weight =
        addLetter(section, costs.isSplit ? ActionKind::BackwardInput
                                         : ActionKind::Backward);
    addArc(forward, input, 0);
  }
  if (costs.hasBackward && costs.isSplit) {
    weight = addLetter(section, ActionKind::BackwardWeight);
    addArc(input, weight, 0);
  }
  if (costs.sum > 0)
    addArc(weight, addLetter(section, std::nullopt), 0);
  sections.push_back({forward, input, weight});
}

void ModelMaker::addEdges() {
  for (const Edge &edge : partition.edges) {
    const Section &from = partition.sections[edge.from];
    const Section &to = partition.sections[edge.to];
    double seconds = from.point == to.point ? 0 : edge.seconds;
    addArc(sections[edge.from].forward, sections[edge.to].forward, seconds);
    if (edge.hasGradient && from.hasBackward && to.hasBackward)
      addArc(sections[edge.to].input, sections[edge.from].input, seconds);
  }
}

/// W follows its I at once: so a microbatch alone holds the least.
void ModelMaker::visit(unsigned letter, std::vector<bool> &isDone) {
  if (isDone[letter])
    return;
  for (const Arc &need : model.letters[letter].needs)
    visit(need.letter, isDone);
  isDone[letter] = true;
  model.sequence.push_back(letter);
  unsigned section = model.letters[letter].section;
  if (model.letters[letter].kind == ActionKind::BackwardInput)
    visit(sections[section].weight, isDone);
}

void ModelMaker::sortLetters() {
  std::vector<bool> isDone(model.letters.size());
  for (unsigned letter = 0; letter < model.letters.size(); ++letter)
    visit(letter, isDone);
  for (Machine &machine : model.machines)
    machine.letters.clear();
  for (unsigned letter : model.sequence)
    model.machines[model.letters[letter].machine].letters.push_back(letter);
}

void ModelMaker::measureAlone() {
  std::vector<double> held(model.machines.size());
  for (unsigned number : model.sequence) {
    const Letter &letter = model.letters[number];
    double &now = held[letter.machine];
    Machine &machine = model.machines[letter.machine];
    now += letter.held.begin;
    machine.alone = std::max(machine.alone, now);
    now += letter.held.end;
  }
}

/// Of spans: each point's end counts from its begin. If each point can begin
/// with one letter only, and that needs such letters alone, then the begins are
/// the same in all orders, and the model is exact.
void ModelMaker::setTails() {
  std::vector<double> heads(model.letters.size());
  // The machines that a letter comes behind.
  std::vector<std::set<unsigned>> before(model.letters.size());
  for (unsigned number : model.sequence)
    for (const Arc &need : model.letters[number].needs) {
      const Letter &needed = model.letters[need.letter];
      heads[number] = std::max(
          heads[number], heads[need.letter] + need.seconds + needed.seconds);
      before[number].insert(needed.machine);
      before[number].insert(before[need.letter].begin(),
                            before[need.letter].end());
    }
  auto isFirst = [&](unsigned number) {
    unsigned machine = model.letters[number].machine;
    return machine < model.numPoints && !before[number].contains(machine);
  };
  std::vector<double> begins(model.numPoints,
                             std::numeric_limits<double>::infinity());
  for (unsigned point = 0; point < model.numPoints; ++point) {
    const std::vector<unsigned> &letters = model.machines[point].letters;
    for (unsigned number : letters)
      begins[point] = std::min(begins[point], heads[number]);
    model.isExact &=
        std::count_if(letters.begin(), letters.end(), isFirst) == 1;
  }
  for (unsigned number = 0; number < model.letters.size(); ++number)
    for (const Arc &need : model.letters[number].needs)
      model.isExact &= !isFirst(number) || isFirst(need.letter);
  model.offset = *std::max_element(begins.begin(), begins.end());
  for (unsigned i = 0; i < model.machines.size(); ++i)
    model.machines[i].tail = model.offset - begins[i % model.numPoints];
}

/// In the mean over samples an operation takes what it takes without noise, so
/// that a bound without noise is one of the mean.
void ModelMaker::addSamples() {
  constexpr unsigned kNumSamples = 8;
  model.samples.assign(kNumSamples, std::vector<double>(model.numOperations));
  for (const Letter &letter : model.letters)
    for (unsigned i = 0; i < letter.count; ++i) {
      double sum = 0;
      for (unsigned sample = 0; sample < kNumSamples; ++sample) {
        double factor = letter.kind
                            ? getNoiseFactor(*problem.noise, sample,
                                             {letter.section, *letter.kind, i})
                            : 1;
        sum += model.samples[sample][letter.first + i] = factor;
      }
      for (std::vector<double> &sample : model.samples)
        sample[letter.first + i] *= letter.seconds * kNumSamples / sum;
    }
}

Model ModelMaker::run() {
  addMachines();
  for (unsigned i = 0; i < partition.sections.size(); ++i)
    addSection(i);
  addEdges();
  sortLetters();
  measureAlone();
  if (problem.objective == OrderObjective::Span)
    setTails();
  if (problem.noise)
    addSamples();
  return std::move(model);
}

Model schedule::makeModel(const ScheduleProblem &problem) {
  return ModelMaker(problem).run();
}

Model schedule::mirror(const Model &model) {
  Model mirrored = model;
  mirrored.samples.clear();
  for (Letter &letter : mirrored.letters) {
    std::swap(letter.needs, letter.feeds);
    letter.held = {-letter.held.end, -letter.held.begin};
  }
  for (Machine &machine : mirrored.machines)
    std::swap(machine.head, machine.tail);
  std::reverse(mirrored.sequence.begin(), mirrored.sequence.end());
  for (Machine &machine : mirrored.machines)
    std::reverse(machine.letters.begin(), machine.letters.end());
  return mirrored;
}

Rows schedule::mirror(Rows rows) {
  for (std::vector<unsigned> &row : rows)
    std::reverse(row.begin(), row.end());
  return rows;
}

Order schedule::makeOrder(const Model &model, const Rows &rows) {
  Order order;
  std::vector<unsigned> counts(model.letters.size());
  for (unsigned point = 0; point < model.numPoints; ++point) {
    order.points.emplace_back();
    for (unsigned number : rows[point]) {
      const Letter &letter = model.letters[number];
      order.points[point].push_back(
          {letter.section, *letter.kind, counts[number]++});
    }
  }
  return order;
}

std::optional<unsigned> Model::find(unsigned section,
                                    std::optional<ActionKind> kind) const {
  for (unsigned i = 0; i < letters.size(); ++i)
    if (letters[i].section == section && letters[i].kind == kind)
      return i;
  return std::nullopt;
}

Rows schedule::makeRows(const Model &model, const Order &order) {
  Rows rows(model.machines.size());
  std::vector<unsigned> counts(model.letters.size());
  auto add = [&](unsigned machine, unsigned section,
                 std::optional<ActionKind> kind) {
    std::optional<unsigned> letter = model.find(section, kind);
    if (letter) {
      rows[machine].push_back(*letter);
      ++counts[*letter];
    }
    bool isLast = letter && counts[*letter] == model.letters[*letter].count;
    return isLast && kind && kind != ActionKind::Forward &&
           kind != ActionKind::BackwardInput;
  };
  for (unsigned point = 0; point < order.points.size(); ++point)
    for (const Action &action : order.points[point]) {
      bool isWhole = action.kind == ActionKind::Backward &&
                     !model.find(action.section, action.kind);
      if (isWhole)
        add(point, action.section, ActionKind::BackwardInput);
      if (add(point, action.section,
              isWhole ? ActionKind::BackwardWeight : action.kind))
        add(point + model.numPoints, action.section, std::nullopt);
    }
  return rows;
}
