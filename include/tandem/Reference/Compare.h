//===- Compare.h - prints and compares results ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_COMPARE_H
#define TANDEM_REFERENCE_COMPARE_H

#include "tandem/Reference/Training.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/Support/raw_ostream.h"

namespace tandem::reference {

/// The largest magnitude of a finite element.
double getLargest(const Tensor &tensor);

/// Whether `found` is `expected` up to rounding: |difference| is at most
/// `tolerance` times the larger one of the largest magnitude and `floor`. The
/// default tolerance is 1e-9 for f64, 1e-4 for f32, 5e-2 for 16-bit types;
/// integers are equal. Elements that are `exempt` are not compared. Says in
/// `reason` what differs most.
bool isClose(const Tensor &expected, const Tensor &found,
             std::optional<double> tolerance, std::string &reason,
             double floor = 0, const llvm::BitVector *exempt = nullptr);

/// Compares all results by key and prints a line per difference. Where a value
/// is zero in exact arithmetic only rounding is left of it, so none is judged
/// finer than a thousandth of the largest value of its role. Adam divides a
/// gradient by its size: elements of a parameter whose first moment
/// (`exp_avg`) is below a thousandth of the largest one are exempt, as in
/// `python -m tandem verify`; a line counts them.
bool areSame(const TrainingResult &expected, const TrainingResult &found,
             std::optional<double> tolerance, llvm::raw_ostream &os);

/// Prints the losses of all steps.
void printLosses(const TrainingResult &run, llvm::raw_ostream &os);
/// Prints a line per result: type, sum, sum of magnitudes, first elements.
void printResults(const TrainingResult &run, llvm::raw_ostream &os);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_COMPARE_H
