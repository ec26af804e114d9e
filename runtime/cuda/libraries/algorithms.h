//===- algorithms.h - cuBLASLt algorithms -----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt names several algorithms for a product, in the order in which it
// takes them to be fast. Which one is, is measured once per product
// (Product::keyOf) and kept (core/kept.h). What is small has the first.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_LIBRARIES_ALGORITHMS_H
#define TANDEM_RT_CUDA_LIBRARIES_ALGORITHMS_H

#include "core/communicator.h"
#include "cuda/driver/rank.h"
#include "cuda/libraries/product.h"

namespace tandem::rt::cuda {

/// A program's products with the algorithms that were measured.
class Algorithms {
public:
  /// May be empty; true ends choose() by an error.
  using IsCancelled = std::function<bool()>;

  /// Those of all large products of the ranks, which have their memory; waits
  /// for the GPU alone. A product whose operands have no room for a second time
  /// is not measured.
  Status choose(const std::shared_ptr<Gpu> &gpu,
                const std::vector<std::unique_ptr<Rank>> &ranks,
                const IsCancelled &isCancelled);
  /// Of a product that several processes have measured all take that of the
  /// first rank of the job, as ranks that do the same have to have the same
  /// bits. Every process calls it.
  Status agree(Fabric &fabric, int64_t numRanks);

  /// What was measured, or the library's first; none if it does not do the
  /// product.
  Expected<std::optional<Algorithm>> find(Product &product,
                                          const Alignments &alignments) const;

private:
  Status add(const std::shared_ptr<Gpu> &gpu, const RankMemory &memory,
             const Gemm &gemm, const IsCancelled &isCancelled);

  std::map<std::string, MatmulAlgorithm> measured;
};

/// Whether a product takes so long that its algorithm is measured.
bool isMeasured(const Gemm &gemm);

/// The fastest of these by operands of its own, the first one if no other is
/// clearly faster; none if there is no room or the library refuses all.
Expected<std::optional<Algorithm>>
measure(const std::shared_ptr<Gpu> &gpu, Product &product,
        const std::vector<Algorithm> &candidates,
        const Algorithms::IsCancelled &isCancelled);

/// An algorithm as the word that is kept; and back, where it is one.
std::string wordOf(const MatmulAlgorithm &algorithm);
std::optional<MatmulAlgorithm> parseAlgorithm(const std::string &word);

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_LIBRARIES_ALGORITHMS_H
