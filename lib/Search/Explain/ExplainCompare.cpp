//===- ExplainCompare.cpp - where two plans differ ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainTable.h"
#include "ExplainTime.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

using namespace tandem::cost;
using namespace tandem::search;

/// Rows that are printed of each list.
constexpr size_t kMaxRows = 10;

namespace {
/// Something that both plans have, by what names it.
struct Row {
  std::string what, place;
  std::array<double, 2> seconds{}, exposed{};
  double getDifference() const { return exposed[1] - exposed[0]; }
};

/// Rows by pattern and place, in the order in which they were found.
class Rows {
public:
  Row &get(const std::string &kind, const std::string &label,
           const std::string &place) {
    std::string key = kind + " " + getPattern(label) + " " + place;
    auto [it, isNew] = places.try_emplace(key, rows.size());
    if (isNew) {
      rows.push_back({"", place});
      labels.emplace_back();
      kinds.push_back(kind);
    }
    labels[it->second].push_back(label);
    return rows[it->second];
  }
  /// With names, the largest difference first.
  std::vector<Row> take() {
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i].what =
          (kinds[i].empty() ? "" : kinds[i] + " ") + mergeNames(labels[i]);
    std::stable_sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
      return std::fabs(a.getDifference()) > std::fabs(b.getDifference());
    });
    return std::move(rows);
  }

private:
  std::map<std::string, size_t> places;
  std::vector<Row> rows;
  std::vector<std::vector<std::string>> labels;
  std::vector<std::string> kinds;
};

/// The two plans.
using Sides = std::array<std::unique_ptr<PlanFacts>, 2>;
} // namespace

static std::string printTotals(const Sides &sides) {
  const PlanTime &a = sides[0]->analysis.time, &b = sides[1]->analysis.time;
  Table table("lrrrr");
  table.add({"", "first", "second", "difference", ""});
  auto add = [&](const char *what, double first, double second) {
    table.add({what, formatSeconds(first), formatSeconds(second),
               formatSeconds(second - first, true),
               first > 0 ? formatShare(second / first - 1, true) : ""});
  };
  add("step", a.seconds, b.seconds);
  add("computation", a.getComputation(), b.getComputation());
  add("exposed communication", a.exposed, b.exposed);
  add("all communication", a.communication, b.communication);
  int64_t first = sides[0]->report.peak, second = sides[1]->report.peak;
  table.add({"peak of memory", formatBytes(first), formatBytes(second),
             formatBytes(second - first, true)});
  auto countStages = [&](unsigned side) {
    return std::to_string(sides[side]->plan.stageEnds.size());
  };
  table.add({"stages", countStages(0), countStages(1)});
  return table.print();
}

/// What differs in seconds, and the sum of the rest.
static std::string printRows(const char *title, std::vector<Row> rows) {
  Table table("lrrrl");
  size_t count = 0, more = 0;
  double rest = 0;
  for (const Row &row : rows) {
    bool isEqual = std::fabs(row.getDifference()) <=
                       1e-12 * (row.exposed[0] + row.exposed[1]) &&
                   std::fabs(row.seconds[1] - row.seconds[0]) <=
                       1e-12 * (row.seconds[0] + row.seconds[1]);
    if (isEqual)
      continue;
    if (count++ >= kMaxRows) {
      ++more;
      rest += row.getDifference();
      continue;
    }
    table.add(
        {row.what, formatSeconds(row.exposed[0]), formatSeconds(row.exposed[1]),
         formatSeconds(row.getDifference(), true), formatPlace(row.place)});
  }
  if (more > 0)
    table.addNote(std::to_string(more) + " more: " + formatSeconds(rest, true));
  return table.isEmpty() ? ""
                         : "\n" + std::string(title) + "\n" + table.print();
}

