/** Whether a parsed JSON value has more than `levels` objects and lists inside each other. Goes no deeper than that. */
export function nestsDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  for (const member of Object.values(value)) if (nestsDeeperThan(member, levels - 1)) return true
  return false
}
