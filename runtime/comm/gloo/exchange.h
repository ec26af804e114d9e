//===- exchange.h - one collective between processes ------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMM_GLOO_EXCHANGE_H
#define TANDEM_RT_COMM_GLOO_EXCHANGE_H

#include "comm/gloo/mailbox.h"
#include "core/collective.h"

namespace tandem::rt::gloo {

/// Where the members of a group are.
struct Places {
  std::vector<int64_t> members = {};           ///< Ranks, ascending.
  std::vector<int64_t> processes = {};         ///< That have some, ascending.
  std::vector<std::vector<size_t>> owned = {}; ///< Members, by process.
  size_t self = 0;                             ///< Of `processes`.

  const std::vector<size_t> &own() const { return owned[self]; }
};

/// What messages of one group are about.
enum class Lane : uint64_t { Greeting, Data, Result };
inline constexpr uint64_t kNumLanes = 4;

/// Does a collective for all members that this process has. Their posts are in
/// `posts`, by member; those of others are not looked at.
///
/// A sum is taken where its share lies, from the terms of all members as they
/// are, in the order of the group: only so it is that of one process to the
/// bit. What all members get crosses to each process once. No process sends
/// more than its members would by themselves.
class Exchange {
public:
  Exchange(const Places &places, const Posts &posts);
  ~Exchange();

  /// A small one has no messages of its own: what one process has for another
  /// travels with the greeting.
  bool isInlined() const { return inlined; }
  std::string inlineFor(size_t process) const;

  /// With everybody's greetings: what came with them, by process.
  void finishInlined(const std::vector<std::string> &received);
  /// Posts the first receives, before greetings: who has ours may send, in the
  /// order that it likes. `slots` are the group's. Throws Failure.
  void expect(Links &links, uint64_t slots);
  /// With everybody's greetings. Throws Failure.
  void finish();

private:
  /// A block in a member's memory; strides in elements.
  struct View {
    char *base = nullptr;
    Shape strides = {};
  };
  /// A piece of a block that goes as one message.
  struct Part {
    Shape begin = {}, extents = {};
    int64_t bytes = 0;
  };
  /// The messages from one process to another, in their order: by part of the
  /// receiver's block, then by target, then by member of the sender.
  struct Number {
    const Part *part;
    size_t target, member;
  };
  using Parts = std::vector<Part>;
  /// By target and member: what came from other processes; null where it is
  /// here, or where it belongs already.
  using Terms = std::vector<std::vector<const char *>>;
  struct Peer;

  bool isSum() const;
  bool isAllReduce() const { return op.kind == CollectiveKind::AllReduce; }
  void layOut();
  int64_t maxInlineBytes() const;
  Parts cut(const Shape &whole) const;

  size_t perPart(size_t from, size_t to) const {
    return targets[to].size() * places.owned[from].size();
  }
  Number numberOf(size_t from, size_t to, size_t message) const;

  View outgoing(size_t member, size_t process, size_t target) const;
  View incoming(size_t member, size_t target) const;
  View share(size_t process, size_t member) const;
  char *at(const View &view, const Part &part) const;
  bool isContiguous(const View &view, const Part &part) const;
  void copy(const View &from, const View &to, const Part &part) const;
  void pack(const View &view, const Part &part, char *to) const;
  void unpack(const char *from, const View &view, const Part &part) const;

  Piece makeMessage(size_t to, size_t message, Ring &room) const;
  Inbox::Room findRoom(size_t from, size_t message, Ring &room) const;
  Row rowOf(Links &links, uint64_t slot, size_t from, size_t to) const;
  void addResults(Links &links, uint64_t slot, Peer &peer) const;
  void exchangePart(size_t part);
  void takeResults(size_t part);

  void copyLocal() const;
  void consume(const Part &part, const Terms &terms);
  void place(const Part &part, const Terms &terms) const;
  void add(const Part &part, size_t target,
           const std::vector<const char *> &remote);

  const Places &places;
  const Posts &posts;
  const Collective &op;
  const int64_t width;
  bool inlined = false;
  /// Of each process: the members whose block it gets, or one for all.
  std::vector<std::vector<size_t>> targets;
  /// Of an all-reduce: where each process's share of the elements begins.
  std::vector<int64_t> begins;
  std::vector<Parts> parts; ///< Of each process's block.
  Shape block;              ///< Not of an all-reduce.
  std::vector<char> scratch;
  std::vector<Peer> peers; ///< From the process behind this one on.
};

} // namespace tandem::rt::gloo

#endif // TANDEM_RT_COMM_GLOO_EXCHANGE_H
