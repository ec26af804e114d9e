//===- verify_order.cpp - order of meetings -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks the listings of all rank programs at once. Each stops where it has to
// meet others and goes on when all of them are there. If all come to their
// ends, no ranks wait for each other in a circle: neither with a thread per
// queue, as a queue's order and events follow the listing, nor with one thread
// for all queues.
//
// Ranks of one rank program are one walker. Ranks that wait in a circle make a
// closed walk between rank programs, so no circle is missed.
//
//===----------------------------------------------------------------------===//

#include "core/access.h"
#include "core/text.h"
#include "core/verify.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

namespace tandem::rt {

namespace {
/// Collectives, transfers and checks, and the Repeats that hold some: what
/// ranks must come to together.
bool isShared(const Command &command) {
  if (const auto *repeat = std::get_if<Repeat>(&command.operation))
    return std::any_of(repeat->body.begin(), repeat->body.end(), isShared);
  return std::holds_alternative<Collective>(command.operation) ||
         std::holds_alternative<Transfer>(command.operation) ||
         std::holds_alternative<Check>(command.operation);
}

/// The first rank of the group of `rank` over `axes`.
int64_t firstOf(const Program &program, const std::vector<uint32_t> &axes,
                int64_t rank) {
  std::vector<int64_t> point = program.coordinates(rank);
  for (uint32_t axis : axes)
    point[axis] = 0;
  int64_t first = 0;
  for (size_t axis = 0; axis < point.size(); ++axis)
    first = first * program.mesh[axis].size + point[axis];
  return first;
}

/// A shared command, or the end of a Repeat, which is one too: what iterations
/// share belongs to one of them.
struct Meeting {
  const Command *command = nullptr;
  bool isEnd = false;
};

std::vector<Meeting> meetingsOf(const RankProgram &rankProgram) {
  std::vector<Meeting> list;
  for (const Command &command : rankProgram.commands) {
    if (!isShared(command))
      continue;
    list.push_back({&command});
    const auto *repeat = std::get_if<Repeat>(&command.operation);
    if (!repeat)
      continue;
    for (const Command &inner : repeat->body)
      if (isShared(inner))
        list.push_back({&inner});
    list.push_back({&command, true});
  }
  return list;
}

struct Agree {
  bool operator()(const Collective &a, const Collective &b) const {
    return a.kind == b.kind && a.axes == b.axes && a.type == b.type &&
           a.shape == b.shape && a.splitDim == b.splitDim &&
           a.concatDim == b.concatDim;
  }
  bool operator()(const Transfer &a, const Transfer &b) const {
    return a.axis == b.axis && a.from == b.from && a.to == b.to &&
           a.type == b.type && a.shape == b.shape && a.tag == b.tag;
  }
  bool operator()(const Check &a, const Check &b) const {
    return a.kind == b.kind && a.axes == b.axes && a.message == b.message;
  }
  bool operator()(const Repeat &a, const Repeat &b) const {
    return a.count == b.count;
  }
  template <typename A, typename B>
  bool operator()(const A &, const B &) const {
    return false;
  }
};

bool agree(const Meeting &a, const Meeting &b) {
  return a.isEnd == b.isEnd && a.command->queue == b.command->queue &&
         std::visit(Agree(), a.command->operation, b.command->operation);
}

/// Sets of rank programs some of whose ranks meet.
class Sets {
public:
  explicit Sets(size_t count) : leaders(count), sizes(count, 1) {
    std::iota(leaders.begin(), leaders.end(), 0);
  }
  uint32_t find(uint32_t program) {
    while (leaders[program] != program)
      program = leaders[program] = leaders[leaders[program]];
    return program;
  }
  void unite(uint32_t a, uint32_t b) {
    a = find(a), b = find(b);
    if (a == b)
      return;
    leaders[b] = a;
    sizes[a] += sizes[b];
  }
  size_t size(uint32_t program) { return sizes[find(program)]; }

private:
  std::vector<uint32_t> leaders;
  std::vector<size_t> sizes;
};

class Walk {
public:
  explicit Walk(const Program &program);
  Status run();

private:
  /// Who meets: which ranks, and what tells their meetings apart.
  struct Key {
    enum { All, Group, Ends } who = All;
    std::vector<uint32_t> axes = {};
    int64_t from = 0, to = 0; ///< Of a transfer.
    uint32_t queue = 0;
    auto operator<=>(const Key &) const = default;
  };
  struct Walker {
    std::vector<Meeting> meetings;
    size_t next = 0;
    bool isUsed = false;
    bool isAtEnd() const { return next == meetings.size(); }
  };

  static Key keyOf(const Meeting &meeting);
  Sets &setsOf(const Key &key);
  const Meeting &head(uint32_t number) const {
    return walkers[number].meetings[walkers[number].next];
  }
  Status arrive(uint32_t number);
  std::string textOf(uint32_t number) const;
  std::optional<uint32_t> findMissing(uint32_t number);
  Status explain();

