//===- HidupStates.cpp - forms of the live tensors ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HidupStates.h"
#include <algorithm>

using namespace tandem::search::hidup;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

void StateTable::reset(unsigned numSlots) {
  length = numSlots + 1;
  numStates = 0;
  states.clear();
  places.assign(64, 0);
}

size_t StateTable::find(State state) const {
  uint64_t hash = 0;
  for (TensorState tensor : state)
    hash = (hash ^ tensor.getCode()) * 0x9e3779b97f4a7c15u;
  size_t mask = places.size() - 1;
  size_t place = (hash ^ hash >> 32) & mask;
  while (places[place] != 0 && !std::equal(state.begin(), state.end(),
                                           (*this)[places[place] - 1].begin()))
    place = (place + 1) & mask;
  return place;
}

void StateTable::grow() {
  places.assign(2 * places.size(), 0);
  for (unsigned i = 0; i < numStates; ++i)
    places[find((*this)[i])] = i + 1;
}

unsigned StateTable::insert(State state) {
  if (2 * (numStates + 1) > places.size())
    grow();
  size_t place = find(state);
  if (places[place] == 0) {
    states.insert(states.end(), state.begin(), state.end());
    places[place] = ++numStates;
  }
  return places[place] - 1;
}

//===----------------------------------------------------------------------===//
// One operator
//===----------------------------------------------------------------------===//

/// Forgets what no later operator can tell. Nothing if one of them will want
/// what cannot be had.
std::optional<TensorState> Expander::reduce(const Slot &slot,
                                            TensorState state) const {
  FormIndex first = state.getFirst(), second = state.getSecond();
  auto isWanted = [&](FormIndex form) { return slot.wanted >> form & 1; };
  if (state.getKind() == TensorState::Kind::Movable &&
      (model.tensors[slot.tensor].reachable[first] & slot.wanted))
    return state;
  if (!isWanted(first) && !isWanted(second))
    return std::nullopt;
  return TensorState::makeFixed(isWanted(first) ? first : second,
                                isWanted(second) ? second : first);
}

/// All operands are there: adds the results and drops what is dead.
void Expander::finish() {
  Transition done = current;
  unsigned numPlaces = model.operators[op].getNumPlaces();
  done.state.assign(1, TensorState::makeCount(numYoung));
  for (const Slot &slot : model.operators[op + 1].slots) {
    std::optional<TensorState> state =
        slot.before < numPlaces
            ? current.state[slot.before]
            : TensorState::makeMovable(
                  signature->results[slot.before - numPlaces], false);
    state = reduce(slot, *state);
    if (!state)
      return;
    done.state.push_back(*state);
  }
  found.push_back(std::move(done));
}

/// Goes on with the operand changed, and takes that back.
void Expander::take(unsigned operand, const ModelChange &change,
                    TensorState after) {
  TensorState &state =
      current.state[model.operators[op].operandPlaces[operand]];
  TensorState before = state;
  bool hadChange = current.hasChange;
  state = after;
  current.hasChange |= change.isPossible;
  current.forward += change.forward;
  current.backward += change.backward;
  addOperand(operand + 1);
  current.backward -= change.backward;
  current.forward -= change.forward;
  current.hasChange = hadChange;
  state = before;
}

/// Whether another signature of a deferred operator serves its tensor's only
/// reader at no higher cost and holds no more (ties: the earlier one).
bool Expander::isWorse(const ModelTensor &info, const ModelSignature &chosen,
                       FormIndex wanted) const {
  FormIndex form = chosen.results[0];
  const ModelChange &mine = info.getChange(form, wanted);
  for (const ModelSignature &other : model.operators[info.source].signatures) {
    FormIndex otherForm = other.results[0];
    if (otherForm == form || other.residentBytes > chosen.residentBytes)
      continue;
    if (otherForm == wanted)
      return true;
    const ModelChange &theirs = info.getChange(otherForm, wanted);
    bool isEqual = theirs.forward == mine.forward &&
                   theirs.backward == mine.backward &&
                   other.residentBytes == chosen.residentBytes;
    if (theirs.isPossible && theirs.forward <= mine.forward &&
        theirs.backward <= mine.backward && (!isEqual || otherForm < form))
      return true;
  }
  return false;
}

/// Tries each signature of the deferred operator that makes the operand.
void Expander::choose(unsigned operand, FormIndex wanted) {
  const ModelOperator &info = model.operators[op];
  const ModelTensor &tensor = model.tensors[info.operandTensors[operand]];
  bool isOld = current.state[info.operandPlaces[operand]].isOld();
  const auto &choices = model.operators[tensor.source].signatures;
  for (unsigned choice = 0; choice < choices.size(); ++choice) {
    FormIndex form = choices[choice].results[0];
    const ModelChange &change = tensor.getChange(form, wanted);
    bool isMade = form == wanted;
    if (!isMade && (!isOld || !change.isPossible))
      continue;
    if (!isMade && info.isLastUse[operand] &&
        isWorse(tensor, choices[choice], wanted))
      continue;
    current.decisions.push_back({static_cast<unsigned>(tensor.source), choice});
    current.residentBytes += choices[choice].residentBytes;
    take(operand, change,
         isMade ? TensorState::makeMovable(form, isOld)
                : TensorState::makeFixed(form, wanted));
    current.residentBytes -= choices[choice].residentBytes;
    current.decisions.pop_back();
  }
}

void Expander::addOperand(unsigned operand) {
  const ModelOperator &info = model.operators[op];
  if (operand == info.operandPlaces.size())
    return finish();
  unsigned place = info.operandPlaces[operand];
  TensorState state = current.state[place];
  FormIndex wanted = signature->operands[operand];
  if (state.getKind() == TensorState::Kind::Open)
    return choose(operand, wanted);
  if (state.getFirst() == wanted || state.getSecond() == wanted)
    return addOperand(operand + 1);
  const ModelChange &change =
      model.tensors[info.operandTensors[operand]].getChange(state.getFirst(),
                                                            wanted);
  if (state.getKind() == TensorState::Kind::Movable && state.isOld() &&
      change.isPossible)
    take(operand, change, TensorState::makeFixed(state.getFirst(), wanted));
}

/// Makes the pending tensors that are read here places of their own.
void Expander::open(State state) {
  numYoung = state[0].getCode();
  current.state.assign(state.begin() + 1, state.end());
  unsigned numOpenedYoung = 0;
  for (const Opened &opened : model.operators[op].opened) {
    bool isOld = opened.rank >= numYoung;
    current.state.push_back(TensorState::makeOpen(isOld));
    numOpenedYoung += !isOld;
  }
  numYoung -= numOpenedYoung;
}

const std::vector<Transition> &Expander::expand(State state) {
  found.clear();
  const ModelOperator &info = model.operators[op];
  if (info.isDeferred) {
    // One more that is pending; nothing else happens.
    current.state.assign(state.begin(), state.end());
    current.state[0] = TensorState::makeCount(state[0].getCode() + 1);
    found.push_back(current);
    return found;
  }
  open(state);
  for (unsigned i = 0; i < info.signatures.size(); ++i) {
    signature = &info.signatures[i];
    current.decisions.assign(1, {op, i});
    current.computation = signature->computation;
    current.residentBytes = signature->residentBytes;
    addOperand(0);
  }
  return found;
}
