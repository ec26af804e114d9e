//===- ScheduleText.cpp - problems of schedules as text -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Words.h"
#include "tandem/Search/Pipeline/OrderSearch.h"
#include <algorithm>
#include <limits>

using namespace tandem;
using namespace tandem::pipeline;

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
  void readLine(std::string_view name);
  void readLimit();
  void readNoise();
  /// Whether the line is the first one of its name.
  bool isFirst(std::string_view name) {
    bool isNew = std::find(found.begin(), found.end(), name) == found.end();
    found.push_back(name);
    if (!isNew)
      words.expect("one line '" + std::string(name) + "'");
    return isNew;
  }

  Words &words;
  ScheduleProblem &problem;
  Names found;
  std::vector<bool> isLimited;
  double limitOfAll = kNoLimit;
};
} // namespace

void ScheduleReader::readLimit() {
  double limit = words.takeNumber();
  if (words.isEnd()) {
    if (words.ok() && isFirst("limit"))
      limitOfAll = limit;
    return;
  }
  words.takeChoice({"point"});
  unsigned point = words.takeCount(0);
  unsigned numPoints = problem.partition.numPoints;
  if (!words.ok())
    return;
  if (point >= numPoints)
    return words.expect("one of " + std::to_string(numPoints) + " points");
  if (isLimited[point])
    return words.expect("one limit of each point");
  isLimited[point] = true;
  problem.limits[point] = limit;
}

void ScheduleReader::readNoise() {
  Noise noise;
  noise.spread = words.takeNumber();
  if (words.ok() && noise.spread > kMostSpread)
    return words.expect("a share of an action's seconds, at most " +
                        printNumber(kMostSpread));
  if (words.ok() && words.isEnd())
    return words.fail("found noise without a seed, expected 'noise " +
                      printNumber(noise.spread) + " seed 1'");
  words.takeChoice({"seed"});
  noise.seed = words.takeCount(0);
  problem.noise = noise;
}

void ScheduleReader::readLine(std::string_view name) {
  if (name == "limit")
    readLimit();
  else if (name == "noise" && isFirst(name))
    readNoise();
  else if (name == "microbatches" && isFirst(name))
    problem.numMicrobatches = words.takeCount(1);
  else if (name == "objective" && isFirst(name))
    problem.objective =
        static_cast<OrderObjective>(words.takeChoice({"makespan", "span"}));
  else if (name != "microbatches" && name != "objective" && name != "noise")
    words.expect("microbatches, limit, objective, noise, section or edge");
  if (words.ok())
    words.expectEnd();
}

void ScheduleReader::run() {
  problem.limits.resize(isLimited.size(), kNoLimit);
  while (words.next()) {
    std::string_view name = words.take();
    if (name != "section" && name != "edge")
      readLine(name);
  }
  if (words.ok() &&
      std::find(found.begin(), found.end(), "microbatches") == found.end())
    words.failWhole("found no line 'microbatches N', expected one");
  for (size_t i = 0; i < isLimited.size(); ++i)
    if (!isLimited[i])
      problem.limits[i] = limitOfAll;
}

/// The lines of the partition, with their numbers.
static std::string keepPartition(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
    std::string_view rest = line.substr(begin);
    if (rest.starts_with("section") || rest.starts_with("edge"))
      kept += line;
    kept += '\n';
  }
  return kept;
}

std::optional<ScheduleProblem>
pipeline::parseScheduleProblem(std::string_view text, std::string_view name,
                               std::string &error) {
  error.clear();
  ScheduleProblem problem;
  std::optional<orders::Partition> partition =
      orders::parsePartition(keepPartition(text), name, error);
  if (!partition)
    return std::nullopt;
  problem.partition = std::move(*partition);
  Words words(text, name, error);
  ScheduleReader(words, problem).run();
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
