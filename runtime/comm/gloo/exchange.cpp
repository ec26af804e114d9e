//===- exchange.cpp - one collective between processes --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/exchange.h"
#include "core/reduce.h"

#include <algorithm>

namespace tandem::rt::gloo {

namespace {
/// Parts that are posted before one is waited for, and by how many parts the
/// results of an all-reduce come later than its terms.
constexpr size_t kLead = 2, kLag = 2;
} // namespace

/// What connects this process with one other for one collective.
struct Exchange::Peer {
  size_t process;
  Outbox terms;
  Inbox incoming;
  /// Of an all-reduce.
  std::optional<Outbox> results = {};
  std::optional<Inbox> incomingResults = {};
};

Exchange::Exchange(const Places &places, const Posts &posts)
    : places(places), posts(posts), op(*posts[places.own().front()].op),
      width(elementBytes(op.type)), targets(places.processes.size()),
      begins(places.processes.size()), parts(places.processes.size()) {
  bool forAll = isAllReduce() || op.kind == CollectiveKind::AllGather;
  for (size_t i = 0; i < targets.size(); ++i) {
    targets[i] = places.owned[i];
    if (forAll)
      targets[i].resize(1);
  }
  layOut();
}

Exchange::~Exchange() = default;

bool Exchange::isSum() const {
  return isAllReduce() || op.kind == CollectiveKind::ReduceScatter;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

Piece Exchange::makeMessage(size_t to, size_t message, Ring &room) const {
  Number number = numberOf(places.self, to, message);
  View view = outgoing(number.member, to, number.target);
  size_t bytes = size_t(number.part->bytes);
  if (isContiguous(view, *number.part))
    return {at(view, *number.part), bytes};
  char *memory = room.at(message);
  pack(view, *number.part, memory);
  return {memory, bytes};
}

Inbox::Room Exchange::findRoom(size_t from, size_t message, Ring &room) const {
  Number number = numberOf(from, places.self, message);
  size_t bytes = size_t(number.part->bytes);
  if (!isSum()) {
    View view = incoming(number.member, number.target);
    if (isContiguous(view, *number.part))
      return {at(view, *number.part), bytes};
  }
  return {room.at(message), bytes};
}

Row Exchange::rowOf(Links &links, uint64_t slot, size_t from, size_t to) const {
  int64_t most = 0;
  for (const Part &part : parts[to])
    most = std::max(most, part.bytes);
  size_t peer = from == places.self ? to : from, each = perPart(from, to);
  return {links,
          places.processes[peer],
          slot,
          parts[to].size() * each,
          (kLead + kLag) * each,
          most};
}

/// The sums of a share go from the destination of one member to that of another
/// and need no room.
void Exchange::addResults(Links &links, uint64_t slot, Peer &peer) const {
  auto row = [&](size_t owner) {
    return Row{links,        places.processes[peer.process],
               slot,         parts[owner].size(),
               kLead + kLag, 0};
  };
  auto placeOf = [this](size_t owner, size_t message) {
    const Part &part = parts[owner][message];
    return Inbox::Room{at(share(owner, places.own().front()), part),
                       size_t(part.bytes)};
  };
  peer.results.emplace(row(places.self), [=, this](size_t message, Ring &) {
    Inbox::Room room = placeOf(places.self, message);
    return Piece{room.memory, room.bytes};
  });
  peer.incomingResults.emplace(
      row(peer.process), [=, from = peer.process](size_t message, Ring &) {
        return placeOf(from, message);
      });
}

void Exchange::expect(Links &links, uint64_t slots) {
  for (size_t i = 1; i < parts.size(); ++i) {
    size_t process = (places.self + i) % parts.size();
    uint64_t slot = slots + uint64_t(Lane::Data);
    peers.push_back({process,
                     Outbox(rowOf(links, slot, places.self, process),
                            [this, process](size_t message, Ring &room) {
                              return makeMessage(process, message, room);
                            }),
                     Inbox(rowOf(links, slot, process, places.self),
                           [this, process](size_t message, Ring &room) {
                             return findRoom(process, message, room);
                           })});
    if (isAllReduce())
      addResults(links, slots + uint64_t(Lane::Result), peers.back());
  }
}

void Exchange::finish() {
  size_t rounds = 0;
  for (const Parts &ofProcess : parts)
    rounds = std::max(rounds, ofProcess.size());
  // One message to each process in turn, so that all links are busy at once.
  size_t posted = 0;
  for (size_t part = 0; part < rounds + kLag; ++part) {
    for (; posted <= part + kLead; ++posted)
      for (Peer &peer : peers)
        peer.terms.post((posted + 1) * perPart(places.self, peer.process));
    if (part == 0)
      copyLocal(); // beside the first messages
    if (part < parts[places.self].size())
      exchangePart(part);
    if (isAllReduce() && part >= kLag)
      takeResults(part - kLag);
  }
  for (Peer &peer : peers) {
    peer.terms.finish();
    if (peer.results)
      peer.results->finish();
  }
}

void Exchange::exchangePart(size_t part) {
  const std::vector<size_t> &own = targets[places.self];
  Terms terms(own.size(),
              std::vector<const char *>(places.members.size(), nullptr));
  for (Peer &peer : peers)
    for (std::vector<const char *> &target : terms)
      for (size_t member : places.owned[peer.process])
        target[member] = peer.incoming.next();
  consume(parts[places.self][part], terms);
  for (Peer &peer : peers) {
    peer.incoming.refill();
    if (peer.results)
      peer.results->post(part + 1);
  }
}

void Exchange::takeResults(size_t part) {
  size_t first = places.own().front();
  for (Peer &peer : peers) {
    if (part >= parts[peer.process].size())
      continue;
    peer.incomingResults->next();
    for (size_t member : places.own())
      if (member != first)
        copy(share(peer.process, first), share(peer.process, member),
             parts[peer.process][part]);
    peer.incomingResults->refill();
  }
}

//===----------------------------------------------------------------------===//
// With greetings
//===----------------------------------------------------------------------===//

std::string Exchange::inlineFor(size_t process) const {
  std::string text;
  size_t count = parts[process].size() * perPart(places.self, process);
  for (size_t message = 0; message < count; ++message) {
    Number number = numberOf(places.self, process, message);
    size_t end = text.size();
    text.resize(end + size_t(number.part->bytes));
    pack(outgoing(number.member, process, number.target), *number.part,
         text.data() + end);
  }
  return text;
}

void Exchange::finishInlined(const std::vector<std::string> &received) {
  copyLocal();
  std::vector<size_t> read(received.size());
  for (const Part &part : parts[places.self]) {
    Terms terms(targets[places.self].size(),
                std::vector<const char *>(places.members.size(), nullptr));
    for (size_t process = 0; process < received.size(); ++process)
      for (std::vector<const char *> &target : terms)
        for (size_t member : places.owned[process])
          if (process != places.self) {
            target[member] = received[process].data() + read[process];
            read[process] += size_t(part.bytes);
          }
    consume(part, terms);
  }
}

//===----------------------------------------------------------------------===//
// What is done here
//===----------------------------------------------------------------------===//

/// What goes from one member of this process to another, unless it is added up.
void Exchange::copyLocal() const {
  if (isSum())
    return;
  for (size_t member : places.own())
    for (size_t target : places.own())
      for (const Part &part : parts[places.self])
        copy(outgoing(member, places.self, target), incoming(member, target),
             part);
}

void Exchange::consume(const Part &part, const Terms &terms) {
  if (!isSum())
    return place(part, terms);
  for (size_t i = 0; i < terms.size(); ++i)
    add(part, targets[places.self][i], terms[i]);
}

/// One member may stand for all: then the others get it from there.
void Exchange::place(const Part &part, const Terms &terms) const {
  const std::vector<size_t> &own = targets[places.self];
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t member = 0; member < terms[i].size(); ++member) {
      const char *term = terms[i][member];
      if (!term)
        continue;
      View view = incoming(member, own[i]);
      if (term != at(view, part))
        unpack(term, view, part);
      if (op.kind == CollectiveKind::AllGather)
        for (size_t other : places.own())
          if (other != own[i])
            copy(view, incoming(member, other), part);
    }
}

void Exchange::add(const Part &part, size_t target,
                   const std::vector<const char *> &remote) {
  std::vector<const char *> terms = remote;
  scratch.resize(places.own().size() * size_t(part.bytes));
  char *room = scratch.data();
  for (size_t member : places.own()) {
    View view = outgoing(member, places.self, target);
    terms[member] = at(view, part);
    if (isContiguous(view, part))
      continue;
    pack(view, part, room);
    terms[member] = room;
    room += part.bytes;
  }
  std::vector<char *> sums;
  if (isAllReduce())
    for (size_t member : places.own())
      sums.push_back(at(share(places.self, member), part));
  else
    sums.push_back(at(share(places.self, target), part));
  sumInOrder(op.type, part.bytes / width, terms, sums);
}

} // namespace tandem::rt::gloo
