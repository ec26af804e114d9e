//===- Schedules.cpp - the table of schedules -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Schedules.h"
#include "Writers.h"
#include <algorithm>

using namespace tandem::orders;

static constexpr Schedule kSchedules[] = {
#define TANDEM_SCHEDULE(NAME, WRITER, PLACEMENT, SECTIONS, MICROBATCHES)       \
  {NAME, WRITER, Placement::PLACEMENT, SECTIONS, MICROBATCHES},
#include "tandem/Support/Schedules.def"
};

unsigned Schedule::getDefaultSections(unsigned numPoints) const {
  return numPoints * (sectionsPerPoint ? sectionsPerPoint : 2);
}

unsigned Schedule::getPoint(unsigned section, unsigned numPoints) const {
  unsigned point = section % numPoints;
  bool goesBack = placement == Placement::Vee && section / numPoints % 2 == 1;
  return goesBack ? numPoints - 1 - point : point;
}

static std::string count(unsigned number, std::string_view noun,
                         std::string_view plural = "s") {
  return std::to_string(number) + " " + std::string(noun) +
         std::string(number == 1 ? "" : plural);
}

std::optional<Order> Schedule::make(const Shape &shape,
                                    std::string &error) const {
  unsigned points = shape.numPoints;
  auto fail = [&](const std::string &what, const std::string &found,
                  const std::string &expected) {
    error = "order '" + std::string(name) + "' " + what + ", found " + found +
            " on " + count(points, "point") + ", expected " + expected;
    return std::nullopt;
  };
  std::string found = count(shape.numSections, "section");
  if (sectionsPerPoint && shape.numSections != sectionsPerPoint * points)
    return fail("has " + count(sectionsPerPoint, "section") + " per point",
                found, std::to_string(sectionsPerPoint * points));
  if (shape.numSections == 0 || shape.numSections % points)
    return fail("has as many sections on each point", found,
                "a multiple of " + std::to_string(points));
  unsigned least = microbatchesPerPoint * points;
  if (shape.numMicrobatches < least)
    return fail("needs " + count(microbatchesPerPoint, "microbatch", "es") +
                    " per point",
                count(shape.numMicrobatches, "microbatch", "es"),
                "at least " + std::to_string(least));
  return write(shape);
}

std::optional<Order> Schedule::place(std::span<const unsigned> places,
                                     unsigned numPoints,
                                     unsigned numMicrobatches,
                                     std::string &error) const {
  auto made =
      make({numPoints, unsigned(places.size()), numMicrobatches}, error);
  if (!made)
    return std::nullopt;
  Order placed;
  placed.points.resize(numPoints);
  for (unsigned section = 0; section < places.size(); ++section) {
    unsigned row = getPoint(section, numPoints), point = places[section];
    if (places[row] != point) {
      error = "order '" + std::string(name) + "' has sections " +
              std::to_string(row) + " and " + std::to_string(section) +
              " on one point, but they lie on points " +
              std::to_string(places[row]) + " and " + std::to_string(point) +
              ", expected the file of an order";
      return std::nullopt;
    }
    if (section == row)
      placed.points[point] = std::move(made->points[row]);
  }
  return placed;
}

/// Two points and the least microbatches show it.
bool Schedule::runsForwardFirst() const {
  unsigned points = 2;
  return orders::runsForwardFirst(
      write({points, getDefaultSections(points),
             points * std::max(1u, microbatchesPerPoint)}));
}

std::span<const Schedule> tandem::orders::getSchedules() { return kSchedules; }

const Schedule *tandem::orders::findSchedule(std::string_view name) {
  auto found = std::ranges::find(kSchedules, name, &Schedule::name);
  return found == std::end(kSchedules) ? nullptr : found;
}

const Schedule &tandem::orders::getForwardFirstSchedule() {
  return *std::ranges::find_if(kSchedules, &Schedule::runsForwardFirst);
}

std::string tandem::orders::listSchedules() {
  std::string text;
  for (const Schedule &each : kSchedules) {
    bool isLast = &each == std::end(kSchedules) - 1;
    text.append(text.empty() ? "" : isLast ? " or " : ", ").append(each.name);
  }
  return text;
}
