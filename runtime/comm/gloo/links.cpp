//===- links.cpp - connections with all other processes -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/links.h"
#include "comm/gloo/mesh.h"
#include "core/text.h"

#include <csignal>
#include <cstring>
#include <gloo/context.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/unbound_buffer.h>

namespace tandem::rt::gloo {

namespace {
sigset_t pipeSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}
} // namespace

WithoutPipeSignal::WithoutPipeSignal() {
  sigset_t pipe = pipeSignal(), before;
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  wasBlocked = sigismember(&before, SIGPIPE);
}

WithoutPipeSignal::~WithoutPipeSignal() {
  if (wasBlocked)
    return;
  sigset_t pipe = pipeSignal();
  timespec now = {};
  while (sigtimedwait(&pipe, nullptr, &now) > 0)
    ;
  pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
}

//===----------------------------------------------------------------------===//
// Connections
//===----------------------------------------------------------------------===//

namespace {
namespace tcp = ::gloo::transport::tcp;

/// A pair on a connection that is there. Gloo's own listens for its peer, and
/// takes whoever comes first: that socket is closed at once.
class Pair final : public tcp::Pair {
public:
  Pair(tcp::Context *context, tcp::Device *device, int peer,
       std::chrono::milliseconds timeout, Socket socket)
      : tcp::Pair(context, device, peer, timeout) {
    std::lock_guard lock(m_);
    Socket listening(fd_);
    if (listening)
      device->unregisterDescriptor(fd_, this);
    rx_ = tcp::Op();
    fd_ = socket.release();
    handleConnected();
  }
};

class TransportContext final : public tcp::Context {
public:
  using tcp::Context::Context;

  void add(int peer, Socket socket) {
    pairs_[size_t(peer)] = std::make_unique<Pair>(
        this, device_.get(), peer, getTimeout(), std::move(socket));
  }
};

class Context final : public ::gloo::Context {
public:
  Context(int process, int numProcesses,
          std::shared_ptr<::gloo::transport::Context> transport,
          std::shared_ptr<::gloo::transport::Device> device)
      : ::gloo::Context(process, numProcesses) {
    transportContext_ = std::move(transport);
    device_ = std::move(device);
  }
};

/// Where pairs listen for a moment: on an address of this host's loopback that
/// nobody guesses meanwhile.
tcp::attr hiddenPlace() {
  Nonce random = makeNonce();
  return tcp::attr(concat("127.", int(random[0]), ".", int(random[1]), ".",
                          1 + random[2] % 254)
                       .c_str());
}

std::shared_ptr<Context> makeContext(const Control &control,
                                     std::vector<Socket> sockets) {
  int process = int(control.process()), size = int(control.numProcesses());
  auto device =
      std::make_shared<tcp::Device>(tcp::CreateDeviceAttr(hiddenPlace()));
  auto transport = std::make_shared<TransportContext>(device, process, size);
  transport->setTimeout(control.timeout());
  for (int peer = 0; peer < size; ++peer)
    if (peer != process)
      transport->add(peer, std::move(sockets[size_t(peer)]));
  return std::make_shared<Context>(process, size, transport, device);
}
} // namespace

//===----------------------------------------------------------------------===//
// Links
//===----------------------------------------------------------------------===//

struct Links::Impl {
  explicit Impl(Control &control)
      : control(control), timeout(control.timeout()) {}

  Control &control;
  const std::chrono::milliseconds timeout;
  std::shared_ptr<Context> context;

  bool isStopped() {
    std::lock_guard lock(mutex);
    return stopped;
  }

  std::mutex mutex;
  std::set<Message::Impl *> messages;
  bool stopped = false;
  bool closed = false;
};

