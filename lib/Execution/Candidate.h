//===- Candidate.h - a layout that becomes a Program ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXECUTION_CANDIDATE_H
#define TANDEM_LIB_EXECUTION_CANDIDATE_H

#include "tandem/Execution/Compile.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tandem {

/// A layout that becomes a Program.
struct Candidate {
  std::string name;
  CompileOptions options;
  /// Of a pipeline whose layout was searched: how it is called in front of its
  /// microbatches and between these and its order, and what `data` divides.
  std::string mesh = {}, others = {};
  int64_t data = 1;
  /// Why there is no Program of it.
  std::string failure = {};
  /// And what memory lacks for one, B; the most where that is not known.
  int64_t excess = std::numeric_limits<int64_t>::max();
  size_t number = 0;
  /// Whether the answer is to be no worse, however short the limit is.
  bool isYardstick = false;
  /// Whether there is more than a plan.
  bool isPriced = true;
  double seconds = 0, bubble = 0, exposed = 0;
  /// B that a rank holds: of each point, or of all.
  std::vector<int64_t> held = {};
  std::string plan = {};
  std::vector<std::string> remarks = {};

  /// Without a pipe axis, its mesh left open.
  bool isOpen() const { return options.mesh == "auto"; }
};

/// Whether two become the same Program.
bool isSame(const Candidate &first, const Candidate &second);

/// What became a Program before what was planned alone; of equally fast ones,
/// one without a pipe axis, and the one that was tried first. Of those without
/// a Program the one whose memory lacks least.
bool isBetter(const Candidate &first, const Candidate &second);

/// Simulates the Program `bytes` on a cluster, and fills in seconds, bubble,
/// exposed and held. What is wrong with it, or that it holds more than the
/// `memory` of a rank, if there are such limits; empty: nothing.
std::string measure(Candidate &candidate, const std::string &bytes,
                    const std::string &cluster, llvm::ArrayRef<int64_t> memory);

/// A line for each candidate, in order. `end` says why what was planned is not
/// priced.
std::vector<std::string> printTable(llvm::ArrayRef<Candidate> candidates,
                                    int64_t devices, llvm::StringRef cluster,
                                    llvm::StringRef end);

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_CANDIDATE_H
