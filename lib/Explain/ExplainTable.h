//===- ExplainTable.h - numbers and tables as text --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPLAIN_EXPLAINTABLE_H
#define TANDEM_LIB_EXPLAIN_EXPLAINTABLE_H

#include <string>
#include <vector>

namespace tandem::explain {

/// `1.25 ms`: four digits. `+1.25 ms` with `isSigned`.
std::string formatSeconds(double seconds, bool isSigned = false);
/// `7.34 MB`: three digits, powers of 1000.
std::string formatBytes(double bytes, bool isSigned = false);
/// `5.8 %` of a share.
std::string formatShare(double share, bool isSigned = false);
/// The last parts of a path: `examples/llama.py:31`.
std::string formatPlace(const std::string &location);

/// Lines of cells in aligned columns, two blanks apart and indented by two.
class Table {
public:
  using Format = std::string (*)(double amount, bool isSigned);

  /// `columns` holds a letter per column: `l` or `r`, to which side. Below the
  /// first `most` rows stands how many more there are, and what their amounts
  /// sum up to.
  explicit Table(std::string columns, size_t most = 1'000'000,
                 Format format = nullptr, bool isSigned = false)
      : columns(std::move(columns)), most(most), format(format),
        isSigned(isSigned) {}
  /// Whether there was room for the row.
  bool add(std::vector<std::string> cells, double amount = 0);
  /// A line of text among the others, which no column is aligned to.
  void addNote(std::string text) { lines.push_back({"\n", std::move(text)}); }
  std::string print() const;
  /// Below a title; nothing if there are no rows.
  std::string print(const std::string &title) const;

private:
  std::string columns;
  size_t most, numRows = 0;
  Format format;
  bool isSigned;
  double rest = 0;
  std::vector<std::vector<std::string>> lines;
};

} // namespace tandem::explain

#endif // TANDEM_LIB_EXPLAIN_EXPLAINTABLE_H
