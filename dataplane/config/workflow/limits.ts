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
  /** The values in all definitions of a configuration together. */
  values: 10_000,
  depth: 100,
  output: 10 * 1024 * 1024,
  response: 1024 * 1024,
  schema: 100 * 1024,
  schemaDepth: 10,
  /** The deepest nesting of the parameters' schema. */
  parametersDepth: 20,
  state: 256 * 1024,
} as const
