//===- SPMDInterfaces.td - how forms pass an operator ------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_INTERFACES_TD
#define TANDEM_DIALECT_SPMD_INTERFACES_TD

include "mlir/IR/OpBase.td"

def SignatureOpInterface : OpInterface<"SignatureOpInterface"> {
  let cppNamespace = "::tandem::spmd";
  let description = [{
    An operator whose results' forms follow from its operands' forms by a rule
    (`Rule.h`). The verifier checks on every axis that the forms in the types
    are one of the rule's signatures.
  }];
  let methods = [
    InterfaceMethod<"The sharding rule, for the shapes in the types.",
                    "::tandem::spmd::Rule", "getRule">,
  ];
  // With regions: after the operator's own verifier, so that shapes are right.
  let verifyWithRegions = 1;
  let verify = [{ return ::tandem::spmd::verifySignature($_op); }];
}

#endif // TANDEM_DIALECT_SPMD_INTERFACES_TD
