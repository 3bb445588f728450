/* SPDX-License-Identifier: MIT */
/* nvml_abi: the part of NVIDIA's management library that we call.
 *
 * The library is loaded at run time and its header is no part of the build, so the
 * layouts and numbers we rely on are written down here, and nothing else.  Constants have
 * NVIDIA's own names, and each struct says which of nvml.h it is, so that its manual can be
 * searched for them.  Two programs include this file: nvml_load.c, which looks the functions up,
 * and the fake library of tests/fakenvml, which defines every one of them.
 *
 * A struct with a `version` member must carry NVML_STRUCT_VERSION(struct, n): the library compares
 * size and number and answers NVML_ERROR_ARGUMENT_VERSION_MISMATCH when it knows another. */
#ifndef HW_NVML_NVML_ABI_H
#define HW_NVML_NVML_ABI_H
#include <assert.h>
#include <stddef.h>

struct nvml_dev; /* what nvmlDevice_t points to: a GPU or a MIG instance; the library's own */

enum nvml_return { /* nvmlReturn_t: those we tell apart */
                   NVML_SUCCESS = 0,
                   NVML_ERROR_UNINITIALIZED = 1,
                   NVML_ERROR_INVALID_ARGUMENT = 2,
                   NVML_ERROR_NOT_SUPPORTED = 3,
                   NVML_ERROR_NO_PERMISSION = 4,
                   NVML_ERROR_NOT_FOUND = 6,
                   NVML_ERROR_INSUFFICIENT_SIZE = 7, /* the array that was given */
                   NVML_ERROR_DRIVER_NOT_LOADED = 9,
                   NVML_ERROR_TIMEOUT = 10,
                   NVML_ERROR_FUNCTION_NOT_FOUND = 13,
                   NVML_ERROR_GPU_IS_LOST = 15,
                   NVML_ERROR_RESET_REQUIRED = 16,
                   NVML_ERROR_LIB_RM_VERSION_MISMATCH =
                       18, /* library and kernel module are of two versions */
                   NVML_ERROR_NO_DATA = 21,
                   NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
                   NVML_ERROR_DEPRECATED = 26,
                   NVML_ERROR_UNKNOWN = 999
};

enum {
    NVML_TEXT_MAX = 256,        /* more than any string call asks for (96 at most) */
    NVML_NVLINK_MAX_LINKS = 36, /* NVLinks a GPU; 18 before Blackwell */
    NVML_LINKS_USUAL = 18       /* asked when the driver does not tell the number */
};

#define NVML_STRUCT_VERSION(s, n) ((unsigned)sizeof(struct s) | (unsigned)(n) << 24)