Links::Links(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
/// Gloo's own closing throws away what has not left yet; without, the sockets
/// are closed as usual, and who still reads gets it all.
Links::~Links() {
  if (impl->isStopped())
    close();
}

std::shared_ptr<Links> Links::connect(Control &control,
                                      const std::string &name) {
  WithoutPipeSignal guard; // for Gloo's thread as well, which is made here
  auto impl = std::make_unique<Impl>(control);
  auto failed = [&](const std::string &why) {
    return Failure{errorOf("process ", control.process(),
                           " cannot connect with the others: ", why),
                   kSomeProcess};
  };
  Expected<std::vector<Socket>> sockets = connectMesh(control, name);
  if (!sockets.ok())
    throw failed(sockets.status().message());
  try {
    impl->context = makeContext(control, std::move(*sockets));
  } catch (const std::exception &error) {
    throw failed(error.what());
  }
  return std::shared_ptr<Links>(new Links(std::move(impl)));
}

void Links::close() {
  {
    std::lock_guard lock(impl->mutex);
    if (std::exchange(impl->closed, true))
      return;
  }
  WithoutPipeSignal guard;
  impl->context->closeConnections();
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

struct Message::Impl {
  Impl(Links &links, int64_t peer, bool isSend, void *memory, size_t bytes)
      : links(links), peer(peer), isSend(isSend),
        buffer(links.impl->context->createUnboundBuffer(memory, bytes)) {
    std::lock_guard lock(links.impl->mutex);
    links.impl->messages.insert(this);
  }
  ~Impl() {
    std::lock_guard lock(links.impl->mutex);
    links.impl->messages.erase(this);
  }

  void stop() {
    buffer->abortWaitSend();
    buffer->abortWaitRecv();
  }

  template <typename Call> void call(Call call);

  Links &links;
  const int64_t peer;
  const bool isSend;
  std::unique_ptr<::gloo::transport::UnboundBuffer> buffer;
};

void Links::stop() {
  std::lock_guard lock(impl->mutex);
  impl->stopped = true;
  for (Message::Impl *message : impl->messages)
    message->stop();
}

/// Gloo's errors as ours. Gloo closes all connections when one wait takes too
/// long, which is told by its words only; others who wait are not the cause.
template <typename Call> void Message::Impl::call(Call call) {
  Clock::time_point begin = Clock::now();
  Links::Impl &from = *links.impl;
  bool follows = false;
  try {
    if (!from.isStopped() && call())
      return;
  } catch (const std::exception &error) {
    follows = std::strstr(error.what(), "Application timeout");
  }
  if (from.control.isLost(peer))
    throw Failure{Status::error("is not there any more"), peer};
  if (from.isStopped() || follows)
    throw Failure{Status::error("stopped by an error on another rank"), {}};
  if (Clock::now() - begin >= from.timeout)
    throw Failure{errorOf("did not come within ", from.timeout.count(), " ms"),
                  peer};
  throw Failure{Status::error("is not there any more"), peer};
}

Message::Message(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Message::Message(Message &&) noexcept = default;
Message &Message::operator=(Message &&) noexcept = default;
Message::~Message() = default;

Message Message::send(Links &links, int64_t peer, uint64_t slot,
                      const void *memory, size_t bytes) {
  auto made = std::make_unique<Impl>(links, peer, true,
                                     const_cast<void *>(memory), bytes);
  made->call([&] {
    made->buffer->send(int(peer), slot, 0, bytes);
    return true;
  });
  return Message(std::move(made));
}

Message Message::receive(Links &links, int64_t peer, uint64_t slot,
                         void *memory, size_t bytes) {
  auto made = std::make_unique<Impl>(links, peer, false, memory, bytes);
  made->call([&] {
    made->buffer->recv(int(peer), slot, 0, bytes);
    return true;
  });
  return Message(std::move(made));
}

void Message::await() {
  impl->call([&] {
    return impl->isSend ? impl->buffer->waitSend(impl->links.impl->timeout)
                        : impl->buffer->waitRecv(impl->links.impl->timeout);
  });
}

} // namespace tandem::rt::gloo
