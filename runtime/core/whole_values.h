//===- whole_values.h - scatter and gather of whole values ------*- C++ -*-===//
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_WHOLE_VALUES_H
#define TANDEM_RT_CORE_WHOLE_VALUES_H

#include "core/device.h"
#include "core/slices.h"
#include "tandem_rt/store.h"

namespace tandem::rt {

/// Where the ranks of this process and their values are.
struct Place {
  /// World size and ranks are known.
  Job job = {};
  std::shared_ptr<Device> device = {};
  std::shared_ptr<Fabric> fabric = {};

  /// The number of the rank among those of this process; none elsewhere.
  std::optional<size_t> find(int64_t rank) const;
  bool hasAll() const { return int64_t(job.ranks.size()) == job.worldSize; }
};

/// Copies a whole tensor into the slices of ranks. Without `root` every process
/// has the whole, takes what is its own and waits for nobody. With `root` the
/// whole of that rank's process counts, every process takes part, and the
/// others' may be null.
Status scatter(const Place &place, const SliceLayout &layout,
               const RankBuffers &buffers, const void *whole,
               std::optional<int64_t> root);

/// Puts slices together, terms along `reduce` axes added in their order. Every
/// process takes part; each gets the whole, or only that of rank `root`.
Status gather(const Place &place, const SliceLayout &layout,
              const RankBuffers &buffers, void *whole,
              std::optional<int64_t> root);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_WHOLE_VALUES_H
