//===- run.cpp - execution of a Program by tandem-run ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "run.h"
#include "stats.h"
#include "values.h"

#include "../common/file.h"
#include "tandem_rt/new_file.h"
#include "tandem_rt/recorder.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace tandem::run {

using namespace tandem::rt;

namespace {
/// Steps without --data or --steps.
constexpr int64_t kSeededSteps = 10;
/// One run of one program.
class Runner {
public:
  Runner(const Options &options, Session &session, ValueRecorder *recorder)
      : options(options), session(session), recorder(recorder) {}

  Status run();

private:
  Status prepare();
  Status step(int64_t number);
  Status printLosses(int64_t number);
  void printTime(int64_t number) const;
  Status finish();
  Status fail(const Status &status);
  Status writeTrace();
  Status writeTimes() const;
  Status writeOperators() const;
  int64_t stepCount() const;

  const Options &options;
  Session &session;
  ValueRecorder *recorder; ///< Null: nobody asks for values of operators.
  std::optional<SafetensorsFile> file;
  int64_t batches = 0;
  std::vector<StepStats> stats;
};

/// The first element of an argument or loss, as a number.
double scalarOf(const Tensor &tensor) {
  auto load = [&](auto value) {
    std::memcpy(&value, tensor.data.data(), sizeof value);
    return value;
  };
  switch (tensor.type) {
  case ElementType::F64:
    return load(double());
  case ElementType::F32:
    return load(float());
  case ElementType::BF16:
    return bf16ToFloat(load(uint16_t()));
  case ElementType::I64:
    return double(load(int64_t()));
  case ElementType::I32:
    return load(int32_t());
  default:
    return 0;
  }
}

/// "s.json" is "s.4.json" in the process whose first rank is 4.
std::string pathOfProcess(const std::string &path, const Session &session) {
  if (isFirst(session))
    return path;
  std::filesystem::path name(path);
  std::string rank = std::to_string(session.job().ranks.front());
  return name.replace_extension("." + rank + name.extension().string());
}

int64_t Runner::stepCount() const {
  const std::vector<Whole> &arguments = session.arguments();
  for (uint32_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].role == "step")
      if (Expected<Tensor> value = session.getArgument(i); value.ok())
        return int64_t(scalarOf(*value));
  return 0;
}

Status Runner::prepare() {
  if (options.data.empty()) {
    if (isFirst(session))
      std::puts("no --data: values are seeded");
    return setSeeded(session);
  }
  Expected<SafetensorsFile> opened = SafetensorsFile::open(options.data);
  if (!opened.ok())
    return opened.status();
  file = std::move(*opened);
  Expected<int64_t> count = countBatches(session, *file);
  if (!count.ok())
    return count.status();
  batches = *count;
  if (batches == 0 && !session.inputs().empty())
    return Status::error(
        "'" + options.data + "' has no batch: no tensor '" +
        batchKey(0, session.arguments()[session.inputs().front()]) + "'");
  Status status = setFromFile(session, *file);
  if (status.ok() && isFirst(session))
    printUnused(session, *file);
  return status;
}

/// Every process takes part; the first one prints.
Status Runner::printLosses(int64_t number) {
  std::string line = "step " + std::to_string(number);
  const std::vector<Whole> &results = session.results();
  for (uint32_t i = 0; i < results.size(); ++i) {
    if (results[i].role != "loss")
      continue;
    Tensor value(results[i].type, results[i].shape);
    if (Status status = session.getResult(i, value.mutableView(), 0);
        !status.ok())
      return status;
    char number[32];
    std::snprintf(number, sizeof number, "%.10g", scalarOf(value));
    line += " " + results[i].name + " " + number;
  }
  if (isFirst(session))
    std::puts(line.c_str());
  std::fflush(stdout);
  return Status::success();
}

/// In place of losses, which nothing has computed.
void Runner::printTime(int64_t number) const {
  if (isFirst(session))
    std::printf("step %lld timed %.6f s\n", static_cast<long long>(number),
                stats.back().seconds);
  std::fflush(stdout);
}

Status Runner::step(int64_t number) {
  if (batches > 0)
    if (Status status = setBatch(session, *file, number % batches);
        !status.ok())
      return status;
  if (recorder)
    recorder->clear();
  if (Status status = runStep(session, stats.emplace_back()); !status.ok())
    return status;
  if (options.times.empty())
    return printLosses(number + 1);
  printTime(number + 1);
  return Status::success();
}

/// Every process takes part; the first one writes, and says what was hidden.
Status Runner::writeTrace() {
  Expected<TraceSummary> written = session.writeTrace(options.trace);
  if (!written.ok() || !written->lacks.empty())
    return written.ok() ? Status::error(written->lacks) : written.status();
  if (!written->isWriter)
    return Status::success();
  int64_t cores = std::thread::hardware_concurrency();
  bool shared = cores < int64_t(session.job().ranks.size()) * options.threads;
  std::printf("communication hidden behind computation: %.1f %%%s\n",
              100 * written->time.share(),
              shared ? " (ranks share cores: no claim of speed)" : "");
  if (written->numProcesses > 1 && written->clockError >= 0)
    std::printf("clocks of %lld processes within %.1f us\n",
                static_cast<long long>(written->numProcesses),
                double(written->clockError) / 1e3);
  return Status::success();
}

