/* SPDX-License-Identifier: MIT */
/* xid: what a code of the driver's error messages means, from data/xid.csv.
 *
 * Looked up in the text as it is compiled in: a few hundred short lines, some times a day. */
#include "base/embed.h"
#include "base/str.h"
#include "telemetry/kmsg/kmsg_int.h"

#include <stdio.h>
#include <string.h>

EMBED(data_xid, "data/xid.csv");

enum { XID_SWITCH_FIRST = 10000, XID_COLUMNS = 5 }; /* columns behind "kind," that are used */

bool xid_is_switch(int code)
{
    return code >= XID_SWITCH_FIRST;
}

/* "code,mnemonic,severity,action,text,source"; no cell holds a comma or quote (a test checks). */
static void row_read(const char *row, struct xid_info *out)
{
    char severity[16];
    char *const cells[XID_COLUMNS] = { NULL, out->mnemonic, severity, out->action, out->text };
    const size_t caps[XID_COLUMNS] = { 0, sizeof(out->mnemonic), sizeof(severity),
                                       sizeof(out->action), sizeof(out->text) };

    severity[0] = '\0';
    for (size_t i = 0; i < XID_COLUMNS; i++) {
        size_t len = strcspn(row, ",\n");

        if (cells[i])
            (void)scan_copy(cells[i], caps[i], row, len);
        row += len + (row[len] == ',');
    }
    out->severity = str_eq(severity, "critical")  ? XID_CRITICAL
                    : str_eq(severity, "warning") ? XID_WARNING
                                                  : XID_INFO;
}

void xid_words(int code, char *out, size_t cap)
{
    struct xid_info x;

    if (xid_find(code, &x))
        snprintf(out, cap, "%s: %s; action: %s", x.mnemonic, x.text, x.action);
    else
        (void)str_copy(out, cap, "not in the table");
    str_make_text(out);
}

bool xid_find(int code, struct xid_info *out)
{
    struct xid_info x = { .code = code };
    char head[32];
    const char *at;

    snprintf(head, sizeof(head), "\n%s,%d,", xid_is_switch(code) ? "sxid" : "xid", code);
    at = strstr(data_xid, head);
    if (!at)
        return false;
    row_read(at + (xid_is_switch(code) ? strlen("\nsxid,") : strlen("\nxid,")), &x);
    *out = x;
    return true;
}
