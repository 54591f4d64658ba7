import { limits } from '../../../crds/settings/limits.ts'
import { startConditions } from './conditions.ts'
import type { Plan, PlannedStatus } from './plan.ts'

/**
 * The bytes of all lists of one status, as JSON. etcd accepts 1.5 MiB per request; 10,000 names of 52 characters with
 * their kinds are 0.93 MB.
 */
const LIST_BYTES = 1_000_000
/** The bytes of a whole object that etcd certainly accepts. */
const OBJECT_BYTES = 1_500_000
/** The bytes of the rest of a status: conditions and single values. */
const STATUS_REST = 100_000
/** With fewer entries in all than this, nothing is cut. */
const FEW = 500

/** The field that has the true length of a list that was cut. Other kinds always count. */
const COUNTS: Readonly<Record<string, string>> = {
  referencingWorkloads: 'referencingWorkloadCount',
  sources: 'sourceCount',
}

interface Bounded {
  readonly metadata: { readonly generation?: number }
  readonly spec?: unknown
  readonly status?: object
}

const countBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? '')

/** Returns how many of the first items fit into the given bytes. */
function fitting(items: readonly unknown[], bytes: number): number {
  let used = 0
  const over = items.findIndex((item) => {
    used += countBytes(item) + 1
    return used > bytes
  })
  return over < 0 ? items.length : over
}

/** Returns the lists of the status that fit, by name. Conditions have bounds of their own. */
function cut(
  lists: readonly (readonly [string, readonly unknown[]])[],
  budget: number,
): Map<string, readonly unknown[]> {
  let left = budget
  const kept = new Map<string, readonly unknown[]>()
  // Shorter lists come first, so that a long one leaves room for them.
  for (const [name, items] of [...lists].sort(([, a], [, b]) => a.length - b.length)) {
    const first = items.slice(0, limits.statusNames)
    const part = first.slice(0, fitting(first, Math.max(0, left)))
    left -= countBytes(part)
    if (part.length < items.length) kept.set(name, part)
  }
  return kept
}

/** Truncates a status's lists so that the API server and etcd accept it, and sets a condition that says so. */
export function withBoundedLists(object: Bounded, plan: Plan, now: string): Plan {
  const lists = Object.entries(plan.status).filter(
    (entry): entry is [string, unknown[]] => Array.isArray(entry[1]) && entry[0] !== 'conditions',
  )
  if (lists.reduce((sum, [, items]) => sum + items.length, 0) < FEW) return plan
  const { status: _, ...rest } = object
  const budget = Math.min(LIST_BYTES, OBJECT_BYTES - STATUS_REST - countBytes(rest))
  const kept = cut(lists, budget)
  if (kept.size === 0) return plan
  const texts = lists.flatMap(([name, items]) => {
    const part = kept.get(name)
    return part === undefined ? [] : [`${name} has the first ${part.length} of ${items.length}`]
  })
  const conditions = startConditions(object as never, now)
  for (const { type, status, reason, message } of plan.status.conditions) conditions.set(type, status, reason, message)
  conditions.set('ListTruncated', 'True', 'TooManyToList', texts.join('; '))
  const counts = lists.flatMap(([name, items]) => {
    const count = COUNTS[name]
    return kept.has(name) && count !== undefined ? [[count, items.length]] : []
  })
  const status: PlannedStatus = {
    ...plan.status,
    ...Object.fromEntries(kept),
    ...Object.fromEntries(counts),
    conditions: conditions.list(),
  }
  return { ...plan, status }
}
