/* SPDX-License-Identifier: MIT */
/* gemm_sm90_core: the Hopper instructions that the product is made of, one small function each:
 * barriers in shared memory, the tensor copy engine, warpgroup products, and the GELU that leaves
 * as e4m3 (gk_dev.cuh has the other).
 *
 * Shared addresses are the 32-bit ones of the shared window.  Every tile in shared memory has
 * rows of 128 bytes in the 128-byte swizzle: the 16-byte piece c of row r stands at piece
 * c ^ (r & 7); tiles begin at multiples of 1024 bytes, so the copy engine, the tensor cores and
 * the epilogue agree on it. */
#ifndef ENGINE_CUDA_GEMM_SM90_CORE_CUH
#define ENGINE_CUDA_GEMM_SM90_CORE_CUH
#include "engine/cuda/kernels/gk_dev.cuh"

#include <cuda.h>

namespace sm90
{

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* The same number, in a register rather than worked out again at each use. */
__device__ __forceinline__ uint32_t kept(uint32_t x)
{
    asm volatile("mov.u32 %0, %0;" : "+r"(x));
    return x;
}

/* ---- barriers ---- */
__device__ __forceinline__ void barrier_init(uint32_t bar, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
/* Inits are seen by the copy engine and by the other blocks of the cluster. */
__device__ __forceinline__ void barrier_init_done(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(uint32_t bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
/* The same barrier in block `rank` of the cluster. */
__device__ __forceinline__ void barrier_arrive_at(uint32_t bar, uint32_t rank)
{
    asm volatile("{\n\t.reg .b32 far;\n\t"
                 "mapa.shared::cluster.u32 far, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [far];\n\t}" ::"r"(bar),
                 "r"(rank)
                 : "memory");
}
__device__ __forceinline__ bool barrier_try(uint32_t bar, uint32_t parity)
{
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.b32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return done;
}
/* The same, without waiting even a little. */
__device__ __forceinline__ bool barrier_test(uint32_t bar, uint32_t parity)
{
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.b32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return done;
}
__device__ __forceinline__ void barrier_wait(uint32_t bar, uint32_t parity)
{
    while (!barrier_try(bar, parity)) {
    }
}

/* ---- cluster ---- */
__device__ __forceinline__ uint32_t cluster_rank(void)
{
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
__device__ __forceinline__ void cluster_sync(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/* ---- the copy engine ---- */
__device__ __forceinline__ void map_prefetch(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
__device__ __forceinline__ void tile_load(uint32_t to, const CUtensorMap *map, int x, int y,
                                          uint32_t bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(bar)
                 : "memory");
}
/* To the same place in every block of `mask`, each of whose barriers hears of it. */
__device__ __forceinline__ void tile_load_all(uint32_t to, const CUtensorMap *map, int x, int y,
                                              uint32_t bar, uint16_t mask)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(bar), "h"(mask)
                 : "memory");
}
__device__ __forceinline__ void tile_to_l2(const CUtensorMap *map, int x, int y)
{
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map), "r"(x),
                 "r"(y)
                 : "memory");
}
__device__ __forceinline__ void tile_store(const CUtensorMap *map, int x, int y, uint32_t from)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
        "r"(x), "r"(y), "r"(from)
        : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* This thread's stores have read shared memory. */
__device__ __forceinline__ void stores_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void stores_done(void)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
/* What this thread wrote to shared memory is seen by the copy engine. */
__device__ __forceinline__ void proxy_fence(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* Four 8x8 matrices of 16 bits, from the registers that products leave them in. */
__device__ __forceinline__ void matrices_store(uint32_t to, uint32_t a, uint32_t b, uint32_t c,
                                               uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

__device__ __forceinline__ uint4 shared_load(uint32_t from)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}

__device__ __forceinline__ void shared_put(uint32_t to, float x)
{
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}
__device__ __forceinline__ float2 shared_get2(uint32_t from)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
    return v;
}
/* The threads of warpgroup `group` meet. */
__device__ __forceinline__ void group_sync(int group)
{
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
}

/* ---- warpgroup products ---- */
/* Where a tile is, as the instruction wants it: the low half of its descriptor.  The high half is
 * the same for all: 1024 bytes from one 8 rows to the next, the 128-byte swizzle. */
__device__ __forceinline__ uint32_t tile_place(uint32_t at)
{
    return (at & 0x3ffff) >> 4 | 1 << 16;
}
#define SM90_PLACE_HIGH "0x40000040"
__device__ __forceinline__ void product_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void product_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LEFT> __device__ __forceinline__ void product_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
/* Keeps the compiler from moving work on the sums across this place. */
template <int N> __device__ __forceinline__ void sums_settled(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

#define SM90_OUT8(d, i)                                                                            \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define SM90_OUT32(d, i)                                                                           \
    SM90_OUT8(d, i), SM90_OUT8(d, i + 8), SM90_OUT8(d, i + 16), SM90_OUT8(d, i + 24)
#define SM90_REG32A                                                                                \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"   \
    "%25,%26,%27,%28,%29,%30,%31"
#define SM90_REG32B                                                                                \
    ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,"    \
    "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define SM90_REG32C                                                                                \
    ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,"    \
    "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define SM90_REG32D                                                                                \
    ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114," \
    "%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
/* `a_at`, `b_at`, `add_at`: which operands the two places and the flag are. */
#define SM90_PRODUCT(shape, tail, regs, a_at, b_at, add_at, ...)                                   \
    asm volatile("{\n\t.reg .pred p;\n\t.reg .b64 x, y;\n\tsetp.ne.b32 p, " add_at ", 0;\n\t"      \
                 "mov.b64 x, {" a_at ", " SM90_PLACE_HIGH "};\n\t"                                 \
                 "mov.b64 y, {" b_at ", " SM90_PLACE_HIGH "};\n\t"                                 \
                 "wgmma.mma_async.sync.aligned." shape " {" regs "}, x, y, p, " tail ";\n\t}"      \
                 : __VA_ARGS__                                                                     \
                 : "r"(a), "r"(b), "r"(add))
#define SM90_PRODUCT_TYPES(n, regs, a_at, b_at, add_at, ...)                                       \
    do {                                                                                           \
        if (TYPE == GK_F16)                                                                        \
            SM90_PRODUCT("m64n" n "k16.f32.f16.f16", "1, 1, 0, 0", regs, a_at, b_at, add_at,       \
                         __VA_ARGS__);                                                             \
        else if (TYPE == GK_BF16)                                                                  \
            SM90_PRODUCT("m64n" n "k16.f32.bf16.bf16", "1, 1, 0, 0", regs, a_at, b_at, add_at,     \
                         __VA_ARGS__);                                                             \
        else                                                                                       \
            SM90_PRODUCT("m64n" n "k32.f32.e4m3.e4m3", "1, 1", regs, a_at, b_at, add_at,           \
                         __VA_ARGS__);                                                             \
    } while (0)

/* d (64 rows, 2 * N columns) = a b + (add ? d : 0), over 32 bytes of k. */
template <int TYPE, int N>
__device__ __forceinline__ void product(float (&d)[N], uint32_t a, uint32_t b, int add)
{
    static_assert(N == 32 || N == 64 || N == 96 || N == 128, "columns are 64, 128, 192 or 256");
    if constexpr (N == 32)
        SM90_PRODUCT_TYPES("64", SM90_REG32A, "%32", "%33", "%34", SM90_OUT32(d, 0));
    else if constexpr (N == 64)
        SM90_PRODUCT_TYPES("128", SM90_REG32A SM90_REG32B, "%64", "%65", "%66", SM90_OUT32(d, 0),
                           SM90_OUT32(d, 32));
    else if constexpr (N == 96)
        SM90_PRODUCT_TYPES("192", SM90_REG32A SM90_REG32B SM90_REG32C, "%96", "%97", "%98",
                           SM90_OUT32(d, 0), SM90_OUT32(d, 32), SM90_OUT32(d, 64));
    else
        SM90_PRODUCT_TYPES("256", SM90_REG32A SM90_REG32B SM90_REG32C SM90_REG32D, "%128", "%129",
                           "%130", SM90_OUT32(d, 0), SM90_OUT32(d, 32), SM90_OUT32(d, 64),
                           SM90_OUT32(d, 96));
}

/* ---- registers of a warpgroup ---- */
template <int REGS> __device__ __forceinline__ void registers_take(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGS));
}
template <int REGS> __device__ __forceinline__ void registers_give(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGS));
}

/* ---- results ---- */
/* Beyond the largest number stands that number. */
__device__ __forceinline__ uint32_t pair_f16(float lo, float hi)
{
    uint32_t two;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(hi), "f"(lo));
    return two;
}

/* GELU that is stored as e4m3, with four significant bits: all in f16, by the tanh that erf
 * resembles.  Its error, below 5e-4, is lost in that rounding, up to 6 % of the number; what is
 * stored in 16 bits is never computed so. */
__device__ __forceinline__ __half2 gelu_coarse(float lo, float hi)
{
    uint32_t two = pair_f16(lo, hi), t;
    __half2 x = *reinterpret_cast<__half2 *>(&two), half = __hmul2(x, __float2half2_rn(0.5f));
    __half2 s = __hfma2(__hmul2(x, x), __float2half2_rn(0.0356774f), __float2half2_rn(0.7978846f));
    __half2 y = __hmul2(x, s);

    asm("tanh.approx.f16x2 %0, %1;" : "=r"(t) : "r"(*reinterpret_cast<uint32_t *>(&y)));
    return __hfma2(half, *reinterpret_cast<__half2 *>(&t), half);
}

} // namespace sm90
#endif
