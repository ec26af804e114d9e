//===- HidupStates.h - forms of the live tensors ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A state is HiDup's (section 4.1): the tensors on a cut and their forms. With
// the open stage inside the label it also says which of them existed when that
// stage began, since only those can be changed in it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_HIDUPSTATES_H
#define TANDEM_LIB_SEARCH_HIDUPSTATES_H

#include "HidupModel.h"
#include <span>

namespace tandem::search::hidup {

/// What is known of one live tensor, reduced to what later operators can tell
/// apart.
class TensorState {
public:
  enum class Kind : uint8_t {
    /// Its operator is deferred, and it is being read for the first time: it
    /// may
    /// have any form that its producer gives.
    Open,
    /// It has one form and may still get a copy.
    Movable,
    /// It can be read in `first` or `second` (which may be equal) and in no
    /// other form.
    Fixed
  };

  static TensorState makeOpen(bool isOld) { return {Kind::Open, 0, 0, isOld}; }
  static TensorState makeMovable(FormIndex form, bool isOld) {
    return {Kind::Movable, form, form, isOld};
  }
  /// No tensor: the first entry of a state, see there.
  static TensorState makeCount(unsigned count) {
    TensorState state = makeOpen(false);
    state.code = count;
    return state;
  }
  static TensorState makeFixed(FormIndex a, FormIndex b) {
    return {Kind::Fixed, std::min(a, b), std::max(a, b), false};
  }

  Kind getKind() const { return static_cast<Kind>(code & 3); }
  FormIndex getFirst() const { return code >> 3 & 63; }
  FormIndex getSecond() const { return code >> 9 & 63; }
  /// Whether it existed before the open stage; false if that does not matter.
  bool isOld() const { return code & 4; }
  TensorState makeOld() const {
    TensorState old = *this;
    if (getKind() != Kind::Fixed)
      old.code |= 4;
    return old;
  }
  bool operator==(const TensorState &) const = default;
  uint16_t getCode() const { return code; }

private:
  TensorState(Kind kind, FormIndex first, FormIndex second, bool isOld)
      : code(static_cast<unsigned>(kind) | isOld << 2 | first << 3 |
             second << 9) {}
  uint16_t code;
};

/// How many of the pending tensors did not exist when the open stage began
/// (those are the ones made last), and the tensors in the slots.
using State = std::span<const TensorState>;

/// Numbers states of equal length in order of appearance.
class StateTable {
public:
  void reset(unsigned numSlots);
  unsigned insert(State state);
  State operator[](unsigned index) const {
    return {states.data() + size_t(index) * length, length};
  }
  unsigned size() const { return numStates; }

private:
  void grow();
  size_t find(State state) const;

  unsigned length = 0, numStates = 0;
  std::vector<TensorState> states;
  /// Open addressing: number of a state plus one, or 0. A power of two.
  std::vector<uint32_t> places;
};

/// The signature that an operator takes.
struct Decision {
  unsigned op, signature;
};

/// What an operator adds to a label in some state, with one signature (and one
/// choice for each deferred operator whose result it is the first to read).
struct Transition {
  std::vector<TensorState> state;
  bool hasChange = false;
  Time forward = 0, backward = 0, computation = 0;
  int64_t residentBytes = 0;
  std::vector<Decision> decisions;
};

/// All transitions of operator `op` from `state`; none if the state is a dead
/// end.
class Expander {
public:
  Expander(const Model &model, unsigned op) : model(model), op(op) {}
  const std::vector<Transition> &expand(State state);

private:
  void open(State state);
  void addOperand(unsigned operand);
  void choose(unsigned operand, FormIndex wanted);
  bool isWorse(const ModelTensor &info, const ModelSignature &chosen,
               FormIndex wanted) const;
  void take(unsigned operand, const ModelChange &change, TensorState after);
  void finish();
  std::optional<TensorState> reduce(const Slot &slot, TensorState state) const;

  const Model &model;
  unsigned op;
  const ModelSignature *signature = nullptr;
  /// Of the pending tensors, behind the operator.
  unsigned numYoung = 0;
  /// While operands are added, its state is that of the places.
  Transition current;
  std::vector<Transition> found;
};

} // namespace tandem::search::hidup

#endif // TANDEM_LIB_SEARCH_HIDUPSTATES_H
