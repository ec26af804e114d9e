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
#include <utility>

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

/// Without a host: all addresses of this one.
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

std::string textOf(const sockaddr_storage &name, socklen_t size) {
  char text[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr *>(&name), size, text,
              sizeof text, nullptr, 0, NI_NUMERICHOST);
  // IPv4 as IPv6 writes it.
  std::string_view plain = text;
  constexpr std::string_view kMapped = "::ffff:";
  return std::string(plain.starts_with(kMapped) ? plain.substr(kMapped.size())
                                                : plain);
}
} // namespace

Expected<Socket> Socket::connect(const std::string &host, int64_t port,
                                 Deadline deadline) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  int error = 0;
  do {
    Expected<Addresses> found = lookUp(host, port, deadline);
    if (!found.ok() && error != 0)
      break; // the deadline is over; what the attempt before met is said
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
  sockaddr_storage name = nameOf(descriptor, getsockname, size);
  return textOf(name, size);
}

std::string Socket::peerAddress() const {
  socklen_t size;
  sockaddr_storage name = nameOf(descriptor, getpeername, size);
  return textOf(name, size);
}

//===----------------------------------------------------------------------===//
// Listening
//===----------------------------------------------------------------------===//

namespace {
/// Without one errno says why.
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
  int error = errno;
  made.close();
  errno = error;
  return made;
}

bool isLoopback(const addrinfo &address) {
  if (address.ai_family == AF_INET) {
    auto *in = reinterpret_cast<const sockaddr_in *>(address.ai_addr);
    return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  auto *in = reinterpret_cast<const sockaddr_in6 *>(address.ai_addr);
  return IN6_IS_ADDR_LOOPBACK(&in->sin6_addr);
}

/// Debian gives a host's own name an address of the loopback, which that name
/// does not have elsewhere.
bool isOnlyHere(const std::string &host, const addrinfo &address) {
  bool means = host == "localhost" || host == "::1" || host.starts_with("127.");
  return isLoopback(address) && !means;
}

void setPort(const addrinfo &address, int64_t port) {
  // At the same place for both families.
  reinterpret_cast<sockaddr_in *>(address.ai_addr)->sin_port =
      htons(uint16_t(port));
}

/// On each address of this host in the list; EADDRINUSE if one is taken.
int listenOnEach(const std::string &host, int64_t port, const addrinfo *at,
                 std::vector<Socket> &sockets) {
  for (; at; at = at->ai_next) {
    if (isOnlyHere(host, *at))
      continue;
    setPort(*at, sockets.empty() ? port : sockets.front().port());
    if (Socket made = tryListen(*at))
      sockets.push_back(std::move(made));
    else if (errno == EADDRINUSE)
      return errno;
  }
  return 0;
}

/// One that listens for IPv6 takes IPv4 as well, and so comes first.
int listenOnAll(const addrinfo *all, std::vector<Socket> &sockets) {
  int error = 0;
  for (int family : {AF_INET6, AF_INET})
    for (const addrinfo *at = all; at; at = at->ai_next) {
      if (at->ai_family != family || error == EADDRINUSE)
        continue;
      if (Socket made = tryListen(*at)) {
        sockets.push_back(std::move(made));
        return 0;
      }
      error = errno;
    }
  return error;
}
} // namespace

Expected<Listener> Listener::open(const std::string &host, int64_t port,
                                  Deadline deadline) {
  constexpr int kAttempts = 8; // to find a port that is free on all addresses
  Expected<Addresses> named = lookUp(host, port, deadline);
  if (!named.ok())
    return named.status();
  Listener made;
  int error = EADDRINUSE;
  for (int i = 0; i < (port ? 1 : kAttempts) && error; ++i) {
    made.sockets.clear();
    error = listenOnEach(host, port, named->get(), made.sockets);
  }
  if (!error && made.sockets.empty()) {
    Expected<Addresses> all = lookUp(nullptr, port);
    if (!all.ok())
      return all.status();
    error = listenOnAll(all->get(), made.sockets);
  }
  if (error == EADDRINUSE)
    return errorOf("port ", port,
                   " of this host is taken, expected a free "
                   "one for the processes of the job");
  if (error)
    return errorOf("cannot listen on port ", port, ": ", std::strerror(error));
  return made;
}

