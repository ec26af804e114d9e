//===- SumPieces.h - sizes of pieces of gradient sums -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gradient sum lies beside transfers on the same links (Fold3D, section 5.1).
// A small piece lets a transfer through sooner; a large one pays its latency
// less often, and ends sooner, which counts where the update waits for it. So
// the predicted step decides.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXECUTION_SUMPIECES_H
#define TANDEM_LIB_EXECUTION_SUMPIECES_H

#include "tandem_rt/program.h"
#include <optional>

namespace tandem {

using FitsProgram = llvm::function_ref<bool(const rt::Program &)>;

struct SumPiece {
  /// 0: sums are sent whole.
  int64_t bytes = 0;
  /// One line: what steps are predicted to take.
  std::string why;
};

/// The size with which a step of `program`, whose sums are whole, is predicted
/// to be shortest on the cluster of the file at `path`: whole sums, or one of
/// 1, 2, 5, 10, ... bytes, as long as smaller ones help. None where no sum can
/// be cut, or with one line in `error`. The best so far once `ends` says so.
/// Pieces of a reduce-scatter lie side by side in room of their own: a cut
/// Program that `fits` refuses is no choice.
std::optional<SumPiece> chooseSumPiece(const rt::Program &program,
                                       const std::string &path,
                                       llvm::function_ref<bool()> ends,
                                       FitsProgram fits, std::string &error);

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_SUMPIECES_H
