/** Returns the prefix of a workload's keys. The braces keep them in one slot of a Cluster, as scripts need. */
export function redisKeyPrefix(workload: { readonly kind: string; readonly namespace: string; readonly name: string }) {
  return `portico:{${workload.kind}/${workload.namespace}/${workload.name}}:`
}
