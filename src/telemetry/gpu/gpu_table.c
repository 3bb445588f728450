/* SPDX-License-Identifier: MIT */
/* gpu_table: which metric comes from which question, and how often it is asked.
 *
 * Paces come from what the questions cost on an H200 (stoker agent --gpu-sample): what the driver
 * keeps at hand is asked each time, what it fetches from the GPU for a millisecond every fifth,
 * what changes in days every thirtieth.  A value stands until it is asked again. */
#include "telemetry/gpu/gpu_int.h"

const char *const gpu_row_ids[GPU_ROW_COUNT] = {
#define GPU_ROW(name, id) [GPU_ROW_##name] = id,
#define GPU_LINK_ROW(name, id)
#include "telemetry/gpu/gpu_rows.h"
};

const char *const gpu_link_row_ids[GPU_LINK_ROWS] = {
#define GPU_ROW(name, id)
#define GPU_LINK_ROW(name, id) [GPU_LINK_##name] = id,
#include "telemetry/gpu/gpu_rows.h"
};

#define KIB 1024.0

/* Volatile ECC counts are the driver's since it was loaded, by their name; the aggregates are
 * kept by the GPU: neither is carried over. */
const struct gpu_field gpu_fields[] = {
    { NVML_FI_DEV_MEMORY_TEMP, GPU_ROW_TEMP_MEMORY, GPU_FAST, .factor = 1 },
    { NVML_FI_DEV_POWER_INSTANT, GPU_ROW_POWER_NOW, GPU_FAST, .factor = 1e-3 },
    { NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, GPU_ROW_RECOVERY_ACTION, GPU_FAST, .factor = 1 },
    { NVML_FI_DEV_ECC_SBE_VOL_TOTAL, GPU_ROW_ECC_SBE_VOLATILE, GPU_FAST, .factor = 1 },
    { NVML_FI_DEV_ECC_DBE_VOL_TOTAL, GPU_ROW_ECC_DBE_VOLATILE, GPU_FAST, .factor = 1 },
    { NVML_FI_DEV_ECC_SBE_AGG_TOTAL, GPU_ROW_ECC_SBE_TOTAL, GPU_FAST, .factor = 1 },
    { NVML_FI_DEV_ECC_DBE_AGG_TOTAL, GPU_ROW_ECC_DBE_TOTAL, GPU_FAST, .factor = 1 },
    { NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, GPU_ROW_LINK_TX, GPU_FAST, true, true, KIB },
    { NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, GPU_ROW_LINK_RX, GPU_FAST, true, true, KIB },
    { NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, GPU_ROW_ENERGY, GPU_MEDIUM, true, false, 1 },
    { NVML_FI_DEV_PERF_POLICY_POWER, GPU_ROW_HELD_POWER, GPU_MEDIUM, true, false, 1 },
    { NVML_FI_DEV_PERF_POLICY_THERMAL, GPU_ROW_HELD_HEAT, GPU_MEDIUM, true, false, 1 },
    { NVML_FI_DEV_PERF_POLICY_SYNC_BOOST, GPU_ROW_HELD_SYNC, GPU_MEDIUM, true, false, 1 },
    { NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT, GPU_ROW_HELD_BOARD, GPU_MEDIUM, true, false, 1 },
    { NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION, GPU_ROW_HELD_LOW_USE, GPU_MEDIUM, true, false, 1 },
    { NVML_FI_DEV_PERF_POLICY_RELIABILITY, GPU_ROW_HELD_RELIABILITY, GPU_MEDIUM, true, false, 1 },
    { NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, GPU_ROW_HELD_SW_HEAT, GPU_MEDIUM, true,
      false, 1 },
    { NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, GPU_ROW_HELD_HW_HEAT, GPU_MEDIUM, true,
      false, 1 },
    { NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, GPU_ROW_HELD_HW_BRAKE, GPU_MEDIUM,
      true, false, 1 },
    { NVML_FI_DEV_REMAPPED_COR, GPU_ROW_REMAP_CORRECTABLE, GPU_MEDIUM, .factor = 1 },
    { NVML_FI_DEV_REMAPPED_UNC, GPU_ROW_REMAP_UNCORRECTABLE, GPU_MEDIUM, .factor = 1 },
    { NVML_FI_DEV_REMAPPED_PENDING, GPU_ROW_REMAP_PENDING, GPU_MEDIUM, .factor = 1 },
    { NVML_FI_DEV_REMAPPED_FAILURE, GPU_ROW_REMAP_FAILED, GPU_MEDIUM, .factor = 1 },
    { NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, GPU_ROW_LINK_CRC_FLIT, GPU_MEDIUM, true, false,
      1 },
    { NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, GPU_ROW_LINK_CRC_DATA, GPU_MEDIUM, true, false,
      1 },
    { NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, GPU_ROW_LINK_REPLAY, GPU_MEDIUM, true, false,
      1 },
    { NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, GPU_ROW_LINK_RECOVERY, GPU_MEDIUM, true, false,
      1 },
    { NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER, GPU_ROW_PCIE_RECOVERY, GPU_SLOW, true, false, 1 },
    { NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS, GPU_ROW_PCIE_CORRECTABLE, GPU_SLOW, true, false,
      1 },
    { NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR, GPU_ROW_PCIE_NON_FATAL, GPU_SLOW, true, false, 1 },
    { NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR, GPU_ROW_PCIE_FATAL, GPU_SLOW, true, false, 1 },
    { NVML_FI_DEV_RETIRED_SBE, GPU_ROW_RETIRED_SBE, GPU_SLOW, .factor = 1 },
    { NVML_FI_DEV_RETIRED_DBE, GPU_ROW_RETIRED_DBE, GPU_SLOW, .factor = 1 },
    { NVML_FI_DEV_RETIRED_PENDING, GPU_ROW_RETIRED_PENDING, GPU_SLOW, .factor = 1 },
};
const size_t gpu_fields_count = ARRAY_SIZE(gpu_fields);
static_assert(ARRAY_SIZE(gpu_fields) <= GPU_FIELDS_MAX, "a bit each");

