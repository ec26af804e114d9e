//===- Passes.td - the pass of emit -------------------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_EMIT_PASSES_TD
#define TANDEM_CONVERSION_EMIT_PASSES_TD

include "mlir/Pass/PassBase.td"

def EmitPass : Pass<"tandem-emit", "::mlir::ModuleOp"> {
  let summary = "Writes the Program of lowered IR to a file";
  let description = [{
    Writes what `emitProgram` makes of the module, which stays as it is, to the
    file `output`. On a command line it is a pipeline, which verifies the
    lowered IR first: `--tandem-lower --tandem-emit=output=step.tdm`.
  }];
  let options = [Option<"output", "output", "std::string", /*default=*/"",
                        "The file of the Program">];
}

#endif // TANDEM_CONVERSION_EMIT_PASSES_TD
