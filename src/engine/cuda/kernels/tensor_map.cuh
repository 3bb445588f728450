/* SPDX-License-Identifier: MIT */
/* tensor_map: what the tensor copy engine must know of a matrix, made on the host.
 *
 * cuTensorMapEncodeTiled() is the driver's; the runtime finds it, so that nothing is linked
 * against libcuda and the plug-in loads where there is none. */
#ifndef ENGINE_CUDA_TENSOR_MAP_CUH
#define ENGINE_CUDA_TENSOR_MAP_CUH
#include "engine/cuda/kernels/gk_int.h"

#include <cuda.h>
#include <cuda_runtime.h>

typedef decltype(&cuTensorMapEncodeTiled) tensor_map_fn;

/* Looked up once; NULL where the driver has none. */
static inline tensor_map_fn tensor_map_encoder(void)
{
    static tensor_map_fn found; /* the same whoever asks first */
    tensor_map_fn f = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
    enum cudaDriverEntryPointQueryResult how;
    void *p = NULL;

    if (f)
        return f;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &p, 12000, cudaEnableDefault,
                                         &how) != cudaSuccess ||
        how != cudaDriverEntryPointSuccess)
        return NULL;
    f = (tensor_map_fn)p;
    __atomic_store_n(&found, f, __ATOMIC_RELEASE);
    return f;
}

static inline CUtensorMapDataType tensor_map_type(enum gk_type type)
{
    return type == GK_E4M3   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
           : type == GK_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                             : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

/* A matrix of `rows` rows of `cols` numbers, `ld` from row to row, that is fetched in boxes of
 * box_rows x box_cols.  A row of a box has 128 or 64 bytes, and is swizzled by as many. */
static inline cudaError_t tensor_map_rows(CUtensorMap *map, enum gk_type type, const void *at,
                                          int cols, int rows, size_t ld, int box_cols, int box_rows,
                                          CUtensorMapL2promotion promotion)
{
    tensor_map_fn encode = tensor_map_encoder();
    int size = type == GK_E4M3 ? 1 : 2;
    cuuint64_t dims[2] = { (cuuint64_t)cols, (cuuint64_t)rows };
    cuuint64_t strides[1] = { (cuuint64_t)ld * size };
    cuuint32_t box[2] = { (cuuint32_t)box_cols, (cuuint32_t)box_rows }, ones[2] = { 1, 1 };
    CUtensorMapSwizzle swizzle =
        box_cols * size == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;

    if (!encode)
        return cudaErrorNotSupported;
    return encode(map, tensor_map_type(type), 2, (void *)at, dims, strides, box, ones,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

#endif
