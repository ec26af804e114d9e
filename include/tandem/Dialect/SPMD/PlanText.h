//===- PlanText.h - copies of values in a plan ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a plan says of copies of a value in other forms, and the one way to
// write it, in plan files and in IR.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_PLANTEXT_H
#define TANDEM_DIALECT_SPMD_PLANTEXT_H

#include "tandem/Dialect/SPMD/Form.h"
#include "llvm/ADT/Hashing.h"

namespace tandem::spmd {

/// A part of a collective that waits: the slot in which it is sent, and the
/// share of the collective that is done behind it.
struct Piece {
  unsigned stage = 0, strand = 0;
  double end = 0;
  bool operator==(const Piece &) const = default;
  friend llvm::hash_code hash_value(const Piece &piece) {
    return llvm::hash_combine(piece.stage, piece.strand,
                              llvm::bit_cast<uint64_t>(piece.end));
  }
};

/// The pieces of each of the collectives that follow each other in a change.
using Pieces = llvm::SmallVector<llvm::SmallVector<Piece, 2>, 1>;

/// A copy of a value, for the operators of a pass.
struct Copy {
  std::string pass;
  /// The next pass that uses the value takes the same copy.
  bool isKept = false;
  /// The forms on the way, at least two, one change each.
  llvm::SmallVector<Forms, 2> path;
};

/// A gradient's copy for updates whose collectives wait.
struct Wait {
  Forms forms;
  /// Empty if the slots are to be chosen.
  Pieces pieces;
};

constexpr llvm::StringLiteral kCopyGrammar =
    "RESULT PASS [kept] FORMS -> ... -> FORMS";
constexpr llvm::StringLiteral kWaitGrammar =
    "RESULT FORMS [in STAGE/STRAND SHARE, ... [then STAGE/STRAND SHARE, ...]]";

/// `full, gather(0) -> full, full`
std::string printPath(llvm::ArrayRef<Forms> path);

/// `forward kept full, gather(0) -> full, full`, on as many axes everywhere.
std::string print(const Copy &copy);
std::optional<Copy> parseCopy(llvm::StringRef text);

/// `gather(0), full in 20/1 0.25, 21/0 1 then 21/0 1`. What is wrong with the
/// part behind `in` is no grammar of a whole: it is in `wrongPieces`.
std::string print(const Wait &wait);
std::optional<Wait> parseWait(llvm::StringRef text,
                              llvm::StringRef *wrongPieces = nullptr);

/// `3/1 0.25, 4/0 1 then 4/0 1`. Nothing if it is something else, if the shares
/// of a collective do not rise to 1, or if slots go back.
std::string printPieces(const Pieces &pieces);
std::optional<Pieces> parsePieces(llvm::StringRef text);

/// The shortest text that reads back as the same number.
std::string printNumber(double value);

} // namespace tandem::spmd

#endif // TANDEM_DIALECT_SPMD_PLANTEXT_H
