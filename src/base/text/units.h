/* SPDX-License-Identifier: MIT */
/* units: quantities as people write them.
 *
 *   bytes     64GiB 80GB 79.6 GiB 512 (bytes)   GiB is 2^30, GB is 10^9; to a whole byte
 *   rate      400Gb/s 25GB/s 900GB/s            to bits per second; b bits, B bytes
 *   duration  90s 5m 12h 7d 250ms 1h30m         to milliseconds
 *   money     $3.50/h $5000/d $150000/mo $12    to micro-dollars, and per what
 *   percent   80% 80                            both are 80
 *
 * Case matters (80GIB is an error, Gb and GB differ); what we print for people can be written: one
 * space may stand before the unit of bytes and rates.  *out is untouched on failure;
 * RC_PARSE says why, RC_LIMIT that it does not fit. */
#ifndef BASE_TEXT_UNITS_H
#define BASE_TEXT_UNITS_H
#include "base/err.h"

#include <stdint.h>

enum money_per { MONEY_ONCE, MONEY_PER_HOUR, MONEY_PER_DAY, MONEY_PER_MONTH, MONEY_PER_YEAR };

enum rc units_bytes_parse(const char *s, uint64_t *out, struct err *err) MUST_USE;
enum rc units_rate_parse(const char *s, uint64_t *out_bps, struct err *err) MUST_USE;
enum rc units_duration_parse(const char *s, uint64_t *out_ms, struct err *err) MUST_USE;
enum rc units_money_parse(const char *s, int64_t *out_micro, enum money_per *out_per,
                          struct err *err) MUST_USE;
enum rc units_percent_parse(const char *s, double *out, struct err *err) MUST_USE;

enum { UNITS_TEXT_MAX = 32 };
/* Shortest exact form, e.g. "64GiB"; a value no unit divides is printed in bytes. */
const char *units_bytes_exact(uint64_t bytes, char out[UNITS_TEXT_MAX]);
/* For people: three digits, "139.8 GiB". */
const char *units_bytes_human(uint64_t bytes, char out[UNITS_TEXT_MAX]);
const char *units_rate_exact(uint64_t bps, char out[UNITS_TEXT_MAX]);    /* "400Gb/s" */
const char *units_duration_exact(uint64_t ms, char out[UNITS_TEXT_MAX]); /* "5m" */
const char *units_money_exact(int64_t micro, enum money_per per, char out[UNITS_TEXT_MAX]);

#endif