  const Program &program;
  std::vector<Walker> walkers;
  std::map<Key, Sets> sets;
  /// Those that wait for the others of their set.
  std::map<std::pair<Key, uint32_t>, std::vector<uint32_t>> waiting;
  std::deque<uint32_t> going;
};
} // namespace

Walk::Walk(const Program &program) : program(program) {
  walkers.resize(program.rankPrograms.size());
  for (uint32_t number : program.rankToProgram)
    walkers[number].isUsed = true;
  // One rank program agrees with itself.
  bool isAlone =
      std::count_if(walkers.begin(), walkers.end(),
                    [](const Walker &walker) { return walker.isUsed; }) == 1;
  for (uint32_t number = 0; number < walkers.size(); ++number) {
    if (!walkers[number].isUsed || isAlone)
      continue;
    walkers[number].meetings = meetingsOf(program.rankPrograms[number]);
    going.push_back(number);
  }
}

/// A check is one of all rank programs, whatever its group: if a rank had it
/// not, it would update where others refuse. So is a Repeat.
Walk::Key Walk::keyOf(const Meeting &meeting) {
  const Operation &op = meeting.command->operation;
  if (const auto *collective = std::get_if<Collective>(&op))
    return {Key::Group, collective->axes, 0, 0, meeting.command->queue};
  if (const auto *transfer = std::get_if<Transfer>(&op))
    return {Key::Ends,
            {transfer->axis},
            transfer->from,
            transfer->to,
            meeting.command->queue};
  return {.who = Key::All, .queue = meeting.command->queue};
}

Sets &Walk::setsOf(const Key &key) {
  auto [found, isNew] = sets.try_emplace(key, walkers.size());
  if (!isNew)
    return found->second;
  auto unite = [&, &of = found->second](int64_t a, int64_t b) {
    of.unite(program.rankToProgram[size_t(a)],
             program.rankToProgram[size_t(b)]);
  };
  for (int64_t rank = 0; rank < program.numRanks(); ++rank) {
    if (key.who != Key::Ends) {
      unite(key.who == Key::All ? 0 : firstOf(program, key.axes, rank), rank);
      continue;
    }
    auto [from, to] = program.ends({key.axes[0], key.from, key.to}, rank);
    unite(from, to);
  }
  return found->second;
}

std::string Walk::textOf(uint32_t number) const {
  const Meeting &meeting = head(number);
  return concat(meeting.isEnd ? "the end of " : "",
                Program::kindName(meeting.command->operation), " of ",
                commandText(*meeting.command));
}

/// At its next meeting. The last one to come lets all of them go on.
Status Walk::arrive(uint32_t number) {
  if (walkers[number].isAtEnd())
    return Status::success();
  Key key = keyOf(head(number));
  Sets &of = setsOf(key);
  std::vector<uint32_t> &here = waiting[{key, of.find(number)}];
  here.push_back(number);
  if (here.size() < of.size(number))
    return Status::success();
  std::vector<uint32_t> met = std::move(here);
  here.clear();
  std::sort(met.begin(), met.end());
  for (uint32_t other : met)
    if (!agree(head(met.front()), head(other)))
      return errorOf("rank program ", other, " runs ", textOf(other),
                     ", expected ", textOf(met.front()), " as in rank program ",
                     met.front());
  for (uint32_t other : met) {
    ++walkers[other].next;
    going.push_back(other);
  }
  return Status::success();
}

/// A rank program that has to come to where this one waits.
std::optional<uint32_t> Walk::findMissing(uint32_t number) {
  Key key = keyOf(head(number));
  Sets &of = setsOf(key);
  for (uint32_t other = 0; other < walkers.size(); ++other)
    if (walkers[other].isUsed && of.find(other) == of.find(number) &&
        (walkers[other].isAtEnd() || keyOf(head(other)) != key))
      return other;
  return std::nullopt;
}

/// Follows those that wait for each other, until one has come to its end or
/// comes again.
Status Walk::explain() {
  auto stuck =
      std::find_if(walkers.begin(), walkers.end(),
                   [](const Walker &walker) { return !walker.isAtEnd(); });
  uint32_t number = uint32_t(stuck - walkers.begin());
  std::vector<uint32_t> chain;
  while (std::find(chain.begin(), chain.end(), number) == chain.end()) {
    chain.push_back(number);
    number = *findMissing(number);
    if (walkers[number].isAtEnd())
      return errorOf("rank program ", chain.back(), " waits in ",
                     textOf(chain.back()), " for rank program ", number,
                     ", which has come to its end");
  }
  chain.erase(chain.begin(), std::find(chain.begin(), chain.end(), number));
  std::string text;
  for (uint32_t each : chain)
    text += concat(text.empty() ? "" : ", ", "rank program ", each, " in ",
                   textOf(each));
  return errorOf("rank programs wait for each other in a circle: ", text);
}

Status Walk::run() {
  for (; !going.empty(); going.pop_front())
    if (Status status = arrive(going.front()); !status.ok())
      return status;
  bool isDone =
      std::all_of(walkers.begin(), walkers.end(),
                  [](const Walker &walker) { return walker.isAtEnd(); });
  return isDone ? Status::success() : explain();
}

Status verifyMeetings(const Program &program) { return Walk(program).run(); }

} // namespace tandem::rt
