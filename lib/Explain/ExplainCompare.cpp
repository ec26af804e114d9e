//===- ExplainCompare.cpp - differences of two plans ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainTable.h"
#include "ExplainTime.h"
#include <algorithm>
#include <cmath>

using namespace tandem::cost;
using namespace tandem::explain;

/// Rows that are printed of each list.
constexpr size_t kMaxRows = 10;

namespace {
/// Something that both plans have.
struct Row {
  std::string name, kind, place;
  std::array<double, 2> seconds{}, exposed{};
  double getDifference() const { return exposed[1] - exposed[0]; }
};
/// By kind and place.
using Rows = Groups<std::pair<std::string, std::string>, Row>;

/// A tensor that both have, in forms that differ.
struct FormRow {
  std::string name, first, second, place;
  size_t count = 0;
  int64_t bytes = 0;
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

static Row &getRow(Rows &rows, const std::string &kind, const std::string &name,
                   const std::string &place) {
  return rows.get({kind, place}, {.name = name, .kind = kind, .place = place});
}

/// What differs in seconds, the largest difference first, and the sum of the
/// rest.
static std::string printRows(const char *title, Rows rows) {
  auto isEqual = [](const std::array<double, 2> &seconds) {
    return std::fabs(seconds[1] - seconds[0]) <=
           1e-12 * (seconds[0] + seconds[1]);
  };
  std::vector<Row> list =
      rows.take([](const Row &row) { return std::fabs(row.getDifference()); });
  std::erase_if(list, [&](const Row &row) {
    return isEqual(row.exposed) && isEqual(row.seconds);
  });
  Table table("lrrrl", kMaxRows, formatSeconds, true);
  for (const Row &row : list)
    table.add({row.kind + (row.kind.empty() ? "" : " ") + row.name,
               formatSeconds(row.exposed[0]), formatSeconds(row.exposed[1]),
               formatSeconds(row.getDifference(), true),
               formatPlace(row.place)},
              row.getDifference());
  return table.print(title);
}

static Rows getCollectiveRows(const Sides &sides) {
  Rows rows;
  for (unsigned side = 0; side < 2; ++side) {
    const PlanFacts &facts = *sides[side];
    for (const Collective &entry : getCollectives(facts)) {
      Row &row = getRow(rows,
                        std::string(getPassName(entry.pass)) + " " +
                            entry.kind + " " + entry.axis + " of",
                        entry.name, entry.location);
      row.seconds[side] += entry.seconds;
      row.exposed[side] += entry.exposed;
    }
  }
  return rows;
}

/// Computation is always in the step: its seconds count as exposed ones do.
static Rows getComputationRows(const Sides &sides) {
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
      Row &row = getRow(rows, std::string(getPassName(info.pass)), label,
                        info.location);
      row.seconds[side] += seconds;
      row.exposed[side] += seconds;
    }
    double local = facts.analysis.time.local;
    if (local > 0)
      getRow(rows, "", "sums over time", "").exposed[side] = local;
  }
  return rows;
}

/// Tensors that both have, in forms that differ.
static std::string printForms(const Sides &sides) {
  const PlanFacts &a = *sides[0], &b = *sides[1];
  std::map<std::string, unsigned> byName;
  for (unsigned i = 0; i < b.problem.tensors.size(); ++i)
    byName.try_emplace(b.names.getLabel(i), i);
  Groups<std::array<std::string, 3>, FormRow> groups;
  size_t numTensors = 0;
  for (unsigned i = 0; i < a.problem.tensors.size(); ++i) {
    const std::string &label = a.names.getLabel(i);
    auto it = byName.find(label);
    if (it == byName.end())
      continue;
    std::string first = print(a.problem, a.getLayout(i)),
                second = print(b.problem, b.getLayout(it->second));
    if (first == second)
      continue;
    std::string place = a.names.getLocation(i);
    FormRow &row = groups.get(
        {first, second, place},
        {.name = label, .first = first, .second = second, .place = place});
    row.bytes += a.problem.getBytes(i, Layout());
    ++row.count;
    ++numTensors;
  }
  Table table("lrlll", kMaxRows);
  for (const FormRow &row : groups.take(&FormRow::bytes))
    table.add({row.name, "x " + std::to_string(row.count), row.first,
               "-> " + row.second, formatPlace(row.place)});
  return "\nForms that differ: " + std::to_string(numTensors) +
         " tensors, the largest first\n" + table.print();
}

std::string tandem::explain::compare(const SearchProblem &problemA,
                                     const Plan &planA,
                                     const SearchProblem &problemB,
                                     const Plan &planB, std::string &error) {
  Sides sides{PlanFacts::make(problemA, planA, error), nullptr};
  if (sides[0])
    sides[1] = PlanFacts::make(problemB, planB, error);
  if (!sides[1]) {
    error = (sides[0] ? "the second plan: " : "the first plan: ") + error;
    return "";
  }
  return printTotals(sides) + printForms(sides) +
         printRows("Exposed communication that differs, first, second, "
                   "difference",
                   getCollectiveRows(sides)) +
         printRows("Computation that differs", getComputationRows(sides));
}
