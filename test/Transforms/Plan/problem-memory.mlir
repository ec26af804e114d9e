// What a problem says of the memory of values: free views lie in the memory of
// their tensor, what one kernel makes and alone reads lies nowhere, and a group
// holds its workspace. A kernel that writes a view of a value holds the value.
// RUN: tandem-opt %s --tandem-plan="mesh=data=2 search=presets problem-out=%t.problem" -o /dev/null
// RUN: FileCheck %s --input-file=%t.problem
// RUN: tandem-plan %t.problem --print-problem | diff %t.problem -
// CHECK: alignment 64
// CHECK: tensor [[#M:]] nn.matmul_0 64x32 4 B{{$}}
// CHECK-NEXT: tensor {{.*}} nn.sum_3 64 4 B inside{{$}}
// CHECK-NEXT: tensor {{.*}} nn.log_4 64 4 B{{$}}
// CHECK: tensor {{.*}} nn.reshape_1 64x8x4 4 B view [[#M]]{{$}}
// CHECK-NEXT: tensor {{.*}} nn.tanh_6 64x8x4 4 B{{$}}
// CHECK: signatures 4
// CHECK-NEXT: data='full -> full' {{.*}} s 0 B
// CHECK: signatures 5
// CHECK-NEXT: data='full, full -> full' {{.*}} s 140288 B
// CHECK-NEXT: data='gather(0), full -> gather(0)' {{.*}} s 74752 B
module {
  func.func @step(
      %w: tensor<16x32xf32> {nn.role = #nn.role<parameter>, nn.name = "w"},
      %v: tensor<32x16xf32> {nn.role = #nn.role<parameter>, nn.name = "v"},
      %k: tensor<8x8x3x3xf32> {nn.role = #nn.role<parameter>, nn.name = "k"},
      %x: tensor<64x16xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0},
      %y: tensor<64x8x4x4xf32> {nn.role = #nn.role<input>, nn.name = "y", nn.batch_dim = 0})
      -> (tensor<64x8x4xf32> {nn.role = #nn.role<output>, nn.name = "a"},
          tensor<64x32xf32> {nn.role = #nn.role<output>, nn.name = "b"},
          tensor<64xf32> {nn.role = #nn.role<output>, nn.name = "c"},
          tensor<64x8x4x4xf32> {nn.role = #nn.role<output>, nn.name = "d"},
          tensor<64x16xf32> {nn.role = #nn.role<output>, nn.name = "e"},
          tensor<64x16xf32> {nn.role = #nn.role<output>, nn.name = "f"}) {
    %0 = nn.matmul %x, %w {nn.id = 0, nn.pass = #nn.pass<forward>} : (tensor<64x16xf32>, tensor<16x32xf32>) -> tensor<64x32xf32>
    %1 = nn.reshape %0 {nn.id = 1, nn.pass = #nn.pass<forward>} : (tensor<64x32xf32>) -> tensor<64x8x4xf32>
    %2 = nn.exp %0 {nn.id = 2, nn.pass = #nn.pass<forward>} : (tensor<64x32xf32>) -> tensor<64x32xf32>
    %3 = nn.sum %2 {dims = array<i64: 1>, nn.id = 3, nn.pass = #nn.pass<forward>} : (tensor<64x32xf32>) -> tensor<64xf32>
    %4 = nn.log %3 {nn.id = 4, nn.pass = #nn.pass<forward>} : (tensor<64xf32>) -> tensor<64xf32>
    %5 = nn.conv %y, %k {stride = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, nn.id = 5, nn.pass = #nn.pass<forward>} : (tensor<64x8x4x4xf32>, tensor<8x8x3x3xf32>) -> tensor<64x8x4x4xf32>
    %6 = nn.tanh %1 {nn.id = 6, nn.pass = #nn.pass<forward>} : (tensor<64x8x4xf32>) -> tensor<64x8x4xf32>
    %7 = nn.reshape %6 {nn.id = 7, nn.pass = #nn.pass<forward>} : (tensor<64x8x4xf32>) -> tensor<64x32xf32>
    %8 = nn.matmul %7, %v {nn.id = 8, nn.pass = #nn.pass<forward>} : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
    %9 = nn.reshape %6 {nn.id = 9, nn.pass = #nn.pass<forward>} : (tensor<64x8x4xf32>) -> tensor<64x32xf32>
    %10 = nn.matmul %9, %v {nn.id = 10, nn.pass = #nn.pass<forward>} : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
    return %1, %0, %4, %5, %8, %10 : tensor<64x8x4xf32>, tensor<64x32xf32>, tensor<64xf32>, tensor<64x8x4x4xf32>, tensor<64x16xf32>, tensor<64x16xf32>
  }
}
