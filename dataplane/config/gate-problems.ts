import type { CatalogGateStatus } from './status.ts'

/** A problem of a catalog gate: a reason of the condition CatalogGate, and a text for people. */
export type GateProblem = readonly [reason: string, message: string]

/** The most names in one text. */
const MOST_NAMED = 10

/**
 * Returns the problems of a catalog gate, the worst first. Texts have no times, so that they change only with the
 * state.
 */
export function gateProblems(gate: CatalogGateStatus | null): readonly GateProblem[] {
  if (gate === null) return []
  const { registries, members, mode } = gate
  const away = (state: string) =>
    registries
      .filter((registry) => registry.state === state)
      .map(({ name, problem }) => (problem === null ? `registry ${name}` : `registry ${name}: ${problem}`))
  const stale = away('stale')
  const unavailable = away('unavailable')
  const withheld = members.filter(({ reason }) => reason !== null)
  const isKept = registries.some(
    ({ name, state, ageSeconds }) => state === 'unavailable' && ageSeconds !== null && name,
  )
  const problems = [
    ['CatalogStale', stale, `its last answer is too old to be used: ${stale.join('; ')}`],
    [
      'CatalogUnavailable',
      unavailable,
      `${unavailable.join('; ')}${isKept ? '' : '; its servers are not approved until it answers'}`,
    ],
    [
      mode === 'enforce' ? 'MembersWithheld' : 'Reported',
      withheld,
      `${withheld.length} not approved: ${formatNames(withheld)}`,
    ],
  ] as const
  return problems.flatMap(([reason, found, message]) => (found.length === 0 ? [] : [[reason, message] as const]))
}

type Members = CatalogGateStatus['members']

/** Returns the names of members with their reasons. */
function formatNames(members: Members): string {
  const texts = members.slice(0, MOST_NAMED).map(({ name, reason, detail }) => {
    const why = detail === null ? reason : `${reason} (${detail})`
    return `${JSON.stringify(name)}: ${why}`
  })
  const more = members.length - texts.length
  return more > 0 ? `${texts.join('; ')}; and ${more} more` : texts.join('; ')
}

export function deprecatedMembers({ members }: Pick<CatalogGateStatus, 'members'>): string | undefined {
  const names = members.filter(({ deprecated }) => deprecated).map(({ name }) => JSON.stringify(name))
  if (names.length === 0) return undefined
  const more = names.length - MOST_NAMED
  return `deprecated: ${names.slice(0, MOST_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}
