// RUN: sed 's/core: 4/core: 1/; s/size: 3 GiB/size: 224 B/' %source/examples/clusters/laptop.yaml > %t.fits.yaml
// RUN: tandem-compile %s --cluster %t.fits.yaml -o %t.tdm 2>&1 | FileCheck %s --check-prefix=FITS --implicit-check-not=warning
// FITS: remark: preset data-parallel: {{.*}} peak 84 B
// RUN: sed 's/224 B/223 B/' %t.fits.yaml > %t.less.yaml
// RUN: tandem-compile %s --cluster %t.less.yaml -o %t.tdm 2>&1 | FileCheck %s
// RUN: sed 's/224 B/83 B/' %t.fits.yaml > %t.none.yaml
// RUN: tandem-compile %s --cluster %t.none.yaml -o %t.tdm 2>&1 | FileCheck %s --check-prefix=NONE

// A plan that fits, of tensors of 16 bytes, whose buffers begin at multiples of
// 64: two arguments and three buffers. One that does not fit says so itself.

// CHECK: warning: the Program holds 224 B on each device, its plan fits into the 223 B of the cluster: leave room with 'reserved' in the cluster file
// NONE-NOT: the Program holds
// NONE: warning: preset data-parallel: the plan holds 84 B at its peak, a device of 'laptop' has 83 B
// NONE-NOT: the Program holds
func.func @step(
    %x: tensor<2x2xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
    %w: tensor<2x2xf32> {nn.role = #nn.role<parameter>, nn.name = "w"})
    -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}) {
  %0 = nn.matmul %x, %w {nn.pass = #nn.pass<forward>, nn.id = 0 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = nn.matmul %0, %w {nn.pass = #nn.pass<forward>, nn.id = 1 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = nn.matmul %0, %1 {nn.pass = #nn.pass<forward>, nn.id = 2 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %loss = nn.sum %2 {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>, nn.id = 3 : i64} : (tensor<2x2xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
