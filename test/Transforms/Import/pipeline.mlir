// A stage as a pass pipeline, whose passes nest by themselves.
// RUN: tandem-opt %s --pass-pipeline='builtin.module(tandem-import)' | FileCheck %s
// RUN: not tandem-opt %s --pass-pipeline='builtin.module(func.func(tandem-import))' 2>&1 | FileCheck %s --check-prefix=NESTED
// CHECK: nn.neg {{.*}}nn.id = 0
// NESTED: pipeline 'tandem-import' is on 'func.func', expected 'builtin.module(tandem-import)'
// NESTED-NOT: LLVM ERROR
func.func @step(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<8xf32> {nn.role = #nn.role<output>, nn.name = "y"}) {
  %0 = nn.neg %x {nn.pass = #nn.pass<forward>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
