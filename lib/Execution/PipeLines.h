//===- PipeLines.h - a pipeline in a plan file ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The plan is one of the mesh without the pipe axis. What it is inside of
// stands in lines of their own, behind `micro`:
//
//   pipeline pipe pipe=2,data=2
//   section 0 point 0 embedding.*,layers.0.*
//   section 1 point 1 layers.1.*,norm.weight
//   order 1f1b
//
// The file of an order is written as a line `row 0F0,0F1,...` for each point,
// in place of `order`. A line `strands 2` says that each action of the order
// works on two microbatches, `joined 0,2` that points 0 and 2 run the backward
// pass of a microbatch as one action, and `sum-piece 500000` in pieces of how
// many bytes gradients of a section are summed.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXECUTION_PIPELINES_H
#define TANDEM_LIB_EXECUTION_PIPELINES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <vector>

namespace tandem {

struct PipeLines {
  /// Of the line `pipeline`, from 1.
  unsigned line = 0;
  std::string axis, mesh;
  struct Section {
    int64_t point = 0;
    std::string globs;
    bool operator==(const Section &) const = default;
  };
  std::vector<Section> sections;
  /// A name; empty where there are rows.
  std::string order;
  /// Each with a line end.
  std::string rows;
  /// Microbatches; 0: the file does not say it.
  int64_t accumulate = 0;
  /// On how many of the step each action works.
  int64_t strands = 1;
  /// Points.
  std::vector<int64_t> joined = {};
  /// Bytes; 0: whole sums, -1: the file does not say it.
  int64_t sumPiece = -1;
  bool operator==(const PipeLines &) const = default;
};

/// The lines of the file at `path`. Nothing where it has none or cannot be
/// read, which the plan stage reports; or with one line in `error`.
std::optional<PipeLines> readPipeLines(const std::string &path,
                                       std::string &error);

/// The text of a plan file with a line `sum-piece`; it has those of its
/// pipeline, and none of sums.
std::string addSumPiece(llvm::StringRef plan, int64_t bytes);

/// `0,2`.
std::string printPoints(llvm::ArrayRef<int64_t> points);

/// The text of a plan file with the lines of its pipeline.
std::string addPipeLines(llvm::StringRef plan, const PipeLines &lines);

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_PIPELINES_H
