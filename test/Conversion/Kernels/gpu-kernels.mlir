// RUN: tandem-opt %s --tandem-decompose-nn --tandem-nn-to-linalg --tandem-kernels-to-loops | FileCheck %s

module attributes {sched.device = #sched.device<cuda>} {

// Nothing is reduced: four neighbours are a thread's where all buffers begin at
// multiples of 16 bytes, else one. One buffer that it reads, one that it
// writes, and where an index would be reported.
// CHECK-LABEL: llvm.func @flat_kernel_0(
// CHECK-SAME: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr, %{{.*}}: i64) attributes {nvvm.kernel, nvvm.maxntid = array<i32: 256>}
// CHECK: scf.if
// CHECK: llvm.intr.assume %{{.*}} ["align"(%arg0, %c16
// CHECK: llvm.intr.assume %{{.*}} ["align"(%arg1, %c16
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: %[[CHUNKS:.*]] = arith.constant 800 : i64
// CHECK: scf.for {{.*}} to %[[CHUNKS]]
// CHECK-COUNT-4: math.exp
// CHECK: } else {
// CHECK: %[[ALL:.*]] = arith.constant 3200 : i64
// CHECK: scf.for {{.*}} to %[[ALL]]
// CHECK: math.exp
// CHECK-NOT: math.exp
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
func.func @flat(%x: tensor<4x8x100xf32>) -> tensor<4x8x100xf32> {
  %0 = nn.exp %x : (tensor<4x8x100xf32>) -> tensor<4x8x100xf32>
  return %0 : tensor<4x8x100xf32>
}

// A row is a team's of 16 threads, four teams are a block: each thread reads
// four neighbours once, reduces them by shuffles for the largest element and for
// the sum, and evaluates none again.
// CHECK-LABEL: llvm.func @softmax_kernel_0(
// CHECK: scf.if
// CHECK: %[[TEAMS:.*]] = arith.constant 4 : i64
// CHECK: scf.for
// CHECK-COUNT-4: llvm.load
// CHECK-COUNT-4: nvvm.shfl.sync  bfly
// CHECK-NOT: llvm.load
// CHECK-COUNT-4: math.exp
// CHECK-COUNT-4: nvvm.shfl.sync  bfly
// CHECK-NOT: nvvm.shfl
// CHECK-NOT: math.exp
// CHECK-COUNT-4: llvm.store
// CHECK: } else {
// CHECK: llvm.return
func.func @softmax(%x: tensor<12x64xf32>) -> tensor<12x64xf32> {
  %0 = nn.softmax %x {dim = 1 : i64} : (tensor<12x64xf32>) -> tensor<12x64xf32>
  return %0 : tensor<12x64xf32>
}

// Of more than 32 threads, each warp's are passed on in shared memory.
// CHECK-LABEL: llvm.func @long_kernel_0(
// CHECK-COUNT-5: nvvm.shfl.sync  bfly
// CHECK: scf.if
// CHECK: llvm.store
// CHECK: nvvm.barrier
// CHECK-COUNT-8: llvm.load
// CHECK: nvvm.barrier
// CHECK: llvm.return
func.func @long(%x: tensor<12x1024xf32>) -> tensor<12xf32> {
  %0 = nn.sum %x {dims = array<i64: 1>} : (tensor<12x1024xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// Where a row does not divide by the threads, those that have none do the last
// element, and neither count nor store it.
// CHECK-LABEL: llvm.func @odd_kernel_0(
// CHECK: scf.for
// CHECK: %[[IS_THERE:.*]] = arith.cmpi slt
// CHECK: arith.select %[[IS_THERE]]
// CHECK: llvm.load
// CHECK: arith.maximumf
// CHECK: arith.select %[[IS_THERE]]
// CHECK: nvvm.shfl.sync  bfly
// CHECK-NOT: !llvm.ptr -> f32
// CHECK: math.exp
// CHECK-NOT: math.exp
// CHECK-NOT: !llvm.ptr -> f32
// CHECK: scf.if
// CHECK: llvm.store {{.*}} !llvm.ptr{{$}}
// CHECK: llvm.return
func.func @odd(%x: tensor<12x63xf32>) -> tensor<12x63xf32> {
  %0 = nn.softmax %x {dim = 1 : i64} : (tensor<12x63xf32>) -> tensor<12x63xf32>
  return %0 : tensor<12x63xf32>
}

// Sums over rows: each thread has those of its columns in registers until all
// rows of the block are done, then the block's lie in the scratch. In a second
// part each of eight warps has those of every eighth block, of which it reads 16
// before it adds them up, and what the warps have is added up in their order.
// CHECK-LABEL: llvm.func @columns_kernel_0(
// CHECK-COUNT-6: llvm.alloca
// CHECK: scf.if
// CHECK-COUNT-4: llvm.store
// CHECK: scf.for
// CHECK-COUNT-4: arith.addf
// CHECK: }
// CHECK: scf.if
// CHECK-COUNT-4: llvm.store {{.*}} : f32
// CHECK-NOT: nvvm.barrier
// CHECK-LABEL: llvm.func @columns_kernel_1(
// CHECK: %[[PIECES:.*]] = arith.constant 2 : i64
// CHECK: scf.for {{.*}} to %[[PIECES]]
// CHECK: %[[TURNS:.*]] = arith.constant 2 : i64
// CHECK: scf.for {{.*}} to %[[TURNS]]
// CHECK-COUNT-16: llvm.load
// CHECK-COUNT-16: arith.addf
// CHECK: llvm.store
// CHECK: nvvm.barrier
// CHECK-COUNT-7: arith.addf
// CHECK: llvm.store
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
func.func @columns(%x: tensor<1000x64xf32>) -> tensor<64xf32> {
  %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<1000x64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// A sum of which not every block can have its own: a thread adds up for each
// element, in a launch of its own behind that of the other sums.
// CHECK-LABEL: llvm.func @large_kernel_0(
// CHECK: nvvm.barrier
// CHECK-LABEL: llvm.func @large_kernel_1(
// CHECK-NOT: nvvm.barrier
// CHECK: %[[BATCH:.*]] = arith.constant 3 : i64
// CHECK: scf.for {{.*}} to %[[BATCH]]
// CHECK: arith.addf
// CHECK: llvm.return
func.func @large(%x: tensor<3x64x1200xf32>) -> (tensor<3x64xf32>, tensor<64x1200xf32>) {
  %0 = nn.exp %x : (tensor<3x64x1200xf32>) -> tensor<3x64x1200xf32>
  %1 = nn.sum %0 {dims = array<i64: 2>} : (tensor<3x64x1200xf32>) -> tensor<3x64xf32>
  %2 = nn.sum %0 {dims = array<i64: 0>} : (tensor<3x64x1200xf32>) -> tensor<64x1200xf32>
  return %1, %2 : tensor<3x64xf32>, tensor<64x1200xf32>
}

// What is summed as a whole: its outer dimension is rows, of 64 teams, whose
// sums are added up in the order of teams.
// CHECK-LABEL: llvm.func @whole_kernel_0(
// CHECK: nvvm.barrier
// CHECK: %[[ROWS:.*]] = arith.constant 64 : i64
// CHECK: scf.for {{.*}} to %[[ROWS]]
// CHECK: nvvm.shfl.sync  bfly
// CHECK-LABEL: llvm.func @whole_kernel_1(
// CHECK-COUNT-8: llvm.load
// CHECK-COUNT-8: arith.addf
// CHECK: nvvm.barrier
// CHECK-COUNT-7: arith.addf
// CHECK: llvm.return
func.func @whole(%x: tensor<64x1024xf32>) -> tensor<f32> {
  %0 = nn.sum %x {dims = array<i64: 0, 1>} : (tensor<64x1024xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// What is read across is read along its own rows, in squares of 32, through
// shared memory, of which each thread has four rows; what is not is read where
// it is needed. Indices that 32 bits have are divided by 32 bits.
// CHECK-LABEL: llvm.func @transposed_kernel_0(
// CHECK: %[[SQUARES:.*]] = arith.constant 3 : i64
// CHECK: scf.for {{.*}} to %[[SQUARES]]
// CHECK: arith.trunci {{.*}} : i64 to i32
// CHECK: arith.remui {{.*}} : i32
// CHECK: arith.divui {{.*}} : i32
// CHECK-COUNT-4: llvm.store {{.*}} !llvm.ptr<3>
// CHECK-NOT: llvm.store
// CHECK: nvvm.barrier
// CHECK: llvm.load {{.*}} : !llvm.ptr<3>
// CHECK: llvm.load {{.*}} : !llvm.ptr ->
// CHECK: llvm.store {{.*}} !llvm.ptr{{$}}
// CHECK-COUNT-3: llvm.load {{.*}} : !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK: llvm.return
func.func @transposed(%x: tensor<30x70xf32>, %y: tensor<70x30xf32>) -> tensor<70x30xf32> {
  %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<30x70xf32>) -> tensor<70x30xf32>
  %1 = nn.add %0, %y : (tensor<70x30xf32>, tensor<70x30xf32>) -> tensor<70x30xf32>
  return %1 : tensor<70x30xf32>
}

// Rows at an index that have few terms: a warp for each of the 90 indices finds
// the next one that is equal, and whether there is one before; a thread at the
// first one follows them.
// CHECK-LABEL: llvm.func @few_kernel_0(
// CHECK: %[[LAST:.*]] = arith.constant 89 : i64
// CHECK: arith.minsi %{{.*}}, %[[LAST]]
// CHECK: scf.for {{.*}} iter_args
// CHECK: arith.cmpi eq
// CHECK-COUNT-10: nvvm.shfl.sync  bfly
// CHECK-NOT: nvvm.shfl
// CHECK-LABEL: llvm.func @few_kernel_1(
// CHECK: arith.constant 450 : i64
// CHECK: scf.while
// CHECK: arith.addf
// CHECK: llvm.store
// CHECK-NOT: @few_kernel_2
func.func @few(%g: tensor<90x5xf32>, %i: tensor<90xi64>) -> tensor<40x5xf32> {
  %0 = nn.embedding_backward %g, %i : (tensor<90x5xf32>, tensor<90xi64>) -> tensor<40x5xf32>
  return %0 : tensor<40x5xf32>
}

// Many terms: a table of sums for each of three chunks of 71, and their sum.
// CHECK-LABEL: llvm.func @many_kernel_0(
// CHECK: %[[THREADS:.*]] = arith.constant 15 : i64
// CHECK: scf.for {{.*}} to %[[THREADS]]
// CHECK: arith.constant 71 : i64
// CHECK: arith.addf
// CHECK-LABEL: llvm.func @many_kernel_1(
// CHECK: %[[CHUNKS:.*]] = arith.constant 3 : i64
// CHECK: scf.for {{.*}} to %[[CHUNKS]]
// CHECK: arith.addf
// CHECK-NOT: @many_kernel_2
func.func @many(%g: tensor<211x5xf32>, %i: tensor<211xi64>) -> tensor<2x5xf32> {
  %0 = nn.embedding_backward %g, %i : (tensor<211x5xf32>, tensor<211xi64>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

}
