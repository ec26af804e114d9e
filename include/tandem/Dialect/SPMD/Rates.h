//===- Rates.h - what changes of form take ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_RATES_H
#define TANDEM_DIALECT_SPMD_RATES_H

#include "tandem/Dialect/SPMD/SPMD.h"

namespace tandem::spmd {

/// On the module, from `plan` on: for each axis latency (s) and time (s/B) of
/// an all-gather, a reduce-scatter, an all-reduce and an all-to-all on the
/// cluster that the step is compiled for, as `{data = array<f64: ...>}`.
/// `shard` chooses sequences of changes by them.
inline constexpr llvm::StringLiteral kRatesAttrName = "spmd.rates";

/// Of the module around `op`; null if there are none.
mlir::DictionaryAttr getRates(mlir::Operation *op);

/// Of one kind of change along an axis; none if `rates` is null or has not the
/// axis.
std::optional<ChangePrice> getRate(mlir::DictionaryAttr rates,
                                   llvm::StringRef axis, ChangeKind kind);

} // namespace tandem::spmd

#endif // TANDEM_DIALECT_SPMD_RATES_H
