//===- control.cpp - control connection -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/control.h"
#include "core/control_server.h"
#include "core/proof.h"
#include "core/secret.h"
#include "core/text.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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

Control::Control(const Rendezvous &job) : job(job), jobKey(keyOf(job.secret)) {}

Expected<std::shared_ptr<Control>> Control::connect(const Rendezvous &job,
                                                    Listener listener) {
  std::shared_ptr<Control> control(new Control(job));
  if (Status status = control->join(std::move(listener)); !status.ok())
    return status;
  return control;
}

Status Control::listen(Listener listener, Deadline deadline) {
  if (!listener) {
    auto made = Listener::open(job.masterAddress, job.masterPort, deadline);
    if (!made.ok())
      return made.status();
    listener = std::move(*made);
  }
  server = std::make_unique<ControlServer>(job, jobKey, std::move(listener));
  return Status::success();
}

Status Control::join(Listener listener) {
  Deadline now = Clock::now();
  if (job.secret.empty())
    return errorOf("the job has no secret, expected one of all its processes");
  if (job.rank == 0)
    if (Status status = listen(std::move(listener), now + job.timeout);
        !status.ok())
      return status;
  Exchange exchange;
  Visit visit{job.masterAddress, job.masterPort,     jobKey,
              kControlPurpose,   uint64_t(job.rank), "process 0 of this job"};
  Expected<Socket> made =
      connectProven(visit, now + job.timeout, now + joinPatience(), exchange);
  if (!made.ok())
    return errorOf("process ", job.rank, " of ", job.worldSize,
                   " does not find process 0: ", made.status().message());
  socket = std::move(*made);
  sealAsClient(socket, jobKey, exchange);
  localAddress = socket.address();
  if (!send(messageOf(ControlMessage::Hello)
                .number(uint64_t(job.rank))
                .number(uint64_t(job.worldSize))
                .string(aboutThisProcess())))
    return errorOf("process 0 at ", job.masterAddress, " port ", job.masterPort,
                   " has closed the connection");
  thread = std::thread([this] { run(); });
  return awaitWelcome();
}

/// Process 0 may have begun to wait later than this one.
std::chrono::milliseconds Control::joinPatience() const {
  constexpr auto kMargin = std::chrono::milliseconds(200);
  return job.timeout * 5 / 4 + kMargin;
}

Status Control::awaitWelcome() {
  std::unique_lock lock(mutex);
  Deadline deadline = Clock::now() + joinPatience();
  changed.wait_until(lock, deadline, [&] { return welcome || fatal; });
  if (fatal)
    return *fatal;
  if (welcome)
    return Status::success();
  return errorOf("process 0 at ", job.masterAddress, " port ", job.masterPort,
                 " has not said within ", joinPatience().count(),
                 " ms that all processes have come");
}

Control::~Control() { leave(); }

void Control::leave(const std::string &why) {
  {
    std::lock_guard lock(mutex);
    if (std::exchange(leaving, true))
      return;
    if (!fatal)
      fatal = errorOf("process ", job.rank, " has left the job");
  }
  if (socket)
    send(messageOf(ControlMessage::Bye).string(why));
  if (thread.joinable())
    thread.join();
  server.reset();
}

namespace {
std::mutex processMutex;
std::shared_ptr<Control> processControl;
Listener processListener;

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
    Expected<Rendezvous> job = rendezvousFromEnvironment();
    if (!job.ok())
      return job.status();
    auto made =
        Listener::open(job->masterAddress, 0, Clock::now() + job->timeout);
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
  Expected<std::string> secret = secretFrom(environmentOfProcess);
  if (!secret.ok())
    return secret.status();
  job->secret = *secret;
  auto made = connect(*job, std::move(processListener));
  if (made.ok())
    processControl = *made;
  return made;
}

std::shared_ptr<Control> Control::joined() {
  std::lock_guard lock(processMutex);
  return processControl;
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
    if (isLeaving())
      return;
    checkSteps();
    if (hasServerLeft())
      break;
    if (!open || now > heard + silenceOf(job)) {
      loseServer(open);
      break;
    }
    if (now > lastBeat + beatOf(job)) {
      lastBeat = now;
      send(messageOf(ControlMessage::Beat));
    }
  }
  while (!isLeaving()) {
    checkSteps();
    std::this_thread::sleep_for(std::chrono::milliseconds(kTick));
  }
}

bool Control::isLeaving() const {
  std::lock_guard lock(mutex);
  return leaving;
}

bool Control::hasServerLeft() const {
  std::lock_guard lock(mutex);
  return serverLeft;
}

