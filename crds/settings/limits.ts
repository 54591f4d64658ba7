export const limits = {
  /** A Kubernetes object name (DNS subdomain). */
  name: 253,
  /** The name of a workload; see crds/define.ts. */
  workloadName: 52,
  label: 63,
  url: 2048,
  text: 1024,
  prose: 4096,
  program: 65536,
  file: 524288,
  headerName: 255,
  headerValue: 8192,
  map: 64,
  list: 64,
  tools: 512,
  process: 256,
  /** Cedar policies of a workload, and characters of a text that may hold several: the limits of the engine. */
  policies: 1000,
  policyText: 262144,
  members: 1024,
  /**
   * Names in a list of a status. Such lists are atomic: otherwise the API server keeps a record of each item, larger
   * than the item.
   */
  statusNames: 10_000,
  conditions: 256,
  steps: 100,
} as const
