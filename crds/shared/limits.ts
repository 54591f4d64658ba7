/** Bounds of lists, maps and strings: generous, in one place, so that CEL cost and object size stay finite. */
export const limits = {
  /** A Kubernetes object name (DNS subdomain). */
  name: 253,
  /** A DNS label. */
  label: 63,
  url: 2048,
  /** A string that is nothing more special. */
  text: 1024,
  /** A description or a text shown to people. */
  prose: 4096,
  /** A policy or a template. */
  program: 65536,
  map: 64,
  list: 64,
  /** Names of tools in a filter. */
  tools: 512,
} as const