std::vector<std::function<void()>> Control::stopsOfAll() const {
  std::vector<std::function<void()>> stops;
  for (const auto &[number, scope] : scopes)
    stops.push_back(scope.onStop);
  return stops;
}

/// Then this process decides for itself; who misses process 0 says so first.
void Control::loseServer(bool open) {
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
  std::string place =
      concat("at ", job.masterAddress, " port ", job.masterPort);
  std::string text = concat("process 0 (", place, ") ended without a word");
  if (open)
    text = concat("process 0 (", place, ") has not been heard of for ",
                  silenceOf(job).count(), " ms");
  else if (!welcome)
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
    take(kind, fields);
    stops = takeFailure(kind, fields);
  }
  changed.notify_all();
  for (const auto &stop : stops)
    stop();
}

/// What somebody waits for.
void Control::take(ControlMessage kind, Unpacker &fields) {
  if (kind == ControlMessage::Welcome) {
    welcome = true;
  } else if (kind == ControlMessage::Value) {
    uint64_t number = fields.number();
    values[number] = fields.string();
  } else if (kind == ControlMessage::Pong) {
    uint64_t number = fields.number();
    pongs[number] = {int64_t(fields.number()), nanosecondsNow()};
  } else if (kind == ControlMessage::Share) {
    uint64_t turn = fields.number();
    int64_t process = int64_t(fields.number());
    shared[{turn, process}] = fields.string();
  } else if (kind == ControlMessage::Left) {
    left.insert(int64_t(fields.number()));
  } else if (kind == ControlMessage::Go) {
    auto it = scopes.find(fields.number());
    if (it != scopes.end())
      it->second = {.onStop = it->second.onStop,
                    .epoch = fields.number(),
                    .stepping = it->second.stepping};
  }
}

/// What ends waiting; returns what is to be called then.
std::vector<std::function<void()>> Control::takeFailure(ControlMessage kind,
                                                        Unpacker &fields) {
  if (kind == ControlMessage::Refuse && !fatal) {
    fatal = Status::error(fields.string());
  } else if (kind == ControlMessage::Bye && !fatal) {
    serverLeft = true;
    fatal = errorOf("process 0 has left the job");
  } else if (kind == ControlMessage::Lost) {
    lost.insert(int64_t(fields.number()));
    return stopsOfAll();
  } else if (kind == ControlMessage::Verdict) {
    uint64_t number = fields.number(), epoch = fields.number();
    auto error = ErrorKind(fields.number());
    Status status = Status::error(fields.string(), error);
    if (number == kAllScopes) {
      fatal = status;
      return stopsOfAll();
    }
    auto it = scopes.find(number);
    if (it != scopes.end() && it->second.epoch == epoch) {
      it->second.verdict = status;
      return {it->second.onStop};
    }
  }
  return {};
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
  return causeOf(scope);
}

Status Control::causeOf(const Scope &scope) const {
  if (scope.verdict)
    return *scope.verdict;
  return fatal ? *fatal : scope.own;
}

bool Control::isStopped(uint64_t number) const {
  std::lock_guard lock(mutex);
  return isStopped(scopes.at(number));
}

/// Who leaves has given what it had to give, process 0 as well: only what is
/// not said yet cannot come any more.
bool Control::isStopped(const Scope &scope) const {
  bool failed = fatal && !serverLeft;
  return scope.verdict || scope.reported || failed || !lost.empty();
}

bool Control::isLost(int64_t process) const {
  std::lock_guard lock(mutex);
  return lost.contains(process);
}

void Control::setStepping(uint64_t number, bool stepping) {
  std::lock_guard lock(mutex);
  Scope &scope = scopes.at(number);
  scope.stepping = stepping;
  scope.stepDue.reset();
}

/// In a failed scope a step waits once at most, for a verdict or for recovery.
/// Time counts from when it is seen here, so that a process that stood still
/// has as much of it.
void Control::checkSteps() {
  std::lock_guard lock(mutex);
  for (auto &[number, scope] : scopes) {
    if (!scope.stepping || !isStopped(scope))
      continue;
    Deadline now = Clock::now();
    if (!scope.stepDue)
      scope.stepDue = now + 2 * job.timeout;
    if (now < *scope.stepDue)
      continue;
    std::fprintf(stderr,
                 "tandem: error: process %ld ends: a command of its step goes "
                 "on %ld ms after the job has failed: %s\n",
                 long(job.rank), long(2 * job.timeout.count()),
                 causeOf(scope).message().c_str());
    std::_Exit(1);
  }
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
