//===- mesh.cpp - a connection with each other process --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/mesh.h"
#include "core/gate.h"
#include "core/text.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>

namespace tandem::rt::gloo {

namespace {
/// In numbers; empty for what is no address of an internet.
std::string textOf(const sockaddr *address) {
  bool is4 = address && address->sa_family == AF_INET;
  if (!is4 && !(address && address->sa_family == AF_INET6))
    return "";
  char text[NI_MAXHOST] = "";
  getnameinfo(address, is4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6), text,
              sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

/// The first address of an interface, of IPv4 if it has one.
Expected<std::string> addressOf(const char *interface) {
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return errorOf("cannot list network interfaces: ", std::strerror(errno));
  std::unique_ptr<ifaddrs, void (*)(ifaddrs *)> owner(list, freeifaddrs);
  std::string found;
  for (const ifaddrs *at = list; at; at = at->ifa_next) {
    bool isBetter = found.empty() || found.find(':') != found.npos;
    std::string text = textOf(at->ifa_addr);
    if (isBetter && !text.empty() && !std::strcmp(at->ifa_name, interface) &&
        (found.empty() || text.find(':') == text.npos))
      found = text;
  }
  if (found.empty())
    return errorOf("environment variable GLOO_SOCKET_IFNAME is '", interface,
                   "', expected a network interface that has an address");
  return found;
}

class Mesh {
public:
  Mesh(Control &control, std::string name)
      : control(control), name(std::move(name)),
        sockets(size_t(control.numProcesses())) {}

  /// Lower processes first, which wait for this one, then those above it.
  Expected<std::vector<Socket>> connect() {
    Status status = open();
    for (int64_t peer = 0; status.ok() && peer < self(); ++peer)
      status = goTo(peer);
    if (status.ok())
      status = awaitOthers();
    if (!status.ok())
      return status;
    return std::move(sockets);
  }

private:
  int64_t self() const { return control.process(); }
  std::string keyOf(int64_t process) const {
    return concat(name, "/", process);
  }
  std::string purpose() const { return "data " + name; }

  Status open();
  Status goTo(int64_t peer);
  Status awaitOthers();
  bool admit();

  Control &control;
  const std::string name;
  const Deadline deadline = Clock::now() + control.timeout();
  std::unique_ptr<Gate> gate;
  std::vector<Socket> sockets;
};

Status Mesh::open() {
  std::string address = control.address();
  if (const char *interface = std::getenv("GLOO_SOCKET_IFNAME")) {
    Expected<std::string> found = addressOf(interface);
    if (!found.ok())
      return found.status();
    address = *found;
  }
  Expected<Listener> listener = Listener::open(address, 0, deadline);
  if (!listener.ok())
    return listener.status();
  control.set(
      keyOf(self()),
      Packer().string(address).number(uint64_t(listener->port())).text());
  gate = std::make_unique<Gate>(std::move(*listener), control.key(), purpose(),
                                control.timeout());
  return Status::success();
}

Status Mesh::goTo(int64_t peer) {
  Expected<std::string> place = control.get(keyOf(peer));
  if (!place.ok())
    return place.status();
  Unpacker fields(*place);
  std::string host = fields.string();
  Visit visit{host,
              int64_t(fields.number()),
              control.key(),
              purpose(),
              uint64_t(self()),
              concat("process ", peer, " of this job")};
  Exchange exchange;
  auto made = connectProven(visit, deadline, deadline, exchange);
  if (!made.ok())
    return made.status();
  sockets[size_t(peer)] = std::move(*made);
  return Status::success();
}

/// A process whose connection broke, and that comes again, is the one that
/// counts.
bool Mesh::admit() {
  for (Gate::Guest &guest : gate->admit())
    if (guest.exchange.claim > uint64_t(self()) &&
        guest.exchange.claim < sockets.size())
      sockets[guest.exchange.claim] = std::move(guest.socket);
  return std::all_of(sockets.begin() + self() + 1, sockets.end(),
                     [](const Socket &socket) { return bool(socket); });
}

Status Mesh::awaitOthers() {
  constexpr int kTick = 50; // ms: how late a loss may be seen
  while (!admit()) {
    for (int64_t peer = self() + 1; peer < int64_t(sockets.size()); ++peer) {
      if (sockets[size_t(peer)])
        continue;
      if (control.isLost(peer))
        return errorOf("process ", peer, " is not there any more");
      if (Clock::now() >= deadline)
        return errorOf("process ", peer, " did not come within ",
                       control.timeout().count(), " ms");
    }
    std::vector<pollfd> waits;
    gate->addTo(waits);
    poll(waits.data(), waits.size(), kTick);
  }
  return Status::success();
}
} // namespace

Expected<std::vector<Socket>> connectMesh(Control &control,
                                          const std::string &name) {
  return Mesh(control, name).connect();
}

} // namespace tandem::rt::gloo
