//===- proof.h - proof of the job's secret ----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both ends of a connection prove that they know the secret of the job, by
// BLAKE2b with it as the key, over fresh nonces of both. All that is read
// before has a fixed size:
//
//   server -> client   magic, nonce
//   client -> server   magic, claim, nonce, proof of the client
//   server -> client   accepted or refused, proof of the server
//
// The proofs name their side and the purpose of the connection, so that none
// can be sent back, or used elsewhere.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_PROOF_H
#define TANDEM_RT_CORE_PROOF_H

#include "core/socket.h"

namespace tandem::rt {

/// What the two ends of one connection agree on.
struct Exchange {
  std::string purpose;
  /// Which of several clients this one is; only the proof of it makes it true.
  uint64_t claim = 0;
  Nonce ofServer = {}, ofClient = {};

  Digest proofOf(const Key &key, std::string_view side) const;
  /// Of the messages that follow, by direction.
  Key sessionKey(const Key &key, std::string_view direction) const;
};

inline constexpr size_t kGreetingBytes = 8 + 32;
inline constexpr size_t kAnswerBytes = 8 + 8 + 32 + 32;
inline constexpr size_t kVerdictBytes = 8 + 32;

std::string greetingOf(const Exchange &exchange);
/// The verdict on an answer of kAnswerBytes, whose claim and nonce go into the
/// exchange; `isProven` says which.
std::string judge(std::string_view answer, const Key &key, Exchange &exchange,
                  bool &isProven);

/// Seals the messages of a proven connection.
void sealAsServer(Socket &socket, const Key &key, const Exchange &exchange);
void sealAsClient(Socket &socket, const Key &key, const Exchange &exchange);

/// Where a connection goes, and who asks for it.
struct Visit {
  std::string host;
  int64_t port;
  const Key &key;
  std::string purpose;
  uint64_t claim;
  /// What should listen there, for errors: "process 0 of this job".
  std::string whom;
};

/// A connection on which both have proven themselves. Tries again until
/// `deadline` while nobody listens, or the connection breaks; what listens has
/// until `patience` to speak.
Expected<Socket> connectProven(const Visit &visit, Deadline deadline,
                               Deadline patience, Exchange &exchange);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_PROOF_H
