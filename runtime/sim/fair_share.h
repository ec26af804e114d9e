//===- fair_share.h - flows over shared links -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Max-min fairness (Bertsekas, Gallager: Data Networks, section 6.5.2): all
// flows grow alike until a link is full; those that use it stay, the others go
// on growing. A flow has so much of the link that it uses most, and less of its
// other links in proportion.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_SIM_FAIR_SHARE_H
#define TANDEM_RT_SIM_FAIR_SHARE_H

#include "tandem_rt/simulate.h"

#include <functional>

namespace tandem::rt::sim {

class FairShare {
public:
  explicit FairShare(uint32_t numLinks) : links(numLinks) {}

  /// `loads`: what the flow, and all that are equal to it, need of each link;
  /// each link once. `most`: what the flow itself needs of the link that it
  /// uses most. In seconds.
  void add(uint32_t flow, std::vector<LinkUse> loads, double most);
  void remove(uint32_t flow);
  /// Calls `set` with the speed, the part of a flow that is done in a second,
  /// of each flow that may have another one since the last call.
  void settle(const std::function<void(uint32_t, double)> &set);

private:
  struct Link {
    std::vector<uint32_t> flows = {};
    bool isMarked = false;
    double free = 1, growing = 0; ///< While it is filled.
  };
  struct Flow {
    std::vector<LinkUse> loads = {};
    double most = 1, share = -1;
    bool isFound = false;
  };
  void mark(uint32_t link);
  void findNeighbours();
  void fill();
  void fix(Flow &flow, double share);

  std::vector<Link> links;
  std::vector<Flow> flows;
  /// Links whose flows are shared out anew, and these flows.
  std::vector<uint32_t> changed, found;
};

} // namespace tandem::rt::sim

#endif // TANDEM_RT_SIM_FAIR_SHARE_H
