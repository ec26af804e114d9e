//===- ExplainTable.cpp - numbers and tables as text ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainTable.h"
#include <cmath>
#include <cstdio>

using namespace tandem;
using namespace tandem::explain;

static std::string format(const char *pattern, double value, bool isSigned,
                          const char *unit) {
  char buffer[64];
  snprintf(buffer, sizeof(buffer), pattern, value);
  return (isSigned && value >= 0 ? "+" : "") + std::string(buffer) + " " + unit;
}

std::string tandem::explain::formatSeconds(double seconds, bool isSigned) {
  double size = std::fabs(seconds);
  if (size == 0 || size >= 0.9999995)
    return format("%.4g", seconds, isSigned, "s");
  if (size >= 0.9999995e-3)
    return format("%.4g", 1e3 * seconds, isSigned, "ms");
  return format("%.4g", 1e6 * seconds, isSigned, "us");
}

std::string tandem::explain::formatBytes(double bytes, bool isSigned) {
  constexpr const char *units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  unsigned unit = 0;
  while (std::fabs(bytes) >= 999.5 && unit + 1 < std::size(units)) {
    bytes /= 1000;
    ++unit;
  }
  return format("%.3g", bytes, isSigned, units[unit]);
}

std::string tandem::explain::formatShare(double share, bool isSigned) {
  // No minus in front of nothing.
  double percent = 100 * share;
  return format("%.2f", std::fabs(percent) < 0.005 ? 0 : percent, isSigned,
                "%");
}

std::string tandem::explain::formatPlace(const std::string &location) {
  size_t last = location.rfind('/');
  if (last == location.npos || last == 0)
    return location;
  size_t before = location.rfind('/', last - 1);
  return before == location.npos ? location : location.substr(before + 1);
}

bool Table::add(std::vector<std::string> cells, double amount) {
  bool hasRoom = ++numRows <= most;
  if (hasRoom)
    lines.push_back(std::move(cells));
  else
    rest += amount;
  return hasRoom;
}

std::string Table::print(const std::string &title) const {
  return lines.empty() ? "" : "\n" + title + "\n" + print();
}

std::string Table::print() const {
  std::vector<size_t> widths(columns.size());
  for (const std::vector<std::string> &line : lines)
    if (line.empty() || line.front() != "\n")
      for (size_t i = 0; i < line.size(); ++i)
        widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const std::vector<std::string> &line : lines) {
    if (!line.empty() && line.front() == "\n") {
      text += "      " + line[1] + "\n";
      continue;
    }
    std::string row = " ";
    for (size_t i = 0; i < line.size(); ++i) {
      std::string padding(widths[i] - line[i].size(), ' ');
      row +=
          columns[i] == 'r' ? " " + padding + line[i] : " " + line[i] + padding;
      row += ' ';
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  if (numRows > most)
    text += "      " + std::to_string(numRows - most) + " more" +
            (format ? ": " + format(rest, isSigned) : "") + "\n";
  return text;
}
