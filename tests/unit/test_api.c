/* SPDX-License-Identifier: MIT */
/* api: request bodies of every route as what they ask. */
#include "test.h"

#include "api_box.h"

/* ---- an ask as text: what differs from the defaults */

static void say_text(struct buf *o, struct tok_text t)
{
    buf_addf(o, "'%.*s'", (int)t.len, t.p ? t.p : "");
}

static void say_input(struct buf *o, const struct request_input *in)
{
    buf_addc(o, ' ');
    if (in->text.p)
        say_text(o, in->text);
    if (in->pair.p) {
        buf_addc(o, '+');
        say_text(o, in->pair);
    }
    for (size_t i = 0; i < in->id_count; i++)
        buf_addf(o, "%s%u", i ? "," : "#", in->ids[i]);
}

static void say_number(struct buf *o, const char *name, size_t v)
{
    if (v)
        buf_addf(o, " %s=%zu", name, v);
}

static void say_word(struct buf *o, const char *name, const char *v)
{
    if (v)
        buf_addf(o, " %s=%s", name, v);
}

static void say_options(struct buf *o, const struct request *k)
{
    const struct api_priv *priv = api_priv_of(k);

    say_word(o, "model", k->model_name);
    say_word(o, "prompt", k->prompt_name);
    say_word(o, "type", k->input_type);
    say_word(o, "instruction", k->instruction);
    say_number(o, "truncate", k->truncate);
    say_number(o, "left", k->cut_left);
    say_number(o, "max", k->max_tokens);
    say_number(o, "max_doc", k->max_tokens_doc);
    say_number(o, "max_query", k->max_tokens_query);
    say_number(o, "unit", k->normalize);
    if (k->norm_p != 2)
        buf_addf(o, " norm=%g", k->norm_p);
    say_number(o, "dim", k->dimensions);
    say_number(o, "no_specials", k->no_specials);
    say_number(o, "skip_specials", k->skip_specials);
    say_number(o, "raw", k->raw_scores);
    say_number(o, "sigmoid", k->sigmoid);
    say_number(o, "texts", k->return_texts);
    say_number(o, "top", k->top_n);
    say_number(o, "enc", k->encodings == API_FLOAT ? 0 : k->encodings);
    say_number(o, "bulk", k->class == REQUEST_BULK);
    say_number(o, "deadline", (size_t)k->deadline_ns);
    say_number(o, "nested", priv->nested);
    say_number(o, "top_k", priv->top_k);
    say_number(o, "apply", priv->apply);
}

static void say_ask(struct buf *o, const struct request *k)
{
    static const char *const whats[] = { "vectors", "tokens", "rank", "classes", "ids", "texts" };

    buf_addf(o, "%s%s", whats[k->what], k->single ? " one" : "");
    if (k->what == REQUEST_RANK) {
        buf_addc(o, ' ');
        say_text(o, k->query);
        buf_addc(o, ':');
    }
    for (size_t i = 0; i < k->count; i++)
        say_input(o, &k->inputs[i]);
    say_options(o, k);
}

static void say_fault(struct buf *o, const struct request_fault *f)
{
    buf_addf(o, "fault %d %s: %s", f->kind, f->param ? f->param : "-", f->message);
}

/* `body` and `want` have backticks for quotes. */
struct row {
    const char *path, *body, *want;
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct buf said = { 0 };
        struct box b;
        char *body = box_quotes(rows[i].body), *want = box_quotes(rows[i].want);
        if (box_parse(&b, rows[i].path, body, strlen(body), NULL, 0))
            say_ask(&said, &b.request);
        else
            say_fault(&said, &b.request.fault);
        if (strcmp(buf_str(&said), want))
            print_error("%s %s\n", rows[i].path, rows[i].body);
        assert_string_equal(buf_str(&said), want);
        free(body);
        free(want);
        buf_release(&said);
        box_release(&b);
    }
}

