//===- socket.cpp - messages between processes ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/socket.h"
#include "core/text.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace tandem::rt {

int millisecondsUntil(Deadline deadline) {
  auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return int(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

Packer &Packer::number(uint64_t value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  return *this;
}

Packer &Packer::string(std::string_view text) {
  number(text.size());
  bytes.append(text);
  return *this;
}

std::string_view Unpacker::take(size_t count) {
  complete &= count <= bytes.size();
  std::string_view taken = bytes.substr(0, complete ? count : 0);
  bytes.remove_prefix(taken.size());
  return taken;
}

uint64_t Unpacker::number() {
  uint64_t value = 0;
  std::string_view taken = take(sizeof value);
  std::memcpy(&value, taken.data(), taken.size());
  return value;
}

std::string Unpacker::string() { return std::string(take(number())); }

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

namespace {
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo *)>;

Expected<Addresses> lookUp(const char *host, int64_t port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (host ? 0 : AI_PASSIVE);
  int error = getaddrinfo(host, concat(port).c_str(), &hints, &found);
  if (error)
    return errorOf("cannot find host '", host ? host : "",
                   "': ", gai_strerror(error));
  return Addresses(found, freeaddrinfo);
}

/// The resolver's own deadlines are its configuration's, of minutes perhaps. A
/// look-up that is late goes on, to no effect.
Expected<Addresses> lookUp(const std::string &host, int64_t port,
                           Deadline deadline) {
  std::packaged_task<Expected<Addresses>()> task(
      [host, port] { return lookUp(host.c_str(), port); });
  std::future<Expected<Addresses>> found = task.get_future();
  std::thread(std::move(task)).detach();
  if (found.wait_until(deadline) != std::future_status::ready)
    return errorOf("cannot find host '", host,
                   "' in time, expected an answer of its name server");
  return found.get();
}

template <typename Value>
void setOption(int descriptor, int level, int option, Value value) {
  setsockopt(descriptor, level, option, &value, sizeof value);
}

int makeSocket(const addrinfo &address) {
  return socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                address.ai_protocol);
}

/// 0, or the error of one attempt.
int tryConnect(const Socket &socket, const addrinfo &address,
               Deadline deadline) {
  if (!socket)
    return errno;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0)
    return 0;
  if (errno != EINPROGRESS)
    return errno;
  pollfd wait = {socket.get(), POLLOUT, 0};
  if (poll(&wait, 1, millisecondsUntil(deadline)) != 1)
    return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

/// One that listens for IPv6 takes IPv4 as well, and so comes first.
Socket tryListen(const addrinfo &address) {
  Socket made(makeSocket(address));
  if (!made)
    return made;
  setOption(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6)
    setOption(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(made.get(), address.ai_addr, address.ai_addrlen) == 0 &&
      ::listen(made.get(), SOMAXCONN) == 0)
    return made;
  return Socket();
}
} // namespace

Expected<Socket> Socket::listen(int64_t port) {
  Expected<Addresses> found = lookUp(nullptr, port);
  if (!found.ok())
    return found.status();
  int error = 0;
  for (int family : {AF_INET6, AF_INET})
    for (addrinfo *at = found->get(); at; at = at->ai_next) {
      if (at->ai_family != family)
        continue;
      if (Socket made = tryListen(*at))
        return made;
      error = errno;
      if (error == EADDRINUSE)
        return errorOf("port ", port,
                       " of this host is taken, expected a free "
                       "one for the processes of the job");
    }
  return errorOf("cannot listen on port ", port, ": ", std::strerror(error));
}

namespace {
sockaddr_storage nameOf(int descriptor, decltype(getsockname) &get,
                        socklen_t &size) {
  sockaddr_storage name = {};
  size = sizeof name;
  get(descriptor, reinterpret_cast<sockaddr *>(&name), &size);
  return name;
}

/// Where nobody listens yet, a connection from this host may be given the very
/// port that it looks for: then TCP connects it with itself.
bool isOwnPeer(int descriptor) {
  socklen_t size;
  sockaddr_storage own = nameOf(descriptor, getsockname, size);
  sockaddr_storage peer = nameOf(descriptor, getpeername, size);
  return std::memcmp(&own, &peer, size) == 0;
}
} // namespace

