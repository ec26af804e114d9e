//===- Places.h - where the actions of an order stand -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_ORDERS_PLACES_H
#define TANDEM_LIB_ORDERS_PLACES_H

#include "tandem/Orders/Order.h"
#include <unordered_map>

namespace tandem::orders {

struct Place {
  unsigned point = 0, index = 0;
};

/// The place of every action of an order by its content.
class Places {
public:
  /// Keeps the first place of an action that is there twice, and returns it.
  std::optional<Place> add(const Action &action, Place place) {
    auto [found, isNew] = places.try_emplace(getKey(action), place);
    return isNew ? std::nullopt : std::optional(found->second);
  }

  std::optional<Place> find(unsigned section, ActionKind kind,
                            unsigned microbatch) const {
    auto found = places.find(getKey({section, kind, microbatch}));
    return found == places.end() ? std::nullopt : std::optional(found->second);
  }

  /// I or B of a section and microbatch: what its gradients come from.
  std::optional<Place> findGradients(unsigned section,
                                     unsigned microbatch) const {
    std::optional<Place> whole =
        find(section, ActionKind::Backward, microbatch);
    return whole ? whole : find(section, ActionKind::BackwardInput, microbatch);
  }

private:
  static uint64_t getKey(const Action &action) {
    return (uint64_t(action.section) << 34) | (uint64_t(action.kind) << 32) |
           action.microbatch;
  }

  std::unordered_map<uint64_t, Place> places;
};

/// All actions of an order in which none is twice.
inline Places getPlaces(const Order &order) {
  Places places;
  for (unsigned point = 0; point < order.points.size(); ++point)
    for (unsigned i = 0; i < order.points[point].size(); ++i)
      places.add(order.points[point][i], {point, i});
  return places;
}

} // namespace tandem::orders

#endif // TANDEM_LIB_ORDERS_PLACES_H