static const struct row tei_bodies_rows[] = {
    { "/embed", "{`inputs`:`a`}", "vectors one 'a' unit=1" },
    { "/embed",
      "{`inputs`:[`a`,`b`],`truncate`:true,`truncation_direction`:`Left`,"
      "`prompt_name`:`query`,`normalize`:false,`dimensions`:2}",
      "vectors 'a' 'b' prompt=query truncate=1 left=1 unit=2 dim=2" },
    { "/embed", "{`inputs`:[1,2,3]}", "vectors one #1,2,3 unit=1" },
    { "/embed", "{`inputs`:[`a`,[4294967295]],`truncate`:false,`truncation_direction`:`right`}",
      "vectors 'a' #4294967295 truncate=2 left=2 unit=1" },
    { "/embed",
      "{`inputs`:`a`,`truncate`:null,`normalize`:null,`dimensions`:null,`prompt_name`:null,"
      "`model`:null,`unknown`:{`x`:1}}",
      "vectors one 'a' unit=1" },
    { "/embed", "{`inputs`:`a`,`encoding_format`:`base64`,`priority`:`bulk`,`model`:`n`}",
      "vectors one 'a' model=n unit=1 enc=2 bulk=1" },
    { "/embed", "{`inputs`:``}", "fault 1 inputs: 'inputs' cannot be empty" },
    { "/embed", "{`inputs`:[`a`,``]}", "fault 1 inputs: 'inputs' cannot be empty: element 1 is" },
    { "/embed", "{`inputs`:[]}", "fault 1 inputs: 'inputs' cannot be empty" },
    { "/embed", "{`inputs`:[[]]}", "fault 1 inputs: 'inputs' cannot be empty: element 0 is" },
    { "/embed", "{}", "fault 2 inputs: 'inputs' is missing" },
    { "/embed", "{`inputs`:null}", "fault 2 inputs: 'inputs' is missing" },
    { "/embed", "[]", "fault 0 -: the body must be a JSON object" },
    { "/embed", "`a`", "fault 0 -: the body must be a JSON object" },
    { "/embed", "{`inputs`:{`a`:1}}",
      "fault 2 inputs: 'inputs' must be a string, a list of strings, or ids" },
    { "/embed", "{`inputs`:5}",
      "fault 2 inputs: 'inputs' must be a string, a list of strings, or ids" },
    { "/embed", "{`inputs`:[`a`,5]}",
      "fault 2 inputs: element 1 of 'inputs' is neither a string nor a list of ids" },
    { "/embed", "{`inputs`:[1,`a`]}",
      "fault 2 inputs: 'inputs' mixes ids with something else at element 1" },
    { "/embed", "{`inputs`:[[1,`a`]]}",
      "fault 2 inputs: 'inputs' mixes ids with something else at element 1" },
    { "/embed", "{`inputs`:[[1,[2]]]}",
      "fault 2 inputs: 'inputs' mixes ids with something else at element 1" },
    { "/embed", "{`inputs`:[4294967296]}",
      "fault 2 inputs: 'inputs' holds 4294967296, which is not an id: whole numbers from 0 to "
      "4294967295 are" },
    { "/embed", "{`inputs`:[-1]}",
      "fault 2 inputs: 'inputs' holds -1, which is not an id: whole numbers from 0 to "
      "4294967295 are" },
    { "/embed", "{`inputs`:[1.5]}",
      "fault 2 inputs: 'inputs' holds 1.5, which is not an id: whole numbers from 0 to "
      "4294967295 are" },
    { "/embed", "{`inputs`:[99999999999999999999]}",
      "fault 2 inputs: 'inputs' holds 99999999999999999999, which is not an id: whole numbers "
      "from 0 to 4294967295 are" },
    { "/embed", "{`inputs`:`a`,`dimensions`:0}",
      "fault 2 dimensions: 'dimensions' must be a whole number from 1 to 1073741824" },
    { "/embed", "{`inputs`:`a`,`dimensions`:-3}",
      "fault 2 dimensions: 'dimensions' must be a whole number from 1 to 1073741824" },
    { "/embed", "{`inputs`:`a`,`dimensions`:99999999999}",
      "fault 2 dimensions: 'dimensions' must be a whole number from 1 to 1073741824" },
    { "/embed", "{`inputs`:`a`,`dimensions`:`2`}",
      "fault 2 dimensions: 'dimensions' must be a whole number from 1 to 1073741824" },
    { "/embed", "{`inputs`:`a`,`normalize`:1}",
      "fault 2 normalize: 'normalize' must be true or false" },
    { "/embed", "{`inputs`:`a`,`truncate`:`maybe`}",
      "fault 2 truncate: 'truncate' must be true or false" },
    { "/embed", "{`inputs`:`a`,`truncation_direction`:`up`}",
      "fault 2 truncation_direction: 'truncation_direction' must be `left` or `right`" },
    { "/embed", "{`inputs`:`a`,`model`:5}", "fault 2 model: 'model' must be a string" },
    { "/embed", "{`inputs`:`a`,`model`:`x\\u0000y`}",
      "fault 2 model: 'model' is longer than 512 bytes or holds a NUL" },
    { "/embed", "{`inputs`:`a`,`priority`:`soon`}",
      "fault 2 priority: 'priority' must be `interactive`, `bulk` or a whole number" },
    { "/embed", "{`inputs`:`a`,}",
      "fault 0 -: the body cannot be read as JSON: line 1, column 15: "
      "expected a member name in quotes" },
    { "/embed", "{`inputs`:NaN}",
      "fault 0 -: the body cannot be read as JSON: line 1, column 11: expected a value" },
    { "/embed_all", "{`inputs`:[`a`,`b`]}", "tokens 'a' 'b' unit=2" },
    { "/embed_all", "{`inputs`:``}", "fault 1 inputs: 'inputs' cannot be empty" },
    { "/predict", "{`inputs`:`a`,`raw_scores`:true}", "classes one 'a' raw=1" },
    { "/predict", "{`inputs`:[`a`,`b`]}", "classes one 'a'+'b'" },
    { "/predict", "{`inputs`:`a`,`parameters`:{`top_k`:3}}", "classes one 'a' nested=1 top_k=3" },
    { "/predict", "{`inputs`:[`a`]}", "classes one 'a'" },
    { "/predict", "{`inputs`:[[`a`],[`a`,`b`]]}", "classes 'a' 'a'+'b'" },
    { "/predict", "{`inputs`:[`a`,`b`,`c`]}",
      "fault 2 inputs: 'inputs' must be a string, a pair of strings, or a list of lists "
      "that hold one or two strings each" },
    { "/predict", "{`inputs`:[[`a`],`b`]}",
      "fault 2 inputs: 'inputs' must be a string, a pair of strings, or a list of lists "
      "that hold one or two strings each" },
    { "/predict", "{`inputs`:[[`a`,`b`,`c`]]}",
      "fault 2 inputs: 'inputs' must be a string, a pair of strings, or a list of lists "
      "that hold one or two strings each" },
    { "/predict", "{`inputs`:[[]]}",
      "fault 2 inputs: 'inputs' must be a string, a pair of strings, or a list of lists "
      "that hold one or two strings each" },
    { "/predict", "{`inputs`:[]}", "fault 1 inputs: 'inputs' cannot be empty" },
    { "/predict", "{`inputs`:[1,2]}",
      "fault 2 inputs: 'inputs' must be a string, a pair of strings, or a list of lists "
      "that hold one or two strings each" },
    { "/predict", "{`inputs`:``}", "fault 1 inputs: 'inputs' cannot be empty" },
    { "/predict", "{`inputs`:[``,``]}", "fault 1 inputs: 'inputs' cannot be empty" },
    { "/predict", "{`inputs`:[``,`b`]}", "classes one ''+'b'" },
    { "/predict", "{}", "fault 2 inputs: 'inputs' is missing" },
    { "/similarity",
      "{`inputs`:{`source_sentence`:`s`,`sentences`:[`a`,`b`]},"
      "`parameters`:{`truncate`:false,`truncation_direction`:`left`,`prompt_name`:`p`}}",
      "vectors 's' 'a' 'b' prompt=p truncate=2 left=1 unit=1" },
    { "/similarity", "{`inputs`:{`source_sentence`:`s`,`sentences`:[`a`]},`parameters`:null}",
      "vectors 's' 'a' unit=1" },
    { "/similarity", "{`inputs`:{`sentences`:[`a`]}}",
      "fault 2 source_sentence: 'source_sentence' is missing" },
    { "/similarity", "{`inputs`:{`source_sentence`:`s`,`sentences`:[]}}",
      "fault 1 sentences: 'sentences' cannot be empty" },
    { "/similarity", "{`inputs`:{`source_sentence`:`s`,`sentences`:`a`}}",
      "fault 2 sentences: 'sentences' must be a list of strings" },
    { "/similarity", "{`inputs`:{`source_sentence`:`s`,`sentences`:[`a`]},`parameters`:[]}",
      "fault 2 parameters: 'inputs' and 'parameters' must be objects" },
    { "/similarity", "{`inputs`:`a`}",
      "fault 2 inputs: 'inputs' and 'parameters' must be objects" },
    { "/tokenize", "{`inputs`:`a`}", "ids one 'a'" },
    { "/tokenize", "{`inputs`:[`a`,`b`],`add_special_tokens`:false,`prompt_name`:`p`}",
      "ids 'a' 'b' prompt=p no_specials=1" },
    { "/tokenize", "{`inputs`:[1,2]}",
      "fault 2 inputs: 'inputs' must be a string or a list of strings" },
    { "/tokenize", "{`inputs`:``}", "fault 1 inputs: 'inputs' cannot be empty" },
    { "/decode", "{`ids`:[1,2]}", "texts one #1,2 skip_specials=1" },
    { "/decode", "{`ids`:[[1],[2,3]],`skip_special_tokens`:false}", "texts #1 #2,3" },
    { "/decode", "{`ids`:[]}", "fault 1 ids: 'ids' cannot be empty" },
    { "/decode", "{`ids`:[[1],[]]}", "fault 1 ids: 'ids' cannot be empty: element 1 is" },
    { "/decode", "{`ids`:[`a`]}", "fault 2 ids: 'ids' must be ids or a list of lists of them" },
    { "/decode", "{`ids`:`a`}", "fault 2 ids: 'ids' must be ids or a list of lists of them" },
};

