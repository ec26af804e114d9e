//===- Interpreter.h - runs IR of any stage on simulated ranks -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The meaning of a module of nn, spmd and sched operators, from `import` to
// `schedule`. Every value has one local tensor per point of the mesh (space and
// time); points of an axis on which a value is `full` share it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_INTERPRETER_H
#define TANDEM_REFERENCE_INTERPRETER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Reference/Tensor.h"

namespace tandem::reference {

class Recorder;

/// The type of the whole tensor that argument (result) `index` of `function`
/// is a part of: shape and element type, with its forms as encoding.
mlir::RankedTensorType getArgumentLayout(mlir::func::FuncOp function,
                                         unsigned index);
mlir::RankedTensorType getResultLayout(mlir::func::FuncOp function,
                                       unsigned index);

/// Runs `function` on whole tensors: arguments are cut by their layouts,
/// results put together by theirs. `mesh` may be null (one device).
///
/// Fails, with one error at the place, if an argument has the wrong type, an
/// operator fails at run time, copies of one value differ between the points of
/// an axis on which it is `full`, or a step of `sched` reads a value of the
/// another queue whose event nothing awaited.
///
/// `recorder`, if any, is told what each operator gave.
mlir::FailureOr<std::vector<Tensor>> interpret(mlir::func::FuncOp function,
                                               spmd::MeshAttr mesh,
                                               llvm::ArrayRef<Tensor> arguments,
                                               Recorder *recorder = nullptr);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_INTERPRETER_H
