//===- paired_fabric.h - two processes in one -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_PAIRED_FABRIC_H
#define TANDEM_RT_CTS_PAIRED_FABRIC_H

#include "comm/local/communicator.h"
#include "tandem_rt/store.h"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <functional>

namespace tandem::rt::cts {

/// What two parties share that stand for processes: each has some of the ranks,
/// and sees the other's only through its fabric.
struct Link {
  std::shared_ptr<Fabric> local = createLocalFabric();
  std::barrier<> meeting{2};
  const void *sent = nullptr;
  /// What the second party reads of the first one's clock.
  std::function<ClockReading()> clock = [] {
    return ClockReading{.process = 1};
  };
};

/// One party's end of a link.
class PairedFabric final : public Fabric {
public:
  PairedFabric(std::shared_ptr<Link> link, std::vector<int64_t> ranks)
      : link(std::move(link)), ranks(std::move(ranks)) {}

  Expected<std::unique_ptr<Communicator>>
  connect(const std::vector<int64_t> &members, int64_t rank,
          unsigned channel) override {
    if (!has(rank))
      return Status::error("rank is one of the other party");
    return link->local->connect(members, rank, channel);
  }

  Status move(int64_t from, std::optional<int64_t> to, void *data,
              size_t bytes) override {
    if (has(from))
      link->sent = data;
    link->meeting.arrive_and_wait();
    if (!has(from) && (!to || has(*to)))
      std::memcpy(data, link->sent, bytes);
    link->meeting.arrive_and_wait();
    return Status::success();
  }

  Status agree(const std::string &, const std::string &) override {
    return Status::success();
  }
  Expected<ClockReading> readClock() override {
    return has(0) ? ClockReading() : link->clock();
  }
  Status conclude(const std::string &, const Status &own) override {
    return own;
  }
  void setStepping(bool) override {}
  int64_t bytesSent() const override { return 0; }
  void abort(const Status &why) override { link->local->abort(why); }
  Status reason() const override { return link->local->reason(); }
  bool isReasonKnown() const override { return link->local->isReasonKnown(); }
  Status recover() override {
    link->meeting.arrive_and_wait();
    Status status = has(0) ? link->local->recover() : Status::success();
    link->meeting.arrive_and_wait();
    return status;
  }

private:
  bool has(int64_t rank) const {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }

  std::shared_ptr<Link> link;
  std::vector<int64_t> ranks;
};

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_PAIRED_FABRIC_H