TEST(tei_bodies)
{
    check_rows(tei_bodies_rows, ARRAY_SIZE(tei_bodies_rows));
}

static const struct row root_bodies_rows[] = {
    { "/", "{`inputs`:`a`}", "vectors one 'a' unit=1" },
    { "/", "{`inputs`:[`a`,`b`],`normalize`:false}", "vectors 'a' 'b' unit=2" },
    { "/", "{`inputs`:[[`a`],[`a`,`b`]]}", "classes 'a' 'a'+'b' unit=1" },
    { "/", "{`inputs`:`a`,`parameters`:{}}", "vectors one 'a' unit=1 nested=1" },
    { "/", "{`inputs`:`a`,`parameters`:{`top_k`:2,`function_to_apply`:`softmax`}}",
      "vectors one 'a' unit=1 nested=1 top_k=2 apply=3" },
    { "/", "{`inputs`:{`source_sentence`:`s`,`sentences`:[`a`]},`parameters`:{}}",
      "vectors 's' 'a' unit=1" },
    { "/", "{`query`:`q`,`texts`:[`a`]}", "rank 'q': 'a' sigmoid=1" },
    { "/", "{`inputs`:``}", "fault 1 inputs: 'inputs' cannot be empty" },
    { "/", "{}", "fault 2 inputs: 'inputs' is missing" },
    { "/", "[]", "fault 0 -: the body must be a JSON object" },
    { "/", "{`inputs`:`a`,`parameters`:{`function_to_apply`:`tanh`}}",
      "fault 2 function_to_apply: 'function_to_apply' must be none, sigmoid or softmax" },
    { "/", "{`inputs`:`a`,`parameters`:5}", "fault 2 parameters: 'parameters' must be an object" },
    { "/invocations", "{`inputs`:`a`}", "vectors one 'a' unit=1" },
};

