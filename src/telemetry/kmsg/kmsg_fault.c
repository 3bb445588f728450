/* SPDX-License-Identifier: MIT */
/* kmsg_fault: which lines of the kernel's log tell of failing hardware or of a kernel that is
 * stuck, by kind and by the device that they name.
 *
 * The words are those of Linux' own sources: drivers/pci/pcie/aer.c (before and since 6.10, which
 * writes "Correctable" for "Corrected") and dpc.c, arch/x86/kernel/cpu/mce/core.c and
 * drivers/edac/mce_amd.c (which speaks in its place on AMD), cper.c of drivers/firmware/efi,
 * drivers/edac/edac_mc.c, mm/memory-failure.c, pci.c, tcp.c and rdma.c of drivers/nvme/host,
 * kernel/hung_task.c.  One error has several lines; the one that says how bad it is counts. */
#include "base/str.h"
#include "telemetry/kmsg/kmsg_int.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *const words[] = {
    [KMSG_FAULT_AER_FATAL] = "aer_fatal",
    [KMSG_FAULT_AER_NONFATAL] = "aer_nonfatal",
    [KMSG_FAULT_AER_CORRECTED] = "aer_corrected",
    [KMSG_FAULT_MCE] = "machine_check",
    [KMSG_FAULT_MCE_CORRECTED] = "machine_check_corrected",
    [KMSG_FAULT_EDAC_UE] = "edac_uncorrected",
    [KMSG_FAULT_EDAC_CE] = "edac_corrected",
    [KMSG_FAULT_MEMORY] = "memory_failure",
    [KMSG_FAULT_NVME] = "nvme_timeout",
    [KMSG_FAULT_HUNG_TASK] = "hung_task",
};

const char *kmsg_fault_word(enum kmsg_fault_kind k)
{
    return words[k];
}

/* Copies from `p` up to one of `ends`. */
static void copy_until(const char *p, const char *ends, char out[KMSG_DEVICE_MAX])
{
    size_t n = strcspn(p, ends);

    n = n < KMSG_DEVICE_MAX ? n : KMSG_DEVICE_MAX - 1;
    memcpy(out, p, n);
    out[n] = '\0';
}

/* The first PCI address "0000:3b:00.0" at or behind `p`. */
static bool copy_pci(const char *p, char out[KMSG_DEVICE_MAX])
{
    static const char form[] = "xxxx:xx:xx.x";
    size_t n;

    for (; *p; p++) {
        for (n = 0; form[n] && (form[n] == 'x' ? isxdigit((unsigned char)p[n]) : p[n] == form[n]);)
            n++;
        if (!form[n]) {
            memcpy(out, p, n);
            out[n] = '\0';
            return true;
        }
    }
    return false;
}

/* Before 4.16: "received: id=3b00", a bus and a device of the port's own domain. */
static bool copy_pci_id(const char *line, const char *received, char out[KMSG_DEVICE_MAX])
{
    const char *id = strstr(received, "id=");
    char digits[5] = "", port[KMSG_DEVICE_MAX];
    uint64_t v;

    if (!id || !copy_pci(line, port))
        return false;
    memcpy(digits, id + 3, strnlen(id + 3, 4));
    if (!str_to_u64(digits, 16, &v) || v > 0xffff)
        return false;
    snprintf(out, KMSG_DEVICE_MAX, "%.4s:%02x:%02x.%x", port, (unsigned)(v >> 8),
             (unsigned)(v >> 3) & 31U, (unsigned)v & 7U);
    return true;
}

/* "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0", "… error message
 * received from 0000:3b:00.0", "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal),
 * type=Transaction Layer" */
