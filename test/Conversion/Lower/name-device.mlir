// RUN: tandem-opt --tandem-name-device %s | FileCheck %s
// RUN: tandem-opt --tandem-name-device=device=cpu %s | FileCheck %s
// RUN: not tandem-opt --tandem-name-device=device=abacus %s 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not tandem-opt --tandem-lower=device=abacus %s 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not tandem-compile --device abacus %s -o %t.tdm 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK: module attributes {sched.device = #sched.device<cpu>}
// UNKNOWN: unknown device 'abacus', expected one of cpu, cuda, cuda.sm_80, cuda.sm_90, cuda.emulated
func.func @step(%arg0: tensor<4xf32> {nn.name = "x", nn.role = #nn.role<input>, spmd.layout = tensor<4xf32>})
    -> (tensor<4xf32> {nn.role = #nn.role<output>, spmd.layout = tensor<4xf32>}) {
  return %arg0 : tensor<4xf32>
}
