//===- gate.h - authenticated connections -----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_GATE_H
#define TANDEM_RT_CORE_GATE_H

#include "core/proof.h"

#include <poll.h>

namespace tandem::rt {

/// The server's end of proofs (proof.h): connections that come to a listener
/// stay here until they have proven themselves. Never blocks. Each stranger
/// costs at most its socket and kAnswerBytes, until its time is over; there is
/// place for so many, and the eldest goes where there are more.
class Gate {
public:
  static constexpr size_t kMaxStrangers = 128;

  struct Guest {
    Socket socket;
    Exchange exchange;
  };

  /// `patience`: how long a proof may take.
  Gate(Listener listener, const Key &key, std::string purpose,
       std::chrono::milliseconds patience);

  /// What it waits for, appended.
  void addTo(std::vector<pollfd> &waits) const;
  /// Who has proven itself meanwhile.
  std::vector<Guest> admit();

  /// How many came to know no secret, and the address of the last one.
  size_t numRefused() const { return refused; }
  const std::string &lastRefused() const { return lastAddress; }

private:
  struct Stranger {
    Socket socket;
    std::string address;
    Exchange exchange;
    Deadline due;
    std::string answer = {};
  };
  enum class Step { Waits, Proven, Ends };

  void acceptSome();
  Step listenTo(Stranger &stranger);

  const Listener listener;
  const Key key;
  const std::string purpose;
  const std::chrono::milliseconds patience;
  std::vector<Stranger> strangers;
  size_t refused = 0;
  std::string lastAddress;
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_GATE_H
