//===- group.h - the members of a group in this process ---------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMM_GLOO_GROUP_H
#define TANDEM_RT_COMM_GLOO_GROUP_H

#include "comm/gloo/exchange.h"

namespace tandem::rt::gloo {

/// Members of this process meet here. The last one to come does the collective
/// with the other processes, for all; the others sleep. A greeting goes to each
/// process first: it says what the members do, so that nothing is sent to who
/// expects something else, and it has what is small.
class Group {
public:
  Group(Places places, unsigned channel);

  const Places &getPlaces() const { return places; }

  /// Does one collective for one member. `missed` tells the process that did
  /// not answer.
  Status run(size_t member, const Collective &op, const void *source,
             void *destination, std::optional<int64_t> &missed);

  /// One end of a transfer, of a group of two members in two processes. No
  /// greeting goes first: both processes have the same Program, whose verifier
  /// has compared the ends. With `moves`, a short first message says that both
  /// are there.
  Status transfer(bool sends, void *data, size_t bytes,
                  const std::function<void()> &moves,
                  std::optional<int64_t> &missed);

  /// With no collective running: as new, on these links.
  void attach(std::shared_ptr<Links> links);
  /// Lets no member wait for those that have not come. Whoever waits for a
  /// process is woken by the links.
  void abort();

private:
  /// What one process tells another before each collective.
  struct Greeting;

  Status exchangeAll(std::optional<int64_t> &missed);
  void greet(const std::vector<std::string> &texts);
  std::string receive(size_t process);
  void postReceive(size_t process, uint64_t turn);
  std::string headOf() const;
  Status compare(const std::vector<std::string> &heads) const;
  Status explain(const Failure &failure, const std::string &what) const;

  const Places places;
  /// Equal on all processes for the same members and channel.
  const uint64_t slots;

  std::mutex mutex;
  std::condition_variable condition;
  Posts posts;
  size_t arrived = 0, generation = 0;
  bool working = false, aborted = false;
  Status outcome;
  std::optional<int64_t> outcomeMissed;

  // Of who does the work.
  std::shared_ptr<Links> links;
  uint64_t turn = 0;
  /// By process; of receives two in turn, so that the next greeting is always
  /// expected before it comes.
  struct Mail {
    std::string outgoing = {};
    std::optional<Message> sent = {};
    std::vector<char> incoming[2] = {};
    std::optional<Message> expected[2] = {};
  };
  std::vector<Mail> mail;
};

} // namespace tandem::rt::gloo

#endif // TANDEM_RT_COMM_GLOO_GROUP_H