/// Of the ranks here; one process writes.
Status Runner::writeTimes() const {
  if (!isFirst(session))
    return Status::success();
  auto times =
      measuredTimes(session.program(), session.hash(), session.trace());
  if (!times.ok())
    return times.status();
  times->from = "measured in " + std::to_string(stats.size()) + " steps";
  return rt::writeTimes(*times, options.saveTimes);
}

/// Of the ranks here, in the last step.
Status Runner::writeOperators() const {
  return recorder ? writeSafetensors(pathOfProcess(options.operators, session),
                                     recorder->tensors())
                  : Status::success();
}

Status Runner::finish() {
  Status status;
  if (!options.trace.empty())
    status = writeTrace();
  if (status.ok() && !options.saveTimes.empty())
    status = writeTimes();
  if (status.ok() && !options.stats.empty())
    status = writeStats(session, !options.times.empty(), stats,
                        pathOfProcess(options.stats, session));
  if (status.ok())
    status = writeOperators();
  if (!status.ok())
    return status;
  if (options.save.empty())
    return Status::success();
  return saveValues(session, file ? &*file : nullptr, options.save);
}

/// What a failed step has left of a timeline, or of values, shows where it
/// failed.
Status Runner::fail(const Status &status) {
  if (Status written = writeOperators(); !written.ok())
    std::fprintf(stderr, "note: %s\n", written.message().c_str());
  if (options.trace.empty())
    return status;
  Expected<TraceSummary> written = session.writeTrace(options.trace);
  std::string note = written.ok() ? written->lacks : written.status().message();
  if (note.empty())
    note = "'" + options.trace + "' ends in the failed step";
  if (isFirst(session))
    std::fprintf(stderr, "note: %s\n", note.c_str());
  return status;
}

Status Runner::run() {
  if (Status status = prepare(); !status.ok())
    return status;
  int64_t first = stepCount(), steps = options.steps;
  if (steps < 0)
    steps = options.data.empty() ? kSeededSteps : batches;
  for (int64_t i = 0; i < steps; ++i)
    if (Status status = step(first + i); !status.ok())
      return fail(status);
  return finish();
}
} // namespace

/// A Program is machine code: whose file it is runs as who calls this.
static void tellOwner(const std::string &path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return;
  std::string fault;
  if (info.st_uid != geteuid())
    fault = "is a file of user " + std::to_string(info.st_uid) +
            ", not of yours (" + std::to_string(geteuid()) + ")";
  else if (info.st_mode & S_IWOTH)
    fault = "can be written by all users";
  if (!fault.empty())
    std::fprintf(stderr,
                 "tandem-run: warning: '%s' %s: the machine code in it runs "
                 "now (--print runs none)\n",
                 path.c_str(), fault.c_str());
}

/// Tried before the first step, so that no run is lost at its end.
static Status checkOutputs(const Options &options) {
  std::vector<std::string> others{options.program, options.data, options.times};
  for (auto [path, kind] : {std::pair(&options.save, &kValuesFile),
                            std::pair(&options.operators, &kValuesFile),
                            std::pair(&options.trace, &kTimelineFile),
                            std::pair(&options.saveTimes, &kTimesFile),
                            std::pair(&options.stats, &kStatsFile)}) {
    if (Status status = checkOutput(*path, *kind, others); !status.ok())
      return status;
    if (!path->empty() &&
        std::find(others.begin(), others.end(), *path) != others.end())
      return Status::error("two outputs are '" + *path +
                           "', expected a file for each");
    others.push_back(*path);
  }
  return checkPlace(options.save);
}

Status run(const Options &options) {
  Expected<Bytes> bytes = readFile(options.program);
  if (!bytes.ok())
    return bytes.status();
  if (options.print) {
    Expected<Program> program = loadProgram(*bytes);
    if (program.ok())
      std::fputs(printProgram(*program).c_str(), stdout);
    return program.status();
  }
  tellOwner(options.program);
  if (Status status = checkOutputs(options); !status.ok())
    return status;
  SessionOptions session{.threads = options.threads,
                         .trace = !options.trace.empty() ||
                                  !options.saveTimes.empty(),
                         .oneQueue = options.oneQueue,
                         .graph = options.graph,
                         .checksNumbers = options.checksNumbers};
  if (!options.times.empty()) {
    Expected<CommandTimes> times = readTimes(options.times);
    if (!times.ok())
      return times.status();
    session.times = std::make_shared<const CommandTimes>(std::move(*times));
  }
  if (!options.operators.empty())
    session.recorder = std::make_shared<ValueRecorder>();
  auto made = Session::create(*bytes, session);
  if (!made.ok())
    return made.status();
  if (std::string notice = (*made)->notice();
      !notice.empty() && isFirst(**made))
    std::fprintf(stderr, "tandem-run: warning: %s\n", notice.c_str());
  if (session.times && isFirst(**made))
    std::printf("values are not computed: commands take the times of '%s' "
                "(%s)\n",
                options.times.c_str(), session.times->from.c_str());
  return Runner(options, **made, session.recorder.get()).run();
}

} // namespace tandem::run