static bool aer_read(const char *line, struct kmsg_fault *out)
{
    const char *bus = strstr(line, "Bus Error: severity="), *aer = strstr(line, "AER: ");
    const char *received = aer ? strstr(aer, "received") : NULL, *how = bus ? bus : aer;

    if (!bus && !received)
        return false;
    if (strstr(how, "ncorrect"))
        out->kind = strstr(how, "(Fatal)") ? KMSG_FAULT_AER_FATAL : KMSG_FAULT_AER_NONFATAL;
    else if (strstr(how, "orrect"))
        out->kind = KMSG_FAULT_AER_CORRECTED;
    else
        return false;
    out->announced = !bus;
    return (received && !bus &&
            (copy_pci(received, out->device) || copy_pci_id(line, received, out->device))) ||
           copy_pci(line, out->device) || true;
}

/* "pcieport 0000:30:03.0: DPC: containment event, status:0x1f01 source:0x0000": the port has cut
 * off what is below it.  Newer kernels: "…, ERR_FATAL received from 0000:34:00.0". */
static bool dpc_read(const char *line, struct kmsg_fault *out)
{
    const char *at = strstr(line, "containment event, status:");
    const char *from = at ? strstr(at, "received from ") : NULL;

    if (!at || !strstr(line, "DPC"))
        return false;
    out->kind = KMSG_FAULT_AER_FATAL;
    out->announced = true;
    return (from && copy_pci(from, out->device)) || copy_pci(line, out->device) || true;
}

/* "CPU 3: Machine Check: 0 Bank 7: be00000000800400", as what a crash left is logged by the next
 * boot: no exception, but the bank says "uncorrected". */
static bool bank_is_uncorrected(const char *at)
{
    enum { UNCORRECTED_BIT = 61 };
    const char *bank = strstr(at, " Bank "), *status = bank ? strstr(bank, ": ") : NULL;
    char digits[17] = "";
    uint64_t v;

    if (!status)
        return false;
    memcpy(digits, status + 2, strnlen(status + 2, 16));
    digits[strspn(digits, "0123456789abcdef")] = '\0';
    return str_to_u64(digits, 16, &v) && (v >> UNCORRECTED_BIT & 1U);
}

/* "CPU 3: Machine Check Exception: 5 Bank 4: …", "CPU:7 (17:1:1) MC0_STATUS[-|UE|MiscV|…]: 0x…" of
 * AMD, where a deferred error is one that is not corrected and not yet used. */
static bool mce_of_cpu(const char *at, struct kmsg_fault *out)
{
    const char *amd = str_starts(at, "CPU:") ? strstr(at, "_STATUS[") : NULL;
    bool bad;

    if (amd)
        bad = strstr(amd, "|UE|") || strstr(amd, "|Deferred|");
    else if (str_starts(at, "CPU ") && strstr(at, "Machine Check"))
        bad = strstr(at, "Exception") || bank_is_uncorrected(at);
    else
        return false;
    out->kind = bad ? KMSG_FAULT_MCE : KMSG_FAULT_MCE_CORRECTED;
    snprintf(out->device, sizeof(out->device), "CPU %.*s", (int)strcspn(at + 4, ": "), at + 4);
    return true;
}

/* "mce: [Hardware Error]: CPU 3: …", "mce: [Hardware Error]: Machine check events logged",
 * "{1}[Hardware Error]: event severity: fatal" */
static bool mce_read(const char *line, struct kmsg_fault *out)
{
    const char *at = strstr(line, "[Hardware Error]: "), *severity;

    if (!at)
        return false;
    at += strlen("[Hardware Error]: ");
    at += strspn(at, " ");
    if (mce_of_cpu(at, out))
        return true;
    severity = str_starts(at, "event severity: ") ? at + strlen("event severity: ") : NULL;
    if (severity && !str_starts(severity, "info"))
        out->kind = str_starts(severity, "corrected") ? KMSG_FAULT_MCE_CORRECTED : KMSG_FAULT_MCE;
    else if (str_starts(at, "Machine check events logged"))
        out->kind = KMSG_FAULT_MCE_CORRECTED;
    else
        return false;
    copy_until(severity ? "firmware" : "CPU", "", out->device);
    return true;
}

