/* SPDX-License-Identifier: MIT */
/* examples: five complete specs, compiled in from data/examples/. */
#include "base/embed.h"
#include "base/str.h"
#include "spec/spec.h"

EMBED(spec_example_ai, "data/examples/ai-platform-h200.yaml");
EMBED(spec_example_driving, "data/examples/driving-h200.yaml");
EMBED(spec_example_kb, "data/examples/kb-a100.yaml");
EMBED(spec_example_llm, "data/examples/llm-cluster.yaml");
EMBED(spec_example_rdma, "data/examples/rdma-openshift.yaml");

static const struct {
    const char *name, *what, *text;
    const uint64_t *len;
} files[] = {
    /* sorted by name */
    { "ai-platform-h200", "four AI components on one node of 8 H200, memory pools, compose",
      spec_example_ai, &spec_example_ai_len },
    { "driving-h200", "training one driving model on one node of 8 H200", spec_example_driving,
      &spec_example_driving_len },
    { "kb-a100", "embeddings and reranking for a knowledge base on one A100", spec_example_kb,
      &spec_example_kb_len },
    { "llm-cluster", "an LLM training cluster of 64 H100 nodes with Slurm and Lustre",
      spec_example_llm, &spec_example_llm_len },
    { "rdma-openshift", "multi-node training with RDMA on OpenShift, 0 to 6 nodes of 4 GPUs",
      spec_example_rdma, &spec_example_rdma_len },
};

size_t spec_example_count(void)
{
    return ARRAY_SIZE(files);
}

struct spec_example spec_example_at(size_t i)
{
    return (struct spec_example){
        .name = files[i].name, .what = files[i].what, .text = files[i].text, .len = *files[i].len
    };
}

bool spec_example_find(const char *name, struct spec_example *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if (str_eq(files[i].name, name)) {
            *out = spec_example_at(i);
            return true;
        }
    return false;
}
