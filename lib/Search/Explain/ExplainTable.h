//===- ExplainTable.h - numbers and tables as text --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_EXPLAINTABLE_H
#define TANDEM_LIB_SEARCH_EXPLAINTABLE_H

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::search {

/// `1.25 ms`: four digits. `+1.25 ms` with `isSigned`.
std::string formatSeconds(double seconds, bool isSigned = false);
/// `7.34 MB`: three digits, powers of 1000.
std::string formatBytes(int64_t bytes, bool isSigned = false);
/// `5.8 %` of a share.
std::string formatShare(double share, bool isSigned = false);
/// The last parts of a path: `examples/llama.py:31`.
std::string formatPlace(const std::string &location);

/// Lines of cells in aligned columns, two blanks apart and indented by two.
class Table {
public:
  /// `columns` holds a letter per column: `l` or `r`, to which side. Of rows
  /// beyond `most` it is only known how many there are.
  explicit Table(std::string columns, size_t most = 1'000'000)
      : columns(std::move(columns)), most(most) {}
  /// Whether there was room for the row.
  bool add(std::vector<std::string> cells);
  /// A line of text among the others, which no column is aligned to.
  void addNote(std::string text) { lines.push_back({"\n", std::move(text)}); }
  /// A note on the rows that had no room: `3 more`, and what they sum up to.
  void addRest(const std::string &sum);
  std::string print() const;
  /// Below a title; nothing if there are no rows.
  std::string print(const std::string &title) const;

private:
  std::string columns;
  size_t most, numRows = 0;
  std::vector<std::vector<std::string>> lines;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_EXPLAINTABLE_H