std::vector<int> Listener::descriptors() const {
  std::vector<int> all;
  for (const Socket &socket : sockets)
    all.push_back(socket.get());
  return all;
}

Socket Listener::accept() const {
  for (const Socket &socket : sockets)
    if (Socket made = socket.accept())
      return made;
  return Socket();
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

Socket::Socket(Socket &&other) noexcept
    : descriptor(std::exchange(other.descriptor, -1)),
      pending(std::move(other.pending)), outgoing(other.outgoing),
      incoming(other.incoming) {}

Socket &Socket::operator=(Socket &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(pending, other.pending);
  std::swap(outgoing, other.outgoing);
  std::swap(incoming, other.incoming);
  return *this;
}

void Socket::close() {
  if (descriptor >= 0)
    ::close(release());
}

int Socket::release() { return std::exchange(descriptor, -1); }

bool Socket::write(std::string_view bytes, Deadline deadline) const {
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

bool Socket::readSome(size_t count, std::string &bytes) const {
  char buffer[4096];
  while (count > 0) {
    ssize_t got = recv(descriptor, buffer, std::min(count, sizeof buffer), 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return got < 0 && errno == EAGAIN;
    bytes.append(buffer, size_t(got));
    count -= size_t(got);
  }
  return true;
}

bool Socket::read(size_t count, Deadline deadline, std::string &bytes) const {
  size_t end = bytes.size() + count;
  while (readSome(end - bytes.size(), bytes)) {
    if (bytes.size() == end)
      return true;
    pollfd wait = {descriptor, POLLIN, 0};
    if (poll(&wait, 1, millisecondsUntil(deadline)) == 0)
      return false;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

namespace {
constexpr size_t kTagBytes = 16;
/// Far above what processes tell each other: others' bytes are no length.
constexpr uint32_t kMaxMessage = 64 << 20;
} // namespace

void Socket::seal(const Key &ofOutgoing, const Key &ofIncoming) {
  outgoing = {.key = ofOutgoing};
  incoming = {.key = ofIncoming};
}

std::string Socket::Seal::tagOf(std::string_view message) {
  std::string text = Packer().number(count++).string(message).text();
  Digest digest = keyedHash(key, text);
  return std::string(viewOf(digest).substr(0, kTagBytes));
}

bool Socket::send(std::string_view message, Deadline deadline) {
  uint32_t length = uint32_t(message.size());
  std::string bytes(reinterpret_cast<const char *>(&length), sizeof length);
  bytes += message;
  if (outgoing)
    bytes += outgoing->tagOf(message);
  return write(bytes, deadline);
}

bool Socket::receive(std::vector<std::string> &messages) {
  // In one call: who sends without an end does not hold up its reader.
  constexpr size_t kMost = 1 << 20;
  size_t before = pending.size();
  bool open = readSome(kMost, pending);
  if (pending.size() == before)
    return open;
  return takeMessages(messages) && open;
}

bool Socket::takeMessages(std::vector<std::string> &messages) {
  const size_t tagBytes = incoming ? kTagBytes : 0;
  std::string_view rest = pending;
  uint32_t length;
  while (rest.size() >= sizeof length) {
    std::memcpy(&length, rest.data(), sizeof length);
    if (length > kMaxMessage)
      return false;
    if (rest.size() < sizeof length + length + tagBytes)
      break;
    std::string_view message = rest.substr(sizeof length, length);
    std::string_view tag = rest.substr(sizeof length + length, tagBytes);
    if (incoming && !areEqual(tag, incoming->tagOf(message)))
      return false;
    messages.emplace_back(message);
    rest.remove_prefix(sizeof length + length + tagBytes);
  }
  pending.erase(0, pending.size() - rest.size());
  return true;
}

} // namespace tandem::rt
