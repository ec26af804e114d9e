//===- Sources.cpp - values that the backward pass may make again ---------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Problem/Sources.h"
#include "Infinity.h"
#include <algorithm>
#include <map>
#include <numeric>

using namespace tandem::cost;
using namespace tandem::search;

static bool isLeftOut(const Signature &signature) {
  return !signature.results.empty() && signature.results.front().isAbsent();
}

Sources::Sources(const Facts &facts, ChangeTable &table)
    : facts(facts), table(table), choosers(facts.problem.operators.size()),
      parents(facts.tensors.size()), sourceOf(facts.tensors.size(), kNone),
      isAlwaysRead(facts.tensors.size()), numReads(facts.tensors.size()),
      wantedAs(facts.tensors.size()),
      formOfClone(facts.problem.operators.size(), -1),
      isPending(facts.problem.operators.size()) {
  if (std::none_of(facts.hasChoice.begin(), facts.hasChoice.end(),
                   [](bool has) { return has; }))
    return;
  std::iota(parents.begin(), parents.end(), 0);
  addChoosers();
  joinValues();
  numberSources();
}

//===----------------------------------------------------------------------===//
// What signatures choose
//===----------------------------------------------------------------------===//

/// The shortest runs of operands of which each signature that is not left out
/// reads one.
void Sources::findRuns(unsigned op, SetChoices &set) const {
  const SignatureSet &signatures = facts.problem.getSignatures(op);
  unsigned numOperands = signatures.front().operands.size();
  for (unsigned first = 0; first < numOperands; ++first) {
    std::vector<unsigned> numRead(signatures.size());
    for (unsigned last = first; last < numOperands; ++last) {
      unsigned least = ~0u, most = 0;
      for (unsigned i = 0; i < signatures.size(); ++i) {
        if (static_cast<int>(i) == set.absent)
          continue;
        numRead[i] += !signatures[i].operands[last].isAbsent();
        least = std::min(least, numRead[i]);
        most = std::max(most, numRead[i]);
      }
      if (most > 1)
        break;
      if (least == 0)
        continue;
      if (last > first)
        set.runs.push_back({first, last - first + 1});
      first = last;
      break;
    }
  }
}

/// Signatures that differ in sources alone have one form.
void Sources::sortForms(unsigned op, SetChoices &set) const {
  const SignatureSet &signatures = facts.problem.getSignatures(op);
  std::map<std::vector<Layout>, unsigned> forms;
  for (unsigned i = 0; i < signatures.size(); ++i) {
    std::vector<Layout> key = signatures[i].operands;
    std::vector<uint8_t> taken;
    for (const Run &run : set.runs) {
      uint8_t place = kNone;
      for (unsigned k = 0; k < run.size; ++k)
        if (!key[run.first + k].isAbsent()) {
          place = k;
          std::swap(key[run.first], key[run.first + k]);
        }
      taken.push_back(place);
    }
    key.insert(key.end(), signatures[i].results.begin(),
               signatures[i].results.end());
    unsigned form = forms.try_emplace(key, forms.size()).first->second;
    set.ofForm.resize(forms.size());
    set.ofForm[form].push_back(i);
    set.formOf.push_back(form);
    set.taken.push_back(std::move(taken));
  }
}

const Sources::SetChoices &Sources::getSet(unsigned op) {
  auto [entry, isNew] =
      sets.try_emplace(facts.problem.operators[op].signatureSet);
  SetChoices &set = entry->second;
  if (!isNew)
    return set;
  const SignatureSet &signatures = facts.problem.getSignatures(op);
  for (unsigned i = 0; i < signatures.size(); ++i)
    if (isLeftOut(signatures[i]))
      set.absent = static_cast<int>(i);
  findRuns(op, set);
  sortForms(op, set);
  return set;
}

