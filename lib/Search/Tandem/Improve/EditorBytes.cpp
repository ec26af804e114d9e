//===- EditorBytes.cpp - memory of an edited plan -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/Editor.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

void PlanEditor::setOperator(unsigned op) {
  if (!hasLimit)
    return;
  const Signature &signature = problem.getSignatures(op)[edited.signatures[op]];
  held.setOperator(op, signature.workspace,
                   !problem.operators[op].isArgument() &&
                       facts.isPerStrand(signature));
}

/// Adds what all strands together hold up to operator `death`.
static void addOnce(int64_t bytes, int64_t OperatorBytes::*from, unsigned birth,
                    unsigned death, std::vector<HeldEntry> &entries) {
  entries.push_back({from, birth, bytes});
  entries.push_back({&OperatorBytes::deaths, death, bytes});
}

/// From the stage of operator `first` on.
void PlanEditor::listCopy(const EditedCopy &copy, unsigned first,
                          std::vector<HeldEntry> &entries) const {
  if (copy.isInPlace)
    return;
  if (!facts.isOverTime(copy.copy.layout)) {
    addOnce(copy.bytes, &OperatorBytes::copyBirths, first, copy.lastOp,
            entries);
    return;
  }
  int64_t share = copy.bytes / facts.numStrands;
  entries.push_back({&OperatorBytes::copyShares, first, share});
  entries.push_back({&OperatorBytes::goneShares, copy.lastOp, share});
}

/// A tensor in its producer's layout until operator `last`, and its sum.
void PlanEditor::listTensor(unsigned tensor, unsigned last, unsigned lastOfSum,
                            std::vector<HeldEntry> &entries) const {
  const EditedTensor &made = tensors[tensor];
  unsigned producer = facts.tensors[tensor].producer;
  bool isArgument = facts.isArgument(producer);
  unsigned birth = isArgument ? 0 : producer;
  if (made.isInPlace)
    return;
  if (made.isSummed)
    addOnce(made.summedBytes, &OperatorBytes::lateBirths, birth,
            std::max(lastOfSum, birth), entries);
  if (isArgument || facts.isInKernel(tensor, made.isSummed, last))
    return;
  birth = problem.tensors[tensor].getFirstHeld(birth);
  int64_t share = made.bytes / facts.numStrands;
  if (made.isSummed && !made.keepsTerms) {
    entries.push_back({&OperatorBytes::termShares, birth, share});
  } else if (made.isOverTime) {
    entries.push_back({&OperatorBytes::shares, birth, share});
    entries.push_back({&OperatorBytes::goneShares, last, share});
  } else {
    addOnce(made.bytes, &OperatorBytes::births, birth, last, entries);
  }
}

void PlanEditor::addBytes(unsigned tensor, int sign) {
  const EditedTensor &made = tensors[tensor];
  if (facts.isArgument(facts.tensors[tensor].producer))
    held.addArguments(sign * made.bytes);
  scratch.clear();
  if (isLate(tensor))
    dropLate(tensor);
  else
    listTensor(tensor, made.lastOp, made.lastOp, scratch);
  for (const EditedCopy &copy : made.copies)
    if (!copy.waits)
      listCopy(copy, copy.op, scratch);
  for (const HeldEntry &entry : scratch)
    held.add(entry, sign);
}

//===----------------------------------------------------------------------===//
// What waits, and what shares its memory
//===----------------------------------------------------------------------===//

/// Whether a view lies in the memory of its root.
bool PlanEditor::isFolded(unsigned tensor) const {
  return facts.isFolded(
      tensor, facts.getProduced(edited.signatures, tensor),
      facts.getProduced(edited.signatures, facts.roots[tensor]),
      tensors[tensor].isSummed);
}

/// The last one that takes the tensor, or that of the stage in which the last
/// copy of it is made.
unsigned PlanEditor::getLastOp(unsigned tensor) const {
  const EditedTensor &made = tensors[tensor];
  unsigned last = made.lastOp;
  for (unsigned i = 0; i < made.copies.size(); ++i)
    if (made.copies[i].waits)
      last = std::max(last, spans[tensor][i].lastOp);
  return last;
}

/// What the memory of a root holds: of tensors with copies that wait until the
/// last one is made, of a root as long as its views.
void PlanEditor::listLate(unsigned root,
                          std::vector<HeldEntry> &entries) const {
  unsigned lastOfSum = getLastOp(root), last = lastOfSum;
  auto listWaiting = [&](unsigned tensor) {
    const std::vector<EditedCopy> &copies = tensors[tensor].copies;
    for (unsigned i = 0; i < copies.size(); ++i)
      if (copies[i].waits) {
        int first = spans[tensor][i].first;
        unsigned op = copies[i].op;
        listCopy(copies[i], first < 0 ? op : std::min<unsigned>(first, op),
                 entries);
      }
  };
  listWaiting(root);
  for (unsigned view : viewsOf[root]) {
    unsigned lastOfView = getLastOp(view);
    listWaiting(view);
    if (isFolded(view))
      last = std::max(last, lastOfView);
    else
      listTensor(view, lastOfView, lastOfView, entries);
  }
  listTensor(root, last, lastOfSum, entries);
}

/// What the memory of the tensor holds counts again when all is known.
void PlanEditor::dropLate(unsigned tensor) {
  unsigned root = facts.roots[tensor];
  for (const HeldEntry &entry : late[root].held)
    held.add(entry, -1);
  late[root].held.clear();
  if (!late[root].isOpen)
    openLate.push_back(root);
  late[root].isOpen = true;
}

void PlanEditor::holdLate() {
  for (unsigned root : openLate) {
    late[root].isOpen = false;
    if (!isLate(root))
      continue;
    listLate(root, late[root].held);
    for (const HeldEntry &entry : late[root].held)
      held.add(entry, 1);
  }
  openLate.clear();
}
