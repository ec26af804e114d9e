//===- Pile.h - buffers without gaps below them -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Best fit of Sekiyama, Imai and Negishi 2018, "Profile-guided memory
// optimization for deep neural networks", as if commands ran one after the
// other.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_LOWER_PILE_H
#define TANDEM_LIB_CONVERSION_LOWER_PILE_H

#include "tandem/Conversion/Lower/Placement.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tandem::lower {

/// In which order buffers are piled up: where the pile is lowest, that of the
/// best weight whose life is within the time for which it is so low. `weight`
/// is asked for bytes and commands of a life. Takes n log n steps for n
/// buffers, n sqrt n where many of them are as good.
std::vector<size_t>
pileUp(llvm::ArrayRef<Buffer> buffers, const QueueClocks &clocks,
       llvm::function_ref<double(double bytes, double life)> weight);

} // namespace tandem::lower

#endif // TANDEM_LIB_CONVERSION_LOWER_PILE_H
