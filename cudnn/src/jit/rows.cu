// A row is worked on by a warp or by a block; all its threads get what it comes to.
template <class A> __device__ __forceinline__ A warp_sum(A a) {
    for (int s = 16; s > 0; s >>= 1) a += __shfl_xor_sync(0xffffffffu, a, s);
    return a;
}
template <class A> __device__ __forceinline__ A warp_max(A a) {
    for (int s = 16; s > 0; s >>= 1) a = max_of(a, __shfl_xor_sync(0xffffffffu, a, s));
    return a;
}
template <class A> __device__ __forceinline__ A block_sum(A a) {
    __shared__ A parts[8];
    a = warp_sum(a);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = a;
    __syncthreads();
    a = parts[0];
    for (int i = 1; i < 8; i++) a += parts[i];
    return a;
}
template <class A> __device__ __forceinline__ A block_max(A a) {
    __shared__ A parts[8];
    a = warp_max(a);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = a;
    __syncthreads();
    a = parts[0];
    for (int i = 1; i < 8; i++) a = max_of(a, parts[i]);
    return a;
}
