/* SPDX-License-Identifier: MIT */
/* capture_mask_int: what capture_mask.c (files and tokens) and capture_mask_addr.c (numbers)
 * share. */
#ifndef HW_CAPTURE_CAPTURE_MASK_INT_H
#define HW_CAPTURE_CAPTURE_MASK_INT_H
#include "hw/capture/capture_mask.h"

#include <stdint.h>

/* ---- values with a number: 1, 2 … in the order seen ---- */
struct mask_ids {
    struct mask_id {
        char *key; /* owned */
        size_t len;
        uint32_t alias; /* what stands for it; its own number otherwise */
    } * items;
    size_t count, cap;
    uint32_t *slots; /* open addressing: number or 0 */
    size_t slots_cap;
    bool over; /* more than MASK_IDS_MAX */
};

void mask_ids_release(struct mask_ids *t);
uint32_t mask_ids_find(const struct mask_ids *t, const void *key, size_t len); /* 0: not there */
uint32_t mask_ids_add(struct mask_ids *t, const void *key, size_t len);

/* ---- addresses ---- */
struct mask_node {
    uint32_t child[2]; /* 0: none */
    bool first;        /* the bit first seen here: it becomes 0 … */
    bool keep;         /* … unless bits stay as they are here */
};

struct mask_trie {
    struct mask_node *nodes; /* owned; nodes[0] is the root once there is one */
    size_t count, cap;
    bool over;
};

struct mask_addrs {
    struct mask_trie v4, v6;
    struct mask_ids seen4, seen6; /* 4 and 16 bytes */
    struct mask_ids nets4, nets6; /* first 8 and 16 bits of public addresses */
    struct mask_ids macs, guids;  /* 6 and 8 bytes */
    bool over;
};

void mask_addrs_release(struct mask_addrs *a);
void mask_addrs_learn4(struct mask_addrs *a, const uint8_t addr[4]);
void mask_addrs_learn6(struct mask_addrs *a, const uint8_t addr[16]);
void mask_addrs_learn_mac(struct mask_addrs *a, const uint8_t mac[6]);
void mask_addrs_learn_guid(struct mask_addrs *a, const uint8_t guid[8]);
void mask_addrs_ready(struct mask_addrs *a);
/* In place; false, untouched, for what stays or was never learned. */
bool mask_addrs_map4(const struct mask_addrs *a, uint8_t addr[4]);
bool mask_addrs_map6(const struct mask_addrs *a, uint8_t addr[16]);
bool mask_addrs_map_mac(const struct mask_addrs *a, uint8_t mac[6]);
bool mask_addrs_map_guid(const struct mask_addrs *a, uint8_t guid[8]);

#endif
