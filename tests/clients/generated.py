# SPDX-License-Identifier: MIT
"""TAP of what `stoker serve` answers to requests made from its own OpenAPI document by Schemathesis:
generated.py STOKER, in an empty folder.

For each operation some hundred requests that fit the document and some that do not: no 5xx but those that
are documented, and every status, Content-Type and body is one of those that the document has.  The seed is
fixed, so that a failure comes again."""
import os
import sys

os.environ.update(NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")

import hypothesis  # noqa: E402
import schemathesis  # noqa: E402
from hypothesis import HealthCheck, Phase, settings  # noqa: E402
from schemathesis.core.failures import FailureGroup  # noqa: E402
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import serve_models  # noqa: E402
import serve_test  # noqa: E402
from serve_test import Server, check  # noqa: E402

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
SKIPPED = ("/v1/models/load", "/v1/models/unload",  # they change what the others are asked of
           "/v1/embeddings/stream", "/v1/rerank/stream")  # an answer is a stream of lines
EXAMPLES = int(os.environ.get("GENERATED_EXAMPLES", "60"))


def one(operation, mode, url):
    faults = {}

    @hypothesis.seed(20)
    @settings(max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def run(case):
        response = case.call(base_url=url, timeout=30)
        try:
            case.validate_response(response, checks=CHECKS)
        except FailureGroup as group:
            for e in group.exceptions:
                faults.setdefault((response.status_code, type(e).__name__), f"{case.as_curl_command()}\n{response.text[:300]}\n{e}"[:1500])

    try:
        run()
    except hypothesis.errors.Unsatisfiable:
        pass  # nothing can be wrong with it
    return faults


def main():
    serve_models.vectors("emb")
    serve_models.ranker("rank")
    serve_models.classifier("class")
    s = Server("-m", "emb=emb", "-m", "rank=rank", "-m", "class=class", "--batch-dir", "batches")
    check("the server starts", s.port and "ready" in s.text, s.text)
    url = f"http://127.0.0.1:{s.port}"
    schema = schemathesis.openapi.from_url(url + "/openapi.json")
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path in SKIPPED:
            continue
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            faults = one(operation, mode, url)
            check(f"{operation.method.upper()} {operation.path}: {mode.value} requests get what is documented", not faults, *(f"{k}: {v}" for k, v in faults.items()))
    rc, rest = s.stop()
    check("it stops", rc == 0, rc, rest)
    serve_test.done()


main()
