/** Steps that wait for each other and so can never start, in the order of the definition. */
export function stepsInCycles(
  steps: readonly { readonly id: string; readonly dependsOn?: readonly string[] }[],
): readonly string[] {
  const waiting = new Map(steps.map((step) => [step.id, new Set(step.dependsOn ?? [])]))
  for (let before = -1; before !== waiting.size; ) {
    before = waiting.size
    for (const [id, needs] of waiting) if (![...needs].some((need) => waiting.has(need))) waiting.delete(id)
  }
  return [...waiting.keys()]
}

/** For each step the steps that are done before it, directly or not. There are no cycles that are reached twice. */
export function stepsBefore(
  steps: readonly { readonly id: string; readonly dependsOn?: readonly string[] }[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const needs = new Map(steps.map(({ id, dependsOn = [] }) => [id, dependsOn]))
  return new Map(
    steps.map(({ id }) => {
      const before = new Set<string>()
      const open = [...(needs.get(id) ?? [])]
      for (let next = open.pop(); next !== undefined; next = open.pop()) {
        if (before.has(next)) continue
        before.add(next)
        open.push(...(needs.get(next) ?? []))
      }
      return [id, before]
    }),
  )
}
