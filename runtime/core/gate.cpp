//===- gate.cpp - authenticated connections -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/gate.h"

#include <utility>

namespace tandem::rt {

Gate::Gate(Listener listener, const Key &key, std::string purpose,
           std::chrono::milliseconds patience)
    : listener(std::move(listener)), key(key), purpose(std::move(purpose)),
      patience(patience) {}

void Gate::addTo(std::vector<pollfd> &waits) const {
  for (int descriptor : listener.descriptors())
    waits.push_back({descriptor, POLLIN, 0});
  for (const Stranger &stranger : strangers)
    waits.push_back({stranger.socket.get(), POLLIN, 0});
}

/// No more than there is place for, so that a crowd does not hold up the others
/// of this thread.
void Gate::acceptSome() {
  for (size_t i = 0; i < kMaxStrangers; ++i) {
    Socket made = listener.accept();
    if (!made)
      return;
    if (strangers.size() == kMaxStrangers)
      strangers.erase(strangers.begin());
    Exchange exchange{.purpose = purpose, .ofServer = makeNonce()};
    made.write(greetingOf(exchange), Clock::now());
    std::string address = made.peerAddress();
    strangers.push_back({std::move(made), std::move(address),
                         std::move(exchange), Clock::now() + patience});
  }
}

Gate::Step Gate::listenTo(Stranger &stranger) {
  bool open = stranger.socket.readSome(kAnswerBytes - stranger.answer.size(),
                                       stranger.answer);
  if (stranger.answer.size() < kAnswerBytes)
    return open && Clock::now() < stranger.due ? Step::Waits : Step::Ends;
  bool isProven = false;
  std::string verdict =
      judge(stranger.answer, key, stranger.exchange, isProven);
  if (stranger.socket.write(verdict, Clock::now()) && isProven)
    return Step::Proven;
  return Step::Ends;
}

std::vector<Gate::Guest> Gate::admit() {
  acceptSome();
  std::vector<Guest> guests;
  std::vector<Stranger> waiting;
  for (Stranger &stranger : strangers) {
    Step step = listenTo(stranger);
    if (step == Step::Waits) {
      waiting.push_back(std::move(stranger));
    } else if (step == Step::Proven) {
      guests.push_back(
          {std::move(stranger.socket), std::move(stranger.exchange)});
    } else {
      ++refused;
      lastAddress = stranger.address;
    }
  }
  strangers = std::move(waiting);
  return guests;
}

} // namespace tandem::rt
