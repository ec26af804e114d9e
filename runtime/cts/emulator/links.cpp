//===- links.cpp - between ranks of the emulated NCCL ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "links.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace tandem::rt::cuda::emulated {

namespace {
struct Head {
  uint32_t kind, sender;
  uint64_t bytes;
};

/// A name that no file has.
socklen_t addressOf(const std::string &name, int rank, sockaddr_un &address) {
  std::string text = "tandem-nccl-" + name + "-" + std::to_string(rank);
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

int makeSocket() {
  return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}
} // namespace

Links::Links(std::string given, int rank, int size, std::string greeting)
    : name(std::move(given)), greeting(std::move(greeting)), rank(rank),
      size(size) {
  sockaddr_un address;
  socklen_t length = addressOf(name, rank, address);
  listener = makeSocket();
  bind(listener, reinterpret_cast<sockaddr *>(&address), length);
  listen(listener, size);
}

Links::~Links() {
  for (Link &link : links)
    close(link.file);
  close(listener);
}

Links::Link *Links::find(int peer) {
  for (Link &link : links)
    if (link.peer == peer)
      return &link;
  return nullptr;
}

/// Those below listen; who is not there yet is called again.
void Links::call(int peer) {
  sockaddr_un address;
  socklen_t length = addressOf(name, peer, address);
  int file = makeSocket();
  if (connect(file, reinterpret_cast<sockaddr *>(&address), length) != 0) {
    close(file);
    return;
  }
  links.push_back({file, peer});
  send(peer, kGreeting, greeting);
}

void Links::accept() {
  int file = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (file >= 0)
    links.push_back({file});
}

void Links::send(int peer, uint32_t kind, const std::string &text) {
  if (peer == rank) {
    arrived[{peer, kind}].push_back(text);
    return;
  }
  Head head{kind, uint32_t(rank), text.size()};
  if (Link *link = find(peer))
    link->out.append(reinterpret_cast<char *>(&head), sizeof head).append(text);
}

void Links::parse(Link &link) {
  Head head;
  while (link.in.size() >= sizeof head) {
    std::memcpy(&head, link.in.data(), sizeof head);
    if (link.in.size() < sizeof head + head.bytes)
      return;
    std::string text = link.in.substr(sizeof head, head.bytes);
    link.in.erase(0, sizeof head + head.bytes);
    int peer = int(head.sender);
    if (head.kind != kGreeting) {
      arrived[{peer, head.kind}].push_back(std::move(text));
      continue;
    }
    bool isCaller = link.peer < 0;
    link.peer = peer;
    greetings[peer] = std::move(text);
    if (isCaller)
      send(peer, kGreeting, greeting);
  }
}

void Links::move(Link &link) {
  char buffer[65536];
  while (!link.out.empty()) {
    ssize_t count =
        ::send(link.file, link.out.data(), link.out.size(), MSG_NOSIGNAL);
    if (count <= 0)
      break;
    link.out.erase(0, size_t(count));
  }
  ssize_t count;
  while ((count = recv(link.file, buffer, sizeof buffer, 0)) > 0)
    link.in.append(buffer, size_t(count));
  bool isOpen = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  parse(link);
  if (!isOpen)
    lost.insert(link.peer);
}

void Links::pump() {
  for (int peer = 0; peer < rank; ++peer)
    if (!find(peer))
      call(peer);
  accept();
  for (Link &link : links)
    if (!lost.contains(link.peer))
      move(link);
}

std::optional<std::string> Links::take(int peer, uint32_t kind) {
  std::deque<std::string> &waiting = arrived[{peer, kind}];
  if (waiting.empty())
    return std::nullopt;
  std::string text = std::move(waiting.front());
  waiting.pop_front();
  return text;
}

bool Links::isFlushed() const {
  for (const Link &link : links)
    if (!link.out.empty() && !lost.contains(link.peer))
      return false;
  return true;
}

} // namespace tandem::rt::cuda::emulated
