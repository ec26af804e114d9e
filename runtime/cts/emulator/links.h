//===- links.h - between ranks of the emulated NCCL -------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_EMULATOR_LINKS_H
#define TANDEM_RT_CTS_EMULATOR_LINKS_H

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tandem::rt::cuda::emulated {

/// Connects ranks, of one process or of several on this machine, each with all
/// others by a local socket. Nothing blocks: what is under way goes on in
/// pump().
class Links {
public:
  /// Members give the same name; `greeting` is told to all.
  Links(std::string name, int rank, int size, std::string greeting);
  ~Links();
  Links(const Links &) = delete;
  Links &operator=(const Links &) = delete;

  void pump();
  /// Of all others, once each has been heard of.
  const std::map<int, std::string> &getGreetings() const { return greetings; }
  bool isComplete() const { return int(greetings.size()) == size - 1; }
  /// Whether a member has ended its side.
  bool isLost(int peer) const { return lost.contains(peer); }
  /// Messages arrive in their order, those of each kind apart.
  void send(int peer, uint32_t kind, const std::string &text);
  std::optional<std::string> take(int peer, uint32_t kind);
  bool isFlushed() const;

private:
  struct Link {
    int file = -1;
    int peer = -1; ///< Unknown before its greeting.
    std::string in = {}, out = {};
  };
  static constexpr uint32_t kGreeting = UINT32_MAX;

  void call(int peer);
  void accept();
  void move(Link &link);
  void parse(Link &link);
  Link *find(int peer);

  const std::string name, greeting;
  const int rank, size;
  int listener = -1;
  std::deque<Link> links;
  std::map<int, std::string> greetings;
  std::map<std::pair<int, uint32_t>, std::deque<std::string>> arrived;
  std::set<int> lost;
};

} // namespace tandem::rt::cuda::emulated

#endif // TANDEM_RT_CTS_EMULATOR_LINKS_H