void Sources::addChoosers() {
  for (unsigned op = choosers.size(); op-- > 0;) {
    const Operator &info = facts.problem.operators[op];
    if (info.kind != Operator::Kind::Compute) {
      for (unsigned tensor : info.operands)
        isAlwaysRead[tensor] = true;
      continue;
    }
    Chooser &chooser = choosers[op];
    chooser.set = &getSet(op);
    chooser.isOptional = chooser.set->absent >= 0;
    if (chooser.isOptional || !chooser.set->runs.empty())
      order.push_back(op);
    else
      for (unsigned tensor : info.operands)
        isAlwaysRead[tensor] = true;
  }
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

unsigned Sources::findRoot(unsigned tensor) {
  while (parents[tensor] != tensor)
    tensor = parents[tensor] = parents[parents[tensor]];
  return tensor;
}

/// The sources of a run are one value, as are those of runs that move together.
void Sources::joinValues() {
  for (unsigned op : order) {
    const Operator &info = facts.problem.operators[op];
    const SetChoices &set = *choosers[op].set;
    for (unsigned a = 0; a < set.runs.size(); ++a) {
      const Run &run = set.runs[a];
      for (unsigned k = 1; k < run.size; ++k)
        parents[findRoot(info.operands[run.first + k])] =
            findRoot(info.operands[run.first]);
      for (unsigned b = 0; b < a; ++b)
        if (run.size == set.runs[b].size &&
            std::all_of(
                set.taken.begin(), set.taken.end(),
                [&](const auto &taken) { return taken[a] == taken[b]; }))
          parents[findRoot(info.operands[run.first])] =
              findRoot(info.operands[set.runs[b].first]);
    }
  }
}

/// A clone is the source that its place in the longest run says.
void Sources::numberSources() {
  std::vector<unsigned> bySize = order;
  auto getLongest = [&](unsigned op) {
    unsigned longest = 0;
    for (const Run &run : choosers[op].set->runs)
      longest = std::max(longest, run.size);
    return longest;
  };
  std::stable_sort(bySize.begin(), bySize.end(), [&](unsigned a, unsigned b) {
    return getLongest(a) > getLongest(b);
  });
  std::unordered_map<unsigned, unsigned> valueOf;
  for (unsigned op : bySize) {
    const Operator &info = facts.problem.operators[op];
    Chooser &chooser = choosers[op];
    for (const Run &run : chooser.set->runs) {
      unsigned root = findRoot(info.operands[run.first]);
      unsigned value = valueOf.try_emplace(root, values.size()).first->second;
      values.resize(valueOf.size());
      chooser.values.push_back(value);
      values[value].readers.push_back(op);
      chooser.bytes.push_back(
          facts.problem.getBytes(info.operands[run.first], Layout()));
      std::vector<uint8_t> &sources = chooser.sources.emplace_back();
      for (unsigned k = 0; k < run.size; ++k) {
        unsigned tensor = info.operands[run.first + k];
        if (sourceOf[tensor] == kNone) {
          sourceOf[tensor] = k;
          auto &makers = values[value].makers;
          makers.resize(std::max<size_t>(makers.size(), k + 1));
          if (k > 0)
            makers[k].push_back(facts.tensors[tensor].producer);
          else
            values[value].saved.push_back(tensor);
        }
        sources.push_back(sourceOf[tensor]);
      }
    }
  }
}

std::vector<unsigned> Sources::getRead(unsigned op) const {
  return choosers[op].values;
}

//===----------------------------------------------------------------------===//
// Signatures
//===----------------------------------------------------------------------===//

/// The place in a run of a source; of another clone if it is not offered.
uint8_t Sources::findPlace(const std::vector<uint8_t> &sources,
                           uint8_t wanted) {
  auto place = std::find(sources.begin(), sources.end(), wanted);
  if (place == sources.end() && wanted > 0)
    place = std::find_if(sources.begin(), sources.end(),
                         [](uint8_t source) { return source > 0; });
  return place == sources.end() ? 0 : place - sources.begin();
}

SourceChoice Sources::read(const std::vector<unsigned> &signatures) const {
  SourceChoice choice(values.size());
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    const Chooser &chooser = choosers[*i];
    const std::vector<uint8_t> &taken = chooser.set->taken[signatures[*i]];
    for (unsigned run = 0; run < taken.size(); ++run)
      if (taken[run] != kNone)
        choice[chooser.values[run]] = chooser.sources[run][taken[run]];
  }
  return choice;
}

std::vector<unsigned>
Sources::countSaved(const std::vector<unsigned> &signatures) const {
  std::vector<unsigned> counts(values.size());
  for (unsigned op : order) {
    const Chooser &chooser = choosers[op];
    const std::vector<uint8_t> &taken = chooser.set->taken[signatures[op]];
    for (unsigned run = 0; run < taken.size(); ++run)
      counts[chooser.values[run]] +=
          taken[run] != kNone && chooser.sources[run][taken[run]] == 0;
  }
  return counts;
}

/// The signature of the form whose sources are those of most bytes.
unsigned Sources::pick(unsigned op, unsigned form,
                       const SourceChoice &choice) const {
  const Chooser &chooser = choosers[op];
  const std::vector<unsigned> &candidates = chooser.set->ofForm[form];
  unsigned best = candidates.front();
  int64_t least = std::numeric_limits<int64_t>::max();
  if (candidates.size() == 1)
    return best;
  for (unsigned signature : candidates) {
    const std::vector<uint8_t> &taken = chooser.set->taken[signature];
    int64_t wrong = 0;
    for (unsigned run = 0; run < taken.size(); ++run)
      if (taken[run] !=
          findPlace(chooser.sources[run], choice[chooser.values[run]]))
        wrong += chooser.bytes[run] + 1;
    if (wrong < least) {
      least = wrong;
      best = signature;
    }
  }
  return best;
}

