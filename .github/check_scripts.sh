#!/usr/bin/env bash
# Checks scripts for the action: a SARIF file and a picture for each in $OUT, annotations on standard output. Without
# $SCRIPTS, those that were changed since $BASE. Exits with 1 if one of them has findings, or failed.
# shellcheck disable=SC2086 # options are several words
set -uo pipefail

if [ -z "${SCRIPTS:-}" ] && [ -n "${BASE:-}" ]; then
  git fetch --quiet --depth 1 origin "$BASE" || true
  SCRIPTS=$(git diff --name-only --diff-filter=AM "$BASE" -- '*.py')
fi
if [ -z "${SCRIPTS:-}" ]; then
  echo "no script to check: name some with 'scripts:'"
  exit 0
fi

mkdir -p "$OUT"
echo "folder=$OUT" >> "${GITHUB_OUTPUT:-/dev/null}"
result=0
for script in $SCRIPTS; do
  name=$OUT/$(echo "${script%.py}" | tr '/' '_')
  gradviz check "$script" ${RUN_OPTIONS:-} ${REPORT_OPTIONS:-} --format github -o "$name.gradviz" 2> "$name.log"
  code=$?
  if [ -s "$name.gradviz" ]; then
    gradviz check "$name.gradviz" ${REPORT_OPTIONS:-} --format sarif > "$name.sarif"
    gradviz render "$name.gradviz" -o "$name.svg" > /dev/null 2>> "$name.log"
  else
    echo "::error file=$script::gradviz could not check it (exit code $code)"
  fi
  if [ "$code" -ne 0 ]; then
    cat "$name.log"
    result=1
  fi
done
exit "$result"