static std::vector<Row> getCollectiveRows(const Sides &sides) {
  Rows rows;
  for (unsigned side = 0; side < 2; ++side) {
    const PlanFacts &facts = *sides[side];
    for (const Collective &entry : getCollectives(facts)) {
      Row &row = rows.get(formatPass(entry.pass) + " " + entry.kind + " " +
                              entry.axis + " of",
                          entry.name, entry.location);
      row.seconds[side] += entry.seconds;
      row.exposed[side] += entry.exposed;
    }
  }
  return rows.take();
}

/// Computation is always in the step: its seconds count as exposed ones do.
static std::vector<Row> getComputationRows(const Sides &sides) {
  Rows rows;
  for (unsigned side = 0; side < 2; ++side) {
    const PlanFacts &facts = *sides[side];
    for (unsigned op = 0; op < facts.problem.operators.size(); ++op) {
      const Operator &info = facts.problem.operators[op];
      double seconds = getComputeSeconds(facts.problem, facts.plan, op);
      if (seconds <= 0)
        continue;
      const std::string &label = info.results.empty()
                                     ? info.name
                                     : facts.names.getLabel(info.results[0]);
      Row &row = rows.get(formatPass(info.pass), label, info.location);
      row.seconds[side] += seconds;
      row.exposed[side] += seconds;
    }
    double local = facts.analysis.time.local;
    if (local > 0)
      rows.get("", "sums over time", "").exposed[side] = local;
  }
  return rows.take();
}

/// Tensors that both have, in forms that differ.
static std::string printForms(const Sides &sides) {
  const PlanFacts &a = *sides[0], &b = *sides[1];
  std::map<std::string, unsigned> byName;
  for (unsigned i = 0; i < b.problem.tensors.size(); ++i)
    byName.try_emplace(b.names.getLabel(i), i);
  using Key = std::tuple<std::string, std::string, std::string, std::string>;
  std::map<Key, std::vector<std::string>> groups;
  std::map<Key, int64_t> bytes;
  for (unsigned i = 0; i < a.problem.tensors.size(); ++i) {
    const std::string &label = a.names.getLabel(i);
    auto it = byName.find(label);
    if (it == byName.end())
      continue;
    std::string first = print(a.problem, a.getLayout(i)),
                second = print(b.problem, b.getLayout(it->second));
    if (first == second)
      continue;
    Key key{getPattern(label), first, second, a.names.getLocation(i)};
    groups[key].push_back(label);
    bytes[key] += a.problem.getBytes(i, Layout());
  }
  std::vector<Key> order;
  size_t numTensors = 0;
  for (const auto &[key, labels] : groups) {
    order.push_back(key);
    numTensors += labels.size();
  }
  std::stable_sort(order.begin(), order.end(), [&](const Key &x, const Key &y) {
    return bytes[x] > bytes[y];
  });
  Table table("lrlll");
  for (size_t i = 0; i < std::min(order.size(), kMaxRows); ++i) {
    const auto &[pattern, first, second, place] = order[i];
    const std::vector<std::string> &labels = groups[order[i]];
    table.add({mergeNames(labels), "x " + std::to_string(labels.size()), first,
               "-> " + second, formatPlace(place)});
  }
  if (order.size() > kMaxRows)
    table.addNote(std::to_string(order.size() - kMaxRows) + " more");
  return "\nForms that differ: " + std::to_string(numTensors) +
         " tensors, the largest first\n" + table.print();
}

std::string tandem::search::compare(const SearchProblem &problemA,
                                    const Plan &planA,
                                    const SearchProblem &problemB,
                                    const Plan &planB, std::string &error) {
  Sides sides{PlanFacts::make(problemA, planA, error), nullptr};
  if (!sides[0]) {
    error = "the first plan: " + error;
    return "";
  }
  sides[1] = PlanFacts::make(problemB, planB, error);
  if (!sides[1]) {
    error = "the second plan: " + error;
    return "";
  }
  return printTotals(sides) + printForms(sides) +
         printRows("Exposed communication that differs, first, second, "
                   "difference",
                   getCollectiveRows(sides)) +
         printRows("Computation that differs", getComputationRows(sides));
}
