// @ts-check
// What is shown of Python's tracebacks. Pure.

/** @import { Exceptions, Failure } from "../../../types.d.ts" */

/**
 * The root cause: for an error in user code the user's own exception, not the one that reports it.
 * @param {Failure} failure
 */
export function headline(failure) {
  const raised = (failure.stacktrace ?? "")
    .split("\n")
    .find((line) => /^[A-Za-z_][\w.]*(: |$)/.test(line));
  return raised && raised.length < 300 ? raised : (failure.exceptionName ?? "Exception");
}

/** @param {string | null | undefined} text */
export function lastLine(text) {
  return (text ?? "").trim().split("\n").at(-1) ?? "";
}

/**
 * Where it failed: the names that are known.
 * @param {Failure} failure
 */
export function whereabouts(failure) {
  return [failure.exceptionName, failure.taskName, failure.endpoint ?? failure.location]
    .filter((each) => each && each !== "(unassigned)")
    .join(" · ");
}

/**
 * The failures of a job, the newest first; of a job without a history, the one that ended it.
 * @param {Exceptions} answer
 * @returns {Failure[]}
 */
export function failures(answer) {
  const entries = answer.exceptionHistory?.entries ?? [];
  const root = answer["root-exception"];
  if (entries.length || !root) return entries;
  return [
    {
      exceptionName: lastLine(root).split(":")[0],
      stacktrace: root,
      timestamp: answer.timestamp,
    },
  ];
}
