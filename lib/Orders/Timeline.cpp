//===- Timeline.cpp - the actions of each point as text -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Simulate.h"
#include <algorithm>
#include <cmath>

using namespace tandem::orders;

std::string tandem::orders::printQuantity(double value) {
  char buffer[32];
  snprintf(buffer, sizeof(buffer), "%.10g", value);
  return buffer;
}

/// Whether a point has several sections, so that a microbatch alone does not
/// tell which action it is.
static bool hasSectionsInTurn(const Partition &partition) {
  return partition.sections.size() > partition.numPoints;
}

/// An action in `width` columns: as much of its name as there is room for.
static std::string draw(const Action &action, size_t width, bool namesSection) {
  std::string text = print(action);
  if (!namesSection)
    text = getLetter(action.kind) + std::to_string(action.microbatch);
  if (text.size() > width)
    text = getLetter(action.kind);
  text.resize(width, '-');
  return text;
}

/// Columns per second: a whole number where the step is that short, so that
/// whole seconds begin at columns. 0 for a step without length.
static double getScale(double makespan, unsigned numColumns) {
  double scale = numColumns / makespan;
  if (!std::isfinite(scale))
    return 0;
  return scale >= 1 ? std::floor(scale) : scale;
}

std::string tandem::orders::printTimeline(const Partition &partition,
                                          const Order &order,
                                          const Simulation &simulation,
                                          unsigned numColumns) {
  double scale = getScale(simulation.makespan, numColumns);
  auto getColumn = [&](double seconds) {
    return static_cast<size_t>(std::lround(seconds * scale));
  };
  size_t nameWidth = std::to_string(order.points.size() - 1).size();
  std::string text;
  for (unsigned point = 0; point < order.points.size(); ++point) {
    std::string line(getColumn(simulation.makespan), ' ');
    for (size_t i = 0; i < order.points[point].size(); ++i) {
      Interval time = simulation.actions[point][i];
      size_t begin = getColumn(time.begin), end = getColumn(time.end);
      line.replace(begin, end - begin,
                   draw(order.points[point][i], end - begin,
                        hasSectionsInTurn(partition)));
    }
    std::string name = std::to_string(point);
    name.insert(0, nameWidth - name.size(), ' ');
    text += "point " + name + " |" + line + "|\n";
  }
  return text + "a column is " + printQuantity(scale > 0 ? 1 / scale : 0) +
         "\n";
}
