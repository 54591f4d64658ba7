/** Bounds of lists, maps and strings: generous, in one place, so that CEL cost and object size stay finite. */
export const limits = {
  /** A Kubernetes object name (DNS subdomain). */
  name: 253,
  /** The name of a workload; see crds/root.ts. */
  workloadName: 52,
  label: 63,
  url: 2048,
  /** A string without a more specific bound. */
  text: 1024,
  /** A description or a text shown to people. */
  prose: 4096,
  /** A template or a variable. */
  program: 65536,
  /** A file inside the object. */
  file: 524288,
  headerName: 255,
  headerValue: 8192,
  map: 64,
  list: 64,
  /** Names of tools in a filter. */
  tools: 512,
  /** Command-line arguments, environment variables. */
  process: 256,
  /** Cedar policies of a workload, and characters of a text that may hold several: the limits of the engine. */
  policies: 1000,
  policyText: 262144,
  /** Settings for single members of a group. */
  members: 1024,
  /**
   * Names in a list of a status: members of a group, backends of a gateway, users of a config. Such lists are atomic,
   * because the API server would otherwise keep a record of each item that is larger than the item.
   */
  statusNames: 10_000,
  /** Conditions: some kinds have one for each backend. */
  conditions: 256,
  steps: 100,
} as const