/* ---- values of arguments ---- */
enum { NVML_CLOCK_GRAPHICS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum { NVML_CLOCK_ID_APP_CLOCK_TARGET = 1 }; /* the target that was set for applications */
enum { NVML_TEMPERATURE_GPU = 0 };
enum {
    NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0,
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1,
    NVML_TEMPERATURE_THRESHOLD_GPU_MAX = 3
};
enum {
    NVML_P2P_CAPS_INDEX_READ,
    NVML_P2P_CAPS_INDEX_WRITE,
    NVML_P2P_CAPS_INDEX_NVLINK,
    NVML_P2P_CAPS_INDEX_ATOMICS,
    NVML_P2P_COUNT
};

enum nvml_field { /* for GetFieldValues */
                  NVML_FI_DEV_ECC_SBE_VOL_TOTAL = 3,
                  NVML_FI_DEV_ECC_DBE_VOL_TOTAL = 4,
                  NVML_FI_DEV_ECC_SBE_AGG_TOTAL = 5,
                  NVML_FI_DEV_ECC_DBE_AGG_TOTAL = 6,
                  NVML_FI_DEV_RETIRED_SBE = 29,
                  NVML_FI_DEV_RETIRED_DBE = 30,
                  NVML_FI_DEV_RETIRED_PENDING = 31,
                  NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL = 38,
                  NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL = 45,
                  NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL = 52,
                  NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL = 59,
                  NVML_FI_DEV_PERF_POLICY_POWER = 74, /* ns that a policy held the clocks down */
                  NVML_FI_DEV_PERF_POLICY_THERMAL = 75,
                  NVML_FI_DEV_PERF_POLICY_SYNC_BOOST = 76,
                  NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT = 77,
                  NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION = 78,
                  NVML_FI_DEV_PERF_POLICY_RELIABILITY = 79,
                  NVML_FI_DEV_MEMORY_TEMP = 82,
                  NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION = 83, /* mJ */
                  NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 = 84,     /* … L5 */
                  NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON = 90,
                  NVML_FI_DEV_NVLINK_LINK_COUNT = 91,
                  NVML_FI_DEV_NVLINK_SPEED_MBPS_L6 = 132, /* … L11 */
                  NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX =
                      138, /* KiB of payload of the link in `scope` */
                  NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 139,
                  NVML_FI_DEV_REMAPPED_COR = 142,
                  NVML_FI_DEV_REMAPPED_UNC = 143,
                  NVML_FI_DEV_REMAPPED_PENDING = 144,
                  NVML_FI_DEV_REMAPPED_FAILURE = 145,
                  NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY = 161, /* of the link in `scope` */
                  NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY = 162,
                  NVML_FI_DEV_NVLINK_ERROR_DL_CRC = 163,
                  NVML_FI_DEV_NVLINK_GET_SPEED = 164, /* of the link in `scope` */
                  NVML_FI_DEV_NVLINK_GET_STATE = 165,
                  NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER =
                      169, /* times the link left L0 to recover */
                  NVML_FI_DEV_C2C_LINK_COUNT = 170,
                  NVML_FI_DEV_C2C_LINK_GET_STATUS = 171, /* of the link in `scope`; 1: active */
                  NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS = 173,
                  NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR = 179,
                  NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR = 180,
                  NVML_FI_DEV_POWER_AVERAGE = 185,
                  NVML_FI_DEV_POWER_INSTANT = 186,
                  NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230,
                  NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN = 269, /* ns */
                  NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN = 270,
                  NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN = 271
};

enum { /* what nvml_field_value.value holds */
       NVML_VALUE_TYPE_DOUBLE,
       NVML_VALUE_TYPE_UNSIGNED_INT,
       NVML_VALUE_TYPE_UNSIGNED_LONG,
       NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
       NVML_VALUE_TYPE_SIGNED_LONG_LONG,
       NVML_VALUE_TYPE_SIGNED_INT,
       NVML_VALUE_TYPE_UNSIGNED_SHORT
};

enum { NVML_GPU_FABRIC_STATE_COMPLETED = 3 };

/* `scope` of a link field that means all links together. */
#define NVML_ALL_LINKS (~0U)
/* A number of bytes that the driver does not tell. */
#define NVML_VALUE_NOT_AVAILABLE (~0ULL)

enum { NVML_UTIL_MAX = 100 }; /* per cent; what is above is no answer */

enum { /* bits of an event's type */
       nvmlEventTypeDoubleBitEccError = 0x2,
       nvmlEventTypeXidCriticalError = 0x8,
       nvmlEventTypeSingleBitEccErrorStorm = 0x200,
       nvmlEventTypeDramRetirementEvent = 0x400,
       nvmlEventTypeDramRetirementFailure = 0x800,
       nvmlEventTypeNonFatalPoisonError = 0x1000,
       nvmlEventTypeFatalPoisonError = 0x2000,
       nvmlEventTypeGpuUnavailableError = 0x4000,
       nvmlEventTypeGpuRecoveryAction = 0x8000
};

enum nvml_gpm { /* metrics of two samples of the performance monitor, Hopper and later */
                NVML_GPM_METRIC_GRAPHICS_UTIL = 1, /* per cent up to FP16 */
                NVML_GPM_METRIC_SM_UTIL = 2,
                NVML_GPM_METRIC_SM_OCCUPANCY = 3,
                NVML_GPM_METRIC_INTEGER_UTIL = 4,
                NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5,
                NVML_GPM_METRIC_DFMA_TENSOR_UTIL = 6,
                NVML_GPM_METRIC_HMMA_TENSOR_UTIL = 7,
                NVML_GPM_METRIC_IMMA_TENSOR_UTIL = 9,
                NVML_GPM_METRIC_DRAM_BW_UTIL = 10,
                NVML_GPM_METRIC_FP64_UTIL = 11,
                NVML_GPM_METRIC_FP32_UTIL = 12,
                NVML_GPM_METRIC_FP16_UTIL = 13,
                NVML_GPM_METRIC_PCIE_TX_PER_SEC = 20, /* MiB/s */
                NVML_GPM_METRIC_PCIE_RX_PER_SEC = 21,
                NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC = 60,
                NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC = 61
};

/* ---- structs ---- */
struct nvml_pci { /* nvmlPciInfo_t; also what the older calls fill, bus_id excepted */
    char bus_id_legacy[16];
    unsigned domain, bus, device;
    unsigned device_id, subsystem_id;
    char bus_id[32];
};
static_assert(sizeof(struct nvml_pci) == 68, "layout");

struct nvml_memory {                      /* nvmlMemory_t */
    unsigned long long total, free, used; /* used: with what the driver reserves */
};
static_assert(sizeof(struct nvml_memory) == 24, "layout");

struct nvml_memory_v2 { /* nvmlMemory_v2_t */
    unsigned version;
    unsigned long long total, reserved, free, used;
};
static_assert(sizeof(struct nvml_memory_v2) == 40, "layout");

struct nvml_bar1 { /* nvmlBAR1Memory_t */
    unsigned long long total, free, used;
};
static_assert(sizeof(struct nvml_bar1) == 24, "layout");

struct nvml_attributes { /* nvmlDeviceAttributes_t */
    unsigned sms;
    unsigned copy_engines, decoders, encoders, jpegs, ofas;
    unsigned gpu_slices, compute_slices;
    unsigned long long memory_mib;
};
static_assert(sizeof(struct nvml_attributes) == 40, "layout");

struct nvml_field_value { /* nvmlFieldValue_t */
    unsigned id;
    unsigned scope;
    long long timestamp_us, latency_us;
    int type;
    int rc; /* of this field only */
    union {
        double d;
        int i;
        unsigned u;
        unsigned long ul;
        unsigned long long ull;
        long long ll;
        unsigned short us;
    } value;
};
static_assert(sizeof(struct nvml_field_value) == 40, "layout");

struct nvml_margin { /* nvmlMarginTemperature_t */
    unsigned version;
    int celsius;
};
static_assert(sizeof(struct nvml_margin) == 8, "layout");

struct nvml_temperature { /* nvmlTemperature_t */
    unsigned version;
    int sensor;
    int celsius;
};
static_assert(sizeof(struct nvml_temperature) == 12, "layout");

struct nvml_addressing { /* nvmlDeviceAddressingMode_t */
    unsigned version;
    unsigned mode;
};
static_assert(sizeof(struct nvml_addressing) == 8, "layout");

struct nvml_fabric_v1 { /* nvmlGpuFabricInfo_t */
    unsigned char cluster[16];
    int status; /* an nvml_return, meaningful when state is NVML_GPU_FABRIC_STATE_COMPLETED */
    unsigned clique;
    unsigned char state;
};
static_assert(sizeof(struct nvml_fabric_v1) == 28, "layout");

struct nvml_fabric_v2 { /* nvmlGpuFabricInfo_v2_t */
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};
static_assert(sizeof(struct nvml_fabric_v2) == 36, "layout");
static_assert(offsetof(struct nvml_fabric_v2, health) == 32, "layout");

struct nvml_fabric_v3 { /* nvmlGpuFabricInfo_v3_t; v2 and one byte */
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
    unsigned char health_summary;
};
static_assert(sizeof(struct nvml_fabric_v3) == 40, "layout");

struct nvml_util { /* nvmlUtilization_t: per cent of the last sample period */
    unsigned gpu, memory;
};
static_assert(sizeof(struct nvml_util) == 8, "layout");

struct nvml_process_v1 { /* nvmlProcessInfo_v1_t */
    unsigned pid;
    unsigned long long used; /* NVML_VALUE_NOT_AVAILABLE: not told */
};
static_assert(sizeof(struct nvml_process_v1) == 16, "layout");

struct nvml_process { /* nvmlProcessInfo_v2_t: v2 and v3 of the calls */
    unsigned pid;
    unsigned long long used;
    unsigned gi, ci; /* all ones without MIG */
};
static_assert(sizeof(struct nvml_process) == 24, "layout");

struct nvml_process_util { /* nvmlProcessUtilizationSample_t */
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder; /* per cent */
};
static_assert(sizeof(struct nvml_process_util) == 32, "layout");

struct nvml_banks { /* nvmlRowRemapperHistogramValues_t: banks by the spare rows they have left */
    unsigned max, high, partial, low, none;
};
static_assert(sizeof(struct nvml_banks) == 20, "layout");

struct nvml_sram { /* nvmlEccSramErrorStatus_t */
    unsigned version;
    unsigned long long counts[11]; /* by kind and place */
    unsigned exceeded;             /* the threshold of the field diagnostic */
};
static_assert(sizeof(struct nvml_sram) == 104, "layout");

struct nvml_event_set; /* nvmlEventSet_t; the library's own */
struct nvml_event {    /* nvmlEventData_t */
    struct nvml_dev *dev;
    unsigned long long type;
    unsigned long long data; /* the XID */
    unsigned gi, ci;
};
static_assert(sizeof(struct nvml_event) == 32, "layout");

struct nvml_gpm_sample;  /* nvmlGpmSample_t; the library's own */
struct nvml_gpm_metric { /* nvmlGpmMetric_t */
    unsigned id;
    int rc;
    double value;
    const char *short_name, *long_name, *unit;
};
static_assert(sizeof(struct nvml_gpm_metric) == 40, "layout");

/* The library's array grew from 98 to 333; it reads `count` entries, and so do we. */
enum { NVML_GPM_ASKED_MAX = 333 };
struct nvml_gpm_get { /* nvmlGpmMetricsGet_t */
    unsigned version; /* plainly 1 */
    unsigned count;
    struct nvml_gpm_sample *from, *to;
    struct nvml_gpm_metric metrics[NVML_GPM_ASKED_MAX];
};
static_assert(sizeof(struct nvml_gpm_get) == 24 + 333 * 40, "layout");
struct nvml_gpm_support { /* nvmlGpmSupport_t */
    unsigned version;     /* plainly 1 */
    unsigned supported;
};
static_assert(sizeof(struct nvml_gpm_support) == 8, "layout");

/* ---- functions: X(name without "nvml", parameters), newest form first ----
 *
 * Each returns an nvml_return.  Left out on purpose: whatever changes state, and
 * GetPcieThroughput, which blocks for 20 ms.  From Shutdown on they are the collector's. */
#define NVML_CALLS(X)                                                                              \
    X(Init_v2, (void))                                                                             \
    X(Init, (void))                                                                                \
    X(SystemGetDriverVersion, (char *, unsigned))                                                  \
    X(SystemGetNVMLVersion, (char *, unsigned))                                                    \
    X(SystemGetCudaDriverVersion_v2, (int *))                                                      \
    X(SystemGetCudaDriverVersion, (int *))                                                         \
    X(DeviceGetCount_v2, (unsigned *))                                                             \
    X(DeviceGetCount, (unsigned *))                                                                \
    X(DeviceGetHandleByIndex_v2, (unsigned, struct nvml_dev **))                                   \
    X(DeviceGetHandleByIndex, (unsigned, struct nvml_dev **))                                      \
    X(DeviceGetPciInfo_v3, (struct nvml_dev *, struct nvml_pci *))                                 \
    X(DeviceGetPciInfo_v2, (struct nvml_dev *, struct nvml_pci *))                                 \
    X(DeviceGetPciInfo, (struct nvml_dev *, struct nvml_pci *))                                    \
    X(DeviceGetName, (struct nvml_dev *, char *, unsigned))                                        \
    X(DeviceGetUUID, (struct nvml_dev *, char *, unsigned))                                        \
    X(DeviceGetSerial, (struct nvml_dev *, char *, unsigned))                                      \
    X(DeviceGetBoardPartNumber, (struct nvml_dev *, char *, unsigned))                             \
    X(DeviceGetVbiosVersion, (struct nvml_dev *, char *, unsigned))                                \
    X(DeviceGetInforomImageVersion, (struct nvml_dev *, char *, unsigned))                         \
    X(DeviceGetGspFirmwareVersion, (struct nvml_dev *, char *))                                    \
    X(DeviceGetMinorNumber, (struct nvml_dev *, unsigned *))                                       \
    X(DeviceGetBrand, (struct nvml_dev *, int *))                                                  \
    X(DeviceGetArchitecture, (struct nvml_dev *, unsigned *))                                      \
    X(DeviceGetCudaComputeCapability, (struct nvml_dev *, int *, int *))                           \
    X(DeviceGetNumGpuCores, (struct nvml_dev *, unsigned *))                                       \
    X(DeviceGetAttributes_v2, (struct nvml_dev *, struct nvml_attributes *))                       \
    X(DeviceGetAttributes, (struct nvml_dev *, struct nvml_attributes *))                          \
    X(DeviceGetMemoryInfo_v2, (struct nvml_dev *, struct nvml_memory_v2 *))                        \
    X(DeviceGetMemoryInfo, (struct nvml_dev *, struct nvml_memory *))                              \
    X(DeviceGetBAR1MemoryInfo, (struct nvml_dev *, struct nvml_bar1 *))                            \
    X(DeviceGetMemoryBusWidth, (struct nvml_dev *, unsigned *))                                    \
    X(DeviceGetCurrPcieLinkGeneration, (struct nvml_dev *, unsigned *))                            \
    X(DeviceGetMaxPcieLinkGeneration, (struct nvml_dev *, unsigned *))                             \
    X(DeviceGetCurrPcieLinkWidth, (struct nvml_dev *, unsigned *))                                 \
    X(DeviceGetMaxPcieLinkWidth, (struct nvml_dev *, unsigned *))                                  \
    X(DeviceGetClockInfo, (struct nvml_dev *, int, unsigned *))                                    \
    X(DeviceGetMaxClockInfo, (struct nvml_dev *, int, unsigned *))                                 \
    X(DeviceGetApplicationsClock, (struct nvml_dev *, int, unsigned *))                            \
    X(DeviceGetClock, (struct nvml_dev *, int, int, unsigned *))                                   \
    X(DeviceGetEnforcedPowerLimit, (struct nvml_dev *, unsigned *))                                \
    X(DeviceGetPowerManagementLimit, (struct nvml_dev *, unsigned *))                              \
    X(DeviceGetPowerManagementDefaultLimit, (struct nvml_dev *, unsigned *))                       \
    X(DeviceGetPowerManagementLimitConstraints, (struct nvml_dev *, unsigned *, unsigned *))       \
    X(DeviceGetPowerUsage, (struct nvml_dev *, unsigned *))                                        \
    X(DeviceGetTemperatureV, (struct nvml_dev *, struct nvml_temperature *))                       \
    X(DeviceGetTemperature, (struct nvml_dev *, int, unsigned *))                                  \
    X(DeviceGetTemperatureThreshold, (struct nvml_dev *, int, unsigned *))                         \
    X(DeviceGetMarginTemperature, (struct nvml_dev *, struct nvml_margin *))                       \
    X(DeviceGetEccMode, (struct nvml_dev *, int *, int *))                                         \
    X(DeviceGetRemappedRows, (struct nvml_dev *, unsigned *, unsigned *, unsigned *, unsigned *))  \
    X(DeviceGetMigMode, (struct nvml_dev *, unsigned *, unsigned *))                               \
    X(DeviceGetMaxMigDeviceCount, (struct nvml_dev *, unsigned *))                                 \
    X(DeviceGetMigDeviceHandleByIndex, (struct nvml_dev *, unsigned, struct nvml_dev **))          \
    X(DeviceGetGpuInstanceId, (struct nvml_dev *, unsigned *))                                     \
    X(DeviceGetComputeInstanceId, (struct nvml_dev *, unsigned *))                                 \
    X(DeviceGetPersistenceMode, (struct nvml_dev *, int *))                                        \
    X(DeviceGetComputeMode, (struct nvml_dev *, int *))                                            \
    X(DeviceGetVirtualizationMode, (struct nvml_dev *, int *))                                     \
    X(DeviceGetAddressingMode, (struct nvml_dev *, struct nvml_addressing *))                      \
    X(DeviceGetGpuFabricInfoV, (struct nvml_dev *, void *))                                        \
    X(DeviceGetGpuFabricInfo, (struct nvml_dev *, struct nvml_fabric_v1 *))                        \
    X(DeviceGetFieldValues, (struct nvml_dev *, int, struct nvml_field_value *))                   \
    X(DeviceGetNvLinkState, (struct nvml_dev *, unsigned, int *))                                  \
    X(DeviceGetNvLinkVersion, (struct nvml_dev *, unsigned, unsigned *))                           \
    X(DeviceGetNvLinkRemoteDeviceType, (struct nvml_dev *, unsigned, int *))                       \
    X(DeviceGetNvLinkRemotePciInfo_v2, (struct nvml_dev *, unsigned, struct nvml_pci *))           \
    X(DeviceGetNvLinkRemotePciInfo, (struct nvml_dev *, unsigned, struct nvml_pci *))              \
    X(DeviceGetP2PStatus, (struct nvml_dev *, struct nvml_dev *, int, int *))                      \
    X(Shutdown, (void))                                                                            \
    X(DeviceGetUtilizationRates, (struct nvml_dev *, struct nvml_util *))                          \
    X(DeviceGetEncoderUtilization, (struct nvml_dev *, unsigned *, unsigned *))                    \
    X(DeviceGetDecoderUtilization, (struct nvml_dev *, unsigned *, unsigned *))                    \
    X(DeviceGetPerformanceState, (struct nvml_dev *, int *))                                       \
    X(DeviceGetFanSpeed, (struct nvml_dev *, unsigned *))                                          \
    X(DeviceGetCurrentClocksEventReasons, (struct nvml_dev *, unsigned long long *))               \
    X(DeviceGetCurrentClocksThrottleReasons, (struct nvml_dev *, unsigned long long *))            \
    X(DeviceGetRowRemapperHistogram, (struct nvml_dev *, struct nvml_banks *))                     \
    X(DeviceGetSramEccErrorStatus, (struct nvml_dev *, struct nvml_sram *))                        \
    X(DeviceGetPcieReplayCounter, (struct nvml_dev *, unsigned *))                                 \
    X(DeviceGetComputeRunningProcesses_v3, (struct nvml_dev *, unsigned *, struct nvml_process *)) \
    X(DeviceGetComputeRunningProcesses_v2, (struct nvml_dev *, unsigned *, struct nvml_process *)) \
    X(DeviceGetComputeRunningProcesses, (struct nvml_dev *, unsigned *, struct nvml_process_v1 *)) \
    X(DeviceGetGraphicsRunningProcesses_v3,                                                        \
      (struct nvml_dev *, unsigned *, struct nvml_process *))                                      \
    X(DeviceGetGraphicsRunningProcesses_v2,                                                        \
      (struct nvml_dev *, unsigned *, struct nvml_process *))                                      \
    X(DeviceGetGraphicsRunningProcesses,                                                           \
      (struct nvml_dev *, unsigned *, struct nvml_process_v1 *))                                   \
    X(DeviceGetProcessUtilization,                                                                 \
      (struct nvml_dev *, struct nvml_process_util *, unsigned *, unsigned long long))             \
    X(EventSetCreate, (struct nvml_event_set **))                                                  \
    X(EventSetFree, (struct nvml_event_set *))                                                     \
    X(EventSetWait_v2, (struct nvml_event_set *, struct nvml_event *, unsigned))                   \
    X(EventSetWait, (struct nvml_event_set *, struct nvml_event *, unsigned))                      \
    X(DeviceGetSupportedEventTypes, (struct nvml_dev *, unsigned long long *))                     \
    X(DeviceRegisterEvents, (struct nvml_dev *, unsigned long long, struct nvml_event_set *))      \
    X(GpmQueryDeviceSupport, (struct nvml_dev *, struct nvml_gpm_support *))                       \
    X(GpmSampleAlloc, (struct nvml_gpm_sample **))                                                 \
    X(GpmSampleFree, (struct nvml_gpm_sample *))                                                   \
    X(GpmSampleGet, (struct nvml_dev *, struct nvml_gpm_sample *))                                 \
    X(GpmMigSampleGet, (struct nvml_dev *, unsigned, struct nvml_gpm_sample *))                    \
    X(GpmMetricsGet, (struct nvml_gpm_get *))

#endif
