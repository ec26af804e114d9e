//===- control.cpp - what holds the processes of a job together -----------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/control.h"
#include "core/control_server.h"
#include "core/text.h"

#include <algorithm>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace tandem::rt {

namespace {
Packer messageOf(ControlMessage kind) {
  return Packer().number(uint64_t(kind));
}

std::string aboutThisProcess() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return concat("pid ", getpid(), " on ", host);
}
} // namespace

//===----------------------------------------------------------------------===//
// Coming and leaving
//===----------------------------------------------------------------------===//

Control::Control(const Rendezvous &job) : job(job) {}

Expected<std::shared_ptr<Control>> Control::connect(const Rendezvous &job,
                                                    Socket listener) {
  std::shared_ptr<Control> control(new Control(job));
  if (Status status = control->join(std::move(listener)); !status.ok())
    return status;
  return control;
}

Status Control::join(Socket listener) {
  Deadline deadline = Clock::now() + job.timeout;
  if (job.rank == 0) {
    if (!listener) {
      Expected<Socket> made = Socket::listen(job.masterPort);
      if (!made.ok())
        return made.status();
      listener = std::move(*made);
    }
    server = std::make_unique<ControlServer>(job, std::move(listener));
  }
  Expected<Socket> made =
      Socket::connect(job.masterAddress, job.masterPort, deadline);
  if (!made.ok())
    return errorOf("process ", job.rank, " of ", job.worldSize,
                   " does not find process 0: ", made.status().message());
  socket = std::move(*made);
  localAddress = socket.address();
  if (!send(messageOf(ControlMessage::Hello)
                .number(kControlMagic)
                .number(uint64_t(job.rank))
                .number(uint64_t(job.worldSize))
                .string(aboutThisProcess())))
    return errorOf("process 0 at ", job.masterAddress, " port ", job.masterPort,
                   " has closed the connection");
  thread = std::thread([this] { run(); });
  return awaitWelcome();
}

/// Process 0 may have begun to wait later than this one.
Status Control::awaitWelcome() {
  constexpr auto kMargin = std::chrono::milliseconds(200);
  std::unique_lock lock(mutex);
  Deadline deadline = Clock::now() + job.timeout * 5 / 4 + kMargin;
  changed.wait_until(lock, deadline, [&] { return welcome || fatal; });
  if (fatal)
    return *fatal;
  if (welcome)
    return Status::success();
  return errorOf("what listens at ", job.masterAddress, " port ",
                 job.masterPort, " is no process 0 of this job");
}

Control::~Control() { leave(); }

void Control::leave() {
  {
    std::lock_guard lock(mutex);
    if (std::exchange(leaving, true))
      return;
    if (!fatal)
      fatal = errorOf("process ", job.rank, " has left the job");
  }
  if (socket)
    send(messageOf(ControlMessage::Bye));
  if (thread.joinable())
    thread.join();
  server.reset();
}

namespace {
std::mutex processMutex;
std::shared_ptr<Control> processControl;
Socket processListener;

/// A process that ends has not died, even if some of its objects never end.
struct AtExit {
  ~AtExit() {
    if (processControl)
      processControl->leave();
  }
} atExit;
} // namespace

Expected<int64_t> Control::listenForProcess() {
  std::lock_guard lock(processMutex);
  if (!processListener) {
    Expected<Socket> made = Socket::listen(0);
    if (!made.ok())
      return made.status();
    processListener = std::move(*made);
  }
  return processListener.port();
}

Expected<std::shared_ptr<Control>> Control::ofProcess() {
  std::lock_guard lock(processMutex);
  if (processControl)
    return processControl;
  Expected<Rendezvous> job = rendezvousFromEnvironment();
  if (!job.ok())
    return job.status();
  if (processListener)
    job->masterPort = processListener.port();
  else if (job->portIsTaken)
    return errorOf("MASTER_PORT ", job->masterPort,
                   " is that of torchrun's own "
                   "store, expected another port in TANDEM_PORT");
  auto made = connect(*job, std::move(processListener));
  if (made.ok())
    processControl = *made;
  return made;
}

//===----------------------------------------------------------------------===//
// The connection
//===----------------------------------------------------------------------===//

bool Control::send(const Packer &message) {
  std::lock_guard lock(sending);
  return socket.send(message.text(), Clock::now() + beatOf(job));
}

void Control::run() {
  constexpr int kTick = 50; // ms: how long leaving may take
  Deadline heard = Clock::now(), lastBeat = heard;
  while (true) {
    pollfd wait = {socket.get(), POLLIN, 0};
    poll(&wait, 1, kTick);
    std::vector<std::string> messages;
    bool open = socket.receive(messages);
    for (const std::string &message : messages)
      handle(message);
    Deadline now = Clock::now();
    if (!messages.empty())
      heard = now;
    bool come; // Until then awaitWelcome() has the deadline.
    {
      std::lock_guard lock(mutex);
      if (leaving)
        return;
      come = welcome;
    }
    if (!open)
      return loseServer("ended without a word");
    if (come && now > heard + silenceOf(job))
      return loseServer(
          concat("has not been heard of for ", silenceOf(job).count(), " ms"));
    if (now > lastBeat + beatOf(job)) {
      lastBeat = now;
      send(messageOf(ControlMessage::Beat));
    }
  }
}

