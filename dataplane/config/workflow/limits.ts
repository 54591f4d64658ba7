/** Bounds of composite tools that no definition can widen. Times are in milliseconds, sizes in bytes. */
export const workflowLimits = {
  /** The longest times, and the defaults. */
  workflowMs: 30 * 60_000,
  stepMs: 5 * 60_000,
  elicitationMs: 5 * 60_000,
  longestElicitationMs: 10 * 60_000,
  retryDelayMs: 1_000,
  retries: 3,
  steps: 100,
  /** The most parallel steps of one run, and the default of parallel items of a forEach. */
  parallel: 10,
  items: 100,
  /** The deepest nesting of arguments, and of templates in them. */
  depth: 100,
  /** The size of a template's result, and of the outputs that a run keeps. */
  output: 10 * 1024 * 1024,
  /** The size of a user's answer. */
  response: 1024 * 1024,
  schema: 100 * 1024,
  schemaDepth: 10,
  /** The deepest nesting of the parameters' schema. */
  parametersDepth: 20,
  /** The size of the state that the client keeps while it answers. */
  state: 256 * 1024,
} as const
