/**
 * Returns the prefix of every key of a workload. The braces keep all of them in one slot of a Cluster, so that scripts
 * work.
 */
export function redisKeyPrefix(workload: { readonly kind: string; readonly namespace: string; readonly name: string }) {
  return `portico:{${workload.kind}/${workload.namespace}/${workload.name}}:`
}