TEST(root_bodies)
{
    check_rows(root_bodies_rows, ARRAY_SIZE(root_bodies_rows));
}

static const struct row openai_bodies_rows[] = {
    { "/v1/embeddings", "{`input`:`a`,`model`:`m`,`encoding_format`:`base64`,`user`:`u`}",
      "vectors one 'a' model=m unit=1 enc=2" },
    { "/v1/embeddings", "{`input`:[`a`,`b`],`dimensions`:256,`encoding_format`:`float`}",
      "vectors 'a' 'b' unit=1 dim=256" },
    { "/v1/embeddings", "{`input`:[5,6]}", "vectors one #5,6 unit=1" },
    { "/v1/embeddings", "{`input`:[[5,6],[7]],`prompt_name`:`query`}",
      "vectors #5,6 #7 prompt=query unit=1" },
    { "/v1/embeddings", "{`input`:`a`,`truncate_prompt_tokens`:-1}",
      "vectors one 'a' truncate=1 unit=1" },
    { "/v1/embeddings",
      "{`input`:`a`,`truncate_prompt_tokens`:16,`truncation_side`:`left`,`priority`:3,"
      "`add_special_tokens`:false}",
      "vectors one 'a' truncate=1 left=1 max=16 unit=1 no_specials=1 bulk=1" },
    { "/v1/embeddings",
      "{`input`:`a`,`encoding_format`:`base64`,`embed_dtype`:`float16`,"
      "`endianness`:`little`}",
      "vectors one 'a' unit=1 enc=4" },
    { "/v1/embeddings", "{`input`:`a`,`encoding_format`:`bytes`}",
      "vectors one 'a' unit=1 enc=128" },
    { "/v1/embeddings",
      "{`input`:`a`,`embedding_type`:`ubinary`,`task`:`retrieval.query`,`normalized`:false}",
      "vectors one 'a' type=query unit=2 enc=64" },
    { "/v1/embeddings",
      "{`input`:`a`,`modality`:`text`,`dimensions`:0,`input_type`:`document`,"
      "`instruction`:`find`}",
      "vectors one 'a' type=document instruction=find unit=1" },
    { "/v1/embeddings", "{`input`:``}", "fault 1 input: 'input' cannot be empty" },
    { "/v1/embeddings", "{`input`:[`a`,``]}",
      "fault 1 input: 'input' cannot be empty: element 1 is" },
    { "/v1/embeddings", "{`input`:[`a`,[1]]}",
      "fault 2 input: 'input' mixes strings with lists of ids" },
    { "/v1/embeddings", "{`input`:[[1],`a`]}",
      "fault 2 input: 'input' mixes strings with lists of ids" },
    { "/v1/embeddings", "{`input`:[]}", "fault 1 input: 'input' cannot be empty" },
    { "/v1/embeddings", "{`input`:[true]}",
      "fault 2 input: element 0 of 'input' is neither a string nor a list of ids" },
    { "/v1/embeddings", "{`model`:`m`}", "fault 2 input: 'input' is missing" },
    { "/v1/embeddings", "{`input`:`a`,`encoding_format`:`hex`}",
      "fault 2 encoding_format: 'encoding_format' must be float, base64, float16, int8, "
      "uint8, binary, ubinary or octets" },
    { "/v1/embeddings", "{`input`:`a`,`encoding_format`:[`float`]}",
      "fault 2 encoding_format: 'encoding_format' must be float, base64, float16, int8, "
      "uint8, binary, ubinary or octets" },
    { "/v1/embeddings", "{`input`:`a`,`embed_dtype`:`bfloat16`,`encoding_format`:`base64`}",
      "fault 2 embed_dtype: 'embed_dtype' must be float32, or float16 with encoding_format "
      "base64" },
    { "/v1/embeddings", "{`input`:`a`,`endianness`:`big`}",
      "fault 2 endianness: 'endianness' must be native or little" },
    { "/v1/embeddings", "{`input`:`a`,`truncate_prompt_tokens`:0}",
      "fault 2 truncate_prompt_tokens: 'truncate_prompt_tokens' must be -1 or a whole "
      "number from 1 to 1073741824" },
    { "/v1/embeddings", "{`input`:`a`,`truncate_prompt_tokens`:-2}",
      "fault 2 truncate_prompt_tokens: 'truncate_prompt_tokens' must be -1 or a whole "
      "number from 1 to 1073741824" },
    { "/v1/embeddings", "{`input`:`a`,`modality`:`image`}",
      "fault 2 modality: 'modality' must be text" },
    { "/v1/embeddings", "{`messages`:[{`role`:`user`,`content`:`a`}]}",
      "fault 2 messages: 'messages' are not taken: give 'input'" },
    { "/embeddings", "{`input`:`a`,`dimensions`:0}", "vectors one 'a' unit=1" },
    { "/embeddings", "{`content`:`a`,`embd_normalize`:-1}", "vectors one 'a' unit=2" },
    { "/classify", "{`input`:[`a`,`b`],`raw_scores`:true}", "classes 'a' 'b' raw=1" },
    { "/classify", "{`input`:[]}", "fault 1 input: 'input' cannot be empty" },
};