Expected<Socket> Socket::connect(const std::string &host, int64_t port,
                                 Deadline deadline) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  int error = ETIMEDOUT;
  do {
    Expected<Addresses> found = lookUp(host, port, deadline);
    if (!found.ok())
      return found.status();
    for (addrinfo *at = found->get(); at; at = at->ai_next) {
      Socket made(makeSocket(*at));
      error = tryConnect(made, *at, deadline);
      if (error == 0 && isOwnPeer(made.get())) {
        // Else its port stays taken for what waits to listen there.
        setOption(made.get(), SOL_SOCKET, SO_LINGER, linger{1, 0});
        error = ECONNREFUSED;
      }
      if (error == 0) {
        setOption(made.get(), IPPROTO_TCP, TCP_NODELAY, 1);
        return made;
      }
    }
    std::this_thread::sleep_for(kPause);
  } while (Clock::now() < deadline);
  return errorOf("cannot reach ", host, " port ", port, ": ",
                 std::strerror(error));
}

Socket Socket::accept() const {
  int made =
      accept4(descriptor, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (made >= 0)
    setOption(made, IPPROTO_TCP, TCP_NODELAY, 1);
  return Socket(made);
}

int64_t Socket::port() const {
  socklen_t size;
  sockaddr_storage name = nameOf(descriptor, getsockname, size);
  // At the same place for both families.
  return ntohs(reinterpret_cast<sockaddr_in *>(&name)->sin_port);
}

std::string Socket::address() const {
  socklen_t size;
  char text[NI_MAXHOST] = "";
  sockaddr_storage name = nameOf(descriptor, getsockname, size);
  getnameinfo(reinterpret_cast<sockaddr *>(&name), size, text, sizeof text,
              nullptr, 0, NI_NUMERICHOST);
  // IPv4 as IPv6 writes it.
  std::string_view plain = text;
  constexpr std::string_view kMapped = "::ffff:";
  return std::string(plain.starts_with(kMapped) ? plain.substr(kMapped.size())
                                                : plain);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

Socket::Socket(Socket &&other) noexcept
    : descriptor(std::exchange(other.descriptor, -1)),
      pending(std::move(other.pending)) {}

Socket &Socket::operator=(Socket &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(pending, other.pending);
  return *this;
}

void Socket::close() {
  if (descriptor >= 0)
    ::close(std::exchange(descriptor, -1));
}

bool Socket::send(std::string_view message, Deadline deadline) const {
  uint32_t length = uint32_t(message.size());
  std::string bytes(reinterpret_cast<const char *>(&length), sizeof length);
  bytes += message;
  for (size_t sent = 0; sent < bytes.size();) {
    ssize_t count = ::send(descriptor, bytes.data() + sent, bytes.size() - sent,
                           MSG_NOSIGNAL);
    if (count >= 0) {
      sent += size_t(count);
      continue;
    }
    pollfd wait = {descriptor, POLLOUT, 0};
    if (errno == EAGAIN && poll(&wait, 1, millisecondsUntil(deadline)) == 1)
      continue;
    if (errno != EINTR) {
      // Half of a message is none: the connection has ended.
      shutdown(descriptor, SHUT_RDWR);
      return false;
    }
  }
  return true;
}

bool Socket::receive(std::vector<std::string> &messages) {
  // Far above what processes tell each other: others' bytes are no length.
  constexpr uint32_t kMaxMessage = 64 << 20;
  char buffer[4096];
  while (true) {
    ssize_t count = recv(descriptor, buffer, sizeof buffer, 0);
    if (count == 0)
      return false;
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return errno == EAGAIN;
    pending.append(buffer, size_t(count));
    uint32_t length;
    while (pending.size() >= sizeof length) {
      std::memcpy(&length, pending.data(), sizeof length);
      if (length > kMaxMessage)
        return false;
      if (pending.size() < sizeof length + length)
        break;
      messages.push_back(pending.substr(sizeof length, length));
      pending.erase(0, sizeof length + length);
    }
  }
}

} // namespace tandem::rt
