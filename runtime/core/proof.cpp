//===- proof.cpp - proof of the job's secret ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/proof.h"
#include "core/text.h"

#include <cstring>
#include <thread>

namespace tandem::rt {

namespace {
constexpr std::string_view kMagic = "tandem02", kAccepted = "accepted",
                           kRefused = "refused!";
constexpr std::string_view kServer = "server", kClient = "client";
constexpr std::string_view kToServer = "to server", kToClient = "to client";

template <size_t count>
std::array<uint8_t, count> arrayOf(std::string_view bytes) {
  std::array<uint8_t, count> array;
  std::memcpy(array.data(), bytes.data(), count);
  return array;
}
} // namespace

Digest Exchange::proofOf(const Key &key, std::string_view side) const {
  return keyedHash(key, Packer()
                            .string(side)
                            .string(purpose)
                            .number(claim)
                            .string(viewOf(ofServer))
                            .string(viewOf(ofClient))
                            .text());
}

Key Exchange::sessionKey(const Key &key, std::string_view direction) const {
  return proofOf(key, direction);
}

//===----------------------------------------------------------------------===//
// The server's side
//===----------------------------------------------------------------------===//

std::string greetingOf(const Exchange &exchange) {
  return concat(kMagic, viewOf(exchange.ofServer));
}

std::string judge(std::string_view answer, const Key &key, Exchange &exchange,
                  bool &isProven) {
  bool known = answer.starts_with(kMagic);
  std::memcpy(&exchange.claim, answer.data() + 8, 8);
  exchange.ofClient = arrayOf<32>(answer.substr(16));
  isProven = known && areEqual(answer.substr(48),
                               viewOf(exchange.proofOf(key, kClient)));
  if (!isProven)
    return concat(kRefused, viewOf(Digest{}));
  return concat(kAccepted, viewOf(exchange.proofOf(key, kServer)));
}

void sealAsServer(Socket &socket, const Key &key, const Exchange &exchange) {
  socket.seal(exchange.sessionKey(key, kToClient),
              exchange.sessionKey(key, kToServer));
}

//===----------------------------------------------------------------------===//
// The client's side
//===----------------------------------------------------------------------===//

void sealAsClient(Socket &socket, const Key &key, const Exchange &exchange) {
  socket.seal(exchange.sessionKey(key, kToServer),
              exchange.sessionKey(key, kToClient));
}

namespace {
/// How one attempt ended.
enum class Outcome { Proven, Broken, Silent, Stranger, OtherSecret };

Outcome read(const Socket &socket, size_t count, Deadline patience,
             std::string &bytes) {
  bytes.clear();
  if (socket.read(count, patience, bytes))
    return Outcome::Proven;
  return Clock::now() < patience ? Outcome::Broken : Outcome::Silent;
}

Outcome attempt(const Socket &socket, const Visit &visit, Deadline patience,
                Exchange &exchange) {
  std::string bytes;
  if (Outcome outcome = read(socket, kGreetingBytes, patience, bytes);
      outcome != Outcome::Proven)
    return outcome;
  if (!bytes.starts_with(kMagic))
    return Outcome::Stranger;
  exchange = {.purpose = visit.purpose,
              .claim = visit.claim,
              .ofServer = arrayOf<32>(std::string_view(bytes).substr(8)),
              .ofClient = makeNonce()};
  std::string answer(kMagic);
  answer += Packer().number(visit.claim).text();
  answer += viewOf(exchange.ofClient);
  answer += viewOf(exchange.proofOf(visit.key, kClient));
  if (!socket.write(answer, patience))
    return Outcome::Broken;
  if (Outcome outcome = read(socket, kVerdictBytes, patience, bytes);
      outcome != Outcome::Proven)
    return outcome;
  if (bytes.starts_with(kRefused))
    return Outcome::OtherSecret;
  bool isProven = bytes.starts_with(kAccepted) &&
                  areEqual(std::string_view(bytes).substr(8),
                           viewOf(exchange.proofOf(visit.key, kServer)));
  return isProven ? Outcome::Proven : Outcome::Stranger;
}

Status explain(const Visit &visit, Outcome outcome) {
  std::string place = concat(visit.host, " port ", visit.port);
  if (outcome == Outcome::OtherSecret)
    return errorOf(visit.whom, " at ", place,
                   " has another secret, expected the same TANDEM_JOB_SECRET "
                   "in all processes");
  if (outcome == Outcome::Broken)
    return errorOf("what listens at ", place,
                   " closes the connection, expected ", visit.whom);
  return errorOf("what listens at ", place, " is no ", visit.whom);
}
} // namespace

/// What breaks may have had no place for this one, or ended just now.
Expected<Socket> connectProven(const Visit &visit, Deadline deadline,
                               Deadline patience, Exchange &exchange) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  while (true) {
    Expected<Socket> made = Socket::connect(visit.host, visit.port, deadline);
    if (!made.ok())
      return made;
    Outcome outcome = attempt(*made, visit, patience, exchange);
    if (outcome == Outcome::Proven)
      return made;
    if (outcome != Outcome::Broken || Clock::now() + kPause >= deadline)
      return explain(visit, outcome);
    std::this_thread::sleep_for(kPause);
  }
}

} // namespace tandem::rt