TEST(openai_bodies)
{
    check_rows(openai_bodies_rows, ARRAY_SIZE(openai_bodies_rows));
}

static const struct row cohere_bodies_rows[] = {
    { "/v2/embed",
      "{`model`:`m`,`texts`:[`a`,`b`],`input_type`:`search_query`,"
      "`embedding_types`:[`float`,`int8`,`base64`],`output_dimension`:64,"
      "`truncate`:`START`}",
      "vectors 'a' 'b' model=m type=search_query truncate=1 left=1 unit=1 dim=64 enc=11" },
    { "/v2/embed", "{`texts`:[`a`,``],`truncate`:`NONE`,`max_tokens`:8,`priority`:0}",
      "vectors 'a' '' truncate=2 max=8 unit=1" },
    { "/v2/embed", "{`inputs`:[{`content`:[{`type`:`text`,`text`:`a`}]}],`truncate`:`END`}",
      "vectors 'a' truncate=1 left=2 unit=1" },
    { "/v2/embed", "{`texts`:[`a`],`images`:[]}", "vectors 'a' unit=1" },
    { "/v2/embed", "{`texts`:[`a`],`inputs`:[]}",
      "fault 2 texts: give 'texts' or 'inputs', not both" },
    { "/v2/embed", "{`images`:[`data:x`]}",
      "fault 2 images: 'images' are not supported, texts are" },
    { "/v2/embed", "{`inputs`:[{`content`:[{`type`:`image_url`,`image_url`:{}}]}]}",
      "fault 2 inputs: 'inputs' must be objects whose `content` is a list of one text" },
    { "/v2/embed", "{`inputs`:[{`content`:[{`text`:`a`},{`text`:`b`}]}]}",
      "fault 2 inputs: 'inputs' must be objects whose `content` is a list of one text" },
    { "/v2/embed", "{`inputs`:[]}", "fault 1 inputs: 'inputs' cannot be empty" },
    { "/v2/embed", "{`texts`:[]}", "fault 1 texts: 'texts' cannot be empty" },
    { "/v2/embed", "{`texts`:`a`}", "fault 2 texts: 'texts' must be a list of strings" },
    { "/v2/embed", "{`texts`:[5]}",
      "fault 2 texts: element 0 of 'texts' is neither a string nor an object with `text`" },
    { "/v2/embed", "{`texts`:[`a`],`embedding_types`:[]}",
      "fault 2 embedding_types: 'embedding_types' must be a list of names" },
    { "/v2/embed", "{`texts`:[`a`],`embedding_types`:[`float`,`octets`]}",
      "fault 2 embedding_types: octets go with no other type" },
    { "/v2/embed", "{`texts`:[`a`],`embedding_types`:[`double`]}",
      "fault 2 embedding_types: 'embedding_types' must be float, base64, float16, int8, "
      "uint8, binary, ubinary or octets" },
    { "/v2/embed", "{`texts`:[`a`],`input_type`:`image`}",
      "fault 2 input_type: images are not supported" },
    { "/v2/embed", "{}", "fault 2 texts: 'texts' is missing" },
    { "/v1/embed", "{`texts`:[`a`]}", "vectors 'a' unit=1" },
    { "/v2/rerank",
      "{`model`:`m`,`query`:`q`,`documents`:[`a`,{`text`:`b`}],`top_n`:1,"
      "`max_tokens_per_doc`:100}",
      "rank 'q': 'a' 'b' model=m max_doc=100 top=1" },
    { "/v2/rerank", "{`query`:`q`,`documents`:[`a`],`return_documents`:true}",
      "rank 'q': 'a' texts=1" },
    { "/v2/rerank", "{`query`:``,`documents`:[`a`]}", "fault 1 query: 'query' cannot be empty" },
    { "/v2/rerank", "{`documents`:[`a`]}", "fault 2 query: 'query' is missing" },
    { "/v2/rerank", "{`query`:`q`}", "fault 2 documents: 'documents' is missing" },
    { "/v2/rerank", "{`query`:`q`,`documents`:[]}",
      "fault 1 documents: 'documents' cannot be empty" },
    { "/v2/rerank", "{`query`:`q`,`documents`:[{`title`:`a`}]}",
      "fault 2 documents: element 0 of 'documents' is neither a string nor an object with "
      "`text`" },
    { "/v2/rerank", "{`query`:`q`,`documents`:[`a`],`top_n`:-1}",
      "fault 2 top_n: 'top_n' must be a whole number from 0 to 1073741824" },
    { "/v2/rerank", "{`query`:[`q`],`documents`:[`a`]}",
      "fault 2 query: 'query' must be a string" },
};

