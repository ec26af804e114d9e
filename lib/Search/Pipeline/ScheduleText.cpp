//===- ScheduleText.cpp - problems of schedules as text -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Words.h"
#include "tandem/Search/Pipeline/OrderSearch.h"
#include <limits>

using namespace tandem;
using namespace tandem::pipeline;
using orders::printNumber;
using orders::Words;

/// Of noise; actions never take longer by far.
static constexpr double kMostSpread = 2;
static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

namespace {
/// Reads the lines that a partition does not have.
class ScheduleReader {
public:
  ScheduleReader(Words &words, ScheduleProblem &problem)
      : words(words), problem(problem), isLimited(problem.partition.numPoints) {
  }
  void run();

private:
  void readLine();
  void readLimit();
  void readNoise();

  Words &words;
  ScheduleProblem &problem;
  std::vector<bool> isLimited;
  double limitOfAll = kNoLimit;
};
} // namespace

void ScheduleReader::readLimit() {
  double limit = words.takeNumber();
  if (words.isEnd()) {
    words.expectFirst("limit");
    limitOfAll = limit;
    return;
  }
  words.takeChoice({"point"});
  unsigned point = words.takeIndex(isLimited.size(), "points");
  if (!words.ok())
    return;
  if (isLimited[point])
    return words.expect("one limit of each point");
  isLimited[point] = true;
  problem.limits[point] = limit;
}

void ScheduleReader::readNoise() {
  Noise noise;
  noise.spread = words.takeNumber();
  if (noise.spread > kMostSpread)
    return words.expect("a share of an action's seconds, at most " +
                        printNumber(kMostSpread));
  if (words.isEnd())
    return words.fail("found noise without a seed, expected 'noise " +
                      printNumber(noise.spread) + " seed 1'");
  words.takeChoice({"seed"});
  noise.seed = words.takeCount(0);
  problem.noise = noise;
}

void ScheduleReader::readLine() {
  static const orders::Names lines = {"microbatches", "limit",   "objective",
                                      "noise",        "section", "edge"};
  unsigned line = words.takeChoice(lines);
  if (line != 1)
    words.expectFirst(lines[line]);
  switch (line) {
  case 0:
    problem.numMicrobatches = words.takeCount(1);
    break;
  case 1:
    readLimit();
    break;
  case 2:
    problem.objective =
        static_cast<OrderObjective>(words.takeChoice({"makespan", "span"}));
    break;
  case 3:
    readNoise();
    break;
  }
  words.expectEnd();
}

void ScheduleReader::run() {
  problem.limits.resize(isLimited.size(), kNoLimit);
  orders::Partition known; // read before
  while (words.next())
    if (!readPartitionLine(words, known))
      readLine();
  if (!words.hasLine("microbatches"))
    words.fail("found no line 'microbatches N', expected one");
  for (size_t i = 0; i < isLimited.size(); ++i)
    if (!isLimited[i])
      problem.limits[i] = limitOfAll;
}

/// Limits name points, which sections have: so these are read first.
std::optional<ScheduleProblem>
pipeline::parseScheduleProblem(std::string_view text, std::string_view name,
                               std::string &error) {
  error.clear();
  ScheduleProblem problem;
  Words words(text, name, error);
  while (words.next())
    readPartitionLine(words, problem.partition);
  std::string why;
  if (words.ok() && !verifyPartition(problem.partition, why))
    words.fail(why);
  Words others(text, name, error);
  ScheduleReader(others, problem).run();
  return words.ok() ? std::optional(std::move(problem)) : std::nullopt;
}

std::string pipeline::print(const ScheduleProblem &problem) {
  std::string text =
      "microbatches " + std::to_string(problem.numMicrobatches) + "\n";
  if (problem.objective == OrderObjective::Span)
    text += "objective span\n";
  for (unsigned i = 0; i < problem.limits.size(); ++i)
    if (problem.limits[i] < kNoLimit)
      text += "limit " + printNumber(problem.limits[i]) + " point " +
              std::to_string(i) + "\n";
  if (problem.noise)
    text += "noise " + printNumber(problem.noise->spread) + " seed " +
            std::to_string(problem.noise->seed) + "\n";
  return text + print(problem.partition);
}
