// RUN: tandem-interpret %s --steps 3 --save %t.safetensors | FileCheck %s
// RUN: tandem-interpret %s --data %t.safetensors --steps 1 2>&1 | FileCheck %s --check-prefix=RESUMED
// RUN: tandem-interpret %s --compare %s
// RUN: tandem-interpret %s --print-signature | FileCheck %s --check-prefix=SIGNATURE --match-full-lines
// RUN: sed 's/dense<3.0>/dense<3.1>/' %s > %t.other.mlir
// RUN: not tandem-interpret %t.other.mlir --compare %s 2>&1 | FileCheck %s --check-prefix=DIFFERENT

// A result updates an argument; the next step sees it.
// CHECK: step 0 loss/loss 0
// CHECK: step 1 loss/loss 3
// CHECK: step 2 loss/loss 6
// RESUMED: step 0 loss/loss 9
// DIFFERENT: error: 'step/step' differs most at element 0: 3.1{{[0-9]*}}, expected 3
// SIGNATURE: argument state/count tensor<i64>
// SIGNATURE-NEXT: argument step/step tensor<f64>
// SIGNATURE-NEXT: result loss/loss tensor<f64>
// SIGNATURE-NEXT: result step/step tensor<f64>
func.func @step(%s: tensor<i64> {nn.role = #nn.role<state>, nn.name = "count"},
                %x: tensor<f64> {nn.role = #nn.role<step>, nn.name = "step"})
    -> (tensor<f64> {nn.role = #nn.role<loss>, nn.name = "loss"},
        tensor<f64> {nn.role = #nn.role<step>, nn.name = "step", nn.updates = 1 : i64}) {
  %0 = nn.constant dense<3.0> : tensor<f64> -> tensor<f64>
  %1 = nn.add %x, %0 : (tensor<f64>, tensor<f64>) -> tensor<f64>
  return %x, %1 : tensor<f64>, tensor<f64>
}