TEST(cohere_bodies)
{
    check_rows(cohere_bodies_rows, ARRAY_SIZE(cohere_bodies_rows));
}

static const struct row rank_bodies_rows[] = {
    { "/rerank",
      "{`query`:`q`,`texts`:[`a`,`b`],`raw_scores`:true,`return_text`:true,"
      "`truncate`:false,`truncation_direction`:`Left`}",
      "rank 'q': 'a' 'b' truncate=2 left=1 raw=1 sigmoid=1 texts=1" },
    { "/rerank", "{`query`:``,`texts`:[`a`]}", "rank '': 'a' sigmoid=1" },
    { "/rerank", "{`query`:``,`texts`:[`a`,``]}",
      "fault 1 query: 'query' and text 1 are both empty" },
    { "/rerank", "{`query`:`q`,`texts`:[]}", "fault 1 texts: 'texts' cannot be empty" },
    { "/rerank", "{`texts`:[`a`]}", "fault 2 query: 'query' is missing" },
    { "/rerank", "{`query`:`q`,`documents`:[`a`,{`content`:`b`}],`top_n`:2}",
      "rank 'q': 'a' 'b' texts=1 top=2" },
    { "/rerank", "{`query`:`q`,`documents`:[`a`],`return_documents`:false,`raw_scores`:true}",
      "rank 'q': 'a' raw=1 sigmoid=1" },
    { "/rerank", "{`query`:`q`,`documents`:[`a`],`texts`:[`b`]}",
      "fault 2 texts: give 'documents' or 'texts', not both" },
    { "/rerank", "{`query`:`q`}", "fault 2 documents: 'documents' is missing" },
    { "/rerank", "{`query`:`q`,`documents`:`a`}", "rank 'q': 'a' texts=1" },
    { "/rerank", "{`query`:`q`,`documents`:5}",
      "fault 2 documents: 'documents' must be a list of strings" },
    { "/rerank", "{`query`:`q`,`documents`:[`a`],`top_n`:1.5}",
      "fault 2 top_n: 'top_n' must be a whole number from 0 to 1073741824" },
    { "/v1/rerank",
      "{`query`:`q`,`documents`:[``,`b`],`max_tokens_per_query`:5,`max_tokens_per_doc`:6,"
      "`truncate_prompt_tokens`:7,`instruction`:`i`,`use_activation`:false}",
      "rank 'q': '' 'b' instruction=i truncate=1 max=7 max_doc=6 max_query=5 raw=1 texts=1" },
    { "/score", "{`text_1`:`q`,`text_2`:`a`}", "rank 'q': 'a'" },
    { "/score", "{`queries`:`q`,`documents`:[`a`,`b`],`use_activation`:false}",
      "rank 'q': 'a' 'b' raw=1" },
    { "/v1/score", "{`data_1`:[`q`,`r`],`data_2`:[`a`,`b`]}", "classes 'q'+'a' 'r'+'b'" },
    { "/score", "{`text_1`:[`q`,`r`],`text_2`:[`a`]}",
      "fault 2 text_1: 2 texts on the left and 1 on the right: give one, or as many" },
    { "/score", "{`text_1`:`q`}", "fault 2 text_2: 'text_2' is missing" },
    { "/score", "{`text_2`:`q`}", "fault 2 text_1: 'text_1' is missing" },
    { "/score", "{}", "fault 2 queries: 'queries' is missing" },
    { "/score", "{`text_1`:`q`,`queries`:`r`,`text_2`:`a`}",
      "fault 2 text_1: give 'queries' or 'text_1', not both" },
    { "/score", "{`text_1`:[],`text_2`:`a`}", "fault 1 text_1: 'text_1' cannot be empty" },
    { "/score", "{`text_1`:5,`text_2`:`a`}", "fault 2 text_1: 'text_1' must be a list of strings" },
};

