/** Bounds of composite tools that no definition can widen; times in milliseconds, sizes in bytes. */
export const workflowLimits = {
  /** Longest times, and what they are where a definition says nothing. */
  workflowMs: 30 * 60_000,
  stepMs: 5 * 60_000,
  elicitationMs: 5 * 60_000,
  longestElicitationMs: 10 * 60_000,
  retryDelayMs: 1_000,
  retries: 3,
  steps: 100,
  /** Steps of one run at the same time, and items of a forEach where it says nothing. */
  parallel: 10,
  items: 100,
  /** How deep arguments, and templates in them, may be nested. */
  depth: 100,
  /** Of what a template gives, and of the outputs that a run keeps. */
  output: 10 * 1024 * 1024,
  /** Of what a user answers. */
  response: 1024 * 1024,
  schema: 100 * 1024,
  schemaDepth: 10,
  /** How deep the schema of the parameters may be nested. */
  parametersDepth: 20,
  /** Of what is kept at the client while it answers. */
  state: 256 * 1024,
} as const
