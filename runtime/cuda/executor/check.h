//===- check.h - checks that refuse a step ----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_EXECUTOR_CHECK_H
#define TANDEM_RT_CUDA_EXECUTOR_CHECK_H

#include "cuda/driver/work.h"

namespace tandem::rt::cuda {

/// Where the members of a group leave the verdicts on their values, each on
/// pieces of its value. One without the value finds its pieces fine.
struct Verdicts {
  int64_t pieces = 1; ///< Of each member.
  Memory words = {};  ///< Of 64 bits, by member and piece.

  /// On values of at most so many elements.
  static Expected<std::shared_ptr<Verdicts>>
  create(std::shared_ptr<Gpu> gpu, int64_t elements, size_t members);
  int64_t bytesOfMember() const { return pieces * int64_t(sizeof(int64_t)); }
};

/// The elements that a check looks at; none where the value is not here.
int64_t numElements(const Check &check);

/// What a member finds about its own value.
Expected<std::unique_ptr<Work>> makeJudge(const std::shared_ptr<Gpu> &gpu,
                                          const Check &check, Address source,
                                          std::shared_ptr<Verdicts> verdicts,
                                          size_t member, int64_t count);

/// What follows of that of all members for one of them: the verdict that the
/// host reads, and whether the step is refused, which a report refuses as well.
struct Refusal {
  CUdeviceptr verdict = 0, refused = 0;
  std::vector<CUdeviceptr> reports = {};
};
Expected<std::unique_ptr<Work>> makeRefuse(const std::shared_ptr<Gpu> &gpu,
                                           std::shared_ptr<Verdicts> verdicts,
                                           size_t members, const Refusal &to);

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_EXECUTOR_CHECK_H