TEST(rank_bodies)
{
    check_rows(rank_bodies_rows, ARRAY_SIZE(rank_bodies_rows));
}

static const struct row llama_bodies_rows[] = {
    { "/embedding", "{`content`:`a`}", "vectors one 'a' unit=1" },
    { "/embedding", "{`input`:[`a`,[1,2]],`embd_normalize`:0}", "vectors 'a' #1,2 unit=1 norm=0" },
    { "/embedding", "{`content`:`a`,`embd_normalize`:3,`encoding_format`:`base64`}",
      "vectors one 'a' unit=1 norm=3 enc=2" },
    { "/embedding", "{`content`:``}", "fault 1 content: 'content' cannot be empty" },
    { "/embedding", "{}", "fault 2 content: 'content' is missing" },
    { "/embedding", "{`content`:`a`,`embd_normalize`:-2}",
      "fault 2 embd_normalize: 'embd_normalize' must be a whole number from -1 to "
      "1073741824" },
    { "/embedding", "{`content`:[1,`a`]}",
      "fault 2 content: 'content' mixes ids with something else at element 1" },
    { "/reranking", "{`query`:`q`,`documents`:[`a`],`top_n`:3}", "rank 'q': 'a' raw=1 top=3" },
    { "/reranking", "{`query`:`q`,`texts`:[`a`]}", "rank 'q': 'a' raw=1 sigmoid=1" },
    { "/reranking", "{`query`:`q`}", "fault 2 documents: 'documents' is missing" },
};

