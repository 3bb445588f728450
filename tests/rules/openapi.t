#!/bin/sh
# data/openapi.json is a valid document of OpenAPI 3.1 and its examples fit their schemas; the
# agent's is valid too.
# Needs the Python package openapi-spec-validator (PYTHON names an interpreter that has it).
cd "$(dirname "$0")/../.." || exit 1
python=${PYTHON:-python3}
if ! "$python" -c 'import openapi_spec_validator, jsonschema' 2>/dev/null; then
    echo '1..0 # SKIP the Python package openapi-spec-validator is not installed'
    exit 0
fi
echo 1..3
failed=0
check() { # number, title, program
    if log=$("$python" -c "$3" 2>&1); then echo "ok $1 - $2"; else
        failed=1
        echo "not ok $1 - $2"
        echo "$log" | tail -20 | sed 's/^/# /' >&2
    fi
}
check 1 'the document is valid' '
import json, openapi_spec_validator
openapi_spec_validator.validate(json.load(open("data/openapi.json")))'
check 2 'every example fits its schema' '
import json, jsonschema
doc = json.load(open("data/openapi.json"))
count = 0
for path, operations in doc["paths"].items():
    for operation in operations.values():
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if body:
            schema = {**body["schema"], "components": doc["components"]}
            jsonschema.Draft202012Validator(schema).validate(body["example"])
            count += 1
assert count > 10, count'
check 3 'the document of the agent is valid' '
import json, openapi_spec_validator
openapi_spec_validator.validate(json.load(open("data/openapi-agent.json")))'
exit $failed
