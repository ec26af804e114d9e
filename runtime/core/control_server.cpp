//===- control_server.cpp - server of the control connection --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/control_server.h"
#include "core/text.h"

#include <algorithm>
#include <poll.h>

namespace tandem::rt {

namespace {
Packer messageOf(ControlMessage kind) {
  return Packer().number(uint64_t(kind));
}
} // namespace

ControlServer::ControlServer(const Rendezvous &job, const Key &key,
                             Listener listener)
    : job(job), key(key),
      gate(std::move(listener), key, kControlPurpose, proofLimitOf(job)),
      thread([this] { run(); }) {}

ControlServer::~ControlServer() {
  stopping = true;
  thread.join();
  sendAll(messageOf(ControlMessage::Bye));
}

void ControlServer::send(Peer &peer, const Packer &message) {
  // Messages are small: who does not take them does not read.
  if (!peer.gone && peer.socket)
    peer.socket.send(message.text(), Clock::now() + beatOf(job));
}

void ControlServer::sendAll(const Packer &message) {
  for (Peer &peer : peers)
    if (peer.process >= 0)
      send(peer, message);
}

void ControlServer::run() {
  constexpr int kTick = 50; // ms: how late a due decision may come
  // What process 0 said last is heard before the end.
  auto isOver = [&] {
    return stopping && std::all_of(peers.begin(), peers.end(), [](auto &peer) {
             return peer.gone || peer.process != 0;
           });
  };
  while (!isOver()) {
    std::vector<pollfd> waits;
    for (const Peer &peer : peers)
      waits.push_back({peer.gone ? -1 : peer.socket.get(), POLLIN, 0});
    gate.addTo(waits);
    int numReady = poll(waits.data(), waits.size(), kTick);
    for (size_t peer = 0, count = peers.size(); peer < count; ++peer)
      if (waits[peer].revents) {
        receiveFrom(peer);
        --numReady;
      }
    // Without any, as time is over for somebody there.
    if (numReady != 0 || Clock::now() > lastBeat + beatOf(job))
      admitAll();
    checkJoined();
    checkSilence();
    decideDue(Clock::now());
  }
  decideDue(Deadline::max());
}

void ControlServer::admitAll() {
  for (Gate::Guest &guest : gate.admit()) {
    sealAsServer(guest.socket, key, guest.exchange);
    peers.push_back({std::move(guest.socket)});
  }
}

void ControlServer::receiveFrom(size_t peer) {
  std::vector<std::string> messages;
  bool open = peers[peer].socket.receive(messages);
  peers[peer].heard = Clock::now();
  for (const std::string &message : messages)
    if (!peers[peer].gone)
      handle(peer, message);
  if (!open && !peers[peer].gone)
    lose(peer, "ended without a word");
}

void ControlServer::handle(size_t peer, const std::string &message) {
  Unpacker fields(message);
  auto kind = ControlMessage(fields.number());
  if (kind == ControlMessage::Hello)
    return hello(peer, fields);
  if (peers[peer].process < 0)
    return leave(peer); // no process of this job
  if (kind == ControlMessage::Set) {
    std::string key = fields.string();
    store[key] = fields.string();
    for (const Request &request : requests)
      if (request.key == key)
        answer(request.peer, request.number, key);
    std::erase_if(requests, [&](auto &request) { return request.key == key; });
  } else if (kind == ControlMessage::Get) {
    uint64_t number = fields.number();
    std::string key = fields.string();
    if (store.contains(key))
      answer(peer, number, key);
    else
      requests.push_back({peer, number, key});
  } else if (kind == ControlMessage::Share) {
    uint64_t turn = fields.number();
    sendAll(messageOf(kind)
                .number(turn)
                .number(uint64_t(peers[peer].process))
                .string(fields.string()));
  } else if (kind == ControlMessage::Report) {
    report(fields);
  } else if (kind == ControlMessage::Recover) {
    recover(peers[peer].process, fields);
  } else if (kind == ControlMessage::Ping) {
    uint64_t number = fields.number();
    send(peers[peer], messageOf(ControlMessage::Pong)
                          .number(number)
                          .number(uint64_t(nanosecondsNow())));
  } else if (kind == ControlMessage::Bye) {
    bye(peer, fields.string());
  }
}

void ControlServer::answer(size_t peer, uint64_t request,
                           const std::string &key) {
  send(peers[peer],
       messageOf(ControlMessage::Value).number(request).string(store[key]));
}

void ControlServer::leave(size_t peer) {
  peers[peer].gone = true;
  peers[peer].socket.close();
}

/// Who ends with an error is missed as if it had died, for that reason.
void ControlServer::bye(size_t peer, const std::string &why) {
  if (!why.empty())
    return lose(peer, "ended with " + why);
  leave(peer);
  sendAll(
      messageOf(ControlMessage::Left).number(uint64_t(peers[peer].process)));
}

//===----------------------------------------------------------------------===//
// Coming
//===----------------------------------------------------------------------===//

void ControlServer::hello(size_t peer, Unpacker &fields) {
  int64_t process = int64_t(fields.number());
  int64_t size = int64_t(fields.number());
  std::string about = fields.string();
  if (!fields.ok() || peers[peer].process >= 0)
    return leave(peer);
  if (complete)
    return turnAway(peer, concat("process ", process, " (", about, ")"));
  bool twice = std::any_of(peers.begin(), peers.end(), [&](const Peer &other) {
    return other.process == process;
  });
  peers[peer].process = process;
  peers[peer].about = concat("process ", process, " (", about, ")");
  if (size != job.worldSize)
    refuse(concat(peers[peer].about, " has world size ", size, ", expected ",
                  job.worldSize, " as process 0"));
  else if (twice || process < 0 || process >= size)
    refuse(concat("there are two processes ", process,
                  ", expected one of each "
                  "number below ",
                  size));
  else if (!refusal.empty())
    send(peers[peer], messageOf(ControlMessage::Refuse).string(refusal));
  else
    ++joined;
}

/// Started twice, or of another job that was given the same port: it gets no
/// number, and those that work together do not hear of it.
void ControlServer::turnAway(size_t peer, const std::string &who) {
  send(peers[peer],
       messageOf(ControlMessage::Refuse)
           .string(concat(who, " finds a job whose ", job.worldSize,
                          " processes have all come, expected one that waits "
                          "for it: give it another MASTER_PORT")));
}

/// Those that come later are told when they come.
void ControlServer::refuse(const std::string &why) {
  if (refusal.empty())
    refusal = why;
  sendAll(messageOf(ControlMessage::Refuse).string(refusal));
}

std::string ControlServer::missing() const {
  std::string text;
  for (int64_t process = 0; process < job.worldSize; ++process)
    if (std::none_of(peers.begin(), peers.end(),
                     [&](const Peer &peer) { return peer.process == process; }))
      text += concat(text.empty() ? "" : ", ", process);
  return text;
}

/// One of them may be the one that is missing.
std::string ControlServer::strangers() const {
  if (gate.numRefused() == 0)
    return "";
  return concat("; connections without the secret of the job: ",
                gate.numRefused(), ", the last from ", gate.lastRefused());
}

void ControlServer::checkJoined() {
  if (complete || !refusal.empty())
    return;
  if (joined == size_t(job.worldSize)) {
    complete = true;
    return sendAll(messageOf(ControlMessage::Welcome));
  }
  if (Clock::now() > started + job.timeout)
    refuse(concat(joined, " of ", job.worldSize, " processes came within ",
                  job.timeout.count(), " ms, missing: ", missing(),
                  strangers()));
}

//===----------------------------------------------------------------------===//
// Failing
//===----------------------------------------------------------------------===//

/// The lost one is told as well: it may only have stood still.
void ControlServer::lose(size_t peer, const std::string &how) {
  Peer &gone = peers[peer];
  if (gone.process >= 0)
    send(
        gone,
        messageOf(ControlMessage::Refuse).string(concat(gone.about, " ", how)));
  leave(peer);
  if (gone.process < 0 || !refusal.empty())
    return;
  if (!complete)
    return refuse(concat(gone.about, " ", how));
  sendAll(messageOf(ControlMessage::Lost).number(uint64_t(gone.process)));
  if (!death.empty())
    return;
  death = concat(gone.about, " ", how);
  deathDue = Clock::now() + graceOf(job);
}

void ControlServer::checkSilence() {
  Deadline now = Clock::now();
  if (now > lastBeat + beatOf(job)) {
    lastBeat = now;
    sendAll(messageOf(ControlMessage::Beat));
  }
  for (size_t i = 0; i < peers.size(); ++i)
    if (!peers[i].gone && now > peers[i].heard + silenceOf(job))
      lose(i,
           concat("has not been heard of for ", silenceOf(job).count(), " ms"));
}

void ControlServer::report(Unpacker &fields) {
  uint64_t number = fields.number(), epoch = fields.number();
  uint64_t kind = fields.number();
  std::string text = fields.string();
  uint64_t lost = fields.number();
  Scope &scope = scopes[number];
  if (!fields.ok() || epoch != scope.epoch || scope.decided)
    return;
  if (!lost && death.empty())
    return decide(number, scope, kind, text);
  if (scope.missed.empty())
    scope.missed = text, scope.lost = int64_t(lost) - 1;
  if (!scope.due)
    scope.due = Clock::now() + graceOf(job);
}

void ControlServer::decide(uint64_t number, Scope &scope, uint64_t kind,
                           const std::string &text) {
  scope.decided = true;
  scope.due = {};
  sendAll(messageOf(ControlMessage::Verdict)
              .number(number)
              .number(scope.epoch)
              .number(kind)
              .string(text));
}

/// A death ends all that the job does; what only was missed, one scope.
void ControlServer::decideDue(Deadline now) {
  if (deathDue && now > *deathDue) {
    deathDue = {};
    fatal = death;
    for (auto &[number, scope] : scopes)
      if (!scope.decided && !scope.missed.empty()) {
        fatal += "; missed in " + scope.missed;
        break;
      }
    sendAll(messageOf(ControlMessage::Verdict)
                .number(kAllScopes)
                .number(0)
                .number(uint64_t(ErrorKind::General))
                .string(fatal));
  }
  for (auto &[number, scope] : scopes)
    if (scope.due && now > *scope.due && !deathDue && fatal.empty())
      decide(number, scope, uint64_t(ErrorKind::General), causeOf(scope));
}

/// What was missed, and whether its process has ended its part.
std::string ControlServer::causeOf(const Scope &scope) const {
  for (const Peer &peer : peers)
    if (peer.process == scope.lost && peer.gone)
      return concat(peer.about, " has left the job; missed in ", scope.missed);
  return scope.missed;
}

void ControlServer::recover(int64_t process, Unpacker &fields) {
  uint64_t number = fields.number(), epoch = fields.number();
  Scope &scope = scopes[number];
  if (!fields.ok() || epoch != scope.epoch)
    return;
  scope.recovering.insert(process);
  if (scope.recovering.size() < size_t(job.worldSize))
    return;
  scope = {.epoch = epoch + 1};
  sendAll(messageOf(ControlMessage::Go).number(number).number(scope.epoch));
}

} // namespace tandem::rt