std::vector<std::function<void()>> Control::stopsOfAll() const {
  std::vector<std::function<void()>> stops;
  for (const auto &[number, scope] : scopes)
    stops.push_back(scope.onStop);
  return stops;
}

/// Then this process decides for itself; who misses process 0 says so first.
void Control::loseServer(const std::string &how) {
  std::vector<std::function<void()>> stops;
  std::unique_lock lock(mutex);
  lost.insert(0);
  stops = stopsOfAll();
  lock.unlock();
  changed.notify_all();
  {
    std::lock_guard call(calling);
    for (const auto &stop : stops)
      stop();
  }
  lock.lock();
  auto reported = [&] {
    return std::find_if(scopes.begin(), scopes.end(), [](const auto &scope) {
      return scope.second.reported && !scope.second.verdict;
    });
  };
  if (welcome && !fatal)
    changed.wait_for(lock, graceOf(job),
                     [&] { return leaving || reported() != scopes.end(); });
  std::string text = concat("process 0 (at ", job.masterAddress, " port ",
                            job.masterPort, ") ", how);
  if (!welcome)
    text += " before all processes had come";
  if (auto it = reported(); it != scopes.end())
    text += "; missed in " + it->second.own.message();
  if (!fatal)
    fatal = Status::error(text);
  lock.unlock();
  changed.notify_all();
}

void Control::handle(const std::string &message) {
  Unpacker fields(message);
  auto kind = ControlMessage(fields.number());
  std::lock_guard call(calling);
  std::vector<std::function<void()>> stops;
  {
    std::lock_guard lock(mutex);
    if (kind == ControlMessage::Welcome) {
      welcome = true;
    } else if (kind == ControlMessage::Refuse) {
      fatal = Status::error(fields.string());
    } else if (kind == ControlMessage::Value) {
      uint64_t number = fields.number();
      values[number] = fields.string();
    } else if (kind == ControlMessage::Lost) {
      lost.insert(int64_t(fields.number()));
      stops = stopsOfAll();
    } else if (kind == ControlMessage::Verdict) {
      uint64_t number = fields.number(), epoch = fields.number();
      auto error = ErrorKind(fields.number());
      Status status = Status::error(fields.string(), error);
      if (number == kAllScopes) {
        fatal = status;
        stops = stopsOfAll();
      } else if (auto it = scopes.find(number);
                 it != scopes.end() && it->second.epoch == epoch) {
        it->second.verdict = status;
        stops = {it->second.onStop};
      }
    } else if (kind == ControlMessage::Go) {
      uint64_t number = fields.number();
      if (auto it = scopes.find(number); it != scopes.end())
        it->second = {it->second.onStop, fields.number(), false, {}, {}};
    } else if (kind == ControlMessage::Bye && !fatal) {
      fatal = errorOf("process 0 has left the job");
    }
  }
  changed.notify_all();
  for (const auto &stop : stops)
    stop();
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

uint64_t Control::open(std::function<void()> onStop) {
  std::lock_guard lock(mutex);
  scopes[numScopes].onStop = std::move(onStop);
  return numScopes++;
}

void Control::close(uint64_t scope) {
  std::lock_guard call(calling);
  std::lock_guard lock(mutex);
  scopes.erase(scope);
}

void Control::report(uint64_t number, const Status &why,
                     std::optional<int64_t> missed) {
  uint64_t epoch;
  {
    std::lock_guard lock(mutex);
    Scope &scope = scopes.at(number);
    if (scope.reported || scope.verdict)
      return;
    scope.reported = true;
    scope.own = why;
    epoch = scope.epoch;
  }
  changed.notify_all();
  send(messageOf(ControlMessage::Report)
           .number(number)
           .number(epoch)
           .number(uint64_t(why.kind()))
           .string(why.message())
           .number(missed ? uint64_t(*missed) + 1 : 0));
}

Status Control::verdict(uint64_t number) {
  std::unique_lock lock(mutex);
  Scope &scope = scopes.at(number);
  if (scope.reported || !lost.empty())
    changed.wait_for(lock, job.timeout, [&] { return fatal || scope.verdict; });
  if (scope.verdict)
    return *scope.verdict;
  return fatal ? *fatal : scope.own;
}

bool Control::isStopped(uint64_t number) const {
  std::lock_guard lock(mutex);
  const Scope &scope = scopes.at(number);
  return scope.verdict || scope.reported || fatal || !lost.empty();
}

bool Control::isLost(int64_t process) const {
  std::lock_guard lock(mutex);
  return lost.contains(process);
}

Expected<uint64_t> Control::recover(uint64_t number) {
  std::unique_lock lock(mutex);
  Scope &scope = scopes.at(number);
  uint64_t epoch = scope.epoch;
  lock.unlock();
  send(messageOf(ControlMessage::Recover).number(number).number(epoch));
  lock.lock();
  changed.wait_for(lock, job.timeout,
                   [&] { return fatal || scope.epoch != epoch; });
  if (scope.epoch != epoch)
    return scope.epoch;
  if (fatal)
    return *fatal;
  return errorOf("not all processes have recovered within ",
                 job.timeout.count(), " ms from: ",
                 scope.verdict ? scope.verdict->message()
                               : scope.own.message());
}

} // namespace tandem::rt