const struct gpu_field gpu_link_fields[] = {
    { NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, GPU_LINK_TX, GPU_MEDIUM, true, false, KIB },
    { NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, GPU_LINK_RX, GPU_MEDIUM, true, false, KIB },
    { NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, GPU_LINK_REPLAY, GPU_MEDIUM, true, false, 1 },
    { NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, GPU_LINK_RECOVERY, GPU_MEDIUM, true, false, 1 },
    { NVML_FI_DEV_NVLINK_ERROR_DL_CRC, GPU_LINK_CRC, GPU_MEDIUM, true, false, 1 },
    { NVML_FI_DEV_NVLINK_GET_STATE, GPU_LINK_STATE, GPU_MEDIUM, .factor = 1 },
    { NVML_FI_DEV_NVLINK_GET_SPEED, GPU_LINK_SPEED, GPU_SLOW, .factor = 1 },
};
const size_t gpu_link_fields_count = ARRAY_SIZE(gpu_link_fields);

#define PERCENT 0.01
#define MIB     1048576.0

const struct gpu_gpm_row gpu_gpm_rows[] = {
    { NVML_GPM_METRIC_GRAPHICS_UTIL, GPU_ROW_GR_ACTIVE, PERCENT },
    { NVML_GPM_METRIC_SM_UTIL, GPU_ROW_SM_ACTIVE, PERCENT },
    { NVML_GPM_METRIC_SM_OCCUPANCY, GPU_ROW_SM_OCCUPANCY, PERCENT },
    { NVML_GPM_METRIC_INTEGER_UTIL, GPU_ROW_INT_ACTIVE, PERCENT },
    { NVML_GPM_METRIC_ANY_TENSOR_UTIL, GPU_ROW_TENSOR_ACTIVE, PERCENT },
    { NVML_GPM_METRIC_DFMA_TENSOR_UTIL, GPU_ROW_TENSOR_DFMA, PERCENT },
    { NVML_GPM_METRIC_HMMA_TENSOR_UTIL, GPU_ROW_TENSOR_HMMA, PERCENT },
    { NVML_GPM_METRIC_IMMA_TENSOR_UTIL, GPU_ROW_TENSOR_IMMA, PERCENT },
    { NVML_GPM_METRIC_DRAM_BW_UTIL, GPU_ROW_DRAM_ACTIVE, PERCENT },
    { NVML_GPM_METRIC_FP64_UTIL, GPU_ROW_FP64_ACTIVE, PERCENT },
    { NVML_GPM_METRIC_FP32_UTIL, GPU_ROW_FP32_ACTIVE, PERCENT },
    { NVML_GPM_METRIC_FP16_UTIL, GPU_ROW_FP16_ACTIVE, PERCENT },
    { NVML_GPM_METRIC_PCIE_TX_PER_SEC, GPU_ROW_PCIE_TX_RATE, MIB },
    { NVML_GPM_METRIC_PCIE_RX_PER_SEC, GPU_ROW_PCIE_RX_RATE, MIB },
    { NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, GPU_ROW_LINK_TX_RATE, MIB },
    { NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, GPU_ROW_LINK_RX_RATE, MIB },
};
const size_t gpu_gpm_rows_count = ARRAY_SIZE(gpu_gpm_rows);
