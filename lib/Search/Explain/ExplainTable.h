//===- ExplainTable.h - numbers and tables as text --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_EXPLAINTABLE_H
#define TANDEM_LIB_SEARCH_EXPLAINTABLE_H

#include "tandem/Cost/SearchProblem.h"

namespace tandem::search {

/// `1.25 ms`: four digits. `+1.25 ms` with `isSigned`.
std::string formatSeconds(double seconds, bool isSigned = false);
/// `7.34 MB`: three digits, powers of 1000.
std::string formatBytes(int64_t bytes, bool isSigned = false);
/// `5.8 %` of a share.
std::string formatShare(double share, bool isSigned = false);
/// `forward`, `backward` or `update`.
std::string formatPass(cost::Pass pass);
/// The last parts of a path: `examples/llama.py:31`.
std::string formatPlace(const std::string &location);

/// Lines of cells in aligned columns, two blanks apart and indented by two.
class Table {
public:
  /// `columns` holds a letter per column: `l` or `r`, to which side.
  explicit Table(std::string columns) : columns(std::move(columns)) {}
  void add(std::vector<std::string> cells) {
    lines.push_back(std::move(cells));
  }
  /// A line of text among the others, which no column is aligned to.
  void addNote(std::string text) { lines.push_back({"\n", std::move(text)}); }
  bool isEmpty() const { return lines.empty(); }
  std::string print() const;

private:
  std::string columns;
  std::vector<std::vector<std::string>> lines;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_EXPLAINTABLE_H
