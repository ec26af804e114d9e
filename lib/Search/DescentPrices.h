//===- DescentPrices.h - prices of descent in bytes -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prices of `Descent`, without a cluster: what matters is only which of two
// plans sends less.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_DESCENTPRICES_H
#define TANDEM_LIB_SEARCH_DESCENTPRICES_H

#include "tandem/Search/Descent.h"

namespace tandem::search {

/// Who wants a form: the operators of a pass; `Returned` are those of the
/// forward pass where results are all that they are for.
enum class Wanter : uint8_t { Forward, Returned, Backward, Update };

/// Prices along one axis.
class DescentPrices {
public:
  DescentPrices(const cost::Axis &axis, bool isBatchAxis)
      : size(axis.size), isTime(axis.isTime), isBatchAxis(isBatchAxis) {}

  /// A tensor of `bytes` that comes in one form and is wanted in another.
  double getChange(double bytes, cost::Form from, cost::Form to,
                   Wanter wanter) const;
  /// Work that every point does, of this traffic.
  double getRedundant(double bytes) const;

private:
  double getTimeChange(double bytes, cost::Form from, cost::Form to,
                       Wanter wanter) const;
  double getSpaceChange(double bytes, cost::Form from, cost::Form to,
                        Wanter wanter) const;

  double size;
  bool isTime, isBatchAxis;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_DESCENTPRICES_H
