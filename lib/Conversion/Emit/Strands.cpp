//===- Strands.cpp - runs beside each other -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Strands.h"
#include "LinkBuffers.h"
#include <set>

using namespace mlir;

namespace tandem {

namespace {
/// An action in slices.
struct Cuts {
  /// Where each begins and ends.
  std::vector<std::pair<size_t, size_t>> slices;
  /// Of each, the arguments that it computes with.
  std::vector<std::set<unsigned>> touched;
  /// The arguments that other queues read or write.
  std::set<unsigned> ofOthers;
};

/// A slice, and what must be listed before it: a slice of a strand.
struct Step {
  Slice slice;
  std::vector<std::pair<unsigned, size_t>> needs;
};

/// Lists the runs of the groups of one point.
class Interleaver {
public:
  explicit Interleaver(const ActionPrograms &actions) : actions(actions) {}
  std::vector<Slice> list(MutableArrayRef<sched::RunOp> group);

private:
  const Cuts &getCuts(sched::RunOp run);
  Cuts cut(const rt::RankProgram &program) const;
  void append(sched::RunOp run, unsigned strand);
  void addNeeds(Step &step, unsigned input, OpResult made);

  const ActionPrograms &actions;
  llvm::StringMap<Cuts> byAction;
  /// Of the current group.
  std::vector<std::vector<Step>> strands;
  /// Strand and first step of each run that is appended.
  llvm::DenseMap<Operation *, std::pair<unsigned, size_t>> begins;
};
} // namespace

/// A slice ends where computation waits for an event that the slice has
/// recorded on another queue.
Cuts Interleaver::cut(const rt::RankProgram &program) const {
  Cuts cuts;
  size_t begin = 0, number = 0;
  std::set<uint32_t> begun;
  bool isAlone = true;
  auto end = [&] {
    cuts.slices.emplace_back(begin, number);
    cuts.touched.emplace_back();
    begin = number;
    begun.clear();
  };
  for (const rt::Command &command : program.commands) {
    bool isCompute = command.queue == kCompute;
    isAlone &= isCompute;
    auto *record = std::get_if<rt::RecordEvent>(&command.operation);
    auto *wait = std::get_if<rt::WaitEvent>(&command.operation);
    if (record && !isCompute)
      begun.insert(record->event);
    if (wait && isCompute && begun.contains(wait->event))
      end();
    ++number;
  }
  end();
  if (!isAlone)
    end();
  for (auto [slice, touched] : llvm::zip_equal(cuts.slices, cuts.touched))
    for (size_t i = slice.first; i < slice.second; ++i) {
      rt::Command command = program.commands[i];
      visitBuffers(command, [&](rt::BufferRef &ref, bool) {
        if (ref.space == rt::Space::Argument)
          (command.queue == kCompute ? touched : cuts.ofOthers)
              .insert(ref.index);
      });
    }
  return cuts;
}

const Cuts &Interleaver::getCuts(sched::RunOp run) {
  auto [found, isNew] = byAction.try_emplace(run.getAction());
  if (isNew)
    found->second = cut(actions.lookup(run.getAction())->rankPrograms[0]);
  return found->second;
}

/// What reads `made`, a sum of another strand's run, comes behind the last
/// slice that computes with it; behind all of the run if it is no sum, or if
/// other queues take it.
void Interleaver::addNeeds(Step &step, unsigned input, OpResult made) {
  auto begun = begins.find(made.getOwner());
  if (begun == begins.end())
    return;
  auto run = cast<sched::RunOp>(made.getOwner());
  auto [strand, first] = begun->second;
  const Cuts &cuts = getCuts(run);
  const rt::BufferRef &place =
      actions.lookup(run.getAction())->results[made.getResultNumber()].place;
  size_t last = cuts.slices.size() - 1;
  if (place.space == rt::Space::Argument &&
      !cuts.ofOthers.contains(place.index) &&
      !getCuts(step.slice.run).ofOthers.contains(input))
    while (last > 0 && !cuts.touched[last].contains(place.index))
      --last;
  step.needs.emplace_back(strand, first + last);
}

void Interleaver::append(sched::RunOp run, unsigned strand) {
  const Cuts &cuts = getCuts(run);
  strands.resize(std::max<size_t>(strands.size(), strand + 1));
  std::vector<Step> &steps = strands[strand];
  size_t first = steps.size(), count = cuts.slices.size();
  for (size_t i = 0; i < count; ++i) {
    auto [begin, end] = cuts.slices[i];
    Step step{{run, begin, end, i == 0, i + 1 == count}, {}};
    for (auto [input, value] : llvm::enumerate(run.getInputs()))
      if (auto made = dyn_cast<OpResult>(value))
        if (cuts.ofOthers.contains(input) || cuts.touched[i].contains(input))
          addNeeds(step, input, made);
    steps.push_back(std::move(step));
  }
  begins[run] = {strand, first};
}

/// A slice of each strand in turn, of those that can go on. The first strand
/// always can.
std::vector<Slice> Interleaver::list(MutableArrayRef<sched::RunOp> group) {
  if (group.size() == 1) {
    size_t count =
        actions.lookup(group[0].getAction())->rankPrograms[0].commands.size();
    return {{group[0], 0, count, true, true}};
  }
  strands.clear();
  begins.clear();
  unsigned strand = 0;
  for (auto [number, run] : llvm::enumerate(group)) {
    strand += number > 0 && run.getStrand() != group[number - 1].getStrand();
    append(run, strand);
  }
  std::vector<size_t> next(strands.size());
  std::vector<Slice> listed;
  auto isListed = [&](std::pair<unsigned, size_t> step) {
    return step.second < next[step.first];
  };
  for (bool isMoving = true; std::exchange(isMoving, false);)
    for (auto [steps, number] : llvm::zip_equal(strands, next)) {
      if (number == steps.size() ||
          !llvm::all_of(steps[number].needs, isListed))
        continue;
      listed.push_back(steps[number++].slice);
      isMoving = true;
    }
  return listed;
}

/// The run and those behind it that have as high a strand, or higher ones.
static SmallVector<sched::RunOp> getGroup(sched::RunOp run) {
  SmallVector<sched::RunOp> group = {run};
  while (group.back().getStrand()) {
    auto next = dyn_cast_or_null<sched::RunOp>(group.back()->getNextNode());
    if (!next || !next.getStrand() ||
        *next.getStrand() < *group.back().getStrand())
      break;
    group.push_back(next);
  }
  return group;
}

Listing listRuns(func::FuncOp function, const ActionPrograms &actions) {
  Listing listing;
  Interleaver interleaver(actions);
  llvm::DenseSet<Operation *> listed;
  for (auto run : function.getOps<sched::RunOp>()) {
    if (listed.contains(run))
      continue;
    SmallVector<sched::RunOp> group = getGroup(run);
    for (sched::RunOp own : group)
      listed.insert(own);
    listing[run] = interleaver.list(group);
  }
  return listing;
}

} // namespace tandem
