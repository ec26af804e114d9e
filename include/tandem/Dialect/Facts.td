//===- Facts.td - attributes that dialects declare ---------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FACTS_TD
#define TANDEM_DIALECT_FACTS_TD

include "mlir/IR/OpBase.td"

def Tandem_KnownAttributes : NativeOpTrait<"KnownAttributes"> {
  let cppNamespace = "::tandem";
}

/// What every operator of Tandem's dialects is: one whose attributes are those of
/// its definition and facts (`Facts.h`).
class Tandem_Op<Dialect dialect, string mnemonic, list<Trait> traits = []>
    : Op<dialect, mnemonic, [Tandem_KnownAttributes] # traits>;

#endif // TANDEM_DIALECT_FACTS_TD
