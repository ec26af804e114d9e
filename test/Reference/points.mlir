// Functions of points that cannot run, or do not give what they should.
// RUN: tandem-interpret %s --print-results | FileCheck %s
// RUN: sed 's/receive from 0 tag 0/receive from 0 tag 7/' %s > %t.tag.mlir
// RUN: not tandem-interpret %t.tag.mlir 2>&1 | FileCheck %s --check-prefix=TAG
// RUN: sed 's/^    sched.send .*/    %z = sched.zeros : tensor<f32>\n    sched.send %z to 1 tag 0 : tensor<f32>/' %s > %t.type.mlir
// RUN: not tandem-interpret %t.type.mlir 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: sed '/^    sched.give/d' %s > %t.give.mlir
// RUN: not tandem-interpret %t.give.mlir 2>&1 | FileCheck %s --check-prefix=GIVE
// RUN: sed 's/as 0 :/as 3 :/' %s > %t.index.mlir
// RUN: not tandem-interpret %t.index.mlir 2>&1 | FileCheck %s --check-prefix=INDEX
// RUN: sed 's/func.func @p1/func.func @other/' %s > %t.point.mlir
// RUN: not tandem-interpret %t.point.mlir 2>&1 | FileCheck %s --check-prefix=POINT
// RUN: sed 's/sched.run @s1.F(%0, %0) : (tensor<2xf32>, tensor<2xf32>)/sched.run @s1.F(%0) : (tensor<2xf32>)/' %s > %t.inputs.mlir
// RUN: not tandem-interpret %t.inputs.mlir 2>&1 | FileCheck %s --check-prefix=INPUTS

// CHECK: output/y : tensor<f32> sum 0.471703
// TAG: error: 'sched.receive' op of point 1 waits for tag 7 of point 0, which does not send it
// TYPE: error: 'sched.receive' op takes a 'tensor<2xf32>', but tag 0 is a 'tensor<f32>'
// GIVE: error: result 0 is not given by point 1, which holds it
// INDEX: error: 'sched.give' op gives result 3 of 1
// POINT: error: has no function 'p1' of one block with 1 arguments, which point 1 runs
// INPUTS: error: 'sched.run' op has inputs of types 'tensor<2xf32>', expected those of the action: 'tensor<2xf32>', 'tensor<2xf32>'

#mesh = #spmd.mesh<pipe = 2>
#at0 = #spmd.form<#mesh, pipe: at(0)>
#at1 = #spmd.form<#mesh, pipe: at(1)>
module attributes {spmd.mesh = #mesh, spmd.pipe = "pipe"} {
  func.func private @step(tensor<2xf32, #at0> {nn.name = "x", nn.role = #nn.role<input>, spmd.layout = tensor<2xf32, #at0>})
      -> (tensor<f32, #at1> {nn.name = "y", nn.role = #nn.role<output>, spmd.layout = tensor<f32, #at1>})
  module @s1.F attributes {spmd.mesh = #mesh} {
    func.func @step(%x: tensor<2xf32> {spmd.layout = tensor<2xf32>}, %y: tensor<2xf32>) -> tensor<f32> {
      %0 = nn.mul %x, %y : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %1 = nn.sum %0 {dims = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
      return %1 : tensor<f32>
    }
  }
  func.func @p0(%x: tensor<2xf32>) {
    sched.send %x to 1 tag 0 : tensor<2xf32>
    return
  }
  func.func @p1(%x: tensor<2xf32>) {
    %0 = sched.receive from 0 tag 0 : tensor<2xf32>
    %1 = sched.run @s1.F(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
    sched.give %1 as 0 : tensor<f32>
    return
  }
}