/* "EDAC MC0: 2 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 …" */
static bool edac_read(const char *line, struct kmsg_fault *out)
{
    const char *at = strstr(line, "EDAC "), *p, *on;
    uint64_t count;

    if (!at || !(p = strstr(at, ": ")))
        return false;
    p += 2;
    if (!scan_u64(&p, &count) || (!str_starts(p, " CE ") && !str_starts(p, " UE ")))
        return false;
    out->kind = p[1] == 'U' ? KMSG_FAULT_EDAC_UE : KMSG_FAULT_EDAC_CE;
    out->count = count && count < KMSG_FAULT_COUNT_MAX ? (unsigned)count : 1;
    on = strstr(p, " on ");
    copy_until(on ? on + 4 : at + strlen("EDAC "), on ? " (" : ":", out->device);
    return true;
}

/* "nvme nvme0: I/O tag 12 (100c) opcode 0x2 (I/O Cmd) QID 3 timeout, aborting", "nvme nvme1:
 * I/O 7 QID 0 timeout" over a network, "nvme nvme0: controller is down; will reset: CSTS=…", and
 * how a reset that did not help ends.  "Shutdown timeout set to 10 seconds" is none. */
static bool nvme_read(const char *line, struct kmsg_fault *out)
{
    static const char *const gone[] = { " timeout, ", " timeout request ", "controller is down",
                                        "Device not ready; aborting", "after reset failure" };
    const char *at = strstr(line, "nvme "), *name = at ? at + strlen("nvme ") : NULL;
    bool is = at && str_ends(at, " timeout");

    if (!at || !(str_starts(name, "nvme") || isxdigit((unsigned char)name[0])))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(gone) && !is; i++)
        is = strstr(name, gone[i]) != NULL;
    if (!is)
        return false;
    out->kind = KMSG_FAULT_NVME;
    if (str_starts(name, "nvme") || !copy_pci(name, out->device)) /* Linux 4.4: by its address */
        copy_until(name, ": ", out->device);
    return true;
}

/* "INFO: task python3:4711 blocked for more than 122 seconds.", of newer kernels also "…
 * blocked in I/O wait for more than …" */
static bool hung_read(const char *line, struct kmsg_fault *out)
{
    const char *at = strstr(line, "INFO: task "), *end = strstr(line, " blocked ");
    const char *colon;

    if (!at || !end || end < at || !strstr(end, "for more than "))
        return false;
    at += strlen("INFO: task ");
    for (colon = end; colon > at && *colon != ':';)
        colon--;
    out->kind = KMSG_FAULT_HUNG_TASK;
    copy_until(at, "", out->device);
    if (colon > at && (size_t)(colon - at) < KMSG_DEVICE_MAX)
        out->device[colon - at] = '\0'; /* its number would be a series each */
    return true;
}

bool kmsg_fault(const char *line, struct kmsg_fault *out)
{
    struct kmsg_fault f = { .count = 1 };
    const char *memory = strstr(line, "Memory failure: 0x");

    if (memory && strstr(memory, "recovery action")) {
        f.kind = KMSG_FAULT_MEMORY;
        copy_until("memory", "", f.device);
    } else if (!aer_read(line, &f) && !dpc_read(line, &f) && !mce_read(line, &f) &&
               !edac_read(line, &f) && !nvme_read(line, &f) && !hung_read(line, &f)) {
        return false;
    }
    str_make_text(f.device);
    *out = f;
    return true;
}

/* "SXID 28006 at 0000:c1:00.0: …; Non-fatal, Link 46 …": what the line says comes first, then the
 * table. */
bool kmsg_sxid_fatal(int code, const char *text)
{
    struct xid_info x;

    if (strcasestr(text, "Non-fatal"))
        return false;
    return strstr(text, "Fatal, ") || (xid_find(code, &x) && x.severity == XID_CRITICAL);
}
