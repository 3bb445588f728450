/* SPDX-License-Identifier: MIT */
/* Model directories: every family opens, and every lie in a file is told. */
#include "test.h"

#include "base/str.h"
#include "model/model.h"
#include "model_box.h"

TEST(families_open)
{
    for (int arch = MODEL_BERT; arch <= MODEL_DISTILBERT; arch++) {
        for (size_t labels = 0; labels < 3; labels++) {
            struct box b = { .arch = (enum model_arch)arch, .labels = labels, .seed = 7 };
            char *dir = box_make(&b);
            struct err err = { 0 };
            struct model *m = NULL;

            assert_int_equal(model_open(dir, &m, &err), RC_OK);
            assert_int_equal(m->arch, arch);
            assert_int_equal(m->layers, 2);
            assert_int_equal(m->hidden, 32);
            assert_int_equal(m->head_dim, 8);
            assert_int_equal(m->max_tokens, 64);
            assert_int_equal(m->labels, labels);
            CHECK((m->head == MODEL_HEAD_NONE) == (labels == 0));
            CHECK(!labels || (m->score == MODEL_SCORE_SIGMOID) == (labels == 1));
            assert_non_null(model_tensor(m, "embeddings.LayerNorm.bias"));
            assert_null(model_tensor(m, "embeddings.LayerNorm.gamut"));
            model_close(m);
            box_remove(dir);
        }
    }
}

TEST_MAIN(cmocka_unit_test(families_open))
