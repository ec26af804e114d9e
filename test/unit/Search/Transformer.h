//===- Transformer.h - search problems of transformers ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Search problems of the size and shape of real training steps, made without a
// compiler: a Llama-like decoder with its backward pass and AdamW, its
// operators given by einsum-like rules (docs/rationale/dialects.md), costs
// from flat rates. For measuring a search.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_SEARCH_TRANSFORMER_H
#define TANDEM_TEST_UNIT_SEARCH_TRANSFORMER_H

#include "tandem/Cost/SearchProblem.h"

namespace tandem::cost::test {

struct TransformerOptions {
  int64_t layers = 2, batch = 64, sequence = 2048, width = 4096, heads = 32,
          hidden = 14336, vocabulary = 128256, elementBytes = 2;
  /// Elementwise operators behind each projection, as a real graph has them.
  unsigned filling = 2;
  /// Sizes of the space axes; the first two lie on the network, the last one on
  /// NVLink.
  std::vector<int64_t> mesh{8, 8};
  /// Microbatches; 1 leaves the time axis out.
  int64_t strands = 2;
  int64_t memoryLimit = std::numeric_limits<int64_t>::max();
  /// Per device.
  double flops = 400e12, memoryBandwidth = 3e12, overhead = 4e-6;
  double network = 50e9, nvlink = 400e9, latency = 1e-5;
};

cost::SearchProblem makeTransformer(const TransformerOptions &options);

} // namespace tandem::cost::test

#endif // TANDEM_TEST_UNIT_SEARCH_TRANSFORMER_H
