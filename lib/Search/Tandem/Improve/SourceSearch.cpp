//===- SourceSearch.cpp - search of what is made again --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/SourceSearch.h"
#include "Infinity.h"
#include <algorithm>
#include <numeric>

using namespace tandem::cost;
using namespace tandem::search;

/// Where nothing fits, the share of what is held that is to be given up next:
/// at first, and where the search for less ends.
constexpr double kFirstSink = 1.0 / 16, kLastSink = 1.0 / 300;

SourceSearch::SourceSearch(const Facts &facts, ChangeTable &table)
    : problem(facts.problem), sources(facts, table), editor(facts, table) {}

bool SourceSearch::mayGoOn() const {
  return editor.getWork() + numMoves * problem.operators.size() / 8 <
             limitOfWork &&
         (numMoves % kChangesPerLook != 0 || (*proceeds)());
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

/// Whether clones that make the value are computed.
bool SourceSearch::isActive(unsigned value) const {
  for (unsigned op : sources.getValues()[value].makers[choice[value]])
    if (problem.getSignatures(op)[editor.getSignatures()[op]]
            .results.front()
            .isAbsent())
      return false;
  return true;
}

/// What the value's clones read comes from clones, too, if it would be held for
/// them alone.
void SourceSearch::follow(unsigned value, const Move &move) {
  const SourceValue &info = sources.getValues()[value];
  for (unsigned op : info.makers[changed[value]])
    for (unsigned read : sources.getRead(op)) {
      const auto &makers = sources.getValues()[read].makers;
      uint8_t source = std::min<size_t>(move.source, makers.size() - 1);
      bool isHeldForIt = changed[read] == 0 && numSaved[read] == 0;
      bool joins = move.shares && changed[read] != 0 && changed[read] != source;
      if (source == 0 || makers[source].empty() || read == value)
        continue;
      if (isHeldForIt || joins) {
        changed[read] = source;
        next.push_back(read);
      } else if (changed[read] != 0 && changed[read] == choice[read] &&
                 !isActive(read)) {
        next.push_back(read);
      }
    }
}

/// The choice behind the move is `changed`.
void SourceSearch::expand(const Move &move) {
  changed = choice;
  changed[move.value] = move.source;
  level.assign(1, move.value);
  for (unsigned depth = 0; depth < move.depth && !level.empty(); ++depth) {
    next.clear();
    if (move.source > 0)
      for (unsigned value : level)
        follow(value, move);
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    std::swap(level, next);
  }
}

/// What the plan with the choice `changed` would be worth; nothing if there is
/// none.
std::optional<Score> SourceSearch::evaluate(int64_t limit) {
  ++numMoves;
  signatures = sources.change(choice, changed, editor.getSignatures());
  if (signatures.empty())
    return std::nullopt;
  PlanEditor::Mark mark = editor.mark();
  std::optional<Score> score;
  if (editor.setSignatures(signatures))
    score = editor.getScoreByOperator(limit);
  editor.undo(mark);
  return score;
}

void SourceSearch::setBase() {
  sources.setBase(editor.getSignatures());
  numSaved = sources.countSaved(editor.getSignatures());
}

/// Makes what was evaluated last.
bool SourceSearch::apply(int64_t limit) {
  PlanEditor::Mark mark = editor.mark();
  if (!editor.setSignatures(signatures)) {
    editor.undo(mark);
    return false;
  }
  editor.keep();
  choice = changed;
  setBase();
  now = editor.getScoreByOperator(limit);
  return true;
}

void SourceSearch::addMoves(unsigned value, std::vector<Move> &moves) const {
  const auto &makers = sources.getValues()[value].makers;
  for (uint8_t source = 0; source < makers.size(); ++source) {
    if (source == 0) {
      if (choice[value] != 0)
        moves.push_back({value, 0, 0, false});
      continue;
    }
    if (makers[source].empty())
      continue;
    for (uint8_t depth : kSourceDepths)
      if (depth > 0 || choice[value] != source)
        moves.push_back({value, source, depth, false});
    if (makers.size() > 2)
      moves.push_back({value, source, kSourceDepths.back(), true});
  }
}

/// Values whose source is another one than `before`, those that their clones
/// read, and, if `isWide`, those whose clones read them.
std::vector<unsigned> SourceSearch::listNear(const SourceChoice &before,
                                             bool isWide) const {
  std::vector<unsigned> near;
  for (unsigned value = 0; value < choice.size(); ++value)
    for (const auto &makers : sources.getValues()[value].makers)
      for (unsigned op : makers)
        for (unsigned read : sources.getRead(op)) {
          if (choice[value] != before[value])
            near.push_back(read);
          if (isWide && choice[read] != before[read])
            near.push_back(value);
        }
  for (unsigned value = 0; value < choice.size(); ++value)
    if (choice[value] != before[value])
      near.push_back(value);
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  return near;
}

//===----------------------------------------------------------------------===//
// Less memory
//===----------------------------------------------------------------------===//

/// Adds what frees bytes: how many, summed over operators, per second.
void SourceSearch::rankFreeing(unsigned value, int64_t limit,
                               std::vector<Ranked> &ranked) {
  std::vector<Move> moves;
  addMoves(value, moves);
  SourceChoice last;
  for (const Move &move : moves) {
    expand(move);
    if (changed == last)
      continue;
    last = changed;
    std::optional<Score> score = evaluate(limit);
    if (!score || score->excess >= now.excess)
      continue;
    double freed = static_cast<double>(now.excess - score->excess);
    double seconds =
        std::max(score->seconds - now.seconds, now.seconds * kEqualCost);
    ranked.push_back({freed / seconds, move});
  }
}

/// Makes values again until at most `limit` is held; false if that leads
/// nowhere.
bool SourceSearch::lower(int64_t limit) {
  now = editor.getScoreByOperator(limit);
  std::vector<Ranked> ranked;
  for (unsigned value = 0; value < choice.size() && now.excess > 0 && mayGoOn();
       ++value)
    rankFreeing(value, limit, ranked);
  std::make_heap(ranked.begin(), ranked.end());
  while (now.excess > 0 && !ranked.empty() && mayGoOn()) {
    std::pop_heap(ranked.begin(), ranked.end());
    Move move = ranked.back().move;
    ranked.pop_back();
    expand(move);
    std::optional<Score> score = evaluate(limit);
    if (!score || score->excess >= now.excess)
      continue;
    double freed = static_cast<double>(now.excess - score->excess);
    double worth = freed / std::max(score->seconds - now.seconds,
                                    now.seconds * kEqualCost);
    if (!ranked.empty() && worth < ranked.front().worth) {
      ranked.push_back({worth, move});
      std::push_heap(ranked.begin(), ranked.end());
      continue;
    }
    SourceChoice before = choice;
    if (!apply(limit))
      continue;
    std::vector<unsigned> near = listNear(before, false);
    for (unsigned value : near)
      rankFreeing(value, limit, ranked);
    std::make_heap(ranked.begin(), ranked.end());
  }
  return now.excess == 0;
}

/// Makes what saves seconds as long as all fits, what saves most first, of
/// these values.
void SourceSearch::giveBack(const std::vector<unsigned> &values) {
  int64_t limit = problem.memoryLimit;
  now = editor.getScoreByOperator(limit);
  std::vector<Ranked> ranked;
  std::vector<Move> moves;
  for (unsigned value : values) {
    if (!mayGoOn())
      break;
    moves.clear();
    if (choice[value] != 0)
      addMoves(value, moves);
    for (const Move &move : moves) {
      expand(move);
      if (std::optional<Score> score = evaluate(limit);
          score && score->isBetterThan(now))
        ranked.push_back({now.seconds - score->seconds, move});
    }
  }
  std::make_heap(ranked.begin(), ranked.end());
  while (!ranked.empty() && mayGoOn()) {
    std::pop_heap(ranked.begin(), ranked.end());
    Ranked next = ranked.back();
    ranked.pop_back();
    expand(next.move);
    std::optional<Score> score = evaluate(limit);
    if (!score || !score->isBetterThan(now))
      continue;
    double worth = now.seconds - score->seconds;
    if (!ranked.empty() && worth < ranked.front().worth) {
      ranked.push_back({worth, next.move});
      std::push_heap(ranked.begin(), ranked.end());
      continue;
    }
    apply(limit);
  }
}

/// The same of all values, and then of those next to what was changed: the
/// others lose room.
void SourceSearch::giveBack() {
  std::vector<unsigned> values(choice.size());
  std::iota(values.begin(), values.end(), 0);
  while (!values.empty() && mayGoOn()) {
    SourceChoice before = choice;
    giveBack(values);
    values = listNear(before, true);
  }
}

//===----------------------------------------------------------------------===//
// The way
//===----------------------------------------------------------------------===//

/// What fits is better if it is faster, what does not if it holds less.
void SourceSearch::record() {
  Score score = editor.getScore();
  bool isSmaller = score.peak < best.peak,
       fits = score.excess == 0 || best.excess == 0;
  if (found && !(fits ? score.isBetterThan(best) : isSmaller))
    return;
  best = score;
  found = editor.getPlan();
}

/// All values from this source, if they have it, or from the one before.
SourceChoice SourceSearch::getAll(uint8_t source) const {
  SourceChoice all;
  for (const SourceValue &value : sources.getValues()) {
    size_t last = std::min<size_t>(source, value.makers.size() - 1);
    all.push_back(value.makers[last].empty() ? 0 : last);
  }
  return all;
}

/// Goes to another choice, which some plan takes.
void SourceSearch::begin(const SourceChoice &from) {
  std::vector<unsigned> wanted = editor.getSignatures();
  sources.write(from, wanted);
  PlanEditor::Mark mark = editor.mark();
  if (editor.setSignatures(editor.listChanges(wanted))) {
    editor.keep();
    choice = from;
  } else {
    editor.undo(mark);
  }
  setBase();
}

/// Makes again and gives back, below shares of the limit, from the choice at
/// hand.
void SourceSearch::searchFromHere(bool isBrief) {
  for (double share : kSourceLimits) {
    auto limit =
        static_cast<int64_t>(share * static_cast<double>(problem.memoryLimit));
    bool isLow = lower(limit);
    SourceChoice low = choice;
    record();
    giveBack();
    record();
    if (!isLow || isBrief || !mayGoOn())
      return;
    begin(low);
  }
}

/// Where nothing fits, goes below less and less of what is held: the way to the
/// limit at once may end before, as it lowers all that is above it.
void SourceSearch::sink() {
  int64_t peak = editor.getScore().peak;
  for (double step = kFirstSink;
       step > kLastSink && best.excess > 0 && mayGoOn();) {
    auto share = static_cast<int64_t>((1 - step) * static_cast<double>(peak));
    SourceChoice before = choice;
    bool isLow = lower(std::max(share, problem.memoryLimit));
    record();
    peak = std::min(peak, now.peak);
    if (isLow)
      continue;
    if (choice == before && share <= problem.memoryLimit)
      return;
    // Where nothing helps, something lowers the highest peak, or nothing does.
    bool isStuck = choice == before && step > 2 * kLastSink;
    step = isStuck ? 1.5 * kLastSink : step / 2;
  }
}

Plan SourceSearch::search(const Plan &plan, uint64_t &work, bool isBrief,
                          const std::function<bool()> &mayProceed) {
  proceeds = &mayProceed;
  editor.set(plan);
  sources.forgetForms();
  choice = sources.read(plan.signatures);
  uint64_t before = editor.getWork();
  numMoves = 0;
  limitOfWork = before + work;
  found.reset();
  record();
  begin(choice);
  searchFromHere(isBrief);
  // Where step by step nothing fits, all is made again: at its reader, or
  // early.
  for (uint8_t source = 0; source <= kMaxSources && !isBrief; ++source)
    if (best.excess > 0 && mayGoOn()) {
      begin(source == 0 ? choice : getAll(source));
      sink();
      searchFromHere(true);
    }
  uint64_t used =
      editor.getWork() - before + numMoves * problem.operators.size() / 8;
  work -= std::min(work, used);
  return *found;
}