TEST(llama_bodies)
{
    check_rows(llama_bodies_rows, ARRAY_SIZE(llama_bodies_rows));
}

/* ---- what every route takes */

TEST(a_model_may_stand_in_the_url)
{
    static const struct {
        const char *query, *body, *want;
    } rows[] = {
        { "model=a%2Fb", "{\"inputs\":\"x\"}", "a/b" },
        { "x=y&model=n", "{\"inputs\":\"x\",\"model\":\"m\"}", "m" },
        { "", "{\"inputs\":\"x\"}", NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct http_request http = { .method = HTTP_POST,
                                     .path = "/embed",
                                     .query = rows[i].query };
        struct request r = { .http = &http, .encodings = API_FLOAT };
        struct json *tree;

        CHECK(json_parse(&r.arena, rows[i].body, strlen(rows[i].body), &tree, NULL) == RC_OK);
        CHECK(api_find("/embed")->parse(&r, tree));
        if (rows[i].want)
            assert_string_equal(r.model_name, rows[i].want);
        else
            assert_null(r.model_name);
        arena_release(&r.arena);
    }
}

static void check_extras(const struct serve_route *row)
{
    const char *type = strstr(row->example, "input_type") ? "search_document" : "t";
    struct buf body = { 0 };
    struct box b;

    buf_add(&body, row->example, strlen(row->example) - 1);
    buf_addf(
        &body,
        ",\"prompt_name\":\"p\",\"input_type\":\"%s\",\"instruction\":\"i\",\"priority\":\"bulk\"}",
        type);
    CHECK(box_parse(&b, row->path, body.data, body.len, NULL, 0));
    assert_string_equal(b.request.prompt_name, "p");
    assert_string_equal(b.request.input_type, type);
    assert_string_equal(b.request.instruction, "i");
    CHECK(b.request.class == REQUEST_BULK);
    box_release(&b);
    buf_release(&body);
}

TEST(every_route_takes_prompts_and_a_priority)
{
    for (size_t i = 0; api_at(i); i++)
        check_extras(api_at(i));
}

/* ---- one table */

TEST(every_route_is_found_once_and_its_example_works)
{
    for (size_t i = 0; api_at(i); i++) {
        const struct serve_route *row = api_at(i);
        struct box b;
        assert_ptr_equal(api_find(row->path), row);
        CHECK(row->summary && row->example && row->parse && row->write);
        CHECK(box_parse(&b, row->path, row->example, strlen(row->example), NULL, 0));
        CHECK(b.request.count > 0 && b.request.id);
        box_release(&b);
    }
    CHECK(!api_find("/nowhere"));
    CHECK(api_at(19) && !api_at(20));
}

TEST_MAIN(cmocka_unit_test(a_model_may_stand_in_the_url),
          cmocka_unit_test(every_route_takes_prompts_and_a_priority), cmocka_unit_test(tei_bodies),
          cmocka_unit_test(root_bodies), cmocka_unit_test(openai_bodies),
          cmocka_unit_test(cohere_bodies), cmocka_unit_test(rank_bodies),
          cmocka_unit_test(llama_bodies),
          cmocka_unit_test(every_route_is_found_once_and_its_example_works))