/// The cheapest form of a clone that was left out, with changes of layout.
unsigned Sources::findForm(unsigned op,
                           const std::vector<unsigned> &signatures) const {
  const Operator &info = facts.problem.operators[op];
  const SignatureSet &set = facts.problem.getSignatures(op);
  auto getSeconds = [&](unsigned tensor, const Layout &from, const Layout &to) {
    if (from == to || to.isAbsent() || from.isAbsent())
      return 0.0;
    const ChangeCost &change = table.getCost(tensor, from, to);
    return change.isPossible ? change.getTotal(facts.numStrands) : kInfinity;
  };
  unsigned best = set.size() - 1;
  double least = kInfinity;
  for (unsigned i = 0; i < set.size(); ++i) {
    if (isLeftOut(set[i]))
      continue;
    double seconds = set[i].seconds;
    for (unsigned k = 0; k < info.results.size(); ++k)
      if (const Layout *wanted = wantedAs[info.results[k]])
        seconds += getSeconds(info.results[k], set[i].results[k], *wanted);
    for (unsigned k = 0; k < info.operands.size(); ++k)
      seconds += getSeconds(info.operands[k],
                            facts.getProduced(signatures, info.operands[k]),
                            set[i].operands[k]);
    if (seconds < least) {
      least = seconds;
      best = i;
    }
  }
  return choosers[op].set->formOf[best];
}

void Sources::forgetForms() {
  std::fill(formOfClone.begin(), formOfClone.end(), -1);
  std::fill(wantedAs.begin(), wantedAs.end(), nullptr);
}

bool Sources::isWanted(unsigned op) const {
  const std::vector<unsigned> &results = facts.problem.operators[op].results;
  return !choosers[op].isOptional ||
         std::any_of(results.begin(), results.end(), [&](unsigned tensor) {
           return isAlwaysRead[tensor] || numReads[tensor] > 0;
         });
}

/// Those behind the operator have chosen.
unsigned Sources::choose(unsigned op, const SourceChoice &choice,
                         const std::vector<unsigned> &signatures) {
  const SetChoices &set = *choosers[op].set;
  if (!isWanted(op))
    return set.absent;
  int &form = formOfClone[op];
  if (static_cast<int>(signatures[op]) != set.absent)
    form = static_cast<int>(set.formOf[signatures[op]]);
  else if (form < 0)
    form = static_cast<int>(findForm(op, signatures));
  return pick(op, form, choice);
}

/// Adds (1) what the operator reads, or takes it away (-1).
void Sources::addReads(unsigned op, unsigned signature, int sign) {
  const Operator &info = facts.problem.operators[op];
  const Signature &forms = facts.problem.getSignatures(op)[signature];
  for (unsigned k = 0; k < info.operands.size(); ++k) {
    unsigned tensor = info.operands[k];
    if (forms.operands[k].isAbsent())
      continue;
    numReads[tensor] += sign;
    if (sign > 0) {
      oldWanted.emplace_back(tensor, wantedAs[tensor]);
      wantedAs[tensor] = &forms.operands[k];
    }
  }
}

void Sources::write(const SourceChoice &choice,
                    std::vector<unsigned> &signatures) {
  std::fill(numReads.begin(), numReads.end(), 0);
  for (unsigned op : order) {
    signatures[op] = choose(op, choice, signatures);
    addReads(op, signatures[op], 1);
  }
  oldWanted.clear();
}

void Sources::setBase(const std::vector<unsigned> &signatures) {
  std::fill(numReads.begin(), numReads.end(), 0);
  for (unsigned op : order) {
    const SetChoices &set = *choosers[op].set;
    if (static_cast<int>(signatures[op]) != set.absent)
      formOfClone[op] = static_cast<int>(set.formOf[signatures[op]]);
    addReads(op, signatures[op], 1);
  }
  oldWanted.clear();
}

/// The operator has to choose again.
void Sources::push(unsigned op) {
  if (isPending[op])
    return;
  isPending[op] = true;
  pending.push_back(op);
  std::push_heap(pending.begin(), pending.end());
}

const Sources::Changes &Sources::change(const SourceChoice &from,
                                        const SourceChoice &to,
                                        const std::vector<unsigned> &base) {
  changes.clear();
  for (unsigned value = 0; value < values.size(); ++value)
    if (from[value] != to[value])
      for (unsigned reader : values[value].readers)
        push(reader);
  while (!pending.empty()) {
    unsigned op = pending.front();
    std::pop_heap(pending.begin(), pending.end());
    pending.pop_back();
    isPending[op] = false;
    unsigned signature = choose(op, to, base);
    if (signature == base[op])
      continue;
    changes.emplace_back(op, signature);
    addReads(op, base[op], -1);
    addReads(op, signature, 1);
    for (unsigned tensor : facts.problem.operators[op].operands)
      if (unsigned producer = facts.tensors[tensor].producer;
          isOptional(producer))
        push(producer);
  }
  for (auto [op, signature] : changes) {
    addReads(op, signature, -1);
    addReads(op, base[op], 1);
  }
  for (; !oldWanted.empty(); oldWanted.pop_back())
    wantedAs[oldWanted.back().first] = oldWanted.back().second;
  std::reverse(changes.begin(), changes.end());
  return changes;
}
