//===- SectionText.h - sections as users write them -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_CUT_SECTIONTEXT_H
#define TANDEM_LIB_TRANSFORMS_CUT_SECTIONTEXT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem {

/// A section: the names of its parameters, and its point of the axis.
struct SectionEntry {
  llvm::SmallVector<std::string> globs;
  int64_t point = 0;
};

/// Sections as a pass has them: by names, or by their number.
struct SectionList {
  llvm::SmallVector<SectionEntry> entries;
  /// Whether the names of the entries are still to be found.
  bool isNumber = false;
};

/// `layers.[0-5].*, embedding:0; layers.[6-9].*:1`, or a number of sections and
/// the point of each, `4@0,1,1,0`; without points section i lies on point i
/// modulo `points`. Fails after reporting an error at `loc`, where the text is
/// no list of sections, or not every point has one.
mlir::FailureOr<SectionList> parseSections(mlir::Location loc,
                                           llvm::StringRef text,
                                           llvm::StringRef axis,
                                           int64_t points);

/// The section of each parameter by its number among the arguments of `step`;
/// none where no glob matches. Fails after reporting a glob that matches no
/// parameter, or a parameter that two sections name.
mlir::FailureOr<llvm::DenseMap<unsigned, int64_t>>
matchSections(mlir::func::FuncOp step, llvm::ArrayRef<SectionEntry> sections);

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_CUT_SECTIONTEXT_H
