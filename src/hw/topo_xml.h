/* SPDX-License-Identifier: MIT */
/* topo_xml: a machine as NCCL writes it (NCCL_TOPO_DUMP_FILE) and reads it
 * (NCCL_TOPO_FILE, virtualTopology.xml).
 *
 * The language is that of NCCL's own reader: elements with attributes, comments, no
 * text, no entities.  The tree is
 *
 *   system > cpu > pci (bridges, nested) > pci (a function) > gpu > nvlink
 *                                                           > nic > net
 *
 * and the distance between two of its leaves is what NCCL makes of it: PIX below one
 * bridge, PXB below several, PHB at one cpu (a NUMA node), SYS between two. */
#ifndef HW_TOPO_XML_H
#define HW_TOPO_XML_H
#include "base/arena.h"
#include "base/err.h"
#include "base/maybe.h"

enum {
    TOPO_XML_BYTES_MAX = 4 << 20, /* of a file */
    TOPO_XML_NODES_MAX = 8192,    /* elements; NCCL itself stops at 256 for each rank */
    TOPO_XML_DEPTH_MAX = 64,      /* elements within each other */
    TOPO_XML_ATTRS_MAX = 24,      /* attributes of an element that are kept; NCCL keeps 16 */
    TOPO_XML_WORD_MAX = 255       /* bytes of a name or a value, as in NCCL */
};

struct topo_xml_attr {
    const char *key, *value;
};

struct topo_xml_node {
    const char *name;
    int parent; /* position in nodes[]; -1: none */
    struct topo_xml_attr *attrs;
    size_t attrs_count;
};

struct topo_xml {
    struct topo_xml_node *nodes; /* parents before their children */
    size_t count;
};

/* Errors name line and column.  Everything lives in the arena. */
enum rc topo_xml_parse(struct arena *a, const char *text, size_t len, struct topo_xml *out,
                       struct err *err) MUST_USE;
/* NULL when the element has no such attribute. */
const char *topo_xml_get(const struct topo_xml_node *n, const char *key);
struct maybe topo_xml_int(const struct topo_xml_node *n, const char *key);
/* The nearest element of this name at or above `node`; -1: none. */
int topo_xml_above(const struct topo_xml *t, int node, const char *name);
/* Between a gpu, nic, net or pci function and another: "PIX", "PXB", "PHB", "SYS"; NULL: not
 * known. */
const char *topo_xml_path(const struct topo_xml *t, int a, int b);

#endif
