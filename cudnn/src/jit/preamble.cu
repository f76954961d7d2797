// What a generated kernel needs beside the language: NVRTC brings no headers.
typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;

#define NAN_F __int_as_float(0x7fc00000)
#define INF_F __int_as_float(0x7f800000)

__device__ __forceinline__ float load_f16(u16 h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
__device__ __forceinline__ u16 store_f16(float f) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
__device__ __forceinline__ float load_bf16(u16 h) { return __int_as_float(((int)h) << 16); }
__device__ __forceinline__ u16 store_bf16(float f) {
    u32 b = (u32)__float_as_int(f);
    if ((b & 0x7fffffffu) > 0x7f800000u) return (u16)((b >> 16) | 0x40u);
    return (u16)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}
// An 8-bit float with `e` exponent bits and `m` mantissa bits.
__device__ __forceinline__ float load_f8(u8 v, int m, int bias) {
    int sign = v >> 7, exponent = (v & 0x7f) >> m, mantissa = v & ((1 << m) - 1);
    float f = exponent == 0 ? ldexpf((float)mantissa, 1 - bias - m) : ldexpf((float)(mantissa + (1 << m)), exponent - bias - m);
    return sign ? -f : f;
}
__device__ __forceinline__ float load_e4m3(u8 v) { return (v & 0x7f) == 0x7f ? NAN_F : load_f8(v, 3, 7); }
__device__ __forceinline__ float load_e5m2(u8 v) {
    if ((v & 0x7f) > 0x7c) return NAN_F;
    if ((v & 0x7f) == 0x7c) return (v >> 7) ? -INF_F : INF_F;
    return load_f8(v, 2, 15);
}
__device__ __forceinline__ u8 store_f8(float f, int m, int bias, u8 over, u8 nan) {
    u8 sign = (u8)((((u32)__float_as_int(f)) >> 31) << 7);
    float a = fabsf(f);
    if (a != a) return nan;
    int exponent = a == 0.0f ? 1 - bias : ilogbf(a);
    if (exponent < 1 - bias) exponent = 1 - bias;
    // In units of the last place; rounding to even may carry into the next exponent, which the sum below takes care of.
    float units = a < INF_F ? rintf(ldexpf(a, m - exponent)) : INF_F;
    if (exponent > 100 || units > 1e6f) return sign | over;
    int code = (int)units + ((exponent + bias - 1) << m);
    return sign | (code > (int)over ? over : (u8)code);
}
__device__ __forceinline__ u8 store_e4m3(float f) { return store_f8(f, 3, 7, 0x7e, 0x7f); }
__device__ __forceinline__ u8 store_e5m2(float f) { return store_f8(f, 2, 15, 0x7c, 0x7f); }

// Integers: to nearest even, saturating, NaN to 0.
__device__ __forceinline__ int to_i32(float f) { return f != f ? 0 : __float2int_rn(f); }
__device__ __forceinline__ int to_i32(double f) { return f != f ? 0 : __double2int_rn(f); }
__device__ __forceinline__ int to_i32(int v) { return v; }
__device__ __forceinline__ int to_i32(i64 v) { return v > 2147483647LL ? 2147483647 : v < -2147483648LL ? -2147483647 - 1 : (int)v; }
__device__ __forceinline__ i64 to_i64(float f) { return f != f ? 0 : __float2ll_rn(f); }
__device__ __forceinline__ i64 to_i64(double f) { return f != f ? 0 : __double2ll_rn(f); }
__device__ __forceinline__ i64 to_i64(int v) { return v; }
__device__ __forceinline__ i64 to_i64(i64 v) { return v; }
template <class T> __device__ __forceinline__ int to_i8(T v) { int i = to_i32(v); return i > 127 ? 127 : i < -128 ? -128 : i; }

template <class T> __device__ __forceinline__ T min_of(T a, T b) { return a != a ? a : b != b ? b : a < b ? a : b; }
template <class T> __device__ __forceinline__ T max_of(T a, T b) { return a != a ? a : b != b ? b : a > b ? a : b; }
template <class T> __device__ __forceinline__ T abs_of(T a) { return a < (T)0 ? -a : a == (T)0 ? (T)0 : a; }
__device__ __forceinline__ int divide(int a, int b) { return b == 0 ? 0 : b == -1 ? (int)(0u - (u32)a) : a / b; }
__device__ __forceinline__ i64 divide(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? (i64)(0ull - (unsigned long long)a) : a / b; }
__device__ __forceinline__ float divide(float a, float b) { return a / b; }
__device__ __forceinline__ double divide(double a, double b) { return a / b; }
__device__ __forceinline__ int modulo(int a, int b) { return b == 0 || b == -1 ? 0 : a % b; }
__device__ __forceinline__ i64 modulo(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a % b; }
__device__ __forceinline__ float modulo(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double modulo(double a, double b) { return fmod(a, b); }
template <class T> __device__ __forceinline__ T relu(T x, T lower, T upper, T slope) {
    if (x != x) return x;
    return x < lower ? lower + slope * (x - lower) : x < upper ? x : upper;
}
template <class T> __device__ __forceinline__ T sigmoid(T x) { return (T)1 / ((T)1 + exp(-x)); }
template <class T> __device__ __forceinline__ T softplus(T x, T beta) {
    T z = x * beta;
    return (z > (T)0 ? z + log1p(exp(-z)) : log1p(exp(z))) / beta;
}
template <class T> __device__ __forceinline__ T gelu(T x) { return (T)0.5 * x * ((T)1 + erf(x * (T)0.70710678118654752440)); }
template <class T> __device__ __forceinline__ T gelu_tanh(T x) {
    return (T)0.5 * x * ((T)1 + tanh((T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x)));
}
