/* SPDX-License-Identifier: MIT */
/* data: the compiled-in files, as bytes between two symbols; for catalog/ alone. */
#ifndef CATALOG_DATA_H
#define CATALOG_DATA_H

extern const char data_nccl_env_begin[], data_nccl_env_end[];
extern const char data_gpus_begin[], data_gpus_end[];

#endif
